"""Holds the reader of binaries against NVIDIA's own tools, function by function. Not part of `make test`.

    python -m tests.oracle.binary_oracle [--cache DIR] [--arch ARCH]… [--quick] [FILE]…

FILE is a library or a wheel; without one the wheels below are taken from PyPI and their libraries compared:

    resources     cuobjdump -res-usage   registers, stack, shared and local memory, constant banks
    code          cuobjdump -sass        opcodes by mnemonic, instructions, code bytes; each STL and LDL with address,
                                         width, form, slot, last use, predicate, loop depth
    attributes    cuobjdump -elf         min stack size, barriers, launch bounds, spill annotations

cuobjdump of Linux reads no Windows files: objcopy takes their fat binaries out and puts them into an ELF object. Where
it gives up a library because of one member, it gets each cubin of the architecture alone.

`--quick` leaves out -sass, which takes minutes a library. Differences are counted by kind, the first of each is shown;
exit status 1 where there is one that is not explained in docs/binaries.md.
"""

from __future__ import annotations

import argparse
import io
import mmap
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from spillscan import binary, sass
from spillscan.model import Issue
from spillscan.sass.model import LocalAccess, SassFunction
from spillscan.sass.resusage import FunctionUsage, ResourceUsage

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "fixtures"))

WHEELS = {
    "bitsandbytes==0.48.1": "*.so",
    "xgboost==3.2.0": "*libxgboost.so",
    "faiss-gpu-cu12==1.14.1.post1": "*libfaiss*.so",
    "nvidia-curand-cu12==10.3.10.19": "*libcurand.so*",
    "nvidia-curand==10.4.5.25": "*libcurand.so*",
    "cupy-cuda12x==14.2.0": "*.so",
    "nvidia-npp-cu12==12.4.1.87": "*.so*",
    "nvidia-nvjpeg-cu12==12.4.0.76": "*.so*",
    "nvidia-cusolver-cu12==11.7.5.82": "*.so*",
}
"""Public projects and the libraries in them that hold machine code."""

OLD, NEW = "sass-12.8", "sass-13.5"
"""Toolchains of fixtures/cases.yaml: the first reads Maxwell to Volta, the second what is newer."""
FIRST_OF_NEW = 75
RENAMED = 101
"""sm_101 is sm_110 since CUDA 13: only the older tools know it."""
NO_REGISTERS = re.compile(r"__cuda_sm\d+_div")
"""Helpers without a register count of their own: cuobjdump prints 0, their section's header tells."""

PE_SECTION = ".nv_fatb"
"""Of a Windows file: what its loader hands to the driver."""

Key = tuple[str, str]
"""Arch and symbol."""


class Differences:
    """What differs, counted by kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.compared: Counter[str] = Counter()
        self.failures: list[str] = []
        """Runs of NVIDIA's tools that ended with an error."""

    def equal(self, kind: str, where: object, ours: object, theirs: object) -> None:
        """Compare one figure."""
        self.compared[kind] += 1
        if ours != theirs:
            self.counts[kind] += 1
            if self.counts[kind] <= 3:
                print(f"  {kind} differs: {str(where)[:160]}")
                print(f"    ours   {str(ours)[:300]}")
                print(f"    theirs {str(theirs)[:300]}")


def tool_folder(name: str, cache: Path | None) -> Path:
    """Where the tools of a toolchain lie."""
    from maker.toolchains import Toolchains

    return Toolchains(ROOT / "fixtures" / "cases.yaml", cache).root(name) / "bin"


def wheel(requirement: str, cache: Path | None) -> Path:
    """A wheel, downloaded once."""
    from maker import toolchains

    folder = (cache or toolchains.default_cache()) / "wheels"
    return toolchains.download(requirement, folder)


def libraries(file: Path, pattern: str, folder: Path) -> Iterator[Path]:
    """The libraries of a wheel, put where cuobjdump can read them; any other file is itself one."""
    if file.suffix != ".whl":
        yield file
        return
    with zipfile.ZipFile(file) as archive:
        for name in archive.namelist():
            if Path(name).match(pattern) and archive.open(name).read(4).startswith((b"\x7fELF", b"MZ")):
                yield Path(archive.extract(name, folder))


def readable(path: Path, folder: Path) -> Path:
    """What cuobjdump reads of a library: itself, or an ELF object with the fat binaries of a Windows file."""
    with path.open("rb") as file:
        if file.read(2) != b"MZ":
            return path
    plain = folder / "fatbin"
    subprocess.run(["objcopy", "-O", "binary", f"--only-section={PE_SECTION}", path, plain], check=True)
    made = folder / f"{path.stem}.o"
    subprocess.run(["as", "-o", made, "/dev/null"], check=True)
    add = [f"--add-section=.nv_fatbin={plain}", "--set-section-flags=.nv_fatbin=alloc,readonly"]
    subprocess.run(["objcopy", *add, made], check=True)
    return made


def ours(path: Path) -> dict[Key, list[SassFunction]]:
    """The functions of a library, in its order."""
    found: dict[Key, list[SassFunction]] = defaultdict(list)
    with path.open("rb") as file:
        for item in binary.read(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), path.name):
            if isinstance(item, Issue):
                print(f"  {item.severity}: {item.message}")
            else:
                found[item.arch or "", item.symbol].append(item)
    return found


def run(folder: Path, *arguments: str | Path) -> subprocess.Popen[bytes]:
    """cuobjdump with its own nvdisasm."""
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    command = [str(folder / "cuobjdump"), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)


def number(arch: str) -> int:
    """90 of ``sm_90a``."""
    return int(re.sub(r"\D", "", arch))


def resources(path: Path, tools: Path, found: dict[Key, list[SassFunction]], told: Differences) -> None:
    """Against -res-usage, which is one for all architectures."""
    left = {key: list(functions) for key, functions in found.items()}
    process = run(tools, "-res-usage", path)
    assert process.stdout
    for item in ResourceUsage(process.stdout, path.name):
        if not isinstance(item, FunctionUsage):
            continue
        mine = left.get((item.arch or "", item.symbol))
        told.equal("function", (path.name, item.arch, item.symbol), bool(mine), True)
        if not mine:
            continue
        usage, function = mine.pop(0).usage, item.usage
        assert usage is not None
        where = (path.name, item.arch, item.symbol)
        kind = "registers of helpers" if NO_REGISTERS.search(item.symbol) else "registers"
        told.equal(kind, where, usage.registers, function.registers)
        if not item.dynamic_stack:
            told.equal("stack", where, usage.stack_bytes, function.stack_bytes)
        told.equal("shared", where, usage.shared_bytes, function.shared_bytes)
        told.equal("local", where, usage.local_bytes, function.local_bytes)
        told.equal("constants", where, usage.constant_bytes, function.constant_bytes)
    if process.wait():
        told.failures.append(f"cuobjdump {tools.parent.name} -res-usage {path.name}")
        return
    for key, functions in left.items():
        told.equal("function", key, len(functions), 0)


def dumped(
    path: Path, tools: Path, arch: str, left: dict[Key, list[SassFunction]], told: Differences
) -> Iterator[object]:
    """What cuobjdump -sass prints of one architecture; member by member where it fails on the whole library."""
    process = run(tools, "-sass", "-arch", arch, path)
    assert process.stdout
    text = io.BufferedReader(process.stdout)  # type: ignore[arg-type]
    if text.peek(1):
        yield from sass.read(text, path.name)
        if not process.wait():
            return
        told.failures.append(f"cuobjdump {tools.parent.name} -sass -arch {arch} {path.name} ends with an error")
        return
    process.wait()
    members = sorted({function.member for functions in left.values() for function in functions})
    with path.open("rb") as file, tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        library = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        for member in members:
            cubin = Path(folder) / f"{member}.cubin"
            cubin.write_bytes(binary.extract(library, member))
            single = run(tools, "-sass", cubin)
            assert single.stdout
            yield from sass.read(single.stdout, path.name)
            if single.wait():
                told.failures.append(f"cuobjdump {tools.parent.name} -sass of member {member} of {path.name}")


def code(path: Path, tools: Path, arch: str, found: dict[Key, list[SassFunction]], told: Differences) -> None:
    """Against the text of -sass of one architecture."""
    left = {key: list(functions) for key, functions in found.items() if key[0] == arch}
    seen = 0
    for item in dumped(path, tools, arch, left, told):
        if isinstance(item, Issue) or not isinstance(item, SassFunction):
            continue
        where = (path.name, item.arch, item.symbol)
        mine = left.get((item.arch or "", item.symbol))
        told.equal("function", where, bool(mine), True)
        if not mine:
            continue
        seen += 1
        function = mine.pop(0)
        stats, text = function.stats, item.stats
        told.compared["instruction"] += text.instructions
        told.equal("instructions", where, stats.instructions, text.instructions)
        told.equal("code bytes", where, stats.code_bytes, text.code_bytes)
        told.equal("opcodes", where, *_only(stats.opcodes, text.opcodes))
        told.compared["STL and LDL"] += len(text.local.accesses)
        told.equal("local memory", where, _places(stats.local.accesses), _places(text.local.accesses))
        if stats.local.evidence == text.local.evidence:
            kinds = ([a.kind for a in local.accesses] for local in (stats.local, text.local))
            told.equal("classes", where, *kinds)
    told.compared[f"functions of {arch} by -sass"] += seen


def _only(ours: Iterable[tuple[str, int]], theirs: Iterable[tuple[str, int]]) -> tuple[list[object], list[object]]:
    """What one side has and the other has not."""
    left, right = set(ours), set(theirs)
    return sorted(left - right), sorted(right - left)


def _places(accesses: Iterable[LocalAccess]) -> list[tuple[object, ...]]:
    return [(a.address, a.store, a.bytes, a.form, a.slot, a.last_use, a.predicated, a.depth) for a in accesses]


_SECTION = re.compile(r"^(?:\.nv\.info(?:\.(?P<symbol>.+))?|\S.*)$")
_ATTRIBUTE = re.compile(r"^\tAttribute:\s+(\w+)")
_STACK = re.compile(r"function: (.+)\(0x[0-9a-f]+\)\s+min stack size: (0x[0-9a-f]+)")


def attributes(path: Path, tools: Path, found: dict[Key, list[SassFunction]], told: Differences) -> None:
    """Against -elf: sums over the library, since its text does not say which of several cubins it is in."""
    stacks: Counter[tuple[str, int]] = Counter()
    spills = bounds = 0
    attribute = ""
    process = run(tools, "-elf", path)
    assert process.stdout
    for raw in process.stdout:
        line = raw.decode("utf-8", "backslashreplace").rstrip("\n")
        if match := _ATTRIBUTE.match(line):
            attribute = match[1]
            bounds += attribute == "EIATTR_MAX_THREADS"
        elif attribute == "EIATTR_MIN_STACK_SIZE" and (match := _STACK.search(line)):
            stacks[match[1], int(match[2], 16)] += 1
        elif attribute == "EIATTR_ANNOTATIONS" and "SpillRefill" in line:
            spills += 1
    if process.wait():
        told.failures.append(f"cuobjdump {tools.parent.name} -elf {path.name}")
        return
    functions = [function for group in found.values() for function in group]
    annotated = [f for f in functions if f.stats.local.evidence == "annotation"]
    ours_spills = sum(f.stats.local.spill.accesses for f in annotated)
    ours_spills += sum(f.stats.shared_spills or 0 for f in functions)
    told.equal("spill annotations", path.name, ours_spills, spills)
    limited = sum(f.launch_bounds is not None and f.launch_bounds.max_threads is not None for f in functions)
    told.equal("launch bounds", path.name, limited, bounds)
    mine = Counter((f.symbol, f.usage.cumulative_stack_bytes or 0) for f in functions if f.usage and f.role == "entry")
    theirs = {key for key in stacks if key[1] != 0xFFFFFFFF}
    for key in mine:
        if key[1]:
            told.equal("min stack", (path.name, key), key in theirs, True)


def main() -> int:
    """Compare; 1 where anything differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--arch", action="append", default=[], help="only these, of -sass")
    parser.add_argument("--quick", action="store_true", help="leave out -sass")
    arguments = parser.parse_args()
    given = [(file, "*.so*") for file in arguments.files]
    given = given or [(wheel(name, arguments.cache), pattern) for name, pattern in WHEELS.items()]
    old, new = (tool_folder(name, arguments.cache) for name in (OLD, NEW))
    told = Differences()
    size = 0
    for file, pattern in given:
        with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
            for path in libraries(file, pattern, Path(folder)):
                found = ours(path)
                if not found:
                    continue
                archs = sorted({arch for arch, _ in found}, key=number)
                size += path.stat().st_size
                print(f"{path.name}: {sum(map(len, found.values()))} functions of {' '.join(archs)}", flush=True)
                given_to_tools = readable(path, Path(folder))
                resources(given_to_tools, new, found, told)
                attributes(given_to_tools, new, found, told)
                for arch in [] if arguments.quick else arguments.arch or archs:
                    tools = new if number(arch) >= FIRST_OF_NEW and number(arch) != RENAMED else old
                    code(given_to_tools, tools, arch, found, told)
    print(f"{size >> 20} MiB of libraries; compared: " + ", ".join(f"{n:,} {k}" for k, n in told.compared.items()))
    print("\n".join(f"failed: {failure}" for failure in told.failures))
    print("differences: " + (", ".join(f"{count} {kind}" for kind, count in told.counts.items()) or "none"))
    return 1 if told.counts.keys() - {"registers of helpers"} else 0


if __name__ == "__main__":
    sys.exit(main())
