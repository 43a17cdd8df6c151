"""Shared code of the report tests: builds of any size, reports as text, and readers of each format."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

from markdown_it import MarkdownIt
from msgspec.structs import replace

from spillscan.judging import rules
from spillscan.judging.compare.pairing import diff
from spillscan.judging.places import Tree
from spillscan.judging.policy.effective import Policy
from spillscan.judging.policy.reading import from_options
from spillscan.judging.verdict import gaps_of, verdict
from spillscan.model import Build, Kernel, KernelKey, Origin, Usage
from spillscan.output.terminal import Style
from spillscan.reports import formats
from spillscan.reports.report import Kind, Report

POLICY = Policy((from_options({"max_registers": "128"}),))
"""Policy of :func:`report_of`."""


def kernel(symbol: str, spills: int = 0, registers: int = 32, arch: str = "sm_90", **more: Any) -> Kernel:
    """A kernel with figures, from line 7 of ``build.log``."""
    unit, shared = more.pop("unit", ""), more.pop("shared_bytes", None)
    usage = Usage(
        registers=registers,
        stack_bytes=spills,
        spill_store_bytes=spills,
        spill_load_bytes=spills,
        shared_bytes=shared,
    )
    defaults = {"role": "entry", "usage": usage, "origins": (Origin(input="build.log", line=7),)}
    return Kernel(key=KernelKey(symbol=symbol, arch=arch, unit=unit), **(defaults | more))


def checked(build: Build, policy: Policy) -> Report:
    """Report of ``check`` on ``build``."""
    outcome = rules.check(build, policy)
    needs = rules.needed(outcome.terms, "build", policy.fail_on)
    found = verdict(outcome.findings, gaps_of(build, outcome.undecided, needs, policy), policy)
    return Report(kind="check", build=build, findings=outcome.findings, gaps=found.gaps)


def report_of(kind: Kind, kernels: Sequence[Kernel], base: Sequence[Kernel] = ()) -> Report:
    """The report that the command would make."""
    build = Build(kernels=tuple(kernels))
    if kind == "diff":
        changes = diff(Build(kernels=tuple(base)), build)
        found = rules.check_changes(changes, Policy()).findings
        return Report(
            kind="diff",
            build=build,
            base=Build(kernels=tuple(base)),
            changes=tuple(changes),
            findings=tuple(found),
        )
    if kind == "check":
        return checked(build, POLICY)
    return Report(kind="scan", build=build)


def rendered(name: str, report: Report, style: Style | None = None) -> str:
    """The report in one format. It can be written: no half surrogates."""
    pieces = formats.all_formats()[name].render(report, style or Style())
    text = "".join(piece if isinstance(piece, str) else piece.decode() for piece in pieces)
    assert text.encode().decode() == text
    return text


def pairs() -> Iterator[tuple[str, Kind]]:
    """Each format with each kind of report that it takes."""
    for name, module in formats.all_formats().items():
        for kind in module.KINDS:
            yield name, kind


def retold(report: Report, message: str) -> Report:
    """The report with another message in each finding."""
    found = tuple(replace(finding, message=message) for finding in report.findings)
    return replace(report, findings=found)


def at(root: str, *files: str, folder: str = "") -> Tree:
    """A repository that holds ``files``."""
    return Tree(root=root, folder=folder, has_file=frozenset(files).__contains__)


# ---- GitHub's runner ------------------------------------------------------------------------------------------------

REGISTERED = frozenset(
    (
        *("internal-set-repo-path", "set-env", "set-output", "save-state", "add-path", "add-mask", "add-matcher"),
        *("remove-matcher", "warning", "error", "notice", "debug", "group", "endgroup", "echo", "stop-commands"),
    )
)


@dataclass(frozen=True)
class Command:
    """A line as GitHub's runner parses it."""

    name: str
    properties: dict[str, str]
    data: str


def commands(output: str) -> list[Command]:
    """The workflow commands in what a step prints, as ``ActionCommand.cs`` of actions/runner reads them:
    ``::name k=v::data`` where a line begins so after blanks, else ``##[name k=v;]data`` anywhere in it. Lines end as
    .NET's reader ends them.
    """
    found = (_second(line) or _first(line) for line in re.split(r"\r\n|\r|\n", output))
    return [command for command in found if command is not None]


def _second(line: str) -> Command | None:
    line = line.lstrip()
    end = line.find("::", 2)
    if not line.startswith("::") or end < 0:
        return None
    return _command(line[2:end], line[end + 2 :], ",", {"%3A": ":", "%2C": ","})


def _first(line: str) -> Command | None:
    start = line.find("##[")
    end = line.find("]", start)
    if start < 0 or end < 0:
        return None
    return _command(line[start + 3 : end], line[end + 1 :], ";", {"%3B": ";", "%5D": "]"})


def _command(head: str, data: str, separator: str, escapes: dict[str, str]) -> Command | None:
    name, _, rest = head.partition(" ")
    if name.lower() not in REGISTERED:
        return None
    reported = (pair.split("=", 1) for pair in rest.strip().split(separator) if pair)
    properties = {pair[0]: _unescaped(pair[1], escapes) for pair in reported if len(pair) == 2}
    return Command(name, properties, _unescaped(data, {}))


def _unescaped(text: str, more: dict[str, str]) -> str:
    for escape, sign in {"%0D": "\r", "%0A": "\n", **more, "%25": "%"}.items():
        text = text.replace(escape, sign)
    return text


# ---- Markdown and HTML ----------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Elements that a browser finds in rendered Markdown."""

    def __init__(self, markdown: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.comments: list[str] = []
        self.text: list[str] = []
        """Text outside of code, in which GitHub finds mentions, references and addresses."""
        self.code: list[str] = []
        self._open: list[str] = []
        page = MarkdownIt("gfm-like", {"html": True})
        self.feed(page.render(markdown))
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self._open.append(tag)
        if tag == "code":
            self.code.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "code" in self._open:
            self.code[-1] += data
        else:
            self.text.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def bare(page: str) -> str:
    """An HTML report without its style sheet, script and tables of devices, which come from files of their own, and
    without hashes."""
    page = re.sub(r'(?m)^"devices":\{.*\},$', '"devices":{},', page)
    page = re.sub(r"(<(style|script)>)[^<]*(?:<(?!/\2>)[^<]*)*(?=</\2>)", r"\1", page)
    return re.sub(r"'sha256-[^']*'", "'sha256-'", page)


_VOID = ("meta", "br", "input", "hr", "img", "link")


def payload_of(page: str) -> Any:
    """A page's data, unpacked as its script does."""
    found = json.loads(Document(page).raw["payload"])
    for name, value in found.items():
        if isinstance(value, dict) and "deflated" in value:
            found[name] = json.loads(zlib.decompress(base64.b64decode(value["deflated"])))
    return found


class Document(HTMLParser):
    """Elements that a browser finds in an HTML file before its script runs."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.ids: list[str] = []
        self.comments: list[str] = []
        self.open: list[str] = []
        """Elements that are not closed."""
        self.policy = ""
        self.text: list[str] = []
        self.raw: dict[str, str] = {}
        """Contents of ``style`` and ``script``; the script with data by its id."""
        self._raw = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        reported = dict(attrs)
        self.tags.append(tag)
        self.attributes += attrs
        if reported.get("id"):
            self.ids.append(str(reported["id"]))
        if reported.get("http-equiv") == "Content-Security-Policy":
            self.policy = str(reported["content"])
        if tag not in _VOID:
            self.open.append(tag)
        self._raw = str(reported.get("id") or tag) if tag in ("style", "script") else ""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self._raw = ""

    def handle_data(self, data: str) -> None:
        if self._raw:
            self.raw[self._raw] = self.raw.get(self._raw, "") + data
        else:
            self.text.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def rows_of(markdown: str) -> list[list[int]]:
    """Cells of each row of each table."""
    tables: list[list[int]] = []
    for token in MarkdownIt("gfm-like").parse(markdown):
        if token.type == "table_open":
            tables.append([])
        elif token.type == "tr_open":
            tables[-1].append(0)
        elif token.type in ("td_open", "th_open"):
            tables[-1][-1] += 1
    return tables


def csv_rows(text: str) -> list[list[str]]:
    """The rows of a CSV file."""
    return list(csv.reader(io.StringIO(text, newline="")))
