"""Gaps of a run file: failed calls, files that changed since, lost kernels."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache

from spillscan.builds.record import BuildRecord, Call, Output
from spillscan.builds.tree import entry_of, shown
from spillscan.model import Issue, Origin
from spillscan.model.units import State, Unit
from spillscan.output import folders
from spillscan.output.nouns import listed

_NAMED = 3


def units(build: BuildRecord) -> Iterator[Unit]:
    """Compilations of a build that name a source."""
    for call in build.calls:
        if call.source:
            yield Unit(
                source=call.source,
                object=call.object,
                folder=call.folder,
                command=call.command,
                version=call.version,
                state=_state(call),
                status=call.status,
                reported="ptxas info" in call.report or None,
                evidence=("run",),
            )


def _state(call: Call) -> State:
    status = call.status
    return "unfinished" if status is None else "done" if status == 0 else "killed" if status < 0 else "failed"


def issues(build: BuildRecord, name: str) -> Iterator[Issue]:
    """Issues of the run file ``name``."""
    for message in _of_runs(build):
        yield _issue("build-incomplete", message, name)
    digest_of = cache(_digest_of)
    for call in build.calls:
        if call.status != 0 and not _is_mended(call, build.calls):
            yield _of_failed(call)
        changed = [path for path, digest in call.files.items() if (now := digest_of(path)) and now != digest]
        if changed and call.status == 0:
            named = _few([shown(each) for each in changed])
            alone = len(changed) == 1 and shown(changed[0]) == call.source
            what = "was changed after it was compiled" if alone else f"changed after {call.name} was compiled"
            yield _issue("stale-unit", f"{named} {what}", call.name)
    there = {piece for output in to_read(build) for piece in output.pieces}
    for output in build.outputs:
        yield from _of_output(output, bool(build.new_in(output) - there))
    calls = [each.name for each in build.calls if each.status == 0 and each.pieces and not each.headers]
    if unknown := [*calls, *(shown(each.path) for each in to_read(build) if build.new_in(each))]:
        message = f"headers unknown; a changed header goes unnoticed: {_few([*dict.fromkeys(unknown)])}"
        yield Issue(
            code="unknown-headers", message=message, severity="warning", origin=Origin(input=name, format="build")
        )


def to_read(build: BuildRecord) -> list[Output]:
    """Existing outputs, without those whose code others contain."""
    found, known = [], set[str]()
    for output in build.outputs:
        if not known.issuperset(output.pieces) and output.is_as_it_was:
            found.append(output)
            known.update(output.pieces)
    return found


def _of_runs(build: BuildRecord) -> Iterator[str]:
    if not (build.calls or build.outputs or any(run.kept or run.status for run in build.runs)):
        yield "nothing was compiled under `spillscan run`"
    for run in build.runs:
        command = " ".join(run.command)[:60]
        if run.kept:
            state = "still runs" if folders.is_held(os.path.join(run.kept, "held")) else "was killed"
            yield f"`spillscan run -- {command}` {state}: run it again to its end"
        elif run.status:
            how = f"signal {-run.status}" if run.status < 0 else f"exit status {run.status}"
            yield f"`{command}` ended with {how}: what it had not begun is missing"


def _is_mended(failed: Call, calls: Sequence[Call]) -> bool:
    """Whether a later successful call compiled the same; one without a named source may have had another."""
    later = (call for call in calls if call.status == 0 and call.began_ns > failed.began_ns and call.sources)
    return any(call.repeats(failed) for call in later)


def _of_failed(call: Call) -> Issue:
    if call.status is None:
        return _issue("unfinished-unit", f"the compilation of {call.name} began and never ended", call.name)
    if call.status < 0:
        return _issue(
            "unfinished-unit", f"the compilation of {call.name} was killed by signal {-call.status}", call.name
        )
    return _issue("build-failed", f"{call.name} failed to compile (exit status {call.status})", call.name)


def _of_output(output: Output, only_there: bool) -> Iterator[Issue]:
    name = shown(output.path)
    if output.older_than:
        what = f"has code of {shown(output.older_than)} from before it was compiled again"
        yield _issue("stale-unit", f"{name} {what}", name)
    elif not os.path.exists(output.path):
        if only_there:
            yield _issue("changed-input", f"{name} is gone, and no call reported its GPU code", name)
    elif not output.is_as_it_was:
        yield _issue("changed-input", f"{name} was changed after the build: build again under `spillscan run`", name)


def _digest_of(path: str) -> str:
    with suppress(OSError, ValueError):
        if entry_of(path) is not None:  # not a FIFO
            with open(path, "rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()
    return ""


def _few(names: Sequence[str]) -> str:
    return listed(names[:_NAMED], len(names) - _NAMED)


def _issue(code: str, message: str, where: str) -> Issue:
    return Issue(code=code, message=message, severity="error", origin=Origin(input=where, format="build"))
