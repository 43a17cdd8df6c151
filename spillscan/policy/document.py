"""A policy file's tree as a layer; whatever it does not expect is an error that names file and line."""

from __future__ import annotations

import difflib
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from spillscan.errors import UsageError
from spillscan.occupancy.model import Launch
from spillscan.policy.keys import KEYS, LARGEST, LAUNCH_KEYS, LEVELS, VERSION, Key, Value
from spillscan.policy.launches import launch
from spillscan.policy.layers import Entry, Layer, Setting
from spillscan.policy.nodes import Node, described
from spillscan.policy.patterns import compiled
from spillscan.policy.severity import Level

SELECTORS = ("match", "arch", "unit")
"""Keys of an entry that say for which kernels it holds."""
PER_KERNEL = tuple(key.name for key in KEYS.values() if key.per_kernel)
"""Keys that an entry may set."""
EFFECTS = (*PER_KERNEL, "severity", "launch")
"""Keys of an entry that say what holds."""


def layer(root: Node, rules: Collection[str], folder: str = "") -> Layer:
    """What the file says. ``rules``: ids of all rules; ``folder``: where the file lies, for the paths in it."""
    table = _mapping(root, ("version", *KEYS, "severity", "kernels"))
    if "version" in table:
        version = table["version"]
        if isinstance(version.value, bool) or version.value != VERSION:
            raise version.error(
                f"version {described(version.value)} is not known", f"this release reads version {VERSION}"
            )
    settings = {
        name: Setting(_value(KEYS[name], node, folder), node.place) for name, node in table.items() if name in KEYS
    }
    levels = _levels(table["severity"], rules) if "severity" in table else {}
    entries = [_entry(node, rules, folder) for node in _list(table["kernels"])] if "kernels" in table else []
    return Layer(settings=settings, levels=levels, entries=tuple(entries))


def _entry(node: Node, rules: Collection[str], folder: str) -> Entry:
    table = _mapping(node, (*SELECTORS, *EFFECTS, "reason"))
    if not any(key in table for key in SELECTORS):
        raise node.error("an entry of kernels must say which it means", "give match, arch or unit")
    if not any(key in table for key in EFFECTS):
        raise node.error("this entry sets nothing", f"give one of {', '.join(EFFECTS)}")
    return Entry(
        match=_patterns(table["match"]) if "match" in table else (),
        arch=_patterns(table["arch"]) if "arch" in table else (),
        unit=_patterns(table["unit"]) if "unit" in table else (),
        settings={n: Setting(_value(KEYS[n], table[n], folder), table[n].place) for n in PER_KERNEL if n in table},
        levels=_levels(table["severity"], rules) if "severity" in table else {},
        launch=Setting(_launch(table["launch"]), table["launch"].place) if "launch" in table else None,
        reason=_word(table["reason"]) if "reason" in table else "",
        origin=node.place,
    )


def _value(key: Key, node: Node, folder: str) -> Value:
    if key.kind == "limit":
        return None if node.value == "none" else _whole(node, 0, LARGEST, "or none")
    if key.kind == "count":
        return _whole(node, 0, LARGEST)
    if key.kind == "flag":
        if not isinstance(node.value, bool):
            raise node.error(f"{key.name} must be true or false, not {described(node.value)}")
        return node.value
    if key.kind == "names":
        return tuple(_words(node))
    if key.kind == "path":
        return os.path.normpath(os.path.join(folder, _word(node)))
    return _choice(node, key.choices)


def _levels(node: Node, rules: Collection[str]) -> dict[str, Setting[Level]]:
    table = _mapping(node, rules, "rule")
    return {rule: Setting(cast(Level, _choice(level, LEVELS)), level.place) for rule, level in table.items()}


def _launch(node: Node) -> Launch:
    table = _mapping(node, tuple(LAUNCH_KEYS))
    if "threads_per_block" not in table:
        raise node.error("a launch must say threads_per_block")
    return launch(**{name: _whole(value, *LAUNCH_KEYS[name]) for name, value in table.items()})


def _patterns(node: Node) -> tuple[str, ...]:
    patterns = _words(node)
    for pattern in patterns:
        try:
            compiled(pattern)
        except UsageError as error:
            raise node.error(str(error)) from None
    return tuple(patterns)


# ---- shapes -------------------------------------------------------------------------------------------------------


def _mapping(node: Node, known: Collection[str], what: str = "key") -> Mapping[str, Node]:
    if not isinstance(node.value, Mapping):
        raise node.error(f"a mapping is wanted here, not {described(node.value)}")
    for name, value in node.value.items():
        if name not in known:
            raise value.error(f"unknown {what} {described(name)}", nearest(name, known))
    return node.value


def _list(node: Node) -> Sequence[Node]:
    if not isinstance(node.value, Sequence) or isinstance(node.value, str):
        raise node.error(f"a list is wanted here, not {described(node.value)}")
    return node.value


def _words(node: Node) -> list[str]:
    """A word, or a list of words that is not empty."""
    if isinstance(node.value, str):
        return [_word(node)]
    words = [_word(item) for item in _list(node)]
    if not words:
        raise node.error("an empty list", "name at least one, or leave the key out")
    return words


def _word(node: Node) -> str:
    if not isinstance(node.value, str) or not node.value or "\n" in node.value:
        raise node.error(f"a word is wanted here, not {described(node.value)}")
    return node.value


def _whole(node: Node, least: int, most: int, also: str = "") -> int:
    value: Any = node.value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        span = f"of {least:,} or more" if most == LARGEST else f"from {least:,} to {most:,}"
        wanted = f"a whole number {span} {also}".rstrip()
        raise node.error(f"{wanted} is wanted here, not {described(node.value)}")
    return value


def _choice(node: Node, choices: Sequence[str]) -> str:
    if not isinstance(node.value, str) or node.value not in choices:
        raise node.error(f"{', '.join(choices[:-1])} or {choices[-1]} is wanted here, not {described(node.value)}")
    return node.value


def nearest(name: str, known: Collection[str]) -> str:
    """``did you mean 'max_registers'?``, or all that is known where nothing is near."""
    near = difflib.get_close_matches(name.lower().replace("-", "_"), known, n=1, cutoff=0.5)
    near = near or difflib.get_close_matches(name.lower().replace("_", "-"), known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
