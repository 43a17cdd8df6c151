"""Kernels and device functions whose lines stand together, and messages of single kernels: one expression takes each
whole."""

from __future__ import annotations

import re
from itertools import count, repeat
from typing import NamedTuple

from msgspec.structs import replace

from spillscan.model import Kernel, KernelKey, Origin, Usage
from spillscan.reading import grammar
from spillscan.reading.logs.constant_banks import prints_constant_banks
from spillscan.reading.logs.messages import Note, Stack, Used
from spillscan.reading.logs.parsing import ANY_KERNEL, of_any_kernel, used_line
from spillscan.reading.logs.pending import shown_by
from spillscan.reading.logs.steps import Step

_MEMO_ENTRIES = 1 << 16

_STACK_FIELDS = ("STACK_BYTES", "SPILL_STORE_BYTES", "SPILL_LOAD_BYTES")
_FUNCTION_FIELDS = ("PROPERTIES_SYMBOL", *_STACK_FIELDS, "MILLISECONDS")
_KERNEL_FIELDS = ("ENTRY_SYMBOL", "ARCH", "resource_lines", "MILLISECONDS")
_NAMES_KERNEL = re.compile(rb"(ptxas (?:info|warning)[^'\n]*?(?:'| entry ))(\w++)((?:'| is )[^\n]*+\n)")
"""A line with one word where a kernel's name may stand: before it, the name, behind it."""
_RESOURCE_LINES = (("resource_lines", 2),)
_ONE_NAME = (("PROPERTIES_SYMBOL", "ENTRY_SYMBOL"),)
"""Where the properties are another's than those of the kernel, its lines do not stand together."""


class Kernels(NamedTuple):
    """Kernels of one arch, all of them with a compile time or none, one behind the other."""

    end: int
    """Where their lines end."""
    arch: str
    symbols: list[str]
    """Of each kernel."""
    usages: list[Usage]
    """Its figures; those of equal lines are one record."""
    times: list[bytes]
    """Its compile time in milliseconds as printed; empty without."""
    barriers: int
    """What their figures show together of the :class:`~spillscan.reading.logs.pending.Section`."""
    linked: bool
    """Whether they show relocatable code, likewise."""

    @property
    def lines(self) -> int:
        """Of each."""
        return 5 if self.times else 4

    def records(self, name: str, line: int, step: Step) -> list[Kernel]:
        """Of all, from ``line`` of the input ``name`` on, printed during ``step``."""
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
    """Device functions, one behind the other."""

    end: int
    """Where their lines end."""
    rows: list[tuple[str, Stack, bytes | None]]
    """(symbol, stack line, compile time as printed) of each."""


class Notes(NamedTuple):
    """Messages of single kernels, none of them an error, one behind the other."""

    end: int
    """Where their lines end."""
    rows: list[Note]
    """One a line."""


Block = Kernels | Functions | Notes

_Figures = tuple[Usage, str, int, bool]
"""Of a kernel's lines: its figures, its arch, and what :func:`shown_by` says of its ptxas run."""


class Blocks:
    """Finds them in the texts of one log."""

    def __init__(self) -> None:
        self._kernel_block = grammar.pattern("ptxas", "kernel_block", _RESOURCE_LINES, _ONE_NAME)
        self._kernel_fields = _groups(self._kernel_block, _KERNEL_FIELDS)
        self._resource_lines = grammar.pattern("ptxas", "resource_lines")
        self._function_block = grammar.pattern("ptxas", "function_block")
        self._function_fields = _groups(self._function_block, _FUNCTION_FIELDS)
        self._figures: dict[bytes, dict[bytes, _Figures]] = {}
        """By the arch and by the two lines."""
        self._parsed: dict[bytes, Used] = {}
        self._stacks: dict[tuple[bytes, ...], Stack] = {}
        self._said: dict[tuple[bytes, bytes], tuple[Note, str, str] | None] = {}
        """By what stands before a kernel's name and behind it."""
        self._ahead: re.Match[bytes] | None = None
        """A kernel of another arch, behind the last ones."""

    def next(self, text: bytes, position: int) -> Block | None:
        """What begins at ``position``; ``None``: nothing of these."""
        return self._kernels(text, position) or self._functions(text, position) or self._notes(text, position)

    def _kernels(self, text: bytes, position: int) -> Kernels | None:
        """Kernels that begin at ``position``; ``None``: none does.

        Most of what reading a log costs is spent here: what kernels share is read once for all of them.
        """
        block, match = self._kernel_block.match, self._ahead
        if match is None or match.string is not text or match.start() != position:
            match = block(text, position)
        self._ahead = None
        if match is None:
            return None
        size, fields = len(text), self._kernel_fields
        symbols: list[str] = []
        usages: list[Usage] = []
        times: list[bytes] = []
        known: dict[bytes, _Figures] = {}
        target, of_arch, untimed, barriers, linked = "", b"", False, 0, False
        while match is not None:
            symbol, arch, resources, time = match.group(*fields)
            end, name = match.end(), symbol.decode("utf-8", "replace")
            if " " in name or end == size:  # perhaps garbled; or the block may go on in the next text
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
            symbols.append(name)
            usages.append(usage)
            if not untimed:
                times.append(time)
            position = end
            match = block(text, position)
        return Kernels(position, target, symbols, usages, times, barriers, linked) if symbols else None

    def _whole(self, resources: bytes, arch: bytes, known: dict[bytes, _Figures]) -> _Figures | None:
        """The figures of a kernel's stack line and registers line, now ``known``. ``None`` where they are not whole."""
        match = self._resource_lines.fullmatch(resources)
        if match is None:
            return None
        used = resources[resources.index(b"\n") + 1 :]
        parsed = self._parsed.get(used)
        if parsed is None:
            parsed = self._parsed[used] = used_line(used)
        target, usage = arch.decode(), parsed.usage
        if parsed.cut or (usage.constant_bytes is None and prints_constant_banks(target)):
            return None
        if len(known) >= _MEMO_ENTRIES:
            known.clear()
            self._parsed.clear()
        frame, stores, loads = map(int, match.group(*_STACK_FIELDS))
        usage = replace(usage, stack_bytes=frame, spill_store_bytes=stores, spill_load_bytes=loads)
        found = known[resources] = usage, target, *shown_by(usage)
        return found

    def _functions(self, text: bytes, position: int) -> Functions | None:
        """The same of device functions."""
        block = self._function_block.match
        match = block(text, position)
        if match is None:
            return None
        size, fields, known = len(text), self._function_fields, self._stacks
        rows: list[tuple[str, Stack, bytes | None]] = []
        while match is not None:
            symbol, frame, stores, loads, time = match.group(*fields)
            end, name = match.end(), symbol.decode("utf-8", "replace")
            if " " in name or end == size:
                break
            stack = known.get((frame, stores, loads))
            if stack is None:
                if len(known) >= _MEMO_ENTRIES:
                    known.clear()
                stack = known[frame, stores, loads] = Stack(int(frame), int(stores), int(loads))
            rows.append((name, stack, time))
            position = end
            match = block(text, position)
        return Functions(position, rows) if rows else None

    def _notes(self, text: bytes, position: int) -> Notes | None:
        """The same of messages. What they say does not depend on the name, so that it is read once for all names."""
        match = _NAMES_KERNEL.match(text, position)
        if match is None:
            return None
        rows: list[Note] = []
        while match is not None:
            before, symbol, behind = match.groups()
            if (before, behind) not in self._said:
                if len(self._said) >= _MEMO_ENTRIES:
                    self._said.clear()
                note = of_any_kernel(before, behind)
                self._said[before, behind] = None if note is None else (note, *_split(note.advisory.text))
            said = self._said[before, behind]
            if said is None:
                break
            note, head, tail = said
            name = symbol.decode()
            rows.append(replace(note, symbol=name, advisory=replace(note.advisory, text=f"{head}{name}{tail}")))
            position = match.end()
            match = _NAMES_KERNEL.match(text, position)
        return Notes(position, rows) if rows else None


def _split(text: str) -> tuple[str, str]:
    """What stands before a kernel's name and behind it."""
    head, _, tail = text.partition(ANY_KERNEL)
    return head, tail


def _groups(pattern: re.Pattern[bytes], names: tuple[str, ...]) -> tuple[int, ...]:
    """The numbers of groups, which are found more quickly than their names."""
    return tuple(pattern.groupindex[name] for name in names)
