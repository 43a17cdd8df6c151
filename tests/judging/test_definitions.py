"""Definitions of kernels by name: which text counts as one, which of several is chosen, and the cost."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import yaml

from spillscan.judging.places import Definitions, definitions
from tests.conftest import sized

ROWS = yaml.safe_load((Path(__file__).parent / "definitions.yaml").read_text(encoding="utf-8"))


def lines(text: str) -> dict[str, int]:
    return {name: found.line for name, found in definitions("a.cu", text)}


@pytest.mark.parametrize(("text", "found", "why"), ROWS["definitions"])
def test_a_definition(text: str, found: dict[str, int], why: str) -> None:
    assert lines(text) == found, why


FILES = [
    ("a.cu", "__global__ void one(int) {}\n__global__ void two(int) {}\n__global__ void two(int, int) {}\n"),
    ("b.cuh", "__global__ void one(int) {}\n__global__ void three() {}\n#define K(T) __global__ void of_##T() {}\n"),
    ("c.cu", "__global__ void three() {}\n__global__ void of_float() {}\n"),
]

TEXTS = dict(FILES)


@pytest.mark.parametrize(("name", "source", "place", "why"), ROWS["places"])
def test_choice_among_several(name: str, source: str, place: str, why: str) -> None:
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
