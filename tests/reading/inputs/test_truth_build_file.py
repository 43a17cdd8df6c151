"""What the file of a watched build says: one fact a row."""

from __future__ import annotations

import io
import json

import pytest

from spillscan.builds.buildfile import BuildFile, Kept, encoded
from spillscan.model import Reading
from spillscan.model.units import Unit
from spillscan.output.errors import InputError
from spillscan.reading.inputs import build_file
from spillscan.reading.inputs.source import Stream
from tests.conftest import FIXTURES, read_text

REPORT = read_text(FIXTURES / "ptxas" / "plain-13.5.log")


def reading(build: BuildFile | str) -> Reading:
    data = (build if isinstance(build, str) else encoded(build)).encode()
    assert build_file.sniff(data)
    return build_file.read(Stream(io.BytesIO(data), "out/b.json"), "out/b.json")


def unit(state: str, **more: object) -> Unit:
    settings = {"object": "a.o", "source": "a.cu", "folder": ".", "command": ("nvcc", "-c", "a.cu", "-o", "a.o")} | more
    return Unit(state=state, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "units", "issues", "why"),
    [
        (0, [], [], "nothing was compiled"),
        (0, [Kept(unit=unit("done"))], [], "all is done"),
        (1, [Kept(unit=unit("done"))], ["build-incomplete"], "something else failed: more may have followed"),
        (-9, [Kept(unit=unit("unknown"))], ["build-incomplete"], "the build was killed"),
        (1, [Kept(unit=unit("done")), Kept(unit=unit("failed"))], [], "the unit that failed is reported by itself"),
    ],
)
def test_a_build_that_failed_for_no_unit_is_not_whole(
    status: int, units: list[Kept], issues: list[str], why: str
) -> None:
    found = reading(BuildFile(command=("make",), status=status, units=tuple(units)))
    assert [each.code for each in found.issues] == issues, why
    assert [each.object for each in found.units] == ["out/a.o"] * len(units)
    assert (found.stats.inputs, found.stats.recognised_lines) == (1, 1)


@pytest.mark.parametrize(("state", "read"), [("done", True), ("failed", False), ("killed", False), ("unknown", False)])
def test_reports_count_of_what_is_done(state: str, read: bool) -> None:
    found = reading(BuildFile(command=("make",), status=0, units=(Kept(unit=unit(state), report=REPORT),)))
    assert bool(found.kernels) is read
    for kernel in found.kernels:
        assert (kernel.source, kernel.key.unit, len(kernel.origins)) == ("out/a.cu", "out/a.o", 1)
        assert (kernel.origins[0].input, kernel.origins[0].line) == ("out/b.json", None)


def test_several_units_and_notes() -> None:
    commands = {name: ("nvcc", "-c", "a.cu", "-o", f"{name}.o") for name in "ab"}
    units = [
        Kept(unit=unit("done", object=f"{name}.o", command=command), report=REPORT)
        for name, command in commands.items()
    ]
    build = BuildFile(command=("make",), status=0, units=(*units, Kept(unit=unit("done"))), notes=("one", "two"))
    found = reading(build)
    one = reading(BuildFile(command=("make",), status=0, units=(units[0],)))
    assert len(found.kernels) == 2 * len(one.kernels) > 0
    assert {kernel.key.unit for kernel in found.kernels} == {"out/a.o", "out/b.o"}
    assert [(each.code, each.message, each.severity) for each in found.issues] == [
        ("unseen-call", "one", "note"),
        ("unseen-call", "two", "note"),
    ]
    assert found.stats.inputs == 1
    assert found.stats.recognised_lines == 2 * (one.stats.recognised_lines - 1) + 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"format":"spillscan build 1","command":[],', "not a complete record"),
        ('{"format":"spillscan build 2","command":[],"status":0}', "later release"),
    ],
)
def test_what_is_no_whole_file(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        reading(text)


@pytest.mark.parametrize("indent", [None, 2])
def test_a_file_may_be_laid_out_anew(indent: int | None) -> None:
    """As ``jq`` does it, and Python."""
    kept = BuildFile(command=("make",), status=0, units=(Kept(unit=unit("done"), report=REPORT),))
    again = json.dumps(json.loads(encoded(kept)), indent=indent)
    assert [each.key for each in reading(again).kernels] == [each.key for each in reading(kept).kernels] != []
