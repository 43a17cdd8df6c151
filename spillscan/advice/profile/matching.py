"""Kernel of each profiled launch: by name, then by the device's architecture, then by registers.

If several kernels that differ remain, the launch is unmatched. NVIDIA's demangler writes
``outer::<unnamed>::scale<float, (int)4>(T1 *, const T1 *, int)`` where LLVM's writes
``outer::(anonymous namespace)::scale<float, 4>(float*, float const*, int)``: both are reduced to one form. Parameters
of templates are not compared: NVIDIA prints those of the template. What the reduction drops (``const``) can only make
two names equal, and then the launch is ambiguous.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec import Struct

from spillscan.advice.profile.launches import ProfiledLaunch
from spillscan.model import Build, Issue, Kernel
from spillscan.model.symbols import Function, natural
from spillscan.naming import alone
from spillscan.occupancy.devices import runs_on
from spillscan.output.errors import UsageError
from spillscan.output.safe import printable

LEAST_REGISTERS = 16
"""Nsight Compute shows at least 16: kernels of 10, 12 and 14 registers show 16 (measured on an H200)."""


class Matched(Struct, frozen=True, kw_only=True):
    """A launch with its kernel."""

    launch: ProfiledLaunch
    kernel: Kernel | None = None
    unmatched: str = ""
    """Why there is no kernel; empty if there is one."""

    @property
    def name(self) -> str:
        """Short name of the kernel, with template arguments."""
        return alone(self.launch.kernel if self.kernel is None else self.kernel.named_by)


def matched(launches: Sequence[ProfiledLaunch], build: Build | None) -> tuple[Matched, ...]:
    """Each launch with its kernel, in order."""
    if build is None:
        return tuple(Matched(launch=launch, unmatched="no build was given") for launch in launches)
    kernels = Kernels(build.kernels)
    return tuple(kernels.match(launch) for launch in launches)


class Kernels:
    """Kernels of a build by every name that Nsight Compute may print."""

    def __init__(self, kernels: Iterable[Kernel]) -> None:
        self._named: dict[object, list[Kernel]] = defaultdict(list)
        for kernel in kernels:
            if kernel.role != "function":
                qualified, parameters = parsed(kernel.name)
                base = kernel.short_name, None, ""
                for name in {(kernel.key.symbol,), (qualified, parameters), (qualified, None), base}:
                    self._named[name].append(kernel)

    def named(self, printed: str) -> Sequence[Kernel]:
        """Kernels that ``printed`` may name: by symbol, by full name, by template arguments, by base name alone."""
        qualified, parameters = parsed(printed)
        compared = None if qualified.endswith(">") else parameters  # those of a template cannot be compared
        names = (printed,), (qualified, parameters), (qualified, compared), (printed.strip(), parameters, "")
        return next((self._named[name] for name in names if name in self._named), [])

    def match(self, launch: ProfiledLaunch) -> Matched:
        """The kernel that ``launch`` ran."""
        named = self.named(launch.kernel)
        matching = _for_device(named, launch.arch)
        why = "the build has no kernel with this name"
        if named and not matching:
            archs = ", ".join(sorted({kernel.key.arch or "unknown" for kernel in named}))
            why = f"the build has this kernel for {archs}, not for {launch.arch}"
        if _differ(matching):
            matching = [kernel for kernel in matching if agrees(launch, kernel) is not False]
            why = "several kernels have this name, and none has the launch's register count"
        if _differ(matching):
            return Matched(launch=launch, unmatched=f"{len(matching)} different kernels have this name")
        return Matched(launch=launch, kernel=matching[0]) if matching else Matched(launch=launch, unmatched=why)


def contradictions(launches: Sequence[Matched]) -> list[Issue]:
    """Gaps of launches matched with a build: no kernel, or other registers; each text once per kernel."""
    issues: dict[str, Issue] = {}
    for each in launches:
        launch, kernel = each.launch, each.kernel
        if kernel is None:
            code, why = "profile-unmatched", f"cannot be matched: {each.unmatched}"
        elif agrees(launch, kernel) is False:
            seen = f"{launch.metrics['registers']:g} registers in the profile"
            code, why = "profile-contradicts", f"{seen}, {kernel.usage.registers} in the build; pass the profiled build"
        else:
            continue
        text = printable(f"{each.name}: {why}")
        issues.setdefault(text, Issue(code=code, message=text, severity="warning", origin=launch.origin))
    return list(issues.values())


def agrees(launch: ProfiledLaunch, kernel: Kernel) -> bool | None:
    """Whether both have the same registers; ``None`` if one side is unknown or not final."""
    seen, compiled = launch.metrics.get("registers"), kernel.usage.registers
    if seen is None or compiled is None or kernel.final is False or kernel.confidence != "certain":
        return None
    return seen == max(compiled, LEAST_REGISTERS)


def _for_device(kernels: Sequence[Kernel], on: str | None) -> list[Kernel]:
    """Kernels that the driver would load: those of the nearest arch that runs on the device."""
    if on is None:
        return list(kernels)
    archs = {kernel.key.arch for kernel in kernels if kernel.key.arch}
    try:
        running = [arch for arch in archs if runs_on(arch, on)]
    except UsageError:  # a device that this release does not know
        running = [arch for arch in archs if arch.rstrip("af") == on]
    nearest = max(running, key=natural, default=None)
    return [kernel for kernel in kernels if kernel.key.arch in (None, nearest)]


def _differ(kernels: Sequence[Kernel]) -> bool:
    return any((kernel.key.symbol, kernel.usage) != (kernels[0].key.symbol, kernels[0].usage) for kernel in kernels)


# ---- names -----------------------------------------------------------------------------------------------------------

_TYPE = r"(?:unsigned |signed )?[A-Za-z_][\w:]*(?: (?:int|long|char|short|long int|long long))*"
_REWRITES = (
    (re.compile(r"<unnamed>|\(anonymous namespace\)"), "{unnamed}"),
    (re.compile(rf"\({_TYPE}\)(?=-?\d)"), ""),
    (re.compile(r"\btrue\b"), "1"),
    (re.compile(r"\bfalse\b"), "0"),
    (re.compile(r"\b(?:const|volatile|struct|class|enum)\b"), " "),
    (re.compile(r"(?<![\w.])(-?\d+)[uU]?[lL]{0,2}(?![\w.])"), r"\1"),
    (re.compile(r"\(void\)"), "()"),
    (re.compile(r"^void |\s+"), ""),
)
"""Rewrites that reduce the spellings of NVIDIA's and LLVM's demanglers to one."""
_LAMBDA = re.compile(r"\[lambda(\(.*?\)) \(instance (\d{1,9})\)\]")


@lru_cache(maxsize=65536)
def parsed(text: str) -> tuple[str, str | None]:
    """(qualified name with template arguments, parameters or ``None``) of a demangled name, in comparable form."""
    text = _LAMBDA.sub(lambda found: f"'lambda{'' if found[2] == '1' else int(found[2]) - 2}'{found[1]}", text)
    for pattern, plain in _REWRITES:
        text = pattern.sub(plain, text)
    end = Function(text).end
    return text[:end], None if end is None else text[end:]
