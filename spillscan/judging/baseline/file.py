"""A baseline and its text: a header, then one JSON line per kernel and arch, sorted so that git merges it by line."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct, field

from spillscan.model import Kernel
from spillscan.naming.symbol import canonical
from spillscan.output.errors import UsageError

FORMAT = "spillscan-baseline 1"
Count = Annotated[int, Meta(ge=0, le=2**53)]
T = TypeVar("T")


class Identity(NamedTuple):
    """Kernel of one arch, independent of checkout and translation unit."""

    symbol: str
    """Canonical symbol."""
    arch: str | None
    """``None`` if the log does not name it."""
    function: bool = False
    """Whether it is a device function."""


def identity_of(kernel: Kernel) -> Identity:
    """Identity of ``kernel``, equal in every checkout and every translation unit that has a copy of it."""
    return Identity(canonical(kernel.key.symbol), kernel.key.arch, kernel.role == "function")


class _Line(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Part of the file."""


class Header(_Line, frozen=True, kw_only=True):
    """First line of the file."""

    format: str
    toolkits: tuple[str, ...] = ()
    """Compiler releases of the latest recording: ``13.0.88``; empty if unknown."""
    limits: dict[str, Count] = field(default_factory=dict)
    """Not used; files that were written before have it."""


class Copy(_Line, frozen=True, kw_only=True):
    """One of the copies of a kernel in several translation units."""

    unit: str = ""
    """Library and object that tell it apart from other copies; empty if unknown, or if all copies are equal."""
    file: str = ""
    """Source file that its symbol names; likewise."""
    registers: Count | None = None
    spill_store_bytes: Count | None = None
    spill_load_bytes: Count | None = None
    cumulative_spill_store_bytes: Count | None = None
    cumulative_spill_load_bytes: Count | None = None
    stack_bytes: Count | None = None
    cumulative_stack_bytes: Count | None = None
    local_bytes: Count | None = None
    shared_bytes: Count | None = None
    barriers: Count | None = None
    rules: dict[str, dict[str, Count]] = field(default_factory=dict)
    """Measured values of its findings, by rule and name; greater is worse."""

    @property
    def metrics(self) -> dict[str, Any]:
        """Recorded metrics, as fields of :class:`~spillscan.model.Usage`."""
        return {name: value for name in METRICS if (value := getattr(self, name)) is not None}


METRICS = Copy.__struct_fields__[2:-1]
"""Metrics recorded of every kernel: those that decide spills, stack and residency."""


class Launched(_Line, frozen=True):
    """Recorded launch of a kernel."""

    threads_per_block: Annotated[int, Meta(ge=1, le=2**31)]
    dynamic_shared_bytes: Count | None = None


class Entry(_Line, frozen=True, kw_only=True):
    """Any other line of the file: a kernel of one arch."""

    symbol: Annotated[str, Meta(min_length=1)]
    arch: str | None = None
    function: bool = False
    name: str
    """Short name, for people."""
    unit: str = ""
    """Unit that compiled it (:attr:`spillscan.model.build.Unit.name`); empty if unknown or not the same in all."""
    launch: Launched | None = None
    copies: Annotated[tuple[Copy, ...], Meta(min_length=1)] = (Copy(),)
    """Its copies; a single one if all are equal."""

    @property
    def identity(self) -> Identity:
        """Identity of the kernel."""
        return Identity(self.symbol, self.arch, self.function)

    @property
    def rules(self) -> list[str]:
        """Rules that found something in a copy."""
        return sorted({rule for copy in self.copies for rule in copy.rules})


class Baseline(Struct, frozen=True, kw_only=True):
    """Content of a baseline file."""

    entries: dict[Identity, Entry] = field(default_factory=dict)
    """Every known kernel, and device functions with findings."""
    header: Header = Header(format=FORMAT)


def text_of(baseline: Baseline) -> str:
    """Whole text of the file, independent of the order of the entries."""
    entries = sorted(baseline.entries.values(), key=lambda each: (each.symbol, each.arch or "", each.function))
    return "".join(f"{encoded(line).decode()}\n" for line in (baseline.header, *entries))


def encoded(line: _Line) -> bytes:
    """JSON of ``line``, without its defaults."""
    return msgspec.json.encode(line, order="deterministic")


def parse(text: str, label: str) -> Baseline:
    """Baseline parsed from ``text``; ``label`` is the file's name in messages. Raises :class:`UsageError`."""
    first, *lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    header = _decoded(first, Header, f"{label}:1")
    if header.format != FORMAT:
        raise UsageError(
            f"{label}:1: format {header.format[:60]!r}; this spillscan reads {FORMAT!r}",
            "delete FILE, then run `spillscan baseline write BUILD -o FILE`",
        )
    entries: dict[Identity, Entry] = {}
    for number, line in enumerate(lines, 2):
        entry = _decoded(line, Entry, f"{label}:{number}")
        if entries.setdefault(entry.identity, entry) is not entry:
            raise UsageError(f"{label}:{number}: duplicate: {entry.name} ({entry.arch or '-'})", "delete one of them")
    return Baseline(entries=entries, header=header)


def _decoded(line: str, of: type[T], place: str) -> T:
    try:
        return msgspec.json.decode(line, type=of)
    except (msgspec.DecodeError, RecursionError) as error:
        if line.startswith(("<<<<<<<", "|||||||", "=======", ">>>>>>>")):
            raise UsageError(f"{place}: unresolved merge conflict", "keep the lines you want from each side") from None
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error).replace("`", "'")
        raise UsageError(
            f"{place}: not a baseline line: {reason}", "delete FILE, then run `spillscan baseline write BUILD -o FILE`"
        ) from None
