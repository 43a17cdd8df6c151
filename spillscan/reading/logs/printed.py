"""A line as the tool printed it: without what terminals, CI services, editors and forums made of it."""

from __future__ import annotations

import codecs
import re

_CONTROLS = "\x90\x98\x9b\x9c\x9d\x9e\x9f"
"""What begins and ends a sequence in one byte instead of two (ECMA-48, C1): DCS, SOS, CSI, ST, OSC, PM, APC."""
# Lines may be as long as the file: what is tried at many places of one never reads on to the next such place.
_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    rf"|(?:\x1b[\]_P^X]|[\x90\x98\x9d-\x9f])[^\x07\x1b{_CONTROLS}]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]+[0-~]|\x1b[78=>cM]"
)
"""Colours, and what terminals and CI services hide in a line."""
_REPORTED = r"\s*(?:ptxas |nvlink |info  |\d+ bytes )"
"""How a line of a report begins."""
_CARGO = re.compile(rf"cargo::?warning=(?={_REPORTED})")
"""What a build script of Cargo puts before each line that its compiler printed."""
_ENTITY = re.compile(r"&(?:#39|#x27|apos|quot|lt|gt|amp|nbsp);")
_AS_PRINTED = str.maketrans(
    dict.fromkeys("\t\u00a0\u2007\u202f", " ") | dict.fromkeys("`´‘’‚‛′“”„", "'") | dict.fromkeys(_CONTROLS, "\ufffd")
)
"""What editors, browsers and forums put in the place of blanks and quotes. A control that begins no sequence is no
text."""
_BREAKS = ("<br>", "<br/>", "<br />")
_MARKED = re.compile(_REPORTED)
_MARKS = ("'", "**")
"""Code marks (backquotes are quotes by then) and bold letters."""


def _control(error: UnicodeError) -> tuple[str, int]:
    """A byte that is no UTF-8 where it may be a terminal's control, else the mark of what is no text."""
    assert isinstance(error, UnicodeDecodeError)
    byte = chr(error.object[error.start])
    return (byte if byte in _CONTROLS else "\ufffd"), error.end


codecs.register_error("spillscan-controls", _control)


def decoded(raw: bytes) -> str:
    """``raw`` as text without what a terminal does not show: colours, links, titles."""
    line = raw.decode("utf-8", "spillscan-controls")
    return _ANSI.sub("", line) if "\x1b" in line or not line.isascii() else line


def plain(raw: bytes) -> str:
    """A line as the tool printed it: without colours, typographic blanks and quotes, marks of Markdown and HTML,
    Cargo's mark, blanks at its end.
    """
    line = decoded(raw)
    if "&" in line and _ENTITY.search(line):
        from html import unescape

        line = unescape(line)
    if "\t" in line or "`" in line or not line.isascii():
        line = line.translate(_AS_PRINTED)
    if "cargo:" in line:
        line = _CARGO.sub("", line, count=1)
    end = len(line.rstrip())
    while line.endswith(_BREAKS, 0, end):
        end = line.rindex("<br", 0, end)
        while end and line[end - 1].isspace():
            end -= 1
    line = line[:end]
    for mark in _MARKS:
        if line.endswith(mark) and _MARKED.match(line.lstrip(), len(mark)) and line.lstrip().startswith(mark):
            line = line.lstrip()[len(mark) : -len(mark)].rstrip()
    return line


def printed(raw: bytes) -> str:
    """A line as the tool printed it: :func:`plain`, and without the project that MSBuild puts behind it:
    ``… [C:\\x.vcxproj::TargetFramework=net8.0]``."""
    line = plain(raw)
    head, bracket, project = line.removesuffix("]").rpartition(" [")
    if not bracket or not line.endswith("]") or "[" in project or "]" in project:
        return line
    return head if project.endswith("proj") or "proj::" in project else line
