"""Disassembly joined to logs, through the command: the same kernels, more columns, contradictions reported."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from spillscan import scan
from tests.conforming import conforms
from tests.conftest import FIXTURES, read_text, run

SASS = FIXTURES / "sass"
LOG = SASS / "ptxas-13.5.log"
DUMPS = sorted(SASS.glob("cuobjdump-*-13.5.sass*"))


@pytest.mark.parametrize("dump", DUMPS, ids=lambda path: path.name)
def test_spill_bytes_of_code_and_log_agree(dump: Path) -> None:
    build = scan([LOG, dump])
    joined = [kernel for kernel in build.kernels if kernel.sass is not None]
    assert len(joined) >= 6
    for kernel in joined:
        assert kernel.sass is not None
        spill = kernel.sass.local.own.spill
        if kernel.role == "entry":
            reported = (kernel.usage.spill_store_bytes, kernel.usage.spill_load_bytes)
            assert reported == (spill.store_bytes, spill.load_bytes), kernel.key
    assert not [issue for issue in build.issues if issue.code.endswith("mismatch")]


def test_json_has_the_codes_values() -> None:
    result = run("scan", LOG, DUMPS[0], "-f", "json")
    value = json.loads(result.stdout)
    conforms(value)
    found = [kernel["sass"] for kernel in value["kernels"] if kernel["sass"]]
    assert found
    for sass in found:
        by_depth = sum(
            sum(row[kind] for kind in ("spill", "array", "frame", "unknown")) for row in sass["by_loop_depth"]
        )
        assert by_depth == sass["stl_count"] + sass["ldl_count"]
        assert sum(sass["opcode_classes"].values()) == sass["instructions"]


def test_disassembly_alone_is_checked_by_its_code() -> None:
    result = run("check", DUMPS[0])
    assert result.returncode == 1
    assert b"spill-in-loop" in result.stdout
    assert b"local-array" in result.stdout
    assert run("check", DUMPS[0], "--kernel", "plain").returncode == 0


def test_a_log_that_disagrees_is_reported(tmp_path: Path) -> None:
    log = tmp_path / "other.log"
    log.write_text(read_text(LOG).replace("120 bytes spill stores", "116 bytes spill stores"))
    dump = next(path for path in DUMPS if "sm_90a" in path.name)
    result = run("check", log, dump, "--arch", "sm_90a")
    assert b"spill-mismatch" in result.stdout + result.stderr


@pytest.mark.parametrize("form", ["nvdisasm-c-sm_90a-13.5.sass", "res-usage-sm_90a-13.5.txt"])
def test_other_forms_join_too(form: str) -> None:
    build = scan([LOG, SASS / form])
    spills = [kernel for kernel in build.kernels if kernel.key.arch == "sm_90a" and kernel.key.symbol == "spills"]
    assert len(spills) == 1
    assert len(spills[0].origins) == 2


def test_a_pipe_and_gzip_read_the_same(tmp_path: Path) -> None:
    text = read_text(DUMPS[0]).encode()
    (tmp_path / "dump.sass.gz").write_bytes(gzip.compress(text))
    piped, packed = run("scan", "-", stdin=text), run("scan", tmp_path / "dump.sass.gz")
    assert piped.returncode == packed.returncode == 0
    assert piped.stdout.replace(b"-", b"") == packed.stdout.replace(b"-", b"")


def test_disassembly_without_functions_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.sass"
    path.write_text("\n\tcode for sm_80\n")
    for command in ("scan", "check"):
        result = run(command, path)
        assert result.returncode == 2
        assert b"Traceback" not in result.stderr


def test_truncated_disassembly_is_not_clean(tmp_path: Path) -> None:
    text = read_text(DUMPS[0])
    path = tmp_path / "cut.sass"
    path.write_text(text[: text.rindex("Function : ") + 2000])
    assert run("check", path, "--set", "max_spill_bytes=100000").returncode == 2


def test_impossible_lines_are_refused_not_miscounted(tmp_path: Path) -> None:
    older = tmp_path / "older.sass"
    older.write_text(read_text(DUMPS[0]).replace("code for sm_100a", "code for sm_30"))
    for command in (["scan"], ["check"], ["check", "--set", "max_spill_bytes=100000", LOG], ["show", "spills"]):
        result = run(*command, older)
        assert result.returncode == 2, command
        assert b"machine code of sm_30 is not supported" in result.stdout + result.stderr


def test_spills_to_shared_memory_are_reported() -> None:
    dump = next(SASS.glob("smem-spill-*"))
    result = run("check", dump, "--set", "max_spill_bytes=100000")
    assert b"smem_spill_64 (sm_100)" in result.stdout
    assert b"[shared-spill]" in result.stdout
    assert b"smem_spill_off (sm_100): 0" not in result.stdout
    assert sum(b"[shared-spill]" in line and b"smem_spill_off" in line for line in result.stdout.splitlines()) == 0


def test_spills_that_may_have_moved_to_shared_memory(tmp_path: Path) -> None:
    log = read_text(LOG)
    moved = re.sub(r"[1-9]\d* bytes spill", "0 bytes spill", log)
    moved = moved.replace("used 0 barriers,", "used 0 barriers, 4096 bytes smem,")
    (tmp_path / "moved.log").write_text(moved)
    result = run("diff", LOG, tmp_path / "moved.log", "-f", "json")
    messages = [each["message"] for each in json.loads(result.stdout)["findings"]]
    assert any("may have moved" in message and "shared 0 → 4,096 B (+4,096)" in message for message in messages)


def test_crlf_is_read(tmp_path: Path) -> None:
    text = read_text(DUMPS[0])
    (tmp_path / "windows.sass").write_bytes(text.replace("\n", "\r\n").encode())
    assert (
        run("check", tmp_path / "windows.sass").stdout.count(b"[spill]")
        == run("check", DUMPS[0]).stdout.count(b"[spill]")
        > 0
    )


def test_log_and_disassembly_in_one_file_are_not_half_read(tmp_path: Path) -> None:
    log, dump = read_text(LOG), read_text(DUMPS[0])
    for text in (log + dump, dump + log):
        (tmp_path / "both.log").write_text(text)
        result = run("check", tmp_path / "both.log", "--set", "max_spill_bytes=100000")
        assert result.returncode == 2
        assert b"as two files" in result.stdout
