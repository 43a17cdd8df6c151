"""``diff`` of consecutive releases of public packages, held against what cuobjdump lists of each library.

    python -m tests.oracle.releases_oracle OLD.whl NEW.whl [OLD.whl NEW.whl …] [--cuobjdump PATH]

``cuobjdump -res-usage`` says the registers of every function, library by library. Libraries of one name, versions taken
out, are one. Of kernels that have the same symbol and arch in both: each error of ``diff`` that is due to registers
must stand in the lists with the same numbers, and each growth of the lists in ``diff``. Another toolkit must head the
comparison. Exits with 1 where one of these does not hold.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from spillscan import scan
from spillscan.judging.compare.pairing import comparison
from spillscan.judging.policy.effective import Policy
from spillscan.judging.rules import check_changes
from spillscan.model import Change
from spillscan.naming.libraries import below_root, library_of
from tests.conftest import FIXTURES, ROOT

sys.path.insert(0, str(ROOT / "fixtures"))

from maker.toolchains import Toolchains

DISASSEMBLER = "sass-13.5"
_VERSION = re.compile(r"[.-][0-9a-f]{8}(?=\.)|[\d._-]+")
_ARCH = re.compile(r"^arch = (sm_\w+)")
_FUNCTION = re.compile(r"^ ?Function (.*):$")
_REGISTERS = re.compile(r"^ *REG:(\d+) ")

Listed = dict[tuple[str, str], list[int]]
"""Registers by symbol and arch, ascending."""


def listed(cuobjdump: Path, library: Path) -> Listed:
    """What cuobjdump says."""
    text = subprocess.run([cuobjdump, "-res-usage", library], capture_output=True, text=True, check=False).stdout
    found: Listed = defaultdict(list)
    arch = symbol = ""
    for line in text.splitlines():
        if match := _ARCH.match(line):
            arch = match[1]
        elif match := _FUNCTION.match(line):
            symbol = match[1]
        elif match := _REGISTERS.match(line):
            found[symbol, arch].append(int(match[1]))
    return {key: sorted(several) for key, several in found.items()}


def lists(cuobjdump: Path, wheel: Path) -> dict[str, Listed]:
    """Of each library with device code."""
    found = {}
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(wheel) as package:
        for member in package.namelist():
            if re.search(r"\.so(\.\d+)*$", member) and (of := listed(cuobjdump, Path(package.extract(member, folder)))):
                found[member] = of
    return found


def matched(old: dict[str, Listed], new: dict[str, Listed]) -> Iterator[tuple[str, str]]:
    """Libraries of one path; of what is left those of one name without versions, where that leaves
    one. Where each has one, they are one."""
    if len(old) == len(new) == 1:
        yield next(iter(old)), next(iter(new))
        return
    yield from ((name, name) for name in old.keys() & new.keys())
    sides: list[dict[str, list[str]]] = []
    for own, other in ((old, new), (new, old)):
        sides.append(defaultdict(list))
        for name in own.keys() - other.keys():
            sides[-1][_VERSION.sub("", name.rpartition("/")[2])].append(name)
    for bare, several in sides[0].items():
        others = sides[1].get(bare, [])
        if len(several) == len(others) == 1:
            yield several[0], others[0]


def compared(cuobjdump: Path, old: Path, new: Path) -> Counter[str]:
    """One pair of releases."""
    builds = scan(str(old)), scan(str(new))
    found = comparison(*builds)
    below = below_root(builds[1].kernels)
    changes: dict[tuple[str, str, str], list[Change]] = defaultdict(list)
    for change in found.changes:
        kernel = change.kernel
        changes[library_of(kernel, below), kernel.key.symbol, kernel.key.arch or ""].append(change)
    errors = {
        id(each.kernel)
        for each in check_changes((*found.changes, *found.unsettled), Policy()).findings
        if each.severity == "error" and each.rule in ("registers", "blocks-lost")
    }
    truth = lists(cuobjdump, old), lists(cuobjdump, new)
    counts = Counter(changes=len(found.changes), libraries=len(truth[1]))
    counts["toolkit headed"] += any(change.toolkits for change in found.changes)
    for mine, other in matched(*truth):
        both = truth[0][mine].keys() & truth[1][other].keys()
        for symbol, arch in both:
            before, after = truth[0][mine][symbol, arch], truth[1][other][symbol, arch]
            grew = (
                before != after and len(before) == len(after) and any(a < b for a, b in zip(before, after, strict=True))
            )
            said = changes.get((other, symbol, arch), [])
            metrics = [(a, b) for each in said for name, a, b in each.metrics if name == "registers"]
            counts["grown"] += grew
            if grew and not any(
                b in after and a in before for a, b in metrics if a is not None and b is not None and a < b
            ):
                counts["grown and not said"] += 1
                print(f"  not said: {other} {symbol} {arch} {before} {after} {metrics}")
    for (library, symbol, arch), several in changes.items():
        for change in several:
            if id(change.kernel) not in errors or change.before is None:
                continue
            counts["errors"] += 1
            counts["errors of renamed kernels"] += change.state == "renamed"
            source = library_of(change.before, below_root(builds[0].kernels))
            pair = [(a, b) for name, a, b in change.metrics if name == "registers"]
            before = truth[0].get(source, {}).get((change.before.key.symbol, change.before.key.arch or ""), [])
            after = truth[1].get(library, {}).get((symbol, arch), [])
            if (source, library) not in set(matched(*truth)) or not all(a in before and b in after for a, b in pair):
                counts["errors not listed"] += 1
                print(f"  not listed: {library} {symbol} {arch} {pair} {before} {after}")
    return counts


def main() -> int:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheels", nargs="+", type=Path)
    parser.add_argument("--cuobjdump", type=Path)
    arguments = parser.parse_args()
    tool = arguments.cuobjdump or Toolchains(FIXTURES / "cases.yaml", None).root(DISASSEMBLER) / "bin" / "cuobjdump"
    total: Counter[str] = Counter()
    for old, new in zip(arguments.wheels[::2], arguments.wheels[1::2], strict=True):
        counts = compared(tool, old, new)
        total += counts
        said = ", ".join(f"{name} {number:,}" for name, number in sorted(counts.items()) if number)
        print(f"{old.name.partition('-cp')[0]} → {new.name.partition('-cp')[0]}: {said}", flush=True)
    print(f"total: {', '.join(f'{name} {number:,}' for name, number in sorted(total.items()))}")
    return int(bool(total["errors not listed"] or total["grown and not said"]))


if __name__ == "__main__":
    sys.exit(main())
