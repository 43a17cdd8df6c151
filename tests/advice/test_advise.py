"""The command `advise`, and the commands that it prints."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from msgspec.structs import replace

from spillscan import scan
from spillscan.advice.families import advice, facts
from spillscan.advice.ranking import ranked
from spillscan.builds import RUN_FILE
from spillscan.builds.record import read
from spillscan.cli import main
from spillscan.commands._offers import source_of
from spillscan.judging.places import Tree
from spillscan.model import Usage
from spillscan.model.code import SassStats
from spillscan.model.local import CostLine, Group, LocalTraffic, SourceLine, Traffic
from spillscan.naming import Names
from spillscan.occupancy.launches import LaunchMap
from tests.builds.made import call, run_file
from tests.conftest import FIXTURES, ROOT, read_text
from tests.reading.binary.support import stored
from tests.reporting import kernel


def test_lines_name_inlined_code() -> None:
    inner = SourceLine(file="/lib/math.cuh", line=9, inlined_at=SourceLine(file="src/gemm.cu", line=50))
    line = CostLine(kind="spill", source=inner, accesses=2, bytes=8, depth=1, cost=80, share=1.0)
    group = Group("spill", True, 8, 1, False)
    stats = SassStats(instructions=8, code_bytes=128, opcodes=(("STL", 8),), local=LocalTraffic(kept=((group, 1),)))
    found = kernel("k", 8, sass=replace(stats, local=replace(stats.local, kept_lines=(line,))))
    (place,) = advice(ranked([found], Names([found.named_by]), LaunchMap())[0], LaunchMap(), Tree()).places
    assert place.text == "src/gemm.cu:50 (inlined: math.cuh:9)"


def test_saved_registers_need_no_lines() -> None:
    line = CostLine(kind="frame", source=SourceLine(file="k.cu", line=1), accesses=1, bytes=8, depth=0, cost=8, share=1)
    kept = (Group("frame", True, 16, 0, False), 1), (Group("array", False, 4, 0, False), 1)
    local = LocalTraffic(kept=kept, kept_lines=(line,), frame=Traffic(stores=1, store_bytes=8))
    code = SassStats(instructions=8, code_bytes=128, opcodes=(), local=local)
    found = kernel("k", role="function", usage=Usage(), sass=code)
    made = advice(ranked([found], Names([found.named_by]), LaunchMap())[0], LaunchMap(), Tree())
    assert [heading for heading, _ in facts(made)] == ["cause", "try"]


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
    dump, output = tmp_path / "k.sass", []
    place = "/opt/lib/site-packages/a-project/with-a-long-name/include"
    dump.write_text(read_text(FIXTURES / "sass" / "nvdisasm-gi-sm_80-13.5.sass").replace("/opt/project", place))
    for width in ("1000", "50"):
        monkeypatch.setenv("COLUMNS", width)
        assert main(["advise", str(dump), "--all"]) == 0
        output.append(capsys.readouterr().out.split())
    assert f"{place}/sass.cu:36" in output[0]
    assert output[0] == output[1]


def test_the_source_is_swept_if_its_compilation_is_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.cubin").write_bytes(stored("sass-sm_80-12.3.cubin"))
    known = call(tmp_path, ["nvcc", "-c", "k.cu", "-o", "k.cubin"], sources=("k.cu",), wrote=("k.cubin",))
    run_file(tmp_path / RUN_FILE, known)
    assert main(["advise", str(tmp_path / "k.cubin"), "--top", "1"]) == 0
    output = capsys.readouterr().out
    assert f"spillscan sweep {tmp_path}/{RUN_FILE} --kernel array_and_spills --arch sm_80" in output


@pytest.mark.parametrize(
    ("text", "alone"),
    [
        ("#include <cuda_runtime.h>\n#include <cmath>\n#include <cub/cub.cuh>\n", True),
        ('#include "beside.cuh"\n', True),
        ('#include "needs.cuh"\n', False),
        ('#include "elsewhere.cuh"\n', False),
        ("#include <torch/extension.h>\n", False),
    ],
)
def test_a_source_that_compiles_alone_is_only_tried_on_demand(
    text: str, alone: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "beside.cuh").write_text('#include "beside.cuh"\n')
    (tmp_path / "needs.cuh").write_text('#include "elsewhere.cuh"\n')
    (tmp_path / "k.cu").write_text(text)
    log = f"[1/1] clang++ -x cuda -c {tmp_path}/k.cu -o {tmp_path}/k.o\n" + (FIXTURES / "demo" / "head.log").read_text()
    (tmp_path / "build.log").write_text(log)
    assert main(["advise", str(tmp_path / "build.log"), "--top", "1"]) == 0
    assert "k.cu" not in capsys.readouterr().out, "a next step would compile it without the options of the build"
    assert {source_of(kernel, {}) for kernel in scan(tmp_path / "build.log").kernels} == {f"{tmp_path}/k.cu" * alone}


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
    output = shlex.quote(shlex.join(shlex.split(command.format(k=source))))
    wanted = f"spillscan sweep {output} --kernel" if command else "spillscan sweep"
    assert (wanted in " ".join(capsys.readouterr().out.split())) is bool(command)


def test_recorded_runs_are_swept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "k.cu"
    source.write_text("")
    command = ("nvcc", "-DX", "-c", "k.cu", "-o", "k.o")
    report = (FIXTURES / "demo" / "head.log").read_text()
    path = run_file(tmp_path / "any.json", call(tmp_path, command, report=report))
    assert main(["advise", str(path), "--top", "1"]) == 0
    assert f"spillscan sweep {path} --kernel" in " ".join(capsys.readouterr().out.split())
    (kept,) = read(str(path)).compilations
    assert (kept.command, kept.source, kept.folder) == (command, str(source), str(tmp_path))


def test_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["advise", str(FIXTURES / "demo" / "head.log"), "-f", "markdown"]) == 0
    output = capsys.readouterr().out
    assert "1. `model::gemm<8> (sm_80)`: 2 kernels, 100% of the spill cost" in output
    assert "   - cause: `unknown`" in output
    assert "limiter unknown for 12 of 12 kernels" in output


def test_unknown_limiters_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    dump = str(FIXTURES / "sass" / "cuobjdump-sm_80-13.5.sass.zst")
    assert main(["advise", dump, "--kernel", "local_array", "--kernel", "plain"]) == 0
    output = capsys.readouterr().out
    assert "local memory without spills (arrays, call frames): local_array (sm_80)" in output
    assert "nothing to fix; " in output
    assert "limiter unknown" in output


def test_occupancy_prints_fixes_of_spills(capsys: pytest.CaptureFixture[str]) -> None:
    log = str(ROOT / "fixtures" / "demo" / "head.log")
    assert main(["occupancy", log, "--launch", "gemm*=256", "--kernel", "gemm<8>", "--arch", "sm_80"]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "try: __launch_bounds__(256, 3): up to 80 registers, 4 → 3 blocks/SM (not tried)" in output
    assert main(["occupancy", log, "--launch", "gemm*=256", "--kernel", "gemm*", "-f", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {fix["kind"] for row in rows for fix in row["fixes"]} == {"try"}
