"""What becomes of one writer's log: its account, and its records, in the making until the log has ended.

The account says what was not understood, what is missing, and which lines are in doubt; every hole of a log follows
from it. Damage that shows itself in one place was done around it, too: whoever tears lines writes in blocks, and pipes
hold no more than 64 KiB, some thousand lines.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from spillscan.model import Advisory, Hidden, Issue, Kernel, KernelKey, Origin, Role, Severity, Usage
from spillscan.reading.logs.messages import Note, Stack
from spillscan.reading.logs.steps import NO_STEP, Step

MOST_OF_A_CODE = 1000
"""How many issues of one code are kept; the rest is counted."""

NEIGHBOURHOOD_LINES = 1000
"""How far from a torn line nothing is certain."""

FIGURES: tuple[Hidden, ...] = ("registers", "stack", "shared")
ALL: tuple[Hidden, ...] = ("kernels", "spills", *FIGURES)

LONGEST_QUOTE = 160
_DIGITS = re.compile(r"\d+")
_COUNTED = ("unknown-line", "unattached-advisory", "unattached-setmaxnreg")


def quoted(text: str) -> str:
    """A line of the log in a message."""
    text = text.strip()
    return f"{text[:LONGEST_QUOTE]} …" if len(text) > LONGEST_QUOTE else text


class Account:
    """Issues of one writer; of those that differ in numbers only, the first and a count; of very many, their number."""

    def __init__(self, input_name: str) -> None:
        self._input = input_name
        self._found: dict[tuple[str, str], tuple[Issue, int]] = {}
        self._of_code: Counter[str] = Counter()
        self._left_out: dict[str, tuple[Issue, int]] = {}
        self._torn: list[int] = []
        self._lost: list[int] = []

    def add(
        self,
        code: str,
        message: str,
        line: int,
        severity: Severity = "warning",
        *,
        hides: tuple[Hidden, ...] | None = None,
        symbol: str = "",
    ) -> None:
        """One more issue, seen on ``line``."""
        pattern = _DIGITS.sub("0", message) if code in _COUNTED else f"{line} {message}"
        issue, count = self._found.get((code, pattern), (None, 0))
        if issue is None:
            origin = Origin(input=self._input, line=line)
            issue = Issue(code=code, message=message, severity=severity, origin=origin, hides=hides, symbol=symbol)
            self._of_code[code] += 1
            if self._of_code[code] > MOST_OF_A_CODE:
                first, left_out = self._left_out.get(code, (issue, 0))
                self._left_out[code] = (first, left_out + 1)
                return
        self._found[code, pattern] = (issue, count + 1)

    def torn(self, message: str, line: int, *, hides: tuple[Hidden, ...] | None = None) -> None:
        """A line of which only pieces are there: what stands around it is in doubt."""
        self.add("torn-line", message, line, "error", hides=hides)
        self._torn.append(line)

    def lost(self, message: str, line: int, *, hides: tuple[Hidden, ...] | None = None, symbol: str = "") -> None:
        """Lines are missing at ``line``."""
        self.add("lost-lines", message, line, "error", hides=hides, symbol=symbol)
        self.disturbed(line)

    def disturbed(self, line: int) -> None:
        """Lines are missing around ``line``, and an issue says so."""
        self._lost.append(line)

    @property
    def complete(self) -> bool:
        """Every line that must be there is there, and whole."""
        return not (self._torn or self._lost)

    def doubts(self, *, interleaved: bool) -> Doubts:
        """The lines that are in doubt. Where several write at once, a lost line may be any writer's."""
        return Doubts(sorted(self._torn + (self._lost if interleaved else [])))

    def issues(self) -> list[Issue]:
        """The issues in the order in which they were first seen."""
        kept = [
            issue if count == 1 else replace(issue, message=f"{issue.message} ({count} times)")
            for issue, count in self._found.values()
        ]
        return kept + [
            replace(issue, message=f"{count} more like this: {issue.message}")
            for issue, count in self._left_out.values()
        ]


class Doubts:
    """Lines around which nothing is certain."""

    def __init__(self, lines: list[int]) -> None:
        self._lines = lines

    def __bool__(self) -> bool:
        return bool(self._lines)

    def __contains__(self, line: int) -> bool:
        at = bisect_left(self._lines, line - NEIGHBOURHOOD_LINES)
        return at < len(self._lines) and self._lines[at] <= line + NEIGHBOURHOOD_LINES


Suspicion = Literal["foreign", "misplaced", "bare", "nameless", "unindented"]
"""Another's properties stand between its stack and its registers; they are those of another; it has no stack line; its
stack line has no properties before it; its stack line is not indented."""


class Section(Struct, eq=False):
    """What one ptxas run printed for one arch, as far as the order of the lines shows."""

    arch: str | None = None
    """The arch of its kernels; ``None`` before the first one, and where it has none."""
    headed: bool = False
    """Its first line (``N bytes gmem``) was seen."""
    relocatable: bool = False
    """Its device functions stand as those of relocatable code do, and as those of debug builds."""
    linked: bool = False
    """A kernel's stack was summed up over its callees: no relocatable code, of which ptxas does not know them."""
    barriers: int = 0
    """1: a registers line counted barriers, 2: one did not; a release does either."""
    times: int = 0
    """1: a kernel has a compile time, 2: one has none; a release does either."""
    entries: int = 0
    """Kernels begun in it."""
    last_kernel_line: int = 0
    """Where the last of them begins; 0: none has."""
    notes: list[tuple[Note, int]] = field(default_factory=list)
    """(advisory that names no kernel, line), printed before the section's first line."""


class Run(Struct, eq=False):
    """Kernels that one ptxas run printed one behind the other, whose records are made."""

    section: Section
    step: Step
    """The build step whose output they stand in."""
    kernels: list[Kernel]

    @property
    def line(self) -> int:
        """Where the first of them begins."""
        return first_line(self.kernels[0])


NO_USAGE = Usage()


class Draft(Struct, eq=False):
    """A kernel or device function whose record is being gathered."""

    symbol: str
    """As printed."""
    arch: str | None
    """From its entry line; ``None`` for a device function, whose section knows."""
    role: Role
    """EntryLine, device function, or unknown where only a warning names it."""
    line: int
    """Where its record begins."""
    step: Step
    """The build step whose output it stands in."""
    section: Section
    """The ptxas run that it stands in, by the order of the lines."""
    stack: Stack | None = None
    """Its stack line; ``None`` until it comes."""
    caller_line: int = 0
    """Of a device function: where the last kernel before it in its section begins; 0: there is none."""
    stack_in_doubt: bool = False
    """Namesakes were open when it came: it may be one of theirs."""
    usage: Usage = NO_USAGE
    """Its registers line's figures."""
    compile_ms: float | None = None
    """Its compile time."""
    reasons: tuple[str, ...] = ()
    """Why it is ambiguous; empty while it is not."""
    suspicions: frozenset[Suspicion] = frozenset()
    """What may be wrong with it; the whole log decides."""
    advisories: tuple[Advisory, ...] = ()
    """Compiler messages that name it."""

    @property
    def identity(self) -> tuple[object, ...]:
        """Drafts that are equal in this are interchangeable."""
        return self.symbol, self.arch, self.step.unit, self.stack

    @property
    def figures(self) -> Usage:
        """Its registers and stack lines together; a stack in doubt is left out."""
        if self.stack is None or self.stack_in_doubt:
            return self.usage
        return _of_stack(self.stack) if self.usage is NO_USAGE else _with_stack(self.usage, self.stack)

    @property
    def spills(self) -> tuple[int, int] | None:
        """Bytes of (spill stores, spill loads); ``None`` where they are not known for sure."""
        if self.reasons:
            return None
        return self.usage.spills if self.stack is None or self.stack_in_doubt else self.stack.spills


class PendingUse(Struct):
    """A registers line that several kernels may own."""

    usage: Usage
    """Its figures."""
    owners: list[Draft]
    """Kernels that were waiting for one."""


def shown_by(usage: Usage) -> tuple[int, bool]:
    """What a kernel's figures show of its ptxas run: (barriers, linked) of :class:`Section`."""
    return 2 if usage.barriers is None else 1, usage.cumulative_stack_bytes is not None


def first_line(kernel: Kernel) -> int:
    """Where its record begins."""
    return kernel.origins[0].line or 0


@lru_cache(maxsize=4096)
def _with_stack(usage: Usage, stack: Stack) -> Usage:
    """Equal figures share one record."""
    return replace(
        usage,
        stack_bytes=stack.frame_bytes,
        spill_store_bytes=stack.spill_store_bytes,
        spill_load_bytes=stack.spill_load_bytes,
    )


@lru_cache(maxsize=4096)
def _of_stack(stack: Stack) -> Usage:
    """Of a device function, which has no registers line."""
    return _with_stack(NO_USAGE, stack)


def with_callees(usage: Usage, callees: tuple[int, int]) -> Usage:
    """The usage of a kernel with what it and its callees spill together."""
    if usage.spills is None:
        return usage
    stores, loads = map(sum, zip(usage.spills, callees, strict=True))
    return replace(usage, cumulative_spill_store_bytes=stores, cumulative_spill_load_bytes=loads)


class Notes:
    """Advisories that have found no kernel yet."""

    def __init__(self) -> None:
        self.named: dict[str, list[tuple[Note, int]]] = {}
        """(advisory, line) by the symbol that it names."""
        self._nameless: list[tuple[Note, int]] = []

    def add(self, note: Note, line: int) -> None:
        """One more, from ``line``. Errors that name no kernel are not kept: they are issues already."""
        if note.symbol is not None:
            self.named.setdefault(note.symbol, []).append((note, line))
        elif not note.is_error:
            self._nameless.append((note, line))

    def take(self, symbol: str, spills: tuple[int, int] | None) -> tuple[Advisory, ...]:
        """The advisories that name ``symbol``, but for those that report other spills than ``spills``."""
        notes = self.named.pop(symbol, [])
        mine = [pair for pair in notes if pair[0].spills is None or spills is None or pair[0].spills == spills]
        if len(mine) < len(notes):
            self.named[symbol] = [pair for pair in notes if pair not in mine]
        return tuple(note.advisory for note, _ in mine)

    def take_nameless(self) -> list[tuple[Note, int]]:
        """(advisory that names no kernel, line) since the last call: those of the module that begins."""
        taken, self._nameless = self._nameless, []
        return taken

    def drafts(self, reported: Iterable[tuple[str, tuple[int, int] | None]]) -> list[Draft]:
        """A log without ``-v`` holds warnings alone; those with figures are all that is known of a function, unless
        it is among ``reported``: (symbol, spills) of records."""
        records = set(reported) if self.named else set()
        drafts = []
        for symbol, notes in self.named.items():
            frames = {note.frame_bytes for note, _ in notes if note.frame_bytes is not None}
            spills = {note.spills for note, _ in notes if note.spills is not None}
            warnings: list[tuple[int, int] | None] = [*sorted(spills)]
            warned = any(note.advisory.kind == "spill_warning" for note, _ in notes)
            for figures in warnings or ([None] if frames or warned else []):
                if figures and (symbol, figures) in records:
                    continue
                stores, loads = figures or (None, None)
                mine = [(note, line) for note, line in notes if note.spills in (figures, None)]
                usage = Usage(
                    stack_bytes=next(iter(frames)) if len(frames) == 1 else None,
                    spill_store_bytes=stores,
                    spill_load_bytes=loads,
                )
                draft = Draft(symbol, None, "unknown", mine[0][1], NO_STEP, Section(), usage=usage)
                draft.advisories = tuple(note.advisory for note, _ in mine)
                drafts.append(draft)
        return drafts

    def unattached(self) -> Iterator[tuple[Note, int, str]]:
        """(advisory, line, why no kernel has it) for the rest."""
        for symbol, notes in self.named.items():
            if all(note.frame_bytes is None and note.advisory.kind != "spill_warning" for note, _ in notes):
                yield from ((note, line, f"names {symbol}, which is not in the log") for note, line in notes)
        yield from ((note, line, "names no kernel") for note, line in self._nameless)


class Context(Struct, frozen=True):
    """What the whole input shows about each of its kernels."""

    input: str
    """What the user calls it."""
    interleaved: bool
    """Several compilers wrote at once: neither compile times nor units are sure."""
    relocatable: bool
    """It shows relocatable code."""
    units_in_doubt: bool
    """Steps overlap whose output is not buffered: their objects are in doubt."""
    arch_in_doubt: bool
    """It is interleaved and holds several archs: a device function's is not known."""
    doubts: Doubts
    """Lines around which nothing is certain."""
    namesakes: frozenset[str]
    """Symbols of several archs, in interleaved output: an advisory that names one does not say which."""
    linked: frozenset[str]
    """Symbols that the linker reports, in interleaved output: their code is relocatable."""


def record(draft: Draft, context: Context) -> Kernel:
    """The draft as a record."""
    reasons, arch = draft.reasons, draft.arch
    if draft.role == "function":
        arch = None if context.arch_in_doubt else draft.section.arch
        if context.arch_in_doubt:
            reasons += ("interleaved output does not show for which arch it was compiled",)
    return Kernel(
        key=KernelKey(symbol=draft.symbol, arch=arch, unit=draft.step.unit),
        role=draft.role,
        usage=draft.figures,
        confidence="ambiguous" if reasons else "certain",
        reasons=reasons,
        advisories=draft.advisories,
        origins=(Origin(input=context.input, line=draft.line),),
        compile_ms=draft.compile_ms,
        source=draft.step.source,
    )


def finished(kernel: Kernel, section: Section, step: Step, context: Context) -> Kernel:
    """The record with what the whole input shows; itself where that changes nothing."""
    changes: dict[str, object] = {}
    whole = section.linked and not context.interleaved
    relocatable = kernel.key.symbol in context.linked or (context.relocatable and not whole)
    if step.relocatable or (step.relocatable is None and relocatable):
        changes["final"] = False
    if step.unit and (context.interleaved or (context.units_in_doubt and not step.buffered)):
        changes["key"] = replace(kernel.key, unit="")
        changes["source"] = ""
    if context.interleaved and kernel.compile_ms is not None:
        changes["compile_ms"] = None
    if section.notes and kernel.role == "entry":
        changes["advisories"] = kernel.advisories + tuple(note.advisory for note, _ in section.notes)
    if kernel.advisories and kernel.key.symbol in context.namesakes:
        changes["advisories"] = ()
    if context.doubts and (kernel.origins[0].line or 0) in context.doubts:
        changes["confidence"] = "ambiguous"
        changes["reasons"] = (*kernel.reasons, "lines near it are torn or missing")
        changes["compile_ms"] = None
    return replace(kernel, **changes) if changes else kernel
