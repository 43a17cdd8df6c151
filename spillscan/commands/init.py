"""Make a repository gated: a policy with the launches that are known, a baseline of a build, a job for its CI service.

What would be written is shown as a diff; it is written with --yes, or where you say so. What is there already stays.
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Iterator

from spillscan.advice import adoption
from spillscan.advice.adoption import BUILD_SYSTEMS, POLICY, BuildSystem, build_system
from spillscan.commands import _inputs, _options
from spillscan.commands._policy import policy_of
from spillscan.commands.baseline import accepted
from spillscan.judging.baseline.file import text_of
from spillscan.judging.policy import Policy
from spillscan.judging.policy.reading import layer
from spillscan.model import Build
from spillscan.model.nodes import parse_yaml
from spillscan.occupancy.launches import parse_launch
from spillscan.output.files import Target
from spillscan.output.terminal import complain, say

EPILOG = "Example: make 2>&1 | tee build.log; spillscan init build.log"
_LONGEST_DIFF = 60
"""Lines of a new file that are shown; a baseline has one a kernel."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _options.add_inputs(parser)
    _options.flag(parser, "--yes", "write without asking")
    _options.add_launches(parser)


def run(arguments: argparse.Namespace) -> int:
    """0, also where nothing was to be done or wanted; 2 where the build cannot be read or is not all there."""
    build = _inputs.scan(arguments.inputs) if arguments.inputs else None
    found = build_system(_text)
    system = found or BUILD_SYSTEMS[-1]
    proposed = [*_proposals(build, arguments, system)]
    kept = [path for path, old, new in proposed if old == new]
    changed = [(path, old, new) for path, old, new in proposed if old != new]
    say(line for path, old, new in changed for line in _diff(path, old, new))
    say(f"{path} is there, and stays as it is" for path in kept)
    say(_next(found, build))
    if not changed:
        return 0
    if not (arguments.yes or _agreed(len(changed))):
        complain("nothing is written; --yes writes it")
        return 0
    for path, _, new in changed:
        os.makedirs(os.path.dirname(path) or os.curdir, exist_ok=True)
        Target(path).write(new)
    say([f"written: {', '.join(path for path, _, _ in changed)}"])
    return 0


def _proposals(
    build: Build | None, arguments: argparse.Namespace, system: BuildSystem
) -> Iterator[tuple[str, str, str]]:
    """(path, text that is there, text that should be) of each file; equal where what is there stays."""
    launches = [parse_launch(text) for text in arguments.launch]
    policy = next(filter(os.path.exists, (adoption.POLICY, "spillscan.yml")), "")
    if not policy and "[tool.spillscan" in (_text("pyproject.toml") or ""):
        policy = "pyproject.toml"
    written = adoption.policy(build.kernels if build else (), build is not None, launches)
    if policy:
        held = _text(policy) or ""
        yield policy, held, held if build is None else adoption.with_baseline(held)
    else:
        yield adoption.POLICY, "", written
    if os.path.exists(adoption.BASELINE):
        yield adoption.BASELINE, "", ""
    elif build is not None:
        yield adoption.BASELINE, "", _baseline(build, arguments, "" if policy else written)
    if os.path.isdir(".github") or "github.com" in (_text(".git/config") or ""):
        there = os.path.exists(adoption.WORKFLOW)
        yield adoption.WORKFLOW, "", "" if there else adoption.workflow(system)
    pipeline = _text(adoption.PIPELINE)
    if pipeline is not None:
        job = "" if "spillscan" in pipeline else f"\n{adoption.pipeline_job(system)}"
        yield adoption.PIPELINE, pipeline, pipeline + job
    hooks = _text(adoption.HOOKS)
    if hooks is not None:
        yield adoption.HOOKS, hooks, hooks if "spillscan" in hooks else adoption.with_hook(hooks, system)


def _baseline(build: Build, arguments: argparse.Namespace, written: str) -> str:
    """The baseline of ``build``, under the policy that is ``written``, else the one that is there."""
    arguments.config, arguments.no_config, arguments.arch, arguments.today = None, False, [], None
    policy = Policy((layer(parse_yaml(written, POLICY)),)) if written else policy_of(arguments)
    return text_of(accepted(build, arguments, policy).baseline)


def _diff(path: str, old: str, new: str) -> Iterator[str]:
    before = path if old else "/dev/null"
    lines = [*difflib.unified_diff(old.splitlines(), new.splitlines(), before, path, lineterm="", n=2)]
    yield from lines[:_LONGEST_DIFF]
    if len(lines) > _LONGEST_DIFF:
        yield f"… {len(lines) - _LONGEST_DIFF:,} more lines"
    yield ""


def _next(system: BuildSystem | None, build: Build | None) -> Iterator[str]:
    if system is None:
        yield "no build system was recognised: the job runs make; put your own commands there"
    else:
        yield f"{system.name}: kernels are seen where it builds with"
        yield from (f"  {command}" for command in system.commands)
    if build is None and system is not None:
        yield f"then `spillscan init {system.inputs}` records the baseline"


def _agreed(files: int) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        return False
    answer = input(f"write {'this file' if files == 1 else f'these {files} files'}? [y/N] ")
    return answer.strip().lower() in ("y", "yes")


def _text(path: str) -> str | None:
    """The text of a file; ``None`` where there is none."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return None
