"""Demangled names as trees: what a kernel is called, and its template arguments, each equal part one object.

A name is read in one pass; a pair of brackets that is closed is looked up by what stands in it. Names of one template
share almost all of these, so that few are made.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from spillscan.model.symbols import balanced

LONGEST, DEEPEST = 60_000, 150
"""Characters of a name, and brackets in brackets, beyond which a name is taken as one word: no compiler's are so."""

_BRACKET, _BRACKETS = re.compile(r"[<>(){}]"), re.compile(r"([<>(){}])")
_CLOSED_BY = {">": "<", ")": "(", "}": "{"}
_UNNAMED = ("(anonymous namespace)::", "<unnamed>::", "{anonymous}::", "decltype(auto) ")
_PLAIN_START = re.compile(r"(?:\w+ )+(?P<template>[\w:]+)<|(?P<plain>[\w:]+)(?:\([^\[\]]*\))?\Z")
_STEP = re.compile(r"[<>(){},]")
_SIMPLE = re.compile(r"([\w: ]+)(?:<[\w:, *&<>]*>)?\([\w:, *&<>]*\)", re.ASCII)
"""One list of template arguments at most, one of parameters: what stands before them says all."""
_PIECE = re.compile(r"\x00(\d+)\x01")
_RETURNS = re.compile(r".* (?![*&]|const\b|volatile\b)", re.DOTALL)
_OPERATOR = re.compile(r"\boperator(?:<=>|<<=?|>>=?|->\*?|[<>]=?)")
_COMPARED = re.compile(r" (?:<=?|>=?|<<|>>) ")

# What differs between toolkits, checkouts and lists of archs, or what is never written so: spelled anew, in this order.
_SPELLINGS = tuple(
    (re.compile(expression), new)
    for expression, new in (
        (r"\b_INTERNAL_[0-9a-f]{8}_\d+_\w+?::|\b_GLOBAL__N_\w+?::", ""),
        (r"\b(?:CUB_|THRUST_|_V_)\d{4,}_\w+::|\b__(?:4|1|ndk1|cxx11)::|\bcuda::(?=std::)", ""),
        (r"^(-?\d+)(?:u?l{1,2}|ul{0,2}|UL{0,2}|L{1,2})$", r"\1"),
        (r"\bunsigned (char|short|int)\b", r"u\1"),
        (r"\bunsigned long long\b", "ullong"),
        (r"\bunsigned long\b", "ulong"),
        (r"\bsigned char\b", "schar"),
        (r"\blong long\b", "llong"),
    )
)
_SPELLED_ANEW = re.compile(r"_[GI]|[BTV]_\d|__[14nc]|:std|signed|long|\A-?\d+[uUlL]")
"""What each of these has in it: most words have none."""
_LAMBDA = re.compile(r"(?:::)?'lambda(\d*)'")
_NUMBER, _SIZES = re.compile(r"-?\d+"), re.compile(r"-?\d+(?:x-?\d+)*")
_CONSTANTS = ("C", "Int", "bool_constant", "integral_constant")
_TUPLES = ("tuple", "Shape", "GemmShape", "MatrixShape", "TensorNHWC", "PitchLinearShape")


class Node(Struct, frozen=True, eq=False):
    """A type or value. Equal ones of one :class:`Forest` are one object."""

    head: str
    """Its name without template arguments: ``ns::Tile``, ``128``, ``128x64``."""
    args: tuple[Node, ...] = ()
    """Its template arguments, and the parameters of a lambda."""

    @property
    def word(self) -> str:
        """The last word of the head."""
        return self.head.rpartition("::")[2]


class Parsed(Struct, frozen=True):
    """A function's name."""

    node: Node
    """Its name and template arguments."""
    parameters: tuple[Node, ...] | None
    """What it takes; ``None`` where the name does not say."""


class _Group(Struct, frozen=True):
    """What stood in a pair of brackets."""

    args: tuple[Node, ...]
    round: bool


class Forest:
    """The trees of many names."""

    def __init__(self, labels: Mapping[str, Sequence[str]] | None = None) -> None:
        """``labels``: what templates call their parameters, by the last word of their names; empty: no name."""
        self._labels = labels or {}
        self._nodes: dict[tuple[str, tuple[Node, ...]], Node] = {}
        self._groups: list[_Group] = []
        self._known: dict[str, str] = {}
        self._arguments: dict[str, Node] = {}
        self._heads: dict[str, str] = {}
        self._starts: dict[str, str] = {}

    def node(self, head: str, args: tuple[Node, ...] = ()) -> Node:
        """The one node of these."""
        if args and all(not each.args for each in args):  # constants are what they hold; tuples of them are tiles
            last = head.rpartition("::")[2]
            if last in _CONSTANTS and _is_literal(args[-1].head):
                head, args = args[-1].head, ()
            elif len(args) > 1 and last in _TUPLES and all(_SIZES.fullmatch(each.head) for each in args):
                head, args = "x".join(each.head for each in args), ()
        if not args and head.endswith(("true_type", "false_type")):
            head = head.rpartition("::")[2].removesuffix("_type")
        if args and (labels := self._labels.get(head.rpartition("::")[2])) is not None:
            args = (*map(self._labelled, args, labels), *args[len(labels) :])
        key = head, args
        found = self._nodes.get(key)
        if found is None:
            found = self._nodes[key] = Node(head, args)
        return found

    def _labelled(self, flag: Node, label: str) -> Node:
        """``causal``, ``!causal``: a flag by its parameter's name; anything else as it is."""
        if not label or flag.args or flag.head not in ("true", "false"):
            return flag
        return self.node(label if flag.head == "true" else f"!{label}")

    def head(self, name: str) -> str:
        """The head of the tree of a printable demangled name where its first bracket shows it: ``ns::f`` of
        ``void ns::f<int, 4>(int*)``. Empty where it takes a look at all brackets."""
        simple = None if ">::" in name else _SIMPLE.fullmatch(name)
        if simple is None:
            return self._head(name)
        start = simple[1]
        found = self._starts.get(start)
        if found is None:
            found = self._head(name)
            if "operator" not in start:
                self._starts[start] = found
        return found

    def _head(self, name: str) -> str:
        if len(name) > LONGEST:
            return ""
        name = _plain(name)
        found = _PLAIN_START.match(name)
        if found is None or "operator" in name or "->" in name:
            return ""
        if any(name.count(sign) != name.count(opening) for sign, opening in _CLOSED_BY.items()):
            return ""
        if found["template"] and not _is_plain_call(name, found.end()):
            return ""
        start = found["template"] or found["plain"]
        head = self._heads.get(start)
        if head is None:
            last = start.rpartition("::")[2]
            plain = last not in (*_CONSTANTS, *_TUPLES) and not last.endswith(("true_type", "false_type"))
            head = self._heads[start] = _spelled(start) if plain else ""
        return head

    def parsed(self, name: str) -> Parsed:
        """The tree of a printable demangled name; what cannot be read as one is one word."""
        if len(name) > LONGEST or not any(sign in name for sign in "<("):
            return Parsed(self.node(name), None)
        flat = self._reduced(_plain(name))
        if flat is None:
            return Parsed(self.node(name), None)
        before, parameters = self._split(flat)
        if parameters is not None:
            before = before[_end(_RETURNS.match(before)) :]
        found = self._combined(before)
        return Parsed(found if found.head else self.node(name), parameters)

    def _reduced(self, text: str) -> str | None:
        """``text`` with a mark for each bracket and its contents; ``None`` where they do not pair."""
        begin, *rest = _BRACKETS.split(text)
        around: list[list[str]] = []
        """What stands before each bracket that is open, and in the one before it."""
        pieces, known = [begin], self._known
        for sign, behind in zip(rest[::2], rest[1::2], strict=True):
            opening = _CLOSED_BY.get(sign)
            if opening is None:
                around.append(pieces)
                pieces = [sign, behind]
                if len(around) > DEEPEST:
                    return None
            elif around and pieces[0] == opening:
                inside = "".join(pieces)
                pieces = around.pop()
                pieces += known.get(inside) or self._mark(inside), behind
            else:
                return None
        return None if around else "".join(pieces)

    def _mark(self, inside: str) -> str:
        """What stands for a bracket and its contents, in which others are marks."""
        args = tuple(map(self._argument, inside[1:].split(","))) if len(inside) > 1 else ()
        mark = self._known[inside] = f"\x00{len(self._groups)}\x01"
        self._groups.append(_Group(args, inside[0] == "("))
        return mark

    def _argument(self, text: str) -> Node:
        found = self._arguments.get(text)
        if found is None:
            found = self._arguments[text] = self._combined(text.strip())
        return found

    def _split(self, flat: str) -> tuple[str, tuple[Node, ...] | None]:
        """What stands before a function's parameters, and these."""
        for mark in _PIECE.finditer(flat):
            group = self._groups[int(mark[1])]
            if group.round and mark.start() and not flat.startswith(("::", " const::", "\x00"), mark.end()):
                return flat[: mark.start()], group.args
        return flat, None

    def _combined(self, flat: str) -> Node:
        """``Outer<int>::Inner<4>`` is ``Outer::Inner`` of both lists of arguments."""
        if "\x00" not in flat:
            return self.node(_spelled(flat))
        heads: list[str] = []
        args: list[Node] = []
        pieces = _PIECE.split(flat)
        for at, piece in enumerate(pieces):
            if at % 2 == 0:
                heads.append(piece)
                continue
            group = self._groups[int(piece)]
            if not (group.round and _NUMBER.match(pieces[at + 1])):  # else a cast of a number
                args += group.args
            elif len(group.args) == 1 and group.args[0].head == "bool":
                return self.node("false" if pieces[at + 1] == "0" else "true")
        return self.node(_spelled("".join(heads)), tuple(args))


def _is_plain_call(name: str, begin: int) -> bool:
    """Whether parameters follow the template arguments that begin there, and these are surely none of a wrapper
    (:func:`inner`)."""
    end = _end_of_arguments(name, begin)
    if not (name.startswith("(", end) and name.endswith(")")):
        return False
    first = _BRACKET.search(name, begin)
    assert first is not None  # they are closed
    return not name.startswith(name[begin : first.start()], end + 1) or _are_several(name, begin, end)


def _end_of_arguments(name: str, begin: int) -> int:
    """Where the arguments that begin there are closed, and behind the bracket; the end of a name that does not, or
    only beyond :data:`DEEPEST`."""
    if closed := balanced("<({", ">)}").match(name, begin):
        return closed.end()
    depth = 1
    for found in _BRACKET.finditer(name, begin):
        depth += -1 if found[0] in _CLOSED_BY else 1
        if not depth:
            return found.end()
        if depth > DEEPEST:
            break
    return len(name)


def _are_several(name: str, begin: int, end: int) -> bool:
    depth = 1
    for found in _STEP.finditer(name, begin, end):
        sign = found[0]
        if sign == "," and depth == 1:
            return True
        depth += 0 if sign == "," else -1 if sign in _CLOSED_BY else 1
    return False


def _plain(name: str) -> str:
    """The name without brackets that are none of arguments or parameters."""
    for sign in _UNNAMED:
        name = name.replace(sign, "")
    if "operator" in name:
        name = name.replace("::operator()() const", "").replace("::operator()()", "").replace("::operator()", "")
        name = _OPERATOR.sub("operator_", name)
    if "{lambda" in name:
        name = _GNU_LAMBDA.sub(r"#\2\1", name)
    return _COMPARED.sub(" cmp ", name)


_GNU_LAMBDA = re.compile(r"(?:::)?\{lambda(\([^()]*\))#(\d+)\}")


def _spelled(head: str) -> str:
    if _SPELLED_ANEW.search(head):
        for expression, new in _SPELLINGS:
            head = expression.sub(new, head)
    if "'lambda" in head:
        head = _LAMBDA.sub(lambda match: f"#{int(match[1] or -1) + 2}", head)
    return head.lstrip("&").strip()


def _end(match: re.Match[str] | None) -> int:
    return match.end() if match else 0


def _is_literal(text: str) -> bool:
    return text in ("true", "false") or _NUMBER.fullmatch(text) is not None


def leaves(node: Node) -> Iterator[Node]:
    """Its arguments that have none themselves."""
    stack: list[Node] = [node]
    while stack:
        each = stack.pop()
        if each.args:
            stack += reversed(each.args)
        else:
            yield each


def inner(node: Node, parameters: Sequence[Node] | None) -> Node:
    """``Op`` of ``launch<Wrapped<Op>>(Wrapped<Op>::Params)``: a function of one class that takes nothing but this one's
    parameters is what it runs, and so is a class of one class."""
    if len(node.args) != 1 or not node.args[0].args or not parameters or len(parameters) != 1:
        return node
    operation, taken = node.args[0], parameters[0]
    if taken.args != operation.args or not taken.head.startswith(f"{operation.head}::"):
        return node
    while len(operation.args) == 1 and operation.args[0].args:
        operation = operation.args[0]
    return operation
