"""Lines around a failure message: the step that they announce, and the last step of a log."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice

from spillscan.reading.logs.steps import announced, progress, same_object, unprefixed

_TAIL_BYTES = 1 << 13
"""Bytes at a log's end that may contain its last line."""
_CONTEXT_BYTES = 1 << 17
"""Bytes before a message that are searched for its step."""
_MOST_LOOKED_AT = 32
"""Most lines with a word of its name that are checked for a message's step."""
LONGEST_LINE_BYTES = 1 << 14
"""Longer lines are cut here."""

_DEVICE_NAME = re.compile(r"(?:\.cu|\.cuda|_cu)\.(?:o|obj|cc)$|\.(?:cu|cubin|ptx|fatbin|hip)$")
_HOST_NAME = re.compile(r"\.(?:cpp|cc|cxx|c)(?:\.(?:o|obj))?$")
_COUNTED = re.compile(rb"\d{1,9}(?:%|/\d{1,9}| of \d{1,9})")
_COUNT_SIGNS = (b"%", b"/", b" of ")
"""One of these is in every match of ``_COUNTED``."""
_ALL = re.compile(rb"\b100%")
_NUMBERED = re.compile(rb"\[ *\d{1,9}(?:/\d{1,9}|%)[^\]\n]{0,40}\] ?\S")
_CONTAINER_STEP = re.compile(r"\] (?:[A-Z]{3,} |exporting|resolve|internal )")
_MAKES = re.compile(r"(?i)building|built target|linking|compil|generating|creating|\bnvcc\b| -[co] ")


_WORD = re.compile(rb"[^\s/\\\"'<>:=,;()\[\]|]+")
"""A path part or word. Names of steps have no other characters, except folder separators."""

_ANNOUNCES = re.compile(
    rb"/(?<=\d/)\d|%(?<=\d%)| of (?<=\d of )\d|-[co]|nvcc|clang|ptxas|nvlink| object |CUDA |INFO: From |# spillscan "
)
"""Found in every line that announces a step. Each alternative begins with its own character, so ``re`` skips quickly.
"""

_Said = tuple[tuple[str, ...], bool | None]


class _Block:
    """A block of a log, with an index of its lines by word, built as needed because many names are looked up."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self._ends: dict[bytes, list[int]] = {}
        self._known = 0
        self._said: dict[int, _Said] = {}

    def lines(self, first: int, end: int) -> Iterator[_Said]:
        """Steps that lines between these positions announce, last first."""
        while (position := self.text.rfind(b"\n", first, end)) >= 0:
            end = self.text.rfind(b"\n", 0, position) + 1
            if _ANNOUNCES.search(self.text, end, position):
                yield announced(self._line(end, position))

    def lines_with(self, name: bytes, first: int, end: int) -> Iterator[_Said]:
        """Steps announced by lines that contain the rarest word of ``name``, last first. Lines without a step are
        dropped."""
        start = max(self._known, first)
        while announcing := _ANNOUNCES.search(self.text, start, end):
            begin = max(start, self.text.rfind(b"\n", start, announcing.start()))
            start = self.text.find(b"\n", announcing.end(), end)
            start = end if start < 0 else start
            for word in {*_WORD.findall(self.text, begin, start)}:
                self._ends.setdefault(word, []).append(start)
        self._known = max(self._known, end)
        ends = min((self._ends.get(word, []) for word in _WORD.findall(name)), key=len, default=[])
        for number in range(bisect_right(ends, end) - 1, -1, -1):
            at = ends[number]
            if at <= first:
                return
            if at not in self._said:
                self._said[at] = announced(self._line(self.text.rfind(b"\n", 0, at) + 1, at))
            if self._said[at][1] is None:
                del ends[number]
            else:
                yield self._said[at]

    def _line(self, begin: int, end: int) -> str:
        end = min(end, begin + LONGEST_LINE_BYTES)
        behind = self.text.find(b"\n", begin, end)
        return unprefixed(self.text[begin : behind if behind >= 0 else end])


class Surroundings:
    """The latest two blocks of a log. Positions refer to the latest."""

    def __init__(self) -> None:
        self.block = b""
        self._latest, self._earlier = _Block(b""), _Block(b"")
        self._number, self._sought = -1, 0
        """Position of a numbered step, and the position up to which the block was searched for one."""
        self._announced: tuple[int, tuple[str, bool | None]] = -1, ("", None)
        """Last queried position, and its result of :meth:`last_announced`; -1: none yet."""
        self._held: dict[str, tuple[int, bool | None]] = {}
        """Last queried position and result of :meth:`holds_device_code` per subject."""

    def begin(self, block: bytes) -> None:
        """Begin the next block of the log."""
        self.block = block
        self._earlier, self._latest = self._latest, _Block(block)
        self._number, self._sought = -1, 0
        self._announced = -1, ("", None)
        self._held = {}

    def line(self, begin: int, end: int) -> str:
        """The line at these positions, without its prefix."""
        return unprefixed(self.block[begin : min(end, begin + LONGEST_LINE_BYTES)])

    def last_line(self) -> bytes:
        """The log's last line that is not blank, with its prefix."""
        tail = self._earlier.text[-_TAIL_BYTES:] + self.block[-_TAIL_BYTES:]  # a last line without an end is a block
        return tail.rstrip().rpartition(b"\n")[2]

    def numbered(self, begin: int) -> bool:
        """Whether a numbered step precedes position ``begin``."""
        first = max(0, begin - _CONTEXT_BYTES)
        if self._number < first:
            found = _NUMBERED.search(self.block, max(first, self._sought), begin)
            self._number, self._sought = found.span() if found else (-1, begin)
        return self._number >= 0

    def _said_before(self, begin: int, since: int, name: bytes = b"") -> Iterator[_Said]:
        """Steps announced before position ``begin`` of the block, last first: by lines with ``name``, or by all lines.

        Nothing before position ``since``, unless it is -1.
        """
        blocks = (self._latest, begin, since), (self._earlier, len(self._earlier.text), 0)
        for block, end, least in blocks[: 1 if since >= 0 else 2]:
            first = max(0, least - 1, end - _CONTEXT_BYTES)
            yield from block.lines_with(name, first, end) if name else block.lines(first, end)

    def holds_device_code(self, subject: str, begin: int) -> bool | None:
        """Whether ``subject`` contains device code, by its name or lines that announce it; ``None`` if unknown."""
        if _DEVICE_NAME.search(subject):
            return True
        name = subject.rstrip("/").rpartition("/")[2].encode()
        since, found = self._held.get(subject, (-1, None))
        if since > begin:
            since, found = -1, None
        for names, device in islice(self._said_before(begin, since, name), _MOST_LOOKED_AT) if name else ():
            if any(same_object(name, subject) for name in names):
                found = device
                break
        self._held[subject] = begin, found  # the next query searches back to here only
        return False if found is None and _HOST_NAME.search(subject) else found

    def last_announced(self, begin: int) -> tuple[str, bool | None]:
        """(output of the last step before position ``begin``, whether it contains device code)."""
        since, found = self._announced
        if since > begin:
            since, found = -1, ("", None)
        for names, device in self._said_before(begin, since):
            if device is not None:
                found = names[0], device
                break
        self._announced = begin, found  # the next query searches back to here only
        return found

    def last_step(self, lines: int) -> tuple[int, bool, str]:
        """(line, whether more steps must follow, text) of the last numbered step; line 0 if there is none."""
        log = self._earlier.text + self.block
        reached: dict[int, int] = {}  # total -> highest number of later lines
        for begin, end in _lines_with(_COUNT_SIGNS, log):
            if _COUNTED.search(log, begin, end) is None:
                continue
            text = unprefixed(log[begin : min(end, begin + LONGEST_LINE_BYTES)])
            step = progress(text)
            if step is None or _CONTAINER_STEP.search(text):
                continue
            own, count = step
            number = reached[count] = max(own, reached.get(count, 0))
            if _MAKES.search(text) is None:
                continue  # perhaps another tool's
            percent = count == 100 and "%" in text.partition(" ")[0] + text[:6]
            # ninja does not count a step that writes to the terminal itself (install, test) in the number printed
            # before it.
            left = count - number - (not percent and number > own)
            return (lines - log.count(b"\n", begin) + 1, left > 0 and not (percent and _ALL.search(log)), text[:300])
        return 0, False, ""


def _lines_with(words: Iterable[bytes], text: bytes) -> Iterator[tuple[int, int]]:
    """(begin, end) of each line that contains one of the words, last first.

    Faster than a pattern, and most logs of ptxas have no numbered steps.
    """
    latest = dict.fromkeys(words, len(text))
    before = len(text)
    while True:
        for word, at in latest.items():
            if at >= before:
                latest[word] = text.rfind(word, 0, before)
        position = max(latest.values())
        if position < 0:
            return
        end = text.find(b"\n", position)
        before = text.rfind(b"\n", 0, position) + 1
        yield before, len(text) if end < 0 else end
