"""From messages to kernels: the state of one writer's stream, certain about what is sure and no further.

One compiler writes ``Compiling entry function`` (names kernel and arch), ``Function properties`` with its stack line
(one write: they stay together and name the function), then ``Used N registers`` and ``Compile time``, which name
nothing. In a log that several compilers wrote, registers lines are assigned when every possible assignment agrees.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache

from spillscan.model import Advisory, Issue, Kernel, KernelKey, Origin, Role, Severity, Usage, agreement
from spillscan.readers import LinkRecord
from spillscan.readers.buildlog.matching import possible_partners
from spillscan.readers.buildlog.messages import (
    CompileTime,
    Entry,
    Ignored,
    LinkProperties,
    LinkUsed,
    Message,
    Module,
    Note,
    Properties,
    Stack,
    Unknown,
    Used,
)
from spillscan.readers.buildlog.parameters import Reserves, bank_zero
from spillscan.readers.buildlog.steps import NO_STEP, Step

_ARCH = re.compile(r"sm_(\d+)[af]?")
_DIGITS = re.compile(r"\d+")

PARALLEL_HINT = "have each compilation's output written whole (make -Otarget, ninja)"


@dataclass(slots=True, eq=False)
class _Section:
    """What one ptxas run printed for one arch, as far as the order of the lines tells."""

    arch: str | None = None
    headed: bool = False
    """Its first line (``N bytes gmem``) was seen."""
    relocatable: bool = False
    entries: int = 0
    notes: list[tuple[Note, int]] = field(default_factory=list)
    """Advisories that name no kernel, printed before the section's first line."""


@dataclass(slots=True, eq=False)
class _Draft:
    """A kernel or device function whose record is being gathered."""

    symbol: str
    arch: str | None
    role: Role
    line: int
    step: Step
    section: _Section
    stack: Stack | None = None
    usage: Usage = Usage()  # noqa: RUF009 - frozen
    compile_ms: float | None = None
    stack_in_doubt: bool = False
    reasons: tuple[str, ...] = ()
    advisories: tuple[Advisory, ...] = ()

    @property
    def identity(self) -> tuple[object, ...]:
        """Drafts that are equal in this are interchangeable."""
        return self.symbol, self.arch, self.step.unit, self.stack


@dataclass(slots=True)
class _PendingUse:
    """A registers line that several kernels may own."""

    usage: Usage
    owners: list[_Draft]


@dataclass(frozen=True, slots=True)
class _Context:
    """What only the whole input tells about each of its kernels."""

    relocatable: bool
    units_in_doubt: bool
    arch_in_doubt: bool
    namesakes: frozenset[str]
    """Symbols of several archs, in interleaved output: an advisory that names one does not say which."""


class Stream:
    """The messages of one writer (or of several that cannot be told apart) in the order in which they came."""

    def __init__(self, input_name: str) -> None:
        self._input = input_name
        self._issues: dict[tuple[str, str], tuple[Issue, int]] = {}
        self._drafts: list[_Draft] = []
        self._kernels: list[tuple[int, _Section, Step, Kernel]] = []
        self._links: list[LinkRecord] = []
        self._section = _Section()
        self._open: list[_Draft] = []
        self._uses: list[_PendingUse] = []
        self._knots: list[tuple[list[_Draft], list[_PendingUse]]] = []
        self._named: tuple[str, int] | None = None
        self._link_named: LinkProperties | None = None
        self._previous: Message | None = None
        self._last: _Draft | None = None  # the draft that the previous message completed
        self._notes: dict[str, list[tuple[Note, int]]] = defaultdict(list)
        self._nameless: list[tuple[Note, int]] = []
        self._interleaved = False
        self._timed = False
        self._without_abi = False

    # ---- what the reader asks ---------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Nothing is half-read: a whole block can be taken at once."""
        return not self._open and self._named is None

    @property
    def awaits_stack(self) -> bool:
        """``Function properties`` was read, its stack line not yet."""
        return self._named is not None

    @property
    def interleaved(self) -> bool:
        """Several compilers wrote into this stream at once."""
        return self._interleaved

    # ---- messages -------------------------------------------------------------------------------------------------

    def block(self, symbol: str, arch: str, usage: Usage, compile_ms: float | None, line: int, step: Step) -> None:
        """A kernel whose lines stand together while nothing else is open: the same as feeding them one by one."""
        if self._timed and (compile_ms is None or isinstance(self._previous, Used)):
            self._interleaved = True
        self._timed = self._timed or compile_ms is not None
        self._enter(arch)
        kernel = Kernel(
            key=KernelKey(symbol=symbol, arch=arch, unit=step.unit),
            role="entry",
            usage=usage,
            advisories=self._take_notes(symbol, _spills_of(usage)) if symbol in self._notes else (),
            origins=(Origin(input=self._input, line=line),),
            compile_ms=compile_ms,
        )
        self._kernels.append((line, self._section, step, kernel))
        self._previous, self._last = None, None

    def feed(self, message: Message, line: int, step: Step) -> None:
        """One message, on ``line``, printed during ``step``."""
        self._sequence(message)
        match message:
            case Entry():
                self._entry(message, line, step)
            case Properties():
                self._forget_named()
                self._named = (message.symbol, line)
            case Stack():
                self._stack(message, line, step)
            case Used():
                self._used(message.usage, line)
            case CompileTime():
                self._compile_time(message.milliseconds)
            case Module():
                self._begin_section()
            case Note():
                self._note(message, line)
            case Unknown():
                self._issue("unknown-line", f"not understood: {message.text}", line)
            case LinkProperties():
                self._link_named = message
            case LinkUsed():
                self._link_used(message.usage, line)
            case Ignored():
                pass
        self._previous = message

    def _sequence(self, message: Message) -> None:
        """From 12.8 on a compile time follows each registers line at once, unless another compiler comes between."""
        if self._timed and isinstance(self._previous, Used) and not isinstance(message, CompileTime):
            self._interleaved = True

    def end(self) -> None:
        """The input ends here: settle what is still open."""
        if self._uses:
            self._set_aside()
        if self._knots:
            self._untie()
        for draft in self._open:
            if draft.stack is not None:
                draft.reasons += ("no registers line follows it",)
                self._drafts.append(draft)
            self._issue("truncated", f"the figures of {draft.symbol} are not all there", draft.line, "error")
        self._forget_named()
        self._open = []
        self._settle_stacks()
        self._flush_notes()

    def issues(self) -> list[Issue]:
        """What was not understood; complete after :meth:`end`."""
        return [
            issue if count == 1 else replace(issue, message=f"{issue.message} ({count} times)")
            for issue, count in self._issues.values()
        ]

    def links(self) -> list[LinkRecord]:
        """What the linker said; complete after :meth:`end`."""
        return self._links

    def kernels(self, *, units_in_doubt: bool) -> Iterator[tuple[int, Kernel]]:
        """(line, kernel) of all that was read; complete after :meth:`end`.

        ``units_in_doubt`` drops the units of steps whose output other steps may have interrupted.
        """
        sections = {id(section): section for _, section, _, _ in self._kernels}
        sections |= {id(draft.section): draft.section for draft in self._drafts}
        arches = {section.arch for section in sections.values()} | {draft.arch for draft in self._drafts}
        several = self._interleaved and len(arches - {None}) > 1
        context = _Context(
            relocatable=any(section.relocatable for section in sections.values()),
            units_in_doubt=units_in_doubt,
            arch_in_doubt=several,
            namesakes=self._namesakes() if several else frozenset(),
        )
        plain = not (self._interleaved or units_in_doubt or context.relocatable)
        for line, section, step, kernel in self._kernels:
            if plain and not section.notes and not step.relocatable:
                yield line, kernel
            else:
                yield line, self._finished(kernel, section, step, context)
        for draft in self._drafts:
            yield draft.line, self._finished(self._kernel(draft, several), draft.section, draft.step, context)

    def _namesakes(self) -> frozenset[str]:
        arches: dict[str, set[str | None]] = defaultdict(set)
        for _, _, _, kernel in self._kernels:
            arches[kernel.key.symbol].add(kernel.key.arch)
        for draft in self._drafts:
            arches[draft.symbol].add(draft.arch)
        return frozenset(symbol for symbol, found in arches.items() if len(found) > 1)

    def function(self, symbol: str, stack: Stack, compile_ms: float | None, line: int, step: Step) -> None:
        """A device function whose lines stand together while nothing else is open."""
        self._named = (symbol, line)
        self._sequence(stack)
        self._stack(stack, line, step)
        self._previous = stack
        if compile_ms is not None:
            self.feed(CompileTime(compile_ms), line, step)

    # ---- one kernel's lines ------------------------------------------------------------------------------------

    def _entry(self, entry: Entry, line: int, step: Step) -> None:
        if self._open:
            self._interleaved = True
        self._enter(entry.arch)
        self._open.append(_Draft(entry.symbol, entry.arch, "entry", line, step, self._section))

    def _enter(self, arch: str) -> None:
        section = self._section
        if section.headed and section.arch not in (None, arch):
            self._interleaved = True  # one ptxas run compiles for one arch
        section.arch = arch
        section.entries += 1

    def _stack(self, stack: Stack, line: int, step: Step) -> None:
        if self._named is None:
            self._issue("unattributed-stack", "a stack line follows no 'Function properties' line", line)
            return
        (symbol, named_line), self._named = self._named, None
        waiting = [draft for draft in self._open if draft.symbol == symbol and draft.stack is None]
        if not waiting:
            # Before any kernel of its section: only relocatable code has that (-c, -rdc=true).
            self._section.relocatable |= not self._section.entries
            self._last = _Draft(symbol, None, "function", named_line, step, self._section, stack)
            if symbol in self._notes:
                self._last.advisories = self._take_notes(symbol, stack.spills)
            self._drafts.append(self._last)
            return
        waiting[0].stack = stack
        if symbol in self._notes:
            waiting[0].advisories = self._take_notes(symbol, stack.spills)
        if len({draft.identity for draft in waiting[1:]} | {(symbol, waiting[0].arch, waiting[0].step.unit, None)}) > 1:
            for draft in waiting:
                draft.stack_in_doubt = True

    def _forget_named(self) -> None:
        if self._named is not None:
            symbol, line = self._named
            self._issue("truncated", f"no stack line follows the properties of {symbol}", line, "error")
            self._named = None

    def _used(self, usage: Usage, line: int) -> None:
        owners = [draft for draft in self._open if self._may_own(draft, usage)]
        if not owners and len(self._open) == 1:
            owners = list(self._open)  # a module without the ABI prints no stack line
        if not owners:
            self._unowned(usage, line)
        elif len(owners) == 1 and not self._uses:
            self._own(owners[0], usage)
        else:
            self._uses.append(_PendingUse(usage, owners))
            if len(self._uses) == len(self._open):
                self._set_aside()

    def _may_own(self, draft: _Draft, usage: Usage) -> bool:
        """False where a field of the registers line rules the kernel out (measured: facts of the line forms)."""
        if draft.stack is None:
            return self._without_abi or draft.stack_in_doubt
        prints_banks = prints_constant_banks(draft.arch)
        if prints_banks is not None and prints_banks != (usage.constant_bytes is not None):
            return False
        cumulative = usage.cumulative_stack_bytes
        return cumulative is None or draft.stack_in_doubt or draft.stack.frame_bytes <= cumulative

    def _own(self, draft: _Draft, usage: Usage) -> None:
        if draft.stack is None and draft.stack_in_doubt:
            # Its registers line has come, so its stack line had: a namesake holds it, and still waits for its own.
            holder = next((d for d in self._open if d.symbol == draft.symbol and d.stack_in_doubt and d.stack), None)
            if holder is not None:
                draft.stack, holder.stack = holder.stack, None
        draft.usage = usage
        self._open.remove(draft)
        self._drafts.append(draft)
        self._last = draft

    def _unowned(self, usage: Usage, line: int) -> None:
        last = self._last
        if isinstance(self._previous, Stack) and last is not None and last.role == "function" and not self._open:
            last.role = "entry"
            last.usage = usage
            last.reasons += ("no 'Compiling entry function' line names it",)
            return
        self._issue(
            "unattributed-registers",
            f"a line says {usage.registers} registers, but no kernel is open that could own it; {PARALLEL_HINT}",
            line,
            "error",
        )

    def _compile_time(self, milliseconds: float) -> None:
        self._timed = True
        last = self._last
        if last is None or isinstance(self._previous, CompileTime):
            self._interleaved = True
            return
        if isinstance(self._previous, Stack) and last.role == "function":
            last.section.relocatable = True  # device functions of whole programs have no compile time of their own
        last.compile_ms = milliseconds
        self._last = None

    # ---- interleaved output ----------------------------------------------------------------------------------------

    def _set_aside(self) -> None:
        """Kernels and registers lines that belong together, one way or another: the whole input will tell more."""
        self._knots.append((self._open, self._uses))
        self._open, self._uses, self._last = [], [], None

    def _untie(self) -> None:
        """Settle what was set aside, with what the sure kernels of the whole input prove."""
        reserves = Reserves()
        for _, _, _, kernel in self._kernels:
            reserves.witness(kernel.key.symbol, kernel.key.arch, kernel.usage)
        for draft in self._drafts:
            if draft.role == "entry":
                reserves.witness(draft.symbol, draft.arch, draft.usage)
        for drafts, uses in self._knots:
            self._settle(drafts, uses, reserves)
        self._knots = []

    def _settle(self, drafts: list[_Draft], uses: list[_PendingUse], reserves: Reserves) -> None:
        """Give each kernel what every possible assignment of the registers lines agrees on."""
        place = {id(draft): index for index, draft in enumerate(drafts)}
        expected = {id(draft): reserves.expected(draft.symbol, draft.arch) for draft in drafts}
        candidates = []
        for use in uses:
            bank = bank_zero(use.usage)
            fitting = [owner for owner in use.owners if bank is None or expected[id(owner)] in (None, bank)]
            candidates.append([place[id(owner)] for owner in fitting])
        lacking = len(drafts) - len(uses)  # lines that a cut-off log does not hold: anybody's
        candidates += [list(range(len(drafts)))] * lacking
        possible = possible_partners(candidates, len(drafts))
        if possible is None:
            possible = [[i for i, row in enumerate(candidates) if index in row] for index in range(len(drafts))]
            settled: dict[int, int] = {}
        else:
            settled = _closed_groups(drafts, possible, len(uses))
        for index, draft in enumerate(drafts):
            options = [uses[item].usage for item in possible[index] if item < len(uses)]
            if index in settled:
                draft.usage = uses[settled[index]].usage
            elif len(options) == len(possible[index]) and len(set(options)) == 1:
                draft.usage = options[0]
            else:
                draft.usage = agreement(options) if options and len(options) == len(possible[index]) else Usage()
                draft.reasons += (_why_ambiguous(options),)
            if draft.stack is None and not self._without_abi:
                self._issue("truncated", f"the figures of {draft.symbol} are not all there", draft.line, "error")
                continue
            self._drafts.append(draft)

    def _settle_stacks(self) -> None:
        """Kernels of one name and different arch or unit whose stack lines came in an order that proves nothing."""
        doubtful: dict[str, list[_Draft]] = defaultdict(list)
        for draft in self._drafts:
            if draft.stack_in_doubt:
                doubtful[draft.symbol].append(draft)
        for namesakes in doubtful.values():
            alike = len({draft.stack for draft in namesakes}) == 1
            for draft in namesakes:
                draft.stack_in_doubt = not alike
                if not alike:
                    draft.reasons += ("kernels of its name were compiled at the same time",)

    # ---- sections, notes, links -------------------------------------------------------------------------------------

    def _begin_section(self) -> None:
        self._section = _Section(headed=True, notes=self._nameless)
        self._nameless = []

    def _note(self, note: Note, line: int) -> None:
        fatal = note.advisory.severity in ("error", "fatal")
        if fatal:
            self._issue("compiler-error", f"the compiler failed: {note.advisory.text}", line, "error")
        self._without_abi |= note.advisory.kind == "no_abi"
        if note.symbol is not None:
            self._notes[note.symbol].append((note, line))
        elif not fatal:
            self._nameless.append((note, line))

    def _take_notes(self, symbol: str, spills: tuple[int, int] | None) -> tuple[Advisory, ...]:
        """The advisories that name ``symbol``, but for those that tell of another spill than ``spills``."""
        notes = self._notes.pop(symbol, [])
        mine = [pair for pair in notes if pair[0].spills is None or spills is None or pair[0].spills == spills]
        if len(mine) < len(notes):
            self._notes[symbol] = [pair for pair in notes if pair not in mine]
        return tuple(note.advisory for note, _ in mine)

    def _flush_notes(self) -> None:
        """Advisories that no kernel took: with figures they are a record, without they are an issue."""
        for symbol, notes in self._notes.items():
            figures: set[tuple[int, int] | None] = {note.spills for note, _ in notes if note.spills}
            frames = {note.frame_bytes for note, _ in notes if note.frame_bytes is not None}
            line = notes[0][1]
            if not figures and not frames:
                for note, at in notes:
                    self._unattached(note, at, f"names {symbol}, which is not in the log")
                continue
            for index, spills in enumerate(sorted(figures or {None}, key=str)):
                stores, loads = spills or (None, None)
                usage = Usage(
                    stack_bytes=next(iter(frames)) if len(frames) == 1 else None,
                    spill_store_bytes=stores,
                    spill_load_bytes=loads,
                )
                advisories = (
                    tuple(note.advisory for note, _ in notes if note.spills in (spills, None)) if not index else ()
                )
                draft = _Draft(symbol, None, "unknown", line, NO_STEP, _Section(), usage=usage, advisories=advisories)
                self._drafts.append(draft)
        for note, line in self._nameless:
            self._unattached(note, line, "names no kernel")
        self._notes.clear()
        self._nameless.clear()

    def _unattached(self, note: Note, line: int, why: str) -> None:
        self._issue("unattached-advisory", f"{note.advisory.text} ({why})", line, "note")

    def _link_used(self, usage: Usage, line: int) -> None:
        if self._link_named is None:
            message = "nvlink's registers line follows no 'Function properties'"
            self._issue("unattributed-registers", message, line, "error")
            return
        origin = Origin(input=self._input, line=line, format="nvlink")
        named, self._link_named = self._link_named, None
        self._links.append(LinkRecord(named.symbol, named.arch, usage, origin))

    # ---- records ----------------------------------------------------------------------------------------------------

    def _kernel(self, draft: _Draft, arch_in_doubt: bool) -> Kernel:
        usage, reasons, arch = draft.usage, draft.reasons, draft.arch
        if draft.stack is not None and not draft.stack_in_doubt:
            usage = _with_stack(usage, draft.stack)
        if draft.role == "function":
            arch = None if arch_in_doubt else draft.section.arch
            if arch_in_doubt:
                reasons += ("interleaved output does not tell for which arch it was compiled",)
        return Kernel(
            key=KernelKey(symbol=draft.symbol, arch=arch, unit=draft.step.unit),
            role=draft.role,
            usage=usage,
            confidence="ambiguous" if reasons else "certain",
            reasons=reasons,
            advisories=draft.advisories,
            origins=(Origin(input=self._input, line=draft.line),),
            compile_ms=draft.compile_ms,
        )

    def _finished(self, kernel: Kernel, section: _Section, step: Step, context: _Context) -> Kernel:
        """``kernel`` with what only the whole input tells."""
        changes: dict[str, object] = {}
        if step.relocatable or (step.relocatable is None and (section.relocatable or context.relocatable)):
            changes["final"] = False
        if context.units_in_doubt and step.unit and not step.buffered:
            changes["key"] = replace(kernel.key, unit="")
        if self._interleaved and kernel.compile_ms is not None:
            changes["compile_ms"] = None
        if section.notes and section.entries == 1 and kernel.role == "entry" and not self._interleaved:
            changes["advisories"] = kernel.advisories + tuple(note.advisory for note, _ in section.notes)
        if kernel.advisories and kernel.key.symbol in context.namesakes:
            changes["advisories"] = ()
        return replace(kernel, **changes) if changes else kernel  # type: ignore[arg-type]

    def _issue(self, code: str, message: str, line: int, severity: Severity = "warning") -> None:
        """Keep an issue; of those that differ in numbers only, the first and a count."""
        pattern = _DIGITS.sub("0", message) if code in ("unknown-line", "unattached-advisory") else message
        known = self._issues.get((code, pattern))
        if known is None:
            origin = Origin(input=self._input, line=line)
            self._issues[code, pattern] = (
                Issue(code=code, message=message, severity=severity, origin=origin),
                1,
            )
        else:
            self._issues[code, pattern] = (known[0], known[1] + 1)


def prints_constant_banks(arch: str | None) -> bool | None:
    """Whether ptxas prints ``cmem`` for ``arch``: up to sm_89 always, from sm_90 on never (measured, 11.7 to 13.5)."""
    match = _ARCH.fullmatch(arch or "")
    return int(match[1]) < 90 if match else None


def _closed_groups(drafts: list[_Draft], possible: list[list[int]], uses: int) -> dict[int, int]:
    """Draft -> registers line, for drafts that nothing tells apart and whose lines can be nobody else's."""
    groups: dict[object, list[int]] = defaultdict(list)
    for index, draft in enumerate(drafts):
        groups[draft.identity].append(index)
    settled: dict[int, int] = {}
    for members in groups.values():
        lines = sorted({item for index in members for item in possible[index]})
        if len(lines) == len(members) and lines[-1] < uses:
            settled.update(zip(members, lines, strict=True))
    return settled


def _why_ambiguous(options: list[Usage]) -> str:
    registers = sorted({usage.registers for usage in options if usage.registers is not None})
    if not registers:
        return "no registers line follows it"
    shown = ", ".join(map(str, registers[:4])) + (", …" if len(registers) > 4 else "")
    return f"interleaved output: its registers line is one of {len(options)} ({shown} registers)"


def _spills_of(usage: Usage) -> tuple[int, int] | None:
    stores, loads = usage.spill_store_bytes, usage.spill_load_bytes
    return None if stores is None or loads is None else (stores, loads)


@lru_cache(maxsize=4096)
def _with_stack(usage: Usage, stack: Stack) -> Usage:
    """Equal figures share one record."""
    return replace(
        usage,
        stack_bytes=stack.frame_bytes,
        spill_store_bytes=stack.spill_store_bytes,
        spill_load_bytes=stack.spill_load_bytes,
    )
