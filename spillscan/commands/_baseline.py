"""What commands that judge share of the baseline: its options, its file, the day, and what they say of it."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, NamedTuple

from spillscan.commands import _options, _policy
from spillscan.output.errors import UsageError
from spillscan.output.nouns import count
from spillscan.output.safe import printable
from spillscan.output.terminal import complain

if TYPE_CHECKING:
    from spillscan.judging.baseline.model import Accepted, Baseline, BaselineResult, Suppression
    from spillscan.judging.policy import Policy
    from spillscan.judging.rules import Terms, Undecided
    from spillscan.model import Build, Finding, Gap, Hidden, Issue
    from spillscan.reports.report import Report


DEFAULT_FILE = "spillscan-baseline.yaml"
LONGEST_BYTES = 256 << 20
MOST_NAMED = 3


class Gate(NamedTuple):
    """What a build is held against besides its limits."""

    path: str | None
    """The baseline file, as the user gave it; ``None`` without one."""
    baseline: Baseline | None
    """What excuses findings."""
    policy: Policy
    """What makes the findings."""
    today: date
    """The day on which suppressions hold or not."""
    own: Baseline | None = None
    """With ``--baseline-from``: the baseline of the change itself."""
    arguments: str = ""
    """What ``baseline`` is to be given for the same build and file, as words of a shell."""

    def _offer(self, action: str) -> str:
        """The command that brings the file up to this build."""
        return f"`{' '.join(filter(None, ('spillscan baseline', action, self.arguments)))}`"

    def judge(
        self,
        findings: Sequence[Finding],
        build: Build,
        whole: Build,
        *,
        undecided: Sequence[Undecided] = (),
        of_changes: bool = False,
    ) -> BaselineResult:
        """The result on the findings of ``build`` (or of its changes), the selected part of ``whole``, and what rules
        left ``undecided``. A build is held against the recorded figures, too."""
        from msgspec.structs import replace

        from spillscan.judging.baseline.model import BaselineResult

        if self.baseline is None:
            return BaselineResult(findings=tuple(findings))
        from spillscan.judging.baseline.judging import apply
        from spillscan.judging.baseline.recording import Since, since
        from spillscan.judging.rules.blocks import TRADED

        became = Since() if of_changes else since(build, whole, self.baseline, self.policy, findings, undecided)
        traded = {id(each.kernel) for each in became.worse if each.rule == TRADED.id}
        result = apply(
            (*(each for each in findings if not self._is_traded(each, traded)), *became.worse),
            build,
            self.baseline,
            self.policy,
            self.today,
            whole=whole,
            own=self.own,
            of_changes=of_changes,
            renamed=became.renamed,
        )
        mine = self.own.entries if self.own is not None else {}
        return replace(
            result,
            undecided=became.undecided,
            unknown=tuple(each for each in became.unknown if each.identity not in mine),
            unrecorded=became.unrecorded,
            unheld=became.unheld,
        )

    def _is_traded(self, finding: Finding, traded: set[int]) -> bool:
        """Whether the finding is one side of a trade-off, and no limit that the policy sets."""
        limited = "max_spill_bytes" in self.policy.said_of(finding.kernel).settings
        return finding.rule == "spill" and id(finding.kernel) in traded and not limited

    def needs(self, terms: Sequence[Terms]) -> frozenset[Hidden]:
        """What the gate must know of kernels under these terms: what rules of builds need, and those by which the
        build is held against recorded figures."""
        from spillscan.judging.rules import judged

        needs = judged(terms, "build", self.policy.fail_on)
        if self.baseline is None or not any(entry.figures for entry in self.baseline.entries.values()):
            return needs
        from spillscan.judging.baseline.recording import JUDGED

        return needs | judged(terms, "change", self.policy.fail_on) & JUDGED

    def report(self, report: Report, result: BaselineResult) -> Report:
        """``report`` with the findings and what the baseline makes of them."""
        from msgspec import structs

        build = structs.replace(report.build, issues=(*report.build.issues, *self.issues(result, report.build)))
        return structs.replace(
            report, build=build, findings=result.findings, baseline=None if self.baseline is None else result
        )

    def issues(self, result: BaselineResult, build: Build) -> list[Issue]:
        """What there is to say of suppressions, with their lines, and of the file."""
        from spillscan.model import Issue, Origin

        def place(each: Suppression) -> Origin:
            return Origin(input=self.path or "", line=each.line, format="baseline")

        expired = [
            Issue(
                code="expired-suppression",
                message=f"the suppression of {each.rule} for {each.kernel} held until {each.until} ({each.reason}): "
                "fix the kernel or renew it",
                severity="error",
                origin=place(each),
            )
            for each in result.expired
        ]
        idle = [
            Issue(
                code="idle-suppression",
                message=f"the suppression of {each.rule} for {each.kernel} excuses nothing",
                severity="note",
                origin=place(each),
            )
            for each in result.idle
        ]
        origin = Origin(input=self.path or "", format="baseline")
        said = {**self._of_records(result, build), **self._of_kernels(result)}
        notes = [Issue(code=code, message=text, severity="note", origin=origin) for code, text in said.items()]
        return expired + idle + notes

    def _of_records(self, result: BaselineResult, build: Build) -> dict[str, str]:
        """What there is to say of the whole file, by kind of issue."""
        said = {}
        if result.unrecorded:
            said["unrecorded-figures"] = (
                f"an older release recorded no figures of {count(result.unrecorded, 'kernel')} ({self._version()}): "
                f"lost blocks and more registers are not seen; {self._offer('write')} brings it up, once accepted"
            )
        if self.baseline is not None and (others := others_than(self.baseline.toolkits, build.toolkits)):
            recorded = ", ".join(self.baseline.toolkits)
            said["other-toolkit"] = (
                f"CUDA {', '.join(others)} compiled this build, and {recorded} what {self.path} records: "
                f"figures may differ for that alone; {self._offer('write')} records it, once accepted"
            )
        return said

    def _of_kernels(self, result: BaselineResult) -> dict[str, str]:
        """Recorded kernels that are not there, and others that are, as far as no gap says so, by kind of issue."""
        from spillscan.judging.baseline.model import identity_of
        from spillscan.naming import Names
        from spillscan.reports.pairings import renaming

        pairs = [(each.before, each) for each in result.renamed if each.before is not None]
        names = Names(kernel.named_by for before, each in pairs for kernel in (before, each.kernel))
        renamings = list(dict.fromkeys(renaming(each, names) for _, each in pairs))
        reported = {each.identity for each in (*result.fewer, *result.removed)}
        reported |= {identity_of(each) for each, _ in pairs}
        gone = list({each.identity: each for each in result.stale if each.identity not in reported}.values())
        write = f"{self._offer('write')} records them, once accepted"
        prune = f"{self._offer('prune')} drops what is gone"
        said = {}
        if result.removed:
            named = _named(result.removed)
            said["removed-kernels"] = f"gone from units that were compiled again: {named} of {self.path}; {prune}"
        if pairs:
            said["renamed-kernels"] = (
                f"renamed since {self.path} was written: {_few(renamings)}; {write}, "
                f"{self._offer('prune')} drops the old"
            )
        if gone:
            said["stale-kernels"] = f"replaced by other kernels: {_named(gone)} of {self.path}; {prune}"
        if result.unknown:
            said["unrecorded-kernels"] = (
                f"not recorded: {_named(result.unknown)}; what gets worse of them is not seen; {write}"
            )
        return said

    def _version(self) -> str:
        """What the baseline says that it records."""
        from spillscan.judging.baseline.file import RECORDS

        records = self.baseline.records if self.baseline is not None else 0
        return f"its records: {f'version {records}' if records else 'no version'}, now version {RECORDS}"

    def gaps(self, result: BaselineResult) -> list[Gap]:
        """What a build lacks of what the baseline knows."""
        from spillscan.model import Gap, at_least

        found: list[Gap] = []
        if (fail_on := self.policy.fail_on) == "never":
            return found
        if result.unheld:
            message = (
                f"{self.path} records no registers of {count(result.unheld, 'kernel')} by whose growth the gate is to"
                f" judge; {self._offer('write')} on the accepted build brings it up"
            )
            found.append(Gap(code="not-comparable", message=message, hides=("registers",)))
        if result.fewer:
            message = f"{self.path} knows {_named(result.fewer)} that the build does not have"
            found.append(Gap(code="fewer-kernels", message=message, hides=("kernels",)))
        missing = [each for each in result.unreported if each.severity != "off" and at_least(each.severity, fail_on)]
        if missing:
            message = f"{self.path} records {missing[0].rule} of {_named(missing)}, which this input does not report"
            found.append(Gap(code="not-comparable", message=message, hides=("spills", "registers")))
        return found


def add_gate(parser: argparse.ArgumentParser) -> None:
    """What every gate takes: how it reports, what is judged, what may be unknown; --baseline and what belongs to it."""
    _options.add_output(parser)
    _options.add_brief(parser)
    _options.add_selection(parser)
    _options.add_strict(parser)
    _policy.add_accept(parser)
    group = parser.add_argument_group("baseline")
    group.add_argument("--baseline", metavar="FILE", help="fail only on what is new or worse than FILE records")
    group.add_argument(
        "--baseline-from",
        metavar="REF",
        help="take FILE as it was where this branch left REF (origin/main), so that a change cannot excuse itself",
    )
    add_today(group)


def add_today(parser: argparse._ActionsContainer) -> None:
    """--today, for tests and for checking an old commit; not in the help."""
    parser.add_argument("--today", type=_day, metavar="DATE", help=argparse.SUPPRESS)


def gate(arguments: argparse.Namespace, policy: Policy, inputs: Sequence[str]) -> Gate:
    """What the arguments and the policy ask for, of the build of these ``inputs``; the baseline is read, and refused
    where it is broken."""
    path = policy.baseline
    if arguments.baseline_from is not None and path is None:
        raise UsageError("--baseline-from without --baseline", f"say which file: --baseline {DEFAULT_FILE}")
    baseline = own = None
    if path is None and os.path.exists(DEFAULT_FILE):
        complain(f"{DEFAULT_FILE} is not read: give --baseline {DEFAULT_FILE}, or name it in the policy (`baseline:`)")
    again = _again(arguments, inputs) if path is not None else ""
    if path is not None:
        if arguments.baseline_from is not None:
            own = read(path) if os.path.exists(path) else None
            baseline = read_merge_base(path, arguments.baseline_from)
        else:
            baseline = read(path, again)
        baseline = only(baseline, arguments.arch)
    return Gate(path=path, baseline=baseline, own=own, policy=policy, today=today(arguments), arguments=again)


def _again(arguments: argparse.Namespace, inputs: Sequence[str]) -> str:
    """What names the same build, file and policy to ``baseline``; a build from standard input has no name."""
    import shlex

    words = [each for each in inputs if each != "-"]
    words += [word for arch in arguments.arch for word in ("--arch", arch)]
    for option, value in (("-o", arguments.baseline), ("--config", arguments.config)):
        words += [option, value] if value is not None else []
    return shlex.join(words)


def today(arguments: argparse.Namespace) -> date:
    """``--today``, else the day of ``SOURCE_DATE_EPOCH``, else this day; in UTC, so that it is the same everywhere."""
    if arguments.today is not None:
        return arguments.today  # type: ignore[no-any-return]
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not epoch:
        return datetime.now(UTC).date()
    try:
        return datetime.fromtimestamp(int(epoch), UTC).date()
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"SOURCE_DATE_EPOCH is {epoch!r}", "it must be seconds since 1970") from error


def read(path: str, arguments: str = "BUILD") -> Baseline:
    """The baseline in the file ``path``; ``arguments``: those of the command that makes it."""
    from spillscan.judging.baseline.file import parse

    try:
        with open(path, "rb") as file:
            content = file.read(LONGEST_BYTES + 1)
    except OSError as error:
        hint = (
            f"`{f'spillscan baseline write {arguments}'.rstrip()}` makes one"
            if isinstance(error, FileNotFoundError)
            else ""
        )
        raise UsageError(f"cannot read {path}: {error.strerror}", hint) from error
    if len(content) > LONGEST_BYTES:
        raise UsageError(
            f"{path} is not a baseline: it is larger than {LONGEST_BYTES >> 20} MiB",
            "name the file that `spillscan baseline write` made",
        )
    return parse(decoded(content, path), path)


def read_merge_base(path: str, ref: str) -> Baseline:
    """The baseline as it was at the merge base of HEAD and ``ref``."""
    from spillscan.judging.baseline.file import parse

    commit, text = at_merge_base(path, ref)
    return parse(text, f"{path} at {commit[:12]}")


def only(baseline: Baseline, archs: Sequence[str]) -> Baseline:
    """What ``baseline`` has of the archs that the user asked for."""
    if not archs:
        return baseline
    from msgspec.structs import replace

    return replace(baseline, entries={key: entry for key, entry in baseline.entries.items() if key.arch in archs})


def _named(kernels: Sequence[Accepted]) -> str:
    """``3 kernels (gemm<8> (sm_80), …)``."""
    names = list(dict.fromkeys(f"{each.name} ({each.identity.arch or 'arch unknown'})" for each in kernels))
    return printable(f"{count(len(kernels), 'kernel')} ({_few(names)})")


def others_than(recorded: Sequence[str], releases: Sequence[str]) -> list[str]:
    """Those of these ``releases`` that are none of the ``recorded`` ones, where any are. One may be identified by its
    beginning: ``12.6`` of ``12.6.85``."""
    known = [f"{each}." for each in recorded]
    found = {each: f"{each}." for each in releases if known}
    return [each for each, it in found.items() if not any(it.startswith(old) or old.startswith(it) for old in known)]


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} must be a day such as 2030-01-31") from None


def at_merge_base(path: str, ref: str) -> tuple[str, str]:
    """(commit, text) of the file ``path`` at the merge base of HEAD and ``ref``."""
    from spillscan.output.git import git

    folder, name = os.path.split(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise UsageError(f"cannot read {path}: its folder does not exist", "name a file in the repository")
    if ref.startswith("-") or not ref:
        raise UsageError(f"{ref!r} is not a git ref", "give a branch, tag or commit: origin/main")

    def asked(*words: str) -> bytes | None:
        """What git printed; ``None`` where it says no."""
        done = git(folder, *words, option="--baseline-from")
        return None if done.returncode else done.stdout

    if asked("rev-parse", "--git-dir") is None:
        raise UsageError(f"--baseline-from: {folder} is in no git repository", "give --baseline alone")
    if asked("rev-parse", "--verify", "--quiet", "HEAD^{commit}") is None:
        raise UsageError("--baseline-from: HEAD has no commit yet", "give --baseline alone")
    deeper = "fetch more of the history first (actions/checkout: fetch-depth: 0)"
    if asked("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}") is None:
        raise UsageError(f"--baseline-from: git knows no {ref!r} here", f"git fetch it, or {deeper}")
    base = asked("merge-base", "HEAD", ref)
    if base is None:
        shallow = asked("rev-parse", "--is-shallow-repository") == b"true\n"
        hint = f"this clone is shallow: {deeper}" if shallow else "they have no common history"
        raise UsageError(f"--baseline-from: HEAD and {ref!r} have no merge base", hint)
    commit = base.decode().split()[0]
    content = asked("show", f"{commit}:./{name}")
    if content is None:
        raise UsageError(
            f"--baseline-from: the merge base with {ref!r} ({commit[:12]}) has no {path}",
            "bring the baseline in with a change of its own, checked with --baseline alone",
        )
    return commit, decoded(content, f"{path} at {commit[:12]}")


def decoded(content: bytes, label: str) -> str:
    """``content`` as text, without a byte order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{label}:{line}: not UTF-8", "save it as UTF-8") from error
