"""Records of randomly damaged fixtures, compared with stored ones: ``python -m tests.reading.test_stored_damage``
rewrites them. Other tests check that they are right; this one shows all that a change affects in input that no compiler
wrote.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from spillscan.model import Reading
from spillscan.model.code import SassFunction
from spillscan.model.serialize import issue_json, kernel_json, sass_json, text
from spillscan.reading import pipeline
from spillscan.reading.inputs.formats import text_reader_of
from spillscan.reading.inputs.source import Source, Stream
from tests.conftest import FIXTURES, sized, stored
from tests.reading.binary.support import scanned
from tests.reading.test_stored import FILES, digest

STORED = FIXTURES / "EXPECTED-damaged.json"
_LARGEST_BYTES = 1 << 16
"""Of a text; of a larger one the beginning is damaged and read."""
_SEEDS = 3


def _lines(data: bytes, chance: Random) -> bytes:
    """One to four times lines are lost, doubled, moved, cut, joined, or mixed with later ones."""
    lines = data[:_LARGEST_BYTES].splitlines(keepends=True)
    for _ in range(chance.randint(1, 4) if len(lines) > 8 else 0):
        at = chance.randrange(len(lines) - 3)
        kind = chance.randrange(8)
        if kind == 0:
            del lines[at : at + chance.randint(1, 3)]
        elif kind == 1:
            lines[at:at] = lines[at : at + chance.randint(1, 12)]
        elif kind == 2:
            lines[at : at + 2] = reversed(lines[at : at + 2])
        elif kind == 3:
            lines[at] = lines[at][: chance.randrange(len(lines[at]) + 1)] + b"\n"
        elif kind == 4:
            lines[at] = lines[at].rstrip(b"\r\n")
        elif kind == 5:
            other = chance.randrange(len(lines) - 1)
            lines.insert(at, lines[other])
        elif kind == 6:
            begin = chance.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:begin] + lines[at][begin + chance.randint(1, 9) :]
        else:
            part, size = lines[at:], chance.randint(2, 8)
            mixed = [line for pair in zip(part[:size], part[size : 2 * size], strict=False) for line in pair]
            lines[at : at + len(mixed)] = mixed
        if len(lines) < 8:
            break
    whole = b"".join(lines)
    return whole[: chance.randrange(len(whole))] if chance.random() < 0.2 else whole


def _bytes(data: bytes, chance: Random) -> bytes:
    """Some of its bytes other ones, or its end lost."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(changed))
        changed[at] = chance.choice((0, 0xFF, changed[at] ^ 1 << chance.randrange(8), chance.randrange(256)))
    return bytes(changed[: chance.randrange(len(changed))] if chance.random() < 0.2 else changed)


def reported(file: str) -> list[Any]:
    """Per damaged form: number of kernels and functions, issues by kind, and a digest of all."""
    with Source(str(FIXTURES / file)).open() as stream:
        data = b"".join(stream.chunks())
    is_code = b"\0" in data[:4096]
    damage: Callable[[bytes, Random], bytes] = _bytes if is_code else _lines
    found: list[Any] = []
    for seed in range(_SEEDS):
        form = damage(data, Random(f"{file} {seed}"))
        if is_code:
            functions, issues = scanned(form, file)
            found.append(_reported(Reading(functions=[*functions], issues=issues)))
        else:
            reading = pipeline.read_by(text_reader_of(form[:4096]), Stream(io.BytesIO(form), file), file)
            found.append(_reported(reading))
    return found


def _reported(reading: Reading) -> list[Any]:
    kernels = [text(kernel_json(each)) for each in reading.kernels]
    functions = [
        [each.symbol, each.arch, each.role, each.caller, repr(each.usage), text(sass_json(each.stats))]
        if isinstance(each, SassFunction)
        else repr(each)
        for each in reading.functions
    ]
    issues = [text(issue_json(each)) for each in reading.issues]
    rest = [reading.links, reading.sidecars, reading.units, reading.portable, reading.stats]
    kinds = Counter(each.code for each in reading.issues)
    return [len(kernels), len(functions), dict(sorted(kinds.items())), digest([kernels, functions, issues, repr(rest)])]


@pytest.mark.parametrize("file", FILES[:: sized(3, 1)])
def test_as_it_was_read_before(file: str) -> None:
    assert reported(file) == stored(STORED)[file]


def write() -> None:
    """Rewrite the file; read its diff."""
    lines = [f" {json.dumps(file)}: {json.dumps(reported(file))}" for file in FILES]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    write()
