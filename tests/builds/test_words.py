"""Command lines of builds, and what a launcher records of their files: rows of ``words.yaml``."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from spillscan.builds import checks, compilation, launcher
from spillscan.builds.account import _settles
from spillscan.builds.record import Call, Run

ROWS: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "words.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("line", ROWS["compilers"])
def test_commands_that_make_machine_code(line: str) -> None:
    assert compilation.makes_machine_code(line.split()) is ROWS["compilers"][line]


@pytest.mark.parametrize("line", ROWS["steps"])
def test_configure_steps(line: str, tmp_path: Path) -> None:
    """A call of a step that wrote its last file since is a compiler check."""
    (tmp_path / "config.status").touch()
    ended = (tmp_path / "config.status").stat().st_ctime_ns
    place, outer = str(tmp_path), ("/", "cmake", ".")
    for began, well in ((ended, True), (ended + 1, False)):
        step = (place, *line.split())
        call = Call(began_ns=began, command=("nvcc", "conftest.cu"), folder=place, ancestors=(("/", "sh"), step, outer))
        assert checks.is_check(call) is (well and ROWS["steps"][line])


@pytest.mark.parametrize("name", ROWS["settled"])
def test_a_run_that_takes_the_place_of_an_earlier_one(name: str) -> None:
    *both, expected = ROWS["settled"][name]
    run, old = (Run(command=tuple(words.split()), folder=top, status=status) for words, top, status, _ in both)
    assert _settles(run, old, did=both[0][3]) is expected


def test_files_that_a_call_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code = b"\x50\xed\x55\xba\1\0\x10\0" + (4).to_bytes(8, "little") + b"code"
    texts, binaries = ("a.cu", "b.cu", "opts", "a.d"), ("old.o", "new.o")
    for name in (*texts, *binaries):
        (tmp_path / name).write_bytes(code if name in binaries else b"x")
    started = max((tmp_path / name).stat().st_ctime_ns for name in (*texts, *binaries)) + 1
    digest = hashlib.sha256(b"x").hexdigest()
    none = {"sources": [], "files": {}, "wrote": [], "pieces": []}

    def noted(line: str, *, compiled: bool = True) -> dict[str, Any]:
        texts = {"opts"} if "@opts" in line else set()
        return launcher._files(line.split(), texts, started, compiled=compiled)

    os.utime("new.o")  # later than the start
    (tmp_path / "new.ptx").write_text(".version 8.8\n.target sm_90\n")
    assert noted("nvcc -ptx a.cu -o new.ptx")["wrote"] == ["new.ptx"]
    line = "nvcc -c a.cu --pre-include=b.cu -MF a.d -o new.o old.o @opts gone.cu"
    first = noted(line)
    assert (first["sources"], first["wrote"], len(first["pieces"])) == (["a.cu", "b.cu"], ["new.o"], 1)
    read = {str(tmp_path / name): digest for name in ("a.cu", "b.cu", "opts")}
    assert (first["files"], first["folders"]) == (read, [str(tmp_path)])
    assert noted("nvcc -c")["wrote"] == ["./new.o"]
    assert noted("nvcc", compiled=False) == {**none, "folders": []}
    os.utime("a.cu")
    assert noted("nvcc a.cu")["files"] == {str(tmp_path / "a.cu"): ""}


def test_headers_that_a_host_compiler_opened(tmp_path: Path) -> None:
    path, compiler = tmp_path / "headers", "/opt/cuda/bin/nvcc"
    assert launcher._headers(str(path), compiler) is None
    own = "k/a.fatbin.c a.cudafe1.stub.c /tmp/tmpxft_1/z"
    path.write_text(f"./a.o: a.cu \\\n my\\ h.cuh /usr/include/x.h /opt/cuda/include/y.h {own} $$d\n")
    assert launcher._headers(str(path), compiler) == {"a.cu", "my h.cuh", "$d"}
    path.write_text(". b.cuh\n.. /w/c.cuh\n")
    assert launcher._headers(str(path), compiler) == {"b.cuh", "/w/c.cuh"}


def test_how_a_compiler_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher.signal, "signal", lambda *_: None)
    ends = [
        (["sh", "-c", "echo said >&2; exit 3"], (3, b"said\n")),
        (["sh", "-c", "kill -9 $$"], (-9, b"")),
        (["/no/such"], (127, b"/no/such: No such file or directory\n")),
        ([str(tmp_path)], (126, f"{tmp_path}: Permission denied\n".encode())),
    ]
    for number, (words, expected) in enumerate(ends):
        assert launcher._ran(words, os.open(tmp_path / str(number), os.O_RDWR | os.O_CREAT)) == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/b/CMakeFiles/3.25.1/CompilerIdCUDA/tmp/CMakeCUDACompilerId.sm_75.cubin", True),
        ("/b/CMakeFiles/3.25.1/CMakeDetermineCompilerABI_CUDA.bin", True),
        ("/b/CMakeFiles/g.dir/gemm.cu.o", False),
    ],
)
def test_a_file_of_a_compiler_check(path: str, expected: bool) -> None:
    assert checks.is_of_check(path) is expected
