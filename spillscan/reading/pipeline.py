"""Read sources with their readers and join the records into one build. Inputs keep their order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from spillscan.builds import compilation
from spillscan.model import Build, Issue, Kernel, Origin, Reading
from spillscan.output.errors import InputError, NoBuildError
from spillscan.output.nouns import count, listed
from spillscan.reading.inputs import build_file, sidecars, source
from spillscan.reading.inputs.source import Options
from spillscan.reading.readers import contents, unreadable

if TYPE_CHECKING:
    from spillscan.model.code import PortableCode

KeptBuilds = Callable[[str, str], Build]
"""Returns a build, given its dataset's path and its label."""

HINT = "compile with nvcc -Xptxas -v (or --resource-usage) and keep its standard error"


class Watch(Protocol):
    """Progress callbacks for reading inputs."""

    def expect(self, sources: Sequence[source.Source]) -> None:
        """Called first with the sources, in the order in which they will be read."""

    def read(self, each: source.Source, read_bytes: int) -> None:
        """Called with the number of bytes read so far of ``each``, as stored on disk."""


def scan(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    watch: Watch | None = None,
    *,
    live: bool = False,
    load_kept: KeptBuilds | None = None,
) -> Build:
    """Read logs, disassembly, binaries, folders of them, glob patterns, snapshots and ``-`` (standard input) into one
    build.

    ``watch`` is told of progress. ``live``: also count live registers in binaries. ``load_kept``: returns a build of a
    dataset, given its place and label (``data/@v1``). Raises :class:`~spillscan.InputError` if an input cannot be read,
    or if nothing in any of them is understood.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    left_out: list[str] = []
    sources = source.expand([os.fspath(path) for path in paths], left_out)
    outputs = [found for each in sources for found in build_file.outputs_of(each.uri)]
    beside = [found for each in sources if each.explicit for found in sidecars.beside(each.uri)]
    known = {os.path.realpath(each.uri) for each in sources}
    beside += (found for found in dict.fromkeys(outputs) if os.path.realpath(found) not in known)
    sources += [source.Source(found, explicit=False) for found in beside]
    wanted = {os.path.realpath(each) for each in outputs}
    options = Options(live=live)
    total, names = Reading(), {os.path.abspath(each.uri): each.uri for each in sources}
    if watch is not None:
        watch.expect(sources)
    for each in sources:
        reading = _read(each, options, None if watch is None else partial(watch.read, each), load_kept)
        if (reading is None or _is_empty(reading)) and os.path.realpath(each.uri) in wanted:
            unread = InputError(f"no machine code can be read from {each.uri}", "build it again")
            reading = None if holds_images(each.uri) else unreadable(each.uri, unread)
        if reading is None:
            continue
        if not each.explicit and (made_of := _made_of(reading, each.uri, names)):
            message = f"{each.uri} is a report of {made_of}, which is an input itself: skipped"
            note = Issue(code="left-out-report", message=message, severity="note", origin=Origin(input=each.uri))
            total.issues.append(note)
            continue
        total.add(reading)
        gaps = any(issue.hidden for issue in reading.issues)
        if each.explicit and len(sources) > 1 and not (reading.understood or gaps or reading.units):
            message = f"no ptxas or nvlink report in {each.uri}"
            total.issues.append(Issue(code="nothing-recognised", message=message, origin=Origin(input=each.uri)))
    total.issues += _left_out(left_out)
    if not total.understood:
        refused = next((issue for issue in total.issues if issue.code == "unsupported-arch"), None)
        if refused is not None:
            raise InputError(f"{refused.origin}: {refused.message}", "disassemble code of a later arch")
        if remains := next((issue for issue in total.issues if issue.hidden), None):
            hint = f"`spillscan explain {remains.code}` explains it"
            raise InputError(f"{remains.origin}: {remains.message}", hint)
        raise InputError(f"no ptxas or nvlink report in {_named(sources, paths)}", HINT)
    return build_of(total)


def _left_out(paths: Sequence[str]) -> Iterator[Issue]:
    """One issue that names the skipped files of folders. Folders of version control are not mentioned."""
    named = [path for path in paths if os.path.basename(path) not in _NO_BUILD]
    if named:
        message = f"not read: {listed(named[:_NAMED], len(named) - _NAMED)} (hidden, or of a configure step)"
        yield Issue(code="left-out", message=message, severity="note", origin=Origin(input=named[0]))


_NO_BUILD = frozenset(
    (".git", ".hg", ".svn", ".bzr", ".jj", ".gitignore", ".gitattributes", ".ninja_log", ".ninja_deps")
)
_NAMED = 3


def _is_empty(reading: Reading) -> bool:
    return not (reading.functions or reading.portable or reading.kernels or reading.issues)


def holds_images(path: str) -> bool:
    """Whether a file contains GPU code, even without functions."""
    from spillscan.reading.binary import containers
    from spillscan.reading.binary.window import DEFAULT, Budget, Window

    try:
        with source.Source(path).open() as stream:
            window = Window(stream.buffer())
            return any(True for _ in containers.images(window, Budget(DEFAULT, window.size)))
    except InputError:
        return False


def _made_of(reading: Reading, name: str, names: Mapping[str, str]) -> str:
    """Input among ``names`` (by absolute path) from which the report ``name`` was made; empty if there is none.

    A JSON report may be in the same folder as its inputs.
    """
    own = os.path.abspath(name)
    for place in sorted({kernel.origins[0].input for kernel in reading.kernels if kernel.origins} - {name}):
        within = os.path.abspath(place)
        while within not in (own, os.path.dirname(within)):
            if within in names:
                return names[within]
            within = os.path.dirname(within)
    return ""


def build_of(reading: Reading) -> Build:
    """Build from all records, with link records and machine code joined to their kernels."""
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
    said = {issue.origin for issue in issues if issue.code == "ptx-only"}  # already reported by a snapshot
    issues += (issue for issue in still_portable(reading.portable, kernels) if issue.origin not in said)
    filled = {kernel.key.unit for kernel in kernels} if reading.empty_units else set()
    return Build(
        kernels=tuple(kernels),
        issues=tuple(issues),
        stats=reading.stats,
        portable=tuple(reading.portable),
        units=tuple(reading.units),
        empty_units=tuple(unit for unit in dict.fromkeys(reading.empty_units) if unit not in filled),
    )


def still_portable(modules: Iterable[PortableCode], kernels: Iterable[Kernel]) -> Iterator[Issue]:
    """Issues for kernels that exist only as PTX, whose resources no gate can check."""
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
    """Records of one source; ``None`` for a file of a folder that is neither text nor contains machine code."""
    if load_kept is not None and (kept := source.parse(each.uri)):
        build = load_kept(kept.root, kept.label)
        stats = replace(build.stats, recognised_lines=max(1, build.stats.recognised_lines))
        return Reading(kernels=list(build.kernels), issues=list(build.issues), stats=stats)
    if not each.explicit and each.uri.endswith(compilation.OBJECTS) and os.path.isfile(each.uri) and not each.bytes:
        return unreadable(each.uri, InputError(f"{each.uri} is empty: its compilation was cut off", "build it again"))
    try:
        with each.open(watch) as stream:
            kind = source.kind_of_binary(stream.head())
            before = stream.state()
            reading = contents(stream, each.uri, options, named=each.explicit)
            if before != stream.state():
                message = f"{each.uri} changed while it was read; wait until the build ends"
                reading = reading or Reading()
                reading.issues.append(Issue(code="changed-input", message=message, origin=Origin(input=each.uri)))
    except InputError as error:
        if each.explicit:
            raise
        return None if isinstance(error, NoBuildError) else unreadable(each.uri, error)
    if kind is None or (reading is not None and reading.understood):
        return reading
    if each.explicit:
        raise _without_code(each, kind, reading)
    return reading if reading is not None and reading.issues else None


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
