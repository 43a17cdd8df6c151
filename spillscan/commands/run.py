"""Run a build, and record its compiler calls and the files with GPU code that it wrote.

The record is the run file, which `spillscan scan` and `check` read. Standard output and exit status are the build's.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import stat
import sys
from typing import TYPE_CHECKING

from spillscan.output.errors import InputError, UsageError
from spillscan.output.nouns import count, listed
from spillscan.output.terminal import complain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spillscan.builds.account import Account
    from spillscan.builds.record import BuildRecord

_NAMED = 3
EPILOG = "Example: spillscan run -- cmake -B build; spillscan run -- cmake --build build; spillscan check"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="run file to write, or to update if it exists (default: spillscan-build.json)",
    )
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="DIR",
        help="also watch DIR, such as an output folder outside the git work tree, for files with GPU code; repeatable",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND …", help="build command")


def run(arguments: argparse.Namespace) -> int:
    """Return the build's exit status; 128 plus the signal if one ended it."""
    from spillscan.builds import RUN_FILE
    from spillscan.builds.run import watch

    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise UsageError("no command to run", "write spillscan run -- make")
    if shutil.which(program := command[0]) is None:
        reason, fix = "command not found", "check its spelling and PATH"
        if os.path.dirname(program) and os.path.isdir(program):
            reason, fix = "it is a folder", "name a program in it"
        elif os.path.dirname(program) and os.path.exists(program):
            reason, fix = "no permission to execute it", f"run chmod +x {shlex.quote(program)}"
        raise UsageError(f"cannot run {program}: {reason}", fix)
    for folder in arguments.also:
        if not os.path.isdir(folder):
            raise UsageError(f"--also {folder}: no such folder", "create it first")
    path = os.path.abspath(arguments.output or RUN_FILE)
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        raise UsageError(
            f"cannot write {arguments.output or RUN_FILE}: not a regular file", "name another file: -o FILE"
        )
    sys.stdout.flush()
    account = watch(command, arguments.also, path, _contains_code)
    for line in _summary(account, arguments.output or RUN_FILE):
        complain(line)
    status = account.build.runs[-1].status or 0
    return status if status >= 0 else 128 - status


def _contains_code(path: str) -> bool:
    """Whether a compressed file contains GPU code; true if it cannot be read."""
    from spillscan.reading.inputs.source import DEFAULT, Source
    from spillscan.reading.pipeline import contents, has_images

    try:
        with Source(path).open() as stream:
            reading = contents(stream, path, DEFAULT, named=False)
            return bool(reading and (reading.functions or reading.portable)) or has_images(stream)
    except InputError:
        return True  # reading it later reports the error


def _summary(account: Account, path: str) -> Iterator[str]:
    from spillscan.builds.gaps import to_read
    from spillscan.builds.tree import shown

    build: BuildRecord = account.build
    outputs = to_read(build)
    yield f"watched: {', '.join(shown(each) for each in build.watched)}"
    if unseen := [shown(each.path) for each in outputs if build.new_in(each)]:
        hint = "; call nvcc by name, and configure and build from scratch under `spillscan run`" * (not account.calls)
        yield f"outputs of unrecorded compiler calls: {listed(unseen[:_NAMED], len(unseen) - _NAMED)}{hint}"
    failed = [each.name for each in account.calls if each.status != 0]
    nothing = "no compiler call recorded" if unseen else "nothing was compiled"
    nothing += " (normal for a configure step)" * bool(account.checks and not unseen)
    parts = [count(len(account.calls), "compiler call") if account.calls else nothing]
    if failed:
        parts[0] += f", {len(failed):,} failed ({listed(failed[:_NAMED], len(failed) - _NAMED)})"
    if account.checks:
        failures = sum(each.status != 0 for each in account.checks)
        parts.append(f"{count(len(account.checks), 'compiler check')}, {failures:,} failed")
    if kept := len(build.calls) - len(account.calls):
        parts.append(f"{count(kept, 'call')} of earlier runs kept")
    yield "; ".join([*parts, count(len(outputs), "output"), path])
