"""Assign messages to kernels: the state of one writer's stream, which only states what is certain."""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any

from msgspec.structs import replace

from spillscan.model import Issue, Kernel, Origin, Reading, Usage
from spillscan.output.nouns import count
from spillscan.reading.logs import doubts, messages
from spillscan.reading.logs.issue_log import ALL, METRICS, IssueLog, quoted
from spillscan.reading.logs.kernels import (
    PendingKernel,
    Run,
    Section,
    callees_first,
    first_line,
    without_stack_lines,
)
from spillscan.reading.logs.link_lines import LinkLines
from spillscan.reading.logs.notes import Notes
from spillscan.reading.logs.records import Context, may_be_relocatable, namesakes, records
from spillscan.reading.logs.steps import NO_STEP, Step
from spillscan.reading.logs.waiting import MOST_WAITING, Waiting, assign

_NO_STACK = dict.fromkeys(("stack_bytes", "spill_store_bytes", "spill_load_bytes"))
_ONE_OF_MANY = "interleaved output: many lines may have its registers"
_PARALLEL_HINT = "if several compilers wrote it, keep each one's output together (make -Otarget, ninja)"


class Writer:
    """The messages of one writer (or of several indistinguishable ones), in log order."""

    def __init__(self, input_name: str) -> None:
        self._issues = IssueLog(input_name)
        self._notes = Notes(self._issues)
        self.linker = LinkLines(input_name, self._issues)
        self._seen = doubts.Seen()
        self.modules: list[Step] = []
        """Steps in which a module began, including modules without kernels."""
        self._runs: list[Run] = []
        """Kernels with consecutive lines."""
        self._pending: list[PendingKernel] = []
        """All other kernels and functions with all their lines."""
        self._nameless: list[doubts.Nameless] = []
        self._unbegun: list[tuple[int, str, str]] = []
        """(line, symbol, registers line) of kernels without a ``Compiling entry function`` line."""
        self._groups: list[int] = []
        """First lines of the groups of kernels whose registers lines were assigned together."""

        self._section = Section()
        self._waiting = Waiting()
        self._owed = 0
        """Number of registers lines to come of kernels that were given up, because too many waited. Until all of them
        are read, no registers line is assigned."""
        self._named: tuple[str, int] | None = None
        """(symbol, line) of function properties whose stack line has not been read."""
        self._stack_missing = False
        """Whether the stack line of the previous properties is missing, unless the next one is it."""
        self._before: PendingKernel | None = None
        """Kernel or function that the previous message began or completed."""
        self._last: PendingKernel | None = None
        """The same of the current message."""
        self._line, self._step, self._text = 0, NO_STEP, ""
        """Place of the current message."""

    # ---- queries of the reader --------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether nothing is half-read, so that a whole block can be taken at once."""
        return not (self._waiting.kernels or self._owed or self._named or self._stack_missing)

    @property
    def awaits_stack(self) -> bool:
        """Whether ``Function properties`` was read and its stack line was not."""
        return self._named is not None

    @property
    def timed(self) -> bool:
        """Whether the writer reports a compile time after its registers lines."""
        return self._seen.compile_times > 0

    # ---- messages -------------------------------------------------------------------------------------------------

    def kernels(self, kernels: list[Kernel], step: Step) -> None:
        """Add consecutive kernels of one arch, either all with a compile time or none, while nothing else is open.

        Equivalent to feeding their lines one by one.
        """
        count, first, seen, named = len(kernels), kernels[0], self._seen, self._notes.named
        seen.registers_lines += count
        seen.features.update(("name", "stack", "indent"))
        seen.messages += count
        seen.compile_times += 0 if first.compile_ms is None else count
        self._enter(first.key.arch, first_line(kernels[-1]), count)
        if named:
            kernels = [
                replace(kernel, advisories=self._notes.take(kernel.key.symbol, kernel.usage.spills))
                if kernel.key.symbol in named
                else kernel
                for kernel in kernels
            ]
        self._runs.append(Run(self._section, step, kernels))
        self._last = None

    def feed(self, message: messages.Message, line: int, step: Step, text: str = "") -> None:
        """Process one message, read from ``text`` on ``line`` and printed during ``step``."""
        self._before, self._last = self._last, None
        self._line, self._step, self._text = line, step, text
        self._seen.messages += 1
        if self._named is not None and not isinstance(message, messages.Stack):
            self._forget_named()
        if take := _HANDLERS.get(type(message)):
            take(self, message)

    def damaged(self, message: str, line: int) -> None:
        """Record that ``line`` contains bytes that are not text."""
        self._issues.add_damage(message, line)

    def interrupted(self) -> None:
        """Record other text between function properties and their stack line, which compilers write together."""
        assert self._named is not None
        symbol, line = self._named
        self._issues.add_missing(f"other text between the properties of {symbol} and its stack line", line)
        self._stack_missing = True

    # ---- a kernel begins ---------------------------------------------------------------------------------------

    def _module(self, _: messages.Module) -> None:
        self._section = self._notes.begin_section()
        self.modules.append(self._step)

    def _entry(self, entry: messages.EntryLine) -> None:
        waiting = self._waiting
        if waiting.kernels:
            self._seen.interleaved = self._seen.crossed = self._seen.overlapped = True
        if len(waiting.kernels) >= MOST_WAITING:
            self._give_up()
        self._enter(entry.arch, self._line)
        kernel = self._last = PendingKernel(entry.symbol, entry.arch, "entry", self._line, self._step, self._section)
        if entry.arch is None:
            kernel.lacks |= {"arch"}
        waiting.begin(kernel)
        if not entry.symbol:
            self._without_name(kernel)

    def _enter(self, arch: str | None, line: int, kernels: int = 1) -> None:
        """Begin ``kernels`` kernels of one arch, the last of them on ``line``."""
        section = self._section
        if section.headed and section.arch not in (None, arch):  # one ptxas run compiles for one arch
            self._seen.interleaved = self._seen.crossed = True
        section.arch, section.last_kernel_line = arch, line
        section.entries += kernels
        if arch is not None:
            self._seen.features.add("arch")
        self._seen.entries += kernels

    # ---- its stack line ----------------------------------------------------------------------------------------

    def _properties(self, properties: messages.Properties) -> None:
        self._named = (properties.symbol, self._line)
        self._seen.features.update(("name", "stack"))

    def _forget_named(self) -> None:
        if self._named is not None:
            symbol, line = self._named
            self._issues.add_missing(f"no stack line follows the properties of {symbol}", line, symbol=symbol)
            self._named = None
            self._stack_missing = True

    def _stack(self, stack: messages.Stack) -> None:
        if stack.indented:
            self._seen.features.update(("stack", "indent"))
        if self._named is None:
            self._unnamed_stack(stack)
            return
        symbol, line = self._named
        kernel = self._waiting.of_stack(symbol, stack)
        if kernel is None:
            kernel = self._last = self._begin_function(symbol, stack, line)
            for each in self._waiting.kernels:
                if not callees_first(each.arch):
                    each.crossed = kernel.crossed = True
        elif symbol in self._notes.named:
            kernel.advisories = self._notes.take(symbol, stack.spills)
        if not stack.indented:
            kernel.lacks |= {"indent"}
        if self._stack_missing:
            kernel.reasons += ("a stack line was lost before its own",)
            kernel.stack_in_doubt = True
        self._named, self._stack_missing = None, False
        if self._owed and kernel.role == "entry":
            self._owed += 1
            kernel.reasons += (_ONE_OF_MANY,)
            self._settle([kernel])

    def _unnamed_stack(self, stack: messages.Stack) -> None:
        kernel = self._before
        if kernel is not None and kernel in self._waiting.kernels:
            kernel.stack = stack
            kernel.lacks |= {"name"}
        else:
            self._last = PendingKernel("", None, "unknown", self._line, self._step, Section(), stack)
            self._without_name(self._last)

    def _without_name(self, kernel: PendingKernel) -> None:
        """Record values that no line assigns to a kernel."""
        self._nameless.append(doubts.Nameless(kernel, self._text, self._seen.messages))

    def _begin_function(self, symbol: str, stack: messages.Stack, line: int) -> PendingKernel:
        section = self._section
        section.apart |= not section.entries
        caller = section.last_kernel_line
        function = PendingKernel(symbol, None, "function", line, self._step, section, stack, caller_line=caller)
        if symbol in self._notes.named:
            function.advisories = self._notes.take(symbol, stack.spills)
        self._pending.append(function)
        return function

    # ---- its registers line ------------------------------------------------------------------------------------

    def _used(self, used: messages.Used) -> None:
        self._seen.registers_lines += 1
        if used.usage.spills is not None and "indent" in self._seen.features:
            used = replace(used, usage=replace(used.usage, **_NO_STACK), cut=True)  # it goes on as a stack line
        waiting = self._waiting
        if used.cut and len(waiting.kernels) == 1 and not waiting.uses:
            self._issues.add_missing(
                f"parts of a 'Used N registers' line are missing: {quoted(self._text)}", self._line
            )
        elif used.cut:
            self._issues.add_damage(f"incomplete line: {quoted(self._text)}", self._line)
        if self._owed:
            self._owed -= not waiting.without_abi
            return
        owners = waiting.owners(used)
        if not owners:
            self._unowned_registers(used.usage)
        elif len(owners) > 1 or waiting.uses or (owners[0].stack_in_doubt and owners[0].stack is None):
            waiting.uses.append(used.usage)
            ready = waiting.ready()
            if len(waiting.uses) == len(ready):
                assign(ready, waiting.uses)
                self._groups.append(ready[0].line)
                self._settle(ready)
        else:
            self._assign_registers(owners[0], used)

    def _assign_registers(self, kernel: PendingKernel, used: messages.Used) -> None:
        self._waiting.kernels.remove(kernel)
        kernel.usage = used.usage
        if kernel.stack is None and not (self._waiting.without_abi or without_stack_lines(kernel.arch)):
            kernel.lacks |= {"stack"}
        if used.cut:
            kernel.reasons += ("its 'Used N registers' line is cut",)
        self._pending.append(kernel)
        self._last = kernel

    def _unowned_registers(self, usage: Usage) -> None:
        kernel = self._before
        of_any = self._waiting.kernels or callees_first(self._section.arch, usage.constant_bytes)
        if kernel is not None and kernel.symbol and kernel.role == "function" and not of_any:
            kernel.role = "entry"
            kernel.usage = usage
            kernel.reasons += ("no 'Compiling entry function' line names it",)
            self._unbegun.append((kernel.line, kernel.symbol, self._text))
        else:
            kernel = PendingKernel("", None, "entry", self._line, self._step, Section(), usage=usage)
            self._without_name(kernel)
        self._last = kernel

    def _settle(self, kernels: list[PendingKernel]) -> None:
        """Take kernels that wait no longer."""
        self._waiting.end(kernels)
        for each in kernels:
            if each.stack is None and not self._waiting.without_abi:
                self._incomplete(each)
            else:
                self._pending.append(each)

    def _give_up(self) -> None:
        """Give up the registers lines of the waiting kernels, which are too many."""
        waiting = self._waiting
        begun = [each for each in waiting.kernels if each.stack or waiting.without_abi]
        self._groups.append(self._line)
        self._owed = len(begun) - len(waiting.uses)
        for each in begun:
            each.reasons += (_ONE_OF_MANY,)
        self._settle(begun)
        if 2 * len(waiting.kernels) > MOST_WAITING:
            self._settle(waiting.kernels)

    def _incomplete(self, kernel: PendingKernel) -> None:
        message = f"lines of {kernel.symbol} are missing"
        self._issues.add("truncated", message, kernel.line, "error", symbol=kernel.symbol)
        self._issues.mark_doubtful(kernel.line)

    # ---- other messages ----------------------------------------------------------------------------------------

    def _compile_time(self, time: messages.CompileTime) -> None:
        """Record a compile time. It directly follows its kernel's lines (from 12.8 on) unless output is interleaved."""
        if self._seen.messages == 1:
            what = "the input begins with a compile time: the lines of its kernel are missing"
            self._issues.add_missing(what, self._line)
            return
        self._seen.compile_times += 1
        if self._before is None or self._before in self._waiting.kernels:
            self._seen.interleaved = True
            self._seen.stray_times.append(self._line)
        else:
            self._before.took(time.milliseconds)

    def _function_usage(self, message: messages.FunctionUsage) -> None:
        self._pending.append(
            PendingKernel(message.symbol, None, "unknown", self._line, self._step, self._section, usage=message.usage)
        )

    def _note(self, note: messages.Note) -> None:
        self._waiting.without_abi |= note.advisory.kind == "no_abi"
        self._notes.add(note, self._line)

    def _unknown(self, message: messages.Unknown) -> None:
        hides = ALL if message.of_report else None
        self._issues.add("unknown-line", f"not understood: {message.text}", self._line, hides=hides)

    def _torn(self, message: messages.Torn) -> None:
        self._issues.add_pieces(message, self._line, at_beginning=self._seen.messages == 1)

    def _link_properties(self, message: messages.LinkProperties) -> None:
        self.linker.properties(message, self._line)

    def _link_used(self, message: messages.LinkUsed) -> None:
        self.linker.used(message, self._line, self._text)

    # ---- the end -----------------------------------------------------------------------------------------------------

    def finish(
        self, reading: Reading, line: int, *, cut: str, unended: bool, units_in_doubt: bool, device_link: bool
    ) -> None:
        """End the input on ``line``, settle what is still open, and add all records and issues to ``reading``.

        ``cut`` is the beginning of an incomplete last line. ``unended``: the last line is complete but has no line end,
        so callees of the last kernel may be missing. ``units_in_doubt`` drops the units of steps whose output other
        steps may have interrupted. ``device_link``: the log shows that device code is linked.
        """
        seen, issues, pending = self._seen, self._issues, self._pending
        if unended and self._last is not None and self._last.role == "entry" and not self._last.reasons:
            self._last.reasons = ("its 'Used N registers' line has no end: parts may be missing",)
        if cut:
            issues.add("truncated", f"the input ends inside a line: {quoted(cut)}", line, "error")
        self._end_waiting()
        if self._nameless:
            named = "name" in seen.features and seen.entries > 0
            kernels, lost_name = doubts.settle_nameless(self._nameless, issues, named=named)
            pending += kernels
            seen.interleaved |= lost_name
        self._forget_named()
        self.linker.interrupt()
        self._report_unbegun()
        doubts.demand_times(self._runs, pending, seen, line, issues)
        doubts.judge(self._runs, pending, seen, issues)
        doubts.settle_stacks(pending)
        self._settle_notes()
        in_doubt = issues.doubts(interleaved=seen.interleaved)
        apart = may_be_relocatable(self._runs, pending, seen)
        context = Context(
            input=self._issues.input,
            interleaved=seen.interleaved,
            relocatable=device_link and apart,
            units_in_doubt=units_in_doubt,
            doubts=in_doubt,
            namesakes=namesakes(self._runs, pending) if seen.interleaved else None,
            linked=frozenset(self.linker.symbols if seen.interleaved else ()),
        )
        in_order = issues.complete and not (unended or seen.interleaved or apart)
        reading.kernels += records(self._runs, pending, context, in_order=in_order)
        reading.links += (link for link in self.linker.records if (link.origin.line or 0) not in in_doubt)
        reading.empty_units += (
            step.unit for step in self.modules if step.unit and (step.buffered or not units_in_doubt)
        )
        reading.issues += issues.issues()
        if seen.interleaved:
            message = f"reports are interleaved, or lines are missing; {_PARALLEL_HINT}"
            origin = Origin(input=self._issues.input)
            reading.issues.append(Issue(code="interleaved", message=message, severity="note", origin=origin))

    def _end_waiting(self) -> None:
        """Settle kernels and groups that still wait for lines."""
        seen, waiting = self._seen, self._waiting
        if 0 < seen.compile_times < seen.registers_lines:
            for line in self._groups:  # each may have lost both registers and entry lines
                self._issues.add_missing("'Used N registers' lines lack their compile times", line)
        reason = "no 'Used N registers' line follows it"
        if waiting.uses or self._owed:
            kernels, lines = count(len(waiting.kernels) or self._owed, "kernel"), len(waiting.uses)
            names = "".join(f"{each.symbol}, " for each in waiting.kernels[:2])
            message = f"{kernels} ({names}…) have {count(lines, 'line')} with registers"
            self._issues.add_missing(message, waiting.kernels[0].line if waiting.kernels else self._line)
            reason = "interleaved output: its 'Used N registers' line may be missing"
        for each in waiting.kernels:
            if each.stack is not None:
                each.reasons += (reason,)
                self._pending.append(each)
            if each.stack is None or not waiting.uses:
                self._incomplete(each)

    def _report_unbegun(self) -> None:
        """Report kernels without a ``Compiling entry function`` line."""
        if self._unbegun:
            line, symbol, text = self._unbegun[0]
            more = f" ({count(len(self._unbegun), 'kernel')})" if len(self._unbegun) > 1 else ""
            message = f"no 'Compiling entry function' line names {symbol}{more}: {quoted(text)}"
            self._issues.add_missing(message, line, hides=None if self._seen.entries or not more else METRICS)

    def _settle_notes(self) -> None:
        """Attach advisories that follow the lines of their kernel, and report those without one."""
        notes, pending, interleaved = self._notes, self._pending, self._seen.interleaved
        runs = [run.kernels for run in self._runs]
        if notes.named:
            self.linker.forget_stacks(notes.attach_late(pending, runs, self.linker.symbols, interleaved=interleaved))
        of_pending = ((each.symbol, each.stack.spills) for each in pending if each.stack)
        of_whole = ((each.key.symbol, each.usage.spills) for each in chain.from_iterable(runs))
        reported = (each for each in chain(of_pending, of_whole) if each[0] in notes.named)
        notes.settle(pending, reported, interleaved=interleaved)


_HANDLERS: dict[type, Callable[[Writer, Any], None]] = {
    messages.Module: Writer._module,
    messages.EntryLine: Writer._entry,
    messages.Properties: Writer._properties,
    messages.Stack: Writer._stack,
    messages.Used: Writer._used,
    messages.CompileTime: Writer._compile_time,
    messages.FunctionUsage: Writer._function_usage,
    messages.Note: Writer._note,
    messages.Unknown: Writer._unknown,
    messages.Torn: Writer._torn,
    messages.LinkProperties: Writer._link_properties,
    messages.LinkUsed: Writer._link_used,
}
