"""Launches that other programs than Nsight Compute wrote down.

| format | known by |
|---|---|
| ``nsys stats -r cuda_gpu_trace -f csv`` | columns ``BlkX`` and ``Name``, after other lines; megabytes are rounded |
| plain CSV | columns ``kernel`` and ``block`` (``256``, ``16x16x1``); there may be ``dynamic`` and ``cluster`` |
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spillscan.advice.profile.model import Measured, Profile, ProfiledLaunch
from spillscan.advice.profile.ncu import called, read
from spillscan.model import Issue, Origin
from spillscan.output.errors import InputError
from spillscan.output.safe import printable
from spillscan.reading.inputs.source import Source, Stream

LARGEST_BYTES = 1 << 28
"""Of a table in text."""
_BLOCK = re.compile(r"\(?\s*(\d{1,4})(?:\s*[x,]\s*(\d{1,4}))?(?:\s*[x,]\s*(\d{1,4}))?\s*\)?")
_SHARED = re.compile(r"DymSMem(?: \((B|bytes|KB|MB)\)|:mem_B)?")
_BEFORE = re.compile(r"\ufeff?(?:[ \t]*\r?\n|Processing \[[^\n]*\n)*")
"""What ``nsys stats`` prints before a table."""
_SCALES = {None: 1, "B": 1, "bytes": 1, "KB": 1e3, "MB": 1e6}


def reader_of(head: bytes) -> Callable[[Stream, str], Profile] | None:
    """What reads an input that begins with ``head``; ``None`` where it is none of these."""
    text = head.decode("utf-8", "replace")
    first = text[_end_of_preamble(text) :].partition("\n")[0]
    names = {name.strip().strip('"') for name in first.split(",")}
    return read_csv if {"kernel", "block"} <= names or {"BlkX", "Name"} <= names else None


def read_csv(stream: Stream, name: str) -> Profile:
    """The launches of a table in text, a row each. :class:`InputError` where a row is no launch."""
    text = stream.read(LARGEST_BYTES).decode("utf-8", "replace")
    start = _end_of_preamble(text)
    before = text.count("\n", 0, start)
    rows = csv.DictReader(io.StringIO(text[start:]), strict=True, skipinitialspace=True)
    try:
        take = _plain if {"kernel", "block"} <= set(rows.fieldnames or ()) else _traced
        read = [take(row, Origin(input=name, line=before + rows.line_num, format="csv")) for row in rows]
    except (csv.Error, ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
        raise InputError(f"{name}:{before + rows.line_num}: this row is not a launch: {error}", _HOW_PLAIN) from None
    return Profile(launches=tuple(launch for launch in read if launch is not None))


_HOW_PLAIN = "a plain table has the columns kernel,block,dynamic: gemm,256,49152"


def _end_of_preamble(text: str) -> int:
    found = _BEFORE.match(text)
    return found.end() if found else 0


def _plain(row: Mapping[str, str], origin: Origin) -> ProfiledLaunch:
    block = _BLOCK.fullmatch((row["block"] or "").strip())
    if block is None or not row["kernel"]:
        raise ValueError(f"kernel {row['kernel']!r}, block {row['block']!r}")
    dynamic, cluster = row.get("dynamic") or "", row.get("cluster") or ""
    return _launch(
        row["kernel"],
        tuple(int(each) for each in block.groups(default="1")),
        {
            "dynamic_shared_bytes": _count(dynamic) if dynamic.strip() else None,
            "cluster_blocks": _count(cluster) if cluster.strip() else None,
        },
        origin,
    )


def _traced(row: Mapping[str, str], origin: Origin) -> ProfiledLaunch | None:
    """A row of ``cuda_gpu_trace``; ``None`` for copies of memory, which have no block."""
    if not (row["BlkX"] or "").strip():
        return None
    column = next((match for each in row if each and (match := _SHARED.fullmatch(each))), None)
    shared = None if column is None else float(row[column[0]] or 0) * _SCALES[column[1]]
    rounded = column is not None and column[1] in ("KB", "MB")  # 499 B are 0.000 MB
    return _launch(
        row["Name"],
        (_count(row["BlkX"]), _count(row["BlkY"]), _count(row["BlkZ"])),
        {
            "registers": _count(row["Reg/Trd"]) if row.get("Reg/Trd") else None,
            "dynamic_shared_bytes": None if shared is None else round(shared),
        },
        origin,
        frozenset({"dynamic_shared_bytes"} if rounded else ()),
    )


def _count(text: str) -> int:
    number = int(text.strip().replace(",", ""))
    if number < 0:
        raise ValueError(f"{number} is below 0")
    return number


def _launch(
    kernel: str,
    block: tuple[int, ...],
    figures: Mapping[str, Any],
    origin: Origin,
    rounded: frozenset[str] = frozenset(),
) -> ProfiledLaunch:
    if any(not isinstance(each, int) or each < 1 for each in block):
        raise ValueError(f"a block of {block}")
    return ProfiledLaunch(kernel=kernel, block=block, measured=Measured(figures, rounded), origin=origin)


# Profiles of any format as launches.

_REPORT = ".ncu-rep"
_HOW = "make one with: ncu --csv --page raw --set full PROGRAM > profile.csv"


def read_all(sources: Sequence[Source]) -> Profile:
    """The launches of all inputs, in their order. :class:`InputError` where one cannot be read or is damaged, or where
    all of them hold no launch."""
    launches: list[ProfiledLaunch] = []
    issues: list[Issue] = []
    for each in sources:
        with each.open() as stream:
            profile = (reader_of(stream.head()) or read)(stream, each.uri)
        if not profile.launches and each.explicit:
            if each.uri.endswith(_REPORT):
                hint = f"write its tables: ncu -i {printable(each.uri, 200)} --csv --page raw --print-units base"
                raise InputError(f"{called(each.uri)} is a report of Nsight Compute, which only ncu reads", hint)
            why = f": {profile.issues[0].message}" if profile.issues else ""
            raise InputError(f"no launch of Nsight Compute in {called(each.uri)}{why}", _HOW)
        launches += profile.launches
        issues += profile.issues
    if not launches:
        raise InputError("no launch of Nsight Compute in these inputs", _HOW)
    return Profile(launches=tuple(launches), issues=tuple(issues))
