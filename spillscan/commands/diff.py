"""Compare builds, each a log, a folder of logs or a snapshot: what was added, removed, and what changed.

Two builds are compared kernel by kernel. More than two, or --by, make a table instead: one row a kernel, one column a
build (--by build) or a target (--by arch), the widest spread first.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from spillscan.commands import _baseline, _common, _policy
from spillscan.commands.check import refuse_empty, refuse_partial, refuse_undecided
from spillscan.errors import UndecidedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spillscan.baseline.judging import Verdict
    from spillscan.compare.matrix import By
    from spillscan.model import Build
    from spillscan.policy import Policy
    from spillscan.reports import Report
    from spillscan.rules import Judgement

NAME = "diff"
HELP = "compare two builds, or several side by side"
ORDER = 30
EPILOG = "Example: spillscan diff main.json build.log --fail-on error"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="BUILD",
        help="BASE HEAD: log, folder of logs or snapshot (scan -f json) of the older build and of the newer one;"
        " with --by, one or more builds",
    )
    fail = parser.add_mutually_exclusive_group()
    fail.add_argument(
        "--fail-on",
        choices=("error", "warning", "note", "never"),
        help="exit with 1 where something got worse: the mildest finding that counts (default: never)",
    )
    fail.add_argument(
        "--fail-on-regression",
        action="store_true",
        help="the same with the policy's fail_on (default: error): new or more spills, lost blocks per SM, another"
        " register allocation step",
    )
    parser.add_argument("--by", choices=("build", "arch"), help="a table of builds, or of archs, side by side")
    _common.add_metric(parser, "METRICS", "what a table shows (default: spill_bytes and registers)")
    _common.add_launches(parser)
    _common.add_devices(parser, "compare blocks per SM")
    _policy.add_limits(parser, "change")
    _policy.add_file(parser)
    _common.add_output(parser)
    _common.add_selection(parser)
    _common.add_strict(parser)
    _baseline.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """0, or 1 where something got worse by at least ``--fail-on``; 2 where the builds leave that open."""
    from spillscan.output.progress import scan
    from spillscan.reports import render

    by: By | None = arguments.by or ("build" if len(arguments.inputs) > 2 else None)
    render.check_forms(arguments.format, "matrix" if by else "diff")
    _check_call(arguments, by)
    arguments.devices = ",".join(arguments.device) or None
    policy = _policy.policy_of(arguments)
    gate = _baseline.gate(arguments, policy)
    builds = [scan(path, unpacking=_policy.unpacking(policy)) for path in arguments.inputs]
    kept = [_common.narrow(build, arguments.arch, arguments.kernel) for build in builds]
    _common.refuse_empty(
        [kernel for build in builds for kernel in build.kernels], [kernel for build in kept for kernel in build.kernels]
    )
    _common.refuse_devices([kernel for build in kept for kernel in build.kernels], arguments.device)
    report, judgement = _report(kept, by, arguments, policy)
    held = gate.judge(judgement.findings, kept[-1], builds[-1], of_changes=True)
    render.write(gate.report(report, held), arguments.format, _common.rows_of(arguments))
    issues = [issue for build in builds for issue in build.issues]
    _common.tell_issues((*gate.issues(held), *issues))
    if policy.strict:
        _common.refuse_issues(issues)
    return 0 if report.fail_on == "never" else _verdict(builds, report, judgement, policy, gate, held)


def _check_call(arguments: argparse.Namespace, by: By | None) -> None:
    if len(arguments.inputs) == 1 and by != "arch":
        raise UsageError("one build has nothing to compare with", "give BASE and HEAD, or --by arch")
    if len(arguments.inputs) == 1 and (arguments.fail_on or arguments.fail_on_regression):
        raise UsageError("one build cannot have got worse", "give an older build before it, or use spillscan check")
    if arguments.metric and by is None:
        raise UsageError("--metric chooses what a table shows", "add --by build or --by arch")
    if arguments.device and by is not None:
        raise UsageError("--device has no meaning in a table", "leave --by away, or leave --device away")


def _report(
    builds: Sequence[Build], by: By | None, arguments: argparse.Namespace, policy: Policy
) -> tuple[Report, Judgement]:
    from spillscan.compare.matrix import matrix
    from spillscan.compare.pairing import Comparison, comparison
    from spillscan.model import at_least
    from spillscan.reports import Report
    from spillscan.rules import Judgement, regressions, undecided_changes

    gated = bool(arguments.fail_on or arguments.fail_on_regression)
    table = None
    if by is not None:
        metrics = list(dict.fromkeys(arguments.metric)) or ["spill_bytes", "registers"]
        table = matrix(builds, _labels(arguments.inputs), by, metrics, policy)
    judged = by is None or gated
    found = comparison(builds[0], builds[-1], policy, policy.devices) if judged else Comparison()
    judgement = Judgement(
        findings=tuple(regressions(found.changes, policy)),
        undecided=tuple(undecided_changes((*found.changes, *found.unsettled), policy)),
    )
    report = Report(
        kind="diff" if by is None else "matrix",
        base=builds[0],
        build=builds[-1],
        changes=found.changes,
        unsettled=found.unsettled,
        matrix=table,
        undecided=tuple(
            (each.kernel, each.reason) for each in judgement.undecided if at_least(each.severity, policy.fail_on)
        ),
        launches=policy,
        fail_on=policy.fail_on if gated else "never",
    )
    return report, judgement


def _verdict(
    builds: Sequence[Build], report: Report, judgement: Judgement, policy: Policy, gate: _baseline.Gate, held: Verdict
) -> int:
    """As of ``check``; what is missing from the base may be what counts, too."""
    from spillscan.model import at_least

    if held.expired or any(at_least(finding.severity, policy.fail_on) for finding in held.open):
        return 1
    gate.refuse_fewer(held)
    refuse_empty(builds[0])
    refuse_partial(builds[0])
    if report.base and report.base.kernels and _arches(report.base).isdisjoint(_arches(report.build)):
        told = " and ".join(", ".join(sorted(_arches(build))) for build in (report.base, report.build))
        raise UndecidedError(f"the builds have no arch in common ({told}): nothing was compared")
    refuse_undecided(builds[-1], judgement, policy)
    return 0


def _arches(build: Build) -> set[str]:
    return {kernel.key.arch or "arch unknown" for kernel in build.kernels}


def _labels(paths: Sequence[str]) -> list[str]:
    """Paths as short as they are still told apart."""
    parts = [path.rstrip("/").split("/") for path in paths]
    for length in range(1, max(map(len, parts))):
        short = ["/".join(part[-length:]) for part in parts]
        if len(set(short)) == len(set(paths)):
            return short
    return list(paths)
