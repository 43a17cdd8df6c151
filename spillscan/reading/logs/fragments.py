"""Remains of report lines that lost bytes, and pairs of lines joined by lost bytes.

Whole messages are described by the grammar. These rules decide if any other text may have been part of one.
"""

from __future__ import annotations

import re

from spillscan.reading import grammar

# ---- anywhere in a log -------------------------------------------------------------------------------------------

_PIECES = (
    r"bytes s(?:tack frame|pill (?:stores|loads))|Used \d+ reg|used \d+ barr|Compil(?:ing entry fun|e time = \d)"
    r"| (?<=\d )(?:bytes (?:cmem\[|[sgl]mem\b|cumulative)|registers, (?:used )?\d)|Function properties for"
    r"|' for 'sm_\d|Registers are spilled|Local memory used for|ptxas (?:info|warning) *:?$|cmem\[\d+\]$"
)
"""Text found anywhere in a line. Each alternative begins with its own letter, so ``re`` skips other text quickly."""
_BEGUN = (
    r"ptxas(?: (?:i|in|inf|w\w*))? *(?:\.{2,}|…)?$|ptxas (?!version|options|flags|found)[a-z]+: "
    r"|ptxas(?:[a-z]| (?:i|in|inf|w|wa|war|warn|warni|warnin|e|er|err|erro|f|fa|fat|fata) )"
    r"|(?:ptxas|nvlink) (?:(?:info|warning)\b(?! *:)|[a-z]+[A-Z])|ptxas +[^-/.:\s\w\"'$({<\\~%@]"
    r"|ptxas +(?!version|found|not |missing|ok|done|failed|flags|options|pass)[^-/.:=\s][^-/.:=]{0,11}$"
    r"|ptxas .{0,40}(?:registers|barriers|spill (?:stores|loads)|stack frame|[gsl]mem|\bms)$"
)
_WORDS = (
    r"\d registers\b|\bregisters(?:, |$)|bytes (?:spill|cmem\[)|spill (?:stores|loads)\b|cmem\[\d|stack frame: \d"
    r"|^(?:r?e?g?i?s?t|b?a?r?r?i)?ers$"
    r"|spilled to local memory|(?:in (?:the )?function|^f?u?n?c?t?i?on) '[^']+'(?: in line \d+)?$|\w{2}count option$"
)
"""Also found in other text, so only significant at a log's head or among the lines of one kernel."""
_OPTIONS = re.compile(r"(?:-|[a-z][\w-]*=)\S* .* -[co] ")
"""A command without its program; variables before a command are in capitals."""
_PLACED = r"[^\s:(]+[:(]\d+[:),]"
"""A compiler's message about a source, in any language: its quotes may follow letters without a blank."""
_HEAD = "ptxas info    : "
_TOOL = r"ptxas(?!Options)|nvlink"
"""A tool's name, but not the field of fat binaries that contains its options."""
_LONGEST_CHARACTERS = 4096
_LONGEST_ELLIPSIS = 80

_HALF_HEAD = r"[\w.,=]\Z|\A(?:ptxas|nvlink) |\A[-+]\Z"
_HALF_TOOL, _OPTION = re.compile(r"ptxas(?: \w*)?\Z"), re.compile(r"(?:^| )-[A-Za-z]")
_HALF_NAME = r"\A(?:p?t?x?a?s?p?t?x?a?s?|n?v?l?i?n?k?) ?\Z"
_ELLIPSIS = re.compile(r"(?:\.{2,}|…|\[(?:\.{2,}|…)\])\Z")
HALF_SENTENCE = r"deprecated since PTX ISA version (?!.*future PTX ISA version\Z)"
"""ptxas's only sentence about deprecated instructions, without its end (11.8 to 13.5)."""
_QUOTES = r"(?<!\w)'|'(?!\w)"
"""Quotes, without apostrophes."""


def holds_piece(line: str) -> bool:
    """Whether ``line`` contains text of reports only. Outside of a whole message, this means a torn one."""
    return (re.match(_BEGUN, line) or re.search(_PIECES, line)) is not None


def half_head(before: str) -> bool:
    """Whether ``before``, the text before a head, is a line that was cut off (a name, a command), or a mark of a
    side-by-side comparison of logs."""
    if re.search(_HALF_HEAD, before) or _HALF_TOOL.search(before.rstrip(" ").removesuffix(":").rstrip(" ")):
        return True
    return _OPTION.search(before, max(before.rfind(">"), before.rfind("|")) + 1) is not None


def half_name(before: str) -> bool:
    """Whether ``before`` is a tool's name that lost letters, or two pieces of one."""
    return re.search(_HALF_NAME, before) is not None


def may_remain(line: str) -> bool:
    """Whether ``line`` may remain from a report. For lines at a log's head and between a kernel's lines."""
    return len(line) < _LONGEST_CHARACTERS and (re.search(_WORDS, line) is not None or holds_piece(line))


def may_begin_report(line: str) -> bool:
    """Whether ``line``, which is cut, may begin a report or the command that produces one."""
    text = line.lstrip()
    named = re.search(_TOOL, text) is not None
    return named or (text != "" and _HEAD.startswith(text)) or may_remain(text)


def lost_beginning(line: str, following: bytes) -> bool:
    """Whether ``line``, a log's first and no message, may be the end of a message or of a command."""
    quoted = half_quoted(line) and following.startswith(b"ptxas ") and not re.match(_PLACED, line)
    return quoted or may_remain(line) or _OPTIONS.match(line[:_LONGEST_CHARACTERS]) is not None


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
    return len(re.findall(_QUOTES, text)) % 2 == 1


# ---- text that no rule describes ---------------------------------------------------------------------------------

_OPENING_LETTERS = 8
"""A message that begins with as many letters of a known one is a part of it."""
_NEW_CLAUSE = r"(?:used )?\d{1,15} (?:bytes )?([a-z]{3,}(?: [a-z]{3,})*)(?: \([a-z ]+\))?"
_COUNTS = ("registers", "barriers", "textures", "surfaces", "samplers", "used")
_SIZES = ("bytes", "cumulative", "stack", "size", "cmem", "gmem", "lmem", "smem", "frame", "spill")


def begins_like_known(text: str) -> bool:
    """Whether ``text``, which no rule describes, begins like a message that one describes."""
    return any(opening.startswith(text[:_OPENING_LETTERS]) for opening in grammar.openings("ptxas"))


def is_new_clause(clause: str) -> bool:
    """Whether ``clause`` may be printed by a later release: a number and words that are no parts of known ones."""
    match = re.fullmatch(_NEW_CLAUSE, clause)
    begun = _SIZES if " bytes " in clause else _COUNTS
    return match is not None and not any(_is_of_parts(word, begun) for word in match[1].split())


def _is_of_parts(word: str, begun: tuple[str, ...]) -> bool:
    """Whether ``word`` begins or ends a known word, or is the beginning of one of ``begun`` and the end of another."""
    every = (*_COUNTS, *_SIZES)
    ends = (at for at in range(len(word) - 2) if any(known.endswith(word[at:]) for known in every))
    return any(known.startswith(word) for known in every) or any(
        known.startswith(word[:at]) for at in ends for known in begun
    )
