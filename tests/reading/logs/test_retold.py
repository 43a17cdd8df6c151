"""Reports as people paste them: figures that are there are read, and no name is made up."""

from __future__ import annotations

import pytest

from spillscan.model import Kernel
from tests.conftest import read_log

HEAD = "ptxas info    : "
STACK = "    {} bytes stack frame, {} bytes spill stores, {} bytes spill loads\n"


def figures(kernel: Kernel) -> tuple[object, ...]:
    """(symbol, arch, registers, shared memory, spills)."""
    usage = kernel.usage
    return kernel.key.symbol, kernel.key.arch, usage.registers, usage.shared_bytes, usage.spills


ROWS = (
    ("Used 22 registers, 12 bytes smem\nUsed 7 registers\n", [("", None, 22, 12, None), ("", None, 7, 0, None)]),
    (f"{HEAD}Used 64 registers, used 1 barriers\n{HEAD}Compile time = 3.1 ms\n", [("", None, 64, 0, None)]),
    (STACK.format(8, 4, 4) + STACK.format(0, 0, 0), [("", None, None, None, (4, 4)), ("", None, None, None, (0, 0))]),
    (STACK.format(8, 4, 4) + f"{HEAD}Used 9 registers\n", [("", None, 9, 0, (4, 4))]),
    (
        STACK.format(8, 4, 4) + f"{HEAD}Used 9 registers\n{HEAD}Used 10 registers\n",
        [("", None, None, None, (4, 4)), ("", None, 9, 0, None), ("", None, 10, 0, None)],
    ),
    (f"{HEAD}Used 40 registers, 16 bytes spill stores, 20 bytes spill loads\n", [("", None, 40, 0, (16, 20))]),
    (
        f"{HEAD}Used 40 registers, 48 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads, 64 bytes smem\n",
        [("", None, 40, 64, (16, 20))],
    ),
    (f"{HEAD}Function gemm, 64 bytes smem, 128 bytes lmem\n", [("gemm", None, None, 64, None)]),
    (
        f'{HEAD}Compiling entry function "gemm" for "sm_90"\n{HEAD}Function properties for "gemm"\n'
        + STACK.format(0, 0, 0)
        + f"{HEAD}Used 8 registers\n",
        [("gemm", "sm_90", 8, 0, (0, 0))],
    ),
    (
        f"{HEAD}Compiling entry function gemm for sm_90a\n{STACK.format(16, 8, 8)}  Used 168 registers\n",
        [("gemm", "sm_90a", 168, 0, (8, 8))],
    ),
    (
        f"{HEAD}Compiling entry function '...' for 'sm_90'\n{HEAD}Function properties for …\n"
        + STACK.format(0, 0, 0)
        + f"{HEAD}Used 8 registers\n",
        [("", "sm_90", 8, 0, (0, 0))],
    ),
    (
        f"{HEAD}Function properties for gemm\nptxas info : {STACK.format(16, 4, 8).lstrip()}",
        [("gemm", None, None, None, (4, 8))],
    ),
)


@pytest.mark.parametrize(("text", "expected"), ROWS)
def test_values_are_read_and_no_name_is_made_up(text: str, expected: list[tuple[object, ...]]) -> None:
    found = read_log(text)
    assert sorted(map(figures, found.kernels), key=str) == sorted(expected, key=str)
    named = all(symbol for symbol, *_ in expected)
    assert [issue.code for issue in found.issues] == ([] if named else ["unnamed-kernel"])


@pytest.mark.parametrize(
    "line",
    [
        "--- 64 registers, 16 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads, kernel:\n",
        "gemm: 8 bytes spill stores in the main loop\n",
    ],
)
def test_another_tools_line_is_a_gap_and_accuses_nobody(line: str) -> None:
    (issue,) = read_log(f"{HEAD}0 bytes gmem\n{line}").issues
    assert issue.hidden
    assert not any(word in issue.message for word in ("torn", "whole line", "begins inside", "compilers"))


WARNING = "ptxas warning : Registers are spilled to local memory in function 'gemm'\n"
BLOCK = (
    f"{HEAD}Compiling entry function 'gemm' for 'sm_80'\n{HEAD}Function properties for gemm\n"
    + STACK.format(16, 8, 8)
    + f"{HEAD}Used 32 registers, 352 bytes cmem[0]\n"
)


def test_omitted_lines_are_not_other_compilers() -> None:
    found = read_log(f"{BLOCK}(snip)\n{STACK.format(8, 8, 8)}{HEAD}Used 72 registers, 360 bytes cmem[0]\n")
    messages = [issue.message for issue in found.issues if issue.code == "interleaved"]
    assert all("or lines are missing" in message for message in messages)


@pytest.mark.parametrize(("text", "spills"), [(BLOCK + WARNING, (8, 8)), (WARNING + BLOCK, (8, 8)), (WARNING, None)])
def test_a_warning_without_amounts_is_its_kernels(text: str, spills: tuple[int, int] | None) -> None:
    (kernel,) = read_log(text).kernels
    assert kernel.usage.spills == spills
    assert [each.kind for each in kernel.advisories] == ["spill_warning"]


@pytest.mark.parametrize(
    "line",
    [
        "ptxas /tmp/x.compute_13.ptx, line 0; : fatal error : (C9999) max reg limit too low",
        "| ptxas fatal   : Ptx assembly aborted due to errors |",
        "ptxas x.ptx, line 3; error   : Feature 'alloca' requires PTX ISA .version 7.3 or later",
        "ptxas error: Entry function 'gemm' uses too much shared data (0xea60 bytes, 0xc000 max)",
    ],
)
def test_an_error_of_any_release_is_one_failed_step(line: str) -> None:
    (issue,) = read_log(line + "\n").issues
    assert issue.code == "build-failed"
    assert not issue.message.endswith("|")


def test_a_warning_of_two_kernels_names_both() -> None:
    warnings = "".join(
        f"ptxas warning : Stack size for entry function '{name}' cannot be statically determined\n"
        for name in ("_Z1f1av", "_Z1f2av")
    )
    found = read_log(warnings + BLOCK)
    assert all(any(name in issue.message for issue in found.issues) for name in ("_Z1f1av", "_Z1f2av"))


@pytest.mark.parametrize("arch", ["sm_52", "sm_80", "sm_90", "sm_121"])
def test_a_log_cut_after_its_barriers_leaves_shared_memory_unknown(arch: str) -> None:
    text = BLOCK.replace("sm_80", arch).replace(", 352 bytes cmem[0]", ", used 1 barriers").rstrip("\n")
    assert {kernel.usage.shared_bytes for kernel in read_log(text).kernels} == {None}
