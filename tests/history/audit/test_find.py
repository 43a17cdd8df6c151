"""Files found for the inputs of an audit, and files left out."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from spillscan.builds.pieces import code_of
from spillscan.builds.record import Output
from spillscan.history.audit.find import Selection, find
from spillscan.history.audit.messages import MOST_BYTES, MOST_FILES, Item, batched
from spillscan.history.audit.stores import shown
from spillscan.output.errors import InputError, UsageError
from tests.builds.made import run_file


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("a.log", "sub/b.log", "sub/deep/c.o", ".hidden/d.log", "third_party/e.log", "sub/f.tmp"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(inputs: list[str], **options: object) -> list[str]:
    items, _ = find(inputs, "v1", Selection(**options), "/nowhere")  # type: ignore[arg-type]
    return [item.uri for item in items]


def reasons(inputs: list[str], **options: object) -> dict[str, str]:
    _, left = find(inputs, "v1", Selection(**options), "/nowhere")  # type: ignore[arg-type]
    return {outcome.uri: outcome.reason for outcome in left}


@pytest.mark.usefixtures("tree")
def test_inputs_of_all_kinds_together_each_file_once() -> None:
    everything = ["./a.log", "./sub/b.log", "./sub/deep/c.o", "./sub/f.tmp", "./third_party/e.log"]
    assert names(["."]) == everything
    assert names(["a.log", "sub"]) == ["a.log", "sub/b.log", "sub/deep/c.o", "sub/f.tmp"]
    assert names(["sub/*"]) == names(["sub"]) == names(["sub/**"])
    assert names(["**/*.log"]) == ["a.log", "sub/b.log", "third_party/e.log"]
    assert names(["a.log", "*.log", "a.log"]) == ["a.log"]
    assert names([f"file://{os.getcwd()}/sub/b.log"]) == [f"{os.getcwd()}/sub/b.log"]


@pytest.mark.usefixtures("tree")
def test_the_same_file_by_two_inputs_is_one() -> None:
    items, left = find(["sub", os.path.abspath("sub")], "v1", Selection(), "/nowhere")
    assert len(items) == 3
    assert len(left) == 3


@pytest.mark.usefixtures("tree")
def test_exclude_by_name_folder_and_path() -> None:
    assert names(["."], exclude=["*.tmp", "third_party"]) == ["./a.log", "./sub/b.log", "./sub/deep/c.o"]
    assert names(["."], exclude=["sub/deep/*", "sub/*.tmp"]) == ["./a.log", "./sub/b.log", "./third_party/e.log"]
    assert names(["."], exclude=["sub/"]) == ["./a.log", "./third_party/e.log"]


def test_limits_of_size(tree: Path) -> None:
    (tree / "large.log").write_bytes(bytes(11))
    (tree / "empty.log").touch()
    assert "./large.log" not in names(["."], most_bytes=10)
    reported = reasons(["."], most_bytes=10)
    assert reported["./large.log"] == "larger than 10 bytes"
    assert reported["./empty.log"] == "empty"


def test_links_loops_and_special_files(tree: Path) -> None:
    (tree / "loop").symlink_to(tree)
    (tree / "self").symlink_to(tree / "self")
    (tree / "gone").symlink_to(tree / "nothing")
    (tree / "0-link.log").symlink_to(tree / "a.log")
    os.link(tree / "a.log", tree / "z-hard.log")
    os.mkfifo(tree / "fifo")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")
        found, reported = names(["."]), reasons(["."])
    assert found == ["./a.log", "./sub/b.log", "./sub/deep/c.o", "./sub/f.tmp", "./third_party/e.log"]
    assert reported["./fifo"] == reported["./socket"] == "not a regular file"
    assert reported["./0-link.log"] == reported["./z-hard.log"] == "a link to a listed file"
    assert reported["./self"].startswith("cannot be opened: ")
    assert reported["./gone"].startswith("cannot be opened: ")
    assert not any("loop" in name for name in (*found, *reported)), "a link to a folder is not entered"
    assert names(["loop/sub/b.log"]) == ["loop/sub/b.log"]


def test_the_dataset_is_no_input(tree: Path) -> None:
    (tree / "data").mkdir()
    (tree / "data" / "x.json").write_text("{}")
    items, _ = find(["."], "v1", Selection(), str(tree / "data"))
    assert "./data/x.json" not in [item.uri for item in items]


@pytest.mark.usefixtures("tree")
def test_a_folder_that_cannot_be_read_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("deep"):
            raise PermissionError(13, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert reasons(["."])["./sub/deep"] == "cannot be read: Permission denied"


def test_inputs_without_files() -> None:
    with pytest.raises(InputError, match="no such file: /no/where"):
        names(["/no/where"])
    with pytest.raises(InputError, match=r"no such file: nothing\*"):
        names(["nothing*"])
    with pytest.raises(UsageError, match="not standard input"):
        names(["-"])


def test_a_missing_driver_is_one_line_that_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    from fsspec.registry import known_implementations

    monkeypatch.setitem(known_implementations, "gs", {"class": "absent_gcsfs.FileSystem", "err": "Please install"})
    with pytest.raises(UsageError, match="gs:// needs the package absent_gcsfs; pip install absent_gcsfs"):
        names(["gs://bucket/a"])
    with pytest.raises(UsageError, match=r"nosuch://x cannot be opened: Protocol not known"):
        names(["nosuch://x"])


def test_passwords_are_not_kept() -> None:
    assert shown("https://me:secret@host:80/x@y.so") == "https://host:80/x@y.so"
    assert shown("s3://bucket/key@1") == "s3://bucket/key@1"


def test_batches_hold_each_file_once_large_ones_first() -> None:
    items = [Item(uri=f"{n}", path=f"/{n}", size_bytes=size) for n, size in enumerate([5, MOST_BYTES * 9, 7, 0] * 90)]
    parts = list(batched(items, 2))
    assert sorted(item.uri for part in parts for item in part) == sorted(item.uri for item in items)
    assert [len(part) for part in parts[:90]] == [1] * 90
    assert len(parts) < 110


def test_a_run_file_is_read_with_its_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.o").write_bytes(b"\x50\xed\x55\xba\1\0\x10\0" + bytes(8))
    output = Output(path=str(tmp_path / "a.o"), entry=(0, 0, 0), pieces=code_of("a.o").pieces)
    run_file(Path("a run"), outputs=(output,))
    items, left = find(["a run"], "v1", Selection(), "data")
    assert [(item.uri, item.together) for item in items] == [("a run", "a run"), ("a.o", "a run")]
    assert not left


@pytest.mark.parametrize(
    ("sizes", "workers", "parts"),
    [
        ([5] * 4, 1, [1] * 4),
        ([5] * 4, 2, [1] * 4),
        ([5] * 8, 1, [2] * 4),
        ([4] * 33, 1, [8, 8, 8, 8, 1]),
        ([0] * 33, 1, [9, 9, 9, 6]),
        ([0] * 33, 2, [5] * 6 + [3]),
        ([20, 4, 4, 4, 4, 4], 1, [1, 2, 2, 1]),
        ([MOST_BYTES // 2] * 16, 1, [2] * 8),
        ([0] * 4 * (MOST_FILES + 1), 1, [MOST_FILES] * 4 + [4]),
        ([], 3, []),
    ],
)
def test_how_many_files_a_batch_holds(sizes: list[int], workers: int, parts: list[int]) -> None:
    items = [Item(uri=f"{n:03}", path=f"/{n}", size_bytes=size) for n, size in enumerate(sizes)]
    assert [len(part) for part in batched(items, workers)] == parts
