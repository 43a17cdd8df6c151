"""Gaps of a run file: failed calls, files that changed since, lost kernels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from spillscan.builds.launcher import digest
from spillscan.builds.record import BuildRecord, Call, Output, Run
from spillscan.builds.tree import shown
from spillscan.model import Issue, Origin
from spillscan.model.build import Unit
from spillscan.model.usage import Severity
from spillscan.output.files import is_held
from spillscan.output.nouns import listed

_NAMED = 3
_Gap = tuple[str, str]
"""Code and message."""


def units(build: BuildRecord) -> Iterator[Unit]:
    """Compilations of a build that name a source."""
    return (Unit(source=each.source, object=each.object, done=each.status == 0) for each in build.calls if each.source)


def issues(build: BuildRecord, name: str) -> Iterator[Issue]:
    """Issues of the run file ``name``."""
    if not (build.calls or build.outputs or any(run.kept or run.status for run in build.runs)):
        yield _issue("build-incomplete", "nothing was compiled under `spillscan run`", name)
    for run in build.runs:
        yield from (_issue("build-incomplete", message, name) for message in _of_run(run))
    digest_of = cache(digest)
    for call in build.calls:
        for code, message in _of_failed(call, build.calls) if call.status != 0 else _of_files(call, build, digest_of):
            yield _issue(code, message, call.name)
    kept = to_read(build)
    there = {piece for output in kept for piece in output.pieces}
    for output in build.outputs:
        for code, message in _of_output(output, bool(build.new_in(output) - there)):
            yield _issue(code, f"{shown(output.path)} {message}", shown(output.path))
    calls = (each.name for each in build.calls if each.status == 0 and each.pieces and not each.headers)
    if unknown := [*dict.fromkeys([*calls, *(shown(each.path) for each in kept if build.new_in(each))])]:
        message = f"headers unknown; a changed header would go unnoticed: {_few(unknown)}"
        yield _issue("unknown-headers", message, name, "warning")


def to_read(build: BuildRecord) -> list[Output]:
    """Existing outputs, without those whose code others contain."""
    found, known = [], set[str]()
    for output in build.outputs:
        if not known.issuperset(output.pieces) and output.is_as_it_was:
            found.append(output)
            known.update(output.pieces)
    return found


def _of_run(run: Run) -> Iterator[str]:
    command = " ".join(run.command)[:60]
    if run.kept:
        state = "still runs" if is_held(os.path.join(run.kept, "held")) else "was killed"
        yield f"`spillscan run -- {command}` {state}: run it again to its end"
    elif run.status:
        yield f"`{command}` ended with {_end(run.status)}: what it had not begun is missing"


def _of_failed(call: Call, calls: Sequence[Call]) -> Iterator[_Gap]:
    """Gap of a failed call, unless a later one compiled the same; one without a named source may have had another."""
    later = (each for each in calls if each.status == 0 and each.began_ns > call.began_ns and each.sources)
    if any(each.repeats(call) for each in later):
        return
    if call.status is None:
        yield "unfinished-unit", f"the compilation of {call.name} never finished"
    elif call.status < 0:
        yield "unfinished-unit", f"the compilation of {call.name} was killed by {_end(call.status)}"
    else:
        yield "build-failed", f"{call.name} failed to compile ({_end(call.status)})"


def _of_files(call: Call, build: BuildRecord, digest_of: Callable[[str], str]) -> Iterator[_Gap]:
    """Gap of a call whose source or headers were changed."""
    changed = [shown(path) for path, digest in call.files.items() if (now := digest_of(path)) and now != digest]
    if changed:
        since = "it was compiled" if changed == [call.source] else f"{call.name} was compiled"
        held = [shown(each.path) for each in build.outputs if not set(each.pieces).isdisjoint(call.pieces)]
        where = f"; the old code is in {_few(held)}" if held else ""
        yield "stale-unit", f"{_few(changed)} changed after {since}{where}"


def _of_output(output: Output, only_there: bool) -> Iterator[_Gap]:
    if not os.path.exists(output.path):
        if only_there:
            yield "changed-input", "is gone, and no compiler call reported its GPU code"
    elif not output.is_as_it_was:
        yield "changed-input", "was changed after the build: build again under `spillscan run`"


def _end(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def _few(names: Sequence[str]) -> str:
    return listed(names[:_NAMED], len(names) - _NAMED)


def _issue(code: str, message: str, where: str, severity: Severity = "error") -> Issue:
    return Issue(code=code, message=message, severity=severity, origin=Origin(input=where, format="build"))
