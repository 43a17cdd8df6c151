"""Policy layers from a file and from options. Only :func:`load` accesses files, which it finds and reads."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from spillscan.judging.policy import file
from spillscan.judging.policy.effective import Acceptance, Layer, Override, Policy, Setting
from spillscan.model import Launch
from spillscan.model.gaps import gaps
from spillscan.model.nodes import Node, described, parse_yaml
from spillscan.model.patterns import compiled
from spillscan.occupancy.devices import device
from spillscan.occupancy.launches import launch, parse_launch
from spillscan.output.errors import UsageError, nearest
from spillscan.output.files import read_text

NAME = "spillscan.yaml"
LARGEST_BYTES = 8 << 20
"""Largest policy file; a larger file was named by mistake."""


def load(options: Layer, *, config: str | None, search: bool, today: date | None = None) -> Policy:
    """Policy in effect: defaults < file < options.
    ``config`` names the file; without it, the file is searched for if ``search`` is set. Raises :class:`UsageError`
    with the place of the first mistake.
    """
    path = config or (find() if search else None)
    return Policy((*([read(path)] if path else []), options), day=today)


def find(folder: str | os.PathLike[str] = ".") -> str | None:
    """Policy file of ``folder``, or of the nearest of its parents that has one, up to the root of the repository.

    Outside a repository, only ``folder`` itself counts: the folders above it are not part of the project.
    """
    here = Path(os.path.realpath(folder))
    folders = (here, *here.parents)
    root = next((each for each in folders if (each / ".git").exists()), here)
    for each in folders[: folders.index(root) + 1]:
        path = os.path.relpath(each / NAME)
        if os.path.lexists(other := path.removesuffix("yaml") + "yml"):
            raise UsageError(f"{other} is not read", f"rename it to {NAME}")
        if os.path.lexists(path):
            return path
    return None


def read(path: str) -> Layer:
    """Layer from the file at ``path``."""
    return layer(parse_yaml(read_text(path, LARGEST_BYTES, "a policy"), path), os.path.dirname(path))


def layer(root: Node, folder: str = "") -> Layer:
    """Layer from a parsed file; ``folder`` is the file's, to resolve relative paths in it."""
    content = file.policy_file(root)
    nodes: Any = root.value
    override = partial(_override, os.path.join(os.path.abspath(folder), ""))
    return Layer(
        settings=_settings(content, root, folder),
        entries=tuple(map(override, content.kernels, nodes["kernels"].value if content.kernels else ())),
        accept=tuple(map(_acceptance, content.accept, nodes["accept"].value if content.accept else ())),
        renamed=tuple(_renamed(nodes["renamed"].value[old], old, new) for old, new in content.renamed.items()),
    )


def _renamed(node: Node, old: str, new: str) -> tuple[str, str]:
    """A pair of ``renamed``; raise an error unless both have as many stars."""
    if not old or not new or not isinstance(new, str) or old.count("*") != new.count("*"):
        raise node.error(f"{old!r} and {new!r} must be two names with the same number of stars")
    return old, new


def _settings(limits: file.Limits, node: Node, folder: str = "") -> dict[str, Setting]:
    """Values by key and severities by rule, each with its place."""
    nodes: Any = node.value
    settings = {
        name: Setting(_checked(name, getattr(limits, name), nodes[name], folder), nodes[name].place)
        for name in file.KEYS
        if name in nodes and getattr(limits, name) is not None
    }
    for rule, level in limits.severity.items():
        of_rule = nodes["severity"].value[rule]
        _check_known(of_rule, "rule", rule, _rules())
        _check_known(of_rule, "severity", level, file.LEVELS)
        settings[rule] = Setting(level, of_rule.place)
    return settings


def _checked(name: str, value: Any, node: Node, folder: str) -> Any:
    if name == "baseline" and value != "none":
        return os.path.normpath(os.path.join(folder, value))
    if name == "devices":
        for word in file.words(value):
            _check(node, device, word)
    elif name == "require_archs":
        from spillscan.builds.coverage import REQUIREMENT

        for word in file.words(value):
            if not REQUIREMENT.fullmatch(word):
                raise node.error(f"{word!r} is not an arch", "write one such as sm_90a, or compute_120 for PTX")
    return file.value_of(value)


def _override(folder: str, entry: file.KernelEntry, node: Node) -> Override:
    nodes: Any = node.value
    chosen = [name for name in ("match", "arch", "unit") if name in nodes]
    if not chosen:
        raise node.error("this entry of `kernels` lacks match, arch and unit", "set at least one of them")
    if not {*file.LIMITS, "severity", "launch"} & nodes.keys():
        raise node.error("this entry sets nothing", f"set launch, severity, or a limit: {', '.join(file.LIMITS)}")
    settings = _settings(entry, node)
    if entry.launch is not None:
        settings["launch"] = Setting(_launch(entry.launch, nodes["launch"]), nodes["launch"].place)
    patterns = {name: _patterns(getattr(entry, name), nodes[name]) for name in chosen}
    return Override(**patterns, folder=folder, settings=settings, reason=entry.reason or "", origin=node.place)


def _launch(entry: file.LaunchEntry, node: Node) -> Launch:
    nodes: Any = node.value
    values = {name: value for name, value in structs.asdict(entry).items() if name in nodes and name != "override"}
    return launch("override" if entry.override else "policy", **values)


def _acceptance(entry: file.AcceptEntry, node: Node) -> Acceptance:
    nodes: Any = node.value
    if (entry.rule is None) == (entry.gap is None):
        raise node.error("an `accept` entry needs either `rule` or `gap`", "set exactly one of them")
    if entry.rule is not None:
        _check_known(nodes["rule"], "rule", entry.rule, _rules())
    if entry.gap is not None:
        _check_known(nodes["gap"], "gap", entry.gap, gaps())
    for name in ("kernel", "arch"):
        _patterns(getattr(entry, name), nodes.get(name, node))
    return Acceptance(**structs.asdict(entry), origin=node.place)


def _patterns(value: file.Words, node: Node) -> tuple[str, ...]:
    for pattern in file.words(value):
        _check(node, compiled, pattern)
    return file.words(value)


def _rules() -> Collection[str]:
    from spillscan.judging.rules import all_rules  # slow: only for a policy that names rules

    return all_rules()


def _check_known(node: Node, what: str, name: object, known: Collection[str]) -> None:
    if name not in known:
        raise node.error(f"unknown {what} {described(name)}", nearest(str(name), known) or "see `spillscan explain`")


def _check(node: Node, check: Callable[[str], object], value: str) -> None:
    try:
        check(value)
    except UsageError as error:
        raise node.error(error.what, error.hint) from None


# ---- options ----------------------------------------------------------------------------------------------------

_OF_OPTION = {"fail_on": "--fail-on", "baseline": "--baseline", "devices": "--device"}
"""Keys that have options of their own."""


def from_options(
    texts: Mapping[str, str],
    severities: Collection[str] = (),
    launches: Collection[str] = (),
    accepted: Collection[str] = (),
    renamed: Collection[str] = (),
    *,
    strict: bool = False,
) -> Layer:
    """Layer of the command line, read as if it were in a file.

    ``texts``: values by key; the others are the values of ``--severity``, ``--launch``, ``--accept`` and ``--rename``.
    """
    table = {name: _node(name, text) for name, text in texts.items()}
    if severities:
        levels = dict(map(_level_of, severities))
        table["severity"] = Node({rule: Node(level, "--severity") for rule, level in levels.items()}, "--severity")
    if renamed:
        pairs = (text.partition("=") for text in renamed)
        table["renamed"] = Node({old: Node(new, "--rename") for old, _, new in pairs}, "--rename")
    if accepted:
        table["accept"] = Node([_accepted(text) for text in accepted], "--accept")
    entries = tuple(map(_launched, launches))
    return structs.replace(layer(Node(table, "--set")), entries=entries, strict=strict)


def _launched(text: str) -> Override:
    pattern, launch = parse_launch(text)
    compiled(pattern)
    return Override(match=(pattern,), settings={"launch": Setting(launch, "--launch")}, origin="--launch")


def _node(name: str, text: str) -> Node:
    place = _OF_OPTION.get(name, "--set")
    if name in ("devices", "require_archs"):
        return Node([Node(word.strip(), place) for word in text.split(",")], place)
    is_number = name != "baseline" and text.isascii() and text.isdecimal()
    return Node(int(text) if is_number and len(text) < 19 else text, place)


def _level_of(text: str) -> tuple[str, str]:
    rule, equals, level = (part.strip() for part in text.partition("="))
    if not equals:
        raise UsageError(f"--severity: {text[:60]!r} has no level", "write RULE=LEVEL, such as spill=warning")
    return rule, level


def _accepted(text: str) -> Node:
    """``CODE`` or ``CODE=GLOB`` of --accept; a code that is both a gap and a rule means the gap."""
    code, _, pattern = text.partition("=")
    if code not in gaps():
        _check_known(Node(code, "--accept"), "rule or gap", code, [*_rules(), *gaps()])
    kind = "gap" if code in gaps() else "rule"
    fields = {kind: code, "kernel": pattern or "*", "reason": f"--accept {text}"}
    return Node({name: Node(value, "--accept") for name, value in fields.items()}, "--accept")
