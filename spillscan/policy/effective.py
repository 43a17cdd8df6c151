"""What holds when all layers have spoken. Pure: layers in, terms of kernels out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from spillscan.model import Kernel
from spillscan.occupancy.model import Launch
from spillscan.policy.keys import KEYS, Value
from spillscan.policy.launches import of_bounds
from spillscan.policy.layers import Entry, Layer, Setting
from spillscan.policy.matching import Matcher
from spillscan.policy.terms import Limits, Terms

DEFAULT = "default"
"""Origin of what nobody said."""


@dataclass(frozen=True, eq=False)
class Policy:
    """Layers from weak to strong; without any, the defaults."""

    layers: tuple[Layer, ...] = ()
    """The file's, the environment's, the command line's."""

    def setting(self, name: str) -> Setting[Value]:
        """What holds for the key ``name``, unless an entry says another for some kernels."""
        said = [layer.settings[name] for layer in self.layers if name in layer.settings]
        return said[-1] if said else Setting(KEYS[name].default, DEFAULT)

    @property
    def fail_on(self) -> str:
        """Mildest severity that fails a gate, or ``never``."""
        return str(self.setting("fail_on").value)

    @property
    def strict(self) -> bool:
        """Whether anything that was not understood is fatal."""
        return bool(self.setting("strict").value)

    @property
    def expect_kernels(self) -> int | None:
        """Fewest kernels that a build must have."""
        value = self.setting("expect_kernels").value
        return value if isinstance(value, int) else None

    @property
    def baseline(self) -> str | None:
        """File of known findings."""
        value = self.setting("baseline").value
        return value if isinstance(value, str) else None

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices on which resident blocks count; empty: each kernel's own arch."""
        value = self.setting("devices").value
        return value if isinstance(value, tuple) else ()

    def count(self, name: str) -> int:
        """What holds for a key of kind ``count`` that has a default."""
        value = self.setting(name).value
        assert isinstance(value, int)
        return value

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """Entries of all layers, from weak to strong; a layer's own settings stand before its entries, for all."""
        return tuple(_entries(self.layers))

    def terms_of(self, kernel: Kernel) -> Terms:
        """What holds for ``kernel``. Cheap: kernels that the same entries name share their terms."""
        mask = self._matcher.mask(kernel)
        terms = self._terms.get(mask)
        if terms is None:
            terms = self._terms[mask] = self._resolved(mask)
        return terms

    def limits_of(self, kernel: Kernel) -> Limits:
        """The limits of ``kernel``."""
        return self.terms_of(kernel).limits

    def launch_of(self, kernel: Kernel) -> Launch | None:
        """How ``kernel`` is launched; ``None`` where nobody said, and its binary has no bounds."""
        return self.terms_of(kernel).launch or of_bounds(kernel)

    def said_of(self, kernel: Kernel) -> Entry:
        """All that is said of ``kernel``, each value with its origin; what nobody said is left out."""
        return self._said(self._matcher.mask(kernel))

    def in_force(self) -> tuple[Entry, ...]:
        """The entries that name kernels, without what a stronger layer overrules for all, and without empty ones."""
        found: list[Entry] = []
        for number, layer in enumerate(self.layers):
            above = self.layers[number + 1 :]
            names = {name for each in above for name in each.settings}
            rules = {rule for each in above for rule in each.levels}
            for entry in layer.entries:
                settings = {name: setting for name, setting in entry.settings.items() if name not in names}
                levels = {rule: setting for rule, setting in entry.levels.items() if rule not in rules}
                if settings or levels or entry.launch:
                    found.append(replace(entry, settings=settings, levels=levels))
        return tuple(found)

    def unused(self, kernels: Iterable[Kernel]) -> list[tuple[Entry, str]]:
        """(entry, pattern) of those that name none of ``kernels``, in order; ``*`` where an entry has no ``match``."""
        seen = 0
        for kernel in kernels:
            seen |= self._matcher.mask(kernel)
        idle = [line for bit, line in enumerate(self._matcher.lines) if not seen >> bit & 1]
        found = [(self.entries[index], pattern) for index, pattern in idle]
        return [(entry, pattern) for entry, pattern in found if entry.match or entry.arch or entry.unit]

    @cached_property
    def _matcher(self) -> Matcher:
        return Matcher(self.entries)

    @cached_property
    def _terms(self) -> dict[int, Terms]:
        return {}

    def _said(self, mask: int) -> Entry:
        said = Entry()
        for index in self._matcher.entries(mask):
            entry = self.entries[index]
            said = replace(
                said,
                settings={**said.settings, **entry.settings},
                levels={**said.levels, **entry.levels},
                launch=entry.launch or said.launch,
            )
        return said

    def _resolved(self, mask: int) -> Terms:
        said = self._said(mask)
        limits: dict[str, Any] = {name: setting.value for name, setting in said.settings.items()}
        levels = {rule: setting.value for rule, setting in said.levels.items()}
        launch = said.launch.value if said.launch else None
        return Terms(limits=Limits(**limits), levels=levels, launch=launch, devices=self.devices)


def _entries(layers: Iterable[Layer]) -> Iterator[Entry]:
    for layer in layers:
        limits = {name: setting for name, setting in layer.settings.items() if KEYS[name].per_kernel}
        if limits or layer.levels:
            yield Entry(settings=limits, levels=layer.levels)
        yield from layer.entries
