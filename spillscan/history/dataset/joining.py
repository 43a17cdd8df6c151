"""Join stored records of one kernel: an audit stores each file alone, `scan` joins the files of a build.

A record of machine code or of the linker becomes again what its file contained, so that the join is the one of `scan`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from spillscan.model import Issue, Kernel, LinkRecord, Reading
from spillscan.model.code import FunctionUsage, SassFunction
from spillscan.reading.join import joined


def join(records: Iterable[tuple[str, Kernel]], issues: Sequence[Issue] = ()) -> tuple[list[Kernel], list[Issue]]:
    """Kernels of records that are given with the URI of their file, and ``issues`` with contradictions added."""
    reading, settled, uris = Reading(issues=list(issues)), list[Kernel](), dict[str, None]()
    records = list(records)
    for uri, kernel in records:
        uris[uri] = None
        origin = kernel.origins[0] if kernel.origins else None
        if origin is None or not _is_of(origin.input, uri):
            reading.kernels.append(kernel)
        elif kernel.launch is not None or kernel.configuration:  # of a sidecar
            settled.append(kernel)
        elif origin.format == "nvlink":
            stack = kernel.usage.cumulative_stack_bytes
            usage = replace(kernel.usage, stack_bytes=stack, cumulative_stack_bytes=None)
            reading.links.append(LinkRecord(kernel.key.symbol, kernel.key.arch, usage, origin))
        elif origin.format != "ptxas":
            reading.functions += _items(kernel)
        else:
            reading.kernels.append(kernel)
    if len(uris) < 2 or not (reading.links or reading.functions):
        return [kernel for _, kernel in records], reading.issues
    kernels, known = joined(reading)
    kept = set(issues)
    return [*kernels, *settled], [*issues, *(issue for issue in known[len(issues) :] if issue not in kept)]


def _is_of(name: str, uri: str) -> bool:
    """Whether ``name`` is the file ``uri`` or a member of it; the records of a snapshot name other files."""
    return name == uri or name.startswith(f"{uri}!")


def _items(kernel: Kernel) -> list[SassFunction | FunctionUsage]:
    """Machine code and resource listing that a record was made of."""
    symbol, arch, stats = kernel.key.symbol, kernel.key.arch, kernel.sass
    identifier, items = kernel.key.unit.partition("#")[0], list[SassFunction | FunctionUsage]()
    if kernel.origins[0] != (stats and stats.origin):
        listing = FunctionUsage(
            symbol=symbol, arch=arch, identifier=identifier, usage=kernel.usage, dynamic_stack=False,
            origin=kernel.origins[0],
        )  # fmt: skip
        items.append(listing)
    if stats is not None:
        code = SassFunction(
            symbol=symbol, arch=arch, role=kernel.role, member=0, identifier=identifier, stats=stats,
            usage=kernel.usage if stats.origin and stats.origin.format == "binary" else None,
            launch_bounds=kernel.launch_bounds, dynamic_shared=kernel.dynamic_shared, final=kernel.final,
            caller=kernel.caller,
        )  # fmt: skip
        items.append(code)
    return items
