"""What is read of Nsight Compute's CSV: equal to an independent reading, or one clear line."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spillscan.advice.profile.exports import read_all
from spillscan.advice.profile.model import NotANumberError, Profile, decimals, factor, number
from spillscan.advice.profile.ncu import read
from spillscan.output.errors import InputError, SpillscanError
from spillscan.reading.inputs.source import Stream, expand
from tests.advice.profile import naive
from tests.conftest import FIXTURES, manifest, read_text

FILES = [entry["file"] for entry in manifest() if entry["format"] == "ncu"]


def profile_of(text: str | bytes) -> Profile:
    data = text.encode() if isinstance(text, str) else text
    return read(Stream(io.BytesIO(data), "profile.csv"), "profile.csv")


def refusal(text: str | bytes) -> str:
    with pytest.raises(InputError) as caught:
        profile_of(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(scope="module")
def raw() -> list[str]:
    """Lines of a raw page with the program's own output."""
    return read_text(FIXTURES / "ncu" / "live-raw.csv.zst").splitlines()


@pytest.fixture(scope="module")
def long() -> list[str]:
    """Lines of a details page."""
    return read_text(FIXTURES / "ncu" / "demo-details.csv.zst").splitlines()


@pytest.mark.parametrize("file", FILES)
def test_every_launch_and_figure_equals_the_naive_reading(file: str) -> None:
    truth = naive.read(read_text(FIXTURES / file))
    launches = read_all(expand([str(FIXTURES / file)])).launches
    assert len(launches) == len(truth) > 0
    for launch, ((process, number_, kernel), figures) in zip(launches, truth.items(), strict=True):
        assert (launch.process.split()[0], launch.number, launch.kernel) == (process, number_, kernel)
        assert launch.capability == (9, 0)
        assert launch.threads == figures.get("block_threads", launch.threads)
        for figure, value in figures.items():
            assert launch.measured.figure(figure) == pytest.approx(value, rel=1e-12), figure


def test_every_file_says_something_to_the_naive_reading() -> None:
    assert len(FILES) >= 20
    known = {
        figure for file in FILES for figures in naive.read(read_text(FIXTURES / file)).values() for figure in figures
    }
    assert known == set(naive.RAW.values())


def test_the_line_of_a_launch_is_where_its_row_begins(raw: list[str]) -> None:
    launches = profile_of("\n".join(raw)).launches
    assert [raw[(launch.origin.line or 0) - 1].split('","')[0] for launch in launches] == [
        f'"{number_}' for number_ in range(11)
    ]


def test_two_processes_with_equal_ids_stay_two_launches(long: list[str]) -> None:
    rows = [line for line in long if line.startswith('"')]
    other = [line.replace('"529"', '"530"', 1) for line in rows[1:]]
    profile = profile_of("\n".join(rows + other))
    assert len(profile.launches) == 42
    assert len({(launch.process, launch.number) for launch in profile.launches}) == 42


def test_a_second_table_of_the_same_input_is_read_too(raw: list[str]) -> None:
    assert len(profile_of("\n".join([*raw, "the program says so", "==PROF== Connected", *raw])).launches) == 22


def test_the_programs_lines_pass_even_where_they_look_odd(raw: list[str]) -> None:
    odd = ['"quoted"', "7,8,9", "==ERROR", '\'"ID"', '"ID"', "", '""', "\x00", '"a","b"']
    begin = next(place for place, line in enumerate(raw) if line.startswith('"ID"'))
    assert profile_of("\n".join([*odd, *raw[: begin + 4], *odd, *raw[begin + 4 :], *odd])).launches == tuple(
        launch for launch in profile_of("\n".join([*odd, *raw[: begin + 4], *odd, *raw[begin + 4 :]])).launches
    )


@pytest.mark.parametrize("unended", ["progress 50%", 'a "quoted" word, ', "7,8,", "\x1b[2K50%\r"])
def test_a_row_behind_an_unended_line_of_the_program_is_read(raw: list[str], long: list[str], unended: str) -> None:
    for lines in (raw, long):
        begin = next(place for place, line in enumerate(lines) if line.startswith('"ID"'))
        glued = [unended + line if place in (begin, begin + 3) else line for place, line in enumerate(lines)]
        assert profile_of("\n".join(glued)).launches == profile_of("\n".join(lines)).launches


def test_line_ends_of_windows_and_a_byte_order_mark_change_nothing(raw: list[str]) -> None:
    plain = profile_of("\n".join(raw)).launches
    assert profile_of(("\r\n".join(raw) + "\r\n").encode()).launches == plain
    assert profile_of("\n".join(raw).encode("utf-8-sig")).launches == plain


@pytest.mark.parametrize("separator", [";", "\t", ","])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
def test_a_program_for_tables_may_have_written_the_file_again(raw: list[str], separator: str, quoting: int) -> None:
    table = [line for line in raw if line.startswith('"')]
    written = io.StringIO()
    csv.writer(written, delimiter=separator, quoting=quoting).writerows(csv.reader(table))  # type: ignore[arg-type]
    found, expected = (profile_of(text).launches for text in (written.getvalue(), "\n".join(table)))
    assert [launch.measured for launch in found] == [launch.measured for launch in expected]
    assert [(launch.kernel, launch.block) for launch in found] == [(launch.kernel, launch.block) for launch in expected]


def test_decimals_behind_a_comma_are_refused(raw: list[str]) -> None:
    table = [line for line in raw if line.startswith('"')]
    written = io.StringIO()
    rows = ([cell.replace(".", ",") if at else cell for at, cell in enumerate(row)] for row in csv.reader(table))
    csv.writer(written, delimiter=";").writerows(rows)
    assert "comma before decimals" in refusal(written.getvalue()) or "column" in refusal(written.getvalue())


def test_a_long_table_that_ends_inside_of_a_launch_is_refused(long: list[str]) -> None:
    table = [line for line in long if line.startswith('"')]
    assert len(profile_of("\n".join(table)).launches) > 1
    last = next(at for at in range(len(table) - 1, 0, -1) if table[at].partition(",")[0] != table[-1].partition(",")[0])
    for end in range(last + 2, len(table) - 1, 7):
        metrics = [row[12] for row in csv.reader(table[last + 1 : end]) if row[12]]
        if metrics:
            assert "the file is cut off" in refusal("\n".join(table[:end]) + "\n")


def test_a_report_that_only_ncu_reads_is_named(tmp_path: Path) -> None:
    report = tmp_path / "profile.ncu-rep"
    report.write_bytes(b"NVR\0" + bytes(range(256)) * 8)
    with pytest.raises(InputError, match=r"which only ncu reads.*ncu -i .*profile.ncu-rep --csv --page raw"):
        read_all(expand([str(report)]))


def test_rules_may_have_several_lines(long: list[str]) -> None:
    place = next(number_ for number_, line in enumerate(long) if '"OPT"' in line)
    broken = [*long[:place], *long[place].replace(" between ", " between\n", 1).split("\n"), *long[place + 1 :]]
    assert len(broken) == len(long) + 1
    ours, plain = profile_of("\n".join(broken)).launches, profile_of("\n".join(long)).launches
    assert [launch.measured for launch in ours] == [launch.measured for launch in plain]


def test_no_data_is_unknown() -> None:
    launches = read_all(expand([str(FIXTURES / "ncu" / "demo-sections.csv.zst")])).launches
    assert all(launch.measured.figure("local_load_bytes") is None for launch in launches)
    assert launches[0].measured.figure("spill_instructions") == 0


def test_prefixed_units_are_rounded_where_two_decimals_are_printed_and_exact_where_six() -> None:
    by_form = {
        form: [
            (launch.measured.figure("dynamic_shared_bytes"), "dynamic_shared_bytes" in launch.measured.rounded)
            for launch in read_all(expand([str(FIXTURES / "ncu" / f"{form}.csv.zst")])).launches[3:7]
        ]
        for form in ("report-raw-base", "report-raw", "report-details")
    }
    assert by_form["report-raw-base"] == by_form["report-raw"]
    assert by_form["report-raw-base"] == [(0, False), (16384, False), (102400, False), (4096, False)]
    assert by_form["report-details"] == [(0, False), (16380, True), (102400, True), (4100, True)]


# ---- damage -------------------------------------------------------------------------------------------------------


def test_a_row_that_was_cut_off_is_refused(raw: list[str]) -> None:
    last = raw[-1]
    for keep in range(1, len(last) - 1, len(last) // 60):
        cut = "\n".join([*raw[:-1], last[:keep]])
        if last[:keep].count('"') < 3:  # not yet distinguished from the program's own output
            continue
        assert f"profile.csv:{len(raw)}: " in refusal(cut), keep


def test_cells_that_lack_or_are_too_many_are_refused(raw: list[str], long: list[str]) -> None:
    shorter = raw[-1].rsplit('","', 3)[0] + '"'
    assert "cells, not" in refusal("\n".join([*raw[:-1], shorter]))
    assert "cells, not" in refusal("\n".join([*raw[:-1], raw[-1] + ',"1"']))
    metric = next(line for line in long if '"Registers Per Thread"' in line)
    assert "cells, not" in refusal("\n".join([*long, metric.split(',"Registers')[0]]))


def test_a_launchs_columns_may_not_stand_behind_the_end_of_its_row(long: list[str]) -> None:
    begin = next(place for place, line in enumerate(long) if line.startswith('"ID"'))
    header = long[begin].replace('"Kernel Name"', '"Name"').replace('"Rule Name"', '"Kernel Name"')
    least = next(csv.reader([header])).index("Metric Value") + 1
    row = ",".join(f'"{cell}"' for cell in next(csv.reader([long[begin + 1]]))[:least])
    assert "cells, not" in refusal(f"{header}\n{row}")


def test_a_table_without_what_it_needs_is_refused(raw: list[str], long: list[str]) -> None:
    assert "'Kernel Name'" in refusal("\n".join(raw).replace('"Kernel Name"', '"Name"'))
    nameless = raw[-1].replace(profile_of("\n".join(raw)).launches[-1].kernel, "")
    assert "names no kernel" in refusal("\n".join([*raw[:-1], nameless]))
    assert "'Metric Unit'" in refusal("\n".join(long).replace('"Metric Unit"', '"Unit"'))
    begin = next(place for place, line in enumerate(raw) if line.startswith('"ID"'))
    assert "row of units is missing" in refusal("\n".join([*raw[: begin + 1], *raw[begin + 2 :]]))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"register/thread","16"', '"register/thread","sixteen"', "'sixteen' is not a number"),
        ('"%","74.40"', '"%","74,40"', "LC_ALL=C"),
        ('"%","74.40"', '"%","1.234,5"', "LC_ALL=C"),
        ('"byte/block","1,024"', '"furlong","1,024"', "'furlong'"),
        ('"byte/block","1,024"', '"","1,024"', "has no unit"),
    ],
)
def test_figures_that_cannot_be_read_are_refused(long: list[str], old: str, new: str, said: str) -> None:
    text = "\n".join(long)
    assert old in text
    message = refusal(text.replace(old, new, 1))
    assert said in message
    assert message.startswith("profile.csv:")


def test_without_a_table_the_profilers_own_error_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "denied.csv"
    path.write_text("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n")
    with pytest.raises(InputError, match="ERR_NVGPUCTRPERM"):
        read_all(expand([str(path)]))
    path.write_text("all is well\n")
    with pytest.raises(InputError, match="no launch of Nsight Compute"):
        read_all(expand([str(path)]))


@given(data=st.data())
def test_damage_anywhere_is_read_or_refused_with_one_line(data: st.DataObject, long: list[str]) -> None:
    text = bytearray("\n".join(long[:70]).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(text) - 1))
        text[place : place + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=6))
    said = ""
    try:
        profile_of(bytes(text))
    except SpillscanError as error:
        said = str(error)
    assert "\n" not in said


# ---- numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0), ("4,194,304", 4194304), ("16.38", 16.38), ("1,203,636.89", 1203636.89), ("-1.5e-3", -0.0015),
        ("1\u202f024", 1024), ("1\u00a0024,", None), ("4’194’304", 4194304), ("1.024", 1.024), ("no data", None),
        ("72,680,448 {1; 2}", 72680448), ("12345.678901", 12345.678901),
    ],
)  # fmt: skip
def test_numbers(text: str, value: float | None) -> None:
    if text.endswith(","):
        with pytest.raises(NotANumberError):
            number(text)
    else:
        assert number(text) == value


@pytest.mark.parametrize("text", ["1,02", "1,0244", "12,345,6", "1'024,5", "0x10", "1 2", "--1", "1,234 567"])
def test_what_is_no_number_is_never_guessed(text: str) -> None:
    with pytest.raises(NotANumberError):
        number(text)


@given(value=st.integers(0, 10**15), places=st.integers(0, 6))
def test_a_printed_number_is_read_back(value: int, places: int) -> None:
    text = f"{value:,}" if not places else f"{value / 10**places:,.{places}f}"
    assert number(text) == float(text.replace(",", ""))
    assert decimals(text) == places


def test_units() -> None:
    assert [factor(unit, "bytes") for unit in ("byte", "Kbyte/block", "Mbyte", "second", "")] == [
        1,
        1e3,
        1e6,
        None,
        None,
    ]
    assert [factor(unit, "time") for unit in ("ns", "usecond", "ms", "s", "%")] == [1, 1e3, 1e6, 1e9, None]
    assert [factor(unit, "percent") for unit in ("%", "byte/second")] == [1, None]
    assert [factor(unit, "count") for unit in ("", "inst", "Kinst", "register/thread", "furlong")] == [
        1,
        1,
        1e3,
        1,
        None,
    ]
