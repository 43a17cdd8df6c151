"""What ``spillscan run`` leaves: a JSON file of a build, its units, and what their compilers said of kernels.

Paths are those from the file's own folder, so that it says the same in each checkout; what lies outside is absolute.
"""

from __future__ import annotations

import os
import re

import msgspec
from msgspec import Struct

from spillscan.builds.records import digest_of
from spillscan.model.units import Unit
from spillscan.output.errors import InputError

NAME = "spillscan-build.json"
"""What it is called where the user gives no name."""
FORMAT = "spillscan build 1"
_BEGINNING = re.compile(rb'\s*\{\s*"format"\s*:\s*"spillscan build ')
"""However other programs have laid the file out."""


class Kept(Struct, frozen=True, kw_only=True):
    """One unit, and what its compiler printed on standard error."""

    unit: Unit
    report: str = ""
    made: str = ""
    """SHA-256 of its object when the build had ended; empty where it was not seen to be made."""


class BuildFile(Struct, frozen=True, kw_only=True):
    """A build as it was watched."""

    format: str = FORMAT
    command: tuple[str, ...]
    """What was run."""
    folder: str = ""
    """Where it was run; empty in files of earlier releases."""
    status: int
    """Its exit status, below 0 the signal that ended it."""
    units: tuple[Kept, ...] = ()
    """By object, whenever each was compiled."""
    unexplained: tuple[str, ...] = ()
    """Objects with device code that the build wrote, and that no call which was seen explains."""
    notes: tuple[str, ...] = ()
    """What could not be seen, and why."""


def sniff(head: bytes) -> bool:
    """Whether a file that begins with ``head`` is one."""
    return _BEGINNING.match(head) is not None


def is_one(path: str) -> bool:
    """Whether ``path`` is such a file, as far as its beginning says."""
    try:
        with open(path, "rb") as file:
            return sniff(file.read(64))
    except OSError:
        return False


def encoded(build: BuildFile) -> str:
    """The file's text."""
    return msgspec.json.encode(build).decode() + "\n"


def read(path: str) -> BuildFile | None:
    """The build that the file ``path`` holds, its paths as seen from here; ``None`` where there is no file.

    Raises :class:`~spillscan.InputError` where it is no whole one.
    """
    try:
        with open(path, "rb") as file:
            return decoded(file.read(), path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


def decoded(data: bytes, name: str) -> BuildFile:
    """The build that a file holds, its paths as seen from here.

    Raises :class:`~spillscan.InputError` where it is damaged, or a later release wrote it.
    """
    try:
        build = msgspec.json.decode(data, type=BuildFile)
    except msgspec.DecodeError as error:
        raise InputError(
            f"{name} is not a complete record of a build: {error}", "run the build again: spillscan run"
        ) from None
    if build.format != FORMAT:
        raise InputError(f"{name} was written by a later release: {build.format[:40]!r}", "install a newer spillscan")
    return moved(build, os.path.dirname(name))


def moved(build: BuildFile, folder: str) -> BuildFile:
    """``build`` with all that is relative seen from where ``folder`` is."""
    if not folder:
        return build

    def here(path: str) -> str:
        return os.path.normpath(os.path.join(folder, path)) if path else path

    units = tuple(
        msgspec.structs.replace(
            kept,
            unit=msgspec.structs.replace(
                kept.unit,
                source=here(kept.unit.source),
                object=here(kept.unit.object),
                folder=here(kept.unit.folder),
                evidence=tuple(here(each) if os.sep in each else each for each in kept.unit.evidence),
            ),
        )
        for kept in build.units
    )
    unexplained = tuple(map(here, build.unexplained))
    return msgspec.structs.replace(build, folder=here(build.folder), units=units, unexplained=unexplained)


def objects_of(path: str) -> list[str]:
    """The objects of a file that are there, as seen from here, and are still what that build made: their machine code
    says more, and what no report does; none where ``path`` is no such file."""
    if not is_one(path):
        return []
    try:
        build = read(path)
    except InputError:  # who reads it says so
        return []
    assert build is not None
    named = [
        kept.unit.object
        for kept in build.units
        if kept.unit.state in ("done", "unknown") and (not kept.made or kept.made == digest_of(kept.unit.object))
    ]
    return [made for made in dict.fromkeys((*named, *build.unexplained)) if made and os.path.isfile(made)]
