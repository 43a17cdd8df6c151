"""Damage to builds as JSON: cuts, gaps, painted bytes, values of wrong types, lost keys, lost kernels."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from spillscan import scan
from spillscan.output.terminal import Style
from spillscan.reports.formats import json as as_json
from spillscan.reports.report import Report
from tests.oracle.attacks import Attack, crashed, gate

NAME = "snapshots"
FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
SOURCES = (
    ("ptxas/spill-13.0.log",),
    ("ptxas/warnings-11.8.log",),
    ("ptxas/calls-c-12.9.log",),
    ("nvcc/rdc-13.0.log",),
    ("demo/head.log",),
    ("effects/head.log", "effects/head.sass.zst"),
    ("failures/make-13.0.log", "demo/base.log"),
    ("failures/ninja-syntax-13.0.log",),
    ("parallel/13.0/capture-7.log.zst",),
    ("binary/sass-sm_80-13.5.cubin.zst",),
    ("hostile/names.log",),
)


@dataclass(frozen=True, slots=True)
class Sample:
    """An undamaged snapshot that no gate passes."""

    name: str
    data: bytes
    options: tuple[str, ...]
    """With which ``check`` does not pass it."""


@cache
def samples() -> tuple[Sample, ...]:
    """Builds with findings, and builds with gaps."""
    found = []
    for names in SOURCES:
        paths = [FIXTURES / name for name in names]
        if all(path.exists() for path in paths):
            report = Report(kind="scan", build=scan(paths))
            data = b"".join(as_json.render(report, Style()))
            registers = [kernel.usage.registers or 0 for kernel in report.build.kernels]
            ways: tuple[tuple[str, ...], ...] = ((), ("--set", f"max_registers={max(registers) - 1}"))
            found += [Sample(names[0], data, way) for way in ways if gate({"build.json": data}, "check", *way)[0]]
    return tuple(found)


# ---- damage --------------------------------------------------------------------------------------------------------


def attack(chance: Random) -> Attack:
    """A damaged snapshot and its result."""
    sample = chance.choice(samples())
    name = chance.choice(tuple(_DAMAGES))
    data = _DAMAGES[name](chance, sample.data)
    status, said = gate({"build.json": data}, "check", *sample.options)
    failures = []
    if crashed(said):
        failures.append(f"crash: {said}")
    if status == 0 and not traceless(data, sample.data):
        failures.append("passed")
    return Attack(name, sample.name, data.decode("utf-8", "replace"), failures)


def _cut(chance: Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data))]


def _beheaded(chance: Random, data: bytes) -> bytes:
    return data[chance.randrange(1, len(data)) :]


def _gap(chance: Random, data: bytes) -> bytes:
    start = chance.randrange(len(data))
    end = start + chance.choice((1, 2, 8, 30, 100, 300, 1000, 4096))
    filling = chance.choice((b"", b"\0", b" ", b"~", b"\xff"))
    return data[:start] + filling * (min(end, len(data)) - start) + data[end:]


def _of_values(change: Callable[[Random, Any, Any], None]) -> Callable[[Random, bytes], bytes]:
    """Change something below one to five places of the document: a container and a key or an index of it. Something is
    lost in one, for what leaves no trace in one may in another."""

    def damage(chance: Random, data: bytes) -> bytes:
        document = json.loads(data)
        for _ in range(1 if change is _lose else chance.choice((1, 1, 2, 5))):
            places = list(_places(document))
            change(chance, *chance.choice(places))
        text = json.dumps(document)
        return re.sub('"!raw (.*?)!"', r"\1", text).encode()

    return damage


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


_WRONG: tuple[Any, ...] = (
    *("!raw NaN!", "!raw Infinity!", "!raw -Infinity!", "!raw 1e999!", "!raw 01!", "!raw nul!", "!raw [[[!"),
    *(-1, 1.5, 2**64, 10**40, -0.0, "7", "", "x", True, [], {}, [1], {"a": 1}, None),
)


def _wrong_type(chance: Random, container: Any, key: Any) -> None:
    old = container[key]
    kind = (int, float) if type(old) in (int, float) else type(old)
    wrong = [new for new in _WRONG if not isinstance(new, kind) or isinstance(new, bool)]
    container[key] = deepcopy(chance.choice([*wrong, -1]))


def _lose(chance: Random, container: Any, key: Any) -> None:
    del container[key]


def _many(chance: Random, data: bytes) -> bytes:
    """Nesting deeper than any reader follows."""
    at = chance.randrange(len(data))
    return data[:at] + chance.choice((b"[", b'{"a":')) * chance.choice((10, 2000, 200_000)) + data[at:]


_DAMAGES: dict[str, Callable[[Random, bytes], bytes]] = {
    "cut at its tail": _cut,
    "cut at its head": _beheaded,
    "gaps": _gap,
    "wrong types": _of_values(_wrong_type),
    "lost": _of_values(_lose),
    "nested": _many,
}


def traceless(data: bytes, whole: bytes) -> bool:
    """Whether ``data`` is a snapshot that ``scan`` could have written: other numbers or names in it, fewer issues."""
    try:
        found, true = (json.loads(each, parse_constant=_refuse) for each in (data, whole))
    except (ValueError, RecursionError):
        return False
    return bool(_shape(found) == _shape(true))


def _shape(value: Any, key: str = "") -> Any:
    """``value`` without what may be another in another build."""
    if isinstance(value, dict):
        return {name: _shape(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return None if key in _OPEN_LISTS else [_shape(each) for each in value]
    return type(value).__name__ if value is None or isinstance(value, bool) else key


_OPEN_LISTS = ("issues", "advisories", "origins", "reasons", "unknown_clauses", "hides")


def _refuse(text: str) -> None:
    raise ValueError(text)
