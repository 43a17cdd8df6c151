"""Say what a gate of this repository lacks: figures that the build does not report, launches that nothing says, a
baseline that is missing or old, jobs that pass where a build fails or that build otherwise, hooks that judge old
objects, caches that cannot work; and what each costs.
"""

from __future__ import annotations

import argparse
import glob
import os
import re
import shlex
from collections.abc import Iterator, Sequence

from spillscan.advice import jobs
from spillscan.advice.shown import image_of, repeated
from spillscan.builds import configured
from spillscan.builds.compilation import split
from spillscan.builds.run import release
from spillscan.commands import _baseline, _inputs, _options, _policy
from spillscan.commands._shown import shown, text_of
from spillscan.judging.baseline.model import Baseline, identity_of
from spillscan.judging.places import source_of
from spillscan.judging.policy import Policy
from spillscan.judging.rule_docs import explanations
from spillscan.model import Build, Kernel
from spillscan.model.nodes import parse_yaml
from spillscan.naming import Names
from spillscan.output.errors import InputError
from spillscan.output.nouns import count
from spillscan.output.terminal import say
from spillscan.reports.words import UNCOUNTED, families_of

EPILOG = "Example: spillscan doctor build.log"

Lack = tuple[str, str]
"""What is missing and what that costs; what to do."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _options.add_inputs(parser, default=_inputs.LEFT)
    _options.add_launches(parser)
    _policy.add_file(parser)


def run(arguments: argparse.Namespace) -> int:
    """0 where nothing is missing, 1 where something is; 2 where the policy or an input cannot be read."""
    policy = _policy.policy_of(arguments)
    arguments.inputs = _inputs.inputs_or_left(arguments.inputs)
    lacks: list[Lack] = []
    build = None
    if arguments.inputs:
        try:
            build = _inputs.scan(arguments.inputs, unpacking=_policy.unpacking(policy))
        except InputError as error:
            if not any(map(os.path.exists, arguments.inputs)):
                raise
            lacks.append((error.what, error.hint))
    else:
        lacks.append(("no build is looked at", "give a log, the build folder, or a library: spillscan doctor build/"))
    if build is not None:
        said = {issue.code: issue for issue in build.issues if issue.hidden}
        known = explanations("gaps")
        for code, issue in said.items():
            alike = sum(each.code == code for each in build.issues)
            more = f" ({alike:,} of them)" if alike > 1 else ""
            lacks.append((f"{issue.message}{more} [{code}]", known[code].fix if code in known else ""))
        lacks += _of_kernels(build.kernels, policy)
    given = shlex.join(arguments.inputs) or "BUILD"
    lacks += _of_baseline(policy, build, f"`spillscan baseline write {given}`")
    lacks += _of_jobs(f"`spillscan init {given}`")
    lacks += _of_hooks()
    if build is not None:
        lacks += _of_build(arguments.inputs, build)
    for what, fix in lacks:
        say([f"- {what}", *([f"    {fix}"] if fix else [])])
    if build is not None and not build.units:
        say([_UNCOUNTED])
    kernels = "" if build is None else f" in {count(len(build.kernels), 'kernel')}"
    say([f"{count(len(lacks), 'thing')} to fix" if lacks else f"nothing is missing{kernels}"])
    return 1 if lacks else 0


_UNCOUNTED = f"{UNCOUNTED}: `spillscan run`, or the build folder with build.ninja or compile_commands.json, says it"


def _of_kernels(kernels: Sequence[Kernel], policy: Policy) -> Iterator[Lack]:
    """What the input does not say of kernels."""
    names = Names(kernel.named_by for kernel in kernels)
    entries = [kernel for kernel in kernels if kernel.role == "entry"]

    def those(some: Sequence[Kernel]) -> str:
        return f"{len(some):,} of {count(len(entries), 'kernel')} ({families_of(some, names)})"

    if silent := [kernel for kernel in entries if kernel.spills is None]:
        yield f"nothing says whether {those(silent)} spill", "compile with -Xptxas -v, or `spillscan run -- COMMAND`"
    if torn := [kernel for kernel in entries if kernel.confidence == "ambiguous"]:
        fix = "make -j --output-sync=target, ninja, or `spillscan run`: then each object's lines are together"
        yield f"a parallel build tore the log: figures of {those(torn)} may be another's", fix
    if unlinked := [kernel for kernel in entries if kernel.final is False]:
        yield (
            f"registers of {those(unlinked)} are final only after the link",
            "give the link's log too (nvcc -Xnvlink -v)",
        )
    spilling = [kernel for kernel in entries if sum(kernel.spills or (0,))]
    if (coded := [kernel for kernel in spilling if kernel.sass is not None]) and not any(
        kernel.sass.local.lines for kernel in coded if kernel.sass is not None
    ):
        yield f"no source line of what {those(coded)} spill is known", "compile with -lineinfo: it costs no speed"
    elif spilling and not any(source_of(kernel) or kernel.key.unit for kernel in spilling):
        fix = "`spillscan run` writes it down; or let the build print its commands"
        yield (
            f"no source file of {those(spilling)}, which spill, is known: findings are placed at the log's line",
            fix,
        )
    if unlaunched := [kernel for kernel in entries if policy.launch_of(kernel) is None]:
        cost = "min_blocks_per_sm cannot judge them, and registers across a step of 8 are an error, whatever they cost"
        fix = "`launch` in the policy (`spillscan init` writes a skeleton), or `spillscan profile --launches`"
        yield f"nothing says how {those(unlaunched)} are launched: {cost}", fix


def _of_baseline(policy: Policy, build: Build | None, write: str) -> Iterator[Lack]:
    """Whether there is something that a build is held against; ``write``: the command that records it."""
    path = policy.baseline
    if path is None:
        fix = f"{write}, and `baseline: spillscan-baseline.jsonl` in the policy"
        yield "no baseline: what got worse is seen by `diff` alone, and all that spills today fails", fix
    elif not os.path.exists(path):
        yield f"{path} is not there", f"{write} makes it"
    else:
        baseline = _baseline.read(path)
        bare = sum(not entry.figures for entry in baseline.entries.values())
        if bare:
            fix = f"{write}, on an accepted build"
            yield f"{path} has no figures of {count(bare, 'kernel')}: lost blocks are not seen", fix
        if build is not None:
            unknown = {each for each in map(identity_of, build.kernels) if not each.function} - baseline.entries.keys()
            if unknown:
                fix = f"{write}, once they are accepted"
                yield f"{path} does not know {count(len(unknown), 'kernel')} of this build", fix
        yield from _of_toolkits(path, baseline, build, write)


def _of_toolkits(path: str, baseline: Baseline, build: Build | None, write: str) -> Iterator[Lack]:
    """Whether what compiles here, or in a job, is what compiled the recorded kernels."""
    recorded = baseline.toolkits
    here = [release()] if build is None and release() else []
    compiles = {"this build": build.toolkits if build is not None else (), "the PATH's nvcc": here}
    compiles |= {job: sorted(set(_IMAGE.findall(text))) for job, text in _jobs().items() if "spillscan" in text}
    for what, releases in compiles.items():
        if others := _baseline.others_than(recorded, releases):
            yield (
                f"{what} is of CUDA {', '.join(others)}, {path} records what {', '.join(recorded)} compiled",
                f"figures may differ for that alone: take one for both, or {write} with the new one",
            )


_PIPED = re.compile(r"\|\s*(?:tee|spillscan)\b")
_STOPS = re.compile(r"shell: *bash|pipefail")


def _jobs() -> dict[str, str]:
    """What CI services run here: texts by path."""
    paths = [path for end in ("yml", "yaml") for path in glob.glob(f".github/workflows/*.{end}")]
    texts = ((path, text_of(path)) for path in sorted((*paths, jobs.PIPELINE)))
    return {path: text for path, text in texts if text is not None}


def _of_jobs(init: str) -> Iterator[Lack]:
    """Workflows that run spillscan, and pass where the build before it failed; ``init`` writes one."""
    texts = _jobs()
    ours = {path: text for path, text in texts.items() if "spillscan" in text}
    if texts and not ours:
        yield f"no job of {', '.join(texts)} runs spillscan", f"{init} writes one"
    for path, text in ours.items():
        if _PIPED.search(text) and not _STOPS.search(text):
            yield (
                f"{path}: a build that fails before a pipe passes",
                "`defaults: {run: {shell: bash}}`, or set -o pipefail",
            )
        if "--baseline-from" in text and not re.search(r"fetch-depth: *0|GIT_DEPTH", text):
            yield (
                f"{path}: --baseline-from needs the history",
                "fetch-depth: 0 for actions/checkout, GIT_DEPTH: 0 in GitLab",
            )


def _of_hooks() -> Iterator[Lack]:
    """Hooks that judge what was built last, and not what is pushed."""
    text = text_of(jobs.HOOKS)
    repositories = [] if text is None else parse_yaml(text, jobs.HOOKS, foreign=True).plain
    listed = repositories.get("repos") if isinstance(repositories, dict) else None
    hooks = [hook for each in listed or () if isinstance(each, dict) for hook in each.get("hooks") or ()]
    for hook in (each for each in hooks if isinstance(each, dict) and each.get("id") == "spillscan"):
        if str(hook.get("entry", _JUDGES)).startswith(_JUDGES):
            yield (
                f"{jobs.HOOKS}: the hook judges the objects that are there, whatever was changed since",
                "let it build first; `spillscan init` writes such a hook where none is",
            )


_JUDGES = "spillscan check"
_IMAGE = re.compile(r"nvidia/cuda:(\d+\.\d+)")
_CACHES = re.compile(r"\bs?ccache\b")


def _of_build(inputs: Sequence[str], build: Build) -> Iterator[Lack]:
    """Where the jobs are not what this build was: toolkits, options, commands; and what its launchers do."""
    found = jobs.build_system(text_of)
    made = shown(inputs, build, found)
    calls = configured.compilers(made.configured.folder) if made.configured is not None else []
    for call in calls:
        before, ours, _ = call.partition("spillscan")
        if len(_CACHES.findall(call.partition("nvcc")[0])) > 1 or (ours and _CACHES.search(before)):
            yield (
                f"a cache is called before spillscan or twice, and then caches nothing: {call[:_LONGEST]}",
                "one launcher, spillscan first (`spillscan;wrap;-v;--;ccache`), the project's own off; or none, and"
                " `spillscan run --` before the build",
            )
            break
    if made.native:
        yield (
            f"{count(made.native, 'compilation')} for the GPU of the machine that compiles (-arch=native): here"
            f" {', '.join(made.archs) or 'no kernel says'}; a job without a GPU judges nvcc's default",
            "name the archs that you ship: -arch=sm_90",
        )
    here, was = (".".join(each.split(".")[:2]) for each in (release(), made.release))
    if here and was and here != was:
        yield f"CUDA {was} compiled this build, and the PATH's nvcc is of {here}", "build again, or fix the PATH"
    words = [word for command in repeated(made, found).commands for word in split(command)]
    if made.configured is not None and not made.watched:
        words = [word for word in words if word.startswith("-D") and "LAUNCHER" not in word and made.sure]
    elif not made.watched:
        words = []
    for path, text in _jobs().items():
        if "spillscan" not in text:
            continue
        images = sorted(set(_IMAGE.findall(text)))
        if was and images and was not in images:
            yield f"{path} compiles with CUDA {', '.join(images)}, this build is of {was}", image_of(made.release)
        given = {word for line in text.splitlines() for word in split(line)}
        if missing := [word for word in words if word not in given and not word.startswith("-j")]:
            yield f"{path} builds without {' '.join(missing)}, with which this build was made", "give it there, too"


_LONGEST = 200
"""Characters of a command that are shown."""
