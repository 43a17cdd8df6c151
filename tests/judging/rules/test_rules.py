"""Every rule is documented, and shown to find something and to find nothing (``examples.yaml``)."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import NODEFAULT
from msgspec.structs import replace

from spillscan import scan
from spillscan.judging import rules
from spillscan.judging.compare.code_changes import code_changes, marked
from spillscan.judging.compare.pairing import comparison
from spillscan.judging.policy.effective import Policy
from spillscan.judging.policy.file import KEYS
from spillscan.judging.policy.reading import from_options, layer
from spillscan.judging.rule_docs import explanations
from spillscan.model import Build, Change, Finding, Kernel, KernelKey, Origin, Rule, Usage
from spillscan.model.code import SassStats
from spillscan.model.local import LocalTraffic
from spillscan.model.nodes import parse_yaml
from spillscan.reading.binary.fetch import texts_of
from tests.conftest import FIXTURES, read_text
from tests.judging.rules.kernels import Same, table

EXAMPLES: list[dict[str, Any]] = table("examples")
RULES = list(rules.all_rules().values())
ORIGIN = Origin(input="k.sass", line=1, format="sass")
SENTENCE = re.compile(r"[A-Z`'a-z].*\.$", re.DOTALL)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_is_documented(rule: Rule) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", rule.id)
    about = explanations("rules").get(rule.id)
    assert about, f"docs/explain/rules.md has no section of {rule.id}, as the others are"
    for text in about.parts.values():
        assert SENTENCE.fullmatch(text), text
        assert "  " not in text
        assert text.count("`") % 2 == 0
        assert set(re.findall(r"`((?:max|min)_[a-z_]+)`", text)) <= set(KEYS), "keys that a policy knows"
    assert all(f"`{limit.name}`" in about.parts["What it means"] for limit in rule.limits)


@pytest.mark.parametrize("log", ["demo/head.log", "sass/cuobjdump-sm_120-13.5.sass.zst"])
def test_a_rule_without_its_limits_has_no_findings(log: str) -> None:
    limits = {limit.name: limit for each in rules.checks() for limit in each.rule.limits}
    bare = [each for each in rules.checks() if not any(limit.scope == "build" for limit in each.rule.limits)]
    results = {}
    for value in (None, 0):
        outcome = rules.check(scan(FIXTURES / log), Same(rules.Terms(limits=dict.fromkeys(limits, value))))
        results[value] = {each.rule for each in outcome.findings} | {each.rule.id for each in outcome.undecided}
    free = {each.rule.id for each in bare}
    assert results[None] <= free
    assert results[0] - free, "with limits they do"


def test_every_rule_has_examples() -> None:
    shown = {(example["rule"], example["scope"]) for example in EXAMPLES}
    assert shown == {(each.rule.id, scope) for each in rules.checks() for scope in each.scopes}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example['rule']}-{example['scope']}")
def test_examples(example: dict[str, Any], tmp_path: Path) -> None:
    for outcome in ("fails", "passes"):
        found = findings(example[outcome], tmp_path)
        assert (example["rule"] in {finding.rule for finding in found}) == (outcome == "fails")
        for finding in found:
            assert finding.rule in rules.all_rules()


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.limits], ids=lambda rule: rule.id)
def test_a_rule_with_a_limit_is_undecided_if_its_value_is_missing(rule: Rule) -> None:
    """It has no findings there either, and if its limit is not set, nothing is undecided."""
    silent = Kernel(key=KernelKey(symbol="k", arch="sm_80"), role="entry", usage=Usage())
    change = Change(state="unknown", before=silent, after=silent)
    for limits in ({each.name: value for each in rule.limits} for value in (1, None)):
        policy = Same(rules.Terms(limits=limits))
        outcome = rules.check(Build(kernels=(silent,)), policy)
        found = [*outcome.findings, *rules.check_changes([change], policy).findings]
        assert rule.id not in {each.rule for each in found}
        for judged, undecided in (
            ("build", outcome.undecided),
            ("change", rules.check_changes([change], policy).undecided),
        ):
            reasons = [each.reason for each in undecided if each.rule == rule]
            open_end = judged in {limit.scope for limit in rule.limits} and any(limits.values())
            assert len(reasons) == open_end


OF_BUILDS = [each.rule.id for each in rules.checks() if "build" in each.scopes]


@pytest.mark.parametrize("rule", OF_BUILDS)
def test_every_finding_in_a_build_has_values(rule: str, tmp_path: Path) -> None:
    (example,) = (each["fails"] for each in EXAMPLES if (each["rule"], each["scope"]) == (rule, "build"))
    policy = policy_of(example)
    for finding in (each for each in findings(example, tmp_path) if each.rule == rule):
        figures = rules.measure(rule, finding.kernel, policy.terms_of(finding.kernel))
        assert figures is not None
        assert any(value > 0 for value in figures.values())


@pytest.mark.parametrize("rule", OF_BUILDS)
def test_a_kernel_with_equal_values_suppresses_none(rule: str, tmp_path: Path) -> None:
    """Equal kernels are checked once, so the key of equality must contain all that a rule reads."""
    (example,) = (each["fails"] for each in EXAMPLES if (each["rule"], each["scope"]) == (rule, "build"))
    all_found = findings(example, tmp_path)
    objected = Counter(id(finding.kernel) for finding in all_found)
    found = min((each for each in all_found if each.rule == rule), key=lambda each: objected[id(each.kernel)])
    for name, default in zip(reversed(Kernel.__struct_fields__), reversed(Kernel.__struct_defaults__), strict=False):
        if name == "key" or default is NODEFAULT:
            continue
        for value in (default, *((0.5,) if isinstance(getattr(found.kernel, name), float) else ())):
            twin = replace(found.kernel, **{name: value})
            judged = rules.check(Build(kernels=(twin, found.kernel)), policy_of(example)).findings
            assert any(each.rule == rule and each.kernel is found.kernel for each in judged), name


def policy_of(case: dict[str, Any]) -> Policy:
    """An example's policy."""
    return Policy((layer(parse_yaml(yaml.safe_dump(case.get("policy", {})), "spillscan.yaml")),))


def findings(case: dict[str, Any], folder: Path) -> list[Finding]:
    """Findings of the rules in an example's build or change."""
    paths, base = (
        [FIXTURES / name for name in (given if isinstance(given, list) else [given])]
        for given in (case["input"], case.get("base", []))
    )
    if "first_line" in case:
        (folder / "example.log").write_text(case["first_line"] + "\n" + read_text(paths[0]))
        paths[0] = folder / "example.log"
    head = scan(paths)
    policy = policy_of(case)
    if base:
        found = comparison(scan(base), head, policy, all_pairs=True)
        pairs = (*found.changes, *found.recoded, *found.equal)
        texts = texts_of(side for each in pairs for side in (each.before, each.after) if side is not None)
        found = marked(found, code_changes(pairs, texts))
        return rules.check_changes((*found.changes, *found.equal), policy).findings
    return list(rules.check(head, policy).findings)


def test_a_finding_of_another_rule_hides_no_open_limit() -> None:
    policy = Policy((from_options({"max_shared_bytes": "1024"}),))
    sass = SassStats(
        instructions=9, code_bytes=144, opcodes=(("NOP", 9),), local=LocalTraffic(), shared_spills=3, origin=ORIGIN
    )
    usage = Usage(spill_store_bytes=0, spill_load_bytes=0)
    spilling = Kernel(key=KernelKey(symbol="k", arch="sm_90"), role="entry", usage=usage, sass=sass)
    judged = rules.check(Build(kernels=(spilling,)), policy)
    assert [finding.rule for finding in judged.findings] == ["shared-spill"]
    assert [each.rule.id for each in judged.undecided] == ["shared"]
