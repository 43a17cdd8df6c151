"""Inputs of a sweep: files, and command lines taken apart without a shell."""

from __future__ import annotations

from pathlib import Path

import pytest

from spillscan.advice.sweep.command_line import unit
from spillscan.advice.sweep.front_end import ptxas_options
from spillscan.output.errors import SpillscanError


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.cu", "a b.cu", "-dash.cu", "k.ptx", "x$(touch pwned).cu", "b.cu"):
        Path(name).touch()


def test_a_whole_command_line() -> None:
    found = unit(
        "ccache /opt/cuda/bin/nvcc -O3 -I 'my include' -D X=1 -gencode=arch=compute_80,code=[sm_80,compute_80]"
        " -gencode arch=compute_80,code=sm_90 -Xcompiler -MD -Xptxas -v,-O2 --use_fast_math -MD -MF a.d -dc"
        " -maxrregcount=64 -t 4 -o 'out/a b.o' 'a b.cu' && rm x"
    )
    assert (found.path, found.compiler, found.cap) == ("a b.cu", "/opt/cuda/bin/nvcc", 64)
    assert found.options == (
        *("-O3", "-I", "my include", "-D", "X=1", "-Xcompiler", "-MD", "-Xptxas", "-v,-O2", "--use_fast_math"),
        "-rdc=true",
    )
    assert found.targets == (("sm_80", "compute_80"), ("sm_90", "compute_80"))
    assert (found.virtual("sm_90"), found.virtual("sm_120a")) == ("compute_80", "compute_120a")


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("nvcc -c a.cu", ()),
        ("nvcc -arch=sm_90a -c a.cu", (("sm_90a", "compute_90a"),)),
        ("nvcc -arch compute_80 -code sm_80,sm_86 -c a.cu", (("sm_80", "compute_80"), ("sm_86", "compute_80"))),
        ("nvcc -arch=native -c a.cu", ()),
        ("nvcc --gpu-architecture=sm_75 -c a.cu -oa.o", (("sm_75", "compute_75"),)),
    ],
)
def test_archs(text: str, targets: tuple[tuple[str, str], ...]) -> None:
    found = unit(text)
    assert found.targets == targets
    assert found.options == ()


def test_files() -> None:
    assert unit("k.ptx").is_ptx
    assert not unit("a b.cu").is_ptx
    assert unit("-dash.cu").safe_path == "./-dash.cu"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("none.ptx", "no such file"),
        ("nvcc -c none.cu", "no such file"),
        ("nvcc -c a.cu b.cu", "2 sources"),
        ("nvcc --version x", "no source"),
        ("clang++ -c a.cu", "nor a command line of nvcc"),
        ("rm -rf a.cu", "nor a command line of nvcc"),
        ("nvcc -c 'a.cu", "cannot be taken apart"),
        ("nvcc -dlto -c a.cu", "link-time"),
        ("nvcc -gencode arch=compute_90,code=lto_90 -c a.cu", "link-time"),
        ("nvcc -maxrregcount=x -c a.cu", "not a number"),
        ("x$(touch pwned).cu", "shell"),
        ("nvcc -c 'x$(touch pwned).cu'", "shell"),
        (".", r"not a \.ptx or \.cu"),
    ],
)
def test_refused(text: str, says: str) -> None:
    with pytest.raises(SpillscanError, match=says):
        unit(text)


def test_options_that_nvcc_gives_ptxas() -> None:
    said = """#$ _SPACE_=
#$ "$CICC_PATH/cicc" -arch compute_90 "/tmp/a.ii" -o "/tmp/a.ptx"
#$ ptxas -arch=sm_90 -m64 -O2 -v -dlcm=cg --compile-only --generate-line-info -maxrregcount=40 "/a b.ptx"  -o "x"
#$ fatbinary -64 "--image3=kind=elf,sm=90,file=x.cubin"
"""
    assert ptxas_options(said) == ("-O2", "-dlcm=cg", "--compile-only", "--generate-line-info")
    assert ptxas_options("#$ gcc -E x.cu\n#$ echo 'open") is None
