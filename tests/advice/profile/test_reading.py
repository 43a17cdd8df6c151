"""Launches read from CSV of Nsight Compute: equal to an independent reading, or refused in one line."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from math import prod
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillscan.advice.profile.launches import ProfiledLaunch, read, read_profiles
from spillscan.output.errors import InputError, SpillscanError
from spillscan.reading.inputs.paths import expand
from spillscan.reading.inputs.source import Stream
from tests.advice.profile import naive
from tests.conftest import FIXTURES, manifest, read_text

FILES = [entry["file"] for entry in manifest() if entry["format"] == "ncu"]
ROUNDED = {"dynamic_shared_bytes"}
RAW, LONG = (read_text(FIXTURES / "ncu" / f"{name}.csv.zst") for name in ("live-raw", "demo-details"))


def launches(text: str | bytes) -> list[ProfiledLaunch]:
    data = text.encode() if isinstance(text, str) else text
    return read(Stream(io.BytesIO(data), "profile.csv"), "profile.csv", [])


def values(text: str | bytes) -> list[object]:
    return [(each.number, each.kernel, each.block, each.metrics) for each in launches(text)]


@pytest.mark.parametrize("file", FILES)
def test_each_launch_and_metric_equals_the_naive_reading(file: str) -> None:
    truth = naive.read(read_text(FIXTURES / file))
    found, _ = read_profiles(expand([str(FIXTURES / file)]))
    assert len(found) == len(truth) > 0
    for launch, ((_, number, kernel, block), metrics) in zip(found, truth.items(), strict=True):
        assert (launch.number, launch.kernel, launch.arch) == (number, kernel, "sm_90")
        assert launch.threads == prod(map(int, re.findall(r"\d+", block)))
        missing = metrics.keys() - launch.metrics.keys() - {"theoretical_percent"}  # only an oracle
        assert missing <= ROUNDED, "only a rounded size is left out"
        assert not missing or "details" in file
        both = metrics.keys() & launch.metrics.keys()
        assert {name: launch.metrics[name] for name in both} == pytest.approx({name: metrics[name] for name in both})


def test_the_naive_reading_covers_each_metric() -> None:
    read_by_it = {name for file in FILES for found in naive.read(read_text(FIXTURES / file)).values() for name in found}
    assert read_by_it == set(naive.RAW.values())


@pytest.mark.parametrize(
    ("form", "sizes"),
    [
        ("report-raw-base", [0, 16384, 102400, 4096]),
        ("report-raw", [0, 16384, 102400, 4096]),
        ("report-details", [0, None, None, None]),
    ],
)
def test_a_size_printed_with_two_decimals_of_a_kilobyte_is_unknown(form: str, sizes: list[int | None]) -> None:
    found, _ = read_profiles(expand([str(FIXTURES / "ncu" / f"{form}.csv.zst")]))
    assert [each.metrics.get("dynamic_shared_bytes") for each in found[3:7]] == sizes
    assert [each.launch is None for each in found[3:7]] == [size is None for size in sizes]


def _unended(text: str) -> str:
    lines = text.split("\n")
    begin = next(at for at, line in enumerate(lines) if line.startswith('"ID"'))
    return "\n".join(
        'a "quoted" word, 50%\r' + line if at in (begin, begin + 3) else line for at, line in enumerate(lines)
    )


def _odd_lines(text: str) -> str:
    odd = ['"quoted"', "7,8,9", "==ERROR", '"ID"', "", '""', "\x00", '"a","b"']
    lines = text.split("\n")
    return "\n".join([*odd, *lines[:8], *odd, *lines[8:], *odd])


@pytest.mark.parametrize("text", [RAW, LONG], ids=["raw", "details"])
@pytest.mark.parametrize(
    "change",
    [
        _unended,
        _odd_lines,
        lambda text: text.replace("\n", "\r\n"),
        lambda text: "\ufeff" + text[text.index('"ID"') :],
        lambda text: text.replace(" between ", " between\n", 1),
        lambda text: text.replace('"0",', '"0 {1; 2}",') if '"","","' in text else text,
    ],
    ids=["unended", "odd-lines", "crlf", "bom", "line-break", "instances"],
)
def test_text_around_a_table_changes_nothing(text: str, change: Callable[[str], str]) -> None:
    changed = change(text)
    if "{1; 2}" not in changed:
        assert values(changed) == values(text)


def test_tables_and_processes_are_kept_apart() -> None:
    assert len(launches(f"{RAW}\nthe program says so\n{RAW}")) == 2 * len(launches(RAW))
    rows = [line for line in LONG.split("\n") if line.startswith('"')]
    other = [line.replace('"529"', '"530"', 1) for line in rows[1:]]
    assert len(launches("\n".join(rows + other))) == 42


CUTS = [
    (RAW, '"register/thread"', '"furlong"', "has the unknown unit 'furlong'"),
    (RAW, '"Kernel Name"', '"Name"', "no column 'Kernel Name'"),
    (LONG, '"Metric Unit"', '"Unit"', "no column 'Metric Unit'"),
    (LONG, '"register/thread","16"', '"register/thread","sixteen"', "'sixteen' is not a number"),
    (LONG, '"register/thread","16"', '"register/thread","37,50"', "LC_ALL=C"),
    (LONG, '"register/thread","16"', '"register/thread","1.234,5"', "LC_ALL=C"),
    (LONG, '"Dynamic Shared Memory Per Block","byte/block"', '"Dynamic Shared Memory Per Block",""', "unit ''"),
    (RAW, '"","","","","","","","","","","",', '"9","","","","","","","","","","",', "the row of units is missing"),
    (RAW, '"outer::<unnamed>::hidden(float *, int)"', '""', "has no kernel name"),
    ('"ID","Kernel Name","x"\n"","",""\n"0","f"\n', "", "", ":3: this row has 2 cells, not 3"),
    ('"ID","Kernel Name","x"\n"","",""\n"0","f","1","2"\n', "", "", ":3: this row has 4 cells, not 3"),
    ('"ID","Kernel Name","x"\n"","",""\n"0","f', "", "", ":3: this row cannot be read"),
]


@pytest.mark.parametrize(("text", "old", "new", "said"), CUTS)
def test_a_damaged_table_is_refused_with_its_line(text: str, old: str, new: str, said: str) -> None:
    assert old in text
    with pytest.raises(InputError) as caught:
        launches(text.replace(old, new, 1))
    assert said in str(caught.value)
    assert re.match(r"profile.csv:\d+: [^\n]*$", str(caught.value))


def test_a_table_that_ends_inside_a_launch_is_refused() -> None:
    raw = RAW.rstrip("\n")
    for keep in range(raw.rindex("\n") + 20, len(raw) - 1, 400):
        with pytest.raises(InputError, match=r"profile.csv:\d+: this row"):
            launches(raw[:keep])
    rows = [line for line in LONG.split("\n") if line.startswith('"')]
    last = next(at for at in range(len(rows) - 1, 0, -1) if rows[at].split(",")[0] != rows[-1].split(",")[0])
    metrics = [at for at in range(last + 2, len(rows)) if '"","",""' not in rows[at]]
    for end in metrics[:-12:5]:
        with pytest.raises(InputError, match="the file is truncated"):
            launches("\n".join(rows[:end]) + "\n")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("x.ncu-rep", b"NVR\0" + bytes(range(256)), r"no launch in.*ncu -i .*x.ncu-rep --csv --page raw"),
        ("x.csv", b"==ERROR== ERR_NVGPUCTRPERM - no permission\n", "ERR_NVGPUCTRPERM"),
        ("x.csv", b"all is well\n", "no launch in"),
        ("x.csv", b"", "no launch in"),
    ],
)
def test_a_file_without_launches_is_refused(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_profiles(expand([str(tmp_path / name)]))


@given(data=st.data())
def test_damage_anywhere_is_read_or_refused_in_one_line(data: st.DataObject) -> None:
    text = bytearray("\n".join(LONG.split("\n")[:70]).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(text) - 1))
        text[place : place + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=6))
    refused = ""
    try:
        launches(bytes(text))
    except SpillscanError as error:
        refused = str(error)
    assert "\n" not in refused
