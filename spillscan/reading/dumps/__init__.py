"""Readers of disassembly and resource listings: cuobjdump -sass, nvdisasm, cuobjdump -res-usage."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Literal, Protocol

from spillscan.model import Issue, Reading, Stats
from spillscan.output.errors import InputError
from spillscan.reading.inputs.source import DEFAULT, Options, Stream

if TYPE_CHECKING:
    from spillscan.model.code import FunctionUsage, SassFunction
    from spillscan.reading.dumps.listing import DumpAccount

DumpFormat = Literal["sass", "nvdisasm", "res_usage"]

HEAD = 1 << 16
"""Bytes at the beginning of an input from which its format is detected."""

_COMPILER = re.compile(r"\b(?:ptxas|nvlink) +(?:info|warning|error|fatal) *:")


class DumpReader(Protocol):
    """Reader of one disassembly or listing format."""

    account: DumpAccount

    def __iter__(self) -> Iterator[SassFunction | FunctionUsage | Issue]:
        """Functions and issues, in input order."""


def sniff(head: bytes) -> bool:
    """Whether ``head`` begins a disassembly or resource listing."""
    return form_of(head) is not None


def read(stream: Stream, name: str, options: Options = DEFAULT) -> Reading:
    """Functions and issues of one disassembly or listing."""
    from spillscan.model.code import SassFunction
    from spillscan.reading.dumps.listing import unsupported

    reading = Reading()
    refused: dict[str | None, Issue] = {}
    dump = reader(stream.chunks(), name)
    for item in dump:
        if isinstance(item, Issue):
            reading.issues.append(item)
        elif isinstance(item, SassFunction) and (refusal := unsupported(item.arch, item.stats.origin)):
            refused.setdefault(item.arch, refusal)
        else:
            reading.functions.append(item)
    reading.issues.extend(refused.values())
    log_line = next((issue for issue in reading.issues if _COMPILER.search(issue.message)), None)
    if log_line is not None:
        # A gate must not pass because half of its input was skipped as noise.
        message = "the disassembly contains lines of a compiler log, which were skipped; pass them as two files"
        reading.issues.append(Issue(code="mixed-input", message=message, severity="error", origin=log_line.origin))
    account = dump.account
    reading.stats = Stats(
        inputs=1,
        lines=account.lines,
        bytes=account.bytes_read,
        recognised_lines=max(1, account.lines - account.unknown_lines) if reading.functions else 0,
        unknown_lines=account.unknown_lines,
    )
    return reading


def form_of(head: bytes) -> DumpFormat | None:
    """Format of an input that begins with ``head``, its first 64 KiB; ``None`` if unknown."""
    if _is_json(head):
        return "nvdisasm"
    pasted = b"ptxas" not in head and re.search(rb"(?m)^[ \t]*REG:\d+ STACK:(?:\d|UNKNOWN)", head)
    if pasted or re.search(rb"(?m)^Resource usage:\r?$", head):
        return "res_usage"
    if re.search(rb"(?m)^\t\tFunction : ", head) or re.search(rb"(?m)^[ \t]*code for sm_", head):
        return "sass"
    if re.search(rb"(?m)^(?://-{10,} \.|[ \t]+\.section[ \t]+\.(?:text|nv|debug|note)\b)", head):
        return "nvdisasm"
    if re.search(rb"(?m)^ {8}/\*[0-9a-f]{4,}\*/ ", head):
        return "sass" if re.search(rb"(?m)/\* 0x[0-9a-f]{16} \*/\r?$", head) else "nvdisasm"
    return None


def _is_json(head: bytes) -> bool:
    """Whether ``head`` begins output of nvdisasm -json."""
    return head.lstrip().startswith(b"[") and b'"SM"' in head and b'"Producer"' in head


def reader(chunks: Iterable[bytes], origin_name: str) -> DumpReader:
    """Reader for a disassembly given as chunks of any size, in bounded memory. Raises InputError if it is none."""
    chunks, head = iter(chunks), b""
    while len(head) < HEAD and (chunk := next(chunks, b"")):
        head += chunk
    whole, form = chain((head,), chunks), form_of(head[:HEAD])
    if _is_json(head[:HEAD]):
        message = f"{origin_name} is output of nvdisasm -json, which is not supported"
        raise InputError(message, "pass the cubin, or the output of nvdisasm -c")
    if form == "sass":
        from spillscan.reading.dumps.cuobjdump import Dump

        return Dump(whole, origin_name)
    if form == "nvdisasm":
        from spillscan.reading.dumps.nvdisasm import Disassembly

        return Disassembly(whole, origin_name)
    if form == "res_usage":
        from spillscan.reading.dumps.res_usage import ResourceUsage

        return ResourceUsage(whole, origin_name)
    raise InputError(
        f"{origin_name}: not a SASS disassembly",
        "create one with `cuobjdump -sass`, `nvdisasm -c` or `cuobjdump -res-usage`",
    )
