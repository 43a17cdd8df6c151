"""What kernels are called in so much room, as it is in `golden.txt`: each width, each level at which arguments are
shortened, and the legend of the letters. `python -m tests.naming.test_golden` writes it anew: read its diff."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from spillscan.naming import Names
from tests.conftest import FIXTURES, read_any
from tests.naming.identity import generator

GOLDEN = Path(__file__).with_name("golden.txt")
WIDTHS = (12, 16, 20, 24, 28, 32, 40, 48, 60, 80, 120)
LOGS = ("nvcc/names-13.5.log", "nvcc/long-names-13.5.log", "identity/lambda-13.5.log", "nvcc/tensor-13.0.log")


def tiled() -> Iterator[str]:
    """Instances of one template by tile, type, stages and two flags, as a matrix library has them."""
    for rows, depth in ((64, 32), (128, 32), (256, 64)):
        for kind in ("cutlass::half_t", "cutlass::bfloat16_t", "float"):
            for flag in ("true", "false"):
                shape = f"cutlass::gemm::GemmShape<{rows}, 128, {depth}>"
                loop = f"ns::Mainloop<{shape}, {kind}, cutlass::layout::RowMajor, {4 if depth == 32 else 3}, {flag}>"
                end = f"ns::Epilogue<{kind}, float, !{flag}>" if kind == "float" else f"ns::Epilogue<{kind}, float, 1>"
                yield f"void cutlass::Kernel<ns::Gemm<{loop}, {end}> >(ns::Gemm<{loop}, {end}>::Params)"


PLAIN = (
    "void one::scan<float, 1>(float*)",
    "void two::scan<float, 1>(float*)",
    "void two::deep::scan<float const*, 1>(float*)",
    "void two::scan<double, 1234567890123>(float*)",
    "void two::scan<double, 1234567890124>(float*)",
    "void copy(int*, int)",
    "void copy(float*, int)",
    "void copy(unsigned long long*, int) [clone .1]",
    "a_plain_kernel_of_c_with_a_very_long_name_that_no_column_of_a_table_can_hold_in_full_0",
    "a_plain_kernel_of_c_with_a_very_long_name_that_no_column_of_a_table_can_hold_in_full_1",
    "triton_poi_fused_add_mul_0d1d2d",
    "triton_red_fused_add_mul_native_layer_norm_3",
)


COLUMNS = (
    ("true", "false"),
    ("64", "128", "256"),
    ("float", "double", "__half", "float const*"),
    ("cute::tuple<cute::C<64>, cute::C<128> >", "cute::tuple<cute::C<128>, cute::C<128> >"),
    ("ns::GemmShape<64, 64, 1>", "ns::GemmShape<128, 64, 1>", "ns::GemmShape<64, 128, 1>"),
    ("ns::KernelTmaWarpSpecialized", "ns::KernelTmaWarpSpecializedPingpong", "ns::KernelCpAsync"),
    ("ns::op::Plus<float>", "ns::op::Plus<double>", "ns::op::Minus<float>"),
    ("(ns::Mode)0", "(ns::Mode)1"),
    ("ns::Pair<int, ns::Flags<true, false, true> >", "ns::Pair<int, ns::Flags<false, true, true> >"),
    ("1000000007", "1000000009"),
    ("int", "long"),
    ("ns::Layout<ns::Row>", "ns::Layout<ns::Column>"),
)


def drawn(seed: int) -> Iterator[str]:
    """Some families with some columns each, by a seed."""
    chance = Random(seed)
    for base in chance.sample(("gemm", "ns::reduce", "ns::DeviceScanKernel", "other::reduce", "fused_bias_act"), 3):
        columns = chance.choices(COLUMNS, k=chance.randrange(1, 8))
        for _ in range(chance.randrange(2, 9)):
            yield f"void {base}<{', '.join(map(chance.choice, columns))}>(float*, int)"


def groups() -> Iterator[tuple[str, list[str]]]:
    """What stands together in one build."""
    for log in LOGS:
        yield log, list(dict.fromkeys(kernel.key.symbol for kernel in read_any(FIXTURES / log).kernels))
    yield "tiled", list(tiled())
    yield "plain", list(PLAIN)
    for seed in range(10):
        yield f"drawn {seed}", list(dict.fromkeys(drawn(seed)))
    for seed in (1, 2):
        case = generator.make(seed, templates=12)
        yield f"generated {seed}", list(dict.fromkeys(kernel.key.symbol for kernel in case.base))[:24]


GROUPS = dict(groups())


def called(symbols: list[str]) -> str:
    """Each kernel's name at each width, then the legends."""
    names = Names(symbols)
    lines = []
    for width in WIDTHS:
        lines.append(f"-- {width} characters")
        lines += [f"{names.of(symbol, width)} | {names.arguments(symbol, width)}" for symbol in symbols]
        lines += [f"   {line}" for line in names.legend(symbols, width).values()]
        lines += [f"   {line}" for line in names.legend(symbols, width, headed=True).values()]
    lines.append("-- what all of a family have, and how often it is spelled anew")
    for family in dict.fromkeys(map(names.family, symbols)):
        lines.append(f"{family.base}: {' '.join(family.shared)}; {len(family.spellings)}")
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.parametrize("group", GROUPS)
def test_called_as_in_the_file(group: str) -> None:
    parts = dict(part.split("\n", 1) for part in GOLDEN.read_text(encoding="utf-8").split("== ")[1:])
    assert called(GROUPS[group]) == parts[group]


@pytest.mark.parametrize("group", GROUPS)
def test_names_fit_and_differ(group: str) -> None:
    symbols = GROUPS[group]
    few = [] if "long" in group else symbols[:6]
    names = Names(symbols)
    for width in WIDTHS:
        shown = [names.of(symbol, width) for symbol in symbols]
        assert max(map(len, shown)) <= width or width < 16, group
        assert len(set(shown)) == len(shown), group
        for symbol, name in zip(few, shown, strict=False):
            assert names.called(name) == [symbol], (width, name)


if __name__ == "__main__":
    GOLDEN.write_text("".join(f"== {group}\n{called(symbols)}" for group, symbols in GROUPS.items()), encoding="utf-8")
