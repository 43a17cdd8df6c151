"""Compile times that traces have of kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from posixpath import basename

from msgspec.structs import replace

from spillscan.model import Kernel, Timing


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
