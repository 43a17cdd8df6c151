"""Last lines of a text report: how to accept failing findings, and what was not checked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from spillscan.commands._policy import NO_FILE
from spillscan.judging.policy.reading import NAME
from spillscan.model import Build, Finding, Kernel
from spillscan.model.gaps import unread
from spillscan.model.patterns import names_of
from spillscan.output.nouns import count
from spillscan.output.safe import printable

if TYPE_CHECKING:
    from spillscan.commands._baseline import Gate
    from spillscan.judging.policy.effective import Policy

_GLOB = frozenset("*?[]")


def accept_lines(gate: Gate, inputs: Sequence[str], failing: Sequence[Finding], config: str | None) -> Iterator[str]:
    """Ways to accept the ``failing`` findings: all by the baseline, or the first by an entry in the policy. ``config``:
    value of --config."""
    from spillscan.commands._baseline import DEFAULT_FILE

    if gate.from_base:
        yield "accept: a branch cannot accept its own findings (--baseline-from):"
        yield "  first merge the new baseline or `accept` entry separately"
        return
    named = [finding for finding in failing if finding.kernel.key.symbol]
    if len(named) < len(failing):
        yield "accept: not possible without the kernel's name; pass the whole log"
    elif inputs and "-" not in inputs:
        yield f"accept (all findings): spillscan baseline write {gate.arguments}".rstrip()
        if gate.path is None:
            yield f"  then check with --baseline {DEFAULT_FILE}"
    for finding in named[:1] if config != NO_FILE else ():
        listed = any(layer.accept for layer in gate.policy.layers[:-1])  # the last one is of options
        yield f"accept (first one only): add to {'`accept` in ' if listed else ''}{config or NAME}:"
        yield f"  {acceptance(finding)}" if listed else f"  accept: [{acceptance(finding)}]"


def acceptance(finding: Finding) -> str:
    """Entry of ``accept`` for one finding."""
    kernel = finding.kernel
    symbol, *others = names_of(kernel.named_by)
    name = next((each for each in others[1:] if not _GLOB & {*each}), symbol)
    words = {"rule": finding.rule, "kernel": printable(name), "arch": kernel.key.arch or "", "reason": "why"}
    pairs = (f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in words.items() if value)
    return f"{{{', '.join(pairs)}}}"


def not_checked(build: Build, policy: Policy, findings: Sequence[Finding] = ()) -> Iterator[str]:
    """Data missing from the input that no limit of the policy needs; a kernel that cannot launch has no blocks."""
    from spillscan.judging.rules.blocks import FAILS
    from spillscan.judging.rules.code import OTHER
    from spillscan.judging.rules.storage import STACK

    never = {id(each.kernel) for each in findings if each.rule == FAILS.id}
    kernels = [kernel for kernel in build.kernels if kernel.role != "function"]
    groups = policy.by_terms(kernels)
    unlaunched = [each for terms, some in groups if terms.launch is None for each in some if id(each) not in never]
    if unlaunched:
        yield f"blocks per SM of {_of(unlaunched, kernels)} (block size unknown; --launch 'GLOB=THREADS')"
    if any(terms.levels.get(OTHER.id, "off") != "off" for terms, _ in groups):
        yield f"machine code [{OTHER.id}] (`spillscan diff --with code BASE HEAD` compares it)"
    limited = (each for terms, some in groups if terms.limit(*STACK.limits) is not None for each in some)
    if unread := [kernel for kernel in limited if kernel.sass is None]:
        yield f"dynamic stack (alloca) of {_of(unread, kernels)} (not every log reports it; pass the binary, too)"
    yield from unknown_values(build)


def unknown_values(build: Build) -> Iterator[str]:
    """Registers and source lines that the input leaves open."""
    kernels = [kernel for kernel in build.kernels if kernel.role != "function"]
    if unlinked := [kernel for kernel in kernels if kernel.final is False]:
        yield f"final registers of {_of(unlinked, kernels)} (known after the device link)"
    stale = unread(build.issues)
    spilling = [each for each in build.kernels if sum(each.spills or ()) and each.key.unit not in stale]
    unplaced = [kernel for kernel in spilling if kernel.sass is None or not kernel.sass.local.lines]
    if unplaced:
        also = " and pass the binary" if any(kernel.sass is None for kernel in unplaced) else ""
        noun = "function" if any(each.role == "function" for each in unplaced) else "kernel"
        yield f"source lines of {count(len(unplaced), f'spilling {noun}')} (compile with -lineinfo{also})"


def _of(some: Sequence[Kernel], kernels: Sequence[Kernel]) -> str:
    if len(some) == len(kernels):
        return count(len(kernels), "kernel")
    return f"{len(some):,} of {count(len(kernels), 'kernel')}"
