"""Issues on standard error: the most severe first, and where there are too many, of each kind as many."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from spillscan.commands._footer import acceptance
from spillscan.commands._issues import ISSUES_SHOWN, conclude, report_issues
from spillscan.judging.verdict import Verdict
from spillscan.model import Finding, Gap, Issue, Kernel, KernelKey, Origin, Usage
from spillscan.output.errors import UndecidedError
from tests.conftest import run


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
        (["warning a 5", "warning b 3"], "a0 a1 a2 a3 a4 b0 b1 b2"),
        (["warning w 9"], "w0 w1 w2 w3 w4 w5 w6 w7 … 1 more issue"),
        (["warning a 7", "warning b 3"], "a0 b0 a1 b1 a2 b2 a3 a4 … 2 more issues"),
        (["note n 9", "warning w 2"], "w0 w1 n0 n1 n2 n3 n4 n5 … 3 more issues"),
    ],
)
def test_shown_issues(given: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    report_issues(issues(*given))
    lines = capsys.readouterr().err.splitlines()
    assert " ".join(re.findall(r"\w\d(?= \[)|… \d+ more issues?", "\n".join(lines))) == said
    assert len(lines) <= ISSUES_SHOWN + 1


def kernel(symbol: str) -> Kernel:
    return Kernel(key=KernelKey(symbol=symbol, arch="sm_80"), role="entry", usage=Usage())


def gap(message: str, symbol: str = "", line: int | None = None) -> Gap:
    origin = Origin(input="a.log", line=line, format="ptxas") if line else None
    return Gap(code="cut", message=message, hides=("spills",), origin=origin, kernel=kernel(symbol) if symbol else None)


@pytest.mark.parametrize(
    ("gaps", "said"),
    [
        ([gap("m")], "m [cut]"),
        ([gap("m", line=3), gap("n")], "a.log:3: m [cut], and 1 more gap"),
        ([gap("m", "k"), gap("n", "l")], "k: m [cut], and 1 more gap"),
        ([gap("m", "k"), gap("m", "l"), gap("m"), gap("n", "l")], "2 kernels (k, l): m [cut], and 2 more gaps"),
    ],
)
def test_the_first_gap_is_the_error_and_similar_ones_are_counted(
    gaps: list[Gap], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Verdict(failing=(), gaps=tuple(gaps), accepted=(), oversized=False, fails=True)
    issues = [Issue(code=each.code, message=each.message, origin=each.origin, severity="error") for each in gaps]
    other = Issue(code="cut", message="other", severity="note")
    with pytest.raises(UndecidedError, match=f"^{re.escape(said)}; "):
        conclude(found, [*issues, other])
    assert capsys.readouterr().err == "spillscan: note: other [cut]\n", "what is a gap is not said twice"
    assert conclude(found, shown=True) == 2


@pytest.mark.parametrize(
    ("symbol", "name"), [("_Z4gemmPf", "gemm"), ("k", "k"), ("_ZN2ns4gemmILi8EEEvPf", "ns::gemm<8>")]
)
def test_an_acceptance_names_a_kernel_without_pattern_signs(symbol: str, name: str) -> None:
    found = Finding(rule="spill", severity="error", message="m", kernel=kernel(symbol), fingerprint="f")
    assert acceptance(found) == f'{{rule: "spill", kernel: "{name}", arch: "sm_80", reason: "why"}}'


CUT = "ptxas info    : Compiling entry function 'f' for 'sm_80'\nptxas info    : Function properties for f\n    0 by"


@pytest.mark.parametrize(
    ("options", "out", "err"),
    [((), 1, 0), (("--fail-on", "error"), 1, 0), (("-f", "csv"), 0, 1), (("--by", "arch"), 0, 1)],
)
def test_a_gap_of_a_build_given_twice_is_printed_once(
    options: tuple[str, ...], out: int, err: int, tmp_path: Path
) -> None:
    (tmp_path / "a.log").write_text(CUT)
    done = run("diff", "a.log", "a.log", *options, cwd=tmp_path)
    text = "the ptxas report of f is incomplete"
    assert (done.stdout.decode().count(text), done.stderr.decode().count(text)) == (out, err)
