"""Print a table of the kernels in build logs or binaries: registers, spills, stack, shared memory and occupancy."""

from __future__ import annotations

import argparse

from msgspec.structs import replace

from spillscan.commands import _footer, _inputs, _issues, _options, _policy
from spillscan.commands._selection import Selection
from spillscan.model import Build
from spillscan.model.metrics import OWN
from spillscan.reports import render
from spillscan.reports.report import Report

EPILOG = "Example: nvcc -Xptxas -v -c gemm.cu 2>&1 | spillscan scan -"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _options.add_inputs(parser)
    _options.add_output(parser)
    _options.add_selection(parser)
    _options.add_launches(parser)
    _policy.add_file(parser)
    _options.add_with(
        parser,
        {
            "live": "add the peak number of live registers (binaries of sm_75 and later; takes longer)",
            "code": "also write the machine code of binaries (-f json), for a later `diff --with code`",
        },
    )
    parser.add_argument(
        "--by",
        choices=_options.GROUPINGS,
        help="group the kernels; by default, long tables are grouped by family (kernels of one template)",
    )
    about = "sort by a metric, largest first (default: worst kernel first); see `spillscan explain metrics`"
    _options.add_sort(parser, OWN, about)
    parser.add_argument(
        "--assemble",
        nargs="?",
        const="",
        metavar="ARCH,…",
        help="also compile PTX with ptxas, for these archs (default: the arch of the PTX)",
    )
    _options.add_strict(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the kernels; return 0, exit status 2 if nothing was understood."""
    render.check_forms(arguments.format, "scan")
    policy = _policy.policy_of(arguments)
    arches: list[str] | None = []
    if arguments.assemble is not None:
        from spillscan.advice.sweep.assembly import arches_of, assembled

        arches = arches_of(arguments.assemble)
        if arches is None:  # an input after the option
            arguments.inputs.insert(0, arguments.assemble)
    inputs = _inputs.inputs_or_stdin(arguments.inputs)
    build = _inputs.scan(inputs, live="live" in arguments.also)
    if "code" in arguments.also:
        build = _with_code(build)
    if arguments.assemble is not None:
        build = assembled(build, inputs, arches or ())
    kept = Selection(arguments.arch, arguments.kernel, arguments.launch).marked(build)
    by, sort = arguments.by, arguments.sort
    report = Report(kind="scan", build=kept, read=(build,), launches=policy, by=by, sort=sort)
    report = report.extended(not_checked=tuple(_footer.unknown_values(kept)))
    render.write(report, arguments.format, _options.rows_of(arguments), arguments.source_root)
    _issues.report_issues(build.issues)
    if policy.strict:
        _issues.refuse_issues(build.issues)
    return 0


def _with_code(build: Build) -> Build:
    """The build with machine code for kernels from binaries."""
    from spillscan.reading.binary.fetch import texts_of

    texts = texts_of(build.kernels)
    return replace(
        build,
        kernels=tuple(
            replace(each, sass=replace(each.sass, text=texts[id(each)])) if each.sass and id(each) in texts else each
            for each in build.kernels
        ),
    )
