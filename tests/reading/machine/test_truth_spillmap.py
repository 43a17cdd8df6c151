"""The spill map in words: slots, culprits and shares; one fact a row. Typed by hand."""

from __future__ import annotations

from typing import Any

import pytest

from spillscan.model.local import LocalAccess, LocalTraffic, SourceLine
from spillscan.reading.machine.spillmap import Culprit, culprits, share_text, slots, where

MAIN = SourceLine(file="src/main.cu", line=9)
INNER = SourceLine(file="C:\\lib\\gemm.cuh", line=118, inlined_at=MAIN)
DEEP = SourceLine(file="x.h", line=1, inlined_at=INNER)


def access(address: int, slot: int | None = 0, *, store: bool = False, **more: Any) -> LocalAccess:
    settings = {
        "kind": "spill",
        "bytes": 4,
        "depth": 0,
        "part": 0,
        "predicated": False,
        "last_use": False,
        "line": None,
    }
    settings |= {"form": "register" if slot is None else "stack"} | more
    return LocalAccess(address=address, slot=slot, store=store, **settings)


@pytest.mark.parametrize(
    ("accesses", "expected", "why"),
    [
        ([access(0, 4, store=True), access(16, 4)], [("R1+0x4", 1, 1, 0)], "a slot"),
        ([access(0, 8), access(16, 4)], [("R1+0x4", 0, 1, 0), ("R1+0x8", 0, 1, 0)], "by their offsets"),
        ([access(0, 8, depth=1), access(16, 4)], [("R1+0x8", 0, 1, 1), ("R1+0x4", 0, 1, 0)], "the innermost first"),
        ([access(0, depth=1), access(16, depth=2)], [("R1+0x0", 0, 2, 2)], "of its accesses"),
        ([access(0, depth=None)], [("R1+0x0", 0, 1, -1)], "whose depth may be unknown"),
        (
            [access(0, 0, kind="array", depth=3), access(16, 4)],
            [("R1+0x4", 0, 1, 0), ("R1+0x0", 0, 1, 3)],
            "spills before arrays",
        ),
        ([access(0, None), access(16, None, store=True)], [("register", 1, 1, 0)], "an address that is computed"),
        (
            [access(0, None, form="uniform"), access(16, 0), access(32, None)],
            [("R1+0x0", 0, 1, 0), ("register", 0, 1, 0), ("uniform", 0, 1, 0)],
            "stands beside the lowest slot",
        ),
        ([access(0, 1), access(16, None)], [("register", 0, 1, 0), ("R1+0x1", 0, 1, 0)], "and before all others"),
        (
            [access(0, 0, part=2), access(16, 0)],
            [("R1+0x0 (callee 2)", 0, 1, 0), ("R1+0x0", 0, 1, 0)],
            "a callee has slots of its own",
        ),
    ],
)
def test_slots(accesses: list[LocalAccess], expected: list[tuple[str, int, int, int]], why: str) -> None:
    found = slots(LocalTraffic(accesses=accesses))
    assert [(each.name, len(each.stores), len(each.loads), each.depth) for each in found] == expected, why


def test_culprits_are_summed_per_call_site() -> None:
    twice = SourceLine(file="x.h", line=2, inlined_at=MAIN)
    accesses = [access(0, source=twice), access(16, source=INNER, depth=1), access(32, source=DEEP, bytes=8)]
    accesses += [access(48, kind="array", source=MAIN), access(64, store=True)]
    local = LocalTraffic(accesses=accesses)
    found = {str(each.place): (each.bytes, each.depth) for each in culprits(local)}
    assert found == {"x.h:2": (4, 0), "C:\\lib\\gemm.cuh:118": (4, 1), "x.h:1": (8, 0)}
    assert str(culprits(local)[0].place) == "C:\\lib\\gemm.cuh:118", "a loop weighs more"
    assert sum(each.share for each in culprits(local)) < 1, "one line is unknown"
    (at_main,) = culprits(local, place_of=lambda line: MAIN)
    assert (at_main.bytes, at_main.depth, str(at_main.inner)) == (16, 1, "C:\\lib\\gemm.cuh:118")
    assert [(each.bytes, each.share) for each in culprits(local, "array")] == [(4, 1.0)]


@pytest.mark.parametrize(
    ("culprit", "text"),
    [
        (Culprit(MAIN, MAIN, 1, 4, 0), "main.cu:9: 4 bytes at depth 0"),
        (Culprit(MAIN, INNER, 1, 1064, 2), "gemm.cuh:118, inlined at main.cu:9: 1,064 bytes at up to depth 2"),
        (Culprit(MAIN, MAIN, 1, 64, None), "main.cu:9: 64 bytes at unknown depth"),
    ],
)
def test_a_culprit_in_words(culprit: Culprit, text: str) -> None:
    assert str(culprit) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0%"),
        (0.0049, "<1%"),
        (0.005, "<1%"),
        (0.006, "1%"),
        (0.62, "62%"),
        (0.994, "99%"),
        (0.9999, "99%"),
        (0.99995, "100%"),
        (1, "100%"),
    ],
)
def test_shares_in_words(share: float, text: str) -> None:
    assert share_text(share) == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (None, ""),
        (MAIN, "main.cu:9"),
        (INNER, "gemm.cuh:118, inlined at main.cu:9"),
        (DEEP, "x.h:1, inlined at gemm.cuh:118, inlined at main.cu:9"),
    ],
)
def test_where(source: SourceLine | None, text: str) -> None:
    assert where(source) == text
