"""Compile times: tables of `nvcc --time`, traces of `nvcc -fdevice-time-trace`, and what they have in common."""

from __future__ import annotations

import csv
import io
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from spillscan import cli, scan
from spillscan.model import Reading
from spillscan.reading import readers
from spillscan.reading.inputs import times
from spillscan.reading.inputs.source import Stream
from tests.conftest import FIXTURES, read_any, read_text

FOLDER = FIXTURES / "times"
RELEASES = ("13.0", "13.5")


def reading(text: str | bytes) -> Reading:
    data = text.encode() if isinstance(text, str) else text
    stream = Stream(io.BytesIO(data), "t")
    assert readers.reader_for(stream.head()) is times
    return times.read(stream, "t")


def table_by_hand(text: str) -> Counter[tuple[str, str, str]]:
    """(source, step, target) -> milliseconds: rows as a plain reader of CSV sees them; no name here holds a comma."""
    found: Counter[tuple[str, str, str]] = Counter()
    for row in list(csv.reader(io.StringIO(text)))[1:]:
        source, step, _, _, arch, _, spent, unit = (cell.strip() for cell in row)
        assert unit == "ms"
        found[source, step, arch] += float(spent)  # type: ignore[assignment]
    return found


@pytest.mark.parametrize("name", [f"{kind}-{release}.csv" for kind in ("spill", "rdc") for release in RELEASES])
def test_a_table_is_read_as_it_stands(name: str) -> None:
    found = read_any(FOLDER / name)
    assert not found.issues
    ours = {(each.file, each.tool, each.arch or ""): each.milliseconds for each in found.timings}
    theirs = table_by_hand(read_text(FOLDER / name))
    assert ours.keys() == theirs.keys()
    for key, spent in ours.items():
        assert spent == pytest.approx(theirs[key])


@pytest.mark.parametrize("release", RELEASES)
def test_a_trace_has_the_times_of_the_log(release: str) -> None:
    trace, log = read_any(FOLDER / f"spill-{release}.json.zst"), read_any(FOLDER / f"spill-{release}.log")
    traced = {(each.symbol, each.arch): each.milliseconds for each in trace.timings if each.kernel}
    printed = {(kernel.key.symbol, kernel.key.arch): kernel.compile_ms for kernel in log.kernels}
    assert len(printed) == 12
    assert traced.keys() == printed.keys()
    for key, spent in traced.items():
        assert spent == pytest.approx(printed[key], abs=0.002)


@pytest.mark.parametrize("release", RELEASES)
def test_a_trace_adds_up_to_its_tools(release: str) -> None:
    events = [each for each in json.loads(read_text(FOLDER / f"spill-{release}.json.zst"))["traceEvents"] if each]
    called = {each["pid"]: each["args"]["name"] for each in events if each["name"] == "process_name"}
    covered: Counter[str] = Counter()
    for pid, tool in called.items():  # the union of a process's events, counted once
        spans = sorted(
            (each["ts"], each["ts"] + each["dur"]) for each in events if each.get("ph") == "X" and each["pid"] == pid
        )
        end = 0
        for first, last in spans:
            covered[tool] += max(0, last - max(first, end))
            end = max(end, last)
    ours: Counter[str] = Counter()
    for each in read_any(FOLDER / f"spill-{release}.json.zst").timings:
        ours[each.tool] += each.milliseconds  # type: ignore[assignment]
    table = Counter[str]()
    for (_, tool, _), spent in table_by_hand(read_text(FOLDER / f"spill-{release}.csv")).items():
        table[tool] += spent  # type: ignore[assignment]
    for tool, spent in ours.items():
        assert spent == pytest.approx(covered[tool] / 1000, rel=1e-3)
        if table[tool] > 300:
            assert 0.9 * table[tool] <= spent <= 1.01 * table[tool]


def span(name: str, begin: float, lasts: float, **more: Any) -> dict[str, Any]:
    return {"ph": "X", "name": name, "ts": begin, "dur": lasts, **more}


@pytest.mark.parametrize(
    ("events", "expected", "why"),
    [
        ([span("a", 0, 9000)], {"a": 9}, "alone"),
        ([span("a", 0, 9000), span("b", 1000, 2000)], {"a": 7, "b": 2}, "one inside"),
        ([span("b", 1000, 2000), span("a", 0, 9000)], {"a": 7, "b": 2}, "in the order of their times"),
        ([span("a", 0, 9000), span("b", 0, 9000)], {"a": 0, "b": 9}, "one as long inside"),
        ([span("b", 0, 2000), span("a", 0, 9000)], {"a": 7, "b": 2}, "the longer of two that begin together holds it"),
        ([span("a", 0, 3000), span("b", 3000, 2000)], {"a": 3, "b": 2}, "one behind"),
        ([span("a", 0, 3000), span("b", 2000, 2000)], {"a": 2, "b": 2}, "one that begins inside and ends behind"),
        ([span("a", 0, 9000), span("b", 0, 5000), span("c", 1000, 1000)], {"a": 4, "b": 4, "c": 1}, "two levels"),
        ([span("a", 0, 9000, tid=0), span("b", 1000, 2000)], {"a": 7, "b": 2}, "no thread is the first"),
        ([span("a", 0, 9000, tid=1), span("b", 1000, 2000)], {"a": 9, "b": 2}, "threads do not hold each other's"),
        ([span("a", 0, 9000, pid=1), span("b", 1000, 2000)], {"a": 9, "b": 2}, "nor do processes"),
        ([span("a", 0, 9000, pid=0), span("b", 1000, 2000)], {"a": 7, "b": 2}, "no process is the first"),
        ([{"ph": "X", "name": "a", "dur": 9000}, span("b", 0, 1000)], {"a": 8, "b": 1}, "no time is the first"),
        ([{"ph": "X", "name": "a", "ts": 5}], {"a": 0}, "what has no length takes nothing"),
        ([{"ph": "B", "name": "a", "ts": 0, "dur": 9}], {}, "only complete events count"),
        ([span("a", 0, 1), span("a", 5, 2)], {"a": 0.003}, "equal parts are added up"),
    ],
)
def test_what_each_event_of_a_trace_takes_itself(
    events: list[dict[str, Any]], expected: dict[str, float], why: str
) -> None:
    found = reading(json.dumps({"otherData": {"targetArchs": []}, "traceEvents": events}))
    assert not found.issues
    assert {each.step: each.milliseconds for each in found.timings} == pytest.approx(expected), why


def test_what_an_event_of_a_trace_is_about() -> None:
    called = [
        {"ph": "M", "name": "process_name", "pid": 3, "args": {"name": "ptxas"}},
        {"ph": "M", "name": "thread_name", "pid": 3, "args": {"name": "x/a.cu [sm_90a]"}},
    ]
    spans = [
        span("Optimizing compilation unit", 0, 9000, pid=3, args={"detail": "_Z1kv"}),
        span("Schedule", 1000, 1000, pid=3, args={"name": "loop"}),
        span("Read", 9000, 1000, pid=3, args={"detail": "/tmp/tmpxft_000_a.ptx"}),
        span("Schedule", 20000, 1000, pid=3, args={"detail": "Schedule"}),
    ]
    found = reading(json.dumps({"otherData": {"targetArchs": []}, "traceEvents": called + spans}))
    assert [(each.file, each.arch, each.tool) for each in found.timings] == [("x/a.cu", "sm_90a", "ptxas")] * 4
    assert [(each.step, each.symbol, each.about, each.kernel, each.milliseconds) for each in found.timings] == [
        ("Schedule", "_Z1kv", "loop", False, 1.0),
        ("Optimizing compilation unit", "_Z1kv", "", True, 8.0),
        ("Read", "", "", False, 1.0),
        ("Schedule", "", "", False, 1.0),
    ]


def test_the_first_row_that_is_not_understood_is_named() -> None:
    head = "source file name , phase name , phase input files , phase output file , arch , tool, metric , unit\n"
    row = "a.cu , ptxas , x , y , sm_90 , nvcc , 1 , ms\n"
    for wrong in ("nothing\n", "x" * (2 << 20) + "\n"):
        (issue,) = reading(head + row + wrong + row + wrong).issues
        assert (issue.message, issue.origin and issue.origin.line) == ("2 rows are not understood", 3)


def test_names_with_commas_and_spaces() -> None:
    head = "source file name , phase name , phase input files , phase output file , arch , tool, metric , unit\n"
    rows = "a,b.cu , ptxas , /tmp/a,b.ptx  , /tmp/a,b.cubin , sm_90a , nvcc , 1.5000 , ms\n" + head
    rows += " , nvcc (driver) ,  , p q.o ,  , nvcc , 0.5 , ms\r\nx.cu ,  , x , y , compute_90 , nvcc , 2 , ms"
    found = reading(head + rows)
    assert not found.issues
    assert [(each.file, each.tool, each.arch, each.milliseconds) for each in found.timings] == [
        ("a,b.cu", "ptxas", "sm_90a", 1.5),
        ("", "nvcc (driver)", None, 0.5),
        ("x.cu", "", "compute_90", 2.0),
    ]


def test_what_is_damaged_is_an_issue_and_hides_no_sound_row() -> None:
    text = read_text(FOLDER / "rdc-13.5.csv")
    cut = reading(text[:-9])
    assert [issue.code for issue in cut.issues] == ["damaged-times"]
    assert len(cut.timings) == len(reading(text).timings) - 1 or cut.timings != reading(text).timings
    trace = read_text(FOLDER / "spill-13.5.json.zst")
    for end in (200, 5000, len(trace) - 3):
        damaged = reading(trace[:end])
        assert [issue.code for issue in damaged.issues] == ["damaged-times"]
        assert not damaged.timings


@pytest.mark.parametrize("event", ['"dur": -1', '"dur": 1e400', '"dur": "x"', '"dur": 1, "pid": 1e30', '"dur": null'])
def test_hostile_events(event: str) -> None:
    text = '{"otherData": {"targetArchs": []}, "traceEvents": [{}, {"ph": "X", "name": "n", ' + event + "}]}"
    assert [issue.code for issue in reading(text).issues] == ["damaged-times"]


def test_random_damage_never_raises() -> None:
    rng = random.Random(22)
    texts = [
        read_text(FOLDER / "rdc-13.5.csv").encode(),
        read_text(FOLDER / "spill-13.5.json.zst").encode()[:9000] + b"]}",
    ]
    for text in texts * 60:
        data = bytearray(text)
        for _ in range(rng.randrange(1, 9)):
            data[rng.randrange(150, len(data))] = rng.randrange(256)
        found = times.read(Stream(io.BytesIO(bytes(data)), "t"), "t")
        assert all(each.milliseconds >= 0 for each in found.timings)


def test_long_lines_take_no_time() -> None:
    head = b"source file name , phase name , phase input files , phase output file , arch , tool, metric , unit\n"
    for filler in (b" , ", b"a , ", b", ", b"   ,"):
        assert reading(head + filler * 300_000 + b"\n").issues


def shown(*arguments: Any, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    status = cli.main([str(each) for each in arguments])
    out, err = capsys.readouterr()
    return status, out, err


def test_a_trace_gives_kernels_their_times(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    text = read_text(FOLDER / "spill-13.5.log")
    log.write_text("".join(line for line in text.splitlines(True) if "Compile time" not in line))
    both = scan([log, FOLDER / "spill-13.5.json.zst"])
    printed = scan([FOLDER / "spill-13.5.log"])
    assert all(kernel.compile_ms is None for kernel in scan([log]).kernels)
    for ours, theirs in zip(both.kernels, printed.kernels, strict=True):
        assert ours.compile_ms == pytest.approx(theirs.compile_ms, abs=0.002)


def test_a_kernel_of_several_sources_takes_the_time_of_its_own() -> None:
    from msgspec.structs import replace

    from spillscan.model import Kernel, KernelKey, Origin, Timing, Usage
    from spillscan.reading.join import timed

    kernel = Kernel(key=KernelKey(symbol="k", arch="sm_90", unit="x/a.cu.o"), role="entry", usage=Usage())
    twin = replace(kernel, key=KernelKey(symbol="k", arch="sm_90", unit="b.cu.o"))
    trace = Timing(milliseconds=3.0, file="a.cu", arch="sm_90", symbol="k", kernel=True, origin=Origin(input="t"))
    assert [each.compile_ms for each in timed([kernel, twin], [trace])] == [3.0, None]
    assert [each.compile_ms for each in timed([kernel], [trace])] == [3.0]
    again = replace(trace, file="src/b.cu", milliseconds=5.0)
    assert [each.compile_ms for each in timed([kernel, twin], [trace, again])] == [3.0, 5.0]
    nameless = replace(kernel, key=KernelKey(symbol="k", arch="sm_90"))
    assert [each.compile_ms for each in timed([nameless], [trace, again])] == [None]
    elsewhere = replace(kernel, key=KernelKey(symbol="k", arch="sm_80"))
    assert [each.compile_ms for each in timed([elsewhere], [trace])] == [None]
