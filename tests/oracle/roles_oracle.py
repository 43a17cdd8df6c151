"""Roles of warp-specialised kernels against a naive reading of nvdisasm's text. Not part of `make test`.

    python -m tests.oracle.roles_oracle [--modules N] [--seed SEED]

Kernels of two and three roles (`fixtures/maker/roles.py`) with numbers by chance are compiled for sm_90a and sm_100a,
with launch bounds and without. Of each the roles' addresses, registers, spills and local traffic, by the cubin and by
both texts, must be what a walk over nvdisasm's lines finds, an instruction at a time; what ptxas drops must be an error
in log, text and binary. Exit status 1 where one is not.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from typing import NamedTuple

from spillscan.judging.compare.pairing import comparison
from spillscan.judging.policy.effective import Policy
from spillscan.judging.rules import check, check_changes
from spillscan.model import Build
from spillscan.model.code import SassStats
from spillscan.model.local import Traffic
from spillscan.reading import pipeline
from tests.oracle.toolchain import said, tool

TOOLS = "sass-13.5"
_LINE = re.compile(
    r"\s+/\*([0-9a-f]{4,})\*/\s+(@!?U?P\w+ )?(\S+?)((?:\.\w+)*)(?: (.*?))?\s*(\(\*\"SpillRefill\"\*\))?\s*;"
)
_WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
STEP = 16


class Line(NamedTuple):
    """An instruction of nvdisasm's text."""

    guarded: bool
    opcode: str
    modifiers: list[str]
    operands: str
    spill: bool


Roles = dict[int | None, tuple[int | None, tuple[int, int], tuple[int, int]]]
"""By address: registers, spill bytes (stored, loaded), all bytes of local memory (stored, loaded)."""


def naive(text: str) -> dict[str, Roles]:
    """The roles of every function of `nvdisasm -c` of a release that annotates spills."""
    found = {}
    for section in re.split(r"^\s+\.section\s+", text, flags=re.M)[1:]:
        if section.startswith(".text."):
            name = section.partition(",")[0].removeprefix(".text.").strip()
            found[name] = _roles(section)
    return found


def _roles(section: str) -> Roles:
    lines: dict[int, Line] = {}
    labels: dict[str, int] = {}
    waiting: list[str] = []
    for text in section.splitlines():
        if match := re.match(r"(\.L_x_\d+):", text):
            waiting.append(match[1])
        elif match := _LINE.match(text):
            address = int(match[1], 16)
            labels.update(dict.fromkeys(waiting, address))
            waiting = []
            lines[address] = Line(bool(match[2]), match[3], match[4].split("."), match[5] or "", bool(match[6]))
    settings = [address for address, line in lines.items() if line.opcode == "USETMAXREG"]
    if not settings:
        return {}
    return {
        start: (
            None if start is None else int(lines[start].operands.split(",")[-1], 16),
            _bytes(lines, mine, spills=True),
            _bytes(lines, mine, spills=False),
        )
        for start in (None, *settings)
        for mine in (_walk(lines, labels, start or 0),)
    }


def _walk(lines: dict[int, Line], labels: dict[str, int], start: int) -> set[int]:
    seen, work = set[int](), [start]
    while work:
        at = work.pop()
        if at in seen or (lines[at].opcode == "USETMAXREG" and at != start):
            continue
        seen.add(at)
        line = lines[at]
        if line.opcode == "BRA":
            work.append(labels[line.operands.partition("`(")[2].rstrip(")")])
        goes_on = line.opcode not in ("BRA", "EXIT", "RET") or line.guarded or "," in line.operands
        if goes_on and at + STEP in lines:
            work.append(at + STEP)
    return seen


def _bytes(lines: dict[int, Line], mine: set[int], *, spills: bool) -> tuple[int, int]:
    sums = Counter[str]()
    for line in map(lines.__getitem__, mine):
        if line.opcode in ("STL", "LDL") and (line.spill or not spills):
            sums[line.opcode] += next((_WIDTHS[part] for part in line.modifiers if part in _WIDTHS), 4)
    return sums["STL"], sums["LDL"]


def read(stats: SassStats) -> Roles:
    """The roles as spillscan has them."""

    def moved(traffic: Traffic | None) -> tuple[int, int]:
        return (-1, -1) if traffic is None else (traffic.store_bytes, traffic.load_bytes)

    return {role.address: (role.registers, moved(role.spill), moved(role.local)) for role in stats.roles}


def lost(base: Build, head: Build) -> set[str]:
    """Kernels of the head that lost their ``setmaxnreg``, by an error of a change or of the build."""
    rules = ("setmaxnreg-lost", "setmaxnreg-ignored")
    found = [*check_changes(comparison(base, head).changes, Policy()).findings, *check(head, Policy()).findings]
    return {each.kernel.key.symbol for each in found if each.rule in rules and each.severity == "error"}


def main() -> int:
    """Compile and compare."""
    from maker import roles

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--modules", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    random, counts = Random(arguments.seed), Counter[str]()
    for number in range(arguments.modules):
        for arch in roles.ARCHS:
            kernels = [_kernel(random, f"kernel_{n}") for n in range(4)]
            with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
                builds = {
                    state: _builds(Path(folder), arch, state, roles.module(arch, "".join(texts)))
                    for state, texts in zip(("kept", "dropped"), zip(*kernels, strict=True), strict=True)
                }
            for form in builds["kept"]:
                named = lost(builds["kept"][form], builds["dropped"][form])
                counts[f"drops {'found' if len(named) == len(kernels) else 'wrong'} in {form}"] += len(kernels)
            counts.update(_compared(builds["kept"], f"{number} {arch}"))
    print(", ".join(f"{count:,} {what}" for what, count in sorted(counts.items())))
    return 1 if any("wrong" in what for what in counts) else 0


def _kernel(random: Random, name: str) -> tuple[str, str]:
    """PTX of one kernel, with launch bounds and without."""
    from maker import roles

    groups = random.choice((2, 3))
    budgets = [("dec", random.choice((24, 32, 40))), ("inc", random.choice((232, 240)))]
    if groups == 3:
        budgets.append(random.choice((("dec", 152), ("inc", 240), ("", 0))))
    random.shuffle(budgets)
    mine = [
        roles.Role(random.choice((6, 20, budget + random.randint(-10, 30) if budget else 30)), f"{way} {budget}")
        if way
        else roles.Role(12)
        for way, budget in budgets
    ]
    bounds = f".maxntid {128 * groups}, 1, 1 .minnctapersm 1"
    return roles.kernel(name, mine, bounds), roles.kernel(name, mine, "")


def _builds(folder: Path, arch: str, state: str, ptx: str) -> dict[str, Build]:
    """Builds read from each form of a module; the naive reading needs the text besides."""
    place = folder / state
    place.mkdir()
    module, cubin = place / "module.ptx", place / "module.cubin"
    module.write_text(ptx)
    texts = {"log": said(tool(TOOLS, "ptxas"), "-v", f"-arch={arch}", module, "-o", cubin, errors=True)}
    for name, option in (("cuobjdump", "-sass"), ("nvdisasm", "-c")):
        texts[name] = said(tool(TOOLS, name), option, cubin)
    for name, text in texts.items():
        (place / f"module.{name}").write_text(text)
    _TEXTS[state] = texts["nvdisasm"]
    return {
        "binary": pipeline.scan(str(cubin)),
        **{name: pipeline.scan(str(place / f"module.{name}")) for name in texts},
    }


_TEXTS: dict[str, str] = {}


def _compared(builds: dict[str, Build], where: str) -> Counter[str]:
    counts = Counter[str]()
    truth = naive(_TEXTS["kept"])
    for form in ("binary", "cuobjdump", "nvdisasm"):
        for kernel in builds[form].kernels:
            assert kernel.sass is not None
            wanted, found = truth[kernel.key.symbol], read(kernel.sass)
            counts["roles equal" if found == wanted else "roles wrong"] += len(wanted)
            if found != wanted:
                print(where, form, kernel.key.symbol, found, wanted)
    return counts


if __name__ == "__main__":
    sys.exit(main())
