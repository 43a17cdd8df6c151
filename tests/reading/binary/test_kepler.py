"""Kepler's cubins: figures from attributes; their machine code is not analysed."""

from __future__ import annotations

from pathlib import Path

import pytest

from spillscan.model import Kernel, KernelKey, Usage
from spillscan.model.metrics import METRICS
from spillscan.reading.binary.tables import table
from tests.conftest import FIXTURES, read_any, run
from tests.reading.binary.support import scanned, stored

LOG = FIXTURES / "ptxas" / "kepler-11.8.log"


@pytest.mark.parametrize("arch", ["sm_35", "sm_37"])
def test_values_equal_the_compilers_log(arch: str) -> None:
    reported = {
        each.key.symbol: each for each in read_any(LOG).kernels if each.key.arch == arch and each.role == "entry"
    }
    found = {function.symbol: function for function in scanned(stored(f"kepler-{arch}-11.8.cubin"))[0]}
    assert found.keys() == reported.keys()
    for symbol, kernel in reported.items():
        function, usage = found[symbol], found[symbol].usage
        assert usage is not None
        assert function.arch == arch
        figures = (usage.registers, usage.stack_bytes, usage.shared_bytes)
        assert figures == (kernel.usage.registers, kernel.usage.stack_bytes, kernel.usage.shared_bytes or 0)
        assert (usage.spills, function.stats.instructions) == (None, 0)


def test_undecodable_code_is_unknown(tmp_path: Path) -> None:
    """Not 0: neither in figures nor in gates; and the log that the advice speaks of has the spills."""
    assert table(35) is None
    path = tmp_path / "kepler.cubin"
    path.write_bytes(stored("kepler-sm_35-11.8.cubin"))
    found, issues = scanned(path.read_bytes())
    assert [issue.code for issue in issues] == ["unknown-arch"]
    assert "not analyzed for sm_35" in issues[0].message
    for function in found:
        assert function.usage is not None
        assert function.usage.spills is None
        assert function.stats.spills(function.role) is None
        for figure in METRICS:
            if figure.source == "code" and figure.get is not None:
                assert (
                    figure.get(Kernel(key=KernelKey(symbol="k"), role="entry", usage=Usage(), sass=function.stats))
                    is None
                )
    assert b"warps, regs  -\n" in run("scan", path).stdout, "spills in loops"
    for kernel in ("*", "spills_wide"):
        assert b"machine code not analyzed\n" in run("show", kernel, path).stdout
    done = run("check", path)
    assert done.returncode == 2
    assert b"a ptxas -v log reports their spills" in done.stdout + done.stderr
    assert b"mismatch" not in run("check", path, LOG).stdout
