"""Bad input: one clear line, exit 2, no traceback, bounded memory."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spillscan.reading.inputs.codecs import zstd
from tests.conftest import FIXTURES, ROOT, run, sized

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8
REAL = (FIXTURES / "ptxas" / "spill-13.0.log").read_bytes()

BAD = {
    "empty": b"",
    "png": PNG,
    "elf": b"\x7fELF\x02\x01\x01" + bytes(4000),
    "nul": bytes(10_000),
    "random": os.urandom(50_000),
    "prose": b"All is well.\n" * 1000,
    "truncated gzip": gzip.compress(REAL)[:-200],
    "broken gzip": gzip.compress(REAL)[:60] + b"\0" * 40 + gzip.compress(REAL)[100:],
    "truncated zstd": zstd().compress(REAL)[:-200],
    "gzip of nothing": gzip.compress(b""),
    "json": b'{"kernels": []}',
    "half a snapshot": b'{"schema_version": 1, "kernels": [',
    "another schema": b'{"schema_version": 99, "kernels": []}',
    "odd snapshot": b'{"schema_version": 1, "kernels": [{"symbol": 1}]}',
    "negative figure": b'{"schema_version": 1, "kernels": [{"symbol": "k", "arch": null, "role": "entry", '
    b'"confidence": "certain", "usage": {"registers": -1}}]}',
    "list": b"[1, 2]",
    "utf-16 prose": "nothing here\n".encode("utf-16"),
}


def assert_one_clear_line(result: subprocess.CompletedProcess[bytes]) -> None:
    assert result.returncode == 2, result
    assert result.stdout == b""
    message = result.stderr.decode()
    assert message.count("\n") == 1, message
    assert message.startswith("spillscan: "), message
    assert "Traceback" not in message


@pytest.mark.parametrize("command", ["scan", "check"])
@pytest.mark.parametrize("name", BAD)
def test_bad_file(tmp_path: Path, name: str, command: str) -> None:
    path = tmp_path / "input"
    path.write_bytes(BAD[name])
    assert_one_clear_line(run(*command.split(), path))


@pytest.mark.parametrize("name", ["empty", "png", "prose", "truncated gzip", "truncated zstd"])
def test_bad_standard_input(name: str) -> None:
    assert_one_clear_line(run("scan", "-", stdin=BAD[name]))
    assert_one_clear_line(run("scan", stdin=BAD[name]))


def test_only_a_failed_build_names_the_help_page() -> None:
    log = b'a.cu(3): error: identifier "x" is undefined\n1 error detected in the compilation of "a.cu".\n'
    result = run("check", "-", stdin=log)
    assert_one_clear_line(result)
    assert b"`spillscan explain build-failed` explains it" in result.stderr
    assert b"Correct the error, and build again" in run("explain", "build-failed").stdout


def test_a_kernel_after_its_input() -> None:
    dump = FIXTURES / "sass" / "cuobjdump-sm_80-13.5.sass.zst"
    result = run("show", dump, "array_*")
    assert_one_clear_line(result)
    assert b"is a file; the kernel comes first: spillscan show KERNEL " in result.stderr
    for words in (("array_and_spills", dump), (dump, "--kernel", "array_and_spills")):
        assert run("show", *words).returncode == 0
    assert run("show", dump).stdout == run("show", "*", dump).stdout != b""


def test_folder_without_logs(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "b.txt").write_text("nothing\n")
    assert_one_clear_line(run("scan", tmp_path))
    (tmp_path / "c").mkdir()
    assert_one_clear_line(run("scan", tmp_path / "c"))
    (tmp_path / "thin.a").write_bytes(b"!<thin>\n")
    assert b"pass its member files" in run("scan", tmp_path / "thin.a").stderr


def test_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "build.log"
    path.write_bytes(REAL)
    path.chmod(0)
    bound = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
    command = [*bound, sys.executable, "-m", "spillscan", "scan", path]  # root, too, without the right to read all
    assert_one_clear_line(subprocess.run(command, cwd=ROOT, capture_output=True, check=False))


def test_a_folder_is_not_stopped_by_one_bad_file(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(REAL)
    (tmp_path / "b.log.gz").write_bytes(gzip.compress(REAL)[:-200])
    result = run("scan", tmp_path)
    assert result.returncode == 0
    assert b"b.log.gz" in result.stderr
    assert b"is truncated" in result.stderr
    assert run("check", tmp_path, "--set", "max_spill_bytes=1000000").returncode == 2


def test_nothing_is_half_written(tmp_path: Path) -> None:
    """A failing run leaves the file of the run before."""
    out = tmp_path / "out.json"
    out.write_text("before")
    assert run("scan", FIXTURES / "hostile" / "nothing.log", "-f", f"json:{out}").returncode == 2
    assert out.read_text() == "before"
    assert list(tmp_path.iterdir()) == [out]


def test_long_lines_cost_no_memory(tmp_path: Path) -> None:
    """A line of 100 MB between real kernels: the kernels are read, the line is skipped, memory stays bounded."""
    path = tmp_path / "build.log"
    with path.open("wb") as file:
        file.write(REAL)
        for _ in range(100):
            file.write(b"ptxas info " * 95_325)
        file.write(b"\n" + REAL)
    kernels, peak = scan_peak(path)
    plain, plain_peak = scan_peak(FIXTURES / "ptxas" / "spill-13.0.log")
    assert kernels == 2 * plain
    assert peak - plain_peak < 48, f"{peak} MiB against {plain_peak} MiB"


def test_gzip_bombs_are_streamed(tmp_path: Path) -> None:
    path = tmp_path / "build.log.gz"
    path.write_bytes(
        gzip.compress(REAL) + gzip.compress(b"x" * 1000 + b"\n" * sized(50_000_000, 200_000_000), compresslevel=1)
    )
    kernels, peak = scan_peak(path)
    plain, plain_peak = scan_peak(FIXTURES / "ptxas" / "spill-13.0.log")
    assert kernels == plain
    assert peak - plain_peak < 64


def scan_peak(path: Path) -> tuple[int, float]:
    """(kernels, peak memory in MiB) of a scan in a process of its own."""
    code = (
        "import sys\nfrom spillscan import scan\nprint(len(scan(sys.argv[1]).kernels))\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    output = subprocess.run([sys.executable, "-c", code, path], cwd=ROOT, capture_output=True, check=True).stdout
    kernels, peak = output.split()
    return int(kernels), int(peak) / 1024


def test_memory_is_bounded_by_the_kernels(tmp_path: Path) -> None:
    """At most 3 KB a kernel."""
    import itertools

    block = REAL.decode()
    path = tmp_path / "build.log"
    with path.open("w") as file:
        for number in itertools.islice(itertools.count(), 1000):
            file.write(block.replace("spill_", f"spill_{number}_"))
    kernels, peak = scan_peak(path)
    _, plain_peak = scan_peak(FIXTURES / "ptxas" / "spill-13.0.log")
    assert kernels == 24_000
    assert (peak - plain_peak) * (1 << 20) / kernels < 3072


def test_hostile_names_do_not_reach_the_terminal() -> None:
    path = FIXTURES / "hostile" / "names.log"
    for arguments in (("scan",), ("check",)):
        result = run(*arguments, path)
        assert b"\x1b" not in result.stdout + result.stderr
        assert b"\x07" not in result.stdout + result.stderr
    csv = run("scan", path, "-f", "csv").stdout.decode()
    assert not any(line.startswith(("=", "+", "-", "@")) for line in csv.splitlines())


def test_command_lines_without_end_keep_memory_bounded(tmp_path: Path) -> None:
    """Many lines that name ptxas and report nothing."""
    path = tmp_path / "build.log"
    path.write_bytes(REAL + b"nvcc -Xptxas -v -I include -c kernel.cu -o kernel.o\n" * sized(20_000, 80_000) + REAL)
    kernels, peak = scan_peak(path)
    plain, plain_peak = scan_peak(FIXTURES / "ptxas" / "spill-13.0.log")
    assert kernels == 2 * plain
    assert peak - plain_peak < 24


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_report_goes_into_a_command_of_the_shell() -> None:
    log = FIXTURES / "demo" / "head.log"
    script = f'"{sys.executable}" -m spillscan check "{log}" -f csv:>(cat) | cat'
    done = subprocess.run(["bash", "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stderr, done.stdout.count("\n")) == ("", 3)
