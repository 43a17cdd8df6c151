"""Kepler's code: what ptxas's log says of the same cubins, and what keeps other architectures from being read."""

from __future__ import annotations

from pathlib import Path

import pytest

from spillscan.model import Kernel, KernelKey, Usage
from spillscan.model.figures import FIGURES
from spillscan.reading.binary.opcode_tables import table
from tests.conftest import FIXTURES, read_any, run
from tests.reading.binary.support import functions, scanned, stored

LOG = FIXTURES / "ptxas" / "kepler-11.8.log"


@pytest.mark.parametrize("arch", ["sm_35", "sm_37"])
def test_figures_equal_the_compilers_log(arch: str) -> None:
    reported = {
        each.key.symbol: each for each in read_any(LOG).kernels if each.key.arch == arch and each.role == "entry"
    }
    found = {function.symbol: function for function in functions(f"kepler-{arch}-11.8.cubin")}
    assert found.keys() == reported.keys()
    spilling = unknown = settled = 0
    for symbol, kernel in reported.items():
        function, usage = found[symbol], found[symbol].usage
        assert usage is not None
        assert function.arch == arch
        figures = (usage.registers, usage.stack_bytes, usage.shared_bytes)
        assert figures == (kernel.usage.registers, kernel.usage.stack_bytes, kernel.usage.shared_bytes or 0)
        local, spills = function.stats.local, function.stats.spills("entry")
        assert spills in (kernel.usage.spills, None)
        assert usage.spills == ((0, 0) if not local.total.accesses else None)
        assert {access.depth for access in local.accesses} <= {None}
        assert set(function.stats.unknown_opcodes) <= {"LDG/TEX"}  # no bit says which
        settled += "LDG/TEX" in dict(function.stats.opcodes)
        spilling += any(kernel.usage.spills or ())
        unknown += spills is None
    assert spilling > unknown
    assert settled


def test_instructions_stand_seven_behind_a_control_word() -> None:
    for function in functions("kepler-sm_35-11.8.cubin"):
        groups, rest = divmod(function.stats.code_bytes, 64)
        assert function.stats.instructions == 7 * groups + max(0, rest // 8 - 1)
        assert dict(function.stats.opcodes)["EXIT"] >= 1


def test_what_no_tool_reads_is_not_known(tmp_path: Path) -> None:
    """Not 0: neither in figures nor in gates; and the log that the advice speaks of has the spills."""
    assert table(30) is None
    path = tmp_path / "kepler.cubin"
    path.write_bytes(stored("kepler-sm_35-11.8.cubin").replace(b"\x23\x05\x23\x00", b"\x1e\x05\x1e\x00"))
    found, issues = scanned(path.read_bytes())
    assert {function.arch for function in found} == {"sm_30"}
    assert [issue.code for issue in issues] == ["unknown-arch"]
    for function in found:
        assert function.usage is not None
        assert function.usage.spills is None
        assert function.stats.spills(function.role) is None
        for figure in FIGURES:
            if figure.source == "code" and figure.get is not None:
                assert (
                    figure.get(Kernel(key=KernelKey(symbol="k"), role="entry", usage=Usage(), sass=function.stats))
                    is None
                )
    done = run("check", path)
    assert done.returncode == 2
    assert b"a log of ptxas -v says what they spill" in done.stdout + done.stderr
