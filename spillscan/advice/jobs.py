"""Files that `init` writes: the policy, and the GitHub or GitLab job that repeats a build and checks it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution

from msgspec import Struct

from spillscan.model import Kernel, Launch
from spillscan.model.gaps import KINDS
from spillscan.model.patterns import matches
from spillscan.naming import Names
from spillscan.occupancy.launches import settled
from spillscan.output.nouns import count
from spillscan.output.safe import printable

POLICY, BASELINE, IGNORED = "spillscan.yaml", "spillscan-baseline.jsonl", ".gitignore"
WORKFLOW, PIPELINE = ".github/workflows/spillscan.yml", ".gitlab-ci.yml"
TO_FILL_IN = {
    "<SPILLSCAN>": "git URL (git+https://…) or wheel URL from which pip can install spillscan (or pass --install SPEC)",
    "<IMAGE>": "a Debian or Ubuntu image with nvcc and Python 3.11 or later",
}
"""Placeholders of a job that only the user can fill in."""
OURS = {WORKFLOW: "file", PIPELINE: "job"}
"""Part of the CI configuration that `init` writes, by path."""
_UNLINKED = "registers-not-final"
_PACKAGES = {"cmake": "cmake", "ninja": "ninja-build", "meson": "meson ninja-build", "scons": "scons", "ctest": "cmake"}
"""Debian packages of build tools that a toolkit image lacks."""


class Job(Struct, frozen=True, kw_only=True):
    """Parameters of a CI job."""

    commands: tuple[str, ...]
    """Build commands as typed, each run as ``spillscan run -- COMMAND``."""
    install: str = "<SPILLSCAN>"
    """Argument of pip install."""
    branch: str = "main"
    """Branch that changes are merged into."""

    @property
    def packages(self) -> str:
        """Debian packages to install into the image."""
        tools = dict.fromkeys(re.findall(r"[\w+-]+", " ".join(self.commands).lower()))
        return " ".join(["git", "python3-venv", *(_PACKAGES[tool] for tool in tools if tool in _PACKAGES)])

    @property
    def build(self) -> tuple[str, ...]:
        """Commands of the build step."""
        return tuple(f"spillscan run -- {each}" for each in self.commands)


def check_command(branch: str, forms: str) -> str:
    """Command of the gate step; ``branch``: the variable with a pull request's target branch."""
    return f'spillscan check spillscan-build.json ${{{branch}:+--baseline-from "origin/${branch}"}} {forms}'


# ---- the policy ---------------------------------------------------------------------------------------------------


def policy(kernels: Sequence[Kernel], launches: Sequence[tuple[str, Launch]] = ()) -> str:
    """Text of a policy: the baseline, the ``launches`` that the user gave, and the families without a known launch."""
    lines = [
        "# spillscan policy. `spillscan config` prints the limits in force; `spillscan explain RULE` explains a rule.",
        "version: 1",
        f"baseline: {BASELINE}",
    ]
    if _UNLINKED in KINDS and any(kernel.final is False for kernel in kernels):
        lines += ["accept:", f"  - {{gap: {_UNLINKED}, reason: relocatable code is linked elsewhere}}"]
    return "\n".join([*lines, "", *_launches(kernels, launches)]) + "\n"


def _launches(kernels: Sequence[Kernel], launches: Sequence[tuple[str, Launch]]) -> Iterator[str]:
    yield "# Block sizes, needed to check blocks/SM of kernels without known launch bounds."
    yield "kernels:" if launches else "kernels: []"
    for pattern, launch in launches:
        dynamic = launch.dynamic_shared_bytes
        shared = f", dynamic_shared_bytes: {dynamic}" if dynamic else ""
        yield f"  - {{match: {_quoted(pattern)}, launch: {{threads_per_block: {launch.threads_per_block}{shared}}}}}"
    families = unknown_families(kernels, [pattern for pattern, _ in launches])
    if families:
        brackets = "" if launches else " Delete the [] above."
        yield f"# TODO: correct the block sizes and uncomment the lines.{brackets}"
    for pattern, members in families:
        entry = f"{{match: {_quoted(pattern)}, launch: {{threads_per_block: 256}}}}"
        yield f"#  - {entry}  # {count(len(members), 'kernel')}"


def _quoted(pattern: str) -> str:
    return json.dumps(pattern, ensure_ascii=False)


def unknown_families(kernels: Iterable[Kernel], given: Sequence[str]) -> list[tuple[str, list[Kernel]]]:
    """(pattern, kernels) of each family whose launch is unknown, largest first.

    ``given``: patterns of launches that the user gave.
    """
    silent = [
        kernel
        for kernel in kernels
        if kernel.role != "function"
        and settled(kernel, None) is None
        and not any(matches(kernel, pattern) for pattern in given)
    ]
    names = Names(kernel.named_by for kernel in silent)
    families: dict[str, list[Kernel]] = {}
    for kernel in silent:
        families.setdefault(names.base(kernel.named_by), []).append(kernel)
    ordered = sorted(families.items(), key=lambda item: (-len(item[1]), item[0]))
    return [(_pattern(base, members), members) for base, members in ordered if base]


def _pattern(base: str, members: Sequence[Kernel]) -> str:
    """Pattern that matches all kernels of a family, if possible; otherwise its first kernel's symbol."""
    for pattern in (base, f"{base}<*", f"*{base}*"):
        if all(matches(kernel, pattern) for kernel in members):
            return printable(pattern)
    return printable(members[0].key.symbol)


# ---- the job ------------------------------------------------------------------------------------------------------


def installed_from() -> str:
    """Argument of pip that installs this copy (PEP 610); empty if it was installed from a local folder or file."""
    try:
        package = distribution("spillscan")
        direct = json.loads(package.read_text("direct_url.json") or "null")
    except (PackageNotFoundError, ValueError):
        return ""
    if direct is None:
        return f"spillscan=={package.version}"
    url, vcs = str(direct.get("url", "")), direct.get("vcs_info")
    if url.startswith("file:") or "dir_info" in direct:
        return ""
    folder = f"#subdirectory={direct['subdirectory']}" if "subdirectory" in direct else ""
    return f"{vcs['vcs']}+{url}@{vcs['commit_id']}{folder}" if vcs else url + folder


def workflow(job: Job) -> str:
    """Text of a GitHub workflow."""
    gate = check_command("GITHUB_BASE_REF", '-f github -f markdown:+"$GITHUB_STEP_SUMMARY" -f markdown:comment.md')
    return f"""\
name: spillscan
on:
  push: {{branches: [{job.branch}]}}
  pull_request:
permissions: {{contents: read}}
jobs:
  kernels:
    runs-on: ubuntu-latest
    container: <IMAGE>  # a Debian or Ubuntu image with nvcc and Python 3.11 or later; no GPU is needed
    defaults: {{run: {{shell: bash}}}}
    steps:
      - name: Tools
        run: apt-get update -qq && apt-get install -yqq --no-install-recommends {job.packages}
      - uses: actions/checkout@v4
        with: {{fetch-depth: 0, submodules: recursive}}  # --baseline-from reads the merge base
      - name: Install
        run: |
          git config --global --add safe.directory "$GITHUB_WORKSPACE"
          python3 -m venv "$RUNNER_TEMP/spillscan"
          "$RUNNER_TEMP/spillscan/bin/python" -m pip install --quiet {_install(job)}
          echo "$RUNNER_TEMP/spillscan/bin" >> "$GITHUB_PATH"
      - name: Build
        run: |
          {_lines(job.build, 10)}
      - name: Gate
        run: {gate}
      - uses: actions/upload-artifact@v4
        if: always()
        with: {{name: spillscan, path: comment.md}}
"""


def pipeline(job: Job, stages: Sequence[str] = ()) -> str:
    """Text of a GitLab job; ``stages``: stages of the pipeline that it joins."""
    stage = "" if not stages or "test" in stages else f"\n  stage: {stages[-1]}"
    gate = check_command("CI_MERGE_REQUEST_TARGET_BRANCH_NAME", "-f text -f gitlab:gl-code-quality-report.json")
    return f"""\
spillscan:{stage}
  image: <IMAGE>  # a Debian or Ubuntu image with nvcc and Python 3.11 or later; no GPU is needed
  inherit: {{default: false}}
  needs: []
  variables: {{GIT_DEPTH: 0, GIT_SUBMODULE_STRATEGY: recursive}}  # --baseline-from reads the merge base
  script:
    - set -eo pipefail
    - apt-get update -qq && apt-get install -yqq --no-install-recommends {job.packages}
    - python3 -m venv ~/spillscan && ~/spillscan/bin/python -m pip install --quiet {_install(job)}
    - export PATH="$HOME/spillscan/bin:$PATH"
    - |
      {_lines(job.build, 6)}
    - |
      {gate}
  artifacts:
    when: always
    reports: {{codequality: gl-code-quality-report.json}}
"""


def _install(job: Job) -> str:
    return f"{job.install}  # git or wheel URL of spillscan" if job.install in TO_FILL_IN else f"'{job.install}'"


def _lines(commands: Sequence[str], indent: int) -> str:
    return f"\n{' ' * indent}".join(commands)
