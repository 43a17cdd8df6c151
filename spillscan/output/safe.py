"""Escape text from logs to one line that neither a terminal nor a CI service interprets.

Names, paths and messages come from logs, and logs from whoever opened the pull request.
"""

from __future__ import annotations

import re

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
"""Replaces each character that could have an effect."""

# GitHub's runner interprets `##[error]` anywhere in a line as a command (actions/runner, ActionCommand.TryParse),
# Azure's agent `##vso[…]`, TeamCity `##teamcity[…]`.
_HASH_COMMAND = re.compile(r"##(?=\w*\[)")
# GitHub's runner interprets a line that begins with `::`, after blanks, as a command (ActionCommand.TryParseV2).
_COLON_COMMAND = re.compile(r"(\s*)::")

_PLAIN = bytes(range(0x20, 0x7F))


def printable(text: str, most: int | None = None) -> str:
    """``text`` as one line without control, format or bidirectional characters, lone surrogates and CI commands.

    With ``most``, at most that many characters: the middle is left out.
    """
    is_plain = text.isascii() and not text.encode().translate(None, _PLAIN)  # ten times as fast as isprintable
    if not is_plain and not text.isprintable():  # Cc, Cf, Cs, Co, Cn, Zl, Zp and blanks other than the space
        text = "".join(sign if sign.isprintable() else REPLACEMENT for sign in text)
    if "##" in text:
        text = _HASH_COMMAND.sub("#" + REPLACEMENT, text)
    if "::" in text and (command := _COLON_COMMAND.match(text)):
        text = f"{command[1]}{REPLACEMENT}:{text[command.end() :]}"
    return text if most is None else clip(text, most)


def clip(text: str, most: int) -> str:
    """``text`` in at most ``most`` characters: head and tail with ``…`` between."""
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"
