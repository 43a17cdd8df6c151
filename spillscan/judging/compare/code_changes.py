"""Compare the machine code of kernels in two builds: identical, differs, or not compared.

*Identical*: equal instructions in equal order, up to one renaming of registers, and equal data and attributes that the
kernel refers to (:mod:`spillscan.reading.binary.references`). Nothing is claimed about reordered code.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher, unified_diff
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from spillscan.judging.compare.metrics import moved
from spillscan.judging.compare.pairing import Comparison
from spillscan.model import Change, Kernel
from spillscan.model.code import CodeText
from spillscan.model.findings import CodeChange, CodeVerdict, Hunk
from spillscan.output.nouns import count
from spillscan.reading.binary.instructions import Code
from spillscan.reading.binary.references import UNKNOWN, UNKNOWN_ATTRIBUTE
from spillscan.reading.machine import sameness
from spillscan.reading.machine.spillmap import base

VERDICTS: tuple[CodeVerdict, ...] = ("differs", "not compared", "identical")
"""Verdicts, the most urgent first."""
_SHOWN = 4
"""Opcodes and labels named per difference."""
_MOST_HUNKS = 64
_NO_CODE = "no machine code (pass binaries, or the JSON of scan --with code)"
_NO_DATA = "SASS listings contain no data sections (pass the binary)"
_LISTINGS = ("sass", "nvdisasm")
_FUNCTION = re.compile(r"^function (.*?): ")


class _Result(NamedTuple):
    """Comparison of two codes, as in :class:`CodeChange`."""

    verdict: CodeVerdict
    reasons: tuple[str, ...] = ()
    hunks: tuple[Hunk, ...] = ()
    text: tuple[str, ...] = ()


def code_changes(changes: Sequence[Change], texts: Mapping[int, CodeText], *, text: bool = False) -> list[CodeChange]:
    """Verdict on each pair, differences first.
    ``texts``: machine code by the ``id`` of the kernel; ``text``: whether to add a unified diff. Callees within a
    kernel's code are compared with the kernel.
    """
    known: dict[object, _Result] = {}
    compared = []
    for change in changes:
        before, after = change.before, change.after
        if before is None or after is None or before.caller or after.caller:
            continue
        old, new = texts.get(id(before)), texts.get(id(after))
        key = id(change) if old is None or new is None else (id(old), id(new))
        if key not in known:
            known[key] = _compared(before, after, old, new, text)
        counts = [each.sass.instructions if each.sass else None for each in (before, after)]
        compared.append(CodeChange(change=change, instructions=(counts[0], counts[1]), **known[key]._asdict()))
    return sorted(compared, key=lambda each: VERDICTS.index(each.verdict))


def marked(pairs: Comparison, code: Sequence[CodeChange]) -> Comparison:
    """``pairs`` with the verdict on each pair's code."""
    by_id = {
        id(each.change): replace(each.change, code=each.verdict, code_reason=next(iter(each.reasons), ""))
        for each in code
    }
    kinds = ("changes", "unsettled", "recoded", "equal")
    return replace(pairs, **{kind: tuple(by_id.get(id(each), each) for each in getattr(pairs, kind)) for kind in kinds})


def _compared(before: Kernel, after: Kernel, old: CodeText | None, new: CodeText | None, text: bool) -> _Result:
    if old is None or new is None:
        return _Result("not compared", (_missing(before if old is None else after),))
    if before.key.arch != after.key.arch or old.number != new.number:
        return _Result("not compared", (f"different archs ({before.key.arch}, {after.key.arch})",))
    unknown = [each.unknown for each in (old, new) if each.unknown]
    if undecoded := [each for each in unknown if "not decoded" in each]:
        return _Result("not compared", (undecoded[0],))
    reasons, doubts = _data(old, new)
    renamed = False
    if (old.words, old.references) != (new.words, new.references):
        try:
            sides = Code(old), Code(new)
        except ValueError:
            doubts.append(f"no table describes the registers of sm_{new.number}")
        else:
            compared = sameness.compare(sides[0].instructions, sides[1].instructions, function=new.function)
            if compared.differing:
                hunks = _hunks(sides)
                reasons = [_instructions(sides, hunks, len(compared.differing)), *reasons]
                lines = tuple(_diff(sides)) if text else ()
                return _Result("differs", tuple(dict.fromkeys(reasons)), tuple(hunks[:_MOST_HUNKS]), lines)
            renamed = compared.renamed
            doubts += [compared.unknown] if compared.unknown else []
    doubts += dict.fromkeys(unknown)
    if reasons:
        return _Result("differs", tuple(dict.fromkeys(reasons)))
    if doubts:
        return _Result("not compared", tuple(doubts))
    return _Result("identical", ("registers renamed",) if renamed else ())


def _missing(kernel: Kernel) -> str:
    origin = kernel.sass.origin if kernel.sass else None
    return _NO_DATA if origin is not None and origin.format in _LISTINGS else _NO_CODE


def _data(old: CodeText, new: CodeText) -> tuple[list[str], list[str]]:
    """(data and attributes that differ, differing attributes whose meaning is unknown)."""
    data = [each.data for each in (old, new)]
    if [label for label, _ in data[0]] != [label for label, _ in data[1]]:
        data = [_numbered(each) for each in data]
    if data[0] == data[1]:
        return [], []
    values: list[dict[str, list[str]]] = [defaultdict(list), defaultdict(list)]
    for side, pairs in zip(values, data, strict=True):
        for label, value in pairs:
            side[label].append(value)
    reasons, doubts = list[str](), list[str]()
    for label in {**values[0], **values[1]}:
        sides = [side.get(label, ["none"]) for side in values]
        if sides[0] != sides[1]:
            unclear = " (meaning unknown)" if UNKNOWN_ATTRIBUTE in label else ""
            (doubts if unclear or [UNKNOWN] in sides else reasons).append(_moved_data(label, *sides) + unclear)
    return (reasons if reasons or doubts else ["references in a different order"]), doubts


def _moved_data(label: str, old: Sequence[str], new: Sequence[str]) -> str:
    """Text of a change of data, ``launch bounds 64 → 128``; for digests and lists, that they changed."""
    if len(old) > 1 or len(new) > 1 or old[0].startswith("#") or new[0].startswith("#"):
        return f"{label} changed"
    return f"{label} {old[0]} → {new[0]}"


def _numbered(data: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Data of a function, with other functions numbered: a different name is no difference."""
    names: dict[str, str] = {}
    return tuple(
        (_FUNCTION.sub(lambda match: names.setdefault(match[1], f"function {len(names) + 1}: "), label), value)
        for label, value in data
    )


def _instructions(sides: tuple[Code, Code], hunks: Sequence[Hunk], differing: int) -> str:
    """``+12 STL, +8 LDL at gemm.cu:25``: counts by opcode, and where most of them are."""
    names = [Counter(name or "?" for name in code.names) for code in sides]
    counts = moved(names[0], names[1])
    changed = [f"{after - before:+,} {name}" for name, before, after in counts if name != "NOP" or len(counts) == 1]
    places = [hunk.place for hunk in hunks if hunk.place]
    others = len({*places}) - 1
    where = f" at {places[0]}" + f" and {count(others, 'more line')}" * (others > 0) if places else ""
    if changed:
        more = [f"{len(changed) - _SHOWN:,} more"] if len(changed) > _SHOWN else []
        return ", ".join(changed[:_SHOWN] + more) + where
    altered = Counter[str]()
    for hunk in hunks:
        altered.update(dict(hunk.altered))
    if altered:
        return f"operands of {', '.join(f'{number:,} {name}' for name, number in altered.most_common(_SHOWN))}{where}"
    return f"order, registers or schedule of {count(differing, 'instruction')}{where}"


_REGISTER = re.compile(r"\b(U?[RPB]|SB)\d+\b")
_ADDRESS = re.compile(r"0x[0-9a-f]+$")
_MOST_ROWS = 1 << 15


def _diff(sides: tuple[Code, Code]) -> Iterator[str]:
    """Unified diff of the instructions, with labels for addresses and without register numbers."""
    if max(each.rows for each in sides) > _MOST_ROWS:
        yield f"more than {count(_MOST_ROWS, 'instruction')}: no text diff"
        return
    old, new = ([_REGISTER.sub(r"\1", line) for line in _labelled(code)] for code in sides)
    yield from islice(unified_diff(old, new, n=2, lineterm=""), 2, None)


def _labelled(code: Code) -> list[str]:
    """Text of each instruction, with labels as branch targets, numbered by address."""
    targets = [each.target for each in code.instructions]
    known = sorted({each for each in targets if each is not None})
    labels = {target: f"L{number}" for number, target in enumerate(known)}
    return [
        text if target is None else _ADDRESS.sub(labels[target], text)
        for text, target in zip(code.texts, targets, strict=True)
    ]


_Content = Counter[tuple[str, Hashable]]
"""Instructions by name and everything but their registers."""


def _hunks(sides: tuple[Code, Code]) -> list[Hunk]:
    """Source lines whose instructions differ, the most changed first; a line that only moved is none."""
    old, new = map(_by_line, sides)
    hunks = [
        _hunk(f"{file}:{number}" if file else "", *contents)
        for file in {**old, **new}
        for number, *contents in _differing(old.get(file, {}), new.get(file, {}))
    ]
    return sorted(hunks, key=lambda each: (-_size(each), each.place))


def _by_line(code: Code) -> dict[str, dict[int, _Content]]:
    """Instructions by file and line; without line information, all are of line 0."""
    lines: dict[str, dict[int, _Content]] = defaultdict(lambda: defaultdict(Counter))
    for row, source in enumerate(code.sources):
        if name := code.names[row].replace("NOP", ""):
            file, line = ("", 0) if source is None else (base(source.file), source.line)
            lines[file][line][name, code.instructions[row].key] += 1
    return lines


def _differing(old: dict[int, _Content], new: dict[int, _Content]) -> Iterator[tuple[int, _Content, _Content]]:
    """Lines of a file that differ once equal ones are aligned, with their instructions before and after.

    Lines that replace as many others are compared one by one, others together.
    """
    orders = sorted(old), sorted(new)
    aligned = SequenceMatcher(
        None,
        [frozenset(old[number].items()) for number in orders[0]],
        [frozenset(new[number].items()) for number in orders[1]],
    )
    for kind, begin, end, start, stop in aligned.get_opcodes():
        if kind != "equal":
            numbers = orders[0][begin:end], orders[1][start:stop]
            before, after = ([side[each] for each in group] for side, group in zip((old, new), numbers, strict=True))
            if len(before) != len(after):
                before, after = [sum(before, _Content())], [sum(after, _Content())]
            yield from zip(numbers[1] or numbers[0], before, after, strict=False)


def _hunk(place: str, old: _Content, new: _Content) -> Hunk:
    names = _names(old), _names(new)
    altered = [(name, n) for name, n in _names(new - old).most_common() if names[0][name] == names[1][name]]
    return Hunk(place=place, opcodes=tuple(moved(*names)), altered=tuple(altered))


def _names(content: _Content) -> Counter[str]:
    return Counter(name for name, _ in content.elements())


def _size(hunk: Hunk) -> int:
    return sum(abs(after - before) for _, before, after in hunk.opcodes) + sum(n for _, n in hunk.altered)
