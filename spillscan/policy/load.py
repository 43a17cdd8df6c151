"""Finds and reads the policy file, and puts the layers together: the only module here that touches files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from spillscan.errors import UsageError
from spillscan.policy.document import layer
from spillscan.policy.effective import Policy
from spillscan.policy.layers import Layer
from spillscan.policy.words import CONFIG, from_environment

NAMES = ("spillscan.yaml", "spillscan.yml")
"""What a policy file is called; ``pyproject.toml`` may hold it, too."""
LARGEST_BYTES = 8 << 20
"""No policy is larger; what is was named by mistake."""


def load(options: Layer, *, config: str | None, search: bool, variables: Mapping[str, str]) -> Policy:
    """The policy that holds: defaults < file < environment < options.

    ``config`` names the file; without it ``SPILLSCAN_CONFIG`` does, or it is searched for where ``search`` allows.
    Raises :class:`~spillscan.errors.UsageError` for whatever is wrong with any of them: one line, with the place.
    """
    from spillscan.rules import all_rules

    rules = tuple(all_rules())
    path = config or (variables.get(CONFIG, "").strip() if search else "") or (find() if search else None)
    layers = [read(path, rules)] if path else []
    policy = Policy((*layers, from_environment(variables, rules), options))
    _check_devices(policy)
    return policy


def find(folder: str | os.PathLike[str] = ".") -> str | None:
    """The policy file of ``folder`` or the nearest of its parents that has one, up to the root of the repository.

    Outside of a repository only ``folder`` itself is looked at: what lies above it is somebody else's.
    """
    here = Path(folder).resolve()
    roots = [above for above in (here, *here.parents) if (above / ".git").exists()]
    folders = [above for above in (here, *here.parents) if above == here or (roots and above.is_relative_to(roots[0]))]
    for each in folders:
        found = [name for name in NAMES if (each / name).is_file()]
        if _has_table(each / "pyproject.toml"):
            found.append("pyproject.toml")
        if len(found) > 1:
            raise UsageError(f"two policies in {_shown(each) or '.'}: {' and '.join(found)}", "keep one of them")
        if found:
            return _shown(each / found[0])
    return None


def read(path: str, rules: tuple[str, ...]) -> Layer:
    """The layer that the file at ``path`` is."""
    text = _text(path)
    if path.endswith(".toml"):
        from spillscan.policy import tomltext

        root = tomltext.parse(text, path)
        if root is None:
            raise UsageError(f"{path} has no table [tool.spillscan]", "add it, or name another file")
    else:
        from spillscan.policy import yamltext

        root = yamltext.parse(text, path)
    return layer(root, rules, os.path.dirname(path))


def _has_table(path: Path) -> bool:
    """Whether a ``pyproject.toml`` speaks of spillscan; one that is broken is another tool's trouble unless it does."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    if "spillscan" not in text:
        return False
    from spillscan.policy import tomltext

    return tomltext.parse(text, _shown(path)) is not None


def _text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read the policy {path}: {error.strerror}") from None
    if len(data) > LARGEST_BYTES:
        raise UsageError(f"{path} is too large to be a policy")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{path}:{line}: not UTF-8") from None


def _shown(path: Path) -> str:
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
