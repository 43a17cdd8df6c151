"""Records of functions, from the metadata of their cubin and from their machine code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from spillscan.model import LaunchBounds, Origin, Role, Usage
from spillscan.model.code import Maker, SassFunction, SassStats, WarpRole
from spillscan.model.local import NO_TRAFFIC, LocalTraffic
from spillscan.reading.binary.attributes import FunctionInfo, barriers_of
from spillscan.reading.binary.cubin import Cubin, Function
from spillscan.reading.binary.decode import Counts, Decoded, Spills
from spillscan.reading.binary.tables import table
from spillscan.reading.binary.window import Window
from spillscan.reading.machine.function import Analysis

Pair = tuple[int | None, int | None]
"""Stored and loaded bytes."""
_UNKNOWN = (None, None)

FIRST_WITH_ANNOTATIONS = (12, 6)
"""First toolkit that writes the address of every spill into the cubin: ptxas 12.6.20 does, 12.5.82 does not."""
_TOGETHER_BYTES = 1 << 19
"""Maximum bytes decoded at once; columns of that much code fit into a CPU cache."""
_GROUP_BYTES = 32
"""A control word of Maxwell and Pascal and its three instructions, or two instructions."""


class Facts(Struct, frozen=True, gc=False, cache_hash=True):
    """Everything that a cubin contains about one function, except its name and source lines. Equal facts give equal
    records."""

    number: int
    """Number of its architecture."""
    role: Role
    final: bool | None
    """``False``: the device linker still has to link it."""
    usage: Usage
    """Resources without spills."""
    dynamic_shared: bool | None
    info: FunctionInfo
    """Its attributes."""
    spills: Spills
    parts: tuple[tuple[int, str], ...]
    """Offsets of callees in its code, and their symbols."""
    digest: str
    """See :meth:`~spillscan.reading.binary.cubin.Cubin.digest_of`."""
    code_bytes: int
    maker: Maker | None
    """Tool that wrote its cubin."""


def facts_of(cubin: Cubin, function: Function) -> Facts:
    """Facts about a function. Raises :class:`~spillscan.reading.binary.window.DamageError`."""
    info = cubin.info_of(function)
    return Facts(
        cubin.number,
        function.role,
        False if cubin.relocatable else None,
        function.usage,
        function.dynamic_shared,
        info,
        spills_of(info, cubin.toolkit),
        tuple(cubin.parts_of(function).items()),
        cubin.digest_of(function),
        function.code.size,
        cubin.maker,
    )


def spills_of(info: FunctionInfo, version: tuple[int, ...]) -> Spills:
    """Annotated spills of a function. If it has none, its own toolkit attribute, else the ``version`` of the cubin's
    tool, tells whether annotations are written."""
    if info.spills is not None:
        return info.spills
    if info.toolkit is not None:
        version = info.toolkit // 10, info.toolkit % 10
    return () if version[:2] >= FIRST_WITH_ANNOTATIONS else None


class Analyzed(NamedTuple):
    """Record of one function, independent of its name and cubin: a library contains many functions several times, and
    under several names."""

    record: SassFunction
    """Record without symbol, architecture and place."""
    callees: tuple[SassFunction, ...]
    """Records of the named callees in its code; likewise, but with their symbols."""
    unknown: int | None
    """Instructions in no table; ``None`` if its architecture has no table."""
    lost_setting: bool
    """Whether its attributes say that it sets its warps' registers, but no known instruction does."""


def analyze(functions: Iterable[tuple[Window, Facts]], number: int, origin: Origin) -> Iterator[Analyzed]:
    """Records of functions, in order. ``number``: their architecture. Neighbours are decoded together."""
    opcodes = table(number)
    for neighbours in _neighbours(functions):
        first, last = neighbours[0][0], neighbours[-1][0]
        window = Window(first.buffer, first.start, last.end - first.start)
        together = None if opcodes is None else Decoded(window, opcodes, number)
        for code, facts in neighbours:
            yield _analyzed(facts, together, code.start - first.start, origin)


def _neighbours(functions: Iterable[tuple[Window, Facts]]) -> Iterator[list[tuple[Window, Facts]]]:
    """Functions whose code is adjacent."""
    group: list[tuple[Window, Facts]] = []
    for code, facts in functions:
        if group:
            begin, end = group[0][0].start, group[-1][0].end
            if code.start < end or code.end - begin > _TOGETHER_BYTES or (code.start - begin) % _GROUP_BYTES:
                yield group
                group = []
        group.append((code, facts))
    if group:
        yield group


def _analyzed(facts: Facts, together: Decoded | None, start: int, origin: Origin) -> Analyzed:
    """Record of the function whose code begins at offset ``start`` of what is decoded ``together``."""
    usage, spills, end = facts.usage, facts.spills, start + facts.code_bytes
    role, frame, dynamic = facts.role, usage.stack_bytes, facts.dynamic_shared
    local, roles, shared = NO_TRAFFIC, tuple[WarpRole, ...](), None
    counts: Counts | None = None
    callees: list[SassFunction] = []
    spilled: Pair = _UNKNOWN
    if together is not None:
        counts = together.counts(start, end)
        # ptxas 12.9 and later write the stack of the whole call tree into the attribute of the frame
        deepest = bool(frame) and role != "function" and frame == usage.cumulative_stack_bytes
        needed = counts.local or counts.settings or deepest or spills
        decoded = together.part(start, end) if needed else together
        shared = None if spills is None else decoded.shared_among(spills)
        analysis = decoded.analysis(role, counts, parts=facts.parts, spills=spills) if needed else None
        if analysis is not None:
            frame, roles = analysis.frame_bytes() if deepest else frame, analysis.roles()
        if analysis is not None and counts.local:
            role, local = analysis.role, analysis.traffic()
        spilled = _spilled(local, role)
        callees = [*_callees(facts, together, start, analysis if counts.local else None, origin)]
    stores, loads = _cumulative(local, spilled) if callees else _UNKNOWN
    record = SassFunction(
        symbol="",
        arch=None,
        role=role,
        member=0,
        stats=SassStats(
            instructions=counts.instructions if counts else 0,
            code_bytes=counts.code_bytes if counts else facts.code_bytes,
            opcodes=counts.opcodes if counts else (),
            local=local,
            shared_spills=shared,
            registers=usage.registers,
            origin=origin,
            maker=facts.maker,
            roles=roles,
            digest=facts.digest,
            register_limit=facts.info.register_limit,
        ),
        usage=replace(
            usage,
            stack_bytes=frame,
            spill_store_bytes=spilled[0],
            spill_load_bytes=spilled[1],
            cumulative_spill_store_bytes=stores,
            cumulative_spill_load_bytes=loads,
            barriers=barriers_of(usage, facts.info),
        ),
        launch_bounds=bounds_of(facts.info),
        dynamic_shared=False if counts and dynamic and not counts.may_share else dynamic,
        final=facts.final,
    )
    lost = bool(counts and facts.info.sets_registers and not counts.settings)
    return Analyzed(record, tuple(callees), counts.unknown if counts else None, lost)


def _callees(
    facts: Facts, together: Decoded, start: int, analysis: Analysis | None, origin: Origin
) -> Iterator[SassFunction]:
    """Records of the named callees in a function's code."""
    ends = [*(begin for begin, _ in facts.parts[1:]), facts.code_bytes]
    for (begin, symbol), end in zip(facts.parts, ends, strict=False):
        if symbol:
            counts = together.counts(start + begin, start + end)
            local, frame = NO_TRAFFIC, None if facts.usage.stack_bytes else 0
            if analysis is not None:
                local, frame = analysis.callee(begin)
            stores, loads = _spilled(local, "function")
            stats = SassStats(
                instructions=counts.instructions,
                code_bytes=end - begin,
                opcodes=counts.opcodes,
                local=local,
                origin=origin,
                maker=facts.maker,
            )
            usage = Usage(stack_bytes=frame, spill_store_bytes=stores, spill_load_bytes=loads)
            yield SassFunction(symbol=symbol, arch=None, role="function", member=0, stats=stats, usage=usage)


def _cumulative(local: LocalTraffic, own: Pair) -> Pair:
    """Spill bytes of a kernel with the callees in its code. ``own``: its own."""
    if not local.callees:
        return own
    return local.cumulative.pair if local.evidence == "annotation" and local.cumulative is not None else _UNKNOWN


def _spilled(local: LocalTraffic, role: Role) -> Pair:
    """Spill bytes stored and loaded, as ptxas prints them: 0 without accesses, unknown without annotations."""
    if local.evidence == "none":
        return 0, 0
    traffic = local.spills(role) if local.evidence == "annotation" else None
    return _UNKNOWN if traffic is None else traffic.pair


_Dimensions = tuple[int, int, int] | None


def bounds_of(info: FunctionInfo) -> LaunchBounds | None:
    """Launch bounds in a function's attributes; ``None`` if there are none."""
    if not (info.max_threads or info.required_threads or info.cluster_blocks):
        return None
    required = _product(info.required_threads, _MOST_REQUIRED)
    depth = info.required_threads[2] if required and info.required_threads else 1
    return LaunchBounds(
        max_threads=_product(info.max_threads, LARGEST_BLOCK),
        required_threads=required,
        required_depth=depth if depth > 1 else None,
        cluster_blocks=_product(info.cluster_blocks, LARGEST_CLUSTER),
    )


LARGEST_BLOCK = 1024
"""Maximum threads per block; launch bounds beyond it have no effect."""
_MOST_REQUIRED = 1 << 32
"""``.reqntid`` may exceed the largest block: ptxas accepts that, but no launch succeeds."""
LARGEST_CLUSTER = 16
"""Maximum blocks per cluster of any device; larger values are ignored."""


def _product(dimensions: _Dimensions, most: int) -> int | None:
    """Product of the dimensions; ``None`` without dimensions, or if it is not within 1 to ``most``."""
    if dimensions is None:
        return None
    x, y, z = dimensions
    return x * y * z if 0 < x * y * z <= most else None
