"""Record the findings of a build, so that `check --baseline` fails only on new or worse ones."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Iterator

from spillscan.commands import _baseline, _inputs, _issues, _options, _policy
from spillscan.commands._selection import Selection
from spillscan.judging.baseline.comparing import compare
from spillscan.judging.baseline.file import Baseline, text_of
from spillscan.judging.baseline.recording import Recording, record
from spillscan.judging.baseline.recording import prune as pruned
from spillscan.judging.policy.effective import Policy
from spillscan.judging.rules import check, needed
from spillscan.judging.verdict import gaps_of, verdict
from spillscan.model import Build, Gap
from spillscan.output.files import Target
from spillscan.output.nouns import count, listed
from spillscan.output.terminal import complain, say
from spillscan.reports.words import UNCOUNTED

EPILOG = "Example: spillscan baseline write build.log; spillscan check build.log --baseline spillscan-baseline.jsonl"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    for name, work, text in (
        ("write", write, "record the kernels and findings of a build"),
        ("prune", prune, "drop removed kernels and fixed findings, and record improvements"),
    ):
        action = actions.add_parser(name, help=text, description=work.__doc__)
        _options.add_inputs(action)
        action.add_argument(
            "-o",
            "--output",
            dest="baseline",
            metavar="FILE",
            help=f"baseline file (default: the one set in the policy, else {_baseline.DEFAULT_FILE})",
        )
        _options.add_arch(action)
        _policy.add_severity(action)
        _options.add_launches(action)
        _policy.add_file(action)
        _options.add_strict(action)
        _policy.add_accept(action)
        action.set_defaults(work=work)


def run(arguments: argparse.Namespace) -> int:
    """Return 0; exit status 2 on a wrong input or file, with the file unchanged."""
    status: int = arguments.work(arguments)
    return status


def write(arguments: argparse.Namespace) -> int:
    """Record the kernels and findings of a build. If the baseline file exists, its entries for kernels that the build
    lacks are kept."""
    policy, path = _policy_and_path(arguments)
    old = _baseline.read(path) if os.path.exists(path) else None
    read = _inputs.scan(_inputs.inputs_or_stdin(arguments.inputs))
    build = _whole(read, arguments, policy, _not_final(read))
    judgement = check(build, policy)
    findings = policy.accepted(judgement.findings)
    made = record(build, findings, [each.kernel for each in judgement.undecided], old or Baseline(), policy)
    _save(made.baseline, path)
    counts = compare(findings, build, old, policy, of_changes=True).counts() if old else {}
    before = ", ".join(f"{number:,} {state}" for state, number in counts.items() if number and state != "suppressed")
    say([f"{path}: {_summary(made.baseline)}" + (f" (compared with the previous file: {before})" if before else "")])
    say(_left_out(made))
    if not read.units:
        complain(UNCOUNTED)
    return 0


def prune(arguments: argparse.Namespace) -> int:
    """Drop fixed findings and removed kernels from the baseline, and update the entries of improved kernels. No
    entry is added, and no recorded value is raised. Pass the whole build: anything missing from it is dropped."""
    policy, path = _policy_and_path(arguments)
    old = _baseline.read(path)
    read = _inputs.scan(_inputs.inputs_or_stdin(arguments.inputs))
    build = _whole(read, arguments, policy)
    findings = check(build, policy).findings
    new = pruned(build, policy.accepted(findings), old, policy, arguments.arch)
    _save(new, path)
    gone = len(old.entries) - len(new.entries)
    changed = sum(old.entries[identity] != entry for identity, entry in new.entries.items())
    say([f"{path}: {count(gone, 'entry', 'entries')} dropped, {changed:,} updated; {_summary(new)}"])
    return 0


def _policy_and_path(arguments: argparse.Namespace) -> tuple[Policy, str]:
    policy = _policy.policy_of(arguments)
    return policy, policy.values.baseline or _baseline.DEFAULT_FILE


def _whole(everything: Build, arguments: argparse.Namespace, policy: Policy, more: Iterable[Gap] = ()) -> Build:
    """The selected part of a build; raises if the build is incomplete. ``more``: further gaps."""
    needs = needed((terms for terms, _ in policy.by_terms(everything.kernels)), "build", policy.fail_on)
    gaps = [*gaps_of(everything, (), needs, policy), *more]
    _issues.conclude(verdict((), gaps, policy), everything.issues)
    return Selection(arguments.arch, (), arguments.launch).of(everything.named)


def _not_final(build: Build) -> Iterator[Gap]:
    """Gap for kernels without final registers, since the build lacks the device link: growth would go unnoticed."""
    waiting = [each for each in build.kernels if each.final is False and each.role == "entry"]
    if waiting:
        named = listed([each.short_name for each in waiting[:_NAMED]], len(waiting) - _NAMED)
        message = (
            f"relocatable code: registers of {count(len(waiting), 'kernel')} are not final before the link: {named}"
        )
        names = tuple(each.key.symbol for each in waiting)
        yield Gap(code="registers-not-final", message=message, hides=("registers",), names=names)


_NAMED = 3


def _save(baseline: Baseline, path: str) -> None:
    Target(path).write(text_of(baseline))


def _summary(baseline: Baseline) -> str:
    known = sum(not identity.function for identity in baseline.entries)
    recorded = sum(len(entry.rules) for entry in baseline.entries.values())
    return f"{count(known, 'distinct kernel')}, {count(recorded, 'finding')} recorded"


def _left_out(made: Recording) -> Iterator[str]:
    if made.kept:
        kept = count(len(made.kept), "entry", "entries")
        yield f"kept: {kept} of kernels that this build does not have (`baseline prune` drops them)"
    if made.undecided:
        names = _baseline.few([kernel.short_name for kernel in made.undecided])
        yield f"not recorded, as a metric is unknown: {count(len(made.undecided), 'kernel')} ({names})"
    if made.unmeasured:
        rules = ", ".join(sorted({finding.rule for finding in made.unmeasured}))
        unmeasured = count(len(made.unmeasured), "finding has", "findings have")
        yield f"{unmeasured} no value and cannot be recorded: {rules}; write an `accept` entry in the policy"
