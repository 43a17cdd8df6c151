"""The pages that the browser looks at: of real builds, of hostile names, of many kernels, of series."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from spillscan import scan
from spillscan.advice.sweep.curves import Curve, Point, marked
from spillscan.advice.sweep.settings import AS_IS, Setting
from spillscan.cli import main
from spillscan.judging import rules
from spillscan.judging.compare.pairing import comparison
from spillscan.judging.policy.effective import Policy
from spillscan.model import Build, Gap, Issue, Kernel, KernelKey, Launch, Origin, Usage
from spillscan.occupancy.summary import summarise
from spillscan.reports.page.history import history_document
from spillscan.reports.report import Report
from spillscan.reports.sizes import SizeGroup, page
from spillscan.reports.sweep import html
from spillscan.reports.table import Column, Table
from tests.conftest import FIXTURES
from tests.reading.binary.support import stored
from tests.reporting import checked as judged
from tests.reporting import kernel, rendered, report_of

DEMO = FIXTURES / "demo"
MANY = 2_400
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


@cache
def build(path: str) -> Build:
    """A fixture's build."""
    return scan([str(FIXTURES / path)])


def checked() -> Report:
    """Report of ``check`` on a log with spills."""
    return judged(build("ptxas/spill-13.0.log"), Policy())


def compared(older: str = "demo/base.log", newer: str = "demo/head.log", *renamed: tuple[str, str]) -> Report:
    """Report of ``diff`` on the demo, or on other builds."""
    base, head = build(older), build(newer)
    changes = comparison(base, head, stated=renamed).changes
    findings = tuple(rules.check_changes(changes, Policy()).findings)
    return Report(kind="diff", base=base, build=head, changes=tuple(changes), findings=findings)


def worse() -> Report:
    """One template that got worse on two archs, and a kernel that got better."""

    def of(more: int) -> list[Kernel]:
        archs = ("sm_80", "sm_90")
        found = [kernel(f"void gemm<{n}>()", 16 * n * more, 40 + 8 * more, arch) for n in range(6) for arch in archs]
        return [*found, kernel("rotate", 0, 40 - more, "sm_90")]

    return report_of("diff", of(2), of(0))


def flags() -> Report:
    """Two templates of flags: all instances of one regressed, and each has a new one. By namespaces."""

    def of(more: int) -> list[Kernel]:
        return [
            kernel(f"void {space}::attention<{size}, {', '.join(each)}>(int)", 16 * side, 40 + side, "sm_90")
            for space, side in (("first", 0), ("second", more))
            for size in ("ns::some_very_long_name_of_a_tile", "ns::another_rather_long_name_of_a_tile")[:more]
            for each in product(("true", "false"), repeat=3)
        ]

    return replace(report_of("diff", of(2), of(1)), by="namespace")


def copies() -> Report:
    """One kernel in two libraries of a wheel, by file."""

    def of(more: int) -> list[Kernel]:
        origins = (Origin(input="a.whl", format="binary"),)
        return [
            kernel("gemm", 8 * more + at, unit=f"k/{library}.so", source="gemm.cu", origins=origins)
            for at, library in enumerate(("one", "two"))
        ]

    return replace(report_of("diff", of(2), of(1)), by="file")


def _hostile_kernels(spills: int) -> list[Kernel]:
    found = []
    for number, name in enumerate(HOSTILE):
        origin = Origin(input=name[:300], line=1)
        arch = name[:60] if number % 2 else "sm_90"  # of no known arch nothing is drawn
        registers = 32 + spills
        made = kernel(name, spills, registers, arch, unit=name, source=name, origins=(origin,))
        found.append(replace(made, configuration=(("tile", name), ("num_warps", name))))
    return found


def hostile() -> Report:
    """Active names in every place that shows text of a log."""
    report = report_of("check", _hostile_kernels(8))
    issues = tuple(
        Issue(code=name[:40], message=name, severity="error", origin=Origin(input=name, line=1)) for name in HOSTILE
    )
    return Report(
        kind="check",
        build=Build(kernels=report.build.kernels, issues=issues),
        findings=report.findings,
        gaps=tuple(
            Gap(code="unknown-spills", message=each.key.symbol, hides=("spills",), kernel=each)
            for each in report.build.kernels
        ),
    )


def hostile_diff() -> Report:
    """The same names, changed."""
    return report_of("diff", _hostile_kernels(16), _hostile_kernels(8))


def compiled() -> str:
    """A check of a binary whose source is there."""

    def sourced(folder: Path) -> list[str]:
        (folder / "sass.cu").write_text("\n".join(f"int line_{number}; // <b>&amp;" for number in range(1, 61)))
        return ["--source-root", str(folder)]

    return _commanded("check", {"k.cubin": "lines-sm_80-13.5.cubin"}, sourced)


def grown() -> str:
    """Report of ``diff`` on code that two toolkits made of one source."""
    return _commanded("diff", {f"{release}.cubin": f"sass-sm_120-{release}.cubin" for release in ("12.8", "13.5")})


def _commanded(command: str, binaries: Mapping[str, str], words: Callable[[Path], list[str]] = lambda _: []) -> str:
    """The page of a command, of fixtures' binaries under other names."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        for other, fixture in binaries.items():
            (folder / other).write_bytes(stored(fixture))
        files = [str(folder / other) for other in binaries]
        assert main([command, *files, "-f", f"html:{folder / 'page.html'}", *words(folder)]) < 2
        return (folder / "page.html").read_text(encoding="utf-8")


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


def history() -> str:
    """Regressions, and folded builds; hostile names."""

    def made(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Table[Any]:
        return Table(
            title=title, columns=[Column(head, head, itemgetter(at), True) for at, head in enumerate(heads)], rows=rows
        )

    heads = ("kernel", "arch", "trend", "change", "since")
    row = ("gemm<8>", "sm_90", "▁▁██", "spills 0 → 304 B, registers 96 → 64", "01-02 v2 a1b2c3")
    hostile = (HOSTILE[0], "sm_90", "▁▁▁█", "registers 16 → 24", "01-03 v3 <img src=x onerror=alert(1)>")
    tables = {"regressions": made("", heads, [row, hostile]), "improvements": made("Improvements", heads, [])}
    folded = {"builds": made("Builds, newest first", ("build",), [("v2",), ("v1",)])}
    return "".join(history_document("nightly", tables, folded, ["2 regressions in 4 builds"]))


def sweep() -> list[Curve]:
    """Two kernels, one of them named to act."""
    launch = Launch(threads_per_block=256)

    def at(limit: int | None, registers: int, spills: int) -> Point:
        usage = Usage(registers=registers, spill_store_bytes=spills, spill_load_bytes=0)
        made = Kernel(key=KernelKey(symbol="k", arch="sm_90"), role="entry", usage=usage)
        return Point(setting=Setting(limit=limit), kernel=made, summary=summarise(usage, "sm_90", launch))

    points = [at(*each) for each in ((None, 168, 0), (128, 128, 16), (96, 96, 96), (64, 64, 640))]
    common = {"input": "gemm.cu", "toolkit": "13.0", "launch": launch}
    return [
        Curve(symbol="_Z4gemmILi8EEvv", arch="sm_90a", points=marked(points), **common),
        Curve(symbol=HOSTILE[1], arch="sm_90", points=marked([Point(setting=AS_IS, failure="not tried")]), **common),
    ]


SIZES = SizeGroup(
    "total </script><img src=x onerror='owned=1'> \u202e\u2066",
    1000,
    4000,
    groups=(
        SizeGroup(
            "sm_90a",
            700,
            3000,
            groups=(SizeGroup("code", 600, 2500), SizeGroup("symbols <img src=x onerror=alert(1)>", 100, 500)),
        ),
        SizeGroup("host and packing", 300, 1000),
    ),
)

PAGES: dict[str, Callable[[], str]] = {
    "scan": lambda: rendered("html", Report(kind="scan", build=build("demo/head.log"))),
    "sorted": lambda: rendered(
        "html", Report(kind="scan", by="family", sort="registers", build=build("demo/head.log"))
    ),
    "check": lambda: rendered("html", checked()),
    "code": compiled,
    "grown": grown,
    "diff": lambda: rendered("html", compared()),
    "renamed": lambda: rendered(
        "html",
        compared(
            *("identity/refactored-13.0.log", "identity/renamed-13.5.log"), ("softmax_rows", "softmax_rows_fused")
        ),
    ),
    "worse": lambda: rendered("html", worse()),
    "flags": lambda: rendered("html", flags()),
    "copies": lambda: rendered("html", copies()),
    "hostile": lambda: rendered("html", hostile()),
    "hostile-diff": lambda: rendered("html", hostile_diff()),
    "many": lambda: rendered("html", Report(kind="scan", build=many(MANY))),
    "empty": lambda: rendered("html", Report(kind="scan", build=Build())),
    "size": lambda: "".join(page(SIZES, "Size of a.so")),
    "history": history,
    "sweep": lambda: "".join(html(sweep())),
}
"""HTML by name, made when it is asked for."""
