"""Compare two builds, each a log, a folder of logs or a snapshot: what was added, removed, and what changed."""

from __future__ import annotations

import argparse

from spillscan.commands import _common, _policy
from spillscan.commands.check import refuse_undecided

NAME = "diff"
HELP = "compare two builds"
ORDER = 30
EPILOG = "Example: spillscan diff main.json build.log --fail-on-regression"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("base", metavar="BASE", help="log, folder of logs or snapshot of the older build")
    parser.add_argument("head", metavar="HEAD", help="the same of the newer build")
    parser.add_argument(
        "--fail-on-regression",
        action="store_true",
        help="exit with 1 if a kernel spills more, or needs more registers than its allocation step holds",
    )
    _policy.add_limits(parser, "change")
    _policy.add_file(parser)
    _common.add_output(parser)
    _common.add_selection(parser)
    _common.add_strict(parser)


def run(arguments: argparse.Namespace) -> int:
    """0, or 1 where something got worse and ``--fail-on-regression`` was given."""
    from spillscan.pairing import diff
    from spillscan.pipeline import scan
    from spillscan.policy import Policy
    from spillscan.reports import Report, render
    from spillscan.rules import check, regressions

    render.check_forms(arguments.format)
    policy = _policy.policy_of(arguments)
    base, head = scan(arguments.base), scan(arguments.head)
    kept = [_common.narrow(build, arguments.arch, arguments.kernel) for build in (base, head)]
    _common.refuse_empty(base.kernels + head.kernels, kept[0].kernels + kept[1].kernels)
    changes = diff(*kept)
    findings = regressions(changes, policy)
    report = Report(
        kind="diff", base=kept[0], build=kept[1], changes=tuple(changes), findings=tuple(findings), launches=policy
    )
    render.write(report, arguments.format, _common.rows_of(arguments))
    _common.tell_issues(base.issues + head.issues)
    if policy.strict:
        _common.refuse_issues(base.issues + head.issues)
    if not arguments.fail_on_regression:
        return 0
    if any(finding.severity == "error" for finding in findings):
        return 1
    told = Policy()  # limits of one build are not judged here; its spills must be told all the same
    refuse_undecided(kept[1], check(kept[1], told), told)
    return 0
