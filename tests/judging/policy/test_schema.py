"""The policy file: every mistake is one line with its place, and the JSON schema accepts what the reader accepts.

``python -m tests.judging.policy.test_schema`` writes the schema.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillscan.judging.policy.effective import Layer
from spillscan.judging.policy.file import KEYS, LIMITS, default_of, schema
from spillscan.judging.policy.reading import from_options, layer, load
from spillscan.judging.rules import all_rules
from spillscan.model.nodes import Node, parse_yaml
from spillscan.output.errors import UsageError
from tests.conforming import validator
from tests.conftest import ROOT

FILE = ROOT / "spillscan" / "model" / "schema" / "policy.schema.json"

MISTAKES = [
    ("max_register: 3\n", "1: unknown key 'max_register'; did you mean max_registers?"),
    ("\nMax-Registers: 3\n", "2: unknown key 'Max-Registers'; did you mean max_registers?"),
    ("kernels:\n- match: a\n  max_spill: 3\n", "3: unknown key 'max_spill'; did you mean max_spill_bytes?"),
    (
        "kernels:\n- match: a\n  launch: {threads_per_block: 32, unit: b}\n",
        "3: unknown key 'unit'; unit belongs next to `launch`",
    ),
    ("severity:\n  spil: off\n", "2: unknown rule 'spil'; did you mean spill?"),
    ("severity:\n  stack: off\n  spill: never\n", "3: unknown severity 'never'; use one of error, warning, note, off"),
    ("severity: {spill: [a]}\n", "1: unknown severity a list"),
    ("kernels:\n- match: [a, 3]\n  max_registers: 1\n", "2: match: expected a word or a list of words, got 3"),
    ("renamed:\n  a: b\n  c: 3\n", "3: 'c' and 3 must be two names"),
    ("'a` - at `$.kernels': 1\n", "1: unknown key 'a` - at `$.kernels'"),
    ("fail_on: error\nfail_on: note\n", "2: key 'fail_on' appears twice; merge it with the one at p.yaml:1"),
    ("max_registers: many\n", "1: max_registers: expected a whole number ≥ 0 or none, got 'many'"),
    ("max_registers: -1\n", "1: max_registers: expected a whole number ≥ 0 or none, got -1"),
    ("max_registers: true\n", "1: max_registers: expected a whole number ≥ 0 or none, got true"),
    ("max_registers:\n", "1: max_registers: expected a whole number ≥ 0 or none, got nothing"),
    ("max_registers: [1]\n", "1: max_registers: expected a whole number ≥ 0 or none, got a list"),
    ("max_registers: 2147483648\n", "1: max_registers: expected a whole number ≥ 0 or none, got 2147483648"),
    (
        f"max_file_bytes: {2**50 + 1}\n",
        "1: max_file_bytes: expected a whole number from 0 to 1,125,899,906,842,624 or none, got 1125899906842625",
    ),
    ("expect_kernels: none\n", "1: expect_kernels: expected a whole number ≥ 0, got 'none'"),
    ("fail_on: fatal\n", "1: fail_on: expected error, warning, note or never, got 'fatal'"),
    ("severity: [spill]\n", "1: severity: expected a mapping, got a list"),
    ("kernels: {match: a}\n", "1: kernels: expected a list"),
    ("kernels:\n- gemm\n", "2: kernels: expected a mapping, got 'gemm'"),
    (
        "kernels:\n- max_registers: 3\n",
        "2: this entry of `kernels` lacks match, arch and unit; set at least one of them",
    ),
    ("kernels:\n\n- match: a\n", "3: this entry sets nothing; set launch, severity, or a limit"),
    ("kernels:\n- {match: [], max_registers: 1}\n", "2: match: expected a word or a list"),
    ("kernels:\n- {match: 're:gemm(', max_registers: 1}\n", "2: 're:gemm(': regular expressions are not supported"),
    ("kernels:\n- match: a\n  launch: {dynamic_shared_bytes: 4}\n", "3: `launch` needs `threads_per_block`"),
    (
        "kernels:\n- match: a\n  launch: {threads_per_block: 2048}\n",
        "3: threads_per_block: expected a whole number from 1 to 1,024, got 2048",
    ),
    ("devices: [H1000]\n", "1: unknown device 'H1000'; "),
    ("require_archs: sm90\n", "1: 'sm90' is not an arch"),
    ("accept:\n- {rule: spill}\n", "2: `accept` needs `reason`"),
    ("accept:\n- {rule: spil, reason: r}\n", "2: unknown rule 'spil'; did you mean spill?"),
    ("accept:\n- {gap: unknown-spill, reason: r}\n", "2: unknown gap 'unknown-spill'; did you mean unknown-spills?"),
    ("accept:\n- {gap: interleaved, reason: r}\n", "2: unknown gap 'interleaved'; see `spillscan explain`"),
    ("accept: {gap: unreadable}\n", "1: accept: expected a list, got a mapping"),
    ("accept:\n- {reason: r}\n", "2: an `accept` entry needs either `rule` or `gap`"),
    ("accept:\n- {rule: spill, gap: truncated, reason: r}\n", "2: an `accept` entry needs either `rule` or `gap`"),
    ("accept:\n- rule: spill\n  reason: r\n  until: soon\n", "4: until: expected a day such as 2030-01-31, got 'soon'"),
    ("accept:\n- {rule: spill, reason: r, match: x}\n", "2: unknown key 'match'; use one of reason"),
    ("renamed:\n  'a*': b\n", "2: 'a*' and 'b' must be two names with the same number of stars"),
    ("renamed: [a]\n", "1: renamed: expected a mapping, got a list"),
    ("labels: {gemm: [relu]}\n", "1: unknown key 'labels'; the keys are max_spill_bytes, "),
    ("version: 2\n", "1: version: expected 1, got 2"),
    ("- a\n", "1: expected a mapping, got a list"),
    ("just words\n", "1: expected a mapping, got 'just words'"),
    ("kernels: [a\n", "2: invalid YAML: "),
    ("a: 1\n---\nb: 2\n", "2: second YAML document"),
    ("a: &x 1\nb: *x\n", "1: YAML anchors and aliases are not supported"),
    ("max_registers: !!python/object:os.system 1\n", "1: '1' is not a valid python/object"),
    ("max_registers: " + "9" * 5000, "1: max_registers: expected a whole number ≥ 0 or none, got inf"),
    ("[" * 30 + "]" * 30, "1: nested too deeply"),
    ("é: 1\n", "1: unknown key 'é'"),
]


@pytest.mark.parametrize(("text", "line"), MISTAKES, ids=lambda value: repr(value[:40]))
def test_a_mistake_is_one_line_with_its_place(text: str, line: str) -> None:
    with pytest.raises(UsageError) as error:
        layer(parse_yaml(text, "p.yaml"))
    assert str(error.value).startswith(f"p.yaml:{line}")
    assert "\n" not in str(error.value)


OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"texts": {"max_registers": "x"}}, "--set: max_registers: expected a whole number ≥ 0 or none, got 'x'"),
    ({"texts": {"max_registers": "9" * 19}}, "--set: max_registers: expected a whole number ≥ 0 or none, got '99"),
    ({"texts": {"max_registers": "9" * 40}}, "--set: max_registers: expected a whole number ≥ 0 or none, got '99"),
    ({"texts": {"max_registers": "²"}}, "--set: max_registers: expected a whole number ≥ 0 or none, got '²'"),
    ({"texts": {"devices": "sm_90,H1000"}}, "--device: unknown device 'H1000'"),
    ({"severities": ["spill"]}, "--severity: 'spill' has no level; write RULE=LEVEL, such as spill=warning"),
    ({"severities": ["spil=off"]}, "--severity: unknown rule 'spil'; did you mean spill?"),
    ({"severities": ["spill=none"]}, "--severity: unknown severity 'none'; did you mean note?"),
    ({"accepted": ["truncatd"]}, "--accept: unknown rule or gap 'truncatd'; did you mean truncated?"),
    ({"accepted": ["foo"]}, "--accept: unknown rule or gap 'foo'; see `spillscan explain`"),
    ({"renamed": ["*=two"]}, "--rename: '*' and 'two' must be two names with the same number of stars"),
    ({"renamed": ["alpha"]}, "--rename: 'alpha' and '' must be two names"),
]


@pytest.mark.parametrize(("given", "line"), OPTIONS, ids=lambda value: str(value)[:30])
def test_options_are_read_as_the_file_is(given: dict[str, Any], line: str) -> None:
    with pytest.raises(UsageError) as error:
        from_options(**{"texts": {}, **given})
    assert str(error.value).startswith(line)


def test_a_file_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "bad.yaml").write_bytes(b"fail_on: note\nb: \xff\n")
    (tmp_path / "endless.yaml").symlink_to("/dev/zero")
    for name, said in (
        ("none.yaml", "cannot read none.yaml: No such file or directory"),
        ("folder.yaml", "folder.yaml is a folder; expected a file"),
        ("bad.yaml", "bad.yaml:2: not UTF-8; save it as UTF-8"),
        ("endless.yaml", "endless.yaml is a device; expected a file"),
    ):
        with pytest.raises(UsageError) as error:
            load(Layer(), config=name, search=True)
        assert str(error.value) == said
    for name in ("spillscan.yml", "spillscan.yaml"):
        (tmp_path / name).touch()
        with pytest.raises(UsageError, match=r"spillscan\.yml is not read; rename it to spillscan\.yaml"):
            load(Layer(), config=None, search=True)


def test_the_file_has_every_limit_of_the_rules_with_its_default() -> None:
    in_force = {limit.name: limit for rule in all_rules().values() for limit in rule.limits}
    assert sorted(in_force) == sorted(LIMITS)
    for name, limit in in_force.items():
        assert default_of(name) == limit.default, name


# ---- schema against reader --------------------------------------------------------------------------------------


def text() -> str:
    """The schema's file."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def test_the_schema_is_written() -> None:
    assert FILE.read_text(encoding="utf-8") == text()
    jsonschema_rs.meta.validate(json.loads(text()))


SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(["none", "error", "never", "off", "a*", "", "sm_90", "two\nlines", "1", "2030-01-31"]),
    st.integers(-1, 1025),
    st.sampled_from([0.5, 2**31 - 1, 2**31]),
    st.booleans(),
    st.none(),
)


def table(*known: str, **values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Mappings that are often right."""
    names = st.sampled_from([*known, *values, *values, *values, "max_register"])
    pairs = names.flatmap(lambda name: st.tuples(st.just(name), st.one_of(values.get(name, SCALARS), SCALARS)))
    return st.one_of(st.lists(pairs, max_size=5).map(dict), st.lists(pairs, max_size=5).map(dict), SCALARS)


LEVELS = table(**{rule: st.sampled_from(["error", "off"]) for rule in all_rules()})
LAUNCH = table("cluster_blocks", "override", threads_per_block=st.integers(1, 1024))
ENTRY = table(*LIMITS, "unit", match=st.just("gemm*"), arch=st.just(["sm_9*"]), launch=LAUNCH, severity=LEVELS)
ACCEPT = table("until", "kernel", rule=st.just("spill"), reason=st.just("r"))
DOCUMENTS = table(
    *(name for name in KEYS if name not in ("devices", "require_archs")),
    version=st.just(1),
    devices=st.just(["H100"]),
    severity=LEVELS,
    kernels=st.lists(ENTRY, max_size=2),
    accept=st.lists(ACCEPT, max_size=2),
)
VALIDATOR = validator(FILE)


def noded(value: Any, place: str = "file:1") -> Node:
    """A document as the parser gives it."""
    if isinstance(value, dict):
        return Node({key: noded(each, place) for key, each in value.items()}, place)
    return Node([noded(each, place) for each in value] if isinstance(value, list) else value, place)


@given(DOCUMENTS)
def test_the_schema_accepts_all_that_the_reader_accepts(document: Any) -> None:
    try:
        layer(noded(document))
    except UsageError as error:
        assert str(error).startswith("file:1: ")  # noqa: PT017 - most documents are wrong
    else:
        assert VALIDATOR.is_valid(document)


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
