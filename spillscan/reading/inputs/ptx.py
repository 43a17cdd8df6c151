"""PTX: which kernels a module holds, and for what it is written. No machine code: the driver is still to make it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from spillscan.model import Origin, Reading, Stats
from spillscan.reading.inputs.options import DEFAULT, Options
from spillscan.reading.inputs.source import Stream

FORMAT = "ptx"

LARGEST_BYTES = 1 << 32
"""A module is read as a whole."""

_BEGINNING = re.compile(rb"(?>(?:\s|//[^\n]*\n|/\*.*?\*/)*)\.version\s+\d+\.\d+\s", re.DOTALL)
_VERSION = re.compile(rb"^[^\S\n]*\.version\s+(\d{1,3}\.\d{1,3})\s", re.MULTILINE)
_TARGET = re.compile(rb"^[^\S\n]*\.target\s+sm_(\d+[af]?)", re.MULTILINE)
_LINKAGE = re.compile(rb"^\s*(?:\.(?:visible|weak)\s+)*$")
_NAME = re.compile(rb"\s+([A-Za-z_$%][\w$%]*)")
_BODY_OR_END = re.compile(rb"[{;]")
_ENTRY = b".entry"
_LONGEST_LINKAGE = 100
"""Characters before ``.entry`` on its line."""


def sniff(head: bytes) -> bool:
    """A module begins with its version; comments may stand before it."""
    return _BEGINNING.match(head) is not None


def read(stream: Stream, name: str, _: Options = DEFAULT) -> Reading:
    """The one module of a file."""
    from spillscan.model.code import PortableCode  # every input is sniffed at

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
    """``compute_90a``; ``None`` where the module does not say."""
    match = _TARGET.search(text)
    return f"compute_{match[1].decode()}" if match else None


def version(text: bytes) -> str | None:
    """``8.5``; ``None`` where the beginning of a module does not say."""
    match = _VERSION.search(text)
    return match[1].decode() if match else None


def kernels(text: bytes) -> Iterator[str]:
    """The symbols of all entries that have a body, in order."""
    at, mark = text.find(_ENTRY), 0
    while at >= 0:
        line = text.rfind(b"\n", max(0, at - _LONGEST_LINKAGE), at) + 1 or max(0, at - _LONGEST_LINKAGE)
        name = _NAME.match(text, at + len(_ENTRY))
        if name and _LINKAGE.match(text[line:at]):
            if mark < name.end():  # else it is that of an entry before it, too
                found = _BODY_OR_END.search(text, name.end())
                mark = len(text) if found is None else found.start()
            if text[mark : mark + 1] == b"{":
                yield name[1].decode("ascii")
        at = text.find(_ENTRY, at + len(_ENTRY))
