"""Text of a baseline: a header, then one JSON line per kernel and arch, sorted so that git merges line by line."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict

from spillscan.judging.baseline.model import LARGEST_BLOCK, Baseline, Copies, Identity, KnownKernel, key_of
from spillscan.output.errors import UsageError

FORMAT = "spillscan-baseline 1"
Count = Annotated[int, Meta(ge=0, le=2**53)]
Figures = dict[str, Count]
T = TypeVar("T")


class _Line(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Line of the file."""


class Header(_Line, kw_only=True):
    """First line of the file."""

    format: str
    toolkits: tuple[str, ...] = ()
    limits: dict[str, Count] = {}
    """Limits on all kernels at the time of writing."""


class Taken(_Line, kw_only=True):
    """Recorded metrics of a kernel: fields of :class:`~spillscan.model.Usage`."""

    registers: Count | None = None
    spill_store_bytes: Count | None = None
    spill_load_bytes: Count | None = None
    stack_bytes: Count | None = None
    shared_bytes: Count | None = None
    barriers: Count | None = None


class Launched(_Line, kw_only=True):
    """Recorded launch of a kernel."""

    threads_per_block: Annotated[int, Meta(ge=1, le=LARGEST_BLOCK)]
    dynamic_shared_bytes: Count | None = None


class Entry(_Line, kw_only=True):
    """Any other line of the file: a kernel of one arch, with all its copies."""

    symbol: Annotated[str, Meta(min_length=1)]
    arch: str | None = None
    function: bool = False
    name: str
    unit: str = ""
    launch: Launched | None = None
    figures: tuple[Taken, ...] = ()
    """Metrics of each copy; a single one if all are equal."""
    rules: dict[str, tuple[Figures, ...]] = {}
    """Measured values of the findings of each rule, per copy."""


def text_of(baseline: Baseline) -> str:
    """Whole text of the file, independent of the order of the entries."""
    lines: list[_Line] = [Header(format=FORMAT, toolkits=baseline.toolkits, limits=baseline.limits)]
    for identity, kernel in sorted(baseline.entries.items(), key=lambda item: key_of(item[0])):
        lines.append(
            Entry(
                **identity._asdict(),
                name=kernel.name,
                unit=kernel.unit,
                launch=Launched(**dict(kernel.launch)) if kernel.launch else None,
                figures=tuple(Taken(**dict(copy)) for copy in kernel.figures),
                rules={rule: tuple(map(dict, copies)) for rule, copies in sorted(kernel.recorded.items())},
            )
        )
    return "".join(f"{msgspec.json.encode(line).decode()}\n" for line in lines)


def parse(text: str, label: str) -> Baseline:
    """Baseline parsed from ``text``; ``label`` is the file's name in messages. Raises :class:`UsageError`."""
    first, *lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    if first.startswith(("version:", "#", "suppressions:")):
        raise UsageError(
            f"{label} is a baseline of an earlier form",
            "`spillscan baseline write BUILD -o spillscan-baseline.jsonl` writes the new one",
        )
    header = _decoded(first, Header, f"{label}:1")
    if header.format != FORMAT:
        raise UsageError(
            f"{label}:1: format {header.format[:60]!r}; this spillscan reads {FORMAT!r}",
            "`spillscan baseline write BUILD` writes it again",
        )
    entries: dict[Identity, KnownKernel] = {}
    for number, line in enumerate(lines, 2):
        entry = _decoded(line, Entry, f"{label}:{number}")
        identity = Identity(entry.symbol, entry.arch, entry.function)
        if identity in entries:
            raise UsageError(f"{label}:{number}: {entry.name} appears twice", "keep one of the lines")
        entries[identity] = KnownKernel(
            name=entry.name,
            unit=entry.unit,
            launch=_known(entry.launch) if entry.launch else (),
            figures=tuple(map(_known, entry.figures)),
            recorded={rule: _copies(found) for rule, found in entry.rules.items()},
        )
    return Baseline(entries=entries, toolkits=header.toolkits, limits=header.limits)


def _decoded(line: str, of: type[T], place: str) -> T:
    try:
        return msgspec.json.decode(line, type=of)
    except msgspec.DecodeError as error:
        if line.startswith(("<<<<<<<", "|||||||", "=======", ">>>>>>>")):
            raise UsageError(
                f"{place}: unresolved merge conflict", "keep the lines that you want of either side"
            ) from None
        said = str(error).replace("`", "'")
        raise UsageError(f"{place}: not a line of a baseline: {said}", "`spillscan baseline write` writes it") from None
    except RecursionError:
        raise UsageError(f"{place}: nested too deep", "`spillscan baseline write` writes it") from None


def _known(line: _Line) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((name, value) for name, value in asdict(line).items() if value is not None))


def _copies(found: tuple[Figures, ...]) -> Copies:
    return tuple(tuple(sorted(each.items())) for each in found)
