"""A snapshot that is not what was written is one clear line, never a figure and never a traceback."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from spillscan import scan
from spillscan.cli import main
from spillscan.model import Issue
from spillscan.model.gaps import EVERYTHING
from spillscan.model.serialize import build_of
from spillscan.output.errors import InputError
from tests.conftest import FIXTURES, issue_to_json, kernel_to_json, run

SOUND: dict[str, Any] = {
    "schema_version": 1,
    "kernels": [kernel_to_json(kernel) for kernel in scan(FIXTURES / "ptxas" / "spill-13.5.log").kernels[:2]],
    "issues": [],
}
KERNEL = ("kernels", 1)
WRONG: list[tuple[tuple[str | int, ...], Any]] = [
    *(((*KERNEL, "usage", "registers"), value) for value in (float("nan"), 24.0, "24", -1, True, [24], {})),
    *(((*KERNEL, "usage", "spill_store_bytes"), value) for value in (float("nan"), 0.0, "0", -8, False)),
    ((*KERNEL, "compile_ms"), float("inf")),
    ((*KERNEL, "usage", "constant_bytes"), {"zero": 1}),
    ((*KERNEL, "usage", "constant_bytes"), {"0": -1}),
    ((*KERNEL, "usage"), None),
    ((*KERNEL, "role"), "kernel"),
    ((*KERNEL, "confidence"), "sure"),
    ((*KERNEL, "final"), 1),
    ((*KERNEL, "symbol"), None),
    ((*KERNEL, "symbol"), "half \udc80"),
    ((*KERNEL, "reasons"), "none"),
    ((*KERNEL, "launch_bounds"), {"max_threads": 0, "required_threads": None}),
    ((*KERNEL, "launch"), {"threads_per_block": 0}),
    ((*KERNEL, "advisories"), [{"kind": "x", "text": "y", "severity": "grave", "code": None, "location": None}]),
    (KERNEL, 5),
    (("kernels",), {}),
    (("issues",), [{"code": "truncated", "severity": "grave", "message": "m", "origin": None}]),
    (("issues",), [{"code": "truncated", "severity": "error", "message": "m", "hides": ["figures"]}]),
    (("stats",), {"lines": 1.5}),
    (("schema_version",), "1"),
]


def changed(path: tuple[str | int, ...], value: Any) -> str:
    """The sound snapshot with one other value."""
    document = copy.deepcopy(SOUND)
    place: Any = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return json.dumps(document)


@pytest.mark.parametrize(("path", "value"), WRONG, ids=lambda each: str(each)[:60])
def test_a_wrong_value_is_refused(
    path: tuple[str | int, ...], value: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = tmp_path / "build.json"
    snapshot.write_text(changed(path, value), encoding="utf-8")
    for command in ("scan", "check"):
        assert main([command, str(snapshot)]) == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert "is not a valid snapshot: " in output.err
        assert output.err.count("\n") == 1


@pytest.mark.parametrize("text", ["[" * 200_000, "", '"kernels": [', '"kernels": [}'])
def test_invalid_json_is_refused(text: str, tmp_path: Path) -> None:
    snapshot = tmp_path / "build.json"
    snapshot.write_text('{"schema_version": 1, "more": ' + text, encoding="utf-8")
    with pytest.raises(InputError, match="not a valid snapshot"):
        scan(snapshot)


def test_another_version_is_named() -> None:
    with pytest.raises(ValueError, match="schema version 2, but this spillscan reads version 1"):
        build_of(b'{"schema_version": 2, "kernels": {}}')


def test_hidden_data_of_an_issue_is_kept() -> None:
    issues = (
        Issue(code="truncated", message="m"),
        Issue(code="truncated", message="m", hides=("spills",), symbol="k"),
        Issue(code="truncated", message="m", hides=()),
    )
    written = [issue_to_json(issue) for issue in issues]
    assert [each["hides"] for each in written] == [list(issue.hidden) for issue in issues]
    assert build_of(json.dumps(SOUND | {"issues": written}).encode()).issues == issues


def test_an_issue_of_an_unknown_kind_may_hide_anything() -> None:
    unknown = {"code": "of-a-later-version", "severity": "error", "message": "m"}
    harmless = unknown | {"severity": "note"}
    found = build_of(json.dumps(SOUND | {"issues": [unknown, harmless]}).encode())
    assert [issue.hidden for issue in found.issues] == [EVERYTHING, ()]


def test_lost_records_of_a_snapshot_are_noticed() -> None:
    written = {**SOUND, "tool_version": "1", "stats": {"kernels": 2}}
    assert len(build_of(json.dumps(written).encode()).kernels) == 2
    for lost in ({"issues": None}, {"stats": None}, {"kernels": SOUND["kernels"][:1]}):
        with pytest.raises(ValueError, match=r"missing key|only 1 of 2 kernels"):
            build_of(json.dumps({**written, **lost}).encode())


@pytest.mark.parametrize("form", ["text", "json", "sarif", "junit", "markdown", "github", "html"])
def test_a_kind_of_gap_that_a_newer_release_found_is_one(tmp_path: Path, form: str) -> None:
    log = FIXTURES / "failures" / "ninja-syntax-13.0.log"
    document = json.loads(run("scan", log, "-f", "json").stdout)
    for issue in document["issues"]:
        issue["code"] = "not-yet-known"
    (tmp_path / "build.json").write_text(json.dumps(document))
    result = run("check", tmp_path / "build.json", "-f", form)
    assert result.returncode == 2
    assert b"[not-yet-known]" in (result.stdout if form == "text" else result.stderr)
    assert b"unexpected" not in result.stderr


@pytest.mark.parametrize("command", ["scan", "check"])
def test_a_selection_is_no_whole_build(command: str, tmp_path: Path) -> None:
    part, whole = tmp_path / "part.json", tmp_path / "whole.json"
    log = "fixtures/demo/base.log"
    assert run(command, log, "--kernel", "rotate", "-f", f"json:{part}").returncode == 0
    assert run(command, log, "--kernel", "*", "-f", f"json:{whole}").returncode == 0
    assert run("check", whole).returncode == 0
    done = run("check", part)
    assert done.returncode == 2
    assert b"the snapshot contains only 2 of 10 kernels [selected-kernels]" in done.stdout
    assert run("check", part, "--accept", "selected-kernels").returncode == 0
    assert b"[selected-kernels]" in run("diff", part, log, "--fail-on", "policy").stdout
