"""Print the size of binaries by arch, kind, kernel or file. Each byte counts once, and the sums equal the file sizes.

If archive members are compressed together, their stored bytes are divided in proportion to their unpacked sizes.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from os.path import basename
from typing import Any

from msgspec import to_builtins

from spillscan.builds import coverage
from spillscan.commands import _answers, _issues, _options, _policy
from spillscan.judging.verdict import gaps_of_issues, verdict
from spillscan.model import Issue
from spillscan.naming import Names
from spillscan.output.errors import InputError, UsageError
from spillscan.output.nouns import count, size, sizes
from spillscan.output.terminal import Progress, complain
from spillscan.reading.binary.records import damages
from spillscan.reading.binary.size_accounting import sizes_of
from spillscan.reading.binary.window import DEFAULT
from spillscan.reading.inputs.formats import kind_of_binary
from spillscan.reading.inputs.paths import expand
from spillscan.reading.inputs.source import Source
from spillscan.reports import sizes as size_report
from spillscan.reports.sizes import Duplicate, SizedFile
from spillscan.reports.table import Column, Table

EPILOG = "Example: spillscan size libgemm.so --by family,arch --top 10"
_LEVELS = ("arch", "kind", "section", "family", "kernel", "namespace", "object", "member", "file")
_ALONE = "copy"
_OF_KERNELS = frozenset({"family", "kernel", "namespace"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "inputs", nargs="+", metavar="INPUT", help="library, executable, object, cubin, fat binary, wheel, or folder"
    )
    _options.add_levels(
        parser,
        (*_LEVELS, _ALONE),
        ("arch", "kind"),
        "copy shows duplicate code and its size, and cannot be combined with others",
    )
    _policy.add_accept(parser, "gaps")
    _options.add_rows(parser, 12, "rows per group", "rows")
    _policy.add_file(parser, "max_file_bytes=1000000")
    _options.add_formats(parser, "text", "json", "csv", "html")


def run(arguments: argparse.Namespace) -> int:
    """Return 0; 1 if a file exceeds the policy's size, 2 if an input is not fully readable or lacks required code."""
    forms = _answers.forms_of(arguments)
    policy = _policy.policy_of(arguments, of_files=True)
    copies = _ALONE in arguments.by
    if copies and (arguments.base or len(arguments.by) > 1):
        raise UsageError("--by copy cannot be combined with --base or other levels", "pass --by copy alone")
    if copies and any(form.name == "html" for form in forms):
        raise UsageError("the HTML page does not support --by copy", "leave --by copy out")
    issues: list[Issue] = []
    wanted = {"symbols": copies or not _OF_KERNELS.isdisjoint(arguments.by), "copies": copies}
    base = _sized(arguments.base, wanted, issues)
    files = _sized(arguments.inputs, wanted, issues)
    archs = size_report.archs(files)
    oversized: list[dict[str, Any]] = [
        {"file": each.name, "bytes": size, "allowed": most}
        for each in files
        if (most := policy.setting("max_file_bytes").value) is not None and (size := each.sizes.stored_bytes) > most
    ]
    most = _options.rows_of(arguments)
    if copies:
        _answers.show(forms, _duplicates(files), most)
    else:
        levels = arguments.by
        if len(files) > 1 and "file" not in levels:
            levels = ("file", *levels)
        whole = size_report.tree(files, levels, base)
        _answers.answer(
            forms,
            text=lambda style: size_report.lines(whole, most, style),
            json=lambda: {"by": levels, **to_builtins(whole), "oversized": oversized},
            csv=lambda: size_report.records(whole, levels),
            html=lambda: size_report.page(whole, f"Size of {basename(files[0].name)}"),
        )
    gaps = [*gaps_of_issues(issues, frozenset(), strict=policy.strict)]
    gaps += coverage.gaps(archs, policy.require_archs)
    for each in oversized:
        total, allowed = sizes(each["bytes"], each["allowed"])
        complain(f"{each['file']}: error: {total}, {allowed} allowed [max_file_bytes]")
    return _issues.conclude(verdict((), gaps, policy, oversized=bool(oversized)), issues)


def _sized(inputs: Sequence[str], wanted: dict[str, bool], issues: list[Issue]) -> list[SizedFile]:
    sources = expand(inputs)
    files: list[SizedFile] = []
    with Progress("measuring") as progress:
        done = 0
        progress.expect(sum(each.bytes for each in sources))
        for each in sources:
            files.append(_of_one(each, wanted, issues))
            done += each.bytes
            progress.reach(done, basename(each.uri))
    return files


def _of_one(each: Source, wanted: dict[str, bool], issues: list[Issue]) -> SizedFile:
    with each.open() as stream:
        if each.explicit and kind_of_binary(stream.head()) is None:
            raise InputError(f"{each.uri} is not a binary", "pass a library, an object, a cubin or a wheel")
        buffer = stream.buffer()
    sizes = sizes_of(buffer, each.bytes or len(buffer), DEFAULT, **wanted)
    if sizes.damages:
        issues += damages(sizes.damages, each.uri)
    return SizedFile(each.uri, sizes)


def _duplicates(files: Sequence[SizedFile]) -> Table[Duplicate]:
    copies = size_report.duplicates(files)
    names = Names(dict.fromkeys(each.symbol for each in copies))
    total = sum(copy.code_bytes for each in files for copy in each.sizes.copies)
    saved = sum(each.saved_bytes for each in copies)
    stored = sum(each.saved_stored_bytes for each in copies)
    notes = [
        f"{count(len(copies), 'function')} with several copies:"
        f" {size(saved)} of {size(total)} of code are redundant ({size(stored)} stored)"
    ]
    columns: list[Column[Duplicate]] = [
        Column("kernel", None, lambda each: names.of(each.symbol), left=True),
        Column(None, "symbol", lambda each: each.symbol),
        Column(None, "symbols", lambda each: each.symbols),
        Column("copies", "copies", lambda each: each.copies),
        Column("objects", "objects", lambda each: each.objects),
        Column("archs", "archs", lambda each: each.archs, left=True, text=lambda each: " ".join(each.archs)),
        Column("files", "files", lambda each: each.files),
        Column("each", "code_bytes", lambda each: each.code_bytes, text=lambda each: size(each.code_bytes)),
        Column("redundant", "saved_bytes", lambda each: each.saved_bytes, text=lambda each: size(each.saved_bytes)),
        Column(
            *("redundant, stored", "saved_stored_bytes", lambda each: each.saved_stored_bytes),
            text=lambda each: size(each.saved_stored_bytes),
        ),
    ]
    return Table(columns=columns, rows=copies, notes=notes, empty="no duplicated code")
