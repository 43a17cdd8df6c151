"""nvdisasm's text says the same of a cubin as cuobjdump, and more."""

from __future__ import annotations

from pathlib import Path

import pytest

from spillscan.model import Issue
from spillscan.model.code import FunctionUsage, SassFunction
from spillscan.output.errors import InputError
from spillscan.reading import disassembly as sass
from tests.reading.disassembly.support import FIXTURES, content

TEXTS = sorted(path for path in FIXTURES.glob("nvdisasm-*") if "manifest" not in path.name)
LISTINGS = sorted(FIXTURES.glob("res-usage-*"))


def functions(path: Path) -> list[SassFunction]:
    items = list(sass.reader([content(path)], path.name))
    assert not [item for item in items if isinstance(item, Issue)]
    return [item for item in items if isinstance(item, SassFunction)]


def twin(path: Path) -> Path | None:
    """The cuobjdump dump of the same cubin by the same tools."""
    _, arch, version = path.name.partition(".sass")[0].rsplit("-", 2)
    return next(iter(FIXTURES.glob(f"cuobjdump-{arch}-{version}.sass*")), None)


@pytest.mark.parametrize(
    ("path", "other"), [(path, other) for path in TEXTS if (other := twin(path))], ids=lambda path: path.name
)
def test_as_cuobjdump(path: Path, other: Path) -> None:
    ours = {function.symbol: function for function in functions(path)}
    theirs = {function.symbol: function for function in functions(other)}
    assert ours.keys() == theirs.keys()
    for symbol, function in ours.items():
        stats, wanted = function.stats, theirs[symbol].stats
        assert function.arch == theirs[symbol].arch
        mine, yours = dict(stats.opcodes), dict(wanted.opcodes)
        if "-plr-" in path.name:  # leaves out the padding
            mine.pop("NOP", 0), yours.pop("NOP", 0)
        assert mine == yours
        assert [(a.address, a.store, a.bytes, a.slot, a.depth) for a in stats.local.accesses] == [
            (a.address, a.store, a.bytes, a.slot, a.depth) for a in wanted.local.accesses
        ]
        assert stats.local.spill == wanted.local.spill


def test_annotations() -> None:
    path = next(path for path in TEXTS if "-c-sm_90a-13.5" in path.name)
    found = functions(path)
    assert {f.stats.local.evidence for f in found if f.stats.local.spill.accesses} == {"annotation"}


def test_source_lines() -> None:
    path = next(path for path in TEXTS if "-gi-sm_80-13.5" in path.name)
    accesses = [access for function in functions(path) for access in function.stats.local.accesses]
    assert accesses
    assert all(access.source for access in accesses)
    assert any(access.source and access.source.inlined_at for access in accesses) or all(
        access.source and access.source.line > 0 for access in accesses
    )


def test_live_registers() -> None:
    path = next(path for path in TEXTS if "-plr-sm_75" in path.name)
    for function in functions(path):
        peak, registers = function.stats.live_peak, function.stats.registers
        assert peak
        assert 0 < peak.registers <= 255
        assert registers is None or peak.registers <= registers


@pytest.mark.parametrize("path", LISTINGS, ids=lambda path: path.name)
def test_resource_listings(path: Path) -> None:
    items = list(sass.reader([content(path)], path.name))
    assert items
    assert all(isinstance(item, FunctionUsage) and item.usage.registers is not None for item in items)


def test_json_is_refused() -> None:
    head = b'[\n  {"ELF":{"SM":{"version":{"major":9,"minor":0}},"Producer":"nvdisasm"}},\n  [\n'
    with pytest.raises(InputError, match="nvdisasm -json, which is not supported"):
        sass.reader([head], "code.json")
