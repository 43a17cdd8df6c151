"""From messages to kernels: the state of one writer's stream, certain about what is sure and no further.

One compiler writes ``Compiling entry function`` (names kernel and arch), ``Function properties`` with its stack line
(one write: they stay together and name the function), then ``Used N registers`` and ``Compile time``, which name
nothing. In a log that several compilers wrote, registers lines are assigned when every possible assignment agrees.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from spillscan.logs.account import IssueLog
from spillscan.logs.interleaved import Reserves, assign, may_own, settle_stacks
from spillscan.logs.messages import (
    CompileTime,
    EntryLine,
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
from spillscan.logs.records import Context, Draft, Notes, PendingUse, Section, finished, record
from spillscan.logs.steps import Step
from spillscan.model import Issue, Kernel, KernelKey, LinkRecord, Origin, Usage

PARALLEL_HINT = "have each compilation's output written whole (make -Otarget, ninja)"


class Writer:
    """The messages of one writer (or of several that cannot be distinguished) in the order in which they came."""

    def __init__(self, input_name: str) -> None:
        self._input = input_name
        self._issues = IssueLog(input_name)
        self._drafts: list[Draft] = []
        self._kernels: list[tuple[int, Section, Step, Kernel]] = []
        self._links: list[LinkRecord] = []
        self._section = Section()
        self._sections: list[Section] = []  # those with advisories that name no kernel
        self._open: list[Draft] = []
        self._uses: list[PendingUse] = []
        self._tangles: list[tuple[list[Draft], list[PendingUse]]] = []
        self._named: tuple[str, int] | None = None
        self._link_named: LinkProperties | None = None
        self._last: Draft | None = None  # the draft that the previous message completed
        self._notes = Notes()
        self._interleaved = False
        self._registers_lines = 0
        self._compile_times = 0
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
        self._registers_lines += 1
        self._compile_times += compile_ms is not None
        self._enter(arch)
        kernel = Kernel(
            key=KernelKey(symbol=symbol, arch=arch, unit=step.unit),
            role="entry",
            usage=usage,
            advisories=self._notes.take(symbol, usage.spills) if symbol in self._notes else (),
            origins=(Origin(input=self._input, line=line),),
            compile_ms=compile_ms,
            source=step.source,
        )
        self._kernels.append((line, self._section, step, kernel))
        self._last = None

    def feed(self, message: Message, line: int, step: Step) -> None:
        """One message, on ``line``, printed during ``step``."""
        before, self._last = self._last, None
        match message:
            case EntryLine():
                self._entry(message, line, step)
            case Properties():
                self._forget_named()
                self._named = (message.symbol, line)
            case Stack():
                self._stack(message, line, step)
            case Used():
                self._used(message.usage, line, before)
            case CompileTime():
                self._compile_time(message.milliseconds, before)
            case Module():
                self._begin_section()
            case Note():
                self._note(message, line)
            case Unknown(cut=True):
                self._issues.add("truncated", f"the input ends inside a line: {message.text}", line, "error")
            case Unknown():
                self._issues.add("unknown-line", f"not understood: {message.text}", line)
            case LinkProperties():
                self._link_named = message
            case LinkUsed():
                self._link_used(message.usage, line)
            case Ignored():
                pass

    def end(self) -> None:
        """The input ends here: settle what is still open."""
        if self._uses:
            self._set_aside()
        if self._tangles:
            self._assign()
        for draft in self._open:
            if draft.stack is not None:
                draft.reasons += ("no registers line follows it",)
                self._drafts.append(draft)
            self._incomplete(draft)
        self._forget_named()
        self._open = []
        for section in self._sections:
            if section.entries != 1 or self._interleaved:
                for note, line in section.notes:
                    self._unattached(note, line, "names no kernel")
                section.notes = []
        settle_stacks(self._drafts)
        self._drafts.extend(self._notes.drafts())
        for note, line, why in self._notes.unattached():
            self._unattached(note, line, why)

    def issues(self) -> list[Issue]:
        """What was not understood; complete after :meth:`end`."""
        return self._issues.all()

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
        context = Context(
            input=self._input,
            interleaved=self._interleaved,
            relocatable=self._relocatable(sections.values()),
            units_in_doubt=units_in_doubt,
            arch_in_doubt=several,
            namesakes=self._namesakes() if several else frozenset(),
        )
        plain = not (self._interleaved or units_in_doubt or context.relocatable)
        for line, section, step, kernel in self._kernels:
            if plain and not section.notes and not step.relocatable:
                yield line, kernel
            else:
                yield line, finished(kernel, section, step, context)
        for draft in self._drafts:
            yield draft.line, finished(record(draft, context), draft.section, draft.step, context)

    def _relocatable(self, sections: Iterable[Section]) -> bool:
        """Whether the log shows relocatable code (-rdc, -dc).

        Its device functions have a compile time each, those of whole programs have none; their number decides where
        the order of lines proves nothing. Before 12.8 there are no compile times, and the order's hint is believed:
        figures that are final are then called not final, never the other way round.
        """
        if self._interleaved and self._compile_times:
            return self._compile_times > self._registers_lines
        return any(section.relocatable for section in sections)

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
        self._stack(stack, line, step)
        if compile_ms is not None:
            self.feed(CompileTime(compile_ms), line, step)

    # ---- one kernel's lines ------------------------------------------------------------------------------------

    def _entry(self, entry: EntryLine, line: int, step: Step) -> None:
        if self._open:
            self._interleaved = True
        self._enter(entry.arch)
        self._open.append(Draft(entry.symbol, entry.arch, "entry", line, step, self._section))

    def _enter(self, arch: str) -> None:
        section = self._section
        if section.headed and section.arch not in (None, arch):
            self._interleaved = True  # one ptxas run compiles for one arch
        section.arch = arch
        section.entries += 1

    def _stack(self, stack: Stack, line: int, step: Step) -> None:
        if self._named is None:
            self._issues.add("unattributed-stack", "a stack line follows no 'Function properties' line", line)
            return
        (symbol, named_line), self._named = self._named, None
        waiting = [draft for draft in self._open if draft.symbol == symbol and draft.stack is None]
        if not waiting:
            # Before any kernel of its section: only relocatable code has that (-c, -rdc=true).
            self._section.relocatable |= not self._section.entries
            self._last = Draft(symbol, None, "function", named_line, step, self._section, stack)
            if symbol in self._notes:
                self._last.advisories = self._notes.take(symbol, stack.spills)
            self._drafts.append(self._last)
            return
        if len({draft.identity for draft in waiting}) > 1:
            for draft in waiting:
                draft.stack_in_doubt = True
        waiting[0].stack = stack
        if symbol in self._notes:
            waiting[0].advisories = self._notes.take(symbol, stack.spills)

    def _forget_named(self) -> None:
        if self._named is not None:
            symbol, line = self._named
            self._issues.add("truncated", f"no stack line follows the properties of {symbol}", line, "error")
            self._named = None

    def _used(self, usage: Usage, line: int, before: Draft | None) -> None:
        self._registers_lines += 1
        owners = [draft for draft in self._open if may_own(draft, usage, without_abi=self._without_abi)]
        if not owners and len(self._open) == 1:
            owners = list(self._open)  # a module without the ABI prints no stack line
        if not owners:
            self._unowned(usage, line, before)
        elif len(owners) == 1 and not self._uses:
            self._own(owners[0], usage)
        else:
            self._uses.append(PendingUse(usage, owners))
            if len(self._uses) == len(self._open):
                self._set_aside()

    def _own(self, draft: Draft, usage: Usage) -> None:
        if draft.stack is None and draft.stack_in_doubt:
            # Its registers line has come, so its stack line had: a namesake holds it, and still waits for its own.
            holder = next((d for d in self._open if d.symbol == draft.symbol and d.stack_in_doubt and d.stack), None)
            if holder is not None:
                draft.stack, holder.stack = holder.stack, None
        draft.usage = usage
        self._open.remove(draft)
        self._drafts.append(draft)
        self._last = draft

    def _unowned(self, usage: Usage, line: int, before: Draft | None) -> None:
        if before is not None and before.role == "function" and not self._open:
            before.role = "entry"
            before.usage = usage
            before.reasons += ("no 'Compiling entry function' line names it",)
            self._last = before
            return
        self._issues.add(
            "unattributed-registers",
            f"a line says {usage.registers} registers, but no kernel is open that could own it; {PARALLEL_HINT}",
            line,
            "error",
        )

    def _compile_time(self, milliseconds: float, before: Draft | None) -> None:
        """It follows what it measures at once (from 12.8 on), unless another compiler's lines come between."""
        self._compile_times += 1
        if before is None:
            self._interleaved = True
            return
        if before.role == "function":
            before.section.relocatable = True  # device functions of whole programs have no compile time of their own
        before.compile_ms = milliseconds

    # ---- interleaved output ----------------------------------------------------------------------------------------

    def _set_aside(self) -> None:
        """Kernels and registers lines that belong together, one way or another: the whole input decides."""
        self._tangles.append((self._open, self._uses))
        self._open, self._uses = [], []

    def _assign(self) -> None:
        """Settle what was set aside, with what the sure kernels of the whole input prove."""
        reserves = Reserves()
        for _, _, _, kernel in self._kernels:
            reserves.witness(kernel.key.symbol, kernel.key.arch, kernel.usage)
        for draft in self._drafts:
            if draft.role == "entry":
                reserves.witness(draft.symbol, draft.arch, draft.usage)
        for drafts, uses in self._tangles:
            assign(drafts, uses, reserves)
            for draft in drafts:
                if draft.stack is None and not self._without_abi:
                    self._incomplete(draft)
                else:
                    self._drafts.append(draft)
        self._tangles = []

    def _incomplete(self, draft: Draft) -> None:
        self._issues.add("truncated", f"the figures of {draft.symbol} are not all there", draft.line, "error")

    # ---- sections, notes, links -------------------------------------------------------------------------------------

    def _begin_section(self) -> None:
        self._section = Section(headed=True, notes=self._notes.take_nameless())
        if self._section.notes:
            self._sections.append(self._section)

    def _note(self, note: Note, line: int) -> None:
        self._without_abi |= note.advisory.kind == "no_abi"
        self._notes.add(note, line)

    def _unattached(self, note: Note, line: int, why: str) -> None:
        self._issues.add("unattached-advisory", f"{note.advisory.text} ({why})", line, "note")

    def _link_used(self, usage: Usage, line: int) -> None:
        if self._link_named is None:
            message = "nvlink's registers line follows no 'Function properties'"
            self._issues.add("unattributed-registers", message, line, "error")
            return
        origin = Origin(input=self._input, line=line, format="nvlink")
        named, self._link_named = self._link_named, None
        self._links.append(LinkRecord(named.symbol, named.arch, usage, origin))
