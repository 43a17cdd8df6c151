"""Demangled names as trees: what a kernel is called, and its template arguments, each equal part one object.

A name's brackets are paired in one pass (:class:`~spillscan.model.demangled.Demangled`); of each pair that was seen
before the trees are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from spillscan.model.demangled import UNNAMED, Demangled

LONGEST, DEEPEST = 60_000, 150
"""Characters of a name, and brackets in brackets, beyond which a name is taken as one word: no compiler's are so."""

_UNNAMED = (f"{UNNAMED}::", "<unnamed>::", "{anonymous}::", "decltype(auto) ")
_BEHIND_TYPE = re.compile(r"[<({]| (?![*&]|const\b|volatile\b)")
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
_LAMBDA = re.compile(r"(?:::)?'lambda(\d{0,9})'")
_NUMBER, _SIZES = re.compile(r"-?\d+"), re.compile(r"-?\d+(?:x-?\d+)*")
_CONSTANTS = ("C", "Int", "bool_constant", "integral_constant")
_TUPLES = ("tuple", "Shape", "GemmShape", "MatrixShape", "TensorNHWC", "PitchLinearShape")


class Node(Struct, frozen=True, eq=False):
    """A type or value. Equal ones of one :class:`NameParser` are one object."""

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


class NameParser:
    """Trees of many names, of which equal parts are one object."""

    def __init__(self, labels: Mapping[str, Sequence[str]] | None = None) -> None:
        """``labels``: what templates call their parameters, by the last word of their names; empty: no name."""
        self._labels = labels or {}
        self._nodes: dict[tuple[str, tuple[Node, ...]], Node] = {}
        self._arguments: dict[str, Node] = {}
        """By what is written: names of one template share almost all of these."""
        self._lists: dict[str, tuple[Node, ...]] = {}
        """What functions take, likewise."""

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

    def parsed(self, text: str) -> Parsed:
        """The tree of a printable demangled name; what cannot be read as one is one word."""
        if len(text) > LONGEST or ("<" not in text and "(" not in text):
            return Parsed(self.node(text), None)
        name = Demangled(_plain(text))
        if not name.paired or name.depth > DEEPEST:
            return Parsed(self.node(text), None)
        start, end, parameters = 0, len(name.text), None
        for sign, at, behind in name.brackets(0, end):
            if sign == "(" and at and not name.text.startswith(("::", " const::", "<", "(", "{"), behind):
                start, end, parameters = _behind_type(name, at), at, self._taken(name, at)
                break
        found = self._between(name, start, end)
        return Parsed(found if found.head else self.node(text), parameters)

    def _taken(self, name: Demangled, opening: int) -> tuple[Node, ...]:
        """The parameters in the brackets that open there."""
        text = name.text[opening : name.closing[opening]]
        found = self._lists.get(text)
        if found is None:
            found = self._lists[text] = self._inside(name, opening)
        return found

    def _inside(self, name: Demangled, opening: int) -> tuple[Node, ...]:
        """What stands between the commas of the bracket that opens there."""
        return tuple([self._known(name, start, end) for start, end in name.items(opening)])

    def _known(self, name: Demangled, start: int, end: int) -> Node:
        """A template argument or parameter."""
        text = name.text[start:end]
        found = self._arguments.get(text)
        if found is None:
            found = self._arguments[text] = self.node(text) if text.isdigit() else self._between(name, start, end)
        return found

    def _between(self, name: Demangled, start: int, end: int) -> Node:
        """``Outer<int>::Inner<4>`` is ``Outer::Inner`` of both lists of arguments."""
        heads: list[str] = []
        args: list[Node] = []
        for sign, at, behind in name.brackets(start, end):
            heads.append(name.text[start:at])
            start, inside = behind, self._inside(name, at)
            if sign != "(" or not _NUMBER.match(name.text, behind, end):  # else a cast of a number
                args += inside
            elif len(inside) == 1 and inside[0].head == "bool":
                return self.node("false" if name.text.startswith("0", behind) else "true")
        heads.append(name.text[start:end])
        return self.node(_spelled("".join(heads).strip()), tuple(args))


def _behind_type(name: Demangled, end: int) -> int:
    """Where a function's own name begins, which ends there: a template's has the type in front that it returns."""
    spaces = [behind for sign, _, behind in name.outer(_BEHIND_TYPE, 0, end) if sign == " "]
    return spaces[-1] if spaces else 0


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
