"""What is said of spilling kernels against compilers and disassemblers that are run by hand.

    python -m tests.oracle.advice_oracle [--only lines|planted] [--sources N] [--seed N]

* ``lines``: the source line that is named first weighs as much as any by an independent reading of ``nvdisasm -gi``:
  which instructions ptxas marked as spills, how many bytes, the loops around them by dominators over the printed
  branches, ten times as many bytes for each. Random sources (``spill_sources.py``) by ptxas 12.9, 13.0 and 13.5, sm_80
  to sm_120.
* ``planted``: kernels with one line that makes them spill (an array that an unrolled loop moves to registers, a loop
  that is unrolled, a call that is inlined) must have it among the first three.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from random import Random

from spillscan import scan
from spillscan.model import Kernel
from spillscan.model.local import SourceLine
from spillscan.reading.machine.spillmap import TOP, culprits
from tests.oracle.spill_sources import source
from tests.oracle.toolchain import ptx, root, said, tool

RELEASES = ("12.9", "13.0", "13.5")
ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120")
PARTS = ("lines", "planted")
PLANTS = 30


# ---- an independent reading of nvdisasm ------------------------------------------------------------------------------

_HEAD = re.compile(r"//-+ \.text\.(\S+)")
_PLACE = re.compile(r'\t//## File "(.*?)", line (\d+)')
_LABEL = re.compile(r"^(\S+):$")
_INSTRUCTION = re.compile(r"/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z0-9_]+)(\.\S+)?(.*)")
_TARGET = re.compile(r"`\((\S+?)\)")
_TARGETS = re.compile(r'BRANCH_TARGETS ([^"]*)"')
_WIDTH = {".64": 8, ".128": 16, ".U8": 1, ".S8": 1, ".U16": 2, ".S16": 2}
_ENDS = ("EXIT", "RET", "BRX", "JMX", "KILL")


def weighed(listing: str) -> dict[str, Counter[tuple[str, int]]]:
    """Weight of the spills by (file, line), of each function."""
    found = {}
    heads = list(_HEAD.finditer(listing))
    for head, behind in zip(heads, [*heads[1:], None], strict=True):
        text = listing[head.end() : behind.start() if behind else None]
        found[head[1]] = _weights(text)
    return found


def _weights(text: str) -> Counter[tuple[str, int]]:
    rows, labels, chain = [], {}, None
    fresh: list[tuple[str, int]] = []
    for line in text.splitlines():
        if label := _LABEL.match(line):
            labels[label[1]] = len(rows)
        elif place := _PLACE.match(line):
            fresh.append((place[1], int(place[2])))
        elif match := _INSTRUCTION.search(line):
            chain, fresh = (fresh[0] if fresh else chain), []
            rows.append((match[2], match[3], match[4] or "", match[5], chain))
    depth = _depths(rows, labels)
    found: Counter[tuple[str, int]] = Counter()
    for (_, name, modifiers, rest, place), deep in zip(rows, depth, strict=True):
        if name in ("STL", "LDL") and ("SpillRefill" in rest or '"Spill' in rest) and place is not None:
            width = next(
                (size for mark, size in _WIDTH.items() if mark in f"{modifiers}." or modifiers.endswith(mark)), 4
            )
            found[place] += width * 10 ** min(deep, 9)
    return found


def _depths(rows: list[tuple[str | None, str, str, str, tuple[str, int] | None]], labels: dict[str, int]) -> list[int]:
    """Natural loops around each instruction, by sets of dominators, the simplest method."""
    ways: list[list[int]] = []
    roots = {0}
    for row, (guard, name, _, rest, _) in enumerate(rows):
        label = next(iter(_TARGET.findall(rest)), "")
        target = labels.get(label)
        on = [row + 1] if row + 1 < len(rows) else []
        callee = name == "CALL" and not label.startswith(".L_")  # else it is a jump of another name
        if callee and target is not None:
            roots.add(target)
        if name in ("BRA", "CALL") and not callee and target is not None:
            conditional = guard is not None or rest.split("`")[0].strip() not in ("", "(") or name == "CALL"
            ways.append([target, *(on if conditional else [])])
        elif name == "BRX" and (listed := _TARGETS.search(rest)):
            ways.append([labels[each] for each in listed[1].split(",") if each in labels])
        else:
            ways.append(on if guard or name not in _ENDS else [])
    leaders = sorted(
        {0, *roots, *(t for row, way in enumerate(ways) for t in way if way != [row + 1])}
        | {row + 1 for row, way in enumerate(ways) if way != [row + 1] and row + 1 < len(rows)}
    )
    block = {}
    for number, begin in enumerate(leaders):
        for row in range(begin, leaders[number + 1] if number + 1 < len(leaders) else len(rows)):
            block[row] = number
    ends = [*(begin - 1 for begin in leaders[1:]), len(rows) - 1]
    out = [[block[way] for way in ways[end]] for end in ends]
    into = defaultdict(list)
    for node, way in enumerate(out):
        for each in way:
            into[each].append(node)
    everything = set(range(len(leaders)))
    starts = {block[root] for root in roots}
    above = {node: ({node} if node in starts else everything) for node in everything}
    changed = True
    while changed:
        changed = False
        for node in sorted(everything - starts):
            known = [above[before] for before in into[node]]
            new = {node} | (set.intersection(*known) if known else set())
            changed, above[node] = changed or new != above[node], new
    loops: dict[int, set[int]] = defaultdict(set)
    for node, way in enumerate(out):
        for head in way:
            if head in above[node]:
                body, work = {head}, [node]
                while work:
                    each = work.pop()
                    if each not in body:
                        body.add(each)
                        work += into[each]
                loops[head] |= body
    return [sum(block[row] in body for body in loops.values()) for row in range(len(rows))]


# ---- what the three parts share --------------------------------------------------------------------------------------


class Oracle:
    """Compiles, compares and counts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tally: Counter[str] = Counter()
        self.wrong = 0

    def complain(self, text: str) -> None:
        """Something is wrong."""
        self.wrong += 1
        print(f"WRONG: {text}", flush=True)


def costliest(kernel: Kernel) -> list[tuple[str, int]]:
    """The lines that are named, the heaviest first."""
    assert kernel.sass
    return [(each.place.file, each.place.line) for each in culprits(kernel.sass.local)]


# ---- lines -----------------------------------------------------------------------------------------------------------


def lines(oracle: Oracle, seed: int) -> None:
    """One source by several releases for several archs."""
    random, unbounded = Random(seed), re.sub(r"__launch_bounds__\([\d, ]+\) ", "", source(seed))
    module = ptx(unbounded, oracle.folder / f"s{seed}.ptx", "--generate-line-info")
    for release in RELEASES:
        arch, cap = random.choice(ARCHS), random.choice((24, 32, 40, 48))
        cubin = module.with_suffix(f".{release}.cubin")
        said(tool(release, "ptxas"), "-lineinfo", f"-maxrregcount={cap}", f"-arch={arch}", module, "-o", cubin)
        reading = weighed(said(tool("sass-13.5", "nvdisasm"), "-c", "-gi", cubin))
        for kernel in scan(str(cubin)).kernels:
            named = costliest(kernel) if kernel.role == "entry" and kernel.sass else []
            weights = reading.get(kernel.key.symbol, Counter())
            if not named and not weights:
                continue
            oracle.tally[f"lines: kernels of {release}"] += 1
            oracle.tally[f"lines: kernels for {arch}"] += 1
            oracle.tally["lines: kernels"] += 1
            most = max(weights.values(), default=0)
            if not named or weights[named[0]] != most:
                oracle.complain(
                    f"{kernel.key.symbol} {arch} {release}: {named[:3]}, by nvdisasm {weights.most_common(3)}"
                )


# ---- planted ---------------------------------------------------------------------------------------------------------

_KERNEL = """extern "C" __global__ void __launch_bounds__(1024) k(const float* __restrict__ a, float* b, int n) {{
  float keep[{kept}];
  for (int j = 0; j < {kept}; ++j) keep[j] = a[j * 64 + threadIdx.x];
#pragma unroll 1
  for (int i = 0; i < n; ++i) {{
    {before}
    {planted}
    {after}
  }}
  for (int j = 0; j < {kept}; ++j) b[j * 64 + threadIdx.x] = keep[j];
}}
"""
_MIX = (
    "for (int q = 0; q < 2; ++q) for (int j = 0; j < {size}; ++j)"
    " t[j] = fmaf(t[j], t[(j + {step}) % {size}], t[(j + 7) % {size}]);"
)
"""Each value is needed by others, later: none can be computed again, or loaded late."""
_FILL, _SUM = (
    "for (int j = 0; j < {size}; ++j) t[j] = a[i * {size} + j];",
    "for (int j = 0; j < {size}; ++j) x += t[j];",
)
_CALLEE = (
    f"__device__ __forceinline__ float f(const float* a, int i, float x) {{{{ float t[{{size}}]; {_FILL} {_MIX} {_SUM}"
    " return x; }}\n"
)
_LIGHT = ("keep[1] += a[i + 3] * keep[0];", "keep[2] = fmaf(keep[2], keep[3], a[i]);", "keep[0] -= keep[1] * a[i + 9];")


def plants(random: Random) -> Iterator[tuple[str, str, str]]:
    """(what, source, the line that makes it spill)."""
    for number in range(PLANTS):
        figures = {"kept": random.randint(5, 10), "size": random.randint(66, 96), "step": random.choice((3, 5, 11))}
        before, after = random.sample(_LIGHT, 2)
        what = ("array", "unroll", "call")[number % 3]
        line = {
            "array": f"{{{{ float t[{{size}}], x = 0; {_FILL} {_MIX} {_SUM} keep[4] += x; }}}}",
            "unroll": "{{ float t[{size}] = {{}}, x = 0; for (int u = 0; u < 2; ++u) {{ "
            f"{_FILL} {_MIX} }}}} {_SUM} keep[3] += x; }}}}",
            "call": "keep[4] += f(a, i, keep[0]);",
        }[what].format(**figures)
        text = _KERNEL.format(before=before, planted=line, after=after, **figures)
        yield what, (_CALLEE.format(**figures) if what == "call" else "") + text, line


def planted(oracle: Oracle, seed: int) -> None:
    """Every plant by nvcc."""
    random = Random(seed)
    for number, (what, text, line) in enumerate(plants(random)):
        release, arch = ("13.0", "13.5")[number % 2], random.choice([each for each in ARCHS if each != "sm_90a"])
        path, cubin = oracle.folder / "k.cu", oracle.folder / "k.cubin"
        path.write_text(text)
        wanted = 1 + next(at for at, each in enumerate(text.splitlines()) if line in each)
        options = ["-cubin", f"-arch={arch}", "-lineinfo", f"-I{root(release) / 'include'}"]
        said(tool(release, "nvcc"), *options, "-o", cubin, path)
        (kernel,) = (each for each in scan(str(cubin)).kernels if each.key.symbol == "k")
        assert kernel.sass
        if not sum(kernel.spills or ()):
            oracle.tally[f"planted: {what} does not spill"] += 1
            continue
        named = [_chain(each.inner) for each in culprits(kernel.sass.local, place_of=_outermost)[:TOP]]
        hit = any(wanted in chain for chain in named)
        oracle.tally[f"planted: {what} {'named' if hit else 'missed'}"] += 1
        oracle.tally["planted: kernels"] += 1
        if not hit:
            print(f"missed: {what} at line {wanted} ({arch}, {release}): {named}", flush=True)


def _chain(line: SourceLine | None) -> list[int]:
    return [] if line is None else [line.line, *_chain(line.inlined_at)]


def _outermost(line: SourceLine) -> SourceLine:
    return line if line.inlined_at is None else _outermost(line.inlined_at)


def main() -> int:
    """Compile, and ask."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=PARTS, help="only this part; repeatable (default: all)")
    parser.add_argument("--sources", type=int, default=16, help="random sources of eight kernels (default: 16)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    parts = arguments.only or PARTS
    with tempfile.TemporaryDirectory() as folder:
        oracle = Oracle(Path(folder))
        for seed in range(arguments.seed, arguments.seed + arguments.sources):
            if "lines" in parts:
                lines(oracle, seed)
        if "planted" in parts:
            planted(oracle, arguments.seed)
    print("\n".join(f"{name}: {number}" for name, number in sorted(oracle.tally.items())))
    named = sum(
        number for name, number in oracle.tally.items() if name.startswith("planted:") and name.endswith("named")
    )
    enough = named >= 0.9 * oracle.tally["planted: kernels"]
    print(f"{oracle.wrong} wrong")
    return int(oracle.wrong > 0 or not enough)


if __name__ == "__main__":
    sys.exit(main())
