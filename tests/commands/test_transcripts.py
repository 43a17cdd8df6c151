"""Output of commands for real inputs and wrong calls; ``python -m tests.commands.test_transcripts`` writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transcripts import replayed

TRANSCRIPTS = sorted(Path(__file__).with_name("transcripts").glob("*.txt"))


@pytest.mark.parametrize("transcript", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(transcript: Path) -> None:
    assert replayed(transcript) == transcript.read_text(encoding="utf-8")


if __name__ == "__main__":
    for path in TRANSCRIPTS:
        path.write_text(replayed(path), encoding="utf-8")
