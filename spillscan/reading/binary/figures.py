"""What a cubin says of one function: its sections, and its machine code, which is looked at once for all that say the
same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice, repeat
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace
from xxhash import xxh3_128_digest

from spillscan.model import LaunchBounds, Role
from spillscan.model.code import LivePeak, LocalTraffic, WarpRole
from spillscan.reading.binary import decode
from spillscan.reading.binary.cubin import Cubin, Function, FunctionInfo, References, digest_of_code
from spillscan.reading.binary.decode import Counts, Decoded, Spills
from spillscan.reading.binary.window import Window
from spillscan.reading.binary.words import Code, Table, table

FIRST_WITH_ANNOTATIONS = (12, 6)
"""ptxas 12.6.20, the first 12.6 of all, writes the address of every spill into the cubin; 12.5.82 does not."""


class Resources(Struct, frozen=True, gc=False):
    """The fields of :class:`~spillscan.model.Usage` that a binary says."""

    registers: int | None
    stack_bytes: int | None
    cumulative_stack_bytes: int | None
    spill_store_bytes: int | None
    spill_load_bytes: int | None
    cumulative_spill_store_bytes: int | None
    cumulative_spill_load_bytes: int | None
    local_bytes: int | None
    shared_bytes: int | None
    constant_bytes: tuple[tuple[int, int], ...] | None
    barriers: int | None
    textures: int | None
    surfaces: int | None
    samplers: int | None


_UNKNOWN = Resources(*[None] * len(Resources.__struct_fields__))
Pair = tuple[int | None, int | None]
"""Stored and loaded bytes."""


class Figures(Struct, frozen=True, gc=False):
    """What is stated of one function, whatever it is called and whichever cubin holds it: a library holds many several
    times, and under several names."""

    role: Role
    final: bool | None
    """``False``: the device linker still has to link it."""
    resources: Resources
    bounds: LaunchBounds | None
    dynamic_shared: bool | None
    """Whether launches give it shared memory."""
    counts: Counts | None
    """``None`` where no opcode table is for its architecture."""
    code_bytes: int
    """To the end of the last instruction, or of the section where none is known."""
    shared_spills: int | None
    """Annotated accesses to shared memory; ``None`` without annotations."""
    local: LocalTraffic | None
    """``None`` where it does not use local memory."""
    roles: tuple[WarpRole, ...] = ()
    """Which of its code runs with which number of registers."""
    digest: str | None = None
    """Stands for its code; ``None`` of a callee."""
    peak: LivePeak | None = None
    """Where most registers are live, if that was asked for."""
    lost_setting: bool = False
    """It sets its warps' registers, as its attributes say, and no instruction is known to do so."""


Seen = list[tuple[str, Figures]]
"""A function (without a name), and the callees in its code by their symbols."""


class Facts(Struct, frozen=True, gc=False):
    """All that a cubin says of one function, but for its name and source lines: of two that are equal the same is
    stated."""

    number: int
    """Of its architecture."""
    role: Role
    final: bool | None
    """See :attr:`Figures.final`."""
    registers: int | None
    frame_bytes: int | None
    stack_bytes: int | None
    local_bytes: int
    shared_bytes: int
    constant_bytes: tuple[tuple[int, int], ...]
    barriers: int
    dynamic_shared: bool | None
    """For these see :class:`~spillscan.reading.binary.cubin.Function`."""
    references: References | None
    bounds: LaunchBounds | None
    sets_registers: bool
    spills: Spills
    parts: tuple[tuple[int, str], ...]
    """Where callees begin in its code, and their symbols."""
    digest: str
    """See :meth:`~spillscan.reading.binary.cubin.Cubin.own_digest`."""
    code: bytes
    """Stands for its machine code."""
    code_bytes: int


_SEED = int.from_bytes(os.urandom(8), "little")
"""Of what stands for machine code: so that nobody can write other code for which the same stands."""


def facts_of(cubin: Cubin, function: Function) -> Facts:
    """Raises :class:`~spillscan.reading.binary.window.DamageError`."""
    info, code = cubin.info_of(function), function.code
    parts = cubin.parts_of(function)
    return Facts(
        cubin.number,
        function.role,
        False if cubin.relocatable else None,
        function.registers,
        function.frame_bytes,
        function.stack_bytes,
        function.local_bytes,
        function.shared_bytes,
        function.constant_bytes,
        (info.barriers or 0) if function.barriers is None else function.barriers,
        function.dynamic_shared,
        cubin.references.get(function.section),
        _bounds(info.max_threads, info.required_threads, info.cluster_blocks),
        info.sets_registers,
        _annotated(cubin, info),
        tuple(parts.items()) if parts else (),
        cubin.own_digest(function),
        xxh3_128_digest(code.whole, _SEED),
        code.size,
    )


def look(functions: Sequence[tuple[Function, Facts]], number: int) -> Iterator[Seen]:
    """What is seen of each; ``number``: of their architecture. Neighbours are read together."""
    opcodes = table(number)
    codes = [_Code(function.code, _callees(facts, function.code)) for function, facts in functions]
    words: Iterable[_MachineWords | None] = repeat(None, len(codes))
    if opcodes is not None:
        words = _counted(codes, opcodes, number)
    for (_, facts), code, own in zip(functions, codes, words, strict=True):
        yield list(_figures(facts, code, own))


class _Callee(NamedTuple):
    """A device function in a kernel's code."""

    symbol: str
    code: Window
    local: LocalTraffic | None = None
    frame_bytes: int | None = None


class _Code(NamedTuple):
    """That of one function."""

    code: Window
    callees: list[_Callee]
    """Those that have names."""


def _callees(facts: Facts, code: Window) -> list[_Callee]:
    if not facts.parts:
        return []
    frame = None if facts.frame_bytes else 0
    ends = [*(begin for begin, _ in facts.parts[1:]), code.size]
    return [
        _Callee(symbol, code.part(begin, end - begin, "callee"), None, frame)
        for (begin, symbol), end in zip(facts.parts, ends, strict=True)
        if symbol
    ]


class _MachineWords(Struct, frozen=True, gc=False):
    """Those of one function."""

    counts: Counts
    callees: list[Counts]
    stretch: Code
    """Its instructions, among others."""
    opcodes: Table


def _counted(functions: Iterable[_Code], opcodes: Table, number: int) -> Iterator[_MachineWords]:
    for neighbours in decode.stretches(functions, opcodes):
        stretch = decode.code_of_stretch([each.code for each in neighbours], opcodes, number)
        windows = [window for each in neighbours for window in (each.code, *(callee.code for callee in each.callees))]
        counts = decode.of_stretch(windows, stretch, opcodes)
        for each in neighbours:
            yield _MachineWords(next(counts), list(islice(counts, len(each.callees))), stretch, opcodes)


def _figures(facts: Facts, code: _Code, words: _MachineWords | None) -> Iterator[tuple[str, Figures]]:
    """See :data:`Seen`."""
    role, local, shared = facts.role, None, None
    spilled: Pair = (None, None)
    together: Pair = (None, None)
    roles: tuple[WarpRole, ...] = ()
    whole, named = code
    counted, callees = (words.counts, named) if words else (None, [])
    if words and counted:
        spills = facts.spills
        shared = None if spills is None else 0
        spilled = 0, 0
        if callees:
            together = 0, 0
        if spills or counted.local or counted.settings:
            decoded = Decoded(whole, words.stretch, words.opcodes, facts.number)
        if spills:
            shared = decoded.shared_among(spills)
        if counted.local or counted.settings:
            seen = decoded.analysis(role, counted, parts=tuple(begin for begin, _ in facts.parts), spills=spills)
            roles = seen.roles() if counted.settings else ()
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
    references = facts.references
    own = Figures(
        role,
        facts.final,
        Resources(
            facts.registers,
            facts.frame_bytes,
            facts.stack_bytes,
            *spilled,
            *together,
            facts.local_bytes,
            facts.shared_bytes,
            facts.constant_bytes,
            facts.barriers,
            references and references.textures,
            references and references.surfaces,
            references and references.samplers,
        ),
        facts.bounds,
        False if counted and facts.dynamic_shared and not counted.may_share else facts.dynamic_shared,
        counted,
        counted.code_bytes if counted else whole.size,
        shared,
        local,
        roles=roles,
        digest=facts.digest or digest_of_code(whole),
        lost_setting=bool(counted and facts.sets_registers and not counted.settings),
    )
    yield "", own
    for each, held in zip(callees, words.callees if words else (), strict=True):
        stores, loads = _spilled(each.local, "function")
        figures = Figures(
            role="function",
            final=None,
            resources=replace(_UNKNOWN, stack_bytes=each.frame_bytes, spill_store_bytes=stores, spill_load_bytes=loads),
            bounds=None,
            dynamic_shared=None,
            counts=held,
            code_bytes=each.code.size,
            shared_spills=None,
            local=each.local,
        )
        yield each.symbol, figures


def _annotated(cubin: Cubin, info: FunctionInfo) -> tuple[int, ...] | None:
    """Offsets of spills; ``None`` where its toolkit does not write them."""
    if info.spills is not None:
        return info.spills
    if info.toolkit is not None:
        return () if (info.toolkit // 10, info.toolkit % 10) >= FIRST_WITH_ANNOTATIONS else None
    return () if cubin.toolkit.version[:2] >= FIRST_WITH_ANNOTATIONS else None


def _spilled(local: LocalTraffic | None, role: Role) -> Pair:
    """The stored and loaded bytes that ptxas printed: known where it annotated them."""
    if local is None or local.evidence == "none":
        return 0, 0
    traffic = local.spills(role) if local.evidence == "annotation" else None
    return (None, None) if traffic is None else traffic.pair


_Dimensions = tuple[int, int, int] | None


@lru_cache(maxsize=1024)
def _bounds(most: _Dimensions, required: _Dimensions, cluster: _Dimensions) -> LaunchBounds | None:
    """What attributes say of a launch; ``None`` where that is nothing. Equal ones are one."""
    if not (most or required or cluster):
        return None
    return LaunchBounds(
        max_threads=_product(most, 1024),
        required_threads=_product(required, 1024),
        cluster_blocks=_product(cluster, LARGEST_CLUSTER),
    )


LARGEST_CLUSTER = 16
"""Blocks: more than any device takes are none."""


def _product(dimensions: _Dimensions, most: int) -> int | None:
    """Threads of a block, blocks of a cluster; ``None`` where the bounds make none."""
    if dimensions is None:
        return None
    x, y, z = dimensions
    return x * y * z if 0 < x * y * z <= most else None
