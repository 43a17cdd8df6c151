"""Regular reports, found by two expressions: all lines of a kernel, and the lines that ptxas writes at once.

A kernel's lines are consecutive unless several compilers write.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from spillscan.model import Kernel, KernelKey, Origin, Usage
from spillscan.reading import grammar
from spillscan.reading.logs.kernels import prints_constant_banks, with_stack
from spillscan.reading.logs.messages import CompileTime, EntryLine, Message, Properties, Stack, Used
from spillscan.reading.logs.parsing import ptxas_message
from spillscan.reading.logs.steps import Step

_MEMO_ENTRIES = 1 << 16

_KERNEL_FIELDS = ("plain_symbol", "arch", "resource_lines", "milliseconds")
_ENTRY_FIELDS = ("kernel_name", "arch")
_FUNCTION_FIELDS = ("function_name", "stack_bytes", "spill_store_bytes", "spill_load_bytes")


class Kernels(NamedTuple):
    """Consecutive kernels of one arch, either all with a compile time or none."""

    end: int
    """Position after their last line."""
    lines: int
    """Number of their lines."""
    records: list[Kernel]
    """Records of the kernels; kernels with equal lines share their usage."""


class Blocks:
    """Finds regular reports in the texts of one log."""

    def __init__(self, input_name: str) -> None:
        self._input = input_name
        self._kernel = re.compile(grammar.kernel_block())
        self._kernel_fields = tuple(self._kernel.groupindex[name] for name in _KERNEL_FIELDS)  # faster than names
        self._written = grammar.line("written", "ptxas")
        self._usages: dict[bytes, dict[bytes, Usage]] = {}
        """By arch and by the stack and registers lines."""

    def kernels(self, text: bytes, position: int, line: int, step: Step) -> Kernels | None:
        """Kernels from ``position``, on ``line`` and printed during ``step``; ``None`` if there is no regular one.

        Most of the time to read a log is spent here, so values that kernels share are parsed once for all of them.
        """
        first = match = self._kernel.match(text, position)
        if first is None:
            return None
        block, size, fields, name = self._kernel.match, len(text), self._kernel_fields, self._input
        of_arch, of_time = first["arch"], first["milliseconds"] is None
        known, target = self._usages.setdefault(of_arch, {}), of_arch.decode()
        records: list[Kernel] = []
        lines = 4 if of_time else 5
        while match is not None:
            symbol, arch, resources, time = match.group(*fields)
            if match.end() == size or arch != of_arch or (time is None) != of_time:
                break
            usage = known.get(resources) or self._usage(resources, target, known)
            if usage is None:
                break
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
            line += lines
            position = match.end()
            match = block(text, position)
        return Kernels(position, lines * len(records), records) if records else None

    def _usage(self, resources: bytes, arch: str, known: dict[bytes, Usage]) -> Usage | None:
        """Parse a kernel's stack and registers lines and add them to ``known``; ``None`` if they are incomplete."""
        stack, used = (ptxas_message(line) for line in resources.decode("utf-8", "replace").split("\n")[:2])
        if not (isinstance(stack, Stack) and isinstance(used, Used)):
            return None
        usage = used.usage
        if used.cut or usage.spills is not None or (usage.constant_bytes is None and prints_constant_banks(arch)):
            return None
        if len(known) >= _MEMO_ENTRIES:
            known.clear()
        usage = known[resources] = with_stack(usage, stack)
        return usage

    def written(self, text: bytes, position: int) -> tuple[int, Sequence[Message], str]:
        """Lines that ptxas wrote at once at ``position``: (position after them, a message per line, the text of a
        registers line). No messages if they are irregular, or may continue in the next text."""
        match = self._written.match(text, position)
        if match is None or match.end() == len(text):
            return position, (), ""
        end, kind = match.end(), match.lastgroup
        if kind == "arch":
            symbol, arch = match.group(*_ENTRY_FIELDS)
            return end, (EntryLine(symbol.decode(), arch.decode()),), ""
        if kind == "milliseconds":
            return end, (CompileTime(float(match[kind])),), ""
        if kind == "used":
            line, message = _used(match[0])
            return (end, (message,), line) if message else (position, (), "")
        name, frame, stores, loads = match.group(*_FUNCTION_FIELDS)
        return end, (Properties(name.decode()), Stack(int(frame), int(stores), int(loads))), ""


@lru_cache(maxsize=_MEMO_ENTRIES)
def _used(raw: bytes) -> tuple[str, Used | None]:
    """Text and message of a registers line; no message if it is irregular."""
    line = raw[:-1].decode("utf-8", "replace")
    message = ptxas_message(line)
    return line, message if isinstance(message, Used) and not message.cut else None
