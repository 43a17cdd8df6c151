"""Holds what `size` says against the file itself and NVIDIA's own tools. Not part of `make test`.

    python -m tests.oracle.size_oracle [--public] [--disassemble N] [FILE]…

FILE is a library or a wheel; without one the wheels of `fixtures/maker/wheels.py` are taken from PyPI, with `--public`
those of every age and system:

    sums          the stored bytes of all parts add up to the file's size
    archs         cuobjdump -lelf and -lptx   how many cubins and PTX modules there are of each architecture
    code          cuobjdump -elf              bytes of code of each function, by architecture
    copies        cuobjdump -sass             functions with equal text, of the first N libraries (three) that are small
                                              enough: what we call equal has equal text; equal text that we call
                                              different differs in constants or relocations, and is counted

Exit status 1 where anything differs.
"""

from __future__ import annotations

import argparse
import mmap
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from spillscan.reading.binary import containers
from spillscan.reading.binary.images import Image, Intermediate, Member
from spillscan.reading.binary.size_accounting import Sizes, sizes_of
from spillscan.reading.binary.window import DEFAULT, Budget, Window
from tests.oracle import toolchain
from tests.oracle.binary_oracle import NEW
from tests.oracle.binary_sources import libraries, public, readable, wheels
from tests.oracle.differences import Differences

LISTED = re.compile(r"\.((?:sm|compute)_\d+[af]?)\.(?:cubin|ptx)$")
SECTION = re.compile(r"^ +\w+ +\w+ +(\w+) +\w+ +\w+ +PROGBITS .* \.text\.(\S+)$")
SPOT = re.compile(r"\+0x[0-9a-f]+$")
"""Of what stands among other data, where cuobjdump does not look."""
ARCH = re.compile(r"^arch = (sm_\w+)$")
FUNCTION = re.compile(r"^\t\tFunction : (\S+)$")
LARGEST_TO_DISASSEMBLE = 24 << 20
OLDEST = 75
"""Architecture: the newer cuobjdump lists older ones, and disassembles none."""


def weighed(path: Path) -> tuple[Sizes, mmap.mmap]:
    """Sizes of a file, as `size` prints them."""
    with path.open("rb") as file:
        buffer = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return sizes_of(buffer, len(buffer), DEFAULT, copies=True), buffer


def lines(tool: Path, *arguments: str) -> Iterator[str]:
    """Output of cuobjdump."""
    process = subprocess.Popen([tool, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    with process:
        for line in process.stdout:
            yield line.decode("utf-8", "replace").rstrip("\n")


def listed(path: Path, buffer: mmap.mmap, folder: Path) -> Path:
    """What cuobjdump lists of a library: the code in its fat binary, not what the device linker left next to it."""
    if buffer.find(b"\0.nv_fatbin\0") < 0 or buffer.find(b"\0__nv_relfatbin\0") < 0:
        return path
    made = folder / f"listed-{path.name}"
    subprocess.run(["objcopy", "--remove-section=__nv_relfatbin", path, made], check=True)
    return made


def archs(path: Path, buffer: mmap.mmap, tool: Path, found: Differences) -> None:
    """Cubins and PTX modules by architecture."""
    ours: Counter[str] = Counter()
    for each in containers.images(Window(buffer), Budget(DEFAULT, len(buffer))):
        if isinstance(each, Member) and each.place.spot:
            continue  # among other data, where cuobjdump does not look
        if isinstance(each, Image):
            ours[f"sm_{each.target.rstrip('f')}"] += 1  # -lelf names no families
        elif isinstance(each, Intermediate) and each.form == "PTX":
            ours[f"compute_{each.target}"] += 1
    theirs: Counter[str] = Counter()
    for option in ("-lelf", "-lptx"):
        for line in lines(tool, option, str(path)):
            if match := LISTED.search(line):
                theirs[match[1] if option == "-lelf" else match[1].replace("sm_", "compute_")] += 1
    for arch in ours | theirs:
        found.equal("cubins and PTX modules", (path.name, arch), ours[arch], theirs[arch])


def code(path: Path, weight: Sizes, tool: Path, found: Differences) -> None:
    """Bytes of code of each function."""
    ours: Counter[tuple[str, str]] = Counter()
    for key, measure in weight.sums.items():
        if key.kind == "code" and not SPOT.search(key.unit):
            ours[key.arch, key.symbol] += measure.plain
    theirs: Counter[tuple[str, str]] = Counter()
    here = ""
    for line in lines(tool, "-elf", str(path)):
        if line.startswith("arch = ") and (match := ARCH.match(line)):
            here = match[1]
        elif "PROGBITS" in line and (match := SECTION.match(line)):
            theirs[here, match[2]] += int(match[1], 16)
    for key in ours | theirs:
        found.equal("code bytes of functions", (path.name, key), ours[key], theirs[key])


def copies(path: Path, weight: Sizes, tool: Path, found: Differences) -> int:
    """Equal code, by our digests and by the text of the disassembly; how many have equal text and another digest."""
    ours: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for copy in weight.copies:
        ours[copy.key.arch, copy.key.symbol].add(copy.digest)
    texts: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for arch in sorted({arch for arch, _ in ours if int(re.sub(r"\D", "", arch)) >= OLDEST}):
        name, held = "", list[str]()
        for line in (*lines(tool, "-sass", "-arch", arch, str(path)), "\t\tFunction : "):
            if line.startswith("\t\tFunction : "):
                if name:
                    texts[arch, name].add("\n".join(held))
                name, held = line.removeprefix("\t\tFunction : "), []
            elif line.startswith(("\t\t", "        /*")):
                held.append(" ".join(line.split()))  # its columns are as wide as the widest line of the cubin
    by_digest: defaultdict[str, set[str]] = defaultdict(set)
    by_text: defaultdict[str, set[str]] = defaultdict(set)
    for key, digests in ours.items():
        if len(digests) == len(texts[key]) == 1:
            (digest,), (text,) = digests, texts[key]
            by_digest[digest].add(text)
            by_text[text].add(digest)
    for digest, several in by_digest.items():
        found.equal("texts of code that we call equal", (path.name, digest), len(several), 1)
    return sum(len(digests) - 1 for digests in by_text.values())


def main() -> int:
    """Compare, and print differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--public", action="store_true")
    parser.add_argument("--disassemble", type=int, default=3, metavar="N")
    arguments = parser.parse_args()
    tool = toolchain.tool(NEW, "cuobjdump")
    known = public() if arguments.public else wheels(windows=False)
    found, left = Differences(), arguments.disassemble
    for file, pattern in ((path, "*") for path in arguments.files) if arguments.files else known:
        weight, buffer = weighed(file)
        total = sum(measure.stored for measure in weight.sums.values())
        print(f"{file.name}: {total:,} bytes, {len(weight.damages)} damages", flush=True)
        found.equal("sums of files", file.name, total, len(buffer))
        with tempfile.TemporaryDirectory() as folder:
            for path in libraries(file, pattern, Path(folder)):
                inner, bytes_ = weighed(path)
                found.equal("sums of libraries", path.name, sum(m.stored for m in inner.sums.values()), len(bytes_))
                if not inner.copies:
                    continue
                if (given := listed(path, bytes_, Path(folder))) != path:
                    inner, bytes_ = weighed(given)
                plain = readable(given, Path(folder))
                archs(plain, bytes_, tool, found)
                code(plain, inner, tool, found)
                if left and len(bytes_) <= LARGEST_TO_DISASSEMBLE:
                    left -= 1
                    apart = copies(plain, inner, tool, found)
                    print(f"  {path.name}: {apart} functions of equal text differ in constants or relocations")
    for kind, count in found.compared.items():
        print(f"{kind}: {count:,} compared, {found.counts[kind]:,} differ")
    return 1 if found.counts else 0


if __name__ == "__main__":
    sys.exit(main())
