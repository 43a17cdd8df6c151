"""Make a repository gated: a policy with the launches that are known, a baseline of a build, a job for its CI service
that builds as that was built: with its options, variables and toolkit.

What would be written is shown as a diff; it is written with --yes, or where you say so. What is there already stays.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from spillscan.advice import jobs, trying
from spillscan.advice.jobs import BUILD_SYSTEMS, POLICY, BuildSystem, build_system
from spillscan.advice.shown import lacks, repeated
from spillscan.builds import configured
from spillscan.commands import _inputs, _options
from spillscan.commands._policy import policy_of
from spillscan.commands._shown import shown, text_of
from spillscan.commands.baseline import accepted
from spillscan.judging.baseline.file import text_of as baseline_text
from spillscan.judging.policy import Policy
from spillscan.judging.policy.reading import layer
from spillscan.model import Build
from spillscan.model.nodes import parse_yaml
from spillscan.occupancy.launches import parse_launch
from spillscan.output.files import Target
from spillscan.output.nouns import count
from spillscan.output.safe import printable
from spillscan.output.terminal import complain, say

EPILOG = "Example: spillscan run -- make; spillscan init --try"
_LONGEST_DIFF = 60
"""Lines of a new file that are shown; a baseline has one a kernel."""
_MISSING = re.compile("No such file|not found|[Cc]annot (?:find|open)|does not exist|No rule to make")
_BRANCH = re.compile(r"ref: refs/remotes/origin/([A-Za-z][\w./-]*)$")
_UNASKED_SECONDS = 120
"""A trial is a whole build once more: it is made unasked where that is short, and where the job's commands are ours and
write into their folder alone. What was watched may do anything."""
_LONGEST_FAILURE = 20
"""Lines of a step that failed, the last ones."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _options.add_inputs(parser, default=_inputs.LEFT)
    _options.flag(parser, "--yes", "write without asking")
    parser.add_argument(
        "--try",
        dest="attempt",
        action=argparse.BooleanOptionalAction,
        help="run the job, step by step, in a clean clone with an empty home; what it installs is taken from here"
        f" (default: where CMake and ninja built in no more than {_UNASKED_SECONDS} s, and files are written)",
    )
    _options.add_launches(parser)


def run(arguments: argparse.Namespace) -> int:
    """0, also where nothing was to be done or wanted; 1 where the job was tried and fails; 2 where the build cannot be
    read or is not all there."""
    arguments.inputs = _inputs.inputs_or_left(arguments.inputs)
    build = _inputs.scan(arguments.inputs) if arguments.inputs else None
    found = build_system(text_of)
    system, known, missing, took = found or BUILD_SYSTEMS[-1], found is not None, [], None
    called = False
    if build is not None:
        made = shown(arguments.inputs, build, found)
        system, missing = repeated(made, found), [*lacks(made)]
        called = bool(made.watched) or made.configured is not None
        known = known or called
        took = configured.seconds(made.configured.folder) if made.configured and not made.watched else None
    proposed = [*_proposals(build, arguments, system)]
    kept = [path for path, old, new in proposed if old == new]
    changed = [(path, old, new) for path, old, new in proposed if old != new]
    say(line for path, old, new in changed for line in _diff(path, old, new))
    say(f"{path} is there, and stays as it is" for path in kept)
    say(_next(system, build, known=known, called=called))
    if not {jobs.WORKFLOW, jobs.PIPELINE}.intersection(path for path, *_ in proposed):
        say([f"no CI service is known here: a job is written where {jobs.PIPELINE}, .github/ or a remote shows one"])
    say(f"a runner will lack: {printable(each)}" for each in missing)
    if changed and not (arguments.yes or _agreed(len(changed))):
        complain("nothing is written; --yes writes it")
    elif changed:
        for path, _, new in changed:
            os.makedirs(os.path.dirname(path) or os.curdir, exist_ok=True)
            Target(path).write(new)
        say([f"written: {', '.join(path for path, _, _ in changed)}"])
        if arguments.attempt is None and build is not None:
            arguments.attempt = took is not None and took <= _UNASKED_SECONDS and trying.has_commit(os.curdir)
            if arguments.attempt:
                say([f"the job is tried, for the build took {took:.0f} s (--no-try leaves it out)"])
            else:
                say([f"`spillscan init {shlex.join(arguments.inputs)} --try` runs the job in a clean clone"])
    if not arguments.attempt:
        return 0
    return _tried({path: new or text_of(path) or "" for path, _, new in proposed}, system)


def _tried(texts: Mapping[str, str], system: BuildSystem) -> int:
    """Run the job that stands in ``texts``, as a runner would; 1 where a step fails."""
    path = next((each for each in (jobs.WORKFLOW, jobs.PIPELINE) if each in texts), jobs.WORKFLOW)
    text = texts.get(path) or jobs.workflow(system, _branch())
    scripts = trying.steps(text, path)
    with tempfile.TemporaryDirectory(prefix="spillscan-try-") as folder:
        place = Path(folder)
        checkout = place / "checkout"
        trying.clone(
            os.curdir, checkout, {**texts, path: text}, submodules="submodules:" in text or "SUBMODULE" in text
        )
        unwritten = "" if path in texts else ", which is not written"
        say([f"{path}{unwritten}, in a clean clone of the last commit and with an empty home:"])
        begun = time.monotonic()
        for done in trying.attempt(scripts, place, checkout):
            now = time.monotonic()
            came = "passes" if not done.status else f"ends with {done.status}"
            say([f"  {printable(done.name)}: {came}, {now - begun:.0f} s"])
            if done.installs:
                say([f"    not run, what is here is taken: {printable('; '.join(done.installs))}"])
            begun = now
            if done.status:
                say(f"    {printable(line)}" for line in done.said.splitlines()[-_LONGEST_FAILURE:])
                say(_not_there(done.said, checkout))
                return 1
    return 0


def _not_there(said: str, checkout: Path) -> Iterator[str]:
    """Files that a failure names, that are here, and that a clone does not have."""
    lines = [line for line in said.replace(f"{checkout}/", "").splitlines() if _MISSING.search(line)]
    for word in dict.fromkeys(re.sub("[':`\"]", " ", " ".join(lines)).split()):
        if not os.path.isabs(word) and os.path.isfile(word) and not (checkout / word).exists():
            yield f"a runner will lack: {printable(word)} is here, and is not committed"


def _proposals(
    build: Build | None, arguments: argparse.Namespace, system: BuildSystem
) -> Iterator[tuple[str, str, str]]:
    """(path, text that is there, text that should be) of each file; equal where what is there stays."""
    launches = [parse_launch(text) for text in arguments.launch]
    policy = next(filter(os.path.exists, (jobs.POLICY, "spillscan.yml")), "")
    if not policy and "[tool.spillscan" in (text_of("pyproject.toml") or ""):
        policy = "pyproject.toml"
    written = jobs.policy(build.kernels if build else (), build is not None, launches)
    if policy:
        held = text_of(policy) or ""
        yield policy, held, held if build is None else jobs.with_baseline(held)
    else:
        yield jobs.POLICY, "", written
    if os.path.exists(jobs.BASELINE):
        yield jobs.BASELINE, "", ""
    elif build is not None:
        yield jobs.BASELINE, "", _baseline(build, arguments, "" if policy else written)
    remotes = text_of(".git/config") or ""
    if os.path.isdir(".github") or "github.com" in remotes:
        there = os.path.exists(jobs.WORKFLOW)
        yield jobs.WORKFLOW, "", "" if there else jobs.workflow(system, _branch())
    pipeline = text_of(jobs.PIPELINE)
    if pipeline is None and "gitlab" in remotes:
        yield jobs.PIPELINE, "", jobs.pipeline_job(system)
    elif pipeline is not None:
        job = "" if "spillscan" in pipeline else f"\n{jobs.pipeline_job(system, pipeline)}"
        yield jobs.PIPELINE, pipeline, pipeline + job
    hooks = text_of(jobs.HOOKS)
    if hooks is not None:
        yield jobs.HOOKS, hooks, hooks if "spillscan" in hooks else jobs.with_hook(hooks, system)


def _branch() -> str:
    """The branch that changes go into: the remote's, else ``master`` where that is checked out, else ``main``."""
    remote = _BRANCH.match(text_of(".git/refs/remotes/origin/HEAD") or "")
    here = "master" if (text_of(".git/HEAD") or "").strip() == "ref: refs/heads/master" else "main"
    return remote[1] if remote else here


def _baseline(build: Build, arguments: argparse.Namespace, written: str) -> str:
    """The baseline of ``build``, under the policy that is ``written``, else the one that is there."""
    arguments.config, arguments.arch, arguments.today = None, [], None
    policy = Policy((layer(parse_yaml(written, POLICY)),)) if written else policy_of(arguments)
    return baseline_text(accepted(build, arguments, policy).baseline)


def _diff(path: str, old: str, new: str) -> Iterator[str]:
    before = path if old else "/dev/null"
    lines = [*difflib.unified_diff(old.splitlines(), new.splitlines(), before, path, lineterm="", n=2)]
    yield from lines[:_LONGEST_DIFF]
    if len(lines) > _LONGEST_DIFF:
        yield f"… {count(len(lines) - _LONGEST_DIFF, 'more line')}"
    yield ""


def _next(system: BuildSystem, build: Build | None, *, known: bool, called: bool) -> Iterator[str]:
    """What is to be known of the job; ``known``: its build system, ``called``: how the build was called."""
    if known:
        yield f"{system.name}: kernels are seen where it builds with"
        yield from (f"  {command}" for command in system.commands)
        tools = " ".join(("spillscan", *system.tools))
        yield printable(f"{system.image} lacks {system.installs} and {tools}: the job installs them, by apt and by pip")
    else:
        yield "no build system was recognised: the job runs make; put your own commands there"
    if build is not None and not called:
        yield "how this was built is not known: `spillscan run -- COMMAND`, then `spillscan init`, repeats the build"
    if build is None and known:
        yield f"then `spillscan init {system.inputs}` records the baseline"


def _agreed(files: int) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        return False
    answer = input(f"write {'this file' if files == 1 else f'these {files} files'}? [y/N] ")
    return answer.strip().lower() in ("y", "yes")
