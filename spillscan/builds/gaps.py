"""Gaps of a run file: failed calls, files that changed since, lost kernels."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache

from spillscan.builds.launcher import digest
from spillscan.builds.record import BuildRecord, Call, Output
from spillscan.builds.tree import shown
from spillscan.model import Issue, Origin
from spillscan.model.build import Unit
from spillscan.model.usage import Severity
from spillscan.output.nouns import listed

_NAMED = 3


def units(build: BuildRecord) -> Iterator[Unit]:
    """Compilations of a build that name a source."""
    return (Unit(source=each.source, object=each.object, done=each.status == 0) for each in build.calls if each.source)


def issues(build: BuildRecord, name: str) -> Iterator[Issue]:
    """Issues of the run file ``name``."""
    if not (build.calls or build.outputs or any(run.kept or run.status for run in build.runs)):
        yield _issue("build-incomplete", "`spillscan run` saw no compilation", name)
    for run in build.runs:
        if run.kept or run.status:
            how = f"ended with {_end(run.status)}" if run.status else "did not finish"
            yield _issue("build-incomplete", f"`{' '.join(run.command)[:60]}` {how}: later steps may be missing", name)
    watched = tuple(os.path.join(each, "") for each in build.watched if os.path.isdir(each))
    digest_of = cache(lambda path: digest(path) or ("gone" if path.startswith(watched) else ""))
    for number, call in enumerate(build.calls):
        if call.status != 0:  # a call that names no source may have had another
            if not any(each.sources and each.status == 0 and each.repeats(call) for each in build.calls[number:]):
                yield _issue(*_of_failed(call), call.name)
        elif changed := [path for path, known in call.files.items() if digest_of(path) not in ("", known)]:
            yield _issue("stale-unit", _of_changed(call, [*map(shown, changed)], build.outputs), call.name)
    kept = to_read(build)
    there = {piece for output in kept for piece in output.pieces}
    for output in build.outputs:
        path, message = shown(output.path), ""
        if not os.path.exists(output.path):
            message = "was deleted, and its GPU code is in no other output" if build.new_in(output) - there else ""
        elif not output.is_unchanged:
            message = "was changed after the build"
        if message:
            yield _issue("changed-input", f"{path} {message}", path)
    calls = (each.name for each in build.calls if each.status == 0 and each.pieces and not each.headers)
    if unknown := [*dict.fromkeys([*calls, *(shown(each.path) for each in kept if build.new_in(each))])]:
        message = f"headers unknown for {_few(unknown)}; a changed header would go unnoticed"
        yield _issue("unknown-headers", message, name, "warning")


def to_read(build: BuildRecord) -> list[Output]:
    """Existing outputs, without those whose code others contain."""
    outputs, known = [], set[str]()
    for output in build.outputs:
        if not known.issuperset(output.pieces) and output.is_unchanged:
            outputs.append(output)
            known.update(output.pieces)
    return outputs


def _of_failed(call: Call) -> tuple[str, str]:
    """Code and message."""
    if call.status is None or call.status < 0:
        how = f"was killed by {_end(call.status)}" if call.status else "never finished"
        return "unfinished-unit", f"the compilation of {call.name} {how}"
    return "build-failed", f"{call.name} failed{' to compile' if call.source else ''} ({_end(call.status)})"


def _of_changed(call: Call, changed: Sequence[str], outputs: Sequence[Output]) -> str:
    since = "it was compiled" if changed == [call.source] else f"{call.name} was compiled"
    stale = [shown(each.path) for each in outputs if not set(each.pieces).isdisjoint(call.pieces)]
    return f"{_few(changed)} changed after {since}" + (f"; the old code is in {_few(stale)}" if stale else "")


def _end(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit status {status}"


def _few(names: Sequence[str]) -> str:
    return listed(names[:_NAMED], len(names) - _NAMED)


def _issue(code: str, message: str, where: str, severity: Severity = "error") -> Issue:
    return Issue(code=code, message=message, severity=severity, origin=Origin(input=where, format="build"))
