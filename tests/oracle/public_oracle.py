"""Holds `spillscan run` against what strace sees, in the builds of public projects. Not part of `make test`.

    python -m tests.oracle.public_oracle FOLDER [--nvcc PATH] [PROJECT ...]

FOLDER holds a checkout of each project under its name below, at its commit, and, under ``include`` and ``lib``, what
the projects need of nv-codec-headers, NCCL and cuBLAS; nothing is fetched. Of each project a few units are left, for
one arch. strace, CMake, ninja, make, Meson and setuptools must be there. For each project: every nvcc that strace sees
compiling is a unit; then healthy builds of many kinds, and builds that fail, are killed, or are of other sources than
their objects. Exits with 1 where an exit status or a name is not as it must be.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.oracle.trials import Trial

BROKEN = "\n__global__ void broken( {\n"
_CLIPPED = "[output clipped, log limit 2MiB reached]\n"
"""What BuildKit writes, https://github.com/moby/buildkit/blob/master/util/progress/logs/logs.go."""
_LOG_BYTES = 2 << 20


@dataclass(frozen=True)
class Project:
    """One project, reduced to a few units."""

    name: str
    commit: str
    quick: str
    """The source, below its folder, that is broken, killed and edited."""
    other: str
    """Another one."""
    units: frozenset[str]
    build: str
    """``{jobs}``: how many at once."""
    keep_going: str = ""
    configure: str = ""
    clean: str = ""
    parts: tuple[str, ...] = ()
    """What of it is copied; nothing: all."""
    reduced: tuple[tuple[str, str, str], ...] = ()
    """(file, regular expression, what takes its place)."""
    variables: dict[str, str] = field(default_factory=dict)
    cached: dict[str, str] = field(default_factory=dict)
    """What makes it use ccache; nothing: it cannot."""
    built_in: str = "."
    folder_of_build: str = "build"


SAMPLES = "Samples/2_Concepts_and_Techniques/"
PROJECTS = (
    Project(
        name="cuda-samples",  # CMake's own CUDA language, ninja, separable compilation
        commit="c94ff366aed18c797b8a85dfaac7817b0228b420",
        parts=("CMakeLists.txt", "Common", "cmake", SAMPLES + "eigenvalues", SAMPLES + "histogram"),
        reduced=(
            ("CMakeLists.txt", "75 80 86 87 89 90 100 110 120", "80"),
            (
                "CMakeLists.txt",
                r"add_subdirectory\(Samples\)",
                f"add_subdirectory({SAMPLES}eigenvalues)\nadd_subdirectory({SAMPLES}histogram)\n",
            ),
            (SAMPLES + "eigenvalues/CMakeLists.txt", "75 80 86 87 89 90 100 110 120", "80"),
            (SAMPLES + "histogram/CMakeLists.txt", "75 80 86 87 89 90 100 110 120", "80"),
            (
                SAMPLES + "histogram/CMakeLists.txt",
                r"\Z",
                "\nset_source_files_properties(histogram64.cu PROPERTIES COMPILE_OPTIONS -Xptxas=-v)\n",
            ),
        ),
        quick=SAMPLES + "histogram/histogram256.cu",
        other=SAMPLES + "eigenvalues/bisect_util.cu",
        units=frozenset({"bisect_large", "bisect_small", "bisect_util", "main", "histogram64", "histogram256"}),
        configure="cmake -G Ninja -B build",
        build="cmake --build build -j{jobs}",
        keep_going="cmake --build build -- -k0",
        clean="cmake --build build --target clean",
        cached={"CMAKE_CUDA_COMPILER_LAUNCHER": "ccache"},
    ),
    Project(
        name="Gpufit",  # CMake's old FindCUDA, make
        commit="a0bd66c365468c7fca4b8f0511597907cf2c0274",
        reduced=(
            ("Gpufit/CMakeLists.txt", r"(?s)# Examples using only.*", ""),
            ("CMakeLists.txt", r"(?s)# Cpufit.*?# Gpufit", ""),
            ("CMakeLists.txt", r"(?s)# Examples using Gpufit.*", ""),
        ),
        quick="Gpufit/gpu_data.cu",
        other="Gpufit/info.cu",
        units=frozenset({"lm_fit_cuda", "cuda_kernels", "info", "gpu_data", "cuda_gaussjordan"}),
        configure="cmake -G 'Unix Makefiles' -B build -DCUDA_ARCHITECTURES=8.0",
        build="cmake --build build -j{jobs}",
        keep_going="cmake --build build -- -k",
        clean="cmake --build build --target clean",
    ),
    Project(
        name="cudamat",  # setuptools
        commit="21baa0a82f189fae40cab3ab607c11cabfee8899",
        quick="cudamat/learn_kernels.cu",
        other="cudamat/learn.cu",
        units=frozenset({"cudamat", "cudamat_kernels", "learn", "learn_kernels"}),
        build="python3 setup.py build_ext",
        clean="rm -rf build",
        variables={
            "NVCCFLAGS": "-arch=sm_80 -DcudaThreadExit=cudaDeviceReset -DcudaThreadSynchronize=cudaDeviceSynchronize"
        },
    ),
    Project(
        name="nccl-tests",  # make in make, one -rdc-less library
        commit="a0b82b2260cf5152b9f8c061bbf7eaf0ba096432",
        quick="src/util.cu",
        other="src/common.cu",
        units=frozenset({"all_reduce", "common", "util", "verifiable"}),
        build="make NVCC=nvcc BIN_FILES_LIST=all_reduce -j{jobs}",
        keep_going="make NVCC=nvcc BIN_FILES_LIST=all_reduce -k",
        clean="make clean",
        cached={"NVCC": "ccache nvcc"},
    ),
    Project(
        name="vmaf",  # Meson; custom targets that make fatbins
        commit="f85a853692a8c730d0270cd733c8bb30b5b93b7c",
        parts=("libvmaf",),
        quick="libvmaf/src/feature/cuda/integer_motion/motion_score.cu",
        other="libvmaf/src/feature/cuda/integer_adm/adm_csf.cu",
        units=frozenset({"filter1d", "motion_score", "adm_dwt2", "adm_csf_den", "adm_decouple", "adm_cm", "adm_csf"}),
        reduced=(("libvmaf/src/meson.build", r"-gencode=arch=compute_(?:75|90|100|120)[^']*", "-lineinfo"),),
        configure="meson setup build -Denable_cuda=true -Denable_asm=false -Dbuilt_in_models=false -Denable_tests=false"
        " -Denable_docs=false",
        build="ninja -C build -j{jobs} {fatbins}",
        keep_going="ninja -C build -k0 {fatbins}",
        clean="ninja -C build -t clean",
        built_in="libvmaf",
        folder_of_build="build",
    ),
)


class Build:
    """A project of which ``spillscan run`` watches builds."""

    def __init__(self, project: Project, sources: Path, place: Path, nvcc: str, **more: str) -> None:
        self.project = project
        place.mkdir(parents=True)
        for part in project.parts or (".",):
            if (sources / project.name / part).is_dir():
                shutil.copytree(
                    sources / project.name / part,
                    place / part,
                    symlinks=True,
                    dirs_exist_ok=True,
                    ignore=shutil.ignore_patterns(".git"),
                )
            else:
                shutil.copy(sources / project.name / part, place / part)
        for name, expression, text in project.reduced:
            file = place / name
            changed, count = re.subn(expression, text.replace("\\", r"\\"), file.read_text())
            assert count, f"{project.name}: {name} has no {expression}"
            file.write_text(changed)
        self._top = place
        toolkit = Path(nvcc).resolve().parent.parent
        self.trial = Trial(
            project.name,
            place / project.built_in,
            nvcc,
            {
                "CPATH": str(sources / "include"),
                "LIBRARY_PATH": str(sources / "lib"),
                "LD_LIBRARY_PATH": str(sources / "lib"),
                "CUDA_HOME": str(toolkit),
                "NVCC_GENCODE": "-gencode=arch=compute_80,code=sm_80",
                **project.variables,
                **more,
            },
        )
        self.healthy = 0
        self.rows: list[tuple[str, bool]] = []

    def command(self, jobs: int = 2, text: str = "") -> str:
        fatbins = " ".join(f"src/{name}.fatbin.c" for name in sorted(self.project.units))
        return (text or self.project.build).format(jobs=jobs, fatbins=fatbins)

    def edit(self, name: str, text: str) -> str:
        """Append to a source; what it was."""
        time.sleep(0.02)
        file = self._top / name
        before = file.read_text(errors="surrogateescape")
        file.write_text(before + text, errors="surrogateescape")
        return before

    def restore(self, name: str, before: str) -> None:
        (self._top / name).write_text(before, errors="surrogateescape")

    def made(self, name: str) -> list[Path]:
        """Objects of a source."""
        stem = Path(name).stem
        return [
            path
            for path in self.trial.place.rglob("*")
            if re.fullmatch(rf"(?:.*_generated_)?{stem}(?:\.cu)?\.(?:o|fatbin)", path.name)
        ]

    def good(self, what: str, command: str, *options: str, **more: str) -> None:
        """A build that must succeed, and whose account has no gap."""
        done = self.trial.run(command, *options, **more)
        self.healthy += 1
        ok = self.trial.expect(
            f"{what}: the build's own status {done.returncode}\n{done.stderr[-2000:]}", not done.returncode
        )
        ok &= self.trial.check(what, 0, inputs=options[1:])
        self.rows.append((what, ok))

    def bad(self, what: str, *said: str, inputs: tuple[str, ...] = ()) -> None:
        """The gate must name a gap."""
        self.rows.append((what, self.trial.check(what, 2, *said, inputs=inputs)))


def hold(build: Build) -> None:
    """All that must hold of one project."""
    project, trial = build.project, build.trial
    quick = Path(project.quick).name
    if project.configure:
        trial.run(project.configure)
    seen = trial.traced(build.command())
    build.healthy += 1
    units = trial.units
    ok = trial.expect(f"strace sees {sorted(seen)}", seen == project.units)
    ok &= trial.expect(f"units {sorted(units)}", units.keys() == seen)
    build.rows.append(("each call that strace sees", ok))
    build.rows.append(("a healthy build", trial.check("a healthy build", 0)))
    silent = [name for name, unit in units.items() if not unit.reported]
    build.rows.append(("reports, whatever the flags", trial.expect(f"no report: {silent}", not silent)))
    build.good("nothing to do", build.command())
    before = build.edit(project.quick, "// edited\n")
    build.bad("one source edited", quick, "stale-unit")
    build.good(
        "built after the edit, another locale and status",
        build.command(),
        LC_ALL="C.UTF-8",
        LANG="de_DE.UTF-8",
        LANGUAGE="de",
        NINJA_STATUS="<%p %f> ",
    )
    for path in build.made(project.quick):
        path.unlink()
    build.good("one object deleted, built", build.command(1))
    build.edit(project.quick, BROKEN)
    done = trial.run(build.command(), LC_ALL="C.UTF-8", LANG="fr_FR.UTF-8", LANGUAGE="fr", NINJA_STATUS="%u/%r/%f: ")
    trial.expect("a failed build fails", done.returncode != 0)
    build.bad("a unit fails after it was good, another locale and status", quick, "build-failed")
    log = (done.stdout + done.stderr).encode()
    padded = (b"-- a line of a build\n" * (_LOG_BYTES // 20) + log)[:_LOG_BYTES] + b"\n" + _CLIPPED.encode()
    (trial.place / "cut.log").write_bytes(padded)
    build.bad("its log, cut at 2 MB", inputs=("cut.log",))
    build.bad("its log, cut at 2 MB, and the account", quick, inputs=("cut.log", "spillscan-build.json"))
    whole = (trial.place / "spillscan-build.json").read_bytes()
    (trial.place / "half.json").write_bytes(whole[: len(whole) // 2])
    build.bad("the account itself, cut", inputs=("half.json",))
    if project.keep_going:
        other = build.edit(project.other, "// edited\n")
        trial.run(build.command(text=project.keep_going))
        state = trial.units[Path(project.other).stem].state
        trial.expect(f"-k goes on: {state}", state == "done")
        build.bad("-k", quick, "build-failed")
        build.restore(project.other, other)
        trial.run(f"{build.command(text=project.keep_going)} || true")
    else:
        trial.run(f"{build.command()} || true")
    build.bad("a failed build whose status is lost", quick, "build-failed")
    build.restore(project.quick, before + "// fixed\n")
    build.good("fixed", build.command(4))
    build.edit(project.quick, "// once more\n")
    trial.killed(build.command(), quick, ("cicc", "ptxas"))
    build.bad("ptxas killed", quick, "build-failed")
    trial.killed(build.command(), quick, ("nvcc",))
    build.bad("nvcc killed", quick, "unfinished-unit")
    trial.interrupted(build.command(), quick)
    build.bad("Ctrl-C", quick)
    build.good("built after all that", build.command())


def first_fails(build: Build) -> None:
    """A build that never was good; then others from an empty folder."""
    project, trial = build.project, build.trial
    quick = Path(project.quick).name
    before = build.edit(project.quick, BROKEN)
    if project.configure:
        trial.run(project.configure)
    done = trial.run(build.command())
    trial.expect("a failed build fails", done.returncode != 0)
    build.bad("a unit fails first", quick, "build-failed")
    build.restore(project.quick, before)
    build.good("fixed at once, -j4", build.command(4))
    trial.run(project.clean)
    (trial.place / "kept").mkdir()
    build.good("after clean, -j1, kept elsewhere", build.command(1), "-o", "kept/build.json")
    for name in (project.other, project.quick):
        build.edit(name, "// new\n")
    build.good("two edited at once", build.command(3), LC_ALL="tr_TR.UTF-8", NINJA_STATUS="")


def cached(build: Build) -> None:
    """With ccache, cold and warm."""
    project, trial = build.project, build.trial
    more = {"CCACHE_DIR": str(trial.place.parent / "ccache"), **project.cached}
    command = build.command().replace("NVCC=nvcc ", "")
    if project.configure:
        trial.run(project.configure, **more)
    build.good("ccache, cold", command, **more)
    trial.run(project.clean, **more)
    build.good("ccache, warm", command, **more)


def main() -> int:
    """Try all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "nvcc")
    parser.add_argument("projects", nargs="*")
    arguments = parser.parse_intermixed_args()
    held, healthy, wrong = 0, 0, []
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        for project in PROJECTS:
            if arguments.projects and project.name not in arguments.projects:
                continue
            if not (arguments.folder / project.name).is_dir():
                print(f"{project.name}: left out, no checkout of {project.commit} in {arguments.folder}")
                continue
            for test in (hold, first_fails, cached) if project.cached else (hold, first_fails):
                place = Path(folder) / f"{project.name}-{test.__name__}" / "project"
                build = Build(project, arguments.folder.resolve(), place, arguments.nvcc)
                began = time.monotonic()
                test(build)
                for what, ok in build.rows:
                    print(f"{project.name:14}{'ok   ' if ok else 'WRONG'}  {what}", flush=True)
                print(f"{project.name}: {test.__name__}, {time.monotonic() - began:.0f} s", flush=True)
                held, healthy, wrong = held + build.trial.held, healthy + build.healthy, [*wrong, *build.trial.wrong]
    for each in wrong:
        print(each)
    print(f"{healthy} healthy builds, {held} statements about builds, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
