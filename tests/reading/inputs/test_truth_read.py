"""Which inputs count as read, so that what they hold speaks for their units: all but those that could not be read."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from spillscan import scan
from spillscan.builds import account
from tests.conftest import FIXTURES

LOG = (FIXTURES / "demo" / "base.log").read_bytes()
CUT = gzip.compress(LOG)[:40]


@pytest.mark.parametrize(
    ("files", "read"),
    [
        ({"a.log": LOG}, {"a.log"}),
        ({"a.log": LOG, "b.log": LOG}, {"a.log", "b.log"}),
        ({"a.log": LOG, "cut.o": CUT}, {"a.log"}),
        ({"a.log": LOG, "cut.o": CUT, "also.o": CUT}, {"a.log"}),
        ({"a.log": LOG, "empty.o": b""}, {"a.log", "empty.o"}),
    ],
)
def test_an_input_that_could_not_be_read_speaks_for_no_unit(
    files: dict[str, bytes], read: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[str]] = []
    original = account.of_build

    def of_build(paths: Iterable[str], seen_units: Sequence[Any], known: Iterable[str]) -> Any:
        seen.append({Path(each).name for each in known})
        return original(paths, seen_units, known)

    monkeypatch.setattr(account, "of_build", of_build)
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    build = scan(tmp_path)
    assert seen == [read]
    assert {Path(str(issue.origin)).name for issue in build.issues if issue.code == "unreadable"} == {*files} - read


def test_what_takes_longer_is_read_where_it_is_asked_for() -> None:
    dump = FIXTURES / "sass" / "cuobjdump-sm_100a-12.8.sass.zst"
    for asked in ({}, {"operands": True}):
        found = [each.sass.operands for each in scan(dump, **asked).kernels if each.sass]
        assert found
        assert all((each is not None) is bool(asked) for each in found)
