"""Short display names of the kernels of one or more builds, distinct within an output.

A name depends only on the kernel's own name and on the output's width. A digest replaces the part that is cut off,
``gemm<128, 64…>~a1b2``; names that would print alike get a longer one. Policies, baselines, fingerprints and datasets
keep canonical names.

A name has the last scope, the base name and the template arguments. A wrapper kernel is named after the functor it
runs: ``launch<ns::Op>(ns::Op)`` after ``ns::Op``, ``launch<f()::'lambda'(int)>`` after ``f``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from typing import Final, NamedTuple, Self

from spillscan.model.symbols import NO_NAME, Demangled, Function, Tuned, readable
from spillscan.naming.symbol import canonical, digest
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
_SIGNS = ("__", "_INTERNAL_", "CUB_", "THRUST_", "_V_", "anonymous", "<unnamed>", "(auto)", "::operator()")
"""Texts one of which occurs in each name with volatile parts; they are found faster than the parts."""
_QUALIFIER = re.compile(r"(?<![\w>])(?:[A-Za-z_]\w*::)+(?=[A-Za-z_])")
_SUFFIX = re.compile(r"\b(\d+)(?:u|l|ul|ll|ull|U|L|UL)\b")
_LAMBDA = re.compile(r"::(?:'lambda(\d*)'\([^()]*\)|\{lambda\([^()]*\)#(\d+)\}|\[lambda\([^()]*\) \(instance (\d+)\)])")
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
            comma.end() for comma in re.finditer(r"(?=,|$)|(?<=[^<,])(?=<)", inside[: most + 1]) if comma.end() <= most
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
    name = Function(_VOLATILE.sub("", text) if any(sign in text for sign in _SIGNS) else text)
    if not name.paired or name.depth > _DEEPEST:
        return Display("", text)
    arguments = name.arguments
    operation = _operation(name, arguments)
    parts = _of_type(operation) if operation else _of(name, arguments)
    return parts if parts.base else Display("", text)


def _of(name: Function, arguments: tuple[str, ...]) -> Display:
    """Display name of a function; arguments of its class come first: ``Outer<int>::f<4>`` → ``Outer::f<int, 4>``."""
    scope, of_class = _scope(name.scopes[-1]) if name.scopes else ("", ())
    return Display(scope, name.base, tuple(map(_argument, (*of_class, *arguments))))


@lru_cache(maxsize=1 << 12)
def _scope(text: str) -> tuple[str, tuple[str, ...]]:
    """Base name and template arguments of a scope, which many kernels share."""
    scope = Function(text)
    return scope.base, scope.arguments


def _operation(name: Function, arguments: tuple[str, ...]) -> str:
    """The functor type that a wrapper kernel runs: a template argument that is also its one parameter, or a lambda."""
    types = [each for each in arguments if _TYPE.search(each)]
    parameters = name.parameters if types else ()
    for argument in types:
        runs = len(parameters) == 1 and (parameters[0] == argument or parameters[0].startswith(f"{argument}::"))
        if runs or "lambda" in argument:
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
            index = int(number[2] or number[3] or int(number[1] or -1) + 2)
            return Display(host.base, f"lambda{'' if index == 1 else index}")
        function = Function(text)
        arguments = function.arguments
        if arguments and (function.base in _POLICIES or (len(arguments) == 1 and "<" in arguments[0])):
            text = arguments[0]
            continue
        return _of(function, arguments)
    return Display("", text)


@lru_cache(maxsize=1 << 12)
def _argument(text: str) -> str:
    """A template argument without namespaces, number suffixes and bool casts: ``half_t``, ``128``, ``true``."""
    text = _FLAGS.get(text, text)
    return _SUFFIX.sub(r"\1", _QUALIFIER.sub("", text)) if not text.isdigit() else text


NARROW: Final = 24
"""Maximum characters of a name in an output of at most :data:`_NARROW_OUTPUT` columns."""
WIDTH: Final = 40
"""Maximum characters of a name in any wider output."""
_NARROW_OUTPUT = 80
_DIGEST, _WHOLE = 4, 64
"""Minimum and maximum characters of a digest."""
_LENGTH = re.compile(r"[1-9]\d{0,3}")
_GLOB = re.compile(r"[*?[]")
_PLAIN = r"I(?:[a-z]|L[a-z]n?\d+E)+E"
_INSTANCE = re.compile(rf"(_ZN[^I]+){_PLAIN}E|(_Z[^I]+){_PLAIN}")
"""A mangled instance of a template whose arguments are built-in types and numbers, so that it runs no functor."""


class Names:
    """Display names of the kernels of several builds; the same kernel has the same name in each build."""

    def __init__(self, *builds: Iterable[Key], width: int = WIDTH) -> None:
        self.width = width
        self._builds: dict[Key, int] = {}
        for number, symbols in enumerate(builds):
            for symbol in symbols:
                self._builds[symbol] = self._builds.get(symbol, 0) | 1 << number
        self._known: dict[tuple[Key, int], str] = {}
        self._taken: dict[tuple[str, int], Key] = {}
        self._families: dict[str, str] = {}
        """Family by mangled template: parsing the name of every instance took half the time of ``scan``."""

    @classmethod
    def by_builds(cls, masks: dict[Key, int]) -> Self:
        """Names from a bit mask per kernel: bit ``n`` is set if build ``n`` has the kernel."""
        names = cls()
        names._builds = masks
        return names

    def __iter__(self) -> Iterator[Key]:
        """All kernels, each once."""
        return iter(self._builds)

    def fit(self, columns: int) -> None:
        """Set the width of names for an output of ``columns`` columns."""
        self.width = NARROW if columns <= _NARROW_OUTPUT else WIDTH

    def of(self, symbol: Key, width: int | None = None) -> str:
        """Display name of ``symbol`` in ``width`` characters."""
        width = width or self.width
        if not symbol:
            return NO_NAME
        if (symbol, width) not in self._known:
            self._name([symbol, *self._near.get(_stem(symbol), ())], width)
        return self._known[symbol, width]

    def _name(self, symbols: Iterable[Key], width: int) -> None:
        """Name kernels whose names may collide, each with the shortest digest that keeps it distinct."""
        waiting = [symbol for symbol in dict.fromkeys(symbols) if (symbol, width) not in self._known]
        for size in (0, _DIGEST, 2 * _DIGEST, 4 * _DIGEST, _WHOLE):
            alike: dict[str, list[Key]] = defaultdict(list)
            for symbol in waiting:
                alike[_fitted(symbol, width, size)].append(symbol)
            waiting = []
            for name, several in alike.items():
                others = list(several)
                if taken := self._taken.get((name, width)):
                    others.append(taken)
                if size < _WHOLE and self._differ(others):
                    waiting += several
                else:
                    self._known.update(((symbol, width), name) for symbol in several)
                    self._taken[name, width] = several[0]

    def _differ(self, symbols: list[Key]) -> bool:
        """Whether the symbols are different kernels: in one build together, or with different canonical names."""
        seen = 0
        for symbol in symbols:
            if seen & self._builds.get(symbol, 0):
                return True
            seen |= self._builds.get(symbol, 0)
        return len({_canonical(symbol) for symbol in symbols}) > 1

    @cached_property
    def _near(self) -> dict[str, list[Key]]:
        """Kernels by the stem of their names; only kernels of one stem can get the same display name."""
        stems: dict[str, list[Key]] = defaultdict(list)
        for symbol in self._builds:
            stems[_stem(symbol)].append(symbol)
        return stems

    def base(self, symbol: Key) -> str:
        """Name shared by all instances of the kernel's template."""
        if not symbol:
            return NO_NAME
        instance = _INSTANCE.match(symbol) if isinstance(symbol, str) else None
        template = instance[1] or instance[2] if instance else ""
        family = self._families.get(template)
        if family is None:
            shown = display(symbol)
            family = shown.family
            if shown.arguments and _last_name(template)[1] == len(template):
                self._families[template] = family
        return family

    def arguments(self, symbol: Key) -> str:
        """Arguments to show below the family's name, ``<14, 64, false>``; the whole name if there are none, or if only
        their digest fits."""
        name = self.of(symbol)
        arguments = name.removeprefix(self.base(symbol))
        return name if arguments[:1] in ("", "~") else arguments

    def argument(self, symbol: Key) -> str:
        """Value of ``--kernel`` that selects this kernel: its display name if complete and unambiguous, else its
        symbol."""
        name = self.of(symbol)
        called = [each for each in self._near.get(_stem(symbol), ()) if display(each).full == name]
        return name if called == [symbol] and not _GLOB.search(name) else symbol_of(symbol)

    def called(self, shown: str) -> list[Key]:
        """The kernels whose display name, short or full, is ``shown``; without any, those of the family ``shown``."""
        if "~" not in shown:  # no name that was cut
            full = [symbol for symbol in self._builds if shown == display(symbol).full]
            return full or [symbol for symbol in self._builds if shown == display(symbol).family]
        return [
            symbol
            for symbol in self._builds
            if shown in (self.of(symbol, WIDTH), self.of(symbol, NARROW), display(symbol).full)
        ]


def alone(symbol: Key, width: int = WIDTH) -> str:
    """Display name of a kernel without regard to other kernels."""
    return _fitted(symbol, width, 0) if symbol else NO_NAME


def _canonical(symbol: Key) -> str:
    return (
        canonical(symbol)
        if isinstance(symbol, str)
        else "\n".join((canonical(symbol.symbol), *symbol.words, symbol.place))
    )


def _fitted(symbol: Key, width: int, size: int) -> str:
    """The name in ``width`` characters with ``size`` characters of digest (4 if the name is cut and ``size`` is 0)."""
    name = display(symbol)
    if not size and len(name.full) <= width:
        return name.full
    # the first four characters are the same in every checkout; the rest tell symbols apart
    whole = symbol if isinstance(symbol, str) else "\n".join(map(str, symbol))
    mark = f"~{digest(_canonical(symbol), 2)}{digest(whole, 32)[: max(0, size - _DIGEST)]}"
    return name.cut(max(width - len(mark), _DIGEST)) + mark


def _stem(symbol: Key) -> str:
    """Part of a symbol that is equal for names that may look alike: the last plain name and its template arguments."""
    text = symbol_of(symbol)
    if not text.startswith("_Z"):
        return text.partition("(")[0]
    head = text.partition("I")[0]
    last, at = _last_name(head)
    if at > len(head):  # the I is a letter of a name
        last, at = _last_name(text)
    return last + text[at:].partition("Ev")[0] if text[at : at + 1] == "I" else last


@lru_cache(maxsize=1 << 12)
def _last_name(text: str) -> tuple[str, int]:
    """The last of the plain names that a mangled name begins with, and where it ends. Instances of a template share
    the text before their arguments."""
    at, last = 3 if text.startswith("_ZN") else 2, ""
    while length := _LENGTH.match(text, at):
        at = length.end() + int(length[0])
        last = text[length.end() : at]
    return last, at
