"""Names that people read: last scope, base name and arguments in one width, never two alike."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillscan.model.symbols import NO_NAME, Tuned
from spillscan.naming import NARROW, WIDTH, Names, alone
from tests.conftest import FIXTURES, read_any
from tests.reports.test_hostile import PAYLOADS

DRIVER = "Kokkos::Impl::ParallelFor<ns::Functor<double>, Kokkos::RangePolicy<Kokkos::Cuda>, Kokkos::Cuda>"
INNER = "amrex::ParallelFor<256, Foo::advance(int)::'lambda'(int, int), int>(int)::'lambda'()"

ROWS = {
    "_ZN1a2ns4gemmIfLi128EEEvPT_": ("ns::gemm<float, 128>", "ns::gemm<float, 128>"),
    "saxpy": ("saxpy", "saxpy"),
    "_ZN2ns1fEv": ("ns::f", "ns::f"),
    "void f<a::b::half_t, 128u, (bool)1>(int)": ("f<half_t, 128, true>", "f<half_t, 128, true>"),
    "void ns::gemm<a::Tile<64, 32>, a::Tile<128, 64>, float, 3>(int)": (
        "ns::gemm<Tile<64, 32>, Tile<128…>~{}",
        "ns::gemm<Tile<64…>~{}",
    ),
    "void at::vectorized_elementwise_kernel<4, Fill<float>>(int)": (
        "at::vectorized_elementwise_kernel~{}",
        "vectorized_elementw~{}",
    ),
    "void (anonymous namespace)::hidden<int>(int)": ("hidden<int>", "hidden<int>"),
    "_Z5applyIZ4hostvEUlfE0_EvT_Pf": ("host::lambda2", "host::lambda2"),
    "void each<main::[lambda(float) (instance 2)]>(float *, int, T1)": ("main::lambda2", "main::lambda2"),
    f"void Kokkos::Impl::launch<{DRIVER}>({DRIVER})": ("ns::Functor<double>", "ns::Functor<double>"),
    f"void amrex::launch_global<256, {INNER}>({INNER})": ("advance::lambda", "advance::lambda"),
    "void cutlass::Kernel2<c::Gemm<128>>(c::Gemm<128>::Params)": ("c::Gemm<128>", "c::Gemm<128>"),
    "void scale<c::Gemm<128>>(float*)": ("scale<Gemm<128>>", "scale<Gemm<128>>"),
    "": (NO_NAME, NO_NAME),
}


@pytest.mark.parametrize(("symbol", "wide", "narrow"), [(key, *value) for key, value in ROWS.items()])
def test_names(symbol: str, wide: str, narrow: str) -> None:
    for width, expected in ((WIDTH, wide), (NARROW, narrow)):
        found = alone(symbol, width)
        mark = re.search(r"(?<=~)[0-9a-f]{4}\Z", found)
        assert found == expected.format(mark[0] if mark else "")
        assert len(found) <= width
        assert not symbol or Names([symbol]).called(found) == [symbol]


def test_a_name_is_of_the_kernel_alone() -> None:
    kernels = {kernel.key.symbol for kernel in read_any(FIXTURES / "large" / "kernels5000-13.0.log.zst").kernels}
    names = Names(kernels)
    for width in (NARROW, WIDTH):
        shown = {symbol: names.of(symbol, width) for symbol in kernels}
        assert len({*shown.values()}) == len(kernels)
        assert all(names.called(shown[symbol]) == [symbol] for symbol in [*kernels][:20])
        assert sum(shown[symbol] == alone(symbol, width) for symbol in kernels) > 0.8 * len(kernels)


def test_names_that_would_be_alike_get_more_of_a_digest() -> None:
    names = Names(["f(int*)", "f(float*)", "g(int)"])
    shown = [names.of(symbol) for symbol in names]
    assert [re.sub(r"~[0-9a-f]{4}\Z", "~", name) for name in shown] == ["f~", "f~", "g"]
    assert shown[0] != shown[1]
    assert [names.argument(symbol) for symbol in names] == ["f(int*)", "f(float*)", "g"]


def test_one_kernel_of_two_checkouts_has_one_name() -> None:
    symbols = [f"_ZN36_GLOBAL__N__{hashed}_4_n_cu_0d6229933barEPi" for hashed in ("5cb7265f", "aeba40bb")]
    apart, together = Names(symbols[:1], symbols[1:]), Names(symbols)
    assert {apart.of(symbol) for symbol in symbols} == {"bar"}
    assert len({together.of(symbol) for symbol in symbols}) == 2


def test_candidates_of_a_tuner() -> None:
    keys = [Tuned("mm", ("64×64", f"{warps} warps"), f"c/{warps}") for warps in (4, 8)]
    names = Names(keys)
    assert [names.of(key) for key in keys] == ["mm[64×64, 4 warps]", "mm[64×64, 8 warps]"]
    assert names.argument(keys[0]) == "mm"


@pytest.mark.parametrize(
    ("symbol", "value", "family"),
    [
        ("_ZN1a2nsIfE1fEv", "ns::f<float>", "ns::f"),
        ("_ZN2ns1fIfEEvv", "ns::f<float>", "ns::f"),
        ("f<int[]>", "f<int[]>", "f"),
        ("triton_per_fused_2", "per2", "per2"),
    ],
)
def test_values_of_kernel(symbol: str, value: str, family: str) -> None:
    names = Names([symbol])
    assert names.argument(symbol) == value
    assert names.called(names.of(symbol)) == names.called(family) == [symbol]


@given(st.lists(st.one_of(st.text(max_size=30), st.sampled_from(PAYLOADS)), max_size=8, unique=True))
def test_any_text_has_a_name(symbols: list[str]) -> None:
    names = Names(symbols)
    shown = [names.of(symbol, NARROW) for symbol in symbols]
    assert len({*shown}) == len(symbols)
    assert all(name and len(name) <= NARROW + 60 for name in shown)
