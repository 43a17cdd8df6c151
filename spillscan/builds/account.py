"""Account of a finished run: its compiler calls, the files with GPU code that it left, and records of earlier runs."""

from __future__ import annotations

import ast
import glob
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from spillscan.builds import checks, launcher, tree
from spillscan.builds.pieces import is_linked, is_packed, pieces
from spillscan.builds.record import BuildRecord, Call, Output, Run
from spillscan.output.files import cache_folder, is_held

HELD, LIST = "held", "list"
"""Files in the folder of a run: one that the process locks while it lives, and the state before the build."""


class Known(Struct, frozen=True, kw_only=True):
    """State before a build begins."""

    since_ns: int
    tops: tuple[str, ...]
    """Watched folders."""
    files: dict[str, tree.Entry]


class Account(NamedTuple):
    """A finished run and the new contents of its run file."""

    build: BuildRecord
    status: int
    """Exit status of the build; negative: a signal."""
    calls: tuple[Call, ...]
    """Calls of this run, without compiler checks."""
    kept: int
    """Number of calls kept from earlier runs."""
    checks: tuple[Call, ...]


def after(before: BuildRecord, at_start: BuildRecord, run: Run, contains_code: Callable[[str], bool]) -> Account:
    """Account of ``run``: the records in ``before``, runs that were killed, and what changed.

    ``at_start``: the run file when the run began; ``contains_code``: whether a compressed file contains GPU code.
    """
    killed = [each for each in before.runs if each.kept and each.kept != run.kept and _was_killed(each.kept)]
    ended = [run.kept, *(each.kept for each in killed)]
    known = min(map(_known, ended), key=lambda each: each.since_ns)
    seen = sorted((call for kept in ended for call in _calls(kept)), key=lambda call: call.began_ns)
    tried = tuple(filter(checks.is_check, seen))
    new = tuple(_finished(call) for call in seen if call not in tried)

    watched = watched_by((call.command[0], call.folder) for call in seen)
    later = watched.found(folder for call in seen for folder in (call.folder, *call.folders))
    later = [each for each in later if not watched.covers(known.tops, each)]
    changed = watched.changed(known.files, known.tops) | watched.changed_since(known.since_ns, later)
    there = [each for each in before.outputs if os.path.isfile(each.path)]
    changed |= {each.path for each in there if not each.is_as_it_was}
    found = [_output(path) for path in changed if not checks.is_of_check(path)]
    found = [each for each in found if each.pieces and (not is_packed(each.path) or contains_code(each.path))]
    replaced = [old for old in before.calls if any(_replaces(call, old) for call in new)]
    unchanged = [_as_it_is(each, replaced, new) for each in there if each.path not in changed]
    outputs = sorted((*unchanged, *found), key=lambda each: (each.entry[2], each.path))

    left = {piece for output in outputs for piece in output.pieces}
    old = [each for each in before.calls if each not in replaced and _stays(each, left)]
    finished = replace(run, kept="", did=bool(new or found))
    lost = {each.kept for each in (*killed, run)}
    runs = [each for each in before.runs if each.kept not in lost and not _settles(finished, each, at_start)]
    build = BuildRecord(
        runs=(*runs, finished),
        watched=tuple(watched.outermost([*known.tops, *later, *filter(os.path.isdir, before.watched)])),
        calls=(*old, *new),
        outputs=tuple(outputs),
    )
    for each in killed:
        shutil.rmtree(each.kept, ignore_errors=True)
    return Account(build, run.status or 0, new, len(old), tried)


def watched_by(compilers: Iterable[tuple[str, str]]) -> tree.Watched:
    """Rules for watched folders that leave out our own and the toolkits. ``compilers``: names and working folders."""
    return tree.Watched([cache_folder("runs"), cache_folder("launchers"), *(_toolkit(*each) for each in compilers)])


def _toolkit(compiler: str, folder: str) -> str:
    """Folder of a compiler's toolkit, or as much of it as does not contain the build: ``~/bin/nvcc``."""
    program = launcher.behind_scripts(os.path.realpath(shutil.which(compiler) or compiler))
    programs, build = os.path.dirname(program), os.path.join(os.path.realpath(folder), "")
    tops = (os.path.dirname(programs), programs)
    return next((top for top in tops if not build.startswith(os.path.join(top, ""))), program)


# ---- runs ---------------------------------------------------------------------------------------------------------


def _was_killed(kept: str) -> bool:
    return os.path.exists(os.path.join(kept, LIST)) and is_held(os.path.join(kept, HELD)) is False


def _known(kept: str) -> Known:
    with open(os.path.join(kept, LIST), encoding="ascii") as file:
        return msgspec.convert(json.load(file), Known)


def _settles(run: Run, earlier: Run, at_start: BuildRecord) -> bool:
    """Whether ``run`` replaces an ``earlier`` one: the same command again, or a success after a failure."""
    if earlier not in at_start.runs or earlier.folder != run.folder:
        return False
    return earlier.command == run.command or bool(earlier.status and run.status == 0 and run.did)


# ---- outputs ------------------------------------------------------------------------------------------------------


def _output(path: str) -> Output:
    return Output(path=path, entry=tree.entry_of(path) or (0, 0, 0), pieces=pieces(path), linked=is_linked(path))


def _as_it_is(output: Output, replaced: list[Call], new: tuple[Call, ...]) -> Output:
    """An output that this run did not change; marked if it has old code of a source that was compiled again."""
    lost = set(output.pieces).difference(*(call.pieces for call in new))
    for call in replaced:
        if not lost.isdisjoint(call.pieces):
            return replace(output, older_than=call.path(next(iter(call.sources), call.name)))
    return output


# ---- calls --------------------------------------------------------------------------------------------------------


def _calls(kept: str) -> Iterator[Call]:
    """Calls that ended, and those that only began."""
    for path in glob.glob(os.path.join(glob.escape(kept), "*.call")):
        with suppress(OSError, ValueError, SyntaxError, msgspec.MsgspecError), open(path, encoding="ascii") as file:
            said = ast.literal_eval(file.read())
            yield msgspec.convert({**said, "id": os.path.basename(path).removesuffix(".call")}, Call)
    for path in glob.glob(os.path.join(glob.escape(kept), "*.began")):
        with suppress(OSError), open(path, encoding="utf-8", errors="backslashreplace") as file:
            folder, *words = file.read().split("\0")[:-1]
            number = os.path.basename(path).removesuffix(".began").rpartition("-")[2]
            yield Call(id=f"{os.stat(path).st_mtime_ns}-{number}", command=tuple(words), folder=folder)


def _finished(call: Call) -> Call:
    files = {call.path(name): digest for name, digest in call.files.items()}
    return replace(call, ancestors=(), folders=(), files=files)


def _replaces(call: Call, old: Call) -> bool:
    return call.repeats(old) and (call.status == 0 or old.status != 0)


def _stays(call: Call, left: set[str]) -> bool:
    """Whether an earlier call still counts: an output has its code, or it wrote none and its source still exists."""
    if call.pieces:
        return not left.isdisjoint(call.pieces)
    return not call.sources or any(os.path.exists(call.path(each)) for each in call.sources)
