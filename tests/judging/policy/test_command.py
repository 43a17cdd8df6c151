"""``spillscan config`` and ``explain``, and the policy as the other commands honour it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillscan.commands.config import listed
from spillscan.judging.policy import Policy
from spillscan.judging.policy.effective import Layer
from spillscan.judging.policy.file import keys
from spillscan.judging.policy.reading import find, from_options, layer, load
from spillscan.judging.rules import all_rules
from spillscan.model import Kernel, KernelKey, Usage
from spillscan.model.nodes import parse_yaml
from spillscan.output.errors import UsageError
from tests.conftest import FIXTURES, run
from tests.judging.policy.test_schema import DOCUMENTS, noded

HEAD = FIXTURES / "demo" / "head.log"
BASE = FIXTURES / "demo" / "base.log"
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
    for name in [name for name in os.environ if name.startswith("SPILLSCAN_")]:
        monkeypatch.delenv(name)
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
        policy = load(from_options(texts, (), ()), config=config, search=search)
        kernel = Kernel(key=KernelKey(symbol=symbol, arch="sm_80"), role="entry", usage=Usage())
        return policy.terms_of(kernel).limits["max_registers"]

    assert registers("a.yaml") == 1
    assert registers("a.yaml", symbol="k") == 3
    assert registers("a.yaml", symbol="k", max_registers="9") == 9
    assert registers("a.yaml", max_registers="none") is None
    assert registers(None) == 128
    assert registers(None, search=False) is None


def test_a_path_is_meant_from_where_the_file_lies(project: Path) -> None:
    (project.parent / "spillscan.yaml").write_text("baseline: ci/known.jsonl\n")
    assert load(Layer(), config=None, search=True).values.baseline == "../ci/known.jsonl"
    assert load(from_options({"baseline": "b.jsonl"}, (), ()), config=None, search=True).values.baseline == "b.jsonl"


# ---- config -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("project")
def test_config_shows_where_each_value_comes_from() -> None:
    result = here(
        "config",
        "--with",
        "origins",
        "--set",
        "max_stack_bytes=64",
        "--launch",
        "gemm=128",
        "--severity",
        "stack=note",
    )
    assert result.returncode == 0
    origins = dict(
        tuple(part.strip() for part in line.rsplit("  # ", 1))
        for line in result.stdout.decode().splitlines()
        if "  # " in line
    )
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


@pytest.mark.usefixtures("project")
def test_config_shows_what_holds_for_one_kernel() -> None:
    symbol = "_ZN5model7softmaxIfEEvPKT_PS1_i"
    for arch, line in (("sm_90a", "max_registers: 40"), ("sm_80", "max_registers: 128")):
        assert line in here("config", "--kernel", symbol, "--arch", arch).stdout.decode().splitlines()


@pytest.mark.usefixtures("project")
def test_an_entry_that_is_overruled_is_not_in_force() -> None:
    text = here("config", "--set", "max_registers=64").stdout.decode()
    assert "max_registers: 64" in text
    assert "max_registers: 40" not in text
    assert "softmax" not in text


KERNELS = [
    Kernel(key=KernelKey(symbol=symbol, arch=arch, unit=unit), role="entry", usage=Usage())
    for symbol in ("a", "b", "gemm", "x")
    for arch in ("sm_80", "a", None)
    for unit in ("", "b", "gemm.o")
]


@given(DOCUMENTS, st.sampled_from(["max_registers", "max_spill_bytes"]))
def test_what_is_printed_is_a_policy_that_says_the_same(document: Any, above: str) -> None:
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
            for name in keys():
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


def test_explain_prints_one_rule() -> None:
    result = run("explain", "[spill]")
    assert result.returncode == 0
    assert result.stdout.decode().startswith("spill: The kernel spills registers to local memory\nerror; ")


def test_an_unknown_rule_gets_the_nearest_name() -> None:
    result = run("explain", "ptxas_warnin")
    assert result.returncode == 2
    wanted = "spillscan: unknown rule or gap 'ptxas_warnin'; did you mean ptxas-warning?\n"
    assert result.stderr.decode() == wanted


def test_the_suppression_that_is_shown_works() -> None:
    from spillscan.commands.explain import suppression

    for rule in RULES:
        shown = layer(parse_yaml("\n".join(suppression(rule)), "shown"))
        terms = Policy((shown,)).terms_of(
            Kernel(key=KernelKey(symbol="attention::fwd(int)"), role="entry", usage=Usage())
        )
        assert terms.level(rule) == "off"


# ---- the other commands -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("project")
def test_check_honours_the_policy() -> None:
    result = here("check", HEAD)
    assert result.returncode == 1
    text = result.stdout.decode()
    assert "gemm<8>" not in text, "520 bytes are allowed"
    assert "softmax<double> (sm_90a) uses 46 registers, 40 allowed [registers]" in text
    assert "softmax<double> (sm_80)" not in text
    assert "../spillscan.yaml:12: note: 'gone' of sm_9* names no kernel of this build" in result.stderr.decode()
    assert here("check", HEAD, "--set", "max_registers=64").returncode == 0, "the command line overrules every entry"
    assert here("check", HEAD, "--severity", "registers=note").returncode == 0
    assert here("check", HEAD, "--severity", "registers=warning").returncode == 1, "the file's fail_on is warning"
    assert here("check", HEAD, "--config", "none").stdout.count(b"[spill]") == 2


@pytest.mark.usefixtures("project")
def test_patterns_that_name_nothing_are_issues_of_the_report() -> None:
    issues = json.loads(here("check", HEAD, "-f", "json").stdout)["issues"]
    origin = {"input": "../spillscan.yaml", "line": 12, "format": "policy"}
    assert [issue["origin"] for issue in issues if issue["code"] == "policy-names-nothing"] == [origin]
    assert here("check", HEAD, "--strict", "--fail-on", "never").returncode == 0, "a note is not fatal"


@pytest.mark.parametrize(
    ("entry", "threads", "said"),
    [
        ("", 256, False),
        ("  - {match: '*', launch: {threads_per_block: 320}}\n", 256, False),
        ("  - {match: '*', launch: {threads_per_block: 64}}\n", 64, False),
        ("  - {match: bounds_256_8, launch: {threads_per_block: 320}}\n", 256, True),
        ("  - {match: bounds_256_8, launch: {threads_per_block: 256}}\n", 256, False),
        ("  - {match: bounds_256_8, launch: {threads_per_block: 64, override: true}}\n", 64, False),
    ],
)
def test_a_launch_that_the_code_contradicts(entry: str, threads: int, said: bool, tmp_path: Path) -> None:
    (tmp_path / "spillscan.yaml").write_text(f"kernels:\n{entry}" if entry else "")
    binary = FIXTURES / "binary" / "bounds-13.5.cubin.zst"
    done = run("check", binary, "-f", "json", cwd=tmp_path)
    overruled = [each for each in json.loads(done.stdout)["issues"] if each["code"] == "launch-overruled"]
    assert len(overruled) == said
    if said:
        assert overruled[0]["origin"] == {"input": "spillscan.yaml", "line": 2, "format": "policy"}
        assert (
            "'bounds_256_8' asks for 320 threads per block, but the code of 1 kernel says 256"
            in overruled[0]["message"]
        )
    done = run("occupancy", binary, "--kernel", "bounds_256_8", "-f", "json", cwd=tmp_path)
    assert json.loads(done.stdout)[0]["threads_per_block"] == threads


@pytest.mark.usefixtures("project")
def test_scan_and_limiters_take_launches_and_devices_from_the_policy() -> None:
    table = here("scan", HEAD, COLUMNS="160").stdout.decode().splitlines()
    assert [line.split()[-2] for line in table if line.startswith("model::gemm<8>")] == ["50%", "50%"], "no ≤: known"
    text = here("occupancy", HEAD, "--kernel", "gemm<8>", "--device", "A10", "--device", "H100").stdout.decode()
    assert "gemm<8> (sm_80 on A10): 64 registers" in text
    assert "gemm<8> (sm_90a on H100): 64 registers" in text
    assert "sm_80 on H100" not in text, "code of another major does not run there"
    table = (
        here("occupancy", HEAD, "--kernel", "gemm<4>", "--launch", "*=256", "-f", "markdown")
        .stdout.decode()
        .splitlines()
    )
    assert [row.split(" | ")[5:8] for row in table[4:6]] == [["4", "50 %", "registers"], ["5", "62.5 %", "registers"]]
    assert "`__launch_bounds__(256, 5)`" in table[4]
    assert "gemm<8> (sm_80 on A40): 64 registers" in here("occupancy", HEAD, "--device", "A40").stdout.decode()
    refused = here("occupancy", HEAD, "--device", "sm_70")
    assert refused.returncode == 2
    assert b"no kernel runs on sm_70; the input has sm_80, sm_90a" in refused.stderr


@pytest.mark.usefixtures("project")
def test_diff_honours_tolerances_and_severities() -> None:
    spills = ("diff", BASE, HEAD, "--fail-on", "policy")
    assert here(*spills).returncode == 1
    assert here(*spills, "--set", "max_spill_growth_bytes=303").returncode == 1
    assert here(*spills, "--set", "max_spill_growth_bytes=304").returncode == 0
    assert here(*spills, "--severity", "spill=off").returncode == 0
    notes = json.loads(here("diff", BASE, HEAD, "-f", "json").stdout)["findings"]
    assert [note["rule"] for note in notes].count("register-growth") == 2
    fewer = json.loads(here("diff", BASE, HEAD, "-f", "json", "--set", "max_register_growth=3").stdout)["findings"]
    assert "register-growth" not in [note["rule"] for note in fewer]


def test_fewer_kernels_than_expected_are_no_clean_build(tmp_path: Path) -> None:
    log = FIXTURES / "ptxas" / "plain-13.0.log"
    count = log.read_text().count("Compiling entry")
    for expected, status in ((count, 0), (count + 1, 2)):
        result = run("check", log, "--set", f"expect_kernels={expected}", cwd=tmp_path)
        assert result.returncode == status
    assert f"{count} kernels where at least {count + 1} are expected".encode() in result.stdout


@pytest.mark.parametrize(
    ("policy", "status", "said"),
    [
        (
            "min_blocks_per_sm: 2",
            2,
            "rotate: 2): min_blocks_per_sm needs its launch",
        ),
        ("{min_blocks_per_sm: 2, severity: {blocks-per-sm: warning}}", 0, "0 findings"),
        ("kernels: [{match: gemm, launch: {threads_per_block: 256}, min_blocks_per_sm: 4}]", 0, "0 findings"),
        (
            "kernels: [{match: gemm, launch: {threads_per_block: 256}, min_blocks_per_sm: 5}]",
            1,
            "4 blocks/SM, 5 required",
        ),
        (
            "{devices: [A100, A10], kernels:"
            " [{match: gemm<4>, launch: {threads_per_block: 512}, min_blocks_per_sm: 4}]}",
            1,
            "2 blocks/SM on A100, 4 required: limited by registers",
        ),
        ("{max_stack_bytes: 127}", 1, "uses 128 B stack per thread, 127 B allowed [stack]"),
        ("{max_shared_bytes: 2047}", 1, "2,048 B shared memory per block, 2,047 B allowed [shared]"),
        (
            "{max_shared_bytes: 4000, kernels:"
            " [{match: softmax, launch: {threads_per_block: 64, dynamic_shared_bytes: 2000}}]}",
            1,
            "4,048 B shared memory per block (2,048 B static, 2,000 B dynamic), 4,000 B allowed [shared]",
        ),
        ("{max_spill_bytes: none}", 0, "0 findings"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_limits_of_a_build(policy: str, status: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(policy)
    result = run("check", HEAD, "--config", tmp_path / "p.yaml", "--severity", "spill=off")
    assert result.returncode == status
    assert said in (result.stdout + result.stderr).decode()


def test_limits_that_relocatable_code_leaves_open(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_bytes(
        b"nvcc -dc -Xptxas -v calls.cu -o calls.o\n" + (FIXTURES / "ptxas" / "calls-c-13.0.log").read_bytes()
    )
    for limit in ("max_stack_bytes", "max_registers"):
        (tmp_path / "p.yaml").write_text(f"{{max_spill_bytes: none, {limit}: 100000}}")
        assert run("check", log, "--config", tmp_path / "p.yaml").returncode == 2
        assert (
            run(
                "check", log, "--config", tmp_path / "p.yaml", "--severity", f"{limit[4:].split('_')[0]}=off"
            ).returncode
            == 0
        )


def test_a_listing_without_spills_is_judged_where_no_spills_are_asked_for() -> None:
    listing = FIXTURES / "sass" / "res-usage-sm_80-13.5.txt"
    assert run("check", listing, "--set", "max_registers=255").returncode == 2
    assert run("check", listing, "--set", "max_registers=255", "--set", "max_spill_bytes=none").returncode == 0
    assert run("check", listing, "--set", "max_registers=8", "--set", "max_spill_bytes=none").returncode == 1
