"""Truth table of :mod:`spillscan.naming.pairs`: which kernel of a base is which of a head, in both orders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from spillscan.model import Kernel, LaunchBounds
from spillscan.model.code import SassStats
from spillscan.naming.pairs import Pair, pair
from tests.reporting import kernel

TABLE = yaml.safe_load(Path(__file__).with_name("pairs.yaml").read_text(encoding="utf-8"))


def kernel_of(row: str) -> tuple[str, Kernel]:
    """A kernel of the table and its label."""
    label, *words = row.split()
    given = {"unit": label if ".o" in label else "", "symbol": "saxpy", "registers": "32", "arch": "sm_90"}
    given |= dict(word.split("=", 1) for word in words)
    symbol = TABLE["symbols"].get(given["symbol"], given["symbol"])
    registers = int(given["registers"]) if given["registers"] else None
    made: Any = kernel(symbol, registers=registers, arch=given["arch"] or None, unit=given["unit"])  # type: ignore[arg-type]
    if loads := int(given.get("loads", 0)):
        opcodes = (("FFMA", 400 - loads), ("LDG", loads))
        made = replace(made, sass=SassStats(instructions=400, code_bytes=6400, opcodes=opcodes))
    if code := given.get("code"):
        stats = SassStats(instructions=100, code_bytes=1600, opcodes=(("HMMA", 16),), digest=code)
        made = replace(made, sass=stats)
    if threads := int(given.get("threads", 128 if "tile" in given else 0)):
        made = replace(made, launch_bounds=LaunchBounds(required_threads=threads))
    tile = (("tile", given["tile"]),) if "tile" in given else ()
    return label, replace(made, configuration=tile, role=given.get("role", "entry"))


def said(pairs: Sequence[Pair], labels: dict[int, str]) -> set[str]:
    """The pairs as the table has them."""
    return {
        f"{labels[id(before)] if before else ''}{'~' if renamed else '='}{labels[id(after)] if after else ''}"
        for before, after, renamed in pairs
    }


@pytest.mark.parametrize("row", TABLE["rows"], ids=lambda row: row["why"])
def test_pairs(row: dict[str, Any]) -> None:
    base, head = ([kernel_of(each) for each in row[side]] for side in ("base", "head"))
    labels = {id(made): label for label, made in (*base, *head)}
    ours, theirs = ([made for _, made in side] for side in (base, head))
    assert said(pair(ours, theirs), labels) == set(row["pairs"].split())


def test_families_may_be_kept_apart() -> None:
    (_, ours), (_, theirs) = kernel_of("a"), kernel_of("b arch=sm_90a")
    assert said(pair([ours], [theirs], families=False), {id(ours): "a", id(theirs): "b"}) == {"a=", "=b"}


@pytest.mark.parametrize("count", [100, 5000])
def test_of_many_equals_the_first_is_the_first(count: int) -> None:
    base = [kernel("saxpy", registers=20 + at % 100, unit=f"a{at}.o") for at in range(count)]
    head = [kernel("saxpy", registers=20 + at % 100, unit=f"b{at}.o") for at in range(count - 10)]
    pairs = [(before.key.unit[1:], after.key.unit[1:]) for before, after, _ in pair(base, head) if before and after]
    assert len(pairs) == count - 10
    assert all(before == after for before, after in pairs)
