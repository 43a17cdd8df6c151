"""The policy that makes a repository gated. Text only; ``commands/init.py`` writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import structs

from spillscan.advice.profile.launchmap import KernelLaunch, LaunchList, lines
from spillscan.model import Kernel, Launch
from spillscan.model.patterns import matches
from spillscan.naming import Names
from spillscan.occupancy.launches import settled
from spillscan.output.nouns import count
from spillscan.output.safe import printable

POLICY, BASELINE = "spillscan.yaml", "spillscan-baseline.yaml"
LONGEST_SKELETON = 14
"""Families that a launch map lists with nothing known of them; of more, the largest."""


def policy(kernels: Sequence[Kernel], with_baseline: bool, said: Sequence[tuple[str, Launch]] = ()) -> str:
    """A policy file: the baseline, and the launches of ``kernels`` as far as something says them, or the user has
    ``said``: (pattern, launch)."""
    text = [
        "# What is demanded of this repository's kernels: `spillscan config` shows all, `spillscan explain RULE` why.",
        "version: 1",
        *([f"baseline: {BASELINE}"] if with_baseline else []),
        "",
        *launch_map(kernels, said),
    ]
    return "\n".join(text) + "\n"


def with_baseline(text: str) -> str:
    """A policy file that names a baseline; as it is where it does, and where a line at its end would not."""
    keys = re.findall(r"^([a-z_]\w*):", text, re.M)
    if not keys or "baseline" in keys:
        return text
    return f"{text.rstrip()}\nbaseline: {BASELINE}\n"


def launch_map(kernels: Sequence[Kernel], said: Sequence[tuple[str, Launch]] = ()) -> Iterator[str]:
    """How kernels are launched that do not say it themselves: what the user has ``said``, then a line to fill in for
    every other family."""
    yield "# How kernels are launched that do not say it themselves, by launch bounds or beside their code. Where that"
    yield "# is known, lost blocks per SM are found, and registers that cost none are no error; `min_blocks_per_sm: N`"
    yield "# can be demanded. `spillscan profile launches` writes what a profile saw."
    given = (
        KernelLaunch(match=match, arch="", launch=structs.replace(launch, source="given"), seen=1, others=())
        for match, launch in said
    )
    yield from lines(LaunchList(entries=tuple(given), left_out=()))
    families = unknown_families(kernels, [match for match, _ in said])
    if families:
        brackets = "" if said else " (and the brackets above)"
        yield f"# Not known: put what is launched in place of 256 and 0, and delete the signs{brackets}."
    for pattern, members in families[:LONGEST_SKELETON]:
        entry = f"{{match: {json.dumps(pattern, ensure_ascii=False)}, launch: {_EXAMPLE}}}"
        yield f"#  - {entry}  # {count(len(members), 'kernel')}"
    if len(families) > LONGEST_SKELETON:
        yield f"# … {count(len(families) - LONGEST_SKELETON, 'more family', 'more families')}"


_EXAMPLE = "{threads_per_block: 256, dynamic_shared_bytes: 0}"


def unknown_families(kernels: Iterable[Kernel], said: Sequence[str]) -> list[tuple[str, list[Kernel]]]:
    """(pattern, kernels) of each family of which nothing says how it is launched, the largest first. ``said``: patterns
    of launches that the user gave."""
    silent = [
        kernel
        for kernel in kernels
        if kernel.role != "function"
        and settled(kernel, None) is None
        and not any(matches(kernel, match) for match in said)
    ]
    names = Names(kernel.named_by for kernel in silent)
    families: dict[str, list[Kernel]] = {}
    for kernel in silent:
        families.setdefault(names.base(kernel.named_by), []).append(kernel)
    ordered = sorted(families.items(), key=lambda item: (-len(item[1]), item[0]))
    return [(_pattern(base, members), members) for base, members in ordered if base]


def _pattern(base: str, members: Sequence[Kernel]) -> str:
    """A pattern that names all of a family."""
    for pattern in (base, f"{base}<*", f"*{base}*"):
        if all(matches(kernel, pattern) for kernel in members):
            return printable(pattern)
    return printable(members[0].key.symbol)
