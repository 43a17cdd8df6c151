"""Reports of real builds, byte for byte as last looked at; ``python -m tests.reports.test_golden`` writes them."""

from __future__ import annotations

import os

import pytest

from spillscan.reports import formats
from tests.conftest import ROOT, run
from tests.reporting import bare

GOLDEN = ROOT / "tests" / "golden" / "reports"
DEMO = "fixtures/demo"
CASES: dict[str, tuple[str, ...]] = {
    "clean": ("check", f"{DEMO}/base.log"),
    "one": ("check", f"{DEMO}/head.log", "--arch", "sm_80"),
    "many": ("check", "fixtures/ptxas/spill-13.0.log"),
    "sass": ("check", "fixtures/sass/nvdisasm-gi-sm_80-13.5.sass"),
    "build": (
        "check",
        "fixtures/build/cmake-ninja-verbose-13.0.log",
        "--set",
        "max_registers=24",
        "--kernel",
        "conv_3x3",
    ),
    "diff": ("diff", f"{DEMO}/base.log", f"{DEMO}/head.log"),
    "same": ("diff", f"{DEMO}/base.log", f"{DEMO}/base.log"),
    "scan": ("scan", f"{DEMO}/head.log"),
}
"""Calls by name. A build without kernels is in :data:`NOTHING`."""
NOTHING = ("check", "-", "--fail-on", "never")
SUFFIXES = {"html": "html", "junit": "xml", "markdown": "md", "rdjsonl": "jsonl", "sarif": "sarif"}
SUFFIXES |= dict.fromkeys(("json", "gitlab"), "json") | {"csv": "csv"}
"""Of the formats whose texts are not plain."""


def printed(call: tuple[str, ...], name: str, stdin: bytes = b"") -> bytes:
    """Output of the command in one format."""
    unset = ("FORCE_COLOR", "COLUMNS", "GITHUB_WORKSPACE", "CI_PROJECT_DIR")
    environment = {key: value for key, value in os.environ.items() if key not in unset}
    result = run(*call, "-f", name, env=environment, stdin=stdin)
    return bare(result.stdout.decode()).encode() if name == "html" else result.stdout


def cases() -> list[tuple[str, str]]:
    """(case, format) of every golden file."""
    found = [
        (case, name)
        for name, module in formats.all_formats().items()
        for case, call in CASES.items()
        if call[0] in module.KINDS
    ]
    return found + [("empty", name) for name, module in formats.all_formats().items() if "check" in module.KINDS]


def golden(case: str, name: str) -> bytes:
    """Expected output."""
    return printed(NOTHING, name, b"ptxas info    : 0 bytes gmem\n") if case == "empty" else printed(CASES[case], name)


@pytest.mark.parametrize(("case", "name"), cases())
def test_golden(case: str, name: str) -> None:
    assert golden(case, name) == (GOLDEN / f"{case}-{name}.{SUFFIXES.get(name, 'txt')}").read_bytes()


def test_nothing_else_is_golden() -> None:
    expected = {f"{case}-{name}.{SUFFIXES.get(name, 'txt')}" for case, name in cases()}
    assert {path.name for path in GOLDEN.iterdir()} == expected


def write() -> None:
    """Rewrite every golden file, and only those."""
    GOLDEN.mkdir(exist_ok=True)
    for path in GOLDEN.iterdir():
        path.unlink()
    for case, name in cases():
        (GOLDEN / f"{case}-{name}.{SUFFIXES.get(name, 'txt')}").write_bytes(golden(case, name))


if __name__ == "__main__":
    write()
