"""Pairing of several kernels of one name, one fact per row. Ties are decided the same way each time: the first with the
first. Typed by hand.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from spillscan.model import Kernel, KernelKey, Usage
from spillscan.naming.pairs import pair

MANY = [f"{number:03}" for number in range(70)]
TABLE = [
    # why; kernels before and after, as unit and registers; the units that are paired
    ("a unit that keeps its name", "a:32 b:40", "b:32 a:40", "a=a b=b"),
    ("equal figures under other units", "a:32 b:40", "x:40 y:32", "a=y b=x"),
    ("all equal: the first with the first", "a:32 b:32", "x:32 y:32", "a=x b=y"),
    ("all equal, one fewer: the last has none", "a:32 b:32 c:32", "x:32 y:32", "a=x b=y c="),
    ("equal ones beside another that changed", "a:32 b:32 c:40", "x:32 y:48 z:32", "a=x b=z c=y"),
    ("equal ones of which one is new: the first two are paired", "a:32 b:32", "x:32 y:32 z:32", "a=x b=y =z"),
    ("the nearest registers", "a:32 b:200", "x:208 y:40", "a=y b=x"),
    ("what is not known contradicts nothing", "a:32 b:40", "x:40 y:", "a=y b=x"),
    ("functions of unknown archs, equal", "a:32 b:40", "x:40 y:32", "a=y b=x"),
    ("functions of unknown archs, one side alike", "a:32 b:32", "x:40 y:48", "a=x b=y"),
    ("functions of unknown archs that could be crossed", "a:32 b:40", "x:32 y:48", "=x =y a= b="),
    ("functions of unknown archs, one more: which is new?", "a:32", "x:32 y:48", "=x =y a="),
    (
        "very many equals: the first with the first",
        " ".join(f"a{n}:32" for n in MANY),
        " ".join(f"x{n}:32" for n in [*MANY, "070"]),
        " ".join([*(f"a{n}=x{n}" for n in MANY), "=x070"]),
    ),
]


def kernel(unit: str, registers: str) -> Kernel:
    usage = Usage(registers=int(registers) if registers else None)
    return Kernel(key=KernelKey(symbol="k", arch="sm_80", unit=unit), role="entry", usage=usage)


@pytest.mark.parametrize(("why", "before", "after", "pairs"), TABLE, ids=[row[0] for row in TABLE])
def test_pairs(why: str, before: str, after: str, pairs: str) -> None:
    base, head = ([kernel(*each.split(":")) for each in side.split()] for side in (before, after))
    if "unknown archs" in why:
        base = [replace(each, role="function", key=replace(each.key, arch=None)) for each in base]
        head = [replace(each, role="function") for each in head]
    found = [(each.before, each.after) for each in pair(base, head)]
    units = ("=".join(side.key.unit if side else "" for side in sides) for sides in found)
    assert sorted(units) == sorted(pairs.split()), why
