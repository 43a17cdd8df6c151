"""A build as JSON values and back: what ``scan -f json`` writes is itself an input (``schema/build.schema.json``)."""

from __future__ import annotations

from typing import Any

from spillscan.model import Advisory, Build, Issue, Kernel, KernelKey, LaunchBounds, Origin, Stats, Usage
from spillscan.model.usage import NUMBERS
from spillscan.serialize_code import from_json as sass_from_json
from spillscan.serialize_code import to_json as sass_to_json

SCHEMA_VERSION = 1


def kernel_to_json(kernel: Kernel) -> dict[str, Any]:
    """One kernel as the schema says; absent figures are ``None``."""
    key = kernel.key
    return {
        "symbol": key.symbol,
        "name": kernel.name,
        "short_name": kernel.short_name,
        "arch": key.arch,
        "unit": key.unit,
        "role": kernel.role,
        "confidence": kernel.confidence,
        "reasons": list(kernel.reasons),
        "final": kernel.final,
        "usage": usage_to_json(kernel.usage, kernel.compile_ms),
        "advisories": [advisory_to_json(advisory) for advisory in kernel.advisories],
        "origins": [origin_to_json(origin) for origin in kernel.origins],
        "source": kernel.source,
        "sass": None if kernel.sass is None else sass_to_json(kernel.sass),
        "launch_bounds": bounds_to_json(kernel.launch_bounds),
    }


def usage_to_json(usage: Usage, compile_ms: float | None = None) -> dict[str, Any]:
    """The figures by name; constant banks by number."""
    constants = usage.constant_bytes
    return {
        **{name: getattr(usage, name) for name in NUMBERS},
        "constant_bytes": None if constants is None else {str(bank): size for bank, size in constants},
        "compile_ms": compile_ms,
        "unknown_clauses": list(usage.unknown_clauses),
    }


def bounds_to_json(bounds: LaunchBounds | None) -> dict[str, Any] | None:
    """Launch bounds of a binary."""
    if bounds is None:
        return None
    return {"max_threads": bounds.max_threads, "required_threads": bounds.required_threads}


def advisory_to_json(advisory: Advisory) -> dict[str, Any]:
    """What the compiler said besides figures."""
    return {
        "kind": advisory.kind,
        "text": advisory.text,
        "severity": advisory.severity,
        "code": advisory.code,
        "location": advisory.location,
    }


def origin_to_json(origin: Origin) -> dict[str, Any]:
    """Where something was read."""
    return {"input": origin.input, "line": origin.line, "format": origin.format}


def issue_to_json(issue: Issue) -> dict[str, Any]:
    """One issue."""
    return {
        "code": issue.code,
        "severity": issue.severity,
        "message": issue.message,
        "origin": None if issue.origin is None else origin_to_json(issue.origin),
    }


def stats_to_json(build: Build) -> dict[str, Any]:
    """How much was read, and how many kernels came of it."""
    stats = build.stats
    return {
        "inputs": stats.inputs,
        "lines": stats.lines,
        "bytes": stats.bytes,
        "recognised_lines": stats.recognised_lines,
        "unknown_lines": stats.unknown_lines,
        "unknown_clauses": stats.unknown_clauses,
        "kernels": sum(kernel.role == "entry" for kernel in build.kernels),
        "functions": sum(kernel.role != "entry" for kernel in build.kernels),
        "ambiguous": sum(kernel.confidence == "ambiguous" for kernel in build.kernels),
    }


def build_from_json(document: dict[str, Any]) -> Build:
    """The build that a snapshot holds. Raises ``KeyError``, ``TypeError`` or ``ValueError`` where it is no snapshot."""
    if document["schema_version"] != SCHEMA_VERSION:
        raise ValueError(f"schema version {document['schema_version']!r}; this spillscan reads {SCHEMA_VERSION}")
    stats = document.get("stats", {})
    return Build(
        kernels=tuple(_kernel(value) for value in document["kernels"]),
        issues=tuple(_issue(value) for value in document.get("issues", [])),
        stats=Stats(**{name: int(stats.get(name, 0)) for name in Stats.__dataclass_fields__}),
    )


def _kernel(value: dict[str, Any]) -> Kernel:
    if value["role"] not in ("entry", "function", "unknown"):
        raise ValueError(f"role {value['role']!r}")
    if value["confidence"] not in ("certain", "ambiguous"):
        raise ValueError(f"confidence {value['confidence']!r}")
    return Kernel(
        key=KernelKey(symbol=str(value["symbol"]), arch=value["arch"], unit=value.get("unit") or ""),
        role=value["role"],
        usage=_usage(value["usage"]),
        confidence=value["confidence"],
        reasons=tuple(value.get("reasons", ())),
        final=value.get("final"),
        advisories=tuple(Advisory(**advisory) for advisory in value.get("advisories", ())),
        origins=tuple(_origin(origin) for origin in value.get("origins", ())),
        compile_ms=value["usage"].get("compile_ms"),
        launch_bounds=_bounds(value.get("launch_bounds")),
        source=str(value.get("source") or ""),
        sass=None if value.get("sass") is None else sass_from_json(value["sass"]),
    )


def _bounds(value: dict[str, Any] | None) -> LaunchBounds | None:
    if value is None:
        return None
    for name in ("max_threads", "required_threads"):
        if value[name] is not None and not 1 <= value[name] <= 1024:
            raise ValueError(f"{name} is {value[name]!r}")
    return LaunchBounds(max_threads=value["max_threads"], required_threads=value["required_threads"])


def _usage(value: dict[str, Any]) -> Usage:
    figures = {name: value.get(name) for name in NUMBERS}
    for name, figure in figures.items():
        if figure is not None and (isinstance(figure, bool) or not isinstance(figure, int | float) or figure < 0):
            raise ValueError(f"{name} is {figure!r}")
    constants = value.get("constant_bytes")
    return Usage(
        **figures,
        constant_bytes=None if constants is None else tuple(sorted((int(k), int(v)) for k, v in constants.items())),
        unknown_clauses=tuple(value.get("unknown_clauses", ())),
    )


def _origin(value: dict[str, Any]) -> Origin:
    return Origin(input=str(value["input"]), line=value.get("line"), format=value.get("format", "snapshot"))


def _issue(value: dict[str, Any]) -> Issue:
    origin = value.get("origin")
    return Issue(
        code=value["code"],
        message=value["message"],
        severity=value["severity"],
        origin=None if origin is None else _origin(origin),
    )
