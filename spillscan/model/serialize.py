"""JSON form of a build, written and read: the output of ``scan -f json`` is itself an input.

:mod:`spillscan.model.snapshot` defines its structure.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from itertools import islice
from operator import attrgetter
from typing import Any, TypeVar, get_args

import msgspec
from msgspec.structs import asdict

from spillscan.model import Build, Issue, Kernel, KernelKey, Launch, LaunchBounds, Stats, Usage
from spillscan.model.code import OTHER_CLASS, SassStats
from spillscan.model.gaps import KINDS
from spillscan.model.local import AccessClass, Group, LocalTraffic
from spillscan.model.snapshot import (
    SCHEMA_VERSION,
    DepthJson,
    GroupJson,
    IssueJson,
    KernelJson,
    SassJson,
    SnapshotJson,
    StatsJson,
    UsageJson,
    VersionJson,
)
from spillscan.model.symbols import demangle, short_name
from spillscan.model.usage import NUMBERS
from spillscan.output.nouns import count

T = TypeVar("T")

BATCH = 64
"""Values encoded at once."""
_BETWEEN = b",\n  "
"""Separator of array items."""

_encoder = msgspec.json.Encoder()
_numbers = attrgetter(*NUMBERS)
_CLASSES: tuple[AccessClass, ...] = get_args(AccessClass)
_plain = json.JSONEncoder(separators=(",", ":"))
_ESCAPED = "spillscan.json"


def text(value: Any) -> str:
    """``value`` as JSON in plain ASCII."""
    return _batch([value], b"").decode()


def array(name: str, values: Iterable[Any]) -> Iterator[str | bytes]:
    """Member of an object in plain ASCII, an array with one item per line, in pieces of :data:`BATCH` items."""
    yield f' "{name}": ['
    rest, before = iter(values), b"\n  "
    while batch := list(islice(rest, BATCH)):
        yield before
        yield _batch(batch, _BETWEEN)
        before = _BETWEEN
    yield "],\n"


def _batch(values: list[Any], between: bytes) -> bytes:
    try:
        joined = _encoder.encode_lines(values)[:-1].replace(b"\n", between)  # JSON contains no newlines
    except UnicodeEncodeError:  # file names may contain lone surrogates
        plain = (_plain.encode(msgspec.to_builtins(value)) for value in values)
        joined = between.join(each.encode() for each in plain)
    if not joined.isascii():
        joined = joined.decode().encode("ascii", _ESCAPED)
    return joined.replace(b"\x7f", b"\\u007f")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error(_ESCAPED, _escaped)


def kernel_json(kernel: Kernel) -> KernelJson:
    """JSON form of one kernel."""
    key = kernel.key
    name, short = _names(key.symbol)
    return KernelJson(
        key.symbol,
        name,
        short,
        key.arch,
        key.unit,
        kernel.role,
        kernel.confidence,
        kernel.reasons,
        kernel.final,
        _usage_json(kernel.usage),
        kernel.advisories,
        kernel.origins,
        kernel.source,
        None if kernel.sass is None else sass_json(kernel.sass),
        kernel.launch_bounds,
        kernel.dynamic_shared,
        kernel.launch,
        dict(kernel.configuration),
        kernel.compile_ms,
        kernel.caller or msgspec.UNSET,
    )


def kernel_text(kernel: Kernel) -> str:
    """One kernel as in a snapshot."""
    return text(kernel_json(kernel))


def kernel_of(data: str) -> Kernel:
    """Kernel from the text that :func:`kernel_text` wrote."""
    try:
        return _kernel(_kernels().decode(data))
    except msgspec.DecodeError:  # lone surrogates, which file names may contain
        return _kernel(msgspec.convert(json.loads(data), KernelJson))


@cache
def _kernels() -> msgspec.json.Decoder[KernelJson]:
    return msgspec.json.Decoder(KernelJson)


@lru_cache(maxsize=512)
def _names(symbol: str) -> tuple[str, str]:
    """(full name, short name), cached: a source's kernels for several architectures are close together in a binary."""
    name = demangle(symbol)
    return name, short_name(symbol, name)


@lru_cache(maxsize=1 << 12)
def _usage_json(usage: Usage) -> Any:
    """JSON form of a usage, cached: many kernels of a log have the same one."""
    banks = None if usage.constant_bytes is None else dict(usage.constant_bytes)
    return UsageJson(*_numbers(usage), banks, usage.unknown_clauses)


def copied(made: Callable[..., T], source: Any, **others: Any) -> T:
    """Instance of ``made`` with the fields that ``source`` has under the same names, and ``others``."""
    names = made.__struct_fields__  # type: ignore[attr-defined]
    return made(**{name: getattr(source, name) for name in names if name not in others}, **others)


def sass_json(stats: SassStats) -> SassJson:
    """JSON form of machine code, without the single accesses."""
    local = stats.local
    total, spill = local.total, local.spill
    classes = stats.opcode_classes
    return SassJson(
        instructions=stats.instructions,
        code_bytes=stats.code_bytes,
        stl_count=total.stores,
        ldl_count=total.loads,
        stl_bytes=total.store_bytes,
        ldl_bytes=total.load_bytes,
        spill_store_count=spill.stores,
        spill_load_count=spill.loads,
        spill_store_bytes=spill.store_bytes,
        spill_load_bytes=spill.load_bytes,
        by_loop_depth=tuple(
            DepthJson(depth, **{kind: counts[kind] for kind in _CLASSES})
            for depth, counts in local.by_loop_depth.items()
        ),
        local=tuple(
            GroupJson(group.kind, group.depth, not group.inner, group.store, group.bytes, count)
            for group, count in sorted(local.groups.items(), key=lambda item: _order(item[0]))
        ),
        frame=local.frame,
        flow=local.flow,
        evidence=local.evidence,
        shared_spills=stats.shared_spills,
        opcode_classes=classes,
        opcodes=dict(stats.opcodes),
        unknown_opcodes=stats.unknown_opcodes if OTHER_CLASS in classes else (),  # usually none
        registers=stats.registers,
        live_peak=stats.live_peak,
        origin=stats.origin,
        maker=stats.maker,
        lines=local.lines,
        roles=stats.roles,
        digest=stats.digest,
        register_limit=stats.register_limit,
        text=stats.text,
    )


def _order(group: Group) -> tuple[int, str, bool, bool, int]:
    """Sort key: innermost first, unknown depth last."""
    return -(-1 if group.depth is None else group.depth), group.kind, group.inner, group.store, group.bytes


def issue_json(issue: Issue) -> IssueJson:
    """JSON form of one issue."""
    return copied(IssueJson, issue, hides=issue.hidden)


def stats_json(build: Build) -> StatsJson:
    """Amount of input read, and the numbers of kernels in it."""
    entries = [kernel.role for kernel in build.kernels].count("entry")
    ambiguous = [kernel.confidence for kernel in build.kernels].count("ambiguous")
    functions = len(build.kernels) - entries
    return copied(StatsJson, build.stats, kernels=entries, functions=functions, ambiguous=ambiguous)


def build_of(data: bytes) -> Build:
    """Build in a snapshot. Raises ``ValueError`` if it is not a snapshot of this version."""
    try:
        found = _decoded(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    for module in found.portable:
        if module.bytes < 0:
            raise ValueError(f"impossible size of {module.form}: {module.bytes} bytes")
    stats = found.stats or StatsJson()
    if (found.tool_version or found.stats) and (found.issues is None or found.stats is None):
        raise ValueError(f"missing key `{'issues' if found.issues is None else 'stats'}`")
    if (counted := stats.kernels + stats.functions) > len(found.kernels):
        raise ValueError(f"it contains only {len(found.kernels):,} of {count(counted, 'kernel')}")
    return Build(
        kernels=tuple(map(_kernel, found.kernels)),
        issues=tuple(map(_issue, found.issues or ())),
        stats=copied(Stats, stats),
        portable=found.portable,
        empty_units=found.empty_units,
    )


@cache
def _snapshots() -> msgspec.json.Decoder[SnapshotJson]:
    return msgspec.json.Decoder(SnapshotJson)


def _decoded(data: bytes) -> SnapshotJson:
    try:
        return _snapshots().decode(data)
    except msgspec.ValidationError:
        version = msgspec.json.decode(data, type=VersionJson).schema_version
        if version != SCHEMA_VERSION:
            raise ValueError(f"schema version {version}, but this spillscan reads version {SCHEMA_VERSION}") from None
        raise


def _kernel(found: KernelJson) -> Kernel:
    usage: Any = found.usage
    banks = usage.constant_bytes
    return Kernel(
        key=KernelKey(symbol=found.symbol, arch=found.arch, unit=found.unit),
        role=found.role,
        usage=Usage(
            **dict(zip(NUMBERS, _numbers(usage), strict=True)),
            constant_bytes=None if banks is None else tuple(sorted(banks.items())),
            unknown_clauses=usage.unknown_clauses,
        ),
        confidence=found.confidence,
        reasons=found.reasons,
        final=found.final,
        advisories=found.advisories,
        origins=found.origins,
        compile_ms=found.compile_ms,
        launch_bounds=_bounds(found.launch_bounds),
        dynamic_shared=found.dynamic_shared,
        launch=_launch(found.launch),
        configuration=tuple(found.configuration.items()),
        caller=found.caller or "",
        source=found.source,
        sass=None if found.sass is None else sass_of(found.sass),
    )


def _bounds(bounds: LaunchBounds | None) -> LaunchBounds | None:
    for threads, most in () if bounds is None else ((bounds.max_threads, 1024), (bounds.required_threads, 1 << 32)):
        if threads is not None and not 1 <= threads <= most:
            raise ValueError(f"impossible launch bounds: {threads} threads")
    return bounds


def _launch(launch: Launch | None) -> Launch | None:
    for name, value in ({} if launch is None else asdict(launch)).items():
        least = 1 if name in ("threads_per_block", "cluster_blocks") else 0
        if isinstance(value, int) and (value < least or (name == "threads_per_block" and value > 1024)):
            raise ValueError(f"impossible launch: `{name}` is {value}")
    return launch


def sass_of(found: SassJson) -> SassStats:
    """Machine code from the result of :func:`sass_json`. Raises ``ValueError`` for impossible values."""
    peak, frame = found.live_peak, found.frame
    places = () if peak is None else (peak.registers, peak.address, peak.line or 0)
    traffics = [frame, *(each for role in found.roles for each in (role.spill, role.local))]
    moved = [number for each in traffics if each for number in (each.accesses, each.store_bytes, each.load_bytes)]
    moved += [number for each in found.lines for number in (each.accesses, each.bytes, each.cost, each.depth or 0)]
    if not all(0 <= line.share <= 1 for line in found.lines):
        raise ValueError("`share` of a source line is not between 0 and 1")
    set_to = [number for role in found.roles for number in (role.address, role.registers) if number is not None]
    for number in (*places, *moved, *set_to):
        if number < 0:
            raise ValueError(f"expected a number ≥ 0, got {number}")
    groups = tuple((Group(g.kind, g.store, g.bytes, g.depth, not g.own), g.count) for g in found.local)
    local = LocalTraffic(kept=groups, kept_lines=found.lines, evidence=found.evidence, flow=found.flow, frame=frame)
    total, spill = local.total, local.spill
    sums = (total.stores, total.loads, spill.stores, spill.loads)
    if sums != (found.stl_count, found.ldl_count, found.spill_store_count, found.spill_load_count):
        raise ValueError("inconsistent counts of local-memory accesses")
    return copied(
        SassStats,
        found,
        opcodes=tuple(found.opcodes.items()),
        local=local,
    )


def _issue(found: IssueJson) -> Issue:
    return copied(Issue, found, hides=None if found.hides == KINDS.get(found.code) else found.hides)
