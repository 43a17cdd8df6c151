"""Builds made of plain metrics, and their findings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from spillscan.judging.baseline.comparing import BaselineResult, compare
from spillscan.judging.baseline.file import Baseline
from spillscan.judging.baseline.recording import Recording, prune, record
from spillscan.judging.policy import Policy
from spillscan.judging.policy.reading import from_options
from spillscan.judging.rules import check
from spillscan.model import Build, Kernel, KernelKey, Role, Usage

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


def limited(*launches: str, **keys: int | str) -> Policy:
    return Policy((from_options({name: str(value) for name, value in keys.items()}, (), launches),))


def recorded(of: Build, old: Baseline = EMPTY, policy: Policy | None = None) -> Recording:
    policy = policy or Policy()
    judgement = check(of, policy)
    findings = policy.accepted(judgement.findings)
    return record(of, findings, [each.kernel for each in judgement.undecided], old, policy)


def written(of: Build, old: Baseline = EMPTY, policy: Policy | None = None) -> Baseline:
    return recorded(of, old, policy).baseline


def judged(of: Build, baseline: Baseline, policy: Policy | None = None) -> BaselineResult:
    policy = policy or Policy()
    judgement = check(of, policy)
    findings = policy.accepted(judgement.findings)
    return compare(findings, of, baseline, policy, undecided=judgement.undecided)


def pruned(of: Build, old: Baseline, policy: Policy | None = None) -> Baseline:
    policy = policy or Policy()
    return prune(of, check(of, policy).findings, old, policy)


def states(result: BaselineResult, rule: str = "") -> Sequence[str | None]:
    return [finding.baseline_state for finding in result.findings if rule in ("", finding.rule)]


def sized(of: Kernel, **metrics: int | None) -> Kernel:
    return replace(of, usage=replace(of.usage, **metrics))  # type: ignore[arg-type]
