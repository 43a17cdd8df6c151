"""The launcher takes out the lines of figures as the grammars know them, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lark.exceptions import UnexpectedInput

from spillscan.builds.launcher import REPORT
from spillscan.reading import grammar
from tests.conftest import FIXTURES, read_text

LOGS = sorted(
    path for folder in ("ptxas", "nvcc", "nvlink", "library", "demo") for path in (FIXTURES / folder).rglob("*.log")
)


def passed(data: bytes) -> bytes:
    return REPORT.sub(b"", data)


def is_resource_line(line: str) -> bool:
    """Whether Lark parses one line as part of a report."""
    for name in ("ptxas", "nvlink"):
        try:
            grammar.load(name).parse(line, start="resource_line")
        except UnexpectedInput:
            continue
        return True
    return False


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_every_line_is_classified_as_by_lark(path: Path) -> None:
    lines = [line for line in dict.fromkeys(read_text(path).splitlines()) if re.match(r"ptxas|nvlink| {4}\d", line)]
    wrong = [line for line in lines[:400] if (passed(f"{line}\n".encode()) == b"") != is_resource_line(line)]
    assert not wrong


def test_warnings_advisories_and_errors_pass(log: str) -> None:
    kept = [
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to x",
        "ptxas warning : Registers are spilled to local memory in function 'k', 8 bytes spill stores",
        "ptxas fatal   : Ptx assembly aborted due to errors",
        "gemm.cu(12): warning #177-D: variable was declared but never referenced",
    ]
    text = "\n".join([kept[0], log.strip(), *kept[1:], ""])
    assert passed(text.encode()).decode().splitlines() == kept
