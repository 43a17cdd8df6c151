"""Gaps of a run file, and the kernels of its reports: one fact per row."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from spillscan import scan
from spillscan.builds import gaps
from spillscan.builds.pieces import code_of
from spillscan.builds.record import BuildRecord, Call, Output, Run, decoded, encoded
from spillscan.cli import main
from spillscan.output.errors import InputError
from tests.builds.made import call, run_file
from tests.conftest import FIXTURES, read_text

REPORT = read_text(FIXTURES / "ptxas" / "plain-13.5.log")
WORDS = ("nvcc", "-arch=sm_80", "-c", "a.cu", "-o", "a.o")
OTHER_OUTPUT = ("nvcc", "-arch=sm_80", "-c", "a.cu", "-o", "b.o")
SAME = hashlib.sha256(b"same").hexdigest()
CODE = b"\x50\xed\x55\xba\1\0\x10\0" + (4).to_bytes(8, "little")
CALLS = yaml.safe_load((Path(__file__).parent / "gaps.yaml").read_text(encoding="utf-8"))
MISSING = "later steps may be missing"
RUNS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "well": ({"status": 0}, []),
    "failed": ({"status": 2}, [f"`make` ended with exit status 2: {MISSING}"]),
    "killed": ({"status": -9}, [f"`make` ended with signal 9: {MISSING}"]),
    "lost": ({"kept": "/nowhere"}, [f"`make` did not finish: {MISSING}"]),
}


def said(build: BuildRecord) -> list[str]:
    return [f"{each.code}: {each.message}" for each in gaps.issues(build, "r.json") if each.severity == "error"]


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made, expected = CALLS[name]
    made = [(line.split(), status) for line, status in made]
    calls = tuple(
        call(
            tmp_path,
            words,
            began_ns=n,
            status=status,
            sources=[each for each in words if each == "a.cu"],
            wrote=[each for each in words if each.endswith(".o") and status == 0],
        )
        for n, (words, status) in enumerate(made)
    )
    assert said(BuildRecord(calls=calls)) == expected


@pytest.mark.parametrize("name", RUNS)
def test_runs(name: str) -> None:
    more, expected = RUNS[name]
    run = Run(command=("make",), folder="/b", **more)
    assert said(BuildRecord(runs=(run,), calls=(call(Path("/b"), WORDS),))) == [
        f"build-incomplete: {each}" for each in expected
    ]


def test_a_run_file_without_calls_and_outputs_is_a_gap() -> None:
    assert said(BuildRecord()) == ["build-incomplete: `spillscan run` saw no compilation"]


@pytest.mark.parametrize(
    ("digest", "text", "watched", "is_stale"),
    [
        (SAME, "same", ".", False),
        (SAME, None, "gone", False),
        (SAME, None, ".", True),
        (SAME, "other", ".", True),
        (SAME, "other", "gone", True),
        ("", "same", ".", True),
    ],
    ids=["as it was", "another checkout", "deleted", "edited", "edited elsewhere", "edited during the compilation"],
)
def test_headers(
    digest: str, text: str | None, watched: str, is_stale: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "h.cuh").write_text(text)
    compiled = call(tmp_path, WORDS, sources=("a.cu",), files={str(tmp_path / "h.cuh"): digest})
    build = BuildRecord(calls=(compiled,), watched=(str(tmp_path / watched),))
    assert said(build) == ["stale-unit: h.cuh changed after a.cu was compiled"] * is_stale


@pytest.mark.parametrize(
    ("data", "more", "gap"),
    [
        (CODE + b"same", {}, ""),
        (b"host" + CODE + b"same", {}, ""),
        (CODE + b"else", {}, "changed-input: x.o was changed after the build"),
        (None, {}, "changed-input: x.o was deleted, and its GPU code is in no other output"),
        (None, {"linked": True}, ""),
    ],
    ids=["as it was", "other host code", "changed", "gone", "gone, but the linker's"],
)
def test_outputs(
    data: bytes | None, more: dict[str, Any], gap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x.o"
    path.write_bytes(CODE + b"same")
    output = Output(path=str(path), entry=(0, 0, 0), pieces=code_of(str(path)).pieces, **more)
    path.unlink()
    if data is not None:
        path.write_bytes(data)
    assert said(BuildRecord(calls=(call(tmp_path, WORDS),), outputs=(output,))) == ([gap] if gap else [])
    seen = call(tmp_path, WORDS, pieces=output.pieces)
    if data is None:
        assert said(BuildRecord(calls=(seen,), outputs=(output,))) == []


def test_reports_of_good_calls_count(tmp_path: Path) -> None:
    good = call(tmp_path, WORDS, sources=("a.cu",), report=REPORT)
    bad = call(tmp_path, OTHER_OUTPUT, began_ns=2, status=1, report=REPORT)
    build = scan(run_file(tmp_path / "any name.json", good, bad))
    assert len(build.kernels) == len(scan(FIXTURES / "ptxas" / "plain-13.5.log").kernels) > 0
    for kernel in build.kernels:
        assert Path(kernel.source).name == "a.cu"
        assert [origin.line for origin in kernel.origins] == [None]
    assert [(Path(unit.source).name, unit.done) for unit in build.units] == [("a.cu", True), ("a.cu", False)]


def test_an_older_build_may_have_changed_since(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.cu").write_text("other")
    for name, files in (("old", {str(tmp_path / "a.cu"): SAME}), ("new", {})):
        run_file(tmp_path / name, call(tmp_path, WORDS, sources=("a.cu",), files=files, report=REPORT))
    assert main(["diff", "old", "new", "--fail-on", "policy"]) == 0
    assert "stale-unit" not in "".join(capsys.readouterr())
    for words, status in (([], 0), (["--fail-on", "policy"], 2)):
        assert main(["diff", "new", "old", *words]) == status
        assert "stale-unit" in "".join(capsys.readouterr())


def test_a_removed_kernel_gives_one_answer_for_every_run_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    run_file(tmp_path / "full.json", call(tmp_path, WORDS, sources=("a.cu",), report=REPORT))
    assert main(["baseline", "write", "full.json", "-o", "base.jsonl"]) == 0
    fewer = call(tmp_path, WORDS, sources=("a.cu",), report=REPORT[: REPORT.rindex("ptxas info    : Compiling")])
    answers = set()
    for name in ("spillscan-build.json", "other.txt", "sub/spillscan-build.json"):
        run_file(tmp_path / name, fewer)
        capsys.readouterr()
        status = main(["check", name, "--baseline", "base.jsonl"])
        answers.add((status, "".join(capsys.readouterr()).replace(name, "RUN")))
    assert len(answers) == 1
    assert "removed" in answers.pop()[1]


@pytest.mark.parametrize(("glob", "status"), [("build/a.o", 1), ("build/*", 1), ("a.o", 0), ("*/build/a.o", 0)])
@pytest.mark.parametrize("folder", [".", "build", "build/deep", "src"])
def test_the_current_folder_changes_no_unit(
    folder: str, glob: str, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in (".git", "build/deep", "src"):
        (tmp_path / each).mkdir(parents=True)
    (tmp_path / "spillscan.yaml").write_text(f"kernels: [{{unit: '{glob}', max_registers: 1}}]")
    run = run_file(tmp_path / "run.json", call(tmp_path, WORDS, report=REPORT, wrote=("build/a.o",)))
    monkeypatch.chdir(tmp_path / folder)
    assert main(["check", str(run)]) == status


def test_a_run_file_survives_its_text() -> None:
    made = call(Path("/b"), WORDS, files={"/b/a.cu": SAME, "/b/h.cuh": ""})
    build = BuildRecord(
        runs=(Run(command=("make",), folder="/b", status=2),),
        watched=("/b", "/\udcff"),  # a name that is no UTF-8
        calls=(made, Call(began_ns=2, command=("nvcc",), folder="/b")),
    )
    assert decoded(encoded(build).encode(), "r.json") == build
    assert decoded(json.dumps(json.loads(encoded(build)), indent=2).encode(), "r.json") == build


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format":"spillscan build 3","command":[]}', "is not a run file of this release"),
        ('{"format":"spillscan build 5","calls":[{}]}', "is not a valid run file"),
        ('{"format":"spillscan build 5","calls":', "is not a valid run file"),
    ],
)
def test_a_run_file_that_is_none(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        decoded(text.encode(), "r.json")
