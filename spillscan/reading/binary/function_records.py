"""Records of functions, from the metadata of their cubin and from their machine code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from spillscan.model import LaunchBounds, Origin, Role, Usage
from spillscan.model.code import Maker, SassFunction, SassStats, WarpRole
from spillscan.model.local import NO_TRAFFIC, LocalTraffic
from spillscan.reading.binary.attributes import FunctionInfo
from spillscan.reading.binary.cubin import Cubin, Function, Resources
from spillscan.reading.binary.decode import Counts, Decoded
from spillscan.reading.binary.opcode_tables import table
from spillscan.reading.binary.symbols import References
from spillscan.reading.binary.window import Window
from spillscan.reading.machine.function import Analysis

Pair = tuple[int | None, int | None]
"""Stored and loaded bytes."""


FIRST_WITH_ANNOTATIONS = (12, 6)
"""First toolkit that writes the address of every spill into the cubin: ptxas 12.6.20 does, 12.5.82 does not."""
_TOGETHER_BYTES = 1 << 19
"""Maximum bytes decoded at once; columns of that much code fit into a CPU cache."""
_GROUP_BYTES = 32
"""A control word of Maxwell and Pascal and its three instructions, or two instructions."""
Spills = tuple[int, ...] | None
"""Offsets of annotated instructions; ``None`` if the toolkit writes no annotations."""


class Facts(Struct, frozen=True, gc=False, cache_hash=True):
    """Everything that a cubin contains about one function, except its name and source lines. Equal facts give equal
    records."""

    number: int
    """Number of its architecture."""
    role: Role
    final: bool | None
    """``False``: the device linker still has to link it."""
    resources: Resources
    references: References | None
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
        function.resources,
        cubin.references.get(function.section),
        info,
        spills_of(info, cubin.toolkit.version),
        tuple(cubin.parts_of(function).items()),
        cubin.digest_of(function),
        function.code.size,
        cubin.toolkit.maker,
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
    """Instructions in no table, those of callees counted twice; ``None`` if its architecture has no table."""
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
    resources, spills, size = facts.resources, facts.spills, facts.code_bytes
    role, frame, dynamic = facts.role, resources.frame_bytes, resources.dynamic_shared
    local, roles, shared = NO_TRAFFIC, tuple[WarpRole, ...](), None
    counts: Counts | None = None
    callees: list[SassFunction] = []
    unknown: int | None = None
    spilled: Pair = (None, None)
    both: Pair = (None, None)
    if together is not None:
        counts = together.counts(start, start + size)
        unknown = counts.unknown
        # ptxas 12.9 and later write the stack of the whole call tree into the attribute of the frame
        deepest = bool(frame) and role != "function" and frame == resources.stack_bytes
        analysis: Analysis | None = None
        marked = counts.local or counts.settings or deepest
        decoded = together.part(start, start + size) if marked or spills else together
        shared = None if spills is None else decoded.shared_among(spills)
        if marked:
            analysis = decoded.analysis(role, counts, parts=facts.parts, spills=spills)
            roles = analysis.roles() if counts.settings else ()
            frame = analysis.frame_bytes() if deepest else frame
            if counts.local:
                role, local = analysis.role, analysis.traffic()
        spilled = _spilled(local, role)
        for (begin, symbol), end in zip(facts.parts, [*(begin for begin, _ in facts.parts[1:]), size], strict=False):
            if symbol:
                own = together.counts(start + begin, start + end)
                unknown += own.unknown
                inner = NO_TRAFFIC, None if resources.frame_bytes else 0
                if analysis is not None and counts.local:
                    inner = analysis.callee(begin)
                callees.append(_callee(symbol, end - begin, own, *inner, facts.maker, origin))
        if callees and not local.callees:
            both = spilled
        elif callees and local.evidence == "annotation" and local.cumulative is not None:
            both = local.cumulative.pair
    record = SassFunction(
        symbol="",
        arch=None,
        role=role,
        member=0,
        stats=SassStats(
            instructions=counts.instructions if counts else 0,
            code_bytes=counts.code_bytes if counts else size,
            opcodes=counts.opcodes if counts else (),
            local=local,
            shared_spills=shared,
            registers=resources.registers,
            origin=origin,
            maker=facts.maker,
            roles=roles,
            digest=facts.digest,
            register_limit=facts.info.register_limit,
        ),
        usage=_usage(facts, frame, spilled, both),
        launch_bounds=bounds_of(facts.info),
        dynamic_shared=False if counts and dynamic and not counts.may_share else dynamic,
        final=facts.final,
    )
    return Analyzed(record, tuple(callees), unknown, bool(counts and facts.info.sets_registers and not counts.settings))


def _usage(facts: Facts, frame: int | None, spilled: Pair, together: Pair) -> Usage:
    """Resource usage. ``frame``: bytes of its own; ``spilled``: by the function itself; ``together``: callees in its
    code included."""
    resources, references = facts.resources, facts.references
    barriers = resources.barriers
    return Usage(
        registers=resources.registers,
        stack_bytes=frame,
        cumulative_stack_bytes=resources.stack_bytes,
        spill_store_bytes=spilled[0],
        spill_load_bytes=spilled[1],
        cumulative_spill_store_bytes=together[0],
        cumulative_spill_load_bytes=together[1],
        local_bytes=resources.local_bytes,
        shared_bytes=resources.shared_bytes,
        constant_bytes=resources.constant_bytes,
        barriers=(facts.info.barriers or 0) if barriers is None else barriers,
        textures=references and references.textures,
        surfaces=references and references.surfaces,
        samplers=references and references.samplers,
    )


def _callee(
    symbol: str,
    size: int,
    counts: Counts,
    local: LocalTraffic,
    frame_bytes: int | None,
    maker: Maker | None,
    origin: Origin,
) -> SassFunction:
    stores, loads = _spilled(local, "function")
    stats = SassStats(
        instructions=counts.instructions,
        code_bytes=size,
        opcodes=counts.opcodes,
        local=local,
        origin=origin,
        maker=maker,
    )
    usage = Usage(stack_bytes=frame_bytes, spill_store_bytes=stores, spill_load_bytes=loads)
    return SassFunction(symbol=symbol, arch=None, role="function", member=0, stats=stats, usage=usage)


def _spilled(local: LocalTraffic, role: Role) -> Pair:
    """Spill bytes stored and loaded, as ptxas prints them: 0 without accesses, unknown without annotations."""
    if local.evidence == "none":
        return 0, 0
    traffic = local.spills(role) if local.evidence == "annotation" else None
    return (None, None) if traffic is None else traffic.pair


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
