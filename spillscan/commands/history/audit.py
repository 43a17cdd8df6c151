"""Add a build to a dataset.

An interrupted audit continues if the same command is run again: only new, changed and failed files are read. Files
without build output are skipped, and files that cannot be read are listed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from spillscan.commands import _options, _policy
from spillscan.commands.history._datasets import place_of
from spillscan.history.audit import Plan, Selection, audit, counted
from spillscan.history.audit.find import commit_of
from spillscan.history.audit.messages import FileOutcome, Item
from spillscan.history.dataset.store import check_label
from spillscan.judging.verdict import gaps_of_issues, verdict
from spillscan.model.gaps import EVERYTHING
from spillscan.output.errors import InputError, UndecidedError, UsageError
from spillscan.output.nouns import count
from spillscan.output.terminal import Progress, say

EPILOG = "Example: spillscan history audit build/ dist/*.whl --label v1.2 --meta branch=main"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "inputs",
        nargs="+",
        metavar="INPUT",
        help="file, folder, glob or URL (s3://, gs://, hf://, https://)",
    )
    about = "name of the build; a date in it, or the date of a git commit or tag of this name, becomes the build's date"
    parser.add_argument("--label", required=True, metavar="NAME", help=about)
    _options.add_dataset(parser)
    about = "metadata of the build, such as time=2026-03-01T12:00:00Z or commit=REV"
    _options.words(parser, "--meta", "KEY=VALUE", about)
    about = "skip files and folders whose name or path below INPUT matches GLOB; '>BYTES' skips larger files"
    _options.words(parser, "--exclude", "GLOB", about)
    about = "number of processes (default: one per processor), or a Dask scheduler (tcp://HOST:PORT)"
    parser.add_argument("--jobs", type=_jobs, metavar="N|ADDRESS", help=about)
    _options.add_rows(parser, 25, "failed files to list", "failed files")
    _options.add_strict(parser)
    _policy.add_accept(parser, "gaps")
    _policy.add_file(parser)


def _jobs(text: str) -> int | str:
    return text if "://" in text else _options.positive_number(text)


def run(arguments: argparse.Namespace) -> int:
    """Return 0; exit status 2 if nothing was understood, or if something may be hidden."""
    policy = _policy.policy_of(arguments)
    check_label(arguments.label)
    plan = Plan(
        builds={arguments.label: arguments.inputs},
        into=place_of(arguments),
        meta=_metadata(arguments),
        selection=_selection(arguments.exclude),
        processes=arguments.jobs if isinstance(arguments.jobs, int) else None,
        scheduler=arguments.jobs if isinstance(arguments.jobs, str) else None,
    )
    with Progress("reading") as progress:
        summary = audit(plan, _Files(progress))
    say(summary.text(_options.rows_of(arguments)).splitlines())
    if not summary.understood:
        files = counted(summary.files.total())
        raise InputError(f"no build log, disassembly or binary was read ({files})", "pass the output of a build")
    result = verdict((), gaps_of_issues(summary.unseen(), frozenset(EVERYTHING), strict=policy.strict), policy)
    if result.status:
        failed = sum(gap.code == "unreadable" for gap in result.gaps)
        others = dict.fromkeys(gap.code for gap in result.gaps if gap.code != "unreadable")
        problems = [f"{counted(failed)} could not be read [unreadable]"] * bool(failed)
        problems += [f"incomplete input [{', '.join(others)}]"] * bool(others)
        how = "`spillscan explain CODE` says what to do; `--accept CODE=GLOB` accepts a gap"
        raise UndecidedError(", ".join(problems), how)
    return result.status


def _selection(exclude: Sequence[str]) -> Selection:
    sizes = [text[1:] for text in exclude if text.startswith(">")]
    if wrong := [text for text in sizes if not (text.isascii() and text.isdigit())]:
        raise UsageError(f"--exclude '>{wrong[0]}' is not a size", "write --exclude '>BYTES'")
    globs = [text for text in exclude if not text.startswith(">")]
    return Selection(exclude=globs, most_bytes=min(map(int, sizes), default=None))


class _Files:
    """A :class:`~spillscan.history.audit.Watcher` that shows bytes and files in a progress line."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._done = self._all = self._bytes = 0

    def expect(self, items: Sequence[Item]) -> None:
        """Set the number of files and bytes."""
        self._all = len(items)
        self._progress.expect(sum(item.size_bytes for item in items))

    def count(self, outcome: FileOutcome) -> None:
        """Count one finished file."""
        self._done += 1
        self._bytes += outcome.size_bytes
        self._progress.reach(self._bytes, f"{self._done:,} of {count(self._all, 'file')}")


def _metadata(arguments: argparse.Namespace) -> dict[str, str]:
    """Metadata to store with the build; hash and date, too, if git knows its commit."""
    given: dict[str, str] = {}
    for text in arguments.meta:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise UsageError(f"--meta {text[:60]}: key or value is missing", "write --meta KEY=VALUE")
        given[key] = value
    known = commit_of(given.get("commit") or arguments.label)
    return known | given | ({"commit": known["commit"]} if known else {})
