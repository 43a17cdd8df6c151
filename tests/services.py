"""A local runner of CI workflows: GitHub's steps with its environment files, GitLab's scripts.

What no test may need (a compiler, the network, GitHub itself) stands in a folder of small programs on the path. The
images' own Python takes no packages there, as on hosted images; `spillscan` is there only where a workflow puts it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests import forked
from tests.conftest import ROOT

BASH = ("bash", "--noprofile", "--norc", "-eo", "pipefail")
"""Command by which GitHub's runner calls a shell that a job names."""
_FILES = ("GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")

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
    """Outputs for later steps."""
    installs: tuple[str, ...] = ()
    """Install commands that were recorded."""


class Runner:
    """Runs shell steps in ``checkout``, with the files by which GitHub's steps speak to their runner."""

    def __init__(self, folder: Path, checkout: Path, environment: Mapping[str, str], keep: Sequence[int] = ()) -> None:
        self._folder = folder
        self._checkout = checkout
        self._environment = environment
        self._keep = keep
        """Descriptors that programs get."""
        self.paths: list[str] = []
        """Folders that steps have put on the path."""
        self.summary = ""
        """Job summary that they have written."""

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


def stand_in(folder: Path, ours: str, *, noted: Path, wheels: Path, python: str) -> None:
    """Put programs into ``folder`` in place of the image's Python and environments: pip only records its arguments, and
    installs ``ours`` for spillscan.
    """
    texts = {"python3": PYTHON, "python-of-venv": OF_VENV, "python3-of-venv": OF_VENV, "pip-of-venv": PIP}
    for name, text in texts.items():
        words = {"bin": folder, "noted": noted, "wheels": wheels, "python": python}
        write_program(folder / name, text.format(**{key: shlex.quote(str(word)) for key, word in words.items()}))
    write_program(folder / "spillscan-of-venv", ours)


def write_program(path: Path, text: str) -> None:
    """A script that may be run."""
    path.write_text(text)
    path.chmod(0o755)


MAKE = """#!/bin/bash
cat kernels.cu
exit ${BUILD_STATUS:-0}
"""
CMAKE = """#!/bin/bash
source=.
while [ $# -gt 0 ]; do
  case "$1" in
    -S) source=$2; shift ;;
    -B) mkdir -p "$2"; (cd "$source" && pwd) > "$2/source"; shift ;;
    --build) cp "$(cat "$2/source")/kernels.cu" "$2/kernels.log"
      nvcc -c "$(cat "$2/source")/kernels.cu" -o "$2/kernels.o"; exit ${BUILD_STATUS:-0} ;;
  esac
  shift
done
"""
NVCC = """#!/bin/sh
[ "$1" = --version ] && echo "Cuda compilation tools, release 12.9, V12.9.86" && exit
for word; do case "$word" in *.cu) cat "$word" >&2 ;; esac; done
"""
GH = """{head}import json, os, re, shutil, sys
words, state = sys.argv[1:], os.environ["GH_STATE"]
comments = json.load(open(state)) if os.path.exists(state) else {{}}
body = next((word[6:] for word in words if word.startswith("body=@")), None)
if not os.environ.get("GH_TOKEN"):
    sys.exit("gh: no token")
if words[:2] == ["run", "list"]:
    print(1)
elif words[:2] == ["run", "download"]:
    shutil.copytree(os.path.join(os.environ["ARTIFACTS"], "main-" + words[words.index("--name") + 1]), words[-1])
elif any(word.endswith("/pulls") for word in words):
    print(7)
elif body is not None:
    place = next(word for word in words if "/issues/" in word)
    key = place.rsplit("/", 1)[1] if "PATCH" in words else str(len(comments) + 1)
    comments[key] = open(body).read()
    json.dump(comments, open(state, "w"))
else:
    print("\\n".join(comments))
"""


@dataclass
class Machine:
    """A runner with a checkout; what it keeps outlives a job."""

    folder: Path
    checkout: Path
    context: dict[str, Any] = field(default_factory=dict)
    build_status: int = 0
    steps: list[Done] = field(default_factory=list)
    summary: str = ""
    ours: int = field(init=False)
    """The descriptor that the command needs: see :func:`tests.forked.program`."""

    def __post_init__(self) -> None:
        for name in ("bin", "home", "artifacts", "caches"):
            (self.folder / name).mkdir(exist_ok=True)
        tools, noted = self.folder / "bin", self.folder / "noted"
        stand_in(tools, "", noted=noted, wheels=self.folder / "wheels", python=sys.executable)
        gh = GH.format(head=forked.shebang())
        for name, text in {"gh": gh, "make": MAKE, "cmake": CMAKE, "nvcc": NVCC, "apt-get": "#!/bin/sh\n"}.items():
            write_program(tools / name, text)
        self.ours = forked.program(tools / "spillscan-of-venv")

    @property
    def comments(self) -> dict[str, str]:
        """Comments on the pull request, by number."""
        path = self.folder / "comments.json"
        found: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def environment(self, **more: str) -> dict[str, str]:
        """Environment of every step."""
        return {
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "HOME": str(self.folder / "home"),
            "PYTHONPATH": str(ROOT),
            "BUILD_STATUS": str(self.build_status),
            "GH_STATE": str(self.folder / "comments.json"),
            "ARTIFACTS": str(self.folder / "artifacts"),
            "GITHUB_WORKSPACE": str(self.checkout),
            "LC_ALL": "C.UTF-8",
            **more,
        }

    def runner(self, environment: dict[str, str], temp: Path | None = None) -> Runner:
        """Program that runs the steps."""
        return Runner(temp or self.folder, self.checkout, environment, [self.ours])

    def run(self, text: str, event: str = "pull_request", **context: Any) -> int:
        """Run all jobs of a workflow in order; returns 0, or the status of the first step that failed."""
        self.context = {"github": {"event_name": event, "token": "t", "sha": "s", "repository": "o/r"}, **context}
        workflow = yaml.safe_load(text)
        self.steps = []
        status = 0
        for name, job in workflow["jobs"].items():
            assert {job.get("needs", name)} <= {*workflow["jobs"]}
            if status == 0 and self._holds(job.get("if", "")):
                temp = self.folder / f"temp-{len(list(self.folder.iterdir()))}"
                temp.mkdir()
                given = {key: self._said(value) for key, value in (workflow.get("env") or {}).items()}
                environment = self.environment(RUNNER_TEMP=str(temp), **given)
                shell = job.get("defaults", {}).get("run", {}).get("shell", "")
                self.context["steps"] = {}
                runner = self.runner(environment, temp)
                status = self._steps(job["steps"], runner, shell)
                self.summary = runner.summary
        return status

    def _steps(self, steps: list[dict[str, Any]], runner: Runner, shell: str) -> int:
        failed = 0
        for step in steps:
            condition = str(step.get("if", ""))
            if (failed and "always()" not in condition) or not self._holds(condition):
                continue
            given = {key: self._said(value) for key, value in (step.get("env") or {}).items()}
            if "uses" in step:
                asked = {key: self._said(value) for key, value in (step.get("with") or {}).items()}
                status, outputs = self._uses(step["uses"], asked, runner)
            else:
                assert "${{" not in step["run"], "nothing of the users' is put into a shell's text"
                bash = step.get("shell", shell) == "bash"
                name = step.get("name", step["run"][:40])
                done = runner.step(name, step["run"], BASH if bash else ("sh", "-e"), given)
                self.steps.append(done)
                status, outputs = done.status, done.outputs
            if "id" in step:
                self.context["steps"][step["id"]] = {"outputs": outputs}
            failed = failed or status
        return failed

    def _uses(self, action: str, asked: dict[str, str], runner: Runner) -> tuple[int, dict[str, str]]:
        name, _, version = action.partition("@")
        assert version, action
        if name == "OWNER/spillscan/.github/actions/spillscan":
            return self.action(asked, runner)
        store = self.folder / "artifacts" / asked.get("name", "")
        if name == "actions/upload-artifact":
            main = self.context["github"]["event_name"] == "push"
            for place in (store, *([store.with_name(f"main-{store.name}")] if main else [])):
                place.mkdir(exist_ok=True)
                for path in asked["path"].split():
                    if (self.checkout / path).exists():
                        shutil.copy(self.checkout / path, place)
        elif name == "actions/download-artifact":
            for path in store.iterdir():
                shutil.copy(path, self.checkout)
        elif name == "actions/cache/save":
            shutil.copy(self.checkout / asked["path"], self.folder / "caches" / asked["key"])
        elif name == "actions/cache/restore":
            found = sorted((self.folder / "caches").glob(f"{asked['restore-keys']}*"))
            if found:
                shutil.copy(found[-1], self.checkout / asked["path"])
        elif name == "github/codeql-action/upload-sarif":
            assert json.loads(Path(asked["sarif_file"]).read_text())["version"] == "2.1.0"
        else:
            assert name == "actions/checkout", action
        return 0, {}

    def action(self, asked: dict[str, str], runner: Runner | None = None) -> tuple[int, dict[str, str]]:
        """The steps of our own action, in a job's ``runner`` or one of their own."""
        runner = runner or self.runner(self.environment(RUNNER_TEMP=str(self.folder)))
        folder = ROOT / ".github" / "actions" / "spillscan"
        document = yaml.safe_load((folder / "action.yml").read_text())
        assert set(asked) <= set(document["inputs"])
        inputs = {key: asked.get(key, spec.get("default", "")) for key, spec in document["inputs"].items()}
        assert all(inputs[key] for key, spec in document["inputs"].items() if spec.get("required"))
        outer = self.context
        self.context = {
            **outer,
            "inputs": inputs,
            "steps": {},
            "github": {**outer["github"], "action_path": str(folder)},
        }
        status = self._steps(document["runs"]["steps"], runner, "")
        outputs = {key: self._said(spec["value"]) for key, spec in document["outputs"].items()}
        self.context, self.summary = outer, runner.summary
        return status, outputs

    def _said(self, text: object) -> str:
        """Text with the expressions in ``${{ }}`` evaluated."""
        return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda match: self._at(match[1]), str(text))

    def _at(self, path: str) -> str:
        value: Any = self.context
        for name in path.split("."):
            value = value.get(name, "") if isinstance(value, dict) else ""
        return str(value)

    def _holds(self, condition: str) -> bool:
        for part in condition.split(" && ") if condition else ():
            match = re.fullmatch(r"always\(\)|([\w.]+) ([!=]=) '(\w*)'", part)
            assert match, condition
            if match[1] and (self._at(match[1]) == match[3]) != (match[2] == "=="):
                return False
        return True

    def script(self, job: dict[str, Any]) -> int:
        """A job of GitLab: its script in one shell, as its runner has it where the image has bash."""
        variables = {key: str(value) for key, value in (job.get("variables") or {}).items()}
        environment = self.environment(CI_PROJECT_DIR=str(self.checkout), **variables)
        text = "\n".join(job["script"])
        done = self.runner(environment).step("script", text)
        self.steps = [done]
        return done.status


PERSON = {f"GIT_{who}_{what}": "n@e.invalid" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
"""Whoever commits, where a script calls git itself."""


def git(folder: Path, *words: str) -> str:
    """Output of git for a person without a name."""
    own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    who = ("-c", "user.name=n", "-c", "user.email=e@example.invalid", "-c", "init.defaultBranch=main")
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, env=os.environ | own, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
