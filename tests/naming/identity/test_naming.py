"""Names that people read: by the arguments in which the instances of a template differ, never two alike."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spillscan.model.symbols import Tuned, readable, short_name, tuned_for
from spillscan.naming import Names, alone
from spillscan.naming.tree import NameParser
from tests.conftest import FIXTURES, read_any
from tests.reports.test_hostile import PAYLOADS

LARGE = FIXTURES / "large" / "kernels5000-13.0.log.zst"
OPERATION = "Wrap<Kernel<Main<cute::tuple<cute::C<{}>, cute::C<64>>, {}, {}, true>, Epilogue<float>>>"


def flash(tile: int, kind: str, flag: str) -> str:
    operation = OPERATION.format(tile, kind, flag)
    return f"void run<{operation}>({operation}::Params)"


def test_instances_are_named_by_what_differs_and_what_wraps_them_is_left_out() -> None:
    symbols = [
        flash(tile, kind, flag)
        for tile in (64, 128)
        for kind in ("cutlass::half_t", "cutlass::bfloat16_t")
        for flag in ("true", "false")
    ]
    names = Names(symbols)
    assert names.of(symbols[0]) == "Kernel<64x64, half_t, true>"
    assert names.of(symbols[-1]) == "Kernel<128x64, bfloat16_t, false>"
    assert names.at(24)[symbols[0]] == "Kernel<64x64, f16, T>"
    assert {names.family(symbol).base for symbol in symbols} == {"Kernel"}


def test_a_type_keeps_its_brackets_and_a_lambda_what_it_takes() -> None:
    names = Names(
        [
            "void sum<ns::complex<double>, ns::policy_of_the_device_that_runs_it>(int)",
            "void sum<ns::complex<float>, ns::policy_of_the_device_that_runs_it>(int)",
            "void sum<float, ns::policy_of_the_device_that_runs_it>(int)",
            "void each<at::f(at::Iterator&)::{lambda(float)#1}, std::array_of_all_arguments<char*, 2>>(int)",
            "void each<at::f(at::Iterator&)::{lambda(double)#1}, std::array_of_all_arguments<char*, 2>>(int)",
        ]
    )
    shown = list(names.at(60).values())
    assert shown == ["sum<complex<double>>", "sum<complex<float>>", "sum<float>", "each<float>", "each<double>"]
    assert list(names.at(18).values())[:2] == ["sum<complex<f64>>", "sum<complex<f32>>"]


def test_calls_of_a_generic_lambda_differ_in_what_they_take() -> None:
    kernel = "auto bool ns::Main<64>::mma<float>(ns::Params&, int)::'lambda'(auto, auto, auto)::operator()"
    symbols = [
        f"{kernel}<bool ns::Main<64>::mma<float>(ns::Params&, int)::'lambda{at}'(auto&, int), C<{masked}>>"
        "(int, auto, auto, auto) const"
        for at, masked in (("", "true"), ("0", "true"), ("0", "false"))
    ]
    shown = list(Names(symbols).at(60).values())
    assert len(set(shown)) == 3
    assert not any("~" in name for name in shown), shown


def candidate(tile: str, warps: int, stages: int, place: str = "A/mm") -> Tuned:
    pairs = (("tile", tile), ("num_warps", str(warps)), ("num_stages", str(stages)))
    return Tuned("mm", tuned_for(pairs), place)


def test_candidates_of_a_tuner_are_named_by_what_they_were_tuned_for() -> None:
    assert alone(candidate("256×128×32", 8, 3)) == "mm[256×128×32, 8 warps, 3 stages]"
    several = [
        candidate(tile, warps, stages) for tile in ("256×128×32", "64×64×32") for warps in (4, 8) for stages in (1, 3)
    ]
    twins = [candidate("64×64×32", 8, 3, place) for place in ("B/mm", "C/mm")]
    names = Names([*several, *twins, "add", "mm"])
    assert names.of(several[0]) == "mm[256×128×32, 4 warps, 1 stage]"
    assert names.of(several[0], 28) == "mm[256×128×32, 4w, 1s]"
    assert (names.of("add"), names.of("mm")) == ("add", "mm")
    for width in (16, 28, 44, 60):
        shown = names.at(width)
        assert len(set(shown.values())) == len(shown) == 12
        assert max(map(len, shown.values())) <= width
        assert all(names.called(name) == [key] for key, name in shown.items())
    other = candidate("64×64×32", 4, 1, "D/mm")
    both = Names(several, [other, *several[:4]])
    assert both.of(other) == both.of(several[4]) == "mm[64×64×32, 4 warps, 1 stage]"


def test_compilers_of_python_code_have_readable_names() -> None:
    flags = "B96cw51cXTLSUwv1sCUt9Ww1FEw0NRRQPKiLTj0gIGIFp_2b2oLQFEYYkHSQB1OQAk0Bynm21OizQ1K0UoIGvDpQE8oxrNQE_3d"
    arrays = [
        f"_ZN6cudapy8__main__3addB2v{at}{flags}E5ArrayI{of}Li1E1A7mutable7alignedE" for at, of in ((1, "f"), (2, "d"))
    ]
    assert {short_name(symbol) for symbol in arrays} == {"add"}
    assert alone(arrays[0]) == "add"
    names = Names(arrays)
    assert [names.of(symbol) for symbol in arrays] == ["add(f32)", "add(f64)"]
    other = arrays[0].replace("8oxrNQE_3d", "8oxrNQE_3e")
    assert len(set(Names([arrays[0], other]).at(60).values())) == 2
    tiles = [f"matmul_Kt1_A2f16_1l0_2t1_Sf32_B1_I{size}_I_{size}" for size in (64, 128)]
    assert readable(tiles[0]) == "matmul<Array<f16, 2>, f32, true, 64, -64>"
    assert list(Names(tiles).at(60).values()) == ["matmul<64, -64>", "matmul<128, -128>"]
    assert readable("k_Kt1_F3ff8000000000000_Cn__Pf32") == "k<1.5, None, f32*>"
    assert readable("k_Kt1_Cs_text_I4") == "k_Kt1_Cs_text_I4"
    inductor = ["triton_poi_fused__to_copy_add_relu_0", "triton_poi_fused__to_copy_add_relu_1", "triton_red_fused_12"]
    assert list(Names(inductor).at(60).values()) == ["poi0_to_copy_add_relu", "poi1_to_copy_add_relu", "red12"]
    clash = Names(["triton_red_fused_12", "red12"]).at(60)
    assert len(set(clash.values())) == 2


def test_overloads_and_kernels_that_files_hide_stay_apart() -> None:
    hidden = [
        f"_ZN{len(unit) + 32}_GLOBAL__N__e2ba9193_{len(unit)}_{unit}_16820cae3fooEPi" for unit in ("a_cu", "b_cu")
    ]
    names = Names(["f(int*)", "f(float*)", "g(int)", *hidden])
    assert names.of("f(int*)") != names.of("f(float*)")
    assert names.of("f(int*)").startswith("f(")
    assert len(set(names.at(60).values())) == 5


def test_a_build_and_its_successor_share_names() -> None:
    here, there = (
        f"_ZN{len(word)}{word}3fooEPi"
        for word in ("_GLOBAL__N__e2ba9193_4_a_cu_16820cae", "_GLOBAL__N__11112222_4_a_cu_16820cae")
    )
    names = Names([here], [there])
    assert names.of(here) == names.of(there) == "foo"
    assert len(set(Names([here, there]).at(60).values())) == 2


@pytest.mark.parametrize("width", [16, 24, 40, 60, 110, 200])
def test_no_two_are_alike_and_each_leads_back(width: int) -> None:
    symbols = list(dict.fromkeys(kernel.key.symbol for kernel in read_any(LARGE).kernels))[:600]
    names = Names(symbols)
    shown = names.at(width)
    assert len(set(shown.values())) == len(symbols)
    assert all(len(name) <= width for name in shown.values())
    for symbol in random.Random(width).sample(symbols, 3):
        assert symbol in names.called(shown[symbol])


def test_few_names_change_when_kernels_go() -> None:
    symbols = list(dict.fromkeys(kernel.key.symbol for kernel in read_any(LARGE).kernels))
    rest = [symbol for symbol in symbols if random.Random(symbol).random() > 0.1]
    before, after = Names(symbols).at(60), Names(rest).at(60)
    assert sum(before[symbol] != after[symbol] for symbol in rest) <= 0.01 * len(rest)


texts = st.lists(st.sampled_from(PAYLOADS) | st.sampled_from("<>(),{}:& ") | st.text(max_size=3), max_size=12).map(
    "".join
)


@settings(deadline=None, max_examples=80)
@given(
    st.lists(texts | texts.map("_Z".__add__) | texts.map(lambda text: f"void f<{text}>(int)"), min_size=1, max_size=6)
)
def test_any_text_has_a_name(symbols: list[str]) -> None:
    symbols = [symbol.encode("utf-8", "replace").decode() for symbol in symbols]
    for width in (16, 60):
        shown = Names(symbols).at(width)
        assert len(set(shown.values())) == len(set(symbols))
        assert all(name.isprintable() for name in shown.values())
        one_by_one = Names(symbols)
        assert {symbol: one_by_one.of(symbol, width) for symbol in shown} == shown


def test_names_of_a_few_are_those_that_they_have_among_all() -> None:
    symbols = list(dict.fromkeys(kernel.key.symbol for kernel in read_any(LARGE).kernels))[::7]
    few = Names(symbols)
    for width in (24, 60):
        shown = Names(symbols).at(width)
        assert [few.of(symbol, width) for symbol in symbols[:40]] == [shown[symbol] for symbol in symbols[:40]]


def test_flags_are_shown_by_what_their_parameters_are_called() -> None:
    flags = list(itertools.product(("true", "false"), repeat=3))
    symbols = [
        f"void attention<ns::Mainloop<{size}, float, {a}, {b}>, {c}>(int)" for size in (64, 128) for a, b, c in flags
    ]
    plain = Names(symbols)
    assert plain.of(symbols[0], 20) == "attention<64, TTT>"
    assert plain.legend(symbols, 20) == {"attention": "T, F of attention: arguments 3, 4 of Mainloop, 2"}
    labels = {"Mainloop": ("", "", "causal", "paged"), "attention": ("", "dropout")}
    names = Names(symbols, labels=labels)
    assert [names.of(symbol, 38) for symbol in symbols[:8:7]] == [
        "attention<64, causal, paged, dropout>",
        "attention<64>",
    ]
    assert len(set(names.at(38).values())) == len(symbols)
    assert names.legend(symbols, 38) == {}
    assert names.called("attention<64>") == [symbols[7]]
    assert Names(symbols[6:8], labels=labels).of(symbols[7], 200) == "attention<!dropout>"


def test_deep_and_long_names_are_read_quickly() -> None:
    deep = "f<" * 20_000 + ">" * 20_000 + "(int)"
    wide = f"void f<{', '.join(f'ns::A{at}<int>' for at in range(8_000))}>(int)"
    for symbol in (deep, wide, "<" * 50_000, "(" * 50_000 + ")" * 50_000):
        assert len(alone(symbol)) <= 60
    parser = NameParser()
    assert parser.parsed("f<A<int>, A<int>>()").node.args[0] is parser.parsed("g<A<int>>()").node.args[0]


def test_what_begins_alike_is_one_family_only_where_nothing_follows_the_arguments() -> None:
    """``Box<int>::run()`` and ``Box<int>::stop()`` begin alike."""
    names = Names(
        [
            *("_Z4axpyIfEvPT_", "_Z4axpyIdEvPT_", "_ZN3BoxIiE3runEv", "_ZN3BoxIfE3runEv", "_ZN3BoxIiE4stopEv"),
            *("_ZN3BoxIiEclEf", "_ZN3BoxIiEC1Ev", "_ZN2ns4gemmINS_4TileEEEvT_", "_ZN2ns4gemmIfEEvT_"),
        ]
    )
    families = [names.base(symbol) for symbol in names.at(60)]
    assert families == ["axpy", "axpy", "run", "run", "stop", "Box", "Box::Box", "gemm", "gemm"]
