"""Baseline of a command that checks: options, file, and messages about it."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from spillscan.commands import _options, _policy
from spillscan.output.errors import UsageError
from spillscan.output.files import read_text
from spillscan.output.nouns import count
from spillscan.output.safe import printable
from spillscan.output.terminal import complain

if TYPE_CHECKING:
    from spillscan.judging.baseline.file import Baseline
    from spillscan.judging.policy.effective import Policy
    from spillscan.judging.rules import Terms, Undecided
    from spillscan.judging.verdict import BaselineResult, Unmatched
    from spillscan.model import Build, Finding, Gap, Hidden, Issue
    from spillscan.reports.report import Report


DEFAULT_FILE = "spillscan-baseline.jsonl"
LONGEST_BYTES = 256 << 20
MOST_NAMED = 3


class Gate(NamedTuple):
    """Policy and baseline to check a build against."""

    path: str | None
    """Baseline file, as the user wrote it; ``None`` without one."""
    baseline: Baseline | None
    """The baseline; ``None`` without one."""
    policy: Policy
    """Policy whose rules report the findings."""
    own: Baseline | None = None
    """With ``--baseline-from``: the baseline in the work tree."""
    arguments: str = ""
    """Inputs and options for ``spillscan baseline`` to use the same build, file and limits, as shell words."""
    from_base: bool = False
    """Whether policy and baseline are those of the merge base, which this change cannot modify."""

    def _offer(self, action: str) -> str:
        """Command that updates the baseline file to this build."""
        return f"`{' '.join(filter(None, ('spillscan baseline', action, self.arguments)))}`"

    def apply(
        self,
        findings: Sequence[Finding],
        build: Build,
        whole: Build,
        *,
        undecided: Sequence[Undecided] = (),
        of_changes: bool = False,
    ) -> BaselineResult:
        """Apply the baseline to the findings of ``build``, or of its changes (``of_changes``).

        ``build`` is the selected part of ``whole``; ``undecided``: results that rules left open. A build is also
        compared with the recorded metrics.
        """
        from spillscan.judging.verdict import BaselineResult

        known = self.policy.accepted(findings)
        if self.baseline is None:
            return BaselineResult(findings=tuple(sorted(known, key=lambda finding: finding.accepted)))
        from spillscan.judging.baseline.comparing import compare

        return compare(
            known,
            build,
            self.baseline,
            self.policy,
            whole=whole,
            own=self.own,
            undecided=undecided,
            of_changes=of_changes,
        )

    def needs(self, terms: Sequence[Terms]) -> frozenset[Hidden]:
        """Metrics that the gate needs from kernels under ``terms``: those of the rules, and of the comparison with the
        baseline."""
        from spillscan.judging.rules import needed

        needs = needed(terms, "build", self.policy.fail_on)
        if self.baseline is None:
            return needs
        from spillscan.judging.baseline.comparing import RECORDED

        return needs | needed(terms, "change", self.policy.fail_on) & RECORDED

    def report(self, report: Report, result: BaselineResult) -> Report:
        """``report`` with the findings and the result of the baseline."""
        from msgspec import structs

        build = structs.replace(report.build, issues=(*report.build.issues, *self.issues(result, report.build)))
        baseline = None if self.baseline is None else result
        return structs.replace(report, build=build, findings=result.findings, baseline=baseline)

    def issues(self, result: BaselineResult, build: Build) -> list[Issue]:
        """Notes on the baseline file."""
        from spillscan.model import Issue, Origin

        if self.baseline is None:
            return []
        origin = Origin(input=self.path or "", format="baseline")
        notes = {**self._of_records(build), **self._of_kernels(result)}
        return [Issue(code=code, message=text, severity="note", origin=origin) for code, text in notes.items()]

    def _of_records(self, build: Build) -> dict[str, str]:
        """Notes on the whole file, by kind of issue."""
        notes = {}
        if self.baseline is not None and (others := others_than(self.baseline.header.toolkits, build.toolkits)):
            recorded = ", ".join(self.baseline.header.toolkits)
            notes["other-toolkit"] = (
                f"this build uses CUDA {', '.join(others)}, but {self.path} was recorded with CUDA {recorded}, "
                f"so metrics may differ; to record the new values: {self._offer('write')}"
            )
        return notes

    def _of_kernels(self, result: BaselineResult) -> dict[str, str]:
        """Notes on removed, renamed and unrecorded kernels that no gap reports, by kind of issue."""
        from spillscan.judging.baseline.file import identity_of

        pairs = [(each.before, each) for each in result.renamed if each.before is not None]
        reported = {each.identity for each in (*result.of("fewer"), *result.of("removed"))}
        reported |= {identity_of(each) for each, _ in pairs}
        gone = list({each.identity: each for each in result.of("stale") if each.identity not in reported}.values())
        write = f"to record them: {self._offer('write')}"
        prune = f"{self._offer('prune')} drops them"
        notes = {}
        if result.of("removed"):
            named = _named(result.of("removed"))
            notes["removed-kernels"] = f"removed from recompiled translation units: {named} of {self.path}; {prune}"
        if pairs:
            from spillscan.naming import Names
            from spillscan.reports.pairings import renaming

            names = Names(kernel.named_by for before, each in pairs for kernel in (before, each.kernel))
            renamings = list(dict.fromkeys(renaming(each, names) for _, each in pairs))
            notes["renamed-kernels"] = (
                f"renamed since {self.path} was written: {few(renamings)}; to record "
                f"the new names: {self._offer('write')}, then {self._offer('prune')}"
            )
        if gone:
            notes["stale-kernels"] = f"not in this build: {_named(gone)} of {self.path}; {prune}"
        if new := result.of("unknown"):
            notes["unrecorded-kernels"] = f"not in the baseline, so only limits apply: {_named(new)}; {write}"
        return notes

    def gaps(self, result: BaselineResult) -> list[Gap]:
        """Gaps between the baseline and a build that lacks some of its data."""
        from spillscan.model import Gap, at_least

        gaps: list[Gap] = []
        if (fail_on := self.policy.fail_on) == "never":
            return gaps
        if result.of("fewer"):
            message = f"{self.path} lists {_named(result.of('fewer'))} that the build does not have"
            gaps.append(Gap(code="fewer-kernels", message=message, hides=("kernels",)))
        missing = [
            each for each in result.of("unreported") if each.severity != "off" and at_least(each.severity, fail_on)
        ]
        if missing:
            rules = ", ".join(dict.fromkeys(each.rule for each in missing))
            message = f"{self.path} lists findings [{rules}] of {_named(missing)}; the build lacks metrics they need"
            gaps.append(Gap(code="not-comparable", message=message, hides=("spills", "registers")))
        return gaps


def add_gate(parser: argparse.ArgumentParser) -> None:
    """Add the options of all gates: reports, selection, what to accept, and --baseline with its options."""
    _options.add_output(parser, findings=True)
    _options.add_selection(parser)
    _policy.add_rename(parser)
    _options.add_strict(parser)
    _policy.add_accept(parser)
    group = parser.add_argument_group("baseline")
    group.add_argument("--baseline", metavar="FILE", help="fail only on findings that are new or worse than in FILE")
    group.add_argument(
        "--baseline-from",
        metavar="REF",
        help="take policy and baseline from the merge base of HEAD and REF, such as origin/main",
    )


def gate(arguments: argparse.Namespace, inputs: Sequence[str]) -> Gate:
    """Policy and baseline of the parsed arguments, for a build of ``inputs``."""
    if arguments.baseline_from is not None:
        return _gate_from(arguments, inputs)
    policy = _policy.policy_of(arguments)
    path, baseline = policy.values.baseline, None
    if path is None and os.path.lexists(DEFAULT_FILE):
        complain(f"{DEFAULT_FILE} exists; to use it, pass --baseline {DEFAULT_FILE}, or set `baseline:` in the policy")
    words = again(arguments, inputs)
    if path is not None:
        baseline = only(read(path, words), arguments.arch)
    return Gate(path=path, baseline=baseline, policy=policy, arguments=words)


def _gate_from(arguments: argparse.Namespace, inputs: Sequence[str]) -> Gate:
    """Gate with policy and baseline of the merge base, which a change cannot weaken."""
    from msgspec.structs import replace

    from spillscan.commands._merge_base import MergeBase
    from spillscan.judging.baseline.file import identity_of, parse

    base = MergeBase(arguments.baseline_from)
    policy = _policy.policy_of(arguments, base)
    has_policy = len(policy.layers) > 1
    path = policy.values.baseline
    if path is None and not has_policy:  # the change adds the policy: the baseline may be there already
        path = _policy.policy_of(_without_base(arguments)).values.baseline
    text = None if path is None else base.text(path, LONGEST_BYTES)
    if not has_policy and text is None:
        complain(f"the merge base with {base.revision} has neither policy nor baseline; using the files of this branch")
        return gate(_without_base(arguments), inputs)
    if path is not None and text is None:
        raise UsageError(
            f"--baseline-from: the merge base with {base.revision!r} ({base.commit[:12]}) has no {path}",
            "merge the baseline first, or use --baseline without --baseline-from",
        )
    baseline = own = None
    if path is not None and text is not None:
        baseline = only(parse(text, base.label(path)), arguments.arch)
        own = read(path) if os.path.isfile(path) else None
    if baseline is not None:
        known = baseline.entries.keys()
        policy = replace(policy, is_known=lambda kernel: identity_of(kernel) in known)
    words = again(arguments, inputs)
    return Gate(path=path, baseline=baseline, own=own, policy=policy, arguments=words, from_base=True)


def _without_base(arguments: argparse.Namespace) -> argparse.Namespace:
    return argparse.Namespace(**{**vars(arguments), "baseline_from": None})


def again(arguments: argparse.Namespace, inputs: Sequence[str]) -> str:
    """Inputs and options for ``baseline write`` to use the same build, file and limits.

    Standard input is left out.
    """
    words = [each for each in inputs if each != "-"]
    for name in ("arch", "launch", "severity", "set", "accept"):
        given = getattr(arguments, "settings" if name == "set" else name, None) or ()
        words += [word for each in given for word in (f"--{name}", each)]
    for option, value in (("-o", arguments.baseline), ("--config", arguments.config)):
        words += [option, value] if value is not None and (option, value) != ("-o", "none") else []
    return shlex.join(words)


def read(path: str, arguments: str = "BUILD") -> Baseline:
    """Read the baseline file ``path``. ``arguments``: those of the command that would create it, for the message."""
    from spillscan.judging.baseline.file import parse

    if not os.path.lexists(path):
        command = f"spillscan baseline write {arguments}".rstrip()
        raise UsageError(f"no such file: {path}", f"create it: `{command}`")
    return parse(read_text(path, LONGEST_BYTES, "a baseline"), path)


def only(baseline: Baseline, archs: Sequence[str]) -> Baseline:
    """``baseline`` limited to ``archs`` and unknown ones; unchanged if there are none."""
    if not archs:
        return baseline
    from msgspec.structs import replace

    kept = (None, *archs)
    return replace(baseline, entries={key: entry for key, entry in baseline.entries.items() if key.arch in kept})


def _named(kernels: Sequence[Unmatched]) -> str:
    """Number and first names of kernels: ``3 kernels (gemm<8> (sm_80), …)``."""
    names = list(dict.fromkeys(f"{each.name} ({each.identity.arch or 'arch unknown'})" for each in kernels))
    return printable(f"{count(len({each.identity for each in kernels}), 'kernel')} ({few(names)})")


def others_than(recorded: Sequence[str], releases: Sequence[str]) -> list[str]:
    """The ``releases`` that match none of the ``recorded`` ones; empty if nothing is recorded.

    Either may be a prefix of the other: ``12.6`` matches ``12.6.85``.
    """
    known = [f"{each}." for each in recorded]
    prefixes = {each: f"{each}." for each in releases if known}
    return [each for each, it in prefixes.items() if not any(it.startswith(old) or old.startswith(it) for old in known)]


def few(names: Sequence[str]) -> str:
    """The first names, and an ellipsis if there are more."""
    return ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")
