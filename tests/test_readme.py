"""Examples of README and documents equal the output of commands. ``python -m tests.test_readme`` rewrites them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from spillscan.commands import build_parser
from tests import pictures
from tests.advice.sweep.support import PTXAS
from tests.conftest import ROOT, run

README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLE = re.compile(r"```console\n\$ (spillscan [^\n]*)\n(.*?)```", re.DOTALL)
_CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
_COMMAND = re.compile(r"^\$ (.*)\n", re.MULTILINE)
_ELSEWHERE = ("diff.md",)
"""Its own test runs them."""
LINES_OF_THREE_SCREENS = 160
_PATH = f"{PTXAS.parent}:{os.environ['PATH']}"
"""Examples are by the ptxas among the packages for development."""


def printed(command: str) -> str:
    """Output of ``command`` at the top of a checkout."""
    environment = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "COLUMNS")}
    environment["PATH"] = _PATH
    words = [sys.executable, "-m", *shlex.split(command)]
    result = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, check=False)
    return (result.stdout + result.stderr).decode()


def as_printed(text: str) -> str:
    """A page with what its commands print now, one after the other, in a folder that has the fixtures and no more."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name in ("fixtures", "tests"):
            (folder / name).symlink_to(ROOT / name)

        def now(match: re.Match[str]) -> str:
            said = (f"$ {command}\n{_said(command, folder)}" for command in _COMMAND.findall(match[1]))
            return f"```console\n{''.join(said)}```"

        return _CONSOLE.sub(now, text)


def _said(command: str, folder: Path) -> str:
    done = run(*shlex.split(command)[1:], cwd=folder, env=os.environ | {"PATH": _PATH})
    return (done.stdout + done.stderr).decode().replace("\r\n", "\n")


@pytest.mark.parametrize("page", [each for each in PAGES if each.name not in _ELSEWHERE], ids=lambda page: page.name)
def test_examples(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if "```console" in text:
        assert as_printed(text) == text


def test_it_opens_with_one_command_and_fits_on_three_screens() -> None:
    text = README.read_text(encoding="utf-8")
    examples = EXAMPLE.findall(text)
    assert examples[0][0] == "spillscan scan fixtures/demo/head.log"
    assert len(examples) == 2
    assert text.count("\n") <= LINES_OF_THREE_SCREENS


def calls() -> list[tuple[str, list[str]]]:
    """(page, words) of every call of the command in a shell example."""
    found = []
    for page in PAGES:
        for block in re.findall(r"```(?:sh|dockerfile)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for line in re.sub(r"\\\n", " ", block).splitlines():
                for call in re.findall(r"(?:^|[|;&(] *|^\w+=\S+ )(spillscan .*)", line):
                    lexer = shlex.shlex(call, posix=True, punctuation_chars=True)
                    lexer.whitespace_split = True
                    words: list[str] = []
                    for word in lexer:
                        if re.fullmatch(r"[|;&()<>]+", word):
                            break
                        words.append(word)
                    found.append((page.name, words[1:]))
    return found


def test_every_call_in_a_shell_example_is_one_that_the_command_takes() -> None:
    parser = build_parser()
    assert len(calls()) > 50
    for _, words in calls():
        parser.parse_args(words)


def test_the_python_example_runs(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    code = re.search(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert code
    monkeypatch.chdir(str(tmp_path))
    log = (ROOT / "fixtures" / "demo" / "head.log").read_bytes()
    with open("build.log", "wb") as build, open("main.json", "wb") as snapshot:
        build.write(log)
        base = ROOT / "fixtures" / "demo" / "base.log"
        snapshot.write(
            subprocess.run(
                [sys.executable, "-m", "spillscan", "scan", base, "-f", "json"],
                cwd=ROOT,
                capture_output=True,
                check=True,
            ).stdout
        )
    scope: dict[str, object] = {}
    exec(code[1], scope)
    assert scope["limits"] == ("registers",)
    assert len(scope["frame"]) == 12  # type: ignore[arg-type]
    assert len(scope["changes"]) == 6  # type: ignore[arg-type]


def write() -> None:
    """Put the commands' present output into the pages."""
    for page in PAGES:
        if page.name not in _ELSEWHERE and "```console" in (text := page.read_text(encoding="utf-8")):
            page.write_text(as_printed(text), encoding="utf-8")


if __name__ == "__main__":
    write()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_terminal_picture_is_current(theme: str) -> None:
    assert (pictures.FOLDER / f"terminal-{theme}.svg").read_text("utf-8") == pictures.terminal(theme)
    for name in (f"docs/pictures/terminal-{theme}.svg",):
        assert name in README.read_text("utf-8")
        assert (ROOT / name).stat().st_size < 200_000
