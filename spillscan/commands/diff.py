"""Compare two builds: added, removed and changed kernels, and the findings with their severity.

--why ranks the causes of more registers or spills. --by arch prints tables with one column per arch instead, for one
or more builds.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from spillscan.commands import _answers, _baseline, _inputs, _issues, _options, _policy, _selection
from spillscan.commands._selection import Selection
from spillscan.judging.compare.matrix import matrix
from spillscan.judging.compare.missing_kernels import missing_kernels, nothing_in_common
from spillscan.judging.compare.pairing import Comparison, comparison
from spillscan.judging.policy.effective import Policy
from spillscan.judging.rules import check_changes, needed
from spillscan.judging.rules.code import OTHER
from spillscan.judging.verdict import Verdict, gaps_of, gaps_of_input, verdict
from spillscan.model import Build
from spillscan.model.findings import CodeChange
from spillscan.model.metrics import TABULAR
from spillscan.output.errors import UsageError
from spillscan.output.files import parse_forms
from spillscan.output.records import objects
from spillscan.output.terminal import Style
from spillscan.reports import matrix as matrix_report
from spillscan.reports import render
from spillscan.reports.report import Report, names_of

_OF_ONE_BUILD = ("no-kernel", "fewer-kernels", "not-comparable", "unknown-code")
"""Gaps that concern a single build, not the comparison."""
_GROUPINGS = tuple(each for each in _options.GROUPINGS if each != "arch")
"""Groupings other than by arch; archs are columns."""
_EQUAL = "both inputs are identical, byte for byte"

EPILOG = "Example: spillscan diff main.json build.log --fail-on error"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="BUILD",
        help="BASE HEAD: the older and the newer build; with --by arch, one or more builds",
    )
    parser.add_argument(
        "--fail-on",
        choices=(*_policy.FAIL_ON, "policy", "code"),
        help="lowest severity that fails (default: never); policy: `fail_on` in the policy; code: like policy, but any"
        " difference in machine code is an error",
    )
    _options.flag(parser, "--why", "rank the causes of more registers or spills, with evidence (-f text or json)")
    _options.add_with(
        parser,
        {
            "code": "compare machine code, data and attributes (binaries of sm_70 and later; JSON of scan --with code)",
            "code-text": "the same, with a diff of the instructions",
        },
    )
    parser.add_argument(
        "--by",
        choices=("arch", *_GROUPINGS),
        help="arch: one column per arch (-f text, json, csv); other values: group the changes; by default, long tables"
        " are grouped by family (kernels of one template)",
    )
    _options.add_sort(parser, TABULAR, "sort by growth of a metric (default: most severe finding first)")
    _options.add_metric(parser, TABULAR, "metric to show with --by arch (default: spill_bytes and registers)")
    _options.add_launches(parser)
    _options.add_devices(parser, "compare blocks per SM")
    _policy.add_severity(parser)
    _policy.add_file(parser)
    _baseline.add_gate(parser)


def run(arguments: argparse.Namespace) -> int:
    """Return 0, or 1 on a regression of at least ``--fail-on``; exit status 2 if the builds leave that open."""
    arguments.gated = arguments.fail_on is not None
    if arguments.fail_on == "code":
        arguments.severity = [*(arguments.severity or ()), f"{OTHER.id}=error"]
    if arguments.fail_on in ("policy", "code"):
        arguments.fail_on = None
    _check_call(arguments)
    if arguments.by == "arch":
        return _by_arch(arguments)
    if arguments.why:
        from spillscan.commands import _why

        return _why.run(arguments)
    forms = render.check_forms(arguments.format, "diff")
    arguments.devices = ",".join(arguments.device) or None
    gate = _baseline.gate(arguments, arguments.inputs[-1:])
    policy = gate.policy
    builds = [_inputs.scan(path) for path in arguments.inputs]
    builds[:-1] = map(_without_stale_units, builds[:-1])
    kept = Selection(arguments.arch, arguments.kernel, arguments.launch).of_all(builds)
    _selection.refuse_devices([kernel for build in kept for kernel in build.kernels], arguments.device)
    report, outcome = _report(kept, builds, arguments, policy, gate)
    if outcome.status and report.fail_on != "never" and _options.shows_next_steps(arguments):
        from spillscan.commands import _offers

        to_compare = () if "code-text" in arguments.also else arguments.inputs
        invocation = _offers.Invocation.by(arguments, arguments.inputs[-1:], to_compare)
        report = _offers.with_next_steps(report, invocation, policy)
    render.write(report, arguments.format, _options.rows_of(arguments), arguments.source_root)
    issues = (*report.build.issues[len(kept[-1].issues) :], *(issue for build in builds for issue in build.issues))
    if report.fail_on == "never":
        outcome = replace(outcome, fails=False)
    return _issues.conclude(outcome, issues, shown=render.shows_gaps(forms))


def _without_stale_units(build: Build) -> Build:
    """An older build without ``stale-unit`` issues: its sources are expected to have changed since."""
    return replace(build, issues=tuple(issue for issue in build.issues if issue.code != "stale-unit"))


def _check_call(arguments: argparse.Namespace) -> None:
    if arguments.by == "arch":
        without = {"--with": arguments.also, "--sort": arguments.sort, "--device": arguments.device}
        without |= {"--fail-on": arguments.gated, "--why": arguments.why}
        for option in (option for option, given in without.items() if given):
            raise UsageError(f"{option} does not apply to the table of --by arch", f"leave out {option} or --by arch")
    elif len(arguments.inputs) == 1:
        raise UsageError("a diff needs two builds", "pass BASE and HEAD, or --by arch")
    elif len(arguments.inputs) > 2:
        raise UsageError(
            f"a diff needs two builds, not {len(arguments.inputs)}",
            "pass BASE and HEAD, or use --by arch or `spillscan history` for more builds",
        )
    elif arguments.why and arguments.gated:
        raise UsageError("--fail-on does not apply to --why", "leave out one of them")
    elif arguments.metric:
        raise UsageError("--metric applies only to the table of --by arch", "add --by arch")


def _by_arch(arguments: argparse.Namespace) -> int:
    """Print a table of kernels by archs and builds; return 0."""
    forms = parse_forms(arguments.format, ("text", "json", "csv"))
    policy = _policy.policy_of(arguments)
    builds = [_inputs.scan(path) for path in arguments.inputs]
    kept = Selection(arguments.arch, arguments.kernel, arguments.launch).of_all(builds)
    metrics = list(dict.fromkeys(arguments.metric)) or ["spill_bytes", "registers"]
    table = matrix(kept, _labels(arguments.inputs), metrics, policy)
    names = names_of(builds)

    def text(style: Style) -> Iterator[str]:
        names.fit(style.width)
        return matrix_report.lines(table, names, style)

    _answers.answer(
        forms,
        text=text,
        json=lambda: {"builds": table.builds, "rows": [*objects(matrix_report.records(table))]},
        csv=lambda: matrix_report.records(table),
        rows=_options.rows_of(arguments),
    )
    _issues.report_issues([*dict.fromkeys(issue for build in builds for issue in build.issues)])
    return 0


def _report(
    kept: Sequence[Build],
    builds: Sequence[Build],
    arguments: argparse.Namespace,
    policy: Policy,
    gate: _baseline.Gate,
) -> tuple[Report, Verdict]:
    """Report on the ``kept`` kernels of the builds, and the verdict on the newest build."""
    gated, by_code = arguments.gated, bool({"code", "code-text"} & {*arguments.also})
    base, head = kept[0], kept[-1]
    # kernels with equal metrics may have unknown code
    every = by_code or any(OTHER.id in entry.settings for entry in policy.entries)
    compared = comparison(base, head, policy, policy.devices, all_pairs=every, stated=policy.renamed)
    code = None
    if every:
        compared, code = _with_code(compared, text="code-text" in arguments.also)
    judgement = check_changes((*compared.changes, *compared.recoded, *compared.unsettled, *compared.equal), policy)
    result = gate.apply(judgement.findings, head, builds[-1], of_changes=True)
    if not (arguments.arch or arguments.kernel):
        head = replace(head, issues=(*head.issues, *_policy.unused_renames(policy, compared.changes)))
    needs = needed((terms for terms, _ in policy.by_terms((*base.kernels, *head.kernels))), "change", policy.fail_on)
    gaps = [
        *gate.gaps(result),
        *gaps_of_input(builds[0], needs, strict=policy.strict),
        *(nothing_in_common(base, head) or missing_kernels(compared.changes, builds[0], builds[-1])),
        *gaps_of(builds[-1], judgement.undecided, needs, policy),
    ]
    if gated and gaps and not policy.strict and _same(Path(arguments.inputs[0]), Path(arguments.inputs[-1])):
        gaps = [gap if gap.code in _OF_ONE_BUILD else replace(gap, accepted=_EQUAL) for gap in gaps]
    outcome = verdict(result.open, gaps, policy)
    report = Report(
        kind="diff",
        read=tuple(builds),
        base=base,
        build=head,
        changes=compared.changes,
        unsettled=compared.unsettled,
        recoded=compared.recoded,
        code_changes=tuple(code) if by_code and code is not None else None,
        gaps=outcome.gaps,
        accepted=outcome.accepted,
        launches=policy,
        fail_on=policy.fail_on if gated else "never",
        by=arguments.by if arguments.by in _GROUPINGS else None,
        sort=arguments.sort,
    )
    return gate.report(report, result), outcome


def _with_code(compared: Comparison, *, text: bool) -> tuple[Comparison, list[CodeChange]]:
    """``compared`` with the verdict on the code of each pair, and the compared code."""
    from spillscan.judging.compare.code_changes import code_changes, marked  # these import NumPy
    from spillscan.reading.binary.fetch import texts_of

    pairs = (*compared.changes, *compared.recoded, *compared.unsettled, *compared.equal)
    texts = texts_of(side for each in pairs for side in (each.before, each.after) if side is not None)
    code = code_changes(pairs, texts, text=text)
    return marked(compared, code), code


def _same(one: Path, other: Path) -> bool:
    """Whether two paths have the same files, byte for byte; false if one cannot be read again."""
    from filecmp import cmp

    if one.is_dir() and other.is_dir():
        names = [{path.name for path in folder.iterdir()} for folder in (one, other)]
        return names[0] == names[1] and all(_same(one / name, other / name) for name in names[0])
    return one.is_file() and other.is_file() and cmp(one, other, shallow=False)


def _labels(paths: Sequence[str]) -> list[str]:
    """The shortest path suffixes that tell the paths apart."""
    parts = [path.rstrip("/").split("/") for path in paths]
    for length in range(1, max(map(len, parts))):
        short = ["/".join(part[-length:]) for part in parts]
        if len(set(short)) == len(set(paths)):
            return short
    return list(paths)
