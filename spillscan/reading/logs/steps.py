"""Which build step a compiler's output belongs to: the lines between which it stands name object and source.

Most of a build's log names none: the words that lines of interest hold are looked for all at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from itertools import pairwise
from operator import itemgetter

from ahocorasick_rs import BytesAhoCorasick, MatchKind
from msgspec import Struct, field
from msgspec.structs import replace

from spillscan.builds import compilation
from spillscan.reading import grammar

_LEAST_BYTES, _MOST_BYTES = 1 << 11, 1 << 20
_MOST_AT_ONCE = 64
"""The library compares vectors as long as it looks for no more words than some dozens."""


class Words:
    """Several words, and what a pattern describes. What holds none of them is passed over at the speed of memory."""

    def __init__(self, *words: bytes, pattern: re.Pattern[bytes] | None = None) -> None:
        self._pattern = pattern
        groups = [words[first : first + _MOST_AT_ONCE] for first in range(0, len(words), _MOST_AT_ONCE)]
        self._searches = [BytesAhoCorasick(each, matchkind=MatchKind.LeftmostFirst) for each in groups]
        self._overlap = max(map(len, words)) - 1

    def positions(self, text: bytes, start: int = 0, end: int | None = None) -> Iterator[int]:
        """Where they stand in ``text[start:end]``, from the first on; of words that overlap, perhaps one.

        Reads on only where the next is asked for, in larger and larger steps where there is none.
        """
        end, size = len(text) if end is None else end, _LEAST_BYTES
        view = memoryview(text)
        described = self._pattern.finditer(text, start, end) if self._pattern else iter(())
        place = next(described, None)
        while start < end:
            following = min(start + size, end)
            window = view[start : min(following + self._overlap, end)]
            found = [each for search in self._searches for each in search.find_matches_as_indexes(window)]
            places = [start + at for _, at, _ in found]
            start = max(following, start + max(map(itemgetter(2), found), default=0))
            while place is not None and place.start() < start:
                places.append(place.start())
                place = next(described, None)
            yield from sorted(places)
            size = _LEAST_BYTES if places else min(2 * size, _MOST_BYTES)

    def stand_in(self, text: bytes) -> bool:
        """Whether ``text`` holds one of them."""
        return next(self.positions(text), None) is not None

    def lines(self, text: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
        """(begin, end) of each line of ``text[start:end]`` that holds one of them."""
        finish = start
        for position in self.positions(text, start, end):
            if position >= finish:
                begin = text.rfind(b"\n", start, position) + 1 or start
                finish = text.find(b"\n", position, end)
                finish = end if finish < 0 else finish
                yield begin, finish


WINDOW_BYTES = 1 << 17
"""How far before a compiler's output its step is looked for."""

_MAY_ANNOUNCE = re.compile(rb"\d(?:/\d|%)[^\]\n]{0,40}+\]|nvcc|clang|ptxas|nvlink|CUDA |INFO: From |# spillscan ")
_STEP_WORDS = Words(b"[", b"nvcc", b"clang", b"CUDA ", b"INFO: From ", b"ptxas ", b"nvlink ", b"# spillscan ")

_REPORT = re.compile(r"ptxas info |[ \t]*\d+ bytes stack frame,")
_PROGRESS = re.compile(r"(?<![\d/.])(\d{1,9})(?:/| of )(\d{1,9})(?![\d/.])")
_PERCENT = re.compile(r"\b(\d{1,9})%")
_BUILDING = re.compile(r"Building (?P<language>\S+(?: \(Device\))?) object (?P<path>.+)$")
_VIRTUAL, _REAL = re.compile(r"\bcompute_\d"), re.compile(r"\bsm_\d|\bnative\b|\ball(?:-major)?\b")
_ARCHS = re.compile(r"""(?:arch|code)[= ]["']?\[?[\w,="'\[]*""")
_ARCH = re.compile(r"\bsm_\d+[a-z]?")
_ELSEWHERE = re.compile(r"(?:^|\s)(?:--options-file|-optf|@)(?!\s*[=\s]?\S*includes_)")
"""Options that stand in a file; CMake's files of folders hold no others."""
_DEVICE_LANGUAGES = ("CUDA", "NVCC", "NVCC (Device)", "HIP")


class Step(Struct, frozen=True):
    """One step of a build."""

    unit: str = ""
    """Object that it writes, or else the source that it reads; empty where the line does not say."""
    buffered: bool = False
    """The build system writes the step's output in one piece."""
    compiles: bool = False
    """It compiles device code, so that output of the compiler is to be expected."""
    relocatable: bool | None = None
    """Whether its command line asks for relocatable device code; ``None`` where there is no command line."""
    source: str = ""
    """Source that it compiles; empty where the line does not say."""
    device: bool = False
    """It is sure to make machine code of device code, of which ptxas can report."""
    links: bool = False
    """It links device code, as far as its line says."""
    archs: int = 1
    """Of so many archs at least ptxas reports one by one."""
    reports: bool | None = None
    """Of such a step: whether its command line lets ptxas report; ``None`` where there is no command line."""


NO_STEP = Step()


class _Announced(Struct):
    step: Step
    line: int
    answered: bool = False
    """A report follows it, before another step is announced."""


class Steps:
    """Follows the steps of one stream. Every gap between lines of the compiler is given to :meth:`gap`."""

    def __init__(self) -> None:
        self.current = NO_STEP
        self.overlapping = False
        """Two steps were announced before the first one's output: what a streaming step printed is unsure."""
        self.device_link = False
        """A step links device code."""
        self._unanswered = False
        self._announced: dict[str, _Announced] = {}
        self._last = _Announced(NO_STEP, 0)

    def output(self, *, report: bool = True) -> None:
        """The compiler wrote something during the current step: what kernels use, or anything else."""
        self._unanswered = False
        self._last.answered |= report

    def gap(self, text: bytes, complete: bool, line: int) -> None:
        """Lines that are not the compiler's, up to ``line``; ``complete`` unless lines before them were left out."""
        found, number, counted = False, line - text.count(b"\n"), 0
        for begin, end in _STEP_WORDS.lines(text, 0, len(text)):
            if end - begin < 1 << 16 and _MAY_ANNOUNCE.search(text, begin, end):
                step = parse_step(unprefixed(text[begin:end]))
                if step is not None:
                    found, number, counted = True, number + text.count(b"\n", counted, begin), begin
                    self.device_link |= step.links
                    self._announce(step, complete, number)
        if not complete and not found:
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
        self._last = _Announced(step, line)
        if step.device:
            self._last = self._announced.setdefault(step.unit, self._last)
            self._last.step = step

    @property
    def asks(self) -> bool:
        """Whether a step's command asks for a report."""
        return any(each.step.reports for each in self._announced.values())

    def silent(self, *, asked: bool, alone: bool) -> list[tuple[int, str]]:
        """(line, unit) of steps that are sure to have left no report of their device code, now that the log has ended:
        one whose output would follow at once, as long as it is ``alone`` in the log, and does not; one whose command
        asks for none, where those of others have ``asked``. What follows it may be another's where output overlaps,
        else its environment has asked.
        """
        return [
            (each.line, each.step.unit)
            for each in self._announced.values()
            if (alone and each.step.buffered and not each.answered)
            or (asked and each.step.reports is False and (self.overlapping or not each.answered))
        ]

    def reporting(self) -> dict[str, int]:
        """The names, without folder and suffix, of what steps make that are to leave a report, and of how many archs at
        least: a command line and what announces it may name one object by different paths."""
        found: dict[str, int] = {}
        for each in self._announced.values():
            if each.step.reports is not False:
                name = stem(each.step.unit)
                found[name] = max(each.step.archs, found.get(name, 0))
        return found


def stem(path: str) -> str:
    """``a`` of ``sub/a.cu.o``."""
    return path.replace("\\", "/").rpartition("/")[2].partition(".")[0]


def same_object(one: str, other: str) -> bool:
    """``sub/CMakeFiles/x.dir/a.o`` and, as a command run in ``sub`` says it, ``CMakeFiles/x.dir/a.o``."""
    one, other = (f"/{_plain(each)}" for each in (one, other))
    return one.endswith(other) or other.endswith(one)


def _plain(path: str) -> str:
    return path.replace("\\", "/").removeprefix("./")


class Paths:
    """Lines of a log by the paths that they name: a tree of their parts, the last first."""

    def __init__(self, lines: Mapping[str, int]) -> None:
        self._root = _Part()
        for path, line in lines.items():
            part = self._root
            for name in reversed(_plain(path).split("/")):
                part = part.before.setdefault(name, _Part())
                part.within = max(part.within, line)
            part.line = max(part.line, line)

    def latest(self, path: str) -> int:
        """The last line that names :func:`same_object`; 0: none does."""
        found, part = 0, self._root
        for name in reversed(_plain(path).split("/")):
            if name not in part.before:
                return found
            part = part.before[name]
            found = max(found, part.line)
        return max(found, part.within)


class _Part(Struct):
    line: int = 0
    """The last that names the path from here on."""
    within: int = 0
    """The last that names a path that ends so."""
    before: dict[str, _Part] = field(default_factory=dict)
    """What may stand before it."""


def unprefixed(line: bytes) -> str:
    """``line`` without its prefix and the blanks around it."""
    return split_prefix(line.decode("utf-8", "replace").rstrip())[1]


@lru_cache(maxsize=4096)
def announced(line: str) -> tuple[tuple[str, ...], bool | None]:
    """(what the step that ``line`` announces makes and compiles, whether that is device code): host code and links
    count, too. Nothing for any other line.
    """
    number = _status().match(line)
    activity = line[number.end() :] if number else line
    if building := _BUILDING.search(activity):
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
    """(number, of how many) of the step that ``line`` announces; of 100 where it has a percentage alone; ``None`` where
    it says neither."""
    status = _status().match(line)
    if status is None:
        return None
    found = _PROGRESS.search(status[0])
    if found is not None:
        return int(found[1]), int(found[2])
    percent = _PERCENT.search(status[0])
    return None if percent is None else (int(percent[1]), 100)


@cache
def _status() -> re.Pattern[str]:
    """What a build system puts before a step: how many are done, and whatever else ``NINJA_STATUS`` asks for."""
    return re.compile("|".join(grammar.terminal(each, "buildstep") for each in ("COUNT", "PERCENT", "STATUS")))


@lru_cache(maxsize=1024)
def parse_step(line: str) -> Step | None:
    """The step that ``line``, :func:`unprefixed`, announces; ``None`` for any other line."""
    found = None if is_report(line) else grammar.parse("buildstep", "line", line)
    return None if found is None else _step(*found)


def is_report(text: str) -> bool:
    """Whether ``text`` is a line of ptxas's report: no step's, no failure's. Grammars that describe those take longer
    to get ready than to read a small log."""
    return _REPORT.match(text) is not None


def split_prefix(line: str) -> tuple[str, str]:
    """(who writes, the rest): the MSBuild node, docker stage or service, and the line without that and its indent."""
    match = None if line.startswith("ptxas ") else _writer().match(line)
    if match is None or match.end() == 0 or is_report(line):
        return "", line
    who = match["STAGE"] or match["NODE"] or match["SERVICE"] or ""
    return who.strip(" >|"), line[match.end() :]


@cache
def _writer() -> re.Pattern[str]:
    return re.compile(grammar.expression("prefix", "writer"))


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
    """What a command line with nvcc, clang, ptxas or nvlink in it makes; ``None`` where it makes nothing."""
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
        archs=max(1, len({arch for said in _ARCHS.findall(line) for arch in _ARCH.findall(said)})),
        reports=reports,
    )


def _reports(tool: str, line: str, words: list[str]) -> bool | None:
    """Whether ptxas says what kernels use of the machine code that a command of ``tool`` makes: as its options say;
    ``None`` where they do not, and where it makes none of device code."""
    if tool == "nvlink" or not compilation.makes_machine_code(words):
        return None
    if compilation.asks_for_report(line) or (tool == "ptxas" and {"-v", "--verbose"} & {*words}):
        return True
    virtual = _VIRTUAL.search(line) and not _REAL.search(line)
    return None if virtual or _ELSEWHERE.search(line) else False
