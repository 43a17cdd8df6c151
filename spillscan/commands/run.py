"""Run a build and record its compiler calls (command, exit status, report, digests of sources and headers) and the
files with GPU code that it wrote, in one file that `spillscan scan` and `check` read. Output and exit status stay the
build's.
"""

from __future__ import annotations

import argparse
import os
import stat
import sys
from typing import TYPE_CHECKING

from spillscan.output.errors import InputError, UsageError
from spillscan.output.nouns import count, listed
from spillscan.output.terminal import complain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spillscan.builds.account import Account, Kernel, Kernels
    from spillscan.builds.record import BuildRecord

_NAMED = 3
EPILOG = "Example: spillscan run -- make; CMake: spillscan run -- cmake -B build, spillscan run -- cmake --build build"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="run file; what an earlier run left in it, and this one does not compile again, stays"
        " (default: spillscan-build.json)",
    )
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="DIR",
        help="watch this folder, too: an unseen compiler may write there (default: the git work tree, else the current"
        " folder, and the folders of seen calls)",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- COMMAND …", help="the build")


def run(arguments: argparse.Namespace) -> int:
    """The build's exit status; 128 and the signal if one ended it."""
    from spillscan.builds import record
    from spillscan.builds.account import Readers
    from spillscan.builds.run import watch
    from spillscan.output.files import Target

    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise UsageError("no command to run", "write spillscan run -- make")
    for folder in arguments.also:
        if not os.path.isdir(folder):
            raise UsageError(f"--also {folder}: no such folder", "make it first")
    path = os.path.abspath(arguments.output or record.NAME)
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        raise UsageError(
            f"cannot write {arguments.output or record.NAME}: not a regular file", "name another file: -o FILE"
        )
    target = Target(path)
    target.check()
    sys.stdout.flush()
    found = watch(
        command,
        arguments.also,
        path,
        Readers(_kernels_of, _reported),
        lambda: record.read(path),
        lambda build: target.write(record.encoded(build)),
    )
    for line in _said(found, arguments.output or record.NAME):
        complain(line)
    return found.status if found.status >= 0 else 128 - found.status


def _kernels_of(path: str) -> Kernels | None:
    """The kernels of a file that the build wrote; ``None`` if it has no code, and that is certain."""
    from spillscan.builds.account import Kernels
    from spillscan.builds.tree import is_packed
    from spillscan.model.code import SassFunction
    from spillscan.reading.inputs.source import DEFAULT, Source
    from spillscan.reading.pipeline import holds_images
    from spillscan.reading.readers import contents

    try:
        with Source(path).open() as stream:
            reading = contents(stream, path, DEFAULT, named=False)
    except InputError:
        return Kernels({}, ())
    found = reading is not None and (reading.functions or any(each.kernels != () for each in reading.portable))
    if reading is None or not found:
        unread = (reading is not None and reading.issues) or not holds_images(path)
        return Kernels({}, ()) if unread and not is_packed(path) else None
    entries = [each for each in reading.functions if isinstance(each, SassFunction) and each.role == "entry"]
    usages = {(each.symbol, each.arch): each.usage for each in entries if each.final is not False}
    final = {kernel: usage.registers if usage else None for kernel, usage in usages.items()}
    return Kernels(final, {(each.symbol, each.arch) for each in entries if each.final is False})


def _reported(report: str) -> Mapping[Kernel, int | None]:
    """The kernels that a compiler reported."""
    import io

    from spillscan.reading import logs
    from spillscan.reading.inputs.source import Stream

    if "Compiling entry function" not in report:
        return {}
    kernels = logs.read(Stream(io.BytesIO(report.encode()), "report"), "report").kernels
    return {(each.key.symbol, each.key.arch): each.usage.registers for each in kernels if each.role == "entry"}


def _said(found: Account, path: str) -> Iterator[str]:
    from spillscan.builds.commands import shown
    from spillscan.builds.gaps import name_of

    build: BuildRecord = found.build
    yield f"watched: {', '.join(shown(each) for each in build.watched)}"
    unseen = [each for each in build.outputs if each.unseen and not each.repeats]
    for output in unseen[:_NAMED]:
        kernels = listed(output.unseen[:_NAMED], len(output.unseen) - _NAMED)
        number = count(len(output.unseen), "kernel")
        yield f"{shown(output.path)}: {number} not seen to be compiled ({kernels}); read from it"
    if len(unseen) > _NAMED:
        files = count(len(unseen) - _NAMED, "more file")
        yield f"{files} with kernels not seen to be compiled; read from there"
    failed = [name_of(each) for each in found.calls if each.status != 0]
    said = [count(len(found.calls), "compiler call")] if found.calls else []
    if failed:
        said[0] += f", {len(failed):,} failed ({listed(failed[:_NAMED], len(failed) - _NAMED)})"
    if not found.calls:
        said.append("nothing was compiled")
    if found.checks:
        said.append(f"{count(found.checks, 'compiler check')}, {found.failed_checks:,} failed")
    if found.kept:
        said.append(f"{count(found.kept, 'call')} of earlier runs kept")
    outputs = sum(not each.repeats for each in build.outputs)
    yield "; ".join([*said, count(outputs, "output"), path])
