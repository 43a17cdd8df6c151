"""Logs as users have them: prefixed, re-encoded, compressed, inside other output. Values never change."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from spillscan import scan
from spillscan.model import Kernel
from spillscan.reading.inputs.codecs import zstd
from tests.conftest import FIXTURES, read_log, read_text

FILES = (
    "ptxas/spill-13.0.log",
    "ptxas/calls-c-12.9.log",
    "nvcc/rdc-13.0.log",
    "ptxas/warnings-11.8.log",
    "ptxas/wgmma-13.5.log",
)

ENTRY = "ptxas info    : Compiling entry function 'a' for 'sm_90'\n"

NOISE = (
    'gemm.cu(12): warning #177-D: variable "x" was declared but never referenced\n'
    "      int x = 0;\n          ^\n\n"
    "/usr/include/c++/12/bits/stl_vector.h:1234:56: warning: comparison of ‘int’ and ‘size_type’ [-Wsign-compare]\n"
    '-- Found CUDAToolkit: /usr/local/cuda/include (found version "13.0.88")\n'
    "NVCC -Xptxas -v,--warn-on-spills is what we pass to ptxas here\n"
)


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def prefixed(prefix: str) -> Callable[[str], str]:
    return lambda text: "".join(prefix + line for line in lines(text))


def counted(form: str) -> Callable[[str], str]:
    return lambda text: "".join(form.format(number / 10) + line for number, line in enumerate(lines(text)))


def noisy(text: str) -> str:
    """Other output between any two lines, but for the stack line, which ptxas writes with the line before it."""
    return NOISE + "".join(line if "Function properties" in line else line + NOISE for line in lines(text))


DRESSES: dict[str, Callable[[str], str]] = {
    "docker buildx": counted("#12 {:.3f} "),
    "docker build": counted("{:.1f} "),
    "pip": prefixed("      "),
    "Cargo": prefixed("cargo:warning="),
    "Cargo, verbose": prefixed("[kernels 0.1.0] cargo::warning="),
    "tab": prefixed("\t"),
    "CSV": lambda text: "".join(f'10:00,nvcc,"{line}",0\n' for line in text.splitlines()),
    "MSBuild node": prefixed("1>  "),
    "MSBuild detailed": prefixed("12:34:56.789     1>"),
    "GitHub Actions over docker": prefixed("2026-05-01T12:34:56.7890123Z #7 118.5 "),
    "compiler noise": noisy,
    "no last newline": lambda text: text.rstrip("\n"),
    "MSBuild severity padding": lambda text: text.replace("ptxas info    :", "ptxas info :").replace(
        "warning :", "warning:"
    ),
}


def figures(kernels: list[Kernel]) -> list[Kernel]:
    """Kernels without the place where they stood."""
    return [replace(kernel, origins=()) for kernel in kernels]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("dress", DRESSES)
def test_values_survive(file: str, dress: str) -> None:
    text = read_text(FIXTURES / file)
    plain, dressed = read_log(text), read_log(DRESSES[dress](text))
    assert figures(dressed.kernels) == figures(plain.kernels)
    assert [issue.code for issue in dressed.issues] == [issue.code for issue in plain.issues]
    if dress == "compiler noise":
        at = DRESSES[dress](text).split("\n")
        assert all(kernel.key.symbol in at[(kernel.origins[0].line or 0) - 1] for kernel in dressed.kernels)


def test_a_patch_of_a_log_is_no_report(log: str) -> None:
    """Lines after a plus sign are not counted, and the log is not called complete."""
    reading = read_log("".join(f"+{line}\n" for line in log.splitlines()))
    assert not [kernel for kernel in reading.kernels if kernel.confidence == "certain"]
    assert "torn-line" in [issue.code for issue in reading.issues]


def test_line_numbers_are_those_of_the_file(log: str) -> None:
    for kernel in read_log("\n\nnoise\n" + log).kernels:
        line = ("\n\nnoise\n" + log).split("\n")[(kernel.origins[0].line or 0) - 1]
        assert line.startswith(f"ptxas info    : Compiling entry function '{kernel.key.symbol}'")


def test_windows_project_suffix(log: str) -> None:
    suffixed = log.replace("registers, used 0 barriers", "registers, used 0 barriers").replace(
        "\n", " [C:\\b\\k.vcxproj]\n"
    )
    assert figures(read_log(suffixed).kernels) == figures(read_log(log).kernels)


def test_msbuild_nodes_are_told_apart(log: str) -> None:
    """Two nodes write at once; each line says whose it is, so nothing is ambiguous."""
    other = read_text(FIXTURES / "ptxas" / "calls-13.0.log")
    pairs = itertools.zip_longest(lines(log), lines(other))
    mixed = "".join((f"1>{one}" if one else "") + (f"2>{two}" if two else "") for one, two in pairs)
    expected = figures(read_log(log).kernels) + figures(read_log(other).kernels)
    found = figures(read_log(mixed).kernels)
    assert sorted(found, key=repr) == sorted(expected, key=repr)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le-bom", "utf-16-be-bom", "utf-8-sig"])
def test_encodings(tmp_path: Path, log: str, encoding: str) -> None:
    data = {
        "utf-16-le-bom": b"\xff\xfe" + log.encode("utf-16-le"),
        "utf-16-be-bom": b"\xfe\xff" + log.encode("utf-16-be"),
    }.get(encoding) or log.encode(encoding)
    (tmp_path / "build.log").write_bytes(data)
    assert figures(list(scan(tmp_path / "build.log").kernels)) == figures(read_log(log).kernels)


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("compress", [gzip.compress, zstd().compress], ids=["gz", "zst"])
def test_compressed(tmp_path: Path, log: str, compress: Callable[[bytes], bytes], parts: int) -> None:
    data = log.encode()
    cuts = [len(data) * part // parts for part in range(parts + 1)]
    whole = b"".join(compress(data[start:end]) for start, end in itertools.pairwise(cuts))
    (tmp_path / "build.log.z").write_bytes(whole)
    assert figures(list(scan(tmp_path / "build.log.z").kernels)) == figures(read_log(log).kernels)


def test_tensorflow_prefix_and_blank_lines() -> None:
    text = read_text(FIXTURES / "ptxas" / "warnings-13.0.log")
    warnings = [line for line in lines(text) if "warning : Registers are spilled" in line]
    prefix = "2025-03-17 11:23:16.393417: I external/xla/subprocess_compilation.cc:346] "
    kernels = read_log("".join(prefix + line + "\n" for line in warnings)).kernels
    assert kernels
    assert all(kernel.usage.spill_bytes and kernel.role == "unknown" for kernel in kernels)
    assert all(kernel.usage.registers is None and kernel.key.arch is None for kernel in kernels)


def test_names_through_a_demangler() -> None:
    name = "void ns::search<int, 'x'>(octree, int*, (anonymous namespace)::T)"
    text = read_text(FIXTURES / "ptxas" / "plain-13.0.log")
    symbol = next(kernel.key.symbol for kernel in read_log(text).kernels if kernel.key.symbol.startswith("_Z"))
    kernels = read_log(text.replace(symbol, name)).kernels
    found = [kernel for kernel in kernels if kernel.key.symbol == name]
    assert found
    assert all(kernel.short_name == "search" and kernel.usage.registers for kernel in found)


def test_unknown_clauses_are_kept_and_counted(log: str) -> None:
    reading = read_log(log.replace(" registers,", " registers, 7 tensor slots (new), used 3 mbarriers,"))
    assert all(
        kernel.usage.unknown_clauses == ("7 tensor slots (new)", "3 mbarriers")
        for kernel in reading.kernels
        if kernel.role == "entry"
    )
    assert reading.stats.unknown_clauses == 2 * len(reading.kernels)
    assert figures_without_clauses(reading.kernels) == figures(read_log(log).kernels)
    assert any(issue.code == "unknown-clause" for issue in reading.issues)


def figures_without_clauses(kernels: list[Kernel]) -> list[Kernel]:
    return [replace(kernel, usage=replace(kernel.usage, unknown_clauses=())) for kernel in figures(kernels)]


def test_unknown_lines_are_issues(log: str) -> None:
    reading = read_log(
        log.replace("ptxas info    : 0 bytes gmem", "ptxas info    : The moon is full\nptxas info    : 0 bytes gmem")
    )
    issue = next(issue for issue in reading.issues if issue.code == "unknown-line")
    assert "The moon is full" in issue.message
    assert issue.origin is not None
    assert issue.origin.line == 1
    assert reading.stats.unknown_lines == log.count("gmem")


def test_a_truncated_log_yields_its_whole_records(log: str) -> None:
    cut = log[: log.rindex("ptxas info    : Used")]
    reading, whole = read_log(cut), read_log(log)
    certain = [kernel for kernel in reading.kernels if kernel.confidence == "certain"]
    assert figures(certain) == figures(whole.kernels)[: len(certain)]
    assert len(certain) == len(whole.kernels) - 1
    issue = next(issue for issue in reading.issues if issue.code == "truncated")
    assert issue.severity == "error"
    (partial,) = [kernel for kernel in reading.kernels if kernel.confidence == "ambiguous"]
    assert partial.usage.registers is None


@pytest.mark.parametrize("size", [700, 4096, 65536])
def test_blocks_of_any_size_read_the_same(log: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spillscan.reading.inputs.source.BLOCK_BYTES", size)
    import io

    from spillscan.reading import logs
    from spillscan.reading.inputs.source import Stream

    reading = logs.read(Stream(io.BytesIO(log.encode()), "x"), "build.log")
    whole = read_log(log)
    assert reading.kernels == whole.kernels
    assert reading.stats == whole.stats


def test_old_forms() -> None:
    """Output of releases before 5.0 (no tool that prints it is available): sizes in two parts, no stack line."""
    text = (
        "ptxas info    : Compiling entry function '_Z4copyPfS_' for 'sm_13'\n"
        "ptxas info    : Used 4 registers, 4+0 bytes lmem, 16+16 bytes smem, 4 bytes cmem[1], 20 bytes cmem[14]\n"
    )
    (kernel,) = read_log(text).kernels
    assert kernel.confidence == "certain"
    assert kernel.usage.registers == 4
    assert kernel.usage.local_bytes == 4
    assert kernel.usage.shared_bytes == 32
    assert kernel.usage.constant_bytes == ((1, 4), (14, 20))
    assert kernel.usage.spill_bytes is None, "it does not say"


def test_a_name_without_its_entry_line_is_not_trusted(log: str) -> None:
    """A log filtered by grep: the registers are there, what they belong to is plausible, not sure."""
    filtered = "".join(line for line in lines(log) if "Compiling entry" not in line)
    kernels = read_log(filtered).kernels
    assert len(kernels) == len(read_log(log).kernels)
    assert {(kernel.confidence, kernel.key.arch) for kernel in kernels} == {("ambiguous", None)}


def test_logs_of_several_toolkits_in_one_file() -> None:
    """12.8 and later print compile times, earlier releases none: that alone is no sign of parallel compilers."""
    new, old = (read_text(FIXTURES / "ptxas" / f"calls-{release}.log") for release in ("13.0", "11.8"))
    both = read_log(new + old + new)
    expected = read_log(new).kernels + read_log(old).kernels + read_log(new).kernels
    assert figures(both.kernels) == figures(expected)
    assert all(kernel.confidence == "certain" for kernel in both.kernels)
    assert not both.issues


def test_very_many_issues_are_counted(log: str) -> None:
    words = ("".join(pair) for pair in itertools.product("abcdefghijklmnopqrstuvwxyz", repeat=3))
    strange = "".join(f"ptxas warning : strange {word}\n" for word in itertools.islice(words, 5000))
    reading = read_log(strange + log)
    assert len(reading.issues) == 1001
    assert reading.issues[-1].message.startswith("4000 more like this")
    assert reading.stats.unknown_lines == 5000
    assert figures(reading.kernels) == figures(read_log(log).kernels)


def test_a_compile_time_belongs_to_the_record_before_it_or_to_none() -> None:
    """The registers line of a kernel that was lost, and its compile time, are not the kernel's before it."""
    stack = "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    whole = f"{ENTRY}ptxas info    : Function properties for a\n{stack}ptxas info    : Used 24 registers\n"
    text = f"{whole}ptxas info    : Used 32 registers\nptxas info    : Compile time = 9.0 ms\n"
    for log in (text, prefixed("cargo:warning=")(text)):
        kernel, nameless = read_log(log).kernels
        assert (kernel.usage.registers, kernel.compile_ms) == (24, None)
        assert (nameless.key.symbol, nameless.usage.registers) == ("", 32)


def test_a_compile_time_elsewhere_shows_interleaving_either_way() -> None:
    """Behind another kernel's stack line it tells that two compilers write, whole blocks or line by line."""
    stack = "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    lines_of = "{0}ptxas info    : Function properties for {1}\n" + stack
    used, time = "ptxas info    : Used 24 registers\n", "ptxas info    : Compile time = 1.0 ms\n"
    text = lines_of.format(ENTRY, "a") + used + lines_of.format(ENTRY.replace("'a'", "'b'"), "b") + time + used + time
    fast, slow = read_log(text), read_log(prefixed("cargo:warning=")(text))
    assert fast.kernels == slow.kernels
    assert all(kernel.compile_ms is None for kernel in fast.kernels)
    assert [issue.code for issue in fast.issues] == [issue.code for issue in slow.issues] == ["interleaved"]
