"""One kernel over many builds, and the worst of one build."""

from __future__ import annotations

import json
import random
from functools import reduce
from itertools import pairwise
from operator import add
from pathlib import Path

import pytest
from msgspec.structs import replace

from spillscan import scan
from spillscan.history.dataset import Unit, answers, compaction, history, links, open_dataset, records, write_batch
from spillscan.model import Build, Kernel, KernelKey, LaunchBounds, Usage
from spillscan.occupancy.launches import LaunchMap, parse_launch
from spillscan.output import terminal
from spillscan.output.errors import InputError, UndecidedError
from spillscan.output.terminal import Style
from tests.conftest import FIXTURES
from tests.history.dataset import planted
from tests.history.dataset.support import command
from tests.reporting import payload_of

GEMM, SOFT = "_ZN2ns4gemmILi8EEEvPf", "_ZN2ns7softmaxIfEEvPT_"
REGISTERS = (96, 96, None, 128, 128, 64, 64, 255)
SPILLS = (0, 0, 0, 0, 8, 520, None, 1000)


def kernel(symbol: str, registers: int | None, spill: int | None = 0, arch: str = "sm_90a", unit: str = "") -> Kernel:
    usage = Usage(registers=registers, spill_store_bytes=spill, spill_load_bytes=None if spill is None else 0)
    return Kernel(key=KernelKey(symbol=symbol, arch=arch, unit=unit), role="entry", usage=usage)


def put(root: Path, label: str, *kernels: Kernel, **meta: str) -> None:
    write_batch(str(root), label, [(Unit(uri="build.log", content_hash=label), Build(kernels=kernels))], meta)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight builds, appended out of order; the sixth lost softmax, and two copies of it stand in the seventh."""
    place = tmp_path_factory.mktemp("history") / "data"
    order = (3, 0, 1, 2, 7, 6, 5, 4)
    for at in order:
        kernels = [kernel(GEMM, REGISTERS[at], SPILLS[at])]
        if at != 5:
            kernels.append(kernel(SOFT, 40 + at))
        if at == 6:
            kernels.append(kernel(SOFT, 33, unit="other.o"))
        put(place, f"b{at}", *kernels, time=f"2026-01-{at + 1:02}", number=str(at * 5))
    return place


def series(root: Path, pattern: str, **launch: str) -> list[history.Series]:
    dataset = open_dataset(str(root))
    launches = LaunchMap(tuple(parse_launch(text) for text in launch.values()))
    return history.histories(dataset, dataset.builds, pattern, launches)


def test_builds_stand_by_their_time_however_they_were_appended(root: Path) -> None:
    held = open_dataset(str(root)).builds
    assert [build.label for build in held] == [f"b{at}" for at in range(8)]
    assert [build.label for build in records.ordered(held, "number")] == [f"b{at}" for at in range(8)]
    with pytest.raises(InputError, match="8 builds have no meta 'x'"):
        records.ordered(held, "x")


@pytest.mark.parametrize(
    "pattern",
    [
        GEMM,
        "gemm",
        "ns::gemm<8>",
        "gemm<8>",
        "void ns::gemm<8>(float*)",
        "gemm*",
        "*emm<?>",
        "re:.*gemm.*",
        "_ZN2ns4g*",
    ],
)
def test_any_name_finds_a_kernel(pattern: str, root: Path) -> None:
    (found,) = series(root, pattern)
    assert found.canonical == GEMM
    assert found.values("registers") == list(REGISTERS)
    assert found.values("spill_bytes") == list(SPILLS)


def test_all_names_and_none(root: Path) -> None:
    assert [each.canonical for each in series(root, "*")] == [GEMM, SOFT]
    for pattern in ("gem", "nothing*", "re:gem", "x" * 5000, "\x1b", "'"):
        with pytest.raises(InputError, match="no kernel is called"):
            series(root, pattern)


def test_of_copies_the_worst_counts_and_what_is_gone_is_not_known(root: Path) -> None:
    (found,) = series(root, "softmax*")
    assert found.values("registers") == [40, 41, 42, 43, 44, None, 46, 47]
    assert found.copies == 2


def test_blocks_are_known_where_the_launch_is(root: Path) -> None:
    assert set(series(root, GEMM)[0].values("resident_blocks")) == {None}
    (found,) = series(root, GEMM, gemm="gemm*=256")
    assert found.values("resident_blocks") == [2, 2, None, 2, 2, 4, 4, 1]
    assert [(step.before, step.after, step.last, step.first) for step in history.steps(found, "resident_blocks")] == [
        (2, 4, 4, 5),
        (4, 1, 6, 7),
    ]


def test_steps_leap_over_what_is_not_known(root: Path) -> None:
    (found,) = series(root, GEMM)
    assert [(step.before, step.after, step.last, step.first) for step in history.steps(found, "registers")] == [
        (96, 128, 1, 3),
        (128, 64, 4, 5),
        (64, 255, 6, 7),
    ]
    assert [(step.before, step.after, step.last, step.first) for step in history.steps(found, "spill_bytes")] == [
        (0, 8, 3, 4),
        (8, 520, 4, 5),
        (520, 1000, 5, 7),
    ]


def test_a_kernel_is_the_same_in_every_checkout(tmp_path: Path) -> None:
    """The hash of an unnamed namespace is of the path: it is another one in each checkout."""
    for at, digest in enumerate(("8ef9f9cf", "16820cae")):
        symbol = f"_ZN42_GLOBAL__N__{digest}_7_names_cu_{digest}4kernEv"
        put(tmp_path, f"b{at}", kernel(symbol, 32 + at), time=f"2026-01-0{at + 1}")
    (found,) = series(tmp_path, "*kern*")
    assert found.values("registers") == [32, 33]


@pytest.mark.parametrize("seed", [1, 2])
def test_what_is_planted_is_found_and_nothing_else(seed: int, tmp_path: Path) -> None:
    """Small histories; `python -m tests.oracle.history_oracle` has large ones."""
    made = planted.past(random.Random(seed), 12, 8)
    assert {said.event for said in made.expected()} >= {"changed", "renamed", "back", "gone", "new"}
    planted.write(made, tmp_path)
    assert planted.disagreements(made, tmp_path) == []


def test_a_compaction_changes_no_history(tmp_path: Path) -> None:
    made = planted.past(random.Random(11), 20, 12)
    planted.write(made, tmp_path)
    pairs = list(pairwise(label for label in open_dataset(str(tmp_path)).labels))
    found = dict(links.found(open_dataset(str(tmp_path)), pairs))
    assert any(found.values())
    compaction.compact(open_dataset(str(tmp_path)))
    assert dict(links.found(open_dataset(str(tmp_path)), pairs)) == found
    assert planted.disagreements(made, tmp_path) == []


def test_history_sums_up_builds_and_says_where_they_jumped(tmp_path: Path) -> None:
    """What is not known of a kernel makes a total a lower bound, which is compared with its like alone."""
    spills = (0, 4, 4, None, 500, 504)
    for at, spill in enumerate(spills):
        meta = {"time": f"2026-01-0{at + 1}", "commit": f"{at}" * 40, "link": f'https://example.org/c?{at}|"<x>'}
        put(tmp_path, f"b{at}", kernel(GEMM, 96, spill), kernel(SOFT, 255, 100, arch="sm_80"), **meta)
    put(tmp_path, "b6", time="2026-01-07")
    done = json.loads(command("history", tmp_path, "--last", "3", "-f", "json").out)
    assert [build["spill_bytes"] for build in done["builds"]] == [100, 104, 104, 100, 600, 604, None]
    assert [build["spill_bytes_unknown"] for build in done["builds"]] == [0, 0, 0, 1, 0, 0, 0]
    jumps = [(each["total"], each["before"], each["after"], each["first_build"]) for each in done["jumps"]]
    assert jumps == [("spill_bytes", 104, 600, "b4"), ("spilling_kernels", 1, 2, "b1")]
    assert done["jumps"][0]["last_build_before"] == "b2", "of b3 nobody knows the total"
    assert {build["low_occupancy_kernels"] for build in done["builds"]} == {2, None}
    changed = [(each["metric"], each["before"], each["after"], each["first_build"]) for each in done["turns"]]
    assert changed[0] == ("spill_bytes", 500, 504, "b5")
    assert [each["name"] for each in done["archs"]] == []
    text = command("history", "--dataset", tmp_path, "--top", "2", "--threshold", "50").out
    assert "Jumps: a change of more than 50 % and thrice the usual one\n" in text
    assert "… 5 more (--all shows them)" in text
    lines = command("history", tmp_path, "-f", "markdown").out.splitlines()
    assert any("](https://example.org/c?5%7C%22%3Cx%3E)" in line for line in lines), "a link acts as one alone"
    assert not any("<x>" in line for line in lines)
    assert command("history", tmp_path, "--dataset", tmp_path).status == 2


def test_a_turn_is_followed_by_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = next(iter(scan(FIXTURES / "binary" / "sass-sm_80-13.5.cubin.zst").kernels))
    for at, (threads, registers) in enumerate(((128, 40), (256, 96))):
        usage = replace(found.usage, registers=registers)
        bounds = LaunchBounds(max_threads=threads)
        put(tmp_path, f"b{at}", replace(found, usage=usage, launch_bounds=bounds), time=f"2026-01-0{at + 1}")
    monkeypatch.setenv("COLUMNS", "60")
    lines = command("history", tmp_path).out.splitlines()
    at = next(at for at, line in enumerate(lines) if "blocks/SM" in line)
    assert lines[at + 1] == "  why: bounds: launch bounds 128 threads → 256 threads"
    turn = json.loads(command("history", tmp_path, "-f", "json").out)["turns"][0]
    assert turn["why"] == "bounds: launch bounds 128 threads → 256 threads"


def test_the_page_of_a_history_holds_what_its_tables_say(tmp_path: Path) -> None:
    for number in range(12):
        spill = 640 if number >= 8 else 0
        meta = {"time": f"2026-01-{number + 1:02}", "commit": f"{number:040}", "link": f"https://example.com/{number}"}
        kernels = [kernel("gemm", 64 + number // 6, spill), *([kernel("born", 32, 8)] if number > 9 else [])]
        put(tmp_path / "data", f"b{number:02}", *kernels, **meta)
    page = tmp_path / "history.html"
    assert command("history", tmp_path / "data", "-f", f"html:{page}").status == 0
    payload = payload_of(page.read_text())
    spills = next(each for each in payload["courses"] if each["label"] == "spills, B")
    assert spills["values"] == [0] * 8 + [640, 640, 648, 648]
    assert spills["jumps"] == [[7, 8, 0.0]]
    assert payload["builds"][8] == {
        "label": "b08",
        "date": "2026-01-09",
        "commit": "0" * 12,
        "link": "https://example.com/8",
    }
    document = json.loads(command("history", tmp_path / "data", "-f", "json").out)
    changes = next(each for each in payload["tables"] if each["title"].startswith("Got worse"))
    labels = [each["label"] for each in payload["builds"]]
    assert [[labels[at] for at in ends] for ends in changes["ends"]] == [
        [each["last_build_before"], each["first_build"]] for each in document["turns"]
    ]
    metrics = [each["label"] for each in payload["metrics"]]
    followed = {
        name: (there, dict(zip(metrics, columns, strict=True))) for name, _, there, *columns in payload["kernels"]
    }
    assert followed["born"][0] == [0, 0, 10, 1]
    assert followed["gemm"][1]["spills"] == [0, 0, 8, 640]
    assert followed["gemm"][1]["registers"] == [0, 64, 6, 65]


def test_lost_blocks_are_those_that_slots_would_hold(tmp_path: Path) -> None:
    bounded = replace(kernel(SOFT, 128), launch_bounds=LaunchBounds(max_threads=256), dynamic_shared=False)
    put(tmp_path, "x", kernel(GEMM, 64), bounded, kernel("_Z4freev", 16))
    dataset = open_dataset(str(tmp_path))
    ranking = answers.rank(dataset, "x", "lost-blocks", 10, LaunchMap((parse_launch("gemm*=256"),)))
    assert [(each.kernel.short_name, each.lost_blocks) for each in ranking.entries] == [("softmax", 6), ("gemm", 4)]
    assert ranking.unknown == 1
    put(tmp_path, "y", kernel("_Z4freev", 16))
    dataset = open_dataset(str(tmp_path))
    with pytest.raises(UndecidedError, match="is known to lose blocks"):
        answers.rank(dataset, "y", "lost-blocks", 10, LaunchMap())


@pytest.mark.parametrize("count", [1, 2, 39, 40, 41, 200, 1000])
@pytest.mark.parametrize("width", [10, 60, 100])
def test_charts_fit_and_show_the_worst(count: int, width: int) -> None:
    values: list[int | None] = [None if at % 7 == 3 and count > 2 else at for at in range(count)]
    *lines, ends = terminal.bars(values, "first", "last", Style(width=width))
    assert all(len(line) <= max(width, 19) for line in lines)
    assert lines[-1].endswith("─")
    assert f"{max(value for value in values if value is not None) or 1:,}" in lines[0]
    assert len(ends) <= max(width, 10 + len("first … last"))
    plain = terminal.bars(values, "", "", Style(width=width, ascii_only=True))[:-1]
    assert set("".join(plain)) <= set("0123456789 ,|#?+-")


def test_a_single_bad_build_among_many_is_seen() -> None:
    values: list[int | None] = [4] * 1000
    values[777] = 1
    assert "█" not in {
        line[10 + 38 * 777 // 1000]
        for line in terminal.bars(values, "a", "b", Style(width=49), fewer_is_worse=True)[:3]
    }
    assert "?" in "".join(terminal.bars([1, None, 2], "a", "b", Style(width=40)))


def test_compile_times_are_summed_exactly_in_whatever_order(tmp_path: Path) -> None:
    root = tmp_path / "data"
    timed = [replace(kernel(f"_Z2k{at}v", 8, arch=f"sm_{at}0"), compile_ms=at / 10) for at in range(1, 9)]
    assert reduce(add, (each.compile_ms or 0 for each in timed)) != 3.6, "as sum() has it before Python 3.12"
    put(root, "a", *timed)
    dataset = open_dataset(str(root))
    found = answers.totals(dataset, dataset.builds, LaunchMap(()), 0.5)
    assert found["label"]["a"]["compile_ms"] == answers.Sum(3.6)
