"""What compilers wrote beside their output: launches and configurations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from spillscan.model import Issue, Kernel, Launch, Sidecar
from spillscan.reading.inputs.sidecars import place_of


def attach_sidecars(kernels: Iterable[Kernel], sidecars: Sequence[Sidecar]) -> tuple[list[Kernel], list[Issue]]:
    """``kernels`` with what was written beside their code, and an issue where that contradicts it."""
    found: dict[tuple[str, str], list[Sidecar]] = {}
    for each in sidecars:
        found.setdefault((each.place, each.symbol), []).append(each)
    if not found:
        return list(kernels), []
    attached, issues = [], []
    for kernel in kernels:
        place = _place(kernel)
        beside = [*found.get((place, kernel.key.symbol), ()), *found.get((place, ""), ())] if place else []
        if beside and kernel.role != "function":
            known, contradictions = _with(kernel, beside)
            attached.append(known)
            issues += contradictions
        else:
            attached.append(kernel)
    return attached, issues


def _place(kernel: Kernel) -> str:
    origin = None if kernel.sass is None else kernel.sass.origin
    return "" if origin is None else place_of(origin.input)


def _with(kernel: Kernel, beside: Sequence[Sidecar]) -> tuple[Kernel, list[Issue]]:
    bounds = kernel.launch_bounds
    threads = _said(each.threads_per_block for each in beside)
    dynamic = _said(each.dynamic_shared_bytes for each in beside)
    named = [each for each in beside if each.symbol]
    origins = tuple(dict.fromkeys(each.origin for each in beside))
    configuration = dict(pair for each in named for pair in each.configuration)
    kernel = replace(
        kernel,
        origins=(*kernel.origins, *origins),
        configuration=tuple(sorted(configuration.items(), key=lambda pair: pair[0] != "tile")),
    )
    required = None if bounds is None else bounds.required_threads
    most = None if bounds is None else bounds.threads
    if threads is not None and (threads != required if required else most is not None and threads > most):
        what = f"{kernel.short_name}: {origins[0]} says {threads} threads per block, its code {required or most}"
        return kernel, [Issue(code="launch-mismatch", message=what, origin=origins[0], symbol=kernel.key.symbol)]
    threads = threads or required
    if threads is None or (dynamic is None and kernel.dynamic_shared is not False):
        return kernel, []
    launch = Launch(
        threads_per_block=threads,
        dynamic_shared_bytes=dynamic or 0,
        max_dynamic_shared_bytes=dynamic or None,
        cluster_blocks=_said(each.cluster_blocks for each in beside) or 1,
        source="sidecar",
    )
    return replace(kernel, launch=launch), []


def _said(values: Iterable[int | None]) -> int | None:
    """What all say that say anything; ``None`` where none does, or they differ."""
    known = {value for value in values if value is not None}
    return known.pop() if len(known) == 1 else None
