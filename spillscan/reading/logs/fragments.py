"""Remains of report lines that lost bytes, and pairs of lines joined by lost bytes.

Whole messages are described by the grammar. These rules decide if any other text may have been part of one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import chain

from spillscan.reading import grammar

# ---- anywhere in a log -------------------------------------------------------------------------------------------

_SAID = re.compile(
    r"bytes s(?:tack frame|pill (?:stores|loads))|Used \d+ reg|used \d+ barr|Compil(?:ing entry fun|e time = \d)"
    r"| (?<=\d )(?:bytes (?:cmem\[|[sgl]mem\b|cumulative)|registers, (?:used )?\d)|Function properties for"
    r"|' for 'sm_\d|Registers are spilled|Local memory used for|ptxas (?:info|warning) *:?$|cmem\[\d+\]$"
)
"""Text found anywhere in a line. Each alternative begins with its own letter, so ``re`` skips other text quickly."""
_BEGUN = re.compile(
    r"ptxas(?: (?:i|in|inf|w\w*))? *(?:\.{2,}|…)?$|ptxas (?!version|options|flags|found)[a-z]+: "
    r"|ptxas(?:[a-z]| (?:i|in|inf|w|wa|war|warn|warni|warnin|e|er|err|erro|f|fa|fat|fata) )"
    r"|(?:ptxas|nvlink) (?:(?:info|warning)\b(?! *:)|[a-z]+[A-Z])|ptxas +[^-/.:\s\w\"'$({<\\~%@]"
    r"|ptxas +(?!version|found|not |missing|ok|done|failed|flags|options|pass)[^-/.:=\s][^-/.:=]{0,11}$"
    r"|ptxas .{0,40}(?:registers|barriers|spill (?:stores|loads)|stack frame|[gsl]mem|\bms)$"
)
_WORDS = re.compile(
    r"\d registers\b|\bregisters(?:, |$)|bytes (?:spill|cmem\[)|spill (?:stores|loads)\b|cmem\[\d"
    r"|^(?:r?e?g?i?s?t|b?a?r?r?i)?ers$"
    r"|spilled to local memory|(?:in (?:the )?function|^f?u?n?c?t?i?on) '[^']+'(?: in line \d+)?$|\w{2}count option$"
)
"""Also found in other text, so only significant at a log's head or among the lines of one kernel."""
_OPTIONS = re.compile(r"(?:-|[a-z][\w-]*=)\S* .* -[co] ")
"""A command without its program; variables before a command are in capitals."""
_PLACED = re.compile(r"[^\s:(]+[:(]\d+[:),]")
"""A compiler's message about a source, in any language: its quotes may follow letters without a blank."""
_HEAD = "ptxas info    : "
_TOOL = re.compile(r"ptxas(?!Options)|nvlink")
"""A tool's name, but not the field of fat binaries that contains its options."""
_LONGEST_CHARACTERS = 4096
_LONGEST_ELLIPSIS = 80

_HALF_HEAD = re.compile(r"[\w.,=]\Z|\A(?:ptxas|nvlink) |\A[-+]\Z")
_HALF_TOOL, _OPTION = re.compile(r"ptxas(?: \w*)?\Z"), re.compile(r"(?:^| )-[A-Za-z]")
_HALF_NAME = re.compile(r"\A(?:p?t?x?a?s?p?t?x?a?s?|n?v?l?i?n?k?) ?\Z")
_ELLIPSIS = re.compile(r"(?:\.{2,}|…|\[(?:\.{2,}|…)\])\Z")
HALF_SENTENCE = re.compile(r"deprecated since PTX ISA version (?!.*future PTX ISA version\Z)")
"""ptxas's only sentence about deprecated instructions, without its end (11.8 to 13.5)."""
_QUOTES = re.compile(r"(?<!\w)'|'(?!\w)")
"""Quotes, without apostrophes."""


def holds_piece(line: str) -> bool:
    """Whether ``line`` contains text of reports only. Outside of a whole message, this means a torn one."""
    return (_BEGUN.match(line) or _SAID.search(line)) is not None


def half_head(before: str) -> bool:
    """Whether ``before``, the text before a head, is a line that was cut off (a name, a command), or a mark of a
    side-by-side comparison of logs."""
    if _HALF_HEAD.search(before) or _HALF_TOOL.search(before.rstrip(" ").removesuffix(":").rstrip(" ")):
        return True
    return _OPTION.search(before, max(before.rfind(">"), before.rfind("|")) + 1) is not None


def half_name(before: str) -> bool:
    """Whether ``before`` is a tool's name that lost letters, or two pieces of one."""
    return _HALF_NAME.search(before) is not None


def may_remain(line: str) -> bool:
    """Whether ``line`` may remain from a report. For lines at a log's head and between a kernel's lines."""
    return len(line) < _LONGEST_CHARACTERS and (_WORDS.search(line) is not None or holds_piece(line))


def may_begin_report(line: str) -> bool:
    """Whether ``line``, which is cut, may begin a report or the command that produces one."""
    text = line.lstrip()
    named = _TOOL.search(text) is not None
    return named or (text != "" and _HEAD.startswith(text)) or may_remain(text)


def lost_beginning(line: str, following: bytes) -> bool:
    """Whether ``line``, a log's first and no message, may be the end of a message or of a command."""
    quoted = half_quoted(line) and following.startswith(b"ptxas ") and not _PLACED.match(line)
    return quoted or may_remain(line) or _lacks_beginning(line)


def _lacks_beginning(line: str) -> bool:
    line = line[:_LONGEST_CHARACTERS]
    if _OPTIONS.match(line):
        return True
    ends = (literal[at:] for literal in _literals() for at in range(1, len(literal) - _LITERAL_LETTERS + 1))
    return line.startswith(tuple(ends)) or any(each in line for each in _literals() if len(each) >= _OPENING_LETTERS)


def elided(line: str) -> int | None:
    """Position at which a person elided the end of ``line`` (``…``, ``[...]``, a trailing comma); ``None`` if nobody
    did."""
    if not line.endswith((" ", ",", "..", "…", "]")):
        return None
    text = line.rstrip(" ")
    if mark := _ELLIPSIS.search(text, max(0, len(text) - _LONGEST_ELLIPSIS)):
        return len(text[: mark.start()].rstrip(" ").removesuffix(",").rstrip(" "))
    return len(text[:-1].rstrip(" ")) if text.endswith(",") else None


def half_quoted(text: str) -> bool:
    """Whether a quotation in ``text`` lacks its beginning or its end."""
    return len(_QUOTES.findall(text)) % 2 == 1


# ---- messages that no rule describes -----------------------------------------------------------------------------

_STEMS = (
    "Compiling entry function '",
    "Function properties for ",
    "Used N registers",
    "N bytes gmem",
    "N bytes stack frame",
    "Compile time = N",
    "Registers are spilled to local memory in function '",
)
_STEM_LETTERS = 5
_FIGURE_LETTERS, _ADVICE_LETTERS = 3, 8
"""Letters in common that identify the beginning of a known message. Fewer for reports than for advice: all messages
with values are known."""
_LITERAL_LETTERS = 8
_OPENING_LETTERS = 16
"""A message that begins with this many letters of a known one is that one."""
_ENDINGS = re.compile(
    r"ime = N\.N ms$|entry function '|' for '|roperties for |N registers(?:,|$)|N bytes \w+(?:\[N\])?(?:,|$)"
)
"""Endings of lines with values after ptxas's name; other programs write some of them too. N: a number."""
_NUMBER = re.compile(r"\d+(?:\+\d+)?")


def of_known(text: str) -> bool:
    """Whether ``text``, which no rule describes, is the beginning of a known message, begins and ends like one, or
    contains pieces of several."""
    if text in _beginnings() or text.startswith(_openings(_OPENING_LETTERS)):
        return True
    if text.startswith(_frames().get(text[-_ADVICE_LETTERS:], ())):
        return True
    text = _NUMBER.sub("N", text)
    return any(stem.startswith(text[:_STEM_LETTERS]) for stem in _STEMS) or _ENDINGS.search(text) is not None


def breaks_off(text: str, *, figures: bool = False) -> bool:
    """Whether ``text`` begins like a known message and changes inside a word; ``figures``: it is no advice."""
    letters = _FIGURE_LETTERS if figures else _ADVICE_LETTERS
    for opening in _openings_by(letters).get(text[:letters], ()):
        same = next((at for at, (one, other) in enumerate(zip(text, opening, strict=False)) if one != other), 0)
        if same >= letters and any(each[same - 1 : same + 1].isalpha() for each in (opening, text)[: 1 + figures]):
            return True
    return False


@cache
def _openings(letters: int | None = None) -> tuple[str, ...]:
    """First ``letters`` letters of messages that the grammar describes, unless they begin with a short word."""
    return tuple(each[:letters] for each in grammar.openings("ptxas") if len(each) >= _STEM_LETTERS)


@cache
def _beginnings() -> frozenset[str]:
    """Every prefix of those openings."""
    return frozenset(each[:end] for each in _openings() for end in range(len(each) + 1))


@cache
def _openings_by(letters: int) -> dict[str, list[str]]:
    """Openings by their first letters."""
    found: dict[str, list[str]] = {}
    for each in _openings():
        found.setdefault(each[:letters], []).append(each)
    return found


@cache
def _frames() -> dict[str, tuple[str, ...]]:
    """Last letters of messages with names and values in between → first letters of these messages."""
    found: dict[str, tuple[str, ...]] = {}
    for start, end in re.findall(r'^[a-z_]+: \(?"([^"]+)"[^"\n].*"([^"]+)"$', grammar.text("ptxas"), re.MULTILINE):
        if len(end) >= _ADVICE_LETTERS:
            last = end[-_ADVICE_LETTERS:]
            found[last] = (*found.get(last, ()), start[:_ADVICE_LETTERS])
    return found


@cache
def _literals() -> tuple[str, ...]:
    """Texts that every message of one kind contains."""
    return tuple(each for each in grammar.literals("ptxas") if len(each) >= _LITERAL_LETTERS)


# ---- clauses of a registers line that no rule describes ------------------------------------------------------------

_CLAUSES = (
    "used N barriers",
    "N barriers",
    "N bytes cumulative stack size",
    "N bytes smem",
    "N bytes cmem[N]",
    "N bytes lmem",
    "N stack",
    "N textures",
    "N surfaces",
    "N samplers",
)
_CLAUSE_STEMS = tuple(re.sub(r"((?:used )?N (?:bytes \w{2}|\w{3})).*", r"\1", known) for known in _CLAUSES)
"""Prefixes that identify a clause."""
_CLAUSE_WORDS = tuple(
    [
        *(known.rpartition(" ")[2] for known in _CLAUSES if (" bytes " in known) == of_bytes),
        *["registers"] * (not of_bytes),
    ]
    for of_bytes in (False, True)
)
"""Last words of clauses that count things, and of clauses that count bytes."""
_LEAST_ENDING = 3
_CLAUSE = re.compile(r"(?:used )?N (?:bytes )?(?![A-Za-z]{1,2}\b|[a-z]+[A-Z])")
"""Beginning of a clause: a number and whole words."""
_NO_CLAUSE = re.compile(r"[^\w ()\[\].+-]")
_JOINED = re.compile(
    r"\b(?:registers|barriers|cumulative|stack|[sgl]mem|textures|surfaces|samplers)\b"
    r"|ptxas|info|spill|frame|cmem|=|[a-z]\d+ |\d bytes .*\d"
)


def of_known_clauses(clause: str) -> bool:
    """Whether ``clause``, which no rule describes, is cut (perhaps inside its number) or joined from two lines."""
    form = _NUMBER.sub("N", clause)
    if any(known.startswith(form) for known in _CLAUSES) or not _CLAUSE.match(form):
        return True
    if _JOINED.search(clause) or _NO_CLAUSE.search(clause) or elided(clause) is not None:
        return True
    if _of_two_words(clause.rpartition(" ")[2], _CLAUSE_WORDS[" bytes " in clause]):
        return True
    return form.startswith(_CLAUSE_STEMS) and not form.startswith(tuple(f"{known} " for known in _CLAUSES))


def _of_two_words(word: str, begun: Sequence[str]) -> bool:
    """Whether ``word`` is the end of a known word, optionally after the beginning of one of ``begun``."""
    every = [*chain(*_CLAUSE_WORDS)]
    if word in every:
        return False
    cuts = range(max(1, len(word) - _LEAST_ENDING + 1))
    heads = [at for at in cuts if any(known.startswith(word[:at]) for known in begun)]
    return any(known.endswith(word[at:]) for at in heads for known in every)
