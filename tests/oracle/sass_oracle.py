"""Holds the SASS readers against references that share no code with them. Not part of `make test`.

    python tests/oracle/sass_oracle.py counts DUMP...       `cuobjdump -sass` text, any size: opcodes, STL/LDL, bytes
    python tests/oracle/sass_oracle.py spills FOLDER        X.log (ptxas -v) beside X.sass: bytes of the spill class
    python tests/oracle/sass_oracle.py classes FOLDER       X.nvd (nvdisasm 13.4+ -c, annotated) beside X.sass:
                                                            precision and recall of the last-use rule, access by access

Each prints what it compared and exits with 1 when anything differs from what the rule promises (`counts`), else 0.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

from spillscan.model.code import SassFunction
from spillscan.reading import dumps as sass
from spillscan.reading.dumps.cuobjdump import Dump
from spillscan.reading.inputs.source import Source

_INSTRUCTION = re.compile(rb"\s+/\*[0-9a-f]+\*/\s+(?:\{\s*)?(?:@!?\S+\s+)?([A-Z][A-Z0-9_]*)([.\w]*)")
_BYTES = {b"U8": 1, b"S8": 1, b"U16": 2, b"S16": 2, b"64": 8, b"128": 16}


def reference(path: Path) -> list[tuple[str, Counter[str], list[int]]]:
    """Symbol, opcodes and [stores, loads, bytes stored, bytes loaded] of each function, line by line."""
    found: list[tuple[str, Counter[str], list[int]]] = []
    with path.open("rb") as lines:
        for line in lines:
            match = _INSTRUCTION.match(line)
            if match:
                opcode = match[1].decode()
                found[-1][1][opcode] += 1
                if opcode in ("STL", "LDL"):
                    width = next((_BYTES[part] for part in match[2].split(b".") if part in _BYTES), 4)
                    found[-1][2][opcode == "LDL"] += 1
                    found[-1][2][2 + (opcode == "LDL")] += width
            elif line.startswith(b"\t\tFunction : "):
                found.append((line[13:].strip().decode(), Counter(), [0, 0, 0, 0]))
    return found


def functions(path: Path) -> list[SassFunction]:
    """What the reader makes of a dump."""
    with Source(str(path)).open() as stream:
        return [item for item in sass.reader(stream.chunks(), str(path)) if isinstance(item, SassFunction)]


def counts(paths: list[str]) -> int:
    """Opcodes, counts and bytes of each function of each dump."""
    wrong = total = size = accesses = instructions = 0
    for name in paths:
        path = Path(name)
        wanted = reference(path)
        with Source(str(path)).open() as stream:
            found = [item for item in Dump(stream.chunks(), name) if isinstance(item, SassFunction)]
        size += path.stat().st_size
        wrong += abs(len(wanted) - len(found))
        for (symbol, opcodes, numbers), function in zip(wanted, found, strict=False):
            local = function.stats.local.total
            mine = [local.stores, local.loads, local.store_bytes, local.load_bytes]
            classes = sum(function.stats.local.of(kind).accesses for kind in ("spill", "array", "frame", "unknown"))
            same = symbol == function.symbol and dict(opcodes) == dict(function.stats.opcodes) and numbers == mine
            if not same or classes != local.accesses:
                wrong += 1
                print(f"differs: {name}: {symbol}: {numbers} {mine}")
            total += 1
            accesses += local.accesses
            instructions += function.stats.instructions
    print(f"{size} bytes, {total} functions, {instructions} instructions, {accesses} STL/LDL: {wrong} functions differ")
    return int(wrong > 0)


def logged(path: Path) -> dict[str, tuple[int, int]]:
    """Spill stores and loads of the entries in a ptxas -v log."""
    found: dict[str, tuple[int, int]] = {}
    entry = name = ""
    for line in path.read_text().splitlines():
        if match := re.match(r"ptxas info    : Compiling entry function '(.+)' for", line):
            entry = match[1]
        elif match := re.match(r"ptxas info    : Function properties for (.+)$", line):
            name = match[1]
        elif (
            match := re.match(r"    \d+ bytes stack frame, (\d+) bytes spill stores, (\d+) ", line)
        ) and name == entry:
            found[entry] = (int(match[1]), int(match[2]))
    return found


def spills(folder: str) -> int:
    """Bytes of the spill class against ptxas's own figures, of the text alone, and with the log's help."""
    tally: Counter[str] = Counter()
    for log in sorted(Path(folder).glob("*.log")):
        dump = log.with_suffix(".sass")
        if not dump.exists():
            continue
        reported = logged(log)
        for function in functions(dump):
            if function.symbol not in reported:
                continue
            own = function.stats.local.own_spill
            same = (own.store_bytes, own.load_bytes) == reported[function.symbol]
            kind = "spilling" if any(reported[function.symbol]) else "with other local memory"
            if kind != "spilling" and not function.stats.local.accesses:
                kind = "without local memory"
            tally[f"{kind}: {'exact' if same else 'differs'}"] += 1
            if not same:
                print(f"differs: {dump.name}: {function.symbol}: ptxas {reported[function.symbol]}, dump {own}")
    print("\n".join(f"{name}: {count}" for name, count in sorted(tally.items())))
    return 0


def classes(folder: str) -> int:
    """The last-use rule against ptxas's annotations, access by access."""
    tally: Counter[str] = Counter()
    for text in sorted(Path(folder).glob("*.nvd")):
        marked = {
            (function.symbol, access.address): access.kind == "spill"
            for function in functions(text)
            for access in function.stats.local.accesses
            if function.stats.local.evidence == "annotation" and not access.part
        }
        judged = {symbol for symbol, _ in marked}
        for function in functions(text.with_suffix(".sass")):
            for access in function.stats.local.accesses:
                if function.symbol in judged and not access.part:
                    true = marked[function.symbol, access.address]
                    tally[f"{'spill' if true else 'other'} said {access.kind}"] += 1
    hit = tally["spill said spill"]
    said = sum(count for name, count in tally.items() if name.endswith("said spill"))
    real = sum(count for name, count in tally.items() if name.startswith("spill "))
    print("\n".join(f"{name}: {count}" for name, count in sorted(tally.items())))
    if real and said:
        print(f"precision {hit / said:.5f}, recall {hit / real:.5f} of {real} annotated accesses")
    return 0


if __name__ == "__main__":
    COMMANDS = {"spills": spills, "classes": classes}
    if len(sys.argv) < 3 or sys.argv[1] not in ("counts", *COMMANDS):
        sys.exit(__doc__)
    sys.exit(counts(sys.argv[2:]) if sys.argv[1] == "counts" else COMMANDS[sys.argv[1]](sys.argv[2]))
