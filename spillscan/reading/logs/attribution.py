"""Assign messages to kernels: the state of one writer's stream, which only states what is certain."""

from __future__ import annotations

from itertools import chain, islice

from msgspec.structs import replace

from spillscan.model import Issue, Kernel, LinkRecord, Usage
from spillscan.output.nouns import count
from spillscan.reading.logs import messages
from spillscan.reading.logs.issue_log import ALL, METRICS, IssueLog, quoted
from spillscan.reading.logs.link_lines import LinkLines
from spillscan.reading.logs.notes import Notes
from spillscan.reading.logs.pending import (
    PendingKernel,
    Run,
    Section,
    assign,
    callees_first,
    contradicts,
    first_line,
    may_own,
    settle_stacks,
    shown_by,
    without_stack_lines,
)
from spillscan.reading.logs.records import Records
from spillscan.reading.logs.steps import Step
from spillscan.reading.logs.suspicions import CompileTimes, NamelessRecords, Seen, doubt_stack, judge

PARALLEL_HINT = "if several compilers wrote it, have each one's output written whole (make -Otarget, ninja)"

MOST_OPEN = 64
"""Kernels that may wait for their registers lines before the oldest lines are given up as unknown."""

NO_STACK = dict.fromkeys(("stack_bytes", "spill_store_bytes", "spill_load_bytes"))


class Writer:
    """The messages of one writer (or of several indistinguishable ones), in log order."""

    def __init__(self, input_name: str) -> None:
        self._input = input_name
        self._issues = IssueLog(input_name)
        self._seen = Seen()
        self._notes = Notes(self._issues)
        self.linker = LinkLines(input_name, self._issues)
        self._times = CompileTimes(self._issues)
        self._groups: list[int] = []
        """First lines of the groups of kernels whose registers lines were assigned together."""
        self._without_stacks: set[str] = set()
        """Symbols of kernels in such groups whose stack lines had not been read."""
        self.modules: list[Step] = []
        """Steps in which a module began, including modules without kernels."""
        self._records = Records()
        self._open: list[PendingKernel] = []
        """Kernels that wait for their registers lines."""
        self._uses: list[Usage] = []
        """Registers lines that may belong to several open kernels."""
        self._owed = 0
        """Number of registers lines still expected for kernels that were given up."""
        self._section = Section()
        self._named: tuple[str, int] | None = None
        """(symbol, line) of function properties whose stack line has not been read."""
        self._stack_missing = False
        """Whether the stack line of the previous properties is missing, unless the next one is it."""
        self._last: PendingKernel | None = None
        """Kernel or function completed by the previous message."""
        self._unbegun: list[tuple[int, str, str]] = []
        """(line, symbol, registers line) of kernels without a ``Compiling entry function`` line."""
        self._nameless = NamelessRecords()
        self._unended = False

    # ---- queries of the reader --------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Whether nothing is half-read, so that a whole block can be taken at once."""
        return not self._open and self._named is None and not self._stack_missing

    @property
    def awaits_stack(self) -> bool:
        """Whether ``Function properties`` was read and its stack line was not."""
        return self._named is not None

    @property
    def timed(self) -> bool:
        """Whether the writer reports a compile time after its registers lines."""
        return self._seen.compile_times > 0

    @property
    def interleaved(self) -> bool:
        """Whether several compilers wrote into this stream at once."""
        return self._seen.interleaved

    # ---- messages -------------------------------------------------------------------------------------------------

    def blocks(self, kernels: list[Kernel], step: Step, *, barriers: int, linked: bool) -> None:
        """Add consecutive kernels of one arch, either all with a compile time or none, while nothing else is open.

        Equivalent to feeding their lines one by one. ``barriers`` and ``linked`` are the flags of
        :class:`~spillscan.reading.logs.pending.Section` that their values imply.
        """
        count, first, seen = len(kernels), kernels[0], self._seen
        seen.registers_lines += count
        seen.stack_lines = seen.names = True
        seen.messages += count
        seen.compile_times += 0 if first.compile_ms is None else count
        self._enter(first.key.arch, first_line(kernels[-1]), count)
        section = self._section
        section.linked |= linked
        section.barriers |= barriers
        self._times.of_kernel(section, first.compile_ms, first_line(first))
        if named := self._notes.named:
            kernels = [
                replace(kernel, advisories=self._notes.take(kernel.key.symbol, kernel.usage.spills))
                if kernel.key.symbol in named
                else kernel
                for kernel in kernels
            ]
        self._records.runs.append(Run(section, step, kernels))
        self._last = None

    def functions(self, rows: list[tuple[str, messages.Stack, float | None]], line: int, step: Step) -> int:
        """Add consecutive device functions, the first on ``line``, while nothing else is open; return the next line.

        Equivalent to feeding their lines one by one.
        """
        seen = self._seen
        seen.stack_lines = seen.names = True
        seen.messages += len(rows)
        for symbol, stack, milliseconds in rows:
            function = self._begin_function(symbol, stack, line, step)
            line += 2
            if milliseconds is not None:
                seen.compile_times += 1
                function.took(milliseconds)
                self._last = None
                line += 1
        return line

    def feed(self, message: messages.Message, line: int, step: Step, text: str = "") -> None:
        """Process one message, read from ``text`` on ``line`` and printed during ``step``."""
        before, self._last = self._last, None
        self._seen.messages += 1
        if not isinstance(message, messages.Stack):
            self._forget_named()
        match message:
            case messages.EntryLine():
                self._entry(message, line, step, text)
            case messages.Properties():
                self._named = (message.symbol, line)
                self._seen.names = True
            case messages.Stack():
                self._stack(message, line, step, before, text)
            case messages.Used():
                self._used(message, line, step, before, text)
            case messages.FunctionUsage():
                usage = message.usage
                self._records.pending.append(
                    PendingKernel(message.symbol, None, "unknown", line, step, self._section, usage=usage)
                )
            case messages.CompileTime():
                self._compile_time(message.milliseconds, line, before)
            case messages.Module():
                self._section = self._notes.begin_section()
                self.modules.append(step)
            case messages.Note():
                self._seen.without_abi |= message.advisory.kind == "no_abi"
                self._notes.add(message, line)
            case messages.Unknown():
                hides = ALL if message.of_report else None
                self._issues.add("unknown-line", f"not understood: {message.text}", line, hides=hides)
            case messages.Torn():
                self._issues.add_pieces(message, line, at_beginning=self._seen.messages == 1)
            case messages.LinkProperties():
                self.linker.properties(message, line)
            case messages.LinkUsed():
                self.linker.used(message, line, text)

    def damaged(self, message: str, line: int) -> None:
        """Record that ``line`` contains bytes that are not text."""
        self._issues.add_damage(message, line)

    def interrupted(self) -> None:
        """Record other text between function properties and their stack line, which compilers write together."""
        assert self._named is not None
        symbol, line = self._named
        self._issues.add_missing(f"other text between the properties of {symbol} and its stack line", line)
        self._stack_missing = True

    # ---- one kernel's lines ------------------------------------------------------------------------------------

    def _entry(self, entry: messages.EntryLine, line: int, step: Step, text: str) -> None:
        if self._open:
            self._seen.interleaved = self._seen.crossed = self._seen.overlapped = True
        if len(self._open) >= MOST_OPEN:
            self._give_up(line)
        self._enter(entry.arch, line)
        self._last = PendingKernel(entry.symbol, entry.arch, "entry", line, step, self._section)
        self._last.first_use = len(self._uses)
        self._open.append(self._last)
        if not entry.symbol:
            self._nameless.add(self._last, text, self._seen.messages)

    def _enter(self, arch: str | None, line: int, kernels: int = 1) -> None:
        """Begin ``kernels`` kernels of one arch, the last of them on ``line``."""
        if not self._section.begin(arch, line, kernels):
            self._seen.interleaved = self._seen.crossed = True
        self._seen.with_arch |= arch is not None
        self._seen.entries += kernels

    def _stack(self, stack: messages.Stack, line: int, step: Step, before: PendingKernel | None, text: str) -> None:
        self._seen.stack_lines |= stack.indented
        if self._named is None:
            if before is not None and before in self._open:
                before.stack = stack
                before.suspicions |= {"nameless"}
            else:
                self._without_name(PendingKernel("", None, "unknown", line, step, Section(), stack), text)
            return
        (symbol, named_line), self._named = self._named, None
        missing, self._stack_missing = self._stack_missing, False
        namesakes = [each for each in self._open if each.symbol == symbol]
        waiting = [each for each in namesakes if each.stack is None]
        if not waiting:
            function = self._begin_function(symbol, stack, named_line, step)
            doubt_stack(function, stack, missing)
            for each in self._open:
                if not callees_first(each.arch):
                    each.suspicions |= {"foreign"}
                    function.suspicions |= {"misplaced"}
            return
        doubtful = symbol in self._without_stacks or any(each.stack_in_doubt for each in namesakes)
        if doubtful or len({each.identity for each in waiting}) > 1:
            for each in waiting:
                each.stack_in_doubt = True
        waiting[0].stack = stack
        if not waiting[0].stack_in_doubt:
            waiting[0].first_use = len(self._uses)
        doubt_stack(waiting[0], stack, missing)
        if symbol in self._notes.named:
            waiting[0].advisories = self._notes.take(symbol, stack.spills)

    def _without_name(self, kernel: PendingKernel, text: str) -> None:
        """Record values that no line assigns to a kernel."""
        self._nameless.add(kernel, text, self._seen.messages)
        self._last = kernel

    def _begin_function(self, symbol: str, stack: messages.Stack, line: int, step: Step) -> PendingKernel:
        section = self._section
        section.apart |= not section.entries
        caller = section.last_kernel_line
        function = PendingKernel(symbol, None, "function", line, step, section, stack, caller_line=caller)
        if symbol in self._notes.named:
            function.advisories = self._notes.take(symbol, stack.spills)
        self._records.pending.append(function)
        self._last = function
        return function

    def _forget_named(self) -> None:
        if self._named is not None:
            symbol, line = self._named
            self._issues.add_missing(f"no stack line follows the properties of {symbol}", line, symbol=symbol)
            self._named = None
            self._stack_missing = True

    def _used(self, used: messages.Used, line: int, step: Step, before: PendingKernel | None, text: str) -> None:
        self._seen.registers_lines += 1
        if used.usage.spills is not None and self._seen.stack_lines:
            used = replace(used, usage=replace(used.usage, **NO_STACK), cut=True)  # it goes on as a stack line
        usage, without_abi = used.usage, self._seen.without_abi
        if used.cut and len(self._open) == 1 and not self._uses:
            self._issues.add_missing(f"parts of a 'Used N registers' line are missing: {quoted(text)}", line)
        elif used.cut:
            self._issues.add_damage(f"not a whole line: {quoted(text)}", line)
        owners = self._owners(usage)
        if (
            not owners
            and not self._owed
            and len(self._open) == 1
            and (used.cut or not contradicts(self._open[0], usage))
        ):
            owners = list(self._open)  # a module without the ABI prints no stack line
            if not (without_abi or without_stack_lines(owners[0].arch)):
                owners[0].suspicions |= {"bare"}
        if not owners and not self._owed:
            self._unowned_registers(used, line, step, before, text)
        elif len(owners) == 1 and not (self._uses or self._owed):
            self._assign_registers(owners[0], used)
            if used.cut:
                owners[0].reasons += ("its 'Used N registers' line is cut",)
        else:
            self._uses.append(usage)
            ready = [each for each in self._open if each.stack or each.stack_in_doubt or without_abi]
            if len(self._uses) == len(ready) + self._owed:
                self._set_aside(ready)

    def _owners(self, usage: Usage) -> list[PendingKernel]:
        """Open kernels that may own a registers line; only the first if another line is unassigned."""
        fitting = (each for each in self._open if may_own(each, usage, without_abi=self._seen.without_abi))
        return list(islice(fitting, 1 if self._uses else None))

    def _assign_registers(self, kernel: PendingKernel, used: messages.Used) -> None:
        if kernel.stack is None and kernel.stack_in_doubt:
            # Its stack line precedes its registers line: a same-named kernel took it and still waits for its own.
            of_name = (each for each in self._open if each.symbol == kernel.symbol)
            holder = next((each for each in of_name if each.stack_in_doubt and each.stack), None)
            if holder is not None:
                kernel.stack, holder.stack = holder.stack, None
        kernel.usage = used.usage
        barriers, linked = shown_by(used.usage)
        kernel.section.linked |= linked
        kernel.section.barriers |= barriers
        self._open.remove(kernel)
        self._records.pending.append(kernel)
        self._last = kernel

    def _unowned_registers(
        self, used: messages.Used, line: int, step: Step, before: PendingKernel | None, text: str
    ) -> None:
        of_any = self._open or callees_first(self._section.arch, used.usage.constant_bytes)
        if before is not None and before.symbol and before.role == "function" and not of_any:
            before.role = "entry"
            before.usage = used.usage
            before.reasons += ("no 'Compiling entry function' line names it",)
            self._unbegun.append((before.line, before.symbol, text))
            self._last = before
            return
        self._without_name(PendingKernel("", None, "entry", line, step, Section(), usage=used.usage), text)

    def _compile_time(self, milliseconds: float, line: int, before: PendingKernel | None) -> None:
        """Record a compile time. It directly follows its kernel's lines (from 12.8 on) unless output is interleaved."""
        if self._seen.messages == 1:
            what = "the input begins with a compile time: the lines of its kernel are missing"
            self._issues.add_missing(what, line)
            return
        self._seen.compile_times += 1
        if before is None or before in self._open:
            self._seen.interleaved = True
            self._times.stray.append(line)
            return
        before.took(milliseconds)

    def _set_aside(self, kernels: list[PendingKernel]) -> None:
        """Assign the unassigned registers lines to these open kernels."""
        self._groups.append(kernels[0].line if kernels else 0)
        self._without_stacks |= {each.symbol for each in kernels if each.stack is None and each.stack_in_doubt}
        assign(kernels, self._uses, complete=len(self._uses) == len(kernels) + self._owed)
        for each in kernels:
            if each.stack is None and not self._seen.without_abi:
                self._incomplete(each)
            else:
                self._records.pending.append(each)
        settled = set(map(id, kernels))
        self._begin_group([each for each in self._open if id(each) not in settled])

    def _begin_group(self, waiting: list[PendingKernel], owed: int = 0) -> None:
        """Reset the unassigned registers lines; ``owed`` of them are still expected for kernels that were given up."""
        for each in waiting:
            each.first_use = 0
        self._open, self._uses, self._owed = waiting, [], owed

    def _give_up(self, line: int) -> None:
        """Give up assigning the current registers lines because too many kernels wait. More may follow."""
        waiting = [each for each in self._open if each.stack is None]
        if 2 * len(waiting) > len(self._open):
            what = f"interleaved output: the registers of {count(len(self._open), 'kernel')} are unknown"
            self._issues.add_missing(what, line)
            waiting = []
        for each in self._open:
            if each.stack is not None:
                each.reasons += ("interleaved output: its registers are on any of many lines",)
                self._records.pending.append(each)
        self._groups.append(line)
        self._begin_group(waiting, max(0, self._owed + len(self._open) - len(waiting) - len(self._uses)))

    # ---- the end -----------------------------------------------------------------------------------------------------

    def end(self, *, cut: str = "", unended: bool = False, line: int = 0) -> None:
        """End the input on ``line`` and settle everything still open.

        ``cut`` is the beginning of an incomplete last line. ``unended``: the last line is complete but has no line end,
        so callees of the last kernel may be missing.
        """
        self._unended = unended
        if unended and self._last is not None and self._last.role == "entry" and not self._last.reasons:
            self._last.reasons = ("its 'Used N registers' line has no end: parts may be missing",)
        if cut:
            self._issues.add("truncated", f"the input ends inside a line: {quoted(cut)}", line, "error")
        self._settle_open()
        self._seen.interleaved |= self._nameless.settle(
            self._records.pending, self._issues, named=self._seen.names and self._seen.entries > 0
        )
        self._forget_named()
        self.linker.interrupt()
        self._report_unbegun()
        seen, pending = self._seen, self._records.pending
        self._times.count(pending, seen)
        if self.timed and not self.interleaved:
            self._times.demand(self._records.runs, pending, seen, line)
        complete = self._issues.complete
        for each in pending:
            if each.role == "entry" or each.suspicions:
                judge(each, seen, self._issues, complete=complete)
        settle_stacks(pending)
        if self._notes.named:
            runs, linked = [run.kernels for run in self._records.runs], self.linker.symbols
            self.linker.forget_stacks(self._notes.attach_late(pending, runs, linked, interleaved=self.interleaved))
        of_pending = ((each.symbol, each.stack.spills) for each in pending if each.stack)
        of_whole = ((each.key.symbol, each.usage.spills) for each in self._records.whole())
        reported = (each for each in chain(of_pending, of_whole) if each[0] in self._notes.named)
        self._notes.settle(pending, reported, interleaved=self.interleaved)

    def _settle_open(self) -> None:
        """Settle kernels and groups that still wait for lines."""
        if 0 < self._seen.compile_times < self._seen.registers_lines:
            for line in self._groups:  # each may have lost both registers and entry lines
                self._issues.add_missing("'Used N registers' lines lack their compile times", line)
        if self._uses or self._owed:
            kernels, line = len(self._open) + self._owed, self._open[0].line if self._open else self._groups[-1]
            names = "".join(f"{each.symbol}, " for each in self._open[:2])
            message = f"{count(kernels, 'kernel')} ({names}…) have {count(len(self._uses), 'line')} with registers"
            self._issues.add_missing(message, line)
            self._set_aside(self._open)
        for each in self._open:
            if each.stack is not None:
                each.reasons += ("no 'Used N registers' line follows it",)
                self._records.pending.append(each)
            self._incomplete(each)
        self._open = []

    def _incomplete(self, kernel: PendingKernel) -> None:
        message = f"lines of {kernel.symbol} are missing"
        self._issues.add("truncated", message, kernel.line, "error", symbol=kernel.symbol)
        self._issues.mark_doubtful(kernel.line)

    def _report_unbegun(self) -> None:
        """Report kernels without a ``Compiling entry function`` line."""
        if self._unbegun:
            line, symbol, text = self._unbegun[0]
            more = f" ({count(len(self._unbegun), 'kernel')})" if len(self._unbegun) > 1 else ""
            message = f"no 'Compiling entry function' line names {symbol}{more}: {quoted(text)}"
            self._issues.add_missing(message, line, hides=None if self._seen.entries or not more else METRICS)

    def issues(self) -> list[Issue]:
        """Issues found while reading; complete after :meth:`end`."""
        return self._issues.issues()

    def links(self) -> list[LinkRecord]:
        """Link records whose lines are not in doubt; complete after :meth:`end`."""
        doubts = self._issues.doubts(interleaved=self.interleaved)
        return [link for link in self.linker.records if (link.origin.line or 0) not in doubts]

    def kernels(self, *, units_in_doubt: bool, device_link: bool) -> list[Kernel]:
        """Kernels read, in line order; complete after :meth:`end`.

        ``units_in_doubt`` drops the units of steps whose output other steps may have interrupted. ``device_link``: the
        log shows that device code is linked.
        """
        linked = frozenset(self.linker.symbols) if self.interleaved else frozenset()
        return self._records.all(
            self._input,
            self._seen,
            self._issues,
            linked,
            device_link=device_link,
            units_in_doubt=units_in_doubt,
            unended=self._unended,
        )
