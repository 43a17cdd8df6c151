"""Launches of Nsight Systems, of plain tables, of caches and binaries, as a launch map."""

from __future__ import annotations

import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import pytest
import yaml

from tests.conftest import FIXTURES, run
from tests.reading.binary.support import stored

TRACE = """Processing [report.sqlite] with [nsight-systems/target-linux-x64/reports/cuda_gpu_trace.py]...\x20

Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),Throughput \
(MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,Name
10,20,0,8,1,1,16,16,1,32,0.000,0.000,,,,,NVIDIA H200 (0),0,,0,"add(int *, int)"
40,20,2,8,1,1,128,1,1,168,0.000,0.066,,,,,NVIDIA H200 (0),0,,0,gemm
70,20,3,,,,,,,,,,1.5,,,,NVIDIA H200 (0),0,,0,[CUDA memcpy HtoD]
"""
"""What ``nsys stats -r cuda_gpu_trace -f csv`` of Nsight Systems 2023.4.4 prints of a database."""


def launches(*arguments: str | Path) -> tuple[dict[str, dict[str, int]], str]:
    """(launch by pattern, the whole text) of a launch map."""
    done = run("profile", "--launches", *arguments)
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode()
    return {entry["match"]: entry["launch"] for entry in yaml.safe_load(text)["kernels"]}, text


def export(path: Path, *, named: str = "demangledName") -> Path:
    """An export in the form of NVIDIA's schema: kernels, and the texts that they number."""
    with closing(sqlite3.connect(path)) as base:
        base.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT NOT NULL)")
        base.execute(
            f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, {named} INTEGER, blockX INTEGER,"
            " blockY INTEGER, blockZ INTEGER, staticSharedMemory INTEGER, dynamicSharedMemory INTEGER,"
            " registersPerThread INTEGER)"
        )
        base.executemany("INSERT INTO StringIds VALUES (?, ?)", [(1, "gemm"), (2, "add(int *, int)")])
        base.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (10, 30, 1, 128, 2, 1, 0, 65536, 80),
                (40, 50, 1, 128, 2, 1, 0, 65536, 80),
                (60, 70, 2, 64, 1, 1, 0, 0, 16),
            ],
        )
        base.commit()
    return path


@pytest.mark.parametrize("named", ["demangledName", "mangledName", "shortName"])
def test_an_export_of_nsight_systems_has_exact_launches(named: str, tmp_path: Path) -> None:
    found, text = launches(export(tmp_path / "report.sqlite", named=named))
    assert found == {
        "gemm": {"threads_per_block": 256, "dynamic_shared_bytes": 65536},
        "add": {"threads_per_block": 64, "dynamic_shared_bytes": 0},
    }
    assert "# 2 launches" in text


def test_a_trace_of_nsight_systems_rounds_shared_memory(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(TRACE)
    found, text = launches(path)
    assert found == {"add": {"threads_per_block": 256}}  # 0.000 MB are 0 to 499 B
    assert "# left out: gemm: its dynamic shared memory is printed rounded" in text
    exact = TRACE.partition("\n\n")[2].replace("DymSMem (MB)", "DymSMem:mem_B").replace("0.066", "65536")
    path.write_text(exact.replace("0.000,0.000", "0,0"))
    assert launches(path)[0] == {
        "add": {"threads_per_block": 256, "dynamic_shared_bytes": 0},
        "gemm": {"threads_per_block": 128, "dynamic_shared_bytes": 65536},
    }


def test_a_plain_table_is_a_launch_map(tmp_path: Path) -> None:
    path = tmp_path / "launches.csv"
    path.write_text('kernel,block,dynamic,cluster\ngemm,16x16,49152,2\nadd,"(32,4,1)",0,\nmore,64,,\n')
    found, text = launches(path)
    assert found == {
        "gemm": {"threads_per_block": 256, "dynamic_shared_bytes": 49152, "cluster_blocks": 2},
        "add": {"threads_per_block": 128, "dynamic_shared_bytes": 0},
    }
    assert "# left out: more" in text


@pytest.mark.parametrize(
    "text",
    [
        "kernel,block\ngemm,0\n",
        "kernel,block\ngemm,many\n",
        "kernel,block\n,32\n",
        "kernel,block,dynamic\ngemm,32,-1\n",
    ],
)
def test_a_row_that_is_no_launch_is_refused_with_its_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "launches.csv"
    path.write_text(text)
    done = run("profile", "--launches", path)
    assert done.returncode == 2
    assert f"{path}:2: this row is not a launch".encode() in done.stderr


def test_a_damaged_or_foreign_database_is_refused(tmp_path: Path) -> None:
    whole = export(tmp_path / "whole.sqlite").read_bytes()
    cut, foreign = tmp_path / "cut.sqlite", tmp_path / "foreign.sqlite"
    cut.write_bytes(whole[:5000])
    with closing(sqlite3.connect(foreign)) as base:
        base.execute("CREATE TABLE other (x)")
    for path in (cut, foreign):
        done = run("profile", "--launches", path)
        assert done.returncode == 2
        assert b"holds no launches of Nsight Systems" in done.stderr


def test_a_cache_and_a_binary_need_no_profile(tmp_path: Path) -> None:
    with tarfile.open(FIXTURES / "caches" / "triton-3.9.0.tar.xz") as archive:
        archive.extractall(tmp_path / "cache")
    found, text = launches(tmp_path / "cache")
    assert found == {
        "add": {"threads_per_block": 128, "dynamic_shared_bytes": 0},
        "softmax": {"threads_per_block": 256, "dynamic_shared_bytes": 32},
    }
    assert "# left out: mm: 3 kernels of that name are launched in different ways" in text
    binary = tmp_path / "launches.cubin"
    binary.write_bytes(stored("launches-sm_90-13.0.cubin"))
    found, text = launches(binary)
    assert found == {
        "bounded": {"threads_per_block": 256, "dynamic_shared_bytes": 0},
        "clustered": {"threads_per_block": 128, "dynamic_shared_bytes": 0, "cluster_blocks": 4},
    }
    assert "# left out: bounded_dynamic: its dynamic shared memory is not known; 256 threads" in text
