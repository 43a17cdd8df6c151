"""Block sizes of a profile as ``kernels`` of a policy file.

A policy has one launch per kernel. If a profile has several, the most frequent one is written (of equally frequent ones
the one with most time); the others follow as comments.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from spillscan.advice.profile.matching import NO_BUILD, Matched, parsed
from spillscan.model import Launch
from spillscan.output.errors import InputError
from spillscan.output.nouns import count
from spillscan.output.safe import printable

_OF_CHECKOUT = re.compile(r"_GLOBAL__N_|__nv_static_")
"""Symbols with a hash of their source's path: another checkout has others, so the name is written instead."""
_PLAIN = re.compile(r"[A-Za-z_][\w:]*")
_NO_BUILD = "its name may fit several kernels; pass the build, too"
_ROUNDED = "block size or dynamic shared memory unknown or rounded (ncu --section LaunchStats, --print-units base)"


def lines(launches: Sequence[Matched]) -> Iterator[str]:
    """Text of a policy file with the launches of each kernel. Raises InputError if the launch is unknown."""
    groups: dict[tuple[str, str], dict[Launch, list[float]]] = {}
    left_out: dict[str, None] = {}
    for each in launches:
        named, launch = _pattern(each), each.launch.launch
        if named is None or launch is None:
            why = _ROUNDED if launch is None else each.unmatched.replace(NO_BUILD, _NO_BUILD)
            left_out[f"{printable(each.launch.kernel)}: {why}"] = None
        else:
            times = groups.setdefault(named, defaultdict(list))[launch]
            times.append(each.launch.metrics.get("duration_ns", 0))
    if not groups:
        raise InputError(
            f"the launch is unknown: {next(iter(left_out))}", "profile with --section LaunchStats --print-units base"
        )
    yield "kernels:"
    for (pattern, arch), seen in sorted(groups.items()):
        first, *others = sorted(seen, key=lambda launch: (-len(seen[launch]), -sum(seen[launch])))
        yield f"  - match: {json.dumps(printable(pattern), ensure_ascii=False)}"
        if arch:
            yield f"    arch: {arch}"
        yield f"    launch: {_flow(first)}  # {count(len(seen[first]), 'launch', 'launches')}"
        yield from (f"    # also {count(len(seen[o]), 'launch', 'launches')}: {_flow(o)}" for o in others)
    yield from (f"# left out: {line}" for line in left_out)


def _pattern(each: Matched) -> tuple[str, str] | None:
    """(pattern, arch) that names one kernel; without a build, only a plain name does."""
    if each.kernel is not None:
        symbol = each.kernel.key.symbol
        name = each.kernel.name if _OF_CHECKOUT.search(symbol) else symbol
        return re.sub(r"[*?\[]", r"[\g<0>]", name), each.kernel.key.arch or ""
    kernel = each.launch.kernel
    name = kernel if kernel.startswith("_Z") else parsed(kernel)[0]
    return (name, "") if each.unmatched == NO_BUILD and _PLAIN.fullmatch(name) else None


def _flow(launch: Launch) -> str:
    clusters = f", cluster_blocks: {launch.cluster_blocks}" if launch.cluster_blocks > 1 else ""
    dynamic = f"dynamic_shared_bytes: {launch.dynamic_shared_bytes}"
    return f"{{threads_per_block: {launch.threads_per_block}, {dynamic}{clusters}}}"
