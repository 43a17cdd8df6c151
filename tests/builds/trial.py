"""One build under ``spillscan run``, and what its gate must say: a row of ``builds.yaml``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import yaml
from msgspec import Struct, convert, field

from tests.conftest import ROOT

SPILLSCAN = (sys.executable, "-m", "spillscan")
FILES = {
    "body.cuh": """\
#pragma once
template <int N> __device__ void work(float *p) {
  float v[N];
#pragma unroll
  for (int i = 0; i < N; i++) v[i] = p[i * 1024 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < N; i++) p[i * 1024 + threadIdx.x] = v[i] * v[N - 1 - i] + v[(i * 7) % N];
}
""",
    "hot.cu": '#include "body.cuh"\n__global__ void __launch_bounds__(1024, 2) hot(float *p) { work<40>(p); }\n',
    "cool.cu": "__global__ void cool(float *p) { p[threadIdx.x] += 1.0f; }\n",
    "other.cu": '#include "body.cuh"\n__global__ void other(float *p) { work<4>(p); }\n',
    "slim.cu": '#include "body.cuh"\n__device__ __noinline__ void aside(float *p) { work<SIZE>(p); }\n',
    "user.cu": '#include "body.cuh"\n__global__ void user(float *p) { work<4>(p); }\n',
    "far.cu": """\
#include "body.cuh"
__device__ __noinline__ void aside(float *p) { work<40>(p); }
__global__ void __launch_bounds__(1024, 2) far(float *p) { work<40>(p); aside(p); }
""",
    "near.cu": "__device__ void aside(float *p);\n__global__ void near(float *p) { aside(p); }\nint main() {}\n",
    "Makefile": """\
all: libboth.a
libboth.a: hot.o cool.o
	ar rcs $@ $^
%.o: %.cu
	nvcc $(ARCH) -c $< -o $@
""",
    "CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.20)
project(p LANGUAGES CXX CUDA)
add_library(p STATIC hot.cu cool.cu)
""",
}
"""A project with a kernel that spills and others that do not."""


class Row(Struct, frozen=True, forbid_unknown_fields=True):
    """One build."""

    name: str
    script: str
    status: int
    """Exit status of the gate."""
    says: str
    """Expression for the gate's output."""
    suite: str = field(name="in", default="oracle")
    needs: str = ""
    """Programs, and modules of Python (``python:torch``)."""
    run: str = ""
    """Output of ``run``."""
    before: str = ""
    """Commands before the build, outside of ``run``."""
    then: str = ""
    """Commands after the build, outside of ``run``."""
    again: str = ""
    """A second build under ``run``."""
    never: str = field(name="not", default="cool .sm_80.: (?:error|spills)")
    """Expression that the gate's output must not match."""
    options: str = ""
    """Options of ``run``."""
    gate: str = "spillscan-build.json"
    """Arguments of ``check``."""


ROWS = tuple(convert(yaml.safe_load((Path(__file__).parent / "builds.yaml").read_text(encoding="utf-8")), list[Row]))


def lacking(row: Row) -> str:
    """The first program that a row needs and that is not here; empty if all are."""
    for each in ("nvcc", "bash", *row.needs.split()):
        module = each.partition(":")[2]
        found = (
            shutil.which(each)
            if not module
            else not subprocess.run(["python3", "-c", f"import {module}"], check=False).returncode
        )
        if not found:
            return module or each
    return ""


def outcome(row: Row, place: Path) -> str:
    """Faults of the gate of a build; empty if there are none."""
    project = place / "project"
    project.mkdir()
    for name, text in FILES.items():
        (project / name).write_text(text)
    environment = os.environ | {
        "ARCH": "-arch=sm_80",
        "NVCC": os.path.realpath(shutil.which("nvcc") or ""),
        "SPILLSCAN": " ".join(SPILLSCAN),
        "XDG_CACHE_HOME": str(place / "cache"),
        "CCACHE_DIR": str(place / "ccache"),
        "PYTHONPATH": str(ROOT),
        "NO_COLOR": "1",
    }

    def ran(*words: str) -> tuple[int, str]:
        done = subprocess.run(
            words, cwd=project, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        return done.returncode, (done.stdout + done.stderr).decode(errors="replace")

    def built(script: str) -> str:
        return ran(*SPILLSCAN, "run", *row.options.split(), "--", "bash", "-c", script)[1]

    if row.before:
        ran("bash", "-c", row.before)
    printed = built(row.script)
    if row.then:
        printed += ran("bash", "-c", row.then)[1]
    if row.again:
        printed += built(row.again)
    status, said = ran(*SPILLSCAN, "check", "--config", "none", *row.gate.split())
    wrong = [] if status == row.status else [f"exit status {status}, not {row.status}"]
    wrong += [f"{row.says!r} is missing"] if not re.search(row.says, said) else []
    wrong += [f"{row.never!r} is there"] if re.search(row.never, said) else []
    wrong += [f"run does not print {row.run!r}"] if not re.search(row.run, printed) else []
    wrong += ["a traceback"] if "Traceback" in said + printed else []
    return "" if not wrong else "; ".join(wrong) + f"\n{printed}\n{said}"
