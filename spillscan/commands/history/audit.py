"""Read whole trees of logs, dumps, objects, libraries and archives into a dataset, which keeps build after build.

A file is read once: the same command goes on where it was interrupted, and reads what has changed. What is no build
output is skipped; a file that cannot be read is listed, and stops no other.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from spillscan.commands import _datasets, _options, _policy
from spillscan.history.audit import Plan, Selection, audit, counted
from spillscan.history.audit.find import commits, distinct, table
from spillscan.history.audit.messages import FileOutcome, Item
from spillscan.history.dataset import open_dataset
from spillscan.history.dataset.store import check_label
from spillscan.judging.verdict import gaps_of_issues, verdict
from spillscan.model.gaps import EVERYTHING
from spillscan.output.errors import InputError, UndecidedError, UsageError
from spillscan.output.nouns import count
from spillscan.output.progress import Progress
from spillscan.output.terminal import say

EPILOG = "Example: spillscan history audit build/ dist/*.whl --dataset data/ --label v1.2 --meta branch=main"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "inputs",
        nargs="*",
        metavar="INPUT",
        help="file, folder (searched to its end), glob pattern, or URL (s3://, gs://, hf://, https://) of these;"
        " compile_commands.json: the objects of its CUDA code",
    )
    _options.add_dataset(parser)
    _options.words(
        parser,
        "--label",
        "LABEL[=INPUT]",
        "name of the build (commit, tag, date); without INPUTs, LABEL=INPUT names build and input",
    )
    _options.flag(parser, "--each", "each INPUT is a build, called as its file or folder is")
    parser.add_argument(
        "--meta",
        action="append",
        default=[],
        metavar="KEY=VALUE|CSV",
        help="keep this with the build; or a table of builds: `label`, words of meta, and, without INPUTs, `input`",
    )
    parser.add_argument(
        "--git",
        nargs="?",
        const=".",
        metavar="REPOSITORY",
        help="keep date, author and place of each build's commit: the `commit` of its meta, else its label",
    )
    _options.flag(parser, "--append", "add the build to a dataset that holds others")
    _options.words(
        parser,
        "--exclude",
        "GLOB",
        "leave out files and folders of this name, or of this path below the input; '>BYTES': larger files",
    )
    _options.flag(parser, "--retry-failed", "read again what could not be read before")
    where = parser.add_mutually_exclusive_group()
    _options.add_jobs(where)
    where.add_argument(
        "--scheduler", metavar="ADDRESS", help="use the Dask cluster of this scheduler (tcp://HOST:PORT)"
    )
    _options.add_rows(parser, 25, "failed files to list", "failed files")
    _options.add_strict(parser)
    _policy.add_accept(parser)
    _policy.add_file(parser)


def run(arguments: argparse.Namespace) -> int:
    """Audit: 0, or 2 where nothing was understood, or something may be hidden."""
    policy = _policy.policy_of(arguments)
    builds, meta, meta_of = _builds_of(arguments)
    plan = Plan(
        builds=builds,
        into=_datasets.place_of(arguments),
        meta=meta,
        meta_of=meta_of,
        selection=_selection(arguments.exclude),
        again=arguments.retry_failed,
        processes=arguments.jobs,
        scheduler=arguments.scheduler,
    )
    _check_dataset(plan, arguments.append)
    with Progress("reading") as progress:
        summary = audit(plan, _Files(progress))
    say(summary.text(_options.rows_of(arguments)).splitlines())
    if not summary.understood:
        files = counted(summary.files.total())
        raise InputError(f"nothing in {files} was understood", "give build logs, dumps or binaries")
    found = verdict((), gaps_of_issues(summary.unseen(), frozenset(EVERYTHING), strict=policy.strict), policy)
    if found.status:
        failed = sum(gap.code == "unreadable" for gap in found.gaps)
        others = dict.fromkeys(gap.code for gap in found.gaps if gap.code != "unreadable")
        said = [f"{counted(failed)} could not be read"] * bool(failed) + [
            f"what was read has gaps: {', '.join(others)}"
        ] * bool(others)
        raise UndecidedError(" and ".join(said), "`spillscan explain GAP` says what to do; --accept GAP=GLOB excuses")
    return found.status


def _selection(exclude: Sequence[str]) -> Selection:
    sizes = [text[1:] for text in exclude if text.startswith(">")]
    if wrong := [text for text in sizes if not (text.isascii() and text.isdigit())]:
        raise UsageError(f"--exclude '>{wrong[0]}' is not a size", "write --exclude '>BYTES'")
    globs = [text for text in exclude if not text.startswith(">")]
    return Selection(exclude=globs, most_bytes=min(map(int, sizes), default=None))


class _Files:
    """A :class:`~spillscan.history.audit.Watcher`: bytes and files."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._done = self._all = 0

    def expect(self, items: Sequence[Item]) -> None:
        """These will come to an outcome."""
        self._all = len(items)
        self._progress.expect(sum(item.size_bytes for item in items))

    def count(self, outcome: FileOutcome) -> None:
        """One of them has."""
        self._done += 1
        self._progress.advance(outcome.size_bytes, f"{self._done:,} of {count(self._all, 'file')}")


def _builds_of(arguments: argparse.Namespace) -> tuple[dict[str, list[str]], dict[str, str], dict[str, dict[str, str]]]:
    """(label -> inputs, meta of all builds, label -> meta)."""
    tables = [table(text) for text in arguments.meta if _is_table(text)]
    meta = dict(_pair(text) for text in arguments.meta if not _is_table(text))
    meta_of: dict[str, dict[str, str]] = {}
    named: dict[str, list[str]] = {}
    for words, inputs in tables:
        for label, said in words.items():
            meta_of.setdefault(label, {}).update(said)
        for label, given in inputs.items():
            named.setdefault(label, []).extend(given)
    if arguments.each:
        if arguments.label or not arguments.inputs:
            raise UsageError("--each takes labels from the names of INPUTs", "give INPUTs, and no --label")
        builds = distinct(arguments.inputs)
    elif named and not arguments.inputs and not arguments.label:
        builds = named
    else:
        builds = _builds(arguments.inputs, arguments.label)
    unknown = [label for label in builds if tables and label not in meta_of]
    if unknown:
        raise UsageError(f"no line of the table is about {unknown[0]}", "a build without a date would have no place")
    if arguments.git is not None:
        revisions = {label: (meta | meta_of.get(label, {})).get("commit", label) for label in builds}
        for label, said in commits(arguments.git, revisions).items():
            own = meta_of.setdefault(label, {})
            meta_of[label] = said | own | {"commit": said["commit"]}
    return builds, meta, {label: said for label, said in meta_of.items() if label in builds}


def _builds(inputs: Sequence[str], labels: Sequence[str]) -> dict[str, list[str]]:
    """Label -> inputs."""
    if not labels:
        raise UsageError("nothing says what the build is called", "give --label LABEL, --each, or a table by --meta")
    if inputs:
        if len(labels) > 1:
            raise UsageError(
                f"{count(len(labels), 'label')} for the same inputs", "say --label LABEL=INPUT for each build"
            )
        return {labels[0]: list(inputs)}
    builds: dict[str, list[str]] = {}
    for text in labels:
        label, equals, given = text.partition("=")
        if not equals or not given:
            raise UsageError(
                f"no INPUT for the label {text}", "name files, folders or URLs, or say --label LABEL=INPUT"
            )
        builds.setdefault(label, []).append(given)
    return builds


def _check_dataset(plan: Plan, append: bool) -> None:
    """A build goes into a dataset of others only where the user says so; labels must be such as can be kept."""
    for label in plan.builds:
        check_label(label)
    try:
        held = open_dataset(plan.into).labels
    except InputError:
        return
    new = [label for label in plan.builds if label not in held]
    if new and not append:
        raise UsageError(
            f"{plan.into} is a dataset of {count(len(held), 'other build')}"
            if len(held) > 1
            else f"{plan.into} holds {held[0]}",
            f"add {new[0]} to it with --append",
        )


def _is_table(text: str) -> bool:
    return "=" not in text and os.path.isfile(text)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise UsageError(f"--meta {text} is not a pair", "write --meta KEY=VALUE, or name a CSV")
    return key, value
