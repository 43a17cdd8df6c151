"""Holds the reader of binaries against NVIDIA's own tools, function by function. Not part of `make test`.

    python -m tests.oracle.binary_oracle [--windows | --public] [--arch ARCH]…
                                         [--quick | --instructions N] [--code HEX]… [FILE]…

FILE is a library or a wheel; without one the wheels of `fixtures/maker/wheels.py` are taken from PyPI and their
libraries compared, with `--public` wheels of 2018 to 2026 of every system:

    resources     cuobjdump -res-usage   registers, stack, shared and local memory, constant banks
    attributes    cuobjdump -elf         registers, frame and stack, launch bounds, spill annotations
    code          cuobjdump -sass        opcodes by mnemonic, instructions, code bytes; each STL and LDL with address,
                                         width, form, slot, last use, predicate, loop depth

cuobjdump of Linux reads no Windows files: objcopy takes their fat binaries out and puts them into an ELF object. Where
it gives up a library because of one member, it gets each cubin of the architecture alone.

-sass takes minutes a library. `--quick` leaves it out; `--instructions N` compares of each library and architecture
only the largest cubins, until they hold N instructions; `--code HEX` only cubins that hold an instruction of such an
opcode (the low 12 bits from Volta on, the high 13 before). Differences are counted by kind, the first of each is shown;
exit status 1 where there is one that is not explained in docs/internals/binaries.md, or where a tool fails.
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
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from spillscan.model import Issue
from spillscan.model.code import SassFunction
from spillscan.model.local import LocalAccess
from spillscan.reading import disassembly as sass
from spillscan.reading.binary import records
from spillscan.reading.disassembly.res_usage import FunctionUsage, ResourceUsage
from tests.oracle.binary_sources import cubins, holding, libraries, public, readable, wheels
from tests.oracle.differences import Differences
from tests.oracle.toolchain import root

OLD, NEW = "sass-12.8", "sass-13.5"
"""Toolchains of fixtures/cases.yaml: the first reads Maxwell to Volta, the second what is newer."""
FIRST_OF_NEW = 75
FIRST_OF_MAXWELL = 50
FIRST_OF_KEPLER, LAST_OF_KEPLER = 35, 49
"""What `--tools` of CUDA 11.8 print, such as those of Debian's package nvidia-cuda-toolkit (non-free)."""
RENAMED = 101
"""sm_101 is sm_110 since CUDA 13: only the older tools know it."""
UNTOLD = "of device functions"
"""cuobjdump -res-usage prints 0 registers and no stack of linked device functions; -elf prints both."""
NUMBERED = re.compile(r"__\d+$")
"""Suffix that cuobjdump adds to the name of a function if a cubin has several of one name."""

Key = tuple[str, str]
"""Arch and symbol."""


def ours(path: Path) -> dict[Key, list[SassFunction]]:
    """The functions of a library, in its order."""
    found: dict[Key, list[SassFunction]] = defaultdict(list)
    with path.open("rb") as file:
        for item in records.items(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), path.name):
            if isinstance(item, Issue):
                print(f"  {item.severity}: {item.message}")
            elif (
                isinstance(item, SassFunction) and not item.caller
            ):  # the log's oracle is for callees: no tool lists them
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


def usages(
    path: Path, given: Path, tools: Path, found: dict[Key, list[SassFunction]], reported: Differences
) -> Iterator[tuple[str, FunctionUsage]]:
    """Output of cuobjdump -res-usage, with the arch; per cubin if it rejects the whole library."""
    listed, failed = _listed(tools, given)
    if not failed:
        yield from ((item.arch or "", item) for item in listed)
        return
    archs = {f.member: arch for (arch, _), group in found.items() for f in group if number(arch) >= FIRST_OF_MAXWELL}
    reported.compared["MiB cubin by cubin"] += path.stat().st_size >> 20
    for key in [key for key in found if number(key[0]) < FIRST_OF_MAXWELL]:
        reported.compared["functions that no tool here lists"] += len(found.pop(key))
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        for cubin in cubins(path, set(archs), Path(folder)):
            listed, failed = _listed(tools, cubin)
            if failed:
                reported.failures.append(
                    f"cuobjdump {tools.parent.name} -res-usage of member {cubin.stem} of {path.name}"
                )
            yield from ((archs[int(cubin.stem)], item) for item in listed)


def _listed(tools: Path, path: Path) -> tuple[list[FunctionUsage], int]:
    """Output of cuobjdump -res-usage, and its exit status."""
    process = run(tools, "-res-usage", path)
    assert process.stdout
    items = [item for item in ResourceUsage(process.stdout, path.name) if isinstance(item, FunctionUsage)]
    return items, process.wait()


def resources(
    path: Path, given: Path, tools: Path, found: dict[Key, list[SassFunction]], reported: Differences
) -> None:
    """Against -res-usage, which is one for all architectures."""
    left = {key: list(functions) for key, functions in found.items()}
    for arch, item in usages(path, given, tools, left, reported):
        # sm_100f of nvcc 12.9 is sm_100 to it; the cubin's own note has ptxas's command line
        mine = left.get((arch, item.symbol)) or left.get((f"{arch}f", item.symbol))
        where = (path.name, arch, item.symbol)
        reported.equal("function", where, bool(mine), True)
        if not mine:
            continue
        found_here = mine.pop(0)
        usage, role, function = found_here.usage, found_here.role, item.usage
        assert usage is not None
        kernel = role == "entry"
        reported.equal("registers" if kernel else f"registers {UNTOLD}", where, usage.registers, function.registers)
        if not item.dynamic_stack:
            stack = usage.cumulative_stack_bytes if kernel else usage.stack_bytes
            reported.equal("stack" if kernel else f"stack {UNTOLD}", where, stack, function.cumulative_stack_bytes)
        reported.equal("shared", where, usage.shared_bytes, function.shared_bytes)
        reported.equal("local", where, usage.local_bytes, function.local_bytes)
        reported.equal("constants", where, usage.constant_bytes, function.constant_bytes)
    for key, functions in left.items():  # callees inside of a kernel's code are no functions to cuobjdump
        reported.equal("function", key, sum(function.role != "function" for function in functions), 0)


def dumped(
    path: Path, given: Path, tools: Path, arch: str, members: set[int], reported: Differences
) -> Iterator[object]:
    """Output of cuobjdump -sass for one architecture; per member if it fails on the whole library."""
    process = run(tools, "-sass", "-arch", arch, given)
    assert process.stdout
    text = io.BufferedReader(process.stdout)  # type: ignore[arg-type]
    if text.peek(1):
        yield from sass.reader(iter(lambda: text.read1(1 << 20), b""), path.name)
        if not process.wait():
            return
        reported.failures.append(f"cuobjdump {tools.parent.name} -sass -arch {arch} {path.name} ends with an error")
        return
    process.wait()
    yield from dumped_alone(path, tools, members, reported)


def dumped_alone(path: Path, tools: Path, members: set[int], reported: Differences) -> Iterator[object]:
    """Output of cuobjdump -sass for some cubins of a library."""
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        for cubin in cubins(path, members, Path(folder)):
            single = run(tools, "-sass", cubin)
            assert single.stdout
            yield from sass.reader(single.stdout, path.name)
            if single.wait():
                reported.failures.append(f"cuobjdump {tools.parent.name} -sass of member {cubin.stem} of {path.name}")


def largest(found: Iterable[SassFunction], instructions: int | None) -> set[int]:
    """Members with the most instructions, up to ``instructions`` in all (``None``: all members)."""
    sizes: Counter[int] = Counter()
    for function in found:
        sizes[function.member] += function.stats.instructions
    chosen: set[int] = set()
    held = 0
    for member, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        if instructions is not None and held >= instructions:
            break
        chosen.add(member)
        held += size
    return chosen


def code(
    path: Path,
    given: Path,
    tools: Path,
    arch: str,
    found: dict[Key, list[SassFunction]],
    reported: Differences,
    instructions: int | None = None,
    among: set[int] | None = None,
) -> None:
    """Against the text of -sass (of ``given``) of one architecture, or of its largest cubins, or of those ``among``."""
    own = (each for key, group in found.items() if key[0] == arch for each in group)
    members = largest((each for each in own if among is None or each.member in among), instructions)
    left = {key: [f for f in group if f.member in members] for key, group in found.items() if key[0] == arch}
    whole = instructions is None and among is None
    text = (
        dumped(path, given, tools, arch, members, reported) if whole else dumped_alone(path, tools, members, reported)
    )
    for item in text:
        if isinstance(item, Issue) or not isinstance(item, SassFunction):
            continue
        where = (path.name, arch, item.symbol)
        symbol = item.symbol if (arch, item.symbol) in left else NUMBERED.sub("", item.symbol)
        mine = left.get((arch, symbol))  # for a bare cubin of sm_100f it prints sm_100
        reported.equal("function", where, bool(mine), True)
        if not mine:
            continue
        reported.compared[f"functions of {arch} by -sass"] += 1
        compare(mine.pop(0), item, where, reported)
    if not whole:  # a whole library's text may end early, which is reported as a failure
        reported.equal("functions left", (path.name, arch), sum(map(len, left.values())), 0)


def compare(ours: SassFunction, theirs: SassFunction, where: object, reported: Differences) -> None:
    """Compare one function by its instructions."""
    stats, text = ours.stats, theirs.stats
    reported.compared["instruction"] += text.instructions
    reported.equal("instructions", where, stats.instructions, text.instructions)
    reported.equal("code bytes", where, stats.code_bytes, text.code_bytes)
    reported.equal("opcodes", where, *_only(stats.opcodes, text.opcodes))
    reported.compared["STL and LDL"] += len(text.local.accesses)
    deep = stats.local.flow != "none"  # of Kepler no depth is known
    reported.equal("local memory", where, *(_places(each.local.accesses, deep=deep) for each in (stats, text)))
    if stats.local.evidence == text.local.evidence:
        kinds = ([access.kind for access in local.accesses] for local in (stats.local, text.local))
        reported.equal("classes", where, *kinds)


def _only(ours: Iterable[tuple[str, int]], theirs: Iterable[tuple[str, int]]) -> tuple[list[object], list[object]]:
    """Items that only one side has."""
    left, right = set(ours), set(theirs)
    return sorted(left - right), sorted(right - left)


def _places(accesses: Iterable[LocalAccess], *, deep: bool) -> list[tuple[object, ...]]:
    return [
        (a.address, a.store, a.bytes, a.form, a.slot, a.last_use, a.predicated, a.depth if deep else None)
        for a in accesses
    ]


_SECTION = re.compile(r"^(?:\.nv\.info(?:\.(?P<symbol>.+))?|\S.*)$")
_ATTRIBUTE = re.compile(r"^\tAttribute:\s+(\w+)")
_FIGURE = re.compile(r"function: (.+)\(0x[0-9a-f]+\)\s+(min stack size|frame size|register count): (\w+)")


def attributes(path: Path, tools: Path, found: dict[Key, list[SassFunction]], reported: Differences) -> None:
    """Compare with -elf: sums over the library, since its text does not name the cubin."""
    theirs: set[tuple[str, str, int]] = set()
    spills = bounds = 0
    attribute = ""
    process = run(tools, "-elf", path)
    assert process.stdout
    for raw in process.stdout:
        line = raw.decode("utf-8", "backslashreplace").rstrip("\n")
        if match := _ATTRIBUTE.match(line):
            attribute = match[1]
            bounds += attribute == "EIATTR_MAX_THREADS"
        elif match := _FIGURE.search(line):
            theirs.add((match[1], match[2], int(match[3], 0)))
        elif attribute == "EIATTR_ANNOTATIONS" and "SpillRefill" in line:
            spills += 1
    if process.wait():
        reported.compared["libraries that -elf gives up"] += 1  # -res-usage and -sass take their cubins one by one
        return
    named = {(symbol, name) for symbol, name, _ in theirs}
    functions = [function for group in found.values() for function in group]
    annotated = [f for f in functions if f.stats.local.evidence == "annotation"]
    ours_spills = sum(f.stats.local.of(kind).accesses for f in annotated for kind in ("spill", "helper"))
    ours_spills += sum(f.stats.shared_spills or 0 for f in functions)
    reported.equal("spill annotations", path.name, ours_spills, spills)
    limited = sum(f.launch_bounds is not None and f.launch_bounds.max_threads is not None for f in functions)
    reported.equal("launch bounds", path.name, limited, bounds)
    for function in functions:
        usage = function.usage
        assert usage is not None
        expected = {"register count": usage.registers, "frame size": usage.stack_bytes}
        expected["min stack size"] = usage.cumulative_stack_bytes if function.role == "entry" else None
        for name, value in expected.items():
            if value and (function.symbol, name) in named:  # one of zero may have no attribute, nor old cubins any
                reported.equal(
                    f"{name} by -elf",
                    (path.name, function.symbol, name, value),
                    True,
                    (function.symbol, name, value) in theirs,
                )


def library(path: Path, label: str, arguments: argparse.Namespace, reported: Differences) -> None:
    """All comparisons of one library."""
    found = ours(path)
    if not found:
        return
    archs = sorted({arch for arch, _ in found}, key=number)
    old, new = (root(name) / "bin" for name in (OLD, NEW))
    codes = [int(code, 16) for code in arguments.code]
    with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
        print(f"{label}: {sum(map(len, found.values()))} functions of {' '.join(archs)}", flush=True)
        given = readable(path, Path(folder))
        tools = old if number(archs[0]) < FIRST_OF_NEW else new
        resources(path, given, tools, found, reported)
        attributes(given, tools, found, reported)
        reported.compared["MiB"] += path.stat().st_size >> 20
        among = holding(path, codes) if codes and not arguments.quick else None
        for arch in [] if arguments.quick else [arch for arch in archs if arch in (arguments.arch or archs)]:
            tools = new if number(arch) >= FIRST_OF_NEW and number(arch) != RENAMED else old
            if number(arch) < LAST_OF_KEPLER:
                if arguments.tools is None or number(arch) < FIRST_OF_KEPLER:
                    continue
                tools = arguments.tools
            code(path, given, tools, arch, found, reported, arguments.instructions, among)


def main() -> int:
    """Compare; 1 where anything differs or a tool fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--tools", type=Path, metavar="FOLDER", help="cuobjdump and nvdisasm of CUDA 11.8: Kepler, too")
    parser.add_argument("--windows", action="store_true", help="the wheels of Windows")
    parser.add_argument("--public", action="store_true", help="wheels of every age and system")
    parser.add_argument("--arch", action="append", default=[], help="only these, of -sass")
    parser.add_argument("--quick", action="store_true", help="leave out -sass")
    parser.add_argument("--instructions", type=int, metavar="N", help="of -sass: so many an architecture and library")
    parser.add_argument("--code", action="append", default=[], metavar="HEX", help="of -sass: what holds one of these")
    arguments = parser.parse_args()
    total = Differences()
    given: Iterable[tuple[Path, str]] = [(file, "*") for file in arguments.files]
    if not arguments.files:
        given = public() if arguments.public else wheels(windows=arguments.windows)
    for file, pattern in given:
        with tempfile.TemporaryDirectory(prefix="oracle-") as folder:
            for path in libraries(file, pattern, Path(folder)):
                library(path, f"{file.name}/{path.name}", arguments, total)
    print("compared: " + ", ".join(f"{count:,} {kind}" for kind, count in total.compared.items()))
    print("\n".join(f"failed: {failure}" for failure in total.failures))
    print("differences: " + (", ".join(f"{count} {kind}" for kind, count in total.counts.items()) or "none"))
    return 1 if total.failures or any(not kind.endswith(UNTOLD) for kind in total.counts) else 0


if __name__ == "__main__":
    sys.exit(main())
