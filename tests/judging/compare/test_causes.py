"""Why registers grew: causes of code made by hand, and ``why`` on real cubins."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from spillscan.cli import main
from spillscan.judging.compare.causes import Kind, causes, held, makers, open_questions, risen
from spillscan.model import Build, Kernel, KernelKey, LaunchBounds, Usage
from spillscan.model.code import Group, LocalTraffic, Maker, SassStats, SourceLine
from spillscan.model.units import Unit
from spillscan.reading.binary.pressure import Pressure
from spillscan.reading.machine.liveness import WORDS, Live
from tests.conftest import ROOT
from tests.reading.binary.support import nothing, stored

CALLED = SourceLine(file="/x/k.cu", line=3)
INLINED = SourceLine(file="/x/k.cu", line=3, inlined_at=SourceLine(file="/x/k.cu", line=9))


def line(number: int) -> SourceLine:
    return SourceLine(file="/x/k.cu", line=number)


def kernel(
    options: str = "-v",
    version: str = "13.0.1",
    threads: int | None = None,
    array: int = 0,
    cap: int | None = 255,
    **opcodes: int,
) -> Kernel:
    """``array``: loads of a local array that is in memory."""
    stats = SassStats(
        instructions=sum(opcodes.values()),
        code_bytes=16 * sum(opcodes.values()),
        opcodes=tuple(opcodes.items()),
        maker=Maker(tool="ptxas", version=version, options=options),
        local=LocalTraffic(kept=((Group("array", False, 4, 0, False), array),) if array else ()),
        register_cap=cap,
    )
    bounds = None if threads is None else LaunchBounds(max_threads=threads)
    key = KernelKey(symbol="k", arch="sm_90", unit="")
    return Kernel(key=key, role="entry", usage=Usage(), sass=stats, launch_bounds=bounds)


def code(rows: list[tuple[SourceLine, int]], accesses: dict[tuple[str, int], int] | None = None) -> Pressure:
    """Instructions with their lines, and how many registers are live at each: those from R2 on."""
    data = b"".join(((1 << live) - 1 << 2).to_bytes(8 * WORDS, "little") for _, live in rows)
    sets = np.frombuffer(data, np.uint64).reshape(-1, WORDS)
    return Pressure(
        Live(sets, False),
        [source for source, _ in rows],
        Counter(accesses or {}),
        None,
        0,
        (("FADD",), np.zeros(len(rows), np.int64)),
        nothing(len(rows)),
    )


PLAIN = code([(line(5), 4)] * 8)
CASES: list[tuple[str, Kernel, Kernel, Pressure, Pressure, list[Kind]]] = [
    ("equal", kernel(), kernel(), PLAIN, PLAIN, []),
    ("cap", kernel("-arch sm_90"), kernel("-maxrregcount 32 -arch sm_90"), PLAIN, PLAIN, ["cap"]),
    ("options not known", kernel("-maxrregcount 32"), kernel(""), PLAIN, PLAIN, []),
    ("bounds", kernel(), kernel(threads=1024), PLAIN, PLAIN, ["bounds"]),
    ("blocks", kernel(threads=128), kernel(threads=128, cap=40), PLAIN, PLAIN, ["cap"]),
    ("explained", kernel(), kernel("-maxrregcount 40", cap=40), PLAIN, PLAIN, ["cap"]),
    ("cap not known", kernel(cap=None), kernel(cap=40), PLAIN, PLAIN, []),
    ("toolkit", kernel(), kernel(version="13.5.37"), PLAIN, PLAIN, ["toolkit"]),
    ("options", kernel("-O3 -v"), kernel("-O1"), PLAIN, PLAIN, ["options"]),
    ("unrolled", kernel(), kernel(), PLAIN, code([(line(5), 9)] * 32), ["repeated"]),
    ("a little more", kernel(), kernel(), PLAIN, code([(line(5), 4)] * 9), []),
    ("new", kernel(), kernel(), PLAIN, code([(line(5), 4)] * 8 + [(line(6), 5)] * 4), ["new-code"]),
    ("wide", kernel(), kernel(), code([], {("LDG", 4): 8}), code([], {("LDG", 16): 2}), ["wider"]),
    ("double", kernel(FADD=8), kernel(DADD=8), PLAIN, PLAIN, ["wider"]),
    (
        "inlined",
        kernel(CALL=2, FADD=8),
        kernel(FADD=16),
        code([(line(9), 4)] * 4 + [(CALLED, 4)] * 4)._replace(calls=2),
        code([(line(9), 4)] * 2 + [(INLINED, 4)] * 8),
        ["inlined"],
    ),
    (
        "outlined",
        kernel(FADD=16),
        kernel(CALL=2, FADD=8),
        code([(line(9), 4)] * 2 + [(INLINED, 4)] * 8),
        code([(line(9), 4)] * 4 + [(CALLED, 4)] * 4)._replace(calls=2),
        ["outlined"],
    ),
    ("in memory", kernel(), kernel(array=2), PLAIN, PLAIN, ["array"]),
    ("in memory before", kernel(array=1), kernel(array=2), PLAIN, PLAIN, []),
    ("in registers now", kernel(array=2), kernel(), PLAIN, PLAIN, []),
    ("jumps", kernel(FADD=8), kernel(CALL=2, FADD=8), PLAIN, PLAIN, []),
    (
        "several",
        kernel(),
        kernel("-maxrregcount=24", threads=64),
        PLAIN,
        code([(line(5), 9)] * 32),
        ["bounds", "cap", "repeated"],
    ),
]


@pytest.mark.parametrize(("name", "before", "after", "old", "new", "expected"), CASES, ids=[case[0] for case in CASES])
def test_causes(name: str, before: Kernel, after: Kernel, old: Pressure, new: Pressure, expected: list[Kind]) -> None:
    assert [each.kind for each in causes(before, after, old, new)] == expected


class _Loops:
    """Control of which the loops around each instruction are known."""

    def __init__(self, *depths: int | None, loops: int = 1) -> None:
        self._depths, self._loops = depths, loops

    def loops(self) -> Counter[int]:
        return Counter(dict.fromkeys((1, 2), self._loops))

    def depths(self) -> tuple[int | None, ...]:
        return self._depths


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ((0, 1, 1, 1), (0, 0, 0, 1), "loads in 1 loop 3 → 1, in fewer 1 → 3"),
        ((0, 1, 2, 2), (0, 1, 1, 2), "loads in 2 loops 2 → 1, in fewer 2 → 3"),
        ((0, 1, 1, 1), (0, 1, 1, 1), ""),
        ((0, 1, 1, 1), (0, 0, 1, 1, 1), ""),  # one more, and none left a loop
        ((None, 1, 1, 1), (None, 1, None, 1), ""),
    ],
)
def test_loads_that_left_a_loop(before: tuple[int | None, ...], after: tuple[int | None, ...], expected: str) -> None:
    old, new = (
        code([(line(5), 4)] * len(depths))._replace(
            graph=_Loops(*depths), opcodes=(("IADD3", "LDG"), np.ones(len(depths), np.int64))
        )
        for depths in (before, after)
    )
    assert [each.evidence for each in causes(kernel(), kernel(), old, new)] == [expected] * bool(expected)


def test_loads_of_a_loop_that_is_gone_left_none() -> None:
    old, new = (
        code([(line(5), 4)] * 4)._replace(
            graph=_Loops(*depths, loops=loops), opcodes=(("IADD3", "LDG"), np.ones(4, np.int64))
        )
        for depths, loops in (((0, 1, 1, 1), 2), ((0, 0, 0, 1), 1))
    )
    assert causes(kernel(), kernel(), old, new) == []


@pytest.mark.parametrize(("loops", "kind"), [(2, "mix"), (1, "repeated")], ids=["as many loops", "fewer: unrolled"])
def test_other_instructions_of_lines_that_stand_more_often(loops: int, kind: Kind) -> None:
    names, depths = ("FADD", "FMUL"), [0] * 16
    old = code([(line(5), 4)] * 8)._replace(graph=_Loops(*depths[:8], loops=2), opcodes=(names, np.zeros(8, np.int64)))
    new = code([(line(5), 4)] * 16)._replace(graph=_Loops(*depths, loops=loops), opcodes=(names, np.ones(16, np.int64)))
    (found,) = causes(kernel(FADD=8), kernel(FMUL=16), old, new)
    assert (found.kind, found.lines) == (kind, ("k.cu:5",))


def test_wide_accesses_of_lines_that_load_more_often_are_not_the_cause() -> None:
    names = ("STS", "LDG")
    old = code([(line(5), 4)] * 2, {("STS", 2): 1})._replace(opcodes=(names, np.array([0, 1])))
    new = code([(line(5), 9)] * 9, {("STS", 8): 1})._replace(opcodes=(names, np.array([0] + [1] * 8)))
    assert [each.kind for each in causes(kernel(), kernel(), old, new)] == ["repeated"]


def test_other_instructions_are_said_where_nothing_else_differs() -> None:
    (found,) = causes(kernel(FFMA=30, NOP=2), kernel(FFMA=13, MUFU=1, NOP=5), PLAIN, PLAIN)
    assert (found.kind, found.evidence.partition(": ")[2]) == ("mix", "FFMA 30 → 13, MUFU 0 → 1")
    (found,) = causes(kernel(FFMA=30), kernel(version="13.5.37", FFMA=13), PLAIN, PLAIN)
    assert found.kind == "toolkit"


@pytest.mark.parametrize(
    ("cap", "added", "expected"),
    [
        (255, {"FFMA": 30}, "another source, or flags of the compiler before ptxas"),
        (None, {"FFMA": 30}, "source, options or bounds: not known which"),
        (None, {"FFMA": 30, "STL": 50}, "source, options or bounds: not known which"),
        (255, {"STL": 50, "LDL": 50, "MOV": 9}, None),  # what spills add is no cause of them
    ],
)
def test_why_instructions_are_others_is_said_only_where_it_is_known(
    cap: int | None, added: dict[str, int], expected: str | None
) -> None:
    found = causes(kernel(cap=cap), kernel(cap=cap, **added), None, None)
    assert [each.evidence.partition("(")[2].partition(")")[0] for each in found] == [expected] * bool(expected)


def test_it_is_said_which_build_shows_no_code() -> None:
    said = [next(open_questions(kernel(), kernel(), *sides)) for sides in ((None, PLAIN), (PLAIN, None), (None, None))]
    assert [each.partition(": ")[2] for each in said] == [
        f"give a binary of {which} (sm_75 and later)"
        for which in ("the older build", "the newer build", "either build")
    ]


def test_lines_where_more_is_live_and_held() -> None:
    new = code([(line(5), 4), (line(6), 9), (line(5), 6)])
    assert risen(code([(line(5), 4), (line(6), 5)]), new) == [("k.cu:6", 5, 9), ("k.cu:5", 4, 6)]
    assert held(PLAIN, new) == [("k.cu:6", 0, 5)]


def test_what_is_not_known_is_said() -> None:
    bare = Kernel(key=KernelKey(symbol="k", arch="sm_90", unit=""), role="entry", usage=Usage())
    said = list(open_questions(bare, bare, None, None))
    heads = ["live registers, and which lines grew", "toolkit and options of both builds"]
    assert [each.split(":")[0] for each in said] == heads
    assert causes(bare, bare, None, None) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("nvcc -c k.cu -o k.o", "nvcc -maxrregcount 48 -c k.cu -o k.o", ["-maxrregcount none → 48"]),
        ("nvcc -I a -c a/k.cu -o a/k.o", "nvcc -use_fast_math -Ib -c b/k.cu", ["options none → -use_fast_math"]),
        ("nvcc -gencode arch=compute_80,code=sm_80 -O1 -c k.cu", "ccache nvcc -arch sm_80 -O1 -c k.cu", []),
        ("nvcc -O1 -c k.cu", "clang++ -c k.cu", []),
        ("nvcc -O1 -c k.cu", "", []),
    ],
)
def test_options_of_the_commands_are_compared_where_one_tool_compiled_both(
    old: str, new: str, expected: list[str]
) -> None:
    bare = Kernel(key=KernelKey(symbol="k", arch="sm_90", unit=""), role="entry", usage=Usage(), source="k.cu")
    units = [Unit(source="k.cu", command=tuple(words.split())) for words in (old, new)]
    first, second = (makers(Build(kernels=(bare,), units=(unit,)))(bare) for unit in units)
    assert [each.evidence for each in causes(bare, bare, None, None, (first, second))] == expected
    compared = first is not None and second is not None and first.tool == second.tool
    assert any("toolkit" in each for each in open_questions(bare, bare, None, None, (first, second))) != compared


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side, name in (("old", "sass-sm_90a-12.3.cubin"), ("new", "sass-sm_90a-13.5.cubin")):
        (tmp_path / side).write_bytes(stored(name))
    call = ["diff", "--why", str(tmp_path / "old"), str(tmp_path / "new"), "--kernel", "array_and_spills"]
    assert main([*call, "-f", "json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert [cause["kind"] for cause in report["causes"]][-1] == "toolkit"
    assert report["figures"]["live_registers"] == [30, 30]
    assert main(call) == 0
    text = capsys.readouterr().out
    assert "CUDA 12.3 → 13.5.37" in text
    assert "unknown: which lines grew: compile both builds with -lineinfo" in text
    demo = ROOT / "fixtures" / "demo"
    assert main(["diff", "--why", str(demo / "base.log"), str(demo / "head.log")]) == 0
    heads = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert heads == ["model::gemm<8>  sm_80", "model::gemm<8>  sm_90a", "model::rotate  sm_80", "model::rotate  sm_90a"]
    assert main(["diff", "--why", *[str(demo / "base.log")] * 2]) == 0
    assert capsys.readouterr().out == "no kernel of both builds takes more registers or spills more\n"
    assert main(["diff", "--why", str(demo / "base.log"), str(tmp_path / "new")]) == 2
    assert "no such kernel is in both builds" in capsys.readouterr().err
    assert main([*call[:-1], "nothing_like_it"]) == 2
    assert "no kernel matches --kernel 'nothing_like_it'" in capsys.readouterr().err
