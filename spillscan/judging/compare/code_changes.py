"""What became of the machine code of a kernel: proven the same work, or what differs in it, with the evidence.

*Same work* is proven (:mod:`spillscan.reading.machine.sameness`). What is not proven is held apart by what surely
differs: the mix of opcodes, memory operations and their widths, tensor instructions, control flow, the bodies of loops.
Where none of these does, it is the *same figures* with other operands, constants or order; else it is *other work*.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from spillscan.judging.compare.pairing import Comparison
from spillscan.model import Change, Kernel
from spillscan.model.code import CLASS_OF, CodeText
from spillscan.model.findings import CodeChange, Hunk, Moved, Work
from spillscan.naming.identity.code import digest
from spillscan.output.nouns import count
from spillscan.reading.binary.instructions import Code
from spillscan.reading.machine.accesses import WIDTHS
from spillscan.reading.machine.liveness import INSTRUCTION
from spillscan.reading.machine.sameness import NotProvenError, prove

WORKS: tuple[Work, ...] = ("other work", "same figures", "same work")
"""What a person should look at first stands first."""
_SHOWN = 4
"""Opcodes that are named of each difference."""
_MOST_HUNKS = 64
_ACCESSES = frozenset({"LDG", "STG", "LDS", "STS", "LD", "ST", "LDL", "STL"})
_CONTROL = frozenset({"control", "barrier"})
_GRANTED = "; the assembler's stall counts are taken for granted"
_NO_CODE = "its machine code is not at hand: give binaries, or snapshots of scan --with code"


def code_changes(changes: Sequence[Change], texts: Mapping[int, CodeText]) -> list[CodeChange]:
    """Of each pair whose code is known to differ, or may; what surely differs first. ``texts``: the code itself, by the
    ``id`` of the kernel."""
    known: dict[object, tuple[Work, tuple[str, ...], tuple[Hunk, ...]]] = {}
    found = []
    for change in changes:
        before, after = change.before, change.after
        if before is None or after is None or not (before.sass and after.sass):
            continue
        digests = digest(before), digest(after)
        if None not in digests and digests[0] == digests[1]:
            continue
        if after.role == "function" and None not in digests and not {id(before), id(after)} & texts.keys():
            continue  # a callee that stands in the code of kernels: they are compared with it
        key = (*digests, bool(change.metrics)) if None not in digests else id(change)
        if key not in known:
            known[key] = _classed(before, after, texts.get(id(before)), texts.get(id(after)))
        work, evidence, hunks = known[key]
        found.append(CodeChange(change=change, work=work, evidence=evidence, hunks=hunks))
    return sorted(found, key=lambda each: WORKS.index(each.work))


def proven(found: Comparison, code: Sequence[CodeChange]) -> Comparison:
    """The comparison, in which the pairs that are proven to do the same work say so."""
    same = {id(each.change) for each in code if each.work == "same work"}

    def marked(changes: Sequence[Change]) -> tuple[Change, ...]:
        return tuple(replace(each, proven=True) if id(each) in same else each for each in changes)

    return replace(
        found, changes=marked(found.changes), unsettled=marked(found.unsettled), recoded=marked(found.recoded)
    )


def _classed(
    before: Kernel, after: Kernel, old: CodeText | None, new: CodeText | None
) -> tuple[Work, tuple[str, ...], tuple[Hunk, ...]]:
    sides = _sides(old, new)
    reason = _NO_CODE
    if sides is not None:
        try:
            if sides[0].text.constants != sides[1].text.constants:
                raise NotProvenError("other constants of its own")
            if sides[0].text.number != sides[1].text.number:
                raise NotProvenError("another architecture")
            if not sides[0].complete:
                raise NotProvenError(f"no table says which predicates instructions of sm_{sides[0].text.number} name")
            prove(*(each.instructions for each in sides), function=sides[0].text.function)
            return "same work", (_proof(*sides),), ()
        except NotProvenError as error:
            reason = f"not proven the same: {error}"
    elif old is not None and new is not None:
        reason = f"not proven the same: no table says what instructions of sm_{new.number} do"
    evidence = [*_mixes(before, after), *(_differences(*sides) if sides is not None else ())]
    hunks = _hunks(sides, (before, after)) if sides is not None else []
    return "other work" if evidence else "same figures", (*evidence, reason), tuple(hunks[:_MOST_HUNKS])


def _sides(old: CodeText | None, new: CodeText | None) -> tuple[Code, Code] | None:
    try:
        if old is None or new is None:
            return None
        return Code(old, one_module=old.module == new.module), Code(new, one_module=old.module == new.module)
    except ValueError:
        return None


def _proof(old: Code, new: Code) -> str:
    """What is the same, and what else is not."""
    moved = sum(one != other for one, other in zip(old.instructions, new.instructions, strict=False))
    if not moved:
        return f"the same instructions, scheduled otherwise{_GRANTED}"
    how = f"{moved:,} with other registers, places or in another order"
    return f"the same instructions on the same values, {how}{_GRANTED}"


def _mixes(before: Kernel, after: Kernel) -> Iterator[str]:
    """The mix of opcodes, and tensor instructions."""
    assert before.sass is not None
    assert after.sass is not None
    mixes = [Counter({name: n for name, n in each.opcodes if name != "NOP"}) for each in (before.sass, after.sass)]
    if moved := _moved(*mixes):
        yield f"opcodes: {said(moved)}"
    if tensor := [each for each in moved if CLASS_OF.get(each[0]) == "tensor"]:
        yield f"tensor instructions: {said(tensor)}"
    if control := [each for each in moved if CLASS_OF.get(each[0]) in _CONTROL]:
        yield f"control: {said(control)}"


def _differences(old: Code, new: Code) -> Iterator[str]:
    """Widths of accesses, and instructions by the loops around them."""
    if moved := _moved(*(_accesses(each) for each in (old, new))):
        yield f"memory: {said(moved)}"
    depths = [Counter(depth for row, depth in enumerate(each.depths) if each.name(row) != "NOP") for each in (old, new)]
    loops = [Counter({f"in {count(depth, 'loop')}": n for depth, n in each.items() if depth}) for each in depths]
    if moved := _moved(*loops):
        yield f"loop bodies, instructions: {said(moved)}"


def _accesses(code: Code) -> Counter[str]:
    widths = code.widths()
    names = ((row, code.name(row)) for row in range(code.rows))
    return Counter(f"{name} of {8 * WIDTHS[int(widths[row])]} bits" for row, name in names if name in _ACCESSES)


def _moved(old: Counter[str], new: Counter[str]) -> list[Moved]:
    found = [(name, old[name], new[name]) for name in {*old, *new} if old[name] != new[name]]
    return sorted(found, key=lambda each: (-abs(each[2] - each[1]), each[0]))


def said(moved: Sequence[Moved]) -> str:
    """``FFMA 8 → 16, LDG 4 → 6, 2 more``."""
    shown = [f"{name} {before:,} → {after:,}" for name, before, after in moved[:_SHOWN]]
    return ", ".join(shown + [f"{len(moved) - _SHOWN:,} more"] * (len(moved) > _SHOWN))


_Place = tuple[int | None, str]
_MOST_MOVED = 200
"""Lines of one file that may have moved, at most, so that they are looked for."""


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
    """The same with lines that moved under the numbers that they have now: of one file, as deep in loops, and of the
    most equal instructions, half of them at least; in order where several are."""
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
    """Instructions by loops around them and source line."""
    found: dict[_Place, list[int]] = defaultdict(list)
    for row, (depth, source) in enumerate(zip(code.depths, code.sources, strict=True)):
        if code.name(row) != "NOP":
            place = "" if source is None else f"{source.file.replace(chr(92), '/').rpartition('/')[2]}:{source.line}"
            found[depth, place].append(row)
    return found
