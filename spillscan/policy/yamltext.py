"""YAML text as nodes. Safe: only plain values, no tags, no anchors; nothing is constructed.

Words are those of YAML 1.2: ``off``, ``no`` and ``on`` are words, not truth values, and ``010`` is ten.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from spillscan.errors import UsageError
from spillscan.policy.nodes import Node

DEPTH = 20
"""Deeper nesting is refused."""

_TAG = "tag:yaml.org,2002:"


class _Loader(yaml.SafeLoader):
    """Resolves plain words as YAML 1.2's core schema does."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - as the base class has it

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """The next node, if it is no alias and has no anchor: what stands twice is written twice."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise yaml.MarkedYAMLError(problem="anchors and aliases are not read", problem_mark=event.start_mark)
        return super().compose_node(parent, index)


_PLAIN = {
    _TAG + "bool": (r"true|True|TRUE|false|False|FALSE", "tTfF"),
    _TAG + "null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    _TAG + "int": (r"[-+]?[0-9]{1,30}", "-+0123456789"),
    _TAG + "float": (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", "-+.0123456789"),
}
"""Tag -> (what is written so, its first characters)."""
for _tag, (_pattern, _first) in _PLAIN.items():
    _Loader.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern})\Z"), list(_first))


def parse(text: str, name: str) -> Node:
    """The (first and only) document of ``text``; ``name`` is the file's. An empty one is an empty mapping."""
    loader = None
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        place = _at(name, error.problem_mark or error.context_mark)
        raise UsageError(f"{place}: broken YAML: {error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UsageError(f"{name}:{line}: broken YAML: {error.reason}") from None
    except RecursionError:
        raise UsageError(f"{name}: nested too deep") from None
    finally:
        if loader is not None:
            loader.dispose()
    if root is None:
        return Node({}, f"{name}:1")
    return _node(root, name, root.start_mark.line + 1, 0)


def _at(name: str, mark: Any) -> str:
    return f"{name}:{mark.line + 1}" if mark else name


def _node(node: yaml.Node, name: str, line: int, depth: int) -> Node:
    place = f"{name}:{line}"
    if depth > DEPTH:
        raise UsageError(f"{place}: nested too deep")
    if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
        found: dict[str, Node] = {}
        for key, value in node.value:
            here = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise UsageError(f"{name}:{here}: a key must be a word")
            if key.value in found:
                raise UsageError(f"{name}:{here}: {key.value!r} stands twice", f"first at {found[key.value].place}")
            found[key.value] = _node(value, name, here, depth + 1)
        return Node(found, place)
    if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
        return Node([_node(item, name, item.start_mark.line + 1, depth + 1) for item in node.value], place)
    if isinstance(node, yaml.ScalarNode):
        return Node(_scalar(node, place), place)
    raise UsageError(f"{place}: the tag {node.tag} is not read", "write a plain value")


def _scalar(node: yaml.ScalarNode, place: str) -> str | int | float | bool | None:
    text: str = node.value
    if node.tag == _TAG + "str":
        return text
    if node.tag not in _PLAIN or not re.fullmatch(_PLAIN[node.tag][0], text):
        raise UsageError(f"{place}: {text[:40]!r} is not read as {node.tag}", "write a plain value")
    if node.tag == _TAG + "null":
        return None
    if node.tag == _TAG + "bool":
        return text.lower() == "true"
    return int(text) if node.tag == _TAG + "int" else float(text)
