"""Files to read: those that paths, folders, glob patterns and ``-`` name, and those that belong to them.

``data/@v1`` names a build of a dataset and is accepted wherever a path is.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from os.path import realpath
from typing import NamedTuple

from msgspec.structs import replace

from spillscan.output.errors import InputError
from spillscan.output.files import is_open_file, refuse_odd
from spillscan.reading.inputs import formats
from spillscan.reading.inputs.source import Source

_MARK = "/@"


class Reference(NamedTuple):
    """A build of a dataset."""

    root: str
    label: str


def parse(text: str) -> Reference | None:
    """Parse ``PLACE/@LABEL``; ``None`` for anything else, and for an existing file or folder of that name."""
    root, mark, label = text.partition(_MARK)
    if not mark or not root or not label or os.path.exists(text):
        return None
    return Reference(root, label)


def expand(inputs: Sequence[str], left_out: list[str] | None = None) -> list[Source]:
    """Sources named by ``inputs``: files, ``-``, folders (all files below, sorted), globs, builds of datasets.

    Adds files and folders that are skipped to ``left_out``. Raises :class:`~spillscan.InputError` for a path that does
    not exist or a pattern that matches nothing.
    """
    sources: list[Source] = []
    left_out = [] if left_out is None else left_out
    for given in inputs:
        if given == "-":
            sources.append(Source("-"))
        elif parse(given) is not None:
            sources.append(Source(given))
        elif _is_dataset(given):
            build = f"{given.rstrip('/')}{_MARK}LABEL"
            raise InputError(
                f"{given} is a dataset", f"pass a build: {build} (list: `spillscan history --all --dataset {given}`)"
            )
        elif os.path.isdir(given):
            sources.extend(Source(path, explicit=False) for path in _files_below(given, left_out))
        elif os.path.exists(given):
            if not is_open_file(given):
                refuse_odd(given, os.stat(given).st_mode)
            sources.append(Source(given))
        elif glob.has_magic(given) and (matching := sorted(glob.glob(given, recursive=True))):
            for path in matching:
                if not os.path.isdir(path):
                    sources.append(Source(path))
                elif "**" not in given:  # ** has already found its files
                    sources.extend(Source(below, explicit=False) for below in _files_below(path, left_out))
        else:
            raise InputError(f"no such file: {given}", _instead_of(given))
    return list(dict.fromkeys(sources))


def _instead_of(given: str) -> str:
    """Hint for a path that does not exist: an input to give instead."""
    if _REQUIREMENT.fullmatch(given):
        return f"download the wheel first: pip download --no-deps {given}"
    folder, _, label = given.rpartition("@")
    if folder and _is_dataset(folder):
        return f"pass a build of the dataset: {folder}/@{label}"
    return "pass an existing file or folder, or - for standard input"


_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*==[\w.!+-]+")


def _is_dataset(folder: str) -> bool:
    """Whether ``folder`` is a dataset of ``spillscan history audit``."""
    try:
        labels = os.listdir(os.path.join(folder, "commits"))
    except OSError:
        return False
    return any(label.startswith("label=") for label in labels)


_TOOLS_FOLDERS = frozenset(
    (
        *(".git", ".hg", ".svn", ".bzr", ".jj", ".idea", ".vs", ".vscode"),
        *(".venv", ".tox", ".nox", ".eggs", ".direnv", ".mypy_cache", ".pytest_cache", ".ruff_cache"),
    )
)
"""Hidden folders of tools, which contain no build."""


def _files_below(folder: str, left_out: list[str]) -> Iterator[str]:
    """All files below ``folder``, sorted, those of linked folders last. Each folder is visited once.

    A broken link counts as an unreadable file. Adds hidden files (ninja's state, drafts of reports), hidden folders of
    tools, and files of compiler checks by CMake and others to ``left_out``. Skips datasets, which contain other builds.
    """

    from spillscan.builds.checks import is_of_check

    def unreadable(error: OSError) -> None:
        raise InputError(f"cannot read {error.filename}: {error.strerror}") from error

    entered: set[str] = set()
    tops = [folder]
    for top in tops:
        for parent, folders, names in os.walk(top, onerror=unreadable):
            real = os.path.realpath(parent)
            if real in entered or _is_dataset(parent):
                folders.clear()
                continue
            entered.add(real)
            left_out += (os.path.join(parent, name) for name in sorted(_TOOLS_FOLDERS.intersection(folders)))
            folders[:] = sorted(name for name in folders if name not in _TOOLS_FOLDERS)
            tops += [path for name in folders if os.path.islink(path := os.path.join(parent, name))]
            for name in sorted(names):
                path = os.path.join(parent, name)
                if name.startswith(".") or is_of_check(path):
                    left_out.append(path)
                    continue
                if os.path.isfile(path) or (os.path.islink(path) and not os.path.exists(path)):
                    yield path


def with_companions(sources: Sequence[Source]) -> list[Source]:
    """``sources``, sidecars of given cubins, and outputs that run files name."""
    outputs = dict.fromkeys(output for each in sources for output in _outputs_of(each.uri))
    expected, known = {realpath(output) for output in outputs}, {realpath(each.uri) for each in sources}
    metadata = [path for each in sources if each.explicit for path in _sidecars_of(each.uri)]
    added = [*metadata, *(output for output in outputs if realpath(output) not in known)]
    everything = [*sources, *(Source(path, explicit=False) for path in added)]
    return [replace(each, expected=True) if realpath(each.uri) in expected else each for each in everything]


def _outputs_of(path: str) -> list[str]:
    """Outputs to read along with ``path``; empty if it is not a run file."""
    if not os.path.isfile(path) or formats.text_reader_of(_head(path, 64)) != "inputs.own_files":
        return []
    from spillscan.reading.inputs import own_files

    return own_files.outputs_of(path)


def _sidecars_of(path: str) -> list[str]:
    """Sidecars of a machine code file that was given without its folder."""
    if not path.endswith(".cubin"):
        return []
    others = (f"{place_of(path)}.{kind}" for kind in ("json", "ttir", "meta", "cu"))
    return [other for other in others if formats.text_reader_of(_head(other)) == "inputs.sidecars"]


def place_of(path: str) -> str:
    """Folder and stem, which related files share (``wp_m.sm90.cubin``, ``wp_m.meta``)."""
    return os.path.join(os.path.dirname(path), os.path.basename(path).partition(".")[0])


def _head(path: str, size: int = formats.HEAD_BYTES) -> bytes:
    """First bytes of a file; empty if it cannot be read."""
    with suppress(OSError), open(path, "rb") as file:
        return file.read(size)
    return b""
