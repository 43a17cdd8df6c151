"""Judge a build: exit with 1 where a kernel spills or breaks a limit, with 2 where the input does not decide it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from spillscan.commands import _baseline, _common, _policy
from spillscan.errors import UndecidedError

if TYPE_CHECKING:
    from spillscan.baseline.judging import Verdict
    from spillscan.model import Build
    from spillscan.policy import Policy
    from spillscan.rules import Judgement

NAME = "check"
HELP = "exit with 1 if a kernel spills or breaks a limit"
ORDER = 20
EPILOG = "Example: make 2>&1 | tee build.log; spillscan check build.log --max-registers 128"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _common.add_inputs(parser)
    _policy.add_limits(parser, "build")
    _policy.add_fail_on(parser)
    _common.add_launches(parser)
    _policy.add_file(parser)
    _common.add_output(parser)
    _common.add_selection(parser)
    _common.add_strict(parser)
    _baseline.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """0 clean, 1 findings; :class:`UndecidedError` where the input leaves open what the check must know."""
    from spillscan.model import at_least
    from spillscan.output.progress import scan
    from spillscan.reports import Report, render
    from spillscan.rules import check

    render.check_forms(arguments.format, "check")
    policy = _policy.policy_of(arguments)
    gate = _baseline.gate(arguments, policy)
    read = scan(_common.inputs_or_stdin(arguments.inputs), unpacking=_policy.unpacking(policy))
    everything = _policy.with_rot(read, policy)
    build = _common.select(everything, arguments.arch, arguments.kernel)
    judgement = check(build, policy)
    held = gate.judge(judgement.findings, build, everything)
    undecided = [each for each in judgement.undecided if at_least(each.severity, policy.fail_on)]
    report = Report(
        kind="check",
        build=build,
        launches=policy,
        undecided=tuple((each.kernel, each.reason) for each in undecided),
        fail_on=policy.fail_on,
    )
    report = gate.report(report, held)
    render.write(report, arguments.format, _common.rows_of(arguments))
    _common.tell_issues((*gate.issues(held), *everything.issues))
    if policy.strict:
        _common.refuse_issues(everything.issues)
    return verdict(everything, judgement, policy, gate, held)


def verdict(build: Build, judgement: Judgement, policy: Policy, gate: _baseline.Gate, held: Verdict) -> int:
    """1 where a finding that no baseline excuses is as grave as the policy's ``fail_on``, or a suppression has expired;
    0 where none is and nothing is left open.
    """
    from spillscan.model import at_least

    if policy.fail_on == "never":
        return 0
    if held.expired or any(at_least(finding.severity, policy.fail_on) for finding in held.open):
        return 1
    gate.refuse_fewer(held)
    refuse_undecided(build, judgement, policy)
    return 0


def refuse_undecided(build: Build, judgement: Judgement, policy: Policy) -> None:
    """A gate never passes on what it does not know."""
    from spillscan.model import at_least

    refuse_empty(build)
    kernels = sum(kernel.role != "function" for kernel in build.kernels)
    if policy.expect_kernels is not None and kernels < policy.expect_kernels:
        raise UndecidedError(
            f"{kernels:,} kernels where {policy.expect_kernels:,} are expected at least",
            "is the log whole? was everything compiled anew?",
        )
    undecided = [each for each in judgement.undecided if at_least(each.severity, policy.fail_on)]
    if undecided:
        first = undecided[0]
        count = f" ({len(undecided) - 1} more like it)" if len(undecided) > 1 else ""
        raise UndecidedError(f"cannot judge {first.kernel.short_name}: {first.reason}{count}")
    refuse_partial(build)
    from spillscan.rules.spills import MAX_BYTES

    asked = [kernel for kernel in build.kernels if policy.terms_of(kernel).limit(MAX_BYTES) is not None]
    if asked and all(kernel.spills is None for kernel in build.kernels):
        raise UndecidedError(
            "no kernel's spills are told",
            "give ptxas's own report too (nvcc -Xptxas -v), or ask for none (--max-spill-bytes none)",
        )


def refuse_empty(build: Build) -> None:
    """A build without kernels decides nothing."""
    if not build.kernels:
        raise UndecidedError(
            "the input names no kernel", "give the log of the compilation itself, not of the link alone"
        )


def refuse_partial(build: Build) -> None:
    """What is missing from a build may be what counts."""
    grave = [issue for issue in build.issues if issue.severity == "error"]
    if grave:
        place = f"{grave[0].origin}: " if grave[0].origin else ""
        raise UndecidedError(f"the build is not all there: {place}{grave[0].message}")
