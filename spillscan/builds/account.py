"""The account of a build: what was to be compiled against what is known to be, each difference a gap with its name.

What files are there, and how old they are, is reported by a :class:`Tree`: :class:`Files` in earnest.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple, Protocol

from msgspec.structs import replace

from spillscan.builds import compilation, records
from spillscan.builds.compilation import parse
from spillscan.builds.databases import expected, real_path, seen_from_here
from spillscan.model import Issue, Origin
from spillscan.model.units import Unit

RECORD, RUN = "record", "run"
"""Evidence of a unit: the record file of ``spillscan wrap``, the calls that ``spillscan run`` saw."""


class File(NamedTuple):
    """A file as it is now."""

    seconds: float
    """When it was written, since the epoch."""
    digest: str
    """SHA-256 of its bytes, in hexadecimal; empty where nobody asked."""


class Tree(Protocol):
    """The files of a build as they are now."""

    def file(self, path: str, *, digest: bool = False) -> File | None:
        """``path``, if it is there."""


def merged(seen: Iterable[Unit], expected: Iterable[Unit], tree: Tree) -> list[Unit]:
    """What is known of each unit: ``seen`` by a compilation, the last of each object, and what is ``expected``."""
    found: dict[str, Unit] = {}
    for unit in seen:
        found[_key(unit)] = unit
    for unit in expected:
        known = found.get(_key(unit))
        if known is not None:
            found[_key(unit)] = with_list(known, unit)
        else:
            there = tree.file(unit.object) is not None
            found[_key(unit)] = replace(unit, state="unknown" if there else "not-begun")
    return list(found.values())


def with_list(known: Unit, unit: Unit) -> Unit:
    """What is ``known`` of a unit, with what a list says of it."""
    evidence = dict.fromkeys((*known.evidence, *unit.evidence))
    return replace(known, source=known.source or unit.source, evidence=tuple(evidence))


def _key(unit: Unit) -> str:
    return real_path(unit.object) if unit.object else f"{unit.folder}\0{unit.source}"


def issues(
    units: Sequence[Unit], read: frozenset[str], tree: Tree, wanted: Mapping[str, Sequence[str]] | None = None
) -> Iterator[Issue]:
    """What the units leave open. ``read``: the real paths of objects whose machine code was read, which says what their
    compilers did not; ``wanted``: by such a path, the command that its build system has for it today."""
    for unit in units:
        yield from _ended(unit)
        if unit.state in ("done", "unknown"):
            path = real_path(unit.object) if unit.object else ""
            if unit.reported is not True and path not in read:
                yield _issue("unreported-unit", f"nothing says what the kernels of {unit.name} use", unit)
            elif why := _stale(unit, tree, (wanted or {}).get(path, ())):
                yield _issue("stale-unit", why, unit)


def _ended(unit: Unit) -> Iterator[Issue]:
    status = unit.status
    match unit.state:
        case "failed":
            yield _issue("build-failed", f"{unit.name} failed to compile (exit status {status})", unit)
        case "killed":
            yield _issue(
                "unfinished-unit", f"the compilation of {unit.name} was killed by signal {-(status or 0)}", unit
            )
        case "unfinished":
            yield _issue("unfinished-unit", f"the compilation of {unit.name} began and never ended", unit)
        case "not-begun":
            says = os.path.basename(unit.evidence[0]) if unit.evidence else "the build"
            yield _issue("unreported-unit", f"{says} says that {unit.name} is to be compiled; it was not", unit)


def _stale(unit: Unit, tree: Tree, wanted: Sequence[str]) -> str:
    """Why what is known of a unit is not of its source as it is now; empty: nothing says so."""
    for path, digest in unit.digests:
        now = tree.file(os.path.join(unit.folder, path), digest=True)
        if now is not None and now.digest and now.digest != digest:
            return f"{path} was changed after it was compiled"
    if not unit.digests and unit.source and unit.object:
        source, made = tree.file(unit.source), tree.file(unit.object)
        if source is not None and made is not None and source.seconds > made.seconds:
            return f"{unit.source} is newer than what was compiled of it"
    if wanted and unit.command and (changed := _other_options(unit.command, wanted)):
        return f"{unit.name} is to be compiled with other options now: {changed}"
    return ""


_WITHOUT_EFFECT = frozenset({"-c", "-dc", "-MD", "-MMD", "-MP", "--verbose", "-v", "-Xptxas", "--resource-usage"})
_WITH_VALUE_WITHOUT_EFFECT = frozenset({"-o", "-MF", "-MT", "-MQ", "-x", "--output-file"})
_IN_FILES = ("--options-file", "-optf", "@")


def _other_options(before: Sequence[str], now: Sequence[str]) -> str:
    """The options in which two commands for one object differ, in words; empty: in none that is known to matter."""
    was, wants = _options(before), _options(now)
    if was is None or wants is None:
        return ""
    return " ".join(sorted(was ^ wants)[:_NAMED_OPTIONS])


_NAMED_OPTIONS = 4


def _options(words: Sequence[str]) -> frozenset[str] | None:
    """What decides the machine code that a command makes, but for its sources; ``None`` where that is in files."""
    parsed = compilation.parse(words)
    if parsed is None or any(word.startswith(_IN_FILES) for word in words):
        return None
    mine = words[parsed.tool_index + 1 :]
    return frozenset(
        word
        for before, word in pairwise(["", *mine])
        if word not in _WITHOUT_EFFECT
        and word not in _WITH_VALUE_WITHOUT_EFFECT
        and before not in _WITH_VALUE_WITHOUT_EFFECT
        and not word.endswith(compilation.SOURCES)
    )


def _issue(code: str, message: str, unit: Unit) -> Issue:
    where = unit.object or unit.source
    return Issue(code=code, message=message, severity="error", origin=Origin(input=where, format="unit"))


# The account of a build that was read: its units, by records, by runs, and by what its build systems list.


class Files:
    """The files of a build as they are now, each looked at once."""

    def __init__(self) -> None:
        self.file = cache(self._file)

    def _file(self, path: str, *, digest: bool = False) -> File | None:
        try:
            seconds = os.stat(path).st_mtime
        except OSError:
            return None
        held = records.digest_of(path) if digest else ""
        return None if held is None else File(seconds, held)


def of_record(path: str) -> Unit | None:
    """The unit whose record file ``path`` is; ``None`` where it is no record that can be read."""
    said = records.recorded(path)
    if said is None:
        return None
    parsed = parse(said.command)
    source = "" if parsed is None else parsed.source
    status = said.status
    return Unit(
        source=seen_from_here(os.path.join(said.folder, source), os.path.dirname(path)) if source else "",
        object=records.object_of(path),
        record=path,
        folder=said.folder,
        command=said.command,
        state="done" if not status else "killed" if status < 0 else "failed",
        status=status,
        digests=said.digests,
        evidence=(RECORD,),
    )


def of_build(folders: Iterable[str], seen: Sequence[Unit], read: Iterable[str]) -> tuple[list[Unit], list[Issue]]:
    """The units of a build, of whose inputs these are ``folders``, and what they leave open. ``seen``: by records and
    runs; ``read``: the objects and libraries whose machine code was read."""
    listed = [unit for folder in folders for unit in expected(folder)]
    files = Files()
    units = merged(seen, listed, files)
    wanted = {real_path(unit.object): unit.command for unit in listed if unit.command}
    return units, list(issues(units, frozenset(map(real_path, read)), files, wanted))
