"""Equal instructions up to one renaming: functions of real libraries with other register numbers, and with one bit set
otherwise."""

from __future__ import annotations

from collections import Counter
from random import Random

from spillscan.model.code import CodeText
from spillscan.reading.binary.instructions import Code
from spillscan.reading.machine.sameness import Compared, compare
from tests.conftest import sized
from tests.reading.machine.functions import functions, renamed, with_words, words_of


def compared(old: CodeText, new: CodeText) -> Compared:
    return compare(Code(old).instructions, Code(new).instructions, function=old.function)


def equal(found: Compared) -> bool:
    return not found.differing and not found.unknown


def test_every_function_equals_itself() -> None:
    assert len(functions()) > 40
    for name, text in functions().items():
        assert equal(compared(text, text)), name


def test_a_renaming_is_equal_in_kernels_alone() -> None:
    seen = Counter[str]()
    for name, text in list(functions().items())[:: sized(4, 1)]:
        new = renamed(text, Random(str(name)))
        if new is None or new.words == text.words:
            continue
        found, code = compared(text, new), Code(text)
        fixed = text.function or any(each.name == "CALL" and each.target is None for each in code.instructions)
        if fixed:
            assert not equal(found), name
        seen["fixed" if fixed else "equal" if equal(found) else "doubtful"] += 1
    assert seen["equal"] > 3 * seen["doubtful"]
    assert seen["fixed"]


def test_no_single_bit_passes_unseen() -> None:
    """Register fields apart: another register that occurs once is a renaming."""
    flipped = 0
    for name, text in list(functions().items())[:: sized(16, 1)]:
        random, words = Random(str(name)), words_of(text)
        fields = [known for known, _ in Code(text).fields()]
        for row in random.sample(range(len(words)), min(4, len(words))):
            taken = {bit for each in fields[row] for bit in range(each.at, each.at + each.width)}
            for bit in set(random.sample(range(128), 12)) - taken - {*range(110, 122)}:
                mutant = [*words]
                mutant[row] ^= 1 << bit
                assert not equal(compared(text, with_words(text, mutant))), (name, row, bit)
                flipped += 1
    assert flipped > sized(100, 500)


def test_one_register_of_a_renamed_function_left_as_it_was_differs() -> None:
    """A register that occurs elsewhere cannot keep its name in one instruction alone."""
    tried = 0
    for name, text in list(functions().items())[:: sized(16, 1)]:
        new = renamed(text, Random(str(name)))
        if new is None or not equal(compared(text, new)):
            continue
        code, words = Code(text), words_of(new)
        times = Counter(number for each in code.instructions for number in each.registers)
        old = words_of(text)
        for row, (known, _) in enumerate(code.fields()):
            for each in known:
                mask = (1 << each.width) - 1 << each.at
                number = 256 * each.file + (old[row] >> each.at & mask >> each.at)
                if (old[row] ^ words[row]) & mask and times[number] > each.shape.bit_count():
                    mutant = [*words]
                    mutant[row] = words[row] & ~mask | old[row] & mask
                    assert not equal(compared(text, with_words(new, mutant))), (name, row)
                    tried += 1
                    break
            if tried % 8 == 7:
                tried += 1
                break
    assert tried > 10
