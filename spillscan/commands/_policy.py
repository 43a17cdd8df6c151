"""Policy of a command: its options, its file, and with --baseline-from the file at the merge base."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from spillscan.commands import _options
from spillscan.output.errors import UsageError
from spillscan.output.nouns import count

if TYPE_CHECKING:
    from spillscan.commands._merge_base import MergeBase
    from spillscan.judging.policy.effective import Layer, Policy
    from spillscan.model import Build, Change, Finding, Gap, Issue, Scope
    from spillscan.model.usage import Severity

NO_FILE = "none"
"""Value of --config that disables the file."""
FAIL_ON = ("error", "warning", "note", "never")
_OF_OPTIONS = ("fail_on", "baseline", "devices")
"""Keys with options of their own."""


def add_file(parser: argparse.ArgumentParser, such: str = "max_registers=128 or max_spill_bytes=none") -> None:
    """Add --config and --set; ``such``: an example of a key that the command uses."""
    parser.add_argument("--config", metavar="FILE", help="policy file, or `none` (default: the nearest spillscan.yaml)")
    _options.add_set(parser, f"override a policy key, such as {such}; `spillscan config` lists all keys")


def add_severity(parser: argparse.ArgumentParser) -> None:
    """Add --severity."""
    about = "set the severity of RULE: error, warning, note or off; repeatable"
    parser.add_argument("--severity", action="append", metavar="RULE=LEVEL", help=about)


def add_accept(parser: argparse.ArgumentParser, what: str = "findings or gaps") -> None:
    """Add --accept."""
    about = f"accept {what} marked [CODE]; with GLOB, only for matching kernels or inputs; repeatable"
    parser.add_argument("--accept", action="append", metavar="CODE[=GLOB]", help=about)


def add_rename(parser: argparse.ArgumentParser) -> None:
    """Add --rename."""
    parser.add_argument(
        "--rename",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="pair renamed kernels: two globs with the same number of stars, such as 'flash::*=fa3::*'; repeatable",
    )


def add_fail_on(parser: argparse.ArgumentParser) -> None:
    """Add --fail-on."""
    about = "lowest severity that fails (default: `fail_on` in the policy, else error)"
    parser.add_argument("--fail-on", choices=FAIL_ON, help=about)


def policy_of(arguments: argparse.Namespace, base: MergeBase | None = None, *, of_files: bool = False) -> Policy:
    """Policy in force: defaults, overridden by the file, overridden by options.

    With ``base``, the file is that of the merge base, and the work tree's file counts only for launches and renames.
    ``of_files``: for `size`, which checks files instead of kernels.
    """
    from spillscan.judging.policy.file import KEYS, LIMITS
    from spillscan.judging.policy.reading import from_options, load

    texts = _options.keyed(getattr(arguments, "settings", ()), KEYS)
    for name in texts:
        if (name == "max_file_bytes") != of_files and name in ("max_file_bytes", *LIMITS):
            raise UsageError(
                f"--set {name} does not apply here",
                "use max_file_bytes with `size`, other limits with `check` or `diff`",
            )
    given = {name: getattr(arguments, name, None) for name in _OF_OPTIONS}
    texts |= {name: str(value) for name, value in given.items() if value is not None}
    options = from_options(
        texts,
        getattr(arguments, "severity", None) or (),
        getattr(arguments, "launch", None) or (),
        getattr(arguments, "accept", None) or (),
        getattr(arguments, "rename", None) or (),
        strict=bool(getattr(arguments, "strict", False)),
    )
    config = None if arguments.config == NO_FILE else arguments.config
    if base is not None:
        return _at_merge_base(base, options, config, search=arguments.config is None, today=today())
    return load(options, config=config, search=arguments.config is None, today=today())


def _at_merge_base(base: MergeBase, options: Layer, config: str | None, *, search: bool, today: date) -> Policy:
    """Policy whose file is that of the merge base; the change's own file counts for renames and new kernels."""
    from msgspec.structs import replace

    from spillscan.judging.policy.effective import Layer, Policy
    from spillscan.judging.policy.reading import LARGEST_BYTES, NAME, find, layer, read
    from spillscan.model.nodes import parse_yaml

    path = config or (base.find(NAME) if search else None)
    text = None if path is None else base.text(path, LARGEST_BYTES)
    former = [] if text is None or path is None else [layer(parse_yaml(text, base.label(path)), os.path.dirname(path))]
    path = config or (find() if search else None)
    own = read(path) if path and os.path.lexists(path) else Layer()
    launching = tuple(replace(each, settings={"launch": each.launch}) for each in own.entries if each.launch)
    options = replace(options, renamed=(*own.renamed, *options.renamed))
    of_new = Policy((*former, Layer(entries=launching), options), day=today) if launching else None
    return Policy((*former, options), day=today, of_new=of_new)


def today() -> date:
    """Date of ``SOURCE_DATE_EPOCH``, else today; in UTC, so that it is the same everywhere."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not epoch:
        return datetime.now(UTC).date()
    try:
        return datetime.fromtimestamp(int(epoch), UTC).date()
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(f"SOURCE_DATE_EPOCH is {epoch!r}", "set it to seconds since 1970") from error


_SOON_DAYS = 7
"""Days before its end at which an entry of ``accept`` becomes a note."""


def with_rot(build: Build, policy: Policy) -> Build:
    """``build`` with an issue for each outdated part of the policy.

    Patterns that match no kernel, launches that the code contradicts, entries of ``accept`` that have expired or soon
    will.
    """
    from msgspec.structs import replace

    from spillscan.occupancy.launches import overruling

    notes: list[Issue] = []

    def placed(origin: str, code: str, severity: Severity, message: str) -> None:
        notes.append(_placed(origin, code, severity, message))

    for entry, pattern in policy.unused(build.kernels):
        where = f" of {' or '.join(entry.arch)}" if entry.arch else ""
        where += f" in {' or '.join(entry.unit)}" if entry.unit else ""
        placed(entry.origin, "policy-names-nothing", "note", f"{pattern!r}{where} matches no kernel of this build")
    for entry, kernels in policy.overruled(build.kernels):
        launch = entry.launch
        assert launch is not None
        sizes = {code.threads_per_block for each in kernels if (code := overruling(each, launch.value))}
        message = (
            f"{' or '.join(map(repr, entry.match))} sets {launch.value.threads_per_block:,} threads per block,"
            f" but the code of {count(len(kernels), 'kernel')} declares {' or '.join(map(str, sorted(sizes)))}"
        )
        placed(launch.origin, "launch-overruled", "warning", message)
    for accepted in policy.accept:
        what = f"the `accept` entry for {accepted.rule or accepted.gap} with kernel {accepted.kernel!r}"
        if not accepted.is_valid(policy.today):
            message = f"{what} expired on {accepted.until} ({accepted.reason}); renew or delete it"
            placed(accepted.origin, "accept-expired", "warning", message)
        elif accepted.until is not None and (accepted.until - policy.today).days <= _SOON_DAYS:
            placed(accepted.origin, "accept-expires", "note", f"{what} expires on {accepted.until}")
    return replace(build, issues=(*build.issues, *notes)) if notes else build


def unused_accepts(
    policy: Policy, findings: Sequence[Finding], gaps: Sequence[Gap], checked: Sequence[Scope]
) -> list[Issue]:
    """Notes on the entries of ``accept`` that cover none of the ``findings`` and ``gaps``.

    Entries for rules that check nothing in ``checked`` inputs are left out.
    """
    from spillscan.judging.rules import checks

    asked = {each.rule.id for each in checks() if {*checked} & {*each.scopes}}
    notes = []
    for entry in policy.accept:
        used = any(map(entry.covers, findings)) or any(map(entry.covers, gaps))
        if not used and entry.is_valid(policy.today) and (entry.gap or entry.rule in asked):
            kind = "finding" if entry.rule else "gap"
            message = f"no {kind} matches the `accept` entry for {entry.rule or entry.gap} with kernel {entry.kernel!r}"
            notes.append(_placed(entry.origin, "policy-names-nothing", "note", message))
    return notes


def unused_renames(policy: Policy, changes: Iterable[Change]) -> list[Issue]:
    """Notes on the stated renames that pair none of the ``changes``."""
    paired = {each.evidence.rule for each in changes if each.evidence.kind == "stated"}
    given = "--rename, or `renamed` in the policy"
    return [
        _placed(given, "policy-names-nothing", "note", f"{old!r} → {new!r} pairs no removed kernel with an added one")
        for old, new in policy.renamed
        if f"{old} → {new}" not in paired
    ]


def _placed(origin: str, code: str, severity: Severity, message: str) -> Issue:
    from spillscan.model import Issue, Origin

    place, _, line = origin.rpartition(":")
    where = Origin(input=place, line=int(line), format="policy") if place else None
    text = message + ("" if place else f" ({origin})")
    return Issue(code=code, message=text, severity=severity, origin=where)
