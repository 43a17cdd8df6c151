"""Kernels and device functions whose lines stand together, and messages of single kernels: one expression takes each
whole.

What stands at a place depends on the text alone. So another process may look through a large log ahead of the one that
follows its state: who wrote, what is open, which build step it is.
"""

from __future__ import annotations

import io
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from msgspec.structs import replace

from spillscan.model import Usage
from spillscan.reading import grammar
from spillscan.reading.inputs.source import BLOCK_BYTES, Part, Stream
from spillscan.reading.logs.interleaved import prints_constant_banks
from spillscan.reading.logs.messages import ANY_KERNEL, Note, Stack, Used, of_any_kernel, used_line
from spillscan.reading.logs.records import shown_by

LEAST_BYTES = 8 << 20
"""Of a log that another process looks through: below, it costs more than it saves."""
_TURN = 5
"""Of so many texts the first is left to the process that follows the log's state: it has less to do."""
_MEMO_ENTRIES = 1 << 16

_STACK_FIELDS = ("STACK_BYTES", "SPILL_STORE_BYTES", "SPILL_LOAD_BYTES")
_FUNCTION_FIELDS = ("PROPERTIES_SYMBOL", *_STACK_FIELDS, "MILLISECONDS")
_KERNEL_FIELDS = ("ENTRY_SYMBOL", "ARCH", "resource_lines", "MILLISECONDS")
_NAMES_KERNEL = re.compile(rb"(ptxas (?:info|warning)[^'\r\n]*?(?:'| entry ))(\w++)((?:'| is )[^\r\n]*+\n)")
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
    """What their figures show together of the :class:`~spillscan.reading.logs.records.Section`."""
    linked: bool
    """The same."""


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
Found = Mapping[int, Block]
"""By the places of a text at which they begin; what begins elsewhere may be missing."""

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

    def next(self, text: bytes, position: int) -> Block | None:
        """What begins at ``position``; ``None``: nothing of these."""
        return self._kernels(text, position) or self._functions(text, position) or self._notes(text, position)

    def _kernels(self, text: bytes, position: int) -> Kernels | None:
        """Kernels that begin at ``position``; ``None``: none does.

        Most of what reading a log costs is spent here: what kernels share is read once for all of them.
        """
        block = self._kernel_block.match
        match = block(text, position)
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

    def all(self, text: bytes) -> dict[int, Block]:
        """All that begin where the text does, where others end, or behind a line of another kind."""
        every: dict[int, Block] = {}
        position = 0
        while position >= 0:
            found = self.next(text, position)
            if found is None:
                position = text.find(b"\nptxas", position) + 1 or -1
            else:
                every[position] = found
                position = found.end
        return every


def _split(text: str) -> tuple[str, str]:
    """What stands before a kernel's name and behind it."""
    head, _, tail = text.partition(ANY_KERNEL)
    return head, tail


def _groups(pattern: re.Pattern[bytes], names: tuple[str, ...]) -> tuple[int, ...]:
    """The numbers of groups, which are found more quickly than their names."""
    return tuple(pattern.groupindex[name] for name in names)


# ---- another process ------------------------------------------------------------------------------------------------

_Heads = tuple[str, bool, int, bool]
"""Of kernels: the arch, whether they have compile times, and what their figures show (``barriers``, ``linked``)."""
_Sent = tuple[bool, list[Usage | Stack], list[tuple[int, int, int, _Heads | Notes | None]], str, "array[int]", bytes]
"""See :meth:`_Post.packed`."""
_NOTHING: tuple[int, Found] = (0, {})


def texts(stream: Stream, name: str) -> Iterator[tuple[bytes, Found]]:
    """Each text of whole lines in turn, with what another process has found in it, where that pays. Raises
    :class:`~spillscan.SpillscanError` where the process dies."""
    plain = stream.plain_file()
    if plain is None or plain.end < LEAST_BYTES:
        yield from ((text, {}) for text in stream.lines())
        return
    from xxhash import xxh3_64_intdigest

    from spillscan.reading import workers

    again = Stream(io.BufferedReader(Part(plain), BLOCK_BYTES), name)
    parts = [_sent(again)] if workers.POSSIBLE and workers.processors() > 1 else []
    with workers.Workers(parts, f"{name} was not read", fewer=True) as running:
        found = _received(running[0].items()) if running else iter(())
        for number, text in enumerate(stream.lines()):
            digest, ahead = next(found, _NOTHING) if number % _TURN else _NOTHING
            # A log may be written to while it is read.
            yield text, ahead if ahead and digest == xxh3_64_intdigest(text) else {}


def _sent(stream: Stream) -> Iterator[tuple[int, _Sent]]:
    from xxhash import xxh3_64_intdigest

    blocks, post = Blocks(), _Post()
    for number, text in enumerate(stream.lines()):
        if number % _TURN:
            yield xxh3_64_intdigest(text), post.packed(blocks.all(text))


def _received(sent: Iterable[tuple[int, _Sent]]) -> Iterator[tuple[int, Found]]:
    post = _Post()
    for digest, packed in sent:
        yield digest, post.unpacked(packed)


class _Post:
    """How what was found in a text goes from one process to the other: names and times of all kernels and functions in
    one text each, and numbers in place of figures, of which each goes once. There is one on each side."""

    def __init__(self) -> None:
        from spillscan.reading import workers

        self._figures: workers.Numbers[Any] = workers.Numbers()
        """Of kernels and functions: usages, stack lines."""

    def packed(self, every: Found) -> _Sent:
        """Whether figures are numbered anew; those that were not sent yet; of each block where it begins and ends, how
        many it holds, and what they share; of all that they hold names, numbers of figures, and times."""
        if anew := len(self._figures) > _MEMO_ENTRIES:
            self._figures.clear()
        rows: list[tuple[int, int, int, _Heads | Notes | None]] = []
        names: list[str] = []
        figures: list[Usage | Stack] = []
        times: list[bytes] = []
        for at, each in every.items():
            match each:
                case Kernels(end, arch, symbols, usages, printed, barriers, linked):
                    rows.append((at, end, len(symbols), (arch, bool(printed), barriers, linked)))
                    names += symbols
                    figures += usages
                    times += printed
                case Functions(end, functions):
                    rows.append((at, end, len(functions), None))
                    for symbol, stack, time in functions:
                        names.append(symbol)
                        figures.append(stack)
                        times.append(time or b"")
                case Notes():
                    rows.append((at, each.end, 0, each))
        places, fresh = self._figures.of(figures)
        return anew, fresh, rows, "\n".join(names), array("I", places), b"\n".join(times)

    def unpacked(self, sent: _Sent) -> Found:
        """What was found."""
        anew, fresh, rows, names, places, times = sent
        if anew:
            self._figures.clear()
        symbols, printed = iter(names.split("\n")), iter(times.split(b"\n"))
        figures = self._figures.records(places, fresh)
        found: dict[int, Block] = {}
        for at, end, count, what in rows:
            if isinstance(what, Notes):
                found[at] = what
                continue
            named, counted = [*islice(symbols, count)], [*islice(figures, count)]
            if what is None:
                each_time = (time or None for time in islice(printed, count))
                found[at] = Functions(end, [*zip(named, counted, each_time, strict=True)])
            else:
                arch, timed, barriers, linked = what
                own = [*islice(printed, count if timed else 0)]
                found[at] = Kernels(end, arch, named, counted, own, barriers, linked)
        return found
