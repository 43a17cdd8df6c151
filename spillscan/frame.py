"""Builds as tables. The only module that imports pandas, and imported late."""

from __future__ import annotations

import pandas

from spillscan.model import Build
from spillscan.model.usage import NUMBERS


def to_pandas(build: Build) -> pandas.DataFrame:
    """One row a kernel, in the build's order: identity as strings, figures as nullable ``Int64``.

    Constant banks become columns ``constant_bytes_0`` and so on, for the banks that occur. Absent figures are ``<NA>``.
    """
    kernels = build.kernels
    columns: dict[str, object] = {
        "symbol": [kernel.key.symbol for kernel in kernels],
        "name": [kernel.name for kernel in kernels],
        "short_name": [kernel.short_name for kernel in kernels],
        "arch": [kernel.key.arch for kernel in kernels],
        "unit": [kernel.key.unit for kernel in kernels],
        "role": [kernel.role for kernel in kernels],
        "confidence": [kernel.confidence for kernel in kernels],
        "final": pandas.array([kernel.final for kernel in kernels], dtype="boolean"),
    }
    for name in NUMBERS:
        columns[name] = pandas.array([getattr(kernel.usage, name) for kernel in kernels], dtype="Int64")
    banks = [dict(kernel.usage.constant_bytes or ()) for kernel in kernels]
    for bank in sorted({bank for each in banks for bank in each}):
        columns[f"constant_bytes_{bank}"] = pandas.array([each.get(bank) for each in banks], dtype="Int64")
    columns["compile_ms"] = pandas.array([kernel.compile_ms for kernel in kernels], dtype="Float64")
    columns["input"] = [kernel.origins[0].input if kernel.origins else None for kernel in kernels]
    columns["line"] = pandas.array(
        [kernel.origins[0].line if kernel.origins else None for kernel in kernels], dtype="Int64"
    )
    return pandas.DataFrame(columns)
