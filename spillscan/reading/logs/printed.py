"""A line as the tool printed it: without what terminals, CI services, editors and forums made of it."""

from __future__ import annotations

import re

# Lines may be as long as the file: what is tried at many places of one never reads on to the next such place.
ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]_P^X][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]+[0-~]|\x1b[78=>cM]")
"""Colours, and what terminals and CI services hide in a line."""
_ENTITY = re.compile(r"&(?:#39|#x27|apos|quot|lt|gt|amp|nbsp);")
_AS_PRINTED = str.maketrans(dict.fromkeys("\t\u00a0\u2007\u202f", " ") | dict.fromkeys("`´‘’‚‛′“”„", "'"))
"""What editors, browsers and forums put in the place of blanks and quotes."""
_QUOTED_BY_CARGO = "cargo:warning="
"""What a build script puts before lines that it quotes; a failure among them is not Cargo's own."""
_BREAKS = ("<br>", "<br/>", "<br />")
_MARKED = re.compile(r"\s*(?:ptxas |nvlink |info  |\d+ bytes )")
_MARKS = ("'", "**")
"""Code marks (backquotes are quotes by then) and bold letters."""


def plain(line: str) -> str:
    """``line`` as the tool printed it: without colours, typographic blanks and quotes, marks of Markdown and HTML,
    blanks at its end.
    """
    if "\x1b" in line:
        line = ANSI.sub("", line)
    line = line.removeprefix(_QUOTED_BY_CARGO)
    if "&" in line and _ENTITY.search(line):
        from html import unescape

        line = unescape(line)
    if "\t" in line or "`" in line or not line.isascii():
        line = line.translate(_AS_PRINTED)
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
    line = plain(raw.decode("utf-8", "replace"))
    head, bracket, project = line.removesuffix("]").rpartition(" [")
    if not bracket or not line.endswith("]") or "[" in project or "]" in project:
        return line
    return head if project.endswith("proj") or "proj::" in project else line
