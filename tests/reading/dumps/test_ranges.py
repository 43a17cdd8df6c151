"""Several processes come to what one reader comes to, wherever a dump is cut and whatever stands at the cuts."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from spillscan.model import Issue
from spillscan.model.code import SassFunction
from spillscan.output.errors import SpillscanError
from spillscan.reading import pipeline, workers
from spillscan.reading.dumps import ranges
from spillscan.reading.dumps.common import DumpAccount
from spillscan.reading.dumps.cuobjdump import Dump
from spillscan.reading.dumps.ranges import Ranges, cuts
from spillscan.reading.inputs.source import Extent
from tests.reading.dumps.support import content, dumps

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked on Unix only")

ALL = b"".join(map(content, dumps()))
HEAD = b'\t\tFunction : %s\n\t.headerflags\t@"EF_CUDA_SM80 EF_CUDA_PTX_SM(EF_CUDA_SM80)"\n'
END = b"\t\t..........\n\n\n"
BARE = b"".join(
    HEAD % b"f%d" % number + b"        /*0000*/                   STL [R1], R2 ; /* 0x0 */\n" * 3 + END
    for number in range(6)
)
CUBIN = b"\nFatbin elf code:\n================\narch = %s\n\n\tcode for %s\n"
LIBRARY = b"\nmember lib.a:first.o:\n" + CUBIN % (b"sm_52", b"sm_52") + BARE + CUBIN % (b"sm_80", b"sm_80") + BARE

Result = tuple[list[SassFunction | Issue], DumpAccount]


@contextmanager
def _extent(path: Path, data: bytes) -> Iterator[Extent]:
    path.write_bytes(data)
    descriptor = os.open(path, os.O_RDONLY)
    yield Extent(descriptor, 0, len(data))
    os.close(descriptor)


def _one(path: Path) -> Result:
    with path.open("rb", buffering=0) as stream:
        dump = Dump(stream, "dump")
        return list(dump), dump.account


def _several(parts: list[Extent], size: int = 1 << 20) -> Result:
    reader = Ranges(parts, "dump", size)
    return list(reader), reader.account


INPUTS = {
    "fixtures": ALL,
    "windows": ALL.replace(b"\n", b"\r\n"),
    "library": LIBRARY,
    "bare": BARE,
    "truncated": LIBRARY[: -len(END) - 70],
    "no ends": LIBRARY.replace(END, b""),
    "noise": LIBRARY.replace(END, b"garbage\n\xff\n" * 7 + END),
    "messages": LIBRARY.replace(END, b"nvdisasm warning : half a line\n" + END),
    "no functions": b"\n".join([b"noise"] * 1000),
    "empty": b"",
}


@pytest.mark.parametrize("count", [2, 3, 7])
@pytest.mark.parametrize("name", INPUTS)
def test_as_one_reader(tmp_path: Path, name: str, count: int) -> None:
    with _extent(tmp_path / "dump", INPUTS[name]) as extent:
        parts = cuts(extent, count)
        assert [parts[0].begin, parts[-1].end] == [0, len(INPUTS[name])]
        assert all(before.end == after.begin for before, after in pairwise(parts))
        assert _several(parts) == _one(tmp_path / "dump")


@pytest.mark.parametrize("name", ["library", "noise", "no ends"])
def test_cut_before_any_function(tmp_path: Path, name: str) -> None:
    """The cubin's header stands before the cut, right before it, or in the range."""
    data = INPUTS[name]
    with _extent(tmp_path / "dump", data) as extent:
        wanted = _one(tmp_path / "dump")
        at = data.find(b"\t\tFunction", 1)
        while at > 0:
            parts = [extent._replace(end=at), extent._replace(begin=at)]
            assert _several(parts) == wanted
            at = data.find(b"\t\tFunction", at + 1)


def test_cuts_are_functions(tmp_path: Path) -> None:
    """A header's text inside of a line, and a header without a name, are none."""
    data = b"x\t\tFunction : no\n\t\tFunction : \n" * 50 + BARE
    with _extent(tmp_path / "dump", data) as extent:
        for part in cuts(extent, 9)[1:]:
            assert data[part.begin :].startswith(b"\t\tFunction : f")


def test_a_process_that_dies_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(*_: object) -> Iterator[object]:
        yield os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(ranges, "_share", die)
    with (
        _extent(tmp_path / "dump", ALL) as extent,
        pytest.raises(SpillscanError, match="was killed by signal 9"),
    ):
        _several(cuts(extent, 2))


def test_a_process_that_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "_BEFORE", None)
    with _extent(tmp_path / "dump", ALL) as extent, pytest.raises(SpillscanError, match="failed"):
        _several(cuts(extent, 2))


def test_nobody_is_left(tmp_path: Path) -> None:
    """A caller that stops early leaves no process behind."""
    others = _children()
    with _extent(tmp_path / "dump", ALL * 4) as extent:
        items = iter(Ranges(cuts(extent, 3), "dump"))
        next(items)
        assert _children() > others
        items.close()  # type: ignore[attr-defined]
    assert _children() <= others


def _children() -> set[str]:
    """Processes that this one has started and not waited for; other tests of this process may keep some."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {number for task in tasks for number in task.read_text().split()}


def test_a_large_file_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the front door: the same build, whatever the number of processors."""
    path = tmp_path / "all.sass"
    path.write_bytes(ALL)
    alone = pipeline.scan(path)
    cut: list[int] = []
    several = ranges.Ranges.__init__

    def counting(self: Ranges, parts: list[Extent], origin: str) -> None:
        cut.append(len(parts))
        several(self, parts, origin)

    monkeypatch.setattr(ranges, "LEAST_BYTES", 1 << 16)
    monkeypatch.setattr(workers, "processors", lambda: 3)
    monkeypatch.setattr(ranges.Ranges, "__init__", counting)
    assert pipeline.scan(path) == alone
    assert cut == [3 * ranges.TURNS]
