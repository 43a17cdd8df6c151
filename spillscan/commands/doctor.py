"""Say what a gate of this repository lacks: figures that the build does not report, launches that nothing says, a
baseline that is missing or old, jobs that pass where a build fails; and what each costs.
"""

from __future__ import annotations

import argparse
import glob
import os
import re
from collections.abc import Iterator, Sequence

from spillscan.commands import _baseline, _inputs, _options, _policy
from spillscan.judging.baseline.model import identity_of
from spillscan.judging.places import source_of
from spillscan.judging.policy import Policy
from spillscan.judging.rule_docs import explanations
from spillscan.model import Build, Kernel
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
    _options.add_inputs(parser)
    _options.add_launches(parser)
    _policy.add_file(parser)


def run(arguments: argparse.Namespace) -> int:
    """0 where nothing is missing, 1 where something is; 2 where the policy or an input cannot be read."""
    policy = _policy.policy_of(arguments)
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
        known = explanations("holes")
        for code, issue in said.items():
            alike = sum(each.code == code for each in build.issues)
            more = f" ({alike:,} of them)" if alike > 1 else ""
            lacks.append((f"{issue.message}{more} [{code}]", known[code].remedy if code in known else ""))
        lacks += _of_kernels(build.kernels, policy)
    lacks += _of_baseline(policy, build)
    lacks += _of_jobs()
    for what, remedy in lacks:
        say([f"- {what}", *([f"    {remedy}"] if remedy else [])])
    if build is not None and not build.units:
        say([_UNCOUNTED])
    kernels = "" if build is None else f" in {len(build.kernels):,} kernels"
    say([f"{count(len(lacks), 'thing')} to mend" if lacks else f"nothing is missing{kernels}"])
    return 1 if lacks else 0


_UNCOUNTED = (
    f"{UNCOUNTED[0].upper()}{UNCOUNTED[1:]}: `spillscan run`, or the build folder with build.ninja or"
    " compile_commands.json, says it."
)


def _of_kernels(kernels: Sequence[Kernel], policy: Policy) -> Iterator[Lack]:
    """What the input does not say of kernels."""
    names = Names(kernel.named_by for kernel in kernels)
    entries = [kernel for kernel in kernels if kernel.role == "entry"]

    def those(some: Sequence[Kernel]) -> str:
        return f"{len(some):,} of {len(entries):,} kernels ({families_of(some, names)})"

    if silent := [kernel for kernel in entries if kernel.spills is None]:
        yield f"nothing says whether {those(silent)} spill", "compile with -Xptxas -v, or `spillscan wrap -v`"
    if torn := [kernel for kernel in entries if kernel.confidence == "ambiguous"]:
        remedy = "make -j --output-sync=target, ninja, or `spillscan wrap`: then each object's lines stand together"
        yield f"a parallel build tore the log: figures of {those(torn)} may be another's", remedy
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
        remedy = "`spillscan wrap` writes it down; or let the build print its commands"
        yield f"no source file of {those(spilling)}, which spill, is known: findings stand at the log's line", remedy
    if unlaunched := [kernel for kernel in entries if policy.launch_of(kernel) is None]:
        cost = "min_blocks_per_sm cannot judge them, and registers across a step of 8 are an error, whatever they cost"
        remedy = "`launch` in the policy (`spillscan init` writes a skeleton), or `spillscan launches` of a profile"
        yield f"nothing says how {those(unlaunched)} are launched: {cost}", remedy


def _of_baseline(policy: Policy, build: Build | None) -> Iterator[Lack]:
    """Whether there is something that a build is held against."""
    path = policy.baseline
    if path is None:
        remedy = "`spillscan baseline write`, and `baseline: spillscan-baseline.yaml` in the policy"
        yield "no baseline: what got worse is seen by `diff` alone, and all that spills today fails", remedy
    elif not os.path.exists(path):
        yield f"{path} is not there", "`spillscan baseline write` makes it"
    else:
        baseline = _baseline.read(path)
        bare = sum(not entry.figures for entry in baseline.entries.values())
        if bare:
            remedy = "`spillscan baseline write` on an accepted build"
            yield f"{path} has no figures of {bare:,} kernels: lost blocks are not seen", remedy
        if build is not None:
            unknown = {each for each in map(identity_of, build.kernels) if not each.function} - baseline.entries.keys()
            if unknown:
                remedy = "`spillscan baseline write` once they are accepted"
                yield f"{path} does not know {len(unknown):,} kernels of this build", remedy


_PIPED = re.compile(r"\|\s*(?:tee|spillscan)\b")
_STOPS = re.compile(r"shell: *bash|pipefail")


def _of_jobs() -> Iterator[Lack]:
    """Workflows that run spillscan, and pass where the build before it failed."""
    paths = [path for end in ("yml", "yaml") for path in glob.glob(f".github/workflows/*.{end}")]
    texts = {path: _read(path) for path in sorted((*paths, *filter(os.path.exists, (".gitlab-ci.yml",))))}
    ours = {path: text for path, text in texts.items() if "spillscan" in text}
    if texts and not ours:
        yield f"no job of {', '.join(texts)} runs spillscan", "`spillscan init` writes one"
    for path, text in ours.items():
        if _PIPED.search(text) and not _STOPS.search(text):
            yield (
                f"{path}: a build that fails behind a pipe passes",
                "`defaults: {run: {shell: bash}}`, or set -o pipefail",
            )
        if "--baseline-from" in text and not re.search(r"fetch-depth: *0|GIT_DEPTH", text):
            yield (
                f"{path}: --baseline-from needs the history",
                "fetch-depth: 0 for actions/checkout, GIT_DEPTH: 0 in GitLab",
            )


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()
