"""A truth table, made by hand: what becomes of a kernel's figures where the linker reports it, too."""

from __future__ import annotations

from typing import Any

import pytest

from spillscan.model import Kernel, KernelKey, LinkRecord, Origin, Usage
from spillscan.reading.join import merge_links

LOG, LINK = Origin(input="build.log", line=1), Origin(input="build.log", line=9, format="nvlink")
COMPILED = Usage(registers=24, stack_bytes=8, spill_store_bytes=1, spill_load_bytes=2, barriers=0)


def compiled(arch: str | None, role: Any = "entry") -> Kernel:
    return Kernel(key=KernelKey(symbol="k", arch=arch), role=role, usage=COMPILED, final=False, origins=(LOG,))


def linked(registers: int, arch: str | None = None, symbol: str = "k") -> LinkRecord:
    return LinkRecord(symbol, arch, Usage(registers=registers, stack_bytes=40, local_bytes=0, barriers=1), LINK)


NO_ARCH = "the linker names no arch; {} sets of final values are possible"
SEVERAL = "several links disagree; {} sets of final values are possible"

TABLE: dict[str, tuple[list[Kernel], list[LinkRecord], list[tuple[Any, ...]]]] = {
    "nothing linked": ([compiled("sm_80")], [], [("k", "sm_80", 24, 8, None, (1, 2), 0, False, ())]),
    "another is linked": (
        [compiled("sm_80")],
        [linked(254, symbol="l")],
        [("k", "sm_80", 24, 8, None, (1, 2), 0, False, ()), ("l", None, 254, None, 40, None, 1, True, ())],
    ),
    "linked: the linker has the last word, the stack is the call tree's": (
        [compiled("sm_80")],
        [linked(254)],
        [("k", "sm_80", 254, 8, 40, (1, 2), 1, True, ())],
    ),
    "a device function is no kernel": (
        [compiled("sm_80", "function")],
        [linked(254)],
        [("k", "sm_80", 24, 8, None, (1, 2), 0, False, ()), ("k", None, 254, None, 40, None, 1, True, ())],
    ),
    "the arch of a device function of that name does not count": (
        [compiled("sm_90", "function"), compiled("sm_80")],
        [linked(254)],
        [("k", "sm_90", 24, 8, None, (1, 2), 0, False, ()), ("k", "sm_80", 254, 8, 40, (1, 2), 1, True, ())],
    ),
    "each arch by its name": (
        [compiled("sm_80"), compiled("sm_90")],
        [linked(254, "sm_80"), linked(100, "sm_90")],
        [("k", "sm_80", 254, 8, 40, (1, 2), 1, True, ()), ("k", "sm_90", 100, 8, 40, (1, 2), 1, True, ())],
    ),
    "another arch's is not taken": (
        [compiled("sm_80")],
        [linked(254, "sm_90")],
        [("k", "sm_80", 24, 8, None, (1, 2), 0, False, ())],
    ),
    "two archs, no arch named, differently: what both agree on": (
        [compiled("sm_80"), compiled("sm_90")],
        [linked(254), linked(100)],
        [
            ("k", "sm_80", None, 8, 40, (1, 2), 1, True, (NO_ARCH.format(2),)),
            ("k", "sm_90", None, 8, 40, (1, 2), 1, True, (NO_ARCH.format(2),)),
        ],
    ),
    "two archs, no arch named, alike": (
        [compiled("sm_80"), compiled("sm_90")],
        [linked(254), linked(254)],
        [("k", "sm_80", 254, 8, 40, (1, 2), 1, True, ()), ("k", "sm_90", 254, 8, 40, (1, 2), 1, True, ())],
    ),
    "two archs, one of them linked: which one?": (
        [compiled("sm_80"), compiled("sm_90")],
        [linked(254)],
        [
            ("k", "sm_80", 254, 8, 40, (1, 2), 1, True, (NO_ARCH.format(1),)),
            ("k", "sm_90", 254, 8, 40, (1, 2), 1, True, (NO_ARCH.format(1),)),
        ],
    ),
    "one arch, linked twice, differently": (
        [compiled("sm_80")],
        [linked(254), linked(100)],
        [("k", "sm_80", None, 8, 40, (1, 2), 1, True, (SEVERAL.format(2),))],
    ),
    "one arch, linked twice, alike": (
        [compiled("sm_80")],
        [linked(254), linked(254)],
        [("k", "sm_80", 254, 8, 40, (1, 2), 1, True, ())],
    ),
}
"""(symbol, arch, registers, stack, cumulative stack, spills, barriers, final, reasons) of each kernel."""


@pytest.mark.parametrize("case", TABLE)
def test_link_over_compile(case: str) -> None:
    kernels, links, expected = TABLE[case]
    found = merge_links(kernels, links)
    assert [
        (
            each.key.symbol,
            each.key.arch,
            each.usage.registers,
            each.usage.stack_bytes,
            each.usage.cumulative_stack_bytes,
            each.usage.spills,
            each.usage.barriers,
            each.final,
            each.reasons,
        )
        for each in found
    ] == expected
    assert all((each.confidence == "ambiguous") == bool(each.reasons) for each in found)
    assert all((LINK in each.origins) == bool(each.final) for each in found)
