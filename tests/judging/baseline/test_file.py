"""The file: read back equal, equal to what YAML makes of it, and every mistake one line that says where."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from spillscan.judging.baseline.file import PREAMBLE, entries_by_line, entries_by_yaml, parse, text_of
from spillscan.judging.baseline.model import Baseline, Identity, KnownKernel, key_of, parse_key, shortened
from spillscan.output.errors import UsageError

RULES = st.sampled_from(["spill", "registers", "spill-in-loop", "local-array"])
FIGURES = st.dictionaries(st.sampled_from(["stores", "loads", "times", "depth-1"]), st.integers(0, 2**40), min_size=1)
COPIES = st.lists(FIGURES.map(lambda figures: tuple(sorted(figures.items()))), min_size=1, max_size=3).map(tuple)
SYMBOLS = st.one_of(
    st.from_regex(r"_Z[A-Za-z0-9_.$]{1,30}", fullmatch=True),
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(str.strip),
)
IDENTITIES = st.builds(Identity, SYMBOLS, st.sampled_from(["sm_80", "sm_90a", "compute_90", None]), st.booleans())
NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(str.strip)
ENTRIES = st.dictionaries(
    IDENTITIES, st.builds(KnownKernel, name=NAMES, recorded=st.dictionaries(RULES, COPIES, max_size=3)), max_size=6
)

HEAD = "version: 1\nsuppressions: []\n"
LINE = '  _Z1kPf sm_80: {name: "k", spill: {loads: 4, stores: 8}}\n'


@given(ENTRIES)
def test_it_reads_back_and_is_yaml(entries: dict[Identity, KnownKernel]) -> None:
    text = text_of(Baseline(entries=entries, preamble=PREAMBLE))
    assert parse(text, "b.yaml").entries == entries
    document = yaml.safe_load(text)
    assert document["version"] == 1
    assert {parse_key(key): _plain(value) for key, value in document["kernels"].items()} == {
        identity: (entry.name, {rule: [dict(each) for each in copies] for rule, copies in entry.recorded.items()})
        for identity, entry in entries.items()
    }


@given(ENTRIES)
def test_both_ways_of_reading_agree(entries: dict[Identity, KnownKernel]) -> None:
    text = text_of(Baseline(entries=entries, preamble=""))
    slow = entries_by_yaml(text, "b.yaml")
    assert slow == entries
    assert entries_by_line(text) in (slow, None)


@given(
    st.lists(st.sampled_from([*"{}[]:,\"\\ \n#&*!|>%@`'-?~\t", "\N{NO-BREAK SPACE}", "\x85", "0", "07", "1_0", "9"])),
    st.integers(0, 60),
)
def test_a_line_that_was_edited_means_the_same_to_both(noise: list[str], place: int) -> None:
    text = f"kernels:\n{LINE[:place]}{''.join(noise)}{LINE[place:]}"
    fast = entries_by_line(text)
    if fast is not None:
        assert fast == entries_by_yaml(text, "b.yaml")


def _plain(value: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    recorded = {rule: copies if isinstance(copies, list) else [copies] for rule, copies in value.items()}
    return recorded.pop("name")[0], recorded


def test_what_is_written_is_read_line_by_line() -> None:
    """Names as people read them, long template arguments left out."""
    entries = {
        Identity("_Z1kPf", "sm_80"): KnownKernel(name="k<…1f0c>", recorded={"spill": ((("loads", 4), ("stores", 8)),)}),
        Identity("void k<int, 4>(int*)", "sm_80"): KnownKernel(name="k<int, 4>"),
        Identity(shortened("_Z" + "x" * 5000), None, True): KnownKernel(name="x"),
    }
    text = text_of(Baseline(entries=entries, preamble=""))
    assert entries_by_line(text) == entries


def test_long_symbols_are_shortened_and_stay_apart() -> None:
    one, two = "_ZN7cutlass" + "A" * 8000 + "1", "_ZN7cutlass" + "A" * 8000 + "2"
    assert shortened(one) != shortened(two)
    assert len(shortened(one)) < 200
    assert shortened(shortened(one)) == shortened(one)
    assert shortened("_Z1kPf") == "_Z1kPf"


@pytest.mark.parametrize("identity", [Identity("_Z1kPf", "sm_90a"), Identity("a b c", None), Identity("k", None, True)])
def test_keys(identity: Identity) -> None:
    assert parse_key(key_of(identity)) == identity


def test_yaml_in_another_style_is_read_too() -> None:
    text = f"""{HEAD}kernels:
    # a comment
    _Z1kPf sm_80:
        name: k
        spill:
          - stores: 8
            loads: 4
          - {{stores: 0, loads: 0}}
    '_Z1fPf sm_90/function': {{name: f}}
"""
    figures = ((("loads", 4), ("stores", 8)), (("loads", 0), ("stores", 0)))
    assert parse(text, "b.yaml").entries == {
        Identity("_Z1kPf", "sm_80"): KnownKernel(name="k", recorded={"spill": figures}),
        Identity("_Z1fPf", "sm_90", True): KnownKernel(name="f"),
    }


def test_windows_line_ends() -> None:
    text = f"{HEAD}kernels:\n{LINE}"
    assert parse(text.replace("\n", "\r\n"), "b.yaml") == parse(text, "b.yaml")


SUPPRESSION = 'suppressions:\n- kernel: "k*"\n  rule: spill\n  reason: because\n  until: 2030-01-31\n'

MISTAKES = {
    "empty": ("", r"b\.yaml is not a baseline: it has no `kernels:`; `spillscan baseline write BUILD` makes one"),
    "no baseline": ("fail_on: error\n", r"b\.yaml is not a baseline"),
    "no version": (f"kernels:\n{LINE}", r"b\.yaml:1: no `version`; write `version: 1`"),
    "no version, but more": (f"suppressions: []\nkernels:\n{LINE}", r"b\.yaml:1: no `version`"),
    "another version": (f"version: 2\nkernels:\n{LINE}", r"b\.yaml:1: version 2; this spillscan reads version 1"),
    "version is text": (f"version: one\nkernels:\n{LINE}", r"b\.yaml:1: `version` must be a whole number of 0 or more"),
    "broken preamble": (f"version: 1\nsuppressions: [\nkernels:\n{LINE}", r"b\.yaml:3: broken YAML: .+"),
    "broken line": (f'{HEAD}kernels:\n{LINE}  _Z1aPf sm_80: {{name: "a"\n', r"b\.yaml:6: broken YAML: .+"),
    "a tab": (f"{HEAD}kernels:\n{LINE}\t_Z1aPf sm_80: {{}}\n", r"b\.yaml:5: (broken YAML: |a second).+"),
    "a control character": (
        f"{HEAD}kernels:\n{LINE}  _Z1a\x01Pf sm_80: {{}}\n",
        r"b\.yaml:5: (broken YAML: |a second).+",
    ),
    "nested without end": (
        f"{HEAD}kernels:\n{LINE}  k sm_80: {'[' * 100_000}\n",
        r"b\.yaml:5: nested too deep",
    ),
    "an alias without anchor": (f"{HEAD}kernels:\n  _Z1kPf sm_80: *k\n", r"b\.yaml:4: (broken YAML: |anchors).+"),
    "two documents": (f"{HEAD}kernels:\n{LINE}---\na: b\n", r"b\.yaml:5: (broken YAML: |a second).+"),
    "duplicate": (
        f"{HEAD}kernels:\n{LINE}{LINE}",
        r"b\.yaml:5: '_Z1kPf sm_80' appears twice; first at b\.yaml:4",
    ),
    "duplicate rule": (
        f'{HEAD}kernels:\n  _Z1kPf sm_80: {{name: "k", spill: {{loads: 1}}, spill: {{loads: 9}}}}\n',
        r"b\.yaml:4: 'spill' appears twice",
    ),
    "duplicate figure": (
        f'{HEAD}kernels:\n  _Z1kPf sm_80: {{name: "k", spill: {{loads: 1, loads: 9}}}}\n',
        r"b\.yaml:4: 'loads' appears twice",
    ),
    "duplicate version": (f"version: 1\nversion: 1\nkernels:\n{LINE}", r"b\.yaml:2: 'version' appears twice"),
    "a list of kernels": (f"{HEAD}kernels:\n- _Z1kPf\n", r"b\.yaml:3: `kernels` must be a mapping, not a list"),
    "nothing": (f"{HEAD}kernels:\n", r"b\.yaml:3: `kernels` must be a mapping, not nothing"),
    "no arch": (
        f'{HEAD}kernels:\n  _Z1kPf: {{name: "k"}}\n',
        r"b\.yaml:4: '_Z1kPf' is not a kernel; a key is a symbol and an",
    ),
    "an entry is text": (f"{HEAD}kernels:\n  _Z1kPf sm_80: k\n", r"b\.yaml:4: an entry must be a mapping, not 'k'"),
    "no name": (f"{HEAD}kernels:\n  _Z1kPf sm_80: {{spill: {{loads: 1}}}}\n", r"b\.yaml:4: an entry has no `name`"),
    "no figures": (f"{HEAD}kernels:\n  _Z1kPf sm_80: {{name: k, spill: {{}}}}\n", r"b\.yaml:4: 'spill' has no figures"),
    "no copies": (f"{HEAD}kernels:\n  _Z1kPf sm_80: {{name: k, spill: []}}\n", r"b\.yaml:4: 'spill' has no figures"),
    "text for a figure": (
        f"{HEAD}kernels:\n  _Z1kPf sm_80: {{name: k, spill: {{loads: many}}}}\n",
        r"b\.yaml:4: `loads` must be a whole number of 0 or more, not 'many'",
    ),
    "a list for a figure": (
        f"{HEAD}kernels:\n  _Z1kPf sm_80: {{name: k, spill: {{loads: [1]}}}}\n",
        r"b\.yaml:4: `loads` must be a whole number of 0 or more, not a list",
    ),
    "an odd rule": (
        f"{HEAD}kernels:\n  _Z1kPf sm_80: {{name: k, 'a: b': {{n: 1}}}}\n",
        r"b\.yaml:4: 'a: b' is not a rule",
    ),
    "an odd figure": (
        f"{HEAD}kernels:\n  _Z1kPf sm_80: {{name: k, spill: {{'a,': 1}}}}\n",
        r"b\.yaml:4: 'a,' is not a figure",
    ),
    "keys behind": (
        f"{HEAD}kernels:\n{LINE}version: 1\n",
        r"b\.yaml:5: 'version' is after `kernels:`; move it above",
    ),
    "unknown key": (
        f"version: 1\nsupressions: []\nkernels:\n{LINE}",
        r"b\.yaml:2: unknown key 'supressions'; did you mean 'suppressions'",
    ),
    "a conflict": (
        f"{HEAD}kernels:\n{LINE}<<<<<<< HEAD\n{LINE}=======\n>>>>>>> other\n",
        r"b\.yaml:5: a merge conflict is not resolved; .+",
    ),
    "a conflict above": (
        f"<<<<<<< HEAD\n{HEAD}=======\n>>>>>>> other\nkernels:\n{LINE}",
        r"b\.yaml:1: a merge conflict",
    ),
    "no reason": (
        "version: 1\n" + SUPPRESSION.replace("  reason: because\n", "") + f"kernels:\n{LINE}",
        r"b\.yaml:3: a suppression without `reason`; it must say `kernel`, `rule`, `reason` and `until`",
    ),
    "an empty reason": (
        "version: 1\n" + SUPPRESSION.replace("because", '" "') + f"kernels:\n{LINE}",
        r"b\.yaml:5: `reason` must be text, not ' '",
    ),
    "no reason given": (
        "version: 1\n" + SUPPRESSION.replace("because", "") + f"kernels:\n{LINE}",
        r"b\.yaml:5: `reason` must be text, not nothing",
    ),
    "no end": (
        "version: 1\n" + SUPPRESSION.replace("  until: 2030-01-31\n", "") + f"kernels:\n{LINE}",
        r"b\.yaml:3: a suppression without `until`",
    ),
    "no day": (
        "version: 1\n" + SUPPRESSION.replace("2030-01-31", "2030-02-31") + f"kernels:\n{LINE}",
        r"b\.yaml:6: `until` must be a day such as 2030-01-31, not '2030-02-31'",
    ),
    "a misspelt field": (
        "version: 1\n" + SUPPRESSION.replace("reason", "raeson") + f"kernels:\n{LINE}",
        r"b\.yaml:5: unknown key 'raeson'; did you mean 'reason'\?",
    ),
    "no pattern": (
        "version: 1\n" + SUPPRESSION.replace("k*", "re:(") + f"kernels:\n{LINE}",
        r"b\.yaml:3: 're:\(' is not a regular expression: .+",
    ),
    "suppressions are a mapping": (
        f"version: 1\nsuppressions: {{kernel: k}}\nkernels:\n{LINE}",
        r"b\.yaml:2: `suppressions` must be a list, not a mapping",
    ),
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, "b.yaml")
    assert re.match(message, str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).isprintable()


@given(st.text() | st.text("version: 1\nkernels{}[]\"'&*-#,|>sm_80 \t"))
def test_any_text_is_a_baseline_or_a_usage_error(text: str) -> None:
    for whole in (text, f"{HEAD}kernels:\n{text}", f"version: 1\n{text}\nkernels:\n{LINE}"):
        with contextlib.suppress(UsageError):
            baseline = parse(whole, "b.yaml")
            assert parse(text_of(baseline), "b.yaml") == baseline
