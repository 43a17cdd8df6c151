"""What the filter takes out are the grammar's figures lines, and nothing else, however the stream is cut."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lark.exceptions import UnexpectedInput

from spillscan.builds.launcher import (
    EXPRESSION,
    Filter,
    figures_lines,
)
from spillscan.reading import grammar
from spillscan.reading.logs.steps import split_prefix
from tests.conftest import FIXTURES, read_text

LOGS = sorted(
    path
    for folder in ("ptxas", "nvcc", "nvlink", "library", "build", "demo")
    for path in (FIXTURES / folder).rglob("*.log")
)
PREFIXES = ("", "2024-05-01T12:34:56.7890123Z ", "#12 118.5 ", "     1>", "  ")


def passed(data: bytes) -> bytes:
    lines = Filter()
    return lines.feed(data) + lines.flush()


def is_figures(line: str) -> bool:
    """What a full parse by Lark says of one line."""
    for candidate in (line, split_prefix(line)[1]):
        for name in ("ptxas", "nvlink"):
            try:
                grammar.load(name).parse(candidate, start="figures_line")
            except UnexpectedInput:
                continue
            return True
    return False


def expression() -> bytes:
    """A regular expression for one whole line of figures of ptxas or nvlink, after any prefix that CI services add."""
    prefix, ptxas, nvlink = (
        re.sub(rb"\(\?P<\w+>", b"(?:", grammar.pattern(name, rule).pattern)
        for name, rule in (("prefix", "prefix"), ("ptxas", "figures_line"), ("nvlink", "figures_line"))
    )
    return rb"^%s(?:%s|%s)\r?\n" % (prefix, ptxas, nvlink)


def test_the_expression_is_the_grammars() -> None:
    assert Path(EXPRESSION).read_bytes() == expression()


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_every_line_is_judged_as_lark_judges_it(path: Path) -> None:
    text = read_text(path)
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    lines = [line for line in dict.fromkeys(text.splitlines()) if line.strip() and not re.search(r"[\r\x1b]", line)]
    wrong = [line for line in lines[:400] if (passed(f"{line}\n".encode()) == b"") != is_figures(line)]
    assert not wrong


@pytest.mark.parametrize("prefix", PREFIXES)
def test_what_ci_services_put_before_a_line_is_no_hiding_place(prefix: str) -> None:
    figures = f"{prefix}ptxas info    : Used 40 registers, used 1 barriers\n"
    warning = f"{prefix}ptxas warning : Value of threads per SM for entry k is out of range. .minnctapersm ignored\n"
    assert passed((figures + warning).encode()) == warning.encode()


def test_warnings_advisories_and_errors_pass(log: str) -> None:
    kept = [
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to x",
        "ptxas warning : Registers are spilled to local memory in function 'k', 8 bytes spill stores",
        "ptxas fatal   : Ptx assembly aborted due to errors",
        "gemm.cu(12): warning #177-D: variable was declared but never referenced",
    ]
    text = "\n".join([kept[0], log.strip(), *kept[1:], ""])
    assert passed(text.encode()).decode().splitlines() == kept


@given(st.data())
def test_cuts_do_not_matter(data: st.DataObject) -> None:
    text = read_text(FIXTURES / "nvcc" / LOGS_OF_NVCC[0].name).encode()[:6000]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    lines = Filter()
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert b"".join(lines.feed(piece) for piece in pieces) + lines.flush() == passed(text)


@given(st.binary(max_size=300))
def test_nothing_else_is_lost(noise: bytes) -> None:
    assert passed(noise) == figures_lines().sub(b"", noise)


def test_a_prompt_is_passed_on_and_so_is_the_rest_of_its_line() -> None:
    lines = Filter()
    assert lines.feed(b"Proceed? ") == b""
    assert lines.holds
    assert lines.flush() == b"Proceed? "
    assert (
        lines.feed(b"ptxas info    : 0 bytes gmem\nptxas info    : 0 bytes gmem\n") == b"ptxas info    : 0 bytes gmem\n"
    )
    assert lines.figures


def test_a_line_without_end_is_not_hoarded() -> None:
    lines = Filter()
    assert sum(len(lines.feed(b"x" * (1 << 16))) for _ in range(40)) > 2_000_000


LOGS_OF_NVCC = [path for path in LOGS if path.parent.name == "nvcc"]


if __name__ == "__main__":
    Path(EXPRESSION).write_bytes(expression())
