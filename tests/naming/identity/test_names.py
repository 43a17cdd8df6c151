"""Names for people."""

from __future__ import annotations

import pytest

from spillscan.model.symbols import demangle, short_name, spellings
from spillscan.naming import alone


@pytest.mark.parametrize(
    ("symbol", "name", "short"),
    [
        ("_Z9plain_twoPf", "plain_two(float*)", "plain_two"),
        ("_ZN2ns5applyINS_2OpIfEEEEvT_Pf", "void ns::apply<ns::Op<float>>(ns::Op<float>, float*)", "apply"),
        (
            "_ZN44_GLOBAL__N__e2ba9193_11_14_names_cu_16820cae11anon_kernelEPi",
            "(anonymous namespace)::anon_kernel(int*)",
            "anon_kernel",
        ),
        (
            "__nv_static_33__e2ba9193_11_14_names_cu_16820cae__Z13static_kernelPi",
            "static_kernel(int*)",
            "static_kernel",
        ),
        (
            "_Z13lambda_kernelIZ4hostPiEUliE0_EvT_S0_",
            "void lambda_kernel<host(int*)::'lambda0'(int)>(host(int*)::'lambda0'(int), int*)",
            "lambda_kernel",
        ),
        ("saxpy", "saxpy", "saxpy"),
        ("_leading$dollar", "_leading$dollar", "_leading$dollar"),
        ("_Znot_mangled", "_Znot_mangled", "_Znot_mangled"),
        ("ns::search(octree, int*, double)", "ns::search(octree, int*, double)", "search"),
        ("", "", ""),
    ],
)
def test_names(symbol: str, name: str, short: str) -> None:
    assert demangle(symbol) == name
    assert short_name(symbol) == short


def test_names_of_ten_thousand_characters() -> None:
    depth = 700
    symbol = "_Z4deepI" + "4PackI" * depth + "i" + "E" * depth + "EvPi"
    assert short_name(symbol)
    wide = "_Z4wideI" + "".join(f"{len(name)}{name}" for name in (f"Policy{n:04}" for n in range(900))) + "EvPi"
    assert len(wide) > 10_000
    assert len(alone(wide)) <= 40


@pytest.mark.parametrize("size", [2_400, 13_500, 99_000, 400_000])
@pytest.mark.parametrize("deeper", ["Z", "F", "PK", "IN1A", "L_Z1fIX", "ng"])
def test_names_that_nest_deeper_than_there_is_stack(deeper: str, size: int) -> None:
    """A demangler that goes down as deep as they do would end the process."""
    for begin, end in (("_Z", "1fvE1g"), ("_Z1f", "i"), ("_Z1fIX", "Li1EEEvv")):
        symbol = begin + deeper * (size // len(deeper)) + end
        assert demangle(symbol)
        assert short_name(symbol)


def test_names_that_refer_to_themselves_again_and_again() -> None:
    """Each parameter is of two of the one before: some hundred characters mean more than all memory."""
    for depth in (5, 12, 30, 34):
        parameters = [f"S_IS{number}_S{number}_E" for number in (*range(10), *"ABCDEFGHIJKLMNOPQRSTUVWXYZ")]
        symbol = "_Z1f1AIiiES_IS0_S0_E" + "".join(parameters[1:depth])
        assert (demangle(symbol) == symbol) == (depth > 5)
        assert short_name(symbol) in ("f", symbol)


def test_an_unnamed_namespace_is_a_part_of_the_name_and_not_its_parameters() -> None:
    assert spellings("_ZN5outer12_GLOBAL__N_16hiddenEPfi") == (
        "_ZN5outer12_GLOBAL__N_16hiddenEPfi",
        "outer::(anonymous namespace)::hidden(float*, int)",
        "outer::(anonymous namespace)::hidden",
        "hidden",
    )
