"""Behavior that all commands share: -f, selectors, colors, errors, a closed pipe."""

from __future__ import annotations

import argparse
import csv
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spillscan import cli, commands
from spillscan.cli import main
from spillscan.commands._synonyms import _SYNONYMS
from spillscan.commands.completion import _actions
from spillscan.model.metrics import TRACEABLE
from spillscan.output import records
from spillscan.output.terminal import style_of
from tests.conftest import FIXTURES, ROOT, run, sized

HEAD = FIXTURES / "demo" / "head.log"
BASE = FIXTURES / "demo" / "base.log"
LARGE = FIXTURES / "large" / "kernels5000-13.0.log.zst"


# ---- selectors ----------------------------------------------------------------------------------------------------


def test_an_entry_of_a_policy_that_names_nothing_is_a_note(tmp_path: Path) -> None:
    policy = tmp_path / "spillscan.yaml"
    change = "accept:\n  - {rule: blocks-traded, reason: r}\n"  # without a baseline there is none
    policy.write_text(f"{change}kernels:\n  - match: tpyo*\n    max_registers: 32\n")
    result = run("check", HEAD, "--config", policy, "--fail-on", "never")
    assert result.returncode == 0
    assert b"'tpyo*' matches no kernel of this build" in result.stderr
    assert result.stderr.count(b"policy-names-nothing") == 1


# ---- formats ------------------------------------------------------------------------------------------------------


ANSWERING = (
    ("explain", "devices"),
    ("occupancy", HEAD),
    ("occupancy", "sm_80", "--threads", "128", "--registers", "40"),
    ("scan", HEAD),
    ("check", HEAD, "--fail-on", "never"),
    ("diff", BASE, HEAD),
)


@pytest.mark.parametrize("words", ANSWERING, ids=lambda words: words[0])
def test_every_command_takes_several_formats_and_files(words: tuple[object, ...], tmp_path: Path) -> None:
    text, made = tmp_path / "a.txt", tmp_path / "a.json"
    both = run(*words, "-f", f"text:{text}", "-f", f"json:{made}")
    assert (both.returncode, both.stdout) == (0, b"")
    assert made.read_bytes() == run(*words, "-f", "json").stdout
    assert text.read_bytes() == run(*words, "-f", "text").stdout == run(*words).stdout
    for wrong in ("pdf", "json:", f"json:{tmp_path / 'no' / 'x'}"):
        assert run(*words, "-f", wrong).returncode == 2


def test_every_command_with_formats_has_the_same_option() -> None:
    parser = commands.build_parser()
    subparsers = next(action for action in parser._actions if isinstance(action.choices, dict))
    assert isinstance(subparsers.choices, dict)
    found = {
        name: action
        for name, command in subparsers.choices.items()
        for action in command._actions
        if action.dest == "format"
    }
    assert len(found) >= 9
    for name, action in found.items():
        assert (action.metavar, action.default) == ("FORMAT[:FILE]", []), name
        assert str(action.help).startswith("text (default), "), name


def test_csv_has_one_line_end_and_one_guard() -> None:
    for words in (
        ("scan", HEAD),
        ("occupancy", "sm_80", "--launch-bounds", "256,2"),
    ):
        out = run(*words, "-f", "csv").stdout
        assert out.count(b"\n") == out.count(b"\r\n") > 0
    row = records.row(["=1+1", " =1+1", "\t@x", "＝1", "a", -1, None, "-5", ["=", 1]])
    assert next(csv.reader(io.StringIO(row))) == [*("'=1+1", "' =1+1", "�@x", "'＝1", "a", "-1", "", "'-5", '["=",1]')]


# ---- colors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environment", "terminal", "colored"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "0"}, False, False),
        ({"FORCE_COLOR": "0", "TERM": "dumb"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
    ],
)
def test_one_rule_for_colors(
    environment: dict[str, str], terminal: bool, colored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Screen(io.StringIO):
        encoding = "utf-8"

        def isatty(self) -> bool:
            return terminal

    for name in ("FORCE_COLOR", "NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", Screen())
    assert style_of().color == colored


def test_a_table_obeys_it() -> None:
    words = ("explain", "devices")
    plain = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    assert b"\x1b" not in run(*words, env=plain | {"FORCE_COLOR": "0"}).stdout
    assert b"\x1b" in run(*words, env=plain | {"FORCE_COLOR": "1"}).stdout


# ---- errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("a\nb\x1b[2J"), "unexpected error: RuntimeError: a�b�[2J; please report it with the command"),
        (RuntimeError("z" * 400), f"unexpected error: RuntimeError: {'z' * 300}; please report it with the command"),
        (OSError(28, "No space left on device"), "standard output: No space left on device\n"),
        (KeyboardInterrupt(), "interrupted\n"),
    ],
)
def test_an_error_that_no_command_expects_is_one_line_and_exit_2(
    error: BaseException, said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(paths: object, watch: object = None, **more: object) -> None:
        raise error

    monkeypatch.setattr("spillscan.library.scan", broken)
    monkeypatch.delenv("SPILLSCAN_DEBUG", raising=False)
    assert main(["check", str(HEAD)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"spillscan: {said}")
    assert err.count("\n") == 1
    monkeypatch.setenv("SPILLSCAN_DEBUG", "1")
    assert main(["check", str(HEAD)]) == 2
    assert ("Traceback" in capsys.readouterr().err) == isinstance(error, RuntimeError)


def test_settings_of_libraries_leave_those_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    added: dict[str, str] = {}
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "4")
    monkeypatch.delenv("ARROW_DEFAULT_MEMORY_POOL", raising=False)
    monkeypatch.setattr(os, "putenv", added.__setitem__)
    monkeypatch.setattr(os, "_exit", lambda status: None)
    monkeypatch.setattr(sys, "argv", ["spillscan", "--version"])
    cli.entry()
    assert added == {"ARROW_DEFAULT_MEMORY_POOL": "system"}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    "options", ["check {log}", "check {log} -f json", "check {log} -f text:/dev/full", "explain spill", "scan --help"]
)
def test_a_full_disk_is_no_verdict(options: str) -> None:
    words = [word.format(log=HEAD) for word in options.split()]  # its path may have a blank
    command = [sys.executable, "-m", "spillscan", *words]
    own = {**os.environ, "PYTHONUNBUFFERED": ""}
    with open("/dev/full", "wb") as full, open(ROOT / "README.md", "rb") as text:
        done = subprocess.run(
            command, stdin=text, stdout=full, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=own, check=False
        )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.endswith(": No space left on device\n")


@pytest.mark.skipif(os.name != "posix", reason="shell")
@pytest.mark.parametrize(("closed", "output"), [(">&-", b""), ("2>&-", b"2 findings in")])
def test_closed_streams_are_nobodys_concern(closed: str, output: bytes) -> None:
    log = FIXTURES / "demo" / "head.log"
    script = f'"{sys.executable}" -m spillscan check "{log}" {closed}'
    done = subprocess.run(["sh", "-c", script], cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (1, b"")
    assert output in done.stdout


@pytest.mark.skipif(not hasattr(signal, "SIGPIPE"), reason="no such signal here")
@pytest.mark.parametrize("words", sized([("explain",)], [("scan", LARGE, "--all"), ("check", LARGE), ("explain",)]))
def test_a_closed_pipe_ends_it_as_unix_tools_end(words: tuple[object, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "spillscan", *map(str, words)]
    result = subprocess.run(command, cwd=ROOT, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (result.returncode, result.stderr) == (-signal.SIGPIPE, b"")


# ---- help ---------------------------------------------------------------------------------------------------------


MOST_COMMANDS, MOST_LINES = 18, 30
"""Of the help that lists them."""


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(commands.COMMANDS) <= MOST_COMMANDS, "what is about the same as a command there is a verb of it"
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    assert out.count("\n") <= MOST_LINES
    assert max(map(len, out.splitlines())) <= 80
    assert all(f"\n{heading}:\n  {next(iter(names))} " in out for heading, names in commands.GROUPS.items())
    assert main([]) == 2
    assert capsys.readouterr() == ("", out), "without arguments the same help is an error"


def test_options_before_a_verb_count_after_it() -> None:
    parser = commands.build_parser("history")
    for words in ("--dataset a verify", "verify --dataset a"):
        assert parser.parse_args(["history", *words.split()]).dataset == "a"


def test_synonyms_name_something() -> None:
    named = {*commands.COMMANDS, *(name.lstrip("-") for name in _options()), *(each.name for each in TRACEABLE)}
    verbs = {"audit", "query", "prune", "write"}
    assert {each for ours in _SYNONYMS.values() for each in ours.split()} <= named | verbs


MOST_OPTIONS = 70
"""Distinct ones of all commands, besides ``--help``."""


def _options() -> dict[str, set[str]]:
    """Long options and their metavariables, over all commands."""
    found: dict[str, set[str]] = {}
    for _, action in _actions(commands.build_parser()):
        for option in action.option_strings:
            if option.startswith("--") and action.help != argparse.SUPPRESS:
                found.setdefault(option, set()).add(str(action.dest))
    return {name: dests for name, dests in found.items() if name not in ("--help", "--version")}


def test_options_are_few_and_one_name_is_one_thing() -> None:
    options = _options()
    assert len(options) <= MOST_OPTIONS, sorted(options)
    assert {name for name, dests in options.items() if len(dests) > 1} <= {"--output", "--try"}


@pytest.mark.parametrize("encoding", ["cp1252", "cp437", "ascii"])
@pytest.mark.parametrize(
    "words", [("scan", "fixtures/demo/head.log"), ("scan", "--help"), ("explain", "devices")], ids=" ".join
)
def test_output_has_the_encoding_of_the_terminal(encoding: str, words: tuple[str, ...]) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "spillscan", *words], capture_output=True, env=environment, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode(encoding)
    assert words != ("scan", "--help") or ("--with WHAT,…" if encoding == "cp1252" else "--with WHAT,...") in text
    if words == ("scan", "fixtures/demo/head.log"):
        assert ("≤56.25%" if encoding == "cp437" else "<=56.25%") in text


def test_json_is_utf_8_whatever_the_terminal_shows() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
    words = [sys.executable, "-m", "spillscan", "scan", "-f", "markdown", "fixtures/demo/head.log"]
    done = subprocess.run(words, capture_output=True, env=environment, cwd=ROOT, check=True)
    assert "spillscan" in done.stdout.decode("utf-8")
