"""Which kernel of one build of fixtures is which of another, and what they are called, as it was found before: ``python
-m tests.naming.test_stored`` writes it anew. What is right is tested elsewhere; this says what else a change moved."""

from __future__ import annotations

import json
import re
from functools import cache
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from spillscan.model import Build, Kernel
from spillscan.naming import Names
from spillscan.naming.identity import canonical, source_file
from spillscan.naming.identity.pairs import paired
from tests.conftest import FIXTURES, read_any, stored
from tests.naming.identity import generator
from tests.reading.test_stored import digest, drawn

STORED = FIXTURES / "EXPECTED-named.json"
LOGS = sorted(
    path.relative_to(FIXTURES).as_posix()
    for folder in ("demo", "identity", "library", "ptxas", "build")
    for path in (FIXTURES / folder).glob("*.log*")
)
SEEDS = range(120)


@cache
def kernels(log: str) -> list[Kernel]:
    """Of one log."""
    return read_any(FIXTURES / log).kernels


def changed(seed: int) -> tuple[list[Kernel], list[Kernel]]:
    """Two builds of two or three logs, of which some kernels have gone, or have other figures, arguments, namespaces or
    words in their names."""
    chance = Random(seed)
    base = [each for log in drawn(seed, LOGS, 2 + seed % 2) for each in kernels(log)]
    word, scope = chance.choice(generator.WORDS), chance.choice(generator.WORDS)
    words = sorted({each for kernel in base for each in re.findall(r"(?<=\d)[a-z_]{3,}", kernel.key.symbol)})
    old = chance.choice(words or ["gemm"])
    head = []
    for each in base:
        symbol = each.key.symbol
        if chance.random() < 0.4:
            symbol = symbol.replace(f"{len(old)}{old}", f"{len(word)}{word}")
        if chance.random() < 0.2:
            symbol = symbol.replace("_ZN", f"_ZN{len(scope)}{scope}", 1)
        if chance.random() < 0.1:
            symbol = symbol.replace("Li", "Li1", 1)
        usage = generator.later(chance, each.usage) if chance.random() < 0.3 else each.usage
        if chance.random() < 0.9:
            head.append(replace(each, key=replace(each.key, symbol=symbol), usage=usage))
    chance.shuffle(head)
    return base, head


def _sides(base: Build, head: Build) -> tuple[list[Kernel], list[Kernel]]:
    return [*base.kernels], [*head.kernels]


def found(seed: int) -> list[Any]:
    """How many pairs there are of each kind, and a digest of them with their evidence."""
    result = paired(*(changed(seed) if seed % 10 else _sides(*generator.make(seed).builds())))
    same = [(str(one.key), str(two.key), one.usage == two.usage) for one, two in result.same]
    renamed = [(str(each.before.key), str(each.after.key), each.score, str(each.evidence)) for each in result.renamed]
    alone = [sorted(str(each.key) for each in side) for side in (result.gone, result.new)]
    return [len(same), len(renamed), *map(len, alone), digest([sorted(same), sorted(renamed), alone])]


def called(log: str) -> str:
    """A digest of what the kernels of a log are called in several widths, and of what stands for them elsewhere."""
    symbols = list(dict.fromkeys(each.key.symbol for each in kernels(log)))
    names = Names(symbols)
    shown = [[names.at(width)[symbol] for symbol in symbols] for width in (16, 22, 30, 44, 60, 90)]
    shown += [[names.arguments(symbol, width) for symbol in symbols] for width in (16, 40)]
    shown += [[canonical(symbol) for symbol in symbols], [source_file(symbol) or "" for symbol in symbols]]
    return digest([shown, names.legend(symbols, 40)])


@pytest.mark.parametrize("seed", SEEDS)
def test_as_it_was_paired_before(seed: int) -> None:
    assert found(seed) == stored(STORED)["pairs"][seed]


@pytest.mark.parametrize("log", LOGS)
def test_as_it_was_called_before(log: str) -> None:
    assert called(log) == stored(STORED)["names"][log]


def write() -> None:
    """Write the file anew; read its diff."""
    pairs = ",\n".join(json.dumps(found(seed)) for seed in SEEDS)
    names = json.dumps({log: called(log) for log in LOGS}, indent=0)
    STORED.write_text(f'{{"pairs": [\n{pairs}\n],\n"names": {names}}}\n')


if __name__ == "__main__":
    write()
