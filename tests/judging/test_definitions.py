"""Definitions of kernels, found by name: what counts as one, which of several, and what it costs."""

from __future__ import annotations

import time

import pytest

from spillscan.judging.definitions import Definitions, definitions
from tests.conftest import sized


def lines(text: str) -> dict[str, tuple[int, int]]:
    return {name: (found.line, found.parameters) for name, found in definitions("a.cu", text)}


@pytest.mark.parametrize(
    ("text", "found", "why"),
    [
        ("__global__ void k(int a, float *b) {}", {"k": (1, 2)}, "as it is most often written"),
        ("\n__global__\nvoid\nk\n(\n)\n{\n}", {"k": (4, 0)}, "over several lines: the line of the name"),
        ("__global__ void k(void) {}", {"k": (1, 0)}, "no parameters, as in C"),
        ("__global__ void k(int);", {}, "a declaration is no definition"),
        ("__global__ void k(int);\n__global__ void k(int a) {}", {"k": (2, 1)}, "behind its declaration"),
        ("template<int N> __global__ void __launch_bounds__(256, N) k(int a) {}", {"k": (1, 1)}, "bounds before"),
        ("__global__ __launch_bounds__(256) void k(int a) {}", {"k": (1, 1)}, "bounds before the type"),
        ("__global__ void k(int a) __attribute__((used)) {}", {"k": (1, 1)}, "attributes behind"),
        ("__global__ void BOUNDS(256) k(int a) {}", {"k": (1, 1)}, "a macro of the project's own"),
        ('extern "C" __global__ void k(int a) {}', {"k": (1, 1)}, "C linkage"),
        ("void __global__ k(int a) {}", {"k": (1, 1)}, "the mark behind the type"),
        (
            "__global__ void k(std::pair<int, int> a, int b = f(1, 2), int (*c)(int, int) = 0) {}",
            {"k": (1, 3)},
            "commas",
        ),
        ("// __global__ void k() {}\n__global__ void l() {}", {"l": (2, 0)}, "a comment"),
        ("/* __global__ void k() {} */ __global__ void l() {}", {"l": (1, 0)}, "a block comment"),
        ("/* __global__ void k() {}", {}, "a comment that nothing ends"),
        ('char *s = "__global__ void k() {}";', {}, "a text"),
        ("int a = 1'000'000;\n__global__ void k() {}", {"k": (2, 0)}, "digits in groups"),
        ("char q = '\\'';\n__global__ void k() {}", {"k": (2, 0)}, "a quote"),
        ("#define D(T) \\\n__global__ void k_##T(T *a) { \\\n}", {"k_##T": (2, 1)}, "a name that a macro makes"),
        ("#define D(T) \\\n__global__ void k_ ## T(T *a) { \\\n}", {"k_##T": (2, 1)}, "with blanks"),
        ("__global__ int x; void f() {}", {}, "no function"),
        ("", {}, "nothing"),
    ],
)
def test_a_definition(text: str, found: dict[str, tuple[int, int]], why: str) -> None:
    assert lines(text) == found, why


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("__global__ void k() {\n{ }\n}\n}", 3),
        ('__global__ void k() { // }\n  s = "}";\n}', 3),
        ("__global__ void k()\n{\n#ifdef A\n  if (a) {\n#else\n  if (b) {\n#endif\n  }\n}\n__global__ void l() {}", 1),
        ("__global__ void k() {\n", 1),
    ],
)
def test_where_a_definition_ends(text: str, last: int) -> None:
    assert next(iter(definitions("a.cu", text)))[1].last == last, "that of its name, where braces do not say it"


FILES = [
    ("a.cu", "__global__ void one(int) {}\n__global__ void two(int) {}\n__global__ void two(int, int) {}\n"),
    ("b.cuh", "__global__ void one(int) {}\n__global__ void three() {}\n#define K(T) __global__ void of_##T() {}\n"),
    (
        "c.cu",
        "__global__ void three() {}\n__global__ void of_float() {}\n#define L(T) __global__ void T##_in_##T() {}\n"
        "#define M(T) __global__ void T##_last() {}\n",
    ),
]

TEXTS = dict(FILES)


@pytest.mark.parametrize(
    ("name", "source", "place", "why"),
    [
        ("ns::one(int)", "a.cu", "a.cu:1", "its own source comes first"),
        ("ns::one(int)", "b.cuh", "b.cuh:1", "its own source comes first"),
        ("one(int)", "c.cu", "", "two fit, and neither stands in its source"),
        ("two(int, int)", "a.cu", "a.cu:3", "overloads have other numbers of parameters"),
        ("void two<int>(int)", "", "a.cu:2", "a template"),
        ("two(float, float, float)", "a.cu", "", "no overload takes three: which is meant is not known"),
        ("two", "a.cu", "", "C names no parameters"),
        ("three()", "", "", "two definitions"),
        ("of_int()", "b.cuh", "b.cuh:3", "a macro made it"),
        ("of_float()", "c.cu", "c.cu:2", "its own source comes first"),
        ("x_in_x()", "", "c.cu:3", "a macro made both ends"),
        ("x_last()", "", "c.cu:4", "a macro made its beginning"),
        ("x_last_x()", "", "", "and not its end"),
        ("four()", "a.cu", "", "no such kernel"),
        ("o", "a.cu", "", "part of a name"),
    ],
)
def test_which_of_several(name: str, source: str, place: str, why: str) -> None:
    found = Definitions(lambda: TEXTS, TEXTS.__getitem__).of(name, source)
    assert (f"{found.path}:{found.line}" if found else "") == place, why


MARKS = ("__global__ ", "__global__ void k(", "__global__ a##", "__global__ k()\n", "__global__ " + "a" * 4000)


@pytest.mark.parametrize("part", [*MARKS, "/*", "'", '"', "//", "#"])
def test_hostile_text_takes_no_longer_than_it_is(part: str) -> None:
    def seconds(size: int) -> float:
        text = part * (size // len(part))
        begin = time.process_time()
        list(definitions("a.cu", f"__global__{text}"))
        return time.process_time() - begin

    sizes = sized((20_000, 80_000), (200_000, 800_000))
    short, long = (min(seconds(size) for _ in range(3)) for size in sizes)  # other work slows some
    assert long < 10 * max(short, 0.01)
