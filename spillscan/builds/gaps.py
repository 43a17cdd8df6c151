"""What a run file leaves open: failed calls, files that changed since, kernels that are lost."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from spillscan.builds import tree
from spillscan.builds.commands import of_call, shown
from spillscan.builds.record import BuildRecord, Call, Output
from spillscan.model import Issue, Origin
from spillscan.model.units import State, Unit
from spillscan.output import folders
from spillscan.output.nouns import count, listed

_NAMED = 3


def units(build: BuildRecord) -> Iterator[Unit]:
    """The compilations of a build that name a source."""
    for call in build.calls:
        for command in of_call(call):
            yield Unit(
                source=command.source,
                object=command.object,
                folder=command.folder,
                command=command.words,
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
    """What a run file of that ``name`` leaves open."""
    yield from _of_runs(build, name)
    for call in build.calls:
        if call.status != 0 and not _is_mended(call, build.calls):
            yield _of_failed(call)
    yield from _stale(build.calls)
    for output in build.outputs:
        yield from _of_output(output)
    yield from _unknown_headers(build, name)


def to_read(build: BuildRecord) -> list[Output]:
    """The outputs whose machine code is read: those that others repeat count alone, as long as all are there."""
    there = [each for each in build.outputs if each.is_as_it_was]
    whole = len(there) == len(build.outputs)
    return [each for each in there if not (whole and each.repeats)]


def _of_runs(build: BuildRecord, name: str) -> Iterator[Issue]:
    said: list[str] = []
    for run in build.runs:
        command = " ".join(run.command)[:60]
        if run.kept:
            lives = folders.is_held(os.path.join(run.kept, "held"))
            state = "still runs" if lives else "was killed"
            said.append(f"`spillscan run -- {command}` {state}: run it again to its end")
        elif run.status:
            how = f"signal {-run.status}" if run.status < 0 else f"exit status {run.status}"
            said.append(f"`{command}` ended with {how}: what it had not begun is missing")
    if not (build.calls or build.outputs or said):
        said.append("nothing was compiled under `spillscan run`")
    for message in said:
        yield _issue("build-incomplete", message, name)


def _is_mended(failed: Call, calls: Sequence[Call]) -> bool:
    """Whether a later call compiled the same in the same run. One without a named source may have had another."""
    return bool(failed.sources) and any(
        call.status == 0 and call.id > failed.id and call.repeats(failed) for call in calls
    )


def _of_failed(call: Call) -> Issue:
    name = name_of(call)
    if call.status is None:
        return _issue("unfinished-unit", f"the compilation of {name} began and never ended", name)
    if call.status < 0:
        return _issue("unfinished-unit", f"the compilation of {name} was killed by signal {-call.status}", name)
    return _issue("build-failed", f"{name} failed to compile (exit status {call.status})", name)


def name_of(call: Call) -> str:
    """What people call it: its first source, seen from here, else its command."""
    return shown(call.path(call.sources[0])) if call.sources else call.name


def _stale(calls: Iterable[Call]) -> Iterator[Issue]:
    digest_of = cache(tree.digest_of)
    for call in calls:
        if call.status == 0:
            changed = [path for path, digest in call.files.items() if (now := digest_of(path)) and now != digest]
            if changed:
                named = listed([shown(each) for each in changed[:_NAMED]], len(changed) - _NAMED)
                what = "was changed after it was compiled" if [*map(shown, changed)] == [name_of(call)] else ""
                what = what or f"changed after {name_of(call)} was compiled"
                yield _issue("stale-unit", f"{named} {what}", name_of(call))


def _of_output(output: Output) -> Iterator[Issue]:
    name = shown(output.path)
    entry = tree.entry_of(output.path)
    if entry is None:
        if output.unseen and not output.repeats:
            kernels = count(len(output.unseen), "kernel")
            yield _issue("changed-input", f"{name} is gone: {kernels} of it are known from nowhere else", name)
    elif not output.is_as_it_was:
        yield _issue("changed-input", f"{name} was changed after the build: build again under `spillscan run`", name)
    elif output.older_than:
        yield _issue("stale-unit", f"{name} was linked before {shown(output.older_than)} was compiled", name)


def _unknown_headers(build: BuildRecord, name: str) -> Iterator[Issue]:
    """Objects of which it is not known whether their headers are as they were."""
    outputs = [shown(each.path) for each in build.outputs if each.unseen and not each.repeats]
    calls = [name_of(each) for each in build.calls if each.status == 0 and each.made and not each.headers]
    if unknown := [*dict.fromkeys((*calls, *outputs))]:
        named = listed(unknown[:_NAMED], len(unknown) - _NAMED)
        yield Issue(
            code="unknown-headers",
            message=f"headers unknown, so that a changed one is not noticed: {named}",
            severity="warning",
            origin=Origin(input=name, format="build"),
        )


def _issue(code: str, message: str, where: str) -> Issue:
    return Issue(code=code, message=message, severity="error", origin=Origin(input=where, format="build"))
