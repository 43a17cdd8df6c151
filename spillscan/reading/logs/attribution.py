"""From messages to kernels: the state of one writer's stream, certain about what is sure and no further.

One compiler writes ``Compiling entry function`` (names kernel and arch), ``Function properties`` with its stack line
(one write: they stay together and name the function), then ``Used N registers`` and ``Compile time``, which name
nothing. In a log that several compilers wrote, registers lines are assigned when every possible assignment agrees, and
when the account shows that no line is missing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from operator import attrgetter

from msgspec.structs import replace

from spillscan.model import LOST_SETTING, Issue, Kernel, LinkRecord, Origin, Usage
from spillscan.reading.logs.interleaved import (
    Reserves,
    assign,
    contradicts,
    may_own,
    prints_constant_banks,
    settle_stacks,
)
from spillscan.reading.logs.messages import (
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
    Torn,
    Unknown,
    Used,
)
from spillscan.reading.logs.records import (
    ALL,
    FIGURES,
    NO_USAGE,
    Account,
    Context,
    Draft,
    Notes,
    PendingUse,
    Run,
    Section,
    Suspicion,
    finished,
    first_line,
    quoted,
    record,
    shown_by,
    with_callees,
)
from spillscan.reading.logs.steps import Step

PARALLEL_HINT = "have each compilation's output written whole (make -Otarget, ninja)"

MOST_OPEN = 2048
"""So many kernels do not wait for their registers lines at once: lines are lost."""

_CALLEES_FIRST = re.compile(r"sm_[12]\d|sm_30")
"""Releases for these archs print the properties of callees before the kernel's registers."""
_WITHOUT_STACK_LINES = re.compile(r"sm_1\d")

_SUSPICIONS: dict[Suspicion, str] = {
    "foreign": "the properties of another function stand before its registers line",
    "misplaced": "its properties stand before another kernel's registers line",
    "bare": "no stack line stands before its registers line",
    "nameless": "no 'Function properties' line names its stack",
    "unindented": "its stack line has lost its beginning",
}


class Writer:
    """The messages of one writer (or of several that cannot be distinguished) in the order in which they came."""

    def __init__(self, input_name: str) -> None:
        self._input = input_name
        self.modules: list[Step] = []
        """The steps in which a module began, which may hold no kernel."""
        self._account = Account(input_name)
        self._drafts: list[Draft] = []
        self._runs: list[Run] = []
        self._links: list[LinkRecord] = []
        self._section = Section()
        self._sections: list[Section] = []  # those with advisories that name no kernel
        self._open: list[Draft] = []
        self._uses: list[PendingUse] = []
        self._tangles: list[tuple[list[Draft], list[PendingUse]]] = []
        self._owed: set[str] = set()  # kernels that were set aside without their stack lines
        self._named: tuple[str, int] | None = None
        self._link_named: LinkProperties | None = None
        self._link_line = 0
        self._linked: set[str] = set()
        self._link_lost = False
        self._last: Draft | None = None  # the draft that the previous message completed
        self._notes = Notes()
        self._text = ""  # the line of the present message
        self._messages = 0
        self._interleaved = False
        self._crossed = False  # by other signs than compile times that follow no kernel
        self._overlapped = False  # a kernel began while another was open
        self._without_abi = False
        self._registers_lines = 0
        self._stack_lines = 0  # with an indent
        self._names = 0  # lines that name the stack line that follows
        self._entries = 0
        self._compile_times = 0
        self._stray_times: list[int] = []
        self._half_timed: list[int] = []
        self._headless: list[tuple[int, str, str]] = []
        self._name_lost = False
        self._unended = False
        self._with_arch = False  # a kernel's first line names its arch

    # ---- what the reader asks ---------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Nothing is half-read: a whole block can be taken at once."""
        return not self._open and self._named is None and not self._name_lost

    @property
    def awaits_stack(self) -> bool:
        """``Function properties`` was read, its stack line not yet."""
        return self._named is not None

    @property
    def awaits_link(self) -> bool:
        """nvlink's properties were read, their registers line not yet."""
        return self._link_named is not None

    @property
    def timed(self) -> bool:
        """It reports a compile time behind each registers line."""
        return self._compile_times > 0

    @property
    def interleaved(self) -> bool:
        """Several compilers wrote into this stream at once."""
        return self._interleaved

    # ---- messages -------------------------------------------------------------------------------------------------

    def blocks(self, kernels: list[Kernel], step: Step, *, barriers: int, linked: bool) -> None:
        """Kernels of one arch, all of them with a compile time or none, whose lines stand together while nothing else
        is open: the same as feeding them one by one. ``barriers`` and ``linked`` are what their figures show of the
        :class:`~spillscan.reading.logs.records.Section`."""
        count, first = len(kernels), kernels[0]
        self._registers_lines += count
        self._stack_lines += count
        self._names += count
        self._messages += count
        self._compile_times += 0 if first.compile_ms is None else count
        self._enter(first.key.arch, first_line(kernels[-1]), count)
        section = self._section
        section.linked |= linked
        section.barriers |= barriers
        self._timed(section, first.compile_ms, first_line(first))
        if notes := self._notes.named:
            kernels = [self._noted(kernel) if kernel.key.symbol in notes else kernel for kernel in kernels]
        self._runs.append(Run(section, step, kernels))
        self._last = None

    def _noted(self, kernel: Kernel) -> Kernel:
        return replace(kernel, advisories=self._notes.take(kernel.key.symbol, kernel.usage.spills))

    def feed(self, message: Message, line: int, step: Step, text: str = "") -> None:
        """One message, on ``line`` with ``text``, printed during ``step``."""
        before, self._last = self._last, None
        self._text = text
        self._messages += 1
        if self._named is not None and not isinstance(message, Stack):
            self._forget_named()
        match message:
            case EntryLine():
                self._entry(message, line, step)
            case Properties():
                self._named = (message.symbol, line)
                self._names += 1
            case Stack():
                self._stack(message, line, step, before)
            case Used():
                self._used(message, line, before)
            case CompileTime():
                self._compile_time(message.milliseconds, line, before)
            case Module():
                self._begin_section()
                self.modules.append(step)
            case Note():
                self._note(message, line)
            case Unknown():
                hides = ALL if message.of_report else None
                self._account.add("unknown-line", f"not understood: {message.text}", line, hides=hides)
            case Torn(spilled=True):
                message_ = f"a warning of spills is not whole: {quoted(message.text)}"
                self._account.add("unread-spill-warning", message_, line, "error")
                self._account.disturbed(line)
                if message.glued or not message.elided:
                    self._torn(message, line)
            case Torn():
                self._torn(message, line)
            case LinkProperties():
                self._link_properties(message, line)
            case LinkUsed():
                self._link_used(message, line)
            case Ignored():
                pass

    def damaged(self, message: str, line: int) -> None:
        """Something on ``line`` is not text."""
        self._account.torn(message, line)

    def interrupted(self) -> None:
        """Something stands between the properties and the stack line that follows: a compiler writes them at once."""
        assert self._named is not None
        symbol, line = self._named
        self._account.lost(f"other text stands between the properties of {symbol} and a stack line", line)
        self._name_lost = True

    def link_interrupted(self) -> None:
        """The same between nvlink's properties and the registers line that follows."""
        self._forget_link()

    def end(self, *, cut: str = "", unended: bool = False, line: int = 0) -> None:
        """The input ends here, on ``line``, and inside of one that begins with ``cut``: settle what is still open.

        ``unended``: its last line is whole and has no end, so that callees of the last kernel may be missing.
        """
        self._unended = unended
        if unended and self._last is not None and self._last.role == "entry" and not self._last.reasons:
            self._last.reasons = ("its registers line has no end: clauses may be missing",)
        if cut:
            self._account.add("truncated", f"the input ends inside a line: {quoted(cut)}", line, "error")
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
        if self._link_named is not None:
            self._forget_link()
        self._count()
        if self.timed and not self._interleaved:
            self._lacks_times(line)
        complete = self._account.complete
        for draft in self._drafts:
            if draft.role == "entry" or draft.suspicions:
                self._suspect(draft, complete)
        for section in self._sections:
            if section.entries != 1 or self._interleaved:
                mine = self._of_each_kernel(section)
                for note, noted in section.notes:
                    if not mine or note.advisory.kind != LOST_SETTING:
                        self._unattached(note, noted, "names no kernel")
                section.notes = mine
        settle_stacks(self._drafts)
        named = self._notes.named
        of_drafts = ((each.symbol, each.stack.spills) for each in self._drafts if each.symbol in named and each.stack)
        of_kernels = ((each.key.symbol, each.usage.spills) for each in self._whole() if each.key.symbol in named)
        self._drafts.extend(self._notes.drafts(chain(of_drafts, of_kernels)))
        for note, noted, why in self._notes.unattached():
            self._unattached(note, noted, why)

    def issues(self) -> list[Issue]:
        """What was not understood; complete after :meth:`end`."""
        return self._account.issues()

    def links(self) -> list[LinkRecord]:
        """What the linker said for sure; complete after :meth:`end`."""
        doubts = self._account.doubts(interleaved=self._interleaved)
        return [link for link in self._links if (link.origin.line or 0) not in doubts]

    def kernels(self, *, units_in_doubt: bool) -> list[Kernel]:
        """All that was read, by its lines; complete after :meth:`end`.

        ``units_in_doubt`` drops the units of steps whose output other steps may have interrupted.
        """
        sections = [*(run.section for run in self._runs), *(draft.section for draft in self._drafts)]
        several = self._interleaved and len(self._arches() - {None}) > 1
        context = Context(
            input=self._input,
            interleaved=self._interleaved,
            relocatable=self._relocatable(sections),
            units_in_doubt=units_in_doubt,
            arch_in_doubt=several,
            doubts=self._account.doubts(interleaved=self._interleaved),
            namesakes=self._namesakes() if several else frozenset(),
            linked=frozenset(self._linked) if self._interleaved else frozenset(),
        )
        plain = not (self._interleaved or units_in_doubt or context.relocatable or context.doubts)
        callees = {}
        if self._account.complete and not (self._unended or self._interleaved or context.relocatable):
            callees = self._callees()
        summed: dict[tuple[int, tuple[int, int]], Usage] = {}  # equal figures share one record

        def calling(kernel: Kernel, spills: tuple[int, int]) -> Kernel:
            figures = id(kernel.usage), spills
            usage = summed.get(figures) or summed.setdefault(figures, with_callees(kernel.usage, spills))
            return replace(kernel, usage=usage)

        found: list[Kernel] = []
        every: list[Run | Draft] = [*self._runs, *self._drafts]
        for each in sorted(every, key=attrgetter("line")):
            if isinstance(each, Run):
                kernels = each.kernels
                if spills := callees.get(first_line(kernels[-1])):  # another's callees would stand before the next one
                    kernels[-1] = calling(kernels[-1], spills)
            else:
                kernels = [record(each, context)]
                if each.line in callees:
                    kernels = [calling(kernels[0], callees[each.line])]
            if not plain or each.section.notes or each.step.relocatable:
                kernels = [finished(kernel, each.section, each.step, context) for kernel in kernels]
            found += kernels
        return found

    def _whole(self) -> Iterator[Kernel]:
        """The kernels whose lines stood together."""
        return chain.from_iterable(run.kernels for run in self._runs)

    def _callees(self) -> dict[int, tuple[int, int]]:
        """What the callees of each kernel spill, by the kernel's line, where that is known of all of them: whole
        programs list them behind it, relocatable code and debug builds before all kernels of a module."""
        found: dict[int, tuple[int, int] | None] = {}
        for draft in self._drafts:
            caller = draft.caller_line
            if not caller or draft.role != "function" or draft.section.relocatable or draft.step.relocatable:
                continue
            spills, before = draft.spills, found.get(caller, (0, 0))
            found[caller] = None if spills is None or before is None else (before[0] + spills[0], before[1] + spills[1])
        return {caller: spills for caller, spills in found.items() if spills is not None}

    def _relocatable(self, sections: Iterable[Section]) -> bool:
        """Whether the log shows relocatable code (-rdc, -dc).

        Its device functions come first and have a compile time each, those of whole programs have none; their number
        decides where the order of lines proves nothing. Debug builds (-G) print them in the same way, but only where
        ptxas knows the callees does it sum up a kernel's stack over them (measured, 9.1 to 13.5). Before 12.8 there are
        no compile times, and the order's hint is believed: figures that are final are then called not final, never the
        other way round.
        """
        if self._interleaved and self._compile_times:
            return self._compile_times > self._registers_lines
        return any(section.relocatable and not section.linked for section in sections)

    def _arches(self) -> set[str | None]:
        return {kernel.key.arch for kernel in self._whole()} | {draft.arch for draft in self._drafts}

    def _namesakes(self) -> frozenset[str]:
        arches: dict[str, set[str | None]] = defaultdict(set)
        for kernel in self._whole():
            arches[kernel.key.symbol].add(kernel.key.arch)
        for draft in self._drafts:
            arches[draft.symbol].add(draft.arch)
        return frozenset(symbol for symbol, found in arches.items() if len(found) > 1)

    def function(self, symbol: str, stack: Stack, compile_ms: float | None, line: int, step: Step) -> None:
        """A device function whose lines stand together while nothing else is open: the same as feeding them."""
        self._names += 1
        self._stack_lines += 1
        self._messages += 1
        draft = self._begin_function(symbol, stack, line, step)
        if compile_ms is not None:
            self._messages += 1
            self._compile_times += 1
            self._measured(draft, compile_ms)
            self._last = None

    # ---- one kernel's lines ------------------------------------------------------------------------------------

    def _entry(self, entry: EntryLine, line: int, step: Step) -> None:
        if self._open:
            self._interleaved = self._crossed = self._overlapped = True
        if len(self._open) >= MOST_OPEN:
            self._give_up(line)
        self._enter(entry.arch, line)
        self._last = Draft(entry.symbol, entry.arch, "entry", line, step, self._section)
        self._open.append(self._last)

    def _enter(self, arch: str | None, line: int, kernels: int = 1) -> None:
        """So many kernels of one arch begin, the last of them on ``line``."""
        section = self._section
        if section.headed and section.arch not in (None, arch):
            self._interleaved = self._crossed = True  # one ptxas run compiles for one arch
        section.arch = arch
        section.entries += kernels
        section.last_kernel_line = line
        self._with_arch |= arch is not None
        self._entries += kernels

    def _stack(self, stack: Stack, line: int, step: Step, before: Draft | None) -> None:
        self._stack_lines += stack.indented
        if self._named is None and before is not None and before in self._open:
            before.stack = stack
            before.suspicions |= {"nameless"}
            return
        if self._named is None:
            message = f"no 'Function properties' line names the kernel of: {quoted(self._text)}"
            self._account.add("unattributed-stack", message, line, "error", hides=ALL)
            if self._messages > 1:
                self._account.disturbed(line)
                self._interleaved = True
            return
        (symbol, named_line), self._named = self._named, None
        lost, self._name_lost = self._name_lost, False
        namesakes = [draft for draft in self._open if draft.symbol == symbol]
        waiting = [draft for draft in namesakes if draft.stack is None]
        if not waiting:
            function = self._begin_function(symbol, stack, named_line, step)
            self._doubt_stack(function, stack, lost)
            for draft in self._open:
                if not _CALLEES_FIRST.fullmatch(draft.arch or ""):
                    draft.suspicions |= {"foreign"}
                    function.suspicions |= {"misplaced"}
            return
        doubtful = symbol in self._owed or any(draft.stack_in_doubt for draft in namesakes)
        if doubtful or len({draft.identity for draft in waiting}) > 1:
            for draft in waiting:
                draft.stack_in_doubt = True
        waiting[0].stack = stack
        self._doubt_stack(waiting[0], stack, lost)
        if symbol in self._notes.named:
            waiting[0].advisories = self._notes.take(symbol, stack.spills)

    def _begin_function(self, symbol: str, stack: Stack, line: int, step: Step) -> Draft:
        section = self._section
        section.relocatable |= not section.entries  # only relocatable code has them before kernels (-c, -rdc=true)
        self._last = Draft(symbol, None, "function", line, step, section, stack, caller_line=section.last_kernel_line)
        if symbol in self._notes.named:
            self._last.advisories = self._notes.take(symbol, stack.spills)
        self._drafts.append(self._last)
        return self._last

    def _doubt_stack(self, draft: Draft, stack: Stack, lost: bool) -> None:
        """``lost``: the stack line of the properties before is missing, unless this is it."""
        if not stack.indented:
            draft.suspicions |= {"unindented"}
        if lost:
            draft.reasons += ("a stack line was lost before its own",)
            draft.stack_in_doubt = True

    def _forget_named(self) -> None:
        if self._named is not None:
            symbol, line = self._named
            self._account.lost(f"no stack line follows the properties of {symbol}", line, symbol=symbol)
            self._named = None
            self._name_lost = True

    def _used(self, used: Used, line: int, before: Draft | None) -> None:
        self._registers_lines += 1
        usage = used.usage
        if used.cut:
            self._torn(used, line)
        owners = [draft for draft in self._open if may_own(draft, usage, without_abi=self._without_abi)]
        if not owners and len(self._open) == 1 and (used.cut or not contradicts(self._open[0], usage)):
            owners = list(self._open)  # a module without the ABI prints no stack line
            if not (self._without_abi or _WITHOUT_STACK_LINES.fullmatch(owners[0].arch or "")):
                owners[0].suspicions |= {"bare"}
        if not owners:
            self._unowned(usage, line, before)
        elif len(owners) == 1 and not self._uses:
            self._own(owners[0], usage)
            if used.cut:
                owners[0].reasons += ("its registers line is cut",)
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
        section = draft.section
        barriers, linked = shown_by(usage)
        section.linked |= linked
        section.barriers |= barriers
        self._open.remove(draft)
        self._drafts.append(draft)
        self._last = draft

    def _unowned(self, usage: Usage, line: int, before: Draft | None) -> None:
        if before is not None and before.role == "function" and not self._open:
            before.role = "entry"
            before.usage = usage
            before.reasons += ("no 'Compiling entry function' line names it",)
            self._headless.append((before.line, before.symbol, self._text))
            self._last = before
            return
        hint = f"; {PARALLEL_HINT}" if self._interleaved else ""
        message = f"no 'Compiling entry function' line names the kernel of: {quoted(self._text)}{hint}"
        self._account.add("unattributed-registers", message, line, "error", hides=ALL)
        if self._messages > 1:
            self._account.disturbed(line)

    def _compile_time(self, milliseconds: float, line: int, before: Draft | None) -> None:
        """It follows what it measures at once (from 12.8 on), unless another compiler's lines come between."""
        if self._messages == 1:
            self._account.lost("the input begins with a compile time: the lines of its kernel are missing", line)
            return
        self._compile_times += 1
        if before is None or before in self._open:
            self._interleaved = True
            self._stray_times.append(line)
            return
        self._measured(before, milliseconds)

    def _measured(self, draft: Draft, milliseconds: float) -> None:
        if draft.role == "function":
            draft.section.relocatable = True  # device functions of whole programs have no compile time of their own
        draft.compile_ms = milliseconds

    # ---- what is missing ---------------------------------------------------------------------------------------------

    def _torn(self, message: Torn | Used, line: int) -> None:
        """Pieces of lines; those at the beginning of the input were cut off with what stood before."""
        text = message.text if isinstance(message, Torn) else self._text
        if self._messages == 1 and isinstance(message, Torn) and not message.glued:
            what = "not a whole line" if text.lstrip().startswith("ptxas ") else "the input begins inside a line"
            self._account.lost(f"{what}: {quoted(text)}", line)
        elif isinstance(message, Used) and len(self._open) == 1 and not self._uses:
            self._account.lost(f"clauses are missing from a registers line: {quoted(text)}", line)
        else:
            self._account.torn(f"not a whole line: {quoted(text)}", line)

    def _count(self) -> None:
        """What only the whole input shows: that lines of one kind are fewer than those of another."""
        if self._headless:
            line, symbol, text = self._headless[0]
            more = f" ({len(self._headless)} kernels)" if len(self._headless) > 1 else ""
            message = f"no 'Compiling entry function' line names {symbol}{more}: {quoted(text)}"
            self._account.lost(message, line, hides=None if self._entries or not more else FIGURES)
        functions = [draft.compile_ms for draft in self._drafts if draft.role == "function"]
        timed = len(functions) - functions.count(None)
        if self._overlapped or (self._crossed and timed):
            timed = len(functions)
        if self._stray_times and self._compile_times > self._registers_lines + timed:
            self._account.lost("a compile time is no kernel's: its lines are missing", self._stray_times[0])

    def _timed(self, section: Section, compile_ms: float | None, line: int) -> None:
        """A kernel on ``line`` has this compile time: in one compiler's run all have, or none."""
        before, section.times = section.times, section.times | (2 if compile_ms is None else 1)
        if before != section.times == 3:
            self._half_timed.append(line)

    def _lacks_times(self, line: int) -> None:
        """Where the last kernel alone has no compile time, the log was cut behind its registers line."""
        last: tuple[int, float | None] = (0, 0)
        if self._runs:
            kernel = self._runs[-1].kernels[-1]
            last = first_line(kernel), kernel.compile_ms
        for draft in self._drafts:
            if draft.role == "entry":
                self._timed(draft.section, draft.compile_ms, draft.line)
                last = max(last, (draft.line, draft.compile_ms), key=lambda pair: pair[0])
        if last[1] is None and self._compile_times == self._registers_lines - 1:
            message = "the log ends before the compile time of its last kernel, and perhaps before other kernels"
            self._account.add("truncated", message, line, "error")
        elif self._half_timed:
            message = "kernels of one compiler's run lack compile times that others have: lines are missing"
            self._account.lost(message, self._half_timed[0])

    def _suspect(self, draft: Draft, complete: bool) -> None:
        """Decide what may be wrong with a draft."""
        if draft.role == "entry" and draft.usage.registers is not None and not draft.reasons:
            self._conform(draft)
        if draft.role == "entry" and draft.arch is None and self._with_arch:
            draft.reasons += ("the line that begins it names no arch, as others do",)
            self._account.lost(f"no arch stands behind {draft.symbol}", draft.line)
        for suspicion in sorted(draft.suspicions):
            if not self._stands(suspicion, complete):
                continue
            draft.reasons += (_SUSPICIONS[suspicion],)
            self._account.lost(f"{draft.symbol}: {_SUSPICIONS[suspicion]}", draft.line, symbol=draft.symbol)
            if suspicion in ("foreign", "bare"):
                draft.usage = NO_USAGE
            else:
                draft.stack_in_doubt = True

    def _stands(self, suspicion: Suspicion, complete: bool) -> bool:
        match suspicion:
            case "foreign" | "misplaced":
                return not (self._overlapped and complete)
            case "bare":
                return self._stack_lines > 0 or self._names > 0
            case "nameless":
                return self._names > 0
            case "unindented":
                return self._stack_lines > 0

    def _conform(self, draft: Draft) -> None:
        """Clauses that its release and arch always print must be there."""
        banks = prints_constant_banks(draft.arch)
        if (banks and draft.usage.constant_bytes is None) or (
            draft.section.barriers == 3 and draft.usage.barriers is None and draft.section.headed
        ):
            draft.reasons += ("its registers line is cut",)
            message = f"clauses are missing from the registers line of {draft.symbol}"
            self._account.lost(message, draft.line, hides=FIGURES, symbol=draft.symbol)

    # ---- interleaved output ----------------------------------------------------------------------------------------

    def _set_aside(self) -> None:
        """Kernels and registers lines that belong together, one way or another: the whole input decides."""
        self._tangles.append((self._open, self._uses))
        self._owed |= {draft.symbol for draft in self._open if draft.stack is None and draft.stack_in_doubt}
        self._open, self._uses = [], []

    def _give_up(self, line: int) -> None:
        """Too many kernels wait: whose the lines are will never be known."""
        self._account.lost(f"the registers lines of {len(self._open)} kernels cannot be assigned", line)
        for draft in self._open:
            draft.reasons += ("interleaved output: its registers line is lost",)
        self._drafts += [draft for draft in self._open if draft.stack is not None]
        self._open, self._uses = [], []

    def _assign(self) -> None:
        """Settle what was set aside, with what the sure kernels of the whole input prove."""
        reserves = Reserves()
        for kernel in self._whole():
            reserves.witness(kernel.key.symbol, kernel.key.arch, kernel.usage)
        for draft in self._drafts:
            if draft.role == "entry":
                reserves.witness(draft.symbol, draft.arch, draft.usage)
        untimed = 0 < self._compile_times < self._registers_lines
        for drafts, uses in self._tangles:
            assign(drafts, uses, reserves)
            if untimed:  # as many of these may be lost as of the lines that begin a kernel
                self._account.lost("registers lines lack their compile times", drafts[0].line)
            if len(uses) < len(drafts):
                names = ", ".join(draft.symbol for draft in drafts[:2])
                message = f"{len(drafts)} kernels ({names} …) have {len(uses)} registers lines"
                self._account.lost(message, drafts[0].line)
            for draft in drafts:
                if draft.stack is None and not self._without_abi:
                    self._incomplete(draft)
                else:
                    self._drafts.append(draft)
        self._tangles = []

    def _incomplete(self, draft: Draft) -> None:
        message = f"the figures of {draft.symbol} are not all there"
        self._account.add("truncated", message, draft.line, "error", symbol=draft.symbol)
        self._account.disturbed(draft.line)

    # ---- sections, notes, links -------------------------------------------------------------------------------------

    def _begin_section(self) -> None:
        self._section = Section(headed=True, notes=self._notes.take_nameless())
        if self._section.notes:
            self._sections.append(self._section)

    def _note(self, note: Note, line: int) -> None:
        self._without_abi |= note.advisory.kind == "no_abi"
        self._notes.add(note, line)

    def _of_each_kernel(self, section: Section) -> list[tuple[Note, int]]:
        """What ptxas said once of each kernel of a section. Of setmaxnreg it says once a function that it is ignored
        (measured, 12.4 to 13.5): of as many kernels as there are messages, all are meant."""
        ignored = [(note, line) for note, line in section.notes if note.advisory.kind == LOST_SETTING]
        alone = all(draft.role != "function" for draft in self._drafts if draft.section is section)
        return ignored[:1] if alone and len(ignored) == section.entries and not self._interleaved else []

    def _unattached(self, note: Note, line: int, why: str) -> None:
        text = f"{note.advisory.text} ({why})"
        if note.advisory.kind == LOST_SETTING:  # one of the kernels runs with other registers than its source says
            self._account.add("unattached-setmaxnreg", text, line, "error")
        else:
            self._account.add("unattached-advisory", text, line, "note")

    def _link_properties(self, message: LinkProperties, line: int) -> None:
        if self._link_named is not None:
            self._forget_link()
            self._link_lost = True
        self._link_named, self._link_line = message, line
        self._linked.add(message.symbol)

    def _forget_link(self) -> None:
        """No registers line follows it; the next one may be its own."""
        assert self._link_named is not None
        symbol = self._link_named.symbol
        message = f"no registers line follows nvlink's properties of {symbol}"
        self._account.add("lost-lines", message, self._link_line, "error", hides=FIGURES, symbol=symbol)
        self._link_named = None

    def _link_used(self, message: LinkUsed, line: int) -> None:
        named, self._link_named = self._link_named, None
        lost, self._link_lost = self._link_lost, False
        if named is None or lost or message.cut:
            text = f"nvlink's line names no kernel, or is not whole: {quoted(self._text)}"
            self._account.add("unattributed-registers", text, line, "error", hides=ALL if named is None else FIGURES)
            return
        origin = Origin(input=self._input, line=line, format="nvlink")
        self._links.append(LinkRecord(named.symbol, named.arch, message.usage, origin))
