"""The JSON Schema accepts what the reader accepts. ``python -m tests.judging.policy.test_schema`` writes it anew."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
from hypothesis import given
from hypothesis import strategies as st

from spillscan.judging.policy.keys import FILES, LAUNCH_KEYS, LEVELS, OVERRIDE, keys
from spillscan.judging.policy.reading import layer
from spillscan.judging.rules import all_rules
from spillscan.model.nodes import Node, parse_yaml
from spillscan.output.errors import UsageError
from tests.conforming import validator
from tests.conftest import ROOT
from tests.judging.policy.schema import schema

FILE = ROOT / "spillscan" / "model" / "schema" / "policy.schema.json"
VALIDATOR = validator(FILE)
KEYS = keys()
RULES = tuple(all_rules())


def text() -> str:
    """The schema's file."""
    return json.dumps(schema(list(all_rules().values())), indent=2, ensure_ascii=False) + "\n"


def test_the_file_is_what_the_keys_say() -> None:
    assert FILE.read_text(encoding="utf-8") == text()


def test_the_schema_is_one() -> None:
    jsonschema_rs.meta.validate(json.loads(text()))


# ---- schema against reader ----------------------------------------------------------------------------------------

SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(["none", "error", "never", "off", "a*", "", "sm_90", "two\nlines", "1"]),
    st.integers(-1, 5),
    st.sampled_from([0.0, 1.5, 2.0, 1024, 1025, 2**31 - 1, 2**31]),
    st.booleans(),
    st.none(),
)
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=2), st.dictionaries(st.sampled_from(["spill", "x"]), SCALARS))


def table(known: list[str], values: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """Mappings that are often right, with a wrong key or value now and then."""
    keys = st.sampled_from([*known, *known, *known, "version", "max_register"])
    pairs = keys.flatmap(lambda key: st.tuples(st.just(key), st.one_of(values.get(key, VALUES), VALUES)))
    return st.one_of(st.lists(pairs, max_size=4).map(dict), st.lists(pairs, max_size=4).map(dict), VALUES)


GOOD: dict[str, st.SearchStrategy[Any]] = {
    name: {
        "limit": st.one_of(st.integers(0, 300), st.just("none")),
        "count": st.integers(0, 9),
        "flag": st.booleans(),
        "choice": st.sampled_from([*key.choices, "error"]),
        "names": st.one_of(st.just("H100"), st.just(["sm_90", "A100"])),
        "path": st.just("baseline.yaml"),
    }[key.kind]
    for name, key in KEYS.items()
    if key.kind != "files"
}
GOOD["severity"] = table(list(RULES), {rule: st.sampled_from(LEVELS) for rule in RULES})
FIGURES = {name: st.integers(*span) for name, span in LAUNCH_KEYS.items()}
GOOD["launch"] = table([*LAUNCH_KEYS, OVERRIDE], {**FIGURES, OVERRIDE: st.booleans()})
for selector in ("match", "arch", "unit"):
    GOOD[selector] = st.one_of(st.just("gemm*"), st.just(["a", "b"]))
GOOD["reason"] = st.just("because")
GOOD["files"] = st.lists(table(["match", "match", "match", "reason", *FILES], GOOD), max_size=3)
ENTRIES = table(
    ["match", "match", "arch", "unit", "severity", "launch", "reason", *(k for k, v in KEYS.items() if v.per_kernel)],
    GOOD,
)
GOOD["kernels"] = st.lists(ENTRIES, max_size=3)
GOOD["labels"] = st.dictionaries(
    st.sampled_from(["gemm", "ns::gemm"]), st.lists(st.sampled_from(["relu", "", "a b"]), max_size=3)
)
GOOD["version"] = st.sampled_from([1, 1, 2])
DOCUMENTS = table([*KEYS, "severity", "kernels", "labels", "version"], GOOD)


def noded(value: Any) -> Node:
    """Plain values as a reader would give them."""
    if isinstance(value, dict):
        return Node({key: noded(item) for key, item in value.items()}, "f:1")
    if isinstance(value, list):
        return Node([noded(item) for item in value], "f:1")
    return Node(value, "f:1")


def accepted(document: Any) -> bool:
    """Whether the reader takes it."""
    try:
        layer(noded(document))
    except UsageError:
        return False
    return True


@given(DOCUMENTS)
def test_schema_and_reader_agree(document: Any) -> None:
    assert VALIDATOR.is_valid(document) == accepted(document)


@given(ENTRIES)
def test_schema_and_reader_agree_on_entries(entry: Any) -> None:
    document = {"kernels": [entry]}
    assert VALIDATOR.is_valid(document) == accepted(document)


def test_every_key_is_accepted_by_both() -> None:
    document = {
        "version": 1,
        **{
            name: {"limit": 1, "count": 1, "flag": True, "names": ["H100"], "path": "b"}.get(
                key.kind, [*key.choices, ""][0]
            )
            for name, key in KEYS.items()
        },
        "driver_release": "12.4",
        "files": [{"match": "*.so", "require_archs": "sm_80", "max_file_bytes": 2**40, "driver_release": "13.0"}],
        "severity": dict.fromkeys(RULES, "off"),
        "labels": {"gemm": ["", None, "relu"]},
        "kernels": [
            {
                "match": ["re:gemm.*", "a"],
                "arch": "sm_90*",
                "unit": "*.o",
                "reason": "why",
                "severity": {"spill": "note"},
                "launch": {OVERRIDE: True, **{name: span[0] for name, span in LAUNCH_KEYS.items()}},
                **{
                    name: [*key.choices, "none"][-1 - bool(key.choices)] for name, key in KEYS.items() if key.per_kernel
                },
            }
        ],
    }
    VALIDATOR.validate(document)
    assert accepted(document)
    assert parse_yaml(json.dumps(document), "f").plain == document


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
