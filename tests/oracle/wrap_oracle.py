"""Holds the compiler launcher against a sequential log, in a real CMake project. Not part of `make test`.

    python -m tests.oracle.wrap_oracle [RELEASE]

Thirteen sources, two architectures, nvcc of RELEASE (13.5) from PyPI; CMake, ninja or make, and a C++ compiler must be
there. Prints what it compared and exits with 1 when anything differs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import spillscan
from fixtures.maker.toolchains import Toolchains
from spillscan.model import Build
from spillscan.model.usage import PRINTED

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "fixtures" / "sources" / "library"
LAUNCHER = "-DCMAKE_CUDA_COMPILER_LAUNCHER=spillscan;wrap;--"
ROUNDS = 5


class Project:
    """A copy of the project, with a toolchain of its own on the path."""

    def __init__(self, folder: Path, toolkit: Path) -> None:
        self.source = folder / "library"
        shutil.copytree(SOURCES, self.source)
        path = os.pathsep.join((str(toolkit / "bin"), os.path.dirname(sys.executable), os.environ["PATH"]))
        self.environment = os.environ | {
            "PATH": path,
            "PYTHONPATH": str(ROOT),
            "CUDACXX": str(toolkit / "bin" / "nvcc"),
        }

    def configure(self, build: Path, generator: str, *options: str) -> None:
        """Run CMake."""
        words = ("-G", generator, "-DCMAKE_CUDA_ARCHITECTURES=80-real;90a-real", *options)
        done = self.run("cmake", "-S", str(self.source), "-B", str(build), *words)
        if done.returncode:
            raise SystemExit(done.stderr)

    def build(self, build: Path, *options: str) -> subprocess.CompletedProcess[str]:
        """Build; standard error and output together, as a log has them."""
        return self.run("cmake", "--build", str(build), *options)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command in the project's environment."""
        both = subprocess.STDOUT
        return subprocess.run(words, env=self.environment, text=True, check=False, stdout=subprocess.PIPE, stderr=both)


def figures(build: Build) -> Counter[tuple[object, ...]]:
    """What is said of each kernel, whatever the order."""
    return Counter((kernel.key, kernel.role, kernel.confidence, kernel.usage) for kernel in build.kernels)


def recorded(build: Path) -> Counter[tuple[object, ...]]:
    """What the record files of a build folder say of each kernel."""
    return figures(spillscan.scan(sorted(build.rglob("*.spillscan.log"))))


def agrees(folder: Build, records: Build) -> bool:
    """Whether objects, libraries and records of one folder are the kernels of the records, with more said of each."""
    whole, part = ({kernel.key: kernel.usage for kernel in build.kernels} for build in (folder, records))
    if folder.issues or len(folder.kernels) != len(records.kernels) or whole.keys() != part.keys():
        return False
    names = [each.name for each in PRINTED]
    return all(getattr(part[key], name) in (None, getattr(whole[key], name)) for key in part for name in names)


def check(what: str, holds: bool) -> bool:
    """Print one line."""
    print(f"  {'ok  ' if holds else 'FAIL'} {what}")
    return holds


def compare(project: Project, folder: Path, generator: str) -> bool:
    """The launcher's records against a sequential log, under one generator."""
    print(generator)
    plain, wrapped = folder / f"{generator} plain", folder / f"{generator} wrapped"
    project.configure(plain, generator)
    log = folder / "sequential.log"
    log.write_text(project.build(plain, "-j", "1", "--verbose").stdout)
    expected = spillscan.scan(log)
    project.configure(wrapped, generator, LAUNCHER)
    output = project.build(wrapped, "-j", "12").stdout
    good = check(f"{len(expected.kernels)} records are those of the log", recorded(wrapped) == figures(expected))
    whole = spillscan.scan(wrapped)
    good &= check("objects and library beside them contradict none and double none", agrees(whole, expected))
    good &= check("none is ambiguous", all(kernel.confidence == "certain" for kernel in whole.kernels))
    good &= check("no figures are shown", "registers" not in output and "spill stores" not in output)
    project.build(wrapped, "-j", "12")
    good &= check("a build with nothing to do still tells all", recorded(wrapped) == figures(expected))
    (project.source / "gemm.cu").touch()
    project.build(wrapped, "-j", "12")
    good &= check("so does one with one source to do", recorded(wrapped) == figures(expected))
    return good & fails(project, plain, wrapped)


def fails(project: Project, plain: Path, wrapped: Path) -> bool:
    """A source that does not compile."""
    source = project.source / "sort.cu"
    text = source.read_text()
    before = recorded(wrapped)
    source.write_text(text + "\n__global__ void broken() { nothing_of_this_name(); }\n")
    results = [project.build(build, "-j", "1") for build in (plain, wrapped)]
    errors = [[line for line in done.stdout.splitlines() if "sort.cu" in line and "error" in line] for done in results]
    source.write_text(text)
    good = check("a failing compile keeps its status", results[0].returncode == results[1].returncode != 0)
    good &= check(f"and its text ({len(errors[0])} lines)", errors[0] == errors[1] != [])
    for build in (plain, wrapped):
        project.build(build, "-j", "2")
    return good & check("and the build recovers", recorded(wrapped) == before)


def cost(project: Project, folder: Path) -> None:
    """How much longer a compilation takes, real and trivial: minima over alternating rounds."""
    (folder / "trivial.cu").write_text("__global__ void trivial() {}\n")
    archs = ("-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90a,code=sm_90a")
    launcher = (sys.executable, "-m", "spillscan", "wrap", "--")
    for name, source in (("real", project.source / "norm.cu"), ("trivial", folder / "trivial.cu")):
        command = ("nvcc", *archs, "-Xptxas", "-v", "-c", str(source), "-o", str(folder / "x.o"))
        times: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(ROUNDS):
            for is_wrapped, seconds in times.items():
                begin = time.perf_counter()
                done = project.run(*(launcher if is_wrapped else ()), *command)
                seconds.append(time.perf_counter() - begin)
                assert done.returncode == 0, done.stdout
        plain, wrapped = min(times[False]), min(times[True])
        print(f"  {name} compile: {plain:.3f} s, wrapped +{(wrapped - plain) * 1e3:.0f} ms ({wrapped / plain:.3f}x)")


def main() -> int:
    """Compare under every generator that is here."""
    toolkit = Toolchains(ROOT / "fixtures" / "cases.yaml", None).root(sys.argv[1] if len(sys.argv) > 1 else "13.5")
    generators = [("ninja", "Ninja"), ("make", "Unix Makefiles")]
    with tempfile.TemporaryDirectory() as place:
        project = Project(Path(place), toolkit)
        good = [compare(project, Path(place), name) for tool, name in generators if shutil.which(tool)]
        cost(project, Path(place))
    return 0 if good and all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
