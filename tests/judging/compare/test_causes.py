"""Why registers grew: causes of code made by hand, and ``why`` on real cubins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spillscan.cli import main
from spillscan.judging.compare.causes import Growth, Kind
from spillscan.model import Kernel, KernelKey, LaunchBounds, Usage
from spillscan.model.code import Maker, SassStats
from spillscan.model.local import Group, LocalTraffic, SourceLine
from spillscan.reading.binary.pressure import Pressure
from spillscan.reading.machine.liveness import Live
from tests.conftest import ROOT
from tests.reading.binary.support import nothing, stored


def line(number: int) -> SourceLine:
    return SourceLine(file="/x/k.cu", line=number)


def kernel(
    options: str = "-v",
    version: str = "13.0.1",
    threads: int | None = None,
    array: int = 0,
    limit: int | None = 255,
    **opcodes: int,
) -> Kernel:
    """``array``: loads of a local array that is in memory."""
    stats = SassStats(
        instructions=sum(opcodes.values()),
        code_bytes=16 * sum(opcodes.values()),
        opcodes=tuple(opcodes.items()),
        maker=Maker(tool="ptxas", version=version, options=options),
        local=LocalTraffic(kept=((Group("array", False, 4, 0, False), array),) if array else ()),
        register_limit=limit,
    )
    bounds = None if threads is None else LaunchBounds(max_threads=threads)
    key = KernelKey(symbol="k", arch="sm_90", unit="")
    return Kernel(key=key, role="entry", usage=Usage(), sass=stats, launch_bounds=bounds)


def code(rows: list[tuple[SourceLine, int]], calls: int = 0) -> Pressure:
    """Instructions with their lines, and how many registers are live at each: those from R2 on."""
    return Pressure(
        Live([(1 << live) - 1 << 2 for _, live in rows], False),
        [source for source, _ in rows],
        None,
        calls,
        ["FADD"] * len(rows),
        nothing(len(rows)),
    )


PLAIN, BARE = code([(line(5), 4)] * 8), code([])
CASES: list[tuple[str, Kernel, Kernel, Pressure, Pressure, list[Kind]]] = [
    ("equal", kernel(), kernel(), PLAIN, PLAIN, []),
    ("an option", kernel("-arch sm_90"), kernel("-maxrregcount 32 -arch sm_90"), PLAIN, PLAIN, ["options"]),
    ("options unknown", kernel("-maxrregcount 32"), kernel(""), PLAIN, PLAIN, []),
    ("bounds", kernel(), kernel(threads=1024), PLAIN, PLAIN, ["bounds"]),
    ("blocks", kernel(threads=128), kernel(threads=128, limit=40), PLAIN, PLAIN, ["register-limit"]),
    ("explained", kernel(), kernel("-maxrregcount 40", limit=40), PLAIN, PLAIN, ["register-limit", "options"]),
    ("limit unknown", kernel(limit=None), kernel(limit=40), PLAIN, PLAIN, []),
    ("toolkit", kernel(), kernel(version="13.5.37"), PLAIN, PLAIN, ["toolkit"]),
    ("options", kernel("-O3 -v"), kernel("-O1"), PLAIN, PLAIN, ["options"]),
    ("unrolled", kernel(), kernel(), PLAIN, code([(line(5), 9)] * 32), ["lines"]),
    ("a little more", kernel(), kernel(), PLAIN, code([(line(5), 4)] * 9), []),
    ("fewer", kernel(), kernel(), PLAIN, code([(line(5), 4)] * 2), []),
    ("new line", kernel(), kernel(), PLAIN, code([(line(5), 4)] * 8 + [(line(6), 5)] * 4), ["lines"]),
    ("lines of one side", kernel(), kernel(), BARE, PLAIN, []),
    ("called", kernel(FADD=16), kernel(CALL=2, FADD=8), PLAIN, PLAIN._replace(calls=2), ["calls"]),
    ("in memory", kernel(), kernel(array=2), PLAIN, PLAIN, ["array"]),
    ("in memory before", kernel(array=1), kernel(array=2), PLAIN, PLAIN, []),
    ("in registers now", kernel(array=2), kernel(), PLAIN, PLAIN, []),
    ("jumps", kernel(FADD=8), kernel(CALL=2, FADD=8), PLAIN, PLAIN, []),
    ("other opcodes", kernel(FADD=8), kernel(DADD=8), BARE, BARE, []),
    (
        "several",
        kernel(),
        kernel("-maxrregcount=24", threads=64),
        PLAIN,
        code([(line(5), 9)] * 32),
        ["bounds", "options", "lines"],
    ),
]


def grown(before: Kernel, after: Kernel, old: Pressure, new: Pressure) -> Growth:
    return Growth(before, after, {id(before): old, id(after): new})


@pytest.mark.parametrize(("name", "before", "after", "old", "new", "expected"), CASES, ids=[case[0] for case in CASES])
def test_causes(name: str, before: Kernel, after: Kernel, old: Pressure, new: Pressure, expected: list[Kind]) -> None:
    assert [each.kind for each in grown(before, after, old, new).causes] == expected


def test_evidence_has_both_values_the_largest_change_first() -> None:
    new = code([(line(6), 4)] * 12 + [(line(7), 4)] * 4)
    (found,) = grown(kernel(), kernel(), PLAIN, new).causes
    assert found.evidence == "instructions by line: k.cu:6 0 → 12, k.cu:5 8 → 0, k.cu:7 0 → 4"
    (found,) = grown(kernel(), kernel(), PLAIN._replace(calls=1), PLAIN._replace(calls=2)).causes
    assert found.evidence == "calls 1 → 2"
    (found,) = Growth(kernel("-maxrregcount 48 -O1"), kernel("-O1 -maxrregcount 32 -v"), {}).causes
    assert found.evidence == "options -maxrregcount 48 → -maxrregcount 32"


def test_lines_that_wrote_more_of_the_peak() -> None:
    codes = PLAIN, code([(line(5), 4), (line(6), 9), (line(5), 6)])
    assert grown(kernel(), kernel(), *codes).at_peak == [("k.cu:6", 0, 5)]


def test_unknowns() -> None:
    bare = Kernel(key=KernelKey(symbol="k", arch="sm_90", unit=""), role="entry", usage=Usage())
    found = Growth(bare, bare, {})
    heads = ["live registers, and which lines grew", "toolkit and options"]
    assert [each.split(";")[0] for each in found.unknown] == heads
    assert found.causes == []


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side, name in (("old", "sass-sm_90a-12.3.cubin"), ("new", "sass-sm_90a-13.5.cubin")):
        (tmp_path / side).write_bytes(stored(name))
    call = ["diff", "--why", str(tmp_path / "old"), str(tmp_path / "new"), "--kernel", "array_and_spills"]
    assert main([*call, "-f", "json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert [cause["kind"] for cause in report["causes"]][-1] == "toolkit"
    assert report["metrics"]["live_registers"] == [30, 30]
    assert main(call) == 0
    text = capsys.readouterr().out
    assert "CUDA 12.3 → 13.5.37" in text
    assert "unknown: which lines grew; compile both builds with -lineinfo" in text
    demo = ROOT / "fixtures" / "demo"
    assert main(["diff", "--why", str(demo / "base.log"), str(demo / "head.log")]) == 0
    heads = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert heads == ["model::gemm<8>  sm_80", "model::gemm<8>  sm_90a", "model::rotate  sm_80", "model::rotate  sm_90a"]
    assert main(["diff", "--why", *[str(demo / "base.log")] * 2]) == 0
    assert capsys.readouterr().out == "no kernel that is in both builds uses more registers or spills more\n"
    assert main(["diff", "--why", *[str(demo / "base.log")] * 2, "--kernel", "*rotate*"]) == 0
    assert "\n  no known growth of registers or spills\n" in capsys.readouterr().out
    assert main(["diff", "--why", str(demo / "base.log"), str(tmp_path / "new")]) == 2
    assert "no selected kernel is in both builds" in capsys.readouterr().err
    assert main([*call[:-1], "nothing_like_it"]) == 2
    assert "no kernel matches --kernel 'nothing_like_it'" in capsys.readouterr().err
