"""What a file says of each function, in plain figures: small enough to be handed from one process to another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from spillscan.binary import counts
from spillscan.binary.attributes import FunctionInfo
from spillscan.binary.containers import Image
from spillscan.binary.counts import Counts
from spillscan.binary.cubin import Cubin, Function
from spillscan.binary.decode import Decoded
from spillscan.binary.limits import Limits
from spillscan.binary.table import Table, table
from spillscan.binary.window import DamageError
from spillscan.binary.words import Code
from spillscan.dumps.headers import Cubin as Member
from spillscan.model import Role
from spillscan.model.code import LocalTraffic, Maker

FIRST_WITH_ANNOTATIONS = (12, 6)
"""ptxas 12.6.20, the first 12.6 of all, writes the address of every spill into the cubin; 12.5.82 does not."""


class Resources(NamedTuple):
    """The fields of :class:`~spillscan.model.Usage` that a binary tells."""

    registers: int | None
    stack_bytes: int | None
    cumulative_stack_bytes: int | None
    spill_store_bytes: int | None
    spill_load_bytes: int | None
    local_bytes: int
    shared_bytes: int
    constant_bytes: tuple[tuple[int, int], ...]
    barriers: int
    textures: int | None
    surfaces: int | None
    samplers: int | None


class Figures(NamedTuple):
    """One function."""

    symbol: str
    arch: str
    """``sm_90a``, as its container says, else its cubin."""
    role: Role
    final: bool | None
    """``False``: the device linker still has to link it."""
    resources: Resources
    bounds: tuple[int | None, int | None] | None
    """Most and required threads per block; ``None`` without launch bounds."""
    counts: Counts | None
    """``None`` where no opcode table is for its architecture."""
    code_bytes: int
    """To the end of the last instruction, or of the section where none is known."""
    shared_spills: int | None
    """Annotated accesses to shared memory; ``None`` without annotations."""
    local: LocalTraffic | None
    """``None`` where it does not use local memory."""
    maker: Maker | None
    """What wrote its cubin, as far as that tells."""


class LostLines(NamedTuple):
    """A cubin's source lines cannot all be read."""

    what: str


Told = Figures | LostLines | DamageError
"""What is told of a cubin: its functions, and what is wrong with it."""


class Functions:
    """The functions of the cubins of one file, no more than it may hold."""

    def __init__(self, limits: Limits, input_bytes: int) -> None:
        self._left = limits.free_functions + input_bytes // limits.bytes_per_function

    def of(self, image: Image) -> Iterator[Told]:
        """All functions of one cubin; an error for each that cannot be read, or as the last for the rest of all."""
        try:
            cubin = Cubin(image.window)
            opcodes = table(cubin.number)
            arch = image.arch or cubin.arch
            found = self._bounded(cubin, image)
            for function, words in _counted(found, opcodes, cubin.number):
                try:
                    yield _figures(cubin, arch, function, words)
                except DamageError as error:
                    yield DamageError(f"{function.symbol}: {error.what}", error.offset)
            if cubin.lines.damage is not None:
                yield LostLines(cubin.lines.damage.what)
        except DamageError as error:
            yield error

    def _bounded(self, cubin: Cubin, image: Image) -> Iterator[Function]:
        for function in cubin.functions():
            self._left -= 1
            if self._left < 0:
                raise DamageError("more functions than so small a file can hold", image.offset)
            yield function


class _MachineWords(NamedTuple):
    """Those of one function."""

    counts: Counts
    stretch: Code
    """Its instructions, among others."""
    opcodes: Table


def _counted(
    functions: Iterator[Function], opcodes: Table | None, number: int
) -> Iterator[tuple[Function, _MachineWords | None]]:
    if opcodes is None:
        for function in functions:
            yield function, None
        return
    for neighbours in counts.stretches(functions, opcodes):
        windows = [function.code for function in neighbours]
        stretch = counts.code_of_stretch(windows, opcodes, number)
        for function, counted in zip(neighbours, counts.of_stretch(windows, stretch, opcodes), strict=True):
            yield function, _MachineWords(counted, stretch, opcodes)


def _figures(cubin: Cubin, arch: str, function: Function, words: _MachineWords | None) -> Figures:
    info = cubin.info_of(function)
    role, local, shared = function.role, None, None
    stored: int | None = None
    loaded: int | None = None
    counted = words.counts if words else None
    if words and counted:
        spills = _annotated(cubin, info)
        shared = None if spills is None else 0
        stored = loaded = 0
        if spills or counted.local:
            decoded = Decoded(function, words.stretch, words.opcodes, cubin.number)
            shared = None if spills is None else decoded.shared_among(spills)
        if counted.local:
            parts = cubin.parts_of(function)
            role, local = decoded.local(function, counted, Member(arch=arch), parts=parts, spills=spills)
            local = cubin.lines.attach(local, function.section)
            stored, loaded = _spilled(local, role)
    barriers, named = function.barriers, cubin.references.get(function.section)
    return Figures(
        function.symbol,
        arch,
        role,
        False if cubin.relocatable else None,
        Resources(
            function.registers,
            function.frame_bytes,
            function.stack_bytes,
            stored,
            loaded,
            function.local_bytes,
            function.shared_bytes,
            function.constant_bytes,
            (info.barriers or 0) if barriers is None else barriers,
            named and named.textures,
            named and named.surfaces,
            named and named.samplers,
        ),
        (_threads(info.max_threads), _threads(info.required_threads))
        if info.max_threads or info.required_threads
        else None,
        counted,
        counted.code_bytes if counted else function.code.size,
        shared,
        local,
        cubin.maker,
    )


def _annotated(cubin: Cubin, info: FunctionInfo) -> tuple[int, ...] | None:
    """Offsets of spills; ``None`` where its toolkit does not write them."""
    if info.spills is not None:
        return info.spills
    if info.toolkit is not None:
        return () if (info.toolkit // 10, info.toolkit % 10) >= FIRST_WITH_ANNOTATIONS else None
    return () if cubin.toolkit.version[:2] >= FIRST_WITH_ANNOTATIONS else None


def _spilled(local: LocalTraffic, role: Role) -> tuple[int | None, int | None]:
    """The stored and loaded bytes that ptxas printed: known where it annotated them."""
    if local.evidence != "annotation":
        return None, None
    traffic = local.frame if role == "function" and local.frame is not None else local.own_spill
    return traffic.store_bytes, traffic.load_bytes


def _threads(dimensions: tuple[int, int, int] | None) -> int | None:
    """Threads of a block; ``None`` where the bounds make no block."""
    if dimensions is None:
        return None
    x, y, z = dimensions
    return x * y * z if 0 < x * y * z <= 1024 else None
