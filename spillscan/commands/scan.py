"""Read build logs or binaries into a table of kernels: registers, spills, stack, shared and constant memory."""

from __future__ import annotations

import argparse

from spillscan.commands import _common, _policy

NAME = "scan"
HELP = "read build logs or binaries into a table of kernels"
ORDER = 10
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
    _common.add_strict(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show what was read: 0, or 2 where nothing was understood."""
    from spillscan.reports import Report, render

    render.check_forms(arguments.format, "scan")
    policy = _policy.policy_of(arguments)
    inputs = _common.inputs_or_stdin(arguments.inputs)
    build = _common.scan(inputs, operands=arguments.operands, unpacking=_policy.unpacking(policy))
    kept = _common.select(build, arguments)
    report = Report(kind="scan", build=kept, read=(build,), launches=policy)
    render.write(report, arguments.format, _common.rows_of(arguments))
    _common.report_issues(build.issues)
    if policy.strict:
        _common.refuse_issues(build.issues)
    return 0
