"""A symbol without what differs between two checkouts, toolkits or lists of archs.

What is replaced keeps its place, so the substitutions of the mangling (``S1_``) still count right, and its length is
written anew: a valid mangled name stays one, and demangles to the same text but for the replaced words.

The lexical grammar is that of mangled names (Itanium C++ ABI, 5.1), as far as it takes to find names inside of names. A
``<source-name>`` is its length and then that many characters. No grammar of bounded size says that, so its expression
is generated, one branch a length. The other productions that bear digits are stated below; what opens ends at an ``E``,
and whoever walks over the tokens counts them; any other character stands for itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

# Without one of these in it a mangled name is its own canonical form.
_TRIGGERS = ("Ul", "Ut", "_GLOBAL__N_", "_INTERNAL_", "CUB_", "THRUST_", "_V_", "__nv_dl_tag")
_NUMBERED = re.compile(r"L[1-9]|__\d")

# nvcc, relocatable code: __nv_static_29__e2ba9193_8_names_cu_16820cae__Z13static_kernelPi. The number counts the
# module's id behind it (measured, nvcc 11.8 to 13.5).
_STATIC = re.compile(r"__nv_static_(\d{1,4})_")
# clang -fgpu-rdc: the compilation unit's id at the end.
_UNIT = re.compile(r"(?:__static__|__intern__|\.static\.|\.intern\.)[0-9a-f]+")
# The module's id inside of names: <hash>_<length>_<file>_<hash>; before nvcc 11 the hash stood only behind the file.
_MODULE = re.compile(r"(?:_GLOBAL__N_|_INTERNAL|__nv_static_\d{1,4}_)_(?:[0-9a-f]{8}_)?(\d{1,3})_")
# Before nvcc 11 the file was a temporary one: tmpxft_00003916_00000000_9_add_weighted_compute_61_cpp1_ii.
_TEMPORARY = re.compile(r"^tmpxft_[0-9a-f]+_[0-9a-f]+(?:_\d+)?_|(?:_compute_\d+\w?)?_cpp\d_ii$")
# numba counts the functions that a process compiles, and writes the number beside each: ...3addB2v1B96cw51cX...
_COUNTED = re.compile(r"(?<=[A-Za-z_\d])B\d{1,2}v\d{1,9}(?=B\d)")
_NUMBER = re.compile(r"\d*_")
_VALUE = re.compile(r"n?\d+(?=E)")
_LAMBDA = re.compile(r"Lj\d+E\Z")
_RELEASE, _VERSION = r"(?:CUB|THRUST|_V)_\d+(?:_SM)?(?:_[\dA-Z]+)+", r"__\d+"

# Names that were piped through a demangler, SASS's helpers, temporary names: only what holds a sign is searched.
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
    """So many bytes of a text's BLAKE2s, as hexadecimal digits."""
    found: str = _blake2s()(text.encode("utf-8", "replace"), digest_size=size).hexdigest()
    return found


@cache
def _blake2s() -> Callable[..., Any]:
    try:
        from _blake2 import blake2s  # hashlib's own; hashlib loads OpenSSL, too, which takes longer than a small log
    except ImportError:
        from hashlib import blake2s
    return blake2s


@lru_cache(maxsize=1 << 15)
def canonical(symbol: str) -> str:
    """``symbol`` without hashes of paths and contents, lambda numbers, releases, lists of archs, temporary names, and
    the numbers that numba counts its functions by.

    Idempotent; defined for any string. Two kernels of one build may share it: the second lambda of a function differs
    from the first by its number only.
    """
    if "$" not in symbol:
        return _part(symbol)
    parts = symbol.split("$")  # $caller$callee of SASS
    known = {part: _part(part) for part in set(parts)}  # a hostile name has thousands of empty ones
    return "$".join(map(known.__getitem__, parts))


@lru_cache(maxsize=8192)
def source_file(symbol: str) -> str:
    """The source file that ``symbol`` names, as nvcc spells it (``names_cu``); empty where it names none."""
    found = _MODULE.search(symbol)
    file = symbol[found.end() : found.end() + int(found[1])] if found else ""
    return _TEMPORARY.sub("", file)


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
    """One walk over the tokens, with a stack of what is open."""
    out, opened, at = ["_Z"], [""], 2
    step, end = token().match, len(symbol)
    while at < end:
        found = step(symbol, at)
        assert found is not None  # the expression matches anywhere
        out.append(found["kept"])
        at, kind = found.end(), found.lastgroup
        if kind == "open":
            mark = found["open"]
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
            out.append(_replaced(found["name"]))
        elif kind == "unnamed":
            out.append("Ut_")
        else:
            out.append(symbol[found.end("kept") : at])
    return "".join(out)


def _literal(symbol: str, at: int, out: list[str]) -> int:
    """Writes ``L3Foo5`` of an enumerator whose type begins ``at``; returns where it ends."""
    name = source_name_at(symbol, at)
    end = at + len(name)
    value = _VALUE.match(symbol, end)
    out += [LITERAL, name, value[0] if value else ""]
    return value.end() if value else end


def _replaced(name: str) -> str:
    """The source name that stands for a volatile one."""
    identifier = name.lstrip("0123456789")
    if identifier.startswith("_GLOBAL__N_"):
        return "12_GLOBAL__N_1"  # what clang and gcc call an unnamed namespace
    if identifier.startswith("_INTERNAL_"):
        return "10_INTERNAL_"
    if re.fullmatch(_VERSION, identifier):
        return "3__1"
    return "3_V_" if re.fullmatch(_RELEASE, identifier) else name


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
    """The source names whose length begins with ``digits``: the longer number first, so that ``12x`` is never ``1``."""
    more = [_lengths(digits + d) for d in "0123456789"[not digits :] if int(digits + d) <= _LONGEST]
    if not digits:
        return f"(?:{'|'.join(more)})"
    more.append(rf"(?!\d).{{{digits}}}")
    return f"{digits[-1]}(?:{'|'.join(more)})"
