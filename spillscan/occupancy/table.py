"""The formula over whole columns: a million configurations in well under two seconds on one core.

A limit that does not bind is ``NO_LIMIT``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spillscan.occupancy.devices import Device, device, devices
from spillscan.occupancy.formula import (
    CACHING,
    NOT_SET,
    PREFERENCES,
    Arithmetic,
    block_limits,
    preferred_shared_bytes,
    step_without_preference,
)
from spillscan.occupancy.model import LIMITERS
from spillscan.output.errors import UsageError
from spillscan.output.nouns import count

Ints = NDArray[np.int64]

ARRAYS = Arithmetic(where=np.where, minimum=np.minimum, maximum=np.maximum, some=np.any)

PIECE = 1 << 15
"""Rows that are worked out at once: so many stay in the processor's cache."""

DEFAULTS = {
    "static_shared_bytes": 0,
    "dynamic_shared_bytes": 0,
    "carveout_percent": NOT_SET,
    "barriers": 1,
    "max_dynamic_shared_bytes": NOT_SET,
    "virtual_resources": 0,
}
"""Optional columns, and what an absent column or an empty cell means."""
REQUIRED = ("arch", "registers", "threads_per_block")
CODES = {"cache_preference": PREFERENCES, "global_caching": CACHING}
"""Optional columns of words; absent, empty or the first word: the default."""


def occupancy_table(columns: Mapping[str, Any], first_row: int = 1) -> dict[str, NDArray[Any]]:
    """Occupancy of many configurations: a mapping of columns (a pandas ``DataFrame`` is one) to result columns.

    Needs ``arch``, ``registers`` and ``threads_per_block``; may have ``static_shared_bytes``, ``dynamic_shared_bytes``,
    ``carveout_percent``, ``barriers``, ``max_dynamic_shared_bytes``, ``virtual_resources``, ``cache_preference`` and
    ``global_caching``. Other columns are ignored. NaN, NA and None mean the default.

    Gives ``resident_blocks``, ``active_warps``, ``max_warps``, ``occupancy``, ``limit_*`` (``NO_LIMIT`` where a
    resource does not limit), ``limiters`` (bits in the order of ``LIMITERS``), ``allocated_registers_per_block``,
    ``allocated_shared_bytes_per_block``, ``shared_bytes_per_sm`` and ``global_caching`` (0 off, 1 on, 2 strict).

    A launch that does not fit (also: 1,025 threads) has 0 blocks. A missing column, an unknown arch, a negative figure,
    0 threads or a carve-out above 100 raises :class:`~spillscan.UsageError` with the row.
    """
    for name in REQUIRED:
        if name not in columns:
            raise UsageError(f"column {name} is missing", "needed are " + ", ".join(REQUIRED))
    archs = columns["arch"]
    rows = len(archs)
    known, which = _archs(archs, first_row)
    figures = {name: _whole(columns[name], name, None, first_row) for name in REQUIRED[1:]}
    for name, default in DEFAULTS.items():
        figures[name] = (
            _whole(columns[name], name, default, first_row) if name in columns else np.full(rows, default, np.int64)
        )
    for name, figure in figures.items():
        if len(figure) != rows:
            raise UsageError(
                f"column {name} has {count(len(figure), 'row')}, arch has {rows}", "make them equally long"
            )
        least = {"threads_per_block": 1, "carveout_percent": -1, "max_dynamic_shared_bytes": -1}.get(name, 0)
        _bounds(figure, name, least, first_row)
    words = {
        name: _words(columns[name], name, codes) if name in columns else np.zeros(rows, np.int64)
        for name, codes in CODES.items()
    }
    devices_in_use = _Devices(known)
    parts = [slice(first, first + PIECE) for first in range(0, max(rows, 1), PIECE)]
    answers = [
        _resident(devices_in_use, which[part], {name: figure[part] for name, figure in (figures | words).items()})
        for part in parts
    ]
    return {name: np.concatenate([answer[name] for answer in answers]) for name in answers[0]}


class _Devices:
    """Figures of the devices in use as arrays, one entry a device."""

    def __init__(self, known: Sequence[Device]) -> None:
        self.devices = known
        percents = (None, *range(101))
        self.preferred = np.array(
            [
                [[preferred_shared_bytes(one, percent, name) for percent in percents] for name in PREFERENCES]
                for one in known
            ],
            np.int64,
        )
        """[device, preference, percent + 1]: the shared memory that is asked for, bytes."""
        wanted = range(0, max(one.shared_bytes_per_sm for one in known) + 1, 1024)
        self.steps = np.array(
            [[step_without_preference(one, min(each, one.shared_bytes_per_sm)) for each in wanted] for one in known],
            np.int64,
        )
        """[device, KB rounded up]: the carve-out that holds so much, bytes."""


class _Rows:
    """The figures of each row's device, named as :class:`Device` names them."""

    def __init__(self, known: Sequence[Device], which: Ints) -> None:
        self._known, self._which = known, which

    def __getattr__(self, name: str) -> NDArray[Any]:
        column: NDArray[Any] = np.array([getattr(one, name) for one in self._known])[self._which]
        setattr(self, name, column)
        return column


def _resident(known: _Devices, which: Ints, figures: Mapping[str, Ints]) -> dict[str, NDArray[Any]]:
    have = _Rows(known.devices, which)
    found = block_limits(
        have,
        ARRAYS,
        registers=figures["registers"],
        threads=figures["threads_per_block"],
        static_bytes=figures["static_shared_bytes"],
        dynamic_bytes=figures["dynamic_shared_bytes"],
        attribute=figures["max_dynamic_shared_bytes"],
        preferred_bytes=known.preferred[which, figures["cache_preference"], figures["carveout_percent"] + 1],
        step=lambda wanted: known.steps[which, (wanted + 1023) // 1024],
        barriers=figures["barriers"],
        virtual_resources=figures["virtual_resources"],
        caching=figures["global_caching"],
    )
    limits = found[: len(LIMITERS)]
    blocks = reduce(np.minimum, limits)
    binding = np.zeros(len(blocks), np.uint8)
    for bit, limit in enumerate(limits):
        binding |= (limit == blocks).astype(np.uint8) << np.uint8(bit)
    active = blocks * ((figures["threads_per_block"] + 31) // 32)
    return {
        "resident_blocks": blocks,
        "active_warps": active,
        "max_warps": have.max_warps_per_sm,
        "occupancy": active / have.max_warps_per_sm,
        "limiters": binding,
        **{f"limit_{name}": limit for name, limit in zip(LIMITERS, limits, strict=True)},
        "allocated_registers_per_block": found.allocated_registers,
        "allocated_shared_bytes_per_block": found.allocated_shared_bytes,
        "shared_bytes_per_sm": found.shared_bytes_per_sm,
        "global_caching": found.caching,
    }


def limiter_names() -> list[str]:
    """Names for every value of the ``limiters`` column, joined with ``+``."""
    return [
        "+".join(name for bit, name in enumerate(LIMITERS) if mask >> bit & 1) for mask in range(1 << len(LIMITERS))
    ]


def _archs(archs: Any, first_row: int) -> tuple[list[Device], Ints]:
    known: list[Device] = []
    place: dict[Any, int] = {}
    targets: dict[str, int] = {}
    names = archs.tolist() if hasattr(archs, "tolist") else list(archs)
    try:
        for name in dict.fromkeys(names):
            found = device(name if isinstance(name, float | int) else str(name))
            if found.target not in targets:
                targets[found.target] = len(known)
                known.append(found)
            place[name] = targets[found.target]
    except UsageError as error:
        raise UsageError(f"row {names.index(name) + first_row}: {error.what}", error.hint) from None
    return known or [devices()[0]], np.fromiter((place[name] for name in names), np.int64, len(names))


def _whole(values: Any, name: str, default: int | None, first_row: int) -> Ints:
    if hasattr(values, "to_numpy") and getattr(values.dtype, "na_value", None) is not None and values.hasnans:
        values = values.to_numpy(dtype=float, na_value=np.nan)
    array = np.asarray(values)
    if array.dtype.kind in "iub":
        return array.astype(np.int64, copy=False)
    if array.dtype.kind == "O":
        array = np.array([np.nan if _is_empty(value) else value for value in array])
    try:
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise UsageError(f"column {name} must hold whole numbers") from None
    empty = np.isnan(array)
    if default is None and empty.any():
        raise UsageError(f"row {int(empty.argmax()) + first_row}: {name} is empty", "fill it in")
    array = np.where(empty, 0 if default is None else default, array)
    uneven = (array != np.floor(array)) | (np.abs(array) > 2**53)
    if uneven.any():
        row = int(uneven.argmax())
        raise UsageError(f"row {row + first_row}: {name} must be a whole number, not {array[row]:g}")
    return array.astype(np.int64)


def _is_empty(value: Any) -> bool:
    """None, an empty cell, NaN, or the NA of pandas (which is not imported for it)."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value == ""


def _bounds(figure: Ints, name: str, least: int, first_row: int) -> None:
    most = 100 if name == "carveout_percent" else 2**31 - 1
    wrong = (figure < least) | (figure > most)
    if wrong.any():
        row = int(wrong.argmax())
        if name == "carveout_percent":
            bounds = "0 to 100"
        else:
            bounds = f"at least {max(least, 0)}" if figure[row] < least else f"at most {most:,}"
        raise UsageError(f"row {row + first_row}: {name} must be {bounds}, not {figure[row]:,}")


def _words(values: Any, name: str, codes: Sequence[str]) -> Ints:
    place: dict[Any, int] = {word: code for code, word in enumerate(codes)}
    try:
        return np.fromiter((0 if _is_empty(value) else place[value] for value in values), np.int64, len(values))
    except KeyError as error:
        raise UsageError(f"{name} must be one of {', '.join(codes)}, not {error.args[0]!r}") from None
