"""Layers of a policy: of a file's tree, of environment variables, of options; :func:`load` finds and reads the file.

Whatever is not expected is one line that names the place: file and line, variable, or option. :func:`load` and what it
calls are all here that touches files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from spillscan.builds.coverage import REQUIREMENT
from spillscan.judging.policy.effective import Acceptance, FileEntry, Layer, Override, Policy, Setting
from spillscan.judging.policy.keys import (
    FILES,
    LABEL,
    LARGEST,
    LAUNCH_KEYS,
    LEVELS,
    OVERRIDE,
    PREFIX,
    SELECTORS,
    VERSION,
    Key,
    Value,
    effects,
    keys,
    level_of,
    per_kernel,
    value_of,
)
from spillscan.judging.rules import all_rules
from spillscan.model import Launch, Level
from spillscan.model.gaps import gaps
from spillscan.model.nodes import Node, described, parse_toml, parse_yaml
from spillscan.model.patterns import compiled
from spillscan.occupancy.launches import launch, parse_launch
from spillscan.output.errors import UsageError, nearest

NAMES = ("spillscan.yaml", "spillscan.yml")
"""What a policy file is called; ``pyproject.toml`` may hold it, too."""
LARGEST_BYTES = 8 << 20
"""No policy is larger; what is was named by mistake."""
CONFIG = PREFIX + "CONFIG"
"""Variable that names the policy file."""
SEVERITY = PREFIX + "SEVERITY"
"""Variable with ``RULE=LEVEL``, separated by commas."""

_ACCEPT = "--accept"


def load(options: Layer, *, config: str | None, search: bool, variables: Mapping[str, str]) -> Policy:
    """The policy that holds: defaults < file < environment < options.

    ``config`` names the file; without it ``SPILLSCAN_CONFIG`` does, or it is searched for where ``search`` allows.
    Raises :class:`~spillscan.UsageError` for whatever is wrong with any of them: one line, with the place.
    """
    path = config or (variables.get(CONFIG, "").strip() if search else "") or (find() if search else None)
    layers = [read(path)] if path else []
    policy = Policy((*layers, from_environment(variables), options))
    _check_devices(policy)
    _check_archs(policy)
    return policy


def find(folder: str | os.PathLike[str] = ".") -> str | None:
    """The policy file of ``folder`` or the nearest of its parents that has one, up to the root of the repository.

    Outside of a repository only ``folder`` itself is looked at: what lies above it is not the project's.
    """
    folders = [os.path.realpath(folder)]
    while (above := os.path.dirname(folders[-1])) != folders[-1]:
        folders.append(above)
    root = next((each for each in folders if os.path.exists(os.path.join(each, ".git"))), folders[0])
    for each in folders[: folders.index(root) + 1]:
        found = [name for name in NAMES if os.path.isfile(os.path.join(each, name))]
        if _has_table(os.path.join(each, "pyproject.toml")):
            found.append("pyproject.toml")
        if len(found) > 1:
            raise UsageError(f"two policies in {_shown(each) or '.'}: {' and '.join(found)}", "keep one of them")
        if found:
            return _shown(os.path.join(each, found[0]))
    return None


def read(path: str) -> Layer:
    """The layer that the file at ``path`` is."""
    text = _text(path)
    if path.endswith(".toml"):
        root = parse_toml(text, path)
        if root is None:
            raise UsageError(f"{path} has no table [tool.spillscan]", "add it, or name another file")
    else:
        root = parse_yaml(text, path)
    return layer(root, os.path.dirname(path))


def _has_table(path: str) -> bool:
    """Whether a ``pyproject.toml`` has our table; a broken one is not ours unless it names spillscan."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):
        return False
    return "spillscan" in text and parse_toml(text, _shown(path)) is not None


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read the policy {path}: {error.strerror}") from None
    if len(data) > LARGEST_BYTES:
        raise UsageError(f"{path} is too large to be a policy", "name a policy: --config FILE")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: not UTF-8", "save it as UTF-8") from None


def _shown(path: str) -> str:
    """``path`` as a person in the current folder would write it."""
    shown = os.path.relpath(path)
    return "" if shown == "." else shown


def _check_devices(policy: Policy) -> None:
    if not policy.devices:
        return
    from spillscan.occupancy.devices import device

    for name in policy.devices:
        try:
            device(name)
        except UsageError as error:
            raise UsageError(f"{policy.setting('devices').origin}: {error.what}", error.hint) from None


def _check_archs(policy: Policy) -> None:
    entries: Any = policy.setting("files").value
    wanted = [policy.setting("require_archs"), *(each.settings.get("require_archs") for each in entries)]
    for name, origin in ((name, setting.origin) for setting in wanted if setting for name in setting.value):
        if not REQUIREMENT.fullmatch(name):
            raise UsageError(f"{origin}: {name!r} is not an arch", "sm_90a is machine code, compute_120 PTX")


# ---- a file ---------------------------------------------------------------------------------------------------------


def layer(root: Node, folder: str = "") -> Layer:
    """What the file says. ``folder``: where the file lies, for the paths in it."""
    known = keys()
    table = _mapping(root, ("version", *known, "severity", "kernels", "accept", "labels"))
    if "version" in table:
        version = table["version"]
        if isinstance(version.value, bool) or version.value != VERSION:
            raise version.error(
                f"version {described(version.value)} is not known", f"this release reads version {VERSION}"
            )
    settings = _settings(table, [name for name in table if name in known], folder)
    levels = _levels(table["severity"]) if "severity" in table else {}
    entries = [_override(node, folder) for node in _list(table["kernels"])] if "kernels" in table else []
    accept = [_acceptance(node) for node in _list(table["accept"])] if "accept" in table else []
    labels = _labels(table["labels"]) if "labels" in table else {}
    return Layer(settings=settings, levels=levels, entries=tuple(entries), accept=tuple(accept), labels=labels)


def _labels(node: Node) -> dict[str, Setting[tuple[str, ...]]]:
    if not isinstance(node.value, Mapping):
        raise node.error(f"must be a mapping, not {described(node.value)}")
    found = {}
    for name, listed in node.value.items():
        if not re.fullmatch(LABEL, str(name)):
            raise listed.error(
                f"{described(name)} is not a template's name", "its last word, without namespaces: Mainloop"
            )
        words = ["" if each.value in (None, "") else _word(each) for each in _list(listed)]
        wrong = next((word for word in words if word and not re.fullmatch(LABEL, word)), None)
        if wrong is not None:
            raise listed.error(f"{described(wrong)} is not a parameter's name", "letters, digits and _, or nothing: ''")
        found[str(name)] = Setting(tuple(words), listed.place)
    return found


def _acceptance(node: Node) -> Acceptance:
    table = _mapping(node, ("gap", "match", "reason"))
    for name in ("gap", "reason"):
        if name not in table:
            raise node.error(f"an entry of accept must say its {name}")
    return Acceptance(
        gap=_choice(table["gap"], gaps()),
        match=_patterns(table["match"])[0] if "match" in table else "*",
        reason=_word(table["reason"]),
        origin=node.place,
    )


def _override(node: Node, folder: str) -> Override:
    table = _entry(node, "kernels", SELECTORS, "give match, arch or unit", effects())
    return Override(
        match=_patterns(table["match"]) if "match" in table else (),
        arch=_patterns(table["arch"]) if "arch" in table else (),
        unit=_patterns(table["unit"]) if "unit" in table else (),
        settings=_settings(table, per_kernel(), folder),
        levels=_levels(table["severity"]) if "severity" in table else {},
        launch=Setting(_launch(table["launch"]), table["launch"].place) if "launch" in table else None,
        reason=_word(table["reason"]) if "reason" in table else "",
        origin=node.place,
    )


def _file_entry(node: Node, folder: str) -> FileEntry:
    table = _entry(node, "files", ("match",), "give match", FILES)
    return FileEntry(
        match=_patterns(table["match"]),
        settings=_settings(table, FILES, folder),
        reason=_word(table["reason"]) if "reason" in table else "",
        origin=node.place,
    )


def _entry(node: Node, of: str, selectors: Sequence[str], hint: str, effects: Sequence[str]) -> Mapping[str, Node]:
    """What an entry says; it must say which it means, and set something."""
    table = _mapping(node, (*selectors, *effects, "reason"))
    if not any(key in table for key in selectors):
        raise node.error(f"an entry of {of} must say which it means", hint)
    if not any(key in table for key in effects):
        raise node.error("this entry sets nothing", f"give one of {', '.join(effects)}")
    return table


def _settings(table: Mapping[str, Node], names: Sequence[str], folder: str) -> dict[str, Setting[Value]]:
    said = {name: table[name] for name in names if name in table}
    return {name: Setting(_value(keys()[name], node, folder), node.place) for name, node in said.items()}


def _value(key: Key, node: Node, folder: str) -> Value:
    if key.kind == "limit":
        return None if node.value == "none" else _whole(node, 0, key.largest, "or none")
    if key.kind == "files":
        return tuple(_file_entry(each, folder) for each in _list(node))
    if key.kind == "count":
        return _whole(node, 0, LARGEST)
    if key.kind == "flag":
        return _truth(node, key.name)
    if key.kind == "names":
        return tuple(_words(node))
    if key.kind == "path":
        return os.path.normpath(os.path.join(folder, _word(node)))
    return _choice(node, key.choices)


def _truth(node: Node, name: str) -> bool:
    if not isinstance(node.value, bool):
        raise node.error(f"{name} must be true or false, not {described(node.value)}")
    return node.value


def _levels(node: Node) -> dict[str, Setting[Level]]:
    table = _mapping(node, all_rules(), "rule")
    return {rule: Setting(cast(Level, _choice(level, LEVELS)), level.place) for rule, level in table.items()}


def _launch(node: Node) -> Launch:
    table = _mapping(node, (*LAUNCH_KEYS, OVERRIDE))
    if "threads_per_block" not in table:
        raise node.error("a launch must say threads_per_block")
    wins = OVERRIDE in table and _truth(table[OVERRIDE], OVERRIDE)
    figures = {name: _whole(value, *LAUNCH_KEYS[name]) for name, value in table.items() if name != OVERRIDE}
    return launch("override" if wins else "policy", **figures)


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
        raise node.error(f"must be a mapping, not {described(node.value)}")
    for name, value in node.value.items():
        if name not in known:
            raise value.error(f"unknown {what} {described(name)}", nearest(name, known))
    return node.value


def _list(node: Node) -> Sequence[Node]:
    if not isinstance(node.value, Sequence) or isinstance(node.value, str):
        raise node.error(f"must be a list, not {described(node.value)}")
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
        raise node.error(f"must be a word, not {described(node.value)}")
    return node.value


def _whole(node: Node, least: int, most: int, also: str = "") -> int:
    value: Any = node.value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        span = f"of {least:,} or more" if most == LARGEST else f"from {least:,} to {most:,}"
        wanted = f"a whole number {span} {also}".rstrip()
        raise node.error(f"must be {wanted}, not {described(node.value)}")
    return value


def _choice(node: Node, choices: Sequence[str]) -> str:
    if not isinstance(node.value, str) or node.value not in choices:
        raise node.error(f"must be {', '.join(choices[:-1])} or {choices[-1]}, not {described(node.value)}")
    return node.value


# ---- environment and options ----------------------------------------------------------------------------------------


def from_environment(variables: Mapping[str, str]) -> Layer:
    """What the environment says; an empty variable says nothing.

    A variable that is called almost like one of ours is an error: its writer believes that it holds.
    """
    ours = {key.variable: key for key in keys().values()}
    settings: dict[str, Setting[Value]] = {}
    levels: dict[str, Setting[Level]] = {}
    for name in sorted(variables):
        text = variables[name].strip()
        if not name.startswith(PREFIX) or not text or name == CONFIG:
            continue
        try:
            if name in ours:
                settings[ours[name].name] = Setting(value_of(ours[name], text), name)
            elif name == SEVERITY:
                pairs = [level_of(part) for part in text.split(",")]
                levels = {rule: Setting(word, name) for rule, word in pairs}
            else:
                from difflib import get_close_matches

                if near := get_close_matches(name, (*ours, SEVERITY, CONFIG), n=1, cutoff=0.85):
                    raise UsageError("no such variable", f"did you mean {near[0]}?")
        except UsageError as error:
            raise UsageError(f"{name}: {error.what}", error.hint) from None
    return Layer(settings=settings, levels=levels)


def from_options(
    texts: Mapping[str, str], severities: Collection[str], launches: Collection[str], accepted: Collection[str] = ()
) -> Layer:
    """What the command line says: words by key, and ``--severity``, ``--launch`` and ``--accept`` as written."""
    pairs = [level_of(text) for text in severities]
    entries = []
    for text in launches:
        pattern, launch = parse_launch(text)
        compiled(pattern)
        entries.append(Override(match=(pattern,), launch=Setting(launch, "--launch"), origin="--launch"))
    return Layer(
        settings={name: Setting(_given(keys()[name], text), keys()[name].option) for name, text in texts.items()},
        levels={rule: Setting(word, "--severity") for rule, word in pairs},
        entries=tuple(entries),
        accept=tuple(map(_accepted, accepted)),
    )


def _given(key: Key, text: str) -> Value:
    try:
        return value_of(key, text)
    except UsageError as error:
        raise UsageError(f"{key.option}: {error.what}", error.hint) from None


def _accepted(text: str) -> Acceptance:
    """``GAP`` or ``GAP=GLOB`` of an option; :class:`~spillscan.UsageError` where there is no such kind."""
    code, _, pattern = text.partition("=")
    if code not in gaps():
        raise UsageError(f"{_ACCEPT} {text[:60]}: there is no gap {code[:60]!r}", "`spillscan explain` lists all")
    compiled(pattern)
    return Acceptance(gap=code, match=pattern or "*", reason=f"{_ACCEPT} {text}", origin=_ACCEPT)
