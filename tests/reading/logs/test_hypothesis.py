"""Mutated real logs: never an exception, never a figure that the log does not hold."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from spillscan.model import Kernel
from spillscan.output.errors import InputError
from tests.conftest import FIXTURES, read_log, read_text

FILES = (
    "ptxas/calls-13.0.log",
    "ptxas/calls-c-12.9.log",
    "ptxas/warnings-12.4.log",
    "nvcc/rdc-13.0.log",
    "ptxas/noabi-11.8.log",
    "library/nvrtc-12.8.log",
    "build/make-13.0.log",
)
LOGS = {file: read_text(FIXTURES / file).splitlines(keepends=True)[:120] for file in FILES}
LINES = [line for lines in LOGS.values() for line in lines]
NUMBER = re.compile(r"\d+")


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A real log with lines deleted, repeated, moved, cut, joined, or taken from another log."""
    lines = list(draw(st.sampled_from(list(LOGS.values()))))
    for _ in range(draw(st.integers(1, 12))):
        if not lines:
            break
        at = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["delete", "repeat", "move", "cut", "join", "foreign", "garbage", "swap"])):
            case "delete":
                del lines[at : at + draw(st.integers(1, 6))]
            case "repeat":
                lines.insert(at, lines[at])
            case "move":
                lines.insert(draw(st.integers(0, len(lines) - 1)), lines.pop(at))
            case "cut":
                # At a blank, so that no number is cut in two: half a number is another value.
                line = lines[at]
                lines[at] = line[: line.find(" ", draw(st.integers(0, len(line))))] + "\n"
            case "join":
                lines[at] = lines[at].rstrip("\n") + " "
            case "foreign":
                lines.insert(at, draw(st.sampled_from(LINES)))
            case "garbage":
                lines.insert(at, draw(st.text(max_size=80)) + "\n")
            case "swap":
                other = draw(st.integers(0, len(lines) - 1))
                lines[at], lines[other] = lines[other], lines[at]
    return "".join(lines)


def figures(kernel: Kernel) -> list[int]:
    usage = kernel.usage
    banks = [size for _, size in usage.constant_bytes or ()]
    plain = [
        usage.registers,
        usage.stack_bytes,
        usage.cumulative_stack_bytes,
        usage.spill_store_bytes,
        usage.spill_load_bytes,
        usage.local_bytes,
        usage.shared_bytes,
        usage.barriers,
        usage.textures,
    ]
    return banks + [figure for figure in plain if figure is not None]


@given(mutated())
def test_every_value_is_in_the_log(text: str) -> None:
    reading = read_log(text.encode("utf-8", "surrogatepass"))
    printed = set(map(int, NUMBER.findall(text)))
    used = [line for line in text.split("\n") if "sed " in line and "registers" in line]
    for kernel in reading.kernels:
        assert set(figures(kernel)) <= printed
        assert kernel.key.symbol in text or "\ufffd" in kernel.key.symbol
    # No registers line is given to two kernels.
    assert sum(k.usage.registers is not None and k.confidence == "certain" for k in reading.kernels) <= len(used)


@given(st.binary(max_size=4000))
def test_any_bytes_are_read(data: bytes) -> None:
    try:
        assert read_log(data).kernels == []
    except InputError:
        packed = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ\x00")
        assert data.startswith(packed), "only what claims to be compressed is refused"


@given(mutated(), st.integers(1, 400))
def test_a_cut_never_changes_earlier_records(text: str, cut: int) -> None:
    """A log read up to some line gives certain records that the whole log gives, too, or leaves open."""
    lines = text.splitlines(keepends=True)
    part = read_log("".join(lines[: min(cut, len(lines))]).encode("utf-8", "surrogatepass"))
    whole = read_log(text.encode("utf-8", "surrogatepass"))
    known = {(k.key.symbol, k.origins[0].line): k for k in whole.kernels}
    for kernel in part.kernels:
        after = known.get((kernel.key.symbol, kernel.origins[0].line))
        if kernel.confidence == "certain" and after is not None and after.confidence == "certain":
            both = kernel.usage.registers, after.usage.registers
            assert None in both or both[0] == both[1]
