"""A name costs no more than its length: whatever reads it is timed at n, 2n and 4n, over families of hostile names.
Many names cost no more than their number: steps are counted."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable

import pytest

from spillscan.model.symbols import namespace, readable, short_name, spellings
from spillscan.naming import Names, alone
from spillscan.naming.renames import spelled
from spillscan.naming.symbol import canonical, source_file
from tests.conftest import sized
from tests.counting import MOST_GROWTH, growth


def tokens(length: int) -> str:
    chosen = random.Random(1).choices(
        ("<", ">", "(", ")", "{", "}", ",", "::", " ", "a", "operator<", "E", "Ul"), k=length
    )
    return "".join(chosen)[:length]


FAMILIES: dict[str, Callable[[int], str]] = {
    "one long word": lambda n: "a" * n,
    "opened and closed": lambda n: "f" + "<" * (n // 2) + ">" * (n // 2) + "(int)",
    "opened alone": lambda n: "<" * n,
    "round ones opened alone": lambda n: "f(" * (n // 2),
    "closed alone": lambda n: ")" * n,
    "nested templates": lambda n: "void " + "ns::A<" * (n // 8) + ">" * (n // 8) + "(int)",
    "nested, each with two": lambda n: "A<int, " * (n // 8) + "B" + ">" * (n // 8),
    "wide": lambda n: f"void f<{', '.join('A<int>' for _ in range(n // 8))}>(int)",
    "wide, each another": lambda n: f"void f<{', '.join(f'A<{at}>' for at in range(n // 10))}>(int)",
    "scopes": lambda n: "a::" * (n // 3) + "f(int)",
    "words": lambda n: "a " * (n // 2) + "f(int)",
    "groups side by side": lambda n: "f" + "()" * (n // 2),
    "unnamed": lambda n: "(anonymous namespace)::" * (n // 23) + "f()",
    "operators": lambda n: "operator<" * (n // 9) + "()",
    "lambdas": lambda n: "'lambda'(int)" * (n // 13),
    "tags": lambda n: "f" + "[abi:a]" * (n // 7),
    "tag never closed": lambda n: "[abi:" * (n // 5),
    "a type in front": lambda n: "const " * (n // 6) + "f()",
    "mangled, nested": lambda n: "_Z1f" + "IN1A" * (n // 8) + "E" * (n // 8),
    "mangled, never closed": lambda n: "_Z1f" + "Ul" * (n // 2) + "CUB_",
    "mangled, closed alone": lambda n: "_Z1fUl" + "E" * n,
    "mangled scopes": lambda n: "_ZN" + "3foo" * (n // 4) + "Ev",
    "mangled length": lambda n: "_Z" + "9" * n,
    "static prefix": lambda n: "__nv_static_1__" * (n // 15),
    "module": lambda n: "_GLOBAL__N__12345678_1_a_" * (n // 25),
    "callees": lambda n: "$" * n,
    "units": lambda n: "_Z1f" + "__static__0" * (n // 11) + "x",
    "Python's compilers": lambda n: "triton_poi_fused" + "_add" * (n // 4) + "_x",
    "constraints": lambda n: "k_Kt1" + "_A2f16" * (n // 6) + "_x",
    "digits": lambda n: "void f<" + "1" * n + ">(int)",
    "random": tokens,
}

READERS: dict[str, Callable[[str], object]] = {
    "readable": readable,
    "short": short_name,
    "spellings": spellings,
    "namespace": namespace,
    "canonical": canonical.__wrapped__,
    "file": source_file.__wrapped__,
    "parts": spelled.__wrapped__,
    "alone": alone,
    "among others": lambda name: Names([name, f"{name}x", f"{name[:-1]}y", "f(int)"]).of(name),
}
SIZES = sized((5_000, 10_000, 20_000), (14_500, 29_000, 58_000))
LEAST_S = 0.02
"""Minimum seconds to measure; below it, noise of clock and machine dominates."""


def seconds(reader: Callable[[str], object], name: str) -> float:
    """CPU time of one call."""
    begin = time.process_time()
    reader(name)
    return time.process_time() - begin


def is_linear(reader: Callable[[str], object], family: Callable[[int], str]) -> bool:
    """Whether four times the length takes less than eight times as long: what is quadratic takes sixteen times."""
    four_times = seconds(reader, family(SIZES[2]))
    if four_times < LEAST_S:
        return True
    once, twice = (seconds(reader, family(size)) for size in SIZES[:2])
    return four_times < 8 * once or four_times < 3 * twice


@pytest.mark.parametrize("family", FAMILIES)
def test_time_grows_as_the_name(family: str) -> None:
    """The machine may be busy with something else: three times it must be slow."""
    canonical("_Z1fCUB_")
    alone("warm<up>(int)")
    gc.disable()
    try:
        for reader, read in READERS.items():
            assert any(is_linear(read, FAMILIES[family]) for _ in range(3)), reader
    finally:
        gc.enable()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_name_of_70_000_characters_takes_less_than_a_second(family: str) -> None:
    """From its symbol to its place in a table."""
    assert seconds(alone, FAMILIES[family](70_000)) < 1


def _symbol(base: str, arguments: str = "", parameters: str = "v") -> str:
    return f"_Z{len(base)}{base}{f'I{arguments}Ev' if arguments else ''}{parameters}"


def _word(number: int, length: int) -> str:
    return "".join(random.Random(number).choices("abcdefghijklmnopqrstuvwxyz", k=length))


MANY: dict[str, Callable[[int], str]] = {
    "long names": lambda at: _symbol(f"{_word(at, 9)}_{'x_' * 22}{_word(at + 7, 9)}"),
    "long, one beginning": lambda at: _symbol("common_" * 8 + _word(at, 9)),
    "long, one end": lambda at: _symbol(_word(at, 9) + "_common" * 8),
    "long, one word": lambda at: _symbol(_word(at, 65)),
    "near-equal": lambda at: _symbol(f"a_very_long_name_of_a_kernel_that_{at:06}_is_cut_in_tables_somewhere"),
    "numbered": lambda at: _symbol("k" * 70 + f"{at:06}"),
    "namespaces": lambda at: f"_ZN1a1b{len(f'n{at}')}n{at}1e4kernEv",
    "instances": lambda at: _symbol("kern", f"Li{at}E"),
    "instances of many arguments": lambda at: _symbol("kern", "".join(f"Li{at >> bit & 1}E" for bit in range(14))),
    "instances of long types": lambda at: _symbol("kern", f"60{_word(at, 60)}"),
    "overloads": lambda at: _symbol("kern", "", "".join("ijfd"[at >> bit & 3] for bit in range(0, 20, 2))),
    "modules": lambda at: f"_ZN36_GLOBAL__N__{at:08x}_4_a_cu_123456784kernEv",
    "lambdas": lambda at: f"_Z1kIZ1fvEUlvE{f'{at}_' if at else '_'}EvT_",
    "no names": lambda at: f"f{at}<",
}


@pytest.mark.parametrize("family", MANY)
def test_work_grows_as_the_number_of_names(family: str) -> None:
    def all_of(size: int) -> None:
        symbols = [MANY[family](at) for at in range(size)]
        names = Names(symbols)
        for symbol in symbols:
            names.of(symbol)

    def one_of(size: int) -> None:
        symbols = [MANY[family](at) for at in range(size)]
        Names(symbols).of(symbols[size // 2], 24)

    number = sized(40, 100) if family.startswith(("long", "near", "instances of")) else 100
    assert growth(all_of, number) <= MOST_GROWTH
    assert growth(one_of, number) <= MOST_GROWTH


def test_self_referring_names_stay_unchanged() -> None:
    digits = "0123456789ABCDEFGHIJKLMNOPQRS"
    doubled = "".join(f"S{at}_IS{at}_S{at}_E" for at in digits)
    for each in range(20):  # not only the first
        symbol = f"_Z3k{each:02}I1AIiS0_ES_IS_S_E{doubled}Evv"
        assert readable(symbol) == symbol
