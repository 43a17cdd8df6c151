"""A command that an output offers works word by word, in the folder in which it was printed."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from spillscan import scan
from spillscan.builds import RUN_FILE
from spillscan.commands._offers import source_in, source_of
from spillscan.model.local import SourceLine
from tests.builds.made import call, run_file
from tests.conftest import FIXTURES, ROOT, run, sized
from tests.reporting import payload_of

HEAD = FIXTURES / "demo" / "head.log"
EFFECTS = FIXTURES / "effects" / "base.log"
OFFERED = re.compile(r"`(spillscan [^`]+)`")
CHOSEN = {"RULE": "spill", "GAP": "torn-line", "COMMAND": "check", "BUILD": "'build log.txt'"}
"""Replacement of a placeholder by the reader."""
NAMES = ("spillscan run", "spillscan profile --launches")
"""Commands that are only named: they begin what is the user's own, or read a profile."""


def spillscan(folder: Path, line: str) -> tuple[int, str]:
    done = run(*shlex.split(line)[1:], cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)})
    return done.returncode, (done.stdout + done.stderr).decode()


def nothing(folder: Path) -> None:
    """A folder with a log, whose name a shell splits."""


def recorded(edit: Callable[[str], str], policy: str = "") -> Callable[[Path], None]:
    """A baseline, and a log since."""

    def prepare(folder: Path) -> None:
        shutil.copy(EFFECTS, folder / "build log.txt")
        assert spillscan(folder, "spillscan baseline write 'build log.txt'")[0] == 0
        (folder / "build log.txt").write_text(edit(EFFECTS.read_text()))
        (folder / "spillscan.yaml").write_text(policy or "version: 1\nbaseline: spillscan-baseline.jsonl\n")

    return prepare


def dataset(folder: Path) -> None:
    assert spillscan(folder, f"spillscan history audit {shlex.quote(str(HEAD))} --dataset data --label a")[0] == 0
    part = next((folder / "data").rglob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-100])


CHECK = "spillscan check 'build log.txt'"


@pytest.mark.parametrize(
    ("prepare", "printed", "offers"),
    [
        (recorded(lambda text: text.replace("'sums'", "'sums2'").replace("for sums", "for sums2")), CHECK,
         ["spillscan baseline write 'build log.txt'", "spillscan baseline prune 'build log.txt'"]),
        (recorded(lambda text: text.replace("Used 32", "Used 31"), "version: 1\n"),
         f"{CHECK} --baseline spillscan-baseline.jsonl --arch sm_90", []),
        (recorded(lambda text: text + text.replace("sm_90", "sm_120"), "version: 1\n"),
         f"{CHECK} --baseline spillscan-baseline.jsonl --config spillscan.yaml",
         ["spillscan baseline write 'build log.txt' -o spillscan-baseline.jsonl --config spillscan.yaml"]),
        (recorded(lambda text: "".join(text.replace("relax", f"rela{x}") for x in "abcdefg")),
         f"{CHECK} --kernel gemmm", ["spillscan scan --all 'build log.txt'"]),
        (nothing, "spillscan occupancy 'build log.txt' --device H10", ["spillscan explain devices"]),
        (nothing, "spillscan check 'build log.txt' --baseline none.jsonl",
         ["spillscan baseline write 'build log.txt' -o none.jsonl"]),
    ],
)  # fmt: skip
def test_offered_commands_work(
    prepare: Callable[[Path], None], printed: str, offers: list[str], tmp_path: Path
) -> None:
    shutil.copy(HEAD, tmp_path / "build log.txt")
    prepare(tmp_path)
    _, said = spillscan(tmp_path, printed)
    found = [each for each in dict.fromkeys(OFFERED.findall(said)) if not each.startswith(NAMES)]
    assert set(offers) <= set(found), said
    for each in found:
        status, answer = spillscan(tmp_path, re.sub(r"\b[A-Z]{4,}\b", lambda word: CHOSEN[word[0]], each))
        assert "usage:" not in answer, answer
        assert status in (0, 1) or "moved away" in answer, (each, answer)


FORMS = ("text", "markdown", "github", "sarif", "html")


def test_a_red_check_shows_one_way_on_in_each_form(tmp_path: Path) -> None:
    """Cause, fix and command come from one place, and the command works where it is printed."""
    shutil.copy(HEAD, tmp_path / "build log.txt")
    status, said = spillscan(tmp_path, CHECK + "".join(f" -f {form}:{form}" for form in FORMS))
    assert status == 1
    fix, command = re.findall(r"^  (?:try|next) +(.*)", (tmp_path / "text").read_text(), re.M)
    assert spillscan(tmp_path, command)[0] == 0, said
    run_of = json.loads((tmp_path / "sarif").read_text())["runs"][0]
    help_here = [rule["help"] for rule in run_of["tool"]["driver"]["rules"]]
    forms = {form: (tmp_path / form).read_text() for form in FORMS[:3]}
    forms["sarif"], forms["markdown of sarif"] = (
        "\n".join(each[key] for each in help_here) for key in ("text", "markdown")
    )
    forms["html"] = payload_of((tmp_path / "html").read_text())["first"][0]["facts"][-1][1]
    for form, text in forms.items():
        assert text.replace("%0A", "\n").count(command) == 1, form
        assert "in place of launch bounds" in fix
        assert "in place of launch bounds" in text or form == "html", form


@pytest.mark.parametrize("inputs", ["out lib/a.log", "out lib", "lib out/other.log"])
def test_a_trial_gets_the_input_that_leads_to_the_command(inputs: str, tmp_path: Path) -> None:
    (tmp_path / "a.cu").touch()
    for folder, name in (("lib", "a.log"), ("out", "other.log")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_text(HEAD.read_text().replace("gemm", "gemm" if name == "a.log" else "mmeg"))
    known = call(tmp_path, ["nvcc", "-c", "a.cu", "-o", "lib/a.log"], sources=("a.cu",), wrote=("lib/a.log",))
    run_file(tmp_path / "out" / RUN_FILE, known)
    said = spillscan(tmp_path, f"spillscan check {inputs}")[1]
    assert f"next   spillscan advise {inputs} --kernel" in said
    said = spillscan(tmp_path, f"spillscan check {inputs} --launch 'softmax*=512' --set min_blocks_per_sm=9")[1]
    assert "next   spillscan occupancy " in said, "no sweep of registers: the block size is the limiter"


def test_the_kernel_around_a_function_is_named(tmp_path: Path) -> None:
    shutil.copy(FIXTURES / "binary" / "callees-13.5.cubin.zst", tmp_path / "k.cubin.zst")
    said = spillscan(tmp_path, "spillscan show recursive k.cubin.zst --with source")[1]
    assert "its machine code is part of calls_itself; show that kernel instead" in said
    assert "needs a binary with code for" not in spillscan(tmp_path, "spillscan show '*' k.cubin.zst --with source")[1]
    log = str(FIXTURES / "ptxas" / "callees-13.5.log")
    for inputs in ([log, str(tmp_path / "k.cubin.zst")], [str(tmp_path / "k.cubin.zst")]):
        (found,) = (each for each in scan(inputs).kernels if "recursive" in each.key.symbol)
        assert found.caller == "calls_itself"


PRINTED = re.compile(r"(?m)^ +(?:next|accept)? +(spillscan .*)$")
LAUNCH = "--launch '*=256'"
OUTPUTS = [
    f"spillscan {command} {inputs}{options}"
    for inputs in ("'build log.txt'", "k.sass", "k.cubin.zst", "'build log.txt' k.cubin.zst")
    for command, options in (
        ("check", ""),
        ("check", f" {LAUNCH}"),
        ("check", f" --config limits.yaml {LAUNCH} --fail-on note"),
        ("advise", " --all"),
        ("advise", f" --all {LAUNCH} --config limits.yaml"),
    )
]


@pytest.mark.parametrize("printed", sized(OUTPUTS[::7], OUTPUTS))
def test_every_printed_command_runs_and_prints_something_new(printed: str, tmp_path: Path) -> None:
    """From the same folder, on the same inputs, with the same options."""
    shutil.copy(HEAD, tmp_path / "build log.txt")
    shutil.copy(FIXTURES / "sass" / "nvdisasm-gi-sm_80-13.5.sass", tmp_path / "k.sass")
    shutil.copy(FIXTURES / "binary" / "callees-13.5.cubin.zst", tmp_path / "k.cubin.zst")
    (tmp_path / "limits.yaml").write_text("max_registers: 40\nmin_blocks_per_sm: 9\n")
    _, said = spillscan(tmp_path, printed)
    commands = dict.fromkeys(PRINTED.findall(said))
    assert commands, said
    for command in commands:
        assert ("--launch" in command) >= ("--launch" in printed and " show " not in command), command
        assert ("limits.yaml" in command) >= ("limits.yaml" in printed and " show " not in command), command
        status, answer = spillscan(tmp_path, command)
        assert status in (0, 1), (command, answer)
        assert answer
        assert answer not in said, command
        again = PRINTED.findall(answer)
        assert command not in again, f"{command} prints itself"
        assert printed not in again


def test_a_kernel_is_compiled_from_the_source_of_another_of_its_unit(tmp_path: Path) -> None:
    """Only kernels with local memory have lines."""
    build = scan(str(FIXTURES / "binary" / "lines-sm_80-13.5.cubin.zst"))
    (tmp_path / "k.cu").touch()
    lined = next(each for each in build.kernels if each.sass and each.sass.local.lines)
    assert lined.sass is not None
    place = SourceLine(file=str(tmp_path / "k.cu"), line=1)
    accesses = tuple(replace(each, source=place) for each in lined.sass.local.accesses)
    local = replace(lined.sass.local, accesses=accesses)
    lined = replace(lined, source="", sass=replace(lined.sass, local=local))
    plain = replace(lined, sass=None)
    for unit, source in ((lined.key.unit or "k.o", str(tmp_path / "k.cu")), ("other.o", "")):
        kernels = (replace(lined, key=replace(lined.key, unit=lined.key.unit or "k.o")), plain)
        asked = replace(plain, key=replace(plain.key, unit=unit))
        assert source_in(replace(build, kernels=kernels), asked, {}) == source


@pytest.mark.parametrize(
    ("folder", "path", "printed"),
    [
        (".", "{top}/a b/../a b/k.cu", "a b/k.cu"),
        ("a b", "../a b/k.cu", "k.cu"),
        ("other", "../a b/k.cu", "{top}/a b/k.cu"),
        (".", "link/../k.cu", "a b/k.cu"),  # link/.. is not the current folder
    ],
)
def test_sources_are_named_from_here(
    folder: str, path: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in ("a b/sub", "other"):
        (tmp_path / each).mkdir(parents=True)
    (tmp_path / "a b" / "k.cu").touch()
    (tmp_path / "link").symlink_to("a b/sub")
    monkeypatch.chdir(tmp_path / folder)
    (kernel, *_) = scan(str(FIXTURES / "demo" / "head.log")).kernels
    assert source_of(replace(kernel, source=path.format(top=tmp_path)), {}) == printed.format(top=tmp_path)
