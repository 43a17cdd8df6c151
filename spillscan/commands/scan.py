"""Read build logs or binaries into a table of kernels: registers, spills, stack, shared and constant memory."""

from __future__ import annotations

import argparse

from spillscan.commands import _candidates, _common, _policy

NAME = "scan"
HELP = "read build logs or binaries into a table of kernels"
EPILOG = "Example: nvcc -Xptxas -v -c gemm.cu 2>&1 | spillscan scan -"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _common.add_inputs(parser)
    _common.add_output(parser)
    _common.add_selection(parser)
    _common.add_launches(parser)
    _policy.add_file(parser)
    parser.add_argument(
        "--operands",
        action="store_true",
        help="also read the operands of SASS: highest register named, bank conflicts (slower; for -f json)",
    )
    parser.add_argument(
        "--live",
        action="store_true",
        help="also count the live registers of binaries, sm_75 and later (2 s a million instructions; -f json, --sort)",
    )
    parser.add_argument(
        "--by",
        choices=(*_common.GROUPINGS, "config"),
        help="group the kernels of the table (default: by family, one template, where not all kernels are shown);"
        " config: the candidates of each tuned kernel beside each other, and which no other beats",
    )
    _common.add_sort(parser, "kernels in the order of a figure, the largest first (default: worst first): %(choices)s")
    parser.add_argument(
        "--assemble",
        nargs="?",
        const="",
        metavar="ARCH,…",
        help="also show what ptxas makes of PTX, for these archs (default: what it is written for; needs ptxas)",
    )
    _common.add_strict(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show what was read: 0, or 2 where nothing was understood."""
    from spillscan.reports import render
    from spillscan.reports.report import Report

    if arguments.by != "config":
        render.check_forms(arguments.format, "scan")
    policy = _policy.policy_of(arguments)
    arches: list[str] | None = []
    if arguments.assemble is not None:
        from spillscan.advice.sweep.assembly import arches_of, assembled
        from spillscan.advice.sweep.toolkits import choose

        arches = arches_of(arguments.assemble)
        if arches is None:  # an input that stands behind the option
            arguments.inputs.insert(0, arguments.assemble)
    inputs = _common.inputs_or_stdin(arguments.inputs)
    unpacking = _policy.unpacking(policy)
    build = _common.scan(inputs, operands=arguments.operands, live=arguments.live, unpacking=unpacking)
    if arguments.assemble is not None:
        build = assembled(build, inputs, arches or (), choose(())[0], unpacking)
    kept = _common.select(build, arguments)
    by, sort = arguments.by, arguments.sort
    report = Report(kind="scan", build=kept, read=(build,), launches=policy, labels=policy.labels, by=by, sort=sort)
    if arguments.by != "config":
        render.write(
            report, arguments.format, _common.rows_of(arguments), _policy.unpacking(policy), arguments.source_root
        )
    else:
        _candidates.show([kept], inputs[:1], arguments, lambda: report)
    _common.report_issues(build.issues)
    if policy.strict:
        _common.refuse_issues(build.issues)
    return 0
