"""Datasets grow old: what an earlier version wrote opens, is appended to, and is brought up to date."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from spillscan import scan
from spillscan.history.dataset import compaction, load_build, open_dataset, schema, write_batch
from spillscan.judging.compare.figures import figures
from spillscan.judging.compare.pairing import diff
from spillscan.model import Build
from tests.conftest import FIXTURES, ROOT, sized
from tests.history.dataset.support import BASE, HEAD, VERSION1, append, command, files, finished, held, plain, unit_of

EFFECTS = FIXTURES / "effects"
SHARING = sized(6, compaction.FEWEST_SHARING)
CUBIN = FIXTURES / "binary" / "bounds-13.5.cubin.zst"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    place = tmp_path / "data"
    shutil.copytree(VERSION1, place)
    return place


def test_the_old_dataset_is_one_of_an_older_version() -> None:
    import pyarrow.parquet

    assert {commit.version for commit in open_dataset(str(VERSION1)).commits} == {1} != {schema.VERSION}
    for part in (VERSION1 / "kernels").rglob("*.parquet"):
        reported = pyarrow.parquet.read_schema(part)
        assert reported.metadata[b"spillscan.schema_version"] == b"1"
        assert {field.name for field in schema.KERNELS} - set(reported.names) == {
            field.name for field in schema.KERNELS if field.since > 1
        }


def test_a_column_is_of_the_present_version_or_was_released_with_the_one_that_it_names() -> None:
    released = yaml.safe_load((VERSION1.parent / "columns.yaml").read_text(encoding="utf-8"))
    assert list(released) == list(range(1, schema.VERSION)), "a version that is past is on record"
    declared = {
        (field.since, table, field.name)
        for table, fields in schema.TABLES.items()
        for field in fields
        if field.since != schema.VERSION
    }
    known = {(v, table, name) for v, of in released.items() for table, names in of.items() for name in names}
    assert not declared - known, f"a new column says since={schema.VERSION}: {sorted(declared - known)}"
    assert declared == known
    for table, names in released[1].items():
        for part in (VERSION1 / table).rglob("*.parquet"):
            import pyarrow.parquet

            assert pyarrow.parquet.read_schema(part).names == names, "as the stored dataset proves"


def test_columns_are_only_ever_added() -> None:
    import pyarrow.parquet

    for table in schema.TABLES:
        for part in (VERSION1 / table).rglob("*.parquet"):
            reported, now = pyarrow.parquet.read_schema(part), schema.arrow_schema(table, folders=False)
            assert all(now.field(field.name).type == field.type for field in reported)
    assert all(field.since <= schema.VERSION for fields in schema.TABLES.values() for field in fields)


def _as_then(kernel: dict[str, Any]) -> dict[str, Any]:
    """Of a log nobody said then that there is no shared memory."""
    if kernel["sass"] is None and kernel["usage"]["shared_bytes"] == 0:
        kernel["usage"]["shared_bytes"] = None
    return kernel


def test_an_old_dataset_opens_and_tells_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # its uris are relative
    first, second = (load_build(str(VERSION1), label) for label in ("v1", "v2"))
    assert plain(first)["kernels"] == [_as_then(each) for each in plain(scan("fixtures/demo/base.log"))["kernels"]]
    inputs = ("fixtures/binary/bounds-13.5.cubin.zst", "fixtures/demo/head.log")
    whole = Build(kernels=tuple(kernel for path in inputs for kernel in scan(path).kernels))
    expected = [_as_then(each) for each in plain(whole)["kernels"]]
    for reported in expected:
        if reported["sass"] is not None:  # nobody asked for these then
            reported["dynamic_shared"] = None
            reported["sass"] |= {"maker": None, "digest": None, "register_cap": None}
    assert plain(second)["kernels"] == expected


def test_new_columns_of_old_rows_are_computed(old: Path) -> None:
    question = "SELECT symbol, arch, spill_bytes, spills_in_loops FROM kernels WHERE label = 'v2' ORDER BY ALL"
    asked = open_dataset(str(old)).query(question).fetchall()
    append(old, "new", HEAD, CUBIN)
    new = open_dataset(str(old)).query(question.replace("v2", "new")).fetchall()
    assert asked == new
    assert any(row[3] for row in asked)


def test_old_and_new_stand_side_by_side_and_compaction_makes_all_new(old: Path) -> None:
    append(old, "v1", HEAD)  # to a build of the older version
    append(old, "v3", BASE, time="2026-03-03")
    before = {label: plain(load_build(str(old), label)) for label in ("v1", "v2", "v3")}
    assert len(before["v1"]["kernels"]) == 22
    compaction.compact(open_dataset(str(old)))
    dataset = open_dataset(str(old))
    assert {commit.version for commit in dataset.commits} == {schema.VERSION}
    assert {label: plain(dataset.build(label)) for label in before} == before
    assert dataset.labels[:2] == ("v1", "v2")


def test_compaction_makes_few_files_and_changes_nothing(tmp_path: Path) -> None:
    logs = sorted((FIXTURES / "ptxas").glob("*-13.0.log"))[:5]
    for log in logs:
        append(tmp_path, "v1", log, log=log.name)
    append(tmp_path, "v1", *logs[:2])  # twice
    append(tmp_path, "v2", BASE)
    untouched = {name: data for name, data in files(tmp_path).items() if "label=v2" in name}
    before, opened = plain(load_build(str(tmp_path), "v1")), open_dataset(str(tmp_path))
    arches = len(opened.query("SELECT DISTINCT arch FROM kernels WHERE label = 'v1'").fetchall())
    done = command("history", "dataset", "compact", "--dataset", tmp_path, "-f", "csv")
    assert done.status == 0
    dataset = open_dataset(str(tmp_path))
    assert plain(dataset.build("v1")) == before
    assert len(list((tmp_path / "kernels" / "label=v1").rglob("*.parquet"))) == arches
    assert len(list((tmp_path / "commits" / "label=v1").iterdir())) == 1
    assert {name: data for name, data in files(tmp_path).items() if "label=v2" in name} == untouched
    assert len({commit.label for commit in dataset.commits}) == len(dataset.commits)
    assert [build.meta.get("log") for build in dataset.builds if build.label == "v1"] == [logs[-1].name]
    assert dataset.builds[0].first_commit < opened.builds[0].last_commit
    again = files(tmp_path)
    command("history", "dataset", "compact", "--dataset", tmp_path)
    assert files(tmp_path) == again


def test_a_compaction_that_was_killed_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for log in (BASE, HEAD):
        append(tmp_path, "v1", log)
    before = plain(load_build(str(tmp_path), "v1"))
    monkeypatch.setattr(compaction, "_delete", lambda *_: None)  # killed behind its commit
    compaction.compact(open_dataset(str(tmp_path)))
    monkeypatch.undo()
    assert len(list((tmp_path / "commits").rglob("*.json"))) == 3
    assert plain(load_build(str(tmp_path), "v1")) == before
    compaction.compact(open_dataset(str(tmp_path)))
    assert len(list((tmp_path / "commits").rglob("*.json"))) == 1
    assert len(list((tmp_path / "kernels").rglob("*.parquet"))) == 2
    assert plain(load_build(str(tmp_path), "v1")) == before


Builds = dict[str, Any]


def make_many(root: Path, count: int) -> Builds:
    """Small builds that differ, and what they hold."""
    logs = sorted((FIXTURES / "ptxas").glob("plain-1?.*.log"))[:4]
    for number in range(count):
        append(
            root, f"b{number:02}", logs[number % 4], *([CUBIN] if number == 3 else []), time=f"2026-01-{number + 1:02}"
        )
    return held(root)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Builds]:
    place = tmp_path_factory.mktemp("many")
    return place, make_many(place, SHARING)


@pytest.fixture
def many(made: tuple[Path, Builds], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builds:
    """As many small builds as share files, in ``tmp_path``, and what they hold."""
    place, made_of = made
    monkeypatch.setattr(compaction, "FEWEST_SHARING", SHARING)
    shutil.copytree(place, tmp_path, dirs_exist_ok=True)
    return made_of


def test_many_small_builds_share_files_and_read_the_same(many: Builds, tmp_path: Path) -> None:
    before = many
    asked = "SELECT * EXCLUDE (commit) FROM kernels ORDER BY label, unit_id, position"
    rows = open_dataset(str(tmp_path)).query(asked).fetchall()
    done = compaction.compact(open_dataset(str(tmp_path)))
    assert (done.labels, done.files_after) == (len(before), 3), "kernels, units, and a record"
    assert held(tmp_path) == before
    assert open_dataset(str(tmp_path)).query(asked).fetchall() == rows
    again = files(tmp_path)
    assert compaction.compact(open_dataset(str(tmp_path))).labels == 0
    assert files(tmp_path) == again
    assert not [each for each in tmp_path.rglob("*") if each.is_dir() and not any(each.iterdir())]


def test_what_shares_files_is_appended_to_and_compacted_again(many: Builds, tmp_path: Path) -> None:
    before = many
    compaction.compact(open_dataset(str(tmp_path)))
    log = Path(before["b00"]["kernels"][0]["origins"][0]["input"])
    unit = replace(unit_of(log), content_hash="another")  # what b00, b04, b08 and b12 share: a newer one of b04 alone
    write_batch(str(tmp_path), "b04", [(unit, scan(HEAD))], {"time": "2026-01-05"})
    append(tmp_path, "new", HEAD, time="2026-02-01")
    expected = before | {"b04": plain(scan(HEAD)), "new": plain(scan(HEAD))}
    for _ in range(2):
        dataset = open_dataset(str(tmp_path))
        assert held(tmp_path) == expected
        counts = dict(dataset.query("SELECT label, count(*) FROM kernels GROUP BY label").fetchall())
        assert counts == {label: len(each["kernels"]) for label, each in expected.items()}
        assert finished(str(tmp_path), "b04") == {(unit.uri, "another")}
        compaction.compact(dataset, ["b04"])
    assert len(open_dataset(str(tmp_path)).commits) == len(expected)
    assert len(list((tmp_path / "commits").rglob("*.json"))) == 2


def _kill(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_killed_compaction_of_several_builds_reads_the_same(
    many: Builds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = many
    for killed in ("put", "_delete"):
        with monkeypatch.context() as patched:
            patched.setattr(compaction, killed, _kill)
            with pytest.raises(KeyboardInterrupt):
                compaction.compact(open_dataset(str(tmp_path)))
        assert held(tmp_path) == before
    compaction.compact(open_dataset(str(tmp_path)), hours=0)
    assert held(tmp_path) == before
    assert len(files(tmp_path)) == 3


def test_what_is_left_over_is_swept_when_it_is_old(tmp_path: Path) -> None:
    append(tmp_path, "v1", BASE)
    append(tmp_path, "v2", HEAD)
    for record in (tmp_path / "commits" / "label=v2").iterdir():
        record.unlink()
    orphans = list(tmp_path.rglob("label=v2/**/*.parquet"))
    assert orphans
    compaction.compact(open_dataset(str(tmp_path)))
    assert all(orphan.exists() for orphan in orphans), "it may still be committed"
    for orphan in orphans:
        os.utime(orphan, (1, 1))
    append(tmp_path, "v2", HEAD)  # it was not dead
    compaction.compact(open_dataset(str(tmp_path)))
    assert plain(load_build(str(tmp_path), "v2")) == plain(scan(HEAD))
    for record in (tmp_path / "commits" / "label=v2").iterdir():
        record.unlink()
    for hours, swept in ((23, 0), (25, len(orphans))):
        for orphan in orphans:
            os.utime(orphan, (time.time() - hours * 3600,) * 2)
        assert compaction.compact(open_dataset(str(tmp_path))).swept == swept
    assert not any(orphan.exists() for orphan in orphans)
    assert plain(load_build(str(tmp_path), "v1")) == plain(scan(BASE))


@pytest.mark.parametrize(
    ("base", "head"),
    [
        ((BASE,), (HEAD,)),
        ((EFFECTS / "base.log", EFFECTS / "base.sass.zst"), (EFFECTS / "head.log", EFFECTS / "head.sass.zst")),
        ((FIXTURES / "ptxas" / "spill-12.9.log",), (FIXTURES / "ptxas" / "spill-13.5.log",)),
        ((FIXTURES / "identity" / "here-13.0.log",), (FIXTURES / "identity" / "there-13.5.log",)),
        ((FIXTURES / "binary" / "sass-sm_80-12.3.cubin.zst",), (FIXTURES / "binary" / "sass-sm_80-13.5.cubin.zst",)),
        ((FIXTURES / "nvcc",), (FIXTURES / "nvcc",)),
    ],
    ids=lambda paths: paths[0].name,
)  # fmt: skip
def test_builds_of_a_dataset_compare_as_their_inputs_do(
    base: tuple[Path, ...], head: tuple[Path, ...], tmp_path: Path
) -> None:
    from spillscan.history.dataset import Unit, write_batch

    kept = []
    for label, paths in (("v1", base), ("v2", head)):
        write_batch(str(tmp_path), label, [(Unit(uri="all", content_hash="1"), scan([*paths]))], {})
        kept.append(scan(f"{tmp_path}/@{label}"))
    ours, theirs = diff(*kept), diff(scan([*base]), scan([*head]))
    assert [(each.state, each.metrics, each.unknown) for each in ours] == [
        (each.state, each.metrics, each.unknown) for each in theirs
    ]
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.kernel.key == other.kernel.key
        assert figures(mine.kernel) == figures(other.kernel)


def test_commands_take_builds_of_a_dataset_where_they_take_logs(tmp_path: Path) -> None:
    root = tmp_path / "data"
    append(root, "v1", BASE)
    append(root, "v/2", HEAD)
    for words in (["diff"], ["diff", "--fail-on", "policy", "-f", "json"]):
        assert command(*words, f"{root}/@v1", f"{root}/@v/2") == command(*words, BASE, HEAD)
    for words in (["check", "--brief"], ["scan"], ["limiters", "--launch", "gemm*=256"]):
        assert command(*words, f"{root}/@v/2") == command(*words, HEAD)
    assert command("scan", f"{root}/@v3").err == f"spillscan: {root} has no build v3; the last ones are v1, v/2\n"
    assert command("scan", f"{tmp_path}/nowhere/@v1").status == 2


def test_small_commits_compact_themselves_where_it_pays(many: Builds, tmp_path: Path) -> None:
    before = files(tmp_path)
    compaction.compact_where_it_pays(str(tmp_path), but=many)
    assert files(tmp_path) == before, "they may still be appended to"
    compaction.compact_where_it_pays(str(tmp_path), many)
    assert len(files(tmp_path)) == 3
    assert held(tmp_path) == many
    again = files(tmp_path)
    append(tmp_path, "later", HEAD, time="2026-03-01")
    compaction.compact_where_it_pays(str(tmp_path), ["later"])
    assert files(tmp_path).items() >= again.items(), "of one more build it does not pay"
