"""Instructions and source lines of the view of a kernel against what nvdisasm prints.

    python -m tests.oracle.text_oracle --nvdisasm FILE CUBIN…

Each instruction's text must be nvdisasm's, its line with the calls that it was inlined through what ``-gi`` prints;
labels count as their addresses.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from spillscan import scan
from spillscan.reading.binary.fetch import shown_of
from spillscan.reading.binary.instructions import Code

_FUNCTION = re.compile(r"^\.text\.(\S+):$")
_LABEL = re.compile(r"^(\.L_x?_?\w+|[^\s.]\S*):$")
_FILE = re.compile(r'//## File "(.*?)", line (\d+)')
_ROW = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
_TARGET = re.compile(r"`\((\S+?)\)|\s*\(\*.*\*\)")

Place = tuple[tuple[str, int], ...]
"""A line, and the calls that it was inlined through, outwards."""


class Row(NamedTuple):
    """An instruction."""

    text: str
    place: Place
    fresh: bool = True
    """nvdisasm prints a place only where its first line is another than that of the instruction before."""


def printed(nvdisasm: Path, cubin: Path) -> dict[str, dict[int, Row]]:
    """What nvdisasm prints, by function and address."""
    text = subprocess.run([nvdisasm, "-c", "-gi", cubin], capture_output=True, text=True, check=True).stdout
    found: dict[str, dict[int, Row]] = {}
    labels: dict[str, dict[str, int]] = {}
    waiting: list[str] = []
    own, symbol, place, fresh = dict[int, Row](), "", list[tuple[str, int]](), False
    for line in text.split("\n"):
        if match := _FUNCTION.match(line):
            symbol = match[1]
            own, place = found.setdefault(symbol, {}), []
            labels.setdefault(symbol, {})[symbol] = 0
            waiting = []
        elif match := _LABEL.match(line):
            waiting.append(match[1])
        elif match := _FILE.search(line):
            place = [(match[1], int(match[2]))] if fresh else [*place, (match[1], int(match[2]))]
            fresh = False
        elif match := _ROW.match(line):
            address = int(match[1], 16)
            labels.setdefault(symbol, {}).update(dict.fromkeys(waiting, address))
            reported, waiting, fresh = not fresh, [], True
            own[address] = Row(match[2], tuple(place), reported)
    for name, rows in found.items():
        said = partial(_by_address, labels.get(name, {}))
        for address, row in rows.items():
            rows[address] = row._replace(text=_plain(_TARGET.sub(said, row.text)))
    return found


def _by_address(labels: dict[str, int], target: re.Match[str]) -> str:
    known = labels.get(target[1])
    return f"{known:#x}" if known is not None else target[0] * bool(target[1])


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace(" ,", ",")


def _name(text: str) -> str:
    return text.removeprefix("@").split(" ")[text.startswith("@")].partition(".")[0]


def ours(cubin: Path) -> Iterator[tuple[str, list[Row]]]:
    """What the view shows, by function."""
    build = scan([str(cubin)])
    live, texts = shown_of(build.kernels, {})
    for kernel in build.kernels:
        if id(kernel) in texts:
            rows = []
            for text, source in zip(Code(texts[id(kernel)]).said, live[id(kernel)].sources, strict=False):
                place, at = [], source
                while at is not None:
                    place.append((at.file, at.line))
                    at = at.inlined_at
                rows.append(Row(_plain(text), tuple(place)))
            yield kernel.key.symbol, rows


def main() -> int:
    """Compare; 1 where something is not equal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nvdisasm", type=Path, default=Path("nvdisasm"))
    parser.add_argument("cubins", nargs="+", type=Path)
    arguments = parser.parse_args()
    counts, worst = Counter[str](), Counter[str]()
    for cubin in arguments.cubins:
        expected = printed(arguments.nvdisasm, cubin)
        for symbol, rows in ours(cubin):
            theirs = expected.get(symbol, {})
            counts["kernels"] += 1
            alike = True
            for at, row in enumerate(rows):
                wanted = theirs.get(at * 16)
                if wanted is None:
                    counts["not printed"] += 1
                    continue
                counts["instructions"] += 1
                if row.text != wanted.text:
                    counts["other text"] += 1
                    alike = False
                    worst[f"{_name(wanted.text)}: {row.text} | {wanted.text}"] += 1
                if row.place[: None if wanted.fresh else 1] != wanted.place[: None if wanted.fresh else 1]:
                    counts["other line"] += 1
                    if counts["other line"] < 4:
                        print(cubin.name, symbol, hex(at * 16), row.place, wanted.place)
            counts["kernels alike"] += alike
    kinds, seen = Counter[str](), Counter[str]()
    for text, count in worst.items():
        kinds[text.partition(":")[0]] += count
    for text, _ in worst.most_common():
        name = text.partition(":")[0]
        seen[name] += 1
        if seen[name] < 4:
            print(kinds[name], text)
    print(dict(counts))
    return int(bool(counts["other text"] or counts["other line"]))


if __name__ == "__main__":
    sys.exit(main())
