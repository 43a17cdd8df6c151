"""Reading build logs: kernels per second, bytes per kernel, and ratios to grep and to a regex script, in one run.

Every candidate is a process of its own, timed by user plus system time; candidates take turns, the median counts.
"""

from __future__ import annotations

import json
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from spillscan.reading.inputs.source import Source  # noqa: E402

ROUNDS = 5
NAMESPACE = re.compile(rb"(?<=_ZN)(?:5lib_(\d)|6lib_(\d\d))")
LOG_BYTES = 100_000_000
NOISE_BYTES = 1_000_000_000
NOISE = (
    b"/usr/include/c++/12/bits/stl_vector.h:1234:56: warning: comparison of integers of different signedness: "
    b"'int' and 'std::vector<int>::size_type' {aka 'long unsigned int'} [-Wsign-compare]\n"
    b'gemm.cu(12): warning #177-D: variable "x" was declared but never referenced\n'
    b"[57/912] Building CXX object src/CMakeFiles/core.dir/tensor.cpp.o\n"
)


def seconds(command: list[str]) -> float:
    """CPU seconds of one run, children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Not to /dev/null: grep would notice, and stop at its first match.
    subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def medians(commands: dict[str, list[str]], rounds: int = ROUNDS) -> dict[str, float]:
    """Median CPU seconds of each command; one round of all, then the next."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            times[name].append(seconds(command))
    return {name: statistics.median(each) for name, each in times.items()}


def large_log(path: Path) -> int:
    """A log of 100 MB: the real one again and again, every kernel of another name; returns its kernels."""
    with Source(str(ROOT / "fixtures" / "large" / "kernels5000-13.0.log.zst")).open() as stream:
        real = b"".join(stream.chunks())
    kernels = written = copy = 0
    with path.open("wb") as file:
        while written < LOG_BYTES:
            text = NAMESPACE.sub(lambda match, copy=copy: renamed(match, copy), real)  # type: ignore[misc]
            file.write(text)
            written += len(text)
            kernels += text.count(b"Compiling entry function")
            copy += 1
    return kernels


def renamed(match: re.Match[bytes], copy: int) -> bytes:
    """``5lib_3`` of copy 9 -> ``7lib_3_9``, as the mangling has it."""
    name = b"lib_%s_%d" % (match[1] or match[2], copy)
    return b"%d%s" % (len(name), name)


def main() -> None:
    """Print the figures."""
    python, scan = sys.executable, [sys.executable, "-m", "spillscan", "scan"]
    with tempfile.TemporaryDirectory() as folder:
        log, out = Path(folder, "build.log"), Path(folder, "out.json")
        kernels = large_log(log)
        size = log.stat().st_size
        cuxray = f"import json, cuxray.parse.ptxasv as p; print(len(p.parse(open({str(log)!r}).read())))"
        times = medians(
            {
                "spillscan scan -f json": [*scan, str(log), "-f", f"json:{out}"],
                "a regex script": [python, "tests/benchmarks/regex_script.py", str(log), str(out)],
                **({"cuxray's parser": [python, "-c", cuxray]} if find_spec("cuxray") else {}),
                "grep -c": ["grep", "-c", "ptxas", str(log)],
                "python -c pass": [python, "-c", "pass"],
                "spillscan --help": [python, "-m", "spillscan", "--help"],
            }
        )
        subprocess.run([*scan, str(log), "-f", f"json:{out}"], cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
        records = len(json.loads(out.read_text())["kernels"])
        print(f"log of {size / 1e6:.0f} MB, {kernels:,} kernels, {records:,} records")
        for name, time in times.items():
            print(f"  {name:24} {time:7.2f} s   {kernels / time:>11,.0f} kernels/s")
        ours = times["spillscan scan -f json"]
        print(
            f"  ratio to the regex script {ours / times['a regex script']:.2f}, to grep {ours / times['grep -c']:.0f}"
        )
        start = times["spillscan --help"] - times["python -c pass"]
        print(f"  --help takes {start * 1000:.0f} ms more than python -c pass")
        print(f"  {bytes_per_kernel(log, records):,.0f} bytes of memory a record")

        noisy = Path(folder, "noisy.log")
        half = NOISE * (NOISE_BYTES // 2 // len(NOISE))
        noisy.write_bytes(half + (ROOT / "fixtures" / "demo" / "head.log").read_bytes() + half)
        del half
        times = medians({"spillscan scan": [*scan, str(noisy)], "grep -c ptxas": ["grep", "-c", "ptxas", str(noisy)]})
        ratio = times["spillscan scan"] / times["grep -c ptxas"]
        print(f"1 GB of other output: {times['spillscan scan']:.2f} s, {ratio:.1f} times grep -c ptxas")


def bytes_per_kernel(log: Path, records: int) -> float:
    """Peak memory above that of a small log, by records."""
    code = (
        "import sys\nfrom spillscan import scan\nscan(sys.argv[1])\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )

    def peak(path: Path) -> int:
        run = subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT, check=True, capture_output=True)
        return int(run.stdout) * 1024

    return (peak(log) - peak(ROOT / "fixtures" / "demo" / "head.log")) / records


if __name__ == "__main__":
    main()
