"""Cubins as records: each function with its figures, and an issue for what keeps one from being read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath
from typing import NamedTuple

from spillscan.binary import decode
from spillscan.binary.attributes import FunctionInfo
from spillscan.binary.containers import Image, Place
from spillscan.binary.cubin import Cubin, Function
from spillscan.binary.limits import Limits
from spillscan.binary.table import Table, table
from spillscan.binary.window import DamageError
from spillscan.model import Issue, LaunchBounds, Origin, Severity, Usage
from spillscan.sass.headers import Cubin as Member
from spillscan.sass.model import SassFunction, SassStats

FORMAT = "binary"
FIRST_WITH_ANNOTATIONS = (12, 6)
"""ptxas 12.6.20, the first 12.6 of all, writes the address of every spill into the cubin; 12.5.82 does not."""
_OBJECTS = (".o", ".obj")
"""Files that are the output of one compilation, which is what a log's unit names, too."""
_MANY = 20
"""Issues of damage that are kept for one file; the rest is counted."""


class Tally(NamedTuple):
    """What is told at a file's end."""

    damages: int
    unknown_archs: Counter[str]
    """Functions."""
    unknown_codes: Counter[str]
    """Instructions by arch."""
    damaged_lines: Counter[str]
    """Cubins by what is wrong with their source lines."""


class Records:
    """The records of one file."""

    def __init__(self, name: str, limits: Limits, input_bytes: int) -> None:
        self._input = name
        self._unit = PurePath(name).name if name.endswith(_OBJECTS) else ""
        self._functions_left = limits.free_functions + input_bytes // limits.bytes_per_function
        self._damages = 0
        self._unknown_archs: Counter[str] = Counter()
        self._unknown_codes: Counter[str] = Counter()
        self._damaged_lines: Counter[str] = Counter()
        self._shown = 0

    def of(self, image: Image, number: int) -> Iterator[SassFunction | Issue]:
        """All functions of one cubin; ``number`` is its place in the file."""
        try:
            cubin = Cubin(image.window)
            arch = image.arch or cubin.arch
            opcodes = table(cubin.number)
            place = image.place
            member = Member(number, arch, place.identifier or (place.members[-1] if place.members else self._unit))
            origin = Origin(input=self._input, line=None, format=FORMAT)
            for function in cubin.functions():
                self._functions_left -= 1
                if self._functions_left < 0:
                    raise DamageError("more functions than so small a file can hold", image.offset)
                try:
                    yield self._function(cubin, function, opcodes, member, origin)
                except DamageError as error:
                    yield self.damage(error, place, f"{function.symbol}: ")
            if cubin.lines.damage is not None:
                self._damaged_lines[cubin.lines.damage.what] += 1
        except DamageError as error:
            yield self.damage(error, image.place)

    @property
    def tally(self) -> Tally:
        """What was counted so far."""
        return Tally(self._damages, self._unknown_archs, self._unknown_codes, self._damaged_lines)

    def add(self, other: Tally) -> None:
        """Count what another process counted."""
        self._damages += other.damages
        self._unknown_archs += other.unknown_archs
        self._unknown_codes += other.unknown_codes
        self._damaged_lines += other.damaged_lines

    def worth(self, item: SassFunction | Issue) -> bool:
        """Whether it is told: every function, and the first issues of damage."""
        if isinstance(item, SassFunction):
            return True
        self._shown += 1
        return self._shown <= _MANY

    def rest(self) -> Iterator[Issue]:
        """What is only counted while the file is read."""
        for arch, count in _first(self._unknown_archs):
            message = f"no opcode table for {arch}: {count} functions without instruction counts and spills"
            message += "; `cuobjdump -sass FILE | spillscan scan -` counts them"
            yield self._issue("unknown-arch", message, "warning")
        for arch, count in _first(self._unknown_codes):
            yield self._issue("unknown-opcode", f"{count} instructions of {arch} are in no opcode table", "note")
        for what, count in _first(self._damaged_lines):
            yield self._issue("damaged-lines", f"{what}: {count} cubins without all their source lines", "warning")
        if self._damages > _MANY:
            yield self._issue("damaged", f"{self._damages} places are damaged; {_MANY} are shown", "error")

    def damage(self, error: DamageError, place: Place, before: str = "") -> Issue:
        """An issue for something that cannot be read."""
        self._damages += 1
        where = f"{place}: " if place.members else ""
        return self._issue("damaged", f"{where}{before}{error}", "error")

    def _issue(self, code: str, message: str, severity: Severity) -> Issue:
        shown = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in message)
        origin = Origin(input=self._input, format=FORMAT)
        return Issue(code=code, message=shown[:500], severity=severity, origin=origin)

    def _function(
        self, cubin: Cubin, function: Function, opcodes: Table | None, member: Member, origin: Origin
    ) -> SassFunction:
        if opcodes is None:
            self._unknown_archs[cubin.arch] += 1
            stats = SassStats(
                instructions=0,
                code_bytes=function.code.size,
                opcodes=(),
                registers=function.registers,
                origin=origin,
            )
            record = SassFunction(
                symbol=function.symbol,
                arch=member.arch,
                role=function.role,
                member=member.member,
                identifier=member.identifier,
                stats=stats,
            )
            return _completed(record, cubin, function, cubin.info_of(function, thorough=False), None)
        code = decode.Decoded(decode.code_of(function.code, opcodes, cubin.number), opcodes)
        local = code.local
        info = cubin.info_of(function, thorough=bool(local))
        if code.unknown:
            self._unknown_codes[member.arch or ""] += code.unknown
        parts = cubin.parts_of(function) if local else ()
        record = code.record(function, member, origin, parts=parts, spills=_annotated(cubin, info))
        if local:
            record = cubin.lines.attach(record, function.section)
        return _completed(record, cubin, function, info, _counted(record))


def _first(counts: Counter[str]) -> Iterator[tuple[str, int]]:
    """The counts by name; of more than are shown, the last stands for all the others."""
    ranked = sorted(counts.items())
    yield from ranked[:_MANY]
    if rest := ranked[_MANY:]:
        yield f"{len(rest)} others", sum(count for _, count in rest)


def _annotated(cubin: Cubin, info: FunctionInfo) -> tuple[int, ...] | None:
    """Offsets of spills; ``None`` where its toolkit does not write them."""
    if info.spills is not None:
        return info.spills
    if info.toolkit is not None:
        return () if (info.toolkit // 10, info.toolkit % 10) >= FIRST_WITH_ANNOTATIONS else None
    return () if cubin.toolkit.version[:2] >= FIRST_WITH_ANNOTATIONS else None


def _completed(
    record: SassFunction, cubin: Cubin, function: Function, info: FunctionInfo, spills: tuple[int, int] | None
) -> SassFunction:
    """The record with what sections and attributes say; ``spills``: stored and loaded bytes, where they are known."""
    barriers = function.barriers
    if barriers is None:
        barriers = info.barriers or 0
    bounds = None
    if info.max_threads or info.required_threads:
        bounds = LaunchBounds(max_threads=_threads(info.max_threads), required_threads=_threads(info.required_threads))
    named = cubin.references.get(function.section)
    usage = Usage(
        registers=function.registers,
        stack_bytes=function.frame_bytes,
        cumulative_stack_bytes=function.stack_bytes,
        spill_store_bytes=spills[0] if spills else None,
        spill_load_bytes=spills[1] if spills else None,
        local_bytes=function.local_bytes,
        shared_bytes=function.shared_bytes,
        constant_bytes=function.constant_bytes,
        barriers=barriers,
        textures=named and named.textures,
        surfaces=named and named.surfaces,
        samplers=named and named.samplers,
    )
    stats = replace(record.stats, maker=cubin.maker)
    return replace(record, stats=stats, usage=usage, launch_bounds=bounds, final=False if cubin.relocatable else None)


def _counted(record: SassFunction) -> tuple[int, int] | None:
    """The bytes that ptxas printed: known where it annotated them, or there is no local memory at all."""
    local = record.stats.local
    if local.evidence == "none":
        return 0, 0
    if local.evidence != "annotation":
        return None
    traffic = local.frame if record.role == "function" and local.frame is not None else local.own_spill
    return traffic.store_bytes, traffic.load_bytes


def _threads(dimensions: tuple[int, int, int] | None) -> int | None:
    """Threads of a block; ``None`` where the bounds make no block."""
    if dimensions is None:
        return None
    x, y, z = dimensions
    return x * y * z if 0 < x * y * z <= 1024 else None
