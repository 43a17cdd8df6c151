"""The file: read back equal, one line per kernel, and every mistake one line that says where."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillscan.judging.baseline.file import parse, text_of
from spillscan.judging.baseline.model import KEPT_FIGURES, Baseline, Identity, KnownKernel, shortened
from spillscan.output.errors import UsageError

RULES = st.sampled_from(["spill", "registers", "spill-in-loop", "local-array"])
FIGURES = st.dictionaries(st.sampled_from(["stores", "loads", "times", "depth-1"]), st.integers(0, 2**40), min_size=1)
COPIES = st.lists(FIGURES.map(lambda figures: tuple(sorted(figures.items()))), min_size=1, max_size=3).map(tuple)
TAKEN = st.dictionaries(st.sampled_from(KEPT_FIGURES), st.integers(0, 9)).map(lambda each: tuple(sorted(each.items())))
SYMBOLS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
IDENTITIES = st.builds(Identity, SYMBOLS, st.sampled_from(["sm_80", "sm_90a", "compute_90", None]), st.booleans())
KNOWN = st.builds(
    KnownKernel,
    name=SYMBOLS,
    unit=st.sampled_from(["", "a.cu"]),
    recorded=st.dictionaries(RULES, COPIES, max_size=3),
    figures=st.lists(TAKEN, max_size=2).map(tuple),
    launch=st.sampled_from([(), (("threads_per_block", 64),), (("dynamic_shared_bytes", 9), ("threads_per_block", 1))]),
)
ENTRIES = st.dictionaries(IDENTITIES, KNOWN, max_size=6)

HEADER = '{"format":"spillscan-baseline 1"}\n'
LINE = '{"symbol":"_Z1kPf","arch":"sm_80","name":"k"}\n'


@given(ENTRIES)
def test_it_reads_back(entries: dict[Identity, KnownKernel]) -> None:
    baseline = Baseline(entries=entries, toolkits=("12.9.86",), limits={"max_registers": 64})
    text = text_of(baseline)
    assert parse(text, "b.jsonl") == baseline
    assert len([json.loads(line) for line in text.split("\n")[:-1]]) == 1 + len(entries)
    turned = dict(reversed(entries.items()))
    assert text == text_of(Baseline(entries=turned, toolkits=baseline.toolkits, limits=baseline.limits))


def test_long_symbols_are_shortened_and_stay_apart() -> None:
    one, two = (f"_Z{'k' * 3000}{end}" for end in "ab")
    assert len(shortened(one)) < 200
    assert shortened(one) != shortened(two)
    assert shortened("_Z1kPf") == "_Z1kPf"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "b:1: not a line of a baseline: "),
        ("x\n", "b:1: not a line of a baseline: "),
        ("version: 1\nkernels: {}\n", "b is a baseline of an earlier form; `spillscan baseline write BUILD -o "),
        ("# ours\nversion: 1\n", "b is a baseline of an earlier form; "),
        ('{"format":"spillscan-baseline 9"}\n', "b:1: format 'spillscan-baseline 9'; this spillscan reads "),
        (
            f"{HEADER}<<<<<<< ours\n{LINE}",
            "b:2: unresolved merge conflict; keep the lines that you want of either side",
        ),
        (f"{HEADER}{LINE}=======\n{LINE}", "b:3: unresolved merge conflict; "),
        (f"{HEADER}{LINE}{LINE}", "b:3: k appears twice; keep one of the lines"),
        (f"{HEADER}{LINE}[]\n", "b:3: not a line of a baseline: Expected 'object', got 'array'"),
        (
            HEADER + LINE.replace('"name"', '"nmae"'),
            "b:2: not a line of a baseline: Object contains unknown field 'nmae'",
        ),
        (
            HEADER + '{"symbol":"k","arch":"sm_80"}\n',
            "b:2: not a line of a baseline: Object missing required field 'name'",
        ),
        (HEADER + '{"symbol":"","name":"k"}\n', "b:2: not a line of a baseline: Expected 'str' of length >= 1"),
        (
            HEADER + '{"symbol":"k","name":"k","figures":[{"registers":-1}]}\n',
            "b:2: not a line of a baseline: Expected",
        ),
        (
            HEADER + '{"symbol":"k","name":"k","figures":[{"regs":1}]}\n',
            "b:2: not a line of a baseline: Object contains",
        ),
        (HEADER + '{"symbol":"k","name":"k","launch":{"threads_per_block":2048}}\n', "b:2: not a line of a baseline: "),
        (HEADER + "[" * 100_000 + "\n", "b:2: "),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse(text, "b")
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


@given(st.lists(st.sampled_from([*'{}[]:,"\\ \n09', HEADER, LINE, '"name"', "null"])).map("".join))
def test_any_text_is_a_baseline_or_a_usage_error(text: str) -> None:
    for each in (text, HEADER + text):
        with contextlib.suppress(UsageError):
            parse(each, "b")
