"""Functions of the fixtures' cubins, and their words, renamed."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from functools import cache
from random import Random

from msgspec.structs import replace

from spillscan.model.code import CodeText
from spillscan.reading.binary import records
from spillscan.reading.binary.instructions import Code
from spillscan.reading.binary.references import text_of
from spillscan.reading.inputs.source import Source
from tests.conftest import FIXTURES, sized

_ARCHS = ("sm_80", "sm_90", "sm_120")


class Every:
    """All names."""

    def __contains__(self, symbol: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 1


@cache
def functions() -> dict[tuple[str, str, str], CodeText]:
    """Each code once, by (file, symbol, arch)."""
    found: dict[bytes, tuple[tuple[str, str, str], CodeText]] = {}
    for path in sorted(FIXTURES.glob("binary/*.cubin.zst")):
        if not any(arch in path.name for arch in _ARCHS):
            continue
        with Source(str(path)).open() as stream:
            for cubin, function in records.cubins(stream.buffer(), Every()):
                text = text_of(cubin, function)
                if len(text.words) < sized(6_000, 20_000):
                    found.setdefault(text.words, ((path.name, function.symbol, cubin.arch), text))
    return dict(found.values())


def words_of(text: CodeText) -> list[int]:
    """Its instructions."""
    data = zlib.decompress(text.words)
    return [int.from_bytes(data[at : at + 16], "little") for at in range(0, len(data), 16)]


def with_words(text: CodeText, words: list[int]) -> CodeText:
    """The function with other instructions."""
    return replace(text, words=zlib.compress(b"".join(word.to_bytes(16, "little") for word in words)))


def renamed(text: CodeText, random: Random) -> CodeText | None:
    """The function with other register numbers throughout, aligned groups together; ``None`` if a group cannot move."""
    code, words = Code(text), words_of(text)
    fields = list(code.fields())
    maps = []
    for file in range(4):
        own = [(row, each) for row, (known, _) in enumerate(fields) for each in known if each.file == file]
        most = max((each.shape.bit_length() for _, each in own), default=1)
        size = 1 if file % 2 else next(each for each in (4, 8, 16, 32, 64, 128) if each >= most)
        used = {number - 256 * file for each in code.instructions for number in each.registers if number // 256 == file}
        groups = sorted({number // size for number in used} - ({0} if file == 0 else set()))
        mixed = groups[:]
        random.shuffle(mixed)
        to = dict(zip(groups, mixed, strict=True))
        maps.append(({n: to.get(n // size, n // size) * size + n % size for n in range(256)}, size))
    for row, (known, _) in enumerate(fields):
        for each in known:
            mapping, size = maps[each.file]
            none = (1 << each.width) - 1
            number = words[row] >> each.at & none
            if number == none:
                continue
            if number % size + each.shape.bit_length() > size:
                return None
            words[row] = words[row] & ~(none << each.at) | mapping[number] << each.at
    names = {each.name for each in code.instructions}
    if names.isdisjoint(("DEPBAR", "SYNCS")):
        boards = random.sample(range(6), 6)
        words = [_with_scoreboards(word, boards) for word in words]
    if names.isdisjoint(("BMOV", "WARPSYNC")):
        barriers = random.sample(range(16), 16)
        words = [_with_barrier(word, barriers) for word in words]
    return with_words(text, words)


def _with_scoreboards(word: int, names: list[int]) -> int:
    """The word with other names for the scoreboards that it sets and waits for."""
    for at in (110, 113):
        if (number := word >> at & 7) < 6:
            word = word & ~(7 << at) | names[number] << at
    waits = sum(1 << names[each] for each in range(6) if word >> 116 + each & 1)
    return word & ~(63 << 116) | waits << 116


def _with_barrier(word: int, names: list[int]) -> int:
    """The word with another convergence barrier, if it is BSSY, BSYNC or BREAK."""
    return word & ~(15 << 16) | names[word >> 16 & 15] << 16 if word & 0xFFF in (0x945, 0x941, 0x942) else word
