"""``spillscan config`` and ``explain``, and the policy as the other commands honour it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from spillscan.commands.config import listed
from spillscan.judging.policy.effective import Layer, Policy
from spillscan.judging.policy.file import KEYS
from spillscan.judging.policy.reading import find, from_options, layer, load
from spillscan.judging.rules import all_rules
from spillscan.model import Kernel, KernelKey, Usage
from spillscan.model.nodes import parse_yaml
from spillscan.output.errors import UsageError
from tests.conftest import FIXTURES, run
from tests.judging.policy.test_schema import DOCUMENTS, noded

HEAD = FIXTURES / "demo" / "head.log"
RULES = list(all_rules().values())

POLICY = """\
# what we ship
max_registers: 128
fail_on: warning

severity:
  local-array: off
kernels:
  - match: "model::gemm<8>"
    max_spill_bytes: 520
    launch: {threads_per_block: 256}
    reason: "known since 2.1"
  - match: [softmax, gone]
    arch: sm_9*
    max_registers: 40
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a policy; the present folder is one inside of it."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "spillscan.yaml").write_text(POLICY)
    monkeypatch.chdir(tmp_path / "src")
    return tmp_path / "src"


def here(*arguments: str | Path, **variables: str) -> Any:
    """The command in the present folder."""
    return run(*arguments, cwd=os.getcwd(), env=os.environ | variables)


# ---- finding the file ---------------------------------------------------------------------------------------------


def test_the_nearest_file_up_to_the_repository_is_found(project: Path) -> None:
    assert find() == "../spillscan.yaml"
    (project / "spillscan.yaml").write_text("")
    assert find() == "spillscan.yaml"


def test_nothing_above_the_repository_is_read(project: Path) -> None:
    (project / ".git").mkdir()
    assert find() is None
    (project / ".git").rmdir()
    (project.parent / ".git").rmdir()
    assert find() is None, "outside of a repository, what lies above is another project's"
    assert find("..") == "../spillscan.yaml"


def test_options_win_over_the_file_and_the_last_entry_over_others(project: Path) -> None:
    (project / "a.yaml").write_text(
        "max_registers: 1\nkernels:\n- {match: k, max_registers: 2}\n- {match: k*, max_registers: 3}\n"
    )

    def registers(config: str | None, *, search: bool = True, symbol: str = "z", **texts: str) -> Any:
        policy = load(from_options(texts), config=config, search=search)
        kernel = Kernel(key=KernelKey(symbol=symbol, arch="sm_80"), role="entry", usage=Usage())
        return policy.terms_of(kernel).limits["max_registers"]

    assert registers("a.yaml") == 1
    assert registers("a.yaml", symbol="k") == 3
    assert registers("a.yaml", symbol="k", max_registers="9") == 9
    assert registers("a.yaml", max_registers="none") is None
    assert registers(None) == 128
    assert registers(None, search=False) is None


def test_a_path_is_relative_to_the_file(project: Path) -> None:
    (project.parent / "spillscan.yaml").write_text("baseline: ci/known.jsonl\n")
    assert load(Layer(), config=None, search=True).values.baseline == "../ci/known.jsonl"
    assert load(from_options({"baseline": "b.jsonl"}), config=None, search=True).values.baseline == "b.jsonl"


# ---- config -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("project")
def test_config_shows_the_origin_of_each_value() -> None:
    options = ("--set", "max_stack_bytes=64", "--launch", "gemm=128", "--severity", "stack=note")
    printed = here("config", "--with", "origins", *options).stdout.decode().splitlines()
    origins = dict(tuple(part.strip() for part in line.rsplit("  # ", 1)) for line in printed if "  # " in line)
    assert origins["max_registers: 128"] == "../spillscan.yaml:2"
    assert origins["fail_on: warning"] == "../spillscan.yaml:3"
    assert origins["local-array: off"] == "../spillscan.yaml:6"
    assert origins["max_spill_bytes: 520"] == "../spillscan.yaml:9"
    assert origins["launch: {threads_per_block: 256}"] == "../spillscan.yaml:10"
    assert origins['- match: ["softmax", "gone"]'] == "../spillscan.yaml:12"
    assert origins["max_stack_bytes: 64"] == "--set"
    assert origins["stack: note"] == "--severity"
    assert origins['- match: ["gemm"]'] == "--launch"
    assert origins["max_shared_bytes: none"] == "default"
    assert origins["spill: error"] == "default"


KERNELS = [
    Kernel(key=KernelKey(symbol=symbol, arch=arch, unit=unit), role="entry", usage=Usage())
    for symbol in ("a", "b", "gemm", "x")
    for arch in ("sm_80", "a", None)
    for unit in ("", "b", "gemm.o")
]


@given(DOCUMENTS, st.sampled_from(["max_registers", "max_spill_bytes"]))
def test_printed_policies_are_equivalent(document: Any, above: str) -> None:
    try:
        below = layer(noded(document))
    except UsageError:
        return
    for layers in ((below,), (below, layer(noded({above: 7})))):
        policy = Policy(layers)
        for origins in (False, True):
            text = "\n".join(listed(policy, RULES, origins=origins))
            again = Policy((layer(parse_yaml(text, "printed")),))
            for kernel in KERNELS:
                ours, theirs = policy.terms_of(kernel), again.terms_of(kernel)
                assert (ours.limits, ours.launch, ours.devices) == (theirs.limits, theirs.launch, theirs.devices)
                assert [ours.level(rule) for rule in RULES] == [theirs.level(rule) for rule in RULES]
            for name in KEYS:
                assert policy.setting(name).value == again.setting(name).value


# ---- explain ------------------------------------------------------------------------------------------------------


def test_every_rule_is_listed_and_explained() -> None:
    from spillscan.commands.explain import lines
    from spillscan.judging.rule_docs import explanations
    from spillscan.model.gaps import KINDS

    listing = run("explain").stdout.decode().splitlines()
    assert [line.split()[0] for line in listing] == [*(rule.id for rule in RULES), *KINDS]
    for rule in RULES:
        about = explanations("rules")[rule.id]
        text = list(lines(rule, about))
        assert all(len(line) <= 100 for line in text)
        words = " ".join(text).split()
        for part in (about.title, *about.parts.values()):
            assert " ".join(part.split()) in " ".join(words)


def test_the_suppression_that_is_shown_works() -> None:
    from spillscan.commands.explain import suppression

    for rule in RULES:
        shown = layer(parse_yaml("\n".join(suppression(rule)), "shown"))
        terms = Policy((shown,)).terms_of(
            Kernel(key=KernelKey(symbol="attention::fwd(int)"), role="entry", usage=Usage())
        )
        assert terms.level(rule) == "off"


# ---- the other commands -------------------------------------------------------------------------------------------

LOGS = {
    "base.log": "demo/base.log",
    "head.log": "demo/head.log",
    "usage.txt": "sass/res-usage-sm_80-13.5.txt",
    "bounds.cubin": "binary/bounds-13.5.cubin.zst",
}
COMMANDS = yaml.safe_load((Path(__file__).parent / "commands.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("policy", "command", "status", "said", "unsaid"), COMMANDS, ids=lambda part: str(part)[:40])
def test_commands(policy: str | None, command: str, status: int, said: str, unsaid: str, project: Path) -> None:
    if policy is not None:
        (project.parent / "spillscan.yaml").write_text(policy)
    for name, fixture in LOGS.items():
        (project / name).symlink_to(FIXTURES / fixture)
    unlinked = (FIXTURES / "ptxas" / "calls-c-13.0.log").read_text()
    (project / "unlinked.log").write_text(f"nvcc -dc -Xptxas -v calls.cu -o calls.o\n{unlinked}")
    done = here(*command.split())
    printed = (done.stdout + done.stderr).decode()
    assert (done.returncode, said in printed, bool(unsaid) and unsaid in printed) == (status, True, False), printed


def test_places_of_a_policy_are_origins_of_issues(project: Path) -> None:
    issues = json.loads(here("check", HEAD, "-f", "json").stdout)["issues"]
    origin = {"input": "../spillscan.yaml", "line": 12, "format": "policy"}
    assert [issue["origin"] for issue in issues if issue["code"] == "policy-names-nothing"] == [origin]
    table = here("scan", HEAD, COLUMNS="160").stdout.decode().splitlines()
    assert [line.split()[-2] for line in table if line.startswith("model::gemm<8>")] == ["50%", "50%"], "no ≤: known"
