"""Holds `spillscan run` against what strace sees, in builds of several systems. Not part of `make test`.

    python -m tests.oracle.run_oracle [--nvcc PATH] [SYSTEM ...]

nvcc, strace, CMake, ninja, make and meson must be there; a system that is not is left out, and said so. For each build
system: every nvcc that strace sees compiling is a unit, or the account says that something is missing; then a unit
fails first, a unit fails after it was good, `-k`, a kill, a build with nothing to do, a source edited, an object
deleted, another locale, another NINJA_STATUS. Exits with 1 where an exit status or a name is not as it must be.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.oracle.trials import Trial

GOOD = "__global__ void {name}(float* x) {{ x[threadIdx.x] *= {factor}.0f; }}\n"
BAD = "__global__ void broken( {\n"
NAMES = ("one", "two", "three")
CMAKE = """\
cmake_minimum_required(VERSION 3.20)
project(p LANGUAGES CXX CUDA)
add_library(p STATIC one.cu two.cu three.cu)
add_library(rare STATIC EXCLUDE_FROM_ALL rare.cu)
"""
MAKE = """\
NVCC ?= nvcc
all: libp.a
libp.a: one.o two.o three.o
	ar rcs $@ $^
%.o: %.cu
	$(NVCC) -arch=sm_80 -c $< -o $@
"""
NINJA = """\
rule cuda
  command = nvcc -arch=sm_80 -c $in -o $out
build one.o: cuda one.cu
build two.o: cuda two.cu
build three.o: cuda three.cu
build rare.o: cuda rare.cu
build all: phony one.o two.o three.o
default all
"""
SETUP = """\
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
class Build(build_ext):
    def build_extension(self, extension):
        import os
        for source in extension.sources:
            made = os.path.join("build", source[:-3] + ".o")
            os.makedirs("build", exist_ok=True)
            if not os.path.exists(made) or os.stat(made).st_mtime < os.stat(source).st_mtime:
                self.spawn(["nvcc", "-arch=sm_80", "-c", source, "-o", made])
setup(name="p", ext_modules=[Extension("p", ["one.cu", "two.cu", "three.cu"])], cmdclass={"build_ext": Build})
"""
MESON = """\
project('p', 'cpp', 'cuda')
static_library('p', 'one.cu', 'two.cu', 'three.cu', cuda_args: ['-arch=sm_80'])
"""
SHELL = """\
set -e
for name in one two three; do
  if [ ! -e $name.o ] || [ $name.cu -nt $name.o ]; then nvcc -arch=sm_80 -c $name.cu -o $name.o; fi
done
"""


@dataclass(frozen=True)
class System:
    """One build system."""

    name: str
    file: tuple[str, str]
    needs: tuple[str, ...]
    configure: str
    build: str
    keep_going: str = ""
    objects: str = "{name}.o"


SYSTEMS = (
    System("make", ("Makefile", MAKE), ("make",), "", "make", "make -k"),
    System("ninja", ("build.ninja", NINJA), ("ninja",), "", "ninja", "ninja -k0"),
    System("shell", ("build.sh", SHELL), (), "", "sh build.sh"),
    System("setuptools", ("setup.py", SETUP), (), "", "python3 setup.py -q build_ext", objects="build/{name}.o"),
    System(
        "cmake+ninja",
        ("CMakeLists.txt", CMAKE),
        ("cmake", "ninja"),
        "cmake -G Ninja -B build -DCMAKE_CUDA_ARCHITECTURES=80",
        "cmake --build build",
        "cmake --build build -- -k0",
        "build/CMakeFiles/p.dir/{name}.cu.o",
    ),
    System(
        "cmake+make",
        ("CMakeLists.txt", CMAKE),
        ("cmake", "make"),
        "cmake -G 'Unix Makefiles' -B build -DCMAKE_CUDA_ARCHITECTURES=80",
        "cmake --build build",
        "cmake --build build -- -k",
        "build/CMakeFiles/p.dir/{name}.cu.o",
    ),
    System(
        "meson",
        ("meson.build", MESON),
        ("meson", "ninja"),
        "meson setup build",
        "meson compile -C build",
        "ninja -C build -k0",
        "build/libp.a.p/{name}.cu.o",
    ),
)


class Small(Trial):
    """One project of three sources, and a fourth that nobody asks for."""

    def __init__(self, system: System, place: Path, nvcc: str) -> None:
        super().__init__(system.name, place, nvcc, unsaid="rare")
        self._system = system
        (place / system.file[0]).write_text(system.file[1])
        for name in (*NAMES, "rare"):
            self.source(name)

    def source(self, name: str, factor: int = 2, good: bool = True) -> None:
        """Write a source."""
        (self.place / f"{name}.cu").write_text(GOOD.format(name=name, factor=factor) if good else BAD)

    def object(self, name: str) -> Path:
        """The object of a source."""
        return self.place / self._system.objects.format(name=name)


def hold(trial: Small, system: System) -> None:
    """All that must hold of one build system."""
    if system.configure:
        trial.run(system.configure)
    seen = trial.traced(system.build)
    trial.expect(f"strace sees all sources: {seen}", seen == {*NAMES})
    trial.expect(f"units are what strace sees: {sorted(trial.units)}", trial.units.keys() == seen)
    trial.check("a healthy build", 0)
    trial.expect("a build with nothing to do", trial.run(system.build).returncode == 0)
    trial.check("a build with nothing to do", 0)
    trial.source("two", 3)
    trial.check("a source edited", 2, "two.cu", "stale-unit")
    trial.run(system.build)
    trial.check("a source edited and built", 0)
    trial.object("three").unlink()
    trial.run(system.build, LC_ALL="C.UTF-8", LANG="de_DE.UTF-8", NINJA_STATUS="<%p %f> ")
    trial.check("an object deleted and built, another locale and status", 0)
    trial.source("two", good=False)
    trial.expect("a failed build fails", trial.run(system.build).returncode != 0)
    trial.check("a unit fails after it was good", 2, "two.cu", "build-failed")
    if system.keep_going:
        trial.source("one", 7)
        trial.run(system.keep_going)
        trial.expect(f"-k goes on: {sorted(trial.units)}", trial.units["one"].state == "done")
        trial.check("-k", 2, "two.cu", "build-failed")
    trial.source("two", 9)
    trial.run(system.build)
    trial.check("fixed", 0)
    trial.source("three", 11)
    trial.killed(system.build, "three", ("cicc", "ptxas"))
    trial.check("killed", 2, "three.cu", "build-failed")
    trial.run(system.build)
    trial.check("built after the kill", 0)


def first_fails(trial: Small, system: System) -> None:
    """A build that never was good."""
    trial.source("one", good=False)
    if system.configure:
        trial.run(system.configure)
    trial.run(system.build)
    trial.check("a unit fails first", 2)
    trial.run(f"{system.build} || true")
    trial.check("a failed build whose status is lost", 2, "one.cu")


def main() -> int:
    """Try all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "nvcc")
    parser.add_argument("systems", nargs="*")
    arguments = parser.parse_args()
    held, wrong = 0, []
    tests: tuple[Callable[[Small, System], None], ...] = (hold, first_fails)
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        for system in SYSTEMS:
            if arguments.systems and system.name not in arguments.systems:
                continue
            if lacking := [tool for tool in (*system.needs, "strace") if shutil.which(tool) is None]:
                print(f"{system.name}: left out, {', '.join(lacking)} is not there")
                continue
            for test in tests:
                trial = Small(system, Path(folder) / f"{system.name}-{test.__name__}" / "project", arguments.nvcc)
                test(trial, system)
                held += trial.held
                wrong += trial.wrong
            print(f"{system.name}: {held} held so far, {len(wrong)} wrong", flush=True)
    for each in wrong:
        print(each)
    print(f"{held} statements about builds, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
