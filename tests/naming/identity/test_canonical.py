"""Canonical identity: what it drops, what it keeps, and that LLVM's demangler still reads it."""

from __future__ import annotations

import gzip
import re
from functools import cache
from pathlib import Path

import pycxxfilt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillscan.naming import symbol
from spillscan.naming.symbol import canonical, source_file

FIXTURES = Path(__file__).parents[3] / "fixtures"

OLD_MODULE = "82_GLOBAL__N__58_tmpxft_00003916_00000000_9_add_weighted_compute_61_cpp1_ii_71482d89"
"""An unnamed namespace of OpenCV, as a profile in its documentation has it."""

PAIRS = {
    # nvcc 13.0, one source in two folders
    "_ZN36_GLOBAL__N__5cb7265f_4_n_cu_0d62299311anon_kernelEPi": "_ZN12_GLOBAL__N_111anon_kernelEPi",
    "_ZN36_GLOBAL__N__aeba40bb_4_n_cu_0d62299311anon_kernelEPi": "_ZN12_GLOBAL__N_111anon_kernelEPi",
    "_ZN36_GLOBAL__N__5cb7265f_4_n_cu_0d6229936anon_tINS_2OpEEEvPT_S3_": "_ZN12_GLOBAL__N_16anon_tINS_2OpEEEvPT_S3_",
    # nvcc before 11: a temporary name with the number of a process
    f"_Z3fooIN{OLD_MODULE}2OpEEvT_": "_Z3fooIN12_GLOBAL__N_12OpEEvT_",
    # static in relocatable code, alone and around an unnamed namespace
    "__nv_static_25__5cb7265f_4_n_cu_0d622993__Z4statPi": "_Z4statPi",
    "__nv_static_25__5cb7265f_4_n_cu_0d622993__ZN36_GLOBAL__N__5cb7265f_4_n_cu_0d6229935inner4deepEPi": (
        "_ZN12_GLOBAL__N_15inner4deepEPi"
    ),
    "_ZN34_INTERNAL_5cb7265f_4_n_cu_0d62299336_GLOBAL__N__5cb7265f_4_n_cu_0d6229938anon_devEi": (
        "_ZN10_INTERNAL_12_GLOBAL__N_18anon_devEi"
    ),
    # clang: internal linkage, -fgpu-rdc
    "_ZL4statPi": "_Z4statPi",
    "_ZN2nsL4statEPi": "_ZN2ns4statEPi",
    "_ZN12_GLOBAL__N_16kernelEv__intern__9c8e6b1a2d3f4455": "_ZN12_GLOBAL__N_16kernelEv",
    # CUB and Thrust: release and list of archs, three spellings
    "_ZN3cub17CUB_300001_SM_8006detail11EmptyKernelIvEEvv": "_ZN3cub3_V_6detail11EmptyKernelIvEEvv",
    "_ZN3cub16_V_300500_SM_9006detail11EmptyKernelIvEEvv": "_ZN3cub3_V_6detail11EmptyKernelIvEEvv",
    "_ZN3cub43CUB_200802_SM_500_600_700_800_900_1000_120011EmptyKernelIvEEvv": "_ZN3cub3_V_11EmptyKernelIvEEvv",
    "_ZN3cub21CUB_101702_750_800_NS11EmptyKernelIvEEvv": "_ZN3cub3_V_11EmptyKernelIvEEvv",
    "_Z1fIN4cuda3std3__44plusIvEEEvT_": "_Z1fIN4cuda3std3__14plusIvEEEvT_",
    # lambdas: in a function, in an unnamed namespace, with parameters that nest, as an extended lambda's tag
    "_Z5applyIZ4hostvEUlfE1_EvT_S1_Pf": "_Z5applyIZ4hostvEUlfE_EvT_S1_Pf",
    "_Z1fIZ4hostvEUlRKSt4pairIiS0_IfPFvEEEE12_EvT_": "_Z1fIZ4hostvEUlRKSt4pairIiS0_IfPFvEEEE_EvT_",
    "_Z1fIZ4hostvEUt3_EvT_": "_Z1fIZ4hostvEUt_EvT_",
    "_Z1fI16__nv_dl_wrapper_tI11__nv_dl_tagIPFvvEXadL_Z4hostvEELj7EEJEEEvT_": (
        "_Z1fI16__nv_dl_wrapper_tI11__nv_dl_tagIPFvvEXadL_Z4hostvEELj0EEJEEEvT_"
    ),
    # SASS: a callee's clone, a helper
    "$_ZN36_GLOBAL__N__5cb7265f_4_n_cu_0d62299311anon_kernelEPi$_Z2f1i": "$_ZN12_GLOBAL__N_111anon_kernelEPi$_Z2f1i",
    "$__internal_12_$__cuda_sm20_div_rn_f64_full": "$__internal_$__cuda_sm20_div_rn_f64_full",
    # demangled before it was logged
    "void f<host()::{lambda(float)#2}>(_GLOBAL__N__5cb7265f_4_n_cu_0d622993::Op)": (
        "void f<host()::{lambda(float)}>((anonymous namespace)::Op)"
    ),
    "void cub::CUB_300001_SM_800_900::EmptyKernel<cuda::std::__4::plus>()": (
        "void cub::_V_::EmptyKernel<cuda::std::__1::plus>()"
    ),
}

KEPT = (
    "_Z3fooILi9EEvPf",
    "_ZN3fooIiE9_internalEv",  # after an E a length, not a lambda's number
    "_ZN6common10UlongThingEv",
    "_Z10UlvE3_nameiPi",
    "_ZN4mine15CUB_2_is_a_nameEv",
    "_ZN4mine9__4facesEv",
    "_ZN3fooIiE5EqualEv",
    "_Z1fILN2ns4KindE5EEvv",
    "_Z1fIL4Kind12EEvv",
    "plain_kernel_2",
    "CUB_2_is_a_name",
    "_INTERNAL_too",
    "__internal_2_x",
    "",
    "_Z",
)


@pytest.mark.parametrize("given_symbol", PAIRS)
def test_volatile_parts(given_symbol: str) -> None:
    assert canonical(given_symbol) == PAIRS[given_symbol]
    assert canonical(PAIRS[given_symbol]) == PAIRS[given_symbol]


@pytest.mark.parametrize("kept", KEPT)
def test_stable_parts(kept: str) -> None:
    assert canonical(kept) == kept


def test_literals_hide_nothing_after_them() -> None:
    tail = "36_GLOBAL__N__5cb7265f_4_n_cu_0d6229932OpE"
    for literal in ("LN2ns4KindE5E", "LN3fooIiE4KindE12E", "L4Kind7E", "LS_0E", "Li36E", "LNS_1aILb1EE1bEn3E"):
        assert canonical(f"_Z1fI{literal}N{tail}Evv") == f"_Z1fI{literal}N12_GLOBAL__N_12OpEEvv"


def test_source_file() -> None:
    assert source_file("__nv_static_25__5cb7265f_4_n_cu_0d622993__Z4statPi") == "n_cu"
    assert source_file("_ZN34_INTERNAL_5cb7265f_4_n_cu_0d6229938stat_devEi") == "n_cu"
    assert source_file(f"_Z3fooIN{OLD_MODULE}2OpEEvT_") == "add_weighted"
    assert source_file("_Z4statPi") == ""


@cache
def real_symbols() -> list[str]:
    """Every mangled name in the fixtures."""
    found: set[str] = set()
    for path in sorted(FIXTURES.rglob("*.log*")) + sorted(FIXTURES.rglob("*.sass")):
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        if path.suffix != ".zst":
            found |= {name.decode() for name in re.findall(rb"(?<![\w$])(?:_Z|__nv_static_)\w+", data)}
    return sorted(found)


def test_real_symbols_demangle_to_the_same_words() -> None:
    symbols = real_symbols()
    assert len(symbols) > 400
    for name in symbols:
        rest = symbol._STATIC.sub("", name)
        rest = rest[int(symbol._STATIC.match(name)[1]) + 1 :] if rest != name else name  # type: ignore[index]
        assert demangled(canonical(name)) == plainly(demangled(rest))


def demangled(symbol: str) -> str:
    """Name by LLVM's demangler; empty if it rejects the symbol."""
    try:
        return pycxxfilt.itanium_demangle(symbol) or ""
    except ValueError:
        return ""


def plainly(text: str) -> str:
    """A demangled name without what canonical names leave out, by words instead of by grammar."""
    text = re.sub(r"_GLOBAL__N__\w+", "(anonymous namespace)", text)
    text = re.sub(r"_INTERNAL_\w+", "_INTERNAL_", text)
    text = re.sub(r"\b(CUB|THRUST|_V)_\d\w+", "_V_", text)
    return re.sub(r"'lambda\d+'", "'lambda'", re.sub(r"\b__\d+\b", "__1", text))


identifiers = st.from_regex(r"\A[a-zA-Z_][a-zA-Z0-9_]{0,40}\Z")
files = st.from_regex(r"\A[a-z][a-z0-9_]{0,20}\Z")
stable = identifiers.filter(lambda name: not re.match(r"__\d|(CUB|THRUST|_V)_\d|_GLOBAL__N_|_INTERNAL_", name))

SPELLINGS = {
    "hash": ("5cb7265f", "00000000"),
    "cub": ("CUB_300001_SM_800", "CUB_300001_SM_750_900_1200"),
    "thrust": ("THRUST_300001_SM_800_NS", "_V_300500_SM_900"),
    "abi": ("__4", "__5"),
    "number": ("", "12"),
}
"""Parts that differ between two builds; ``<hash>`` and the like replace them in generated names."""


def spelled(text: str, build: int) -> str:
    """The mangled name as one of two builds prints it: first the words, then the lengths of ``[identifiers]``."""
    for word, both in SPELLINGS.items():
        text = text.replace(f"<{word}>", both[build])
    return re.sub(r"\[([^]]*)\]", lambda found: f"{len(found[1])}{found[1]}", text)


source_names = st.one_of(
    stable.map("[{}]".format),
    files.map(lambda file: f"[_GLOBAL__N__<hash>_{len(file) + 3}_{file}_cu_<hash>]"),
    st.sampled_from(("[<cub>]", "[<thrust>]", "[<abi>]")),
)
scopes = st.lists(source_names, min_size=2, max_size=4).map("".join).map("N{}E".format)


def nested(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Types that contain types."""
    lists = st.lists(inner, min_size=1, max_size=3).map("".join)
    return st.one_of(
        scopes,
        st.builds("{}I{}E".format, source_names, lists),
        lists.map("PFv{}E".format),
        lists.map("Z4hostvEUl{}E<number>_".format),
        scopes.map("XL{}5EE".format),
    )


atoms = st.sampled_from(("i", "f", "Pf", "RKd", "y", "A12_i", "Dv4_f"))
types = st.lists(st.recursive(atoms | source_names, nested, max_leaves=8), min_size=1, max_size=4).map("".join)
templates = st.builds("_Z[{}]I{}Evv".format, identifiers, types)
spellings = templates.map(lambda text: (spelled(text, 0), spelled(text, 1)))


@given(spellings)
def test_two_spellings_of_one_kernel_meet(pair: tuple[str, str]) -> None:
    one, two = pair
    assert canonical(one) == canonical(two)
    assert canonical(canonical(one)) == canonical(one)
    if name := demangled(one):
        assert demangled(canonical(one)) == plainly(name)


pieces = st.lists(st.sampled_from(("_Z", "N", "E", "Ul", "L", "I", "3foo", "1", "9", "_", "S_", "$"))).map("".join)


@given(st.text() | pieces)
def test_any_string_is_understood_or_left(text: str) -> None:
    once = canonical(text)
    assert canonical(once) == once


@given(stable, stable)
def test_distinct_plain_names_stay_distinct(one: str, two: str) -> None:
    assert (canonical(one) == canonical(two)) == (one == two)
    for form in ("_Z{1}{0}Pf", "_ZN2ns{1}{0}EPf"):
        left, right = (form.format(name, len(name)) for name in (one, two))
        assert (canonical(left) == canonical(right)) == (one == two)


def test_numbas_function_counter_is_volatile() -> None:
    one, other = (f"_ZN6cudapy8__main__3addB{len(f'v{at}')}v{at}B8cw51cXTLE5ArrayIfLi1EE" for at in (3, 271))
    assert canonical(one) == canonical(other) == canonical(canonical(one))
    assert canonical(one.replace("XTL", "XTM")) != canonical(one)
    assert canonical("_ZN4mine3addB2v1B2v2E") == "_ZN4mine3addB2v1B2v2E"


def test_hostile_nesting_is_walked_once() -> None:
    deep = 20_000
    name = "_Z1f" + "Ul" * deep + "v" + "E3_" * deep
    assert canonical(name) == "_Z1f" + "Ul" * deep + "v" + "E_" * deep
    assert canonical("_Z" + "1" * deep) == "_Z" + "1" * deep
    assert canonical("_Z" + "LN" * deep) == "_Z" + "LN" * deep
