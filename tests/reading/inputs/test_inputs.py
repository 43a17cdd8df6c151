"""Inputs are read, or reported as not read: archives, folders, links, drafts, streams."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from spillscan import scan
from spillscan.model import Build
from spillscan.output.errors import InputError
from spillscan.reading.inputs.codecs import zstd
from spillscan.reading.inputs.paths import expand
from tests.conftest import FIXTURES, ROOT, run

BASE, HEAD = (FIXTURES / "demo" / name for name in ("base.log", "head.log"))


def tar(data: bytes, mode: str = "w") -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode=mode) as archive:  # type: ignore[call-overload]
        member = tarfile.TarInfo("build/a.log")
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))
    return target.getvalue()


def zipped(data: bytes, name: str = "build/a.log", **others: bytes) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for each, content in {name: data, **others}.items():
            archive.writestr(each, content)
    return target.getvalue()


PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    "a.log.gz": gzip.compress,
    "a.log.zst": zstd().compress,
    "a.log.bz2": bz2.compress,
    "a.log.xz": lzma.compress,
    "twice.log.bz2": lambda data: bz2.compress(data[:999]) + bz2.compress(data[999:]) + bytes(512),
    "utf16.log": lambda data: data.decode().encode("utf-16"),
    "a.tar": tar,
    "a.tar.gz": lambda data: tar(data, "w:gz"),
    "a.tar.xz": lambda data: tar(data, "w:xz"),
    "a.zip": zipped,
    "inner.tar": lambda data: tar(zipped(gzip.compress(data))),
}


def figures(build: Build) -> list[object]:
    return [(kernel.key.symbol, kernel.key.arch, kernel.usage) for kernel in build.kernels]


@pytest.mark.parametrize("name", PACKINGS)
@pytest.mark.parametrize("way", ["named", "in a folder", "standard input"])
def test_packed_logs_are_read(name: str, way: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(PACKINGS[name](HEAD.read_bytes()))
    expected = figures(scan(HEAD))
    if way == "standard input":
        done = run("check", "-", "--set", "max_spill_bytes=0", stdin=path.read_bytes())
        assert done.returncode == 1, done.stderr
        assert b"2 findings in 12 kernels" in done.stdout
    else:
        build = scan(path if way == "named" else tmp_path)
        assert figures(build) == expected
        if name.startswith("inner"):
            assert build.kernels[0].origins[0].input == f"{path}!build/a.log!build/a.log"


@pytest.mark.parametrize("name", [name for name in PACKINGS if name not in ("utf16.log", "twice.log.bz2", "inner.tar")])
def test_a_packed_log_that_is_cut_off_is_an_error_or_a_gap(name: str, tmp_path: Path) -> None:
    whole = PACKINGS[name](HEAD.read_bytes())
    path = tmp_path / name
    path.write_bytes(whole[: len(whole) // 2])
    (tmp_path / "whole.log").write_bytes(BASE.read_bytes())
    assert any("kernels" in issue.hidden for issue in scan(tmp_path).issues)
    if name == "a.tar":  # the log in it is whole; the rest is unknown
        assert [issue.code for issue in scan(path).issues] == ["damaged"]
        return
    with pytest.raises(InputError, match=re.escape(str(path))):
        scan([path, tmp_path / "whole.log"])


def test_a_wheel_is_not_searched_for_logs_and_other_members_hide_nothing(tmp_path: Path) -> None:
    (tmp_path / "ok.log").write_bytes(BASE.read_bytes())
    wheel = {"x-1.dist-info/WHEEL": b"Wheel-Version: 1.0\n"}
    (tmp_path / "x.whl").write_bytes(zipped(HEAD.read_bytes(), "x/notes.log", **wheel))
    (tmp_path / "other.zip").write_bytes(zipped(b"nothing of a compiler\n", **{"picture.png": b"\x89PNG" + bytes(99)}))
    build = scan(tmp_path)
    assert figures(build) == figures(scan(BASE))
    assert not build.issues


def test_a_pattern_that_names_a_folder_means_its_files(tmp_path: Path) -> None:
    for name, log in (("build-1", BASE), ("build-2", HEAD)):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "x.log").write_bytes(log.read_bytes())
    expected = figures(scan(tmp_path))
    assert len(expected) == 22
    assert figures(scan(f"{tmp_path}/build-*")) == figures(scan(f"{tmp_path}/**")) == expected


def test_linked_folders_are_read_once(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "sub").mkdir(parents=True)
    (elsewhere / "sub" / "a.log").write_bytes(HEAD.read_bytes())
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "b.log").write_bytes(BASE.read_bytes())
    for name in ("one", "two"):
        (tree / name).symlink_to(elsewhere)
    (elsewhere / "loop").symlink_to(tree)
    (elsewhere / "sub" / "again").symlink_to(elsewhere)
    assert len(scan(tree).kernels) == 22


def test_ninjas_files_are_no_logs(tmp_path: Path) -> None:
    (tmp_path / "ok.log").write_bytes(BASE.read_bytes())
    (tmp_path / ".ninja_deps").write_bytes(b"# ninjadeps\n\4\0\0\0\x28\0\0\0gemm.cu.o\0\0\0\xff\xff")
    assert not scan(tmp_path).issues


def test_a_folder_with_a_dataset_in_it_is_read_without_it(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_bytes(HEAD.read_bytes())
    data = tmp_path / "spillscan-data"
    assert run("history", "audit", log, "--dataset", data, "--label", "v1").returncode == 0
    assert [each.uri for each in expand([str(tmp_path)])] == [str(log)]
    done = run("scan", data)
    assert done.returncode == 2
    assert f"spillscan: {data} is a dataset; pass a build: {data}/@LABEL (".encode() in done.stderr
    assert run("scan", f"{data}/@v1").returncode == 0


def test_a_page_of_a_report_is_no_log(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_bytes(BASE.read_bytes())
    for _ in range(2):
        assert run("check", tmp_path, "-f", f"html:{tmp_path}/report.html").returncode == 0


def test_a_report_in_the_folder_of_its_inputs_is_left_out(tmp_path: Path) -> None:
    """However often a folder is checked into itself, its kernels count once; a report of another place is a build."""
    (tmp_path / "build.log").write_bytes((FIXTURES / "demo" / "head.log").read_bytes())
    first = run(
        "check", tmp_path, "-f", "text", "-f", f"json:{tmp_path}/spillscan.json", "-f", f"sarif:{tmp_path}/s.sarif"
    )
    second = run("check", tmp_path, "-f", "text", "-f", f"json:{tmp_path}/again.json")
    assert b" in 12 kernels " in first.stdout
    assert second.stdout == first.stdout
    assert (second.returncode, first.returncode, b".sarif" in second.stderr) == (1, 1, False)
    assert (
        f"skipped {tmp_path}/spillscan.json: it is a report about {tmp_path}/build.log, which is also an input".encode()
        in second.stderr
    )
    alone = run("check", "build.log", "-f", f"json:{tmp_path}/spillscan.json", cwd=tmp_path)
    assert alone.returncode == 1
    assert run("check", ".", cwd=tmp_path).stdout.count(b" in 12 kernels ") == 1
    (tmp_path / "build.log").unlink()
    assert b" in 24 kernels " in run("check", tmp_path).stdout


def test_a_report_of_diff_is_no_build(tmp_path: Path) -> None:
    head = tmp_path / "build.log"
    head.write_bytes((FIXTURES / "demo" / "head.log").read_bytes())
    report = tmp_path / "diff.json"
    run("diff", FIXTURES / "demo" / "base.log", head, "--by", "arch", "-f", f"json:{report}")
    assert b" in 12 kernels " in run("check", tmp_path).stdout
    run("diff", FIXTURES / "demo" / "base.log", head, "-f", f"json:{report}")
    assert b" in 12 kernels " in run("check", tmp_path).stdout
    done = run("scan", report)
    assert done.returncode == 2
    assert b"diff.json is a diff report, not a build; pass the output of scan -f json" in done.stderr


@pytest.mark.parametrize("name", ["Makefile", "README.md", "rules.mk", "gemm.cuh", "report.html"])
def test_text_written_by_hand_is_no_log(tmp_path: Path, name: str) -> None:
    (tmp_path / "ok.log").write_bytes(BASE.read_bytes())
    (tmp_path / name).write_bytes(b"# c1xx : fatal error C1083: Cannot open source file\n" + HEAD.read_bytes())
    build = scan(tmp_path)
    assert figures(build) == figures(scan(BASE))
    assert not build.issues
    assert len(scan(tmp_path / name).kernels) == 12, "who names it means it"


def test_a_log_that_is_still_written_is_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "build.log"
    log.write_bytes(BASE.read_bytes())
    assert not scan(log).issues

    from spillscan.reading.inputs.source import Stream

    lines = Stream.lines

    def growing(self: Stream, *said):  # type: ignore[no-untyped-def]
        with log.open("ab") as file:
            file.write(b"[2/3] nvcc -c b.cu\n")
        return lines(self, *said)

    monkeypatch.setattr(Stream, "lines", growing)
    (issue,) = [issue for issue in scan(log).issues if issue.code == "changed-input"]
    assert "spills" in issue.hidden


@pytest.mark.skipif(sys.platform == "win32", reason="a shell closes it")
def test_standard_input_that_is_closed_is_one_line() -> None:
    command = f"exec {sys.executable} -m spillscan check - <&-"
    done = subprocess.run(command, shell=True, capture_output=True, check=False, cwd=ROOT)
    assert done.returncode == 2
    assert done.stderr == b"spillscan: cannot read standard input: it is closed; name a file\n"


@pytest.mark.parametrize("second", [b"", b"make: nothing to be done\n", b"1 2 3 4 " * 64])  # no tar's checksum
def test_a_second_input_without_a_report_is_a_gap(second: bytes, tmp_path: Path) -> None:
    other = tmp_path / "other.log"
    other.write_bytes(second)
    (issue,) = scan([BASE, other]).issues
    assert (issue.code, issue.hidden) == ("nothing-recognised", ("kernels",))
