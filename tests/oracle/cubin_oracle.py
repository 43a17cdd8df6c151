"""Holds spill bytes read from cubins against ptxas's own log, kernel by kernel. Not part of `make test`.

    python -m tests.oracle.cubin_oracle [--cache DIR] [--units N]

Our generated sources (fixtures/maker/generate.py) are compiled with few registers by each ptxas that writes
annotations, and by one that does not, which leaves the rules of docs/sass.md. Registers, stack and both spill figures
of every entry must be equal; exit status 1 where one is not.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
from collections import Counter
from pathlib import Path

from spillscan import binary
from spillscan import logs as buildlog
from spillscan.inputs.source import Stream
from spillscan.model.code import SassFunction

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "fixtures"))

RELEASES = {
    "12.4": ("sm_52", "sm_80", "sm_90a"),
    "12.6": ("sm_52", "sm_80", "sm_90a"),
    "12.8": ("sm_61", "sm_70", "sm_100"),
    "12.9": ("sm_75", "sm_103", "sm_121"),
    "13.0": ("sm_80", "sm_90a", "sm_120"),
    "13.2": ("sm_86", "sm_100a"),
    "13.5": ("sm_75", "sm_89", "sm_90a", "sm_103", "sm_120"),
}
REGISTERS = (24, 40)


def main() -> int:
    """Compile and compare."""
    from maker.cases import Case
    from maker.generate import UNITS
    from maker.kinds import Workshop
    from maker.toolchains import Toolchains

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--units", type=int, default=2)
    arguments = parser.parse_args()
    tools = Toolchains(ROOT / "fixtures" / "cases.yaml", arguments.cache)
    sources = tuple(f"unit_{number:02}.cu" for number in range(min(arguments.units, UNITS)))
    counts: Counter[str] = Counter()
    for release, archs in RELEASES.items():
        case = Case(
            file="", release=release, archs=archs, run=(), sources=sources, shows="", ptx="nvrtc-11.7 compute_52"
        )
        with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
            shop = Workshop(case, tools, ROOT / "fixtures", Path(folder))
            for source in sources:
                for arch in archs:
                    for registers in REGISTERS:
                        target = f"{source[:-3]}.cubin"
                        command = f"ptxas -v -arch={arch} -maxrregcount={registers} {source[:-3]}.ptx -o {target}"
                        _, said = shop.call(command, check=True)
                        compare(said, (shop.folder / target).read_bytes(), f"{release} {source}", counts)
        print(f"{release}: {dict(counts)}", flush=True)
    print(", ".join(f"{count:,} {what}" for what, count in counts.items()))
    return 1 if any(what.startswith("wrong") for what in counts) else 0


def compare(said: bytes, cubin: bytes, where: str, counts: Counter[str]) -> None:
    """One log and its cubin."""
    found = {item.symbol: item for item in binary.items(cubin, where) if isinstance(item, SassFunction)}
    for kernel in buildlog.read(Stream(io.BytesIO(said), where), where).kernels:
        if kernel.role != "entry":
            continue
        function = found[kernel.key.symbol]
        told, usage, local = kernel.usage, function.usage, function.stats.local
        assert usage is not None
        own = local.own_spill
        how = "by annotation" if local.evidence in {"annotation", "none"} else "by rule"
        counts[f"kernels {how}"] += 1
        counts[f"spilling kernels {how}"] += told.spills != (0, 0)
        figures = (usage.registers, usage.stack_bytes, usage.shared_bytes, (own.store_bytes, own.load_bytes))
        truth = (told.registers, told.stack_bytes, told.shared_bytes or 0, told.spills)
        if figures != truth or (how == "by annotation" and usage.spills != told.spills):
            counts[f"wrong {how}"] += 1
            if counts[f"wrong {how}"] < 5:
                print(f"  {where} {kernel.key.arch} {kernel.key.symbol}: {figures}, ptxas says {truth}")


if __name__ == "__main__":
    sys.exit(main())
