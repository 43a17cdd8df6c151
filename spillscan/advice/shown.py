"""A build that was made on this machine, said again for one that has nothing of it: the same commands, options,
variables and toolkit. Texts only."""

from __future__ import annotations

import ast
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from spillscan.advice.jobs import BUILD_SYSTEMS, BuildSystem
from spillscan.builds.configured import COMPILER, Configured
from spillscan.builds.coverage import IMAGE_OF_RELEASE
from spillscan.builds.record import NAME
from spillscan.output.nouns import count

TOOLKIT = "/usr/local/cuda"
"""Where images have theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A build as it was made on this machine, from the top of its repository."""

    root: str
    """The top, absolute."""
    inputs: tuple[str, ...]
    """What the gate reads of it, seen from there."""
    configured: Configured | None = None
    """How its build folder was configured, if it has one."""
    options: Mapping[str, str]
    """What it was given of that."""
    sure: bool = True
    """Whether its build system comes to the same with them."""
    watched: tuple[str, ...] = ()
    """The command that ``spillscan run`` watched; empty: none did."""
    place: str = ""
    """Where that ran, seen from the top; empty: there."""
    release: str = ""
    """The compiler's: ``13.0.88``; empty where nothing says."""
    archs: tuple[str, ...] = ()
    """Of its kernels: ``sm_90``."""
    native: int = 0
    """Compilations for the GPU of the machine that compiles, whichever that is."""
    environment: Mapping[str, str]
    """The variables that its scripts ask for and that are set."""
    requires: tuple[str, ...] = ()
    """What its ``setup.py`` imports, or its ``pyproject.toml`` says that it takes."""
    packages: tuple[str, ...] = ()
    """The machine's packages of which it found something."""
    programs: tuple[str, ...] = ()
    """What its scripts and options call, of :data:`PACKAGE_OF_PROGRAM`."""
    submodules: bool = False
    """Whether it has submodules."""
    toolkit: str = TOOLKIT
    """Where its CUDA toolkit lies."""

    def word(self, value: str) -> str:
        """``value`` as a word of a shell's command, in any checkout, on any machine with a toolkit."""
        text = re.sub(rf"(?:{re.escape(self.toolkit)}|{TOOLKIT}-\d+(?:\.\d+)?)(?=/|$)", TOOLKIT, value)
        if f"{self.root}/" not in f"{text}/":
            return shlex.quote(text)
        text = re.sub(r'([\\"$`])', r"\\\1", text)
        return f'"{text.replace(self.root, "$PWD")}"'


_BUILDS_ALONE = frozenset({"cmake", "meson", "ninja", "make", "gmake"})
"""What builds in a folder that was configured before."""


def configures(watched: Sequence[str]) -> bool:
    """Whether a command that was ``watched`` configures what it builds, too."""
    return bool(watched) and watched[0].rpartition("/")[2] not in _BUILDS_ALONE


_WRAP = "spillscan;wrap;-v;--"
_OF_IMAGE = re.compile(
    r"(?:binutils|gcc|g\+\+|cpp|libgcc|libstdc\+\+|libc|make|cmake|ninja-build|git|python3|cuda|lib\w*-\d+-\d+$)"
)
"""Packages that the image has, or that the job brings in another way."""


PACKAGE_OF_PROGRAM = {
    "autoconf": "autoconf",
    "bison": "bison",
    "ccache": "ccache",
    "cmake": "cmake",
    "curl": "curl",
    "flex": "flex",
    "gfortran": "gfortran",
    "ninja": "ninja-build",
    "pkg-config": "pkg-config",
    "unzip": "unzip",
    "wget": "wget",
    "xxd": "xxd",
}
"""Programs of builds that the image lacks, as apt calls them."""


def repeated(shown: Shown, found: BuildSystem | None) -> BuildSystem:
    """The build that was ``shown``, on a machine of its own; ``found``: what the repository looks like."""
    system = found or BUILD_SYSTEMS[-1]
    if re.match(r"(?:.*/)?(?:python|pip)[\d.]*$", (*shown.watched, "")[0]):
        system = next(each for each in BUILD_SYSTEMS if each.name == "setuptools")
    if system.tools:
        system = replace(system, tools=shown.requires or system.tools)
    if shown.configured is not None and not configures(shown.watched):
        system = (_by_meson if shown.configured.system == "Meson" else _by_cmake)(shown, shown.configured)
    elif shown.watched:  # it configures, too
        system = replace(system, name=shown.watched[0], commands=(_run(shown, shown.watched),))
    environment = {**shown.environment}
    if "torch" in system.tools and shown.archs:  # no runner has a GPU of which torch could ask
        environment.setdefault("TORCH_CUDA_ARCH_LIST", ";".join(map(_with_point, shown.archs)))
    exports = [f"export {name}={shown.word(value)}" for name, value in environment.items()]
    by_pip = {re.split(r"[^\w.-]", tool)[0] for tool in system.tools}
    more = [PACKAGE_OF_PROGRAM[name] for name in shown.programs if name not in by_pip]
    more += [name for name in shown.packages if not _OF_IMAGE.match(name)]
    return replace(
        system,
        commands=(*exports, *system.commands),
        inputs=" ".join(map(shlex.quote, shown.inputs)) or system.inputs,
        packages=" ".join(dict.fromkeys([*system.packages.split(), *more])),
        image=image_of(shown.release) if shown.release else system.image,
        submodules=shown.submodules,
    )


def _with_point(arch: str) -> str:
    """``9.0a`` for ``sm_90a``, as PyTorch has it."""
    return re.sub(r"sm_(\d+)(\d\w*)", r"\1.\2", arch)


def image_of(release: str) -> str:
    """An image with the toolkit of a compiler's ``release``; of one that is not listed, the first of its series."""
    series = ".".join(release.split(".")[:2])
    return IMAGE_OF_RELEASE.get(series, f"nvidia/cuda:{series}.0-devel-ubuntu24.04")


def _by_cmake(shown: Shown, build: Configured) -> BuildSystem:
    launcher = ";".join(word for word in build.launcher.split(";") if word)
    if shown.watched or build.system == "scikit-build" or "--watched" in launcher:
        launcher = "" if "spillscan" in launcher else launcher
    elif "spillscan" in launcher:  # by its path, mostly
        launcher = re.sub(r"[^;]*(?:python[\d.]*;-m;)?\bspillscan(?=;)", "spillscan", launcher, count=1)
    elif not _log_of(shown):
        launcher = ";".join(filter(None, (_WRAP, launcher)))
    options = {**shown.options, **({"CMAKE_CUDA_COMPILER_LAUNCHER": launcher} if launcher else {})}
    if options.get("CMAKE_CUDA_ARCHITECTURES") == "native" and shown.archs:  # a runner has no GPU
        options["CMAKE_CUDA_ARCHITECTURES"] = ";".join(arch.removeprefix("sm_") for arch in shown.archs)
    given = [f"-D{name}={shown.word(value)}" for name, value in options.items() if name != COMPILER]
    given += [f'-D{COMPILER}="$(command -v nvcc)"'] * (COMPILER in options)
    folder, source = (relative(path, shown.root) for path in (build.folder, build.source))
    if build.system == "scikit-build":
        arguments = f"CMAKE_ARGS={shlex.quote(' '.join(given))} " if given else ""
        line = f"{arguments}spillscan run -- pip install -v . -C build-dir={shlex.quote(folder)}"
        return replace(BUILD_SYSTEMS[0], commands=(line,))
    ninja = "Ninja" in build.generator
    generator = [] if build.generator == "Unix Makefiles" else ["-G", shlex.quote(build.generator)]
    place = [*([] if source == "." else ["-S", shlex.quote(source)]), "-B", shlex.quote(folder)]
    compile_all = shown.watched[:2] == ("cmake", "--build") and shown.watched
    by_run = "spillscan run -- " if shown.watched else ""
    return BuildSystem(
        name="CMake",
        commands=(
            " ".join([f"{by_run}cmake", *place, *generator, *given]),
            (_run(shown, compile_all) if compile_all else f'{by_run}cmake --build {shlex.quote(folder)} -j"$(nproc)"')
            + _log_of(shown),
        ),
        inputs="",
        packages="git python3-venv",
        tools=(f"cmake=={'.'.join(build.version.split('.')[:2])}.*", *(("ninja",) if ninja else ())),
    )


def _by_meson(shown: Shown, build: Configured) -> BuildSystem:
    folder = shlex.quote(relative(build.folder, shown.root))
    given = [f"-D{name}={shown.word(value)}" for name, value in shown.options.items()]
    by_run = "spillscan run -- " if shown.watched else ""
    commands = (
        f"{by_run}meson setup {folder} {' '.join(given)}".rstrip(),
        f"{by_run}meson compile -C {folder}{_log_of(shown)}",
    )
    return BuildSystem(
        name="Meson", commands=commands, inputs="", packages="git python3-venv", tools=("meson", "ninja")
    )


def _run(shown: Shown, command: Sequence[str]) -> str:
    program, *words = command
    line = " ".join(
        (shlex.quote(program.rpartition("/")[2] if program.startswith("/") else program), *map(shown.word, words))
    )
    written = os.path.relpath(shown.inputs[0], shown.place or os.curdir)
    named = "" if written == NAME else f"-o {shlex.quote(written)} "
    line = f"spillscan run {named}-- {line}"
    return f"(cd {shlex.quote(shown.place)} && {line.replace('$PWD', '$OLDPWD')})" if shown.place else line


def _log_of(shown: Shown) -> str:
    """What writes the log that the gate reads; empty where it reads none."""
    log = next((path for path in shown.inputs if path.endswith((".log", ".txt"))), None)
    return f" 2>&1 | tee {shlex.quote(log)}" if log else ""


def relative(path: str, root: str) -> str:
    """``path`` as seen from ``root``; as it is where it lies elsewhere."""
    inside = f"{path.rstrip('/')}/".startswith(f"{root}/")
    return (path.rstrip("/")[len(root) + 1 :] or ".") if inside else path


_ABSOLUTE = re.compile(r"(?:^|[;: ='\"]|-[ILB]|-isystem)(/[^;: '\"]+)")


def compiles_for_its_gpu(words: Sequence[str]) -> bool:
    """Whether a command of nvcc says ``native`` for the arch: that of the machine's GPU, nvcc's default without one."""
    return _NATIVE.search(f" {' '.join(words)} ") is not None


_NATIVE = re.compile(r"\s(?:-arch|--?gpu-architecture)[= ]native\s")


def lacks(shown: Shown) -> list[str]:
    """What a machine with no more than the job says will not have, or what is not sure, in words."""
    found = []
    if shown.native:
        found.append(
            f"a GPU, by which {count(shown.native, 'compilation')} (-arch=native) would choose the arch; here it was"
            f" {', '.join(shown.archs) or 'not said'}; name the archs that you ship"
        )
    for value in (*shown.options.values(), *shown.environment.values(), *shown.watched[1:]):
        paths = (path for path in _ABSOLUTE.findall(shown.word(value)) if not path.startswith(("/usr/", "/bin/")))
        found += [f"{path}, which is not in the repository" for path in paths]
    if not shown.sure:
        found.append("CMake does not come to the same folder with these options alone: they are a guess, see --try")
    series = ".".join(shown.release.split(".")[:2])
    if shown.release and series not in IMAGE_OF_RELEASE:
        found.append(f"{image_of(shown.release)} is the tag to be expected of CUDA {series}; nobody looked it up")
    return list(dict.fromkeys(found))


# ---- what scripts ask for ------------------------------------------------------------------------------------------

_ASKS = re.compile(r"(?:environ(?:\.get)?|getenv)\W{1,3}[\"'](\w+)|\$ENV\{(\w+)\}|\$[({](\w+)[)}]")
_OF_COMPILERS = (
    *("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"),
    *("TORCH_CUDA_ARCH_LIST", "MAX_JOBS"),
)
"""Variables that compilers read, and PyTorch's extensions."""
_EVERYWHERE = frozenset(
    {"PATH", "HOME", "USER", "SHELL", "PWD", "LANG", "TERM", "TMPDIR", "SHLVL", "LOGNAME", "HOSTNAME"}
)
_SECRET = re.compile(r"TOKEN|SECRET|PASS|CREDENTIAL|KEY|AUTH", re.IGNORECASE)


def asked_for(scripts: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of ``environment`` that build scripts or compilers read; nothing that may be a secret."""
    names = {name for text in scripts for match in _ASKS.findall(text) for name in match if name} | {*_OF_COMPILERS}
    kept = sorted(name for name in names - _EVERYWHERE if name in environment and not _SECRET.search(name))
    return {name: environment[name] for name in kept}


_CALLED = {"skbuild": "scikit-build", "yaml": "pyyaml"}
"""Modules that PyPI calls otherwise."""
_STANDARD = frozenset({*sys.stdlib_module_names, "distutils", "pkg_resources"})


def required(setup: str, project: Mapping[str, object]) -> tuple[str, ...]:
    """What PyPI has of what builds a package: what ``pyproject.toml`` requires, and what ``setup.py`` imports."""
    system = project.get("build-system")
    listed = system.get("requires") if isinstance(system, Mapping) else None
    found = [word for word in listed if isinstance(word, str)] if isinstance(listed, list) else []
    known = {re.split(r"[^\w.-]", word)[0].lower() for word in found}
    names = (_CALLED.get(name, name.lower()) for name in _imported(setup))
    return tuple(dict.fromkeys((*found, *(name for name in names if name not in known))))


def _imported(script: str) -> Iterator[str]:
    """The modules of others that a Python script imports."""
    try:
        nodes = [*ast.walk(ast.parse(script))]
    except (SyntaxError, ValueError):
        return
    for node in nodes:
        modules = [each.name for each in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        yield from (top for module in modules if (top := module.partition(".")[0]) and top not in _STANDARD)
