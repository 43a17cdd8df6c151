"""Every report passes its format's validator, and stays within its platform's limits however large the build is."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import random
import re
from functools import cache
from typing import Any

import pytest
from lxml import etree
from msgspec.structs import replace

from spillscan.judging.policy.effective import Policy
from spillscan.model import Gap, Issue, Kernel, Usage
from spillscan.reports.formats import sarif
from spillscan.reports.report import Report
from tests.conforming import conforms
from tests.conftest import FIXTURES, ROOT, read_any, sized
from tests.reporting import (
    Document,
    checked,
    commands,
    csv_rows,
    kernel,
    pairs,
    payload_of,
    rendered,
    report_of,
    retold,
)

SCHEMAS = ROOT / "tests" / "reports" / "schemas"
MANY = 2_600
"""Kernels of two findings: more than the 5,000 of a SARIF file that GitHub shows."""
LETTERS = str.maketrans("0123456789", "ghijklmnop")
NAME_CHARACTERS = 8_000
"""Of one name in a hundred; the others are longer than a table shows."""


@cache
def long_names() -> tuple[str, ...]:
    """Long names that no compression makes short; each is one word, for cutting words is not what is measured."""
    chance = random.Random(1)
    sizes = (NAME_CHARACTERS if not index % 100 else 200 for index in range(MANY))
    return tuple(chance.randbytes(size // 2).hex().translate(LETTERS) for size in sizes)


FINDS_NOTHING = ("scan",)


def huge(kind: Any) -> Report:
    """So many findings on kernels with such names; 1,000 for formats without findings."""
    names = long_names()[:1000] if kind in FINDS_NOTHING else long_names()
    head = [kernel(name, spills=8 + index % 400, registers=255) for index, name in enumerate(names)]
    base = [kernel(name, spills=4, registers=255) for name in names] if kind == "diff" else []
    report = report_of(kind, head, base)
    assert kind in FINDS_NOTHING or len(report.findings) > 5_000
    return report


def sizes(kind: Any) -> dict[str, Report]:
    """Empty, one, many."""
    real: tuple[Kernel, ...] = tuple(read_any(FIXTURES / "demo" / "head.log").kernels)
    before = tuple(read_any(FIXTURES / "demo" / "base.log").kernels)
    one = [kernel("k", spills=8)]
    return {
        "empty": report_of(kind, [], []),
        "clean": report_of(kind, [kernel("k")], [kernel("k")]),
        "one": report_of(kind, one, [kernel("k")]),
        "many": report_of(kind, real, before),
    }


@pytest.mark.parametrize(("name", "kind"), list(pairs()))
@pytest.mark.parametrize("size", ["empty", "clean", "one", "many"])
def test_valid(name: str, kind: Any, size: str) -> None:
    validate(name, rendered(name, sizes(kind)[size]))


@pytest.mark.parametrize("kind", sized(["check"], ["scan", "check", "diff"]))
def test_valid_and_within_limits_at_many(kind: Any) -> None:
    """All formats of one report, which is dear to make."""
    report = huge(kind)
    for name in (name for name, each in pairs() if each == kind):
        output = rendered(name, report)
        if name in LIMITS:
            LIMITS[name](output)
        elif name != "html":  # it stores names in pieces; csv and json have each in full: there is no limit
            assert long_names()[999 if kind in FINDS_NOTHING else -1] in output
        validate(name, output)


def validate(name: str, output: str) -> None:
    """By the platform's schema, where the format has one."""
    match name:
        case "sarif":
            document = json.loads(output)
            conforms(document, SCHEMAS / "sarif-2.1.0.json")
            no_empty_strings(document)
        case "junit":
            etree.XMLSchema(etree.parse(SCHEMAS / "junit-10.xsd")).assertValid(etree.fromstring(output.encode()))
        case "gitlab":
            conforms(json.loads(output), SCHEMAS / "gitlab-code-quality.json")
        case "rdjsonl":
            for line in output.splitlines():
                conforms(json.loads(line), SCHEMAS / "rdjson-diagnostic.json")
        case "json":
            conforms(json.loads(output))
        case "csv":
            header, *rows = csv_rows(output)
            assert all(len(row) == len(header) for row in rows)
        case "github":
            assert all(command.name in ("error", "warning", "notice") for command in commands(output))
        case "markdown":
            assert output.endswith("<!-- spillscan -->\n")
        case "text":
            assert output.endswith("\n")
        case "html":
            assert_html(output)
        case _:
            pytest.fail(f"{name} has no validator here")


def assert_html(output: str) -> None:
    """Check that every element is closed in its place, ids are unique, and the policy names style sheet and script."""
    page = Document(output)
    assert page.open == []
    assert len(set(page.ids)) == len(page.ids)
    assert page.policy.startswith("default-src 'none'; ")
    for element in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(page.raw[element].encode()).digest()).decode()
        assert f"{element}-src 'sha256-{digest}';" in page.policy
    payload_of(output)


def no_empty_strings(value: Any) -> None:
    """GitHub refuses them."""
    if isinstance(value, dict):
        for item in value.values():
            no_empty_strings(item)
    elif isinstance(value, list):
        for item in value:
            no_empty_strings(item)
    else:
        assert value != ""


def sarif_limit(output: str) -> None:
    (run,) = json.loads(output)["runs"]
    assert MANY <= len(run["results"]) <= 25_000
    assert len(gzip.compress(output.encode())) < 10_000_000
    levels = [("error", "warning", "note").index(result["level"]) for result in run["results"]]
    assert levels == sorted(levels), "GitHub keeps the first 5,000"
    for rule in run["tool"]["driver"]["rules"]:
        assert len(rule["shortDescription"]["text"]) <= 1024
        assert len(rule["fullDescription"]["text"]) <= 1024
        assert len(rule["properties"]["tags"]) <= 10
        assert len(rule["name"]) <= 255


def github_limit(output: str) -> None:
    found = commands(output)
    names = [command.name for command in found]
    assert names == sorted(names, key=("error", "warning", "notice").index)
    assert names.count("error") == 10
    assert max(names.count("warning"), names.count("notice")) <= 10
    assert all(len(line) < 4096 for line in output.splitlines())
    assert "not shown here: " in found[-1].data


def markdown_limit(output: str) -> None:
    assert len(output.encode()) < 65_536


def lines_limit(output: str) -> None:
    assert max(map(len, output.splitlines())) < 4096


LIMITS = {
    "sarif": sarif_limit,
    "github": github_limit,
    "markdown": markdown_limit,
    "gitlab": lines_limit,
    "rdjsonl": lines_limit,
    "junit": lines_limit,
    "text": lines_limit,
}


@pytest.mark.parametrize("kind", ["scan", "check", "diff"])
def test_markdown_of_wide_signs_fits_a_comment(kind: Any) -> None:
    wide = "\N{GRINNING FACE}" * 500
    kernels = [kernel(f"{index}{wide}", spills=8, registers=255, arch="漢" * 99) for index in range(300)]
    report = report_of(kind, kernels, [kernel(each.key.symbol, arch=each.key.arch or "") for each in kernels[:200]])
    issue = Issue(code="truncated", message=wide * 3, severity="error")
    gap = Gap(code="truncated", message=wide * 3, hides=("spills",), kernel=kernels[0])
    report = replace(report, build=replace(report.build, issues=(issue,)), gaps=(gap,))
    for message in ("short", wide * 3):
        output = rendered("markdown", retold(report, message))
        assert len(output.encode()) < 65_536


@pytest.mark.parametrize("kind", ["scan", "check", "diff"])
def test_markdown_is_short_if_there_is_nothing_to_report(kind: Any) -> None:
    kernels = [] if kind == "scan" else [kernel("k")]
    assert rendered("markdown", report_of(kind, kernels, kernels)).count("\n") == 5


@pytest.mark.parametrize("name", ["sarif", "gitlab"])
def test_same_named_kernels_have_distinct_fingerprints(name: str) -> None:
    output = rendered(name, report_of("check", [kernel("k", spills=16), kernel("k", spills=8)]))
    one, two = re.findall(r'"(?:fingerprint|primaryLocationLineHash)": "([^"]*)"', output)
    assert two == f"{one}:2"


@pytest.mark.parametrize("name", ["github", "markdown", "junit", "sarif"])
def test_undecided_results_do_not_look_green(name: str) -> None:
    whole = report_of("check", [kernel("k")])
    issue = Issue(code="truncated", message="the log is cut off", severity="error")
    cut = checked(replace(whole.build, issues=(issue,)), Policy())
    unsure = report_of("check", [kernel("k", usage=Usage(spill_store_bytes=0, spill_load_bytes=0))])
    empty = report_of("check", [])
    words = {"github": "incomplete input", "markdown": "incomplete input", "sarif": '"executionSuccessful": false'}
    for report in (cut, unsure, empty):
        word = words.get(name, "<skipped " if report is unsure else "<error ")
        assert word in rendered(name, report)
        assert word not in rendered(name, whole)


STATES = ("new", "worse", "known", "better", "suppressed")


def test_reports_follow_the_baseline() -> None:
    whole = report_of("check", [kernel(f"k{index}", spills=8) for index in range(len(STATES))])
    found = tuple(
        replace(finding, baseline_state=state, suppression="accepted in review" if state == "suppressed" else None)
        for finding, state in zip(whole.findings, STATES, strict=True)
    )
    report = replace(whole, findings=found)
    for name in ("github", "rdjsonl", "markdown", "text"):
        output = rendered(name, report)
        reported = [each.kernel.key.symbol for each in found if each.kernel.key.symbol in output]
        assert reported == [each.kernel.key.symbol for each in found if not each.accepted], name
    assert len(json.loads(rendered("gitlab", report))) == 4
    assert rendered("junit", report).count("<failure") == 2
    document = json.loads(rendered("sarif", report))
    conforms(document, SCHEMAS / "sarif-2.1.0.json")
    results = document["runs"][0]["results"]
    states = [result.get("baselineState") for result in results]
    assert states == ["new", "updated", "unchanged", "updated", None]
    assert [result.get("suppressions") for result in results][-1] == [
        {"kind": "external", "status": "accepted", "justification": "accepted in review"}
    ]
    assert sum("suppressions" in result for result in results) == 1


def test_sarif_is_limited_to_25000_results_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sarif.MOST_RESULTS == 25_000
    most = sized(2_500, 25_000)
    monkeypatch.setattr(sarif, "MOST_RESULTS", most)
    report = report_of("check", [kernel(f"k{index}", spills=8) for index in range(most + 1)])
    (run,) = json.loads(rendered("sarif", report))["runs"]
    assert len(run["results"]) == most
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    assert f"{most:,} most severe of {most + 1:,}" in note["message"]["text"]
