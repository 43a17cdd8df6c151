"""Curves as ``sweep -f json`` writes them, and read again: what was tried, and how long it took."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from msgspec import convert, structs, to_builtins

from spillscan.advice.sweep.model import Curve, Point, Setting, Timing
from spillscan.advice.sweep.timing import with_times
from spillscan.model.code import MOST_REGISTERS
from spillscan.model.symbols import demangle
from spillscan.output.errors import InputError

VERSION = 1


def curves_in(path: str) -> list[Curve]:
    """The curves of a sweep, points of its advice behind the others. Raises :class:`~spillscan.InputError` where the
    file cannot be read, or is no sweep."""
    try:
        with open(path, encoding="utf-8") as file:
            return [_curve(each) for each in json.load(file)["curves"]]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(f"{path} is not a sweep", "spillscan sweep … -f json:FILE writes one") from None


def swept(curves: Iterable[Curve]) -> dict[tuple[str, str | None], Curve]:
    """By symbol and arch; of several releases the curve with times, then that whose spills end with the fewest
    registers."""
    found: dict[tuple[str, str | None], Curve] = {}
    for curve in sorted(curves, key=lambda each: (not each.measured, each.registers_needed or MOST_REGISTERS)):
        found.setdefault((curve.symbol, curve.arch), curve)
    return found


def _curve(data: dict[str, Any]) -> Curve:
    points = tuple(map(_point, (*data["points"], *data["advice"])))
    curve = Curve(
        input=str(data.get("input", "")),
        symbol=str(data["symbol"]),
        arch=str(data["arch"]),
        toolkit=str(data.get("toolkit", "")),
        points=points,
        loops=str(data.get("loops", "")),
    )
    return with_times([curve], [each.timing for each in points if each.timing is not None])[0]


def _point(data: dict[str, Any]) -> Point:
    setting, time = convert(data, Setting), data.get("time")
    point = convert({**data, "setting": data, "ran": data, "time": None}, Point)
    if time is None:
        return point
    timing = Timing(
        value=setting,
        command=convert(time["command"], tuple[str, ...]),
        figures=convert(time["figures"], tuple[float, ...]),
        unit=str(time["unit"] or ""),
        failure=str(time["failure"]),
    )
    return structs.replace(point, timing=timing)


def curve_data(curve: Curve) -> dict[str, Any]:
    """One kernel."""
    launch = curve.launch
    return {
        "input": curve.input,
        "symbol": curve.symbol,
        "name": demangle(curve.symbol),
        "arch": curve.arch,
        "toolkit": curve.toolkit,
        "launch": None if launch is None else structs.asdict(launch),
        "points": [point_data(point) for point in curve.points],
        "facts": curve.facts,
        "loops": curve.loops,
        "measured": curve.measured,
        "spills_and_times": list(curve.spills_and_times),
        "flags": list(curve.flags),
        "advice": [
            {
                "direction": entry.direction,
                "cap": entry.cap,
                "gain_blocks": entry.gain,
                "ends_spills": entry.direction == "no spills" and entry.point.spill_bytes == 0,
                **point_data(entry.point),
            }
            for entry in curve.advice
        ],
        "no_advice": curve.no_advice,
    }


def point_data(point: Point) -> dict[str, Any]:
    """One point; ``None`` where it is not known."""
    found = to_builtins(point)
    return {
        **found.pop("setting"),
        **found.pop("ran"),
        **found,
        "loop_spill_bytes": point.loop_spill_bytes,
        "time": None if point.timing is None else _timing_data(point.timing),
    }


def _timing_data(timed: Timing) -> dict[str, Any]:
    """What the program took at one point; ``unit`` is ``None`` where only the program knows it."""
    return {
        "command": list(timed.command),
        "figures": list(timed.figures),
        "median": timed.median,
        "least": timed.least,
        "spread": timed.spread,
        "unit": timed.unit or None,
        "failure": timed.failure,
    }
