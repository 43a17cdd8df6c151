"""What holds when all layers have spoken. Pure: layers in, terms of kernels and of files out, and the gaps that are
accepted on record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cached_property
from itertools import islice
from typing import Any, Generic, TypeVar

from msgspec import Struct, field, structs
from msgspec.structs import replace

from spillscan.judging.policy.file import LIMITS, keys
from spillscan.judging.rules import Terms
from spillscan.model import Finding, Gap, Kernel, Launch, Level
from spillscan.model.patterns import compiled, names_of, text_of
from spillscan.model.symbols import Tuned
from spillscan.naming.identity import canonical
from spillscan.occupancy.launches import overruling, settled

DEFAULT = "default"
"""Origin of what the policy does not say."""

T_co = TypeVar("T_co", covariant=True)


class Acceptance(Struct, frozen=True, kw_only=True):
    """One entry of ``accept``."""

    rule: str = ""
    """Of the findings; empty: it accepts gaps."""
    gap: str = ""
    """Kind of the gaps; empty: it accepts findings."""
    kernel: str = "*"
    """Pattern that a name of the kernel must fit; of a gap without a kernel, its unit, arch or input."""
    arch: tuple[str, ...] = ("*",)
    """Patterns of archs, likewise."""
    reason: str
    """Why, in the team's words."""
    until: date | None = None
    """Last day on which it holds (UTC); ``None``: no end."""
    origin: str
    """Its place."""

    def holds(self, today: date) -> bool:
        """Whether it has not expired."""
        return self.until is None or self.until >= today

    def covers(self, gap: Gap) -> bool:
        """Whether it is about ``gap``."""
        if self.gap != gap.code or (gap.kernel is not None and not self._of_arch(gap.kernel)):
            return False
        names = [*gap.names, gap.origin.input if gap.origin else ""]
        if gap.kernel is not None:
            names += names_of(gap.kernel.named_by)
        return compiled(self.kernel).fits(text_of(names), names)

    def covers_finding(self, finding: Finding) -> bool:
        """Whether it is about ``finding``: by a name of its kernel in this checkout, or its canonical symbol."""
        if self.rule != finding.rule or not self._of_arch(finding.kernel):
            return False
        names = [*names_of(finding.kernel.named_by), *names_of(canonical(finding.kernel.key.symbol))]
        return compiled(self.kernel).fits(text_of(names), names)

    def _of_arch(self, kernel: Kernel) -> bool:
        arch = kernel.key.arch or ""
        return any(compiled(pattern).fits(text_of((arch,)), (arch,)) for pattern in self.arch)


class Setting(Struct, Generic[T_co], frozen=True):
    """A value, and who said so."""

    value: T_co
    """The value."""
    origin: str
    """``spillscan.yaml:3``, ``--fail-on`` or ``default``."""


class Override(Struct, frozen=True, kw_only=True):
    """What holds for the kernels that it names."""

    match: tuple[str, ...] = ()
    """Patterns of names; a kernel must fit one of them. Empty: every kernel."""
    arch: tuple[str, ...] = ()
    """Patterns of archs, likewise."""
    unit: tuple[str, ...] = ()
    """Patterns of translation units, likewise."""
    settings: Mapping[str, Setting[Any]] = field(default_factory=dict)
    """Limits by key."""
    levels: Mapping[str, Setting[Level]] = field(default_factory=dict)
    """Severities by rule id."""
    launch: Setting[Launch] | None = None
    """How these kernels are launched."""
    reason: str = ""
    """Why, in the team's words."""
    origin: str = ""
    """Where it begins."""


class Layer(Struct, frozen=True, kw_only=True):
    """What one place said: a file, or the command line."""

    settings: Mapping[str, Setting[Any]] = field(default_factory=dict)
    """By key; limits hold for every kernel."""
    levels: Mapping[str, Setting[Level]] = field(default_factory=dict)
    """Severities by rule id, for every kernel."""
    entries: tuple[Override, ...] = ()
    """In order; they win over the layer's own settings, and the last of them over the others."""
    accept: tuple[Acceptance, ...] = ()
    """Findings and gaps that are accepted."""
    renamed: tuple[tuple[str, str], ...] = ()
    """(old, new) names of kernels; globs."""
    strict: bool = False
    """Whether anything that was not understood is fatal."""


class Matcher:
    """Which entries of a policy name which kernels, for very many kernels.

    Each pattern of each entry is a bit. Distinct symbols, archs and units are tried once and leave a mask of bits; a
    kernel's mask is what its three leave in common. Remembers what it has tried; entries never change.
    """

    def __init__(self, entries: Sequence[Override]) -> None:
        self.lines = [(index, pattern) for index, entry in enumerate(entries) for pattern in entry.match or ("*",)]
        """(index of the entry, pattern) of each bit, from the lowest on."""
        ready = [(compiled(pattern), 1 << bit) for bit, (_, pattern) in enumerate(self.lines)]
        everything = compiled("*")
        self._always = sum(bit for pattern, bit in ready if pattern == everything)
        named = [(pattern, bit) for pattern, bit in ready if pattern != everything]
        self._by_pattern = [(each.needle, bit, each.is_whole) for each, bit in named if each.exact is None]
        self._by_name: dict[str, int] = {}
        for pattern, bit in named:
            if pattern.exact is not None:
                self._by_name[pattern.exact] = self._by_name.get(pattern.exact, 0) | bit
        self._by_arch = [(entries[index].arch, 1 << bit) for bit, (index, _) in enumerate(self.lines)]
        self._by_unit = [(entries[index].unit, 1 << bit) for bit, (index, _) in enumerate(self.lines)]
        self.for_all = not named and not any(entry.arch or entry.unit for entry in entries)
        """Whether each pattern names every kernel."""
        self._names: dict[str | Tuned, int] = {}
        self._archs: dict[str, int] = {}
        self._units: dict[str, int] = {}

    def mask(self, kernel: Kernel) -> int:
        """The bits that name ``kernel``."""
        if self.for_all:
            return self._always
        key, called = kernel.key, kernel.named_by
        named = self._names.get(called)
        if named is None:
            named = self._names[called] = self._named(called)
        if not named:
            return 0
        arch, unit = key.arch or "", key.unit
        if arch not in self._archs:
            self._archs[arch] = _mask(self._by_arch, arch)
        if unit not in self._units:
            self._units[unit] = _mask(self._by_unit, unit)
        return named & self._archs[arch] & self._units[unit]

    def _named(self, called: str | Tuned) -> int:
        """The bits of the patterns that fit a name of a kernel; names are spelled out only where one is asked for."""
        if not self._by_name and not self._by_pattern:
            return self._always
        names = names_of(called)
        text = text_of(names)
        found = self._always
        for name in names:
            found |= self._by_name.get(name, 0)
        for needle, bit, is_whole in self._by_pattern:  # Pattern.fits, spelled out: this runs millions of times
            if needle in text and (is_whole is None or any(map(is_whole, names))):
                found |= bit
        return found

    def entries(self, mask: int) -> list[int]:
        """Indices of the entries of which a bit stands in ``mask``, in order, each once."""
        return list(dict.fromkeys(index for bit, (index, _) in enumerate(self.lines) if mask >> bit & 1))


def _mask(choices: Sequence[tuple[tuple[str, ...], int]], name: str) -> int:
    """The bits of all whose patterns fit ``name``, and of those that have none."""
    text = text_of((name,))
    return sum(
        bit for patterns, bit in choices if not patterns or any(compiled(p).fits(text, (name,)) for p in patterns)
    )


class Policy(Struct, frozen=True, eq=False, dict=True):
    """Layers from weak to strong; without any, the defaults."""

    layers: tuple[Layer, ...] = ()
    """The file's, the command line's."""
    day: date | None = None
    """The day on which entries of ``accept`` hold or not; ``None``: today."""

    own: Layer | None = None
    """The change's own file, if the layers are those of a merge base."""
    is_known: Callable[[Kernel], bool] | None = None
    """Whether the merge base's baseline has a kernel: launches of the change's own file count for others."""

    @cached_property
    def today(self) -> date:
        """:attr:`day`, else this day in UTC."""
        return self.day or datetime.now(UTC).date()

    def setting(self, name: str) -> Setting[Any]:
        """What holds for the key ``name``, unless an entry says another for some kernels."""
        said = [layer.settings[name] for layer in self.layers if name in layer.settings]
        return said[-1] if said else Setting(keys()[name].default, DEFAULT)

    @property
    def fail_on(self) -> str:
        """Mildest severity that fails a gate, or ``never``."""
        return str(self.setting("fail_on").value)

    @property
    def strict(self) -> bool:
        """Whether anything that was not understood is fatal."""
        return any(layer.strict for layer in self.layers)

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

    @property
    def require_archs(self) -> tuple[str, ...]:
        """What every binary must hold code for."""
        value = self.setting("require_archs").value
        return value if isinstance(value, tuple) else ()

    @property
    def driver_release(self) -> str | None:
        """CUDA release whose drivers must take all PTX."""
        value = self.setting("driver_release").value
        return value if isinstance(value, str) else None

    @property
    def max_file_bytes(self) -> int | None:
        """Most bytes that a file may have, as it is stored."""
        value = self.setting("max_file_bytes").value
        return value if isinstance(value, int) else None

    @property
    def renamed(self) -> tuple[tuple[str, str], ...]:
        """(old, new) names of kernels that were renamed; globs."""
        layers = (*self.layers, *([self.own] if self.own is not None else ()))
        return tuple(dict.fromkeys(pair for layer in layers for pair in layer.renamed))

    @property
    def accept(self) -> tuple[Acceptance, ...]:
        """Entries of all layers, the strongest first."""
        return tuple(each for layer in reversed(self.layers) for each in layer.accept)

    def acceptance(self, gap: Gap) -> Gap:
        """``gap``, with the reason if an entry accepts it today."""
        covering = (each for each in self.accept if each.gap and each.holds(self.today) and each.covers(gap))
        found = next(covering, None)
        return gap if found is None else structs.replace(gap, accepted=found.reason)

    def accepted(self, findings: Iterable[Finding]) -> list[Finding]:
        """``findings``, those marked that an entry accepts today."""
        entries = [each for each in self.accept if each.rule and each.holds(self.today)]
        made = []
        for finding in findings:
            found = next((each for each in entries if each.covers_finding(finding)), None) if entries else None
            made.append(
                finding
                if found is None
                else structs.replace(finding, baseline_state="suppressed", suppression=found.reason)
            )
        return made

    @cached_property
    def entries(self) -> tuple[Override, ...]:
        """Entries of all layers, from weak to strong; a layer's own settings stand before its entries, for all."""
        found = []
        for layer in self.layers:
            limits = {name: setting for name, setting in layer.settings.items() if name in LIMITS}
            if limits or layer.levels:
                found.append(Override(settings=limits, levels=layer.levels))
            found += layer.entries
        return tuple(found)

    def terms_of(self, kernel: Kernel) -> Terms:
        """What holds for ``kernel``. Cheap: kernels that the same entries name and that are launched alike share their
        terms."""
        if self.is_known is not None and self._of_new is not None and not self.is_known(kernel):
            return self._of_new.terms_of(kernel)
        mask = self._matcher.mask(kernel)
        said = self._terms.get((mask, None))
        if said is None:
            said = self._terms[mask, None] = self._resolved(mask)
        if said.launch is None and kernel.launch is None and kernel.launch_bounds is None:
            return said
        launch = settled(kernel, said.launch)
        if launch == said.launch:
            return said
        terms = self._terms.get((mask, launch))
        if terms is None:
            terms = self._terms[mask, launch] = replace(said, launch=launch)
        return terms

    def terms_of_all(self, kernels: Sequence[Kernel]) -> tuple[Terms, ...]:
        """What holds for any of ``kernels``, each once."""
        if self._matcher.for_all and self._of_new is None:  # they differ by how they are launched alone
            own = [
                kernel
                for kernel in kernels
                if kernel.launch is not None or kernel.launch_bounds is not None or kernel.dynamic_shared is not None
            ]
            known = set(map(id, own))
            kernels = [*own, *islice((kernel for kernel in kernels if id(kernel) not in known), 1)]
        return tuple({id(terms): terms for terms in map(self.terms_of, kernels)}.values())

    def launch_of(self, kernel: Kernel) -> Launch | None:
        """How ``kernel`` is launched; ``None`` where neither the policy nor the kernel itself says."""
        return self.terms_of(kernel).launch

    def said_of(self, kernel: Kernel) -> Override:
        """All that is said of ``kernel``, each value with its origin; what no layer says is left out."""
        return self._said(self._matcher.mask(kernel))

    def in_force(self) -> tuple[Override, ...]:
        """The entries that name kernels, without what a stronger layer overrules for all, and without empty ones."""
        found: list[Override] = []
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

    def unused(self, kernels: Iterable[Kernel]) -> list[tuple[Override, str]]:
        """(entry, pattern) of those that name none of ``kernels``, in order; ``*`` where an entry has no ``match``."""
        seen = 0
        for kernel in kernels:
            seen |= self._matcher.mask(kernel)
        idle = [line for bit, line in enumerate(self._matcher.lines) if not seen >> bit & 1]
        found = [(self.entries[index], pattern) for index, pattern in idle]
        return [(entry, pattern) for entry, pattern in found if entry.match or entry.arch or entry.unit]

    def overruled(self, kernels: Iterable[Kernel]) -> list[tuple[Override, list[Kernel]]]:
        """(entry, kernels) whose code says another block size than the entry that names them, which then
        does not count. What an entry says of all kernels is meant for those that say nothing."""
        found: dict[int, list[Kernel]] = {}
        entries = self.entries
        for kernel in kernels:
            if kernel.launch is None and kernel.launch_bounds is None:
                continue
            naming = self._matcher.entries(self._matcher.mask(kernel))
            for index in [each for each in naming if entries[each].launch][-1:]:
                launch = entries[index].launch
                if launch and entries[index].match != ("*",) and overruling(kernel, launch.value):
                    found.setdefault(index, []).append(kernel)
        return [(entries[index], named) for index, named in found.items()]

    @cached_property
    def _of_new(self) -> Policy | None:
        """The policy for kernels that the merge base does not have."""
        entries = [
            replace(each, settings={}, levels={}) for each in (self.own.entries if self.own else ()) if each.launch
        ]
        if not entries:
            return None
        launches = Layer(entries=tuple(entries))
        return Policy((*self.layers[:-1], launches, self.layers[-1]), day=self.day)

    @cached_property
    def _matcher(self) -> Matcher:
        return Matcher(self.entries)

    @cached_property
    def _terms(self) -> dict[tuple[int, Launch | None], Terms]:
        """By mask and launch; ``None``: as the policy has the launch."""
        return {}

    def _said(self, mask: int) -> Override:
        said = Override()
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
        limits: dict[str, Any] = {name: key.default for name, key in keys().items() if key.per_kernel}
        limits |= {name: setting.value for name, setting in said.settings.items()}
        levels = {rule: setting.value for rule, setting in said.levels.items()}
        launch, origin = (said.launch.value, said.launch.origin) if said.launch else (None, "")
        return Terms(limits=limits, levels=levels, launch=launch, launch_from=origin, devices=self.devices)
