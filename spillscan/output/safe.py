"""Text from logs made harmless: one line that neither a terminal nor a CI service takes for anything but text.

Names, paths and messages come from logs, and logs from whoever opened the pull request.
"""

from __future__ import annotations

import re

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
"""Stands for each character that could act."""

# GitHub's runner takes `##[error]` anywhere in a line for a command (actions/runner, ActionCommand.TryParse), Azure's
# agent `##vso[…]`, TeamCity `##teamcity[…]`.
_HASH_COMMAND = re.compile(r"##(?=\w*\[)")
# GitHub's runner takes a line that begins with `::` for one, after blanks (ActionCommand.TryParseV2).
_COLON_COMMAND = re.compile(r"(\s*)::")

_PLAIN = bytes(range(0x20, 0x7F))


def printable(text: str, most: int | None = None) -> str:
    """``text`` as one line: no control, format or bidirectional characters, no half surrogates, and no command of a CI
    service. With ``most``, at most so many characters: the middle is left out.
    """
    is_plain = text.isascii() and not text.encode().translate(None, _PLAIN)  # in a tenth of the other's time
    if not is_plain and not text.isprintable():  # Cc, Cf, Cs, Co, Cn, Zl, Zp and blanks other than the space
        text = "".join(sign if sign.isprintable() else REPLACEMENT for sign in text)
    if "##" in text:
        text = _HASH_COMMAND.sub("#" + REPLACEMENT, text)
    if "::" in text and (command := _COLON_COMMAND.match(text)):
        text = f"{command[1]}{REPLACEMENT}:{text[command.end() :]}"
    return text if most is None else clip(text, most)


def clip(text: str, most: int) -> str:
    """``text`` in at most ``most`` characters: head and tail, ``…`` between them."""
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"
