"""Which kernel of a build a launch ran: by name, by the device's architecture, and by registers where these leave two.

Where several remain that differ, the launch is ambiguous and says between what; nothing is guessed. Names are compared
in one form: NVIDIA's demangler writes ``outer::<unnamed>::scale<float, (int)4>(T1 *, const T1 *, int)`` where LLVM's
writes ``outer::(anonymous namespace)::scale<float, 4>(float*, float const*, int)``. Parameters of templates cannot be
compared: NVIDIA's are those of the template. What is dropped for the comparison (``const``) can only make two names
alike, never one kernel two; who finds several says so.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from spillscan.advice.profile.model import ProfiledLaunch
from spillscan.model import Kernel
from spillscan.occupancy.devices import device, runs_on
from spillscan.output.errors import UsageError
from spillscan.output.nouns import count

# ---- names -----------------------------------------------------------------------------------------------------------


_CAST = re.compile(r"\((?:unsigned |signed )?[A-Za-z_][\w:]*(?: (?:int|long|char|short|long int|long long))*\)(?=-?\d)")
_SUFFIX = re.compile(r"(?<![\w.])(-?\d+)[uU]?[lL]{0,2}(?![\w.])")
_WORDS = re.compile(r"\b(?:const|volatile|struct|class|enum)\b")
_BOOLEANS = re.compile(r"\b(?:true|false)\b")
_LAMBDA = re.compile(r"\[lambda(\(.*?\)) \(instance (\d{1,9})\)\]")
_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Name:
    """What a kernel is called."""

    qualified: str
    """Namespaces, base name and template arguments."""
    parameters: str | None
    """Its parameters in parentheses; ``None`` where none are printed."""

    @property
    def template(self) -> bool:
        """Whether it has template arguments."""
        return self.qualified.endswith(">")


@lru_cache(maxsize=65536)
def parsed(text: str) -> Name:
    """The parts of a demangled name, each in the comparable form."""
    text = text.replace("<unnamed>", "(anonymous namespace)")
    text = _LAMBDA.sub(_lambda, text)
    at = _parameters_at(text)
    head = text if at is None else text[:at]
    return Name(_plain(head.removeprefix("void ")), None if at is None else _plain(text[at:]))


def _parameters_at(text: str) -> int | None:
    """Where the parameter list begins: the last parenthesis that no bracket encloses, at the name's end."""
    text = text.rstrip()
    if not text.endswith(")"):
        return None
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        if text[place] == ")":
            depth += 1
        elif text[place] == "(":
            depth -= 1
            if depth == 0:
                return None if text.startswith("(anonymous namespace)", place) else place
    return None


def _lambda(found: re.Match[str]) -> str:
    """NVIDIA's ``[lambda(float) (instance 2)]`` is LLVM's ``'lambda0'(float)``, the first one ``'lambda'(float)``."""
    nth = int(found[2])
    return f"'lambda{nth - 2 if nth > 1 else ''}'{found[1]}"


def _plain(text: str) -> str:
    text = _CAST.sub("", text)
    text = _BOOLEANS.sub(lambda found: "1" if found[0] == "true" else "0", text)
    text = _WORDS.sub(" ", text)
    text = _SUFFIX.sub(r"\1", text)
    text = text.replace("(void)", "()")
    return _BLANKS.sub("", text)


# ---- kernels ---------------------------------------------------------------------------------------------------------


LEAST_REGISTERS = 16
"""Nsight Compute shows at least so many registers: kernels of 10, 12 and 14 registers show 16 (measured on an H200)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """What was found for one launch."""

    launch: ProfiledLaunch
    """The launch."""
    kernel: Kernel | None = None
    """The kernel that it ran; ``None`` where none, or more than one, may be it."""
    copies: int = 1
    """Kernels of that name and arch with the same figures, in so many translation units."""
    reason: str = ""
    """Why there is no kernel, one line; empty where there is one."""


class Kernels:
    """The kernels of a build, by all that a profiler may call them."""

    def __init__(self, kernels: Iterable[Kernel]) -> None:
        entries = [kernel for kernel in kernels if kernel.role != "function"]
        self._by_symbol: dict[str, list[Kernel]] = defaultdict(list)
        self._by_name: dict[Name, list[Kernel]] = defaultdict(list)
        self._by_template: dict[str, list[Kernel]] = defaultdict(list)
        self._by_base: dict[str, list[Kernel]] = defaultdict(list)
        for kernel in entries:
            name = parsed(kernel.name)
            self._by_symbol[kernel.key.symbol].append(kernel)
            self._by_name[name].append(kernel)
            self._by_template[name.qualified].append(kernel)
            self._by_base[kernel.short_name].append(kernel)

    def named(self, printed: str) -> Sequence[Kernel]:
        """Kernels that ``printed`` may name: by symbol, else by full name, else by what the form of the name shows."""
        if printed in self._by_symbol:
            return self._by_symbol[printed]
        name = parsed(printed)
        if name in self._by_name:
            return self._by_name[name]
        if name.template:  # the parameters are those of the template, and cannot be compared
            return self._by_template.get(name.qualified, ())
        if name.parameters is None:  # --print-kernel-base function
            return self._by_template.get(name.qualified, ()) or self._by_base.get(printed.strip(), ())
        return ()

    def match(self, launch: ProfiledLaunch) -> Match:
        """The kernel that ``launch`` ran."""
        named = self.named(launch.kernel)
        if not named:
            return Match(launch=launch, reason="no kernel of that name in the build")
        found = _for_device(named, launch.arch)
        if not found:
            archs = ", ".join(sorted({kernel.key.arch or "unknown" for kernel in named}))
            return Match(launch=launch, reason=f"the build has it for {archs}, not for {launch.arch}")
        if _differ(found):
            found = [kernel for kernel in found if agrees(launch, kernel) is not False]
            if not found:
                return Match(launch=launch, reason="kernels of that name differ, and none has the launch's registers")
            if _differ(found):
                several = count(len(found), "kernel")
                return Match(launch=launch, reason=f"{several} of that name differ: {_differences(found)}")
        return Match(launch=launch, kernel=found[0], copies=len(found))


def agrees(launch: ProfiledLaunch, kernel: Kernel) -> bool | None:
    """Whether registers are the same, with the least that a profiler shows; ``None`` where one side does not say."""
    seen, compiled = launch.measured.figure("registers"), kernel.usage.registers
    if seen is None or compiled is None or kernel.final is False or kernel.confidence != "certain":
        return None
    return bool(seen == max(compiled, LEAST_REGISTERS))


def _for_device(kernels: Sequence[Kernel], arch: str | None) -> list[Kernel]:
    """Those that the driver would load: of the archs that run on the device the nearest; the driver takes no other."""
    if arch is None:
        return list(kernels)
    running = [kernel for kernel in kernels if kernel.key.arch is None or _runs(kernel.key.arch, arch)]
    nearest = max(((_version(kernel.key.arch), kernel.key.arch or "") for kernel in running), default=None)
    return [kernel for kernel in running if nearest and kernel.key.arch in (nearest[1], None)]


def _runs(arch: str, on: str) -> bool:
    try:
        return runs_on(arch, on)
    except UsageError:  # a device that this release does not know: its own target is all that is known
        return arch.rstrip("af") == on


def _version(arch: str | None) -> tuple[int, int]:
    try:
        return (0, 0) if arch is None else device(arch).version
    except UsageError:
        return (0, 0)


def _differ(kernels: Sequence[Kernel]) -> bool:
    first = kernels[0]
    return any((kernel.key.symbol, kernel.usage) != (first.key.symbol, first.usage) for kernel in kernels)


def _differences(kernels: Sequence[Kernel]) -> str:
    figures: tuple[tuple[str, Callable[[Kernel], object]], ...] = (
        ("symbols", lambda kernel: kernel.key.symbol),
        ("objects", lambda kernel: kernel.key.unit),
        ("registers", lambda kernel: kernel.usage.registers),
        ("spills", lambda kernel: kernel.spills),
    )
    return ", ".join(what for what, figure in figures if len({figure(kernel) for kernel in kernels}) > 1) or "figures"
