"""Write a policy, a baseline of today's kernels, and a CI job that repeats the build recorded by `spillscan run`.

Existing files are kept or extended. --try runs the job's build and check commands in a clean clone of the last commit.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress

from spillscan.advice import jobs
from spillscan.builds import RUN_FILE, record
from spillscan.commands import _inputs, _options
from spillscan.judging.policy.effective import Policy
from spillscan.judging.policy.reading import read
from spillscan.model.nodes import parse_yaml
from spillscan.occupancy.launches import parse_launch
from spillscan.output.errors import UsageError
from spillscan.output.files import Target, refuse_odd
from spillscan.output.git import git
from spillscan.output.nouns import count
from spillscan.output.safe import printable
from spillscan.output.terminal import complain, say

EPILOG = "Example: spillscan run -- make; spillscan init --try"
_BRANCH = re.compile(r"ref: refs/remotes/origin/([A-Za-z][\w./-]*)$")
_LONGEST_FAILURE = 20
"""Maximum number of last lines of a failed command to print."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _options.add_inputs(parser, f"or glob (default: {RUN_FILE} as written by `spillscan run`)")
    _options.words(parser, "--build", "COMMAND", "build command of the job (default: the recorded commands)")
    about = "argument of the job's `pip install` (default: where this copy of spillscan came from, if known)"
    parser.add_argument("--install", metavar="SPEC", help=about)
    _options.flag(parser, "--try", "run the job's build and check commands in a clean clone of the last commit")
    _options.add_launches(parser)


def run(arguments: argparse.Namespace) -> int:
    """Return 0; 1 if the tried job fails, 2 if the build cannot be read or the job has placeholders."""
    inputs = _inputs.inputs_or_left(arguments.inputs)
    if not inputs or "-" in inputs:  # each step reads the build again
        raise UsageError("no build is recorded", "run `spillscan run -- COMMAND` for each build step first")
    build = _inputs.scan(inputs)
    commands = tuple(map(_one_command, arguments.build)) or tuple(dict.fromkeys(_recorded(inputs)))
    if not commands:
        raise UsageError("no input records a build command", "pass --build COMMAND, or a run file of `spillscan run`")
    install = arguments.install or jobs.installed_from() or "<SPILLSCAN>"
    job = jobs.Job(commands=commands, install=install, branch=_branch())
    launches = [parse_launch(text) for text in arguments.launch]
    texts = {jobs.POLICY: jobs.policy(build.kernels, launches)}
    path = _ci_file()
    texts[path] = jobs.workflow(job) if path == jobs.WORKFLOW else _pipeline(job)
    texts[jobs.IGNORED] = _ignoring(_text_of(jobs.IGNORED))
    written = [*texts, jobs.BASELINE]
    for name, new in texts.items():
        old = text = _text_of(name)
        if old and name == path and arguments.install and "<SPILLSCAN>" in old:
            text = old.replace("<SPILLSCAN>", f"'{arguments.install}'")
        elif not old or name not in (jobs.POLICY, jobs.WORKFLOW):
            text = new
        if text == old:
            say([f"{name} exists: unchanged"])
        else:
            os.makedirs(os.path.dirname(name) or os.curdir, exist_ok=True)
            Target(name).write(text)
            say([f"{name} {'written' if not old else 'extended' if text.startswith(old) else 'changed'}"])
    if os.path.exists(jobs.BASELINE):
        refuse_odd(jobs.BASELINE, os.stat(jobs.BASELINE).st_mode)
        say([f"{jobs.BASELINE} exists: unchanged"])
    elif status := _spillscan("baseline", "write", *inputs):
        return status
    in_force = Policy((read(jobs.POLICY),))
    if unset := sum(each.role == "entry" and in_force.launch_of(each) is None for each in build.kernels):
        say([f"blocks/SM of {count(unset, 'kernel')} not checked: set their block sizes in {jobs.POLICY}"])
    status, text = 0, _text_of(path)
    for command in (command for command in job.build if command not in text):
        complain(f"{path} does not run `{command}`; add it, or delete the {jobs.OURS[path]} and run `init` again")
        status = 2
    for number, line in enumerate(text.splitlines(), 1):
        for word in (word for word in jobs.TO_FILL_IN if word in line):
            complain(f"{path}:{number}: fill in {word}: {jobs.TO_FILL_IN[word]}")
            status = 2
    if vars(arguments)["try"]:
        status = _tried(job, written) or status
    if _uncommitted(written):
        say([f"next: {shlex.join(['git', 'add', *written])}"])
    if status == 2:
        complain(f"exit status 2: {path} is incomplete; make the changes listed above before you commit it")
    return status


def _one_command(text: str) -> str:
    """A shell command as a single command for `spillscan run`."""
    return f"bash -c {shlex.quote(text)}" if set(text) & set("|&;<>()$`") else text


def _recorded(inputs: Sequence[str]) -> Iterator[str]:
    """Commands that `spillscan run` recorded, as typed."""
    for path in filter(record.is_one, inputs):
        yield from (_from_here(shlex.join(run.command), run.folder) for run in record.read(path).runs)


def _from_here(command: str, folder: str) -> str:
    """A command that runs in ``folder``, as called from the repository's top."""
    place = os.path.relpath(folder or os.curdir)
    return command if place == os.curdir else f"bash -c {shlex.quote(f'cd {shlex.quote(place)} && {command}')}"


def _ci_file() -> str:
    """Path of the CI configuration: GitLab's if a pipeline or the remote is GitLab's, else GitHub's."""
    gitlab = "gitlab" in _text_of(".git/config") and not os.path.isdir(".github")
    return jobs.PIPELINE if gitlab or os.path.exists(jobs.PIPELINE) else jobs.WORKFLOW


def _pipeline(job: jobs.Job) -> str:
    """Text of GitLab's configuration with the job; unchanged if it already has one."""
    text = _text_of(jobs.PIPELINE)
    if re.search(r"^spillscan:", text, re.M):
        return text
    section = _STAGES.search(text)
    document = parse_yaml(section[0], jobs.PIPELINE).plain if section else None
    stages = document.get("stages") if isinstance(document, dict) else None
    return text + "\n" * bool(text) + jobs.pipeline(job, stages if isinstance(stages, list) else ())


_STAGES = re.compile(r"^stages:.*(?:\n(?:[ \t#-].*)?)*", re.MULTILINE)
"""The list of stages in GitLab's configuration, the rest of which may have tags and aliases."""


def _ignoring(text: str) -> str:
    """Text of `.gitignore` with the run file."""
    line = "\n" * (bool(text) and not text.endswith("\n")) + RUN_FILE + "\n"
    return text + line * (RUN_FILE not in text.split())


def _branch() -> str:
    """Target branch of changes: the remote's default, else ``master`` if it is checked out, else ``main``."""
    remote = _BRANCH.match(_text_of(".git/refs/remotes/origin/HEAD"))
    here = "master" if _text_of(".git/HEAD").strip() == "ref: refs/heads/master" else "main"
    return remote[1] if remote else here


def _text_of(path: str) -> str:
    """Text of a file; empty if it does not exist."""
    with suppress(OSError):
        refuse_odd(path, os.stat(path).st_mode)
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    return ""


def _uncommitted(names: Sequence[str]) -> bool:
    """Whether some of the files differ from the last commit, or cannot be compared with it."""
    with suppress(UsageError):  # without git
        done = git(os.curdir, "status", "--porcelain", "--ignored", "--", *names, option="init")
        return bool(done.returncode or done.stdout)
    return True


def _spillscan(*words: str) -> int:
    sys.stdout.flush()
    return subprocess.run([sys.executable, "-m", "spillscan", *words], check=False).returncode


# ---- --try --------------------------------------------------------------------------------------------------------


def _tried(job: jobs.Job, written: Sequence[str]) -> int:
    """Run the job's commands in a clean clone with the written files; returns 1 if one fails."""
    with tempfile.TemporaryDirectory(prefix="spillscan-try-") as folder:
        clone, tools, home = (os.path.join(folder, name) for name in ("clone", "tools", "home"))
        _clone(clone)
        for name in written:
            os.makedirs(os.path.dirname(os.path.join(clone, name)), exist_ok=True)
            Target(os.path.join(clone, name)).write(_text_of(name))
        os.mkdir(home)
        os.mkdir(tools)
        with open(os.path.join(tools, "spillscan"), "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m spillscan "$@"\n')
        os.chmod(file.name, 0o755)
        say(["running the job in a clean clone of the last commit, with this copy of spillscan:"])
        environment = os.environ | {"PATH": os.pathsep.join((tools, os.environ.get("PATH", os.defpath))), "HOME": home}
        for command in (*job.build, jobs.check_command("NO_PULL_REQUEST", "-f text")):
            done = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", command],
                cwd=clone,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
            say([f"  {printable(command)}: {f'exit status {done.returncode}' if done.returncode else 'passed'}"])
            if done.returncode:
                lines = done.stdout.decode("utf-8", "replace").replace(f"{clone}/", "").splitlines()
                say(f"    {printable(line)}" for line in lines[-_LONGEST_FAILURE:])
                return 1
    return 0


def _clone(to: str) -> None:
    for words in (
        ("clone", "--quiet", "--no-hardlinks", ".", to),
        ("-C", to, "submodule", "--quiet", "update", "--init", "--recursive"),
    ):
        done = git(os.curdir, *words, option="--try")
        if done.returncode:
            reason = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise UsageError(f"--try: git cannot clone this repository with its submodules: {printable(reason)}")
