"""Text from a log never acts: parsed by its own format's rules, every report has hostile names as text only."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Iterable
from itertools import product
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from spillscan.model import Advisory, Issue, Kernel, Origin
from spillscan.output.safe import printable
from spillscan.output.terminal import Style
from spillscan.reports.gaps import merged
from spillscan.reports.report import Report
from tests.conftest import sized
from tests.reporting import (
    Document,
    Page,
    bare,
    commands,
    csv_rows,
    kernel,
    pairs,
    payload_of,
    rendered,
    report_of,
    retold,
    rows_of,
)

PAYLOADS = (
    *("::error::x", "::error file=a,line=1::x", "  ::warning::x", "::stop-commands::t", "::set-env name=PATH::x"),
    *("\n::error::x", "\r::error::x", "\r\n::notice::x", "%0A::error::x", "%0D%0A::error::x", "%25%0A"),
    *("\x0b::group::",),
    *("##[error]x", "##[add-path]/tmp", "a##[set-env name=A;]b", "##vso[task.setvariable variable=a]b", "##teamcity["),
    *("\u2028::error::x", "\x85::error::x", "\u200b::error::x", "\ufeff::error::x"),
    *("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "</details>", "<!-- x -->", "--><b>"),
    *("<a href=//x>",),
    *("`</code><b>", "``x``", "`", "\\`", "\\", "\\|", "|", "| a | b |", "||||", "a\\\\|b", "¦"),
    *("[x](javascript:alert(1))", "![x](http://x/y.png)", "[x]: http://x", "<http://x>", "http://x.example"),
    *("www.x.com",),
    *("mailto:a@b.cc", "a@b.cc", "@octocat", "@org/team", "#123", "GH-123", "org/repo#1", "deadbeefdeadbeef"),
    *(":smile:",),
    *("$x$", "$$x$$", "**x**", "__x__", "_x_", "~~x~~", "# x", "- x", "1. x", "> x", "---", "===", "\t code", "    x"),
    *("]]>", "<![CDATA[x", "<!DOCTYPE x [<!ENTITY a 'b'>]>", "&a;", "&#0;", "&lt;", "<?xml?>", "\x00", "\x0c"),
    *("\ufffe",),
    *("=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", "\t=1", "\r=1", " =1", "＝1", '"', '","', "'", ";=1"),
    *("!!python/object:x", "- a: b", "{a: b}", "%YAML 1.2", "&a *a", "? x"),
    *("\x1b[2J", "\x1b]0;t\x07", "\x1b[31m", "\x9b2J", "\x1bP", "\x90x\x9c", "\x08\x08", "\x7f", "\x0e", "\x1b[8m"),
    *("\u202e", "\u202d", "\u2066", "\u200f", "\u061c", "\u200b", "\u200d", "\u2060", "\ufeff", "\u00ad", "\U000e0041"),
    *("\ud800", "\udfff", "\U0010ffff", "\ue000", "{0}", "{{0}}", "%s", "${x}", "$(x)", "../../etc/passwd"),
    *("/etc/passwd",),
    *("C:\\x\\y", "\\\\host\\share", "file:///etc/passwd", "//host/x", "a:b", "a,b", "x?y#z", "~/x", "-", "", " ", "."),
)


def encodable(parts: Iterable[str]) -> str:
    """Text as a reader gives it: without lone surrogates (a snapshot with one is refused)."""
    return "".join(parts).encode("utf-8", "replace").decode()


text = st.lists(st.sampled_from(PAYLOADS) | st.text(max_size=4), min_size=1, max_size=5).map(encodable)
symbols = text | text.map("_Z".__add__) | text.map(lambda name: f"void f<{name}>(int)")


@st.composite
def hostile_kernel(draw: st.DrawFn) -> Kernel:
    word = draw(text)
    return kernel(
        draw(symbols),
        spills=draw(st.sampled_from([0, 8, 4096])),
        registers=draw(st.sampled_from([16, 255])),
        arch=draw(text | st.just("sm_90")),
        unit=draw(text | st.just("")),
        source=draw(text | st.just("")),
        reasons=(word,),
        confidence=draw(st.sampled_from(["certain", "ambiguous"])),
        final=draw(st.sampled_from([None, False])),
        advisories=(
            Advisory(kind="performance_loss", text=word, severity="info", code=word, location=f"{draw(text)}, line 3"),
        ),
        origins=(Origin(input=draw(text), line=draw(st.integers(1, 99)), format=word),),
    )


@st.composite
def hostile_report(draw: st.DrawFn, kind: Any) -> Report:
    kernels = draw(st.lists(hostile_kernel(), max_size=5))
    report = report_of(kind, kernels, draw(st.lists(hostile_kernel(), max_size=3)))
    issues = tuple(
        Issue(code="unknown-line", message=message, severity="error", origin=Origin(input=message, line=1))
        for message in draw(st.lists(text, max_size=2))
    )
    report = replace(report, build=replace(report.build, issues=issues))
    return retold(report, draw(text)) if draw(st.booleans()) else report


KINDS = sorted({kind for _, kind in pairs()})
LINE_ENDS = str.maketrans("", "", "\r\n")
MARKDOWN_TAGS = frozenset(
    ("h3", "p", "strong", "code", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "ul", "li", "br")
)
JUNIT_TAGS = frozenset(("testsuites", "testsuite", "testcase", "failure", "skipped", "error", "system-out"))


@pytest.mark.parametrize("kind", sized(["check", "diff"], KINDS))
@given(data=st.data())
def test_nothing_acts(kind: Any, data: st.DataObject) -> None:
    """In no format: a report is dearer to draw than to write."""
    report = data.draw(hostile_report(kind))
    for name in formats_of(kind):
        holds(name, report)
        assert reported(name, report) == reported(name, report), name


@pytest.mark.parametrize("kind", sized(["check"], KINDS))
def test_no_payload_acts(kind: Any) -> None:
    """Each as the name, place and message of a kernel; a few in one report, for the frame of a page is dear."""
    payloads = list(dict.fromkeys(map(encodable, PAYLOADS)))
    for begin in range(0, len(payloads), AT_ONCE):
        kernels, before = [], []
        for payload in payloads[begin : begin + AT_ONCE]:
            place = Origin(input=payload, line=1, format=payload)
            more = {"arch": payload, "unit": payload, "source": payload, "reasons": (payload,), "origins": (place,)}
            kernels.append(kernel(payload, spills=8, registers=255, **more))
            before.append(kernel(payload, registers=8, **more))
        report = report_of(kind, kernels, before)
        reports = [report]
        for frame in ("{}", "x {} x") if report.findings else ():
            said = [replace(each, message=frame.format(each.kernel.key.symbol)) for each in report.findings]
            reports.append(replace(report, findings=tuple(said)))
        for each, name in product(reports, formats_of(kind)):
            holds(name, each)


AT_ONCE = 4


def formats_of(kind: Any) -> list[str]:
    return [name for name, each in pairs() if each == kind]


def holds(name: str, report: Report) -> None:
    """The report, read by its format's rules, says what it shall and does nothing."""
    output = reported(name, report)
    assert output.translate(LINE_ENDS).isprintable(), "no control, format or bidi characters"
    if name != "github":
        assert commands(output) == [], "printed by a step, it is no command"
    HOLDS[name](output, report)


def reported(name: str, report: Report) -> str:
    """The report, without what of a page is the same in all of them."""
    output = rendered(name, report)
    return bare(output) if name == "html" else output


def text_holds(output: str, report: Report) -> None:
    coloured = rendered("text", report, Style(color=True))
    assert terminal_events(output) <= {"draw", "linefeed"}
    assert terminal_events(coloured) <= {"draw", "linefeed", "select_graphic_rendition"}


def terminal_events(output: str) -> set[str]:
    """Effects of the output on a terminal."""
    log = io.StringIO()
    pyte.Stream(pyte.DebugScreen(to=log)).feed(output)
    return {json.loads(line)[0] for line in log.getvalue().splitlines()}


def github_holds(output: str, report: Report) -> None:
    found = commands(output)
    assert len(found) == len(output.splitlines()) - output.startswith("spillscan: no findings")
    assert all(count <= 10 for count in Counter(command.name for command in found).values())
    for command in found:
        assert command.name in ("error", "warning", "notice")
        assert set(command.properties) <= {"file", "line", "title"}
        assert len(command.data) <= 4096
        if "file" in command.properties:
            stays(command.properties["file"])
            assert command.properties.get("line", "1").isdecimal()
    messages = [command.data for command in found if "file" in command.properties]
    assert messages == [printable(finding.message, 600) for finding in report.findings][: len(messages)]
    if len(report.findings) < 10:
        assert len(messages) == len(report.findings)


def stays(path: str) -> None:
    """Assert that a path is in the repository, or absolute without leading upwards."""
    assert path
    assert not path.startswith(("//", "\\"))
    assert ".." not in path.split("/")


def markdown_holds(output: str, report: Report) -> None:
    page = Page(output)
    assert set(page.tags) <= MARKDOWN_TAGS
    assert {name for name, _ in page.attributes} <= {"style"}
    assert page.comments == [" spillscan "]
    reported = " ".join(page.text)
    assert not re.search(r"[@#$`|<>\\_*~\[\]{}]|://|www\.|GH-|:\w+:", reported), reported
    assert all(len(set(table)) == 1 for table in rows_of(output)), "every row has the header's cells"


def junit_holds(output: str, report: Report) -> None:
    assert "<!" not in output
    tree = ElementTree.fromstring(output)
    assert {element.tag for element in tree.iter()} <= JUNIT_TAGS
    arches = [suite for suite in tree if suite.get("name") != "input" or suite[0].get("classname") != "spillscan.input"]
    reported = {id(kernel) for kernel in report.build.kernels} | {id(finding.kernel) for finding in report.findings}
    assert sum(len(suite) for suite in arches) == len(reported)
    failed = {id(finding.kernel) for finding in report.findings if finding.severity == "error"}
    assert sum(case.find("failure") is not None for case in tree.iter("testcase")) == len(failed)


HTML_TAGS = frozenset(
    (
        *("html", "head", "meta", "title", "style", "body", "div", "noscript", "main", "script"),
        *("h1", "p", "pre"),
    )
)


def html_holds(output: str, report: Report) -> None:
    page = Document(output)
    assert set(page.tags) <= HTML_TAGS
    assert page.tags.count("script") == 2
    assert {name for name, _ in page.attributes} <= {
        *("lang", "charset", "http-equiv", "content", "name", "id", "class", "scope", "type"),
    }
    assert page.comments == []
    assert "<" not in page.raw["payload"]
    payload = payload_of(output)
    assert all(text.isprintable() for text in texts_of(payload)), "the script shows texts as they are"
    assert payload["kernels"]["count"] == len(report.build.kernels)
    assert len(set(payload["kernels"]["id"])) == len(report.build.kernels)


def texts_of(value: Any) -> Iterable[str]:
    """Every text in JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield name
            yield from texts_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_of(item)


def csv_holds(output: str, report: Report) -> None:
    header, *rows = csv_rows(output)
    assert all(len(row) == len(header) for row in rows)
    for cell in (cell for row in rows for cell in row):
        assert not cell.lstrip().startswith(tuple("=+-@＝＋－＠\t\r")), cell
    if report.kind in ("scan", "check"):
        assert len(rows) == len(report.findings if report.kind == "check" else report.build.kernels)


def json_holds(output: str, report: Report) -> None:
    value = json.loads(output)
    if report.kind in ("scan", "check"):
        assert [entry["symbol"] for entry in value["kernels"]] == [k.key.symbol for k in report.build.kernels]


def sarif_holds(output: str, report: Report) -> None:
    (run,) = json.loads(output)["runs"]
    assert len(run["results"]) == len(report.findings)
    for result in run["results"]:
        message = result["message"]["text"]
        assert not re.search(r"(?<!\\)\[(?:[^\[\]\\]|\\.)*\]\([^)]*\)", message), "no embedded link"
        assert not re.search(r"(?<!\{)\{\d+\}", message), "no placeholder"
        (location,) = result["locations"]
        artifact = location["physicalLocation"]["artifactLocation"]
        uri, absolute = artifact["uri"], "uriBaseId" not in artifact
        assert re.fullmatch(rf"(?:[A-Za-z0-9._~/{':' * absolute}-]|%[0-9A-F]{{2}})+", uri), uri
        assert urlsplit(uri).scheme == ("file" if absolute else "")
        assert not urlsplit(uri).netloc
        stays(unquote(urlsplit(uri).path))
        assert absolute or not re.match(r"/|[A-Za-z]:/", unquote(uri))
    hashes = [result["partialFingerprints"]["primaryLocationLineHash"] for result in run["results"]]
    assert len(set(hashes)) == len(hashes)


def shown(report: Report) -> int:
    """Findings, and groups of gaps that say the same."""
    return len(report.findings) + len(merged(report.gaps, report.names))


def gitlab_holds(output: str, report: Report) -> None:
    entries = json.loads(output)
    assert len({entry["fingerprint"] for entry in entries}) == len(entries) == shown(report)
    for entry in entries:
        stays(entry["location"]["path"])


def rdjsonl_holds(output: str, report: Report) -> None:
    diagnostics = [json.loads(line) for line in output.splitlines()]
    assert len(diagnostics) == shown(report)
    for diagnostic in diagnostics:
        stays(diagnostic["location"]["path"])


HOLDS = {name.removesuffix("_holds"): check for name, check in list(globals().items()) if name.endswith("_holds")}


def test_every_format_is_checked() -> None:
    missing = {name for name, _ in pairs()} - set(HOLDS)
    assert not missing, f"write what makes hostile names harmless in each: FORMAT_holds, for {sorted(missing)}"
    assert set(HOLDS) == {name for name, _ in pairs()}


@pytest.mark.parametrize("payload", PAYLOADS)
def test_printable_is_one_harmless_line(payload: str) -> None:
    shown = printable(f"{payload}{payload}")
    assert shown.isprintable()
    assert commands(shown) == []
    assert printable(shown) == shown
    assert len(printable(payload * 50, 40)) <= 40
