"""Files are written only where asked: whole or not at all, and never through a link out of their folder."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from spillscan.commands import build_parser
from spillscan.output.errors import UsageError
from spillscan.reports import formats, render
from spillscan.reports.render import check_forms
from tests.conftest import FIXTURES, run
from tests.reporting import kernel, report_of

LOG = FIXTURES / "demo" / "head.log"
REPORT = report_of("check", [kernel("k", spills=8)])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout as the current folder, and a place outside of it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "checkout").mkdir()
    monkeypatch.chdir(tmp_path / "checkout")
    return tmp_path / "checkout"


def written(*forms: str) -> None:
    render.write(REPORT, forms, None)


def test_several_reports_in_one_run(folder: Path) -> None:
    result = run("check", LOG, "-f", "sarif:a.sarif", "-f", "github", "-f", "markdown:b.md", cwd=folder)
    assert result.returncode == 1
    assert result.stdout.startswith(b"::error ")
    assert (folder / "a.sarif").read_text().startswith('{"$schema"')
    assert "2 findings" in (folder / "b.md").read_text()
    assert sorted(path.name for path in folder.iterdir()) == ["a.sarif", "b.md"]


def test_plus_appends(folder: Path) -> None:
    (folder / "summary.md").write_text("# Build\n")
    written("markdown:+summary.md")
    written("markdown:+summary.md")
    text = (folder / "summary.md").read_text()
    assert text.startswith("# Build\n### ❌ spillscan: 1 finding")
    assert text.count("<!-- spillscan -->") == 2
    written("markdown:./+summary.md")
    assert (folder / "+summary.md").exists(), "a file whose name begins with a plus"


def test_existing_files_are_replaced_whole(folder: Path) -> None:
    (folder / "a.json").write_text("x" * 100_000)
    written("json:a.json")
    assert (folder / "a.json").read_text().startswith('{"schema_version"')
    assert stat.S_IMODE((folder / "a.json").stat().st_mode) == 0o666 & ~_mask()


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_failure_writes_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.json").write_text("old")
    (folder / "s.md").write_text("old")

    def breaks(report: object, style: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(formats.all_formats()["sarif"], "render", breaks)
    with pytest.raises(ZeroDivisionError):
        written("json:a.json", "markdown:+s.md", "sarif:b.sarif")
    with pytest.raises(UsageError, match=r"cannot write missing/c\.csv"):
        written("json:a.json", "markdown:+s.md", "csv:missing/c.csv")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"a.json": "old", "s.md": "old"}


def test_a_link_out_of_the_folder_is_refused(folder: Path) -> None:
    outside = folder.parent / "outside"
    (outside / "aim").write_text("old")
    (folder / "file").symlink_to(outside / "aim")
    (folder / "gone").symlink_to(outside / "new")
    (folder / "reports").symlink_to(outside)
    (folder / "sub").mkdir()
    (folder / "sub" / "up").symlink_to("../..")
    for name in ("file", "gone", "reports/x", f"{folder}/file", "sub/up/outside/x", "./reports/x"):
        for form in (f"json:{name}", f"json:+{name}"):
            with pytest.raises(UsageError, match="is a link to"):
                written(form)
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"aim": "old"}


def test_a_link_inside_the_folder_is_followed(folder: Path) -> None:
    (folder / "latest.json").symlink_to("build-1.json")
    (folder / "here").symlink_to(".")
    written("json:latest.json")
    written("csv:here/a.csv")
    assert (folder / "latest.json").is_symlink()
    assert (folder / "build-1.json").read_text().startswith("{")
    assert (folder / "a.csv").exists()


def test_folders_that_the_user_names_are_written_to(folder: Path) -> None:
    (folder.parent / "link").symlink_to(folder.parent / "outside")
    written(f"json:{folder.parent}/link/a.json")
    written("json:../outside/b.json")
    assert {path.name for path in (folder.parent / "outside").iterdir()} == {"a.json", "b.json"}


def test_devices_and_open_pipes_are_written_to_not_replaced() -> None:
    written("json:/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    end, begin = os.pipe()
    read: list[bytes] = []
    with os.fdopen(end, "rb") as stream:
        reader = threading.Thread(target=lambda: read.append(stream.read()))
        reader.start()
        written(f"csv:/dev/fd/{begin}")
        os.close(begin)
        reader.join(timeout=30)
    assert read[0].startswith(b"rule,severity")


def test_pipes_and_folders_are_refused_not_replaced(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(UsageError, match=r"^pipe is a FIFO; expected a file"):
        written("csv:pipe")
    assert stat.S_ISFIFO((folder / "pipe").stat().st_mode)
    with pytest.raises(UsageError):
        written(f"json:{folder}")


@pytest.mark.parametrize(
    ("forms", "wrong"),
    [
        (["yaml"], "unknown format 'yaml'"),
        (["json:"], "has no file name"),
        (["json:+"], "has no file name"),
        (["json", "text"], "two formats for standard output"),
        (["json:a", "csv:./a"], "two formats for"),
    ],
)
def test_wrong_forms(forms: list[str], wrong: str) -> None:
    with pytest.raises(UsageError, match=wrong):
        check_forms(forms, "check")


@pytest.mark.parametrize("kind", ["scan", "check", "diff"])
def test_suggested_forms_work(kind: Any) -> None:
    with pytest.raises(UsageError) as refused:
        check_forms(["yaml"], kind)
    for name in refused.value.hint.removeprefix("use one of ").split(", "):
        assert kind in formats.of_name(name).KINDS


def test_scan_has_no_findings_to_report(folder: Path) -> None:
    for name, module in formats.all_formats().items():
        if "scan" not in module.KINDS:
            result = run("scan", LOG, "-f", name, cwd=folder)
            assert result.returncode == 2
            assert f"`scan` has no output format {name}" in result.stderr.decode()
            assert result.stdout == b""


def test_help_names_every_format() -> None:
    for command in ("scan", "check", "diff"):
        (commands,) = (each for each in build_parser(command)._actions if each.choices)
        assert commands.choices
        text = commands.choices[command].format_help()
        for name, module in formats.all_formats().items():
            assert (name in text) is (command in module.KINDS)
            assert module.HELP
            assert set(module.KINDS) <= {"scan", "check", "diff"}
