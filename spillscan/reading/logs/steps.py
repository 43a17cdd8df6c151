"""Match compiler output to its build step: lines around the output name object and source.

Few lines of a build log name one, so all words that mark such lines are searched at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from itertools import pairwise
from operator import itemgetter

from ahocorasick_rs import BytesAhoCorasick, MatchKind
from msgspec import Struct
from msgspec.structs import replace

from spillscan.builds import compilation
from spillscan.reading import grammar

_LEAST_BYTES, _MOST_BYTES = 1 << 11, 1 << 20
_MOST_AT_ONCE = 64
"""Most words per search; with a few dozen at most, the library uses vector comparisons."""


class Words:
    """A search for several words and an optional pattern, which skips other text at memory speed."""

    def __init__(self, *words: bytes, pattern: re.Pattern[bytes] | None = None) -> None:
        self._pattern = pattern
        groups = [words[first : first + _MOST_AT_ONCE] for first in range(0, len(words), _MOST_AT_ONCE)]
        self._searches = [BytesAhoCorasick(each, matchkind=MatchKind.LeftmostFirst) for each in groups]
        self._overlap = max(map(len, words)) - 1

    def positions(self, text: bytes, start: int = 0, end: int | None = None) -> Iterator[int]:
        """Positions of matches in ``text[start:end]``, ascending; of overlapping words, perhaps only one.

        Lazy: reads on only as needed, in growing windows while nothing matches.
        """
        end, size = len(text) if end is None else end, _LEAST_BYTES
        view = memoryview(text)
        described = self._pattern.finditer(text, start, end) if self._pattern else iter(())
        place = next(described, None)
        while start < end:
            following = min(start + size, end)
            window = view[start : min(following + self._overlap, end)]
            matches = [each for search in self._searches for each in search.find_matches_as_indexes(window)]
            places = [start + at for _, at, _ in matches]
            start = max(following, start + max(map(itemgetter(2), matches), default=0))
            while place is not None and place.start() < start:
                places.append(place.start())
                place = next(described, None)
            yield from sorted(places)
            size = _LEAST_BYTES if places else min(2 * size, _MOST_BYTES)

    def occur_in(self, text: bytes) -> bool:
        """Whether ``text`` contains a match."""
        return next(self.positions(text), None) is not None

    def lines(self, text: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
        """(begin, end) of each line of ``text[start:end]`` that contains a match."""
        finish = start
        for position in self.positions(text, start, end):
            if position >= finish:
                begin = text.rfind(b"\n", start, position) + 1 or start
                finish = text.find(b"\n", position, end)
                finish = end if finish < 0 else finish
                yield begin, finish


WINDOW_BYTES = 1 << 17
"""Bytes before a compiler's output, or a message of a failure, that are searched for its step."""

_MAY_ANNOUNCE = re.compile(rb"\d(?:/\d|%)[^\]\n]{0,40}+\]|nvcc|clang|ptxas|nvlink|CUDA |INFO: From |# spillscan ")
_STEP_WORDS = Words(b"[", b"nvcc", b"clang", b"CUDA ", b"INFO: From ", b"ptxas ", b"nvlink ", b"# spillscan ")

_REPORT = re.compile(r"ptxas info |[ \t]*\d+ bytes stack frame,")
_PROGRESS = r"(?<![\d/.])(\d{1,9})(?:/| of )(\d{1,9})(?![\d/.])"
_PERCENT = r"\b(\d{1,9})%"
_BUILDING = r"Building (?P<language>\S+(?: \(Device\))?) object (?P<path>.+)$"
_VIRTUAL, _REAL = r"\bcompute_\d", r"\bsm_\d|\bnative\b|\ball(?:-major)?\b"
_ARCHS = re.compile(r"""(?:arch|code)[= ]["']?\[?[\w,="'\[]*""")
_ARCH = re.compile(r"\bsm_\d+[a-z]?")
_ELSEWHERE = r"(?:^|\s)(?:--options-file|-optf|@)(?!\s*[=\s]?\S*includes_)"
"""Options read from a file, except CMake's files of include folders."""
_DEVICE_LANGUAGES = ("CUDA", "NVCC", "NVCC (Device)", "HIP")


class Step(Struct, frozen=True):
    """One step of a build."""

    unit: str = ""
    """Object that it writes, or else the source that it reads; empty if unknown."""
    buffered: bool = False
    """Whether the build system writes the step's output in one piece."""
    compiles: bool = False
    """Whether it compiles device code, so that compiler output is expected."""
    relocatable: bool | None = None
    """Whether its command line asks for relocatable device code; ``None`` without a command line."""
    source: str = ""
    """Source that it compiles; empty if unknown."""
    device: bool = False
    """Whether it certainly produces machine code of device code, which ptxas can report."""
    links: bool = False
    """Whether its line shows that it links device code."""
    archs: int = 1
    """Least number of archs that ptxas reports one by one."""
    reports: bool | None = None
    """Whether its command line makes ptxas report; ``None`` if unknown, or if it produces no device machine code."""


NO_STEP = Step()


class Announced(Struct, eq=False):
    """A step, as a line of the log announces it."""

    step: Step
    line: int
    answered: bool = False
    """Whether a report follows it before the next step is announced."""


class Steps:
    """Steps of one stream. Every gap between compiler lines is passed to :meth:`gap`."""

    def __init__(self) -> None:
        self.current = NO_STEP
        self.overlapping = False
        """Whether two steps were announced before the first one's output, so that unbuffered output is in doubt."""
        self.device_link = False
        """Whether a step links device code."""
        self._unanswered = False
        self.announced: dict[str, Announced] = {}
        self._last = Announced(NO_STEP, 0)

    def output(self, *, report: bool = True) -> None:
        """Record compiler output during the current step; ``report``: it contains kernel resources."""
        self._unanswered = False
        self._last.answered |= report

    def gap(self, text: bytes, complete: bool, line: int) -> None:
        """Process lines that are not the compiler's, up to ``line``; ``complete`` unless earlier lines were dropped."""
        any_step, number, counted = False, line - text.count(b"\n"), 0
        for begin, end in _STEP_WORDS.lines(text, 0, len(text)):
            if end - begin < 1 << 16 and _MAY_ANNOUNCE.search(text, begin, end):
                step = parse_step(unprefixed(text[begin:end]))
                if step is not None:
                    any_step, number, counted = True, number + text.count(b"\n", counted, begin), begin
                    self.device_link |= step.links
                    self._announce(step, complete, number)
        if not complete and not any_step:
            self._announce(NO_STEP, complete, line)

    def _announce(self, step: Step, complete: bool, line: int) -> None:
        current = self.current
        if step.unit and current.unit and same_object(step.unit, current.unit):
            longer = max(step.unit, current.unit, key=len)
            relocatable = current.relocatable if step.relocatable is None else step.relocatable
            self.current = Step(
                longer,
                step.buffered or current.buffered,
                current.compiles or step.compiles,
                relocatable,
                step.source or current.source,
                current.device or step.device,
                current.links or step.links,
                max(step.archs, current.archs),
                current.reports if step.reports is None else step.reports,
            )
            self._last.step = self.current
            return
        if step.compiles and self._unanswered and not step.buffered:
            self.overlapping = True
        self.current = step if complete or step.buffered else NO_STEP
        self._unanswered = step.compiles and step.reports is not False
        self._last = Announced(step, line)
        if step.device:
            self._last = self.announced.setdefault(step.unit, self._last)
            self._last.step = step

    def silent(self, *, asked: bool, alone: bool) -> Iterator[Announced]:
        """Steps that certainly left no report of their device code; call at the end of the log.

        These are buffered steps without a report directly after them, if they are ``alone`` in the log, and steps whose
        command asks for none while others have ``asked``. A report after the latter may belong to another step if
        output overlaps; otherwise, the environment asked for it.
        """
        for each in self.announced.values():
            unasked = asked and each.step.reports is False and (self.overlapping or not each.answered)
            if unasked or (alone and each.step.buffered and not each.answered):
                yield each


def stem(path: str) -> str:
    """File name without folder and suffixes: ``a`` of ``sub/a.cu.o``."""
    return file_name(path).partition(".")[0]


def file_name(path: str) -> str:
    """File name without folder: ``a.cu.o`` of ``sub/a.cu.o``."""
    return path.replace("\\", "/").rpartition("/")[2]


def same_object(one: str, other: str) -> bool:
    """Whether two paths may name one object, relative to different folders.

    Such as ``sub/CMakeFiles/x.dir/a.o`` and, for a command run in ``sub``, ``CMakeFiles/x.dir/a.o``.
    """
    one, other = (f"/{_plain(each)}" for each in (one, other))
    return one.endswith(other) or other.endswith(one)


def _plain(path: str) -> str:
    return path.replace("\\", "/").removeprefix("./")


def unprefixed(line: bytes) -> str:
    """``line`` without its prefix and surrounding blanks."""
    return split_prefix(line.decode("utf-8", "replace").rstrip())[1]


@lru_cache(maxsize=4096)
def announced(line: str) -> tuple[tuple[str, ...], bool | None]:
    """(outputs and sources of the step that ``line`` announces, whether it contains device code).

    Includes host code and links. Empty for any other line.
    """
    number = _status().match(line)
    activity = line[number.end() :] if number else line
    if building := re.search(_BUILDING, activity):
        return (building["path"],), building["language"] in _DEVICE_LANGUAGES
    words = compilation.split(activity.replace("\\", "/")) if number or "-o" in line or "-c" in line else []
    outputs = tuple(following for word, following in pairwise(words) if word in ("-o", "--output-file"))
    sources = tuple(word for word in words if word.endswith(compilation.SOURCES) and not word.startswith("-"))
    if outputs or (sources and "-c" in words):
        return outputs + sources, compilation.holds_device_code(words)
    step = parse_step(line)
    if step is not None and step.unit:
        return (step.unit,), True
    return ((words[-1],), None) if number and words else ((), None)


def progress(line: str) -> tuple[int, int] | None:
    """(number, total) of the step that ``line`` announces; total 100 for a bare percentage; ``None`` without either."""
    status = _status().match(line)
    if status is None:
        return None
    number = re.search(_PROGRESS, status[0])
    if number is not None:
        return int(number[1]), int(number[2])
    percent = re.search(_PERCENT, status[0])
    return None if percent is None else (int(percent[1]), 100)


@cache
def _status() -> re.Pattern[str]:
    """Expression for a build system's text before a step: its progress and the rest of ``NINJA_STATUS``."""
    return re.compile("|".join(grammar.terminal(each, "buildstep") for each in ("COUNT", "PERCENT", "STATUS")))


@lru_cache(maxsize=1024)
def parse_step(line: str) -> Step | None:
    """Step that ``line``, already :func:`unprefixed`, announces; ``None`` for any other line."""
    parsed = None if is_report(line) else grammar.parse("buildstep", "line", line)
    return None if parsed is None else _step(*parsed)


def is_report(text: str) -> bool:
    """Whether ``text`` is a line of ptxas's report, hence not a step or failure.

    Avoids loading the grammars of those, which takes longer than reading a small log.
    """
    return _REPORT.match(text) is not None


def split_prefix(line: str) -> tuple[str, str]:
    """(writer, rest): the MSBuild node, docker stage or service, and the line without that prefix and its indent."""
    match = None if line.startswith("ptxas ") else grammar.text_line("writer", "prefix").match(line)
    if match is None or match.end() == 0 or is_report(line):
        return "", line
    who = match["stage"] or match["node"] or match["service"] or ""
    return who.strip(" >|"), line[match.end() :]


def _step(form: str, tokens: dict[str, str]) -> Step | None:
    if form in ("recorded", "from_action"):
        return Step(tokens.get("FROM_PATH", tokens.get("PATH", "")).strip(), buffered=True, compiles=True)
    if form == "msbuild":
        return Step(tokens["MSBUILD_PATH"], compiles=True, device=True)
    buffered = form == "counted"
    if "PATH" in tokens:
        path = tokens["PATH"].strip()
        return Step(path, buffered, True, device=not path.endswith(".ptx"))
    if "LINKED_PATH" in tokens:
        return Step(tokens["LINKED_PATH"].strip(), buffered, links=True)
    if "COMMAND" in tokens:
        step = _command(tokens["COMMAND"])
        if step is not None:
            return replace(step, buffered=buffered)
    return Step(buffered=True) if buffered else None


def _command(line: str) -> Step | None:
    """Step of a command line with nvcc, clang, ptxas or nvlink; ``None`` if it names no output or source."""
    words = compilation.split(line.replace("\\", "/"))
    made = compilation.parse(words)
    if made is None or not (made.output or made.source):
        return None
    reports = _reports(made.tool, line, words)
    return Step(
        made.output or made.source,
        compiles=made.compiles or bool(made.source),
        relocatable=made.relocatable,
        source=made.source,
        links=made.tool == "nvlink" or not {"-dlink", "--device-link"}.isdisjoint(words),
        device=reports is not None,
        archs=max(1, len({arch for option in _ARCHS.findall(line) for arch in _ARCH.findall(option)})),
        reports=reports,
    )


def _reports(tool: str, line: str, words: list[str]) -> bool | None:
    """Whether the options of a ``tool`` command make ptxas report the machine code that it produces.

    ``None`` if unknown, or if the command produces no device machine code.
    """
    if tool == "nvlink" or not compilation.makes_machine_code(words):
        return None
    if compilation.asks_for_report(line) or (tool == "ptxas" and {"-v", "--verbose"} & {*words}):
        return True
    virtual = re.search(_VIRTUAL, line) and not re.search(_REAL, line)
    return None if virtual or re.search(_ELSEWHERE, line) else False
