"""What a table or git says of builds that are brought along from the past: their inputs, dates and order."""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from datetime import datetime

from spillscan.errors import InputError, UsageError
from spillscan.output.safe import clip, printable

_LABEL, _INPUT = "label", "input"
_SUFFIXES = re.compile(r"(?:\.(?:log|txt|json|jsonl|sass|gz|xz|bz2|zst|zip|tar|tgz|whl|so|a|o|cubin|fatbin))+\Z")
_SEPARATOR = "\x1f"
_FORMAT = _SEPARATOR.join(("%H", "%cI", "%aN", "%s"))
_KEYS = ("commit", "time", "author", "subject")

Meta = dict[str, dict[str, str]]
"""Label -> words of meta."""


def table(path: str) -> tuple[Meta, dict[str, list[str]]]:
    """(meta, inputs) of each label in a CSV: ``label``, where it is to name inputs ``input``, else words of meta. A
    label may have several lines, of which each names an input; empty cells say nothing.

    Raises :class:`~spillscan.errors.InputError` for what is no such table.
    """
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}", "give --meta KEY=VALUE, or a CSV") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8", "save it as UTF-8") from None
    try:
        heads, *rows = list(csv.reader(io.StringIO(text, newline=""), strict=True)) or [[]]
    except csv.Error as error:
        raise InputError(f"{path} is no CSV: {error}", "separate by commas, quote by double quotes") from None
    heads = [head.strip() for head in heads]
    if _LABEL not in heads or "" in heads or len(set(heads)) < len(heads):
        raise InputError(f"{path}: the first line must name a column `label`, and each column once")
    meta: Meta = {}
    inputs: dict[str, list[str]] = {}
    for number, row in enumerate(rows, 2):
        if not any(cell.strip() for cell in row):
            continue
        if len(row) != len(heads):
            raise InputError(f"{path}: row {number} has {len(row)} cells, the first line {len(heads)}")
        said = {head: cell.strip() for head, cell in zip(heads, row, strict=True) if cell.strip()}
        label = said.pop(_LABEL, "")
        if not label:
            raise InputError(f"{path}: row {number} has no label")
        if given := said.pop(_INPUT, None):
            inputs.setdefault(label, []).append(given)
        words = meta.setdefault(label, {})
        for key, value in said.items():
            if words.setdefault(key, value) != value:
                shown = clip(printable(label), 40)
                raise InputError(f"{path}: row {number} says another {printable(key)} of {shown} than a row before")
    for label, words in meta.items():
        _check_time(words, f"{path}: {clip(printable(label), 40)}")
    return meta, inputs


def _check_time(words: Mapping[str, str], where: str) -> None:
    try:
        datetime.fromisoformat(words.get("time", "2000-01-01"))
    except ValueError:
        shown = clip(printable(words["time"]), 40)
        raise InputError(f"{where}: time {shown!r} is no date", "write it as 2026-03-01T12:00:00Z") from None


def label_of(path: str) -> str:
    """What a build is called that lies in this folder or file: its name, without the suffix of a file."""
    name = os.path.basename(os.path.normpath(path))
    return name if os.path.isdir(path) else _SUFFIXES.sub("", name) or name


def commits(repository: str, revisions: Mapping[str, str]) -> Meta:
    """What git says of each label by its revision: ``commit``, ``time`` of the commit, ``author``, ``subject``, and
    ``commits``, how many it has before it and is: no commit has as few as one that it follows.

    Raises :class:`~spillscan.errors.UsageError` where there is no repository, or it does not know a revision.
    """
    _git(repository, "rev-parse", "--git-dir", wrong=f"--git: {repository} is in no git repository")
    if _git(repository, "rev-parse", "--is-shallow-repository") == "true\n":
        raise UsageError("--git: this clone is shallow, so commits cannot be counted", "git fetch --unshallow")
    found: Meta = {}
    for label, revision in revisions.items():
        shown = clip(printable(revision), 60)
        unknown = f"--git: git knows no commit {shown!r} of the build {clip(printable(label), 60)}"
        named = f"{revision}^{{commit}}"
        commit = _git(repository, "rev-parse", "--verify", "--quiet", "--end-of-options", named, wrong=unknown).split()
        said = _git(repository, "log", "-1", "--no-show-signature", f"--format={_FORMAT}", commit[-1])
        words = dict(zip(_KEYS, said.rstrip("\n").split(_SEPARATOR), strict=False))
        count = _git(repository, "rev-list", "--count", commit[-1]).strip()
        found[label] = {key: value for key, value in words.items() if value} | {"commits": count}
    return found


def _git(repository: str, *arguments: str, wrong: str = "--git: git cannot be asked") -> str:
    try:
        done = subprocess.run(["git", "-C", repository, *arguments], capture_output=True, check=False)
    except (OSError, ValueError) as error:  # a null character is a ValueError
        raise UsageError(f"--git: cannot run git: {getattr(error, 'strerror', None) or error}") from None
    if done.returncode:
        hint = "the label must be a revision, or the table have a column `commit`" if "no commit" in wrong else ""
        raise UsageError(wrong, hint)
    return done.stdout.decode("utf-8", "replace")


def distinct(paths: Iterable[str]) -> dict[str, list[str]]:
    """Each path as a build of its own, by label."""
    found: dict[str, list[str]] = {}
    for path in paths:
        label = label_of(path)
        if label in found:
            raise UsageError(f"{found[label][0]} and {path} are both called {clip(printable(label), 60)}", "rename one")
        found[label] = [path]
    return found
