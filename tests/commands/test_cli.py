"""The command as users and CI run it."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from spillscan import scan
from spillscan.commands.diff import _same
from spillscan.commands.run import _contains_code
from spillscan.model.serialize import kernel_json, text
from spillscan.reading.inputs.codecs import zstd
from spillscan.reports import formats
from tests.conforming import conforms
from tests.conftest import FIXTURES, ROOT, read_any, run

SPILLS = FIXTURES / "ptxas" / "spill-13.0.log"
CLEAN = FIXTURES / "ptxas" / "plain-13.0.log"
RELOCATABLE = FIXTURES / "ptxas" / "calls-c-13.0.log"


def document(*arguments: str | Path, **kwargs: Any) -> dict[str, Any]:
    result = run(*arguments, "-f", "json", **kwargs)
    assert result.stdout, result.stderr
    value: dict[str, Any] = json.loads(result.stdout)
    conforms(value)
    return value


# ---- scan ---------------------------------------------------------------------------------------------------------


def test_scan_reads_a_pipe_with_and_without_a_dash() -> None:
    data = SPILLS.read_bytes()
    assert run("scan", "-", stdin=data).stdout == run("scan", stdin=data).stdout != b""


@pytest.mark.oracle
def test_json_follows_the_schema_on_every_fixture_folder() -> None:
    for folder in ("ptxas", "nvcc", "nvlink", "library", "build"):
        value = document("scan", FIXTURES / folder)
        assert value["kernels"]
        assert value["stats"]["kernels"] + value["stats"]["functions"] == len(value["kernels"])


def test_absent_values_are_null() -> None:
    kernels = document("scan", FIXTURES / "ptxas" / "plain-11.8.log")["kernels"]
    for kernel in kernels:
        assert kernel["usage"]["barriers"] is None, "11.8 prints no barriers"
        assert (kernel["usage"]["constant_bytes"] is None) == (kernel["arch"] == "sm_90")


def test_json_is_plain_ascii() -> None:
    for name in (
        "ptxas/warnings-13.0.log",
        "nvcc/rdc-13.0.log",
        "parallel/13.0/capture-8.log.gz",
        "hostile/names.log",
    ):
        for kernel in read_any(FIXTURES / name).kernels:
            for symbol in (kernel.key.symbol, "é\x7f\u2028𝄞", "half \udc80"):
                line = text(kernel_json(replace(kernel, key=replace(kernel.key, symbol=symbol))))
                assert json.loads(line)["symbol"] == symbol
                assert line == json.dumps(json.loads(line), separators=(",", ":"))


def test_snapshot_reads_back_the_same(tmp_path: Path) -> None:
    first = tmp_path / "first.json"
    assert run("scan", FIXTURES / "nvcc", "-f", f"json:{first}").returncode == 0
    again = run("scan", first, "-f", "json")
    ours, theirs = json.loads(first.read_bytes()), json.loads(again.stdout)
    assert ours["kernels"] == theirs["kernels"]
    assert ours["issues"] == theirs["issues"]


def test_output_is_deterministic() -> None:
    for form in (name for name, module in formats.all_formats().items() if "scan" in module.KINDS):
        one, two = (run("scan", SPILLS, "-f", form).stdout for _ in range(2))
        assert one == two != b""


def test_csv_has_a_row_a_kernel() -> None:
    rows = list(csv.DictReader(io.StringIO(run("scan", SPILLS, "-f", "csv").stdout.decode())))
    assert len(rows) == 24
    assert {row["registers"] for row in rows if row["short_name"] == "spill_f32"} == {"255"}


def test_selection() -> None:
    only = document("scan", SPILLS, "--arch", "sm_90a", "--kernel", "spill_f*")["kernels"]
    assert only
    assert {kernel["arch"] for kernel in only} == {"sm_90a"}
    assert all(kernel["short_name"].startswith("spill_f") for kernel in only)
    stack = b"    8 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n"
    log = (
        SPILLS.read_bytes() + b"ptxas info    : 0 bytes gmem\nptxas info    : Function properties for _Z1gPf\n" + stack
    )
    checked = run("check", "-", "--arch", "sm_90a", "--kernel", "_Z1gPf", stdin=log)
    assert (checked.returncode, b"g (arch unknown) spills" in checked.stdout) == (1, True)


@pytest.mark.parametrize("also", ["", "live", "code", "live,code"])
def test_with_reads_more_of_a_binary(also: str) -> None:
    cubin = FIXTURES / "binary" / "launches-plain-sm_80-13.0.cubin.zst"
    kernel = document("scan", cubin, *(("--with", also) if also else ()))["kernels"][0]
    read = {"live": kernel["sass"]["live_peak"], "code": kernel["sass"]["text"]}
    assert {name for name, found in read.items() if found is not None} == {*filter(None, also.split(","))}


def test_top_and_all() -> None:
    top, everything = (run("scan", SPILLS, *arguments).stdout.decode() for arguments in (("--top", "2"), ("--all",)))
    assert "… 22 more" in top
    assert "more (" not in everything
    assert everything.count("\n") > top.count("\n") + 20


def test_strict() -> None:
    log = SPILLS.read_bytes() + b"ptxas info    : never heard of this\n"
    assert run("scan", "-", stdin=log).returncode == 0
    assert run("scan", "-", "--strict", stdin=log).returncode == 2
    assert run("scan", SPILLS, "--strict").returncode == 0


# ---- check --------------------------------------------------------------------------------------------------------


def test_warnings_fail_only_on_request() -> None:
    log = FIXTURES / "ptxas" / "wgmma-13.5.log"
    words = ("check", log, "--set", "max_spill_bytes=100000")
    unsure = run(*words)
    assert unsure.returncode == 2, "some kernels lost their setmaxnreg, and it does not say which"
    assert b"'setmaxnreg' ignored" in unsure.stdout
    assert run(*words, "--accept", "unattached-setmaxnreg").returncode == 0
    assert run(*words, "--fail-on", "warning").returncode == 1


def test_check_never_passes_unknown_values(tmp_path: Path) -> None:
    # relocatable code: registers are not final
    log = tmp_path / "build.log"
    log.write_bytes(b"nvcc -dc -Xptxas -v calls.cu -o calls.o\n" + RELOCATABLE.read_bytes())
    assert run("check", log, "--set", "max_spill_bytes=999").returncode == 0
    undecided = run("check", log, "--set", "max_spill_bytes=999", "--set", "max_registers=255")
    assert undecided.returncode == 2
    assert b"not final" in undecided.stdout
    # a link log alone tells no spills
    link = FIXTURES / "nvlink" / "link-13.0.log"
    only_links = b"".join(line for line in link.read_bytes().splitlines(True) if line.startswith(b"nvlink"))
    assert run("check", "-", stdin=only_links).returncode == 2
    # a log without kernels
    assert run("check", "-", stdin=b"ptxas info    : 0 bytes gmem\n").returncode == 2
    # a log cut off in a kernel
    whole = CLEAN.read_bytes()
    assert run("check", "-", stdin=whole[: whole.rindex(b"ptxas info    : Used")]).returncode == 2
    # a log cut inside a line, between the values of two kernels
    cut = run("check", "-", stdin=whole[: whole.rindex(b"ptxas info    : Compiling entry") + 40])
    assert cut.returncode == 2
    assert b"ends inside a line" in cut.stdout


def test_spills_reported_by_warnings_alone() -> None:
    warnings = b"".join(
        line for line in (FIXTURES / "ptxas" / "warnings-13.0.log").read_bytes().splitlines(True) if b"warning" in line
    )
    assert run("check", "-", stdin=warnings).returncode == 1


def test_findings_are_json_too() -> None:
    value = document("check", SPILLS)
    assert len(value["findings"]) == 13
    assert len({finding["fingerprint"] for finding in value["findings"]}) == 13


# ---- diff ---------------------------------------------------------------------------------------------------------


def test_diff_of_a_build_with_itself_is_empty(tmp_path: Path) -> None:
    snapshot = tmp_path / "base.json"
    run("scan", SPILLS, "-f", f"json:{snapshot}")
    value = document("diff", snapshot, SPILLS, "--fail-on", "policy")
    assert value["changes"] == []


def test_diff_finds_regressions(tmp_path: Path) -> None:
    worse = SPILLS.read_text().replace(
        "0 bytes stack frame, 0 bytes spill stores, 0 bytes",
        "16 bytes stack frame, 8 bytes spill stores, 4 bytes",
        1,
    )
    (tmp_path / "head.log").write_text(worse)
    result = run("diff", SPILLS, tmp_path / "head.log", "--fail-on", "policy")
    assert result.returncode == 1
    assert "0 → 8 B (+8)" in " ".join(result.stdout.decode().split())
    assert b"\n  next   spillscan " in result.stdout
    ungated = run("diff", SPILLS, tmp_path / "head.log")
    assert ungated.returncode == 0
    assert b"\n  next   spillscan " not in ungated.stdout, "finding the next step takes time"
    assert run("diff", tmp_path / "head.log", SPILLS, "--fail-on", "policy").returncode == 0, "better is no regression"
    value = document("diff", SPILLS, tmp_path / "head.log")
    (change,) = value["changes"]
    assert change["metrics"]["spill_store_bytes"] == [0, 8]


# ---- run ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "data", "has"),
    [
        ("k.bin", (FIXTURES / "binary" / "launches-plain-sm_80-13.0.cubin.zst").read_bytes(), True),
        ("k.bin", zstd().compress(SPILLS.read_bytes())[:-200], True),
        ("k.bin", gzip.compress(SPILLS.read_bytes()), False),
        ("k.sass", (FIXTURES / "sass" / "cuobjdump-sm_80-13.5.sass.zst").read_bytes(), True),
        ("k.md", (FIXTURES / "sass" / "cuobjdump-sm_80-13.5.sass.zst").read_bytes(), False),
    ],
)
def test_unpacked_files_contain_code_or_cannot_be_read(name: str, data: bytes, has: bool, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    assert _contains_code(str(tmp_path / name)) == has


# ---- manners ------------------------------------------------------------------------------------------------------


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom spillscan.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'lark', 'msgspec', 'pandas', 'numpy', 'yaml', 'lz4'} & set(sys.modules)), file=sys.stderr)"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)
    assert result.stderr.strip() == b"[]"


@pytest.mark.parametrize(
    "words",
    [
        ["scan", str(SPILLS), "-f", "json"],
        ["scan", str(SPILLS), "-f", "html"],
        ["check", str(SPILLS)],
        ["diff", str(SPILLS), str(SPILLS)],
        ["advise", str(SPILLS)],
        ["occupancy", str(SPILLS)],
        ["size", str(FIXTURES / "binary" / "sass-sm_80-13.5.cubin.zst")],
    ],
    ids=lambda words: words[0],
)
def test_no_command_imports_pandas(words: list[str]) -> None:
    code = (
        "import sys\nfrom spillscan.cli import main\n"
        f"main({words!r})\nassert not {{'pandas', 'typing_extensions'}} & {{*sys.modules}} and 'msgspec' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)


@pytest.mark.parametrize(
    ("words", "most"), [("scan", 85), ("check", 88), ("check --set max_registers=99 --launch *=128,0", 88)]
)
def test_a_log_without_findings_needs_few_modules(words: str, most: int) -> None:
    clean = FIXTURES / "ptxas" / "plain-12.9.log"
    code = (
        f"import sys\nfrom spillscan.cli import main\nassert main({[*words.split(), str(clean)]!r}) == 0\n"
        f"own = sorted(name for name in sys.modules if name.startswith('spillscan'))\nassert len(own) <= {most}, own"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True)


def test_tables_fit_the_width() -> None:
    result = run("scan", FIXTURES / "build" / "cmake-ninja-13.0.log", env=os.environ | {"COLUMNS": "80"})
    table = result.stdout.decode().split("\n\n")[0]
    assert all(len(line) <= 80 for line in table.splitlines())


def test_python_api() -> None:
    import spillscan

    build = spillscan.scan([SPILLS])
    assert build.kernels == scan(SPILLS).kernels
    frame = build.to_pandas()
    assert len(frame) == 24
    assert frame["spill_store_bytes"].sum() == sum(k.usage.spill_store_bytes or 0 for k in build.kernels)
    assert frame["local_bytes"].isna().all(), "absent is not zero"
    assert spillscan.diff(build, build) == []


def test_a_folder_and_a_file_are_not_the_same(tmp_path: Path) -> None:
    for name in ("old", "new", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.log").write_text(name.replace("new", "old"))
    assert _same(tmp_path / "old", tmp_path / "new")
    assert not _same(tmp_path / "old", tmp_path / "other")
    assert not _same(tmp_path / "old", tmp_path / "old" / "a.log")
