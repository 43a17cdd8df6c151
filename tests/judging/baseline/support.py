"""Builds made of plain metrics, and their findings."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from msgspec.structs import replace

from spillscan.judging.baseline.comparing import compare
from spillscan.judging.baseline.file import Baseline
from spillscan.judging.baseline.recording import Recording, prune, record
from spillscan.judging.policy.effective import Policy
from spillscan.judging.policy.reading import from_options
from spillscan.judging.rules import check
from spillscan.judging.verdict import BaselineResult
from spillscan.model import Build, Kernel, KernelKey, Role, Usage
from tests.conftest import ROOT

EMPTY = Baseline()
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("GIT_")},
    **{f"GIT_{who}_{what}": "a@example.invalid" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    **{f"GIT_CONFIG_{scope}": os.devnull for scope in ("GLOBAL", "SYSTEM")},
    "PYTHONPATH": str(ROOT),
}


def git(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=folder, env=ENVIRONMENT, capture_output=True, check=False)


def commit(folder: Path) -> None:
    assert git(folder, "add", "-A").returncode == 0
    assert git(folder, "commit", "-qm", "change", "--allow-empty").returncode == 0


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


def sized(of: Kernel, **metrics: int | None) -> Kernel:
    return replace(of, usage=replace(of.usage, **metrics))  # type: ignore[arg-type]
