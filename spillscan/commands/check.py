"""Judge a build: exit with 1 where a kernel spills or breaks a limit, with 2 where the input does not decide it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from spillscan.commands import _common
from spillscan.errors import UndecidedError

if TYPE_CHECKING:
    from spillscan.model import Build, Kernel

NAME = "check"
HELP = "exit with 1 if a kernel spills or breaks a limit"
ORDER = 20
EPILOG = "Example: make 2>&1 | tee build.log; spillscan check build.log --max-registers 128"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _common.add_inputs(parser)
    parser.add_argument(
        "--max-spill-bytes",
        type=_common.whole_number,
        default=0,
        metavar="N",
        help="most bytes of spill stores and loads together, per thread (default: 0)",
    )
    parser.add_argument(
        "--max-registers",
        type=_common.whole_number,
        metavar="N",
        help="most registers per thread (default: no limit)",
    )
    parser.add_argument(
        "--fail-on",
        choices=("error", "warning", "note", "never"),
        default="error",
        help="mildest finding that fails the check (default: error)",
    )
    _common.add_output(parser)
    _common.add_selection(parser)
    _common.add_strict(parser)


def run(arguments: argparse.Namespace) -> int:
    """0 clean, 1 findings; :class:`UndecidedError` where the input leaves open what the check must know."""
    from spillscan.pipeline import scan
    from spillscan.policy import Limits, at_least
    from spillscan.reports import Report, render
    from spillscan.rules import check

    render.check_forms(arguments.format, "check")
    everything = scan(_common.inputs_or_stdin(arguments.inputs))
    build = _common.select(everything, arguments.arch, arguments.kernel)
    limits = Limits(max_spill_bytes=arguments.max_spill_bytes, max_registers=arguments.max_registers)
    findings, undecided = check(build, limits)
    report = Report(
        kind="check",
        build=build,
        findings=tuple(findings),
        undecided=tuple(undecided),
        fail_on=arguments.fail_on,
    )
    render.write(report, arguments.format, _common.rows_of(arguments))
    _common.tell_issues(everything.issues)
    if arguments.strict:
        _common.refuse_issues(everything.issues)
    if arguments.fail_on == "never":
        return 0
    if any(at_least(finding.severity, arguments.fail_on) for finding in findings):
        return 1
    refuse_undecided(everything, undecided)
    return 0


def refuse_undecided(build: Build, undecided: list[tuple[Kernel, str]]) -> None:
    """A gate never passes on what it does not know."""
    if not build.kernels:
        raise UndecidedError(
            "the input names no kernel", "give the log of the compilation itself, not of the link alone"
        )
    if undecided:
        kernel, reason = undecided[0]
        count = f" ({len(undecided) - 1} more like it)" if len(undecided) > 1 else ""
        raise UndecidedError(f"cannot judge {kernel.short_name}: {reason}{count}")
    grave = [issue for issue in build.issues if issue.severity == "error"]
    if grave:
        place = f"{grave[0].origin}: " if grave[0].origin else ""
        raise UndecidedError(f"the build is not all there: {place}{grave[0].message}")
    if all(kernel.spills is None for kernel in build.kernels):
        raise UndecidedError("no kernel's spills are told", "give ptxas's own report too (nvcc -Xptxas -v)")
