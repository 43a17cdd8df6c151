"""Objects of kernels, from the output of build systems."""

from __future__ import annotations

import pytest

from spillscan.model import Kernel
from spillscan.reading.logs.steps import parse_step, split_prefix
from tests.conftest import FIXTURES, read_any, read_log, read_text

BUILDS = sorted(path for path in (FIXTURES / "build").iterdir() if path.suffix == ".log" and "fails" not in path.name)
TELLING = [path for path in BUILDS if "make-j12" not in path.name or "otarget" in path.name]


def units(kernels: list[Kernel]) -> set[str]:
    return {kernel.key.unit for kernel in kernels}


@pytest.mark.parametrize("path", TELLING, ids=lambda path: path.name)
def test_every_kernel_has_its_object(path) -> None:  # type: ignore[no-untyped-def]
    kernels = read_any(path).kernels
    assert kernels
    found = units(kernels)
    assert "" not in found
    assert len(found) >= 12
    assert all(unit.endswith(".o") for unit in found)


@pytest.mark.parametrize("path", TELLING, ids=lambda path: path.name)
def test_templates_of_several_units_are_all_kept(path) -> None:  # type: ignore[no-untyped-def]
    """One symbol, several objects: each has its own record."""
    kernels = [kernel for kernel in read_any(path).kernels if kernel.role == "entry"]
    keys = {kernel.key for kernel in kernels}
    assert len(keys) == len(kernels)
    assert len({(kernel.key.symbol, kernel.key.arch) for kernel in kernels}) < len(kernels)


def test_parallel_make_tells_no_unit() -> None:
    """Under make -j the last step announced need not be the one that writes."""
    path = FIXTURES / "build" / "cmake-make-j12-13.0.log"
    assert units(read_any(path).kernels) == {""}


def test_units_agree_between_build_systems() -> None:
    """The same objects, whichever tool ran the compilers."""
    stems = {
        path.name: {unit.rpartition("/")[2].partition(".")[0] for unit in units(read_any(path).kernels)}
        for path in TELLING
    }
    assert len({frozenset(found) for found in stems.values()}) == 1, stems


@pytest.mark.parametrize(
    ("line", "unit", "buffered"),
    [
        (
            "[12/345] Building CUDA object CMakeFiles/gemm.dir/gemm.cu.o",
            "CMakeFiles/gemm.dir/gemm.cu.o",
            True,
        ),
        ("[3/9] nvcc -Xptxas -v -c gemm.cu -o gemm.o", "gemm.o", True),
        ("[ 37%] Building CUDA object CMakeFiles/gemm.dir/gemm.cu.o", "CMakeFiles/gemm.dir/gemm.cu.o", False),
        ("[ 37%] Building NVCC (Device) object a/b.cu.o", "a/b.cu.o", False),
        ("INFO: From Compiling kernels/gemm.cu.cc:", "kernels/gemm.cu.cc", True),
        ("1>Compiling CUDA source file gemm.cu...", "gemm.cu", False),
        ("nvcc -O3 -dc -c a.cu", "a.cu", False),
        (
            "cd build && /usr/local/cuda/bin/nvcc -x cu -c ../a.cu -o CMakeFiles/a.dir/a.cu.o",
            "CMakeFiles/a.dir/a.cu.o",
            False,
        ),
        ("#12 118.5 nvcc -c 'a b.cu' -o 'a b.o'", "a b.o", False),
        ("[4/9] Building CXX object host.cpp.o", "", True),
    ],
)
def test_steps(line: str, unit: str, buffered: bool) -> None:
    step = parse_step(split_prefix(line)[1])
    assert step is not None
    assert (step.unit, step.buffered) == (unit, buffered)


@pytest.mark.parametrize(
    "line",
    [
        "nvcc fatal   : Unknown option '-foo'",
        "foo.cu(1): warning: nvcc is here",
        "",
        "ptxas info    : 0 bytes gmem",
        "-- nvcc",
    ],
)
def test_other_lines_announce_nothing(line: str) -> None:
    step = parse_step(line)
    assert step is None or not step.unit


def test_a_host_step_ends_the_unit(log: str) -> None:
    text = f"[1/3] Building CUDA object a.cu.o\n{log}[2/3] Building CXX object b.cpp.o\n{log}"
    half = len(read_log(log).kernels)
    kernels = read_log(text).kernels
    assert units(kernels[:half]) == {"a.cu.o"}
    assert units(kernels[half:]) == {""}


def test_a_far_step_line_still_counts(log: str) -> None:
    noise = "warning: something long and dull that no one reads\n" * 1500
    assert units(read_log(f"[1/3] Building CUDA object a.cu.o\n{noise}{log}").kernels) == {"a.cu.o"}


def test_relocatable_compilation_is_not_final() -> None:
    text = read_text(FIXTURES / "ptxas" / "plain-13.0.log")
    assert all(kernel.final is None for kernel in read_log(text).kernels)
    for option in ("-dc", "-rdc=true -c", "--relocatable-device-code true -c"):
        kernels = read_log(f"nvcc {option} -Xptxas -v a.cu -o a.o\n{text}").kernels
        assert all(kernel.final is False for kernel in kernels), option


def test_prefixes() -> None:
    assert split_prefix("builder-1  | x") == ("builder-1", "x")
    assert split_prefix("   12 | x") == ("", "12 | x")
    assert split_prefix("    3>  x") == ("3", "x")
    assert split_prefix("#12 118.5 x") == ("#12", "x")
    assert split_prefix("plain") == ("", "plain")
