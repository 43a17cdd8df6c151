"""What a baseline without registers leaves open, one fact a row: where the user limits growth, a gate cannot pass."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from spillscan.judging.baseline.recording import since
from spillscan.judging.policy import Policy
from spillscan.judging.policy.reading import from_options
from spillscan.model import Kernel
from tests.judging.baseline.support import build, kernel, written

LIMITED = {"max_register_growth": "0"}
TABLE = [
    ("registers were recorded", 48, kernel(registers=100), LIMITED, 0),
    ("none were, and growth is limited", None, kernel(registers=100), LIMITED, 1),
    ("none were, and only the default limits", None, kernel(registers=100), {}, 0),
    ("none were, and the user limits nothing", None, kernel(registers=100), {"max_register_growth": "none"}, 0),
    ("none were, and nothing fails", None, kernel(registers=100), {**LIMITED, "fail_on": "never"}, 0),
    ("none were, and the build has none: a gap of its own", None, kernel(registers=None), LIMITED, 0),
    ("a kernel that is new has nothing to grow from", None, kernel("_Z3newPf", registers=100), LIMITED, 0),
]


@pytest.mark.parametrize(("why", "old", "new", "options", "unheld"), TABLE, ids=[row[0] for row in TABLE])
def test_unrecorded_registers(why: str, old: int | None, new: Kernel, options: dict[str, str], unheld: int) -> None:
    policy = Policy((from_options(options, (), ()),))
    baseline = written(build(kernel(registers=old)), policy=policy)
    assert since(build(new), build(new), baseline, policy, (), ()).unheld == unheld, why
    bare = replace(baseline, entries={key: replace(entry, figures=()) for key, entry in baseline.entries.items()})
    if old is None:
        assert since(build(new), build(new), bare, policy, (), ()).unheld == unheld, why
