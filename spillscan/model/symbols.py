"""Names of kernels and architectures by themselves: demangled, split into parts, short; and their order.

The key of a kernel is always the symbol as the tool printed it; everything here is for display.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

UNNAMED = "(anonymous namespace)"
"""Name that LLVM's demangler gives an unnamed namespace."""

_BRACKET, _OPENED_BY = re.compile(r"[<>(){}]"), {">": "<", ")": "(", "}": "{"}
_OPENING, _COMMA, _MARK = re.compile(r"[<({]"), re.compile(r"[<({,]"), re.compile(r"[<({ ]|::")


class Demangled:
    """A demangled name, or a type in one, parsed once. An unclosed bracket extends to the end of the name.

    One pass pairs the brackets; after that, a bracket's contents are skipped at once. Every query takes time linear in
    the length of the name, however deep its brackets are nested.
    """

    __slots__ = ("closing", "depth", "paired", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        """The whole name."""
        self.closing: dict[int, int] = {}
        """Offset of each closing bracket, by the offset of its opening one."""
        self.paired = True
        """Whether each bracket is closed, by one of its own kind."""
        self.depth = 0
        """Maximum nesting depth of brackets."""
        opened: list[int] = []
        for found in _BRACKET.finditer(text):
            at = found.start()
            sign = text[at]
            if sign in "<({":
                opened.append(at)
                self.depth = max(self.depth, len(opened))
            elif opened:
                start = opened.pop()
                self.closing[start] = at
                if text[start] != _OPENED_BY[sign]:
                    self.paired = False
            else:
                self.paired = False
        if opened:
            self.paired = False
            self.closing.update(dict.fromkeys(opened, len(text)))

    def outer(self, marks: re.Pattern[str], start: int, end: int) -> Iterator[tuple[str, int, int]]:
        """Matches of ``marks`` from ``start`` to ``end`` outside brackets.
        Each is the sign, its offset, and the offset of what follows. After an opening bracket, this is the offset after
        the closing one.
        """
        closing = self.closing
        while found := marks.search(self.text, start, end):
            at, start = found.span()
            if at in closing:
                start = closing[at] + 1
            yield found[0], at, start

    def brackets(self, start: int, end: int) -> Iterator[tuple[str, int, int]]:
        """Brackets from ``start`` to ``end`` that are in no other bracket, as given by :meth:`outer`."""
        return self.outer(_OPENING, start, end)

    def items(self, opening: int) -> list[tuple[int, int]]:
        """(start, end) of each item between the commas of the bracket at ``opening``."""
        end = self.closing[opening]
        edges = [opening, *(at for sign, at, _ in self.outer(_COMMA, opening + 1, end) if sign == ","), end]
        return [(a + 1, b) for a, b in pairwise(edges)] if end > opening + 1 else []


class Function(Demangled):
    """Demangled name of a function, split into its parts."""

    __slots__ = ("angle", "end", "scopes", "start")

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.scopes: list[str] = []
        """Namespaces and classes, outermost first, with their template arguments."""
        self.start = 0
        """Offset of the base name."""
        self.angle: int | None = None
        """Offset of the template arguments' opening bracket; ``None`` without arguments."""
        self.end: int | None = None
        """Offset of the parameters' opening bracket; ``None`` without parameters."""
        for sign, at, behind in self.outer(_MARK, 0, len(text)):
            if sign == "(" and at > self.start and not text.startswith(UNNAMED, at):
                self.end = at
                return
            if sign == "<":
                self.angle = at
            elif sign == "::":
                self.scopes.append(text[self.start : at])
                self.start, self.angle = behind, None
            elif sign == " ":  # so far it was the return type of a template
                self.scopes, self.start, self.angle = [], behind, None

    @property
    def base(self) -> str:
        """Own name without scopes, arguments and parameters; the whole name if it has no parts."""
        return self.text[self.start : self.end if self.angle is None else self.angle] or self.text

    @property
    def local(self) -> str:
        """``f<int, 4>`` of ``void ns::f<int, 4>(int*)``."""
        return self.base + ("" if self.angle is None else self.text[self.angle : self.closing[self.angle] + 1])

    @property
    def qualified(self) -> str:
        """``ns::f<int, 4>`` of ``void ns::f<int, 4>(int*)``; only templates are demangled with their return type."""
        return self.text[: self.end].removeprefix("void ")

    @property
    def arguments(self) -> tuple[str, ...]:
        """Its template arguments."""
        return self._texts(self.angle)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The types of its parameters."""
        return self._texts(self.end)

    def _texts(self, opening: int | None) -> tuple[str, ...]:
        return () if opening is None else tuple([self.text[a:b].strip() for a, b in self.items(opening)])


_DEEP = 2_500
"""Length of a mangled name that may nest too deep for the smallest stack: 627 bytes per character, measured."""
_MOST = 1 << 20
"""Most characters of a demangled name: real ones are 40 times as long as the mangled name."""
_MOST_TIMES = 64


def doubtful(mangled: str) -> bool:
    """Whether a name may nest too deep or become too long for LLVM's demangler, which has no limit.

    Each part that is referred to may occur three times in the next one: a third of the references is an exponent.
    """
    if len(mangled) >= _DEEP:
        return True
    if mangled.count("_") < 16:  # less than 3 ** 5.4 times 2,500 characters
        return False
    references = len(_REFERENCE.findall(mangled))
    return len(mangled) * float(3.0 ** min(references / 3, 99)) > _MOST


_REFERENCE = re.compile(r"S[0-9A-Z]*_|T[0-9L]*_")


# In relocatable code, nvcc puts the translation unit before the name of a static kernel:
# __nv_static_33__e2ba9193_11_14_names_cu_16820cae__Z13static_kernelPi (measured with nvcc 11.8 to 13.0).
_STATIC_PREFIX = re.compile(r"__nv_static_\d+__\w+?_(?=_Z)")
# An unnamed namespace: _GLOBAL__N__<hash of the path>_<length>_<file>_<hash>.
_ANONYMOUS = re.compile(r"_GLOBAL__N__[0-9a-f]{8}_\d+_\w+?_[0-9a-f]{8}(?=::|\b)")
_DIGITS = re.compile("[0-9]+")
_TAGS = re.compile(r"\[abi:[^\[\]]*\]")
# TorchInductor: triton_KIND_fused_OPERATIONS_NUMBER; KIND is poi, red, per, tem ...
_INDUCTOR = re.compile(r"triton_([a-z]{1,12})_fused(?:_(\w+))?_(\d{1,9})")
_CUTE = "kernel_cutlass_"
"""Prefix that CuTe DSL puts before a function's name and its parameters (4.8)."""
# cuTile: NAME_KCONVENTION and a constraint for each parameter (compilation/_name_mangling.py of cuda-tile 1.7).
_CUTILE = re.compile(r"(\w+)_K[a-z]+\d+_(?=[A-Z])((?:(?!_K).)+)")
_CONSTRAINT = re.compile(
    r"A(?P<rank>\d{1,2})(?P<array>[a-z][a-z\d]*)(?:_[\da-z_]*)?|S(?P<scalar>[a-z\d]+)|P(?P<pointer>[a-z\d]+)"
    r"|I(?P<int>_?\d+)|B(?P<bool>[01])|F(?P<float>[\da-f]{16})|Cd_(?P<type>[a-z\d]+)|(?P<other>Cn_|M|R)"
)
_OTHERS = {"Cn_": "None", "M": "TensorMap", "R": "Stream"}
_FEATURES = re.compile(r"(?<=\d)[af]\Z")


NO_NAME = "(no name)"
"""Name shown for a kernel that no input names."""


def demangle(symbol: str) -> str:
    """Full C++ name of ``symbol``; ``symbol`` itself if it is not mangled or cannot be demangled."""
    mangled = symbol
    if not symbol.startswith("_Z") and not (mangled := _without_unit(symbol)).startswith("_Z"):
        return symbol
    try:
        name = None if doubtful(mangled) else _demangler()(mangled)
    except ValueError:  # begins like a mangled name, but is none
        return symbol
    if name and len(name) > _MOST_TIMES * len(symbol):
        return symbol
    return (_ANONYMOUS.sub(UNNAMED, name) if name and "_GLOBAL__N" in symbol else name) or symbol


@cache
def _demangler() -> Callable[[str], str | None]:
    import pycxxfilt  # LLVM's: no limit on the length of a name

    return pycxxfilt.itanium_demangle


class Tuned(NamedTuple):
    """Identity of one of several kernels that an autotuner made of one symbol."""

    symbol: str
    """Symbol that they share."""
    words: tuple[str, ...]
    """Autotuning config in words: ``64×64×32``, ``4 warps``."""
    place: str
    """Place in the cache, since several kernels may have the same config."""


_UNITS = {"num_warps": "warp", "num_stages": "stage", "num_ctas": "block"}


def tuned_for(configuration: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Autotuning config in words: ``64×64×32``, ``4 warps``, ``maxnreg 128``."""
    return tuple(_setting(name, value) for name, value in configuration)


def _setting(name: str, value: str) -> str:
    unit = _UNITS.get(name)
    if unit is None:
        return value if name == "tile" else f"{name} {value}"
    return f"{value} {unit}{'' if value == '1' else 's'}" + (" a cluster" if name == "num_ctas" else "")


def readable(symbol: str) -> str:
    """Full name without what compilers of Python code add for themselves: numba's tags, CuTe DSL's prefix.

    cuTile's constraints are shown as template arguments. For TorchInductor, the number comes first, which tells kernels
    apart (``poi0_add_relu``).
    """
    name = demangle(symbol)
    if "[abi:" in name:
        return _without_tags(name)
    if name != symbol:  # a C++ name: those compilers mangle nothing
        return name
    if name.startswith(_CUTE):
        return name[len(_CUTE) :]
    if name.startswith("triton_") and (found := _INDUCTOR.fullmatch(name)):
        kind, operations, number = found.groups()
        return f"{kind}{number}_{operations.lstrip('_')}" if operations else f"{kind}{number}"
    if "_K" in name and (found := _CUTILE.fullmatch(name)):
        constraints = [_CONSTRAINT.fullmatch(each) for each in re.split("_(?=[A-Z])", found[2])]
        if None not in constraints:
            return f"{found[1]}<{', '.join(_constraint(each) for each in constraints if each)}>"
    return name


def _constraint(found: re.Match[str]) -> str:
    """Parameter of a cuTile kernel: an array's element type and rank, or a constant's value."""
    kind = str(found.lastgroup)
    value = found[kind]
    if kind == "array":
        return f"Array<{value}, {found['rank']}>"
    if kind == "float":
        return repr(struct.unpack("<d", int(value, 16).to_bytes(8, "little"))[0])
    if kind == "bool":
        return "true" if value == "1" else "false"
    return {"other": _OTHERS.get(value, value), "pointer": f"{value}*", "int": value.replace("_", "-")}.get(kind, value)


def short_name(symbol: str, name: str = "") -> str:
    """Base name without namespaces, template arguments and parameters.

    ``name``: result of :func:`demangle` for ``symbol``, if known.
    """
    name = _without_tags(name or demangle(symbol))
    plain = _plain(name)
    return plain[1] if plain else Function(name).base


def _plain(name: str) -> tuple[str, str] | None:
    """(scopes, base name) if no brackets must be paired: for most kernels of a log, at a fifth of the cost."""
    if ">::" in name or "> " in name or "decltype" in name:
        return None
    head, angle, _ = name.partition("<")
    before, bracket, _ = head.partition("(")
    scopes, _, base = before.rpartition(" ")[2].rpartition("::")
    return (scopes, base) if (angle or bracket) and base.isidentifier() else None


def spellings(symbol: str) -> tuple[str, ...]:
    """All names that a user may give a kernel, without duplicates.

    These are the symbol, the full name, the name without return type and parameters (``flash::fwd<128>``), that without
    namespaces, as in tables (``fwd<128>``), and the base name.
    """
    name = demangle(symbol)
    if name == symbol and "(" not in name:
        return (symbol,)
    found = Function(_without_tags(name))
    return tuple(dict.fromkeys((symbol, name, found.qualified, found.local, found.base)))


def namespace(name: str) -> str:
    """Scopes of a demangled name without template arguments: ``at::native``."""
    plain = None if "{" in name else _plain(name)
    scopes = plain[0] if plain else "::".join(scope.partition("<")[0] for scope in Function(name).scopes)
    return scopes or "no namespace"


_HELPER = re.compile(r"(?:\$?__internal_\d+_\$)?__cuda_(?:sm_?\d+x?|reduxsync)_")


def is_helper(symbol: str) -> bool:
    """Whether it is helper code that ptxas adds: division, square roots, copies between warps.

    No log mentions it (measured: cubins of ptxas 9.2 to 13.5).
    """
    return _HELPER.match(symbol) is not None


def _without_tags(name: str) -> str:
    return _TAGS.sub("", name) if "[abi:" in name else name


def _without_unit(symbol: str) -> str:
    found = _STATIC_PREFIX.match(symbol)
    return symbol[found.end() :] if found else symbol


@lru_cache(maxsize=256)
def arch_family(arch: str | None) -> str | None:
    """``sm_90`` for ``sm_90a``, ``sm_100`` for ``sm_100f``: the architecture whose features the code may use."""
    return arch and _FEATURES.sub("", arch)


def natural(arch: str | None) -> tuple[bool, list[tuple[int, str]], str]:
    """Sort key in natural order: sm_90 before sm_100, the unknown arch last.

    Numbers stay text, since those in a log may have any size.
    """
    numbers = [digits.lstrip("0") for digits in _DIGITS.findall(arch or "")]
    return arch is None, [(len(number), number) for number in numbers], arch or ""
