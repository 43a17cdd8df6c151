"""Readers of disassembly and resource listings: cuobjdump -sass, nvdisasm, cuobjdump -res-usage."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING

from spillscan.model import Issue, Reading, Stats
from spillscan.output.errors import InputError
from spillscan.reading.inputs.formats import HEAD_BYTES, listing_format
from spillscan.reading.inputs.source import DEFAULT, Options, Stream

if TYPE_CHECKING:
    from spillscan.reading.disassembly.listing import ListingReader

_COMPILER = re.compile(r"\b(?:ptxas|nvlink) +(?:info|warning|error|fatal) *:")


def read(stream: Stream, name: str, options: Options = DEFAULT) -> Reading:
    """Functions and issues of one disassembly or listing."""
    from spillscan.model.code import SassFunction
    from spillscan.reading.disassembly.listing import unsupported

    reading = Reading()
    refused: dict[str | None, Issue] = {}
    listing = reader(stream.chunks(), name)
    for item in listing:
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
        message = "the disassembly contains lines of a compiler log, which were skipped; pass log and SASS as two files"
        reading.issues.append(Issue(code="mixed-input", message=message, severity="error", origin=log_line.origin))
    account = listing.account
    reading.stats = Stats(
        inputs=1,
        lines=account.lines,
        bytes=account.bytes_read,
        recognised_lines=max(1, account.lines - account.unknown_lines) if reading.functions else 0,
        unknown_lines=account.unknown_lines,
    )
    return reading


def reader(chunks: Iterable[bytes], origin_name: str) -> ListingReader:
    """Reader for a disassembly given as chunks of any size, in bounded memory. Raises InputError if it is none."""
    chunks, head = iter(chunks), b""
    while len(head) < HEAD_BYTES and (chunk := next(chunks, b"")):
        head += chunk
    whole, form = chain((head,), chunks), listing_format(head[:HEAD_BYTES])
    if form == "nvdisasm" and head.lstrip().startswith(b"["):
        message = f"{origin_name} is output of nvdisasm -json, which is not supported"
        raise InputError(message, "pass the cubin, or the output of nvdisasm -c")
    if form is None:
        raise InputError(
            f"{origin_name}: not a SASS disassembly", "pass the output of `cuobjdump -sass` or `nvdisasm -c`"
        )
    from spillscan.reading.disassembly.cuobjdump import SassListing
    from spillscan.reading.disassembly.nvdisasm import Disassembly
    from spillscan.reading.disassembly.res_usage import ResourceUsage

    readers: tuple[type[ListingReader], ...] = (SassListing, Disassembly, ResourceUsage)
    return next(each(whole, origin_name) for each in readers if each.form == form)
