"""A file that several processes read: the same records in the same order, and a clear error where one dies."""

from __future__ import annotations

import mmap
import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from spillscan.model import Reading
from spillscan.model.code import SassFunction
from spillscan.output.errors import SpillscanError
from spillscan.output.terminal import style_of
from spillscan.reading import pipeline, workers
from spillscan.reading.binary import fatbin, records
from spillscan.reading.binary.images import Image
from spillscan.reports.formats import json
from spillscan.reports.report import Report
from tests.reading.binary.support import stored

pytestmark = pytest.mark.skipif(not workers.POSSIBLE, reason="needs fork")

OBJECTS = ("lz4-13.5.o", "fat-13.5.fatbin", "zstd-13.5.o", "plain-13.5.o")


@pytest.fixture
def mapped(tmp_path: Path) -> Iterator[mmap.mmap]:
    """One fat binary with the contents of all fixtures, damage in between."""
    regions = []
    for name in OBJECTS:
        data = stored(name)
        regions.append(data[data.find(fatbin.MAGIC) :])
    joined = b"".join([*regions, fatbin.MAGIC + b"\1" * 40, *regions])
    (tmp_path / "all.fatbin").write_bytes(joined)
    with (
        (tmp_path / "all.fatbin").open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as buffer,
    ):
        yield buffer


def test_as_one_process_reads_it(mapped: mmap.mmap, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = list(records.items(mapped, "all.fatbin"))
    assert len(alone) > 10
    assert list(records.items(bytes(mapped), "all.fatbin")) == alone
    monkeypatch.setattr(workers, "LEAST_BYTES", 1)
    for count in (2, 3):
        monkeypatch.setattr(workers, "processors", lambda count=count: count)
        assert list(records.items(mapped, "all.fatbin")) == alone


def _shown(functions: Iterable[object]) -> bytes:
    build = pipeline.build_of(Reading(functions=[each for each in functions if isinstance(each, SassFunction)]))
    assert len(build.kernels) > 10
    return b"".join(json.render(Report(kind="scan", build=build, read=(build,)), style_of(None, False)))


def test_a_process_that_dies(mapped: mmap.mmap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "LEAST_BYTES", 1)
    monkeypatch.setattr(workers, "processors", lambda: 2)

    def deadly(image: Image) -> object:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(Image, "plain", deadly)
    with pytest.raises(SpillscanError, match=r"all\.fatbin was not read: .* killed by signal 9"):
        list(records.items(mapped, "all.fatbin"))


@pytest.mark.parametrize("possible", [0, 1])
def test_the_system_gives_fewer_processes(possible: int, mapped: mmap.mmap, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = list(records.items(mapped, "all.fatbin"))
    made, fork, open_files = [], os.fork, len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    def scarce() -> int:
        if len(made) == possible:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        made.append(None)
        return fork()

    monkeypatch.setattr(os, "fork", scarce)
    monkeypatch.setattr(workers, "LEAST_BYTES", 1)
    monkeypatch.setattr(workers, "processors", lambda: 3)
    assert list(records.items(mapped, "all.fatbin")) == alone
    assert len(made) == possible
    assert not open_files or len(os.listdir("/proc/self/fd")) == open_files
