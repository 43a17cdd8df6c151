"""Damaged and pasted logs: what is certain is right, what is missing is a gap, and what can be read is read."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from spillscan.cli import main
from spillscan.model import Reading
from tests.conftest import read_log, sized
from tests.oracle.attacks import logs as attacks

ENTRY = "ptxas info    : Compiling entry function 'spills' for 'sm_80'\n"
NAME = "ptxas info    : Function properties for spills\n"
STACK = "    520 bytes stack frame, 780 bytes spill stores, 820 bytes spill loads\n"
USED = "ptxas info    : Used 40 registers, 376 bytes cmem[0]\n"
BLOCK = ENTRY + NAME + STACK + USED
WARNING = (
    "ptxas warning : Registers are spilled to local memory in function 'spills', 780 bytes spill stores, "
    "820 bytes spill loads\n"
)


def hidden(reading: Reading) -> set[str]:
    return {each for issue in reading.issues for each in issue.hidden}


@pytest.mark.parametrize("case", range(sized(15, 60)))
def test_no_damage_passes_unseen(case: int) -> None:
    """A slice of ``python -m tests.oracle.attack_oracle``."""
    assert not attacks.attack(Random(f"slice/{case}")).failures


@pytest.mark.parametrize(
    "text",
    [
        BLOCK.replace("info    :", "info\t:"),
        BLOCK.replace("info    :", "info\u00a0\u00a0\u00a0\u00a0:"),
        BLOCK.replace("\n", "  \n"),
        BLOCK.replace("    520", "520"),
        BLOCK.replace("'", "\u2019"),
        BLOCK.replace("'", "&#39;"),
        BLOCK.replace("ptxas info    :", "ptxas : info :"),
        BLOCK.replace("\n", "<br />\n"),
        "".join(f"`{line}`\n" for line in BLOCK.splitlines()),
        *(
            "".join(f"{before}{line}{after}\n" for line in BLOCK.splitlines())
            for before, after in (
                ("**", "**"),
                ('"', '"'),
                ("  '", "',"),
                ("<p>", "</p>"),
                ("<tr><td class='out'>", "</td></tr>"),
                ('<div id="L1"> <span>', "</span><br/></div>"),
            )
        ),
        json.dumps({"text": BLOCK.splitlines(keepends=True)}, indent=1) + "\n",
        f"<html><body><pre><code>{BLOCK.rstrip()}</code></pre></body></html>\n",
        "".join(f"\x1b_bk;t=1700000000000\x07{line}\n" for line in BLOCK.splitlines()),
    ],
)
def test_pasted_lines_are_read(text: str) -> None:
    reading = read_log(text)
    (kernel,) = reading.kernels
    assert (kernel.key.symbol, kernel.key.arch) == ("spills", "sm_80")
    assert (kernel.usage.registers, kernel.usage.spills) == (40, (780, 820))
    assert kernel.confidence == "certain"
    assert not hidden(reading)


@pytest.mark.parametrize(
    "text", ["entry function 'spills'", "properties for spills", "376 bytes cmem[0]", "registers, 376"]
)
def test_a_wrapped_line_is_a_gap(text: str) -> None:
    assert hidden(read_log(BLOCK.replace(text, text.replace(" ", "\n", 1)))), "as mail programs and terminals wrap"


def test_a_log_that_ends_before_a_compile_time(log: str) -> None:
    """Every registers line has one there; without it nothing shows that another kernel does not follow."""
    assert not hidden(read_log(log))
    assert "kernels" in hidden(read_log(log[: log.rindex("ptxas info    : Compile time")]))


def test_a_report_in_one_line_is_not_called_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "paste.txt").write_text(BLOCK.replace("\n", " ") + "\n")
    assert main(["check", str(tmp_path / "paste.txt")]) == 2
    output = capsys.readouterr().err
    assert "incomplete line" in output
    assert "no ptxas" not in output


def test_an_entry_line_without_arch() -> None:
    (kernel,) = read_log(BLOCK.replace(" for 'sm_80'", "")).kernels
    assert (kernel.key.arch, kernel.usage.registers, kernel.confidence) == (None, 40, "certain")


@pytest.mark.parametrize(
    ("text", "hides"),
    [
        (STACK + USED + BLOCK.replace("spills'", "b'").replace("for spills", "for b"), "spills"),
        (USED + BLOCK, "registers"),
        (ENTRY + NAME + STACK, "registers"),
        (ENTRY + NAME + USED, "registers"),
        ((NAME + STACK).replace("ptxas info", "info"), "kernels"),
        (ENTRY + USED + BLOCK.replace("spills'", "b'").replace("for spills", "for b"), "spills"),
        (WARNING[:60] + "\n" + BLOCK.replace("780", "0").replace("820", "0"), "spills"),
        (BLOCK + ENTRY[:40], "kernels"),
        (ENTRY + NAME + STACK + USED[:40] + "\n", "registers"),
        (ENTRY + NAME + "  4_intsILi6EEvPiS0_i\n" + STACK + USED, "spills"),
        ("ptxas info    : Compile time = 1.0 ms\n" + BLOCK, "spills"),
        (2 * (BLOCK + "ptxas info    : Compile time = 1.0 ms\n") + "ptxas info    : Compile time = 1.0 ms\n", "spills"),
        (BLOCK + "ptxas\n" + BLOCK, "spills"),
        (BLOCK.replace("376 bytes", "464 bytes cumulat, 544 bytes"), "registers"),
    ],
)
def test_missing_lines_are_a_gap(text: str, hides: str) -> None:
    assert hides in hidden(read_log(text))


def test_registers_of_a_lost_kernel_are_not_anothers() -> None:
    """``Used …`` and the next ``Compiling entry`` are gone: the name on the properties shows it."""
    other = BLOCK.replace("'spills'", "'other'").replace("for spills", "for other").replace("40", "255")
    text = BLOCK.replace(USED, "") + other.partition("\n")[2]
    assert all(kernel.usage.registers is None or kernel.confidence != "certain" for kernel in read_log(text).kernels)


def test_a_message_mentions_interleaving_only_if_there_is_some() -> None:
    (issue,) = [issue for issue in read_log(USED + BLOCK).issues if issue.code == "unnamed-kernel"]
    assert "Used 40 registers" in issue.message
    assert "ninja" not in issue.message


REMNANTS = (
    *("ptxas ms", "ptxas inf 0 barriers", "ptxas iine'", "ptxas i14 registers", "ptxas  cmem[0]"),
    *("ptxas info    make: Entering directory '/opt'", "ptxasmake: Entering directory '/opt'", "ptxas warning make: x"),
    *(
        "ptxas info    : Comze",
        "ptxas info    : ers",
        "ptxas info    : 0 barriers",
        "ptxas info    : Commake: Entering x",
    ),
    *("ptxas info    : Overriding maximum r loads", "ptinfo    : Compiling entry function 'b' for 'sm_80'"),
    "ptxas x.ptx, line 15; warning : .minnctapersm is igUsed 8 registers, 360 bytes cmem[0]",
    "ptxas x.ptx, line 15; warning : Instruction 'vote' is deprecatednfo    : Used 6 registers, 328 bytes cmem[0]",
    "ptxas x.ptx, line 15; warning : Program is doing doninja: Entering directory",
    "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to detninja: Entering directory",
    "ptxas warning : Local memory used for function 'local_and_spinction 'local_f64', size of stack frame: 128 bytes",
    "ptxas warning : Use of module scoped .local or .reg variable 'mod variable 'module_local' found, disabling ABI",
    *(
        "ptxas warning : Stack size for annot be statically determined",
        "ptxas warning : ninja: Entering directory 'build'",
    ),
    *(
        "ptxas info    : Usedads",
        "ptxas k.ptx,ninja: Entering directory 'build'",
        "ptxatxas info    : Used 8 registers",
    ),
    "ptxas x.ptx, line 15; warning : Instruction 'vote' without '.sync' is deprecated since PTX ISA version 6.0 and wi",
)
"""Remains of lines between which bytes are lost."""


@pytest.mark.parametrize("line", REMNANTS)
def test_remains_of_two_lines_are_seen(line: str) -> None:
    found = read_log(f"{BLOCK}{line}\n{BLOCK}")
    assert hidden(found) >= {"spills", "registers"}
    assert len(found.kernels) == 2


@pytest.mark.parametrize(
    "line", ["es spill loads", "10 registers", "iers", "24 bytes cmem[0], 8 bytes cmem[2]", "in function 'spills'"]
)
def test_remains_inside_a_kernel_are_seen(line: str) -> None:
    assert "registers" in hidden(read_log(BLOCK + ENTRY + NAME + STACK + line + "\n" + USED))


@pytest.mark.parametrize(
    "line",
    [
        *("ptxas -arch=sm_80 x.ptx -o x.cubin", "ptxas version: 12.4", "-- ptxas found: /opt/cuda/bin/ptxas"),
        *("ptxas info    : (C7600) Something new", "ptxas warning : Something new", "the ptxas options are -v"),
        *(
            "ptxasOptions =",
            "ptxasOptions = ",
            "#$ ptxasOptions =",
            "  ptxasOptions =",
            "ptxasOptions=",
            "ptxas options =",
        ),
    ],
)
def test_other_text_hides_nothing(line: str) -> None:
    assert hidden(read_log(f"{line}\n{BLOCK}{line}\n{BLOCK}")) == set()


def test_a_log_that_ends_with_a_field_of_fat_binaries_is_whole() -> None:
    assert hidden(read_log(f"{BLOCK}ptxasOptions =")) == set()


def test_a_line_of_a_report_that_no_rule_describes_may_be_a_value() -> None:
    assert "spills" in hidden(read_log(f"{BLOCK}ptxas info    : Something new and so far unknown\n"))


@pytest.mark.parametrize(
    "line",
    ["nable_smem_spilling' unsupported", "on 'f', size of stack frame: 1048 bytes", "ction 'wgmma_many_registers'"],
)
def test_a_log_begins_inside_a_message(line: str) -> None:
    assert "kernels" in hidden(read_log(f"{line}\n{BLOCK}"))


@pytest.mark.parametrize("before", ["", "a\nb\n"])
def test_a_line_without_its_tool_is_a_gap(before: str) -> None:
    (issue,) = read_log(f"{before} registers, used 0 barriers\n{BLOCK}").issues
    assert issue.message == "incomplete line of a report: registers, used 0 barriers"
    assert "kernels" in issue.hidden


def test_text_between_nvlinks_lines_shows_lost_lines() -> None:
    used = "nvlink info    : used 10 registers, used 1 barriers, 0 stack, 0 bytes smem, 0 bytes lmem\n"
    text = "nvlink info    : Function properties for 'f':\n"
    assert "registers" not in hidden(read_log(f"{BLOCK}{text}{used}"))
    assert "registers" in hidden(read_log(f"{BLOCK}{text}nv':\n{used}"))


def test_a_log_begins_inside_a_tool_s_name() -> None:
    """Libraries name no tool in any of their lines."""
    bare = BLOCK.replace("ptxas info", "info")
    assert "kernels" in hidden(read_log(bare.partition("\n")[0] + "\n" + BLOCK.partition("\n")[2]))
    assert hidden(read_log(bare)) == set()


@pytest.mark.parametrize(
    "clause",
    [
        *("gisters", "1048 bytes arriers", "1 tThe Meson build system", "0 bs", "16384 bytes smck size"),
        *("used 1 barrier", " 0 bytes gmem"),
    ],
)
def test_a_clause_of_pieces_is_a_cut_one(clause: str) -> None:
    used = f"{USED.rstrip()}, {clause}\n"
    assert "registers" in hidden(read_log(BLOCK.replace(USED, used)))


def test_a_comparison_of_two_logs_is_none_of_them() -> None:
    text = BLOCK.replace(USED, f"-{USED}+{USED.replace('40', '42')}")
    assert all(kernel.confidence != "certain" for kernel in read_log(text).kernels)
    assert "registers" in hidden(read_log(text))


def test_a_line_without_end_may_lack_clauses() -> None:
    (kernel,) = read_log(BLOCK.rstrip()).kernels
    assert (kernel.usage.registers, kernel.confidence) == (40, "ambiguous")
