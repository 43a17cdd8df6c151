"""Output of `spillscan occupancy` and of its device table, as stored in `golden.txt`: each limit, and both sides of its
steps. `python -m tests.occupancy.test_golden` rewrites it: read its diff.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from spillscan.cli import main

GOLDEN = Path(__file__).with_name("golden.txt")
MARK = "$ spillscan "

ASKED = (
    # what binds, and what else would: warps, registers, shared memory, block slots, barriers, all of them, none
    "occupancy sm_90 --threads 1024 --registers 32",
    "occupancy sm_90 --threads 1024 --registers 65",
    "occupancy sm_90 --threads 640 --registers 32",
    "occupancy sm_90 --threads 2048 --registers 32",
    "occupancy sm_90 --threads 1 --registers 0",
    "occupancy sm_90 --threads 32 --registers 255",
    "occupancy sm_90 --threads 64 --registers 32 --set barriers=4",
    "occupancy sm_90 --threads 128 --registers 32 --shared 49152",
    "occupancy sm_90 --threads 128 --registers 32 --shared 49153",
    "occupancy sm_90 --threads 128 --registers 32 --dynamic-shared 232448 --set max_dynamic_shared_bytes=max",
    "occupancy sm_90 --threads 128 --registers 32 --dynamic-shared 65536",
    "occupancy sm_80 --threads 128 --registers 40 --shared 8191 --set carveout_percent=50",
    "occupancy sm_80 --threads 128 --registers 40 --shared 1 --set carveout_percent=0",
    "occupancy sm_80 --threads 256 --registers 64 --shared 16384 --set min_blocks_per_sm=3",
    "occupancy sm_80 --threads 256 --registers 64 --set min_blocks_per_sm=40",
    "occupancy sm_61 --threads 256 --registers 40 --set global_caching=on",
    "occupancy sm_61 --threads 1024 --registers 40 --set global_caching=strict",
    "occupancy sm_35 --threads 256 --registers 40 --shared 20000 --set cache_preference=l1",
    "occupancy sm_35 --threads 256 --registers 40 --shared 20000 --set cache_preference=equal",
    "occupancy sm_30 --threads 256 --registers 63",
    # clusters and the stack
    *(f"occupancy H200 --threads 256 --registers 64 --set cluster_blocks={size}" for size in (1, 2, 3, 8, 9, 16)),
    "occupancy sm_90 --threads 256 --registers 64 --set cluster_blocks=2",
    "occupancy sm_90 --threads 256 --registers 64 --set stack_bytes=1024",
    "occupancy sm_90 --threads 256 --registers 64 --set stack_bytes=1025",
    "occupancy sm_107 --threads 256 --registers 64 --set stack_bytes=4312",
    # register limits of launch bounds, and what others take for granted
    *(
        f"occupancy {arch} --launch-bounds {bounds}"
        for arch in ("sm_60", "sm_75", "sm_90")
        for bounds in ("1", "128", "256,4", "256,8", "1000,2", "1024,1", "1024,3", "32,32", "32,33")
    ),
    *(f"explain devices {arch}" for arch in ("sm_35", "sm_61", "H200", "sm_107")),
)
ARCHS = "sm_30 sm_35 sm_37 sm_50 sm_52 sm_53 sm_60 sm_61 sm_70 sm_75 sm_80 sm_86 sm_87 sm_89 sm_90 sm_100 sm_103 sm_120"


def drawn() -> Iterator[str]:
    """Configurations, by a seed."""
    for arch in ARCHS.split():
        chance = Random(arch)
        for _ in range(2):
            threads, registers = chance.choice((96, 128, 256, 384, 512, 1024)), chance.randrange(16, 200)
            shared = chance.choice((0, 0, 1000, 12288, 40000))
            yield f"occupancy {arch} --threads {threads} --registers {registers} --shared {shared}"


def printed(words: str) -> str:
    """Output of a command, with its status unless it is 0."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(words.split())
    return out.getvalue() + err.getvalue() + (f"[{status}]\n" if status else "")


def every() -> list[str]:
    """All commands of the file."""
    return [*ASKED, *drawn()]


@pytest.fixture(scope="module")
def golden() -> dict[str, str]:
    parts = GOLDEN.read_text(encoding="utf-8").split(MARK)[1:]
    return dict(part.split("\n", 1) for part in parts)


def test_the_file_has_all_commands(golden: dict[str, str]) -> None:
    assert list(golden) == every()


@pytest.mark.parametrize("words", every())
def test_printed_as_in_the_file(words: str, golden: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert printed(words) == golden[words]


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "100")
        text = "".join(f"{MARK}{words}\n{printed(words)}" for words in every())
    GOLDEN.write_text(text, encoding="utf-8")
