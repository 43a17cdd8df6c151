"""Kernels that are gone from the newer build: deleted, as it shows, or not compiled, so that no gate can pass."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from spillscan.judging.compare.missing_kernels import missing_kernels
from spillscan.judging.compare.pairing import comparison
from spillscan.model import Build, Gap, Kernel, Origin
from spillscan.model.serialize import build_of as build_of_json
from spillscan.output.terminal import Style
from spillscan.reading.pipeline import build_of, scan
from spillscan.reports.formats import json as as_json
from spillscan.reports.report import Report
from tests.conftest import FIXTURES, read_log, read_text, run
from tests.reporting import kernel as made

MAKE = FIXTURES / "build" / "make-13.0.log"
"""13 sources, each for sm_80 and sm_90a; the log names each object."""
MIXED = FIXTURES / "build" / "make-j12-13.0.log"
"""The same log with interleaved compilers: no line tells the unit of a kernel."""


def without(build: Build, gone: Callable[[Kernel], bool]) -> Build:
    return replace(build, kernels=tuple(kernel for kernel in build.kernels if not gone(kernel)))


def gaps(base: Build, head: Build) -> list[Gap]:
    return missing_kernels(comparison(base, head).changes, base, head)


def unit(kernel: Kernel) -> str:
    return kernel.key.unit


def test_a_unit_that_was_compiled_and_holds_no_kernel_any_more_is_no_gap() -> None:
    """Its module line is there, and names no arch."""
    module = "ptxas info    : 0 bytes gmem\n"
    command = "nvcc -arch=sm_80 -Xptxas -v -c {0}.cu -o {0}.o\n" + module
    kernel = (
        "ptxas info    : Compiling entry function '{0}' for 'sm_80'\nptxas info    : Function properties for {0}\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 8 registers, used 0 barriers, 360 bytes cmem[0]\n"
    )
    units = [command.format(name) + "".join(kernel.format(f"{name}_{n}") for n in range(9)) for name in ("one", "two")]
    base, emptied = (build_of(read_log(text)) for text in ("".join(units), units[0] + command.format("two") + "done\n"))
    assert emptied.empty_units == ("two.o",)
    assert gaps(base, emptied) == []
    assert build_of_json(b"".join(as_json.render(Report(kind="scan", build=emptied), Style()))) == emptied
    (gap,) = gaps(base, build_of(read_log(units[0])))
    assert (gap.code, gap.names) == ("unit-missing", ("two.o",))


def test_a_kernel_deleted_from_a_unit_that_was_compiled_is_no_gap() -> None:
    base = scan([MAKE])
    for gone in {kernel.key.symbol for kernel in base.kernels}:
        head = without(base, lambda kernel, gone=gone: kernel.key.symbol == gone)  # type: ignore[misc]
        assert comparison(base, head).changes
        assert gaps(base, head) == []


def test_a_unit_that_was_not_compiled_is_a_gap() -> None:
    base = scan([MAKE])
    units = {unit(kernel) for kernel in base.kernels}
    assert len(units) == 13
    for gone in units:
        (gap,) = gaps(base, without(base, lambda kernel, gone=gone: unit(kernel) == gone))  # type: ignore[misc]
        count = sum(unit(kernel) == gone for kernel in base.kernels) // 2
        assert (gap.code, gap.hides, gap.names) == ("unit-missing", ("kernels",), (gone,))
        assert gap.message.startswith(f"{gone} is not in the newer build: {count} kernels of the older build missing (")
        assert gap.message.endswith(f"(sm_80: {count}, sm_90a: {count})")


@pytest.mark.parametrize("other", ["cmake-make-13.0.log", "ninja-j12-13.0.log", "cmake-ninja-verbose-13.0.log"])
def test_renamed_units_are_recognized(other: str) -> None:
    """`gemm.o`, `gemm.cuda.o` and `CMakeFiles/library.dir/gemm.cu.o` are of one source."""
    base, head = scan([MAKE]), scan([FIXTURES / "build" / other])
    assert not {unit(kernel) for kernel in base.kernels} & {unit(kernel) for kernel in head.kernels}
    assert gaps(base, head) == gaps(head, base) == []
    found = gaps(base, without(head, lambda kernel: "gemm." in unit(kernel)))
    assert [(gap.code, gap.names) for gap in found] == [("unit-missing", ("gemm.o",))]
    moved = [replace(k, key=replace(k.key, unit=f"obj/{ord(unit(k)[0])}{unit(k)[1:]}")) for k in head.kernels]
    assert gaps(base, Build(kernels=tuple(moved))) == [], "what only one unit had shows which it is"


def test_an_arch_that_is_gone_is_a_gap() -> None:
    base = scan([MAKE])
    (gap,) = gaps(base, without(base, lambda kernel: kernel.key.arch == "sm_80"))
    assert gap.code == "arch-missing"
    assert gap.names == ("sm_80",)
    assert "for sm_80: " in gap.message
    assert "13 units" in gap.message
    one = without(base, lambda kernel: kernel.key.arch == "sm_80" and unit(kernel) == "fft.o")
    (gap,) = gaps(base, one)
    assert (gap.code, gap.names) == ("arch-missing", ("fft.o", "sm_80"))
    mixed = scan([MIXED])
    (gap,) = gaps(mixed, without(mixed, lambda kernel: kernel.key.arch == "sm_80"))
    assert gap.code == "arch-missing"


@pytest.mark.parametrize(
    ("kernels", "gone", "expected"),
    [(1, 0, 0), (2, 1, 0), (10, 1, 0), (10, 2, 0), (10, 3, 1), (10, 9, 1), (22, 3, 0), (22, 4, 1), (22, 21, 1)],
)
def test_more_than_a_few_are_a_gap_if_units_are_unknown(kernels: int, gone: int, expected: int) -> None:
    mixed = scan([MIXED])
    symbols = sorted({kernel.key.symbol for kernel in mixed.kernels if kernel.role == "entry"})
    assert len(symbols) == 22
    base = without(mixed, lambda kernel: kernel.key.symbol not in symbols[:kernels])
    found = gaps(base, without(base, lambda kernel: kernel.key.symbol in symbols[:gone]))
    assert [gap.code for gap in found] == ["kernels-missing"] * expected
    if found:
        assert f"{gone} of {kernels} kernels of the older build missing" in found[0].message
        assert f" (sm_80: {gone}, sm_90a: {gone}); the logs do not name their sources" in found[0].message


def test_a_log_of_its_own_is_a_unit(tmp_path: Path) -> None:
    """With one log per source, none of which names its source, a lost log is a gap, however few kernels it had."""
    blocks = read_text(FIXTURES / "ptxas" / "plain-12.9.log").split("ptxas info    : Compiling entry")
    whole = [f"ptxas info    : Compiling entry{block}" for block in blocks[1:] if "'sm_80'" in block.splitlines()[0]]
    assert len(whole) > 3
    for folder in ("old", "new"):
        (tmp_path / folder).mkdir()
        for number, block in enumerate(whole):
            (tmp_path / folder / f"{number}.log").write_text(block)
    assert run("diff", tmp_path / "old", tmp_path / "new", "--fail-on", "policy").returncode == 0
    (tmp_path / "new" / "1.log").unlink()
    result = run("diff", tmp_path / "old", tmp_path / "new", "--fail-on", "policy")
    assert result.returncode == 2
    assert b"1.log is not in the newer build: 1 kernel of the older build missing (" in result.stdout + result.stderr


def test_a_binary_shows_deleted_kernels() -> None:
    base = scan([FIXTURES / "binary" / "fat-13.5.fatbin.zst"])
    few = {kernel.key.symbol for kernel in base.kernels} - {base.kernels[0].key.symbol}
    assert len(few) >= 1
    head = without(base, lambda kernel: kernel.key.symbol in few)
    assert comparison(base, head).changes
    assert {gap.code for gap in gaps(base, head)} <= {"arch-missing"}


def test_an_object_in_a_library_of_another_version_is_not_missing() -> None:
    def library(version: int, *names: str) -> Build:
        origins = (Origin(input="k.whl", format="binary"),)
        units = {name: f"k.libs/libk.so.{version}:{name[0]}.o" for name in names}
        return Build(kernels=tuple(made(name, unit=units[name], origins=origins) for name in names))

    base, head = library(1, "a1", "a2", "b1", "b2"), library(2, "a3", "b3")
    assert gaps(base, head) == []
    (gap,) = gaps(base, without(head, lambda each: "b.o" in unit(each)))
    assert (gap.code, gap.names) == ("unit-missing", ("b.o",))


def test_allowed_removals(tmp_path: Path) -> None:
    text = read_text(MAKE)
    lines = text.splitlines(keepends=True)
    begin = next(at for at, line in enumerate(lines) if " -c fft.cu " in line)
    end = next(at for at in range(begin + 1, len(lines)) if lines[at].startswith("nvcc"))
    (tmp_path / "head.log").write_text("".join(lines[:begin] + lines[end:]))
    call = ("diff", MAKE, tmp_path / "head.log", "--fail-on", "policy")
    result = run(*call, "-f", "json")
    assert result.returncode == 2
    (gap,) = json.loads(result.stdout)["gaps"]
    assert gap["code"] == "unit-missing"
    assert ": 5 kernels of the older build missing (" in gap["message"]
    assert run("diff", MAKE, tmp_path / "head.log").returncode == 0, "no gate, no verdict"
    assert run(*call, "--kernel", "conv*").returncode == 0, "what is not asked for is not missed"
    for accepted, expected in (("unit-missing", 0), ("unit-missing=fft.o", 0), ("unit-missing=conv.o", 2)):
        assert run(*call, "--accept", accepted).returncode == expected
