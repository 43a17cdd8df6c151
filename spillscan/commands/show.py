"""Print the spills of a kernel by source line and loop, largest spill cost (bytes × 10^loop depth) first.

Without KERNEL, all kernels of one INPUT are shown.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence

from spillscan.advice.causes import at_lines, live_groups
from spillscan.commands import _inputs, _issues, _options, _selection
from spillscan.judging.places import Tree
from spillscan.model import Kernel
from spillscan.model.build import damage
from spillscan.model.code import SassStats, WarpRole
from spillscan.model.local import LocalAccess, Traffic
from spillscan.naming import Names
from spillscan.output.errors import InputError, nearest
from spillscan.output.nouns import count
from spillscan.output.safe import printable
from spillscan.output.terminal import say, spark, style_of, wrapped
from spillscan.reading.binary import fetch
from spillscan.reading.binary.instructions import Code
from spillscan.reading.binary.pressure import Pressure
from spillscan.reading.machine import spillmap
from spillscan.reading.machine.liveness import INSTRUCTION
from spillscan.reports.render import sources_of

EPILOG = "Example: spillscan show 'gemm<8>' build/ --arch sm_90"
_CURVE = 64
"""Width of the curve of live registers in columns."""
_SHOWN = 4
"""Maximum number of printed places per slot; the rest is counted."""
_UNREAD = "machine code not analyzed"
_EVIDENCE = {"annotation": "ptxas annotations", "last-use": "the last use of each slot"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    about = "binary, disassembly (cuobjdump, nvdisasm), snapshot, folder, or - for standard input"
    _options.add_called(parser, "INPUT", about)
    _options.add_one_arch(parser)
    _options.add_with(parser, {"source": "source lines with their instructions (binaries of sm_75 and later)"})
    parser.add_argument("--source-root", metavar="DIR", help="folder of the source files for --with source")
    _options.add_rows(parser, 40, "source lines and local-memory slots to show", "lines and slots")


def run(arguments: argparse.Namespace) -> int:
    """Print the spill maps; return the exit status."""
    called, inputs = _inputs.kernel_of(arguments, "spillscan show KERNEL INPUT")
    build = _inputs.scan(inputs)
    given = ", ".join(inputs)
    if not any(kernel.sass for kernel in build.kernels):
        raise InputError(f"no machine code in {given}", "pass an object, a library, or the output of cuobjdump -sass")
    names = Names([kernel.named_by for kernel in build.kernels])
    matching = [kernel for kernel in _selection.wanted(build.kernels, called, names) if kernel.sass]
    kernels = [kernel for kernel in matching if arguments.arch in (None, kernel.key.arch)]
    if matching and not kernels:
        raise InputError(f"{given}: no kernel of {arguments.arch} matches {called!r}", "leave out --arch")
    if not kernels:
        known = sorted({kernel.short_name for kernel in build.kernels if kernel.sass})
        raise InputError(f"{given}: no kernel matches {called!r}", nearest(called, known) or "pass part of its symbol")
    source = "source" in arguments.also
    kernels = sorted(kernels, key=damage)
    whole = len(kernels) == 1 or source
    full = [k for k in kernels if whole or (k.sass and k.sass.local.total.accesses)]
    code = fetch.pressures_of(full)
    texts = fetch.texts_of(full if source else ())
    sources = sources_of(code.values(), arguments.source_root) if source and arguments.source_root else {}
    style = style_of()
    for number, kernel in enumerate(kernels):
        assert kernel.sass is not None
        name = printable(names.of(kernel.named_by))
        if kernel not in full:
            size = count(kernel.sass.instructions, "instruction")
            say([f"{_head(name, kernel)}  {f'{size}, no local memory' if kernel.sass.instructions else _UNREAD}"])
            continue
        pressure = code.get(id(kernel))
        shown = lines(name, kernel, kernel.sass, pressure, _options.rows_of(arguments))
        say([*[""] * bool(number), *wrapped(shown, style)])
        if source and pressure and id(kernel) in texts:
            groups = at_lines(live_groups(pressure, kernel.sass.local, Tree())) if sum(kernel.spills or ()) else {}
            code_shown = Code(texts[id(kernel)])
            say(wrapped(source_lines(kernel.sass, pressure, code_shown, sources, groups), style))
        elif source and kernel.caller:
            say([f"  its machine code is part of {printable(names.of(kernel.caller))}; show that kernel instead"])
        elif source:
            say(["  --with source: needs a binary with code for sm_75 or later, not its disassembly"])
    _issues.report_issues(build.issues)
    return 0


def _head(called: str, kernel: Kernel) -> str:
    origin = kernel.sass.origin if kernel.sass else None
    return f"{called}  {kernel.key.arch or 'unknown arch'}  {origin or ''}".rstrip()


def lines(called: str, kernel: Kernel, stats: SassStats, pressure: Pressure | None, most: int | None) -> Iterator[str]:
    """Spill map of one function."""
    local = stats.local
    yield _head(called, kernel)
    if called != kernel.key.symbol:
        yield f"  {printable(kernel.key.symbol)}"
    if not stats.instructions:
        yield f"  {_UNREAD}"
        return
    classes = ", ".join(f"{number:,} {name}" for name, number in stats.opcode_classes.items())
    yield f"  {count(stats.instructions, 'instruction')}, {count(stats.code_bytes, 'byte')}: {classes}"
    if stats.maker:
        yield f"  {'linked' if 'link' in stats.maker.tool.lower() else 'compiled'} by {stats.maker}"
    if stats.unknown_opcodes:
        yield f"  opcodes of unknown class: {', '.join(stats.unknown_opcodes)}"
    if stats.live_peak:
        place = spillmap.where(stats.live_peak.source)
        yield (
            f"  peak: {stats.live_peak.registers} registers live at {stats.live_peak.address:#x}"
            f" (line {stats.live_peak.line} of the disassembly{', ' + place if place else ''})"
        )
    if pressure is not None:
        yield from _pressure(pressure, kernel)
    if stats.shared_spills:
        yield f"  {count(stats.shared_spills, 'spill goes', 'spills go')} to shared memory: no log counts their bytes"
    yield from map(_role, stats.roles)
    if not local.total.accesses:
        yield "  no local memory"
        return
    spill, saves = local.spill, kernel.saves_for_callers and local.of("frame").pair == kernel.spills
    frame = "callee-saved registers" if saves else "call frame"
    yield f"  spills: {_traffic(spill)}; classified by {_EVIDENCE.get(local.evidence, local.evidence)}"
    for kind, name in (("array", "local arrays"), ("frame", frame), ("unknown", "unknown")):
        other = local.of(kind)  # type: ignore[arg-type]
        if other.accesses:
            yield f"  {name}: {_traffic(other)}"
    culprits = spillmap.culprits(local)
    for number, culprit in enumerate(culprits[:most]):
        yield f"  {'by cost' if not number else '':9}  {spillmap.share_text(culprit.share):>5}  {culprit}"
    yield from _more(culprits, most, "line")
    slots = spillmap.slots(local)
    width = max((len(slot.name) for slot in slots[:most]), default=0)
    for slot in slots[:most]:
        yield f"    {slot.name:{width}}  {slot.kind:7}  stored {_places(slot.stores)}  read {_places(slot.loads)}"
    yield from _more(slots, most, "slot")


def _traffic(part: Traffic) -> str:
    """``76 stores (304 bytes), 54 loads (216 bytes)``."""
    loads = f"{count(part.loads, 'load')} ({count(part.load_bytes, 'byte')})"
    return f"{count(part.stores, 'store')} ({count(part.store_bytes, 'byte')}), {loads}"


def _more(rows: Sequence[object], most: int | None, noun: str) -> Iterator[str]:
    """Number of the rows that are not shown."""
    if most is not None and len(rows) > most:
        yield f"    … {count(len(rows) - most, f'more {noun}')}"


def _pressure(pressure: Pressure, kernel: Kernel) -> Iterator[str]:
    """Text about register pressure: the peak, the curve by address, lines with high pressure, and live ranges at the
    peak."""
    peak = pressure.peak
    limit = spillmap.registers_of(kernel.usage.registers, kernel.sass) if kernel.sass else ""
    least = "at least " if peak.at_least else ""
    where = ", ".join(filter(None, (f"{peak.address:#x}", spillmap.where(peak.source))))
    yield f"  peak: {least}{peak.registers} registers live at {where}{limit and '; ' + limit}"
    width = max(min(style_of(None).width - 16, _CURVE), 8)
    yield f"    by address  {spark(pressure.live.counts, width)}"
    for number, (line, most) in enumerate(pressure.lines[: spillmap.TOP]):
        yield f"    {'by line' if not number else '':8}  {most:>4}  {spillmap.where(line)}"
    for number, each in enumerate(pressure.ranges[:_SHOWN]):
        begin, end = (at * INSTRUCTION for at in (each.begin, each.end))
        source = spillmap.where(each.source)
        words = f"{each} live from {begin:#06x} to {end:#06x}{', written at ' + source if source else ''}"
        yield f"    {'at peak' if not number else '':8}  {words}"
    yield from _more(pressure.ranges, _SHOWN, "live range")


_AROUND = 2
"""Number of instructions to show on either side of each spill, or of the register peak."""


def source_lines(
    stats: SassStats,
    pressure: Pressure,
    code: Code,
    sources: Mapping[str, Sequence[str]],
    advice: dict[str, list[tuple[int, str]]],
) -> Iterator[str]:
    """Source lines with their instructions at spills, or without spills at the register peak.

    The instructions between are counted. ``advice`` is printed at its line, the rest at the end.
    """
    accesses = {access.address // INSTRUCTION: access for access in stats.local.accesses}
    hot = {row for row, access in accesses.items() if access.kind == "spill"} or {pressure.peak.address // INSTRUCTION}
    shown = sorted({near for row in hot for near in range(row - _AROUND, row + _AROUND + 1) if 0 <= near < code.rows})
    slots = spillmap.slots(stats.local)
    slot_of = spillmap.slot_numbers(slots)
    live, depths = pressure.live.counts, pressure.graph.depths()
    width = max(map(len, (code.texts[row] for row in shown)), default=0)
    last, at = -1, None
    around = "spills" if stats.local.spill.accesses else "the register peak"
    yield f"  code near {around}: address, loop depth, live registers"
    for row in shown:
        if row > last + 1:
            yield f"    … {count(row - last - 1, 'instruction')}"
        source = pressure.sources[row]
        if source != at and source is not None:
            text = sources.get(source.file, ())
            known = printable(text[source.line - 1].strip(), 100) if 0 < source.line <= len(text) else ""
            yield f"  {spillmap.where(source)}{known and '  ' + known}"
            yield from (f"    advice  {each}" for _, each in advice.pop(spillmap.where(source).partition(",")[0], ()))
        last, at = row, source
        access, depth = accesses.get(row), depths[row]
        what = ""
        if access is not None:
            name = "spill" if access.kind == "spill" else f"local ({access.kind})"
            what = f"{name} {'store' if access.store else 'load'} {slots[slot_of[access.address, access.store]].name}"
        loop = "?" if depth is None else str(depth or "")
        yield f"    {row * INSTRUCTION:#06x}  {loop:>2}  {live[row]:>3}  {code.texts[row]:{width}}  {what}".rstrip()
    if last + 1 < code.rows:
        yield f"    … {count(code.rows - last - 1, 'instruction')}"
    for line, texts in advice.items():
        yield from (f"  {line}  advice  {each}" for _, each in texts)


def _role(role: WarpRole) -> str:
    """Text of one warp role: its first address, registers, spills and local memory."""
    place = "from the start" if role.address is None else f"from {role.address:#x}"
    budget = "as launched" if role.address is None else f"{role.registers or 'an unknown number of'} registers"
    spill = role.spill
    spills = "unknown" if spill is None else f"{spill.store_bytes:,} B stored, {spill.load_bytes:,} B loaded"
    return f"  role {place}, {budget}: spills {spills}; local memory {role.local.bytes:,} B"


def _places(accesses: tuple[LocalAccess, ...]) -> str:
    if not accesses:
        return "never"
    shown = [f"{each.address:#06x}" + (f"/{each.depth}" if each.depth else "") for each in accesses[:_SHOWN]]
    return " ".join(shown) + (f" +{len(accesses) - _SHOWN}" if len(accesses) > _SHOWN else "")
