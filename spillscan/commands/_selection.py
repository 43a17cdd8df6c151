"""Selection of a command's kernels by --arch, --kernel and --launch. A part that matches nothing is an error, since a
typo would silently leave out kernels."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from typing import NamedTuple

from msgspec.structs import replace

from spillscan.model import Build, Issue, Kernel
from spillscan.model.patterns import matches, names_of
from spillscan.naming import Names
from spillscan.occupancy.devices import runs_on
from spillscan.output.errors import InputError, nearest
from spillscan.output.nouns import count


class Selection(NamedTuple):
    """Values of --arch, --kernel and --launch."""

    archs: Sequence[str] = ()
    """--arch; empty: all archs."""
    patterns: Sequence[str] = ()
    """--kernel, any of which may match; empty: all kernels."""
    launches: Sequence[str] = ()
    """--launch: ``GLOB=THREADS``."""

    def of(self, build: Build) -> Build:
        """The selected kernels of ``build``; :class:`InputError` if an option matches nothing, or if none is left."""
        return self.of_all([build])[0]

    def marked(self, build: Build) -> Build:
        """:meth:`of`, with an issue that marks the build as incomplete if it is read again."""
        kept = self.of(build)
        if len(kept.kernels) == len(build.kernels):
            return kept
        message = f"the snapshot contains only {len(kept.kernels):,} of {count(len(build.kernels), 'kernel')}"
        hides = None if self.patterns else ()  # the archs are shown wherever a build is
        return replace(kept, issues=(*kept.issues, Issue(code="selected-kernels", message=message, hides=hides)))

    def of_all(self, builds: Sequence[Build]) -> list[Build]:
        """:meth:`of` for several builds; each option must match a kernel of at least one."""
        wanted = self._by_shown_names(builds)
        kernels = [kernel for build in builds for kernel in build.kernels]
        wanted.refuse_unmatched(kernels)
        kept = [wanted._narrowed(build) for build in builds]
        if kernels and not any(build.kernels for build in kept):
            raise InputError("no kernel matches both --arch and --kernel", "leave out one of them")
        return kept

    def refuse_unmatched(self, kernels: Sequence[Kernel]) -> None:
        """Raise InputError if an option matches none of ``kernels``; nothing is checked without kernels."""
        if not kernels or not any(self):
            return
        import shlex  # slow, and few calls select kernels

        for arch in self.archs:
            if not any(kernel.key.arch == arch for kernel in kernels):
                raise InputError(f"no kernel matches --arch {arch}", f"the input has {_archs(kernels)}")
        patterns = [("--kernel", pattern) for pattern in self.patterns]
        patterns += [("--launch", text.rpartition("=")[0]) for text in self.launches]
        for option, pattern in patterns:
            if not any(matches(kernel, pattern) for kernel in kernels):
                near = nearest(pattern, sorted({kernel.short_name for kernel in kernels}))
                inputs = {origin.input for kernel in kernels for origin in kernel.origins[:1]}
                of = shlex.quote(inputs.pop()) if len(inputs) == 1 else "BUILD"
                listing = f"`spillscan scan --all {of}` lists the kernels"
                raise InputError(f"no kernel matches {option} {pattern!r}", near or listing)

    def _by_shown_names(self, builds: Sequence[Build]) -> Selection:
        """The selection with patterns that match nothing replaced by the kernels that tables show under that name."""
        kernels = [kernel for build in builds for kernel in build.kernels] if self.patterns else []
        matching = {pattern for pattern in self.patterns if any(matches(kernel, pattern) for kernel in kernels)}
        if matching.issuperset(self.patterns):
            return self
        named = ([kernel.named_by for kernel in build.kernels] for build in builds)
        names = Names(*named)
        patterns = [
            each for pattern in self.patterns for each in ([pattern] if pattern in matching else shown(names, pattern))
        ]
        return self._replace(patterns=patterns)

    def _narrowed(self, build: Build) -> Build:
        if not self.archs and not self.patterns:
            return build
        kernels = tuple(
            kernel
            for kernel in build.kernels
            if (not self.archs or kernel.key.arch in (None, *self.archs))
            and (not self.patterns or any(matches(kernel, pattern) for pattern in self.patterns))
        )
        return replace(build, kernels=kernels)


def shown(names: Names, pattern: str) -> list[str]:
    """Patterns of the kernels displayed as ``pattern``; ``pattern`` itself if there are none."""
    called = names.called(pattern.removesuffix(" (function)").removesuffix(" (?)"))
    return [glob.escape(names_of(key)[0]) for key in called] or [pattern]


def wanted(kernels: Sequence[Kernel], pattern: str, names: Names) -> list[Kernel]:
    """Kernels that match ``pattern``: a glob on any name, a displayed name, else part of the
    symbol."""
    patterns = [pattern, *shown(names, pattern)]
    matching = [kernel for kernel in kernels if any(matches(kernel, each) for each in patterns)]
    return matching or [kernel for kernel in kernels if pattern in kernel.key.symbol]


def refuse_devices(kernels: Sequence[Kernel], names: Sequence[str]) -> None:
    """Raise InputError if no kernel runs on one of the devices, which would otherwise be ignored silently."""
    archs = sorted({kernel.key.arch for kernel in kernels if kernel.key.arch}) if names else []
    for name in names:
        if not any([runs_on(arch, name) for arch in archs]):  # noqa: C419 - an unknown name is refused in any case
            raise InputError(f"no kernel runs on {name}", f"choose another device; the input has {_archs(kernels)}")


def _archs(kernels: Sequence[Kernel]) -> str:
    """Archs of the kernels: ``sm_80, sm_90``."""
    return ", ".join(sorted({kernel.key.arch for kernel in kernels if kernel.key.arch})) or "kernels of unknown arch"
