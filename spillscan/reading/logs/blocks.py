"""Kernels and device functions with consecutive lines, each matched whole by one expression."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from spillscan.model import Kernel, KernelKey, Origin, Usage
from spillscan.reading import grammar
from spillscan.reading.logs.kernels import prints_constant_banks, shown_by
from spillscan.reading.logs.messages import Stack, Used
from spillscan.reading.logs.parsing import ptxas_message
from spillscan.reading.logs.steps import Step

_MEMO_ENTRIES = 1 << 16

_KERNEL_FIELDS = ("PLAIN_SYMBOL", "ARCH", "RESOURCE_LINES", "MILLISECONDS")
_FUNCTION_FIELDS = ("PLAIN_SYMBOL", "STACK_BYTES", "SPILL_STORE_BYTES", "SPILL_LOAD_BYTES", "MILLISECONDS")


class Kernels(NamedTuple):
    """Consecutive kernels of one arch, either all with a compile time or none."""

    end: int
    """Position after their last line."""
    records: list[Kernel]
    """Records of the kernels; kernels with equal lines share their usage."""
    barriers: int
    """``barriers`` of the :class:`~spillscan.reading.logs.kernels.Section` that their values imply."""
    linked: bool
    """Whether their values imply relocatable code, for the same section."""

    @property
    def lines(self) -> int:
        """Number of their lines."""
        return len(self.records) * (4 if self.records[0].compile_ms is None else 5)


class Functions(NamedTuple):
    """Consecutive device functions."""

    end: int
    """Position after their last line."""
    rows: list[tuple[str, Stack, float | None]]
    """(symbol, stack line, compile time in milliseconds) of each function."""


_Values = tuple[Usage, str, int, bool]
"""Values of a kernel's lines, its arch, and the result of :func:`shown_by`."""


class Blocks:
    """Finds blocks of kernels and device functions in the texts of one log."""

    def __init__(self, input_name: str) -> None:
        self._input = input_name
        self._kernel = re.compile(grammar.kernel_block())
        self._kernel_fields = _groups(self._kernel, _KERNEL_FIELDS)
        self._function = grammar.pattern("ptxas", "function_block")
        self._function_fields = _groups(self._function, _FUNCTION_FIELDS)
        self._values: dict[bytes, dict[bytes, _Values]] = {}
        """Values by arch and by the stack and registers lines."""

    def match(self, text: bytes, position: int) -> re.Match[bytes] | None:
        """Lines of the kernel or device function at ``position``; ``None`` if none begins there, or if its lines may
        continue in the next text."""
        match = self._kernel.match(text, position) or self._function.match(text, position)
        return match if match is not None and match.end() < len(text) else None

    def read(self, match: re.Match[bytes], line: int, step: Step) -> Kernels | Functions | None:
        """The block that begins with ``match``, on ``line`` and printed during ``step``; ``None`` if its lines must be
        read one by one."""
        return self._kernels(match, line, step) if match.re is self._kernel else self._functions(match)

    def _kernels(self, first: re.Match[bytes], line: int, step: Step) -> Kernels | None:
        """Most of the time to read a log is spent here, so values that kernels share are parsed once for all of
        them."""
        match: re.Match[bytes] | None = first
        text, position = first.string, first.start()
        block, size, fields, name = self._kernel.match, len(text), self._kernel_fields, self._input
        of_arch, of_time = first["ARCH"], first["MILLISECONDS"] is None
        known = self._values.setdefault(of_arch, {})
        records: list[Kernel] = []
        barriers, linked = 0, False
        while match is not None:
            symbol, arch, resources, time = match.group(*fields)
            if match.end() == size or arch != of_arch or (time is None) != of_time:
                break
            values = known.get(resources) or self._whole(resources, arch, known)
            if values is None:
                break
            usage, target, shown, summed = values
            barriers, linked = barriers | shown, linked | summed
            records.append(
                Kernel(
                    key=KernelKey(symbol=symbol.decode(), arch=target, unit=step.unit),
                    role="entry",
                    usage=usage,
                    origins=(Origin(input=name, line=line),),
                    compile_ms=None if time is None else float(time),
                    source=step.source,
                )
            )
            line += 4 if time is None else 5
            position = match.end()
            match = block(text, position)
        return Kernels(position, records, barriers, linked) if records else None

    def _functions(self, first: re.Match[bytes]) -> Functions:
        match: re.Match[bytes] | None = first
        text, position = first.string, first.start()
        rows: list[tuple[str, Stack, float | None]] = []
        while match is not None and match.end() < len(text):
            symbol, frame, stores, loads, time = match.group(*self._function_fields)
            rows.append((symbol.decode(), _stack(frame, stores, loads), None if time is None else float(time)))
            position = match.end()
            match = self._function.match(text, position)
        return Functions(position, rows)

    def _whole(self, resources: bytes, arch: bytes, known: dict[bytes, _Values]) -> _Values | None:
        """Parse a kernel's stack and registers lines and add them to ``known``; ``None`` if they are incomplete."""
        stack, used = (ptxas_message(line) for line in resources.decode("utf-8", "replace").split("\n")[:2])
        if not (isinstance(stack, Stack) and isinstance(used, Used)):
            return None
        target, usage = arch.decode(), used.usage
        if used.cut or usage.spills is not None or (usage.constant_bytes is None and prints_constant_banks(target)):
            return None
        if len(known) >= _MEMO_ENTRIES:
            known.clear()
        usage = replace(
            usage,
            stack_bytes=stack.frame_bytes,
            spill_store_bytes=stack.spill_store_bytes,
            spill_load_bytes=stack.spill_load_bytes,
        )
        values = known[resources] = usage, target, *shown_by(usage)
        return values


@lru_cache(maxsize=_MEMO_ENTRIES)
def _stack(frame: bytes, stores: bytes, loads: bytes) -> Stack:
    """A stack line; equal lines share one record."""
    return Stack(int(frame), int(stores), int(loads))


def _groups(pattern: re.Pattern[bytes], names: tuple[str, ...]) -> tuple[int, ...]:
    """Numbers of named groups, which are faster to look up than names."""
    return tuple(pattern.groupindex[name] for name in names)
