"""Launches of Nsight Systems, of plain tables, of caches and binaries, as a launch map."""

from __future__ import annotations

import tarfile
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
