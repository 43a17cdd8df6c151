"""Holds `spillscan run` against what strace sees, in builds of several systems. Not part of `make test`.

    python -m tests.oracle.run_oracle [--nvcc PATH] [SYSTEM ...]

nvcc, strace, CMake, ninja, make and meson must be there; a system that is not is left out, and said so. For each build
system: every nvcc that strace sees compiling is a unit, or the account says that something is missing; then a unit
fails first, a unit fails after it was good, `-k`, a kill, a build with nothing to do, a source edited, an object
deleted, another locale, another NINJA_STATUS. Exits with 1 where an exit status or a name is not as it must be.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from spillscan.builds import buildfile

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
import subprocess
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


class Trial:
    """One project, built again and again."""

    def __init__(self, system: System, place: Path, nvcc: str) -> None:
        self._system, self._place = system, place
        self._environment = os.environ | {
            "PATH": os.pathsep.join((os.path.dirname(nvcc), os.path.dirname(sys.executable), os.environ["PATH"])),
            "XDG_CACHE_HOME": str(place.parent / "cache"),
        }
        self.wrong: list[str] = []
        self.held = 0
        place.mkdir(parents=True)
        (place / system.file[0]).write_text(system.file[1])
        for name in (*NAMES, "rare"):
            self.source(name)

    def source(self, name: str, factor: int = 2, good: bool = True) -> None:
        """Write a source."""
        (self._place / f"{name}.cu").write_text(GOOD.format(name=name, factor=factor) if good else BAD)

    def run(self, command: str, **more: str) -> subprocess.CompletedProcess[str]:
        """A build, watched."""
        words = ["spillscan", "run", "--", "sh", "-c", command]
        environment = self._environment | more
        return subprocess.run(words, cwd=self._place, env=environment, capture_output=True, text=True, check=False)

    def check(self, what: str, status: int, *said: str, unsaid: tuple[str, ...] = ("rare",)) -> None:
        """The gate must end with ``status`` and name what is ``said``."""
        done = subprocess.run(
            ["spillscan", "check", "spillscan-build.json"],
            cwd=self._place,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        text = done.stdout + done.stderr
        self.held += 1
        missing = [word for word in said if word not in text] + [f"not {word}" for word in unsaid if word in text]
        if done.returncode != status or missing:
            self.wrong.append(f"{self._system.name}: {what}: exit {done.returncode}, not {status}; {missing}\n{text}")

    def expect(self, what: str, holds: bool) -> None:
        """Something that must hold."""
        self.held += 1
        if not holds:
            self.wrong.append(f"{self._system.name}: {what}")

    def build(self, *, keep_going: bool = False) -> str:
        """The command that builds."""
        return self._system.keep_going if keep_going else self._system.build

    def object(self, name: str) -> Path:
        """The object of a source."""
        return self._place / self._system.objects.format(name=name)

    @property
    def units(self) -> dict[str, str]:
        """State by source."""
        build = buildfile.read(str(self._place / buildfile.NAME))
        return {} if build is None else {Path(kept.unit.source).stem: kept.unit.state for kept in build.units}


def traced(trial: Trial, command: str) -> set[str]:
    """The sources that nvcc is called to compile, as strace sees it."""
    log = Path(tempfile.mkdtemp()) / "trace"
    trial.run(f"strace -f -qq -s 4096 -e trace=execve -o {log} {command}")
    calls = re.findall(r'execve\("[^"]*/nvcc", \[(.*?)\], 0x', log.read_text(errors="replace"))
    found = set()
    for call in calls:
        words = re.findall(r'"((?:[^"\\]|\\.)*)"', call)
        if {"-c", "-dc"} & {*words} and not any("CMakeFiles/3" in word or "CompilerId" in word for word in words):
            found |= {Path(word).stem for word in words if word.endswith(".cu")}
    return found & {*NAMES, "rare"}


def hold(trial: Trial, system: System) -> None:
    """All that must hold of one build system."""
    if system.configure:
        trial.run(system.configure)
    seen = traced(trial, system.build)
    trial.expect(f"strace sees all sources: {seen}", seen == {*NAMES})
    trial.expect(f"units are what strace sees: {trial.units}", trial.units.keys() == seen)
    trial.check("a healthy build", 0)
    trial.expect("a build with nothing to do", trial.run(trial.build()).returncode == 0)
    trial.check("a build with nothing to do", 0)
    trial.source("two", 3)
    trial.check("a source edited", 2, "two.cu", "stale-unit")
    trial.run(trial.build())
    trial.check("a source edited and built", 0)
    trial.object("three").unlink()
    trial.run(trial.build(), LC_ALL="C.UTF-8", LANG="de_DE.UTF-8", NINJA_STATUS="<%p %f> ")
    trial.check("an object deleted and built, another locale and status", 0)
    trial.source("two", good=False)
    trial.expect("a failed build fails", trial.run(trial.build()).returncode != 0)
    trial.check("a unit fails after it was good", 2, "two.cu", "build-failed")
    if system.keep_going:
        trial.source("one", 7)
        trial.run(trial.build(keep_going=True))
        trial.expect(f"-k goes on: {trial.units}", trial.units.get("one") == "done")
        trial.check("-k", 2, "two.cu", "build-failed")
    trial.source("two", 9)
    trial.run(trial.build())
    trial.check("mended", 0)
    trial.source("three", 11)
    done = Event()
    killer = Thread(target=kill, args=("three", done))
    killer.start()
    trial.run(trial.build())
    done.set()
    killer.join()
    trial.check("killed", 2, "three.cu", "build-failed")
    trial.run(trial.build())
    trial.check("built after the kill", 0)


def kill(name: str, done: Event) -> None:
    """Kill the device compiler that works on a source, once."""
    while not done.wait(0.002):
        for place in Path("/proc").glob("[0-9]*"):
            try:
                words = (place / "cmdline").read_bytes().split(b"\0")
                if Path(words[0].decode()).name in ("cicc", "ptxas") and any(name.encode() in word for word in words):
                    os.kill(int(place.name), signal.SIGKILL)
                    return
            except OSError:
                continue


def first_fails(trial: Trial, system: System) -> None:
    """A build that never was good."""
    trial.source("one", good=False)
    if system.configure:
        trial.run(system.configure)
    trial.run(trial.build())
    trial.check("a unit fails first", 2)
    trial.run(f"{trial.build()} || true")
    trial.check("a failed build whose status is lost", 2, "one.cu")


def main() -> int:
    """Try all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "nvcc")
    parser.add_argument("systems", nargs="*")
    arguments = parser.parse_args()
    held, wrong = 0, []
    tests: tuple[Callable[[Trial, System], None], ...] = (hold, first_fails)
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        for system in SYSTEMS:
            if arguments.systems and system.name not in arguments.systems:
                continue
            if lacking := [tool for tool in (*system.needs, "strace") if shutil.which(tool) is None]:
                print(f"{system.name}: left out, {', '.join(lacking)} is not there")
                continue
            for test in tests:
                trial = Trial(system, Path(folder) / f"{system.name}-{test.__name__}" / "project", arguments.nvcc)
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
