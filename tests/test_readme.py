"""The README's examples are what the command prints. ``python -m tests.test_readme`` writes them anew."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

import pytest

from spillscan import commands
from tests.conftest import ROOT

README = ROOT / "README.md"
EXAMPLE = re.compile(r"```console\n\$ (spillscan [^\n]*)\n(.*?)```", re.DOTALL)
EXAMPLES = EXAMPLE.findall(README.read_text(encoding="utf-8"))


def printed(command: str) -> str:
    """What a person sees who types ``command`` at the top of a checkout."""
    environment = {key: value for key, value in os.environ.items() if key not in ("FORCE_COLOR", "COLUMNS")}
    run = [sys.executable, "-m", *shlex.split(command)]
    result = subprocess.run(run, cwd=ROOT, env=environment, capture_output=True, check=False)
    return (result.stdout + result.stderr).decode()


@pytest.mark.parametrize(("command", "output"), EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_examples(command: str, output: str) -> None:
    assert printed(command) == output


def test_it_opens_with_one_command() -> None:
    assert EXAMPLES[0][0] == "spillscan scan fixtures/demo/head.log"
    assert len(EXAMPLES) >= 4


def test_every_command_is_mentioned() -> None:
    text = README.read_text(encoding="utf-8")
    for command in commands.all_commands():
        assert f"spillscan {command.NAME}" in text or f"`{command.NAME}`" in text, command.NAME


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
    """Put the commands' present output into the README."""
    text = EXAMPLE.sub(
        lambda match: f"```console\n$ {match[1]}\n{printed(match[1])}```", README.read_text(encoding="utf-8")
    )
    README.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
