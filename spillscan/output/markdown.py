"""Pieces of Markdown: code spans, words, tables, what is folded; nothing in them acts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from spillscan.output.safe import printable

_TABLE_SIGNS = str.maketrans({"`": "'", "|": "¦"})  # what would end a span, or a cell even inside of one
# Our own words and figures: letters, digits, and signs that mean nothing where a blank or the end follows them.
_WORDS = re.compile(r"(?:[^\W_]|[ ()+→↑↓%=…-]|[.,:;](?= |$)|(?<=\d)[.,](?=\d)|(?<=[ks])/SM(?!\w))*")
_REFERENCE = re.compile(r"[0-9a-fA-F]{7}|GH-|  |^[ +=-]")  # commits, issues; what a line must not begin with

_LONGEST = 600
"""Characters of a text."""

Row = Sequence[str]


def code(text: str, most: int = 120) -> str:
    """``text`` as a code span, printable and never long."""
    shown = printable(text, most).translate(_TABLE_SIGNS).strip()
    return f"`{shown}`" if shown else "-"


def linked(text: str, address: str) -> str:
    """``text``, which is Markdown already, as a link to an address of ours; as it is where there is none."""
    return f"[{text}]({address})" if address else text


def words(text: str) -> str:
    """``text``: plain words and figures as they are, a bound in words, all else as code spans."""
    text = text.replace("≤", "up to ")
    if not text or _plain(text):
        return text or code(text)
    runs = groupby(_pieces(printable(text, _LONGEST)), _plain)
    return " ".join(filter(None, (" ".join(run) if plain else _span(" ".join(run)) for plain, run in runs))) or "-"


def _pieces(text: str) -> list[str]:
    """Its words; what stands in angles, as of ``scale<float, 2>``, or in the brackets of a call is one."""
    found: list[str] = []
    waiting: list[str] = []
    depth = 0
    for word in text.split(" "):
        waiting.append(word)
        if depth > 0 or "(" in word[1:]:
            depth += word.count("(") - word.count(")")
        depth += word.count("<") + word.count("->") - word.count(">")
        if depth <= 0:
            found.append(" ".join(waiting))
            waiting, depth = [], 0
    return found + waiting  # what nothing closes is no name


def _plain(text: str) -> bool:
    return bool(text and _WORDS.fullmatch(text)) and not _REFERENCE.search(text)


def _span(text: str) -> str:
    """A code span without the signs of our own sentences around it."""
    core = text.strip().rstrip(".,:;")
    behind = text.strip()[len(core) :]
    lead = "(" * (core.startswith("(") and core.count("(") > core.count(")"))
    end = ")" * (core.endswith(")") and core.count(")") > core.count("("))
    core = core[len(lead) : len(core) - len(end)]
    return f"{lead}{code(core, _LONGEST)}{end}{behind}" if core.strip() else ""


def table(header: Row, rows: Iterable[Row], right: Sequence[str] = ()) -> Iterator[str]:
    """A table's lines; ``right`` columns are aligned to the right. Cells must be Markdown already."""
    yield f"| {' | '.join(header)} |"
    yield f"|{'|'.join('--:' if name in right else ':--' for name in header)}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def fold(title: str, lines: Iterable[str]) -> Iterator[str]:
    """``lines`` behind a title that opens them; the title is ours, never a log's."""
    yield f"<details><summary>{title}</summary>"
    yield ""
    yield from lines
    yield ""
    yield "</details>"


def within(lines: Iterable[str], most_bytes: int) -> tuple[list[str], int]:
    """(the first lines that fit into ``most_bytes`` with their newlines; how many are left out)."""
    kept: list[str] = []
    left_out = size = 0
    for line in lines:
        size += len(line.encode()) + 1
        if size > most_bytes or left_out:
            left_out += 1
        else:
            kept.append(line)
    return kept, left_out
