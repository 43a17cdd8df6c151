"""Block sizes of a profile as ``kernels`` of a policy file.

A policy has one launch per kernel. If a profile has several, the most frequent one is written (of equally frequent ones
the one with most time); the others follow as comments.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from spillscan.advice.profile.matching import Matched
from spillscan.model import Kernel, Launch
from spillscan.output.errors import InputError
from spillscan.output.nouns import count
from spillscan.output.safe import printable

_OF_CHECKOUT = re.compile(r"_GLOBAL__N_|__nv_static_")
"""Symbols with a hash of their source's path: another checkout has others, so the name is written instead."""
_ROUNDED = "block size or dynamic shared memory unknown or rounded; ncu needs --section LaunchStats --print-units base"


def lines(launches: Sequence[Matched]) -> Iterator[str]:
    """Text of a policy file with the launches of each kernel. Raises InputError if the launch is unknown."""
    groups: dict[tuple[str, str], dict[Launch, list[float]]] = {}
    left_out: dict[str, None] = {}
    for each in launches:
        kernel, launch = each.kernel, each.launch.launch
        if kernel is None or launch is None:
            left_out[f"{printable(each.launch.kernel)}: {_ROUNDED if launch is None else each.unmatched}"] = None
        else:
            times = groups.setdefault((_pattern(kernel), kernel.key.arch or ""), defaultdict(list))[launch]
            times.append(each.launch.metrics.get("duration_ns", 0))
    if not groups:
        hint = "pass the profiled build" if any(each.launch.launch for each in launches) else ""
        raise InputError(f"no launch to print: {next(iter(left_out))}", hint)
    yield "kernels:"
    for (pattern, arch), seen in sorted(groups.items()):
        first, *others = sorted(seen, key=lambda launch: (-len(seen[launch]), -sum(seen[launch])))
        yield f"  - match: {json.dumps(printable(pattern), ensure_ascii=False)}"
        if arch:
            yield f"    arch: {arch}"
        yield f"    launch: {_flow(first)}  # {count(len(seen[first]), 'launch', 'launches')}"
        yield from (f"    # also {count(len(seen[o]), 'launch', 'launches')}: {_flow(o)}" for o in others)
    yield from (f"# left out: {line}" for line in left_out)


def _pattern(kernel: Kernel) -> str:
    symbol = kernel.key.symbol
    return re.sub(r"[*?\[]", r"[\g<0>]", kernel.name if _OF_CHECKOUT.search(symbol) else symbol)


def _flow(launch: Launch) -> str:
    clusters = f", cluster_blocks: {launch.cluster_blocks}" if launch.cluster_blocks > 1 else ""
    dynamic = f"dynamic_shared_bytes: {launch.dynamic_shared_bytes}"
    return f"{{threads_per_block: {launch.threads_per_block}, {dynamic}{clusters}}}"
