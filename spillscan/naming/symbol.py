"""Canonical symbols: mangled names without the parts that differ between checkouts, toolkits or lists of archs.

A replacement keeps its position, so the mangling's substitutions (``S1_``) still refer to the right parts, and its
length prefix is rewritten. A valid mangled name stays valid and demangles to the same text except for the replaced
words.

The lexical grammar covers mangled names (Itanium C++ ABI, 5.1) as far as needed to find names within names. A
``<source-name>`` is a length and then that many characters. No grammar of bounded size expresses that, so its
expression is generated with one branch per length. The other productions with digits are listed below. Brackets end at
an ``E``; the caller that walks the tokens counts them. Any other character is literal.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

# A mangled name with none of these in it is its own canonical form.
_TRIGGERS = ("Ul", "Ut", "_GLOBAL__N_", "_INTERNAL_", "CUB_", "THRUST_", "_V_", "__nv_dl_tag")
_NUMBERED = re.compile(r"L[1-9]|__\d")

# nvcc, relocatable code: __nv_static_29__e2ba9193_8_names_cu_16820cae__Z13static_kernelPi. The number is the length of
# the module id that follows (measured, nvcc 11.8 to 13.5).
_STATIC = re.compile(r"__nv_static_(\d{1,4})_")
# clang -fgpu-rdc: the compilation unit's id at the end.
_UNIT = re.compile(r"(?:__static__|__intern__|\.static\.|\.intern\.)[0-9a-f]+")
# The module id within names: <hash>_<length>_<file>_<hash>; before nvcc 11 there was no hash before the length.
_MODULE = re.compile(r"(?:_GLOBAL__N_|_INTERNAL|__nv_static_\d{1,4}_)_(?:[0-9a-f]{8}_)?(\d{1,3})_")
# Before nvcc 11 the file name was temporary: tmpxft_00003916_00000000_9_add_weighted_compute_61_cpp1_ii.
_TEMPORARY = re.compile(r"^tmpxft_[0-9a-f]+_[0-9a-f]+(?:_\d+)?_|(?:_compute_\d+\w?)?_cpp\d_ii$")
# numba numbers the functions that a process compiles, and puts the number into each name: ...3addB2v1B96cw51cX...
_COUNTED = re.compile(r"(?<=[A-Za-z_\d])B\d{1,2}v\d{1,9}(?=B\d)")
_NUMBER = re.compile(r"\d*_")
_VALUE = re.compile(r"n?\d+(?=E)")
_LAMBDA = re.compile(r"Lj\d+E\Z")
_RELEASE, _VERSION = r"(?:CUB|THRUST|_V)_\d+(?:_SM)?(?:_[\dA-Z]+)+", r"__\d+"

# For demangled names, SASS's helpers and temporary names. Search only if the name contains one of the markers.
_WORDS = (
    (
        ("_GLOBAL__N_", "<unnamed>", "{anonymous}"),
        re.compile(r"\b_GLOBAL__N_\w+(?=::)|<unnamed>(?=::)|\{anonymous\}(?=::)"),
        "(anonymous namespace)",
    ),
    (("_INTERNAL_",), re.compile(r"\b_INTERNAL_\w+(?=::)"), "_INTERNAL_"),
    (("::CUB_", "::THRUST_", "::_V_"), re.compile(rf"(?<=::){_RELEASE}(?=::)"), "_V_"),
    (("::__",), re.compile(rf"(?<=::){_VERSION}(?=::)"), "__1"),
    (("#", "'lambda", "'unnamed"), re.compile(r"(?<=[)}e])#\d+(?=\})|(?<='lambda)\d+(?=')|(?<='unnamed)\d+(?=')"), ""),
    (("tmpxft_",), re.compile(r"\btmpxft_[0-9a-f]+_[0-9a-f]+(?:[-_]\d+)?_"), "tmpxft_"),
    (("__internal_",), re.compile(r"^__internal_\d+_$"), "__internal_"),
)


def digest(text: str, size: int) -> str:
    """BLAKE2s digest of ``text``: ``size`` bytes, as hexadecimal digits."""
    digits: str = _blake2s()(text.encode("utf-8", "replace"), digest_size=size).hexdigest()
    return digits


@cache
def _blake2s() -> Callable[..., Any]:
    try:
        from _blake2 import blake2s  # as hashlib uses; hashlib also loads OpenSSL, slower than reading a small log
    except ImportError:
        from hashlib import blake2s
    return blake2s


@lru_cache(maxsize=1 << 15)
def canonical(symbol: str) -> str:
    """``symbol`` without its volatile parts.

    Removes hashes of paths and contents, lambda numbers, releases, lists of archs, temporary names, and the counters of
    numba. Idempotent; defined for any string. Two kernels of one build may share a canonical symbol: two lambdas of one
    function differ only by their number.
    """
    if "$" not in symbol:
        return _part(symbol)
    parts = symbol.split("$")  # $caller$callee of SASS
    known = {part: _part(part) for part in set(parts)}  # hostile names have thousands of empty parts
    return "$".join(map(known.__getitem__, parts))


@lru_cache(maxsize=8192)
def source_file(symbol: str) -> str:
    """Source file named in ``symbol``, as nvcc spells it (``names_cu``); empty if none."""
    match = _MODULE.search(symbol)
    file = symbol[match.end() : match.end() + int(match[1])] if match else ""
    return _TEMPORARY.sub("", file)


def in_file(symbol: str, file: str) -> str:
    """Name of ``symbol``, a canonical one, whose :func:`source_file` is ``file``: as nvcc names a static kernel."""
    module = f"_{len(file)}_{file}_"
    return f"__nv_static_{len(module)}_{module}_{symbol}" if file else symbol


def _part(symbol: str) -> str:
    while (static := _STATIC.match(symbol)) and symbol[static.end() + int(static[1]) :].startswith("_"):
        symbol = symbol[static.end() + int(static[1]) + 1 :]
    if "__" in symbol or "." in symbol:
        end = len(symbol)
        for unit in reversed(list(_UNIT.finditer(symbol))):
            if unit.end() < end:
                break
            end = unit.start()
        symbol = symbol[:end]
    if symbol.startswith("_Z"):
        if symbol.startswith("_ZN6cudapy"):
            symbol = _COUNTED.sub("", symbol)
        for trigger in _TRIGGERS:
            if trigger in symbol:
                return _mangled(symbol)
        return _mangled(symbol) if _NUMBERED.search(symbol) else symbol
    for signs, word, plain in _WORDS:
        if any(sign in symbol for sign in signs):
            symbol = word.sub(plain, symbol)
    return symbol


def _mangled(symbol: str) -> str:
    """Canonical form of a mangled name: one pass over its tokens, with a stack of open brackets."""
    out, opened, at = ["_Z"], [""], 2
    step, end = token().match, len(symbol)
    while at < end:
        match = step(symbol, at)
        assert match is not None  # the expression matches anywhere
        out.append(match["kept"])
        at, kind = match.end(), match.lastgroup
        if kind == "open":
            mark = match["open"]
            if mark == LITERAL and symbol[at : at + 1].isdigit():
                if opened[-1] in ("", "N", "Z"):
                    continue  # clang and gcc mark internal linkage, nvcc does not: _ZL3fooi
                at = _literal(symbol, at, out)
            else:
                out.append(mark)
            opened.append(mark)
        elif kind == "close":
            mark = opened.pop() if len(opened) > 1 else ""
            if mark == TAG:
                out[-1] = _LAMBDA.sub("Lj0E", out[-1])
            out.append("E")
            if mark == CLOSURE and (number := _NUMBER.match(symbol, at)):
                out.append("_")
                at = number.end()
            elif opened[-1] == LITERAL and (value := _VALUE.match(symbol, at)):
                out.append(value[0])
                at = value.end()
        elif kind == "name":
            out.append(_replaced(match["name"]))
        elif kind == "unnamed":
            out.append("Ut_")
        else:
            out.append(symbol[match.end("kept") : at])
    return "".join(out)


def _literal(symbol: str, at: int, out: list[str]) -> int:
    """Append ``L3Foo5``, an enumerator whose type begins at ``at``, to ``out``; returns its end."""
    name = source_name_at(symbol, at)
    end = at + len(name)
    value = _VALUE.match(symbol, end)
    out += [LITERAL, name, value[0] if value else ""]
    return value.end() if value else end


def _replaced(name: str) -> str:
    """Stable replacement of a volatile source name; other names unchanged."""
    identifier = name.lstrip("0123456789")
    if identifier.startswith("_GLOBAL__N_"):
        return "12_GLOBAL__N_1"  # clang's and gcc's name of an unnamed namespace
    if identifier.startswith("_INTERNAL_"):
        return "10_INTERNAL_"
    if re.fullmatch(_VERSION, identifier):
        return "3__1"
    return "3_V_" if re.fullmatch(_RELEASE, identifier) else name


VOLATILE = r"(?:_GLOBAL__N_|_INTERNAL_|(?:CUB|THRUST|_V)_\d|__\d)"
"""Beginnings of identifiers that contain a path, a hash, a release or a list of archs."""

CLOSURE, LITERAL, TAG = "Ul", "L", "11__nv_dl_tagI"
"""Openings of constructs that end with a number: a lambda's type, ``LN2ns4KindE3E``, the tag of an extended lambda."""

_LONGEST = 299
"""Maximum length of an identifier that is parsed; nvcc's contain a file name, which has at most 255 characters."""

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
    """Regular expression that matches exactly one ``<source-name>``: ``3foo``, ``12_GLOBAL__N_1``."""
    return _lengths("")


def source_name_at(text: str, at: int) -> str:
    """The source name that begins at ``at``; empty if there is none."""
    match = _source_name().match(text, at)
    return match[0] if match else ""


@cache
def _source_name() -> re.Pattern[str]:
    return re.compile(source_name(), re.DOTALL)


@cache
def token() -> re.Pattern[str]:
    """Regular expression of one step through a mangled name: a stable part (``kept``, greedy), then one item or the
    end.

    Groups: ``name``, a source name whose identifier is :data:`VOLATILE`; ``unnamed``, a whole ``Ut3_``; ``open`` and
    ``close``, brackets unless ``kept`` contains the pair. Any other character is skipped.
    """
    kept = rf"(?>(?:{_stable()}|{_FIXED}|{_enumerator()}|(?!L)(?:{_PLAIN})|{_pair()})*)"
    opening = rf"(?P<open>Ul|{TAG}|{_OPENING}|L)"
    changing = rf"(?P<name>(?=\d{{1,3}}{VOLATILE}){source_name()})|(?P<unnamed>Ut\d*_)"
    return re.compile(rf"(?P<kept>{kept})(?:{changing}|{opening}|(?P<close>E)|.|\Z)", re.DOTALL)


def _stable() -> str:
    return rf"(?!\d{{1,3}}(?:{VOLATILE}|__nv_dl_tagI)){source_name()}"


def _leaf() -> str:
    return rf"{_stable()}|{_FIXED}|(?!L)(?:{_PLAIN})"


def _pair() -> str:
    return rf"(?>{_OPENING}(?>(?:{_leaf()})*)E)"


def _enumerator() -> str:
    return rf"L(?>N(?>(?:{_leaf()})*)E|S[0-9A-Z]*_)n?\d+E"


def _lengths(digits: str) -> str:
    """Alternatives for source names whose length begins with ``digits``; longer numbers first, so ``12x`` is never
    ``1``."""
    more = [_lengths(digits + d) for d in "0123456789"[not digits :] if int(digits + d) <= _LONGEST]
    if not digits:
        return f"(?:{'|'.join(more)})"
    more.append(rf"(?!\d).{{{digits}}}")
    return f"{digits[-1]}(?:{'|'.join(more)})"
