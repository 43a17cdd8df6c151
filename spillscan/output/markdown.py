"""Markdown fragments without active content: code spans, plain words, tables, collapsed sections."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, groupby

from spillscan.output.nouns import count
from spillscan.output.safe import printable

_TABLE_SIGNS = str.maketrans({"`": "'", "|": "¦"})  # these would end a code span, or a cell even inside one
# Our own words and numbers: letters, digits, and punctuation that is no markup before a blank or the end.
_WORDS = re.compile(r"(?:[^\W_]|[ ()+→↑↓%=≤…-]|[.,:;](?= |$)|(?<=\d)[.,](?=\d)|(?<=[ks])/SM(?!\w))*")
_PARENTHESIZED = re.compile(r"\((?:[^()]|\([^()]*\))*\)")  # closed only at its end
_REFERENCE = re.compile(r"[0-9a-fA-F]{7}|GH-|  |^[ +=-]|^\d+[.)](?= |$)")  # commits, issues, lists

_LONGEST = 600
"""Maximum characters of a text."""

Row = Sequence[str]


def code(text: str, most: int = 120) -> str:
    """``text`` as a code span, printable and at most ``most`` characters."""
    shown = printable(text, most).translate(_TABLE_SIGNS).strip()
    return f"`{shown}`" if shown else "-"


def linked(text: str, address: str) -> str:
    """``text``, already Markdown, as a link to one of our addresses; unchanged if ``address`` is empty."""
    return f"[{text}]({address})" if address else text


def words(text: str) -> str:
    """Escape ``text``: plain words and numbers unchanged, everything else as code spans, none across a semicolon.

    Text between backticks is one code span.
    """
    if not text or _plain(text):
        return text or code(text)
    parts = printable(text, _LONGEST).split("`")
    if len(parts) % 2 and len(parts) > 1:
        return _quoted(parts)
    sentences = (groupby(_pieces(each), _plain) for each in printable(text, _LONGEST).split("; "))
    spans = ((" ".join(run) if plain else _span(" ".join(run)) for plain, run in runs) for runs in sentences)
    return "; ".join(" ".join(filter(None, each)) for each in spans) or "-"


def _quoted(parts: Sequence[str]) -> str:
    """Escape a text split at its backticks, in which every second part is code."""
    made = ""
    for at, part in enumerate(parts):
        inner = part.strip()
        piece = code(part) if at % 2 else words(inner) if inner else ""
        blank = (not at % 2 and part.startswith(" ")) or (made.endswith("`") and piece.startswith("`"))
        made += " " * bool(made and blank) + piece + " " * (not at % 2 and bool(inner) and part.endswith(" "))
    return made.strip()


def _pieces(text: str) -> list[str]:
    """Words of a text; anything in angle brackets, as in ``scale<float, 2>``, or in a call's parentheses stays
    together."""
    pieces: list[str] = []
    waiting: list[str] = []
    depth = 0
    for word in text.split(" "):
        waiting.append(word)
        if depth > 0 or "(" in word[1:]:
            depth += word.count("(") - word.count(")")
        depth += word.count("<") + word.count("->") - word.count(">")
        if depth <= 0:
            pieces.append(" ".join(waiting))
            waiting, depth = [], 0
    return pieces + waiting  # an unclosed bracket is no name


def _plain(text: str) -> bool:
    return bool(text and _WORDS.fullmatch(text)) and not _REFERENCE.search(text)


def _span(text: str) -> str:
    """A code span that leaves out the surrounding punctuation of our own sentences."""
    core = text.strip().rstrip(".,:;")
    behind = text.strip()[len(core) :]
    around = _PARENTHESIZED.fullmatch(core) is not None
    lead = "(" * (around or (core.startswith("(") and core.count("(") > core.count(")")))
    end = ")" * (around or (core.endswith(")") and core.count(")") > core.count("(")))
    core = core[len(lead) : len(core) - len(end)]
    return f"{lead}{code(core, _LONGEST)}{end}{behind}" if core.strip() else ""


def table(
    header: Row,
    rows: Sequence[Row],
    right: Collection[str] = (),
    most_bytes: int | None = None,
    hidden: int = 0,
    noun: str = "row",
    remark: str = "",
) -> Iterator[str]:
    """Lines of a table without its empty columns, and a line that counts ``hidden`` rows and those without room.

    Cells must already be Markdown. Columns in ``right`` are right-aligned.
    """
    filled = [at for at in range(len(header)) if any(row[at] for row in rows)]
    heads = [header[at] for at in filled]
    lines = [f"| {' | '.join(heads)} |", f"|{'|'.join('--:' if name in right else ':--' for name in heads)}|"]
    lines += [f"| {' | '.join(row[at] for at in filled)} |" for row in rows]
    kept, left_out = within(lines, most_bytes) if most_bytes is not None else (lines, 0)
    yield from kept
    if more := left_out + hidden:
        yield from ("", f"… {count(more, f'more {noun}')}{remark} (-f json has all)")


def fold(title: str, lines: Iterable[str]) -> Iterator[str]:
    """``lines`` as a collapsed section. The title must be our own text, never from a log."""
    yield from (f"<details><summary>{title}</summary>", "", *lines, "", "</details>")


def within(lines: Iterable[str], most_bytes: int) -> tuple[list[str], int]:
    """(first lines that fit into ``most_bytes`` with their newlines, number of lines left out)."""
    whole = list(lines)
    fitting = sum(size <= most_bytes for size in accumulate(len(line.encode()) + 1 for line in whole))
    return whole[:fitting], len(whole) - fitting
