"""Assign messages to kernels: the state of one writer's stream, which only states what is certain."""

from __future__ import annotations

from msgspec.structs import replace

from spillscan.model import Issue, Kernel, Origin, Reading, Usage
from spillscan.output.nouns import count
from spillscan.reading.logs import messages
from spillscan.reading.logs.finish import finish
from spillscan.reading.logs.issue_log import ALL, METRICS, IssueLog, are_near, quoted
from spillscan.reading.logs.kernels import (
    MOST_WAITING,
    Nameless,
    PendingKernel,
    Report,
    Run,
    Section,
    Waiting,
    assign,
    callees_first,
    first_line,
    without_stack_lines,
)
from spillscan.reading.logs.link_lines import LinkLines
from spillscan.reading.logs.notes import Notes
from spillscan.reading.logs.steps import Step, Steps

_NO_STACK = dict.fromkeys(("stack_bytes", "spill_store_bytes", "spill_load_bytes"))
_ONE_OF_MANY = "interleaved output: any of many lines may contain its register count"
_PARALLEL_HINT = "if several compilers wrote the log, keep the output of each together (make -Otarget, ninja)"


class Writer:
    """The messages of one writer (or of several indistinguishable ones), in log order."""

    def __init__(self, input_name: str) -> None:
        self.issues = IssueLog(input_name)
        self._notes = Notes(self.issues)
        self.linker = LinkLines(input_name, self.issues)
        self.report = Report(input_name)
        self.steps = Steps()
        self.modules: list[Step] = []
        """Steps in which a module began, including modules without kernels."""
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
        self._line, self._text = 0, ""
        """Place of the current message."""

    # ---- queries of the reader --------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether nothing is half-read, so that a whole block can be taken at once."""
        return not (self._waiting.kernels or self._owed or self._named or self._stack_missing)

    @property
    def awaits_values(self) -> bool:
        """Whether a name was read and its values were not."""
        return self._named is not None or self.linker.named is not None

    # ---- messages -------------------------------------------------------------------------------------------------

    def kernels(self, kernels: list[Kernel]) -> None:
        """Add consecutive kernels of one arch, either all with a compile time or none, while nothing else is open.

        Equivalent to feeding their lines one by one.
        """
        count, first, report = len(kernels), kernels[0], self.report
        report.registers_lines += count
        report.features.update(("name", "stack", "indent"))
        report.messages += count
        report.compile_times += 0 if first.compile_ms is None else count
        self._enter(first.key.arch, first_line(kernels[-1]), count)
        self.report.runs.append(Run(self._section, self.steps.current, kernels))
        self._last = None

    def feed(self, message: messages.Message, line: int, text: str = "") -> None:
        """Process one message, read from ``text`` on ``line``."""
        self._before, self._last = self._last, None
        self._line, self._text = line, text
        self.report.messages += 1
        if self._named is not None and not isinstance(message, messages.Stack):
            self._forget_named()
        match message:
            case messages.Used():
                self._used(message)
            case messages.EntryLine():
                self._entry(message)
            case messages.Properties(symbol):
                self._named = symbol, line
                self.report.features.update(("name", "stack"))
            case messages.Stack():
                self._stack(message)
            case messages.CompileTime(milliseconds):
                self._compile_time(milliseconds)
            case messages.Module():
                self._section = self._notes.begin_section()
                self.modules.append(self.steps.current)
            case messages.Note():
                self._waiting.without_abi |= message.advisory.kind == "no_abi"
                self._notes.add(message, line)
            case messages.FunctionUsage(symbol, usage):
                kernel = PendingKernel(symbol, None, "unknown", line, self.steps.current, self._section, usage=usage)
                self.report.pending.append(kernel)
            case messages.Unknown(unknown, of_report):
                hides = ALL if of_report else None
                self.issues.add("unknown-line", f"not understood: {unknown}", line, hides=hides)
            case messages.Torn(pieces):
                self.issues.add_pieces(pieces, line, at_beginning=self.report.messages == 1)
            case messages.LinkProperties():
                self.linker.properties(message, line)
            case messages.LinkUsed():
                self.linker.used(message, line, text)

    def interrupt(self) -> None:
        """Other text follows a name, although tools write names and values together: values may be missing."""
        if self._named is not None:
            symbol, line = self._named
            self.issues.add_missing(f"other text between the properties of {symbol} and its stack line", line)
            self._stack_missing = True
        self.linker.interrupt()

    # ---- a kernel begins ---------------------------------------------------------------------------------------

    def _entry(self, entry: messages.EntryLine) -> None:
        waiting = self._waiting
        if waiting.kernels:
            self.report.interleaved = self.report.crossed = self.report.overlapped = True
        if len(waiting.kernels) >= MOST_WAITING:
            self._give_up()
        self._enter(entry.arch, self._line)
        kernel = self._last = PendingKernel(
            entry.symbol, entry.arch, "entry", self._line, self.steps.current, self._section
        )
        if entry.arch is None:
            kernel.lacks |= {"arch"}
        waiting.begin(kernel)
        if not entry.symbol:
            self._without_name(kernel)

    def _enter(self, arch: str | None, line: int, kernels: int = 1) -> None:
        """Begin ``kernels`` kernels of one arch, the last of them on ``line``."""
        section = self._section
        if section.headed and section.arch not in (None, arch):  # one ptxas run compiles for one arch
            self.report.interleaved = self.report.crossed = True
        section.arch, section.last_kernel_line = arch, line
        section.entries += kernels
        if arch is not None:
            self.report.features.add("arch")
        self.report.entries += kernels

    # ---- its stack line ----------------------------------------------------------------------------------------

    def _forget_named(self) -> None:
        if self._named is not None:
            symbol, line = self._named
            self.issues.add_missing(f"no stack line follows the properties of {symbol}", line, symbol=symbol)
            self._named = None
            self._stack_missing = True

    def _stack(self, stack: messages.Stack) -> None:
        if stack.indented:
            self.report.features.update(("stack", "indent"))
        if self._named is None:
            self._unnamed_stack(stack)
            return
        symbol, line = self._named
        kernel = self._waiting.of_stack(symbol, stack)
        if kernel is None:
            section = self._section
            section.apart |= not section.entries
            kernel = self._last = PendingKernel(symbol, None, "function", line, self.steps.current, section, stack)
            kernel.caller_line = section.last_kernel_line
            self.report.pending.append(kernel)
            for each in self._waiting.kernels:
                if not callees_first(each.arch):
                    each.crossed = kernel.crossed = True
        if not stack.indented:
            kernel.lacks |= {"indent"}
        if self._stack_missing:
            kernel.reasons += ("an earlier stack line is missing, so this one may belong to another function",)
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
            self._last = PendingKernel("", None, "unknown", self._line, self.steps.current, Section(), stack)
            self._without_name(self._last)

    def _without_name(self, kernel: PendingKernel) -> None:
        """Record values that no line assigns to a kernel."""
        self.report.nameless.append(Nameless(kernel, self._text, self.report.messages))

    # ---- its registers line ------------------------------------------------------------------------------------

    def _used(self, used: messages.Used) -> None:
        self.report.registers_lines += 1
        if used.usage.spills is not None and "indent" in self.report.features:
            used = replace(used, usage=replace(used.usage, **_NO_STACK), cut=True)  # it goes on as a stack line
        waiting = self._waiting
        if used.cut and len(waiting.kernels) == 1 and not waiting.uses:
            self.issues.add_missing(f"parts of a 'Used N registers' line are missing: {quoted(self._text)}", self._line)
        elif used.cut:
            self.issues.add_damage(f"incomplete line: {quoted(self._text)}", self._line)
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
        self.report.pending.append(kernel)
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
            kernel = PendingKernel("", None, "entry", self._line, self.steps.current, Section(), usage=usage)
            self._without_name(kernel)
        self._last = kernel

    def _settle(self, kernels: list[PendingKernel]) -> None:
        """Take kernels that wait no longer."""
        self._waiting.end(kernels)
        for each in kernels:
            if each.stack is None and not self._waiting.without_abi:
                self._incomplete(each)
            else:
                self.report.pending.append(each)

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
        message = f"the ptxas report of {kernel.symbol} is incomplete"
        self.issues.add("truncated", message, kernel.line, "error", symbol=kernel.symbol)
        self.issues.mark_doubtful(kernel.line)

    # ---- other messages ----------------------------------------------------------------------------------------

    def _compile_time(self, milliseconds: float) -> None:
        """Record a compile time. It directly follows its kernel's lines (from 12.8 on) unless output is interleaved."""
        if self.report.messages == 1:
            what = "the input begins with a compile time: the lines of its kernel are missing"
            self.issues.add_missing(what, self._line)
            return
        self.report.compile_times += 1
        if self._before is None or self._before in self._waiting.kernels:
            self.report.interleaved = True
            self.report.stray_times.append(self._line)
        else:
            self._before.compile_ms = milliseconds
            self._before.section.apart |= self._before.role == "function"

    # ---- the end -----------------------------------------------------------------------------------------------------

    def finish(self, reading: Reading, line: int, cut: str) -> None:
        """End the input on ``line``, settle what is still open, and add all records and issues to ``reading``.

        ``cut`` is the beginning of an incomplete last line.
        """
        report, issues = self.report, self.issues
        if report.unended and self._last is not None and self._last.role == "entry" and not self._last.reasons:
            self._last.reasons = ("its 'Used N registers' line has no end: parts may be missing",)
        if cut:
            issues.add("truncated", f"the input ends inside a line: {quoted(cut)}", line, "error")
        self._end_waiting()
        self._forget_named()
        self.linker.interrupt()
        self._report_unbegun()
        reading.kernels += finish(report, issues, self._notes, self.linker, line)
        reading.links += (link for link in self.linker.records if not are_near(report.doubts, link.origin.line or 0))
        reading.empty_units += (
            step.unit for step in self.modules if step.unit and (step.buffered or not report.units_in_doubt)
        )
        reading.issues += issues.issues()
        if report.interleaved:
            message = f"reports are interleaved, or lines are missing; {_PARALLEL_HINT}"
            origin = Origin(input=report.input)
            reading.issues.append(Issue(code="interleaved", message=message, severity="note", origin=origin))

    def _end_waiting(self) -> None:
        """Settle kernels and groups that still wait for lines."""
        report, waiting = self.report, self._waiting
        if 0 < report.compile_times < report.registers_lines:
            for line in self._groups:  # each may have lost both registers and entry lines
                self.issues.add_missing("'Used N registers' lines lack their compile times", line)
        reason = "no 'Used N registers' line follows it"
        if waiting.uses or self._owed:
            kernels, lines = count(len(waiting.kernels) or self._owed, "kernel"), len(waiting.uses)
            names = "".join(f"{each.symbol}, " for each in waiting.kernels[:2])
            message = f"{kernels} ({names}…), but {count(lines, 'line')} with registers"
            self.issues.add_missing(message, waiting.kernels[0].line if waiting.kernels else self._line)
            reason = "interleaved output: its 'Used N registers' line may be missing"
        for each in waiting.kernels:
            if each.stack is not None:
                each.reasons += (reason,)
                self.report.pending.append(each)
            if each.stack is None or not waiting.uses:
                self._incomplete(each)

    def _report_unbegun(self) -> None:
        """Report kernels without a ``Compiling entry function`` line."""
        if self._unbegun:
            line, symbol, text = self._unbegun[0]
            more = f" ({count(len(self._unbegun), 'kernel')})" if len(self._unbegun) > 1 else ""
            message = f"no 'Compiling entry function' line names {symbol}{more}: {quoted(text)}"
            self.issues.add_missing(message, line, hides=None if self.report.entries or not more else METRICS)
