"""Numbers and units as Nsight Compute prints them: ``4,194,304``, ``16.38 Kbyte/block``, ``12.05 us``."""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal["count", "bytes", "percent", "time", "number"]

# Thousands are set apart by commas in the C locale, by blanks or apostrophes in others.
_NUMBER = re.compile(
    r"([-+]?(?:\d{1,3}(?:(?P<mark>[,'\u2019\u00a0\u202f ])\d{3})(?:(?P=mark)\d{3})*|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?)"
    r"(?: [({].*)?",  # the instances of a metric, which --print-metric-instances puts behind the sum
    re.DOTALL,
)
_DECIMAL_COMMA = re.compile(r"[-+]?\d+(?:\.\d{3})*,\d+|[-+]?\d{1,3}(?:\.\d{3}){2,}")
_ABSENT = frozenset({"", "no data", "n/a", "(!) n/a", "nan", "-nan", "inf", "-inf", "N/A"})
_SEPARATORS = str.maketrans("", "", ",'\u2019\u00a0\u202f ")

_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_TIMES = {
    "nsecond": 1.0, "ns": 1.0, "usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6, "second": 1e9, "s": 1e9, "sec": 1e9
}  # fmt: skip
_BYTES = re.compile(r"([kKMGTP]?)byte(?:/block)?")
_COUNTS = re.compile(
    r"([kKMGTP]?)(?:inst|sector|request|block|cluster|warp|thread|register/thread|cycle)?(?:/block|/thread)?"
)


class NotANumberError(ValueError):
    """What is printed is neither a number nor a word for an absent one."""


def number(text: str) -> float | None:
    """The number that ``text`` prints; ``None`` where it says that there is none (``no data``)."""
    found = _NUMBER.fullmatch(text)
    if found:
        return float(found[1].translate(_SEPARATORS))
    if text in _ABSENT:
        return None
    if _DECIMAL_COMMA.fullmatch(text):
        raise NotANumberError(f"{text!r} is written in a language that puts a comma before decimals")
    raise NotANumberError(f"{text!r} is not a number")


def decimals(text: str) -> int:
    """How many decimals ``text`` prints: two of ``16.38``, six of ``16.384000``."""
    return len(re.split(r"[^\d]", text.strip().partition(".")[2], maxsplit=1)[0])


def factor(unit: str, kind: Kind) -> float | None:
    """What a figure in ``unit`` is multiplied by to be in base units (bytes, nanoseconds, percent, one); ``None`` where
    the unit is none of that kind.
    """
    if kind == "percent":
        return 1.0 if unit in ("%", "pct") else None
    if kind == "time":
        return _TIMES.get(unit)
    if kind == "number":
        return 1.0
    found = (_BYTES if kind == "bytes" else _COUNTS).fullmatch(unit)
    return None if found is None else _PREFIXES[found[1]]
