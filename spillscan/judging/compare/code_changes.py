"""Compare the machine code of kernels in two builds: identical, differs, or not compared.

*Identical*: equal instructions in equal order, up to one renaming of registers, and equal data and attributes that the
kernel refers to (:mod:`spillscan.reading.binary.references`). Nothing is claimed about reordered code.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher

import numpy as np
from msgspec.structs import replace

from spillscan.judging.compare.pairing import Comparison
from spillscan.model import Change, Kernel
from spillscan.model.code import CodeText
from spillscan.model.findings import CodeChange, CodeVerdict, Hunk, Moved
from spillscan.output.nouns import count
from spillscan.reading.binary.attribute_texts import UNKNOWN_ATTRIBUTE
from spillscan.reading.binary.instructions import Code
from spillscan.reading.machine import sameness
from spillscan.reading.machine.liveness import INSTRUCTION

VERDICTS: tuple[CodeVerdict, ...] = ("differs", "not compared", "identical")
"""Verdicts, the most urgent first."""
_SHOWN = 4
"""Opcodes and labels named per difference."""
_MOST_HUNKS = 64
_NO_CODE = "no machine code (give binaries, or scan --with code -f json)"
_NO_DATA = "a listing has no data (give the binary)"
_LISTINGS = ("sass", "nvdisasm")

_FUNCTION = re.compile(r"^function (.*?): ")

_Result = tuple[CodeVerdict, tuple[str, ...], tuple[Hunk, ...], tuple[str, ...]]


def code_changes(changes: Sequence[Change], texts: Mapping[int, CodeText], *, text: bool = False) -> list[CodeChange]:
    """Verdict on each pair, differences first.
    ``texts``: machine code by the ``id`` of the kernel; ``text``: whether to add a unified diff. Callees within a
    kernel's code are compared with the kernel.
    """
    known: dict[object, _Result] = {}
    found = []
    for change in changes:
        before, after = change.before, change.after
        if before is None or after is None or before.caller or after.caller:
            continue
        old, new = texts.get(id(before)), texts.get(id(after))
        key = (id(old), id(new)) if old is not None and new is not None else id(change)
        if key not in known:
            known[key] = _compared(before, after, old, new, text)
        verdict, reasons, hunks, lines = known[key]
        sizes = tuple(each.sass.instructions if each.sass else None for each in (before, after))
        found.append(
            CodeChange(change=change, verdict=verdict, reasons=reasons, instructions=sizes, hunks=hunks, text=lines)  # type: ignore[arg-type]
        )
    return sorted(found, key=lambda each: VERDICTS.index(each.verdict))


def marked(found: Comparison, code: Sequence[CodeChange]) -> Comparison:
    """``found`` with the verdict on each pair's code."""
    by_id = {
        id(each.change): replace(each.change, code=each.verdict, code_reason=next(iter(each.reasons), ""))
        for each in code
    }

    def with_code(changes: Sequence[Change]) -> tuple[Change, ...]:
        return tuple(by_id.get(id(each), each) for each in changes)

    kinds = ("changes", "unsettled", "recoded", "equal")
    return replace(found, **{kind: with_code(getattr(found, kind)) for kind in kinds})


def _compared(before: Kernel, after: Kernel, old: CodeText | None, new: CodeText | None, text: bool) -> _Result:
    if old is None or new is None:
        return "not compared", (_missing(before if old is None else after),), (), ()
    if before.key.arch != after.key.arch or old.number != new.number:
        return "not compared", (f"other archs ({before.key.arch}, {after.key.arch})",), (), ()
    undecoded = next((each.unknown for each in (old, new) if "not decoded" in each.unknown), "")
    if undecoded:
        return "not compared", (undecoded,), (), ()
    reasons, doubts = _data(old, new)
    same_bytes = (old.words, old.references) == (new.words, new.references)
    sides, hunks, lines = None if same_bytes else _sides(old, new), list[Hunk](), tuple[str, ...]()
    if sides is None:
        if _words(old) != _words(new) or old.references != new.references:
            doubts.append(f"no table describes the registers of sm_{new.number}")
    else:
        compared = sameness.compare(sides[0].instructions, sides[1].instructions, function=new.function)
        if compared.differing:
            hunks = _hunks(sides, (before, after))
            reasons = [*_instructions(sides, hunks, len(compared.differing)), *reasons]
            lines = tuple(_diff(sides)) if text else ()
        elif compared.unknown:
            doubts.append(compared.unknown)
        elif compared.renamed:
            doubts = doubts or [""]
    doubts += filter(None, dict.fromkeys((old.unknown, new.unknown)))
    if reasons:
        return "differs", tuple(reasons), tuple(hunks[:_MOST_HUNKS]), lines
    if any(doubts):
        return "not compared", tuple(filter(None, doubts)), (), ()
    return "identical", ("registers renamed",) if doubts else (), (), ()


def _missing(kernel: Kernel) -> str:
    origin = kernel.sass.origin if kernel.sass else None
    return _NO_DATA if origin is not None and origin.format in _LISTINGS else _NO_CODE


def _sides(old: CodeText, new: CodeText) -> tuple[Code, Code] | None:
    try:
        return Code(old), Code(new)
    except ValueError:
        return None


def _words(text: CodeText) -> bytes:
    return zlib.decompress(text.words)


def _data(old: CodeText, new: CodeText) -> tuple[list[str], list[str]]:
    """(data and attributes that differ, differing attributes whose meaning is unknown)."""
    sides = [defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)]
    numbered = [_numbered(each) for each in (old, new)]
    if numbered[0] == numbered[1]:
        return [], []
    if [label for label, _ in numbered[0]] == [label for label, _ in numbered[1]]:  # function names may differ
        numbered = [
            [(label, value) for (label, _), (_, value) in zip(new.data, each, strict=True)] for each in numbered
        ]
    for side, data in zip(sides, numbered, strict=True):
        for label, value in data:
            side[label].append(value)
    differing = {label: True for label in (*sides[0], *sides[1]) if sides[0].get(label) != sides[1].get(label)}
    said = [(label, *(_value(side.get(label, ["none"])) for side in sides)) for label in differing]
    texts = [
        f"{label} changed" if before.startswith("#") or after.startswith("#") else f"{label} {before} → {after}"
        for label, before, after in said
    ]
    if not texts:
        texts = ["references in another order"]
    doubts = [each for each in texts if UNKNOWN_ATTRIBUTE in each]
    return [each for each in texts if UNKNOWN_ATTRIBUTE not in each], [f"{each} (meaning unknown)" for each in doubts]


def _numbered(text: CodeText) -> list[tuple[str, str]]:
    """Data of a function, with other functions numbered: a different name is no difference."""
    names: dict[str, str] = {}
    return [
        (_FUNCTION.sub(lambda match: names.setdefault(match[1], f"function {len(names) + 1}: "), label), value)
        for label, value in text.data
    ]


def _value(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"#{len(values)}"


def _instructions(sides: tuple[Code, Code], hunks: Sequence[Hunk], differing: int) -> Iterator[str]:
    """``+12 STL, +8 LDL at gemm.cu:25``: counts by opcode, and where most of them are."""
    names = [Counter(code.name(row) or "?" for row in range(code.rows)) for code in sides]
    moved = [each for each in _moved(*names) if each[0] != "NOP"] or _moved(*names)
    places = [hunk.place for hunk in hunks if hunk.place]
    others = len({*places}) - 1
    where = f" at {places[0]}" + f" and {count(others, 'more line')}" * (others > 0) if places else ""
    if moved:
        shown = [f"{after - before:+,} {name}" for name, before, after in moved[:_SHOWN]]
        more = [f"{len(moved) - _SHOWN:,} more"] if len(moved) > _SHOWN else []
        yield ", ".join(shown + more) + where
        return
    altered = Counter[str]()
    for hunk in hunks:
        altered.update(dict(hunk.altered))
    if altered:
        yield f"operands of {', '.join(f'{number:,} {name}' for name, number in altered.most_common(_SHOWN))}{where}"
    else:
        yield f"order, registers or schedule of {count(differing, 'instruction')}{where}"


_REGISTER = re.compile(r"\b(U?[RPB]|SB)\d+\b")
_ADDRESS = re.compile(r"0x[0-9a-f]+$")
_MOST_ROWS = 1 << 15


def _diff(sides: tuple[Code, Code]) -> Iterator[str]:
    """Unified diff of the instructions, with labels for addresses; register numbers are ignored."""
    if max(each.rows for each in sides) > _MOST_ROWS:
        yield f"more than {count(_MOST_ROWS, 'instruction')}: no text diff"
        return
    texts = [_labelled(code) for code in sides]
    plain = [[_REGISTER.sub(r"\1", line) for line in side] for side in texts]
    for group in SequenceMatcher(None, plain[0], plain[1]).get_grouped_opcodes(2):
        yield f"@@ {INSTRUCTION * group[0][1]:#06x} → {INSTRUCTION * group[0][3]:#06x}"
        for kind, begin, end, start, stop in group:
            if kind == "equal":
                yield from (f"  {line}" for line in texts[1][start:stop])
            else:
                yield from (f"- {line}" for line in texts[0][begin:end])
                yield from (f"+ {line}" for line in texts[1][start:stop])


def _labelled(code: Code) -> list[str]:
    """Text of each instruction, with labels as branch targets, numbered by address."""
    targets = [each.target for each in code.instructions]
    known = sorted({each for each in targets if each is not None})
    labels = {target: f"L{number}" for number, target in enumerate(known)}
    return [
        text if target is None else _ADDRESS.sub(labels[target], text)
        for text, target in zip(code.said, targets, strict=True)
    ]


def _moved(old: Counter[str], new: Counter[str]) -> list[Moved]:
    found = [(name, old[name], new[name]) for name in {*old, *new} if old[name] != new[name]]
    return sorted(found, key=lambda each: (-abs(each[2] - each[1]), each[0]))


_Place = tuple[int | None, str]
_MOST_MOVED = 200
"""Most lines of one file among which moved lines are searched."""


def _hunks(sides: tuple[Code, Code], kernels: tuple[Kernel, Kernel]) -> list[Hunk]:
    groups = _aligned([_placed(each) for each in sides], sides)
    spilling = [
        Counter(a.address // INSTRUCTION for a in each.sass.local.accesses if a.kind == "spill")
        if each.sass
        else Counter()
        for each in kernels
    ]
    found = []
    for place in {*groups[0], *groups[1]}:
        rows = [group.get(place, []) for group in groups]
        keys = [
            Counter((code.name(row), code.instructions[row].key) for row in some)
            for code, some in zip(sides, rows, strict=True)
        ]
        if keys[0] == keys[1]:
            continue
        names = [Counter(code.name(row) for row in some) for code, some in zip(sides, rows, strict=True)]
        altered = Counter(name for name, _ in (keys[1] - keys[0]).elements())
        found.append(
            Hunk(
                depth=place[0],
                place=place[1],
                opcodes=tuple(_moved(*names)),
                altered=tuple((name, n) for name, n in altered.most_common() if names[0][name] == names[1][name]),
                instructions=(len(rows[0]), len(rows[1])),
                live=tuple(int(np.max(code.live[some], initial=0)) for code, some in zip(sides, rows, strict=True)),  # type: ignore[arg-type]
                spills=tuple(sum(held[row] for row in some) for held, some in zip(spilling, rows, strict=True)),  # type: ignore[arg-type]
            )
        )
    return sorted(found, key=lambda each: (-(each.depth or 0), -_weight(each), each.place, str(each.depth)))


def _aligned(groups: list[dict[_Place, list[int]]], sides: tuple[Code, Code]) -> list[dict[_Place, list[int]]]:
    """``groups`` with lines that moved under their new line numbers.
    A moved line is in the same file and at the same loop depth, and shares the most instructions, at least half of
    them; ties are in line order.
    """
    words, names = (
        [
            {place: _held(rows, code, whole) for place, rows in one.items() if place not in other}
            for one, other, code in zip(groups, groups[::-1], sides, strict=True)
        ]
        for whole in (True, False)
    )
    new: dict[Hashable, list[_Place]] = defaultdict(list)
    for place in sorted(words[1], key=_in_order):
        new[place[0], _in_order(place)[0]].append(place)
    moved: dict[_Place, _Place] = {}
    for place in sorted(words[0], key=lambda place: (-words[0][place].total(), _in_order(place))):
        some = new[place[0], _in_order(place)[0]]
        if not some or len(some) > _MOST_MOVED:
            continue
        best = max(some, key=lambda other: [_common(held, place, other) for held in (words, names)])
        if 2 * _common(names, place, best) >= max(names[0][place].total(), names[1][best].total()):
            moved[place] = best
            some.remove(best)
    return [{moved.get(place, place): rows for place, rows in groups[0].items()}, groups[1]]


def _held(rows: Sequence[int], code: Code, whole: bool) -> Counter[Hashable]:
    return Counter((code.name(row), code.instructions[row].key if whole else None) for row in rows)


def _common(held: list[dict[_Place, Counter[Hashable]]], old: _Place, new: _Place) -> int:
    return (held[0][old] & held[1][new]).total()


def _in_order(place: _Place) -> tuple[str, int]:
    file, _, line = place[1].rpartition(":")
    return file, int(line or 0)


def _weight(hunk: Hunk) -> int:
    return sum(abs(after - before) for _, before, after in hunk.opcodes) + sum(n for _, n in hunk.altered)


def _placed(code: Code) -> dict[_Place, list[int]]:
    """Instructions by loop depth and source line."""
    found: dict[_Place, list[int]] = defaultdict(list)
    for row, (depth, source) in enumerate(zip(code.depths, code.sources, strict=True)):
        if code.name(row) != "NOP":
            place = "" if source is None else f"{source.file.replace(chr(92), '/').rpartition('/')[2]}:{source.line}"
            found[depth, place].append(row)
    return found
