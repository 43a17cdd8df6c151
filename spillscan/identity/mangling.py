"""The lexical grammar of mangled names (Itanium C++ ABI, 5.1), as far as it takes to find names inside of names.

A ``<source-name>`` is its length and then that many characters. No grammar of bounded size says that, so its expression
is generated, one branch a length. The other productions that bear digits are stated below; what opens ends at an ``E``,
and whoever walks over the tokens counts them; any other character stands for itself.
"""

from __future__ import annotations

import re
from functools import cache

VOLATILE = r"(?:_GLOBAL__N_|_INTERNAL_|(?:CUB|THRUST|_V)_\d|__\d)"
"""How identifiers begin that hold a path, a hash, a release or a list of archs."""

CLOSURE, LITERAL, TAG = "Ul", "L", "11__nv_dl_tagI"
"""What opens and ends with a number: a lambda's type, ``LN2ns4KindE3E``, the tag of an extended lambda."""

_LONGEST = 299
"""The longest identifier that is understood; nvcc's hold the name of a file, and those end at 255 characters."""

_OPENING = r"(?:L_Z|[NIJXFZ]|D[tTO])"
_PLAIN = r"(?!L_Z|D[tTO])[^EUNIJXFZ\d]|U(?![lt])"
_FIXED = "|".join(
    (
        r"S(?:[0-9A-Z]*_|[tabsiod])",  # <substitution>
        r"TL?\d*_(?:\d*_)?",  # <template-param>
        r"fL?\d*p[rVK]*\d*_",  # <function-param>
        r"A\d+_|D[vVFB]\d+_?",  # sizes of arrays, vectors and numbers
        r"L(?:[a-z]|D[a-zA-Z])n?[0-9a-f]*E",  # literals of built-in types
        r"__\d+_|_\d",  # <discriminator>
    )
)


@cache
def source_name() -> str:
    """An expression of exactly one ``<source-name>``: ``3foo``, ``12_GLOBAL__N_1``."""
    return _lengths("")


def source_name_at(text: str, at: int) -> str:
    """The source name that begins ``at``; empty where none does."""
    found = _source_name().match(text, at)
    return found[0] if found else ""


@cache
def _source_name() -> re.Pattern[str]:
    return re.compile(source_name(), re.DOTALL)


@cache
def token() -> re.Pattern[str]:
    """One step through a mangled name: what stays as it is (``kept``, greedy), then one item, or nothing at the end.

    ``name`` is a source name whose identifier is :data:`VOLATILE`, ``unnamed`` a whole ``Ut3_``; ``open`` and ``close``
    are the brackets, as far as they are not met and kept as a pair; anything else is passed over by one character.
    """
    kept = rf"(?>{_stable()}|{_FIXED}|{_enumerator()}|(?!L)(?:{_PLAIN})|{_pair()})*+"
    opening = rf"(?P<open>Ul|{TAG}|{_OPENING}|L)"
    return re.compile(rf"(?P<kept>{kept})(?:{_changing()}|{opening}|(?P<close>E)|.|\Z)", re.DOTALL)


@cache
def quick_token() -> re.Pattern[str]:
    """As :func:`token`, without brackets: a lambda whose parameters nest nothing is one ``closure``.

    Where brackets must be counted, ``hard`` is what comes next.
    """
    kept = rf"(?>[^\dADLSTU_f]++|{_stable()}|{_FIXED}|{_enumerator()}|L_Z|(?!L)[^\dU]|U(?![lt]))*+"
    closure = rf"Ul(?P<parameters>(?:{_leaf()}|{_pair()})*+E)\d*_"
    return re.compile(rf"(?P<kept>{kept})(?:{_changing()}|(?P<closure>{closure})|\Z|(?P<hard>.))", re.DOTALL)


def _stable() -> str:
    return rf"(?!\d{{1,3}}(?:{VOLATILE}|__nv_dl_tagI)){source_name()}"


def _leaf() -> str:
    return rf"{_stable()}|{_FIXED}|(?!L)(?:{_PLAIN})"


def _pair() -> str:
    return rf"(?>{_OPENING}(?:{_leaf()})*+E)"


def _enumerator() -> str:
    return rf"L(?>N(?:{_leaf()})*+E|S[0-9A-Z]*_)n?\d+E"


def _changing() -> str:
    return rf"(?P<name>(?=\d{{1,3}}{VOLATILE}){source_name()})|(?P<unnamed>Ut\d*_)"


def _lengths(digits: str) -> str:
    """The source names whose length begins with ``digits``: the longer number first, so that ``12x`` is never ``1``."""
    more = [_lengths(digits + d) for d in "0123456789"[not digits :] if int(digits + d) <= _LONGEST]
    if not digits:
        return f"(?:{'|'.join(more)})"
    more.append(rf"(?!\d).{{{digits}}}")
    return f"{digits[-1]}(?:{'|'.join(more)})"
