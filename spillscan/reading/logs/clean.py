"""A log's text without what terminals and CI services add to it. Each block is cleaned once, before anything else reads
it.

Removes colours, links, titles and other control sequences (ECMA-48, 7-bit and 8-bit), and times before lines as
described by ``prefix.lark``. Each carriage return ends a line: a terminal shows only the last state of a progress bar,
but overwritten text may be a step's name. Line numbers shown to users are those of the file, as an editor counts them.

A block without any of this, the common case, costs a few searches for literal bytes and a sample of its lines.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right

from msgspec.structs import replace

from spillscan.model import Origin, Reading
from spillscan.reading import grammar
from spillscan.reading.logs.steps import Words

# Invalid UTF-8 becomes surrogates. Lines may be as long as the file, so an expression tried at many positions must
# not scan past the next one.
_ST, _CSI, _STRINGS = (
    "".join(f"{chr(each)}{chr(0xDC00 + each)}" for each in controls)
    for controls in (b"\x9c", b"\x9b", b"\x90\x98\x9d\x9e\x9f")
)
"""8-bit controls: string terminator, control sequence introducer, string introducers. The 7-bit forms are ``ESC`` and
one of ``\\``, ``[`` and ``]_P^X``."""
_SEQUENCE = (
    rf"[\x1b{_STRINGS}{_CSI}](?:"  # a search for one of several characters is quick
    r"(?<=\x1b)\[8mha:/{4}[\w+/=]*\x1b\[0m"
    rf"|(?:(?<=\x1b)\[|(?<=[{_CSI}]))[0-?]*[ -/]*(?:[@-~]|\Z)"
    rf"|(?:(?<=\x1b)[\]_P^X]|(?<=[{_STRINGS}]))[^\n\x07\x1b{_STRINGS}{_CSI}{_ST}]*(?:\x07|\x1b\\|[{_ST}]|\x1b?\Z)"
    r"|(?<=\x1b)(?:[ -/]+[0-~]|[ -/]*\Z|[78=>cM])"
    r")"
)
"""Also matches a sequence cut off by the end of the input. The first alternative is a Jenkins console note, hidden by
the background colour. Not compiled here, as most logs never need it."""
_NO_TEXT = f"[{_STRINGS}{_CSI}{_ST}]"
"""A control that begins no sequence."""
_ENCODED_CONTROL = re.compile(rb"\xc2[\x80-\x9f]")

_DATED = tuple(map(Words, (b"\n20", b"\n[20", b"\t20", b"\xef\xbb\xbf20", b"[Container] 20")))
"""One of these is in each block with a date and time before a line, except perhaps on its first line. One search per
word is faster than one search for all."""
_CLOCK = re.compile(rb"\d\d:\d\d:\d\d")
_SAMPLES, _SAMPLE_BYTES = 16, 1 << 10


class Cleaner:
    """Cleans one log, block by block."""

    def __init__(self) -> None:
        self._clocks = False
        self._breaks = array("Q")
        """Clean lines that continue a line of the file."""

    def clean(self, block: bytes, line: int) -> bytes:
        """Clean a block of whole lines whose first line is clean line ``line``."""
        text = _without_sequences(block)
        if b"\r" in text:
            text = (text + b"\n" * text.endswith(b"\r")).replace(b"\r\n", b"\n")
        text = self._without_times(text)
        return self._broken(text, line) if b"\r" in text else text

    def _without_times(self, text: bytes) -> bytes:
        """Remove times before lines: dated ones everywhere, bare clocks only once a sample shows that lines have them.

        The sample shows it if several of its lines have a clock, or if it has one line with one. This stays so for
        later blocks.
        """
        if text.startswith((b"20", b"[20")) or any(word.occur_in(text) for word in _DATED):
            text = grammar.line("dated", "prefix").sub(b"\n", b"\n" + text)[1:]
        steps = range(0, len(text), max(len(text) // _SAMPLES, _SAMPLE_BYTES))
        sample = b"".join(text[at : at + _SAMPLE_BYTES] for at in steps)
        if not self._clocks and _CLOCK.search(sample):
            clocks = grammar.line("clock", "prefix").findall(b"\n" + sample)
            self._clocks = len(clocks) > 1 or len(clocks) == 1 == sample.count(b"\n")
        return grammar.line("clock", "prefix").sub(b"\n", b"\n" + text)[1:] if self._clocks else text

    def _broken(self, text: bytes, line: int) -> bytes:
        """Turn each carriage return between two texts into a line end and remove the others."""
        pieces, start = list[bytes](), 0
        while (at := text.find(b"\r", start)) >= 0:
            begin, end = text.rfind(b"\n", start, at) + 1 or start, text.find(b"\n", at)
            end = len(text) if end < 0 else end
            shown = list(filter(None, text[begin:end].split(b"\r"))) or [b""]
            first = line + text.count(b"\n", start, begin)
            line = first + len(shown) - 1
            self._breaks.extend(range(first + 1, line + 1))
            pieces += (text[start:begin], b"\n".join(shown))
            start = end
        return b"".join((*pieces, text[start:]))

    def line(self, line: int) -> int:
        """Line of the file that contains clean line ``line``."""
        return line - bisect_right(self._breaks, line)

    def placed(self, reading: Reading) -> Reading:
        """``reading`` with line numbers of the clean text converted to those of the file."""
        if self._breaks:
            reading.kernels = [replace(each, origins=tuple(map(self._place, each.origins))) for each in reading.kernels]
            reading.links = [replace(each, origin=self._place(each.origin)) for each in reading.links]
            reading.issues = [replace(each, origin=each.origin and self._place(each.origin)) for each in reading.issues]
            reading.stats = replace(reading.stats, lines=self.line(reading.stats.lines))
        return reading

    def _place(self, origin: Origin) -> Origin:
        return replace(origin, line=self.line(origin.line)) if origin.line else origin


def _without_sequences(block: bytes) -> bytes:
    if b"\x1b" not in block and (block.isascii() or not _may_hold_controls(block)):
        return block
    text = re.sub(_SEQUENCE, "", block.decode("utf-8", "surrogateescape"))
    text = text if text.isascii() else re.sub(_NO_TEXT, "\ufffd", text)
    return text.encode("utf-8", "surrogateescape")


def _may_hold_controls(block: bytes) -> bool:
    """Whether 8-bit controls are possible: invalid UTF-8, or replacement characters."""
    no_text = "\ufffd" in block.decode("utf-8", "replace")
    return no_text or (b"\xc2" in block and _ENCODED_CONTROL.search(block) is not None)


# ---- one line --------------------------------------------------------------------------------------------------

_REPORTED = r"\s*(?:ptxas |nvlink |info  |\d+ bytes )"
"""Beginning of a line of a report."""
_CARGO = rf"cargo::?warning=(?={_REPORTED})"
"""Prefix that a Cargo build script puts before each line printed by its compiler."""
_ENTITY = r"&(?:#39|#x27|apos|quot|lt|gt|amp|nbsp);"
_AS_PRINTED = str.maketrans(dict.fromkeys("\t\u00a0\u2007\u202f", " ") | dict.fromkeys("`´‘’‚‛′“”„", "'"))
"""Typographic blanks and quotes that editors, browsers and forums insert."""
_DOUBLE_QUOTED = r"""(?<= )\\?"((?:[^"\\]|\\.)*?)\\?"(?=[ ,:.]|$)"""
"""A name in double quotes, as written by JSON and shells."""
_QUOTED = rf"""\s*(["']|\*\*)(?={_REPORTED})(.*?)(?:\\r)?(?:\\n)?\1[,;]?\Z"""
"""A whole line in quotes (of JSON, a notebook or a list) or in Markdown's code or bold marks (backquotes are quotes by
then)."""
_OF_CSV = re.compile(rf'[^"]*,"(?={_REPORTED})([^"]*)"(?:,[^"]*)?\Z')
"""A row of CSV, one of whose columns is a line of a report in quotes."""
_OPENING_TAGS = rf"(?:\s*<[A-Za-z][^<>]{{0,200}}>)+(?={_REPORTED})"
_CLOSING_TAGS = re.compile(r"(?:\s*(?:</[A-Za-z][\w:-]{0,40}>|<br ?/?>))+\Z")
_MOST_CLOSING = 400
"""Most characters of the HTML tags behind a line."""


def printed(raw: bytes) -> str:
    """A report's line as the tool printed it.

    Removes typographic blanks and quotes, quotes, Markdown and HTML marks, Cargo's prefix, trailing blanks, and the
    project appended by MSBuild: ``… [C:\\x.vcxproj::TargetFramework=net8.0]``.
    """
    line = raw.decode("utf-8", "replace")
    if "&" in line and re.search(_ENTITY, line):
        from html import unescape

        line = unescape(line)
    if "\t" in line or "`" in line or not line.isascii():
        line = line.translate(_AS_PRINTED)
    if "cargo:" in line:
        line = re.sub(_CARGO, "", line, count=1)
    line = line.rstrip()
    if line.endswith(">") and (tags := _CLOSING_TAGS.search(line, max(0, len(line) - _MOST_CLOSING))):
        line = line[: tags.start()].rstrip()
    if "<" in line and (tags := re.match(_OPENING_TAGS, line)):
        line = line[tags.end() :]
    if line.endswith("|") and line.lstrip().startswith("|"):
        line = line[:-1].rstrip()
    if quoted := re.match(_QUOTED, line):
        line = quoted[2].rstrip()
    if ',"' in line and (row := _OF_CSV.match(line)):
        line = row[1]
    if '"' in line and re.search(_DOUBLE_QUOTED, line):
        line = re.sub(_DOUBLE_QUOTED, r"'\1'", line)
    head, bracket, project = line.removesuffix("]").rpartition(" [")
    if not bracket or not line.endswith("]") or "[" in project or "]" in project:
        return line
    return head if project.endswith("proj") or "proj::" in project else line
