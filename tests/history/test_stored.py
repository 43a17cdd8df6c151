"""What a dataset of fixtures is said to hold, as it was said before: ``python -m tests.history.test_stored`` writes it
anew. What is right is tested elsewhere; this says what else a change moved."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from spillscan.history.dataset import compaction, open_dataset
from tests.conftest import FIXTURES
from tests.history.dataset.support import append, command
from tests.reading.test_stored import digest

STORED = FIXTURES / "EXPECTED-history.json"
_RELEASES = ("11.7", "11.8", "12.4", "12.6", "12.9", "13.0", "13.5")
BUILDS = {
    "releases": [(release, (f"ptxas/spill-{release}.log",)) for release in _RELEASES],
    "changes": [
        ("v1", ("demo/base.log", "identity/here-13.0.log")),
        ("v2", ("demo/head.log", "identity/here-13.0.log")),
        ("v3", ("demo/head.log", "identity/there-13.0.log", "identity/spilled-13.0.log")),
        ("v4", ("demo/base.log", "identity/renamed-13.5.log")),
        ("v5", ("demo/base.log", "binary/sass-sm_80-12.3.cubin.zst")),
        ("v6", ("demo/base.log", "binary/sass-sm_80-13.5.cubin.zst")),
    ],
}
CALLS = [
    f"{command} {more}".strip()
    for command, several in {
        "history": ("", "--last 2 --threshold 50 --below 90", "--launch *=256,0 --all"),
        "trend": ("* --arch sm_80 --metric registers --metric spill_bytes --last 3", "* --launch *=512"),
        "top": ("--sort registers --top 3", "--sort lost_blocks --launch *=256,0", "--sort stack_bytes --by family"),
        "bisect": ("* --worse", "* --metric registers --all --launch *=128"),
    }.items()
    for more in several
]


def made(folder: Path) -> dict[str, str]:
    """The datasets, by name."""
    for name, builds in BUILDS.items():
        for number, (label, files) in enumerate(builds):
            place, time = str(folder / name), f"2026-01-{number + 1:02}"
            append(place, label, *(FIXTURES / file for file in files), time=time, commit=f"{number:040x}")
    return {name: str(folder / name) for name in BUILDS}


def said(place: str, call: str) -> list[object]:
    """Exit status, rows of the document's first list, and a digest of it."""
    name, *words = call.split()
    done = command(name, *words, "--config", "none", "--dataset", place, "-f", "json")
    text = done.out.replace(place, "DATASET").replace(str(FIXTURES), "FIXTURES")
    return [done.status, text.count("\n"), digest(text)]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return made(tmp_path_factory.mktemp("stored"))


@pytest.mark.parametrize("call", CALLS)
def test_as_it_was_reported_before(call: str, places: dict[str, str]) -> None:
    stored = json.loads(STORED.read_text())
    assert {name: said(place, call) for name, place in places.items()} == {name: stored[name][call] for name in places}


def test_it_tells_the_same_when_it_is_compacted(places: dict[str, str]) -> None:
    stored = json.loads(STORED.read_text())
    for name, place in places.items():
        compaction.compact(open_dataset(place))
        for call in CALLS[::3]:
            assert said(place, call) == stored[name][call]


def write() -> None:
    """Write the file anew; read its diff."""
    with tempfile.TemporaryDirectory() as folder:
        found = {name: {call: said(place, call) for call in CALLS} for name, place in made(Path(folder)).items()}
    STORED.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    write()
