"""Result of all layers. Pure: layers in; terms of kernels and files out, and accepted findings and gaps."""

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
"""Origin of values that no layer sets."""

T_co = TypeVar("T_co", covariant=True)


class Acceptance(Struct, frozen=True, kw_only=True):
    """One entry of ``accept``."""

    rule: str = ""
    """Rule of the findings; empty if it accepts gaps."""
    gap: str = ""
    """Kind of the gaps; empty if it accepts findings."""
    kernel: str = "*"
    """Pattern that a name of the kernel must match; for a gap without a kernel, its unit, arch or input."""
    arch: tuple[str, ...] = ("*",)
    """Patterns, one of which the arch must match."""
    reason: str
    """Reason, in the team's words."""
    until: date | None = None
    """Last day on which it holds (UTC); ``None`` if it does not expire."""
    origin: str
    """Place of the entry: file and line, or option."""

    def holds(self, today: date) -> bool:
        """Whether it has not expired."""
        return self.until is None or self.until >= today

    def covers(self, gap: Gap) -> bool:
        """Whether the entry is about ``gap``."""
        if self.gap != gap.code or (gap.kernel is not None and not self._of_arch(gap.kernel)):
            return False
        names = [*gap.names, gap.origin.input if gap.origin else ""]
        if gap.kernel is not None:
            names += names_of(gap.kernel.named_by)
        return compiled(self.kernel).fits(text_of(names), names)

    def covers_finding(self, finding: Finding) -> bool:
        """Whether the entry is about ``finding``, by a name of its kernel in this checkout or its canonical symbol."""
        if self.rule != finding.rule or not self._of_arch(finding.kernel):
            return False
        names = [*names_of(finding.kernel.named_by), *names_of(canonical(finding.kernel.key.symbol))]
        return compiled(self.kernel).fits(text_of(names), names)

    def _of_arch(self, kernel: Kernel) -> bool:
        arch = kernel.key.arch or ""
        return any(compiled(pattern).fits(text_of((arch,)), (arch,)) for pattern in self.arch)


class Setting(Struct, Generic[T_co], frozen=True):
    """A value and its origin."""

    value: T_co
    """The value."""
    origin: str
    """``spillscan.yaml:3``, ``--fail-on`` or ``default``."""


class Override(Struct, frozen=True, kw_only=True):
    """Settings of the kernels that it matches."""

    match: tuple[str, ...] = ()
    """Patterns of names, one of which a kernel must match; if empty, it matches every kernel."""
    arch: tuple[str, ...] = ()
    """Patterns of archs, likewise."""
    unit: tuple[str, ...] = ()
    """Patterns of translation units, likewise."""
    settings: Mapping[str, Setting[Any]] = field(default_factory=dict)
    """Limits by key."""
    levels: Mapping[str, Setting[Level]] = field(default_factory=dict)
    """Severities by rule id."""
    launch: Setting[Launch] | None = None
    """Launch of these kernels."""
    reason: str = ""
    """Reason, in the team's words."""
    origin: str = ""
    """Place where the entry begins."""


class Layer(Struct, frozen=True, kw_only=True):
    """Settings from one source: a file, or the command line."""

    settings: Mapping[str, Setting[Any]] = field(default_factory=dict)
    """Settings by key; limits apply to every kernel."""
    levels: Mapping[str, Setting[Level]] = field(default_factory=dict)
    """Severities by rule id, for every kernel."""
    entries: tuple[Override, ...] = ()
    """Entries in order; they win over the layer's own settings, and later ones over earlier ones."""
    accept: tuple[Acceptance, ...] = ()
    """Accepted findings and gaps."""
    renamed: tuple[tuple[str, str], ...] = ()
    """(old, new) names of kernels; globs."""
    strict: bool = False
    """Whether anything that was not understood counts as a gap."""


class Matcher:
    """Entries of a policy that match a kernel, for very many kernels.
    Each pattern of each entry is a bit. Distinct names, archs and units are matched once, which gives a mask of bits
    each; a kernel's mask is the intersection of its three. Masks are cached; entries never change.
    """

    def __init__(self, entries: Sequence[Override]) -> None:
        self.lines = [(index, pattern) for index, entry in enumerate(entries) for pattern in entry.match or ("*",)]
        """(index of the entry, pattern) of each bit, the lowest first."""
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
        """Whether each pattern matches every kernel."""
        self._names: dict[str | Tuned, int] = {}
        self._archs: dict[str, int] = {}
        self._units: dict[str, int] = {}

    def mask(self, kernel: Kernel) -> int:
        """Bits of the patterns that match ``kernel``."""
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
        """Bits of the patterns that match a name of a kernel; names are only expanded if there are patterns."""
        if not self._by_name and not self._by_pattern:
            return self._always
        names = names_of(called)
        text = text_of(names)
        found = self._always
        for name in names:
            found |= self._by_name.get(name, 0)
        for needle, bit, is_whole in self._by_pattern:  # Pattern.fits, inlined: this runs millions of times
            if needle in text and (is_whole is None or any(map(is_whole, names))):
                found |= bit
        return found

    def entries(self, mask: int) -> list[int]:
        """Indices of the entries with a bit in ``mask``, in order, without repetition."""
        return list(dict.fromkeys(index for bit, (index, _) in enumerate(self.lines) if mask >> bit & 1))


def _mask(choices: Sequence[tuple[tuple[str, ...], int]], name: str) -> int:
    """Bits of all choices whose patterns match ``name``, or that have no patterns."""
    text = text_of((name,))
    return sum(
        bit for patterns, bit in choices if not patterns or any(compiled(p).fits(text, (name,)) for p in patterns)
    )


class Policy(Struct, frozen=True, eq=False, dict=True):
    """Layers, the weakest first; without any, the defaults."""

    layers: tuple[Layer, ...] = ()
    """Layers of the file and of the command line."""
    day: date | None = None
    """Day for which the expiry of ``accept`` entries is checked; ``None``: today."""

    own: Layer | None = None
    """Layer of the change's own file, if ``layers`` are those of a merge base."""
    is_known: Callable[[Kernel], bool] | None = None
    """Whether the merge base's baseline has a kernel; launches in the change's own file apply to other kernels."""

    @cached_property
    def today(self) -> date:
        """:attr:`day`, else the current day in UTC."""
        return self.day or datetime.now(UTC).date()

    def setting(self, name: str) -> Setting[Any]:
        """Value of the key ``name``, unless an entry sets another for some kernels."""
        said = [layer.settings[name] for layer in self.layers if name in layer.settings]
        return said[-1] if said else Setting(keys()[name].default, DEFAULT)

    @property
    def fail_on(self) -> str:
        """Lowest severity that fails a gate, or ``never``."""
        return str(self.setting("fail_on").value)

    @property
    def strict(self) -> bool:
        """Whether anything that was not understood counts as a gap."""
        return any(layer.strict for layer in self.layers)

    @property
    def expect_kernels(self) -> int | None:
        """Minimum number of kernels in a build."""
        value = self.setting("expect_kernels").value
        return value if isinstance(value, int) else None

    @property
    def baseline(self) -> str | None:
        """Path of the baseline."""
        value = self.setting("baseline").value
        return value if isinstance(value, str) else None

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices whose resident blocks count; empty: each kernel's own arch."""
        value = self.setting("devices").value
        return value if isinstance(value, tuple) else ()

    @property
    def require_archs(self) -> tuple[str, ...]:
        """Archs that every binary must have code for."""
        value = self.setting("require_archs").value
        return value if isinstance(value, tuple) else ()

    @property
    def driver_release(self) -> str | None:
        """CUDA release whose drivers must accept all PTX."""
        value = self.setting("driver_release").value
        return value if isinstance(value, str) else None

    @property
    def max_file_bytes(self) -> int | None:
        """Maximum size of a file as stored, in bytes."""
        value = self.setting("max_file_bytes").value
        return value if isinstance(value, int) else None

    @property
    def renamed(self) -> tuple[tuple[str, str], ...]:
        """(old, new) names of renamed kernels; globs."""
        layers = (*self.layers, *([self.own] if self.own is not None else ()))
        return tuple(dict.fromkeys(pair for layer in layers for pair in layer.renamed))

    @property
    def accept(self) -> tuple[Acceptance, ...]:
        """``accept`` entries of all layers, the strongest first."""
        return tuple(each for layer in reversed(self.layers) for each in layer.accept)

    def acceptance(self, gap: Gap) -> Gap:
        """``gap``, with the reason if an entry accepts it today."""
        covering = (each for each in self.accept if each.gap and each.holds(self.today) and each.covers(gap))
        found = next(covering, None)
        return gap if found is None else structs.replace(gap, accepted=found.reason)

    def accepted(self, findings: Iterable[Finding]) -> list[Finding]:
        """``findings``, marked as suppressed if an entry accepts them today."""
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
        """Entries of all layers, the weakest first; a layer's own settings come first, as an entry for all kernels."""
        found = []
        for layer in self.layers:
            limits = {name: setting for name, setting in layer.settings.items() if name in LIMITS}
            if limits or layer.levels:
                found.append(Override(settings=limits, levels=layer.levels))
            found += layer.entries
        return tuple(found)

    def terms_of(self, kernel: Kernel) -> Terms:
        """Terms for ``kernel``; kernels with the same entries and launch share the object, so that this is cheap."""
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
        """Distinct terms of ``kernels``."""
        if self._matcher.for_all and self._of_new is None:  # only launches differ
            own = [
                kernel
                for kernel in kernels
                if kernel.launch is not None or kernel.launch_bounds is not None or kernel.dynamic_shared is not None
            ]
            known = set(map(id, own))
            kernels = [*own, *islice((kernel for kernel in kernels if id(kernel) not in known), 1)]
        return tuple({id(terms): terms for terms in map(self.terms_of, kernels)}.values())

    def launch_of(self, kernel: Kernel) -> Launch | None:
        """Launch of ``kernel``; ``None`` if neither the policy nor the kernel itself sets one."""
        return self.terms_of(kernel).launch

    def said_of(self, kernel: Kernel) -> Override:
        """All settings for ``kernel``, each with its origin; defaults are omitted."""
        return self._said(self._matcher.mask(kernel))

    def in_force(self) -> tuple[Override, ...]:
        """Entries for kernels, without settings that a stronger layer overrides for all, and without empty entries."""
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
        """(entry, pattern) of patterns that match none of ``kernels``, in order; ``*`` if an entry has no ``match``."""
        seen = 0
        for kernel in kernels:
            seen |= self._matcher.mask(kernel)
        idle = [line for bit, line in enumerate(self._matcher.lines) if not seen >> bit & 1]
        found = [(self.entries[index], pattern) for index, pattern in idle]
        return [(entry, pattern) for entry, pattern in found if entry.match or entry.arch or entry.unit]

    def overruled(self, kernels: Iterable[Kernel]) -> list[tuple[Override, list[Kernel]]]:
        """(entry, kernels) for kernels whose code sets another block size than the entry, which is then ignored.

        An entry for all kernels is meant for those that set no block size, and is not reported.
        """
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
        """Policy for kernels that the merge base does not have."""
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
        """Terms by mask and launch; ``None`` stands for the launch in the policy."""
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
