"""Builds made of plain figures, and what the rules find in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spillscan.judging.baseline.judging import apply
from spillscan.judging.baseline.model import Baseline, BaselineResult
from spillscan.judging.baseline.recording import Recording, prune, record
from spillscan.judging.policy import Policy
from spillscan.judging.policy.reading import from_options
from spillscan.judging.rules import check
from spillscan.model import Build, Finding, Kernel, KernelKey, Role, Usage

EMPTY = Baseline()


def kernel(
    symbol: str = "_Z4gemmPf",
    spills: tuple[int, int] | None = (0, 0),
    *,
    registers: int | None = 64,
    arch: str | None = "sm_90a",
    unit: str = "",
    role: Role = "entry",
) -> Kernel:
    stores, loads = spills or (None, None)
    usage = Usage(registers=registers, spill_store_bytes=stores, spill_load_bytes=loads)
    return Kernel(key=KernelKey(symbol=symbol, arch=arch, unit=unit), role=role, usage=usage)


def build(*kernels: Kernel) -> Build:
    return Build(kernels=kernels)


def copies(spills: Iterable[tuple[int, int]], symbol: str = "_Z4gemmPf") -> Build:
    """One kernel, compiled in several translation units."""
    return build(*(kernel(symbol, each, unit=f"{unit}.o") for unit, each in enumerate(spills)))


def limited(**limits: int) -> Policy:
    return Policy((from_options({name: str(value) for name, value in limits.items()}, (), ()),))


def findings(of: Build, policy: Policy | None = None) -> list[Finding]:
    return list(check(of, policy or Policy()).findings)


def recorded(of: Build, old: Baseline = EMPTY, policy: Policy | None = None) -> Recording:
    policy = policy or Policy()
    judgement = check(of, policy)
    return record(of, judgement.findings, [each.kernel for each in judgement.undecided], old, policy)


def written(of: Build, old: Baseline = EMPTY, policy: Policy | None = None) -> Baseline:
    return recorded(of, old, policy).baseline


def judged(of: Build, baseline: Baseline, policy: Policy | None = None) -> BaselineResult:
    return apply(findings(of, policy), of, baseline, policy or Policy())


def pruned(of: Build, old: Baseline, policy: Policy | None = None) -> Baseline:
    return prune(of, findings(of, policy), old, policy or Policy())


def states(verdict: BaselineResult) -> Sequence[str | None]:
    return [finding.baseline_state for finding in verdict.findings]
