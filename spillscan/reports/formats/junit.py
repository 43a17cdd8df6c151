"""JUnit XML: a suite per arch and a case per kernel, so that every CI service shows each kernel's history.

The format is Jenkins's (``junit-10.xsd`` of its xunit plugin), which GitLab, Azure and others read too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

from spillscan.model import Finding, Kernel, at_least
from spillscan.naming import Names
from spillscan.output.safe import printable
from spillscan.output.terminal import Style
from spillscan.reports.gaps import merged
from spillscan.reports.report import GATE_KINDS, Report
from spillscan.reports.words import LONGEST_NAME, fields_of, message_of

FORMAT = "junit"
HELP = "JUnit XML: one suite per arch, one case per kernel"
KINDS = GATE_KINDS

_MOST_GAPS = 100
"""Kinds of gaps listed."""


def render(report: Report, style: Style) -> Iterator[str]:
    """The ``<testsuites>`` element, which always has a case.

    A kernel fails if a finding reaches ``--fail-on`` and is skipped if it cannot be checked. Gaps of the input are
    errors of the suite ``input``.
    """
    findings: dict[int, list[Finding]] = defaultdict(list)
    for finding in report.findings:
        findings[id(finding.kernel)].append(finding)
    kernels = {id(kernel): kernel for kernel in report.build.kernels}
    kernels |= {id(finding.kernel): finding.kernel for finding in report.findings}  # never drop a finding's kernel
    suites: dict[str, list[Kernel]] = defaultdict(list)
    for kernel in kernels.values():
        suites[kernel.key.arch or "unknown arch"].append(kernel)
    unknown = {id(gap.kernel): gap.message for gap in report.gaps if gap.kernel is not None}
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="spillscan">\n'
    for arch, members in sorted(suites.items()):
        suite = printable(arch, LONGEST_NAME)
        names = _case_names(members, report.names)
        bodies = [_body(report, findings[id(each)], unknown.get(id(each))) for each in members]
        failed, skipped = (sum(tag in body for body in bodies) for tag in ("<failure ", "<skipped "))
        counts = f'tests="{len(members)}" failures="{failed}" errors="0" skipped="{skipped}"'
        yield f"  <testsuite name={_attribute(suite)} {counts}>\n"
        for name, body in zip(names, bodies, strict=True):
            case = f"    <testcase classname={_attribute(f'spillscan.{suite}')} name={_attribute(name)}"
            yield f"{case}>\n{body}    </testcase>\n" if body else f"{case}/>\n"
        yield "  </testsuite>\n"
    yield from _input(report)
    yield "</testsuites>\n"


def _body(report: Report, findings: Sequence[Finding], unknown: str | None) -> str:
    """Content of a case: failures, or why the kernel cannot be checked; then other findings."""
    severe = [each for each in findings if not each.accepted and at_least(each.severity, report.fail_on)]
    others = [_line(report, each) for each in findings if each not in severe]
    body = "".join(_failure(report, each) for each in severe)
    if not severe and unknown is not None:
        body = f"      <skipped message={_attribute(unknown)}/>\n"
    return body + (f"      <system-out>{escape(chr(10).join(others))}</system-out>\n" if others else "")


def _input(report: Report) -> Iterator[str]:
    """Suite ``input`` with the gaps that are not about one kernel."""
    groups = merged((gap for gap in report.gaps if gap.kernel is None), report.names)[:_MOST_GAPS]
    if not groups:
        return
    yield f'  <testsuite name="input" tests="1" failures="0" errors="{len(groups)}" skipped="0">\n'
    yield '    <testcase classname="spillscan.input" name="the input is complete">\n'
    for each in groups:
        yield f"      <error type={_attribute(each.code)} message={_attribute(each.place + each.text)}/>\n"
    yield "    </testcase>\n  </testsuite>\n"


def _case_names(kernels: list[Kernel], names: Names) -> Iterator[str]:
    """Unique names: short ones, with the object if several kernels share the name, numbered if still equal."""
    short = Counter(names.of(kernel.named_by) for kernel in kernels)
    seen: Counter[str] = Counter()
    for kernel in kernels:
        name = names.of(kernel.named_by)
        if short[name] > 1 and kernel.key.unit:
            name += f" [{printable(kernel.key.unit, LONGEST_NAME)}]"
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name} #{seen[name]}"


def _failure(report: Report, finding: Finding) -> str:
    tag = f"failure type={_attribute(finding.rule)} message={_attribute(message_of(finding))}"
    return f"      <{tag}>{escape(_line(report, finding))}</failure>\n"


def _line(report: Report, finding: Finding) -> str:
    state = f", {finding.baseline_state}" if finding.baseline_state else ""
    fields = fields_of(finding, report)
    return f"{fields.place}: {fields.severity}: {fields.detail} [{fields.rule}{state}]"


def _attribute(text: str) -> str:
    return quoteattr(printable(text, 600))
