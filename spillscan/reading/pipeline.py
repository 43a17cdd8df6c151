"""Read inputs in one pass: expand paths, open each file, recognise its format, read it, and join all records into one
build. Inputs keep their order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

from msgspec.structs import replace

from spillscan.model import Build, Issue, Kernel, Origin, Reading
from spillscan.output.errors import InputError, NoBuildError
from spillscan.output.nouns import count, listed
from spillscan.reading.inputs import formats, paths
from spillscan.reading.inputs.source import DEFAULT, Options, Source, Stream

if TYPE_CHECKING:
    from spillscan.model.code import PortableCode
    from spillscan.reading.binary.window import Window

StoredBuilds = Callable[[str, str], Build]
"""Returns a build, given its dataset's path and its label."""

HINT = "pass the standard error of nvcc -Xptxas -v, or a binary; for an ncu profile, use `spillscan profile`"


class Watch(Protocol):
    """Progress callbacks for reading inputs."""

    def expect(self, total: int) -> None:
        """Called first, with the number of bytes to read, as stored on disk."""

    def reach(self, done: int, at: str) -> None:
        """Called with the number of bytes read so far, and the name of the current input."""


def scan(
    inputs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    watch: Watch | None = None,
    *,
    live: bool = False,
    stored: StoredBuilds | None = None,
) -> Build:
    """Read logs, disassembly, binaries, folders of them, glob patterns, snapshots and ``-`` (standard input) into one
    build.

    ``watch`` is told of progress. ``live``: also count live registers in binaries. ``stored``: returns a build of a
    dataset, given its place and label (``data/@v1``). Raises :class:`~spillscan.InputError` if an input cannot be read,
    or if nothing in any of them is understood.
    """
    given = [os.fspath(each) for each in ([inputs] if isinstance(inputs, str | os.PathLike) else inputs)]
    skipped: list[str] = []
    sources = paths.with_companions(paths.expand(given, skipped))
    names = {os.path.abspath(each.uri): each.uri for each in sources}
    if watch is not None:
        watch.expect(sum(each.bytes for each in sources))
    total, done = Reading(), 0
    for each in sources:
        reading = _read(each, Options(live=live), None if watch is None else _watched(watch, each.uri, done), stored)
        done += each.bytes
        if not each.explicit and (subject := _subject(reading, each.uri, names)):
            message = f"skipped {each.uri}: it is a report about {subject}, which is also an input"
            total.issues.append(_issue("left-out-report", message, each.uri, severity="note"))
            continue
        total.add(reading)
        silent = not (reading.understood or reading.units or any(issue.hidden for issue in reading.issues))
        if each.explicit and len(sources) > 1 and silent:
            total.issues.append(_issue("nothing-recognised", f"no ptxas or nvlink report in {each.uri}", each.uri))
    total.issues += _left_out(skipped)
    if not total.understood:
        raise _nothing(total, sources, given)
    return build_of(total)


def _watched(watch: Watch, uri: str, done: int) -> Callable[[int], None]:
    """Function that reports how many bytes of an input were read, after ``done`` bytes of others."""
    name = "standard input" if uri == "-" else os.path.basename(uri)
    return lambda read: watch.reach(done + read, name)


def _issue(code: str, message: str, uri: str, **more: Any) -> Issue:
    return Issue(code=code, message=message, origin=Origin(input=uri), **more)


def unreadable(uri: str, error: InputError) -> Reading:
    """Reading with one issue: the input cannot be read."""
    return Reading(issues=[_issue("unreadable", str(error), uri, severity="error")])


def _left_out(skipped: Sequence[str]) -> Iterator[Issue]:
    """One issue that names the skipped files of folders. Folders of version control are not mentioned."""
    named = [path for path in skipped if os.path.basename(path) not in _NO_BUILD]
    if named:
        message = f"skipped: {listed(named[:_NAMED], len(named) - _NAMED)} (hidden, or from a configure step)"
        yield _issue("left-out", message, named[0], severity="note")


_NO_BUILD = frozenset(
    (".git", ".hg", ".svn", ".bzr", ".jj", ".gitignore", ".gitattributes", ".ninja_log", ".ninja_deps")
)
_NAMED = 3


def _subject(reading: Reading, name: str, names: Mapping[str, str]) -> str:
    """Input among ``names`` (by absolute path) that the report ``name`` is about; empty if there is none.

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


def _nothing(total: Reading, sources: Sequence[Source], given: Sequence[str]) -> InputError:
    """Error for inputs of which nothing was understood."""
    if refused := next((issue for issue in total.issues if issue.code == "unsupported-arch"), None):
        return InputError(f"{refused.origin}: {refused.message}", "disassemble code of a later arch")
    if gap := next((issue for issue in total.issues if issue.hidden), None):
        return InputError(f"{gap.origin}: {gap.message}", f"`spillscan explain {gap.code}` explains it")
    where = f"any of {count(len(sources), 'input')}"
    if len(given) == 1:
        where = "standard input" if given[0] == "-" else given[0]
        where += f" ({count(len(sources), 'file')})" if os.path.isdir(given[0]) else ""
    return InputError(f"no ptxas or nvlink report in {where}", HINT)


# ---- one input ------------------------------------------------------------------------------------------------------


def _read(each: Source, options: Options, watch: Callable[[int], None] | None, stored: StoredBuilds | None) -> Reading:
    """Records of one source; empty for a file of a folder that is neither text nor contains machine code."""
    if stored is not None and (reference := paths.parse(each.uri)):
        build = stored(reference.root, reference.label)
        stats = replace(build.stats, recognised_lines=max(1, build.stats.recognised_lines))
        return Reading(kernels=list(build.kernels), issues=list(build.issues), stats=stats)
    if not each.explicit and each.uri.endswith(formats.OBJECTS) and os.path.isfile(each.uri) and not each.bytes:
        return unreadable(
            each.uri, InputError(f"{each.uri} is empty: its compilation may have been interrupted", "build it again")
        )
    try:
        with each.open(watch) as stream:
            before, kind = stream.state(), formats.kind_of_binary(stream.head())
            reading = contents(stream, each.uri, options, named=each.explicit)
            if kind is not None and not (reading and reading.understood):
                if each.explicit:
                    raise _without_code(each.uri, kind, reading)
                reading = reading if reading and reading.issues else None
            reading = reading or Reading()
            if before != stream.state():
                message = f"{each.uri} changed while it was read"
                reading.issues.append(_issue("changed-input", message, each.uri))
            if each.expected and reading.is_empty and not has_images(stream):
                raise InputError(f"no machine code can be read from {each.uri}", "build it again")
    except InputError as error:
        if each.explicit and not each.expected:
            raise
        return Reading() if isinstance(error, NoBuildError) else unreadable(each.uri, error)
    return reading


def _without_code(uri: str, kind: str, reading: Reading | None) -> InputError:
    if reading is None:
        return InputError(f"{uri} is {kind}, not a build log", "pass a build log, or a binary with GPU code")
    if reading.issues:
        hint = "pass its member files" if reading.issues[0].code == "unopened-member" else "fetch or build it again"
        return InputError(f"{uri} cannot be read: {reading.issues[0].message}", hint)
    return InputError(f"{uri} is {kind} without any GPU code", "pass a build log, or a binary with GPU code")


def has_images(stream: Stream) -> bool:
    """Whether an input contains GPU code, even without functions, or damage that may hide some."""
    from spillscan.reading.binary import containers, images
    from spillscan.reading.binary.window import DEFAULT as LIMITS
    from spillscan.reading.binary.window import Budget, Window

    window = Window(stream.buffer())
    items = containers.images(window, Budget(LIMITS, window.size))
    return any(not isinstance(item, images.Text) for item in items)


def contents(stream: Stream, name: str, options: Options = DEFAULT, *, named: bool = True) -> Reading | None:
    """Records of one input, including those of archive members; ``None`` if no reader accepts it.

    ``named``: whether the user named it; otherwise files usually written by hand are not read as logs. Raises
    :class:`~spillscan.InputError` if it cannot be read.
    """
    reader = formats.reader_of(stream.head())
    member = partial(_member, options=options)
    if reader == "binary":
        from spillscan.reading import binary

        return binary.read(stream, name, options, texts=member)
    reading = None
    if reader and (named or not name.lower().endswith(formats.WRITTEN_BY_HAND)):
        reading = read_by(reader, stream, name, options)
    if not reader or (reading is not None and (reading.understood or reader != "logs")):
        return reading

    def others(window: Window, inner: str) -> Reading:
        return Reading() if inner == name else member(window, inner)  # the input itself was already read

    again = stream.again()
    if again is not None:  # text without records may contain code, or precede packed data
        from spillscan.reading import binary

        walked = binary.read(again, name, options, texts=others)
        if walked.understood or walked.issues:
            walked.add(reading or Reading())
            return walked
    return reading


def read_by(reader: formats.ReaderName, stream: Stream, name: str, options: Options = DEFAULT) -> Reading:
    """Records that ``reader`` finds in one input."""
    reading: Reading = import_module(f"spillscan.reading.{reader}").read(stream, name, options)
    return reading


def _member(window: Window, name: str, options: Options) -> Reading:
    """Records of an archive member that is text. An unreadable member becomes an issue and does not affect others."""
    from spillscan.reading.binary.archive import WindowFile

    try:
        with Stream(cast(BinaryIO, WindowFile(window)), name) as stream:
            reader = formats.text_reader_of(stream.head())
            return read_by(reader, stream, name, options)
    except InputError as error:
        return unreadable(name, error)


# ---- one build ------------------------------------------------------------------------------------------------------


def build_of(reading: Reading) -> Build:
    """Build from all records, with link records, machine code and sidecars joined to their kernels."""
    kernels, issues = reading.kernels, list(reading.issues)
    if reading.links or reading.functions or reading.sidecars:
        from spillscan.reading import join

        kernels, issues = join.joined(reading)
    known = {issue.origin for issue in issues if issue.code == "ptx-only"}  # already reported by a snapshot
    issues += (issue for issue in still_portable(reading.portable, kernels) if issue.origin not in known)
    filled = {kernel.key.unit for kernel in kernels} if reading.empty_units else set()
    return Build(
        kernels=tuple(kernels),
        issues=tuple(issues),
        stats=reading.stats,
        portable=tuple(reading.portable),
        units=tuple(reading.units),
        empty_units=tuple(unit for unit in dict.fromkeys(reading.empty_units) if unit not in filled),
    )


def still_portable(modules: Sequence[PortableCode], kernels: Sequence[Kernel]) -> Iterator[Issue]:
    """Issues for kernels that exist only as PTX, and for files with only LTO-IR, whose resources no gate can check."""
    files: dict[str, list[PortableCode]] = {}
    for module in modules:
        if module.origin is not None:
            files.setdefault(module.origin.input, []).append(module)
    compiled = {kernel.key.symbol for kernel in kernels}
    coded = {origin.input for kernel in kernels for origin in kernel.origins if origin.format == "binary"}
    for name, several in files.items():
        named = [module.kernels for module in several if module.kernels is not None]
        symbols = dict.fromkeys(symbol for entries in named for symbol in entries if symbol not in compiled)
        if symbols:
            number = count(len(symbols), "kernel exists", "kernels exist")
            yield _issue("ptx-only", f"{number} only as PTX: {listed([*symbols][:1], len(symbols) - 1)}", name)
        elif not named and name not in coded:
            yield _issue("ptx-only", "kernels unknown: contains LTO-IR, but neither PTX nor machine code", name)
