"""Resource listings of functions: one fact per row. Typed by hand."""

from __future__ import annotations

import pytest

from spillscan.model import Issue
from spillscan.model.code import FunctionUsage
from spillscan.reading.disassembly.res_usage import ResourceUsage

BEGIN = "\nResource usage:\n Common:\n  GLOBAL:0\n"
WHOLE = "REG:20 STACK:0 SHARED:1280 LOCAL:0 CONSTANT[0]:904 TEXTURE:0 SURFACE:0 SAMPLER:0"


def read(*lines: str, arch: str = "sm_80") -> tuple[list[FunctionUsage], list[Issue]]:
    image = f"\nFatbin elf code:\n================\narch = {arch}\ncode version = [1,7]\nhost = linux\n"
    items = list(ResourceUsage([(image + BEGIN + "".join(f"{line}\n" for line in lines)).encode()], "listing"))
    return (
        [each for each in items if isinstance(each, FunctionUsage)],
        [each for each in items if isinstance(each, Issue)],
    )


@pytest.mark.parametrize(
    ("arch", "said", "shared"),
    [
        ("sm_80", 1280, 1280),
        ("sm_89", 1280, 1280),
        ("sm_90", 1280, 256),
        ("sm_90a", 1280, 256),
        ("sm_120", 1024, 0),
        ("sm_90", 1023, 1023),
        ("sm_100f", 0, 0),
    ],
)
def test_the_drivers_reserve_is_not_the_kernels(arch: str, said: int, shared: int) -> None:
    ((found,), issues) = read(" Function k:", "  " + WHOLE.replace("1280", str(said)), arch=arch)
    assert not issues
    assert (found.arch, found.usage.shared_bytes) == (arch, shared)


@pytest.mark.parametrize(("other", "shared"), [(64, 2048), (1024, 1024), (0, 1024)])
def test_relocatable_kernels_have_no_reserve(other: int, shared: int) -> None:
    """Less than the reserve proves it; a linked kernel without shared memory may have 0 (ptxas 12.3)."""
    figures = [WHOLE.replace("1280", str(value)) for value in (2048, other)]
    (found, *_), _ = read(" Function k:", f"  {figures[0]}", " Function l:", f"  {figures[1]}", arch="sm_90")
    assert found.usage.shared_bytes == shared


def test_values() -> None:
    line = "REG:24 STACK:48 SHARED:0 LOCAL:8 CONSTANT[2]:16 CONSTANT[0]:364 TEXTURE:1 SURFACE:2 SAMPLER:3"
    ((found,), issues) = read(" Function a b:", f"  {line}")
    usage = found.usage
    assert not issues
    assert (found.symbol, usage.registers, usage.stack_bytes, usage.cumulative_stack_bytes) == ("a b", 24, None, 48)
    assert (usage.local_bytes, usage.constant_bytes) == (8, ((0, 364), (2, 16)))
    assert (usage.textures, usage.surfaces, usage.samplers, found.dynamic_stack) == (1, 2, 3, False)


@pytest.mark.parametrize(
    ("stack", "own", "tree", "dynamic"), [("0", 0, 0, False), ("8", None, 8, False), ("UNKNOWN", None, None, True)]
)
def test_the_stack_is_that_of_the_call_tree(stack: str, own: int | None, tree: int | None, dynamic: bool) -> None:
    ((found,), _) = read(" Function k:", "  " + WHOLE.replace("STACK:0", f"STACK:{stack}"))
    assert (found.usage.stack_bytes, found.usage.cumulative_stack_bytes, found.dynamic_stack) == (own, tree, dynamic)


@pytest.mark.parametrize(
    ("figures", "damaged", "why"),
    [
        (WHOLE, False, "all there"),
        (WHOLE.replace("CONSTANT[0]:904 ", ""), False, "banks may be none"),
        (WHOLE.replace("CONSTANT[0]:904", "CONSTANT[0]:904 CONSTANT[3]:8"), False, "or several"),
        (WHOLE.replace("CONSTANT[0]:904", "CONSTANT[0]:904 CONSTANT[0]:8"), True, "but each once"),
        (WHOLE.replace("LOCAL:0 ", ""), True, "a figure that all have is gone"),
        (WHOLE + " REG:20", True, "one is there twice"),
        (WHOLE.replace("REG:20", "REG:"), True, "a number is gone"),
        (WHOLE + " NEW:4", False, "a later release may print more"),
        (WHOLE.replace("TURE:0 SUR", ""), True, "text between two names is lost"),
        (WHOLE + " SHARED[1]:0", True, "only constants have banks"),
        (WHOLE.replace("CONSTANT[0]", "CONSTANT"), True, "and all have"),
    ],
)
def test_damaged_values(figures: str, damaged: bool, why: str) -> None:
    found, issues = read(" Function k:", f"  {figures}")
    assert len(found) == 1
    assert bool(issues) is damaged, why


@pytest.mark.parametrize(
    ("lines", "functions", "said"),
    [
        ([f"  {WHOLE}"], 1, [f"values without a kernel name: '{WHOLE}'"]),
        ([" Function k:", " Function l:", f"  {WHOLE}"], 1, ["the values of k are missing"]),
        ([" Function k:"], 0, ["the values of k are missing"]),
        ([" Function k:", f"  {WHOLE}", " Function l:", f"  {WHOLE}"], 2, []),
    ],
)
def test_names_and_values_alternate(lines: list[str], functions: int, said: list[str]) -> None:
    found, issues = read(*lines)
    assert len(found) == functions
    assert [issue.message for issue in issues] == said


@pytest.mark.parametrize(("said", "shared"), [(3072, None), (1024, None), (1023, 1023), (0, 0)])
def test_of_an_unknown_arch_the_drivers_share_is_unknown(said: int, shared: int | None) -> None:
    listing = f"{BEGIN} Function k:\n  {WHOLE.replace('1280', str(said))}\n"
    (found,) = (each for each in ResourceUsage([listing.encode()], "listing") if isinstance(each, FunctionUsage))
    assert (found.arch, found.usage.shared_bytes) == (None, shared)
