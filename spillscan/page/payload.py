"""A report as the page's payload: plain JSON, each text of a log printable."""

from __future__ import annotations

from typing import Any

from spillscan import __version__
from spillscan.model import Build
from spillscan.output.safe import printable
from spillscan.page.changes import changes, findings, verdict
from spillscan.page.columns import columns, worst_first
from spillscan.page.heat import heat
from spillscan.page.kernel import ASSETS as KERNEL_ASSETS
from spillscan.page.kernel.details import details
from spillscan.page.limiters import Summaries
from spillscan.page.overview import overview
from spillscan.reports import Report

ASSETS = ("store", "overview", "table", "kernels", "changes", "heat", *KERNEL_ASSETS)
"""Style sheets and scripts of a report's page, in the order of loading."""
_LONGEST_TITLE = 120


def payload(report: Report) -> dict[str, Any]:
    """What the views of :mod:`spillscan.page` read, in the order of their use."""
    summaries = Summaries(report.launches)
    kernels = worst_first(report.build.kernels)
    index = {id(kernel): number for number, kernel in enumerate(kernels)}
    found: dict[str, Any] = {
        "title": title(report),
        "tool": f"spillscan {__version__}",
        "kind": report.kind,
        "views": _views(report),
        "overview": overview(report.build, summaries),
    }
    if report.kind != "scan":
        found["verdict"] = verdict(report)
        found["findings"] = findings(report, index)
    if report.kind == "diff":
        found["changes"] = changes(report, index)
    if report.matrix is not None:
        found["heat"] = heat(report.matrix)
    found["kernels"] = columns(kernels, summaries)
    if kernels:
        before = {
            index[id(change.after)]: change.before
            for change in report.changes
            if change.before is not None and id(change.after) in index
        }
        found |= details(kernels, summaries.of, before if report.kind == "diff" else None)
    return found


def _views(report: Report) -> list[dict[str, str]]:
    first = {"diff": ("changes", "Changes"), "matrix": ("heat", "Side by side")}.get(report.kind)
    views = [*([first] if first else []), ("overview", "Overview"), ("table", "Kernels")]
    return [{"name": name, "label": label} for name, label in views]


def title(report: Report) -> str:
    """The inputs: ``build.log``, ``base.log → head.log``, ``a.log and 3 more``."""
    if report.matrix is not None:
        return printable(" → ".join(report.matrix.builds), _LONGEST_TITLE)
    sides = [_inputs(build) for build in (report.base, report.build) if build is not None]
    return printable(" → ".join(side for side in sides if side), _LONGEST_TITLE)


def _inputs(build: Build) -> str:
    names = list(dict.fromkeys(o.input for kernel in build.kernels for o in kernel.origins[:1]))
    if not names:
        return ""
    first = names[0].rstrip("/").rpartition("/")[2] or names[0]
    return first if len(names) == 1 else f"{first} and {len(names) - 1:,} more"
