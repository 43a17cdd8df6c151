"""Records of functions, from cubin metadata and machine code. Neighbours are decoded together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat
from typing import NamedTuple

from msgspec import Struct

from spillscan.model import LaunchBounds, Origin, Role, Usage
from spillscan.model.code import NO_TRAFFIC, LocalTraffic, Maker, SassFunction, SassStats, WarpRole
from spillscan.reading.binary import decode
from spillscan.reading.binary.attributes import FunctionInfo
from spillscan.reading.binary.cubin import Cubin, Function, Resources
from spillscan.reading.binary.decode import Counts, Decoded
from spillscan.reading.binary.opcode_tables import Table, table
from spillscan.reading.binary.symbols import References
from spillscan.reading.binary.window import Window
from spillscan.reading.binary.words import Code

Pair = tuple[int | None, int | None]
"""Stored and loaded bytes."""


FIRST_WITH_ANNOTATIONS = (12, 6)
"""First toolkit that writes the address of every spill into the cubin: ptxas 12.6.20 does, 12.5.82 does not."""
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


class Seen(NamedTuple):
    """Record of one function, independent of its name and cubin: a library contains many functions several times, and
    under several names."""

    own: SassFunction
    """Record without symbol, architecture and place."""
    callees: tuple[SassFunction, ...]
    """Records of the named callees in its code; likewise, but with their symbols."""
    unknown: int | None
    """Instructions in no table, those of callees counted twice; ``None`` if its architecture has no table."""
    lost_setting: bool
    """Whether its attributes say that it sets its warps' registers, but no known instruction does."""


def look(functions: Sequence[tuple[Window, Facts]], number: int, origin: Origin) -> Iterator[Seen]:
    """Records of functions, in order. ``number``: their architecture. Neighbours are decoded together."""
    opcodes = table(number)
    codes = [_Code(code, _callees(facts, code)) for code, facts in functions]
    words: Iterable[_MachineWords | None] = repeat(None, len(codes))
    if opcodes is not None:
        words = _counted(codes, opcodes, number)
    for (_, facts), code, own in zip(functions, codes, words, strict=True):
        yield _seen(facts, code, own, origin)


class _Callee(NamedTuple):
    """A device function in a kernel's code."""

    symbol: str
    code: Window
    local: LocalTraffic | None = None
    frame_bytes: int | None = None


class _Code(NamedTuple):
    """Code of one function."""

    code: Window
    callees: list[_Callee]
    """Callees that have names."""


def _callees(facts: Facts, code: Window) -> list[_Callee]:
    if not facts.parts:
        return []
    frame = None if facts.resources.frame_bytes else 0
    ends = [*(begin for begin, _ in facts.parts[1:]), code.size]
    return [
        _Callee(symbol, code.part(begin, end - begin, "callee"), None, frame)
        for (begin, symbol), end in zip(facts.parts, ends, strict=True)
        if symbol
    ]


class _MachineWords(Struct, frozen=True, gc=False):
    """Machine words of one function."""

    counts: Counts
    callees: list[Counts]
    stretch: Code
    """Stretch that contains its instructions."""
    opcodes: Table


def _counted(functions: Iterable[_Code], opcodes: Table, number: int) -> Iterator[_MachineWords]:
    for neighbours in decode.stretches(functions, opcodes):
        stretch = decode.code_of_stretch([each.code for each in neighbours], opcodes, number)
        windows = [window for each in neighbours for window in (each.code, *(callee.code for callee in each.callees))]
        counts = decode.of_stretch(windows, stretch, opcodes)
        for each in neighbours:
            yield _MachineWords(next(counts), list(islice(counts, len(each.callees))), stretch, opcodes)


def _seen(facts: Facts, code: _Code, words: _MachineWords | None, origin: Origin) -> Seen:
    role, local, shared = facts.role, None, None
    spilled: Pair = (None, None)
    together: Pair = (None, None)
    roles: tuple[WarpRole, ...] = ()
    frame = facts.resources.frame_bytes
    deepest = bool(frame) and role != "function" and frame == facts.resources.stack_bytes
    whole, named = code
    counted, callees = (words.counts, named) if words else (None, [])
    if words and counted:
        spills = facts.spills
        shared = None if spills is None else 0
        spilled = 0, 0
        if callees:
            together = 0, 0
        if spills or counted.local or counted.settings or deepest:
            decoded = Decoded(whole, words.stretch, words.opcodes)
        if spills:
            shared = decoded.shared_among(spills)
        if counted.local or counted.settings or deepest:
            seen = decoded.analysis(role, counted, parts=facts.parts, spills=spills)
            roles = seen.roles() if counted.settings else ()
        if deepest:  # ptxas 12.9 and later write the stack of the whole call tree into the attribute of the frame
            frame = seen.frame_bytes()
        if counted.local:
            role, local = seen.role, seen.traffic()
            spilled = _spilled(local, role)
            of_callees = [seen.callee(each.code.start - whole.start) for each in callees]
            callees = [
                each._replace(local=own, frame_bytes=frame)
                for each, (own, frame) in zip(callees, of_callees, strict=True)
            ]
            if callees:
                known = local.cumulative if local.callees and local.evidence == "annotation" else None
                together = spilled if not local.callees else (None, None) if known is None else known.pair
    held = words.callees if words else []
    dynamic = facts.resources.dynamic_shared
    own = SassFunction(
        symbol="",
        arch=None,
        role=role,
        member=0,
        stats=SassStats(
            instructions=counted.instructions if counted else 0,
            code_bytes=counted.code_bytes if counted else whole.size,
            opcodes=counted.opcodes if counted else (),
            local=local or NO_TRAFFIC,
            shared_spills=shared,
            registers=facts.resources.registers,
            origin=origin,
            maker=facts.maker,
            roles=roles,
            digest=facts.digest,
            register_cap=facts.info.register_cap,
        ),
        usage=_usage(facts, frame, spilled, together),
        launch_bounds=bounds_of(facts.info),
        dynamic_shared=False if counted and dynamic and not counted.may_share else dynamic,
        final=facts.final,
    )
    return Seen(
        own,
        tuple(_callee(each, counts, facts.maker, origin) for each, counts in zip(callees, held, strict=True)),
        None if counted is None else sum(each.unknown for each in (counted, *held)),
        bool(counted and facts.info.sets_registers and not counted.settings),
    )


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


def _callee(each: _Callee, counts: Counts, maker: Maker | None, origin: Origin) -> SassFunction:
    stores, loads = _spilled(each.local, "function")
    stats = SassStats(
        instructions=counts.instructions,
        code_bytes=each.code.size,
        opcodes=counts.opcodes,
        local=each.local or NO_TRAFFIC,
        origin=origin,
        maker=maker,
    )
    usage = Usage(stack_bytes=each.frame_bytes, spill_store_bytes=stores, spill_load_bytes=loads)
    return SassFunction(symbol=each.symbol, arch=None, role="function", member=0, stats=stats, usage=usage)


def _spilled(local: LocalTraffic | None, role: Role) -> Pair:
    """Spill bytes stored and loaded, as ptxas prints them: 0 without accesses, unknown without annotations."""
    if local is None or local.evidence == "none":
        return 0, 0
    traffic = local.spills(role) if local.evidence == "annotation" else None
    return (None, None) if traffic is None else traffic.pair


_Dimensions = tuple[int, int, int] | None


def bounds_of(info: FunctionInfo) -> LaunchBounds | None:
    """Launch bounds in a function's attributes; ``None`` if there are none."""
    if not (info.max_threads or info.required_threads or info.cluster_blocks):
        return None
    return LaunchBounds(
        max_threads=_product(info.max_threads, LARGEST_BLOCK),
        required_threads=_product(info.required_threads, _MOST_REQUIRED),
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
