"""What accesses of kernels ask of memory, whose names say where their lanes go (fixtures/sources/requests.cu)."""

from __future__ import annotations

import pytest

from spillscan import scan
from spillscan.cli import main
from spillscan.reading.binary.fetch import texts_of
from spillscan.reading.binary.instructions import Code
from spillscan.reading.binary.requests import Memory, memory
from tests.conftest import FIXTURES

PATHS = {arch: str(FIXTURES / "binary" / f"requests-{arch}-13.0.cubin.zst") for arch in ("sm_80", "sm_90")}


def memory_of(arch: str, name: str) -> Memory:
    (kernel,) = (each for each in scan(PATHS[arch]).kernels if each.key.symbol == name)
    found = memory(Code(texts_of([kernel], {})[id(kernel)]))
    assert found is not None
    return found


@pytest.mark.parametrize("arch", PATHS)
@pytest.mark.parametrize(
    ("name", "unknown", "width", "expected", "why"),
    [
        ("beside", 0, 32, {(4, 4)}, "lanes side by side"),
        ("every_eighth", 0, 32, {(4, 4), (32, 4)}, "a sector each"),
        ("every_eighth", 0, 8, {(1, 1), (8, 1)}, "of rows of 8: lanes of one column take the same"),
        ("unknown_stride", 1, 32, {(4, 4)}, "what the host gives is not known"),
        ("column", 0, 32, {(4, 4), (1, 1), (32, 1)}, "all of one bank"),
        ("column", 0, 16, {(4, 4), (2, 1), (16, 1)}, "two rows of the tile, and two columns"),
        ("padded_column", 0, 32, {(4, 4), (1, 1)}, "each of its own bank"),
        ("same_for_all", None, 0, {(1, 1)}, "one address for all, of every launch"),
        ("doubles_in_a_loop", 0, 32, {(16, 8), (8, 8)}, "every second"),
        ("parted", 2, 32, {(4, 4)}, "lanes that go other ways, and leave loops one by one"),
        ("by_the_lane", 0, 0, {(4, 4), (2, 1)}, "the number of the lane is one of every launch"),
        ("narrow", 0, 32, {(16, 4), (4, 4)}, "fields of a structure"),
    ],
)
def test_requests(
    arch: str, name: str, unknown: int | None, width: int, expected: set[tuple[int, int]], why: str
) -> None:
    found = memory_of(arch, name)
    assert unknown in (None, found.instructions - found.known), why
    assert {each.asked[width] for each in found.requests if width in each.asked} == expected, why


@pytest.mark.parametrize("arch", PATHS)
def test_narrow_accesses_side_by_side(arch: str) -> None:
    assert [each[2:] for each in memory_of(arch, "narrow").narrow] == [("global", False, 4, 4)]
    assert {each.accesses for each in memory_of(arch, "same_for_all").narrow} <= {2, 4}
    assert memory_of(arch, "every_eighth").narrow == []


def test_depth_and_line() -> None:
    (each,) = (request for request in memory_of("sm_90", "doubles_in_a_loop").requests if request.excess)
    assert (each.source and each.source.line, each.depth, each.space, each.store, each.bytes) == (
        40,
        1,
        "global",
        False,
        8,
    )


def test_show_says_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    said = {}
    for name in ("column", "by_the_lane", "beside", "narrow"):
        assert main(["show", name, PATHS["sm_90"]][:3]) == 0
        said[name] = capsys.readouterr().out.partition("memory access, by a full warp: ")[2].splitlines()
    assert said["beside"][1:] == ["    none is known to take more than its bytes need"]
    assert said["column"][:2] == [
        "4 of 4 accesses known, 0 for every launch",
        "    requests.cu:18, shared load of 4 bytes: at least 32 wavefronts where 1 would hold its bytes"
        " (blockDim.x 32·n), 16 where 1 would (blockDim.x 16), 8 where 1 would (blockDim.x 8)",
    ]
    assert said["by_the_lane"][1].endswith("at least 2 wavefronts where 1 would hold its bytes (every launch)")
    assert said["narrow"][-1].endswith(
        "4 global loads of 4 bytes side by side: wider ones would do where their address is a multiple of 16"
    )
