"""Limits of containers can be set by option, environment and file; what exceeds one names the option that raises it."""

from __future__ import annotations

import gzip
import io
import zipfile

import pytest

from spillscan.model import Issue
from spillscan.reading.binary import records
from spillscan.reading.binary.window import Limits
from tests.conftest import run
from tests.reading.binary.support import FOLDER, scanned, stored

CUBIN = (FOLDER / "tiny-sm_80-13.5.cubin").read_bytes()


def wrapped(data: bytes, depth: int = 1) -> bytes:
    """``data`` in zip archives inside each other."""
    for _ in range(depth):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(zipfile.ZipInfo("a.cubin"), data, zipfile.ZIP_DEFLATED)
        data = file.getvalue()
    return data


@pytest.mark.parametrize(
    ("limits", "data", "option"),
    [
        (Limits(ratio=0, free_bytes=0), wrapped(CUBIN), "more than 0 times the compressed size of the member"),
        (Limits(member_bytes=0), wrapped(CUBIN), "more than 0 MiB"),
        (Limits(depth=0), wrapped(CUBIN), "nest deeper than 0"),
        (Limits(members=1), wrapped(CUBIN, 2), "more than 1 member"),
        (Limits(members=1), gzip.compress(wrapped(CUBIN)), "more than 1 member"),
    ],
)
def test_each_limit_is_named(limits: Limits, data: bytes, option: str) -> None:
    issues = [item for item in records.items(data, "file", limits) if isinstance(item, Issue)]
    assert len(issues) == 1
    assert option in issues[0].message


@pytest.mark.parametrize("data", [wrapped(CUBIN, 2), gzip.compress(wrapped(CUBIN)), wrapped(CUBIN)])
def test_each_member_counts_once(data: bytes) -> None:
    found = [*records.items(data, "file", Limits(members=2))]
    assert found
    assert not [item for item in found if isinstance(item, Issue)]


def test_a_small_member_may_shrink_a_thousandfold() -> None:
    functions, issues = scanned(wrapped(CUBIN + bytes(16 << 20)))
    assert functions
    assert not issues


def test_damage_is_shown_twenty_times_and_then_counted() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for number in range(500):
            archive.writestr(f"{number}.so", b"\x7fELF" + b"\xff" * 60)
    _, issues = scanned(file.getvalue())
    assert len(issues) == 21
    assert "500 places are damaged; 20 are shown" in issues[-1].message


def test_the_maker_of_a_cubin_is_reported() -> None:
    def maker(data: bytes) -> str:
        return str(scanned(data)[0][-1].stats.maker)

    assert maker((FOLDER / "tiny-lines-sm_80-13.5.cubin").read_bytes()).startswith("ptxas 13.5.37 -lineinfo")
    assert maker(stored("inlined-debug-sm_80-13.5.cubin")).startswith("ptxas 13.5.37 inlined.ptx -g")
    assert maker(stored("launches-linked-sm_90-13.0.cubin")) == "nvlink 13.0.88"  # of which object are the options?
    assert maker(stored("sass-sm_80-12.3.cubin")) == "CUDA 12.3"


def test_show_tells_lines_and_maker() -> None:
    output = run("show", "shallow", FOLDER / "inlined-sm_80-13.5.cubin.zst").stdout.decode()
    assert "compiled by ptxas 13.5.37 -maxrregcount 32 -lineinfo" in output
    assert "inlined.cuh:22, inlined at inlined.cu:7" in output


def test_findings_have_the_place_of_the_source() -> None:
    output = run("check", FOLDER / "inlined-sm_80-13.5.cubin.zst", "-f", "github").stdout.decode()
    assert "inlined.cu,line=28,title=shallow (sm_80) [spill-in-loop]" in output
