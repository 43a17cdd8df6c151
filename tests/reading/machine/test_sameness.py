"""Functions of real libraries written anew: whatever does the same work is proven so, and nothing else ever is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from random import Random

import pytest

from spillscan.model.code import CodeText
from spillscan.reading.binary import records
from spillscan.reading.binary.instructions import Code
from spillscan.reading.binary.pressure import registers
from spillscan.reading.inputs.source import Source
from spillscan.reading.machine.instruction import BARRIERS, Instruction, Place, Sum
from spillscan.reading.machine.sameness import _Blocks, _Proof, prove
from spillscan.reading.machine.values import PURE, NotProvenError
from tests.conftest import FIXTURES, sized
from tests.reading.machine.rewriting import Words, mutants

BINARIES = [
    *sorted((FIXTURES / "binary").glob("*sm_80*.cubin.zst")),
    *sorted((FIXTURES / "binary").glob("*sm_90*.cubin.zst")),
    *sorted((FIXTURES / "binary").glob("*sm_120*.cubin.zst")),
]

STEP = sized(4, 1)
"""Of so many changes of one kind, one is tried."""


class Every:
    def __contains__(self, symbol: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 1


@cache
def functions() -> dict[tuple[str, str, str], CodeText]:
    """Of the fixtures' libraries, each code once."""
    found: dict[bytes, tuple[tuple[str, str, str], CodeText]] = {}
    for path in BINARIES:
        with Source(str(path)).open() as stream:
            for cubin, function in records.cubins(stream.buffer(), Every()):
                text = cubin.text_of(function)
                if cubin.number >= 75 and len(text.words) < sized(6_000, 20_000):
                    found.setdefault(text.words, ((path.name, function.symbol, cubin.arch), text))
    return dict(found.values())


def verdict(old: CodeText, new: CodeText) -> str:
    """``same``, or why that is not proven."""
    try:
        prove(Code(old).instructions, Code(new).instructions, function=old.function)
    except NotProvenError as error:
        return str(error)
    return "same"


@cache
def understood() -> dict[tuple[str, str, str], Words]:
    """Functions all of whose instructions are known."""
    found = {}
    for name, text in functions().items():
        try:
            if verdict(text, text) == "same":
                found[name] = Words(text)
        except ValueError:  # no table is for it
            continue
    return found


def test_most_functions_are_understood() -> None:
    tabled = [text for text in functions().values() if registers(text.number, "P") is not None]
    assert len(understood()) >= 0.6 * len(tabled)
    assert len(understood()) >= 30


@pytest.mark.parametrize("way", ["renamed", "reordered", "padded"])
def test_what_is_written_anew_is_proven_the_same_work(way: str) -> None:
    """At least nine of ten: other registers, another order that dependences allow, other addresses."""
    found: Counter[str] = Counter()
    changed = 0
    for name, words in list(understood().items())[::STEP]:
        new = getattr(words, way)(Random(str(name)))
        if new is not None:
            found[verdict(words.text, new)] += 1
            changed += new.words != words.text.words
    assert found["same"] >= 0.9 * found.total(), found
    assert changed >= 10


def test_no_change_of_meaning_is_called_the_same_work() -> None:
    """Of opcodes, constants, modifiers, operands, sources, the order of stores and loads."""
    kinds: Counter[str] = Counter()
    for name, words in understood().items():
        for what, new in mutants(words, Random(str(name))):
            if new.words != words.text.words:
                kind = what.split(" ")[0]
                kinds[kind] += 1
                if kind == "order" or kinds[kind] % STEP == 0:
                    assert verdict(words.text, new) != "same", (name, what)
    assert min(kinds[kind] for kind in ("opcode", "constant", "modifier", "operands", "source")) >= 10, kinds
    assert kinds["order"] >= 5


def test_instructions_that_do_not_wait_are_not_proven() -> None:
    """A barrier that nobody waits for any more: the register may be read before it is written."""
    seen = 0
    for words in understood().values():
        waiting = [row for row, word in enumerate(words.words) if word >> 116 & 63]
        for row in waiting[:1]:
            new = words.made([word & ~(63 << 116) if at == row else word for at, word in enumerate(words.words)])
            seen += verdict(words.text, new).endswith("may not wait for what it reads")
    assert seen >= 20


def test_what_names_all_uniform_predicates_at_once_is_not_known() -> None:
    assert not PURE & {"UP2UR", "UR2UP"}


def test_constants_and_what_is_linked_in_count() -> None:
    from msgspec.structs import replace

    words = next(iter(understood().values()))
    moved = replace(words.text, relocations=((0, "2 0 somewhere"),))
    assert verdict(words.text, moved) != "same"


@pytest.mark.parametrize(
    ("target", "within"), [(0, True), (16, True), (24, False), (40, False), (32, False), (48, False), (-16, False)]
)
def test_a_branch_goes_to_an_instruction_of_the_function(target: int, within: bool) -> None:
    """Of two: to the beginning of one of them, not into one, nor behind the last."""
    rows = [
        Instruction("BRA", (1, ""), (), (), guarded=True, known=True, target=target, waits=(7, 7, 0)),
        Instruction("EXIT", (2, ""), (), (), guarded=False, known=True, target=None, waits=(7, 7, 0)),
    ]
    if within:
        assert _Blocks(rows).begins == [0, 1]
    else:
        with pytest.raises(NotProvenError, match="a BRA goes to what is not in the function"):
            _Blocks(rows)


def row(name: str, read: tuple[int, ...] = (), written: tuple[int, ...] = (), **more: object) -> Instruction:
    """An instruction whose word says nothing but its name."""
    known: dict[str, object] = {"guarded": False, "known": True, "target": None, "waits": (7, 7, 0)} | more
    return Instruction(name, (int(known.pop("word", 0)), ""), read, written, **known)  # type: ignore[arg-type, call-overload]


def same(old: list[Instruction], new: list[Instruction]) -> bool:
    end = row("EXIT")
    try:
        prove([*old, end], [*new, end], function=False)
    except NotProvenError:
        return False
    return True


def store(offset: int, value: int, base: int = 1) -> Instruction:
    return row("STG", (base, value), word=offset << 40, place=Place((base, 0), offset, 4))


def load(offset: int, to: int) -> Instruction:
    return row("LDG", (1,), (to,), word=offset << 40, place=Place((1, 0), offset, 4))


MADE = [row("S2R", (), (2,), word=0x21 << 72), row("S2R", (), (3,), word=0x25 << 72)]
SWAPPED = row("FADD", (2, 3), (4,), swaps=(0, 1)), row("FADD", (3, 2), (4,), swaps=(0, 1))
GUARDED = [row("MOV", (256, 2), (4,), guarded=True, guard=256), row("FADD", (256, 4), (5,), guarded=True, guard=256)]


@pytest.mark.parametrize(
    ("old", "new", "proven"),
    [
        ([store(0, 2), store(4, 3)], [store(4, 3), store(0, 2)], True),
        ([store(0, 2), store(2, 3)], [store(2, 3), store(0, 2)], False),  # they overlap
        ([store(0, 2), store(4, 3, base=2)], [store(4, 3, base=2), store(0, 2)], False),  # they may
        ([store(0, 2), load(4, 3), store(8, 3)], [load(4, 3), store(0, 2), store(8, 3)], True),
        ([store(0, 2), load(0, 3), store(8, 3)], [load(0, 3), store(0, 2), store(8, 3)], False),
        ([SWAPPED[0], store(0, 4)], [SWAPPED[1], store(0, 4)], True),
        ([row("FADD", (2, 3), (4,)), store(0, 4)], [row("FADD", (3, 2), (4,)), store(0, 4)], False),
    ],
)
def test_what_may_change_places(old: list[Instruction], new: list[Instruction], proven: bool) -> None:
    assert same(MADE + old, MADE + new) == proven


@pytest.mark.parametrize(("guard", "proven"), [(256, True), (257, False)])
def test_under_one_guard_it_does_not_matter_what_stood_there(guard: int, proven: bool) -> None:
    """The register held a thread's number in one, and a block's in the other; another guard may show it."""
    set_up = [row("ISETP", (2,), (256,)), row("ISETP", (3,), (257,))]
    reader = row("STG", (guard, 1, 4), guarded=True, guard=guard)
    old, new = ([*MADE, *set_up, row("MOV", (at,), (4,)), GUARDED[0], reader] for at in (2, 3))
    both = [row("MOV", (3,), (6,))], [row("MOV", (2,), (6,))]
    assert same(old + both[0], new + both[1]) == proven


def test_warps_meet_where_the_barrier_that_reaches_says() -> None:
    """One barrier is used twice: from the first place nothing leads to the second."""
    rows = [
        row("BSSY", (), (BARRIERS,), target=3 * 16),
        row("BRA", (256,), target=2 * 16, guarded=True),
        row("BSYNC", (BARRIERS,)),
        row("BSSY", (), (BARRIERS,), target=6 * 16),
        row("BRA", (256,), target=5 * 16, guarded=True),
        row("BSYNC", (BARRIERS,)),
        row("EXIT"),
    ]
    proof = _Proof(_Blocks(rows), _Blocks(rows), function=False)
    proof._pair()
    assert proof._ways[2, 2] == [(3, 3)]
    assert proof._ways[5, 5] == [(6, 6)]


def sum_of(to: int, *terms: int, constant: int = 0, carries: tuple[int, ...] = (), name: str = "IADD3") -> Instruction:
    """Adds registers, predicates and a constant."""
    places = tuple((at, 1) for at in range(len(terms)))
    carried = tuple((at, False) for at in range(len(terms), len(terms) + len(carries)))
    word = len(name) << 20 | constant
    return row(name, (*terms, *carries), (to,), word=word, sum=Sum(places, carried, None, (), constant))


def times(to: int, one: int, other: int) -> Instruction:
    """Multiplies."""
    return row("IMAD", (one, other), (to,), sum=Sum((), (), (0, 1), (), 0))


SET = row("ISETP", (2,), (256,), word=7)
SUMS: list[tuple[str, list[Instruction], list[Instruction], bool]] = [
    ("another opcode", [sum_of(4, 2, 3)], [sum_of(4, 2, 3, name="IMAD")], True),
    ("the other order", [sum_of(4, 2, 3)], [sum_of(4, 3, 2)], True),
    ("another constant", [sum_of(4, 2, constant=1)], [sum_of(4, 2, constant=2)], False),
    ("another term", [sum_of(4, 2, 3)], [sum_of(4, 2, 2)], False),
    ("a copy, and what is copied", [sum_of(5, 2), sum_of(4, 5, 3)], [sum_of(5, 3), sum_of(4, 2, 5)], True),
    ("sums of sums", [sum_of(5, 2, 3), sum_of(4, 5, 2)], [sum_of(5, 2, 2), sum_of(4, 5, 3)], True),
    ("a product", [times(4, 2, 3)], [times(4, 3, 2)], True),
    ("another product", [times(4, 2, 3)], [times(4, 2, 2)], False),
    ("the same carry", [SET, sum_of(4, 2, carries=(256,))], [SET, sum_of(4, 2, carries=(256,), name="IMAD")], True),
    ("another carry", [SET, sum_of(4, 2, carries=(256,))], [SET, sum_of(4, 2, carries=(257,))], False),
    ("fewer", [sum_of(5, 2), sum_of(4, 5)], [sum_of(4, 2)], False),  # equal, but not the same work
]


@pytest.mark.parametrize(("old", "new", "proven"), [case[1:] for case in SUMS], ids=[case[0] for case in SUMS])
def test_sums_are_equal_by_what_they_add(old: list[Instruction], new: list[Instruction], proven: bool) -> None:
    assert same([*MADE, *old, store(0, 4)], [*MADE, *new, store(0, 4)]) == proven


def under(*written: tuple[int, bool], last: int = 4) -> list[Instruction]:
    """Copies of R2 (thread) or R3 (block) under a predicate, or where it is false; then what is there is stored."""
    rows = [SET]
    for source, negated in written:
        moved = sum_of(4, source)
        rows.append(moved._replace(guard=256, guarded=True, read=(*moved.read, 256), key=(negated << 15, "")))
    return [*rows, store(0, last)]


@pytest.mark.parametrize(
    ("old", "new", "proven"),
    [
        (under((2, False), (3, True)), under((3, True), (2, False)), True),  # each way is written
        (under((2, False), (3, True)), under((2, True), (3, False)), False),
        (under((3, False), (2, False)), under((2, False), (2, False)), True),  # the first is lost
        (under((2, False), (3, False)), under((3, False), (2, False)), False),
        ([sum_of(4, 2), *under((3, False))], [sum_of(4, 3), *under((3, False))], False),  # what was there stays
    ],
)
def test_what_is_written_under_guards(old: list[Instruction], new: list[Instruction], proven: bool) -> None:
    assert same(MADE + old, MADE + new) == proven


def calling(nops: int, *, moved: int = 0, used: bool = False, returned: int | None = None) -> list[Instruction]:
    """R4 is where the call goes on; a callee changes R2, and returns there."""
    at = len(MADE) + nops + 3
    rows = [*MADE, *[row("NOP")] * nops, sum_of(4, constant=16 * (at if returned is None else returned)), sum_of(5)]
    rows += [row("CALL", target=16 * (at + 3 + moved)), store(0, 2), store(4, 4 if used else 3), row("EXIT")]
    return rows + [row("NOP")] * moved + [row("FADD", (2, 3), (2,)), row("RET", (4, 5))]


@pytest.mark.parametrize(
    ("old", "new", "proven"),
    [
        (calling(0), calling(0), True),
        (calling(0), calling(1), True),  # the call stands elsewhere
        (calling(0), calling(0, moved=1), True),  # the callee does
        (calling(0), calling(1, moved=2), True),
        (calling(0, used=True), calling(0, used=True), True),  # the address is stored, and is the same
        (calling(0, used=True), calling(1, used=True), False),
        (calling(0), calling(0, returned=6), False),  # it returns elsewhere
    ],
)
def test_calls_may_stand_elsewhere(old: list[Instruction], new: list[Instruction], proven: bool) -> None:
    try:
        prove(old, new, function=False)
        found = True
    except NotProvenError:
        found = False
    assert found == proven


def test_barriers_of_warps_may_have_other_numbers() -> None:
    def meeting(barrier: int, met: int) -> list[Instruction]:
        begin = row("BSSY", (), (BARRIERS + barrier,), target=(len(MADE) + 3) * 16)
        return [*MADE, SET, begin, row("BSYNC", (BARRIERS + met,)), store(0, 2)]

    assert same(meeting(0, 0), meeting(1, 1))
    assert not same(meeting(0, 0), meeting(0, 1))


def test_what_a_branch_decides_is_known_on_its_ways() -> None:
    """Where the predicate is true, R4 was written under it: what stood there before does not matter."""

    def branching(stood: int, spare: int) -> list[Instruction]:
        moved = sum_of(4, 2)._replace(guard=256, guarded=True, read=(2, 256))
        branch = row("BRA", (256,), target=(len(MADE) + 6) * 16, guarded=True, guard=256)
        return [*MADE, SET, sum_of(4, stood), sum_of(6, spare), moved, branch, row("EXIT"), store(0, 4)]

    rows = [*branching(2, 3)], [*branching(3, 2)]
    assert len(rows[0]) == len(MADE) + 7
    assert same(*rows)
