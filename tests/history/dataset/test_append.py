"""Appends are complete and unique, whoever makes them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from spillscan import scan
from spillscan.history.dataset import Unit, load_build, open_dataset, write_batch
from spillscan.history.dataset.merge import merge
from spillscan.history.dataset.reading import verify
from spillscan.model import Build, Issue, Kernel, KernelKey, LaunchBounds, Usage
from spillscan.output.errors import InputError, UsageError
from tests.conftest import FIXTURES, ROOT, sized
from tests.history.dataset.support import BASE, HEAD, append, command, files, finished, held, plain, read, unit_of


@pytest.mark.parametrize("folder", sized(["demo", "sass"], ["demo", "nvcc", "binary", "sass", "hostile", "nvlink"]))
def test_everything_that_was_read_comes_back(folder: str, tmp_path: Path) -> None:
    build = scan(FIXTURES / folder)
    write_batch(str(tmp_path), "x", [(Unit(uri="all", content_hash="1"), build)], {})
    assert plain(load_build(str(tmp_path), "x")) == plain(build.named)


def test_live_peaks_and_sources_come_back(tmp_path: Path) -> None:
    dumps = sorted((FIXTURES / "sass").glob("*plr*")) + sorted((FIXTURES / "sass").glob("*-gi-*"))
    build = scan(dumps)
    write_batch(str(tmp_path), "x", [(Unit(uri="all", content_hash="1"), build)], {})
    assert plain(load_build(str(tmp_path), "x")) == plain(build.named)


def test_unknown_is_null_and_zero_is_zero(tmp_path: Path) -> None:
    kernels = (
        Kernel(key=KernelKey(symbol="a"), role="entry", usage=Usage()),
        Kernel(
            key=KernelKey(symbol="b", arch="sm_80"),
            role="entry",
            usage=Usage(registers=0, spill_store_bytes=0, spill_load_bytes=0, constant_bytes=()),
            final=False,
            launch_bounds=LaunchBounds(),
        ),
    )
    write_batch(str(tmp_path), "x", [(Unit(uri="u", content_hash="1"), Build(kernels=kernels))], {})
    assert load_build(str(tmp_path), "x").kernels == kernels
    rows = open_dataset(str(tmp_path)).query(
        "SELECT arch, registers, spill_bytes, kernel->'$.usage.constant_bytes' FROM kernels ORDER BY symbol"
    )
    assert rows.fetchall() == [(None, None, None, "null"), ("sm_80", 0, 0, "{}")]


def test_the_same_batch_is_the_same_files(tmp_path: Path) -> None:
    append(tmp_path, "v1", BASE, HEAD)
    before = files(tmp_path)
    append(tmp_path, "v1", HEAD, BASE)  # in another order
    after = files(tmp_path)
    assert {name: data for name, data in before.items() if name.endswith(".parquet")} == {
        name: data for name, data in after.items() if name.endswith(".parquet")
    }
    assert before.keys() == after.keys()


def test_overlapping_batches_count_each_unit_once(tmp_path: Path) -> None:
    small = FIXTURES / "ptxas" / "plain-13.0.log"
    for number, batch in enumerate(permutations((BASE, HEAD, small), 2)):
        append(tmp_path, "v1", *batch, batch=str(number))
    assert len(open_dataset(str(tmp_path)).commits) == 3
    expected = sum(len(scan(path).kernels) for path in (BASE, HEAD, small))
    assert len(load_build(str(tmp_path), "v1").kernels) == expected
    assert open_dataset(str(tmp_path)).query("SELECT count(*) FROM kernels").fetchall() == [(expected,)]
    assert finished(str(tmp_path), "v1") == {(unit.uri, unit.content_hash) for unit, _ in read(BASE, HEAD, small)}


def test_changed_records_replace_earlier_ones(tmp_path: Path) -> None:
    first, second = (replace(unit_of(path), uri="build.log") for path in (BASE, HEAD))
    for unit, path in ((first, BASE), (second, HEAD)):
        write_batch(str(tmp_path), "v1", [(unit, scan(path))], {})
    assert plain(load_build(str(tmp_path), "v1"))["kernels"] == plain(scan(HEAD))["kernels"]
    assert finished(str(tmp_path), "v1") == {("build.log", second.content_hash)}
    write_batch(str(tmp_path), "v1", [(first, scan(BASE))], {})  # and back again
    assert finished(str(tmp_path), "v1") == {("build.log", first.content_hash)}


def test_failures_are_kept_and_gates_hear_of_them(tmp_path: Path) -> None:
    gone = Unit(uri="gone.log", content_hash="", failure="timed out")
    poison = Unit(uri="poison.so", content_hash="77", failure="a process that read it was killed")
    write_batch(str(tmp_path), "v1", [(gone, None), (poison, None), *read(BASE)], {})
    build = load_build(str(tmp_path), "v1")
    assert [(issue.code, issue.severity, issue.message) for issue in build.issues] == [
        ("unreadable", "error", "timed out"),
        ("unreadable", "error", "a process that read it was killed"),
    ]
    here = unit_of(BASE)
    assert finished(str(tmp_path), "v1") == {(here.uri, here.content_hash), ("poison.so", "77")}
    assert finished(str(tmp_path), "v1", failed=False) == {(here.uri, here.content_hash)}


def test_a_reading_that_succeeds_beats_one_that_failed(tmp_path: Path) -> None:
    unit, build = read(BASE)[0]
    for turn in ((replace(unit, failure="killed"), None), (unit, build), (replace(unit, failure="killed again"), None)):
        write_batch(str(tmp_path), "v1", [turn], {})
    assert plain(load_build(str(tmp_path), "v1")) == plain(scan(BASE))
    unseen = Unit(uri=unit.uri, content_hash="", failure="no network")
    write_batch(str(tmp_path), "v1", [(unseen, None)], {})
    assert finished(str(tmp_path), "v1", failed=False) == {(unit.uri, unit.content_hash)}


def test_an_object_without_its_commit_does_not_count(tmp_path: Path) -> None:
    append(tmp_path, "v1", BASE)
    append(tmp_path, "v2", HEAD)
    for record in (tmp_path / "commits" / "label=v2").iterdir():
        record.unlink()
    assert open_dataset(str(tmp_path)).labels == ("v1",)
    assert finished(str(tmp_path), "v2") == frozenset()
    append(tmp_path, "v2", HEAD)
    assert plain(load_build(str(tmp_path), "v2")) == plain(scan(HEAD))


HOSTILE_LABELS = (
    "../../etc", "/", ".", "..", "a/b", "a=b", "a%2Fb", "label=x", "x y", "ü", "💥", "'; DROP TABLE kernels; --", "007",
    "1e5", "null", "NULL", "true", "2026-03-01", "a\nb", "\x1b[31mred", "*", "?", "[a]", "~", "a\\b", "$(id)", "-rf",
    "A", "a",
)  # fmt: skip


def test_labels_are_any_text(tmp_path: Path) -> None:
    root = tmp_path / "data"
    build = Build(kernels=(Kernel(key=KernelKey(symbol="k", arch="sm_80"), role="entry", usage=Usage()),))
    for label in HOSTILE_LABELS:
        write_batch(str(root), label, [(Unit(uri=label, content_hash="1"), build)], {"k": label})
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    dataset = open_dataset(str(root))
    assert set(dataset.labels) == set(HOSTILE_LABELS)
    assert all(dataset.build(label).kernels == build.kernels for label in HOSTILE_LABELS)
    assert set(dataset.query("SELECT label FROM kernels").fetchall()) == {(label,) for label in HOSTILE_LABELS}


@pytest.mark.parametrize("label", ["", "__HIVE_DEFAULT_PARTITION__", "\ud800", "x" * 201, "ü" * 50])
def test_invalid_labels_are_refused(label: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="label"):
        append(tmp_path, label, BASE)
    assert not list(tmp_path.iterdir())


def test_a_time_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a date"):
        append(tmp_path, "v1", BASE, time="yesterday")


def test_names_that_are_no_text_and_values_beyond_all_counting(tmp_path: Path) -> None:
    kernel = Kernel(key=KernelKey(symbol="a\udc80"), role="entry", usage=Usage(registers=10**30, barriers=3))
    write_batch(str(tmp_path), "v1", [(Unit(uri="/x\udcff", content_hash="1"), Build(kernels=(kernel,)))], {})
    (back,) = load_build(str(tmp_path), "v1").kernels
    assert (back.key.symbol, back.usage) == ("a\udc80", Usage(registers=10**30, barriers=3))


def test_write_errors_are_reported(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file\n")
    with pytest.raises(InputError, match="data is a file, not a dataset"):
        append(tmp_path / "data", "v1", BASE)


def test_other_folders_are_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no dataset at"):
        open_dataset(str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="is a file, not a dataset"):
        open_dataset(str(FIXTURES / "demo" / "head.log"))
    append(tmp_path, "v1", BASE)
    with pytest.raises(InputError, match="has no build v9; use one of the latest: v1"):
        load_build(str(tmp_path), "v9")
    record = next((tmp_path / "commits").rglob("*.json"))
    document = json.loads(record.read_text())
    for version in (1, 99):  # older and newer
        record.write_text(json.dumps(document | {"schema_version": version}))
        with pytest.raises(InputError, match=f"schema version {version}.*history audit INPUT"):
            open_dataset(str(tmp_path))
    document["parts"][0]["path"] = "kernels/../../../etc/passwd"
    record.write_text(json.dumps(document))
    with pytest.raises(InputError, match="not a valid commit record"):
        open_dataset(str(tmp_path))


@pytest.mark.parametrize("words", [("--kernel", "*"), (), ("query", "SELECT * FROM kernels")])
def test_parts_that_are_gone_take_one_line(words: tuple[str, ...], tmp_path: Path) -> None:
    append(tmp_path, "v1", BASE)
    held = files(tmp_path)
    for part in (tmp_path / "kernels").rglob("*.parquet"):
        part.unlink()
    done = command("history", "--dataset", tmp_path, *words)
    assert (done.status, done.out, done.err.count("\n")) == (2, "", 1)
    part = next(each for each in sorted(held) if "kernels" in each)
    assert f"v1: {tmp_path}/{part} is lost; `spillscan history verify --dataset {tmp_path}` lists" in done.err, (
        "whole, and with what helps"
    )


def test_a_lost_record_is_noticed(tmp_path: Path) -> None:
    append(tmp_path, "v1", BASE)
    append(tmp_path, "v2", BASE)
    for record in (tmp_path / "commits" / "label=v1").rglob("*.json"):
        record.unlink()
    done = command("history", "verify", "--dataset", tmp_path)
    assert done.status == 2
    why = "has no record: it was lost, or the audit was interrupted"
    assert f"commits/label=v1  {why}" in done.out
    done = command("history", "--dataset", tmp_path)
    assert (done.status, f"commits/label=v1 {why}" in done.err) == (2, True)


def test_a_damaged_build_is_repaired_once_all_of_its_files_are_read_again(tmp_path: Path) -> None:
    root = str(tmp_path)
    append(root, "v1", BASE)
    append(root, "v1", HEAD)
    merge(root, ["v1"])
    before = held(tmp_path)
    append(root, "v2", HEAD)
    next(tmp_path.glob("kernels/label=v1/*")).unlink()
    append(root, "v1", HEAD)
    merge(root, ["v1"])
    assert [each.labels for each in verify(root)] == [("v1",)], "BASE is still lost"
    append(root, "v1", BASE)
    merge(root, ["v1"])
    assert not verify(root)
    assert held(tmp_path)["v1"] == before["v1"]


def test_a_build_whose_audit_has_not_finished_is_left_out(tmp_path: Path) -> None:
    append(tmp_path, "v1", BASE)
    append(tmp_path, "v2", BASE)
    (tmp_path / "pending" / "label=v2").mkdir(parents=True)
    (tmp_path / "pending" / "label=v2" / "f00d").write_text("build/")
    why = "pending/label=v2/f00d marks an audit that has not finished"
    done = command("history", "--dataset", tmp_path)
    assert done.status == 2
    assert re.search(r"in 1 build \([\d-]{10}\)$", done.out, re.MULTILINE), "one date"
    assert f"builds missing from the result: v2: {tmp_path}/{why}; `spillscan history verify" in done.err
    assert why in command("scan", f"{tmp_path}/@v2").err
    assert why.replace(" ", "  ", 1) in command("history", "verify", "--dataset", tmp_path).out
    shutil.rmtree(tmp_path / "commits" / "label=v2")
    assert "more file" not in command("history", "--dataset", tmp_path).err, "one mark, one reason"


def test_threads_and_processes_append_at_once(tmp_path: Path) -> None:
    logs = sorted((FIXTURES / "ptxas").glob("plain-1?.*.log"))[:4]
    script = (
        "import sys; from pathlib import Path; from tests.history.dataset.support import append\n"
        "for path in sys.argv[2:]: append(sys.argv[1], 'v1', Path(path))"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    process = subprocess.Popen([*command, *map(str, logs[1:])], cwd=ROOT)
    threads = [threading.Thread(target=append, args=(tmp_path, "v1", *logs[at:])) for at in (0, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert process.wait() == 0
    whole = [kernel for path in logs for kernel in scan(path).kernels]
    assert plain(load_build(str(tmp_path), "v1"))["kernels"] == plain(Build(kernels=tuple(whole)))["kernels"]


def test_machine_code_without_local_memory_comes_back_as_it_was(tmp_path: Path) -> None:
    build = scan(FIXTURES / "binary" / "bounds-13.5.cubin.zst")
    write_batch(str(tmp_path), "v1", [(Unit(uri="a.cubin", content_hash="a"), build)], {})
    back = load_build(str(tmp_path), "v1").kernels
    assert any(kernel.sass is not None and not kernel.sass.local.accesses for kernel in build.kernels)
    assert plain(load_build(str(tmp_path), "v1")) == plain(build)
    assert all(kernel.sass is not None and kernel.sass.maker is not None for kernel in back)


def test_hidden_data_of_issues_is_kept(tmp_path: Path) -> None:
    issues = (
        Issue(code="truncated", message="cut"),
        Issue(code="truncated", message="cut", hides=("spills",), symbol="k"),
        Issue(code="truncated", message="cut", hides=()),
    )
    write_batch(str(tmp_path), "v1", [(unit_of(BASE), Build(issues=issues))], {})
    assert load_build(str(tmp_path), "v1").issues == issues
