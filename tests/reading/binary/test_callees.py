"""Callees in the code of whole-program kernels, and relocatable device functions: log, binary and gates agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from spillscan import scan
from spillscan.judging.policy.effective import Policy
from spillscan.judging.rules import check
from spillscan.model import Build, Kernel
from spillscan.reading.join.code import attach_code
from tests.conftest import FIXTURES, read_any, run
from tests.reading.binary.support import scanned, stored, with_callees

RELEASES = ("12.4", "12.6", "13.5")
CALLEES = {
    "calls_none": set(),
    "calls_one": {"_Z7pressedPKfif"},
    "calls_two": {"_Z6middlePKfif", "_Z7pressedPKfif"},
    "calls_itself": {"_Z9recursivePKfi"},
}


def listed(release: str) -> dict[tuple[str, str], Kernel]:
    """Spills in the log, by kernel and callee (including the kernel itself)."""
    found, kernel = {}, ""
    for record in read_any(FIXTURES / "ptxas" / f"callees-{release}.log").kernels:
        kernel = record.key.symbol if record.role == "entry" else kernel
        found[kernel, record.key.symbol] = record
    return found


def test_a_log_sums_up_spills_of_callees() -> None:
    for release in RELEASES:
        found = listed(release)
        for symbol, callees in CALLEES.items():
            kernel = found[symbol, symbol]
            mine = [record for (caller, _), record in found.items() if caller == symbol]
            assert {record.key.symbol for record in mine} == {symbol, *callees}
            pairs = [record.usage.spills or (0, 0) for record in mine]
            together = (sum(stores for stores, _ in pairs), sum(loads for _, loads in pairs))
            assert kernel.usage.cumulative_spills == (together if callees else None)


def test_relocatable_code_has_no_sum() -> None:
    kernels = read_any(FIXTURES / "ptxas" / "callees-c-13.5.log").kernels
    assert any(kernel.usage.spill_bytes for kernel in kernels)
    assert {kernel.usage.cumulative_spills for kernel in kernels} == {None}


@pytest.mark.parametrize("release", RELEASES)
def test_binary_and_log_agree(release: str) -> None:
    reported, unknown = listed(release), set()
    found = with_callees(f"callees-{release}.cubin")
    assert {(function.caller or function.symbol, function.symbol) for function in found} == reported.keys()
    for function in found:
        record, usage = reported[function.caller or function.symbol, function.symbol], function.usage
        assert usage is not None
        assert function.role == record.role
        assert function.arch == record.key.arch
        own_frame = function.symbol == "_Z9recursivePKfi"  # ptxas counts more than the code takes: unknown
        assert usage.stack_bytes == (None if own_frame else record.usage.stack_bytes)
        if record.usage.cumulative_stack_bytes is not None:  # a log has it unless it is 0
            assert usage.cumulative_stack_bytes == record.usage.cumulative_stack_bytes
        assert function.stats.instructions == sum(count for _, count in function.stats.opcodes) > 0
        judged = function.stats.spills(function.role)
        assert judged in (record.usage.spills, None)
        if judged is None:
            least, most = (each.pair for each in function.stats.local.own.bounds(function.role))
            assert all(
                low <= each <= high for low, each, high in zip(least, record.usage.spills or (), most, strict=True)
            )
            unknown.add(function.symbol)
        if release != "12.4":
            assert usage.spills == record.usage.spills
            assert usage.cumulative_spills == record.usage.cumulative_spills
    assert unknown == ({"_Z9recursivePKfi"} if release == "12.4" else set())


def test_saved_registers_of_relocatable_functions_are_counted_as_ptxas_counts_them() -> None:
    reported = {
        kernel.key.symbol: kernel.usage for kernel in read_any(FIXTURES / "ptxas" / "callees-c-13.5.log").kernels
    }
    found = {each.symbol: each.usage for each in with_callees("callees-c-13.5.cubin") if each.symbol in reported}
    assert found.keys() == reported.keys()
    for symbol, usage in reported.items():
        mine = found[symbol]
        assert mine is not None
        assert (mine.spills, mine.stack_bytes) == (usage.spills, usage.stack_bytes)


def test_annotations_leave_no_doubt() -> None:
    for name in ("callees-12.6.cubin", "callees-13.5.cubin", "callees-c-13.5.cubin"):
        for function in with_callees(name):
            assert not function.stats.local.own.doubtful


def test_log_and_binary_join(tmp_path: Path) -> None:
    path = tmp_path / "callees.cubin"
    path.write_bytes(stored("callees-13.5.cubin"))
    build = scan([FIXTURES / "ptxas" / "callees-13.5.log", path])
    assert not [issue for issue in build.issues if issue.severity != "note"]
    assert {kernel.role for kernel in build.kernels} == {"entry", "function"}
    assert all(kernel.sass for kernel in build.kernels)
    assert len(build.kernels) == len(listed("13.5"))


@pytest.mark.parametrize("name", [*(f"callees-{release}.cubin" for release in RELEASES), "callees-c-13.5.cubin"])
def test_a_gate_sees_spills_of_callees(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(stored(name))
    done = run("check", path)
    assert done.returncode == 1, done.stdout
    assert b"pressed" in done.stdout
    if "-c-" not in name:
        assert b"calls_one (" in done.stdout
        assert b"including its callees" in done.stdout


def test_the_sum_alone_makes_a_gate_fail() -> None:
    functions = [each for each in scanned(stored("callees-13.5.cubin"))[0] if each.symbol == "calls_one"]
    (kernel,) = attach_code([], functions)[0]
    assert kernel.spills == (0, 0)
    found = check(Build(kernels=(kernel,)), Policy()).findings
    assert "spill" in {finding.rule for finding in found}
