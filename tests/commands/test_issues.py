"""Issues on standard error: the most severe first, and where there are too many, of each kind as many."""

from __future__ import annotations

import re

import pytest

from spillscan.commands._issues import ISSUES_SHOWN, report_issues
from spillscan.model import Issue


def issues(*words: str) -> list[Issue]:
    """``warning w 3``: three issues of a severity and a code."""
    found = []
    for word in words:
        severity, code, times = word.split()
        found += [Issue(code=code, message=f"{code}{at}", severity=severity) for at in range(int(times))]  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["note n 1", "warning w 1", "error e 1"], "e0 w0 n0"),
        (["warning w 1", "note n 1"], "w0 n0"),
        (["warning w 8"], "w0 w1 w2 w3 w4 w5 w6 w7"),
        (["warning w 9"], "w0 w1 w2 w3 w4 w5 w6 w7 … 1 more issue"),
        (["warning a 7", "warning b 3"], "a0 b0 a1 b1 a2 b2 a3 a4 … 2 more issues"),
        (["note n 9", "warning w 2"], "w0 w1 n0 n1 n2 n3 n4 n5 … 3 more issues"),
    ],
)
def test_which_are_shown(given: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    report_issues(issues(*given))
    lines = capsys.readouterr().err.splitlines()
    assert " ".join(re.findall(r"\w\d(?= \[)|… \d+ more issues?", "\n".join(lines))) == said
    assert len(lines) <= ISSUES_SHOWN + 1
