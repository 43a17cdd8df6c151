"""A kernel's display name, parsed from its demangled name: last scope, base name, template arguments.

A wrapper kernel is named after the functor it runs: ``launch<Op>(Op)`` after ``Op``, ``launch<f()::'lambda'(int)>``
after ``f``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from spillscan.model.demangled import Demangled, Function
from spillscan.model.symbols import Tuned, readable
from spillscan.output.safe import printable

Key = str | Tuned
"""Key that names a kernel: its symbol, plus the configuration if an autotuner compiled it."""


def symbol_of(key: Key) -> str:
    """The symbol of a key."""
    return key if isinstance(key, str) else key.symbol


_LONGEST, _DEEPEST = 60_000, 150
"""Maximum characters and bracket depth of a name that is parsed; longer or deeper names are shown as they are."""
_VOLATILE = re.compile(
    r"(?:\b_INTERNAL_\w+|\b_GLOBAL__N_\w+|\b(?:CUB_|THRUST_|_V_)\d{4,}\w*|\b__(?:4|1|ndk1|cxx11)"
    r"|\(anonymous namespace\)|<unnamed>|\{anonymous\})::|(?<!\w)decltype\(auto\) |::operator\(\)(?:\(\))?(?: const)?"
)
_QUALIFIER = re.compile(r"(?<![\w>])(?:[A-Za-z_]\w*::)+(?=[A-Za-z_])")
_SUFFIX = re.compile(r"\b(\d+)(?:u|l|ul|ll|ull|U|L|UL)\b")
_LAMBDA = re.compile(r"::(?:'lambda(\d*)'\([^()]*\)|\{lambda\([^()]*\)#(\d+)\})")
_FLAGS = {"(bool)1": "true", "(bool)0": "false"}
_TYPE = re.compile("lambda|<|::")
_POLICIES = frozenset(("ParallelFor", "ParallelReduce", "ParallelScan"))
"""Kokkos' drivers, whose first template argument is the functor."""


class Display(NamedTuple):
    """Parts of a kernel's display name."""

    scope: str
    base: str
    arguments: tuple[str, ...] = ()
    brackets: str = "<>"

    @property
    def family(self) -> str:
        """Name shared by all instances of a template: ``ns::gemm``."""
        return f"{self.scope}::{self.base}" if self.scope else self.base

    @property
    def full(self) -> str:
        """The name with all arguments: ``ns::gemm<128, float>``."""
        inside = ", ".join(self.arguments)
        return f"{self.family}{self.brackets[0]}{inside}{self.brackets[1]}" if inside else self.family

    def cut(self, room: int) -> str:
        """The name in at most ``room`` characters: drop arguments from the right, then the scope."""
        if len(self.full) <= room:
            return self.full
        family = self.family if len(self.family) <= room else self.base[:room]
        inside = ", ".join(self.arguments)
        most = room - len(family) - 3
        ends = [
            found.end() for found in re.finditer(r"(?=,|$)|(?<=[^<,])(?=<)", inside[: most + 1]) if found.end() <= most
        ]
        if not ends or ends[-1] < 1 or not family.endswith(self.base):
            return family
        return f"{family}{self.brackets[0]}{inside[: ends[-1]]}…{self.brackets[1]}"


@lru_cache(maxsize=1 << 15)
def display(key: Key) -> Display:
    """Display name of ``key``."""
    if isinstance(key, Tuned):
        own = display(key.symbol)
        return own._replace(arguments=(*own.arguments, *map(printable, key.words)), brackets="[]")
    text = printable(readable(key))
    if len(text) > _LONGEST or ("<" not in text and "(" not in text):
        return Display("", text)
    name = Function(_VOLATILE.sub("", text))
    if not name.paired or name.depth > _DEEPEST:
        return Display("", text)
    operation = _operation(name)
    found = _of_type(operation) if operation else _of(name)
    return found if found.base else Display("", text)


def _of(name: Function) -> Display:
    """Display name of a function; arguments of its class come first: ``Outer<int>::f<4>`` → ``Outer::f<int, 4>``."""
    scope, arguments = _scope(name.scopes[-1]) if name.scopes else ("", ())
    return Display(scope, name.base, tuple(map(_argument, (*arguments, *name.arguments))))


@lru_cache(maxsize=1 << 12)
def _scope(text: str) -> tuple[str, tuple[str, ...]]:
    """Base name and template arguments of a scope, which many kernels share."""
    scope = Function(text)
    return scope.base, scope.arguments


def _operation(name: Function) -> str:
    """The functor type that a wrapper kernel runs: a template argument that is also its one parameter, or a lambda."""
    if name.angle is None or not _TYPE.search(name.text, name.angle + 1, name.closing[name.angle]):
        return ""
    for argument in name.arguments:
        if "lambda" in argument or "<" in argument or "::" in argument:
            taken = [each for each in name.parameters if each == argument or each.startswith(f"{argument}::")]
            if (taken and len(name.parameters) == 1) or "lambda" in argument:
                return argument
    return ""


def _of_type(text: str) -> Display:
    """Display name of a functor: the function around a lambda, or the functor that a driver or nested wrapper runs."""
    for _ in range(_DEEPEST):
        name = Demangled(text)
        closures = list(name.outer(_LAMBDA, 0, len(text)))
        if closures:
            at = closures[-1][1]
            host = Function(text[:at])
            inner = next((each for each in host.arguments if "lambda" in each), "")
            if inner:
                text = inner
                continue
            number = _LAMBDA.match(text, at)
            assert number is not None
            index = int(number[2]) if number[2] else int(number[1] or -1) + 2
            return Display(host.base, f"lambda{'' if index == 1 else index}")
        function = Function(text)
        arguments = function.arguments
        if arguments and (function.base in _POLICIES or (len(arguments) == 1 and "<" in arguments[0])):
            text = arguments[0]
            continue
        return _of(function)
    return Display("", text)


def _argument(text: str) -> str:
    """A template argument without namespaces, number suffixes and bool casts: ``half_t``, ``128``, ``true``."""
    text = _FLAGS.get(text, text)
    return _SUFFIX.sub(r"\1", _QUALIFIER.sub("", text)) if not text.isdigit() else text
