"""YAML as nodes that know their lines, checked while they are taken apart: a mistake is one line with its number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from spillscan.errors import UsageError

if TYPE_CHECKING:
    from yaml import Node

DEEPEST = 32
"""Nesting that no baseline has; PyYAML's composer in C would exhaust the stack on much more."""

MOST_SHOWN = 60
"""Characters of a wrong value that a message repeats."""


class Document:
    """A piece of a file, for messages that say where."""

    def __init__(self, label: str, first_line: int = 1) -> None:
        self._label = label
        self._first_line = first_line

    def fail(self, line: int, what: str, hint: str = "") -> NoReturn:
        """Raise the error of this ``line`` of the file."""
        raise UsageError(f"{self._label}:{line}: {what}", hint)

    def line(self, node: Node) -> int:
        """Where ``node`` begins in the file."""
        return int(node.start_mark.line) + self._first_line

    def compose(self, text: str) -> Node | None:
        """The only document of ``text``; ``None`` where it is empty."""
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            depth = 0
            for event in yaml.parse(text, Loader=loader):
                depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
                if depth > DEEPEST:
                    line = event.start_mark.line if event.start_mark else 0
                    self.fail(int(line) + self._first_line, "no YAML: nested too deeply")
            return yaml.compose(text, Loader=loader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line = self._first_line + (mark.line if mark else 0)
            self.fail(line, f"no YAML: {error.problem or error.context}")
        except yaml.reader.ReaderError as error:
            line = self._first_line + text.count("\n", 0, int(error.position))
            self.fail(line, f"no YAML: {error.reason}")

    def mapping(self, node: Node, what: str) -> Iterator[tuple[str, Node, Node]]:
        """(key, key's node, value's node) of a mapping whose keys are plain text and different."""
        import yaml

        if not isinstance(node, yaml.MappingNode):
            self.fail(self.line(node), f"{what} must be a mapping, not {shown(node)}")
        seen: dict[str, int] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.fail(self.line(key), f"a key of {what} must be text, not {shown(key)}")
            name = str(key.value)
            if name in seen:
                self.fail(self.line(key), f"{cut(name)} stands twice, here and in line {seen[name]}", "keep one")
            seen[name] = self.line(key)
            yield name, key, value

    def sequence(self, node: Node, what: str) -> list[Node]:
        """The items of a list."""
        import yaml

        if not isinstance(node, yaml.SequenceNode):
            self.fail(self.line(node), f"{what} must be a list, not {shown(node)}")
        return list(node.value)

    def text(self, node: Node, what: str) -> str:
        """A scalar that is not empty."""
        import yaml

        if not isinstance(node, yaml.ScalarNode) or node.tag.endswith(":null") or not node.value.strip():
            self.fail(self.line(node), f"{what} must be text, not {shown(node)}")
        return str(node.value)

    def whole_number(self, node: Node, what: str) -> int:
        """A decimal number of 0 or more."""
        import yaml

        digits = str(node.value) if isinstance(node, yaml.ScalarNode) and node.tag.endswith(":int") else ""
        if not (digits.isascii() and digits.isdecimal()) or len(digits) > 18 or (digits[0] == "0" and digits != "0"):
            self.fail(self.line(node), f"{what} must be a whole number of 0 or more, not {shown(node)}")
        return int(digits)


def shown(node: Node) -> str:
    """What a node is, for a message."""
    import yaml

    if isinstance(node, yaml.ScalarNode):
        return "nothing" if node.tag.endswith(":null") else cut(str(node.value))
    return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"


def cut(text: str) -> str:
    """``text`` in quotes, printable and not too long."""
    return ascii(text) if len(text) <= MOST_SHOWN else ascii(text[:MOST_SHOWN]) + "…"
