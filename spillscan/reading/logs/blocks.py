"""Kernels and device functions with consecutive lines, each matched whole by one expression."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import count, repeat
from typing import NamedTuple

from msgspec.structs import replace

from spillscan.model import Kernel, KernelKey, Origin, Usage
from spillscan.reading import grammar
from spillscan.reading.logs.archs import prints_constant_banks
from spillscan.reading.logs.messages import Stack, Used
from spillscan.reading.logs.parsing import ptxas_message
from spillscan.reading.logs.pending import shown_by
from spillscan.reading.logs.steps import Step

_MEMO_ENTRIES = 1 << 16

_KERNEL_FIELDS = ("PLAIN_SYMBOL", "ARCH", "RESOURCE_LINES", "MILLISECONDS")
_FUNCTION_FIELDS = ("PLAIN_SYMBOL", "STACK_BYTES", "SPILL_STORE_BYTES", "SPILL_LOAD_BYTES", "MILLISECONDS")


class Kernels(NamedTuple):
    """Consecutive kernels of one arch, either all with a compile time or none."""

    end: int
    """Position after their last line."""
    arch: str
    symbols: list[str]
    """Symbol of each kernel."""
    usages: list[Usage]
    """Values of each kernel; kernels with equal lines share one record."""
    times: list[bytes]
    """Compile time of each kernel in milliseconds, as printed; empty without compile times."""
    barriers: int
    """``barriers`` of the :class:`~spillscan.reading.logs.pending.Section` that their values imply."""
    linked: bool
    """Whether their values imply relocatable code, for the same section."""

    @property
    def lines(self) -> int:
        """Lines per kernel."""
        return 5 if self.times else 4

    def records(self, name: str, line: int, step: Step) -> list[Kernel]:
        """Records of all kernels, printed during ``step`` from ``line`` of the input ``name`` on."""
        times = map(float, self.times) if self.times else repeat(None)
        arch, unit, source = self.arch, step.unit, step.source
        return [
            Kernel(
                key=KernelKey(symbol=symbol, arch=arch, unit=unit),
                role="entry",
                usage=usage,
                origins=(Origin(input=name, line=at),),
                compile_ms=time,
                source=source,
            )
            for symbol, usage, time, at in zip(self.symbols, self.usages, times, count(line, self.lines))
        ]


class Functions(NamedTuple):
    """Consecutive device functions."""

    end: int
    """Position after their last line."""
    rows: list[tuple[str, Stack, float | None]]
    """(symbol, stack line, compile time in milliseconds) of each function."""


_Figures = tuple[Usage, str, int, bool]
"""Values of a kernel's lines, its arch, and the result of :func:`shown_by`."""


class Blocks:
    """Finds blocks of kernels in the texts of one log."""

    def __init__(self) -> None:
        self._block = re.compile(grammar.kernel_block())
        self._fields = _groups(self._block, _KERNEL_FIELDS)
        self._function = grammar.pattern("ptxas", "function_block")
        self._function_fields = _groups(self._function, _FUNCTION_FIELDS)
        self._figures: dict[bytes, dict[bytes, _Figures]] = {}
        """Values by arch and by the stack and registers lines."""
        self._ahead: re.Match[bytes] | None = None
        """Match of the next kernel, if it ended the last block because its arch differs."""

    def kernels(self, text: bytes, position: int) -> Kernels | None:
        """Kernels that begin at ``position``; ``None`` if none does.

        Most of the time to read a log is spent here, so values that kernels share are parsed once for all of them.
        """
        block, match = self._block.match, self._ahead
        if match is None or match.string is not text or match.start() != position:
            match = block(text, position)
        self._ahead = None
        if match is None:
            return None
        size, fields = len(text), self._fields
        symbols: list[str] = []
        usages: list[Usage] = []
        times: list[bytes] = []
        known: dict[bytes, _Figures] = {}
        target, of_arch, untimed, barriers, linked = "", b"", False, 0, False
        while match is not None:
            symbol, arch, resources, time = match.group(*fields)
            end = match.end()
            if end == size:  # the block may go on in the next text
                break
            if arch != of_arch:
                if symbols:
                    self._ahead = match
                    break
                of_arch, known = arch, self._figures.setdefault(arch, {})
            figures = known.get(resources) or self._whole(resources, arch, known)
            if figures is None:
                break
            if not symbols:
                untimed = time is None
            elif (time is None) != untimed:
                break
            usage, target, shown, summed = figures
            barriers, linked = barriers | shown, linked | summed
            symbols.append(symbol.decode())
            usages.append(usage)
            if not untimed:
                times.append(time)
            position = end
            match = block(text, position)
        return Kernels(position, target, symbols, usages, times, barriers, linked) if symbols else None

    def functions(self, text: bytes, position: int) -> Functions | None:
        """Device functions that begin at ``position``; ``None`` if none does."""
        rows: list[tuple[str, Stack, float | None]] = []
        while (match := self._function.match(text, position)) is not None and match.end() < len(text):
            symbol, frame, stores, loads, time = match.group(*self._function_fields)
            stack = _stack(frame, stores, loads)
            rows.append((symbol.decode(), stack, None if time is None else float(time)))
            position = match.end()
        return Functions(position, rows) if rows else None

    def _whole(self, resources: bytes, arch: bytes, known: dict[bytes, _Figures]) -> _Figures | None:
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
        found = known[resources] = usage, target, *shown_by(usage)
        return found


@lru_cache(maxsize=_MEMO_ENTRIES)
def _stack(frame: bytes, stores: bytes, loads: bytes) -> Stack:
    """A stack line; equal lines share one record."""
    return Stack(int(frame), int(stores), int(loads))


def _groups(pattern: re.Pattern[bytes], names: tuple[str, ...]) -> tuple[int, ...]:
    """Numbers of named groups, which are faster to look up than names."""
    return tuple(pattern.groupindex[name] for name in names)
