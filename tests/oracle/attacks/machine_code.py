"""Damage to dumps and binaries: cuts, lost, doubled, swapped and painted lines, gaps, flipped bytes.

A listing that is what its tool could have written leaves no trace of damage, such as one that ends exactly between two
functions, or machine code with other instructions in it: no reader can see that, and none is asked to.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

from spillscan.model import Issue
from spillscan.model.code import FunctionUsage, SassFunction
from spillscan.output.errors import InputError
from spillscan.reading import disassembly
from spillscan.reading.binary import records
from spillscan.reading.inputs.codecs import zstd
from spillscan.reading.inputs.source import Stream
from tests.oracle.attacks import Attack

NAME = "machine code"
FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
_FORMS = {"cuobjdump-": "sass", "fatbin-": "sass", "nvdisasm-": "nvdisasm", "res-usage-": "res_usage"}


@dataclass(frozen=True, slots=True)
class Sample:
    """An undamaged disassembly or binary."""

    name: str
    form: str
    """``binary``, or the format of the disassembly."""
    data: bytes
    found: tuple[SassFunction | FunctionUsage, ...]
    """Result of the reader."""


def read(form: str, data: bytes) -> tuple[list[SassFunction | FunctionUsage], list[Issue]]:
    """Functions and issues; an input that is refused hides everything."""
    items: list[SassFunction | FunctionUsage | Issue]
    try:
        if form == "binary":
            items = list(records.items(data, "attacked.o"))
        else:
            reading = disassembly.read(Stream(io.BytesIO(data), "attacked.sass"), "attacked.sass")
            items = [*reading.functions, *reading.issues]
    except InputError as error:
        items = [Issue(code="unreadable", message=str(error))]
    issues = [item for item in items if isinstance(item, Issue)]
    return [item for item in items if not isinstance(item, Issue)], issues


@cache
def samples() -> tuple[Sample, ...]:
    """Dumps of every format and toolkit, and binaries of every container."""
    found = []
    for path in sorted((FIXTURES / "sass").iterdir()) + sorted((FIXTURES / "binary").iterdir()):
        form = next((form for head, form in _FORMS.items() if path.name.startswith(head)), "")
        if path.parent.name == "binary":
            form = "binary"
        if form and "manifest" not in path.name and not path.name.startswith("kepler"):  # not analysed
            data = path.read_bytes()
            if path.suffix == ".zst":
                data = zstd().decompress(data)
            functions, issues = read(form, data)
            assert not any(issue.hidden for issue in issues), path
            found.append(Sample(path.name, form, data, tuple(functions)))
    return tuple(found)


# ---- does the text show that it is damaged? ------------------------------------------------------------------------

_INSTRUCTION = re.compile(
    r"\s+/\*([0-9a-f]{4,})\*/ +(?:\{ +)?(?:@!?U?P[0-9T] )?[A-Z][A-Z0-9_]*(?:\.\w+)*"
    r"(?: (?:[^;#~\0]|~(?=[A-Z]))*)?[;}][^;#~\0]*$"
)
_CODE = re.compile(r"\s+(?:/\*[0-9a-f]{4,}\*/|/\* 0x)")
_COLUMNS = re.compile(r" // [|+]")
"""Columns in which `nvdisasm -plr` draws the live registers."""
_FUNCTION = re.compile(r"\t\tFunction : (.+)$")
_END = re.compile(r"\t\t\.{4,}$")
_SECTION = re.compile(r"[ \t]+\.section[ \t]+\.text\.")
_SIZE = re.compile(r"[ \t]+\.size[ \t]+\S+,\((\S+) - ")
_METRICS = re.compile(
    r"  REG:\d+ STACK:(?:\d+|UNKNOWN) SHARED:\d+ LOCAL:\d+(?: CONSTANT\[\d+\]:\d+)*"
    r" TEXTURE:\d+ SURFACE:\d+ SAMPLER:\d+$"
)


def traceless(text: str, form: str, known: frozenset[str]) -> bool:
    """Whether a tool could have written ``text``."""
    if text and not text.endswith("\n"):
        return False
    lines = text.replace("\r\n", "\n").split("\n")
    if form == "res_usage":
        pairs = zip(lines, [*lines[1:], ""], strict=True)
        return all(
            bool(_METRICS.match(after)) if line.startswith(" Function") else line in known or bool(_METRICS.match(line))
            for line, after in pairs
        ) and len(re.findall("^ Function", text, re.M)) == len(re.findall("^  REG:", text, re.M))
    return _whole_listing(lines, form, known)


def _whole_listing(lines: Sequence[str], form: str, known: frozenset[str]) -> bool:
    open_, expected, ends = False, -1, set[str]()
    steps: set[int] = set()
    for text in lines:
        line = text.partition("// ")[0].rstrip() if _COLUMNS.search(text) and text in known else text
        if match := _INSTRUCTION.match(line):
            address = int(match[1], 16)
            if not open_ or (expected < 0 and address not in (0, 8)):
                return False
            if expected >= 0:
                step = address - expected
                if step not in (8, 16):
                    return False
                steps.add(step)
                if step == 16 and address % 32 != 8 and steps == {8, 16}:  # a word between is no control word
                    return False
            expected = address
        elif _CODE.match(line) or text in known:
            if _FUNCTION.match(line) or _SECTION.match(line):
                if (open_ and form == "sass") or ends:
                    return False
                open_, expected, steps = True, -1, set()
            elif _END.match(line):
                if not open_ or expected < 0:
                    return False
                open_ = False
            elif match := _SIZE.match(line):
                ends.add(match[1])
            elif line.endswith(":"):
                ends.discard(line[:-1])
            elif line and open_ and form == "sass" and not _CODE.match(line) and "headerflags" not in line:
                return False
        else:
            return False
    return not ends and not (open_ and form == "sass")


# ---- damage --------------------------------------------------------------------------------------------------------


def attack(chance: Random) -> Attack:
    """A damaged disassembly or binary and its result."""
    chosen = chance.choice(samples())
    damages = _OF_BYTES if chosen.form == "binary" else _OF_TEXT
    name = chance.choice(tuple(damages))
    data = damages[name](chance, chosen.data)
    found, issues = read(chosen.form, data)
    failures: list[str] = []
    label = f"{chosen.form}: {name}"
    text = data.decode("utf-8", "replace")
    if chosen.form == "binary":
        if name != "flipped bytes":
            failures = list(lost(chosen, data, found, issues))
    elif traceless(text, chosen.form, frozenset(chosen.data.decode().split("\n"))):
        label += ", no trace"
    else:
        failures = [*lost(chosen, data, found, issues), *wrong(chosen, found, issues)]
    return Attack(label, chosen.name, text if chosen.form != "binary" else repr(data[:200]), failures)


def _cut_tail(chance: Random, data: bytes) -> bytes:
    return data[: _position(chance, data)]


def _cut_head(chance: Random, data: bytes) -> bytes:
    return data[_position(chance, data) :]


def _position(chance: Random, data: bytes) -> int:
    at = chance.randrange(len(data) + 1)
    return data.find(b"\n", at) + 1 if chance.random() < 0.4 else at


def _of_lines(change: Callable[[Random, list[bytes], int], None]) -> Callable[[Random, bytes], bytes]:
    def damage(chance: Random, data: bytes) -> bytes:
        separator = b"}," if b"\n" not in data[:4096] else b"\n"
        lines = data.split(separator)
        for _ in range(chance.choice((1, 1, 2, 4))):
            if len(lines) > 1:
                change(chance, lines, chance.randrange(len(lines) - 1))
        return separator.join(lines)

    return damage


def _lose(chance: Random, lines: list[bytes], at: int) -> None:
    del lines[at : at + chance.choice((1, 1, 2, 3, 5, 9, 40, 200))]


def _double(chance: Random, lines: list[bytes], at: int) -> None:
    lines[at:at] = lines[at : at + chance.choice((1, 1, 2, 3, 5))]


def _swap(chance: Random, lines: list[bytes], at: int) -> None:
    other = min(len(lines) - 1, at + chance.choice((1, 2, 7)))
    lines[at], lines[other] = lines[other], lines[at]


def _paint(chance: Random, lines: list[bytes], at: int) -> None:
    line = lines[at]
    start = chance.randrange(len(line) + 1)
    end = min(len(line), start + chance.choice((1, 1, 2, 5, 20, 100)))
    match chance.choice(("cut", "paint", "paint", "high")):
        case "cut":
            lines[at] = line[:start]
        case "paint":
            lines[at] = line[:start] + bytes(chance.choices(b"#~\x00\xff", k=end - start)) + line[end:]
        case "high":
            lines[at] = line[:start] + bytes(byte | 0x80 for byte in line[start:end]) + line[end:]


def _gap(chance: Random, data: bytes) -> bytes:
    start = chance.randrange(len(data) + 1)
    end = start + chance.choice((8, 30, 100, 300, 1000, 4096, 20_000))
    return data[:start] + chance.choice((b"", b"\0" * (min(end, len(data)) - start))) + data[end:]


def _flip(chance: Random, data: bytes) -> bytes:
    damaged = bytearray(data)
    for _ in range(chance.choice((1, 1, 3, 20))):
        damaged[chance.randrange(min(len(data), chance.choice((64, 4096, len(data)))))] = chance.choice(
            (0, 1, 127, 255)
        )
    return bytes(damaged)


_OF_TEXT: dict[str, Callable[[Random, bytes], bytes]] = {
    "cut at its tail": _cut_tail,
    "cut at its head": _cut_head,
    "lost lines": _of_lines(_lose),
    "doubled lines": _of_lines(_double),
    "swapped lines": _of_lines(_swap),
    "damaged lines": _of_lines(_paint),
    "gaps": _gap,
}
_OF_BYTES: dict[str, Callable[[Random, bytes], bytes]] = {
    "cut at its tail": _cut_tail,
    "flipped bytes": _flip,
}


# ---- judgement -----------------------------------------------------------------------------------------------------


def _spills(item: SassFunction | FunctionUsage) -> bool:
    if isinstance(item, FunctionUsage):
        return False
    return bool((item.usage and item.usage.spill_bytes) or item.stats.local.spill.accesses)


def _metrics(item: SassFunction | FunctionUsage) -> Hashable:
    if isinstance(item, FunctionUsage):
        return item.usage
    stats, groups = item.stats, Counter[Hashable]()
    for group, count in item.stats.local.groups.items():
        groups[group._replace(depth=None)] += count
    return (
        stats.instructions,
        tuple(stats.opcodes),
        frozenset(groups.items()),
    )


def _hidden(issues: Sequence[Issue], symbol: str = "") -> set[str]:
    return {hidden for issue in issues if issue.symbol in ("", symbol) or not symbol for hidden in issue.hidden}


def lost(
    sample: Sample, data: bytes, found: Sequence[SassFunction | FunctionUsage], issues: Sequence[Issue]
) -> Iterator[str]:
    """Spilling functions that are missing without any report that something may be missing."""
    if len(data) < 64 or _hidden(issues) & {"kernels", "spills"}:
        return  # what is nearly empty is refused before it gets here
    known = {item.symbol for item in found if isinstance(item, SassFunction) and item.stats.spills is None}
    left = Counter(item.symbol for item in found if _spills(item))
    for symbol, count in Counter(item.symbol for item in sample.found if _spills(item)).items():
        if left[symbol] < count and symbol not in known:
            yield f"lost: spills of {symbol[:60]}"
    if sample.form in ("res_usage", "binary") and len(found) < len(sample.found):
        yield f"lost: {len(sample.found) - len(found)} functions"


def wrong(sample: Sample, found: Sequence[SassFunction | FunctionUsage], issues: Sequence[Issue]) -> Iterator[str]:
    """Figures that the function does not have, although nothing says that they may be wrong. Where its loops begin is
    not asked: a label that stands before another instruction leaves no trace."""
    truth: dict[str, set[Hashable]] = {}
    for item in sample.found:
        truth.setdefault(item.symbol, set()).add(_metrics(item))
    longest = {item.symbol: item.stats.code_bytes for item in sample.found if isinstance(item, SassFunction)}
    for item in found:
        if _hidden(issues, item.symbol) & {"kernels", "spills", "code"}:
            continue
        if isinstance(item, SassFunction) and item.stats.code_bytes < longest.get(item.symbol, 0):
            continue  # its last instructions are lost, and nothing else: a shorter function looks the same
        if item.symbol in truth and _metrics(item) not in truth[item.symbol]:
            yield f"wrong: figures of {item.symbol[:60]}"
