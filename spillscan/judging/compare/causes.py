"""Causes of changed registers and spills of a kernel, from its code and records, ranked, with evidence.

Only a visible difference can be a cause. Constraints of the compilation come first (launch bounds, register limits),
then toolkit and options, which may explain everything else; then changes of the code: calls inlined or outlined, wider
types and accesses, loads hoisted out of loops, lines with more or other instructions, new lines.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from spillscan.builds.compilation import options
from spillscan.model import Build, Kernel
from spillscan.model.code import CLASS_OF, MOST_REGISTERS, Maker, SourceLine
from spillscan.model.findings import moved_bounds
from spillscan.output.nouns import count
from spillscan.reading.binary.pressure import Pressure
from spillscan.reading.machine.liveness import INSTRUCTION
from spillscan.reading.machine.spillmap import culprits, where

Kind = Literal[
    "cap",
    "bounds",
    "array",
    "inlined",
    "outlined",
    "wider",
    "hoisted",
    "repeated",
    "new-code",
    "mix",
    "toolkit",
    "options",
]
"""Kinds of causes, in this order.

Register limit; launch bounds; local arrays that moved from registers to memory; calls that became code; code that
became calls; wider types or accesses; loads that moved out of loops; lines with more copies of their code (unrolled
loops); new lines; other instructions without any other difference; ptxas version; ptxas options.
"""

_CAP = re.compile(r"-{1,2}maxrregcount[= ]+(?P<registers>\d+)")
_WITHOUT_MEANING = re.compile(r"-{1,2}maxrregcount[= ]+\d+|-{1,2}(?:v|verbose|lineinfo|generate-line-info)\b")
_REPEATED, _LEAST_MORE = 1.5, 4
"""Minimum factor and minimum number of instructions by which a line's code must have grown."""
_SHOWN = 3
_LOADS = frozenset({"LDG", "LD", "LDS", "LDC"})


Makers = tuple[Maker | None, Maker | None]
"""Makers of the kernel in the older and in the newer build."""


class Cause(Struct, frozen=True, kw_only=True):
    """A difference that affects registers."""

    kind: Kind
    """Kind of the difference."""
    evidence: str
    """Evidence in one line, with values."""
    lines: tuple[str, ...] = ()
    """Source lines, ``gemm.cu:31``, the most affected first."""


class Growth:
    """Comparison of one kernel before and after: causes, unknowns, and affected lines."""

    def __init__(
        self, before: Kernel, after: Kernel, old: Pressure | None, new: Pressure | None, makers: Makers | None = None
    ) -> None:
        self.before, self.after = before, after
        self.pressures = old, new
        self.causes = causes(before, after, old, new, makers)
        self.unknown = list(open_questions(before, after, old, new, makers))
        self.risen = risen(old, new) if old and new else []
        """Lines at which more registers are live than before: (line, before, after)."""
        self.held = held(old, new) if old and new else []
        """Lines whose values occupy more registers across the peak: (line, before, after)."""

    def sentences(self) -> Iterator[str]:
        """Causes, the most important first, with the affected lines; unknowns last."""
        if not self.causes:
            yield "no difference that is known explains it"
        for cause in self.causes:
            yield f"{cause.kind}: {cause.evidence}"
        yield from self.places()
        yield from (f"not known: {text}" for text in self.unknown)

    def places(self) -> Iterator[str]:
        """Peaks of live registers, and lines with more live registers."""
        peaks = [each.peak for each in self.pressures if each is not None]
        if len(peaks) == 2:
            words = [f"{peak.registers} at {where(peak.source) or hex(peak.address)}" for peak in peaks]
            yield f"peak of live registers: {words[0]} → {words[1]}"
        for title, rows in (("more live at", self.risen), ("more held through the peak, written at", self.held)):
            if rows:
                yield f"{title}: {', '.join(f'{line} {before} → {after}' for line, before, after in rows[:_SHOWN])}"


def makers(build: Build) -> Callable[[Kernel], Maker | None]:
    """Function for the maker of a kernel of ``build``, from the command of its unit, else from its code."""
    units, unit_of = {unit.name: unit for unit in build.units if unit.command}, build.unit_names()

    def maker(kernel: Kernel) -> Maker | None:
        unit = units.get(unit_of(kernel))
        tool, words = options(unit.command) if unit else ("", [])
        return Maker(tool=tool, version=unit.version, options=" ".join(words)) if unit and tool else _own(kernel)

    return maker


def _own(kernel: Kernel) -> Maker | None:
    return kernel.sass.maker if kernel.sass else None


def _made(before: Kernel, after: Kernel, makers: Makers | None) -> Makers:
    """Makers that can be compared: the options of one tool, or what the code of both records."""
    old, new = makers or (None, None)
    return (old, new) if old and new and old.tool == new.tool else (_own(before), _own(after))


def causes(
    before: Kernel, after: Kernel, old: Pressure | None, new: Pressure | None, makers: Makers | None = None
) -> list[Cause]:
    """Known differences, the most important first.
    ``old`` and ``new``: code of the kernels, if it could be read; ``makers``: of both kernels, if more is known than
    their code records.
    """
    made = _made(before, after, makers)
    found = [*_bounds(before, after), *_cap(*made)]
    caps = [each.sass.register_cap if each.sass else None for each in (before, after)]
    if None not in caps and caps[0] != caps[1]:
        both = ["any" if cap == MOST_REGISTERS else str(cap) for cap in caps]
        allowed = f"ptxas was allowed {both[0]} → {both[1]} registers"
        if not found:
            by = "fewest blocks of launch bounds, __maxnreg__ or -maxrregcount"
            found.append(Cause(kind="cap", evidence=f"{allowed} ({by})"))
        elif found[0].kind == "bounds":
            found[0] = replace(found[0], evidence=f"{found[0].evidence}; {allowed}")
    found += _tools(*made)
    if old is not None and new is not None:
        found += _code(before, after, old, new)
    return found or list(_mix(before, after, sure=None not in caps and all(made)))


def open_questions(
    before: Kernel, after: Kernel, old: Pressure | None, new: Pressure | None, makers: Makers | None = None
) -> Iterator[str]:
    """Unknowns, one line each."""
    both = (("older", old), ("newer", new))
    if silent := [which for which, each in both if each is None]:
        which = "either build" if len(silent) == 2 else f"the {silent[0]} build"
        yield f"live registers, and which lines grew: give a binary of {which} (sm_75 and later)"
    elif silent := [which for which, each in both if each is not None and not any(each.sources)]:
        which = "both builds" if len(silent) == 2 else f"the {silent[0]} build"
        yield f"which lines grew: compile {which} with -lineinfo"
    if not all(_made(before, after, makers)):
        yield "toolkit and options of both builds: cubins of CUDA 13 and later and what `spillscan run` keeps name both"


def _mix(before: Kernel, after: Kernel, lines: tuple[str, ...] = (), *, sure: bool = True) -> Iterator[Cause]:
    """Other instructions, of some ``lines``, or if nothing else differs.
    ``sure``: whether the constraints of both compilations are known. Local-memory accesses and moves do not count: they
    are an effect of register pressure, not a cause.
    """
    if before.sass is None or after.sass is None:
        return
    old, new = (
        Counter({name: n for name, n in each.opcodes if CLASS_OF.get(name) not in ("local", "move", "nop")})
        for each in (before.sass, after.sass)
    )
    moved = sorted(
        (name for name in {*old, *new} if old[name] != new[name]), key=lambda name: (-abs(new[name] - old[name]), name)
    )
    if sum(abs(new[name] - old[name]) for name in moved) >= _LEAST_MORE:
        words = ", ".join(f"{name} {old[name]:,} → {new[name]:,}" for name in moved[:_SHOWN])
        where = f" at {', '.join(lines)}" if lines else ""
        why = "another source, or flags of the compiler before ptxas"
        why = why if sure else "source, options or bounds: not known which"
        evidence = f"other instructions{where} ({why}): {words}"
        yield Cause(kind="mix", evidence=evidence, lines=lines)


def _bounds(before: Kernel, after: Kernel) -> Iterator[Cause]:
    if moved := moved_bounds(before, after):
        words = ["none" if threads is None else f"{threads:,} threads" for threads in moved]
        yield Cause(kind="bounds", evidence=f"launch bounds {words[0]} → {words[1]}")


def _cap(old: Maker | None, new: Maker | None) -> Iterator[Cause]:
    said = [each.options if each else "" for each in (old, new)]
    both = [match["registers"] if (match := _CAP.search(each)) else "none" for each in said]
    if all(said) and both[0] != both[1]:  # unknown options may include a limit
        yield Cause(kind="cap", evidence=f"-maxrregcount {both[0]} → {both[1]}")


def _tools(old: Maker | None, new: Maker | None) -> Iterator[Cause]:
    if old is None or new is None:
        return
    if old.version != new.version:
        yield Cause(kind="toolkit", evidence=f"CUDA {old.version} → {new.version}")
    if old.options and new.options and old.tool == new.tool:
        sets = [set(_WITHOUT_MEANING.sub("", each.options).split()) for each in (old, new)]
        gone, come = (" ".join(sorted(one - other)) for one, other in ((sets[0], sets[1]), (sets[1], sets[0])))
        if gone or come:
            yield Cause(kind="options", evidence=f"options {gone or 'none'} → {come or 'none'}")


def _code(before: Kernel, after: Kernel, old: Pressure, new: Pressure) -> Iterator[Cause]:
    yield from _arrays(before, after)
    moved = list(_calls(old, new))
    yield from moved
    counts = [_counted(each, code) for each, code in ((before, old), (after, new))]
    more = {
        line: (counts[0][line], count)
        for line, count in counts[1].items()
        if line in counts[0] and count >= _REPEATED * counts[0][line] and count - counts[0][line] >= _LEAST_MORE
    }
    mixes = _opcodes(old), _opcodes(new)
    multiplied = not moved and any(_loads_more(mixes[0][line], mixes[1][line]) for line in more)
    yield from _wider(before, after, old, new, multiplied)
    yield from _hoisted(old, new)
    if moved:  # explains lines with more or new instructions
        return
    foreign = [line for line in more if _other_instructions(mixes[0][line], mixes[1][line])]
    repeated = {line: both for line, both in more.items() if line not in foreign}
    loops = [sum(_loops(each).values()) for each in (old, new)]
    fewer = loops[1] < loops[0]
    if foreign and not fewer and not multiplied:
        yield from _mix(before, after, tuple(sorted(foreign, key=lambda line: more[line][0] - more[line][1])[:_SHOWN]))
    else:
        repeated = more
    if repeated:
        ranked = sorted(repeated, key=lambda line: repeated[line][0] - repeated[line][1])
        words = ", ".join(f"{line} {repeated[line][0]:,} → {repeated[line][1]:,}" for line in ranked[:_SHOWN])
        gone = f"loops {loops[0]:,} → {loops[1]:,}; " if fewer else ""
        evidence = (
            f"{gone}instructions of lines that stand more often (unrolled, recomputed, or used more often): {words}"
        )
        yield Cause(kind="repeated", evidence=evidence, lines=tuple(ranked[:_SHOWN]))
    fresh = {line: count for line, count in counts[1].items() if line not in counts[0] and counts[0]}
    if sum(fresh.values()) >= _LEAST_MORE:
        ranked = sorted(fresh, key=lambda line: -fresh[line])[:_SHOWN]
        words = ", ".join(f"{line} {fresh[line]:,}" for line in ranked)
        evidence = f"instructions of lines that had none before: {words}"
        yield Cause(kind="new-code", evidence=evidence, lines=tuple(ranked))


def _other_instructions(old: Counter[str], new: Counter[str]) -> bool:
    """Whether most instructions that a line gained have opcodes it did not have, rather than more of the same.

    Moves and integer instructions do not count.
    """
    added = Counter({name: n for name, n in (new - old).items() if CLASS_OF.get(name) not in ("move", "int")})
    return 2 * sum(n for name, n in added.items() if name not in old) > added.total()


def _loads_more(old: Counter[str], new: Counter[str]) -> bool:
    """Whether a line loads more often than before, so that its work is repeated."""
    return sum(new[name] for name in _LOADS - {"LDC"}) > sum(old[name] for name in _LOADS - {"LDC"})


def _opcodes(code: Pressure) -> dict[str, Counter[str]]:
    """Number of instructions of each line by opcode."""
    names, numbers = code.opcodes
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for row, source in enumerate(code.sources):
        if source is not None:
            found[_place(source)][names[numbers[row]]] += 1
    return found


def _hoisted(old: Pressure, new: Pressure) -> Iterator[Cause]:
    """Loads that moved out of loops, so that their values stay in registers for longer.

    If loops are gone, their loads did not leave them: the loop was unrolled completely.
    """
    sides, loops = ([function(each) for each in (old, new)] for function in (_loads, _loops))
    most = max((depth for side in sides for depth in side), default=0)
    for depth in range(most, 0, -1):
        inside, outside = ([side[depth] for side in sides], [sum(side[d] for d in range(depth)) for side in sides])
        if inside[1] < inside[0] and outside[1] > outside[0] and loops[1][depth] >= loops[0][depth]:
            words = f"loads in {count(depth, 'loop')} {inside[0]:,} → {inside[1]:,}, in fewer"
            yield Cause(kind="hoisted", evidence=f"{words} {outside[0]:,} → {outside[1]:,}")
            return


def _loops(code: Pressure) -> Counter[int]:
    """Number of loops by nesting depth."""
    return Counter() if code.graph is None else code.graph.loops()


def _loads(code: Pressure) -> Counter[int]:
    """Loads of global, constant and shared memory by loop depth."""
    if code.graph is None:
        return Counter()
    names, numbers = code.opcodes
    loads = {number for number, name in enumerate(names) if name in _LOADS}
    both = zip(numbers.tolist(), code.graph.depths(), strict=True)
    return Counter(depth for number, depth in both if number in loads and depth is not None)


def _arrays(before: Kernel, after: Kernel) -> Iterator[Cause]:
    """Local arrays in memory, if there was none: an index of theirs is unknown at compile time."""
    arrays = [each.sass.local.of("array") if each.sass else None for each in (before, after)]
    if after.sass is None or arrays[0] is None or arrays[1] is None or arrays[0].accesses or not arrays[1].accesses:
        return
    lines = tuple(f"{_place(each.place)}" for each in culprits(after.sass.local, "array")[:_SHOWN])
    at = f" at {', '.join(lines)}" if lines else ""
    evidence = f"a local array is in memory now, {arrays[1].bytes:,} B moved{at}: its index is known only at run time"
    yield Cause(kind="array", evidence=evidence, lines=lines)


def _calls(old: Pressure, new: Pressure) -> Iterator[Cause]:
    """Calls that became code, or code that became calls."""
    calls = [old.calls, new.calls]
    alone, inlined = ([_lines(each, inlined=way) for each in (old, new)] for way in (False, True))
    for kind, one, other in (("inlined", 0, 1), ("outlined", 1, 0)):
        moved = (alone[one] & inlined[other]) - alone[other]
        if calls[one] > calls[other] and (moved or not (any(old.sources) and any(new.sources))):
            counted = Counter(_place(s) for s in (old, new)[other].sources if s is not None)
            lines = tuple(sorted(moved, key=lambda line: -counted[line])[:_SHOWN])
            where = f"; lines {', '.join(lines)}" if lines else ""
            yield Cause(kind=kind, evidence=f"calls {calls[0]:,} → {calls[1]:,}{where}", lines=lines)  # type: ignore[arg-type]


def _counted(kernel: Kernel, code: Pressure) -> Counter[str]:
    """Instructions by line, without spills, which are an effect of register pressure."""
    spilling = {each.address for each in kernel.sass.local.accesses} if kernel.sass else set()
    rows = enumerate(code.sources)
    return Counter(_place(line) for row, line in rows if line is not None and row * INSTRUCTION not in spilling)


def _lines(code: Pressure, *, inlined: bool) -> set[str]:
    """Lines of ``inlined`` functions, with the calls in them; or lines of functions that are not inlined."""
    found = set()
    for source in {s for s in code.sources if s is not None}:
        line = source
        while line.inlined_at is not None:
            if inlined:
                found.add(_place(line))
            line = line.inlined_at
        if not inlined:
            found.add(_place(line))
    return found


def _wider(before: Kernel, after: Kernel, old: Pressure, new: Pressure, multiplied: bool) -> Iterator[Cause]:
    """Wider accesses, or arithmetic of wider types in place of narrower.

    ``multiplied``: whether lines load more often; compilers then make wide accesses themselves.
    """
    words = []
    for name in sorted({name for name, _ in (*old.accesses, *new.accesses)} if not multiplied else ()):
        widths = [{size: n for (each, size), n in held.accesses.items() if each == name} for held in (old, new)]
        most = [max(each, default=0) for each in widths]
        mean = [sum(size * n for size, n in each.items()) / max(sum(each.values()), 1) for each in widths]
        if most[0] > 0 and mean[1] >= 1.25 * mean[0]:
            words.append(f"{name} of {mean[0] * 8:.0f} → {mean[1] * 8:.0f} bits on average")
    mixes = [each.sass.opcode_classes if each.sass else {} for each in (before, after)]
    more, fewer = (mixes[1].get(name, 0) - mixes[0].get(name, 0) for name in ("fp64", "fp32"))
    if more >= _LEAST_MORE and fewer < 0 and more >= -fewer // 2:
        words.append(
            f"64-bit floating point {mixes[0].get('fp64', 0):,} → {count(mixes[1].get('fp64', 0), 'instruction')}"
        )
    if words:
        yield Cause(kind="wider", evidence=", ".join(words))


def risen(old: Pressure, new: Pressure) -> list[tuple[str, int, int]]:
    """Lines with more live registers than before: (line, before, after), the largest growth first."""
    sides = []
    for each in (old, new):
        highest: dict[str, int] = {}
        for line, live in each.lines:
            highest[_place(line)] = max(highest.get(_place(line), 0), live)
        sides.append(highest)
    found = [(line, sides[0][line], live) for line, live in sides[1].items() if live > sides[0].get(line, live)]
    return sorted(found, key=lambda each: (each[1] - each[2], -each[2]))


def held(old: Pressure, new: Pressure) -> list[tuple[str, int, int]]:
    """Lines whose values occupy more registers across the peak than before: (line, before, after)."""
    sides = [Counter({place: n for place, n in _held(each).items() if place is not None}) for each in (old, new)]
    found = [(line, sides[0][line], count) for line, count in sides[1].items() if count > sides[0][line]]
    return sorted(found, key=lambda each: each[1] - each[2])


def _held(pressure: Pressure) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in pressure.ranges:
        if each.source is not None:
            found[_place(each.source)] += len(each.registers)
    return found


def _place(line: SourceLine) -> str:
    return f"{line.file.replace(chr(92), '/').rpartition('/')[2]}:{line.line}"
