"""The order in which people expect architectures."""

from __future__ import annotations

import re

_DIGITS = re.compile("[0-9]+")


def natural(arch: str | None) -> tuple[bool, list[tuple[int, str]], str]:
    """Sort key: sm_90 before sm_100; the unknown arch last. Numbers stay text: those of a log may have any size."""
    numbers = [digits.lstrip("0") for digits in _DIGITS.findall(arch or "")]
    return arch is None, [(len(number), number) for number in numbers], arch or ""
