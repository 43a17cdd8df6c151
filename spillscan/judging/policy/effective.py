"""Result of all layers. Pure: layers in; terms of kernels and files out, and accepted findings and gaps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from spillscan.judging.policy.file import LIMITS, SETTINGS, AcceptEntry, PolicyFile, default_of, words
from spillscan.model import Finding, Gap, Kernel, Launch
from spillscan.model.patterns import compiled, names_of, text_of
from spillscan.model.symbols import Tuned
from spillscan.naming.symbol import canonical
from spillscan.occupancy.launches import overruling, settled

if TYPE_CHECKING:
    from spillscan.judging.rules import Terms

DEFAULT = "default"
"""Origin of values that no layer sets."""


class Setting(Struct, frozen=True):
    """A value and its origin."""

    value: Any
    """A number, a word, words, or a :class:`~spillscan.model.Launch`."""
    origin: str
    """``spillscan.yaml:3``, ``--fail-on`` or ``default``."""


class Acceptance(AcceptEntry, frozen=True, kw_only=True):
    """One entry of ``accept`` and its origin."""

    origin: str
    """Place of the entry: file and line, or option."""

    def is_valid(self, today: date) -> bool:
        """Whether it has not expired."""
        return self.until is None or self.until >= today

    def covers(self, item: Finding | Gap) -> bool:
        """Whether the entry applies to ``item``: its kernel's names here, its canonical symbol, a gap's own names."""
        if isinstance(item, Finding):
            is_same, names = self.rule == item.rule, []
        else:
            is_same, names = self.gap == item.code, [*item.names, item.origin.input if item.origin else ""]
        kernel = item.kernel
        if not is_same or (kernel is not None and not _fits(words(self.arch), [kernel.key.arch or ""])):
            return False
        if kernel is not None:
            names += [*names_of(kernel.named_by), *names_of(canonical(kernel.key.symbol))]
        return _fits((self.kernel,), names)


class Override(Struct, frozen=True, kw_only=True):
    """Settings of the kernels that it matches."""

    match: tuple[str, ...] = ()
    """Patterns of names, one of which a kernel must match; if empty, it matches every kernel."""
    arch: tuple[str, ...] = ()
    """Patterns of archs, likewise."""
    unit: tuple[str, ...] = ()
    """Patterns of translation units, likewise."""
    folder: str = ""
    """Folder of the policy, with a slash at the end, to which paths of units below it are relative."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Limits by key, severities by rule id, and the :class:`~spillscan.model.Launch` as ``launch``."""
    reason: str = ""
    """Reason, in the team's words."""
    origin: str = ""
    """Place where the entry begins."""

    @property
    def launch(self) -> Setting | None:
        """Launch of these kernels."""
        return self.settings.get("launch")


class Layer(Struct, frozen=True, kw_only=True):
    """Settings from one source: a file, or the command line."""

    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Values by key, and severities by rule id; limits and severities apply to every kernel."""
    entries: tuple[Override, ...] = ()
    """Entries in order; they win over the layer's own settings, and later ones over earlier ones."""
    accept: tuple[Acceptance, ...] = ()
    """Accepted findings and gaps."""
    renamed: tuple[tuple[str, str], ...] = ()
    """(old, new) names of kernels; globs."""
    strict: bool = False
    """Whether anything that was not understood counts as a gap."""


def _fits(patterns: Iterable[str], names: Sequence[str]) -> bool:
    """Whether one of ``patterns`` matches one of ``names``."""
    text = text_of(names)
    return any(compiled(pattern).fits(text, names) for pattern in patterns)


class Matcher:
    """Entries of a policy that match a kernel, for very many kernels.
    Each pattern of each entry is a bit. Distinct names, archs and units are matched once, which gives a mask of bits
    each; a kernel's mask is the intersection of its three.
    """

    def __init__(self, entries: Sequence[Override]) -> None:
        self.lines = [(entry, pattern) for entry in entries for pattern in entry.match or ("*",)]
        """(entry, pattern) of each bit, the lowest first."""
        ready = [(compiled(pattern), 1 << bit) for bit, (_, pattern) in enumerate(self.lines)]
        everything = compiled("*")
        self._always = sum(bit for pattern, bit in ready if pattern == everything)
        named = [(pattern, bit) for pattern, bit in ready if pattern != everything]
        self._by_pattern = [(each.needle, bit, each.is_whole) for each, bit in named if each.exact is None]
        self._by_name: dict[str, int] = defaultdict(int)
        for pattern, bit in named:
            if pattern.exact is not None:
                self._by_name[pattern.exact] |= bit
        self.for_all = not named and not any(entry.arch or entry.unit for entry in entries)
        """Whether each pattern matches every kernel."""
        self._of_name = cache(self._named)
        self._of_arch = cache(lambda arch: self._chosen(lambda entry: (entry.arch, arch)))
        self._of_unit = cache(
            lambda path, unit: self._chosen(lambda entry: (entry.unit, path.removeprefix(entry.folder) or unit))
        )

    def mask(self, kernel: Kernel) -> int:
        """Bits of the patterns that match ``kernel``."""
        if self.for_all:
            return self._always
        named = self._of_name(kernel.named_by)
        return named and named & self._of_arch(kernel.key.arch or "") & self._of_unit(kernel.path, kernel.key.unit)

    def _named(self, called: str | Tuned) -> int:
        """Bits of the patterns that match a name of a kernel; names are only expanded if there are patterns."""
        if not self._by_name and not self._by_pattern:
            return self._always
        names = names_of(called)
        text = text_of(names)
        mask = self._always
        for name in names:
            mask |= self._by_name.get(name, 0)
        for needle, bit, is_whole in self._by_pattern:  # Pattern.fits, inlined: this runs millions of times
            if needle in text and (is_whole is None or any(map(is_whole, names))):
                mask |= bit
        return mask

    def _chosen(self, choice: Callable[[Override], tuple[tuple[str, ...], str]]) -> int:
        """Bits of the entries whose (patterns, name) by ``choice`` match, or that have no patterns."""
        choices = enumerate(choice(entry) for entry, _ in self.lines)
        return sum(1 << bit for bit, (patterns, name) in choices if not patterns or _fits(patterns, [name]))

    def entries(self, mask: int) -> list[Override]:
        """Entries with a bit in ``mask``, in order, without repetition."""
        matching = [entry for bit, (entry, _) in enumerate(self.lines) if mask >> bit & 1]
        return list({id(entry): entry for entry in matching}.values())


class Policy(Struct, frozen=True, eq=False, dict=True):
    """Layers, the weakest first; without any, the defaults."""

    layers: tuple[Layer, ...] = ()
    """Layers of the file and of the command line."""
    day: date | None = None
    """Day for which the expiry of ``accept`` entries is checked; ``None``: today."""
    of_new: Policy | None = None
    """With the files of a merge base: policy for kernels that it does not have."""
    is_known: Callable[[Kernel], bool] | None = None
    """Whether the merge base's baseline has a kernel; ``None``: all are considered known."""

    @cached_property
    def today(self) -> date:
        """:attr:`day`, else the current day in UTC."""
        return self.day or datetime.now(UTC).date()

    def setting(self, name: str) -> Setting:
        """Value of the key ``name``, unless an entry sets another for some kernels."""
        given = [layer.settings[name] for layer in self.layers if name in layer.settings]
        return given[-1] if given else Setting(default_of(name), DEFAULT)

    @cached_property
    def values(self) -> PolicyFile:
        """Values of the keys for a whole build."""
        return replace(PolicyFile(), **{name: self.setting(name).value for name in SETTINGS})

    @property
    def fail_on(self) -> str:
        """Lowest severity that fails a gate, or ``never``."""
        return self.values.fail_on

    @property
    def devices(self) -> tuple[str, ...]:
        """Devices whose resident blocks count; empty: each kernel's own arch."""
        return words(self.values.devices)

    @property
    def require_archs(self) -> tuple[str, ...]:
        """Archs that every binary must have code for."""
        return words(self.values.require_archs)

    @property
    def strict(self) -> bool:
        """Whether anything that was not understood counts as a gap."""
        return any(layer.strict for layer in self.layers)

    @property
    def renamed(self) -> tuple[tuple[str, str], ...]:
        """(old, new) names of renamed kernels; globs."""
        return tuple(dict.fromkeys(pair for layer in self.layers for pair in layer.renamed))

    @cached_property
    def accept(self) -> tuple[Acceptance, ...]:
        """``accept`` entries of all layers, the strongest first."""
        return tuple(each for layer in reversed(self.layers) for each in layer.accept)

    def _reason(self, item: Finding | Gap) -> str | None:
        """Reason of the entry that accepts ``item`` today."""
        return next((each.reason for each in self.accept if each.is_valid(self.today) and each.covers(item)), None)

    def acceptance(self, gap: Gap) -> Gap:
        """``gap``, with the reason if an entry accepts it today."""
        return gap if (reason := self._reason(gap)) is None else replace(gap, accepted=reason)

    def accepted(self, findings: Iterable[Finding]) -> list[Finding]:
        """``findings``, marked as suppressed if an entry accepts them today."""
        return [
            each if (why := self._reason(each)) is None else replace(each, baseline_state="suppressed", suppression=why)
            for each in findings
        ]

    @cached_property
    def entries(self) -> tuple[Override, ...]:
        """Entries of all layers, the weakest first; a layer's own settings come first, as an entry for all kernels."""
        entries: list[Override] = []
        for layer in self.layers:
            settings = {name: setting for name, setting in layer.settings.items() if name not in SETTINGS}
            entries += [Override(settings=settings)] if settings else []
            entries += layer.entries
        return tuple(entries)

    def terms_of(self, kernel: Kernel) -> Terms:
        """Terms for ``kernel``; kernels with the same entries and launch share the object, so that this is cheap."""
        if self.of_new is not None and self.is_known is not None and not self.is_known(kernel):
            return self.of_new.terms_of(kernel)
        mask = self._matcher.mask(kernel)
        resolved = self._resolved(mask, None)
        if resolved.launch is None and kernel.launch is None and kernel.launch_bounds is None:
            return resolved  # as most kernels of logs
        launch = settled(kernel, resolved.launch)
        return resolved if launch == resolved.launch else self._resolved(mask, launch)

    def by_terms(self, kernels: Iterable[Kernel]) -> list[tuple[Terms, list[Kernel]]]:
        """``kernels`` by their terms."""
        groups: dict[int, tuple[Terms, list[Kernel]]] = {}
        for kernel in kernels:
            terms = self.terms_of(kernel)
            groups.setdefault(id(terms), (terms, []))[1].append(kernel)
        return list(groups.values())

    def launch_of(self, kernel: Kernel) -> Launch | None:
        """Launch of ``kernel``; ``None`` if neither the policy nor the kernel itself sets one."""
        return self.terms_of(kernel).launch

    def settings_of(self, kernel: Kernel) -> Mapping[str, Setting]:
        """All settings for ``kernel``, each with its origin; defaults are omitted."""
        return self._settings(self._matcher.mask(kernel))

    def in_force(self) -> Iterable[Override]:
        """Entries for kernels, without settings that a stronger layer overrides for all, and without empty entries."""
        for number, layer in enumerate(self.layers):
            above = {name for each in self.layers[number + 1 :] for name in each.settings}
            for entry in layer.entries:
                settings = {name: setting for name, setting in entry.settings.items() if name not in above}
                if settings:
                    yield replace(entry, settings=settings)

    def unused(self, kernels: Iterable[Kernel]) -> list[tuple[Override, str]]:
        """(entry, pattern) of patterns that match none of ``kernels``, in order; ``*`` if an entry has no ``match``."""
        seen = 0
        for kernel in kernels:
            seen |= self._matcher.mask(kernel)
        idle = (line for bit, line in enumerate(self._matcher.lines) if not seen >> bit & 1)
        return [(entry, pattern) for entry, pattern in idle if entry.match or entry.arch or entry.unit]

    def overruled(self, kernels: Iterable[Kernel]) -> list[tuple[Override, list[Kernel]]]:
        """(entry, kernels) for kernels whose code sets another block size than the entry, which is then ignored.

        An entry for all kernels is meant for those that set no block size, and is not reported.
        """
        groups: dict[int, tuple[Override, list[Kernel]]] = {}
        for kernel in kernels:
            if kernel.launch is None and kernel.launch_bounds is None:
                continue
            launching = [each for each in self._matcher.entries(self._matcher.mask(kernel)) if each.launch]
            for entry in launching[-1:]:
                if entry.launch and entry.match != ("*",) and overruling(kernel, entry.launch.value):
                    groups.setdefault(id(entry), (entry, []))[1].append(kernel)
        return list(groups.values())

    @cached_property
    def _matcher(self) -> Matcher:
        return Matcher(self.entries)

    def _settings(self, mask: int) -> dict[str, Setting]:
        return {name: setting for entry in self._matcher.entries(mask) for name, setting in entry.settings.items()}

    @cached_property
    def _resolved(self) -> Callable[[int, Launch | None], Terms]:
        """Function for the terms of the kernels with a mask, at a launch of their own, else at the policy's."""
        return cache(self._terms)

    def _terms(self, mask: int, own: Launch | None) -> Terms:
        from spillscan.judging.rules import Terms  # JSON of a scan needs no terms

        given = self._settings(mask)
        launch = given.pop("launch", None)
        limits = {name: given.pop(name).value if name in given else default_of(name) for name in LIMITS}
        return Terms(
            limits=limits,
            levels={rule: setting.value for rule, setting in given.items()},
            launch=own or (launch.value if launch else None),
            launch_from=launch.origin if launch else "",
            devices=self.devices,
        )
