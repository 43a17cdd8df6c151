"""The ``sass`` object of a kernel in JSON, and back: what a snapshot keeps are all figures, but not each access."""

from __future__ import annotations

from typing import Any, get_args

from spillscan.model import Origin
from spillscan.model.code import (
    AccessClass,
    Evidence,
    FlowKind,
    Group,
    LivePeak,
    LocalTraffic,
    Maker,
    Operands,
    SassStats,
    SourceLine,
    Traffic,
)

_MAKER = ("tool", "version", "options")
_TRAFFIC = ("stores", "loads", "store_bytes", "load_bytes")


def to_json(stats: SassStats) -> dict[str, Any]:
    """Everything but the single accesses; see ``schema/build.schema.json``."""
    local = stats.local
    total, spill = local.total, local.spill
    return {
        "instructions": stats.instructions,
        "code_bytes": stats.code_bytes,
        "stl_count": total.stores,
        "ldl_count": total.loads,
        "stl_bytes": total.store_bytes,
        "ldl_bytes": total.load_bytes,
        "spill_store_count": spill.stores,
        "spill_load_count": spill.loads,
        "spill_store_bytes": spill.store_bytes,
        "spill_load_bytes": spill.load_bytes,
        "by_loop_depth": [
            {"depth": depth, **{kind: counts[kind] for kind in get_args(AccessClass)}}
            for depth, counts in local.by_loop_depth.items()
        ],
        "local": [
            {
                "class": group.kind,
                "depth": group.depth,
                "own": not group.inner,
                "store": group.store,
                "bytes": group.bytes,
                "count": count,
            }
            for group, count in sorted(local.groups.items(), key=_order)
        ],
        "frame": None if local.frame is None else _traffic_to_json(local.frame),
        "flow": local.flow,
        "evidence": local.evidence,
        "shared_spills": stats.shared_spills,
        "opcode_classes": stats.opcode_classes,
        "opcodes": dict(stats.opcodes),
        "unknown_opcodes": list(stats.unknown_opcodes),
        "registers": stats.registers,
        "operands": None if stats.operands is None else _operands_to_json(stats.operands),
        "live_peak": None if stats.live_peak is None else _peak_to_json(stats.live_peak),
        "origin": None if stats.origin is None else _origin_to_json(stats.origin),
        "maker": None if stats.maker is None else _maker_to_json(stats.maker),
    }


def from_json(value: dict[str, Any]) -> SassStats:
    """The figures of :func:`to_json`. Raises ``KeyError``, ``TypeError`` or ``ValueError`` where they are no such."""
    operands, peak, origin = value["operands"], value["live_peak"], value["origin"]
    maker = value.get("maker")
    return SassStats(
        instructions=_count(value["instructions"]),
        code_bytes=_count(value["code_bytes"]),
        opcodes=tuple((str(opcode), _count(count)) for opcode, count in value["opcodes"].items()),
        local=LocalTraffic(
            kept=tuple((_group(group), _count(group["count"])) for group in value["local"]),
            evidence=_one_of(value["evidence"], get_args(Evidence)),
            flow=_one_of(value["flow"], get_args(FlowKind)),
            frame=None if value["frame"] is None else _traffic(value["frame"]),
        ),
        shared_spills=_optional(value["shared_spills"]),
        registers=_optional(value["registers"]),
        operands=None if operands is None else _operands(operands),
        live_peak=None if peak is None else _peak(peak),
        origin=None
        if origin is None
        else Origin(input=str(origin["input"]), line=origin["line"], format=origin["format"]),
        maker=None if maker is None else Maker(**{name: str(maker[name]) for name in _MAKER}),
    )


def _maker_to_json(maker: Maker) -> dict[str, str]:
    return {name: getattr(maker, name) for name in _MAKER}


def _traffic_to_json(traffic: Traffic) -> dict[str, int]:
    return {name: getattr(traffic, name) for name in _TRAFFIC}


def _traffic(value: dict[str, Any]) -> Traffic:
    return Traffic(**{name: _count(value[name]) for name in _TRAFFIC})


def _order(item: tuple[Group, int]) -> tuple[int, str, bool, bool, int]:
    """Innermost first, unknown depth last."""
    group = item[0]
    return -(-1 if group.depth is None else group.depth), group.kind, group.inner, group.store, group.bytes


def _group(value: dict[str, Any]) -> Group:
    return Group(
        kind=_one_of(value["class"], get_args(AccessClass)),
        store=bool(value["store"]),
        bytes=_count(value["bytes"]),
        depth=_optional(value["depth"]),
        inner=not value["own"],
    )


def _operands_to_json(operands: Operands) -> dict[str, Any]:
    conflicts = operands.bank_conflicts
    return {
        "highest_register": operands.highest_register,
        "highest_uniform_register": operands.highest_uniform_register,
        "highest_predicate": operands.highest_predicate,
        "bank_conflicts": None
        if conflicts is None
        else [{"depth": depth, "instructions": count} for depth, count in conflicts],
        "flops": operands.flops,
        "global_bytes": operands.global_bytes,
        "shared_bytes": operands.shared_bytes,
        "arithmetic_intensity": operands.arithmetic_intensity,
    }


def _operands(value: dict[str, Any]) -> Operands:
    conflicts = value["bank_conflicts"]
    return Operands(
        highest_register=_optional(value["highest_register"]),
        highest_uniform_register=_optional(value["highest_uniform_register"]),
        highest_predicate=_optional(value["highest_predicate"]),
        bank_conflicts=None
        if conflicts is None
        else tuple((_optional(each["depth"]), _count(each["instructions"])) for each in conflicts),
        flops=_optional(value["flops"]),
        global_bytes=_optional(value["global_bytes"]),
        shared_bytes=_count(value["shared_bytes"]),
    )


def _peak_to_json(peak: LivePeak) -> dict[str, Any]:
    return {
        "registers": peak.registers,
        "address": peak.address,
        "line": peak.line,
        "source": None if peak.source is None else _source_to_json(peak.source),
    }


def _peak(value: dict[str, Any]) -> LivePeak:
    return LivePeak(
        registers=_count(value["registers"]),
        address=_count(value["address"]),
        line=_count(value["line"]),
        source=_source(value["source"]),
    )


def _source_to_json(source: SourceLine) -> dict[str, Any]:
    caller = source.inlined_at
    return {
        "file": source.file,
        "line": source.line,
        "inlined_at": None if caller is None else _source_to_json(caller),
    }


def _source(value: dict[str, Any] | None) -> SourceLine | None:
    if value is None:
        return None
    return SourceLine(file=str(value["file"]), line=_count(value["line"]), inlined_at=_source(value["inlined_at"]))


def _origin_to_json(origin: Origin) -> dict[str, Any]:
    return {"input": origin.input, "line": origin.line, "format": origin.format}


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{value!r} is not a number of 0 or more")
    return value


def _optional(value: Any) -> int | None:
    return None if value is None else _count(value)


def _one_of(value: Any, known: tuple[str, ...]) -> Any:
    if value not in known:
        raise ValueError(f"{value!r} is none of {', '.join(known)}")
    return value
