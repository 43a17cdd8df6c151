"""Holds spill bytes read from cubins against ptxas's own log, function by function. Not part of `make test`.

    python -m tests.oracle.cubin_oracle [--cache DIR] [--units N] [--sources N]

Two kinds of sources are compiled with few registers by each ptxas that writes annotations, and by some that do not,
which leaves the rules of docs/internals/binaries.md: our generated units (fixtures/maker/generate.py), and kernels that
spill in many ways and call functions that do (spill_sources.py), these as relocatable code, too. Registers, stack,
shared memory and spill figures of kernels, device functions and callees must be equal, and so must what a kernel and
its callees spill together; where there are no annotations, figures may be unknown. Exit status 1 where one differs.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from spillscan.model import Kernel
from spillscan.model.code import SassFunction
from spillscan.reading import logs as buildlog
from spillscan.reading.binary import records
from spillscan.reading.inputs.source import Stream
from tests.oracle.spill_sources import source

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "fixtures"))

RELEASES = {
    "12.0": ("sm_52", "sm_80", "sm_90"),
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
    parser.add_argument("--sources", type=int, default=4, help="random sources, with these seeds from 1 on")
    arguments = parser.parse_args()
    tools = Toolchains(ROOT / "fixtures" / "cases.yaml", arguments.cache)
    units = tuple(f"unit_{number:02}.cu" for number in range(min(arguments.units, UNITS)))
    counts: Counter[str] = Counter()
    for release, archs in RELEASES.items():
        case = Case(file="", release=release, archs=archs, run=(), sources=units, shows="", ptx="nvrtc-11.7 compute_52")
        with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
            written = Path(folder) / "fixtures" / "sources"
            shutil.copytree(ROOT / "fixtures" / "sources", written)
            for seed in range(1, arguments.sources + 1):
                (written / f"random_{seed}.cu").write_text(source(seed))
            sources = (*units, *(f"random_{seed}.cu" for seed in range(1, arguments.sources + 1)))
            shop = Workshop(replace(case, sources=sources), tools, written.parent, Path(folder))
            for name in sources:
                for arch in archs:
                    for registers in REGISTERS:
                        for whole in ("", "-c ") if name.startswith("random") else ("",):
                            target = f"{name[:-3]}.cubin"
                            command = (
                                f"ptxas -v {whole}-arch={arch} -maxrregcount={registers} {name[:-3]}.ptx -o {target}"
                            )
                            _, said = shop.call(command, check=True)
                            compare(said, (shop.folder / target).read_bytes(), f"{release} {name} {whole}", counts)
        print(f"{release}: {dict(counts)}", flush=True)
    print(", ".join(f"{count:,} {what}" for what, count in sorted(counts.items())))
    return 1 if any(what.startswith("wrong") for what in counts) else 0


def compare(said: bytes, cubin: bytes, where: str, counts: Counter[str]) -> None:
    """One log and its cubin."""
    items = (item for item in records.items(cubin, where) if isinstance(item, SassFunction))
    found = {(item.caller, item.symbol): item for item in items}
    caller = ""
    for kernel in buildlog.read(Stream(io.BytesIO(said), where), where).kernels:
        if kernel.role == "entry":
            caller = kernel.key.symbol
            function = found[("", caller)]
        else:
            function = found["" if kernel.final is False else caller, kernel.key.symbol]
        reported, usage, local = kernel.usage, function.usage, function.stats.local
        assert usage is not None
        how = "by annotation" if local.evidence in {"annotation", "none"} else "by rule"
        what = "kernels" if kernel.role == "entry" else "device functions" if kernel.final is False else "callees"
        counts[f"{what} {how}"] += 1
        counts[f"{what} {how} that spill"] += reported.spills != (0, 0)
        spills = function.stats.spills(function.role)
        together = usage.cumulative_spills or (spills if not local.callees else local.tree and local.tree.pair)
        figures = [
            (spills, reported.spills),
            (usage.spills, reported.spills),
            *(_of_kernels(kernel, function) if kernel.role == "entry" else ()),
        ]
        if reported.cumulative_spills is not None:
            counts[f"kernels with callees {how}"] += 1
            figures.append((together, reported.cumulative_spills))
        counts[f"{what} {how} whose frame the log has otherwise"] += usage.stack_bytes not in (
            None,
            reported.stack_bytes,
        )
        unknown = spills is None or (together is None and reported.cumulative_spills is not None)
        counts[f"{what} {how}, not all known"] += unknown
        wrong = [pair for pair in figures if pair[0] is not None and pair[0] != pair[1]]
        if wrong or (unknown and how == "by annotation"):
            counts[f"wrong {what} {how}"] += 1
            if counts[f"wrong {what} {how}"] < 5:
                print(f"  {where} {kernel.key.arch} {caller} {kernel.key.symbol}: ours and ptxas's {figures}")


def _of_kernels(kernel: Kernel, function: SassFunction) -> list[tuple[int | None, int | None]]:
    """Ours and ptxas's."""
    reported, usage = kernel.usage, function.usage
    assert usage is not None
    return [(usage.registers, reported.registers), (usage.shared_bytes, reported.shared_bytes or 0)]


if __name__ == "__main__":
    sys.exit(main())
