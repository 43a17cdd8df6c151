"""A file that several processes read: the same records in the same order, and a clear error where one dies."""

from __future__ import annotations

import mmap
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from spillscan import binary, workers
from spillscan.binary import containers, fatbin
from spillscan.binary.weight import weigh
from spillscan.binary.window import DEFAULT
from spillscan.errors import SpillscanError
from tests.conftest import ROOT

pytestmark = pytest.mark.skipif(not workers.POSSIBLE, reason="needs fork")

FOLDER = ROOT / "fixtures" / "binary"
OBJECTS = [FOLDER / f"{name}.zst" for name in ("lz4-13.5.o", "fat-13.5.fatbin", "zstd-13.5.o", "plain-13.5.o")]


@pytest.fixture
def mapped(tmp_path: Path) -> Iterator[mmap.mmap]:
    """One fat binary of all that the fixtures hold, damage in between."""
    regions = []
    for path in OBJECTS:
        data = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())
        regions.append(data[data.find(fatbin.MAGIC) :])
    joined = b"".join([*regions, fatbin.MAGIC + b"\1" * 40, *regions])
    (tmp_path / "all.fatbin").write_bytes(joined)
    with (
        (tmp_path / "all.fatbin").open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer,
    ):
        yield buffer


def test_as_one_process_reads_it(mapped: mmap.mmap, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = list(binary.items(mapped, "all.fatbin"))
    assert len(alone) > 10
    assert list(binary.items(bytes(mapped), "all.fatbin")) == alone
    monkeypatch.setattr(workers, "LEAST_BYTES", 1)
    for count in (2, 3):
        monkeypatch.setattr(workers, "processors", lambda count=count: count)
        assert list(binary.items(mapped, "all.fatbin")) == alone


def test_a_process_that_dies(mapped: mmap.mmap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "LEAST_BYTES", 1)
    monkeypatch.setattr(workers, "processors", lambda: 2)
    parent, window = os.getpid(), containers.Image.window.fget

    def deadly(image: containers.Image) -> object:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return window(image)

    monkeypatch.setattr(containers.Image, "window", property(deadly))
    with pytest.raises(SpillscanError, match=r"all\.fatbin was not read: .* killed by signal 9"):
        list(binary.items(mapped, "all.fatbin"))


def test_neighbours_stay_together() -> None:
    assert workers.dealt([5, 5, 0, 10, 1, 9], 3) == [0, 0, 1, 1, 2, 2]
    assert workers.dealt([4, 6], 1) == [0, 0]
    assert workers.dealt([1] * 10, 2).count(0) == 4  # the first has more to do than to read
    assert workers.dealt([1] * 10, 8) == [1, 1, 2, 3, 4, 4, 5, 6, 6, 7]
    assert workers.dealt([], 2) == []
    assert set(workers.dealt([0, 0], 2)) == {0}


def test_what_files_weigh_is_the_same(mapped: mmap.mmap, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = weigh(mapped, len(mapped), DEFAULT, copies=True)
    assert len(alone.copies) > 10
    assert alone.damages
    assert weigh(bytes(mapped), len(mapped), DEFAULT, copies=True).sums == alone.sums
    monkeypatch.setattr(workers, "LEAST_BYTES", 1)
    for count in (2, 3):
        monkeypatch.setattr(workers, "processors", lambda count=count: count)
        several = weigh(mapped, len(mapped), DEFAULT, copies=True)
        assert (several.sums, several.copies, several.gaps) == (alone.sums, alone.copies, alone.gaps)
        assert [str(each) for each in several.damages] == [str(each) for each in alone.damages]
