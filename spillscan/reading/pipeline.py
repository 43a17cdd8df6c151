"""The pipeline: sources -> readers -> records -> one build. Inputs keep their order, whatever runs first."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from spillscan.builds import buildfile
from spillscan.builds.records import draft_of, is_orphan, object_of
from spillscan.model import Build, Issue, Kernel, Origin, Reading, Stats
from spillscan.output import folders
from spillscan.output.errors import InputError, NoBuildError
from spillscan.output.nouns import count
from spillscan.reading.inputs import sidecars, source
from spillscan.reading.inputs.source import Options
from spillscan.reading.readers import contents, unreadable

if TYPE_CHECKING:
    from spillscan.model.code import PortableCode
    from spillscan.model.units import Unit

KeptBuilds = Callable[[str, str], Build]
"""Gives a build by the place of its dataset and its label."""

HINT = "compile with nvcc -Xptxas -v (or --resource-usage) and keep its standard error"


class Watch(Protocol):
    """Is kept informed while inputs are read."""

    def expect(self, sources: Sequence[source.Source]) -> None:
        """These will be read, in this order."""

    def read(self, each: source.Source, read_bytes: int) -> None:
        """So many bytes of ``each`` were read, as they lie on disk."""


def scan(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    watch: Watch | None = None,
    *,
    operands: bool = False,
    live: bool = False,
    unpacking: Mapping[str, int] | None = None,
    load_kept: KeptBuilds | None = None,
) -> Build:
    """Read logs, dumps, binaries, folders of them, glob patterns, snapshots and ``-`` (standard input) into one build.

    ``watch`` learns how far it is. ``operands``: also read what the operands of dumped instructions name, which takes
    longer; ``live``: also how many registers are live at once in binaries. ``unpacking``: fields of
    :class:`Limits` that are not to be the default; ``load_kept``: what gives a build of a dataset by its
    place and label (``data/@v1``). Raises
    :class:`~spillscan.InputError` where an input cannot be read or nothing in all of them is understood.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    sources = source.expand([os.fspath(path) for path in paths])
    beside = [found for each in sources if each.explicit for found in _beside(each.uri)]
    sources += [source.Source(found, explicit=False) for found in beside]
    options = Options(operands=operands, live=live, unpacking=unpacking or {})
    total, names = Reading(), {os.path.abspath(each.uri): each.uri for each in sources}
    if watch is not None:
        watch.expect(sources)
    for each in sources:
        reading = _read(each, options, None if watch is None else partial(watch.read, each), load_kept)
        if reading is None:
            continue
        if not each.explicit and (made_of := _made_of(reading, each.uri, names)):
            message = f"{each.uri} is a report of {made_of}, which is read itself: it is left out"
            note = Issue(code="left-out-report", message=message, severity="note", origin=Origin(input=each.uri))
            total.issues.append(note)
            continue
        total.add(reading)
        gaps = any(issue.hidden for issue in reading.issues)
        if each.explicit and len(sources) > 1 and not (reading.understood or gaps or reading.units):
            message = f"no ptxas or nvlink report in {each.uri}"
            total.issues.append(Issue(code="nothing-recognised", message=message, origin=Origin(input=each.uri)))
    folders_given = [os.fspath(path) for path in paths if os.path.isdir(path)]
    if total.units or folders_given:
        from spillscan.builds import account

        unread = {issue.origin.input for issue in total.issues if issue.code == "unreadable" and issue.origin}
        read = {each.uri for each in sources} - unread
        total.units, open_units = account.of_build(folders_given, total.units, read)
        total.issues += open_units
    if not total.understood:
        refused = next((issue for issue in total.issues if issue.code == "unsupported-arch"), None)
        if refused is not None:
            raise InputError(f"{refused.origin}: {refused.message}", "dump the code of a later architecture")
        if remains := next((issue for issue in total.issues if issue.hidden), None):
            hint = f"`spillscan explain {remains.code}` says what to do"
            raise InputError(f"{remains.origin}: {remains.message}", hint)
        raise InputError(f"no ptxas or nvlink report in {_named(sources, paths)}", HINT)
    return build_of(total)


def _beside(path: str) -> list[str]:
    """What speaks of the same code as the input ``path``, and was not given."""
    return sidecars.beside(path) or buildfile.objects_of(path)


def _made_of(reading: Reading, name: str, names: Mapping[str, str]) -> str:
    """The one of the inputs ``names`` (by absolute path) that what stands in ``name`` was read from, as a report in
    JSON says that lies in the folder of its inputs; empty where there is none."""
    own = os.path.abspath(name)
    for place in sorted({kernel.origins[0].input for kernel in reading.kernels if kernel.origins} - {name}):
        within = os.path.abspath(place)
        while within not in (own, os.path.dirname(within)):
            if within in names:
                return names[within]
            within = os.path.dirname(within)
    return ""


def build_of(reading: Reading) -> Build:
    """What was read, with the linker's figures and the machine code joined to the kernels that they are about."""
    kernels, issues = list(reading.kernels), list(reading.issues)
    if reading.links:
        from spillscan.reading.join import merge_links

        kernels = merge_links(kernels, reading.links)
    if reading.functions:
        from spillscan.reading.join import attach_code

        kernels, contradictions = attach_code(kernels, reading.functions)
        issues += contradictions
    if reading.sidecars:
        from spillscan.reading.join import attach_sidecars

        kernels, contradictions = attach_sidecars(kernels, reading.sidecars)
        issues += contradictions
    if reading.timings:
        from spillscan.reading.join import timed

        kernels = timed(kernels, reading.timings)
    said = {issue.origin for issue in issues if issue.code == "ptx-only"}  # by a snapshot
    issues += (issue for issue in still_portable(reading.portable, kernels) if issue.origin not in said)
    filled = {kernel.key.unit for kernel in kernels} if reading.empty_units else set()
    return Build(
        kernels=tuple(kernels),
        issues=tuple(issues),
        stats=reading.stats,
        portable=tuple(reading.portable),
        units=tuple(reading.units),
        empty_units=tuple(unit for unit in dict.fromkeys(reading.empty_units) if unit not in filled),
        timings=tuple(reading.timings),
        parameters=reading.parameters,
    )


def still_portable(modules: Iterable[PortableCode], kernels: Iterable[Kernel]) -> Iterator[Issue]:
    """What is still to be made machine code of is nothing that a gate has seen."""
    alone: dict[str, dict[str, None]] = {}
    known: set[str] | None = None
    for module in modules:
        if known is None:
            known = {kernel.key.symbol for kernel in kernels}
        if module.origin is not None:
            found = alone.setdefault(module.origin.input, {})
            found.update((symbol, None) for symbol in module.kernels or () if symbol not in known)
    for name, symbols in alone.items():
        if symbols:
            message = (
                f"{count(len(symbols), 'kernel stands', 'kernels stand')} in it as PTX alone: {next(iter(symbols))} …"
            )
            yield Issue(code="ptx-only", message=message, origin=Origin(input=name))


def _read(
    each: source.Source, options: Options, watch: Callable[[int], None] | None, load_kept: KeptBuilds | None
) -> Reading | None:
    """What one source holds; ``None`` for a file of a folder that is neither text nor holds machine code."""
    if made := draft_of(each.uri):
        running = folders.is_held(each.uri)
        killed = "was killed" if running is False else "still runs, or was killed"
        message = f"the compilation of {made} {killed}: it left no record; build it again"
        message = f"the build is running: {made} is being compiled" if running else message
        unfinished = Issue(code="unfinished-unit", message=message, severity="error", origin=Origin(input=each.uri))
        return Reading(issues=[unfinished])
    if not each.explicit and is_orphan(each.uri):
        message = f"{each.uri} is left over: the object that it is about is gone; delete it"
        left_over = Issue(code="left-over-record", message=message, severity="note", origin=Origin(input=each.uri))
        return Reading(issues=[left_over])
    if load_kept is not None and (kept := source.parse(each.uri)):
        build = load_kept(kept.root, kept.label)
        stats = replace(build.stats, recognised_lines=max(1, build.stats.recognised_lines))
        return Reading(kernels=list(build.kernels), issues=list(build.issues), stats=stats)
    unit = _unit_of(each.uri)
    if unit is not None and unit.state != "done":
        return Reading(units=[unit], stats=Stats(inputs=1, recognised_lines=1))  # its compiler made nothing
    try:
        with each.open(watch) as stream:
            kind = source.kind_of_binary(stream.head())
            before = stream.state()
            reading = contents(stream, each.uri, options, named=each.explicit)
            if before != stream.state():
                message = f"{each.uri} was written to while it was read: wait for the build's end"
                reading = reading or Reading()
                reading.issues.append(Issue(code="changed-input", message=message, origin=Origin(input=each.uri)))
    except InputError as error:
        if each.explicit:
            raise
        return None if isinstance(error, NoBuildError) else unreadable(each.uri, error)
    if unit is not None and reading is not None:
        reading.units.append(replace(unit, reported=reading.understood or None))
    if kind is None or (reading is not None and reading.understood):
        return reading
    if each.explicit:
        raise _without_code(each, kind, reading)
    return reading if reading is not None and reading.issues else None


def _unit_of(path: str) -> Unit | None:
    """The unit whose record file ``path`` is; most inputs are none."""
    if not object_of(path):
        return None
    from spillscan.builds import account

    return account.of_record(path)


def _without_code(each: source.Source, kind: str, reading: Reading | None) -> InputError:
    if reading is None:
        return InputError(f"{each.uri} is {kind}, not a build log", HINT)
    if reading.issues:
        return InputError(f"{each.uri} cannot be read: {reading.issues[0].message}", "fetch or build it again")
    return InputError(f"{each.uri} is {kind} without any GPU code: no machine code, no PTX", HINT)


def _named(sources: Sequence[source.Source], paths: Sequence[str | os.PathLike[str]]) -> str:
    if len(paths) == 1:
        given = os.fspath(paths[0])
        folder = f" ({count(len(sources), 'file')})" if os.path.isdir(given) else ""
        return ("standard input" if given == "-" else given) + folder
    return f"any of {count(len(sources), 'input')}"
