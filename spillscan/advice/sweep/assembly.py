"""What ptxas makes of PTX that inputs hold, as the driver would where it has no machine code for a device."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from msgspec.structs import replace

from spillscan.advice.sweep.compiling import Compiled, assemble
from spillscan.model import Build, Issue, Origin, Reading
from spillscan.output.errors import InputError, UsageError
from spillscan.reading import binary, workers
from spillscan.reading.binary import records
from spillscan.reading.binary.window import DEFAULT
from spillscan.reading.inputs import ptx
from spillscan.reading.inputs.source import Source, Stream, expand, kind_of_binary
from spillscan.reading.pipeline import build_of, still_portable

_ARCH = re.compile(r"(?:sm_|compute_)?(\d+[af]?)")


class Task(NamedTuple):
    """A module for one architecture."""

    input: str
    unit: str
    text: bytes
    written_for: str
    """``compute_90``"""
    arch: str
    """``sm_90``"""
    only: tuple[str, ...]
    """The kernels that have no machine code for it."""


def assembled(build: Build, inputs: Sequence[str], arches: Sequence[str]) -> Build:
    """The build with what ptxas makes of its PTX: for ``arches``, or for what each module is written for. Kernels that
    have machine code for an architecture are not compiled for it again; what cannot be compiled is an issue."""
    known = {(kernel.key.symbol, kernel.key.arch) for kernel in build.kernels}
    tasks = list(_tasks(_modules(inputs), arches, known))
    total = Reading()

    def compiled(task: Task) -> Compiled:
        return assemble(task.text, task.arch, task.only)

    with ThreadPoolExecutor(workers.processors()) as pool:
        for task, outcome in zip(tasks, pool.map(compiled, tasks), strict=True):
            if outcome.failure:
                message = f"{task.unit or task.written_for} is not assembled for {task.arch}: {outcome.failure}"
                total.issues.append(Issue(code="ptx-only", message=message, origin=Origin(input=task.input)))
                continue
            found = binary.read(Stream(io.BytesIO(outcome.cubin), task.input), task.input)
            unit = ":".join(filter(None, (task.unit, task.written_for)))
            for item in found.functions:
                if item.symbol in task.only or getattr(item, "role", "") != "entry":
                    total.functions.append(replace(item, identifier=unit))
            total.issues += found.issues
    made = build_of(total)
    kernels = (*build.kernels, *made.kernels)
    issues = [issue for issue in build.issues if issue.code != "ptx-only"] + list(made.issues)
    return replace(build, kernels=kernels, issues=(*issues, *still_portable(build.portable, kernels)))


def arches_of(text: str) -> list[str] | None:
    """``sm_90a, sm_120`` of ``sm_90a,120``; ``None`` of anything else."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    found = [f"sm_{match[1]}" for word in words if (match := _ARCH.fullmatch(word))]
    return found if len(found) == len(words) else None


def _modules(inputs: Sequence[str]) -> Iterator[tuple[str, str, bytes]]:
    """(input, unit, text) of all PTX."""
    for source in expand(inputs):
        if source.uri == "-":
            raise UsageError("--assemble reads its inputs twice, and standard input is gone then", "name a file")
        yield from _of(source)


def _of(source: Source) -> Iterator[tuple[str, str, bytes]]:
    try:
        with source.open() as stream:
            head = stream.head()
            if ptx.sniff(head):
                yield source.uri, "", stream.read(ptx.LARGEST_BYTES)
            elif kind_of_binary(head) is not None and binary.sniff(head):
                for unit, text in records.ptx_of(stream.buffer(), source.uri, DEFAULT):
                    yield source.uri, unit, text
    except (InputError, OSError):
        if source.explicit:
            raise


def _tasks(
    modules: Iterable[tuple[str, str, bytes]], arches: Sequence[str], known: set[tuple[str, str | None]]
) -> Iterator[Task]:
    """What is to be compiled, each kernel once for an architecture."""
    for name, unit, stored in modules:
        text = stored.rstrip(b"\0")
        written_for = ptx.target(text) or ""
        for arch in arches or [written_for.replace("compute_", "sm_")]:
            only = tuple(symbol for symbol in ptx.kernels(text) if (symbol, arch) not in known)
            if arch and only:
                known.update((symbol, arch) for symbol in only)
                yield Task(name, unit, text, written_for, arch, only)
