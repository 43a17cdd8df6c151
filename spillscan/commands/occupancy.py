"""Theoretical occupancy: resident blocks and warps per SM, every limit, what binds, how far the next step is.

One configuration by --arch, --threads, --registers and --shared (static bytes, as ptxas prints them); many by
--from with a CSV file of the columns arch, registers, threads_per_block and, where known, id,
static_shared_bytes, dynamic_shared_bytes, carveout_percent, barriers and max_dynamic_shared_bytes (set: the
kernel is opted in with that attribute). An empty cell means the default.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from msgspec.structs import asdict

from spillscan.advice.families import fix_data
from spillscan.advice.fixes import of_occupancy
from spillscan.commands import _answers, _options, limiters
from spillscan.occupancy import data, table, text
from spillscan.occupancy.bounds import register_cap
from spillscan.occupancy.devices import Gpu, device, resolve
from spillscan.occupancy.formula import CACHING, NO_LIMIT, PREFERENCES, check, resident
from spillscan.occupancy.headroom import VARIED, Varied, current, curve
from spillscan.occupancy.model import LIMITERS, Configuration
from spillscan.occupancy.summary import clusters, footprint, percent
from spillscan.output import records
from spillscan.output.errors import InputError, UsageError
from spillscan.output.files import Form, put
from spillscan.output.nouns import count
from spillscan.output.safe import printable
from spillscan.output.terminal import Style, complain

EPILOG = (
    "Example: spillscan occupancy --arch sm_80 --threads 128 --registers 40 --shared 8192. Exit status"
    " 2 for figures"
    " that no launch can have; a possible launch that does not fit is an answer (0 blocks), exit status 0."
)

_CHUNK_ROWS = 50_000
_MOST_DIGITS = 16
_KEYS = {
    "max_dynamic_shared_bytes": "the kernel is opted in: its MaxDynamicSharedMemorySize attribute, or max",
    "carveout_percent": "preferred shared memory, percent of the SM's maximum",
    "barriers": "named barriers per block (default: 1)",
    "cluster_blocks": "blocks per cluster (9.0 and later)",
    "min_blocks_per_sm": "wanted blocks: how much dynamic shared memory they leave room for",
    "stack_bytes": "stack per thread: what it reserves on the GPU",
    "cache_preference": f"{', '.join(PREFERENCES)} (3.x)",
    "global_caching": f"{', '.join(CACHING)} (5.2, 5.3, 6.1 and 6.2)",
}
"""What --set takes."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments. Figures are checked in ``run``, so that each error is one line."""
    limiters.add_arguments(parser)
    one = parser.add_argument_group("configuration: --arch sm_90, 9.0 or a GPU (H100, RTX 4090, Orin), and")
    one.add_argument("--threads", metavar="N", help="threads per block")
    one.add_argument("--registers", metavar="N", help="registers per thread")
    one.add_argument("--shared", metavar="BYTES", default="0", help="static shared memory per block (default: 0)")
    one.add_argument(
        "--dynamic-shared", metavar="BYTES", default="0", help="dynamic shared memory per block (default: 0)"
    )
    one.description = "; ".join(f"--set {key}: {about}" for key, about in _KEYS.items())
    many = parser.add_argument_group("instead of the report")
    many.add_argument("--vary", choices=VARIED, help="every step of occupancy over one figure")
    many.add_argument(
        "--launch-bounds",
        metavar="T[,B]",
        help="the register cap that __launch_bounds__(T, B) makes on --arch, and the occupancy at it",
    )
    many.add_argument("--from", metavar="CSV", dest="source", help="answer many configurations; - is standard input")
    parser.set_defaults(formats=("text", "json", "csv", "markdown"))


def run(arguments: argparse.Namespace) -> int:
    """Answer one configuration, a curve, or a file of them."""
    if arguments.inputs:
        return limiters.run(arguments)
    arguments.arch = arguments.arch[-1] if arguments.arch else None
    forms = _answers.forms_of(arguments)
    vars(arguments).update(_set(arguments.settings))
    if arguments.source is not None:
        _many(arguments, forms)
    else:
        found = _answer(arguments)
        _answers.answer(forms, text=found.text, json=lambda: found.data, csv=lambda: _table(found.rows))
    return 0


def _set(texts: Sequence[str]) -> dict[str, str | None]:
    """Words by key; ``None`` where nothing is said."""
    given = _options.keyed(texts, _KEYS)
    for key, words in (("cache_preference", PREFERENCES), ("global_caching", CACHING)):
        if key in given and given[key] not in words:
            raise UsageError(f"--set {key}: must be one of {', '.join(words)}, not {given[key][:60]!r}")
    return dict.fromkeys(_KEYS) | {"barriers": "1"} | given


class _Answer(NamedTuple):
    """One configuration, or a curve of them, in each form."""

    text: Callable[[Style], Iterable[str]]
    """Lines for people."""
    data: Mapping[str, Any]
    """For JSON."""
    rows: Sequence[Mapping[str, Any]]
    """For CSV, by column."""


def _answer(arguments: argparse.Namespace) -> _Answer:
    if arguments.launch_bounds is not None:
        return _bounds(arguments)
    configuration, gpu = _configuration(arguments)
    if arguments.vary:
        return _curve(arguments, configuration)
    return _one(arguments, configuration, gpu)


def _whole(arguments: argparse.Namespace, name: str) -> int:
    written = getattr(arguments, name.replace("-", "_"))
    option = f"--set {name}" if name in _KEYS else f"--{name}"
    if written is None:
        raise UsageError(f"{option} is missing", "needed are --arch, --threads and --registers, or --from")
    digits = written.replace(",", "").replace("_", "").strip()
    if len(digits) > _MOST_DIGITS or not digits.removeprefix("-").isdecimal():
        raise UsageError(f"{option} must be a whole number, not {written[:60]!r}")
    return int(digits)


def _configuration(arguments: argparse.Namespace) -> tuple[Configuration, Gpu | None]:
    if arguments.arch is None:
        raise UsageError("--arch is missing", "needed are --arch, --threads and --registers, or --from")
    device, gpu = resolve(arguments.arch)
    static = _whole(arguments, "shared")
    attribute = None
    if arguments.max_dynamic_shared_bytes == "max":
        attribute = device.shared_bytes_per_block_optin - static
    elif arguments.max_dynamic_shared_bytes is not None:
        attribute = _whole(arguments, "max_dynamic_shared_bytes")
    configuration = Configuration(
        device=device,
        registers=_whole(arguments, "registers"),
        threads_per_block=_whole(arguments, "threads"),
        static_shared_bytes=static,
        dynamic_shared_bytes=_whole(arguments, "dynamic-shared"),
        max_dynamic_shared_bytes=attribute,
        carveout_percent=None if arguments.carveout_percent is None else _whole(arguments, "carveout_percent"),
        barriers=_whole(arguments, "barriers"),
        cache_preference=arguments.cache_preference or "none",
        global_caching=arguments.global_caching or "off",
    )
    return check(configuration), gpu


def _bounds(arguments: argparse.Namespace) -> _Answer:
    if arguments.arch is None:
        raise UsageError("--arch is missing", "the cap depends on the device")
    threads, _, blocks = arguments.launch_bounds.partition(",")
    try:
        cap = register_cap(device(arguments.arch), int(threads), int(blocks or "1"))
    except ValueError:
        raise UsageError(f"--launch-bounds must be T or T,B, not {arguments.launch_bounds!r}") from None
    found = Configuration(device=device(arguments.arch), registers=cap.registers, threads_per_block=cap.threads)
    occupancy = resident(found)
    row = {"arch": found.device.target, **asdict(cap), **data.as_row(occupancy)}
    return _Answer(lambda style: text.cap_lines(found.device, cap, occupancy), row, [row])


def _one(arguments: argparse.Namespace, configuration: Configuration, gpu: Gpu | None) -> _Answer:
    occupancy = resident(configuration)
    wanted = None if arguments.min_blocks_per_sm is None else _whole(arguments, "min_blocks_per_sm")
    if wanted is not None and wanted < 1:
        raise UsageError(f"--set min_blocks_per_sm must be at least 1, not {wanted}")
    group = None
    if arguments.cluster_blocks is not None:
        group = clusters(occupancy, _whole(arguments, "cluster_blocks"), gpu.multiprocessors if gpu else None)
    stack = (
        None
        if arguments.stack_bytes is None
        else footprint(configuration.device, _whole(arguments, "stack_bytes"), gpu)
    )
    fixes = of_occupancy(occupancy)
    more = {
        "clusters": None if group is None else asdict(group),
        "local_memory": None if stack is None else asdict(stack),
    }
    return _Answer(
        lambda style: text.report(occupancy, group, stack, wanted, [f"{each.kind}: {each.text}" for each in fixes]),
        data.as_data(occupancy, wanted) | more | {"fixes": fix_data(fixes)},
        [{"arch": configuration.device.target, **data.as_row(occupancy)}],
    )


def _curve(arguments: argparse.Namespace, configuration: Configuration) -> _Answer:
    varied: Varied = arguments.vary
    points = curve(configuration, varied)
    now = current(configuration, varied)
    unit = {"threads": "threads_per_block", "shared": "shared_bytes"}.get(varied, varied)
    rows = [{unit: figure, "current": figure == now, **data.as_row(occupancy)} for figure, occupancy in points]

    def lines(style: Style) -> Iterator[str]:
        yield from (text.title(configuration.device), text.inputs(configuration), "")
        yield from text.curve_lines(points, varied, now)
        yield from ("", f"now (*): {text.result(resident(configuration))}")

    return _Answer(lines, {"arch": configuration.device.target, "varied": unit, "points": rows}, rows)


def _many(arguments: argparse.Namespace, forms: Sequence[Form]) -> None:
    """Answer row after row of a CSV file, in chunks: memory stays bounded, an error names its row."""
    others = ("vary", "launch_bounds", "arch", "threads", "registers")
    if any(getattr(arguments, name) for name in others):
        raise UsageError("--from goes with -f only", "the columns of the file say the rest")
    if len(forms) > 1:
        raise UsageError("--from answers in one format", "give -f once")
    try:
        if arguments.source == "-":
            put(forms, lambda form: _pieces(csv.reader(sys.stdin), form.name, "-"))
        else:
            with open(arguments.source, newline="", encoding="utf-8-sig") as file:
                put(forms, lambda form: _pieces(csv.reader(file), form.name, arguments.source))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        if isinstance(error, BrokenPipeError):
            raise
        reason = error.strerror if isinstance(error, OSError) else "not a CSV file in UTF-8"
        raise InputError(f"{arguments.source}: {reason}") from None


def _pieces(reader: Iterator[list[str]], form: str, source: str) -> Iterator[str]:
    rows = (row for row in reader if row)
    names = [name.strip() for name in next(rows, [])]
    first = 1
    strange: set[str] = set()
    while chunk := list(islice(rows, _CHUNK_ROWS)):
        if first == 1:
            strange = _check_columns(names)
        for place, row in enumerate(chunk, first):
            if len(row) != len(names):
                raise UsageError(
                    f"row {place}: {count(len(row), 'cell')}, the header has {len(names)}", "fill each column"
                )
        columns = dict(zip(names, zip(*chunk, strict=True), strict=True))
        figures = {
            name: cells if name in ("arch", *table.CODES) else _figures(name, cells, first)
            for name, cells in columns.items()
            if name != "id" and name not in strange
        }
        answer = table.occupancy_table(figures, first)
        ids = columns.get("id") or tuple(str(place) for place in range(first, first + len(chunk)))
        yield _written(ids, answer, form, begin=first == 1)
        first += len(chunk)
    if first == 1:
        raise InputError(f"{source}: no configurations", "needed are a header line and a row")


def _written(ids: Sequence[str], answer: Mapping[str, Any], form: str, *, begin: bool) -> str:
    """The answers to a chunk of rows in the format wanted; JSON has one object a line."""
    words = table.limiter_names()
    limits = [f"limit_{name}" for name in LIMITERS]
    header = ["id", "resident_blocks", "active_warps", "occupancy", "limiters", *limits]
    out: dict[str, Any] = {name: answer[name].tolist() for name in header[1:]}
    out["limiters"] = [words[mask] for mask in out["limiters"]]
    for name in limits:
        out[name] = [None if limit == NO_LIMIT else limit for limit in out[name]]
    found: Iterable[tuple[Any, ...]] = zip(ids, *out.values(), strict=True)
    if form == "csv":
        return (records.row(header) if begin else "") + records.rows(found)
    if form == "json":
        dicts = (dict(zip(header, line, strict=True)) for line in found)
        lines = (records.compact(each | {"limiters": each["limiters"].split("+")}) for each in dicts)
        return "".join(f"{records.harmless(line)}\n" for line in lines)
    return "".join(
        f"{printable(name)}  {count(blocks, 'block')}/SM, {count(warps, 'warp')}, {percent(share)}"
        f"  {binding.replace('+', ', ')}\n"
        for name, blocks, warps, share, binding, *_ in found
    )


def _check_columns(names: list[str]) -> set[str]:
    """The columns to leave out: those that are not known, each with a line on standard error."""
    known = ["id", *table.REQUIRED, *table.DEFAULTS, *table.CODES]
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise UsageError(f"column {name} appears twice", "keep one")
    strange = [name for name in names if name not in known]
    for name in strange:
        complain(f"column {name!r} is not known and ignored")
    return set(strange)


def _figures(name: str, cells: tuple[str, ...], first: int) -> list[float]:
    found: list[float] = []
    for place, cell in enumerate(cells, first):
        try:
            found.append(float(cell.strip() or "nan"))
        except ValueError:
            raise UsageError(f"row {place}: {name} must be a whole number, not {cell!r}") from None
    return found


def _table(rows: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Any]]:
    """Rows of CSV, the header first; what is a list has ``+`` between its words."""
    yield tuple(rows[0])
    for row in rows:
        yield ["+".join(value) if isinstance(value, list) else value for value in row.values()]
