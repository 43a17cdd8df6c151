"""``diff --code`` on pairs of kernels of which it is known what became of them.

    python -m tests.oracle.code_oracle [--arch sm_90]… [--seed N]… [--kernels N] [--jobs N] [--keep FOLDER]

Each kernel of ``code_sources`` is compiled again with its declarations in another order, with fewer registers, at other
levels of register usage and by other releases of ptxas; and with one constant, operator, width, index, comparison or
unroll factor changed. What must hold:

* no kernel in which something was changed is the *same work*;
* of the pairs that nvdisasm prints alike but for registers, labels and the order within blocks, nine of ten are proven;
* code that is held to be equal is printed alike.

``--keep`` keeps the cubins and names the pairs that are called the *same work*, for ``h200/code_answers.py``, which
runs both on random inputs.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

from spillscan import scan
from spillscan.judging.compare.code_changes import code_changes
from spillscan.judging.compare.pairing import comparison
from spillscan.model.findings import Work
from spillscan.reading.binary.fetch import texts_of
from tests.conftest import FIXTURES, ROOT
from tests.oracle.code_sources import PLANTS, source

sys.path.insert(0, str(ROOT / "fixtures"))

from maker.toolchains import Toolchains

ARCHS = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
NVCC, DISASSEMBLER = "13.0", "sass-13.5"
OLDEST_PTX = "compute_75"
SAME = {
    "reordered": ("reordered", NVCC, ()),
    **{f"maxrregcount {n}": ("base", NVCC, (f"-maxrregcount={n}",)) for n in (24, 32, 40)},
    **{f"level {n}": ("base", NVCC, (f"--register-usage-level={n}",)) for n in (0, 2, 10)},
    **{f"ptxas {release}": ("base", release, ()) for release in ("13.2", "13.5")},
}
"""The same work: (source, release of ptxas, options)."""
CHANGED = {plant: (plant, NVCC, ()) for plant in PLANTS}
ENOUGH = 0.9
_ROW = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")
_REGISTER = re.compile(r"\b(U?[RPB])\d+\b|\.reuse\b|`\([^)]*\)")
_ENDS = re.compile(r"(?:@!?U?P\w+ )?(?:BRA|BRX|EXIT|RET|CALL|BSYNC|WARPSYNC)\b")


class Pair(NamedTuple):
    """What is said of one kernel in two builds."""

    kernel: str
    work: Work | None
    """``None``: the code is equal."""
    reason: str
    alike: bool
    """nvdisasm prints both alike but for registers, labels, and the order within blocks."""


def blocks(nvdisasm: Path, cubin: Path) -> dict[str, list[Counter[str]]]:
    """By function, what nvdisasm prints of its blocks, without registers, labels and order."""
    text = subprocess.run([nvdisasm, "-c", cubin], capture_output=True, text=True, check=True).stdout
    found: dict[str, list[Counter[str]]] = {}
    name, ended = "", False
    for line in text.split("\n"):
        if line.startswith("\t.section\t.text."):
            name = line.split(".text.", 1)[1].split(",", 1)[0]
            found[name] = [Counter()]
        elif line.startswith(".L") and name:
            ended = True
        elif name and (row := _ROW.match(line)) and row[1] != "NOP":
            if ended and found[name][-1]:
                found[name].append(Counter())
            found[name][-1][_REGISTER.sub(lambda each: each[1] or "", row[1])] += 1
            ended = bool(_ENDS.match(row[1]))
    return found


def pairs(nvdisasm: Path, before: Path, after: Path) -> Iterator[Pair]:
    """All kernels of two cubins."""
    found = comparison(scan(str(before)), scan(str(after)))
    changes = (*found.changes, *found.recoded, *found.unsettled)
    texts = texts_of((side for each in changes for side in (each.before, each.after) if side is not None), {})
    said = {each.change.kernel.key.symbol: each for each in code_changes(changes, texts)}
    old, new = blocks(nvdisasm, before), blocks(nvdisasm, after)
    for name, held in old.items():
        if name.startswith("k"):
            known = said.get(name)
            yield Pair(name, known.work if known else None, known.evidence[-1] if known else "", held == new[name])


class Bench:
    """The tools, and a folder for what they make."""

    def __init__(self, folder: Path, seed: int, kernels: int) -> None:
        self.folder, self._seed, self._kernels = folder, seed, kernels
        self._tools = Toolchains(FIXTURES / "cases.yaml", None)
        self.nvdisasm = self._tools.root(DISASSEMBLER) / "bin" / "nvdisasm"

    def has(self, release: str) -> bool:
        """Whether a release of ptxas is at hand: where nothing can be fetched, not all are."""
        try:
            return (self._tools.root(release) / "bin" / "ptxas").exists()
        except SystemExit:
            return False

    def cubin(self, name: str, arch: str, release: str, options: tuple[str, ...]) -> Path:
        """One build of one source."""
        virtual = "compute_75" if arch == "sm_75" else "compute_80"
        ptx = self.folder / f"{self._seed}-{name}-{virtual}.ptx"
        if not ptx.exists():
            text = source(
                self._seed, self._kernels, reordered=name == "reordered", plant=name if name in PLANTS else ""
            )
            ptx.with_suffix(".cu").write_text(text)
            root = self._tools.root(NVCC)
            nvcc: list[str | Path] = [root / "bin" / "nvcc", "-w", f"-arch={virtual}", "-I", root / "include", "-ptx"]
            subprocess.run([*nvcc, ptx.with_suffix(".cu"), "-o", ptx], check=True)
        out = self.folder / re.sub(r"\W+", "_", f"{self._seed} {name} {arch} {release} {' '.join(options)}")
        if not out.exists():
            ptxas = self._tools.root(release) / "bin" / "ptxas"
            subprocess.run([ptxas, f"-arch={arch}", *options, ptx, "-o", out], check=True, stderr=subprocess.DEVNULL)
        return out


class Found(NamedTuple):
    """What one seed showed on one architecture."""

    arch: str
    tally: Counter[str]
    reasons: Counter[str]
    said: list[str]
    proven: list[tuple[str, str, str, str]]
    """(cubin, cubin, kernel, how they differ) of what is called the same work."""


def one(arch: str, seed: int, kernels: int, folder: Path) -> Found:
    """Compare all kernels of one seed."""
    bench = Bench(folder, seed, kernels)
    base = bench.cubin("base", arch, NVCC, ())
    found = Found(arch, Counter(), Counter(), [], [])
    for kind, made in (SAME | CHANGED).items():
        if not bench.has(made[1]):
            continue
        other = bench.cubin(made[0], arch, *made[1:])
        for pair in pairs(bench.nvdisasm, base, other):
            same = pair.work == "same work"
            found.tally.update({"pairs": 1, pair.work or "equal": 1})
            found.tally["said equal, printed otherwise"] += pair.work is None and not pair.alike
            wrong = kind in CHANGED and kind != "unroll" and same  # an unrolled loop may still do the same
            found.tally["changed and said the same"] += wrong
            if wrong:
                found.said.append(f"{arch} seed {seed} {pair.kernel}: {kind} is said to be the same work")
            if same or (kind in CHANGED and pair.work):
                found.proven.append((base.name, other.name, pair.kernel, kind if same else "changed"))
            if kind in SAME and pair.work is not None and pair.alike:
                found.tally.update({"alike": 1, "alike and proven": int(same)})
                if not same:
                    found.reasons[pair.reason] += 1
                    found.said.append(f"{arch} seed {seed} {pair.kernel}: {kind}: {pair.reason}")
    return found


def main() -> int:
    """Compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--arch", action="append", help=f"default: {', '.join(ARCHS)}")
    parser.add_argument("--seed", action="append", type=int)
    parser.add_argument("--kernels", type=int, default=12, help="of each source")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder to keep the cubins in")
    parser.add_argument("--verbose", action="store_true", help="say why each true pair is not proven")
    arguments = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as temporary, ProcessPoolExecutor(arguments.jobs) as pool:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        cases = [(arch, seed) for arch in arguments.arch or ARCHS for seed in arguments.seed or [1]]
        rest = arguments.kernels, folder
        found = [each.result() for each in [pool.submit(one, *case, *rest) for case in cases]]
        for arch in dict.fromkeys(each.arch for each in found):
            mine = [each for each in found if each.arch == arch]
            tally = sum((each.tally for each in mine), Counter[str]())
            reasons = sum((each.reasons for each in mine), Counter[str]())
            lines = [line for each in mine for line in each.said]
            for line in lines if arguments.verbose else [line for line in lines if line.endswith("same work")]:
                print(line)
            print(json.dumps({"arch": arch, **tally, "not proven": dict(reasons.most_common(8))}), flush=True)
            failed |= bool(tally["changed and said the same"] or tally["said equal, printed otherwise"])
            failed |= tally["alike and proven"] < ENOUGH * tally["alike"] or not tally["alike"]
        if arguments.keep:
            proven = [(each.arch, *pair) for each in found for pair in each.proven]
            (folder / "proven.json").write_text(json.dumps(proven))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
