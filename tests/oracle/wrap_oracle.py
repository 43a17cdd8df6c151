"""Holds the compiler launcher against a sequential log, in a real CMake project. Not part of `make test`.

    python -m tests.oracle.wrap_oracle [--costs] [RELEASE]

Thirteen sources, two architectures, nvcc of RELEASE (13.5) from PyPI; CMake, ninja or make, and a C++ compiler must be
there; ccache, sccache and clang are tried where they are. Prints what it compared, and what wrapping costs; exits with
1 when anything differs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import spillscan
from fixtures.maker.toolchains import Toolchains
from spillscan.builds.records import SUFFIX
from spillscan.model import Build
from spillscan.model.usage import PRINTED

ROOT = Path(__file__).resolve().parents[2]
CLANG = ROOT / "fixtures" / "sources" / "clang.cu"
SOURCES = ROOT / "fixtures" / "sources" / "library"
LAUNCHER = "-DCMAKE_CUDA_COMPILER_LAUNCHER=spillscan;wrap;--"
ROUNDS = 5
OF_CLANG = "clang-11.8"
"""clang is behind the toolkits: it refuses libraries of later ones."""
RELOCATABLE = """
__device__ __noinline__ float step(float x) { return x * x + 1.0f; }
__global__ void steps(float* x) { x[threadIdx.x] = step(x[threadIdx.x]); }
"""


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

    def run(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """A command in the project's environment, and ``more`` of it."""
        both = subprocess.STDOUT
        environment = self.environment | more
        return subprocess.run(words, env=environment, text=True, check=False, stdout=subprocess.PIPE, stderr=both)


def figures(build: Build) -> Counter[tuple[object, ...]]:
    """What is said of each kernel, whatever the order."""
    return Counter((kernel.key, kernel.role, kernel.confidence, kernel.usage) for kernel in build.kernels)


def recorded(build: Path) -> Counter[tuple[object, ...]]:
    """What the record files of a build folder say of each kernel."""
    return figures(spillscan.scan(sorted(build.rglob("*.spillscan.log"))))


def printed_figures(log: Path) -> Counter[tuple[object, ...]]:
    """Figures of each kernel by symbol and architecture: the source is not said in what a compiler prints."""
    return Counter((each.key.symbol, each.key.arch, each.role, each.usage) for each in spillscan.scan(log).kernels)


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


@dataclass(frozen=True)
class Form:
    """One way in which builds call a compiler."""

    name: str
    command: tuple[str, ...]
    """With a word ``OBJECT`` where what it makes stands."""
    environment: Mapping[str, str] = field(default_factory=dict)
    needs: str = "nvcc"
    """The program that must be there."""


def forms(source: Path, trivial: Path, clang_toolkit: Path) -> list[Form]:
    """Each form, of a real source."""
    two = ("-gencode", "arch=compute_80,code=sm_80", "-gencode", "arch=compute_90a,code=sm_90a")
    end = ("-Xptxas", "-v", "-c", str(source), "-o", "OBJECT")
    cold = {"CCACHE_RECACHE": "1", "SCCACHE_RECACHE": "1"}
    clang = ("clang++", f"--cuda-path={clang_toolkit}", "-nocudainc", "-nocudalib", "--cuda-device-only", "-O2")
    of_clang = ("--cuda-gpu-arch=sm_80", "-Xcuda-ptxas", "-v", "-c", str(CLANG), "-o", "OBJECT")
    return [
        Form("nvcc", ("nvcc", *two, *end)),
        Form("nvcc, an empty kernel", ("nvcc", *two, "-Xptxas", "-v", "-c", str(trivial), "-o", "OBJECT")),
        Form("nvcc --threads 2", ("nvcc", "--threads", "2", *two, *end)),
        Form("nvcc -rdc=true", ("nvcc", "-rdc=true", *two, *end)),
        Form("ccache, a miss", ("ccache", "nvcc", *two[:2], *end), cold, "ccache"),
        Form("ccache, a hit", ("ccache", "nvcc", *two[:2], *end), needs="ccache"),
        Form("sccache, a miss", ("sccache", "nvcc", *two[:2], *end), cold, "sccache"),
        Form("sccache, a hit", ("sccache", "nvcc", *two[:2], *end), needs="sccache"),
        Form("clang", (*clang, *of_clang), needs="clang++"),
    ]


def costs(project: Project, folder: Path, clang_toolkit: Path) -> bool:
    """How much longer each form takes, and whether its record says what it printed: minima over alternating rounds."""
    trivial = folder / "trivial.cu"
    trivial.write_text("__global__ void trivial() {}\n")
    project.environment |= {"CCACHE_DIR": str(folder / "ccache"), "SCCACHE_DIR": str(folder / "sccache")}
    good = True
    for form in forms(project.source / "norm.cu", trivial, clang_toolkit):
        if shutil.which(form.needs, path=project.environment["PATH"]) is None:
            print(f"  --   {form.name}: {form.needs} is not here")
            continue
        good &= cost(project, folder, form)
    return good & linked(project, folder)


def cost(project: Project, folder: Path, form: Form) -> bool:
    """One form."""
    launcher = (sys.executable, "-m", "spillscan", "wrap", "--")
    times: dict[bool, list[float]] = {False: [], True: []}
    project.run(*(str(folder / "plain.o") if word == "OBJECT" else word for word in form.command))
    for _ in range(ROUNDS):
        for is_wrapped, seconds in times.items():
            made = folder / ("wrapped.o" if is_wrapped else "plain.o")
            command = [str(made) if word == "OBJECT" else word for word in form.command]
            begin = time.perf_counter()
            done = project.run(*(launcher if is_wrapped else ()), *command, **form.environment)
            seconds.append(time.perf_counter() - begin)
            if done.returncode:
                raise SystemExit(done.stdout)
            if not is_wrapped:
                (folder / "plain.log").write_text(done.stdout)
    plain, wrapped = min(times[False]), min(times[True])
    printed, kept = printed_figures(folder / "plain.log"), printed_figures(folder / f"wrapped.o{SUFFIX}")
    spent = f"{plain:.3f} s, wrapped +{(wrapped - plain) * 1e3:.0f} ms ({wrapped / plain:.3f}x)"
    return check(f"{form.name}: {spent}; {len(printed)} records", printed == kept != Counter())


def linked(project: Project, folder: Path) -> bool:
    """A link of relocatable code has a record of its own, with what nvlink says."""
    arch = ("-arch=sm_90",)
    (folder / "part.cu").write_text(RELOCATABLE)
    first = project.run("nvcc", *arch, "-rdc=true", "-c", str(folder / "part.cu"), "-o", str(folder / "part.o"))
    link = ("nvcc", *arch, "-dlink", "-Xnvlink", "-v", str(folder / "part.o"), "-o")
    plain = project.run(*link, str(folder / "plain.o"))
    wrapped = project.run(sys.executable, "-m", "spillscan", "wrap", "--", *link, str(folder / "linked.o"))
    if first.returncode or plain.returncode or wrapped.returncode:
        raise SystemExit(first.stdout + plain.stdout + wrapped.stdout)
    (folder / "plain.log").write_text(plain.stdout)
    expected = printed_figures(folder / "plain.log")
    same = printed_figures(folder / f"linked.o{SUFFIX}") == expected
    return check(f"nvcc -dlink: {len(expected)} records of nvlink", same and bool(expected))


def main() -> int:
    """Compare under every generator that is here."""
    toolchains = Toolchains(ROOT / "fixtures" / "cases.yaml", None)
    words = [word for word in sys.argv[1:] if word != "--costs"]
    generators = [("ninja", "Ninja"), ("make", "Unix Makefiles")] if len(words) == len(sys.argv) - 1 else []
    with tempfile.TemporaryDirectory() as place:
        project = Project(Path(place), toolchains.root(words[0] if words else "13.5"))
        good = [compare(project, Path(place), name) for tool, name in generators if shutil.which(tool)]
        good.append(costs(project, Path(place), toolchains.root(OF_CLANG)))
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
