"""How sources and objects of a build are called: alike in each checkout. A fact a row."""

from __future__ import annotations

from pathlib import Path

import pytest

from spillscan.builds.commands import seen_from_here

CASES = {
    # folder of the list, file in the checkout, what it is called
    "below the folder": ("build", "build/a.o", "build/a.o"),
    "beside the folder, as CMake's sources": ("build", "src/a.cu", "src/a.cu"),
    "above the folder": ("sub/build", "a.cu", "a.cu"),
    "a name that begins with dots": ("build", "..a/a.cu", "..a/a.cu"),
    "the list lies here": ("", "src/a.cu", "src/a.cu"),
    "outside of the checkout": ("build", "../other/a.cu", "{top}/other/a.cu"),
    "a folder called from the root": ("{top}/here/build", "src/a.cu", "{top}/here/src/a.cu"),
    "below that": ("{top}/here/build", "build/a.o", "{top}/here/build/a.o"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_a_file_is_called(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, file, expected = (text.format(top=tmp_path.resolve()) for text in CASES[name])
    here = tmp_path / "here"
    (here / "build").mkdir(parents=True)
    monkeypatch.chdir(here)
    assert seen_from_here(str((here / file).resolve()), folder) == expected
