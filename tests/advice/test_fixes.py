"""What to do first: order, causes, the registers that end spills, and commands that work when they are pasted."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from msgspec.structs import replace

from spillscan import scan
from spillscan.advice.fixes import Need, causes, fix, registers_needed, relaxation, relief
from spillscan.advice.profile.exports import read_all
from spillscan.advice.profile.judged import judge
from spillscan.advice.ranking import Ranked, ranked
from spillscan.builds import buildfile
from spillscan.builds.buildfile import BuildFile, Kept, encoded
from spillscan.builds.databases import commands
from spillscan.builds.records import Record
from spillscan.cli import main
from spillscan.judging.places import Tree
from spillscan.model import Launch, LaunchBounds
from spillscan.model.code import Group, LocalTraffic, Maker, SassStats, SourceLine, Traffic, WarpRole, WeighedLine
from spillscan.model.units import Unit
from spillscan.naming import Names
from spillscan.occupancy.launches import LaunchMap, parse_launch
from spillscan.reading.binary.fetch import code_of
from spillscan.reading.inputs.source import expand
from tests.conftest import FIXTURES, ROOT, read_text
from tests.reading.binary.support import stored
from tests.reporting import kernel

MAPPED = LaunchMap((parse_launch("*=256"),))
NCU = FIXTURES / "ncu"


def code(spilled: dict[int, int], **more: object) -> SassStats:
    """Machine code that spills: bytes by loop depth."""
    groups = tuple((Group("spill", True, size, depth, False), 1) for depth, size in spilled.items())
    return SassStats(instructions=8, code_bytes=128, opcodes=(("STL", 8),), local=LocalTraffic(kept=groups), **more)  # type: ignore[arg-type]


def names(*kernels: object) -> Names:
    return Names([each.named_by for each in kernels])  # type: ignore[attr-defined]


def test_a_loop_weighs_more_than_many_bytes() -> None:
    plain = kernel("plain", 96, sass=code({0: 192}))
    looped = kernel("looped", 12, sass=code({2: 24}))
    logged = kernel("logged", 150)
    clean = kernel("clean")
    found = ranked([plain, clean, looped, logged], names(plain, clean, looped, logged), LaunchMap())
    assert [(each.family, each.weight) for each in found] == [("looped", 2400), ("logged", 300), ("plain", 192)]
    assert sum(each.share for each in found) == pytest.approx(1)


def test_families_are_ranked_as_one() -> None:
    two = [kernel(f"_Z4gemmILi{size}EEvPf", 40, sass=code({1: 80})) for size in (4, 8)]
    one = kernel("other", 60, sass=code({1: 120}))
    first, second = ranked([one, *two], names(one, *two), LaunchMap())
    assert (first.family, len(first.kernels), first.weight) == ("gemm", 2, 1600)
    assert second.family == "other"


def test_what_occupancy_limits_comes_last_and_what_nothing_helps_not_at_all() -> None:
    spills = kernel("spills", 8, registers=32)
    wide, wider, full = (kernel(f"k{n}", registers=n) for n in (72, 128, 32))
    every = [full, wide, wider, spills]
    assert [each.family for each in ranked(every, names(*every), MAPPED)] == ["spills", "k128", "k72"]
    assert [each.about for each in ranked(every, names(*every), LaunchMap())] == ["spills"], "no launch, no advice"


def test_a_profile_puts_first_what_takes_time() -> None:
    build = scan(str(NCU / "demo-13.0.log"))
    profile = judge(read_all(expand([str(NCU / "demo-sections.csv.zst")])), build)
    entries = Names([each.named_by for each in build.kernels])
    found = [each for each in ranked(build.kernels, entries, LaunchMap(), profile) if each.about == "spills"]
    spent = [each.spill_ns or 0 for each in found]
    assert spent == sorted(spent, reverse=True)
    assert found[0].family == "gemm88_min8_spill"
    assert 1.0e6 < (found[0].spill_ns or 0) < (found[0].time_ns or 0) < 1.8e6


def test_how_many_registers_end_the_spills() -> None:
    assert registers_needed(kernel("k", 0), None) is None
    logged = kernel("k", 40, registers=40)  # a frame of 40 bytes: ten values at most
    assert registers_needed(logged, None) == Need(registers=50, basis="rough estimate")
    assert registers_needed(logged, None, 64) == Need(registers=64, basis="tried")
    assert registers_needed(kernel("k", 4000, registers=255), None) is None
    assert registers_needed(kernel("k", 4000, registers=200), None) == Need(registers=255, basis="rough estimate")


@pytest.mark.parametrize("name", ["sass-sm_90a-13.5.cubin", "sass-sm_80-12.3.cubin"])
def test_the_demand_lies_between_the_live_registers_and_these_with_all_slots(name: str, tmp_path: Path) -> None:
    (tmp_path / "k.cubin").write_bytes(stored(name))
    build = scan(str(tmp_path / "k.cubin"))
    held = code_of(build.kernels, {})
    compared = 0
    for each in (each for each in build.kernels if id(each) in held):
        pressure = held[id(each)].pressure
        assert pressure
        assert each.sass
        demand = pressure.demand(each.sass.local)
        if demand is None:
            assert not each.sass.local.of("spill").accesses
            continue
        compared += 1
        slots = {access.slot for access in each.sass.local.accesses if access.kind == "spill"}
        assert each.sass.register_cap == 32
        assert pressure.peak.registers < demand <= pressure.peak.registers + 4 * len(slots)
        assert registers_needed(each, pressure) == Need(registers=demand, basis="estimate")
    assert compared == 3


def test_the_smallest_step_and_its_price() -> None:
    bounds = Launch(threads_per_block=128, source="bounds", dynamic_shared_bytes=0)
    spilling = kernel("k", 160, registers=40)
    step = relaxation(spilling, bounds, Need(registers=66, basis="estimate"))
    assert step is not None
    assert (step.threads, step.blocks, step.registers, step.blocks_before, step.blocks_after) == (128, 7, 72, 12, 7)
    free = relaxation(
        replace(spilling, usage=replace(spilling.usage, shared_bytes=50_000)), bounds, Need(registers=48, basis="tried")
    )
    assert free is not None
    assert free.blocks_before == free.blocks_after == 4
    assert "4 blocks/SM as before" in relief(spilling, Need(registers=48, basis="tried"), free, bounds)
    some = replace(bounds, dynamic_shared_bytes=None)
    need = Need(registers=66, basis="estimate")
    assert "leaves 72; at most 12 → 7 blocks/SM" in relief(spilling, need, relaxation(spilling, some, need), some)
    large = Launch(threads_per_block=1024, source="policy", dynamic_shared_bytes=0)
    need = Need(registers=100, basis="estimate")
    assert relaxation(spilling, large, need) is None
    assert "more than any bounds of 1,024 threads leave; blocks of at most 512 threads leave as many" in relief(
        spilling, need, None, large
    )
    assert relief(spilling, Need(registers=300, basis="estimate"), None, large).startswith(
        "no bounds end its spills: about 300"
    )
    one_more = Need(registers=256, basis="estimate")
    assert relief(spilling, one_more, None, large).startswith("no bounds leave more registers: fewer values a thread")
    assert "__maxnreg__(104)" in relief(spilling, need, None, None)


@pytest.mark.parametrize(
    ("options", "final", "offered"),
    [
        ("-arch sm_90 -m 64", None, True),
        ("-arch sm_90 --compile-only", None, False),
        ("-g --dont-merge-basicblocks -arch sm_90", None, False),
        ("-arch sm_90", False, False),
        ("-arch sm_90", True, False),
    ],
)
def test_shared_memory_is_offered_for_spills_only_where_ptxas_takes_the_pragma(
    options: str, final: bool | None, offered: bool
) -> None:
    made = Maker(tool="ptxas", version="13.0.88", options=options)
    bounds = LaunchBounds(max_threads=128)
    one = kernel("k", 8, registers=40, sass=code({0: 8}, maker=made), launch_bounds=bounds, dynamic_shared=False)
    one = replace(one, final=final)
    said = fix(ranked([one], names(one), LaunchMap())[0], LaunchMap(), Tree()).fixes
    found = [line for line in said if "enable_smem_spilling" in line]
    assert bool(found) == offered
    assert all("not tried" in line for line in found)


def test_what_its_compiler_or_its_role_forbids_is_not_offered() -> None:
    def first(version: str, role: str = "entry", options: str = "") -> str:
        made = Maker(tool="ptxas", version=version, options=options)
        one = replace(kernel("k", 8, registers=40, sass=code({0: 8}, maker=made)), role=role)
        about = Ranked("spills", "k", (one,), 8, 1.0)
        return fix(about, LaunchMap(), Tree()).fixes[0]

    assert "__maxnreg__(48)" in first("12.4.99")
    assert "-maxrregcount=48 for its file" in first("12.3.107")
    assert first("13.0.88", "function").startswith("it is not a kernel: bounds belong to the kernels that call it")
    for role in ("entry", "function"):
        assert first("13.0.88", role, "-v -g -arch sm_90").startswith("judge a build without -G")
    assert "__maxnreg__(48)" in first("13.0.88", options="-v -generate-line-info")


def test_causes_are_facts() -> None:
    def of(options: str, threads: int | None = None, registers: int = 40) -> list[str]:
        bounds = None if threads is None else LaunchBounds(max_threads=threads)
        made = Maker(tool="ptxas", version="13.0.88", options=options)
        return list(
            causes(
                kernel("k", 8, registers=registers, sass=code({0: 8}, maker=made), launch_bounds=bounds), Tree(), None
            )
        )

    assert of("-maxrregcount 40 -arch sm_90") == ["-maxrregcount=40 leaves it 40 registers"]
    assert of("-maxrregcount 40", threads=256) == [], "its bounds override the option"
    assert of("-arch sm_90", threads=256) == [], "a dump does not say the cap"
    assert of("-arch sm_90 -g") == [
        "built for a debugger (-G): ptxas optimises nothing, and calls what would be inlined"
    ]
    assert of("", registers=255) == ["it takes 255 registers, all that an instruction can name"]
    role = WarpRole(address=16, registers=24, follows=False, spill=Traffic(stores=2, store_bytes=8), local=Traffic())
    split = kernel("k", 8, sass=code({0: 8}, roles=(role,)))
    assert list(causes(split, Tree(), None)) == ["warps that setmaxnreg gives 24 registers spill 8 B"]
    assert fix(ranked([split], names(split), MAPPED)[0], MAPPED, Tree()).fixes[0].startswith("give the warps")


@pytest.mark.parametrize(
    ("registers", "says"),
    [(80, "leaves it 168 registers; ptxas stops at 80 by itself"), (166, "leaves it 168 registers")],
)
def test_bounds_that_leave_more_than_ptxas_takes_are_not_all_of_the_cause(registers: int, says: str) -> None:
    bounds = LaunchBounds(max_threads=384)
    found = kernel("k", 8, registers=registers, sass=code({0: 8}, register_cap=168), launch_bounds=bounds)
    cause = next(causes(found, Tree(), None))
    assert cause == f"__launch_bounds__(384) {says}"


def test_lines_come_with_what_was_inlined() -> None:
    inner = SourceLine(file="/lib/math.cuh", line=9, inlined_at=SourceLine(file="src/gemm.cu", line=50))
    line = WeighedLine(kind="spill", source=inner, accesses=2, bytes=8, depth=1, weight=80, share=1.0)
    stats = code({1: 8})
    found = kernel("k", 8, sass=replace(stats, local=replace(stats.local, kept_lines=(line,))))
    (place,) = fix(ranked([found], names(found), MAPPED)[0], MAPPED, Tree()).places
    assert place.text == "src/gemm.cu:50 (inlined: math.cuh:9)"


# ---- the command -----------------------------------------------------------------------------------------------------


def test_every_command_to_try_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.cubin").write_bytes(stored("sass-sm_80-12.3.cubin"))
    dump = FIXTURES / "sass" / "nvdisasm-gi-sm_80-13.5.sass"
    for inputs in ([str(tmp_path / "k.cubin")], [str(dump)], [str(FIXTURES / "demo" / "head.log")]):
        assert main(["advise", *inputs, "--launch", "*=128", "--all", "-f", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["families"] == len(found["first"]) > 0
        for entry in found["first"]:
            assert entry["commands"]
            assert entry["fixes"]
            for line in entry["commands"]:
                program, *words = shlex.split(line)
                assert program == "spillscan"
                assert main(words) == 0, line
                capsys.readouterr()


def test_no_path_is_broken_in_a_narrow_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that it can be copied."""
    dump, said = tmp_path / "k.sass", []
    place = "/opt/lib/site-packages/a-project/with-a-long-name/include"
    dump.write_text(read_text(FIXTURES / "sass" / "nvdisasm-gi-sm_80-13.5.sass").replace("/opt/project", place))
    for width in ("1000", "50"):
        monkeypatch.setenv("COLUMNS", width)
        assert main(["advise", str(dump), "--all"]) == 0
        said.append(capsys.readouterr().out.split())
    assert f"{place[1:]}/sass.cu:36" in said[0]
    assert said[0] == said[1]


def test_the_source_is_swept_where_its_compilation_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.cubin").write_bytes(stored("sass-sm_80-12.3.cubin"))
    entry = {"directory": str(tmp_path), "file": "k.cu", "command": "nvcc -c k.cu -o k.cubin", "output": "k.cubin"}
    (tmp_path / "compile_commands.json").write_text(json.dumps([entry]))
    assert main(["advise", str(tmp_path / "k.cubin"), "--top", "1"]) == 0
    said = capsys.readouterr().out
    assert f"spillscan sweep {tmp_path}/compile_commands.json --kernel array_and_spills --arch sm_80" in said


def test_the_record_of_its_compilation_is_swept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("k.cu").write_text("#include <project/own.h>\n")
    Path("k.o").write_bytes(b"")
    record = Record("k.o", ("nvcc", "-Iinclude", "-c", "k.cu", "-o", "k.o"))
    record.write((FIXTURES / "demo" / "head.log").read_bytes())
    assert record.keep() is None
    assert main(["advise", "k.o.spillscan.log", "--top", "1"]) == 0
    assert "spillscan sweep k.o.spillscan.log --kernel" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "swept"),
    [
        ("#include <cuda_runtime.h>\n#include <cmath>\n#include <cub/cub.cuh>\n", True),
        ('#include "beside.cuh"\n', True),
        ('#include "needs.cuh"\n', False),
        ('#include "elsewhere.cuh"\n', False),
        ("#include <torch/extension.h>\n", False),
    ],
)
def test_a_source_is_swept_alone_where_it_needs_no_options(
    text: str, swept: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "beside.cuh").write_text('#include "beside.cuh"\n')
    (tmp_path / "needs.cuh").write_text('#include "elsewhere.cuh"\n')
    (tmp_path / "k.cu").write_text(text)
    log = f"[1/1] clang++ -x cuda -c {tmp_path}/k.cu -o {tmp_path}/k.o\n" + (FIXTURES / "demo" / "head.log").read_text()
    (tmp_path / "build.log").write_text(log)
    assert main(["advise", str(tmp_path / "build.log"), "--top", "1"]) == 0
    assert (f"spillscan sweep {tmp_path}/k.cu --kernel" in capsys.readouterr().out) is swept


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("[1/1] nvcc -DTILE='8 16' -c {k} -o k.o", "nvcc -DTILE='8 16' -c {k} -o k.o"),
        ("cd x && ccache /opt/bin/nvcc -O3 -c {k} -o k.o && :", "/opt/bin/nvcc -O3 -c {k} -o k.o"),
        ("nvcc -c other.cu -o k.o && nvcc -c {k}", ""),
    ],
)
def test_the_command_of_the_log_is_swept(
    line: str, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever options its source needs."""
    source = tmp_path / "k.cu"
    source.write_text("#include <project/own.h>\n")
    log = line.format(k=source) + "\n" + (FIXTURES / "demo" / "head.log").read_text()
    (tmp_path / "build.log").write_text(log)
    assert main(["advise", str(tmp_path / "build.log"), "--top", "1"]) == 0
    said = shlex.quote(shlex.join(shlex.split(command.format(k=source))))
    wanted = f"spillscan sweep {said} --kernel" if command else "spillscan sweep"
    assert (wanted in " ".join(capsys.readouterr().out.split())) is bool(command)


def test_what_run_kept_is_swept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "k.cu"
    source.write_text("")
    command = ("nvcc", "-DX", "-c", "k.cu", "-o", "k.o")
    unit = Unit(source="k.cu", object="k.o", folder=".", command=command, state="done")
    report = (FIXTURES / "demo" / "head.log").read_text()
    path = tmp_path / buildfile.NAME
    path.write_text(encoded(BuildFile(command=("make",), status=0, units=(Kept(unit=unit, report=report),))))
    assert main(["advise", str(path), "--top", "1"]) == 0
    assert f"spillscan sweep {path} --kernel" in " ".join(capsys.readouterr().out.split())
    (kept,) = commands(str(path))
    assert (kept.words, kept.source, kept.folder) == (unit.command, str(source), str(tmp_path))


def test_a_sweep_is_better_than_an_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cubin, sweep = tmp_path / "k.cubin", tmp_path / "sweep.json"
    cubin.write_bytes(stored("sass-sm_80-12.3.cubin"))
    rows = [{"registers": n, "spill_store_bytes": 4 * (n < 50), "spill_load_bytes": 0} for n in (48, 50, 64)]
    sweep.write_text(
        json.dumps({"curves": [{"symbol": "array_and_spills", "arch": "sm_80", "points": rows, "advice": []}]})
    )
    assert main(["advise", str(cubin), "--measured", str(sweep), "--launch", "*=256", "--top", "1"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "50 registers end its spills (tried): __launch_bounds__(256, 4) leaves 64; 8 → 4 blocks/SM" in said
    sweep.write_text("[]")
    assert main(["advise", str(cubin), "--measured", str(sweep)]) == 2
    assert "is not a sweep" in capsys.readouterr().err


def test_markdown_and_what_is_not_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", str(FIXTURES / "demo" / "head.log"), "-f", "markdown"]) == 0
    said = capsys.readouterr().out
    assert "1. `gemm<8> (sm_80)`: 2 kernels, 100 % of the weight of all spills" in said
    assert "   - cause: `not known`" in said
    assert "not known what limits 10 of 12 kernels" in said


def test_what_is_open_is_no_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    dump = str(FIXTURES / "sass" / "cuobjdump-sm_80-13.5.sass.zst")
    assert main(["advise", dump, "--kernel", "local_array", "--kernel", "plain"]) == 0
    said = capsys.readouterr().out
    assert "local memory without spills (arrays, call frames): local_array (sm_80)" in said
    assert "nothing found so far; " in said
    assert "not known what limits" in said


def test_limiters_go_both_ways(capsys: pytest.CaptureFixture[str]) -> None:
    log = str(ROOT / "fixtures" / "demo" / "head.log")
    assert main(["occupancy", log, "--launch", "gemm*=256", "--kernel", "gemm<8>", "--arch", "sm_80"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "spills: about 96 registers may end its spills" in said
    assert "__launch_bounds__(256, 2) leaves 128; 4 → 2 blocks/SM" in said
    assert said.index("end its spills") < said.index("to reduce: 48 registers give 5 blocks")
    assert main(["occupancy", log, "--launch", "gemm*=256", "--kernel", "gemm*", "-f", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["registers_needed_by"] for row in rows} == {"rough estimate", None}
