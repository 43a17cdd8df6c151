"""An append that is killed loses nothing that was finished, and leaves nothing half-written that anybody sees; a file
that is harmed is named, and costs no other build anything."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from spillscan.history.dataset.reading import verify
from tests.history.dataset import killing
from tests.history.dataset.support import BASE, HEAD, append, files, held


@pytest.mark.oracle
def test_killed_appends_lose_nothing_and_are_completed(tmp_path: Path) -> None:
    root = tmp_path / "data"
    # A batch puts three objects: kernels, units, the record. Each is one fsync and one replace.
    assert killing.kill_once(root, 4) == 0, "parts without a record do not count"
    assert killing.kill_once(root, 12) == killing.BATCH, "the second record was on its way"
    killing.complete(root)


@pytest.mark.oracle
def test_each_harmed_file_is_named_and_other_builds_answer_as_before(tmp_path: Path) -> None:
    """Each file, one at a time, is truncated, lost, or has one flipped bit."""
    sound, work, dice = tmp_path / "sound", tmp_path / "work", random.Random(1)
    for label, path in (("v1", BASE), ("v2", BASE), ("v2", HEAD)):
        append(sound, label, path)
    before = held(sound)
    for name, data in files(sound).items():
        at = dice.randrange(len(data))
        for bad in (data[:at], None, data[:at] + bytes([data[at] ^ 1 << dice.randrange(8)]) + data[at + 1 :]):
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(sound, work)
            if bad is None:
                (work / name).unlink()
            else:
                (work / name).write_bytes(bad)
            found = verify(str(work))
            if not found:  # white space of a record; or a lost record, of a batch that then never was
                assert bad is None or held(work) == before, f"{name}: damaged in silence"
                continue
            (fault,) = found
            assert name.startswith(fault.path)
            others = {label: kept for label, kept in before.items() if label not in fault.labels}
            now = held(work)
            assert {label: now[label] for label in others} == others, f"{name}: another build differs"
