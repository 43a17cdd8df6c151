"""Causes planted in kernels of public projects: what ``why`` names first of two builds, what ``advise`` says of one.

    python -m tests.oracle.spill_causes_oracle FOLDER… [--arch sm_90]… [--most N] [--seed N] [--cache FOLDER]

Each folder is a checkout of a project; nvcc is on the PATH. In each of its CUDA sources that compile within a few
seconds one thing is changed. A loop is unrolled (``#pragma unroll 1`` to 8), or a loop over a local array is not
(``unroll 1``); a device function is inlined (``__noinline__`` to ``__forceinline__``); ``float`` becomes ``double``, in
a kernel or in the whole source; a kernel gets launch bounds; what a loop loads is loaded before it. Only the last takes
more than a word: a loop of the kernel, not unrolled, uses 16 to 30 elements of one of the kernel's parameters, read in
it (half at its top, half at its end) or before it.

Where more is live for that (or spills, of bounds; or is in memory, of arrays), ``why`` must name it first, and what
``holdings`` says that undoing it gains at most must hold what it took: as built, and under the cap at which the kernel
as it was does not spill, if it spills there. Compiled code is kept by digest in the cache: a run after a rule was
changed compiles nothing. The rules were tuned on seeds below 100.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import NamedTuple

from spillscan import scan
from spillscan.advice.causes import Holding, holdings
from spillscan.judging.compare.causes import Growth
from spillscan.judging.places import Tree
from spillscan.model import Kernel
from spillscan.model.local import NO_TRAFFIC
from spillscan.naming.pairs import pair
from spillscan.output.errors import InputError
from spillscan.reading.binary.fetch import pressures_of
from spillscan.reading.binary.pressure import Pressure

ENOUGH = 0.95
LEAST_MORE = 8
"""Registers, from which on a change has taken effect."""
LARGEST = 60_000
"""Bytes of a source."""
TRIES = 8
"""Changes of one source that are compiled."""
NAMES = {
    "unroll": {"lines", "instructions"},
    "index": {"array"},
    "inline": {"calls"},
    "widen": {"lines", "instructions"},
    "bounds": {"bounds", "register-limit"},
    "hoist": {"lines", "instructions"},
}
"""What ``why`` calls each."""
GROUPS = {"unroll": {"copies"}, "inline": {"inlined"}, "hoist": {"copies"}}
"""Whose registers the change takes."""

_HEAVY = re.compile(
    r"#\s*include\s*[<\"](?:thrust|cub|cuda/std|cutlass|cute|torch|ATen|c10|npp|opencv|mpi|boost|curand_kernel|cublas|cufft"
    r"|mma|cooperative_groups/)"
)
_LOOP = re.compile(r"^[ \t]*(for\s*\([^;\n]*;[^;\n]*;[^;\n]*\))", re.M)
_INLINERS = re.compile(r"\b(?:inline|__inline__|__forceinline__|__noinline__)\s")
_FUNCTION = re.compile(
    r"^[ \t]*(?:(?:static|inline|__inline__|__forceinline__|__noinline__|__host__)\s+)*__device__\s[^;{}()=#]*(?=\()",
    re.M,
)
_KERNEL = re.compile(r"__global__(\s+(?:static |inline )*)void(?=\s+(\w+)\s*\()")
_ARRAY = re.compile(r"^[ \t]+(?!return|extern|delete)[a-zA-Z_]\w*\s+(\w+)\s*\[[\w +*]+\]", re.M)
_POINTER = re.compile(
    r"\b(float|double|int)\s*(?:const\s*)?\*\s*(?:__restrict__|__restrict|RESTRICT|const)?\s*(\w+)\s*[,)]"
)


class Plant(NamedTuple):
    """A source as it was, and with one change."""

    kind: str
    before: str
    after: str


class Body(NamedTuple):
    """Where a kernel or a device function stands."""

    head: int
    begin: int
    """Behind its brace."""
    end: int
    """Behind its last."""
    kernel: bool


def plants(text: str, busy: set[str]) -> Iterator[Plant]:
    """Every change of one source; ``busy``: kernels that take so many registers that bounds can do something."""
    bodies = [*_bodies(text)]
    arrays = {match[1] for match in _ARRAY.finditer(text)}
    for loop in _LOOP.finditer(text):
        inside = next((body for body in bodies if body.begin < loop.start() < body.end), None)
        if inside is None or "#pragma" in text[: loop.start()].rstrip().rpartition("\n")[2]:
            continue
        parts = text[: loop.start()], text[loop.start() :]
        end = _closed(text, loop.end()) if re.match(r"\s*\{", text[loop.end() :]) else text.find("\n", loop.end() + 2)
        own = text[loop.end() : end]
        if "[" in own and not re.search(r"\b(?:for|while)\b", own):
            yield Plant("unroll", *(f"{parts[0]}#pragma unroll {factor}\n{parts[1]}" for factor in (1, 8)))
        variable = re.search(r"(\w+)\s*=", loop[1])
        if variable and any(re.search(rf"\b{name}\s*(?:\[[^\]]*\])*\[[^\]]*\b{variable[1]}\b", own) for name in arrays):
            yield Plant("index", text, f"{parts[0]}#pragma unroll 1\n{parts[1]}")
        if (
            inside.kernel
            and own.lstrip().startswith("{")
            and (pointers := _POINTER.findall(text[inside.head : inside.begin]))
        ):
            yield _hoisted(text, loop, end, *random.choice(pointers))
    for match in _FUNCTION.finditer(text):
        brace = re.match(r"[^;{}]*\{", text[match.end() :])
        if brace and _closed(text, match.end()) - match.end() > 150:
            head = _INLINERS.sub("", match[0])
            both = (head.replace("__device__", f"__device__ {how}", 1) for how in ("__noinline__", "__forceinline__"))
            yield Plant("inline", *(f"{text[: match.start()]}{each}{text[match.end() :]}" for each in both))
    for body in bodies:
        own = text[body.begin : body.end - 1]
        if body.kernel and len(re.findall(r"\bfloat\b", own)) > 2:
            wide = f"\n#define float double\n{own}\n#undef float\n"
            yield Plant("widen", text, f"{text[: body.begin]}{wide}{text[body.end - 1 :]}")
    if re.search(r"\bfloat\b", text):
        includes = [*re.finditer(r"^#include.*$", text, re.M)]
        at = includes[-1].end() if includes else 0
        yield Plant("widen", text, f"{text[:at]}\n#define float double\n{text[at:]}")
    for match in _KERNEL.finditer(text):
        if match[2] in busy:
            bounds = random.choice(("1024, 2", "512, 4", "256, 8", "128, 16"))
            put = f"__global__{match[1]}void __launch_bounds__({bounds})"
            yield Plant("bounds", text, f"{text[: match.start()]}{put}{text[match.end() :]}")


def _hoisted(text: str, loop: re.Match[str], end: int, kind: str, pointer: str) -> Plant:
    """Elements that a loop reads anew each time, half at its top and half at its end, and the same, read before it."""
    half = random.randrange(8, 16)
    place = random.choice(("plant_j", "plant_j * 32 + threadIdx.x", f"threadIdx.x * {2 * half} + plant_j"))
    read = f"((const volatile {kind}*){pointer})[{place}]"
    begin = text.index("{", loop.end()) + 1

    def each(first: int, last: int, what: str) -> str:
        return f"\n#pragma unroll\nfor (int plant_j = {first}; plant_j < {last}; ++plant_j)\n  {what};\n"

    def put(before: str, used: str) -> str:
        step = f"plant_sum = plant_sum * {used} + 1"
        return (
            f"{text[: loop.start()]}{{ {kind} plant_sum = 1;{before}\n#pragma unroll 1\n{text[loop.start() : begin]}"
            f"{each(0, half, step)}{text[begin : end - 1]}{each(half, 2 * half, step)}}}"
            f"\n*(volatile {kind}*){pointer} = plant_sum; }}{text[end:]}"
        )

    held = f" {kind} plant_held[{2 * half}];{each(0, 2 * half, f'plant_held[plant_j] = {read}')}"
    return Plant("hoist", put("", read), put(held, "plant_held[plant_j]"))


def _closed(text: str, at: int) -> int:
    """Behind the brace that closes the first one from a place on."""
    at = text.find("{", at) + 1
    depth = 1
    while depth and at < len(text):
        depth += (text[at] == "{") - (text[at] == "}")
        at += 1
    return at


def _bodies(text: str) -> Iterator[Body]:
    for match in re.finditer(r"__(global|device)__[^;{}]*\{", text):
        yield Body(match.start(), match.end(), _closed(text, match.end() - 1), match[1] == "global")


class Side(NamedTuple):
    """A kernel of one build, and its code."""

    kernel: Kernel
    code: Pressure

    @property
    def demand(self) -> int:
        """Values that are live at once."""
        local = self.kernel.sass.local if self.kernel.sass else NO_TRAFFIC
        return self.code.demand(local) or self.code.peak.registers

    @property
    def said(self) -> list[Holding]:
        """What ``advise`` says of it."""
        return holdings(self.code, self.kernel.sass.local if self.kernel.sass else NO_TRAFFIC, Tree())


class Compiler:
    """nvcc, for a few seconds at most; what it made is kept."""

    def __init__(self, cache: Path, seconds: float) -> None:
        self._cache, self._seconds = cache, seconds
        self.calls = 0
        cache.mkdir(parents=True, exist_ok=True)

    def cubin(self, source: Path, text: str, arch: str, *options: str) -> Path | None:
        """What it is compiled to; ``None`` where it does not compile in time."""
        digest = hashlib.sha256(
            "\0".join((str(source), text, arch, *options)).encode(errors="surrogateescape")
        ).hexdigest()
        target = self._cache / f"{digest[:24]}.cubin"
        if not target.exists() and not self._make(source, text, target, f"-arch={arch}", *options):
            target.write_bytes(b"")
        return target if target.stat().st_size else None

    def sides(self, source: Path, text: str, arch: str, *options: str) -> list[Side]:
        """Its kernels; none where it does not compile in time."""
        target = self.cubin(source, text, arch, "-lineinfo", *options)
        try:
            kernels = [each for each in scan(str(target)).kernels if each.role == "entry"] if target else []
        except InputError:  # a source without a kernel
            return []
        code = pressures_of(kernels)
        return [Side(each, code[id(each)]) for each in kernels if id(each) in code]

    def _make(self, source: Path, text: str, target: Path, *options: str) -> bool:
        self.calls += 1
        with tempfile.TemporaryDirectory() as folder:
            own = Path(folder) / source.name
            own.write_text(text, errors="surrogateescape")
            near = [f"-I{source.parent / each}" for each in ("", "..", "../include", "../common", "../../Common")]
            words = [
                "nvcc",
                "-cubin",
                "-O3",
                "-std=c++17",
                "-w",
                *near,
                *options,
                str(own),
                "-o",
                str(target),
            ]
            silent = subprocess.DEVNULL
            with subprocess.Popen(words, stdout=silent, stderr=silent, cwd=folder, start_new_session=True) as process:
                try:
                    return process.wait(self._seconds) == 0
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    return False


class Oracle:
    """Counts, and what was named otherwise."""

    def __init__(self, compiler: Compiler, most: int, note: Callable[[str], None]) -> None:
        self.compiler, self.most, self.note = compiler, most, note
        self.planted: Counter[str] = Counter()
        self.first: Counter[str] = Counter()
        self.gains: Counter[str] = Counter()

    @property
    def open(self) -> set[str]:
        """Kinds of which there are not enough."""
        return {kind for kind in NAMES if self.planted[kind] < self.most}

    def source(self, source: Path, arch: str) -> None:
        """Some changes of one source, each kind once."""
        text = source.read_text(errors="surrogateescape")
        if "__global__" not in text or len(text) > LARGEST or _HEAVY.search(text):
            return
        plain = self.compiler.sides(source, text, arch)
        busy = {each.kernel.short_name.partition("<")[0] for each in plain if (each.kernel.usage.registers or 0) > 36}
        wanted = [each for each in plants(text, busy) if each.kind in self.open] if plain else []
        random.shuffle(wanted)
        wanted.sort(key=lambda each: self.planted[each.kind])  # what is rare first
        tried: Counter[str] = Counter()
        done: set[str] = set()
        for each in wanted:
            if each.kind in done or tried[each.kind] >= 3 or tried.total() >= TRIES:
                continue
            tried[each.kind] += 1
            if self._plant(source, each, arch):
                done.add(each.kind)

    def _plant(self, source: Path, plant: Plant, arch: str) -> bool:
        """One change; whether it took effect."""
        old, new = (self.compiler.sides(source, text, arch) for text in plant[1:])
        for before, after in _paired(old, new):
            if not _took(plant.kind, before, after):
                continue
            self.planted[plant.kind] += 1
            where = f"{'/'.join(source.parts[-3:])} {arch} {after.kernel.short_name}"
            named = [each.kind for each in Growth(before.kernel, after.kernel, (before.code, after.code)).causes]
            right = bool(named) and named[0] in NAMES[plant.kind]
            self.first[plant.kind] += right
            self.note(f"  {self.planted.total()} planted: {plant.kind}")
            if not right:
                self.note(f"{where}: {plant.kind} planted, named {named}")
            if plant.kind in GROUPS:
                self._gain(f"{where}: {plant.kind}", plant.kind, before, after, "as built")
                self._capped(where, source, plant, arch, before)
            return True
        return False

    def _capped(self, where: str, source: Path, plant: Plant, arch: str, before: Side) -> None:
        cap = max(-(-(before.kernel.usage.registers or 0) // 8) * 8, 24)
        old, new = (self.compiler.sides(source, text, arch, f"-maxrregcount={cap}") for text in plant[1:])
        for one, other in _paired(old, new):
            if one.kernel.key.symbol == before.kernel.key.symbol and sum(other.kernel.spills or ()):
                self._gain(f"{where}: {plant.kind} under {cap}", plant.kind, one, other, "that spills under a cap")

    def _gain(self, where: str, kind: str, before: Side, after: Side, how: str) -> None:
        took, said = after.demand - before.demand, after.said
        if took < LEAST_MORE // 2:  # ptxas found another order under the cap
            return
        own = [each for each in said if each.kind in GROUPS[kind]]
        self.gains[f"{how}"] += 1
        self.gains[f"{how}: its group is named"] += bool(own)
        self.gains[f"{how}: and first"] += said[:1] == own[:1] != []
        held = bool(own) and max(each.fewer for each in own) >= took
        self.gains[f"{how}: registers within the bound"] += held
        if not held:
            self.note(f"{where} took {took} of {after.demand}, said {_short(said)}")


def _paired(old: Sequence[Side], new: Sequence[Side]) -> Iterator[tuple[Side, Side]]:
    sides = [{id(each.kernel): each for each in those} for those in (old, new)]
    for each in pair([one.kernel for one in old], [one.kernel for one in new]):
        if each.before is not None and each.after is not None:
            yield sides[0][id(each.before)], sides[1][id(each.after)]


def _short(said: list[Holding]) -> str:
    return ", ".join(f"{each.kind} {each.registers} (-{each.fewer})" for each in said) or "nothing"


def _took(kind: str, before: Side, after: Side) -> bool:
    if kind == "bounds":
        return sum(after.kernel.spills or ()) > sum(before.kernel.spills or ())
    if kind == "index":
        arrays = [each.kernel.sass.local.of("array").accesses if each.kernel.sass else 0 for each in (before, after)]
        return not arrays[0] and arrays[1] > 0
    return after.demand >= before.demand + LEAST_MORE


def sources(folders: Sequence[Path]) -> list[Path]:
    """CUDA sources, each project in its turn."""
    projects = [sorted(folder.rglob("*.cu")) for folder in folders]
    for each in projects:
        random.shuffle(each)
    turns = zip_longest(*projects)
    return [each for each in chain.from_iterable(turns) if each is not None]


def main() -> int:
    """Plant, compile, ask."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--arch", action="append", help="the last for one source of four")
    parser.add_argument("--seconds", type=float, default=8, help="of one compilation")
    parser.add_argument("--most", type=int, default=17, help="of each kind")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "spill-causes")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    compiler = Compiler(arguments.cache, arguments.seconds)
    oracle = Oracle(compiler, arguments.most, lambda text: print(text, file=sys.stderr, flush=True))
    archs = arguments.arch or ["sm_90"]
    begun = time.monotonic()
    for number, source in enumerate(sources(arguments.folders)):
        if time.monotonic() - begun > 60 * arguments.minutes or not oracle.open:
            break
        random.seed(f"{arguments.seed} {source}")
        oracle.source(source, archs[-1] if number % 4 == 3 else archs[0])
    for kind, number in sorted(oracle.planted.items()):
        print(f"{kind:8} {oracle.first[kind]:4} of {number}")
    for name, number in oracle.gains.items():
        print(f"{name}: {number}")
    right, total = oracle.first.total(), oracle.planted.total()
    print(f"{right} of {total} planted causes named first ({compiler.calls} compilations)")
    return 0 if total and right >= ENOUGH * total else 1


if __name__ == "__main__":
    sys.exit(main())
