"""The file: read back equal, one line per kernel, and every mistake one line that says where."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillscan.judging.baseline.file import FORMAT, Baseline, Copy, Entry, Header, Launched, parse, text_of
from spillscan.output.errors import UsageError

VALUES = st.dictionaries(st.sampled_from(["stores", "loads", "depth-1"]), st.integers(0, 2**40))
RULES = st.dictionaries(st.sampled_from(["spill", "registers", "local-array"]), VALUES, max_size=3)
COPIES = st.builds(Copy, registers=st.sampled_from([None, 0, 64]), barriers=st.integers(0, 9), rules=RULES)
SYMBOLS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
ENTRIES = st.builds(
    Entry,
    symbol=SYMBOLS,
    arch=st.sampled_from(["sm_80", "sm_90a", "compute_90", None]),
    function=st.booleans(),
    name=SYMBOLS,
    unit=st.sampled_from(["", "a.cu"]),
    launch=st.sampled_from(
        [None, Launched(threads_per_block=64), Launched(threads_per_block=1, dynamic_shared_bytes=9)]
    ),
    copies=st.lists(COPIES, min_size=1, max_size=2).map(tuple),
)

HEADER = '{"format":"spillscan-baseline 1"}\n'
LINE = '{"symbol":"_Z1kPf","arch":"sm_80","name":"k"}\n'


@given(st.lists(ENTRIES, max_size=6))
def test_it_reads_back(listed: list[Entry]) -> None:
    entries = {each.identity: each for each in listed}
    header = Header(format=FORMAT, toolkits=("12.9.86",))
    baseline = Baseline(entries=entries, header=header)
    text = text_of(baseline)
    assert parse(text, "b.jsonl") == baseline
    assert len([json.loads(line) for line in text.split("\n")[:-1]]) == 1 + len(entries)
    assert text == text_of(Baseline(entries=dict(reversed(entries.items())), header=header))


def test_a_line_leaves_out_defaults() -> None:
    (entry,) = parse(HEADER + LINE, "b.jsonl").entries.values()
    assert (entry.function, entry.unit, entry.launch) == (False, "", None)


NO_LINE = "b:2: not a baseline line: "
MISTAKES = [
    ("", "b:1: not a baseline line: "),
    ('{"format":"spillscan-baseline 9"}\n', "b:1: format 'spillscan-baseline 9'; this spillscan reads "),
    (f"{HEADER}<<<<<<< ours\n{LINE}", "b:2: unresolved merge conflict; keep the lines you want from each side"),
    (f"{HEADER}{LINE}=======\n{LINE}", "b:3: unresolved merge conflict; "),
    (f"{HEADER}{LINE}{LINE}", "b:3: duplicate: k (sm_80); delete one of them"),
    (f"{HEADER}{LINE}[]\n", "b:3: not a baseline line: Expected 'object', got 'array'"),
    (HEADER + LINE.replace('"name"', '"nmae"'), f"{NO_LINE}Object contains unknown field 'nmae'"),
    (HEADER + '{"symbol":"k","arch":"sm_80"}\n', f"{NO_LINE}Object missing required field 'name'"),
    (HEADER + '{"symbol":"","name":"k"}\n', f"{NO_LINE}Expected 'str' of length >= 1"),
    (HEADER + '{"symbol":"k","name":"k","copies":[{"registers":-1}]}\n', f"{NO_LINE}Expected"),
    (HEADER + '{"symbol":"k","name":"k","copies":[{"registers":9007199254740993}]}\n', f"{NO_LINE}Expected"),
    (HEADER + '{"symbol":"k","name":"k","copies":[{"regs":1}]}\n', f"{NO_LINE}Object contains"),
    (HEADER + '{"symbol":"k","name":"k","launch":{"threads_per_block":0}}\n', NO_LINE),
    (HEADER + '{"symbol":"k","name":"k","copies":[]}\n', f"{NO_LINE}Expected"),
    (HEADER + "[" * 100_000 + "\n", "b:2: "),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
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
