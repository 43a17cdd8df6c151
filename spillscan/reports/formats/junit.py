"""JUnit XML: a suite per arch and a case per kernel, so that every CI service shows each kernel's history.

The format is Jenkins's (``junit-10.xsd`` of its xunit plugin), which GitLab, Azure and others read too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from xml.sax.saxutils import escape, quoteattr

from spillscan.model import Finding, Kernel, at_least
from spillscan.naming import Names
from spillscan.output.safe import printable
from spillscan.output.terminal import Style
from spillscan.reports.report import JUDGED, Report
from spillscan.reports.words import LONGEST_NAME, fields_of, message_of, name_of, one_of_a_kind

FORMAT = "junit"
HELP = "JUnit XML: a suite an arch, a case a kernel"
KINDS = JUDGED

_MOST_GAPS = 100
"""Kinds of gaps listed."""


def render(report: Report, style: Style) -> Iterator[str]:
    """The ``<testsuites>`` element, which always has a case.

    A kernel fails if a finding reaches ``--fail-on`` and is skipped if it cannot be checked. Gaps of the input are
    errors of the suite ``input``.
    """
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="spillscan">\n'
    found: dict[int, list[Finding]] = defaultdict(list)
    for finding in report.findings:
        found[id(finding.kernel)].append(finding)
    unknown = {id(gap.kernel): gap.message for gap in report.gaps if gap.kernel is not None}
    suites: dict[str, list[Kernel]] = defaultdict(list)
    kernels = {id(kernel): kernel for kernel in report.build.kernels}
    kernels |= {id(finding.kernel): finding.kernel for finding in report.findings}  # never drop a finding's kernel
    for kernel in kernels.values():
        suites[kernel.key.arch or "unknown arch"].append(kernel)
    for arch in sorted(suites):
        yield from _suite(report, printable(arch, LONGEST_NAME), suites[arch], found, unknown)
    yield from _input(report)
    yield "</testsuites>\n"


def _suite(
    report: Report, arch: str, kernels: list[Kernel], found: dict[int, list[Finding]], unknown: dict[int, str]
) -> Iterator[str]:
    failures = skipped = 0
    cases: list[str] = []
    for kernel, name in zip(kernels, _case_names(kernels, report.names), strict=True):
        mine = found.get(id(kernel), [])
        severe = [finding for finding in mine if not finding.excused and at_least(finding.severity, report.fail_on)]
        mild = [finding for finding in mine if finding not in severe]
        body = "".join(_failure(report, finding) for finding in severe)
        if not severe and id(kernel) in unknown:
            skipped += 1
            body = f"      <skipped message={_attribute(unknown[id(kernel)])}/>\n"
        if mild:
            body += f"      <system-out>{escape(chr(10).join(_line(report, f) for f in mild))}</system-out>\n"
        failures += bool(severe)
        case = f"    <testcase classname={_attribute(f'spillscan.{arch}')} name={_attribute(name)}"
        cases.append(f"{case}>\n{body}    </testcase>\n" if body else f"{case}/>\n")
    counts = f'tests="{len(kernels)}" failures="{failures}" errors="0" skipped="{skipped}"'
    yield f"  <testsuite name={_attribute(arch)} {counts}>\n"
    yield from cases
    yield "  </testsuite>\n"


def _input(report: Report) -> Iterator[str]:
    """Suite ``input`` with the gaps that are not about one kernel."""
    groups = list(one_of_a_kind((gap for gap in report.gaps if gap.kernel is None), report.names))[:_MOST_GAPS]
    if not groups:
        return
    yield f'  <testsuite name="input" tests="1" failures="0" errors="{len(groups)}" skipped="0">\n'
    yield '    <testcase classname="spillscan.input" name="the input is complete">\n'
    for code, gap, text in groups:
        place = f"{gap.origin}: " if gap.origin else ""
        yield f"      <error type={_attribute(code)} message={_attribute(place + text)}/>\n"
    yield "    </testcase>\n  </testsuite>\n"


def _case_names(kernels: list[Kernel], names: Names) -> Iterator[str]:
    """Unique names: short ones, with the object if several kernels share the name, numbered if still equal."""
    short = Counter(name_of(kernel, names) for kernel in kernels)
    seen: Counter[str] = Counter()
    for kernel in kernels:
        name = name_of(kernel, names)
        if short[name] > 1 and kernel.key.unit:
            name += f" [{printable(kernel.key.unit, LONGEST_NAME)}]"
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name} #{seen[name]}"


def _failure(report: Report, finding: Finding) -> str:
    text = escape(_line(report, finding))
    return (
        f"      <failure type={_attribute(finding.rule)} message={_attribute(message_of(finding))}>{text}</failure>\n"
    )


def _line(report: Report, finding: Finding) -> str:
    state = f", {finding.baseline_state}" if finding.baseline_state else ""
    fields = fields_of(finding, report)
    return f"{fields.place}: {fields.severity}: {fields.detail} [{fields.rule}{state}]"


def _attribute(text: str) -> str:
    return quoteattr(printable(text, 600))
