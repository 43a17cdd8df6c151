"""Output for a maintainer: each change is planted in a small project, and the job that `init` wrote is run. ptxas
compiles the sources; a stand-in here is the front end.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from spillscan.advice import jobs
from tests.conftest import run
from tests.forked import shebang
from tests.services import Machine, git, write_program

PTXAS = Path(sys.prefix) / "lib" / f"python3.{sys.version_info[1]}" / "site-packages/nvidia/cuda_nvcc/bin/ptxas"
pytestmark = pytest.mark.skipif(not PTXAS.exists(), reason="no ptxas")

SOURCE = """\
template <int N> __global__ void __launch_bounds__(256) scale(float *p) {
    float values[N];
    keep(values, p);
}
template __global__ void scale<40>(float *);

__global__ void __launch_bounds__(256) sums(float *p) {
    __shared__ float tile[1024];
    float values[20];
    keep(values, tile, p);
}

__global__ void __launch_bounds__(128) relax(float *p) {
    float values[60];
    keep(values, p);
}
"""
NVCC = r'''{head}
"""nvcc, as far as the sources here need one: PTX of each kernel, by what stands in its head and its arrays."""
import os, re, subprocess, sys
words = sys.argv[1:]
if "--version" in words:
    print("Cuda compilation tools, release 12.9, V12.9.86")
    sys.exit()
source, target = words[-1], next(word[6:] for word in words if word.startswith("-arch="))
text = open(source).read()
if "oops" in text:
    sys.exit(source + "(2): error: identifier \"oops\" is undefined")
ptx = [".version 8.0", ".target " + target, ".address_size 64"]
head = r"(template <int N> )?__global__ void __launch_bounds__\((\d+)(?:, (\d+))?\) (\w+)\(float \*p\) {{(.*?)\n}}"
for template, threads, blocks, name, body in re.findall(head, text, re.S):
    given = re.findall(rf"^template __global__ void {{name}}<(\d+)>", text, re.M) if template else [""]
    for each in given:
        count = int(each or re.search(r"values\[(\d+)\]", body)[1])
        tile = re.search(r"tile\[(\d+)\]", body)
        symbol = f"_Z{{len(name)}}{{name}}" + (f"ILi{{each}}EEvPf" if template else "Pf")
        ptx += [f".visible .entry {{symbol}}(.param .u64 p)", f".maxntid {{threads}}, 1, 1"]
        ptx += [f".minnctapersm {{blocks}}"] * bool(blocks) + ["{{", f".reg .f32 %f<{{count}}>;", ".reg .b64 %a;"]
        ptx += [f".shared .align 4 .b8 tile[{{4 * int(tile[1])}}];"] if tile else []
        ptx += ["ld.param.u64 %a, [p];"]
        ptx += [f"ld.volatile.global.f32 %f{{at}}, [%a+{{4 * at}}];" for at in range(count)]
        ptx += ["st.volatile.shared.f32 [tile], %f0;"] if tile else []
        ptx += [f"st.volatile.global.f32 [%a+{{4 * at}}], %f{{at}};" for at in reversed(range(count))] + ["ret;", "}}"]
made = words[words.index("-o") + 1]
open(made + ".ptx", "w").write("\n".join(ptx) + "\n")
verbose = ["-v"] if "-Xptxas" in words else []
sys.exit(subprocess.call(["{ptxas}", *verbose, "-arch=" + target, "-o", made, made + ".ptx"]))
'''
MAKEFILE = """\
ARCHS = sm_90
all: $(ARCHS:%=kernels.%.cubin)
kernels.%.cubin: kernels.cu
\tnvcc -cubin -arch=$* -o $@ $<
"""


class Plant(NamedTuple):
    """A change, and the expected output."""

    name: str
    file: str
    old: str
    new: str
    status: int
    """Of the step that ends the job."""
    said: str
    """Of the job's log."""
    marks: tuple[str, ...] = ()
    """Annotations of the sources: kernel, arch and rule."""
    last: str = "Gate"
    """The step that ends the job."""


GONE = SOURCE[SOURCE.index("\n__global__ void __launch_bounds__(128)") :]
FIRST = "template __global__ void scale<40>(float *);"
UNRECORDED = "unrecorded-kernels::not in the baseline, so only limits apply: "
NOTE = "::notice title=spillscan%3A "
PLANTS = (
    Plant("nothing", "kernels.cu", "}", "}", 0, "spillscan: no findings in 3 kernels (sm_90), 0 spilling"),
    Plant("spill", "kernels.cu", "__(128) relax", "__(128, 16) relax", 1,
          "spills ", ("relax (sm_90) [spill]",)),
    Plant("lost blocks", "kernels.cu", "tile[1024]", "tile[12000]", 1,
          "8 → 4 on sm_90 at 256 threads (its launch bounds), limited by shared memory",
          ("sums (sm_90) [blocks-lost]",)),
    Plant("renamed kernel", "kernels.cu", "relax", "relax_all", 0,
          NOTE + "stale-kernels::not in this build: 1 kernel (relax (sm_90)) of spillscan-baseline.jsonl;"),
    Plant("new arch", "Makefile", "ARCHS = sm_90", "ARCHS = sm_90 sm_80", 0,
          NOTE + UNRECORDED + "3 kernels (relax (sm_80), sums (sm_80), scale<40> (sm_80));"),
    Plant("removed kernel", "kernels.cu", GONE, "", 0,
          NOTE + "removed-kernels::removed from recompiled translation units: 1 kernel (relax (sm_90))"),
    Plant("failed compilation", "kernels.cu", "keep(values, tile, p)", "oops(values, tile, p)", 2,
          'kernels.cu(2): error: identifier "oops" is undefined', last="Build"),
    Plant("another instance", "kernels.cu", FIRST, FIRST + "\n" + FIRST.replace("40", "50"), 0,
          NOTE + UNRECORDED + "1 kernel (scale<50> (sm_90));"),
)  # fmt: skip
"""One fact a row. What fails is annotated where the change is; what is only to be known is a note."""


def compiler(folder: Path) -> None:
    """Put nvcc there."""
    write_program(folder / "nvcc", NVCC.format(head=shebang(), ptxas=PTXAS))


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project as a maintainer leaves it after `init`."""
    project, tools = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("tools")
    compiler(tools)
    (project / "kernels.cu").write_text(SOURCE)
    (project / "Makefile").write_text(MAKEFILE)
    (project / ".gitignore").write_text("*.cubin*\nspillscan-build.json\n")
    (project / ".github").mkdir()
    git(project, "init", "-q")
    own = Machine(tools, project).environment() | {"PATH": f"{tools}:/usr/bin:/bin"}
    for words, status in ((("run", "--", "make"), 0), (("init", "--install", "spillscan"), 2)):
        done = run(*words, cwd=project, env=own)
        assert done.returncode == status, done.stderr.decode()
    workflow = project / jobs.WORKFLOW
    workflow.write_text(workflow.read_text().replace("<IMAGE>", "cuda"))
    assert len((project / "spillscan.yaml").read_text().splitlines()) <= 25
    git(project, "add", "-A")
    git(project, "commit", "-qm", "gated")
    return project


@pytest.mark.parametrize("plant", PLANTS, ids=[each.name for each in PLANTS])
def test_output_of_the_job_for_a_change(plant: Plant, gated: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(gated), "checkout")
    machine = Machine(tmp_path, tmp_path / "checkout")
    for program in ("make", "cmake"):
        (tmp_path / "bin" / program).unlink()
    compiler(tmp_path / "bin")
    path = machine.checkout / plant.file
    assert plant.old in path.read_text()
    path.write_text(path.read_text().replace(plant.old, plant.new, 1))
    machine.run((machine.checkout / jobs.WORKFLOW).read_text())
    last = machine.steps[-1]
    assert (last.name, last.status) == (plant.last, plant.status), last.said
    assert plant.said in last.said, last.said
    marks = re.findall(r"^::error file=([^,]+),line=(\d+),title=(.*?)::", last.said, re.M)
    assert tuple(title for _, _, title in marks) == plant.marks, last.said
