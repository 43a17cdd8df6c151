"""What kernels are called: demangled, short, and short but telling instantiations apart.

The key of a kernel is always the symbol as the tool printed it; everything here is for reading.
"""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2s

# nvcc puts the translation unit before the name of a static kernel in relocatable code:
# __nv_static_33__e2ba9193_11_14_names_cu_16820cae__Z13static_kernelPi (measured with nvcc 11.8 to 13.0).
_STATIC_PREFIX = re.compile(r"__nv_static_\d+__\w+?_(?=_Z)")
# An unnamed namespace: _GLOBAL__N__<hash of the path>_<length>_<file>_<hash>.
_ANONYMOUS = re.compile(r"_GLOBAL__N__[0-9a-f]{8}_\d+_\w+?_[0-9a-f]{8}(?=::|\b)")
_PLAIN = re.compile(r"_ZL?(\d+)")
_TOKEN = re.compile(r"[<>(){}\[\]]|::| ")

_OPEN, _CLOSE = "<({[", ">)}]"


@lru_cache(maxsize=8192)
def demangle(symbol: str) -> str:
    """The full C++ name of ``symbol``; ``symbol`` itself where it is not mangled or cannot be demangled."""
    mangled = _without_unit(symbol)
    if not mangled.startswith("_Z"):
        return symbol
    import pydemumble  # LLVM's demangler: no limit on the length of a name

    return _ANONYMOUS.sub("(anonymous namespace)", pydemumble.demangle(mangled)) or symbol


@lru_cache(maxsize=8192)
def short_name(symbol: str) -> str:
    """The base name: without namespaces, template arguments and parameters."""
    mangled = _without_unit(symbol)
    plain = _PLAIN.match(mangled)
    if plain:  # not nested: the mangling begins with it
        return mangled[plain.end() : plain.end() + int(plain[1])]
    name = demangle(symbol)
    return _plain_base(name) or _base_and_arguments(name)[0]


@lru_cache(maxsize=8192)
def display_name(symbol: str, width: int = 28) -> str:
    """The base name and its template arguments; arguments longer than ``width`` become a digest of four digits.

    Two instantiations of one template stay apart in a table, however long their names are.
    """
    base, arguments = _base_and_arguments(demangle(symbol))
    if len(arguments) <= width:
        return base + arguments
    return f"{base}<…{blake2s(arguments.encode(), digest_size=2).hexdigest()}>"


def spellings(symbol: str) -> tuple[str, ...]:
    """All that a person may call a kernel, each once: the symbol, the full name, that without return type and
    parameters (``flash::fwd<128>``), that without namespaces, as tables show it (``fwd<128>``), and the base name.
    """
    name = demangle.__wrapped__(symbol)  # not remembered: names can be very long, and who asks for all has very many
    if name == symbol and "(" not in name:
        return (symbol,)
    qualified = _qualified(name)
    before = qualified.find("<")
    if before < 0:
        local = qualified.rpartition("::")[2]
    elif qualified.endswith(">") and ">::" not in qualified:
        local = qualified[:before].rpartition("::")[2] + qualified[before:]
    else:
        local = "".join(_base_and_arguments(name))
    return tuple(dict.fromkeys((symbol, name, qualified, local, _plain_base(name) or _base_and_arguments(name)[0])))


def _qualified(name: str) -> str:
    """``void ns::f<int, 4>(int*)`` -> ``ns::f<int, 4>``; only templates are demangled with their return type."""
    plain = name.removeprefix("void ")
    end = plain.find("(")
    unnamed = plain.startswith("(anonymous namespace)", end)
    if end > 0 and not unnamed and plain.count("<", 0, end) == plain.count(">", 0, end):
        return plain[:end]
    depth = 0
    for token in _TOKEN.finditer(plain):
        mark = token[0]
        if depth == 0 and mark == "(" and not plain.startswith("(anonymous namespace)", token.start()):
            return plain[: token.start()]
        if mark in _OPEN:
            depth += 1
        elif mark in _CLOSE:
            depth = max(0, depth - 1)
    return plain


def _without_unit(symbol: str) -> str:
    return _STATIC_PREFIX.sub("", symbol, count=1) if symbol.startswith("__nv_static_") else symbol


def _plain_base(name: str) -> str | None:
    """The base name where it takes no look at brackets: nothing but one list of template arguments behind it."""
    if ">::" in name or "> " in name or "decltype" in name or name.startswith("("):
        return None
    ends = [end for end in (name.find("<"), name.find("(")) if end >= 0]
    base = name[: min(ends)].rpartition("::")[2].rpartition(" ")[2] if ends else ""
    return base if base.isidentifier() else None


def _base_and_arguments(name: str) -> tuple[str, str]:
    """``void ns::f<int, 4>(int*)`` -> ``("f", "<int, 4>")``."""
    depth = 0
    start = 0  # of the last component of the qualified name
    arguments: tuple[int, int] | None = None  # of the template arguments behind it
    end = len(name)
    for token in _TOKEN.finditer(name):
        mark = token[0]
        if mark in _OPEN:
            if depth == 0 and mark == "(" and not name.startswith("(anonymous namespace)", token.start()):
                end = token.start()
                break
            if depth == 0 and mark == "<":
                arguments = (token.start(), token.start())
            depth += 1
        elif mark in _CLOSE:
            depth = max(0, depth - 1)
            if depth == 0 and mark == ">" and arguments:
                arguments = (arguments[0], token.end())
        elif depth == 0:
            start, arguments = token.end(), None
    if arguments:
        return name[start : arguments[0]] or name, name[arguments[0] : arguments[1]]
    return name[start:end] or name, ""
