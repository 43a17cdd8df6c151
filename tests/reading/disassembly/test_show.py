"""The spill map on the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from spillscan.cli import main
from tests.reading.disassembly.support import FIXTURES


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["show", *words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", ["nvdisasm-gi-sm_80-13.5.sass", "cuobjdump-sm_80-13.5.sass.zst"])
def test_a_kernel(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "*", str(FIXTURES / name))
    assert "spills:" in text
    assert "classified by" in text
    assert "R1+0x" in text
    assert ("by cost" in text) == ("-gi-" in name)


def test_an_arch_and_a_part_of_the_name(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(next(FIXTURES.glob("fatbin-*.sass")))
    everything = shown(capsys, "*", path)
    arch = everything.split("  ")[1]
    assert 0 < len(shown(capsys, "*", path, "--arch", arch)) < len(everything)


def test_few_slots(capsys: pytest.CaptureFixture[str]) -> None:
    cut = shown(capsys, "*", str(FIXTURES / "nvdisasm-gi-sm_80-13.5.sass"), "--top", "1")
    assert "more slots" in cut
    assert "… 4 more lines" in cut


@pytest.mark.parametrize("words", [["nothing_of_this_name", "DUMP"], ["*", "missing.sass"]])
def test_nothing_to_show(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    path = str(FIXTURES / "nvdisasm-gi-sm_80-13.5.sass")
    assert main(["show", *(path if word == "DUMP" else word for word in words)]) == 2
    assert capsys.readouterr().err.startswith("spillscan: ")


def test_no_disassembly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "build.log").write_text("ptxas info    : 0 bytes gmem\n")
    assert main(["show", "*", str(tmp_path / "build.log")]) == 2
    assert "no machine code in " in capsys.readouterr().err


def test_names_cannot_act(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.sass").write_bytes(
        b"\tcode for sm_80\n\t\tFunction : \x1b[31mred\n"
        b"        /*0000*/                   NOP ;      /* 0x0000000000007918 */\n"
        b"                                              /* 0x000fc00000000000 */\n\t\t..........\n"
    )
    assert "\x1b" not in shown(capsys, "*red*", str(tmp_path / "x.sass"))


def test_folders_and_names_as_tables_have_them_the_worst_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("nvdisasm-gi-sm_80-13.5.sass", "nvdisasm-gi-sm_120-13.5.sass"):
        (tmp_path / name).write_bytes((FIXTURES / name).read_bytes())
    assert main(["scan", str(tmp_path), "--all", "--by", "kernel"]) == 0
    table = capsys.readouterr().out.splitlines()
    names = [line.split("  ")[0].strip() for line in table if "  sm_" in line]
    assert "spills_wide" in names
    for name in set(names):
        heads = [line for line in shown(capsys, name, str(tmp_path)).splitlines() if line[:1] not in ("", " ")]
        assert {head.split("  ")[0] for head in heads} == {name}
        assert {head.split("  ")[1] for head in heads} == {"sm_80", "sm_120"}
    heads = [line for line in shown(capsys, "*", str(tmp_path)).splitlines() if line[:1] not in ("", " ")]
    assert len(heads) == len(names)
    small = [at for at, head in enumerate(heads) if "no local memory" in head]
    assert small
    assert "array_and_spills" in heads[0]
    assert not any("spills" in head for head in heads[small[0] :])
