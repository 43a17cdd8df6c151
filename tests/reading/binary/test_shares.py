"""A file that several processes read: the same records in the same order, and a clear error where one dies."""

from __future__ import annotations

import mmap
import os
import pickle
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from spillscan.model import Reading
from spillscan.model.code import SassFunction
from spillscan.output.errors import SpillscanError
from spillscan.output.terminal import style_of
from spillscan.reading import binary, pipeline, workers
from spillscan.reading.binary import containers, fatbin
from spillscan.reading.binary.stated import Entries, FiguresPost, Functions, LostLines, Named, Stated
from spillscan.reading.binary.weight import weigh
from spillscan.reading.binary.window import DEFAULT, Budget, Window
from spillscan.reading.inputs.memory import Scratch
from spillscan.reports.formats import json
from spillscan.reports.report import Report
from tests.reading.binary.support import stored

pytestmark = pytest.mark.skipif(not workers.POSSIBLE, reason="needs fork")

OBJECTS = ("lz4-13.5.o", "fat-13.5.fatbin", "zstd-13.5.o", "plain-13.5.o")


@pytest.fixture
def mapped(tmp_path: Path) -> Iterator[mmap.mmap]:
    """One fat binary of all that the fixtures hold, damage in between."""
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
    alone = list(binary.items(mapped, "all.fatbin"))
    assert len(alone) > 10
    assert list(binary.items(bytes(mapped), "all.fatbin")) == alone
    monkeypatch.setattr(workers, "LEAST_BYTES", 1)
    for count in (2, 3):
        monkeypatch.setattr(workers, "processors", lambda count=count: count)
        assert list(binary.items(mapped, "all.fatbin")) == alone


def _shown(functions: Iterable[object]) -> bytes:
    build = pipeline.build_of(Reading(functions=[each for each in functions if isinstance(each, SassFunction)]))
    assert len(build.kernels) > 10
    return b"".join(json.render(Report(kind="scan", build=build, read=(build,)), style_of(None, False)))


def test_nothing_is_read_of_an_image_after_the_next(mapped: mmap.mmap, monkeypatch: pytest.MonkeyPatch) -> None:
    """All images are decompressed into the same memory."""
    alone = _shown(binary.items(mapped, "all.fatbin", live=True))
    given: list[bytearray] = []

    def memory(scratch: Scratch, size: int) -> bytearray:
        for each in given:
            each[:] = b"\xa5" * len(each)
        given.append(bytearray(size))
        return given[-1]

    monkeypatch.setattr(Scratch, "memory", memory)
    assert _shown(binary.items(mapped, "all.fatbin", live=True)) == alone
    assert len(given) > 5


def test_what_a_forked_process_decompresses_is_its_own() -> None:
    scratch = Scratch()
    memory = scratch.memory(100)
    memory[:4] = b"mine"

    def other() -> Iterator[bytes]:
        assert scratch.memory(50) is memory
        memory[:4] = b"this"
        yield memory[:4]

    with workers.Workers([other()], "nothing was made") as (worker,):
        assert list(worker.items()) == [b"this"]
    assert memory[:4] == b"mine"


def test_memory_that_there_is_not() -> None:
    with pytest.raises(MemoryError, match="bytes"):
        Scratch().memory(1 << 60)


def test_what_is_handed_over(mapped: mmap.mmap) -> None:
    """Functions by column, each figures once; with them, or instead, whatever else is stated."""
    functions = Functions(DEFAULT, len(mapped))
    images = containers.images(Window(mapped), Budget(DEFAULT, len(mapped)))
    every = [[*functions.of(image)] for image in images if isinstance(image, containers.Image)]
    assert sum(map(len, every)) > 10
    named = next(each for stated in every for each in stated if isinstance(each, Named))
    other: list[Stated] = [Entries(("kernel",)), LostLines("cut off")]
    blind = structs.replace(named, figures=structs.replace(named.figures, counts=None))
    ours, theirs = FiguresPost(), FiguresPost()
    for stated in (*every, [], other, [named, *other], [blind], [blind, named], *every):
        sent = pickle.dumps(ours.packed(iter(stated)))
        found = theirs.unpacked(pickle.loads(sent))
        assert list(found) == stated
    again = [theirs.unpacked(pickle.loads(pickle.dumps(ours.packed([named])))) for _ in range(2)]
    assert again[0][0].figures is again[1][0].figures


def test_a_process_that_dies(mapped: mmap.mmap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "LEAST_BYTES", 1)
    monkeypatch.setattr(workers, "processors", lambda: 2)
    parent, plain = os.getpid(), containers.Image.plain
    taken: list[containers.Image] = []

    def deadly(image: containers.Image, *scratch: Any) -> object:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        while not taken and os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT) is None:
            pass  # the other takes the next portion meanwhile
        taken.append(image)
        return plain(image, *scratch)

    monkeypatch.setattr(containers.Image, "plain", deadly)
    with pytest.raises(SpillscanError, match=r"all\.fatbin was not read: .* killed by signal 9"):
        list(binary.items(mapped, "all.fatbin"))


@pytest.mark.parametrize("possible", [0, 1])
def test_where_the_system_gives_fewer_processes(
    possible: int, mapped: mmap.mmap, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = list(binary.items(mapped, "all.fatbin"))
    made, fork, open_files = [], os.fork, len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0

    def scarce() -> int:
        if len(made) == possible:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        made.append(None)
        return fork()

    monkeypatch.setattr(os, "fork", scarce)
    monkeypatch.setattr(workers, "LEAST_BYTES", 1)
    monkeypatch.setattr(workers, "processors", lambda: 3)
    assert list(binary.items(mapped, "all.fatbin")) == alone
    assert len(made) == possible
    with pytest.raises(SpillscanError, match="all was not read: the system gives no other process: Resource"):
        workers.Workers([[1], [2]], "all was not read")
    assert not open_files or len(os.listdir("/proc/self/fd")) == open_files


def test_less_is_read_together_the_less_is_left() -> None:
    assert workers.portions([], [], 2) == [[]]
    assert workers.portions([0, 0], ["", ""], 2) == [[[0, 1]]]
    assert workers.portions([1, 2, 3], ["a", "b", "b"], 2) == [[[0], [1]], [[2]]]
    (several,) = workers.portions([1] * 10_000, [""] * 10_000, 1)
    assert [at for part in several for at in part] == [*range(10_000)]
    assert len(several[0]) > 6 * len(several[-1])  # none waits long for the last
    assert len(workers.portions([1] * 100_000, [""] * 100_000, 1)[0]) <= 512


@given(
    items=st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 100)), min_size=1, max_size=200),
    count=st.integers(2, 8),
)
def test_each_process_reads_few_kinds(items: list[tuple[str, int]], count: int) -> None:
    """In order, each thing once; the same to do for all, but for one portion; of no more kinds than there must be."""
    kinds, sizes = [kind for kind, _ in items], [size for _, size in items]
    shares = [[at for part in share for at in part] for share in workers.portions(sizes, kinds, count)]
    assert sorted(at for share in shares for at in share) == [*range(len(items))]
    assert all(share == sorted(share) for share in shares)
    fair, largest = sum(sizes) / len(shares), max(sizes)
    for share in shares:
        assert sum(sizes[at] for at in share) <= fair + len(set(kinds)) * (fair / 8 + largest)
    assert len(shares) == (count if len(set(kinds)) >= count else 1)
    assert sum(len({kinds[at] for at in share}) for share in shares) <= len(set(kinds)) + count - 1


def test_what_several_read_of_one_kind_is_read_in_turn() -> None:
    """So that what comes first in a file does not wait for its end."""
    one, other = workers.portions([10] * 1000, ["a", "b", "b", "b"] * 250, 2)
    assert {at for at in range(1000) if at % 4 == 0} <= {at for part in one for at in part}
    assert len(one) > 10 < len(other)
    for end in range(0, 1001, 4):
        before = [sum(at < end for part in share for at in part) for share in (one, other)]
        assert abs(before[0] - before[1]) < 100


def test_whoever_is_free_takes_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """In order, each once, whoever takes it."""
    monkeypatch.setattr(workers, "processors", lambda: 2)
    parent = os.getpid()
    theirs, ours = os.pipe(), os.pipe()
    met: list[int] = []

    def read(number: int) -> Iterator[tuple[int, int]]:
        if not met:  # each waits until the other has taken one
            own, other = (ours, theirs) if os.getpid() == parent else (theirs, ours)
            os.write(own[1], b".")
            os.read(other[0], 1)
            met.append(number)
        yield number, os.getpid()

    found = [item for _, items in workers.shared(range(200), [1] * 200, read, "it was not read", 50) for item in items]
    for end in (*theirs, *ours):
        os.close(end)
    assert [number for number, _ in found] == [*range(200)]
    assert {pid == parent for _, pid in found} == {True, False}


def test_processes_that_have_ended_are_seen_off() -> None:
    """Nobody waits for the end of one that has sent all; but they do not pile up."""
    with workers.Workers([iter([1, "two"])], "it was not read") as running:
        assert list(running[0].items()) == [1, "two"]
        process = workers._ending[-1]
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)
    with workers.Workers([iter([3])], "it was not read") as running:
        assert process not in workers._ending
        assert list(running[0].items()) == [3]


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


def test_what_is_written_of_it_is_the_same(mapped: mmap.mmap, monkeypatch: pytest.MonkeyPatch) -> None:
    functions = list(binary.items(mapped, "all.fatbin"))
    alone = _shown(functions)
    monkeypatch.setattr(json, "BATCH", 4)
    monkeypatch.setattr(json, "_LEAST_KERNELS", 1)
    for count in (2, 3):
        monkeypatch.setattr(workers, "processors", lambda count=count: count)
        assert _shown(functions) == alone
