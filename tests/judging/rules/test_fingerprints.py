"""One finding has one fingerprint: in every checkout, in every report, and as a baseline sees its kernel."""

from __future__ import annotations

import json
from collections import Counter
from itertools import permutations
from pathlib import Path

import pytest
from msgspec.structs import replace

from spillscan import scan
from spillscan.judging import rules
from spillscan.judging.baseline.file import identity_of
from spillscan.judging.policy.effective import Policy
from spillscan.judging.policy.reading import from_options
from spillscan.model import Build, Finding, Kernel
from tests.conftest import FIXTURES, run
from tests.reporting import kernel

STRICT = Policy((from_options({"max_registers": "1"}),))
"""Every kernel breaks it."""
ONE = "_ZN39_GLOBAL__N__11111111_4_a_cu_aaaaaaaa1kEv"
TWO = "_ZN39_GLOBAL__N__00000000_4_b_cu_bbbbbbbb1kEv"


def log(name: str) -> str:
    return str(FIXTURES / "identity" / f"{name}-13.0.log")


def checked(*kernels: Kernel) -> tuple[Finding, ...]:
    return rules.check(Build(kernels=kernels), STRICT).findings


@pytest.mark.parametrize("other", ["there", "here-rdc", "there-rdc"])
def test_checkouts_and_relocatable_code_have_equal_fingerprints(other: str) -> None:
    here, there = (checked(*scan([log(name)]).kernels) for name in ("here", other))
    assert {finding.kernel.key.symbol for finding in here} != {finding.kernel.key.symbol for finding in there}
    mine, theirs = ([finding.fingerprint for finding in found] for found in (here, there))
    assert len(set(mine)) == len(mine) > 20
    assert set(mine) == set(theirs)


def test_a_baseline_tells_findings_apart_as_fingerprints_do() -> None:
    found = checked(*scan([log("here")]).kernels)
    by_fingerprint = Counter(finding.fingerprint.partition(":")[0] for finding in found)
    by_identity = Counter((finding.rule, identity_of(finding.kernel)) for finding in found)
    assert sorted(by_fingerprint.values()) == sorted(by_identity.values())
    assert max(by_identity.values()) > 1, "lambdas of one function are there"


def test_reports_agree(tmp_path: Path) -> None:
    formats = ("json", "sarif", "gitlab")
    options = [word for name in formats for word in ("-f", f"{name}:{tmp_path / name}")]
    run("check", log("here"), "--set", "max_registers=1", *options)
    plain, sarif, gitlab = (json.loads((tmp_path / name).read_text(encoding="utf-8")) for name in formats)
    expected = [finding["fingerprint"] for finding in plain["findings"]]
    results = sarif["runs"][0]["results"]
    assert [result["partialFingerprints"]["primaryLocationLineHash"] for result in results] == expected
    assert [entry["fingerprint"] for entry in gitlab] == expected


def test_same_named_kernels_are_numbered_by_file() -> None:
    first, second = kernel(ONE, registers=40), kernel(TWO, registers=50)
    for kernels in permutations((first, second)):
        numbers = {finding.kernel.key.symbol: finding.fingerprint for finding in checked(*kernels)}
        assert numbers[TWO] == f"{numbers[ONE]}:2"
    heavier = replace(first, usage=replace(first.usage, registers=90))
    assert {f.fingerprint for f in checked(heavier, second)} == {f.fingerprint for f in checked(first, second)}


def test_objects_do_not_count_if_names_decide() -> None:
    (known,) = checked(kernel("_Z1kv", unit="/here/build/k.o"))
    (unknown,) = checked(kernel("_Z1kv"))
    assert known.fingerprint == unknown.fingerprint == "57c947e4c1c0d7a11234465f222fc614", "services know it already"


def test_rule_arch_and_role_do_count() -> None:
    entry, other = kernel("_Z1kv"), kernel("_Z1kv", arch="sm_80")
    function = kernel("_Z1kv", spills=8, role="function")
    spilling = replace(entry, usage=function.usage)
    found = checked(entry, other, function, spilling)
    assert len({finding.fingerprint.partition(":")[0] for finding in found}) == 5
    assert not any(finding.fingerprint.endswith(":3") for finding in found)
