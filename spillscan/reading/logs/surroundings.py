"""Lines before a failure message: the step that they announce, and the last step of a log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from spillscan.reading.logs.steps import WINDOW_BYTES, announced, progress, same_object, unprefixed

_TAIL_BYTES = 1 << 13
"""Bytes at a log's end that may contain its last line."""
_MOST_LINES = 32
"""Most lines with a name before a message that are checked for its step."""
_MOST_MESSAGES = 1000
"""Most messages of a log whose steps are searched; any of them is enough for a finding."""
LONGEST_LINE_BYTES = 1 << 14
"""Longer lines are cut here."""

_DEVICE_NAME = r"(?:\.cu|\.cuda|_cu)\.(?:o|obj|cc)$|\.(?:cu|cubin|ptx|fatbin|hip)$"
_HOST_NAME = r"\.(?:cpp|cc|cxx|c)(?:\.(?:o|obj))?$"
_COUNTED = re.compile(rb"(?<=\d)(?:%|/\d| of \d)")
_ALL = re.compile(rb"\b100%")
_CONTAINER_STEP = r"\] (?:[A-Z]{3,} |exporting|resolve|internal )"
_MAKES = r"(?i)building|built target|linking|compil|generating|creating|\bnvcc\b| -[co] "
_ANNOUNCES = (
    rb"/(?<=\d/)\d|%(?<=\d%)| of (?<=\d of )\d|-[co]|nvcc|clang|ptxas|nvlink| object |CUDA |INFO: From |# spillscan "
)
"""Found in every line that announces a step. Each alternative begins with its own character, so ``re`` skips quickly.
"""


class Surroundings:
    """The latest block of a log and the text before it. Positions refer to the block."""

    def __init__(self) -> None:
        self.block = b""
        self._before = b""
        self._messages = 0
        """Number of messages whose steps were searched."""

    def begin(self, block: bytes) -> None:
        """Begin the next block of the log."""
        self._before, self.block = self.block, block

    def line(self, begin: int, end: int) -> str:
        """The line at these positions, without its prefix."""
        return unprefixed(self.block[begin : min(end, begin + LONGEST_LINE_BYTES)])

    def last_line(self) -> bytes:
        """The log's last line that is not blank, with its prefix."""
        tail = self._before[-_TAIL_BYTES:] + self.block[-_TAIL_BYTES:]  # a last line without an end is a block
        return tail.rstrip().rpartition(b"\n")[2]

    def _context(self, begin: int) -> bytes:
        """Whole lines before position ``begin``."""
        text = self.block[max(0, begin - WINDOW_BYTES) : begin]
        return self._before[len(text) - WINDOW_BYTES :] + text if len(text) < WINDOW_BYTES else text

    def holds_device_code(self, subject: str, begin: int) -> bool | None:
        """Whether ``subject`` contains device code, by its name or lines that announce it; ``None`` if unknown."""
        if re.search(_DEVICE_NAME, subject):
            return True
        self._messages += 1
        name = subject.rstrip("/").rpartition("/")[2].encode()
        if name and self._messages <= _MOST_MESSAGES:
            for outputs, device in _announcements(self._context(begin), name):
                if device is not None and any(same_object(output, subject) for output in outputs):
                    return device
        return False if re.search(_HOST_NAME, subject) else None

    def last_announced(self, begin: int) -> tuple[str, bool | None]:
        """(output of the last step before position ``begin``, whether it contains device code)."""
        steps = _announcements(self._context(begin))
        return next(((outputs[0], device) for outputs, device in steps if device is not None), ("", None))

    def last_step(self, lines: int) -> tuple[int, bool, str]:
        """(line, whether more steps must follow, text) of the last numbered step; line 0 if there is none."""
        text = self._before + self.block
        reached: dict[int, int] = {}  # total -> highest number of later lines
        begin, later = len(text), 0
        for counted in reversed([found.start() for found in _COUNTED.finditer(text)]):
            if counted >= begin:
                continue  # on the same line
            behind, begin = begin, text.rfind(b"\n", 0, counted) + 1
            later += text.count(b"\n", begin, behind)
            shown = unprefixed(text[begin:behind].partition(b"\n")[0][:LONGEST_LINE_BYTES])
            step = progress(shown)
            if step is None or re.search(_CONTAINER_STEP, shown):
                continue
            own, count = step
            number = reached[count] = max(own, reached.get(count, 0))
            if re.search(_MAKES, shown) is None:
                continue  # perhaps another tool's
            percent = count == 100 and "%" in shown.partition(" ")[0] + shown[:6]
            # ninja does not count a step that writes to the terminal itself (install, test) in the number printed
            # before it.
            left = count - number - (not percent and number > own)
            complete = percent and _ALL.search(text) is not None
            return lines - later + 1, left > 0 and not complete, shown[:300]
        return 0, False, ""


def _announcements(text: bytes, name: bytes = b"") -> Iterator[tuple[tuple[str, ...], bool | None]]:
    """Steps that lines with ``name`` announce, last first: their outputs and sources, and whether they contain device
    code."""
    lines = (line for line in reversed(text.split(b"\n")) if name in line)
    for line in islice(lines, _MOST_LINES) if name else lines:
        if re.search(_ANNOUNCES, line):
            yield announced(unprefixed(line[:LONGEST_LINE_BYTES]))
