"""Places of findings: in the source if known, else in the log; outside of the repository only if absolute."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from spillscan.judging.places import Place, costliest, log_path, place_of, placed, source_of
from spillscan.judging.rules import check, finding
from spillscan.judging.rules.spills import SPILL
from spillscan.model import Advisory, Finding, Kernel, Origin
from spillscan.model.local import SourceLine
from spillscan.model.serialize import build_of
from spillscan.output.terminal import Style
from spillscan.reading.join.code import alone, attach_code
from spillscan.reports.formats.json import render as render_json
from spillscan.reports.render import tree_here
from spillscan.reports.words import place_text
from tests.conftest import FIXTURES, ROOT, read_any, read_log
from tests.reading.binary.support import with_callees
from tests.reporting import POLICY, at, kernel, rendered, report_of

TREE = at("/work/app", "src/gemm.cu", "csrc/a/b.cu", "build/out.log")


@pytest.mark.parametrize(
    ("path", "relative"),
    [
        ("/work/app/src/gemm.cu", "src/gemm.cu"),
        ("/work/app/src/../src/gemm.cu", "src/gemm.cu"),
        ("/work/app/not/there.cu", "not/there.cu"),
        ("src/gemm.cu", "src/gemm.cu"),
        ("./src//gemm.cu", "src/gemm.cu"),
        ("../src/gemm.cu", "src/gemm.cu"),
        ("/home/runner/work/app/app/csrc/a/b.cu", "csrc/a/b.cu"),
        ("D:\\a\\app\\src\\gemm.cu", "src/gemm.cu"),
        ("\\\\host\\share\\csrc\\a\\b.cu", "csrc/a/b.cu"),
        ("C:\\other\\x.cu", "C:/other/x.cu"),
        ("/usr/include/x.h", "/usr/include/x.h"),
        ("../../etc/passwd", "etc/passwd"),
        ("/work/app/../../etc/passwd", "/etc/passwd"),
        ("C:/../../etc/passwd", "etc/passwd"),
        ("/work/application/x.cu", "/work/application/x.cu"),
        ("", "unknown"),
        ("..", "unknown"),
        ("/", "unknown"),
        ("C:\\", "unknown"),
    ],
)
def test_relative(path: str, relative: str) -> None:
    assert TREE.relative(path) == relative


def test_a_header_outside_of_the_repository_is_no_file_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even if it exists on this machine, as those of the toolkit do."""
    (tmp_path / "app").mkdir()
    for name in ("app/k.cu", "math.hpp"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path / "app")
    header = SourceLine(
        file=str(tmp_path / "math.hpp"), line=9, inlined_at=SourceLine(file=str(tmp_path / "app" / "k.cu"), line=5)
    )
    assert placed(header, tree_here()).text == "k.cu:5 (inlined: math.hpp:9)"


def test_relative_from_a_folder_of_the_repository() -> None:
    tree = at("/work/app", "src/gemm.cu", "build/x.cu", folder="build")
    assert tree.relative("../src/gemm.cu") == "src/gemm.cu"
    assert tree.relative("x.cu") == "build/x.cu"
    assert tree.relative("y.cu") == "build/y.cu"
    assert tree.relative("src/gemm.cu") == "src/gemm.cu"


@pytest.mark.parametrize(
    ("log", "path"),
    [
        ("-", "standard-input"),
        ("/tmp/x/build.log", "/tmp/x/build.log"),
        ("../c.log", "/work/c.log"),
        ("/work/app/b.log", "b.log"),
        ("b/c.log", "b/c.log"),
    ],
)
def test_logs(log: str, path: str) -> None:
    assert log_path(log, TREE) == path


@pytest.mark.parametrize(
    ("unit", "source", "expected"),
    [
        ("CMakeFiles/gemm.dir/kernels/a.cu.o", "", "kernels/a.cu"),
        ("lib/CMakeFiles/gemm.dir/a.cu.o", "", "lib/a.cu"),
        ("CMakeFiles/gemm.dir/__/shared/a.cu.obj", "", "../shared/a.cu"),
        ("gemm.cu", "", "gemm.cu"),
        ("gemm.o", "src/gemm.cu", "src/gemm.cu"),
        ("gemm.o", "", ""),
        ("CMakeFiles/gemm.dir/cmake_device_link.o", "", ""),
        ("", "", ""),
    ],
)
def test_the_source_of_a_kernel(unit: str, source: str, expected: str) -> None:
    assert source_of(kernel("k", unit=unit, source=source)) == expected


def found(**more: object) -> Finding:
    return finding(SPILL, "spills", kernel("k", spills=8, **more))


def test_the_log_is_the_last_resort() -> None:
    assert place_of(found(), TREE) == Place(path="build.log", line=7)
    assert place_of(found(source="../src/gemm.cu"), TREE) == Place(path="src/gemm.cu", line=None)
    assert place_of(found(origins=()), TREE) == Place(path="unknown", line=None)


def test_an_advisory_names_its_line_but_not_in_a_temporary_file() -> None:
    for location, place in (("src/gemm.cu, line 47", "src/gemm.cu:47"), ("/tmp/tmpxft_1/x.ptx, line 3", "build.log:7")):
        advisory = Advisory(kind="performance_loss", text="x", severity="info", location=location)
        (one,) = check(report_of("scan", [kernel("k", advisories=(advisory,))]).build, POLICY).findings
        assert str(place_of(one, TREE)) == place


def test_machine_code_names_the_line_in_the_innermost_loop() -> None:
    kernels = read_any(FIXTURES / "sass" / "nvdisasm-gi-sm_80-13.5.sass")
    joined, _ = attach_code([], kernels.functions)
    by_name = {each.key.symbol: each for each in joined}
    tree = at("/opt/project", "sass.cu")
    spills = [each for each in check(report_of("scan", joined).build, POLICY).findings if each.rule == "spill-in-loop"]
    assert spills
    for each in spills:
        place = place_of(each, tree)
        accesses = by_name[each.kernel.key.symbol].sass.local.accesses  # type: ignore[union-attr]
        deepest = max(access.depth or 0 for access in accesses if access.kind == "spill")
        lines = {
            access.source.line
            for access in accesses
            if access.kind == "spill" and access.depth == deepest and access.source
        }
        assert place.path == "sass.cu"
        assert place.line in lines


def weighed(joined: Kernel, about: Finding) -> Counter[tuple[str, int]]:
    """The weight of each line by the rule of ``explain spill-in-loop``, where the repository holds ``inlined.cu``."""
    found: Counter[tuple[str, int]] = Counter()
    kind, callees = "array" if about.rule == "local-array" else "spill", "callees" in about.message
    assert joined.sass is not None
    for access in joined.sass.local.accesses:
        line = access.source
        while line is not None and line.inlined_at is not None and not line.file.endswith("/inlined.cu"):
            line = line.inlined_at
        if access.kind == kind and line is not None and (callees or not access.part):
            found["inlined.cu", line.line] += access.bytes * 10 ** min(access.depth or 0, 9)
    return found


def loops_in_callees(joined: Kernel) -> Kernel:
    """The kernel as if its accesses in loops were those of a callee."""
    assert joined.sass is not None
    accesses = [replace(each, part=int((each.depth or 0) > 0)) for each in joined.sass.local.accesses]
    return replace(joined, sass=replace(joined.sass, local=replace(joined.sass.local, accesses=accesses)))


@pytest.mark.parametrize("form", ["dump", "snapshot", "callees"])
def test_the_costliest_line_is_named_with_its_inlined_line(form: str) -> None:
    kernels, _ = attach_code([], read_any(FIXTURES / "sass" / "inlined-gi-sm_80-13.5.sass.zst").functions)
    kernels = [*map(loops_in_callees, kernels)] if form == "callees" else kernels
    report = report_of("scan", kernels)
    if form == "snapshot":
        report = report_of("scan", build_of(b"".join(render_json(report, Style()))).kernels)
    tree = at("/work", "inlined.cu")
    inlined = 0
    for each in check(report.build, POLICY).findings:
        (original,) = (kernel for kernel in kernels if kernel.key == each.kernel.key)
        expected = weighed(original, each)
        places = costliest(each, tree)
        assert [(place.path, place.line) for place in places[:1]] == [expected.most_common(1)[0][0]]
        assert place_of(each, tree) == places[0]
        assert {(place.path, place.line): round(place.share or 0, 6) for place in places} == {
            line: round(weight / expected.total(), 6) for line, weight in expected.items()
        }
        inlined += bool(places[0].inner)
    assert inlined >= 2


def test_command_lines_and_records_name_the_source() -> None:
    log = (FIXTURES / "ptxas" / "spill-13.0.log").read_text()
    for head in ("nvcc -Xptxas -v -c src/gemm.cu -o gemm.o\n", "[1/2] nvcc -c src/gemm.cu -o gemm.o\n"):
        kernels = read_log(head + log).kernels
        assert {each.source for each in kernels} == {"src/gemm.cu"}
    record = "# spillscan record of gemm.o\n# directory: /work/app/build\nnvcc -c ../src/gemm.cu -o gemm.o\n"
    kernels = read_log(record + log).kernels
    assert {(each.key.unit, each.source) for each in kernels} == {("gemm.o", "../src/gemm.cu")}
    assert str(place_of(finding(SPILL, "x", kernels[0]), TREE)) == "src/gemm.cu"


def test_sources_that_overlapping_steps_leave_open_are_not_reported() -> None:
    for kernel_ in read_any(FIXTURES / "build" / "make-j12-13.0.log").kernels:
        assert bool(kernel_.source) <= bool(kernel_.key.unit)


def test_snapshots_keep_the_source(tmp_path: Path) -> None:
    from tests.conftest import kernel_to_json

    one = kernel("k", source="src/gemm.cu")
    document = {"schema_version": 1, "kernels": [kernel_to_json(one)]}
    assert build_of(json.dumps(document).encode()).kernels[0].source == "src/gemm.cu"
    del document["kernels"][0]["source"]
    assert build_of(json.dumps(document).encode()).kernels[0].source == "", "older snapshots have none"


def test_uris_are_quoted() -> None:
    assert Place(path="a b/c:d?#[é].cu", line=1).uri == "a%20b/c%3Ad%3F%23%5B%C3%A9%5D.cu"


@pytest.mark.parametrize("folder", [".", "build"])
def test_paths_are_relative_to_the_repository(tmp_path: Path, folder: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "build").mkdir()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "gemm.cu").write_text("")
    log = (FIXTURES / "ptxas" / "spill-13.0.log").read_text()
    (tmp_path / "build" / "x.log").write_text(f"nvcc -c {tmp_path}/src/gemm.cu -o x.o\n{log}")
    command = [sys.executable, "-m", "spillscan", "check", str(tmp_path / "build" / "x.log"), "-f", "gitlab"]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    result = subprocess.run(command, cwd=tmp_path / folder, env=environment, capture_output=True, check=False)
    entries = json.loads(result.stdout)
    assert {entry["location"]["path"] for entry in entries} == {"src/gemm.cu"}


def test_origins_outside_of_the_repository_stay_absolute() -> None:
    one = replace(found(), origin=Origin(input="/home/somebody/build.log", line=3))
    assert str(place_of(one, TREE)) == "/home/somebody/build.log:3"


@pytest.mark.parametrize("release", ["12.4", "12.6", "13.5"])
@pytest.mark.parametrize("name", ["text", "markdown"])
def test_copies_of_a_device_function_are_told_apart(name: str, release: str) -> None:
    """By the kernel whose code contains each copy; a snapshot keeps it."""
    kernels = list(alone(with_callees(f"callees-{release}.cubin")))
    again = build_of(rendered("json", report_of("scan", kernels)).encode()).kernels
    assert [each.caller for each in again] == [each.caller for each in kernels]
    loaded = [
        replace(each, usage=kernel("k", spills=8).usage) for each in again
    ]  # so that values do not tell them apart
    rows = [line for line in rendered(name, report_of("check", loaded)).splitlines() if "spills 8 B" in line]
    assert len(set(rows)) == len(rows) > 4
    assert [row for row in rows if "pressed" in row and "in calls_one" in row.replace("`", "") and "#" not in row]


def test_copies_in_several_libraries_are_told_apart() -> None:

    def places(*inputs: str) -> set[str]:
        held = [("k/libgemm.so", inputs[0]), ("k/libgemm.so", inputs[-1]), ("k/libconv.so", inputs[0])]
        origins = [(unit, (Origin(input=each, format="binary"),)) for unit, each in held]
        kernels = [kernel("k", spills=8, unit=unit, origins=each) for unit, each in origins]
        report = report_of("check", kernels)
        return {place_text(each, report) for each in report.findings}

    assert places("dist/a.whl", "/tmp/b.whl") == {"a.whl:k/libgemm.so", "b.whl:k/libgemm.so", "a.whl:k/libconv.so"}


@pytest.mark.parametrize("name", ["text", "markdown"])
def test_changes_of_same_named_kernels_are_told_apart(name: str) -> None:
    """By the source, where no library holds them; a kernel whose name no other has needs none."""
    sides = [
        [kernel("k", registers=most, unit=unit) for unit in ("a/one.cu", "b/one.cu", "two.cu")]
        + [kernel("other", registers=most, unit="three.cu")]
        for most in (32, 40)
    ]
    text = rendered(name, report_of("diff", sides[1], sides[0])).replace("`", "")
    places = re.findall(r"\bin(?: \|)? +(\S+\.cu)", text)
    assert set(places) == {"a/one.cu", "b/one.cu", "two.cu"}
