"""One layer of a policy: what one place said, each value with where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from spillscan.occupancy.model import Launch
from spillscan.policy.keys import Value
from spillscan.policy.severity import Level

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Setting(Generic[T_co]):
    """A value, and who said so."""

    value: T_co
    """The value."""
    origin: str
    """``spillscan.yaml:3``, ``SPILLSCAN_FAIL_ON``, ``--fail-on`` or ``default``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What holds for the kernels that it names."""

    match: tuple[str, ...] = ()
    """Patterns of names; a kernel must fit one of them. Empty: every kernel."""
    arch: tuple[str, ...] = ()
    """Patterns of archs, likewise."""
    unit: tuple[str, ...] = ()
    """Patterns of translation units, likewise."""
    settings: Mapping[str, Setting[Value]] = field(default_factory=dict)
    """Limits by key."""
    levels: Mapping[str, Setting[Level]] = field(default_factory=dict)
    """Severities by rule id."""
    launch: Setting[Launch] | None = None
    """How these kernels are launched."""
    reason: str = ""
    """Why, in the team's words."""
    origin: str = ""
    """Where it begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """What one place said: a file, the environment, or the command line."""

    settings: Mapping[str, Setting[Value]] = field(default_factory=dict)
    """By key; limits hold for every kernel."""
    levels: Mapping[str, Setting[Level]] = field(default_factory=dict)
    """Severities by rule id, for every kernel."""
    entries: tuple[Entry, ...] = ()
    """In order; they win over the layer's own settings, and the last of them over the others."""
