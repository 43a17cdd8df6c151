"""Every shell example of README and documents, run: our command is itself, other programs do what these lines ask.

``make oracle`` runs those that clone a project, with the real compiler (``tests/oracle/adoption_oracle.py``).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forked
from tests.advice.sweep.support import PTXAS
from tests.builds.made import call, run_file
from tests.conftest import FIXTURES, ROOT, read_text, run, sized
from tests.services import PERSON, git

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"```sh\n(.*?)```", re.S)
ELSEWHERE = {
    "git clone ": "tests/oracle/adoption_oracle.py",
    "make run ": ".ci/run",
    "dask scheduler ": "tests/history/audit/test_cluster.py",
    "tests/oracle/h200/build.sh ": "tests/oracle/h200/build.sh",
}
"""Beginnings of blocks that run elsewhere: they need the network, other machines, or a GPU."""

NVCC = """import pathlib, shutil, sys
words, folder = sys.argv[1:], pathlib.Path("{folder}")
if "--version" in words:
    print("Cuda compilation tools, release 12.9, V12.9.86")
elif "--dryrun" in words:
    keep = words[words.index("--keep-dir") + 1]
    for arch in [word.rpartition("code=")[2] for word in words if "code=" in word] or ["sm_90"]:
        sys.stderr.write(f'#$ cicc "{{folder}}/gemm.ptx" -o "{{keep}}/{{arch}}.ptx"\\n')
        sys.stderr.write(f'#$ ptxas -arch={{arch}} -m64 "{{keep}}/{{arch}}.ptx" -o "kernel.cubin"\\n')
else:
    made = words[words.index("-o") + 1] if "-o" in words else "gemm.o"
    source = "gemm.ptx" if "-ptx" in words else "libgemm.so" if "-c" in words else "program"
    pathlib.Path(made).unlink(missing_ok=True)
    shutil.copy(folder / source, made)
    if "-Xptxas" in words:
        sys.stderr.write((folder / "new" / "gemm.log").read_text())
"""
PROGRAMS = {
    "cicc": 'cp "$1" "$3"',
    "ptxas": f'[ "$1" = --version ] && echo "Cuda compilation tools, release 13.0, V13.0.88" || "{PTXAS}" "$@"',
    "pip": 'test "$1" = install',
    "cmake": 'for word; do case "$word" in\n'
    "  -DCMAKE_CUDA_COMPILER_LAUNCHER=*) mkdir -p build; echo \"${{word#*=}}\" | tr ';' ' ' > build/launcher ;;\n"
    "  --build) $(cat build/launcher) nvcc -c gemm.cu -o build/gemm.o ;;\nesac; done",
    "ncu": "cat {folder}/profiled",
    "reviewdog": "cat > /dev/null",
    "python": "$PYTORCH_NVCC -c gemm.cu -o build/gemm.o",
}
RENAMED = {
    "gemmILi4ELi4EE": "gemmILi8EE",
    "gemmILi8ELi4EE": "gemmILi128ELi8EE",
    "_Z6reduceIfLi8EEvPKT_PS0_i": "_Z4gemmPKfS0_Pfi",
    "_ZN5model7softmaxIfEEvPKT_PS1_i": "_ZN5flash3fwdILi128EEEvPKfPfi",
}
"""Kernels of the fixtures by the names that the examples use."""


def blocks() -> Iterator[tuple[str, str]]:
    for path in PAGES:
        for number, match in enumerate(BLOCK.finditer(path.read_text(encoding="utf-8"))):
            yield f"{path.name}:{number}", match[1]


def _elsewhere(text: str) -> bool:
    return text.startswith(tuple(ELSEWHERE))


BLOCKS = list(blocks())


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project that has all that the examples name: sources, logs, libraries of two builds, wheels, profiles, data."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "gemm.cu").write_text("source")
    (folder / "gemm.ptx").write_text(_renamed(_small(read_text(FIXTURES / "ptx" / "sweep.ptx"))))
    profiled = read_text(FIXTURES / "ncu" / "gemm-64-13.0.log")
    for log, source in (("base.log", "base.log"), ("build.log", "head.log")):
        (folder / log).write_text(_renamed(read_text(FIXTURES / "demo" / source)) + profiled)
    for build, registers in (("old", 128), ("new", 40)):
        (folder / build).mkdir()
        words = [PTXAS, "-v", "-arch=sm_90", f"-maxrregcount={registers}", folder / "gemm.ptx", "-o"]
        with open(folder / build / "gemm.log", "wb") as log_of_it:
            subprocess.run([*words, folder / build / "libgemm.so"], check=True, stderr=log_of_it)
    empty = re.sub(r"^{\n.*?^}$", "{\nret;\n}", (folder / "gemm.ptx").read_text(), flags=re.M | re.S)
    (folder / "gemm.ptx").write_text(empty)  # hundreds of points of sweeps are compiled
    for name in ("libgemm.so", "libapp.so", "build/libgemm.so", "build/gemm.o", "gemm.o", "nightly/2026-03-01/a.so"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "new" / "libgemm.so", folder / name)
    for place, build in (("released", "old"), ("dist", "new")):
        (folder / place).mkdir()
        with zipfile.ZipFile(folder / place / "app.whl", "w") as wheel:
            wheel.write(folder / build / "libgemm.so", "libgemm.so")
    for name, place in (("old", "released"), ("new", "dist"), ("package", "dist")):
        shutil.copy(folder / place / "app.whl", folder / f"{name}.whl")
    run("scan", "base.log", "-f", "json:main.json", cwd=folder)
    (folder / "profiled").write_text(read_text(FIXTURES / "ncu" / "gemm-64.csv.zst"))
    shutil.copy(folder / "profiled", folder / "app.csv")
    (folder / "program").write_text("#!/bin/sh\necho time_ms: 1.5\n")
    (folder / "program").chmod(0o755)
    for cap in (*range(8, 256, 8), 255):
        (folder / f"gemm-{cap}").symlink_to("program")
    _builds(folder)
    (folder / "CMakeLists.txt").write_text("")
    (folder / "Makefile").write_text("NVCC ?= nvcc\nall:\n\t$(NVCC) -c gemm.cu -o gemm.o\n")
    words = ("nvcc", "-arch=sm_90", "-c", "../gemm.cu", "-o", "gemm.o")
    compiled = call(folder / "build", words, report=read_text(folder / "new" / "gemm.log"))
    run_file(folder / "spillscan-build.json", compiled)
    git(folder, "init", "-q")
    git(folder, "add", "gemm.cu")
    git(folder, "commit", "-qm", "one")
    git(folder, "tag", "v1.2")
    return folder


def _small(text: str) -> str:
    """The kernels that the examples name: ptxas takes a second for each of the others."""
    return re.sub(r"^\.weak \.entry _Z(?!4gemmILi[48]ELi4E|6reduceIf).*?^}$", "", text, flags=re.M | re.S)


def _renamed(text: str) -> str:
    for old, new in RENAMED.items():
        text = text.replace(old, new)
    return text


def _builds(folder: Path) -> None:
    (folder / "logs").mkdir()
    shutil.copy(folder / "base.log", folder / "logs" / "v1.2.log")
    for label, log in (("v1", "base.log"), ("v2", "build.log")):
        done = run("history", "audit", log, "--dataset", "spillscan-data", "--label", label, cwd=folder)
        assert done.returncode == 0, done.stderr


RUN_HERE = [pytest.param(text, id=where) for where, text in BLOCKS if not _elsewhere(text)]


@pytest.mark.parametrize("text", RUN_HERE[:: sized(4, 1)])
def test_it_runs(text: str, project: Path, tmp_path: Path) -> None:
    """A gate may be red; nothing may fail."""
    folder, programs = tmp_path / "folder", tmp_path / "bin"
    shutil.copytree(project, folder, symlinks=True)
    programs.mkdir()
    for name, script in (*PROGRAMS.items(), ("nvcc", NVCC)):
        head = forked.shebang() if name == "nvcc" else "#!/bin/bash\nset -e\n"
        (programs / name).write_text(head + script.format(folder=folder))
        (programs / name).chmod(0o755)
    descriptor = forked.program(programs / "spillscan")
    # A store is a folder here; tests/history/audit has real ones.
    script = "trap 'status=$?; test $status = 1 || exit 9' ERR\n" + text.replace("s3://", "")
    environment = {
        **os.environ,
        "PATH": f"{programs}:/usr/bin:/bin",
        "PYTHONPATH": str(ROOT),
        "HOME": str(tmp_path),
        **PERSON,
    }
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        pass_fds=[descriptor],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr


def test_each_example_is_run_somewhere() -> None:
    assert len(BLOCKS) > 20
    for start, place in ELSEWHERE.items():
        assert any(text.startswith(start) for _, text in BLOCKS), start
        assert (ROOT / place).exists()
