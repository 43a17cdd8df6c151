"""Python interface: read a build, and assert that its kernels do not spill."""

from __future__ import annotations

import os
from collections.abc import Sequence

from msgspec.structs import replace

from spillscan.model import Build, Finding, Gap
from spillscan.output.errors import InputError
from spillscan.output.nouns import count
from spillscan.reading import pipeline


def scan(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    watch: pipeline.Watch | None = None,
    *,
    live: bool = False,
) -> Build:
    """Read inputs into one build.

    ``paths``: logs, disassemblies, binaries, folders of them, glob patterns, snapshots, builds of datasets
    (``data/@v1``) and ``-`` (standard input).
    """
    return pipeline.scan(paths, watch, live=live, stored=_build_of_dataset)


def _build_of_dataset(root: str, label: str) -> Build:
    from spillscan.history.dataset import load_build

    return load_build(root, label)


_NAMED = 8
"""Maximum number of kernels that a message names."""


def assert_no_spills(
    built: Build | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    kernel: str = "*",
    arch: str | None = None,
    max_spill_bytes: int = 0,
) -> None:
    """Assert that no kernel of ``built`` (a library, an object, a log, a folder, a build) spills.

    ``kernel`` is a glob on the symbol, full or short name; ``arch`` limits it to
    one arch. Raises :class:`AssertionError` if a kernel spills more than ``max_spill_bytes`` per thread, or if that is
    unknown; :class:`~spillscan.InputError` if an input cannot be read or no kernel matches.
    """
    from spillscan.judging.policy.effective import Policy  # not needed to scan
    from spillscan.judging.policy.reading import from_options
    from spillscan.judging.rules import check
    from spillscan.judging.rules.spills import MAX_BYTES, SPILL
    from spillscan.judging.verdict import gaps_of, verdict
    from spillscan.model.patterns import matches
    from spillscan.naming import Names

    build = built if isinstance(built, Build) else scan(built)
    kept = tuple(each for each in build.kernels if arch in (None, each.key.arch) and matches(each, kernel))
    if not kept:
        where = f" for {arch}" if arch else ""
        raise InputError(f"no kernel matches {kernel!r}{where}", "`spillscan scan --all BUILD` lists the kernels")
    policy = Policy((from_options({MAX_BYTES.name: str(max_spill_bytes)}),))
    judgement = check(replace(build, kernels=kept), policy)
    spilling = [each for each in judgement.findings if each.rule == SPILL.id]
    undecided = [each for each in judgement.undecided if each.rule == SPILL]
    outcome = verdict(spilling, gaps_of(build, undecided, frozenset(SPILL.needs), policy), policy)
    if not outcome.status:
        return
    known = f"{len(spilling):,} of {count(len(kept), 'kernel')} spill" if spilling else "unknown whether kernels spill"
    names = Names(each.named_by for each in build.kernels)
    found: list[Finding | Gap] = [*spilling, *outcome.gaps]
    lines = [
        f"{names.of(each.kernel.named_by)} ({each.kernel.key.arch or 'arch unknown'}) {each.message}"
        if each.kernel
        else f"{each.origin or 'the build'}: {each.message}"
        for each in found
    ]
    more = [f"… {len(lines) - _NAMED:,} more"] if len(lines) > _NAMED else []
    raise AssertionError("\n  ".join([known, *lines[:_NAMED], *more]))
