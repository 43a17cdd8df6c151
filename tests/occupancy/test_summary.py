"""A kernel of a log: assumed where the launch is not known, true where it is; and the words of the report."""

from __future__ import annotations

import pytest

from spillscan.model import Usage
from spillscan.occupancy import Launch, occupancy
from spillscan.occupancy.data import summary_data
from spillscan.occupancy.model import findings, verdict
from spillscan.occupancy.summary import summarise
from spillscan.occupancy.text import report
from spillscan.output.errors import UsageError

GEMM = Usage(registers=168, shared_bytes=32768, stack_bytes=0, barriers=1)


def test_an_unknown_launch_is_marked_as_assumed():
    found = summarise(GEMM, "sm_90a")
    assert found.assumed
    assert [threads for threads, _ in found.at_threads] == [128, 256, 512]
    assert [one.resident_blocks for _, one in found.at_threads] == [3, 1, 0]
    assert found.occupancy.configuration.threads_per_block == 384
    assert found.cells == {"blocks": "", "warps": "≤12", "occupancy": "≤18.75%", "limiter": "registers"}
    assert found.line == (
        "at most 18.75% occupancy, launch unknown; without dynamic shared memory: "
        "18.75% at 128 threads, 12.5% at 256 threads, 0% at 512 threads"
    )
    assert found.findings == ()


def test_a_known_launch_is_exact():
    found = summarise(GEMM, "sm_90", Launch(threads_per_block=128, source="policy"))
    assert not found.assumed
    assert found.at_threads == ()
    assert found.cells == {"blocks": "3", "warps": "12", "occupancy": "18.75%", "limiter": "registers"}
    assert found.line == "3 blocks/SM, 12 of 64 warps (18.75%), limited by registers"
    assert [name for name, _ in found.findings] == ["registers"]


def test_a_block_size_from_launch_bounds_is_marked():
    launch = Launch(threads_per_block=128, source="bounds")
    found = summarise(GEMM, "sm_90", launch)
    assert found.launch is launch
    assert found.line.endswith("limited by registers (block size from its launch bounds)")
    assert summarise(GEMM, "sm_90", Launch(threads_per_block=128, source="assumed")).assumed


def test_as_data():
    open_launch = summary_data(summarise(GEMM, "sm_90"))
    assert open_launch["assumed"]
    assert open_launch["resident_blocks"] is None
    assert open_launch["occupancy"] == 0.1875
    assert open_launch["at_threads"] == {"128": 0.1875, "256": 0.125, "512": 0.0}
    known = summary_data(summarise(GEMM, "sm_90", Launch(threads_per_block=128, source="policy")))
    assert (known["resident_blocks"], known["launch_source"], known["at_threads"]) == (3, "policy", {})
    assert summary_data(summarise(Usage(), "sm_90"))["unknown"] == "no registers in the input"


def test_clusters_of_a_launch():
    found = summarise(GEMM, "H200", Launch(threads_per_block=128, cluster_blocks=2))
    assert (found.clusters.active, found.clusters.exact) == (3 * 132 // 2, True)
    with pytest.raises(UsageError):
        summarise(GEMM, "sm_80", Launch(threads_per_block=128, cluster_blocks=2))


def test_a_launch_that_fails():
    for threads in (512, 2048):  # .reqntid may ask for more threads than a block can have
        found = summarise(GEMM, "sm_90", Launch(threads_per_block=threads))
        assert found.cells["limiter"] == "cannot launch"
        assert found.line.startswith("cannot launch: ")


def test_a_launch_that_is_impossible_is_the_users_mistake():
    with pytest.raises(UsageError):
        summarise(GEMM, "sm_90", Launch(threads_per_block=512, carveout_percent=101))


@pytest.mark.parametrize(
    ("usage", "arch", "says"),
    [
        (Usage(), "sm_90", "no registers in the input"),
        (GEMM, None, "the input names no arch"),
        (GEMM, "sm_99", "unknown compute capability 9.9 (sm_99)"),
        (Usage(registers=400), "sm_90", "400 registers"),
    ],
)
def test_unknown_log_values_give_a_summary(usage, arch, says):
    found = summarise(usage, arch)
    assert found.occupancy is None
    assert found.unknown == says
    assert found.line == f"occupancy unknown: {says}"
    assert set(found.cells.values()) == {""}
    assert found.limiters == found.findings == ()


def test_an_assumed_barrier_count_is_no_limiter():
    usage = Usage(registers=16)
    found = summarise(usage, "sm_120", Launch(threads_per_block=32))
    assert "barriers" in found.occupancy.limiters
    assert found.limiters == ("blocks",)
    known = summarise(Usage(registers=16, barriers=1), "sm_120", Launch(threads_per_block=32))
    assert known.limiters == ("blocks", "barriers")


def test_local_memory():
    found = summarise(Usage(registers=64, stack_bytes=4312), "sm_90")
    assert found.local_memory.total_bytes == 4312 * 2048 * 132
    least = summarise(Usage(registers=64, stack_bytes=100), "sm_90")
    assert least.local_memory.total_bytes == 1024 * 2048 * 132
    deep = summarise(Usage(registers=64, stack_bytes=8, cumulative_stack_bytes=4312), "H200")
    assert (deep.local_memory.stack_bytes, deep.local_memory.gpu) == (4312, "H200")
    assert summarise(Usage(registers=64, stack_bytes=0), "sm_90").local_memory is None
    assert summarise(Usage(registers=None, stack_bytes=4312), "sm_90").local_memory is not None


@pytest.mark.parametrize(
    ("values", "limiter", "finding"),
    [
        ({"registers": 41}, "registers", "12,288 per block (41 per thread) of 65,536 per SM"),
        (
            {"registers": 16, "static_shared_bytes": 40000},
            "shared_memory",
            "41,088 B per block (including the driver's share)",
        ),
        ({"registers": 16, "threads_per_block": 32}, "blocks", "all 32 block slots are in use, with 1 warp each"),
        ({"registers": 16, "threads_per_block": 64, "barriers": 16}, "barriers", "16 named barriers per block of 64"),
        ({"registers": 16, "threads_per_block": 704}, "warps", "blocks of 22 warps leave 20 of 64 slots empty"),
    ],
)
def test_limiters_have_their_values(values, limiter, finding):
    found = occupancy("sm_90", **({"threads_per_block": 256} | values))
    assert dict(findings(found))[limiter].startswith(finding)
    assert finding in "\n".join(report(found))


def test_verdicts_are_modest():
    low = occupancy("sm_90", registers=200, threads_per_block=128)
    assert "about 25%" in verdict(low)
    assert "may already be optimal" in verdict(low)
    assert "only if" in verdict(occupancy("sm_90", registers=64, threads_per_block=128))
    assert "cannot increase" in verdict(occupancy("sm_90", registers=32, threads_per_block=128))
    assert "fails" in verdict(occupancy("sm_90", registers=255, threads_per_block=1024))
