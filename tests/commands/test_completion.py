"""Completion scripts know every command, option and format."""

from __future__ import annotations

import argparse
import os
import select
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spillscan import commands
from spillscan.commands import build_parser
from spillscan.commands.completion import SHELLS, _actions
from spillscan.reports import formats
from tests.conftest import ROOT, run


def script(shell: str) -> str:
    result = run("completion", shell)
    assert result.returncode == 0
    return result.stdout.decode()


@pytest.mark.parametrize("shell", SHELLS)
def test_nothing_is_left_out(shell: str) -> None:
    text = script(shell)
    assert [name for name in (*commands.COMMANDS, "audit", "prune") if name not in text] == []
    shown = [action for _, action in _actions(build_parser()) if action.help != argparse.SUPPRESS]
    for option in (option for action in shown for option in action.option_strings):
        assert (option.lstrip("-") if shell == "fish" else option) in text
    for name in formats.all_formats():
        assert name in text


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_takes_it(shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    subprocess.run([program, "-n"], input=script(shell), text=True, check=True)


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("spillscan ch", "check"),
        ("spillscan completion f", "fish"),
        ("spillscan check --fail", "--fail-on"),
        ("spillscan check -f sar", "sarif"),
        ("spillscan check --fail-on no", "note"),
        ("spillscan scan fixtures/demo/hea", "fixtures/demo/head.log"),
        ("spillscan diff a.log fixtures/demo/hea", "fixtures/demo/head.log"),
        ("spillscan history audit --dat", "--dataset"),
    ],
)
def test_bash_completes(words: str, offered: str) -> None:
    typed = words.split()
    lines = (
        script("bash"),
        f"COMP_WORDS=({' '.join(typed)}); COMP_CWORD={len(typed) - 1}",
        f"_shtab_spillscan spillscan {typed[-1]} {typed[-2]}",
        'printf "%s\\n" "${COMPREPLY[@]}"',
    )
    result = subprocess.run(["bash"], input="\n".join(lines), text=True, capture_output=True, check=False)
    assert offered in result.stdout.split(), result.stderr


COMPLETED = (
    ("spillscan chec", "check"),
    ("spillscan completion f", "fish"),
    ("spillscan check --baseline-f", "--baseline-from"),
    ("spillscan check -f sar", "sarif"),
    ("spillscan check --fail-on no", "note"),
    ("spillscan scan fixtures/demo/hea", "fixtures/demo/head.log"),
    ("spillscan diff a.log fixtures/demo/hea", "fixtures/demo/head.log"),
    ("spillscan explain spill-i", "spill-in-loop"),
)
"""Typed text, and the line after Tab."""


def test_fish_completes() -> None:
    if (program := shutil.which("fish")) is None:
        pytest.skip("fish is not installed")
    lines = [f"function spillscan; {shlex.quote(sys.executable)} -m spillscan $argv; end", script("fish")]
    lines += [f"complete -C {shlex.quote(words)}; echo ---" for words, _ in COMPLETED]
    done = subprocess.run([program, "-N"], input="\n".join(lines), text=True, capture_output=True, check=True, cwd=ROOT)
    found = [[line.partition("\t")[0] for line in part.splitlines()] for part in done.stdout.split("---\n")]
    assert [offered in found[at] for at, (_, offered) in enumerate(COMPLETED)] == [True] * len(COMPLETED), found


def test_zsh_completes(tmp_path: Path) -> None:
    """Words and Tab are sent to a shell in a terminal."""
    if (program := shutil.which("zsh")) is None:
        pytest.skip("zsh is not installed")
    import pty

    (tmp_path / "_spillscan").write_text(script("zsh"))
    command = f"{shlex.quote(sys.executable)} -m spillscan"
    (tmp_path / ".zshrc").write_text(
        f"PROMPT='> '; fpath=({shlex.quote(str(tmp_path))} $fpath); autoload -Uz compinit; compinit -u -D\n"
        f'spillscan() {{ {command} "$@" }}\nzle -N shown; shown() {{ print -r -- "[[$BUFFER]]" > $TTY }}\n'
        "bindkey '^X' shown; print ready\n"
    )
    child, terminal = pty.fork()
    if not child:  # pragma: no cover - another program
        os.chdir(ROOT)
        os.execve(program, [program, "-d"], {**os.environ, "ZDOTDIR": str(tmp_path), "TERM": "dumb"})

    def until(mark: str) -> str:
        seen = ""
        while mark not in seen:
            ready, _, _ = select.select([terminal], [], [], 20)
            assert ready, seen
            seen += os.read(terminal, 65536).decode("utf-8", "replace")
        return seen

    try:
        until("ready")
        for words, offered in COMPLETED:
            os.write(terminal, f"\x15{words}\t\x18".encode())
            shown = until("]]").rpartition("[[")[2].partition("]]")[0]
            assert shown.split()[-1] == offered, (words, shown)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(terminal)


def test_another_shell_is_refused() -> None:
    assert run("completion", "csh").returncode == 2
    assert run("completion").returncode == 2
