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
from spillscan.reading.machine.sameness import PURE, Instruction, NotProvenError, _Blocks, prove
from tests.conftest import FIXTURES
from tests.reading.machine.rewriting import Words, mutants

BINARIES = [
    *sorted((FIXTURES / "binary").glob("*sm_80*.cubin.zst")),
    *sorted((FIXTURES / "binary").glob("*sm_90*.cubin.zst")),
    *sorted((FIXTURES / "binary").glob("*sm_120*.cubin.zst")),
]


class _Every:
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
            for cubin, function in records.cubins(stream.buffer(), _Every()):
                text = cubin.text_of(function)
                if cubin.number >= 75 and len(text.words) < 20_000:
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
    for name, words in understood().items():
        new = getattr(words, way)(Random(str(name)))
        if new is not None:
            found[verdict(words.text, new)] += 1
            changed += new.words != words.text.words
    assert found["same"] >= 0.9 * found.total(), found
    assert changed >= 20


def test_no_change_of_meaning_is_called_the_same_work() -> None:
    """Of opcodes, constants, modifiers, operands, sources, the order of stores and loads."""
    kinds: Counter[str] = Counter()
    for name, words in [*understood().items()][::2]:  # each takes half a second
        for what, new in mutants(words, Random(str(name))):
            if new.words != words.text.words:
                kinds[what.split(" ")[0]] += 1
                assert verdict(words.text, new) != "same", (name, what)
    assert min(kinds[kind] for kind in ("opcode", "constant", "modifier", "operands", "source", "order")) >= 10, kinds


def test_instructions_that_do_not_wait_are_not_proven() -> None:
    """A barrier that nobody waits for any more: the register may be read before it is written."""
    seen = 0
    for words in understood().values():
        waiting = [row for row, word in enumerate(words.words) if word >> 116 & 63]
        for row in waiting[:1]:
            new = words.made([word & ~(63 << 116) if at == row else word for at, word in enumerate(words.words)])
            seen += verdict(words.text, new).endswith("may not wait for what it reads")
    assert seen >= 20


def test_what_names_all_predicates_at_once_is_not_known() -> None:
    """P2R reads predicates that no field of its word names (found in a real kernel: one of them was taken for dead)."""
    assert not PURE & {"P2R", "R2P", "UP2UR", "UR2UP"}
    assert not any({"P2R", "R2P"} & {*words.names} for words in understood().values())


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
