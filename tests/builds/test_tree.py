"""Files that differ from a list taken before: one change per row."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from struct import pack
from time import sleep

import pytest

from spillscan.builds import pieces
from spillscan.builds.pieces import PACKED, Code, code_of
from spillscan.builds.tree import Watched, is_since, top_of

CHANGES: dict[str, tuple[Callable[[Path], object], set[str]]] = {
    "nothing": (lambda top: None, set()),
    "a new file": (lambda top: (top / "new").write_text("x"), {"new"}),
    "other content of the same size and time": (
        lambda top: ((top / "old").write_text("b"), os.utime(top / "old", (0, 0))),
        {"old"},
    ),
    "a file renamed into place": (lambda top: (top.parent / "aside").rename(top / "put"), {"put"}),
    "a copy with an old time": (lambda top: shutil.copy2(top.parent / "aside", top / "put"), {"put"}),
    "a folder renamed into place": (lambda top: (top.parent / "folder").rename(top / "put"), {"put/in"}),
    "a link to a file": (lambda top: (top / "put").symlink_to(top.parent / "aside"), {"../aside"}),
    "a link to a folder": (lambda top: (top / "put").symlink_to(top.parent / "folder"), {"../folder/in"}),
    "a file behind a link that was there": (
        lambda top: (top.parent / "folder" / "in").write_text("b"),
        {"../folder/in"},
    ),
    "a link that leads elsewhere": (
        lambda top: ((top / "link").unlink(), (top / "link").symlink_to(top / "old")),
        {"old"},
    ),
    "a link to itself": (lambda top: (top / "put").symlink_to(top / "put"), set()),
    "a loop of links": (lambda top: (top / "put").symlink_to(top), {"old", "../folder/in"}),
    "a removed file": (lambda top: (top / "old").unlink(), set()),
    "a FIFO": (lambda top: os.mkfifo(top / "put"), set()),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changed_files(name: str, tmp_path: Path) -> None:
    change, expected = CHANGES[name]
    top = tmp_path / "top"
    for folder in (top, tmp_path / "folder"):
        folder.mkdir()
    for path in (top / "old", tmp_path / "aside", tmp_path / "folder" / "in"):
        path.write_text("a")
        os.utime(path, (0, 0))
    (top / "link").symlink_to(tmp_path / "folder")
    watched = Watched([])
    before = watched.files([str(top)])
    change(top)
    changed = watched.changed(before, [str(top)])
    assert {os.path.relpath(path, top) for path in changed} == expected


def test_the_top_of_a_work_tree(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert top_of(str(tmp_path / "sub")) == str(tmp_path / "sub")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    assert top_of(str(tmp_path / "sub")) == str(tmp_path.resolve())


def test_unwatched_folders() -> None:
    watched = Watched(["/opt/toolkit"])
    folders = ["/", "/usr/lib", "/opt/toolkit/bin", os.path.expanduser("~"), "/srv/a/b", "/srv/a", "/srv/top/c"]
    assert watched.outermost(["/srv/top"], folders) == ("/srv/a", "/srv/top")
    assert watched.outermost(["/a/b", "/a", "/ab", "/"], []) == ("/", "/a", "/ab")


def test_folders_that_are_not_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = ("a", "b", "c", "toolkit", "tools", ".git", "shared", "shared/others")
    for name in folders:
        (tmp_path / name).mkdir()
        (tmp_path / name / "in").touch()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "shared"))
    watched = Watched([str(tmp_path / "toolkit"), str(tmp_path / "tools")])
    listed = {os.path.relpath(path, tmp_path) for path in watched.files([str(tmp_path)])}
    assert listed == {"a/in", "b/in", "c/in", "shared/in"}


def test_what_changed_in_a_folder_that_was_not_listed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    for name in ("old", "kept", "put/below"):
        (top / name).mkdir(parents=True)
        (top / name / "in").touch()
    sleep(0.02)  # times of files are coarse
    (top / "new").touch()
    (top / "put").rename(top / "moved")
    since = (top / "new").stat().st_ctime_ns
    changed = Watched([]).changed_since(since, [str(top)])
    assert {os.path.relpath(path, top) for path in changed} == {"new", "moved/below/in"}
    assert not is_since(str(top / "gone"), 0)


def test_pieces_of_gpu_code(tmp_path: Path) -> None:
    cubin = b"\x7fELF\x02\x01\x01".ljust(18, b"\0") + b"\xbe\0" + bytes(44)
    fatbin = b"\x50\xed\x55\xba\1\0\x10\0" + (8).to_bytes(8, "little") + b"contents"
    host = b"\x7fELF\x02\x01\x01".ljust(18, b"\0") + b"\x3e\0" + bytes(44)

    def of(data: bytes) -> set[str]:
        (tmp_path / "x").write_bytes(data)
        return {*code_of(str(tmp_path / "x")).pieces}

    assert of(b"") == of(host) == of(b"text") == set()
    assert of(cubin) | of(fatbin) == of(host + b"abc" + cubin + b"def" + fatbin) == of(fatbin + cubin)
    assert len(of(cubin + fatbin)) == 2
    assert of(fatbin) == of(fatbin + b"next") != of(fatbin[:-1] + b"x")
    assert of(b".version 8.0\n.target sm_80\n.address_size 64\n")
    for begin in PACKED:
        (tmp_path / "x").write_bytes(begin + fatbin)
        assert code_of(str(tmp_path / "x")) == Code((sha256(begin + fatbin).hexdigest(),), packed=True, linked=False)
    (tmp_path / "x").write_bytes(host + fatbin + b"\0__cudaPrelinkedFatbins\0")
    assert code_of(str(tmp_path / "x")) == Code((*of(fatbin),), packed=False, linked=True)
    with (tmp_path / "sparse").open("wb") as file:
        for place in (0, 1 << 39):
            file.truncate(place + (1 << 39))
            file.seek(place)
            file.write(cubin if place else fatbin)
    assert code_of(str(tmp_path / "sparse")).packed, "holes are not searched"


def test_a_large_file_stored_to_a_quarter_is_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_LARGE_BYTES", 1 << 16)
    (tmp_path / "x").write_bytes(os.urandom(1 << 15))
    os.truncate(tmp_path / "x", 1 << 17)
    assert not code_of(str(tmp_path / "x")).packed


@pytest.mark.parametrize(("bits", "form"), [(1, "<32xI10xHH14x"), (2, "<40xQ10xHHxx")])
def test_a_cubin_ends_after_its_section_headers(bits: int, form: str, tmp_path: Path) -> None:
    def of(number: int, rest: bytes) -> Code:
        head = pack(form, 70, 8, number)
        (tmp_path / "x").write_bytes(b"\x7fELF%c\1\1%b\xbe\0%b" % (bits, head[7:18], head[20:]) + rest)
        return code_of(str(tmp_path / "x"))

    assert of(2, bytes(22)) == of(2, bytes(22) + b"next")
    assert of(2, bytes(22)) != of(2, bytes(21) + b"x")
    assert of(0, bytes(6)) != of(0, bytes(5) + b"x")
