"""A symbol without what differs between two checkouts, toolkits or lists of archs.

What is replaced keeps its place, so the substitutions of the mangling (``S1_``) still count right, and its length is
written anew: a valid mangled name stays one, and demangles to the same text but for the replaced words.
"""

from __future__ import annotations

import re
from functools import lru_cache

from spillscan.identity import mangling

# Without one of these in it a mangled name is its own canonical form.
_TRIGGERS = ("__", "Ul", "Ut", "_INTERNAL_", "CUB_", "THRUST_", "_V_")
_LINKAGE = re.compile(r"L[1-9]")

# nvcc, relocatable code: __nv_static_29__e2ba9193_8_names_cu_16820cae__Z13static_kernelPi. The number counts the
# module's id behind it (measured, nvcc 11.8 to 13.5).
_STATIC = re.compile(r"__nv_static_(\d{1,4})_")
# clang -fgpu-rdc: the compilation unit's id at the end.
_UNIT_SUFFIX = re.compile(r"(?:(?:__static__|__intern__|\.static\.|\.intern\.)[0-9a-f]+)+$")
# The module's id inside of names: <hash>_<length>_<file>_<hash>; before nvcc 11 the hash stood only behind the file.
_MODULE = re.compile(r"(?:_GLOBAL__N_|_INTERNAL|__nv_static_\d{1,4}_)_(?:[0-9a-f]{8}_)?(\d{1,3})_")
# Before nvcc 11 the file was a temporary one: tmpxft_00003916_00000000_9_add_weighted_compute_61_cpp1_ii.
_TEMPORARY = re.compile(r"^tmpxft_[0-9a-f]+_[0-9a-f]+(?:_\d+)?_|(?:_compute_\d+\w?)?_cpp\d_ii$")
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
    (
        ("#", "'lambda", "'unnamed"),
        re.compile(r"(?<=[)}e])#\d+(?=\})|(?<='lambda)\d+(?=')|(?<='unnamed)\d+(?=')"),
        "",
    ),
    (("tmpxft_",), re.compile(r"\btmpxft_[0-9a-f]+_[0-9a-f]+(?:[-_]\d+)?_"), "tmpxft_"),
    (("__internal_",), re.compile(r"^__internal_\d+_$"), "__internal_"),
)


@lru_cache(maxsize=8192)
def canonical(symbol: str) -> str:
    """``symbol`` without hashes of paths and contents, lambda numbers, releases, lists of archs and temporary names.

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
    """The source file that ``symbol`` tells, as nvcc spells it (``names_cu``); empty where it tells none."""
    found = _MODULE.search(symbol)
    file = symbol[found.end() : found.end() + int(found[1])] if found else ""
    return _TEMPORARY.sub("", file)


def _part(symbol: str) -> str:
    while (static := _STATIC.match(symbol)) and symbol[static.end() + int(static[1]) :].startswith("_"):
        symbol = symbol[static.end() + int(static[1]) + 1 :]
    if "__" in symbol or "." in symbol:
        symbol = _UNIT_SUFFIX.sub("", symbol)
    if symbol.startswith("_Z"):
        if _LINKAGE.search(symbol) or any(trigger in symbol for trigger in _TRIGGERS):
            return _quick(symbol) or _mangled(symbol)
        return symbol
    for signs, word, plain in _WORDS:
        if any(sign in symbol for sign in signs):
            symbol = word.sub(plain, symbol)
    return symbol


def _quick(symbol: str) -> str | None:
    """What :func:`_mangled` gives, where it takes no counting of brackets; else ``None``."""
    out, at, end = ["_Z"], 2, len(symbol)
    step = mangling.quick_token().match
    while at < end:
        found = step(symbol, at)
        assert found is not None  # the expression matches anywhere
        out.append(found["kept"])
        at, kind = found.end(), found.lastgroup
        if kind == "name":
            out.append(_replaced(found["name"]))
        elif kind == "closure":
            out.append(f"Ul{found['parameters']}_")
        elif kind == "unnamed":
            out.append("Ut_")
        elif kind == "hard":
            return None
    return "".join(out)


def _mangled(symbol: str) -> str:
    """One walk over the tokens, with a stack of what is open."""
    out, opened, at = ["_Z"], [""], 2
    step, end = mangling.token().match, len(symbol)
    while at < end:
        found = step(symbol, at)
        assert found is not None  # the expression matches anywhere
        out.append(found["kept"])
        at, kind = found.end(), found.lastgroup
        if kind == "open":
            mark = found["open"]
            if mark == mangling.LITERAL and symbol[at : at + 1].isdigit():
                if opened[-1] in ("", "N", "Z"):
                    continue  # clang and gcc mark internal linkage, nvcc does not: _ZL3fooi
                at = _literal(symbol, at, out)
            else:
                out.append(mark)
            opened.append(mark)
        elif kind == "close":
            mark = opened.pop() if len(opened) > 1 else ""
            if mark == mangling.TAG:
                out[-1] = _LAMBDA.sub("Lj0E", out[-1])
            out.append("E")
            if mark == mangling.CLOSURE and (number := _NUMBER.match(symbol, at)):
                out.append("_")
                at = number.end()
            elif opened[-1] == mangling.LITERAL and (value := _VALUE.match(symbol, at)):
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
    name = mangling.source_name_at(symbol, at)
    end = at + len(name)
    value = _VALUE.match(symbol, end)
    out += [mangling.LITERAL, name, value[0] if value else ""]
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
