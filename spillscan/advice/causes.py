"""Causes of spills: a kernel's register limit, and the values live at its peak register pressure.

The number of registers that a group of values occupies is a fact of the code. The registers saved without the group are
an upper bound, since ptxas would schedule the instructions differently.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from spillscan.judging.places import Tree, by_cost, placed
from spillscan.model import Kernel
from spillscan.model.code import MOST_REGISTERS
from spillscan.model.local import LocalTraffic, SourceLine
from spillscan.occupancy.bounds import REGISTER_STEP, register_limit
from spillscan.occupancy.devices import Device, device
from spillscan.output.errors import UsageError
from spillscan.output.nouns import count
from spillscan.reading.machine.spillmap import TOP

if TYPE_CHECKING:
    from spillscan.reading.binary.pressure import Pressure

Kind = Literal["copies", "inlined"]
"""Repeated instructions of one line; code inlined at one call."""

_LEAST, _SHARE = 4, 8
"""Fewest registers of a reported group, and the divisor that gives its smallest share of all live values."""
_COPIES = 3
"""Repetitions of a line's instruction that mean an unrolled loop or an array in registers."""
_SHOWN = 3
DEBUG_BUILD = "debug build (-G): ptxas does not optimize the kernel"
_LIMIT_OPTION = re.compile(r"-{1,2}maxrregcount[= ]+(\d+)|with +(\d+) of maxrregcount option")


class LiveGroup(NamedTuple):
    """One group of values that are live at the point of the highest register pressure."""

    kind: Kind
    """Property that the values share."""
    registers: int
    """Registers that they occupy, including those in spill slots."""
    fewer: int
    """Upper bound for registers saved without the group."""
    lines: tuple[str, ...]
    """Source lines such as ``gemm.cu:31``, most registers first."""
    cause: str
    """One line that describes the group."""
    relief: str
    """Source change that would need fewer registers."""


def live_groups(code: Pressure, local: LocalTraffic, tree: Tree) -> list[LiveGroup]:
    """Groups of values that occupy many registers at the peak, largest gain first."""
    row, makers = code.makers(local)
    live = code.demand(local) or code.peak.registers
    least = max(_LEAST, len(makers) // _SHARE)
    groups = _copies(code, makers, live, tree), _inlined(code, row, makers, live, tree)
    large = [each for each in groups if each is not None and each.registers >= least and each.fewer > 0]
    return sorted(large, key=lambda each: -min(each.fewer, each.registers))


def at_lines(groups: Sequence[LiveGroup]) -> dict[str, list[tuple[int, str]]]:
    """(most registers saved, sentence) per source line, by the file's base name and line."""
    by_line: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for each in groups:
        gain = f"saves at most {count(each.fewer, 'register')}"
        for line in each.lines:
            by_line[_base(line)].append((each.fewer, f"{each.cause}; {each.relief}: {gain}"))
    return by_line


def _copies(code: Pressure, makers: Sequence[int], live: int, tree: Tree) -> LiveGroup | None:
    """Results of repeated instructions of one line. ``makers``: row of the instruction that makes each value."""
    rows: dict[tuple[SourceLine, str], Counter[int]] = defaultdict(Counter)
    for row in makers:
        source = code.sources[row]
        if source is not None:
            rows[source, code.mnemonics[row]][row] += 1
    several = {key: its for key, its in rows.items() if len(its) >= _COPIES}
    if not several:
        return None
    registers, times = Counter[str](), Counter[str]()
    for (source, _), its in several.items():
        line = placed(source, tree).text
        registers[line] += its.total()
        times[line] = max(times[line], len(its))
    shown = registers.most_common(_SHOWN)
    results = ", ".join(f"{count(times[line], 'result')} of {line} ({count(n, 'register')})" for line, n in shown)
    return LiveGroup(
        "copies",
        registers.total(),
        live - sum(min(its.values()) for its in several.values()),  # values computed from a copy go too
        tuple(line for line, _ in shown),
        f"unrolled loop or register array: {results} live at once",
        f"use a smaller #pragma unroll factor or array at {shown[0][0]}",
    )


def _inlined(code: Pressure, row: int, makers: Sequence[int], live: int, tree: Tree) -> LiveGroup | None:
    """Values of the code inlined at the call with the most of them. ``row``: the instruction with the peak."""

    def call_of(row: int) -> str:
        """Line of the kernel at which an instruction was inlined; empty if it was not."""
        source = code.sources[row]
        if source is None or source.inlined_at is None:
            return ""
        while source.inlined_at is not None:
            source = source.inlined_at
        return placed(source, tree).text

    inner: dict[str, Counter[str]] = defaultdict(Counter)
    for each in makers:
        if (line := call_of(each)) and (source := code.sources[each]) is not None:
            inner[line][f"{_base(source.file)}:{source.line}"] += 1
    if not inner:
        return None
    line, places = max(inner.items(), key=lambda each: each[1].total())
    registers = places.total()
    made = ", ".join(f"{place} ({n})" for place, n in places.most_common(_SHOWN))
    return LiveGroup(
        "inlined",
        registers,
        max(registers, live - registers if call_of(row) == line else 0),  # the caller's values may wait in memory
        (line,),
        f"results of code inlined at {line} occupy {count(registers, 'register')}: {made}",
        f"use __noinline__ for the function called at {line}",
    )


def _base(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]


# ---- causes -------------------------------------------------------------------------------------------------------


def causes(
    kernel: Kernel, tree: Tree, code: Pressure | None, groups: Sequence[LiveGroup] = (), built: Kernel | None = None
) -> Iterator[str]:
    """Facts from code and records that explain a kernel's spills.

    ``built``: the kernel as compiled for a trial, which may tell more about its register limit.
    """
    if kernel.saves_for_callers:
        yield "the function saves callee-saved registers for its callers"
    for role in kernel.sass.roles if kernel.sass else ():
        if role.registers is not None and role.spill is not None and role.spill.bytes:
            yield f"warps with {role.registers} registers (setmaxnreg) spill {role.spill.bytes:,} B"
    if for_debugger(kernel):
        yield DEBUG_BUILD
    elif limit := _limit(built or kernel):
        yield limit
    if code is not None:
        peak = code.peak
        at = "" if peak.source is None else f" at {placed(peak.source, tree).text}"
        least = "at least " if peak.at_least else ""
        demand = code.demand(kernel.sass.local) if kernel.sass else None
        slots = f", {demand} including the values in spill slots" if demand and demand > peak.registers else ""
        yield f"{least}{peak.registers} registers are live at once{at}{slots}"
        yield from (each.cause for each in groups[:TOP])
    if kernel.sass is None:
        return
    arrays = kernel.sass.local.of("array")
    if arrays.accesses and not kernel.saves_for_callers:
        lines = ", ".join(each.text for each in by_cost(kernel.sass.local, "array", tree)[:TOP])
        at = f" at {lines}" if lines else ""
        yield f"accesses to local arrays, or to variables whose address is taken, move {arrays.bytes:,} B{at}"
    if code is not None and code.calls:
        yield f"{count(code.calls, 'call')} not inlined: live values are saved or stay in registers across a call"


def for_debugger(kernel: Kernel) -> bool:
    """Whether the kernel was compiled with ``-G``."""
    return not {"-g", "-G", "--device-debug"}.isdisjoint(options_of(kernel).split())


def options_of(kernel: Kernel) -> str:
    """Options of ptxas, as the binary contains them; empty if unknown."""
    maker = kernel.sass.maker if kernel.sass else None
    return maker.options if maker else ""


def calls_other_units(kernel: Kernel) -> bool:
    """Whether a kernel may call functions of other units. At the link, it gets as many registers as they use, or fails
    if its register limit is lower."""
    code = kernel.sass
    linked = kernel.final is not None or (code is not None and code.maker is not None and "link" in code.maker.tool)
    return linked and (code is None or not {"CALL", "CAL", "JCAL"}.isdisjoint(name for name, _ in code.opcodes))


def most_registers(kernel: Kernel) -> int:
    """Most registers that an instruction of the kernel's arch can address."""
    here = device_of(kernel)
    return MOST_REGISTERS if here is None else here.max_registers_per_thread


def _limit(kernel: Kernel) -> str:
    """Sentence about the kernel's register limit, from its binary or log; empty if unknown.

    A binary contains the threads of the launch bounds and the resulting limit, but not the minimum of blocks, nor
    ``__maxnreg__`` as such.
    """
    registers, allowed = kernel.usage.registers, kernel.sass.register_limit if kernel.sass else None
    limit = limit_of(kernel)
    most = most_registers(kernel)
    if limit is None:
        if registers is not None and registers >= most - 2:
            share = "the maximum of" if registers >= most else f"with a maximum of {most} on"
            return f"{registers} registers, {share} {kernel.key.arch or 'the instruction set'}"
        return f"no register limit; ptxas uses {registers}" if allowed is not None else ""
    spare = registers is not None and registers + REGISTER_STEP <= limit
    uses = f"; ptxas uses {registers}" if spare else ""
    return f"{_limiting(kernel, limit)} {limit} registers{uses}"


def _limiting(kernel: Kernel, limit: int) -> str:
    if limited_by_option(kernel) == limit:
        return f"-maxrregcount={limit} limits it to"
    bounds, here = kernel.launch_bounds, device_of(kernel)
    threads = bounds.threads if bounds else None
    if threads is None:
        made = f"__maxnreg__({limit})" if options_of(kernel) else "__maxnreg__ or -maxrregcount"
        return f"{made} limits it to"
    if here and threads <= here.max_threads_per_block and register_limit(here, threads).registers == limit:
        return f"launch bounds of {count(threads, 'thread')} limit it to"
    return f"launch bounds ({count(threads, 'thread')} and a minimum of blocks per SM) or __maxnreg__ limit it to"


def limit_of(kernel: Kernel) -> int | None:
    """Register limit that ptxas obeyed; ``None`` if there is none, or it is unknown."""
    allowed = kernel.sass.register_limit if kernel.sass else None  # unknown of device functions
    return limited_by_option(kernel) if allowed in (None, MOST_REGISTERS) else allowed


def limited_by_option(kernel: Kernel) -> int | None:
    """Register limit by ``-maxrregcount``; ``None`` without it, or if launch bounds override it."""
    named = _LIMIT_OPTION.search(options_of(kernel)) or next(
        (match for each in kernel.advisories if (match := _LIMIT_OPTION.search(each.text))), None
    )
    return int(named[1] or named[2]) if named and kernel.launch_bounds is None else None


def device_of(kernel: Kernel) -> Device | None:
    """Device of the kernel's arch; ``None`` if unknown."""
    try:
        return None if kernel.key.arch is None else device(kernel.key.arch)
    except UsageError:
        return None
