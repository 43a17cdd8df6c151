"""`advise --try` and `limiters --try`: each step equals ptxas run by hand; a step that cannot be tried has a reason."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from spillscan.advice.sweep import ptx
from spillscan.advice.sweep.settings import Setting
from tests.advice.sweep.support import NVCC, PTX, PTXAS, run
from tests.conftest import FIXTURES, sized

SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
GEMM, ATTENTION = "_Z4gemmILi8ELi8EEvPKfS1_Pfiii", "_Z9attentionILi64EEvPKfS1_S1_Pfi"


def spillscan(folder: Path, *words: str, **environment: str) -> tuple[int, str]:
    status, said, errors = run(*words, folder=folder, **environment)
    return status, said or errors


def first(folder: Path, *words: str, **environment: str) -> dict[str, Any]:
    status, said = spillscan(folder, "advise", *words, "-f", "json", **environment)
    assert status == 0, said
    found: dict[str, Any] = json.loads(said)["first"][0]
    return found


def ptxas(text: str, symbol: str, folder: Path) -> tuple[int, int, str]:
    """(registers, bytes of spills, what it printed) by hand."""
    (folder / "k.ptx").write_text(text)
    return compiled(text, symbol)


@cache
def compiled(text: str, symbol: str) -> tuple[int, int, str]:
    words = [str(PTXAS), "-v", "-arch=sm_90", "-e", symbol, "k.ptx", "-o", "k.cubin"]
    with TemporaryDirectory() as folder:
        Path(folder, "k.ptx").write_text(text)
        said = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stderr
    spills, used = SPILLS.search(said), USED.search(said)
    assert spills
    assert used
    return int(used[1]), int(spills[1]) + int(spills[2]), f"{shlex.join(words)}\n{said}"


def next_step(folder: Path, *words: str) -> tuple[str, list[str], str]:
    """Output of a failing ``check``, the words of the command that it prints, and that command's output."""
    status, said = spillscan(folder, "check", "build.log", *words)
    assert status == 1
    (line,) = re.findall(r"^  next +spillscan (.*)$", said, re.M)
    status, answer = spillscan(folder, *shlex.split(line))
    assert status == 0
    return said, shlex.split(line), " ".join(answer.split())


@pytest.mark.parametrize(("symbol", "bounds"), sized([(GEMM, (256, 4))], [(GEMM, (256, 4)), (ATTENTION, (128, 8))]))
def test_each_step_equals_ptxas(symbol: str, bounds: tuple[int, int], tmp_path: Path) -> None:
    """The source with the bounds that are proven, compiled by hand: no spills, and spills one step before."""
    source = ptx.rewritten(PTX.read_text(), Setting(threads=bounds[0], blocks=bounds[1]))
    registers, spills, log = ptxas(source, symbol, tmp_path)
    (tmp_path / "build.log").write_text(log)
    made = first(tmp_path, "build.log", "--try")
    as_is, *steps = made["tried"]["points"]
    assert (as_is["registers"], as_is["spill_store_bytes"] + as_is["spill_load_bytes"]) == (registers, spills)
    assert made["tried"]["ends_spills"] == f"__launch_bounds__({bounds[0]}, {steps[-1]['blocks']})"
    assert made["registers_needed_by"] == "tried"
    (tmp_path / "hand").mkdir()
    for step in steps:
        asked = Setting(threads=step["threads"], blocks=step["blocks"])
        by_hand = ptxas(ptx.rewritten(source, asked), symbol, tmp_path / "hand")
        assert by_hand[:2] == (step["registers"], step["spill_store_bytes"] + step["spill_load_bytes"])
        assert (by_hand[1] == 0) is (step is steps[-1])
    assert made["fixes"][0]["kind"] == ("option" if symbol == GEMM else "fix")  # gemm<4> loses blocks with these bounds
    assert f"{steps[-1]['registers']} registers, no spills" in made["fixes"][0]["text"]
    assert "(tried, ptxas 12.9.86)" in made["fixes"][0]["text"]
    plain = first(tmp_path, "build.log")
    assert plain["tried"] is None
    offered = plain["commands"][0]
    assert offered == f"spillscan advise build.log --kernel {shlex.quote(made['name'])} --arch sm_90 --try"


def test_an_unknown_block_size_gives_steps_of_eight_registers(tmp_path: Path) -> None:
    source = ptx.rewritten(PTX.read_text(), Setting(limit=96))
    _, _, log = ptxas(source, GEMM, tmp_path)
    (tmp_path / "build.log").write_text(log)
    points = first(tmp_path, "build.log", "--try")["tried"]["points"]
    assert [each["limit"] for each in points] == [None, 104, 112, 120, 128][: len(points)]
    assert points[-1]["spill_store_bytes"] == 0


@pytest.mark.parametrize(
    ("prepare", "why"),
    [
        (lambda folder: (folder / "k.ptx").unlink(), "k.ptx was not found, and no `spillscan run` recorded"),
        (lambda folder: (folder / "k.ptx").write_text(PTX.read_text()),
         "other options, source or ptxas; build again under `spillscan run`"),
        (lambda folder: (folder / "k.ptx").write_text(".version 8.0\n.target sm_90\n"), "does not produce this kernel"),
        (lambda folder: (folder / "k.ptx").write_text("nothing"), "has no .target"),
    ],
)  # fmt: skip
def test_untried_kernels_have_a_reason(prepare: Any, why: str, tmp_path: Path) -> None:
    source = ptx.rewritten(PTX.read_text(), Setting(threads=256, blocks=4))
    (tmp_path / "build.log").write_text(ptxas(source, GEMM, tmp_path)[2])
    prepare(tmp_path)
    made = first(tmp_path, "build.log", "--try")
    assert why in made["tried"]["missing"]
    assert made["tried"]["points"] == []
    assert made["fixes"][0]["kind"] == "try"
    plain = first(tmp_path, "build.log")
    offered = any(each.endswith("--try") for each in plain["commands"])
    assert offered is (plain["tried"] is None), "it says what is missing, or offers to try"
    status, said = spillscan(tmp_path, "advise", "build.log", "--try")
    assert status == 0
    assert "tried   none: " in said


UNIT = """\
#ifndef SCALE
#define SCALE 2
#endif
#ifndef SMALL
#define SMALL 2
#endif
#ifndef BLOCKS
#define BLOCKS 12
#endif
template <int N> __global__ void __launch_bounds__(128, BLOCKS) k(const float* a, float* o) {
  float v[N];
  _Pragma("unroll") for (int i = 0; i < N; ++i) v[i] = a[i * 64 + threadIdx.x] * (N == 8 ? SMALL : SCALE);
  __syncthreads();
  _Pragma("unroll") for (int i = 0; i < N; ++i) o[i * 64 + threadIdx.x] = v[i] * v[N - 1 - i];
}
template __global__ void k<8>(const float*, float*);
template __global__ void k<64>(const float*, float*);
"""


@pytest.mark.skipif(NVCC is None, reason="no nvcc")
@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("", ""),
        ("-DSCALE=3", "recompiled, it differs from the input (machine code): other options, source or ptxas"),
        *sized([], [
            ("-DBLOCKS=16", "recompiled, it differs from the input (spill stores 60 → 0 B): "),
            ("-DSMALL=3", "recompiled, k<8> (sm_80) differs from the input (machine code): "),
        ]),
    ],
)  # fmt: skip
def test_only_the_code_of_the_input_is_tried(options: str, why: str, tmp_path: Path) -> None:
    """A source without a recorded command may have been compiled with other options."""
    (tmp_path / "k.cu").write_text(UNIT)
    words = [str(NVCC), "-arch=sm_80", "-lineinfo", *options.split(), "-c", str(tmp_path / "k.cu"), "-o", "k.o"]
    subprocess.run(words, cwd=tmp_path, check=True)
    made = first(tmp_path, "k.o", "--try", PATH=os.environ["PATH"])
    assert (made["tried"]["missing"] or "").startswith(why)
    assert bool(made["tried"]["points"]) is (not why)
    assert ("spillscan sweep k.cu " in " ".join(made["commands"])) is (not why)


@pytest.mark.skipif(NVCC is None, reason="no nvcc")
def test_code_depends_on_the_constants_of_other_kernels(tmp_path: Path) -> None:
    """Compiled alone, a kernel with an ``assert`` has other code than in its translation unit."""
    text = (FIXTURES / "sources" / "demo.cu").read_text()
    for place, check in ((" float sum[", "assert(n > 0);"), (" if (i < n) out[i] =", "assert(i >= 0);")):
        text = text.replace(place, check + place)
    (tmp_path / "k.cu").write_text(f"#include <cassert>\n#define HEAD\n{text}")
    words = [str(NVCC), "-arch=sm_80", "-lineinfo", "-c", str(tmp_path / "k.cu"), "-o", "k.o"]
    subprocess.run(words, cwd=tmp_path, check=True)
    made = first(tmp_path, "k.o", "--kernel", "*gemm*", "--try", PATH=os.environ["PATH"])
    assert (made["tried"]["missing"], bool(made["tried"]["points"])) == (None, True)


def test_a_failing_check_leads_to_the_tried_fix(tmp_path: Path) -> None:
    """By the one command that it prints."""
    source = ptx.rewritten(PTX.read_text(), Setting(threads=256, blocks=4))
    (tmp_path / "build.log").write_text(ptxas(source, GEMM, tmp_path)[2])
    said, words, answer = next_step(tmp_path)
    assert "\n  try    " in said
    assert words[-1] == "--try"
    assert "cause launch bounds (256 threads and a minimum of blocks per SM)" in answer
    assert "option __launch_bounds__(256, 2): " in answer


FFT, STENCIL, NARROW = "_Z3fftILi32EEvP6float2i", "_Z7stencilILi8EEvPKdPdS1_iii", "_Z3fftILi8EEvP6float2i"


@pytest.mark.parametrize(
    ("symbol", "threads", "bounds", "blocks"),
    [
        (NARROW, 256, 8, (6, 8)),
        *sized([], [(FFT, 256, 2, (1, 2)), (STENCIL, 256, 3, (2, 3)), (GEMM, 128, 5, (4, 5)), (GEMM, 1024, 1, (0, 1))]),
    ],
)
def test_the_next_block_equals_ptxas_with_its_bounds(
    symbol: str, threads: int, bounds: int, blocks: tuple[int, int], tmp_path: Path
) -> None:
    """For a kernel without spills; `limiters` prints the same text."""
    (tmp_path / "build.log").write_text(ptxas(PTX.read_text(), symbol, tmp_path)[2])
    words = ("build.log", "--launch", f"*={threads}", "--try")
    made = first(tmp_path, *words)
    as_is, step = made["tried"]["points"]
    (tmp_path / "hand").mkdir()
    asked = Setting(threads=threads, blocks=bounds)
    registers, spills, _ = ptxas(ptx.rewritten(PTX.read_text(), asked), symbol, tmp_path / "hand")
    assert (made["tried"]["for"], made["tried"]["ends_spills"]) == ("more blocks", None)
    assert (step["registers"], step["spill_store_bytes"] + step["spill_load_bytes"]) == (registers, spills)
    assert (as_is["blocks_per_sm"], step["blocks_per_sm"]) == blocks
    kind, price = ("option", f"spills {spills:,} B") if spills else ("fix", "no spills")
    sentence = f"__launch_bounds__({threads}, {bounds}): {registers} registers, {price}, {blocks[0]} → {blocks[1]}"
    assert made["fixes"][0]["kind"] == kind
    assert made["fixes"][0]["text"].startswith(sentence)
    assert "faster" not in json.dumps(made)
    status, said = spillscan(tmp_path, "occupancy", *words, COLUMNS="500")
    assert status == 0
    assert f"  {kind}: {made['fixes'][0]['text']}\n" in said
    _, data = spillscan(tmp_path, "occupancy", *words, "-f", "json")
    assert json.loads(data)[0]["tried"] == made["tried"]
    for form, lead in (("text", f"{kind:8}"), ("markdown", f"- {kind}: `")):
        assert f"{lead}{sentence}" in spillscan(tmp_path, "advise", *words, "-f", form, COLUMNS="500")[1]
    plain = first(tmp_path, *words[:-1])
    assert plain["tried"] is None
    assert plain["commands"][0].endswith(" --try")


@pytest.mark.parametrize(
    ("launch", "source", "why"),
    [
        ((), "as built", "block size unknown; set --launch 'GLOB=THREADS'"),
        (("--launch", "*=256,999999"), "as built", "the kernel cannot launch: "),
        (("--launch", "*=32,65536,override"), "as built", "occupancy is limited by shared memory, not by registers"),
        (("--launch", "*=256"), "missing", "k.ptx was not found, and no `spillscan run` recorded its compile command"),
        (("--launch", "*=256"), "other", "recompiled, it differs from the input (spill stores 0 → 1,224 B): "),
    ],
)  # fmt: skip
def test_why_no_block_can_be_tried(launch: tuple[str, ...], source: str, why: str, tmp_path: Path) -> None:
    texts = {"as built": PTX.read_text(), "other": ptx.rewritten(PTX.read_text(), Setting(threads=256, blocks=4))}
    (tmp_path / "build.log").write_text(compiled(PTX.read_text(), GEMM)[2])
    if source in texts:
        (tmp_path / "k.ptx").write_text(texts[source])
    words = ("occupancy", "build.log", *launch, "--try")
    status, said = spillscan(tmp_path, *words, COLUMNS="500")
    assert status == 0, said
    assert f"  not tried: {why}" in said
    (made,) = json.loads(spillscan(tmp_path, *words, "-f", "json")[1])
    assert made["tried"]["missing"].startswith(why)
    assert made["tried"]["points"] == []


def test_limiters_also_try_to_end_spills(tmp_path: Path) -> None:
    """By the code of `advise`, and not on a device that the kernel is not compiled for."""
    source = ptx.rewritten(PTX.read_text(), Setting(threads=256, blocks=4))
    (tmp_path / "build.log").write_text(ptxas(source, GEMM, tmp_path)[2])
    made = first(tmp_path, "build.log", "--try")
    status, said = spillscan(tmp_path, "occupancy", "build.log", "--try", COLUMNS="500")
    assert status == 0
    assert f"  option: {made['fixes'][0]['text']}\n" in said


def test_a_check_that_fails_for_blocks_leads_to_the_tried_fix(tmp_path: Path) -> None:
    (tmp_path / "build.log").write_text(ptxas(PTX.read_text(), "_Z3fftILi16EEvP6float2i", tmp_path)[2])
    launch = "launch: {threads_per_block: 256, dynamic_shared_bytes: 0}"
    (tmp_path / "spillscan.yaml").write_text(f'kernels:\n  - match: "*"\n    {launch}\n    min_blocks_per_sm: 4\n')
    _, words, answer = next_step(tmp_path)
    assert words[-1] == "--try"
    assert "option __launch_bounds__(256, 4): " in answer


@pytest.mark.parametrize(
    ("launch", "command", "leads_to"),
    [*sized([], [("", "sweep", "64 64 ")]), ("*=256,0", "advise", "__launch_bounds__(256, 3): ")],
)
def test_more_registers_lead_to_limits_and_bounds(launch: str, command: str, leads_to: str, tmp_path: Path) -> None:
    """A sweep tries limits; which bounds bring another block, `advise --try` says where the block size is known."""
    _, spilled, log = ptxas(PTX.read_text(), GEMM, tmp_path)
    assert not spilled
    words = ["--launch", launch] if launch else []
    (tmp_path / "build.log").write_text(USED.sub("Used 40 registers", log))
    assert spillscan(tmp_path, "baseline", "write", "build.log", *words)[0] == 0
    (tmp_path / "build.log").write_text(log)
    _, words, answer = next_step(tmp_path, "--baseline", "spillscan-baseline.jsonl", *words)
    assert words[0] == command
    assert leads_to in answer
