"""Compile PTX contained in inputs with ptxas, as the driver would for a device without machine code."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from msgspec.structs import replace

from spillscan.advice.sweep.compiling import Compiled, Module
from spillscan.advice.sweep.settings import AS_IS
from spillscan.advice.sweep.units import Unit
from spillscan.model import Build, Issue, Origin, Reading
from spillscan.output.errors import InputError, UsageError
from spillscan.reading import binary, workers
from spillscan.reading.binary import records
from spillscan.reading.inputs import formats, ptx
from spillscan.reading.inputs.paths import expand
from spillscan.reading.inputs.source import Source, Stream
from spillscan.reading.pipeline import build_of, still_portable

_ARCH = re.compile(r"(?:sm_|compute_)?(\d+[af]?)")


class Task(NamedTuple):
    """A module to compile for one arch."""

    input: str
    unit: str
    text: bytes
    arch: str
    """Target such as ``sm_90``."""
    only: tuple[str, ...]
    """Kernels without machine code for the arch."""


def assembled(build: Build, inputs: Sequence[str], arches: Sequence[str]) -> Build:
    """``build`` with its PTX compiled for ``arches``, or for the target of each module.

    Kernels with machine code for an arch are not compiled for it again. A failure becomes an issue.
    """
    known = {(kernel.key.symbol, kernel.key.arch) for kernel in build.kernels}
    tasks = list(_tasks(inputs, arches, known))
    total = Reading()
    with ThreadPoolExecutor(workers.processors()) as pool:
        for task, made in zip(tasks, pool.map(_compiled, tasks), strict=True):
            for failure in dict.fromkeys(each.failure for each in made if each.failure):
                message = f"PTX {task.unit} cannot be compiled for {task.arch}: {failure}"
                total.issues.append(Issue(code="ptx-only", message=message, origin=Origin(input=task.input)))
            for each in made:
                code = binary.read(Stream(io.BytesIO(each.cubin), task.input), task.input) if each.cubin else Reading()
                own = (of for of in code.functions if of.symbol in each.symbols or getattr(of, "role", "") != "entry")
                total.functions += [replace(of, identifier=task.unit) for of in own]
                total.issues += code.issues
    added = build_of(total)
    kernels = (*build.kernels, *added.kernels)
    issues = [issue for issue in build.issues if issue.code != "ptx-only"]
    return replace(build, kernels=kernels, issues=(*issues, *added.issues, *still_portable(build.portable, kernels)))


def arches_of(text: str) -> list[str] | None:
    """``["sm_90a", "sm_120"]`` for ``sm_90a,120``; ``None`` for anything else."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    arches = [f"sm_{match[1]}" for word in words if (match := _ARCH.fullmatch(word))]
    return arches if len(arches) == len(words) else None


def _compiled(task: Task) -> list[Compiled]:
    with TemporaryDirectory(prefix="spillscan-") as place:
        file = Path(place, "module.ptx")
        file.write_bytes(task.text)
        return Module(Unit(str(file)), task.arch, Path(place)).compile(AS_IS, task.only)


def _tasks(inputs: Sequence[str], arches: Sequence[str], known: set[tuple[str, str | None]]) -> Iterator[Task]:
    """Modules to compile, each kernel once per arch."""
    for source in expand(inputs):
        if source.uri == "-":
            raise UsageError("--assemble reads its input twice; standard input can be read only once", "pass a file")
        for unit, stored in _modules(source):
            text = stored.rstrip(b"\0")
            written_for = ptx.target(text) or ""
            for arch in arches or [written_for.replace("compute_", "sm_")]:
                only = tuple(symbol for symbol in ptx.kernels(text) if (symbol, arch) not in known)
                if arch and only:
                    known.update((symbol, arch) for symbol in only)
                    yield Task(source.uri, ":".join(filter(None, (unit, written_for))), text, arch, only)


def _modules(source: Source) -> Iterator[tuple[str, bytes]]:
    """(unit, text) of the PTX of one input."""
    try:
        with source.open() as stream:
            reader = formats.reader_of(stream.head())
            if reader == "inputs.ptx":
                yield "", stream.read(ptx.LARGEST_BYTES)
            elif reader == "binary":
                yield from records.ptx_of(stream.buffer(), source.uri)
    except (InputError, OSError):
        if source.explicit:
            raise
