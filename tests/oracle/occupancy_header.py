"""NVIDIA's ``cuda_occupancy.h`` as an oracle: fetched from its wheel into a cache, built with a C++ compiler, never
committed."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np

from spillscan.occupancy.devices import devices
from spillscan.occupancy.formula import resident
from spillscan.occupancy.model import CACHING, PREFERENCES, Configuration
from tests.oracle.toolchain import default_cache, download

NO_LIMIT = 2**31 - 1
"""The header's value for a resource that does not limit: ``INT_MAX``."""
NOT_SET = -1
"""No carve-out preference, or not opted in."""

VERSION = "13.5.37"
CACHE = default_cache()
SOURCE = Path(__file__).with_suffix(".cpp")
IN = [
    "major", "minor", "threads_per_sm", "regs_per_block", "regs_per_sm", "smem_block", "smem_sm", "smem_optin",
    "reserve", "registers", "threads_per_block", "static_shared_bytes", "dynamic_shared_bytes",
    "max_dynamic_shared_bytes", "carveout_percent", "cache_preference", "barriers", "global_caching",
    "virtual_resources", "wanted_blocks",
]  # fmt: skip
OUT = [
    "status", "resident_blocks", "mask", "limit_registers", "limit_shared_memory", "limit_warps", "limit_blocks",
    "limit_barriers", "limit_virtual_resources", "allocated_registers_per_block",
    "allocated_shared_bytes_per_block", "global_caching", "dynamic_status", "dynamic_bytes", "best_grid",
    "best_block",
]  # fmt: skip
"""Columns of the program built from ``occupancy_header.cpp``: what it is asked and what it answers."""
FIELDS = [name for name in OUT if name.startswith(("limit_", "allocated_")) or name == "resident_blocks"]


def package(version: str) -> str:
    major = int(version.split(".", maxsplit=1)[0])
    return f"nvidia-cuda-runtime=={version}" if major >= 13 else f"nvidia-cuda-runtime-cu{major}=={version}"


def header(version: str = VERSION) -> Path:
    """Folder with ``cuda_occupancy.h`` of this release, from the cache or the package index."""
    folder = CACHE / f"cuda-runtime-{version}"
    if not (folder / "cuda_occupancy.h").exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            with zipfile.ZipFile(download(package(version), CACHE / "wheels")) as archive:
                (member,) = [name for name in archive.namelist() if name.endswith("/cuda_occupancy.h")]
                fresh = Path(scratch) / "cuda_occupancy.h"
                fresh.write_bytes(archive.read(member))
            fresh.replace(folder / "cuda_occupancy.h")
    return folder


def compiler() -> tuple[list[str], dict[str, str]]:
    """A C++ compiler and its environment: the machine's, or Zig's from the package index where there is none."""
    for name in ("g++", "clang++", "c++"):
        if shutil.which(name):
            return [name], dict(os.environ)
    folder = CACHE / "ziglang"
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            fresh = Path(scratch) / "ziglang"
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*command, "--target", str(fresh), "ziglang"], check=True)
            fresh.replace(folder)
    return [sys.executable, "-m", "ziglang", "c++"], {**os.environ, "PYTHONPATH": str(folder)}


def build(version: str = VERSION) -> ctypes.CDLL:
    """The oracle as a shared library."""
    folder = header(version)
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]
    library = folder / f"oracle-{digest}.so"
    if not library.exists():
        scratch = library.with_suffix(f".{os.getpid()}")
        options = ["-O2", "-w", "-shared", "-fPIC", f"-I{folder}"]
        if "virtualResourceCount" in (folder / "cuda_occupancy.h").read_text("utf-8"):
            options.append("-DHAS_VIRTUAL")
        command, environment = compiler()
        subprocess.run([*command, *options, str(SOURCE), "-o", str(scratch)], check=True, env=environment)
        scratch.replace(library)
    return ctypes.CDLL(str(library))


def ask(
    library: ctypes.CDLL, rows: dict[str, np.ndarray], best: bool = False, only_resident: bool = False
) -> dict[str, np.ndarray]:
    """The header's answers; ``rows["device"]`` are indices into ``devices()``, the rest as in ``IN``."""
    facts = {
        "major": [one.version[0] for one in devices()],
        "minor": [one.version[1] for one in devices()],
        "threads_per_sm": [one.max_threads_per_sm for one in devices()],
        "regs_per_block": [one.registers_per_block for one in devices()],
        "regs_per_sm": [one.registers_per_sm for one in devices()],
        "smem_block": [one.shared_bytes_per_block for one in devices()],
        "smem_sm": [one.shared_bytes_per_sm for one in devices()],
        "smem_optin": [one.shared_bytes_per_block_optin for one in devices()],
        "reserve": [one.shared_bytes_reserved_per_block for one in devices()],
    }
    which = rows["device"]
    columns = [np.array(facts[name])[which] if name in facts else rows[name] for name in IN]
    table = np.ascontiguousarray(np.stack(columns, axis=1), dtype=np.int64)
    answers = np.zeros((len(table), len(OUT)), np.int64)
    pointer = ctypes.c_void_p
    library.run.argtypes = [pointer, pointer, ctypes.c_int64, ctypes.c_int, ctypes.c_int]
    library.run(table.ctypes.data, answers.ctypes.data, len(table), int(best), int(only_resident))
    return dict(zip(OUT, answers.T, strict=True))


def configurations(count: int, seed: int) -> dict[str, np.ndarray]:
    """Random and boundary configurations over all devices, as columns."""
    random = np.random.default_rng(seed)
    table = devices()
    which = random.integers(0, len(table), count)

    def mix(*choices: np.ndarray) -> np.ndarray:
        return np.choose(random.integers(0, len(choices), count), [np.asarray(one, np.int64) for one in choices])

    def near(edges: list[int], spread: int, least: int, most: int) -> np.ndarray:
        return np.clip(random.choice(edges, count) + random.integers(-spread, spread + 1, count), least, most)

    registers = mix(random.integers(0, 256, count), near([0, *range(8, 257, 8)], 1, 0, 257))
    threads = mix(
        random.integers(1, 1025, count),
        32 * random.integers(1, 33, count),
        near([32, 64, 96, 128, 256, 320, 512, 640, 672, 768, 1024], 1, 1, 1026),
    )
    most = np.array([one.shared_bytes_per_sm for one in table])[which]
    unit = np.array([one.shared_alloc_unit for one in table])[which]
    reserve = np.array([one.shared_bytes_reserved_per_block for one in table])[which]
    steps = np.array([1024 * random.choice(one.carveout_steps_kb) for one in table])[which]
    blocks = random.integers(1, 33, count)
    cliff = np.maximum(np.where(random.random(count) < 0.5, most, steps) // blocks // unit * unit - reserve, 0)
    user = mix(
        np.zeros(count),
        random.integers(0, 49153, count),
        (random.random(count) * (most + 2048)).astype(np.int64),
        np.maximum(cliff + random.integers(-2, 3, count), 0),
        near([0, 47 * 1024, 48 * 1024, 49152 - 1024, 99 * 1024, 163 * 1024, 227 * 1024], 2, 0, 400_000),
    )
    static = np.minimum((user * mix(np.zeros(count), np.ones(count)) + 0).astype(np.int64), 49152)
    static = np.where(
        random.random(count) < 0.3, (random.random(count) * np.minimum(user, 49152)).astype(np.int64), static
    )
    dynamic = user - static
    opt_in = np.array([one.shared_bytes_per_block_optin for one in table])[which]
    attribute = mix(
        np.full(count, NOT_SET),
        np.maximum(opt_in - static, 0),
        np.maximum(opt_in - static, 0),
        np.maximum(dynamic + random.integers(-1, 2, count), 0),
        near([0, 47 * 1024, 48 * 1024], 1, 0, 50_000),
        random.integers(0, 240_000, count),
    )
    sometimes = random.random(count)
    return {
        "device": which,
        "registers": registers,
        "threads_per_block": threads,
        "static_shared_bytes": static,
        "dynamic_shared_bytes": dynamic,
        "max_dynamic_shared_bytes": attribute,
        "carveout_percent": mix(np.full(count, NOT_SET), random.integers(-1, 101, count)),
        "cache_preference": np.where(sometimes < 0.3, random.integers(0, 4, count), 0),
        "barriers": mix(np.ones(count), random.integers(0, 17, count)),
        "global_caching": np.where(random.random(count) < 0.3, random.integers(0, 3, count), 0),
        "virtual_resources": np.where(random.random(count) < 0.1, random.integers(0, 130, count), 0),
        "wanted_blocks": random.integers(1, 17, count),
    }


def configuration(rows: dict[str, np.ndarray], place: int) -> Configuration:
    """Configuration of a row."""
    figures = {name: int(column[place]) for name, column in rows.items()}
    plain = ("registers", "threads_per_block", "static_shared_bytes", "dynamic_shared_bytes", "barriers")
    optional = {name: figures[name] for name in ("max_dynamic_shared_bytes", "carveout_percent")}
    return Configuration(
        device=devices()[figures["device"]],
        **{name: figures[name] for name in plain},
        **{name: None if figure == NOT_SET else figure for name, figure in optional.items()},
        cache_preference=PREFERENCES[figures["cache_preference"]],
        global_caching=CACHING[figures["global_caching"]],
        virtual_resources=figures["virtual_resources"],
    )


def answers(rows: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Our answers as the header's columns; a resource that does not limit is ``INT_MAX``."""
    found = [resident(configuration(rows, place)) for place in range(len(rows["device"]))]
    columns = {name: [NO_LIMIT if (value := getattr(one, name)) is None else value for one in found] for name in FIELDS}
    columns["global_caching"] = [CACHING.index(one.global_caching) for one in found]
    return {name: np.array(column, np.int64) for name, column in columns.items()}
