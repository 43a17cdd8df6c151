"""Reader of PTX: a module's kernels, target and version. It has no machine code yet; the driver compiles it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from spillscan.model import Origin, Reading, Stats
from spillscan.model.code import PortableCode
from spillscan.reading.inputs.source import DEFAULT, Options, Stream

FORMAT = "ptx"

LARGEST_BYTES = 1 << 32
"""Largest module read; modules are read whole."""

_VERSION = re.compile(rb"^[^\S\n]*\.version\s+(\d{1,3}\.\d{1,3})\s", re.MULTILINE)
_TARGET = re.compile(rb"^[^\S\n]*\.target\s+sm_(\d+[af]?)", re.MULTILINE)
_LINKAGE = re.compile(rb"^\s*(?:\.(?:visible|weak)\s+)*$")
_NAME = re.compile(rb"\s+([A-Za-z_$%][\w$%]*)")
_BODY_OR_END = re.compile(rb"[{;]")
_ENTRY = b".entry"
_LONGEST_LINKAGE = 100
"""Most characters before ``.entry`` on its line."""


def read(stream: Stream, name: str, _: Options = DEFAULT) -> Reading:
    """The single module of a file."""
    text = stream.read(LARGEST_BYTES)
    origin = Origin(input=name, format=FORMAT)
    module = PortableCode(
        form="PTX",
        arch=target(text),
        kernels=tuple(kernels(text)),
        bytes=len(text.rstrip(b"\0")),
        origin=origin,
        version=version(text),
    )
    return Reading(portable=[module], stats=Stats(inputs=1, bytes=len(text), lines=text.count(b"\n")))


def target(text: bytes) -> str | None:
    """Target such as ``compute_90a``; ``None`` if not specified."""
    match = _TARGET.search(text)
    return f"compute_{match[1].decode()}" if match else None


def version(text: bytes) -> str | None:
    """PTX version such as ``8.5``; ``None`` if not specified."""
    match = _VERSION.search(text)
    return match[1].decode() if match else None


def kernels(text: bytes) -> Iterator[str]:
    """Symbols of all entries with a body, in order."""
    at, mark = text.find(_ENTRY), 0
    while at >= 0:
        line = text.rfind(b"\n", max(0, at - _LONGEST_LINKAGE), at) + 1 or max(0, at - _LONGEST_LINKAGE)
        name = _NAME.match(text, at + len(_ENTRY))
        if name and _LINKAGE.match(text[line:at]):
            if mark < name.end():  # otherwise it belongs to an earlier entry as well
                body = _BODY_OR_END.search(text, name.end())
                mark = len(text) if body is None else body.start()
            if text[mark : mark + 1] == b"{":
                yield name[1].decode("ascii")
        at = text.find(_ENTRY, at + len(_ENTRY))
