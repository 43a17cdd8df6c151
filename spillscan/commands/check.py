"""Fail if a kernel spills, exceeds a limit, or regressed since the baseline.

Exit status: 0 passed, 1 failing findings, 2 incomplete input or usage error.
"""

from __future__ import annotations

import argparse

from msgspec.structs import replace

from spillscan.commands import _baseline, _footer, _inputs, _issues, _options, _policy
from spillscan.commands._selection import Selection
from spillscan.judging.rules import check
from spillscan.judging.verdict import gaps_of, verdict
from spillscan.model import Scope
from spillscan.output.terminal import complain
from spillscan.reports import render
from spillscan.reports.report import Report
from spillscan.reports.words import UNCOUNTED

EPILOG = "Example: make 2>&1 | tee build.log; spillscan check build.log --set max_registers=128"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _options.add_inputs(parser)
    _policy.add_fail_on(parser)
    _policy.add_severity(parser)
    _options.add_launches(parser)
    _policy.add_file(parser)
    parser.add_argument(
        "--by",
        choices=_options.GROUPINGS,
        help="group the findings of each rule; by default, long lists are grouped by family (kernels of one template)",
    )
    _baseline.add_gate(parser)


def run(arguments: argparse.Namespace) -> int:
    """Return 0 (clean) or 1 (findings); raise :class:`UndecidedError` if the input lacks data that the check needs."""
    forms = render.check_forms(arguments.format, "check")
    gate = _baseline.gate(arguments, arguments.inputs)
    policy = gate.policy
    inputs = _inputs.inputs_or_stdin(arguments.inputs)
    read = _inputs.scan(inputs)
    everything = _policy.with_rot(read, policy)
    build = Selection(arguments.arch, arguments.kernel, arguments.launch).marked(everything)
    outcome = check(build, policy)
    result = gate.apply(outcome.findings, build, everything, undecided=outcome.undecided)
    undecided = (*outcome.undecided, *result.undecided)
    gaps = [*gaps_of(everything, undecided, gate.needs(outcome.terms), policy), *gate.gaps(result)]
    decision = verdict(result.open, gaps, policy)
    if not (arguments.arch or arguments.kernel):
        scopes: tuple[Scope, ...] = ("build",) if gate.baseline is None else ("build", "change")
        notes = _policy.unused_accepts(policy, result.findings, gaps, scopes)
        notes += _policy.unused_renames(policy, result.renamed)
        build, everything = (replace(each, issues=(*each.issues, *notes)) for each in (build, everything))
    report = Report(
        kind="check",
        build=build,
        read=(everything,),
        launches=policy,
        gaps=decision.gaps,
        accepted=decision.accepted,
        fail_on=policy.fail_on,
        by=arguments.by,
    )
    report = gate.report(report, result)
    if decision.status and _options.shows_next_steps(arguments):
        from spillscan.commands import _offers

        report = _offers.with_next_steps(report, _offers.Invocation.by(arguments, inputs), policy)
    accepting = _footer.accept_lines(gate, inputs, decision.failing, arguments.config) if decision.status == 1 else ()
    report = report.extended(
        accept=tuple(accepting), not_checked=tuple(_footer.not_checked(build, policy, result.findings))
    )
    render.write(report, arguments.format, _options.rows_of(arguments), arguments.source_root)
    if policy.strict and not everything.units:
        complain(UNCOUNTED)
    return _issues.conclude(
        decision, (*gate.issues(result, everything), *everything.issues), shown=render.shows_gaps(forms)
    )
