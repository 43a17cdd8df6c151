"""Launch of a kernel by the command line, by its sidecar and by its bounds, one fact per row."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from spillscan.model import Kernel, KernelKey, Launch, LaunchBounds, Usage
from spillscan.occupancy.launches import of_bounds, parse_launch, settled
from spillscan.output.errors import UsageError

KERNEL = Kernel(key=KernelKey(symbol="k", arch="sm_90", unit=""), role="entry", usage=Usage(registers=32))
BESIDE = Launch(threads_per_block=128, dynamic_shared_bytes=1000, max_dynamic_shared_bytes=1000, source="sidecar")
BOUNDS = LaunchBounds(max_threads=256)
SAID = Launch(threads_per_block=64, dynamic_shared_bytes=None, source="policy")
SAID_ALL = replace(SAID, dynamic_shared_bytes=7)
OVERRIDE = replace(SAID, source="override")


@pytest.mark.parametrize(
    ("kernel", "said", "threads", "dynamic", "source"),
    [
        (KERNEL, None, None, None, None),
        (replace(KERNEL, launch_bounds=BOUNDS), None, 256, None, "bounds"),
        (replace(KERNEL, launch_bounds=BOUNDS, dynamic_shared=True), None, 256, None, "bounds"),
        (replace(KERNEL, launch_bounds=BOUNDS, dynamic_shared=False), None, 256, 0, "bounds"),
        (replace(KERNEL, launch=BESIDE, launch_bounds=BOUNDS), None, 128, 1000, "sidecar"),
        (replace(KERNEL, launch=BESIDE), SAID, 128, 1000, "sidecar"),
        (replace(KERNEL, launch=BESIDE), SAID_ALL, 128, 7, "sidecar"),
        (replace(KERNEL, launch=BESIDE), OVERRIDE, 64, 1000, "override"),
        (replace(KERNEL, launch_bounds=BOUNDS), OVERRIDE, 64, 0, "override"),
        (replace(KERNEL, launch_bounds=BOUNDS), replace(SAID, threads_per_block=256), 256, 0, "policy"),
        (replace(KERNEL, launch_bounds=LaunchBounds(cluster_blocks=2)), SAID, 64, 0, "policy"),
        (KERNEL, SAID, 64, 0, "policy"),
        (replace(KERNEL, dynamic_shared=True), SAID, 64, None, "policy"),
        (replace(KERNEL, dynamic_shared=False), SAID, 64, 0, "policy"),
        (replace(KERNEL, launch_bounds=BOUNDS), SAID_ALL, 64, 7, "policy"),
    ],
)
def test_sources_of_launches(
    kernel: Kernel, said: Launch | None, threads: int | None, dynamic: int | None, source: str | None
) -> None:
    found = settled(kernel, said)
    if threads is None:
        assert found is None
    else:
        assert found is not None
        assert (found.threads_per_block, found.dynamic_shared_bytes, found.source) == (threads, dynamic, source)


@pytest.mark.parametrize(
    ("bounds", "threads", "cluster", "source"),
    [
        (LaunchBounds(max_threads=None), None, None, None),
        (LaunchBounds(max_threads=256), 256, 1, "bounds"),
        (LaunchBounds(max_threads=256, cluster_blocks=4), 256, 4, "bounds"),
        (LaunchBounds(max_threads=256, required_threads=256), 256, 1, "required"),
        (LaunchBounds(required_threads=4096), 4096, 1, "required"),
    ],
)
def test_bounds_promise(bounds: LaunchBounds, threads: int | None, cluster: int | None, source: str | None) -> None:
    found = of_bounds(replace(KERNEL, launch_bounds=bounds))
    assert (found and (found.threads_per_block, found.cluster_blocks, found.source)) == (
        None if threads is None else (threads, cluster, source)
    )


@pytest.mark.parametrize(
    ("text", "pattern", "threads", "dynamic", "source"),
    [
        ("k=1", "k", 1, None, "policy"),
        ("k=1024", "k", 1024, None, "policy"),
        ("k=256,0", "k", 256, 0, "policy"),
        ("k=256,49152", "k", 256, 49152, "policy"),
        ("k=256,override", "k", 256, None, "override"),
        ("k=256,49152,override", "k", 256, 49152, "override"),
        ("a=b*=32", "a=b*", 32, None, "policy"),
    ],
)
def test_launches_on_the_command_line(text: str, pattern: str, threads: int, dynamic: int | None, source: str) -> None:
    called, found = parse_launch(text)
    assert (called, found.threads_per_block, found.dynamic_shared_bytes, found.source) == (
        pattern, threads, dynamic, source,
    )  # fmt: skip


@pytest.mark.parametrize("text", ["", "k", "256", "=256", "k=", "k=x", "k=256,x", "k=0", "k=1025", "k=-1"])
def test_invalid_launches(text: str) -> None:
    with pytest.raises(UsageError):
        parse_launch(text)


@pytest.mark.parametrize(
    ("said", "depth", "source"),
    [
        (None, 128, "required"),
        (Launch(threads_per_block=128, source="policy"), 128, "required"),
        (Launch(threads_per_block=64, source="policy"), 128, "required"),
        (Launch(threads_per_block=64, source="override"), 1, "override"),
    ],
)
def test_a_required_block_keeps_its_depth(said: Launch | None, depth: int, source: str) -> None:
    deep = replace(KERNEL, launch_bounds=LaunchBounds(required_threads=128, required_depth=128))
    found = settled(deep, said)
    assert found is not None
    assert (found.depth, found.source) == (depth, source)
