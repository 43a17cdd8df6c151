"""Machine code on the page of a binary: what to do first, live registers, lines with their source, why a kernel grew.
Source files are read only below the named folder.
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from spillscan.cli import main
from spillscan.reports.page import code
from tests.reading.binary.support import stored
from tests.reporting import payload_of

SOURCE = [f"source line {number} {'=' * 300 if number == 36 else ''}" for number in range(1, 61)]


def payload(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = payload_of(path.read_text("utf-8"))
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A build with lines, and its source in a tree of its own."""
    (tmp_path / "new.cubin").write_bytes(stored("lines-sm_80-13.5.cubin"))
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "sass.cu").write_text("\n".join(SOURCE))
    return tmp_path


def page(folder: Path, *words: str) -> dict[str, Any]:
    assert main([*words, "-f", f"html:{folder / 'page.html'}"]) in (0, 1)
    return payload(folder / "page.html")


def test_first_fixes_and_live_registers(folder: Path) -> None:
    found = page(folder, "check", str(folder / "new.cubin"), "--source-root", str(folder / "tree"))
    first = found["first"][0]
    assert (first["name"], first["about"], first["kernel"]) == ("array_and_spills", "found", 0)
    assert first["facts"][0][1].endswith("sass.cu:37 6%")
    assert first["facts"][-1][0] == "next"
    held = found["code"]["0"]
    assert held["peak"] <= held["allocated"] == held["limit"] == 32 < held["demand"]
    assert max(held["curve"]) == held["peak"] == held["curve"][held["at"] // held["unit"]]
    assert held["relief"].startswith("try: __maxnreg__(48)")
    assert held["advice"]["sass.cu:36"][0][0] == 44
    listed = held["code"]
    assert listed["more"] == 0
    assert {len(listed[name]) * 16 for name in ("op", "live", "depth", "place", "kind", "slot")} == {held["bytes"]}
    row = listed["kind"].index("S")
    assert listed["text"][listed["op"][row]] == "STL [R1+0x40], R16"
    assert listed["slots"][listed["slot"][row]] == "R1+0x40"
    assert (
        max(depth or 0 for depth, kind in zip(listed["depth"], listed["kind"], strict=True) if kind in ("s", "S")) == 1
    )
    ((name, lines),) = listed["files"]
    shares = {line: share for line, share, _ in lines}
    assert (name, max(shares, key=shares.get)) == ("sass.cu", 36)
    assert shares[36] > 0.8
    assert [text.split("=")[0].strip() for *_, text in lines] == [f"source line {line}" for line in shares]
    assert max(len(text) for *_, text in lines) <= 160
    assert [[0, 36]] in listed["places"]
    assert found["explained"]["spill"][0] == "The kernel spills registers to local memory"


def test_lines_around_code_end_with_the_file() -> None:
    assert [*code._file({2: 1.0}, ["one", "two", "three"])] == [[1, 0.0, "one"], [2, 1.0, "two"], [3, 0.0, "three"]]


def test_no_source_is_read_that_was_not_asked_for(folder: Path) -> None:
    def lines(*words: str) -> list[str]:
        held = page(folder, "scan", str(folder / "new.cubin"), *words)["code"]
        found = [line for made in held.values() for _, lines in made["code"]["files"] for *_, line in lines]
        return [line for line in found if line is not None]

    assert lines() == []
    assert lines("--source-root", str(folder / "tree"))
    (folder / "outside.cu").write_text("\n".join(SOURCE))
    (folder / "tree" / "sass.cu").unlink()
    (folder / "tree" / "sass.cu").symlink_to(folder / "outside.cu")
    assert lines("--source-root", str(folder / "tree")) == [], "a link leads out of the folder"
    assert main(["scan", str(folder / "new.cubin"), "--source-root", str(folder / "nowhere")]) == 2


def test_why_a_kernel_grew(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for side, release in (("old", "12.8"), ("new", "13.5")):
        (tmp_path / side).write_bytes(stored(f"sass-sm_120-{release}.cubin"))
    call = ("diff", str(tmp_path / "old"), str(tmp_path / "new"))
    (lines,) = page(tmp_path, *call)["why"].values()
    assert "CUDA 12.8.93 → 13.5.37" in lines
    assert lines[-1].startswith("unknown: ")
    capsys.readouterr()
    main([*call, "-f", "markdown"])
    output = capsys.readouterr().out
    assert re.search(r"<summary>causes</summary>\n\n- `\w+` `sm_120`\n  - ", output)
    assert "CUDA 12.8.93 → 13.5.37" in output


def test_the_cause_is_read_off_the_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.cubin").write_bytes(stored("bounds-13.5.cubin"))
    main(["check", str(tmp_path / "k.cubin"), "-f", "markdown"])
    assert "cause: launch bounds of 1,024 threads limit it to 64 registers" in capsys.readouterr().out


def test_room_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "CODE_BYTES", 500)
    held = page(folder, "scan", str(folder / "new.cubin"))["code"]
    assert len(held) == 3
    assert not any(name in made for made in held.values() for name in ("code", "advice"))
    assert sum(len(json.dumps(made)) for made in held.values()) < 10_000
    monkeypatch.undo()
    monkeypatch.setattr(code, "INSTRUCTIONS", 10)
    first = page(folder, "scan", str(folder / "new.cubin"))["code"]["0"]
    assert len(first["code"]["live"]) == 10
    assert first["code"]["more"] == first["bytes"] // 16 - 10


def test_code_without_text_has_mnemonics(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code, "_readable", lambda text: None)
    listed = page(folder, "scan", str(folder / "new.cubin"))["code"]["0"]["code"]
    assert listed["text"][listed["op"][listed["kind"].index("S")]] == "STL"


def test_a_binary_that_is_gone_is_no_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = folder / "old.json"
    assert main(["scan", str(folder / "new.cubin"), "-f", f"json:{snapshot}"]) == 0
    held = page(folder, "scan", str(snapshot))
    assert held["code"]["0"]["peak"] == 30, "a snapshot whose binary is still there"
    (folder / "new.cubin").write_bytes(stored("sass-sm_80-12.3.cubin"))
    assert page(folder, "scan", str(snapshot)).get("code", {}) == {}, "it was built anew"
    (folder / "new.cubin").unlink()
    (folder / "other.cubin").write_bytes(stored("sass-sm_80-13.5.cubin"))
    assert "code" not in page(folder, "scan", str(snapshot))
    assert main(["diff", str(snapshot), str(folder / "other.cubin"), "-f", "markdown"]) in (0, 1)
    assert main(["advise", str(snapshot)]) == 0
    assert "cannot read" not in capsys.readouterr().err


def test_standard_input_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (folder / "new.cubin").open("rb") as stream:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))
        assert main(["scan", "-", "-f", f"html:{folder / 'page.html'}"]) == 0
    assert "code" not in payload(folder / "page.html")


def test_show_prints_source_and_code_at_spills(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("show", "array_and_spills", str(folder / "new.cubin"), "--arch", "sm_80", "--top", "0", "--with", "source")
    assert main([*words, "--source-root", str(folder / "tree")]) == 0
    output = capsys.readouterr().out
    _, _, listing = output.partition("code near spills")
    assert "  sass.cu:36  source line 36 ====" in listing
    assert re.search(r"0x08b0 +1 +30  STL \[R1\+0x88\], R13 +spill store R1\+0x88\n", listing)
    counted = sum(int(number.replace(",", "")) for number in re.findall(r"… ([\d,]+) instruction", listing))
    assert counted + len(re.findall(r"^ +0x[0-9a-f]{4} ", listing, re.M)) == 304, "what is folded is counted"
