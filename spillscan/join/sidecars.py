"""What compilers wrote beside their output, brought to its kernels: how each is launched, what it was tuned for, and
what it took to compile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from posixpath import basename

from spillscan.inputs.sidecars import place_of
from spillscan.model import Issue, Kernel, Launch, Sidecar, Timing


def attach(kernels: Iterable[Kernel], sidecars: Sequence[Sidecar]) -> tuple[list[Kernel], list[Issue]]:
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
    """What all say that say anything; ``None`` where nobody does, or they differ."""
    known = {value for value in values if value is not None}
    return known.pop() if len(known) == 1 else None


def timed(kernels: Sequence[Kernel], timings: Iterable[Timing]) -> list[Kernel]:
    """``kernels`` with the compile times that traces have of them and no log printed. Where several sources hold a
    kernel of one name and arch, only those whose object or source is known have theirs."""
    found: dict[tuple[str, str | None], list[Timing]] = {}
    for each in timings:
        if each.kernel:
            found.setdefault((each.symbol, each.arch), []).append(each)
    if not found:
        return list(kernels)
    instances = Counter((kernel.key.symbol, kernel.key.arch) for kernel in kernels)
    timed_ones = []
    for kernel in kernels:
        place = kernel.key.symbol, kernel.key.arch
        traced = found.get(place, []) if kernel.compile_ms is None else []
        if len(traced) > 1 or instances[place] > 1:
            units = {_stem(kernel.key.unit), _stem(kernel.source)} - {""}
            traced = [each for each in traced if _stem(each.file) in units]
        if len(traced) == 1:
            origins = (*kernel.origins, traced[0].origin)
            timed_ones.append(replace(kernel, compile_ms=traced[0].milliseconds, origins=origins))
        else:
            timed_ones.append(kernel)
    return timed_ones


def _stem(path: str) -> str:
    """``gemm`` of ``src/gemm.cu`` and of ``CMakeFiles/x.dir/gemm.cu.o``."""
    return basename(path.replace("\\", "/")).partition(".")[0]
