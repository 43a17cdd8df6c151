"""The jobs and hooks of CI services that build a repository's kernels and judge them. Texts only."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec import structs

from spillscan.advice.profile.launchmap import KernelLaunch, LaunchList, lines
from spillscan.builds.coverage import IMAGE_OF_RELEASE
from spillscan.model import Kernel, Launch
from spillscan.model.nodes import parse_yaml
from spillscan.model.patterns import matches
from spillscan.naming import Names
from spillscan.occupancy.launches import settled
from spillscan.output.nouns import count
from spillscan.output.safe import printable

# The policy that makes a repository gated. Text only; ``commands/init.py`` writes it.

POLICY, BASELINE = "spillscan.yaml", "spillscan-baseline.jsonl"
LONGEST_SKELETON = 14
"""Families that a launch map lists with nothing known of them; of more, the largest."""


def policy(kernels: Sequence[Kernel], with_baseline: bool, said: Sequence[tuple[str, Launch]] = ()) -> str:
    """A policy file: the baseline, and the launches of ``kernels`` as far as something says them, or the user has
    ``said``: (pattern, launch)."""
    text = [
        "# What is demanded of this repository's kernels: `spillscan config` shows all, `spillscan explain RULE` why.",
        "version: 1",
        *([f"baseline: {BASELINE}"] if with_baseline else []),
        "",
        *launch_map(kernels, said),
    ]
    return "\n".join(text) + "\n"


def with_baseline(text: str) -> str:
    """A policy file that names a baseline; as it is where it does, and where a line at its end would not."""
    keys = re.findall(r"^([a-z_]\w*):", text, re.M)
    if not keys or "baseline" in keys:
        return text
    return f"{text.rstrip()}\nbaseline: {BASELINE}\n"


def launch_map(kernels: Sequence[Kernel], said: Sequence[tuple[str, Launch]] = ()) -> Iterator[str]:
    """How kernels are launched that do not say it themselves: what the user has ``said``, then a line to fill in for
    every other family."""
    yield "# How kernels are launched that do not say it themselves, by launch bounds or beside their code. Where that"
    yield "# is known, lost blocks per SM are found, and registers that cost none are no error; `min_blocks_per_sm: N`"
    yield "# can be demanded. `spillscan profile --launches` writes what a profile saw."
    given = (
        KernelLaunch(match=match, arch="", launch=structs.replace(launch, source="given"), seen=1, others=())
        for match, launch in said
    )
    yield from lines(LaunchList(entries=tuple(given), left_out=()))
    families = unknown_families(kernels, [match for match, _ in said])
    if families:
        brackets = "" if said else " (and the brackets above)"
        yield f"# Not known: put what is launched in place of 256 and 0, and delete the signs{brackets}."
    for pattern, members in families[:LONGEST_SKELETON]:
        entry = f"{{match: {json.dumps(pattern, ensure_ascii=False)}, launch: {_EXAMPLE}}}"
        yield f"#  - {entry}  # {count(len(members), 'kernel')}"
    if len(families) > LONGEST_SKELETON:
        yield f"# … {count(len(families) - LONGEST_SKELETON, 'more family', 'more families')}"


_EXAMPLE = "{threads_per_block: 256, dynamic_shared_bytes: 0}"


def unknown_families(kernels: Iterable[Kernel], said: Sequence[str]) -> list[tuple[str, list[Kernel]]]:
    """(pattern, kernels) of each family of which nothing says how it is launched, the largest first. ``said``: patterns
    of launches that the user gave."""
    silent = [
        kernel
        for kernel in kernels
        if kernel.role != "function"
        and settled(kernel, None) is None
        and not any(matches(kernel, match) for match in said)
    ]
    names = Names(kernel.named_by for kernel in silent)
    families: dict[str, list[Kernel]] = {}
    for kernel in silent:
        families.setdefault(names.base(kernel.named_by), []).append(kernel)
    ordered = sorted(families.items(), key=lambda item: (-len(item[1]), item[0]))
    return [(_pattern(base, members), members) for base, members in ordered if base]


def _pattern(base: str, members: Sequence[Kernel]) -> str:
    """A pattern that names all of a family."""
    for pattern in (base, f"{base}<*", f"*{base}*"):
        if all(matches(kernel, pattern) for kernel in members):
            return printable(pattern)
    return printable(members[0].key.symbol)


WORKFLOW, PIPELINE, HOOKS = ".github/workflows/spillscan.yml", ".gitlab-ci.yml", ".pre-commit-config.yaml"
_IMAGE = IMAGE_OF_RELEASE["12.9"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSystem:
    """How a build lets the compiler report what kernels use, and what a machine needs for it."""

    name: str
    """What people call it."""
    markers: tuple[str, ...] = ()
    """Files at the top of a repository that it builds, each with what it must hold: ``pyproject.toml:scikit``."""
    commands: tuple[str, ...]
    """What builds the repository so that kernels are seen."""
    inputs: str
    """What the gate then reads."""
    packages: str
    """What the image lacks for it."""
    tools: tuple[str, ...] = ()
    """What it takes from PyPI, beside spillscan."""
    image: str = _IMAGE
    """The container, which has the CUDA toolkit."""
    submodules: bool = False
    """Whether the checkout has submodules."""

    @property
    def python(self) -> str:
        """The image's Python, of which spillscan needs 3.11."""
        return "python3.11" if "ubuntu22.04" in self.image else "python3"

    @property
    def installs(self) -> str:
        """What the image lacks, as apt calls it."""
        return re.sub(r"python3(?=-venv|-dev)", self.python, self.packages)


BUILD_SYSTEMS = (
    BuildSystem(
        name="scikit-build",
        markers=("pyproject.toml:scikit",),
        commands=("spillscan run -- pip install -v . -C build-dir=build",),  # pip hides what a launcher would import
        inputs="spillscan-build.json",
        packages="git python3-dev python3-venv",
    ),
    BuildSystem(
        name="CMake",
        markers=("CMakeLists.txt",),
        commands=(
            'cmake -B build -DCMAKE_CUDA_COMPILER_LAUNCHER="spillscan;wrap;-v;--"',
            'cmake --build build -j"$(nproc)"',
        ),
        inputs="build/",
        packages="cmake git python3-venv",
    ),
    BuildSystem(
        name="setuptools",
        markers=("setup.py", "pyproject.toml:setuptools"),
        commands=("spillscan run -- python3 setup.py build_ext",),
        inputs="build/",
        packages="git python3-dev python3-venv",
        tools=("setuptools", "ninja", "torch"),
    ),
    BuildSystem(
        name="Bazel",
        markers=("MODULE.bazel", "WORKSPACE", "WORKSPACE.bazel"),
        commands=(
            "bazel build --@rules_cuda//cuda:copts=-Xptxas=-v --experimental_ui_max_stdouterr_bytes=-1 //... 2>&1"
            " | tee build.log",
        ),
        inputs="build.log",
        packages="git python3-venv",
    ),
    BuildSystem(
        name="Meson",
        markers=("meson.build",),
        commands=("meson setup build -Dcuda_args=-Xptxas=-v", "meson compile -C build 2>&1 | tee build.log"),
        inputs="build.log",
        packages="git meson python3-venv",
    ),
    BuildSystem(
        name="make",
        markers=("Makefile", "GNUmakefile", "makefile"),
        commands=('make -j"$(nproc)" --output-sync=target NVCC="nvcc -Xptxas -v" 2>&1 | tee build.log',),
        inputs="build.log",
        packages="git make python3-venv",
    ),
)
"""Those that name the others first: a CMake project may have a Makefile, and a package may be built by CMake."""


def build_system(read: Callable[[str], str | None]) -> BuildSystem | None:
    """The one that builds the repository of which ``read`` gives a file's text, ``None`` where there is none."""
    for each in BUILD_SYSTEMS:
        for marker in each.markers:
            name, _, needle = marker.partition(":")
            text = read(name)
            if text is not None and needle in text:
                return each
    return None


# ---- texts ---------------------------------------------------------------------------------------------------------


def workflow(system: BuildSystem, branch: str = "main") -> str:
    """The job of GitHub Actions, for changes that go into ``branch``: it builds in a container with nvcc, and judges;
    it needs no permission but to read."""
    submodules = ", submodules: recursive" if system.submodules else ""
    return f"""\
name: spillscan
on:
  push: {{branches: [{branch}]}}
  pull_request:
permissions: {{contents: read}}
jobs:
  kernels:
    runs-on: ubuntu-latest
    container: {system.image}  # any image with nvcc; no GPU is needed
    defaults: {{run: {{shell: bash}}}}  # which has pipefail: a build that fails is a job that fails
    steps:
      - name: Tools
        run: apt-get update -qq && apt-get install -yqq --no-install-recommends {system.installs}
      - uses: actions/checkout@v4
        with: {{fetch-depth: 0{submodules}}}  # --baseline-from looks at the branch point
      - name: spillscan
        run: |
          git config --global --add safe.directory "$GITHUB_WORKSPACE"
          {system.python} -m venv "$RUNNER_TEMP/spillscan"
          "$RUNNER_TEMP/spillscan/bin/python" -m pip install --quiet {_tools(system)}
          echo "$RUNNER_TEMP/spillscan/bin" >> "$GITHUB_PATH"
      - name: Build
        run: |
          {_indented(system.commands, 10)}
      - name: Gate
        # Once the baseline is on {branch}, `--baseline-from origin/{branch}` lets no change excuse itself.
        run: >-
          spillscan check {system.inputs}
          -f github -f markdown:+"$GITHUB_STEP_SUMMARY" -f markdown:comment.md -f json:spillscan.json
      - uses: actions/upload-artifact@v4
        if: always()
        with: {{name: spillscan, path: "comment.md\\nspillscan.json"}}
"""


def pipeline_job(system: BuildSystem, pipeline: str = "") -> str:
    """The job of GitLab for a pipeline: it waits for no other job, takes no files of theirs and no `before_script`.

    Raises :class:`~spillscan.UsageError` where the pipeline is no YAML.
    """
    submodules = ", GIT_SUBMODULE_STRATEGY: recursive" if system.submodules else ""
    document = parse_yaml(pipeline, PIPELINE, foreign=True).plain
    stages = document.get("stages") if isinstance(document, dict) else None
    # A job without a stage is of `test`, which is there unless the pipeline lists others.
    stage = "" if not isinstance(stages, list) or not stages or "test" in stages else f"\n  stage: {stages[-1]}"
    return f"""\
spillscan:{stage}
  image: {system.image}  # any image with nvcc; no GPU is needed
  inherit: {{default: false}}
  needs: []
  variables: {{GIT_DEPTH: 0{submodules}}}  # --baseline-from looks at the branch point
  script:
    - set -eo pipefail
    - apt-get update -qq && apt-get install -yqq --no-install-recommends {system.installs}
    - {system.python} -m venv ~/spillscan && ~/spillscan/bin/python -m pip install --quiet {_tools(system)}
    - export PATH="$HOME/spillscan/bin:$PATH"
    - |
      {_indented(system.commands, 6)}
    - >-
      spillscan check {system.inputs}
      -f text -f gitlab:gl-code-quality-report.json -f junit:spillscan-junit.xml -f json:spillscan.json
  artifacts:
    when: always
    paths: [spillscan.json]
    reports: {{codequality: gl-code-quality-report.json, junit: spillscan-junit.xml}}
"""


def hook(system: BuildSystem) -> str:
    """The hook of pre-commit: before a push that touches CUDA code the build is brought up to date, and judged."""
    return f"""\
- repo: local
  hooks:
    - id: spillscan
      name: spillscan
      entry: bash -eo pipefail -c
      args:
        - |
          {_indented(system.commands, 10)}
          spillscan check {system.inputs}
      language: system
      files: \\.(cu|cuh)$
      pass_filenames: false
      stages: [pre-push]
"""


def with_hook(text: str, system: BuildSystem) -> str:
    """A configuration of pre-commit with the hook; as it is where its list of repositories is not its last part."""
    keys = re.findall(r"^([A-Za-z_]\w*):", text, re.M)
    indents = re.findall(r"^( *)- repo:", text, re.M)
    if not keys or keys[-1] != "repos" or len(set(indents)) != 1:
        return text
    return text.rstrip("\n") + "\n" + "".join(f"{indents[0]}{line}\n" for line in hook(system).splitlines())


def _indented(commands: Sequence[str], by: int) -> str:
    return f"\n{' ' * by}".join(commands)


def _tools(system: BuildSystem) -> str:
    return " ".join(["spillscan", *map(shlex.quote, system.tools)])
