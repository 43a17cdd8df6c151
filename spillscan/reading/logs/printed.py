"""A report's line as the tool printed it: without what editors, browsers, forums and other tools made of it."""

from __future__ import annotations

import re

_REPORTED = r"\s*(?:ptxas |nvlink |info  |\d+ bytes )"
"""How a line of a report begins."""
_CARGO = re.compile(rf"cargo::?warning=(?={_REPORTED})")
"""What a build script of Cargo puts before each line that its compiler printed."""
_ENTITY = re.compile(r"&(?:#39|#x27|apos|quot|lt|gt|amp|nbsp);")
_AS_PRINTED = str.maketrans(dict.fromkeys("\t\u00a0\u2007\u202f", " ") | dict.fromkeys("`´‘’‚‛′“”„", "'"))
"""What editors, browsers and forums put in the place of blanks and quotes."""
_BREAKS = ("<br>", "<br/>", "<br />")
_MARKED = re.compile(_REPORTED)
_MARKS = ("'", "**")
"""Code marks (backquotes are quotes by then) and bold letters."""


def printed(raw: bytes) -> str:
    """A line without typographic blanks and quotes, marks of Markdown and HTML, Cargo's mark, blanks at its end, and
    the project that MSBuild puts there: ``… [C:\\x.vcxproj::TargetFramework=net8.0]``."""
    line = raw.decode("utf-8", "replace")
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
    head, bracket, project = line.removesuffix("]").rpartition(" [")
    if not bracket or not line.endswith("]") or "[" in project or "]" in project:
        return line
    return head if project.endswith("proj") or "proj::" in project else line
