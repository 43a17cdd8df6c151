"""One kernel over many builds, and `spillscan history`."""

from __future__ import annotations

import json
import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from msgspec.structs import replace

from spillscan import scan
from spillscan.cli import main
from spillscan.history.dataset import Unit, history, merge, open_dataset, records, write_batch
from spillscan.model import Build, Kernel, KernelKey, LaunchBounds, Usage
from spillscan.occupancy.launches import LaunchMap, parse_launch
from spillscan.output.errors import InputError
from tests.conftest import FIXTURES, sized
from tests.history.dataset import planted
from tests.history.dataset.support import append, command
from tests.reporting import payload_of
from tests.transcripts import replayed

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
    """Eight builds, appended out of order; the sixth lacks softmax, and the seventh has two copies of it."""
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


def test_builds_are_sorted_by_time_in_any_append_order(root: Path) -> None:
    held = open_dataset(str(root)).builds
    assert [build.label for build in held] == [f"b{at}" for at in range(8)]


@pytest.mark.parametrize(
    ("label", "day"),
    [
        ("2026-11-28", "2026-11-28"),
        ("1.2.dev20261128", "2026-11-28"),
        ("nightly_2026.11.28-2", "2026-11-28"),
        ("2026-02-31", ""),
        ("v2026.1", ""),
        ("1202611281", ""),
    ],
)
def test_a_label_may_contain_a_date(label: str, day: str) -> None:
    found = records.date_in(label)
    assert (f"{found:%Y-%m-%d}" if found else "") == day


def test_builds_are_ordered_by_the_dates_of_their_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for label, registers in (("2026-11-28", 40), ("2026-11-26", 32), ("2026-11-27", 40)):
        put(tmp_path, label, kernel("gemm", registers))
    main(["history", "--dataset", str(tmp_path), "--set", "max_register_growth=0"])
    out = capsys.readouterr().out
    assert "registers 32 → 40  2026-11-27\n" in out
    assert "in 3 builds (2026-11-26 to 2026-11-28)" in out
    main(["history", "--dataset", str(tmp_path), "--kernel", "gemm", "--metric", "registers"])
    assert "date" not in capsys.readouterr().out


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
    hints = {"gem": "did you mean gemm?", "sofmax*": "did you mean softmax?", "nothing*": "use one of gemm, softmax"}
    for pattern in (*hints, "x" * 5000, "\x1b", "'"):
        with pytest.raises(InputError, match="no kernel matches") as raised:
            series(root, pattern)
        assert raised.value.hint == hints.get(pattern, "use one of gemm, softmax")
    with pytest.raises(InputError, match="no kernel of sm_1 matches soft"):
        history.histories(open_dataset(str(root)), open_dataset(str(root)).builds, "soft*", LaunchMap(()), ["sm_1"])


def test_the_worst_copy_counts_and_missing_kernels_are_unknown(root: Path) -> None:
    (found,) = series(root, "softmax*")
    assert found.values("registers") == [40, 41, 42, 43, 44, None, 46, 47]
    assert found.copies == 2


def test_blocks_are_known_if_the_launch_is(root: Path) -> None:
    assert set(series(root, GEMM)[0].values("resident_blocks")) == {None}
    (found,) = series(root, GEMM, gemm="gemm*=256")
    assert found.values("resident_blocks") == [2, 2, None, 2, 2, 4, 4, 1]
    assert [(step.before, step.after, step.last, step.first) for step in history.steps(found, "resident_blocks")] == [
        (2, 4, 4, 5),
        (4, 1, 6, 7),
    ]


def test_steps_skip_unknown_values(root: Path) -> None:
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


@pytest.mark.parametrize("seed", range(1, sized(3, 6)))
def test_exactly_the_planted_changes_are_found(seed: int, tmp_path: Path) -> None:
    made = planted.past(random.Random(seed), *sized((12, 8), (300, 40)))
    assert {said.event for said in made.expected()} >= {"changed", "back", "gone", "new"}
    planted.write(made, tmp_path)
    assert planted.disagreements(made, tmp_path) == []


def test_kernels_are_followed_through_renames(tmp_path: Path) -> None:
    for at, scope in enumerate(("2ns", "2ns", "2nt")):
        put(tmp_path, f"b{at}", *(kernel(symbol.replace("2ns", scope), 40 + at) for symbol in (GEMM, SOFT)))
    for each in series(tmp_path, "*"):
        assert each.values("registers") == [40, 41, 42]
        assert [(event.state, event.last, event.first) for event in each.events] == [("renamed", 1, 2)]


def test_a_merge_changes_no_history(tmp_path: Path) -> None:
    made = planted.past(random.Random(11), 20, 12)
    planted.write(made, tmp_path)
    put(tmp_path, "b0", *made.kernels(0))  # a second commit of the same units
    merge.merge(str(tmp_path), open_dataset(str(tmp_path)).labels)
    assert planted.disagreements(made, tmp_path) == []


# ---- the command --------------------------------------------------------------------------------------------------


def write_nights(place: Path) -> None:
    """Twelve builds: gemm trades registers for spills in the ninth, softmax gets better, a kernel is born spilling."""
    for at in range(12):
        kernels = [kernel("_Z4gemmv", 128 if at < 8 else 64, 0 if at < 8 else 520)]
        kernels += [kernel("_Z4gemmv", 128 if at < 8 else 64, 0 if at < 8 else 520, arch="sm_80")]
        kernels += [kernel("_Z7softmaxv", 48, 0 if at > 4 else 96), *([kernel("_Z4bornv", 32, 8)] if at > 9 else [])]
        kernels += [kernel("_Z4wentv", 16)] * (at < 3)
        put(place, f"b{at:02}", *kernels, time=f"2026-01-{at + 1:02}", commit=f"{at:040}")


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("nights") / "data"
    write_nights(place)
    return place


TRANSCRIPT = Path(__file__).parent / "history.txt"


def test_the_command_prints_as_recorded(nights: Path) -> None:
    """``python -m tests.history.dataset.test_history`` records it again."""
    assert replayed(TRANSCRIPT, nights.parent) == TRANSCRIPT.read_text(encoding="utf-8")


def test_registers_for_spills_are_one_row_of_json(nights: Path) -> None:
    found = json.loads(command("history", "--dataset", nights, "-f", "json").out)
    gemm, born = found["regressions"]
    assert (gemm["kernels"], gemm["since"], gemm["before"], gemm["severity"]) == (2, "b08", "b07", "error")
    assert {name: (old, new) for name, old, new in gemm["change"]} == {
        "spill_bytes": (0, 520),
        "spill_store_bytes": (0, 520),
        "registers": (128, 64),
    }
    assert gemm["trend"] == [0] * 8 + [520] * 4
    assert (born["state"], born["since"]) == ("new", "b10")
    (softmax,) = found["improvements"]
    assert (softmax["since"], softmax["severity"]) == ("b05", None)
    assert [each["state"] for each in found["others"]] == ["gone"]
    assert [each["build"] for each in found["builds"]] == [f"b{at:02}" for at in reversed(range(12))]
    assert found["builds"][0]["spill_bytes"] == 1048


def test_a_regression_names_what_got_worse_first(tmp_path: Path) -> None:
    for at, name in enumerate(("base", "head")):
        append(tmp_path, f"b{at}", FIXTURES / "effects" / f"{name}.log", time=f"2026-01-0{at + 1}")
    found = json.loads(command("history", "--dataset", tmp_path, "-f", "json").out)["regressions"]
    steps = {row["name"].partition("(")[0]: row["change"] for row in found}
    assert steps["relax"][0] == ["shared_bytes", 0, 19456]
    assert [metric for metric, *_ in steps["pick"]] == ["stack_bytes", "registers"]
    chosen = ("--metric", "spill_bytes", "--metric", "shared_bytes")
    found = json.loads(command("history", "--dataset", tmp_path, *chosen, "-f", "json").out)["regressions"]
    assert [row["change"][0][0] for row in found if row["name"].startswith("relax")] == ["shared_bytes"]


def test_the_page_holds_the_tables(nights: Path, tmp_path: Path) -> None:
    page = tmp_path / "history.html"
    assert command("history", "--dataset", nights, "-f", f"html:{page}").status == 0
    payload = payload_of(page.read_text())
    assert [(each["title"], len(each["rows"]), each["folded"]) for each in payload["tables"]] == [
        ("Regressions", 2, False),
        ("Improvements", 1, False),
        ("Other changes", 1, True),
        ("Builds, newest first", 12, True),
    ]


def test_a_regression_has_its_cause(tmp_path: Path) -> None:
    found = next(iter(scan(FIXTURES / "binary" / "sass-sm_80-13.5.cubin.zst").kernels))
    for at, (threads, registers) in enumerate(((128, 40), (256, 96))):
        usage = replace(found.usage, registers=registers)
        bounds = LaunchBounds(max_threads=threads)
        put(tmp_path, f"b{at}", replace(found, usage=usage, launch_bounds=bounds), time=f"2026-01-0{at + 1}")
    (row,) = json.loads(command("history", "--dataset", tmp_path, "-f", "json").out)["regressions"]
    assert row["why"] == "launch bounds 128 threads → 256 threads"


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        write_nights(Path(folder) / "data")
        TRANSCRIPT.write_text(replayed(TRANSCRIPT, Path(folder)), encoding="utf-8")
