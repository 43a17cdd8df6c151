"""Unfinished builds: steps that failed, builds that stopped, logs that end too early.

The grammar ``buildfailure`` describes each tool's messages; this module draws the conclusions.

- A **step** failed if a compiler, make, ninja … names its object, source or target. It hides the kernels that it
  would have compiled, unless the log later builds the same file again, or the file is an object of host code.
- A compiler's message that names no source (``Killed``, ``nvcc fatal``) belongs to the step that the build system calls
  next reports as failed, or else to the last one announced.
- A **stop** ends a build before all steps have begun: ``ninja: build stopped``, ``make: ***`` unless
  make continues (``-k``), pip, containers, CI services, other build systems. It hides kernels even if host code
  failed, but not if everything that failed is later rebuilt, the same tool later reports success, or only tests
  failed. A CI service's message counts if no compiler's report follows it.
- A make that **another make ignores** (``-$(MAKE)``, ``|| true``) hides only what its compilers report as failed: the
  outer make reports its target as ignored; or no failure, although the log continues after the inner make.
- A failed **link** hides kernels, too: relocatable code gets its values there, and later targets are not built.
- A log is **unfinished** if its last numbered step is not the build's last, or its last line begins a compilation.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Literal

from msgspec import Struct

from spillscan.builds import compilation
from spillscan.model import Issue, Origin
from spillscan.model.gaps import KINDS
from spillscan.output.nouns import count, listed
from spillscan.reading import grammar
from spillscan.reading.logs.messages import Module
from spillscan.reading.logs.parsing import CALLS_WIDER, ptxas_message
from spillscan.reading.logs.steps import Words, announced, file_name, is_report, same_object, stem, unprefixed
from spillscan.reading.logs.surroundings import LONGEST_LINE_BYTES, Surroundings

_REBUILDS = (b"] ", b" -c ", b" -o ")
"""One of these is in every line that announces a step."""
_MOST_SUBJECTS = 200
_MOST_REPORTED = 10
_LONGEST_LIST = 2000
"""Characters from which on no more callers are named."""

_OBJECT = r"\.(?:o|obj|lo|cubin|ptx|fatbin)$"
_HEADERS = (".cuh", ".h", ".hh", ".hpp", ".hxx", ".inl", ".inc", ".ipp")
_TEST_TARGET = r"(?:^|[/_-])(?:c?tests?|check|test\.util)$"
_MAKE_LEVEL = r"\[(\d{1,9})\]: $"
_WANTED = r"No rule to make target ['`](.+?)'(?:, needed by ['`](.+?)')?\."
_SURVIVING_TARGET = r"\*\*\* \[([^\[\]]+)\] "
_NINJA_OUTPUT = r"FAILED: (?:\[code=|\S*[^\s\d]\.[a-z]\w*(?: |$)|\S*[^\s/\d]/|\S+$)"
"""ninja's failed outputs: paths, or a target given by name alone."""

_COMPILERS = frozenset(
    ("diagnostic", "device_diagnostic", "summary", "clang_summary", "tool_error", "driver_error", "backend_error")
) | {"assembler", "killed", "missing_tool", "link_error"}
_NO_MAKE = -1
_DEEPEST_MAKE = 20
_TARGETS = ("TARGET", "NINJA_TARGET", "COLON_SOURCE", "PAREN_SOURCE", "SUMMARY_SOURCE")


class Failure(Struct):
    """A step that failed, or a build that stopped."""

    line: int
    text: str
    """The message, without its line's prefix."""
    subject: str = ""
    """The object, source or target; empty if not named."""
    device: bool | None = None
    """Whether it contains device code; ``None`` if unknown."""
    level: int | None = None
    """Recursion level of the make that reports it, unless that make continues (``-k``); ``None``: no build system
    reports it."""
    family: str = ""
    """Kind of tool that stopped; for stops only."""
    first_line: int = 0
    """Line of its first message; 0: same as ``line``."""
    stem: str = ""
    """Stem of the subject, if the message itself names it."""
    rebuilt: int = 0
    """Last line that begins to rebuild the subject; 0: none after the message."""


class Failures:
    """Failures of one log. Every line that is not a compiler's report is passed to :meth:`look`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._around = Surroundings()
        self._steps: list[Failure] = []
        self._details: list[Failure] = []  # compilers' messages that no build system's has followed yet
        self._stops: list[Failure] = []
        self._kept_going = {_NO_MAKE: sys.maxsize}  # level of make -> line where it reports that it went on (``-k``)
        self._left: dict[int, int] = {}  # level of make -> last line where it leaves its folder
        self._ended: dict[int, int] = {}  # level of make -> last line where it reports a failure
        self._succeeded: dict[str, int] = {}  # family -> line
        self._cuts: list[Failure] = []
        """Messages by which the log reports that it is cut."""
        self._tests_failed = self._all_done = self._latest = 0  # lines
        self._deepest = 0  # level of make at which a step failed
        self._begun: dict[str, dict[str, int]] = {}  # failed name -> path built again -> last line
        self._ninja: Failure | None = None  # the step whose output follows
        self._wide: tuple[int, Failure] | None = None  # last line on a callee with too many registers, and its step
        self._understood: set[int] = set()

    def begin(self, block: bytes) -> None:
        """The next block of the log."""
        self._around.begin(block)

    def look(self, start: int, end: int, line: int) -> None:
        """Search bytes ``start`` to ``end`` of the block, whole lines whose first is ``line``."""
        if start == end:
            return
        failed = self._failed
        for begin, finish in failure_words(steps=failed).lines(self._around.block, start, end):
            line += self._around.block.count(b"\n", start, begin)
            start = begin
            self._line(begin, finish, line)
            if not failed and self._failed:
                self.look(begin, end, line)  # from here on, lines that announce steps count too
                return

    def error(self, text: str, position: int, line: int) -> None:
        """Record an error of ptxas or nvlink on ``line``, at this position of the block."""
        self._understood.add(line)
        wide = CALLS_WIDER in text
        if wide and self._wide is not None and line == self._wide[0] + 1:
            failure = self._wide[1]
            if len(failure.text) < _LONGEST_LIST:
                failure.text += f"; {text[:300]}"
        else:
            failure = Failure(line, text[:300])
            self._detail(failure, "error", position)
            failure = self._ninja or failure
        self._wide = (line, failure) if wide else None

    def issues(self, lines: int, last_report: int) -> Iterator[Issue]:
        """Gaps in a log of ``lines`` lines, whose last report of a compiler is on ``last_report``."""
        for each in (*self._steps, *self._details):
            again = self._begun.get(file_name(each.subject), {}) if each.subject else {}
            line = max((line for path, line in again.items() if same_object(path, each.subject)), default=0)
            each.rebuilt = line if line > each.line else 0
        self._stops = [stop for stop in self._stops if not self._swallowed(stop)]
        steps = [*(step for step in self._steps if not self._swallowed(step)), *_first_per_subject(self._details)]
        stops = self._lasting_stops(steps, last_report, lines)
        missing, retried, host = [], [], []
        for step in steps:
            if step.rebuilt:
                retried.append(step)
            elif step.device is not False:
                missing.append(step)
            elif step.line > (last_report if step.level is None else self._kept_going.get(step.level, 0)):
                stops.append(step)
            else:
                host.append(step)
        for step in missing[:_MOST_REPORTED]:
            yield self._issue(
                "build-failed", f"{step.subject or 'a step'} failed: {step.text}", step.first_line or step.line
            )
        if len(missing) > _MOST_REPORTED:
            message = f"{count(len(missing) - _MOST_REPORTED, 'more step')} failed"
            yield self._issue("build-failed", message, missing[_MOST_REPORTED].line)
        if self._cuts:
            yield self._issue(
                "truncated", f"the log says that it is truncated: {self._cuts[0].text}", self._cuts[0].line
            )
        if stops and not missing:
            first = min(stops, key=lambda stop: stop.line)
            yield self._issue("build-incomplete", f"the build stopped early: {first.text}", first.line)
        elif not missing:
            yield from self._unfinished(lines, last_report)
        if retried:
            message = f"{_named(retried)} failed (a later attempt succeeded): {retried[0].text}"
            yield self._issue("step-retried", message, retried[0].line)
        if host:
            message = f"{_named(host)} failed (host code only): {host[0].text}"
            yield self._issue("host-step-failed", message, host[0].line)

    def stems(self) -> set[str]:
        """Names, without folder and suffix, of objects and sources that failed to compile."""
        return {stem(each.subject) for each in (*self._steps, *self._details) if each.subject}

    def _issue(self, code: str, message: str, line: int) -> Issue:
        severity: Literal["error", "note"] = "error" if KINDS[code] else "note"
        return Issue(code=code, message=message, severity=severity, origin=Origin(input=self._name, line=line))

    @property
    def _failed(self) -> bool:
        """Whether the log contains what failed."""
        return bool(self._steps or self._details or self._stops)

    # ---- one line -------------------------------------------------------------------------------------------------

    def _line(self, begin: int, end: int, number: int) -> None:
        if number in self._understood:
            return
        text = self._around.line(begin, end)
        form, tokens = _parse(text)
        if not form:
            if self._begun:
                self._rebuild(text, number)
            return
        self._understood.add(number)
        subject = next(filter(None, map(tokens.get, _TARGETS)), "")
        failure = Failure(number, text[:300], "" if subject.endswith(_HEADERS) else subject)
        if form in ("survived", "remark"):
            self._survived(failure, begin)
        elif form == "log_cut":
            self._cuts.append(failure)
        elif form in _COMPILERS:
            self._detail(failure, form, begin)
        elif form == "tests_failed":
            self._tests_failed = number
        elif form == "ninja_failed":
            self._ninja_step(failure, begin)
        elif "MAKE" in tokens:
            match = re.search(_MAKE_LEVEL, tokens["MAKE"])
            failure.level = int(match[1]) if match else 0
            self._make(failure, failure.level, form, begin)
        elif form.endswith("_done"):
            self._succeeded[form.partition("_")[0]] = number
        else:
            failure.family = form.partition("_")[0]
            self._stop(failure)

    def _survived(self, step: Failure, begin: int) -> None:
        """Add the step if it was to build an object with device code: the build went on, but the object is missing."""
        target = re.match(_SURVIVING_TARGET, step.text)
        if target and self._around.holds_device_code(target[1], begin):
            step.subject, step.device, step.level = target[1], True, _NO_MAKE
            self._add(self._steps, step)

    def _stop(self, stop: Failure) -> None:
        self._ninja = None
        if "cannot make progress" in stop.text and self._failed:
            self._all_done = stop.line  # ninja -k: everything else that could be built was built
        elif not self._only_tests_failed():
            self._stops.append(stop)

    def _ninja_step(self, step: Failure, begin: int) -> None:
        if not re.search(_NINJA_OUTPUT, step.text):
            return  # perhaps another tool's FAILED: ninja's last line will show it
        step.subject = step.subject.split(" ")[0]
        if self._is_of_tests(step):
            return
        step.device, step.level = self._around.holds_device_code(step.subject, begin), _NO_MAKE
        self._ninja = step
        self._add(self._steps, step)

    def _make(self, step: Failure, level: int, form: str, begin: int) -> None:
        if form == "make_left":
            self._left[level] = step.line
            return
        self._ended[level] = step.line
        if form == "make_continued":
            self._kept_going[level] = step.line
            if not (self._failed or self._is_of_tests(step)):
                step.family = "make"  # the failed step is not in this log
                self._stops.append(step)
        elif form == "make_stopped":
            wanted = re.search(_WANTED, step.text)
            names = list(filter(None, wanted.groups())) if wanted else []
            step.device = any(self._around.holds_device_code(name, begin) for name in names)
            step.family = "make"
            self._stop(step)
        else:
            if form == "make_ignored":
                self._ignore_inner(level)
            self._make_step(step, level, form, begin)

    def _ignore_inner(self, level: int) -> None:
        """Forget failures of makes inside the make of this level, except those that may be of device code."""
        for failures in (self._steps, self._stops):
            while failures and (failures[-1].level or 0) > level and not _may_be_device_code(failures[-1]):
                failures.pop()

    def _swallowed(self, failure: Failure) -> bool:
        """Whether no outer make reports the failure of a make that left its folder before the log's end."""
        level = failure.level or 0
        if level > _DEEPEST_MAKE or _may_be_device_code(failure) or self._left.get(level, 0) < failure.line:
            return False
        outer = max((self._ended.get(each, 0) for each in range(level)), default=sys.maxsize)
        return outer < failure.line and _parse(unprefixed(self._around.last_line()))[0] != "make_left"

    def _make_step(self, step: Failure, level: int, form: str, begin: int) -> None:
        name = step.subject.rpartition("/")[2]
        latest = self._details[-_MOST_SUBJECTS:]
        mine = [each for each in latest if each.stem in name]
        step.device = self._around.holds_device_code(step.subject, begin)
        if form == "make_ignored":
            if not mine and not step.device:
                return  # a dash before a command such as rm
            step.level = _NO_MAKE
        else:
            is_object = re.search(_OBJECT, step.subject)
            if self._is_of_tests(step):
                return
            if not is_object and self._deepest > level:
                step.family = "make"  # an outer make repeats an inner make's error
                self._stops.append(step)
                return
        if mine:
            its = set(map(id, mine))
            self._details[-_MOST_SUBJECTS:] = [each for each in latest if id(each) not in its]
            step.text, step.first_line = mine[0].text, mine[0].line
        self._deepest = max(self._deepest, level)
        self._add(self._steps, step)

    def _detail(self, detail: Failure, form: str, begin: int) -> None:
        detail.stem = stem(detail.subject)
        if self._ninja is not None:
            if self._ninja.text.startswith("FAILED"):
                self._ninja.text = detail.text
            return
        if not detail.subject:
            if len(self._details) < _MOST_SUBJECTS:
                detail.subject, detail.device = self._around.last_announced(begin)
        elif form == "diagnostic" or " error C" in detail.text:  # a host compiler's, or one of nvcc's host pass
            detail.device = self._around.holds_device_code(detail.subject, begin)
        else:
            detail.device = True
        self._add(self._details, detail)

    def _add(self, failures: list[Failure], failure: Failure) -> None:
        failures.append(failure)
        self._latest = failure.line
        if failure.subject:
            self._begun.setdefault(file_name(failure.subject), {})

    def _is_of_tests(self, step: Failure) -> bool:
        """Whether ``step`` runs tests, by its name or because tests failed before it."""
        of_tests = self._only_tests_failed() and not re.search(_OBJECT, step.subject)
        return of_tests or re.search(_TEST_TARGET, step.subject) is not None

    def _only_tests_failed(self) -> bool:
        """Whether tests failed after the last failed step."""
        return self._tests_failed > self._latest

    def _rebuild(self, text: str, number: int) -> None:
        """Record that ``text`` announces another build of a failed subject, if it does."""
        if self._ninja is not None and number == self._ninja.line + 1:
            return  # ninja repeats the command directly after FAILED
        for name in announced(text)[0]:
            paths = self._begun.get(file_name(name))
            if paths is not None:
                self._ninja = None
                if name in paths or len(paths) < _MOST_SUBJECTS:
                    paths[name] = number

    # ---- the end -----------------------------------------------------------------------------------------------------

    def _lasting_stops(self, steps: list[Failure], last_report: int, lines: int) -> list[Failure]:
        """Stops without later recovery: no later success of the tool, and not every failed subject was rebuilt."""
        if not self._stops:
            return []
        number, missing, _ = self._around.last_step(lines)
        lasting, causes, until = [], deque(sorted(steps, key=lambda step: step.line)), 0
        harmless = True  # whether every cause so far was rebuilt, or has no device code
        for stop in sorted(self._stops, key=lambda stop: stop.line):
            while causes and causes[0].line <= stop.line:
                cause = causes.popleft()
                harmless &= bool(cause.rebuilt) or cause.device is False
                until = max(until, cause.rebuilt)
            went_on = stop.family == "ci" and last_report > stop.line  # another of the job's steps had failed
            succeeded = self._succeeded.get(stop.family, 0) > stop.line
            finished = stop.family == "ninja" and number > stop.line and not missing
            if not (went_on or succeeded or finished or (harmless and until > stop.line)):
                lasting.append(stop)
        return lasting

    def _unfinished(self, lines: int, last_report: int) -> Iterator[Issue]:
        number, missing, text = self._around.last_step(lines)
        if missing and number > self._all_done:
            yield self._issue("build-incomplete", f"the log ends before the last step, after {text}", number)
            return
        line = self._around.last_line()
        last = unprefixed(line)
        _, device = announced(last) if not number or "%" in text else ((), None)
        if device and (" -" not in last or compilation.asks_for_report(last)):
            yield self._issue("build-incomplete", f"the log ends at the start of a compilation: {last[:300]}", lines)
        elif not line[:1].isspace() and _parse(last[:LONGEST_LINE_BYTES], "last")[0]:
            yield self._issue("build-incomplete", f"the log ends with a failure: {last[:300]}", lines)
        elif last_report and last.startswith("ptxas ") and isinstance(ptxas_message(last), Module):
            yield self._issue(
                "build-incomplete", f"the log lacks the kernels of its last module; it ends with: {last}", lines
            )


@cache
def failure_words(*, steps: bool = False) -> Words:
    """Words, one of which is in every line that the grammar describes; ``steps``: or that announces a step.

    Remarks are excepted: a log may contain a million of them.
    """
    words = (word.encode() for word in grammar.scan_words("buildfailure"))
    place = re.compile(grammar.terminal("PLACE", "buildfailure").encode())
    return Words(*words, *(_REBUILDS if steps else ()), pattern=place)


def _may_be_device_code(failure: Failure) -> bool:
    unknown = failure.device is None and (failure.first_line or re.search(_OBJECT, failure.subject))
    return bool(failure.device or unknown)


def _named(failures: list[Failure]) -> str:
    return listed([failures[0].subject or "a step"], len(failures) - 1)


def _first_per_subject(details: list[Failure]) -> list[Failure]:
    """First message per source; rebuilt if the rebuild comes after its last message."""
    first: dict[str, Failure] = {}
    for detail in details:
        first.setdefault(detail.subject, detail).rebuilt = detail.rebuilt
    return list(first.values())


@lru_cache(maxsize=1024)
def _parse(text: str, start: str = "line") -> tuple[str, dict[str, str]]:
    """(rule, tokens) of a message; an empty rule for any other line."""
    parsed = None if not text or is_report(text) else grammar.parse("buildfailure", start, text)
    return parsed or ("", {})
