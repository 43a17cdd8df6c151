"""Account of a finished run: its compiler calls, the files with GPU code that it left, and records of earlier runs."""

from __future__ import annotations

import ast
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from spillscan.builds import launcher, tree
from spillscan.builds.checks import is_check, is_configure_step, is_of_check
from spillscan.builds.pieces import code_of
from spillscan.builds.record import BuildRecord, Call, Output, Run
from spillscan.output.files import cache_folder, is_locked

LIST = "list"
"""File in the folder of a run: the state before the build. The process locks it while it lives."""


class InitialState(Struct, frozen=True, kw_only=True):
    """State before a build begins."""

    since_ns: int
    tops: tuple[str, ...]
    """Watched folders."""
    files: dict[str, tree.Entry]


class Account(NamedTuple):
    """A finished run and the new contents of its run file."""

    build: BuildRecord
    calls: tuple[Call, ...]
    """Calls of this run, without compiler checks."""
    checks: tuple[Call, ...]


def initial_state(before: BuildRecord, also: Iterable[str], since_ns: int) -> InitialState:
    """State now, before a build begins."""
    tops = tuple(map(os.path.realpath, (tree.top_of(os.curdir), *also, *filter(os.path.isdir, before.watched))))
    return InitialState(since_ns=since_ns, tops=tops, files=_watched_by(["nvcc"]).files(tops))


def after(before: BuildRecord, at_start: BuildRecord, run: Run, contains_code: Callable[[str], bool]) -> Account:
    """Account of ``run``: the records in ``before``, runs that were killed, and what changed.

    ``at_start``: the run file when the run began; ``contains_code``: whether a compressed file contains GPU code.
    """
    killed = [each for each in before.runs if each.kept and is_locked(os.path.join(each.kept, LIST)) is False]
    ended = [run.kept, *(each.kept for each in killed)]
    start = min(map(_initial_state_of, ended), key=lambda each: each.since_ns)
    seen = sorted((call for kept in ended for call in _calls(kept)), key=lambda call: call.began_ns)
    tried = tuple(filter(is_check, seen))
    new = tuple(_kept(call) for call in seen if call not in tried)

    rules = _watched_by(["nvcc", *(call.command[0] for call in seen)])
    folders = (folder for call in seen for folder in (call.folder, *call.folders))
    watched = rules.outermost([*start.tops, *filter(os.path.isdir, before.watched)], folders)
    changed = rules.changed(start.files, start.tops)
    changed |= rules.changed_since(start.since_ns, [each for each in watched if each not in start.tops])
    changed |= {each.path for each in before.outputs if not each.is_unchanged}
    written = []
    for path in changed:
        code = code_of(path)
        if code.pieces and not is_of_check(path) and (not code.packed or contains_code(path)):
            entry = tree.entry_of(path) or (0, 0, 0)
            written.append(Output(path=path, entry=entry, pieces=code.pieces, linked=code.linked))
    unchanged = [each for each in before.outputs if each.path not in changed]
    outputs = sorted((*unchanged, *written), key=lambda each: (each.entry[2], each.path))

    calls = (*_staying(before.calls, outputs, new), *new)
    settled = [each for each in at_start.runs if _settles(run, each, did=bool(new or written))]
    runs = (*(each for each in before.runs if each.kept not in ended and each not in settled), replace(run, kept=""))
    build = BuildRecord(runs=runs, watched=watched, calls=calls, outputs=tuple(outputs))
    for each in killed:
        shutil.rmtree(each.kept, ignore_errors=True)
    return Account(build, new, tried)


def _watched_by(compilers: Iterable[str]) -> tree.Watched:
    """Rules for watched folders that leave out our own, and the toolkits of ``compilers``."""
    programs = (launcher.behind_scripts(os.path.realpath(shutil.which(each) or each)) for each in compilers)
    toolkits = (os.path.dirname(os.path.dirname(each)) for each in programs)
    return tree.Watched([cache_folder("runs"), cache_folder("launchers"), *toolkits])


# ---- runs ---------------------------------------------------------------------------------------------------------


def _initial_state_of(kept: str) -> InitialState:
    return msgspec.convert(json.loads(Path(kept, LIST).read_text("ascii")), InitialState)


def _settles(run: Run, earlier: Run, *, did: bool) -> bool:
    """Whether ``run`` replaces an ``earlier`` one: the same command again, or a success after a failed configure step.

    ``did``: whether it compiled or wrote anything.
    """
    follows = run.status == 0 and did and is_configure_step(earlier.command)
    return earlier.folder == run.folder and (earlier.command == run.command or follows)


# ---- calls --------------------------------------------------------------------------------------------------------


def _calls(kept: str) -> Iterator[Call]:
    """Calls that ended, and those that only began."""
    for path in Path(kept).glob("*.call"):
        yield msgspec.convert(ast.literal_eval(path.read_text("ascii")), Call)
    for path in Path(kept).glob("*.began"):
        with suppress(OSError, ValueError):  # ended meanwhile; empty
            folder, *words = path.read_text("utf-8", "backslashreplace").split("\0")[:-1]
            yield Call(began_ns=path.stat().st_mtime_ns, command=tuple(words), folder=folder)


def _kept(call: Call) -> Call:
    """``call`` without the processes around it, and without files that are gone by now, which were temporary."""
    files = {path: known for path, known in call.files.items() if os.path.exists(path)}
    return replace(call, ancestors=(), folders=(), files=files)


def _staying(before: Sequence[Call], outputs: Sequence[Output], new: Sequence[Call]) -> Iterator[Call]:
    """Calls of earlier runs that still count.

    A call that wrote GPU code counts while an output contains it that no later compilation wrote. Another one counts
    until a new call supersedes it, or until its sources are gone.
    """
    last = {os.path.realpath(each.path(name)): each for each in (*before, *new) if each.sources for name in each.wrote}
    writers = {id(last[each.path]): last[each.path] for each in outputs if each.path in last}
    left = {piece for each in outputs for piece in each.pieces}.difference(*(each.pieces for each in writers.values()))
    for call in before:
        is_there = id(call) in writers or not left.isdisjoint(call.pieces)
        has_source = not call.sources or any(os.path.exists(call.path(each)) for each in call.sources)
        if is_there if call.pieces else has_source and not any(each.supersedes(call) for each in new):
            yield call
