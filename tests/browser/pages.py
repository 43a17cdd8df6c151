"""The pages that the browser looks at: of real builds, of hostile names, of many kernels, of series."""

from __future__ import annotations

from functools import cache

from spillscan import diff as diff_builds
from spillscan import rules, scan
from spillscan.matrix import matrix
from spillscan.model import Build, Issue, Kernel, KernelKey, Origin, Usage
from spillscan.page import Line, Point, Sweep, Swept, Trend, sweep_document, trend_document
from spillscan.policy import Policy
from spillscan.reports import Report
from tests.conftest import FIXTURES
from tests.reporting import kernel, rendered, report_of

DEMO = FIXTURES / "demo"
MANY = 6_000
HOSTILE = (
    "</script><script>window.owned=1</script>",
    '"><img src=x onerror=window.owned=1>',
    "</noscript><img src=x onerror=window.owned=1>",
    "<!--<script>",
    "\u202egnp.exe\u2066",
    "javascript:window.owned=1",
    "=cmd|' /C calc'!A0",
    "x" * 8_000,
    "f<" + "ns::very_long_template_argument, " * 240 + "int>",
)


def all_pages() -> dict[str, str]:
    """HTML by name."""
    return {
        "scan": rendered("html", Report(kind="scan", build=build("demo/head.log"))),
        "check": rendered("html", checked()),
        "diff": rendered("html", compared()),
        "matrix": rendered("html", side_by_side()),
        "hostile": rendered("html", hostile()),
        "hostile-diff": rendered("html", hostile_diff()),
        "many": rendered("html", Report(kind="scan", build=many(MANY))),
        "empty": rendered("html", Report(kind="scan", build=Build())),
        "trend": "".join(trend_document(trend())),
        "sweep": "".join(sweep_document(sweep())),
    }


@cache
def build(path: str) -> Build:
    """A fixture's build."""
    return scan([str(FIXTURES / path)])


def checked() -> Report:
    """What ``check`` reports of a log with spills."""
    found = build("ptxas/spill-13.0.log")
    judged = rules.check(found, Policy())
    undecided = tuple((each.kernel, each.reason) for each in judged.undecided)
    return Report(kind="check", build=found, findings=judged.findings, undecided=undecided)


def compared() -> Report:
    """What ``diff`` reports of the demo."""
    base, head = build("demo/base.log"), build("demo/head.log")
    changes = diff_builds(base, head)
    findings = tuple(rules.regressions(changes, Policy()))
    return Report(kind="diff", base=base, build=head, changes=tuple(changes), findings=findings)


def side_by_side() -> Report:
    """Two toolkits by arch."""
    builds = [build("ptxas/spill-12.9.log"), build("ptxas/spill-13.5.log")]
    table = matrix(builds, ["12.9", "13.5"], "arch", ["spill_bytes", "registers"])
    return Report(kind="matrix", base=builds[0], build=builds[1], matrix=table)


def _hostile_kernels(spills: int) -> list[Kernel]:
    found = []
    for name in HOSTILE:
        origin = Origin(input=name[:300], line=1)
        found.append(kernel(name, spills=spills, arch=name[:60], unit=name, source=name, origins=(origin,)))
    return found


def hostile() -> Report:
    """Names that would act, everywhere where a log's text may stand."""
    report = report_of("check", _hostile_kernels(8))
    issues = tuple(
        Issue(code=name[:40], message=name, severity="error", origin=Origin(input=name, line=1)) for name in HOSTILE
    )
    return Report(
        kind="check",
        build=Build(kernels=report.build.kernels, issues=issues),
        findings=report.findings,
        undecided=tuple((each, each.key.symbol) for each in report.build.kernels),
    )


def hostile_diff() -> Report:
    """The same names, changed and renamed."""
    return report_of("diff", _hostile_kernels(16), _hostile_kernels(8))


def many(number: int) -> Build:
    """So many kernels on three archs, a tenth of which spill."""
    archs, registers, shared = (
        ("sm_80", "sm_90a", "sm_100a"),
        (16, 24, 32, 40, 64, 96, 128, 168, 255),
        (None, 1024, 49152),
    )
    found = []
    for at in range(number):
        function = at // 3
        name = f"kernel_{function % 977}"
        symbol = f"_Z{len(name)}{name}ILi{function}ELi{function * 7 % 256}EfdEvPT1_PT2_i"
        spills = 4 * (at * 37 % 499) if at * 31 % 10 == 0 else 0
        usage = Usage(
            registers=registers[at * 13 % 9],
            stack_bytes=spills,
            spill_store_bytes=spills,
            spill_load_bytes=spills,
            shared_bytes=shared[at * 17 % 3],
            barriers=at % 2,
        )
        key = KernelKey(symbol=symbol, arch=archs[at % 3])
        found.append(Kernel(key=key, role="entry", usage=usage, origins=(Origin(input="build.log", line=at + 1),)))
    return Build(kernels=tuple(found))


def trend() -> Trend:
    """A figure that grew, one that fell, one that is not always there, and a hostile one."""
    values = {
        "gemm<8>": (0, 0, 16, 304),
        "softmax": (64, 64, 32, 32),
        "late": (None, None, 8, 8),
        HOSTILE[1]: (4, 4, 4, 4),
    }
    return Trend(
        title="nightly",
        builds=("v1", "v2", "v3", "v4"),
        series=tuple(
            Line(name=name, arch="sm_90", metric=metric, values=told)
            for metric in ("spill_store_bytes", "registers")
            for name, told in values.items()
        ),
    )


def sweep() -> Sweep:
    """Two kernels, one of them named to act."""
    caps = ((None, 168, 0, 1), (128, 128, 16, 2), (96, 96, 96, 2), (64, 64, 640, 4))
    points = tuple(
        Point(cap=cap, registers=registers, spill_bytes=spills, blocks=blocks, best=cap == 128)
        for cap, registers, spills, blocks in caps
    )
    untold = (Point(cap=None, registers=40, spill_bytes=0, blocks=None, best=True),)
    kernels = (Swept(name="gemm<8>", arch="sm_90a", points=points), Swept(name=HOSTILE[0], arch=None, points=untold))
    return Sweep(title="gemm.cu", kernels=kernels)
