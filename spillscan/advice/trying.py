"""A job's steps, run on this machine as its CI service runs them: in a clean clone, with an empty home.

What a step installs is not installed: programs of those names stand first on the path, write down what they were asked
for, and take what is here in its place.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import site
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from spillscan.advice.shown import TOOLKIT
from spillscan.builds.run import toolkit
from spillscan.model.nodes import parse_yaml
from spillscan.output.errors import UsageError
from spillscan.output.git import git

BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
"""How GitHub's runner calls a shell that a job names."""
_NETWORK = re.compile(r"(?i)(?:https?|ftp|no|all)_proxy|pip_\w+|ssl_cert_file|requests_ca_bundle")
_FILES = ("GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")

_NOTED = '#!/bin/sh\necho "${{0##*/}} $*" >> {noted}\n'
PYTHON = """#!/bin/sh
if [ "$1 $2" = "-m venv" ]; then
  mkdir -p "$3/bin"
  cp {bin}/python-of-venv "$3/bin/python"
  for name in python3 pip; do cp {bin}/$name-of-venv "$3/bin/$name"; done
elif [ "$1 $2" = "-m pip" ]; then
  echo "error: externally-managed-environment" >&2; exit 1
else
  exec {python} "$@"
fi
"""
"""The images' own Python, which takes no packages."""
OF_VENV = """#!/bin/sh
if [ "$1 $2" = "-m pip" ]; then shift 2; exec "$(dirname "$0")/pip" "$@"; fi
exec {python} "$@"
"""
PIP = """#!/bin/sh
case " $* " in
  *" . "*) shift; exec {python} -m pip wheel --no-deps -w {wheels} "$@" ;;
esac
cp {bin}/spillscan-of-venv "$(dirname "$0")/spillscan"
echo "pip $*" >> {noted}
"""
"""What installs the project itself makes a wheel of it, and nothing is installed."""


class Done(NamedTuple):
    """A step that ran."""

    name: str
    status: int
    said: str
    """Standard output and error."""
    outputs: dict[str, str]
    """What it handed to later steps."""
    installs: tuple[str, ...] = ()
    """What it would have installed, command by command."""


class Runner:
    """Runs shell steps in ``checkout``, with the files by which GitHub's steps speak to their runner."""

    def __init__(self, folder: Path, checkout: Path, environment: Mapping[str, str], keep: Sequence[int] = ()) -> None:
        self._folder = folder
        self._checkout = checkout
        self._environment = environment
        self._keep = keep
        """Descriptors that programs get."""
        self.paths: list[str] = []
        """What steps have put on the path."""
        self.summary = ""
        """What they have written of the job."""

    def step(
        self, name: str, text: str, shell: Sequence[str] = BASH, environment: Mapping[str, str] | None = None
    ) -> Done:
        """Run one; it sees what the steps before have put on the path."""
        files = {each: self._folder / each for each in (*_FILES, "noted")}
        for file in files.values():
            file.write_text("")
        own = {**self._environment, **(environment or {}), **{each: str(files[each]) for each in _FILES}}
        own["PATH"] = os.pathsep.join([*reversed(self.paths), own["PATH"]])
        done = subprocess.run(
            [*shell, "-c", text],
            env=own,
            cwd=self._checkout,
            pass_fds=self._keep,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        said = done.stdout.decode("utf-8", "replace")
        self.paths += files["GITHUB_PATH"].read_text().split()
        self.summary += files["GITHUB_STEP_SUMMARY"].read_text()
        outputs = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines() if "=" in line)
        return Done(name, done.returncode, said, outputs, tuple(files["noted"].read_text().splitlines()))


def steps(text: str, name: str) -> list[tuple[str, str]]:
    """(name, script) of each shell step of a workflow of GitHub or of the job of GitLab that runs spillscan.

    Raises :class:`~spillscan.UsageError` where there is none.
    """
    document = parse_yaml(text, name, foreign=True).plain
    jobs = document.get("jobs", document) if isinstance(document, dict) else {}
    for job in jobs.values() if isinstance(jobs, dict) else ():
        listed = job.get("steps", job.get("script")) if isinstance(job, dict) else None
        scripts = list(_scripts(listed if isinstance(listed, list) else [listed]))
        if any("spillscan" in script for _, script in scripts):
            if "script" in job:
                return [("script", "\n".join(script for _, script in scripts))]
            return [(called, script) for called, script in scripts if "${{" not in script]
    raise UsageError(f"{name} has no job that runs spillscan", "`spillscan init` writes one")


def _scripts(listed: Sequence[object]) -> Iterator[tuple[str, str]]:
    """Names and scripts of a job's steps; what is none (an action, a reference) is passed over."""
    for each in listed:
        script = each.get("run") if isinstance(each, dict) else each
        if isinstance(script, str):
            yield str(each["name"]) if isinstance(each, dict) and "name" in each else "a step", script


def has_commit(top: str) -> bool:
    """Whether there is anything to clone."""
    return not git(top, "rev-parse", "--verify", "--quiet", "HEAD^{commit}", option="--try").returncode


def clone(top: str, to: Path, written: Mapping[str, str], *, submodules: bool) -> None:
    """What a checkout of the last commit in ``top`` is, with files that are to be ``written`` in it.

    Raises :class:`~spillscan.UsageError` where there is no commit.
    """
    unpack = 'mkdir -p "$TO/$displaypath"; git archive HEAD | tar -x -C "$TO/$displaypath"'
    commands = [("clone", "--quiet", "--no-hardlinks", ".", str(to))]
    commands += [("submodule", "--quiet", "foreach", "--recursive", unpack)] * submodules
    for words in commands:
        done = git(top, *words, option="--try", environment={"TO": str(to)})
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise UsageError(f"no clean clone of {top}: {said}", "--try takes what is committed")
    for path, text in written.items():
        place = to / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8", errors="surrogateescape")


def attempt(scripts: Sequence[tuple[str, str]], folder: Path, checkout: Path) -> Iterator[Done]:
    """Run each script, to the first that fails; ``folder`` is an empty one beside the ``checkout``."""
    tools, home = folder / "tools", folder / "home"
    for each in (tools, home):
        each.mkdir()
    ours = f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m spillscan "$@"\n'
    noted = folder / "noted"
    stand_in(tools, ours, noted=noted, wheels=folder / "wheels", python=shutil.which("python3") or sys.executable)
    for name in ("apt-get", "apt", "sudo"):
        write_program(tools / name, _NOTED.format(noted=noted))
    environment = surroundings(os.environ)
    environment |= {
        "PATH": os.pathsep.join((str(tools), environment["PATH"])),
        "HOME": str(home),
        "PYTHONUSERBASE": site.getuserbase(),
        "LANG": "C.UTF-8",
        "CI": "true",
        "RUNNER_TEMP": str(folder),
        "GITHUB_WORKSPACE": str(checkout),
        "CI_PROJECT_DIR": str(checkout),
    }
    runner = Runner(folder, checkout, environment)
    here = toolkit()
    for name, script in scripts:
        done = runner.step(name, script.replace(TOOLKIT, here or TOOLKIT))
        yield done
        if done.status:
            return


def surroundings(environment: Mapping[str, str]) -> dict[str, str]:
    """What of an ``environment`` is the machine's, not the user's: where programs lie, the way to the network."""
    kept = {name: value for name, value in environment.items() if _NETWORK.fullmatch(name)}
    return {"PATH": environment.get("PATH", os.defpath), **kept}


def stand_in(folder: Path, ours: str, *, noted: Path, wheels: Path, python: str) -> None:
    """Put programs into ``folder`` in the place of the image's Python and of what its environments have: pip only
    writes down what it is asked for, and puts in ``ours`` where that is spillscan."""
    texts = {"python3": PYTHON, "python-of-venv": OF_VENV, "python3-of-venv": OF_VENV, "pip-of-venv": PIP}
    for name, text in texts.items():
        words = {"bin": folder, "noted": noted, "wheels": wheels, "python": python}
        write_program(folder / name, text.format(**{key: shlex.quote(str(word)) for key, word in words.items()}))
    write_program(folder / "spillscan-of-venv", ours)


def write_program(path: Path, text: str) -> None:
    """A script that may be run."""
    path.write_text(text)
    path.chmod(0o755)
