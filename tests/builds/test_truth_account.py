"""The account of a build as a truth table: one fact a row, with the gap that follows and the words that say why."""

from __future__ import annotations

from typing import Any

import pytest

from spillscan.builds.account import File, issues, merged
from spillscan.model.units import Unit

DONE: dict[str, Any] = {
    "source": "a.cu",
    "object": "/b/a.o",
    "folder": "/s",
    "state": "done",
    "status": 0,
    "reported": True,
    "digests": (("a.cu", "1111"),),
    "command": ("nvcc", "-arch=sm_80", "-c", "a.cu", "-o", "a.o"),
    "evidence": ("run",),
}
LISTED: dict[str, Any] = {"source": "/s/a.cu", "object": "/b/a.o", "folder": "/b", "evidence": ("/b/build.ninja",)}
THERE = {"/s/a.cu": File(10.0, "1111"), "/b/a.o": File(20.0, "")}


class Files:
    def __init__(self, there: dict[str, File]) -> None:
        self._there = there

    def file(self, path: str, *, digest: bool = False) -> File | None:
        return self._there.get(path)


def gaps(
    seen: dict[str, Any] | None,
    expected: dict[str, Any] | None = None,
    there: dict[str, File] = THERE,
    read: tuple[str, ...] = (),
    command: tuple[str, ...] = (),
) -> list[tuple[str, str]]:
    files = Files(there)
    units = merged(
        [Unit(**{**DONE, **seen})] if seen is not None else [],
        [Unit(**{**LISTED, **expected})] if expected is not None else [],
        files,
    )
    wanted = {"/b/a.o": command} if command else None
    found = list(issues(units, frozenset(read), files, wanted))
    assert all(issue.severity == "error" and issue.hidden for issue in found)
    return [(issue.code, issue.message) for issue in found]


@pytest.mark.parametrize(
    ("seen", "arguments", "gap"),
    [
        ({}, {}, None),
        ({"state": "failed", "status": 2}, {}, ("build-failed", "a.cu failed to compile (exit status 2)")),
        (
            {"state": "killed", "status": -9},
            {},
            ("unfinished-unit", "the compilation of a.cu was killed by signal 9"),
        ),
        (
            {"state": "unfinished", "status": None},
            {},
            ("unfinished-unit", "the compilation of a.cu began and never ended"),
        ),
        ({"reported": None}, {}, ("unreported-unit", "nothing says what the kernels of a.cu use")),
        ({"reported": False}, {}, ("unreported-unit", "nothing says what the kernels of a.cu use")),
        ({"reported": None}, {"read": ("/b/a.o",)}, None),  # its machine code says it
        (
            {"reported": None},
            {"read": ("/b/other.o",)},
            ("unreported-unit", "nothing says what the kernels of a.cu use"),
        ),
        (
            {},
            {"there": {**THERE, "/s/a.cu": File(10.0, "2222")}},
            ("stale-unit", "a.cu was changed after it was compiled"),
        ),
        ({}, {"there": {**THERE, "/s/a.cu": File(99.0, "1111")}}, None),  # touched, not changed
        ({}, {"there": {"/b/a.o": File(20.0, "")}}, None),  # sources are elsewhere: nothing says that they changed
        ({}, {"there": {"/s/a.cu": File(10.0, "1111")}}, None),  # its report says all, without the object
        (
            {"digests": (), "source": "/s/a.cu"},
            {"there": {**THERE, "/s/a.cu": File(30.0, "")}},
            ("stale-unit", "/s/a.cu is newer than what was compiled of it"),
        ),
        ({}, {"command": ("nvcc", "-arch=sm_80", "-MD", "-MF", "a.d", "-c", "a.cu", "-o", "a.o")}, None),
        (
            {},
            {"command": ("nvcc", "-arch=sm_90", "-c", "a.cu", "-o", "a.o")},
            ("stale-unit", "a.cu is to be compiled with other options now: -arch=sm_80 -arch=sm_90"),
        ),
        ({}, {"command": ("nvcc", "--options-file", "x.rsp", "-c", "a.cu", "-o", "a.o")}, None),  # stands in a file
        (None, {"expected": {}, "read": ("/b/a.o",)}, None),
        (None, {"expected": {}}, ("unreported-unit", "nothing says what the kernels of /s/a.cu use")),
        (
            None,
            {"expected": {}, "there": {"/s/a.cu": File(10.0, "")}},
            ("unreported-unit", "build.ninja says that /s/a.cu is to be compiled; it was not"),
        ),
        (
            None,
            {"expected": {}, "there": {**THERE, "/s/a.cu": File(30.0, "")}, "read": ("/b/a.o",)},
            ("stale-unit", "/s/a.cu is newer than what was compiled of it"),
        ),
        ({}, {"expected": {}}, None),  # what was seen counts, not that it is listed
        (
            {"state": "failed", "status": 1},
            {"expected": {}},
            ("build-failed", "a.cu failed to compile (exit status 1)"),
        ),
    ],
)
def test_the_account(seen: dict[str, Any] | None, arguments: dict[str, Any], gap: tuple[str, str] | None) -> None:
    assert gaps(seen, **arguments) == ([] if gap is None else [gap])


def test_the_last_compilation_of_an_object_counts() -> None:
    units = merged([Unit(**{**DONE, "state": "failed", "status": 2}), Unit(**DONE)], [], Files(THERE))
    assert [(unit.state, unit.object) for unit in units] == [("done", "/b/a.o")]


def test_evidence_adds_up() -> None:
    (unit,) = merged([Unit(**DONE)], [Unit(**LISTED)], Files(THERE))
    assert unit.evidence == ("run", "/b/build.ninja")
