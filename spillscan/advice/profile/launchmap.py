"""How kernels were launched, as a policy file's ``kernels``: real block sizes and dynamic shared memory.

A policy knows one launch of a kernel. Where a profile holds several, the commonest stands there (of equally common ones
that with the most time, then the first); the others stand beside it as comments, so that
the choice is not taken for all there is.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from spillscan.advice.profile.judged import JudgedLaunch, launch_figures, why_no_figures
from spillscan.advice.profile.matching import parsed
from spillscan.model import Kernel, Launch
from spillscan.occupancy.launches import settled
from spillscan.output.nouns import count
from spillscan.output.safe import printable

_GLOB = re.compile(r"[*?\[]")
_OF_CHECKOUT = re.compile(r"_GLOBAL__N_|__nv_static_")
"""Symbols that hold a hash of where their source lies: another checkout has others, and the name is better."""
_PLAIN = re.compile(r"[A-Za-z_][\w:]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLaunch:
    """One kernel's launch."""

    match: str
    """Pattern that names the kernel, and no other."""
    arch: str
    """Arch of the kernel's record; empty where only the profile names the kernel."""
    launch: Launch
    """The launch that was chosen."""
    seen: int
    """How many launches were like it."""
    others: tuple[tuple[Launch, int], ...]
    """Other launches of it, each with how often it was seen, commonest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchList:
    """What is known, and what is not."""

    entries: tuple[KernelLaunch, ...]
    """Sorted by pattern and arch."""
    left_out: tuple[tuple[str, str], ...]
    """(kernel as printed, why it has no entry), each once."""


def launch_list(judged: Sequence[JudgedLaunch], against_build: bool) -> LaunchList:
    """The launch of each kernel. Kernels that are matched with a build are named by their symbols."""
    groups: dict[tuple[str, str], list[JudgedLaunch]] = {}
    left_out: dict[tuple[str, str], None] = {}
    for each in judged:
        named = _named(each, against_build)
        why = "" if launch_figures(each.launch) is not None else why_no_figures(each.launch)
        if named is None:
            why = each.match.reason if against_build else "its name fits no pattern: give the build that has the kernel"
        if named is None or why:
            left_out[each.launch.kernel, why] = None
        else:
            groups.setdefault(named, []).append(each)
    entries = (_entry(match, arch, group) for (match, arch), group in sorted(groups.items()))
    return LaunchList(entries=tuple(entries), left_out=tuple(left_out))


def known_launches(kernels: Iterable[Kernel]) -> LaunchList:
    """What the kernels of a build say of themselves: launches that their compiler wrote beside their code, block sizes
    that the code requires or is bounded by. Kernels of one name that are launched in several ways have no entry."""
    groups: dict[tuple[str, str], dict[Launch | None, int]] = {}
    for kernel in kernels:
        if kernel.role != "function":
            launch = settled(kernel, None)
            seen = groups.setdefault((_pattern(kernel), kernel.key.arch or ""), {})
            seen[launch] = seen.get(launch, 0) + 1
    entries: list[KernelLaunch] = []
    left_out: list[tuple[str, str]] = []
    for (match, arch), seen in sorted(groups.items()):
        (launch, times), *others = seen.items()
        if others:
            left_out.append((match, f"{count(len(seen), 'kernel')} of that name are launched in different ways"))
        elif launch is None:
            left_out.append((match, "nothing says how it is launched"))
        elif launch.dynamic_shared_bytes is None:
            left_out.append((match, f"its dynamic shared memory is not known; {launch.threads_per_block} threads"))
        else:
            entries.append(KernelLaunch(match=match, arch=arch, launch=launch, seen=times, others=()))
    return LaunchList(entries=tuple(entries), left_out=tuple(left_out))


def lines(found: LaunchList) -> Iterator[str]:
    """The text of a policy file with these launches alone."""
    yield "kernels:" if found.entries else "kernels: []"
    for entry in found.entries:
        yield f"  - match: {json.dumps(printable(entry.match), ensure_ascii=False)}"
        if entry.arch:
            yield f"    arch: {entry.arch}"
        said = _SAID.get(entry.launch.source) or _times(entry.seen)
        yield f"    launch: {_figures(entry.launch)}  # {said}"
        for launch, seen in entry.others:
            yield f"    # also {_times(seen)}: {_figures(launch)}"
    for kernel, why in found.left_out:
        yield f"# left out: {printable(kernel)}: {printable(why)}"


_SAID = {
    "sidecar": "as its compiler wrote",
    "required": "as its code requires",
    "bounds": "the largest block of its launch bounds",
    "given": "as given",
}


def _pattern(kernel: Kernel) -> str:
    """A pattern that names the kernel, and no other."""
    symbol = kernel.key.symbol
    name = kernel.name if _OF_CHECKOUT.search(symbol) else symbol
    return _GLOB.sub(lambda sign: f"[{sign[0]}]", name)


def _named(each: JudgedLaunch, against_build: bool) -> tuple[str, str] | None:
    """(pattern, arch): the symbol of the kernel that is known, else the name that the profiler printed, where it is so
    plain that it can only mean one."""
    kernel = each.match.kernel
    if kernel is not None:
        return _pattern(kernel), kernel.key.arch or ""
    if against_build:
        return None
    name = each.launch.kernel if each.launch.kernel.startswith("_Z") else parsed(each.launch.kernel).qualified
    return (name, "") if _PLAIN.fullmatch(name) else None


def _entry(match: str, arch: str, group: Sequence[JudgedLaunch]) -> KernelLaunch:
    times: Counter[Launch] = Counter()
    spent: Counter[Launch] = Counter()
    for each in group:
        launch = launch_figures(each.launch)
        assert launch is not None
        times[launch] += 1
        spent[launch] += round(each.measured.figure("duration_ns") or 0)
    chosen, *rest = sorted(times, key=lambda launch: (-times[launch], -spent[launch]))
    others = tuple((launch, times[launch]) for launch in rest)
    return KernelLaunch(match=match, arch=arch, launch=chosen, seen=times[chosen], others=others)


def _figures(launch: Launch) -> str:
    clusters = f", cluster_blocks: {launch.cluster_blocks}" if launch.cluster_blocks > 1 else ""
    known = launch.dynamic_shared_bytes  # 0 is a fact as well: left out, it is open
    dynamic = "" if known is None else f", dynamic_shared_bytes: {known}"
    return f"{{threads_per_block: {launch.threads_per_block}{dynamic}{clusters}}}"


def _times(seen: int) -> str:
    return count(seen, "launch", "launches")
