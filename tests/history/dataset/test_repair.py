"""A file that is lost or damaged takes its own build out, is named, and all that is not in it is restored."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spillscan.history.dataset import compaction, load_build, open_dataset
from spillscan.history.dataset.repair import repair, verify
from tests.conftest import FIXTURES, sized
from tests.history.dataset.support import BASE, HEAD, append, command, files, finished, held, plain

QUESTION = "SELECT label, count(*) AS n FROM kernels GROUP BY ALL ORDER BY ALL"


def make(root: Path) -> None:
    """Two builds, one of two commits, and one with issues."""
    append(root, "v1", BASE, time="2026-01-01")
    append(root, "v1", HEAD, time="2026-01-01")
    append(root, "v2", FIXTURES / "hostile" / "names.log", time="2026-01-02")


def make_shared(root: Path) -> None:
    """Builds that share their files, and one that has its own."""
    for number in range(compaction.FEWEST_SHARING):
        append(root, f"b{number:02}", BASE, time=f"2026-01-{number + 1:02}")
    compaction.compact(open_dataset(str(root)))
    append(root, "own", HEAD, time="2026-02-01")


def ways(rng: random.Random, data: bytes) -> tuple[bytes | None, ...]:
    """What is left of a file that is truncated, lost, or has one flipped bit."""
    at, bit = rng.randrange(4, len(data)), 1 << rng.randrange(8)
    return data[: len(data) // 2], None, data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]


def harmed(rng: random.Random, sound: Path) -> Iterator[tuple[str, bytes | None]]:
    """Each file truncated, lost, or with one flipped bit; each table is met with all three."""
    whole = files(sound)
    of_table = Counter(name.split("/")[0] for name in whole)
    met = Counter[str]()
    for name, data in whole.items():
        table = name.split("/")[0]
        several = ways(rng, data)
        for bad in several if of_table[table] < len(several) else (several[met[table] % len(several)],):
            yield name, bad
        met[table] += 1


def test_whatever_file_is_harmed_the_others_answer_and_the_rest_is_restored(tmp_path: Path) -> None:
    sound = tmp_path / "sound"
    make(sound)
    assert verify(str(sound)) == []
    assert command("history", "dataset", "verify", "-d", sound).out == "all is sound\n"
    before = held(sound)
    work = tmp_path / "work"
    rng = random.Random(5)
    for name, bad in harmed(rng, sound):
        owner = name.split("label=")[1].split("/")[0]
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(sound, work)
        if bad is None:
            (work / name).unlink()
        else:
            (work / name).write_bytes(bad)
        found = verify(str(work))
        if not found:
            assert name.endswith(".json"), name
            assert held(work) == before, "white space of a record"
            continue
        assert [(each.path, each.labels) for each in found] == [(name, (owner,))]
        if not (bad is None and name.endswith(".json")):  # a record that is lost is known to nobody who only reads
            done = command("history", "query", QUESTION, "-d", work, "-f", "csv")
            assert done.status == 2
            assert done.err.startswith(f"spillscan: left out: {owner}: {work}/{name} ")
            other = "v2" if owner == "v1" else "v1"
            assert done.out.split() == ["label,n", f"{other},{len(before[other]['kernels'])}"]
            assert plain(load_build(str(work), other)) == before[other]
            assert command("history", "top", work, "--label", owner).status == 2
        repair(str(work))
        assert verify(str(work)) == []
        after = held(work)
        assert all(after[label] == kept for label, kept in before.items() if label != owner)
        if name.startswith("commits"):
            assert after == before
        elif name.startswith("kernels"):
            kernels = after[owner]["kernels"]
            assert len(kernels) < len(before[owner]["kernels"])
            assert kernels or owner == "v2", "its only file of kernels"
            assert all(kernel in before[owner]["kernels"] for kernel in kernels)
        if not name.startswith("commits"):
            assert said_lost(after[owner]) == [name]
        make(work)  # audited again
        assert held(work) == before


def said_lost(build: dict[str, Any]) -> list[str]:
    """The files that gaps of a build name."""
    gaps = [each["message"] for each in build["issues"] if each["code"] == "unreadable"]
    return [word for message in gaps for word in message.split() if word.endswith((".parquet", ".json"))]


@pytest.mark.parametrize("table", ["kernels", "units", "issues", "commits"])
@pytest.mark.parametrize("batches", [1, 2])
def test_each_file_of_a_batch_that_is_lost_leaves_a_gap(table: str, batches: int, tmp_path: Path) -> None:
    """But the record, which appears twice."""
    logs = [FIXTURES / "hostile" / "names.log", BASE][:batches]
    for log in logs:
        append(tmp_path, "v1", log)
    before = held(tmp_path)
    found = sorted(path for path in (tmp_path / table).rglob("*.*") if path.is_file())
    found[0].unlink()
    repair(str(tmp_path))
    assert verify(str(tmp_path)) == []
    assert said_lost(held(tmp_path)["v1"]) == ([] if table == "commits" else [str(found[0].relative_to(tmp_path))])
    compaction.compact(open_dataset(str(tmp_path)))
    assert bool(said_lost(held(tmp_path)["v1"])) == (table != "commits")
    for log in logs:
        append(tmp_path, "v1", log)
    kept = table == "units" and batches > 1  # a gap that is compacted is no longer its batch's
    assert (held(tmp_path) == before) == (not kept)


def test_what_was_lost_is_not_finished(tmp_path: Path) -> None:
    make(tmp_path)
    part = sorted((tmp_path / "kernels" / "label=v1").rglob("*.parquet"))[0]
    part.write_bytes(part.read_bytes()[:100])
    assert len(finished(str(tmp_path), "v1")) == 1, "of the other commit"
    done = command("history", "dataset", "repair", "-d", tmp_path)
    assert done.status == 2
    assert "moved away" in done.out
    assert (tmp_path / "quarantine" / part.relative_to(tmp_path)).stat().st_size == 100
    assert len(finished(str(tmp_path), "v1")) == 1
    assert command("history", "dataset", "verify", "-d", tmp_path).status == 0


@pytest.mark.parametrize("table", ["kernels", "units", "commits"])
def test_files_that_builds_share(table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FEWEST_SHARING", sized(3, compaction.FEWEST_SHARING))
    root = tmp_path / "data"
    make_shared(root)
    before = held(root)
    (path,) = (root / table / "several").iterdir()
    path.write_bytes(path.read_bytes()[:-9])
    assert open_dataset(str(root)).labels == ("own",)
    assert command("history", root).status == 2
    repair(str(root))
    assert verify(str(root)) == []
    after = held(root)
    assert after["own"] == before["own"]
    assert (after == before) == (table == "commits")
    for number in range(compaction.FEWEST_SHARING):
        append(root, f"b{number:02}", BASE, time=f"2026-01-{number + 1:02}")
    after = held(root)
    if table == "units":  # not even their names are known
        assert [len(said_lost(build)) for build in after.values()] == [1] * compaction.FEWEST_SHARING + [0]
    assert (after == before) == (table != "units")
