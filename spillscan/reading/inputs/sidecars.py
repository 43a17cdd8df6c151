"""Reader of metadata that Python kernel compilers write next to machine code: launch and tuning parameters.

Reads the text files of a cache folder:

| file | compiler | content |
|---|---|---|
| ``KERNEL.json`` | Triton, and Inductor, which uses Triton | warps, stages, dynamic shared memory, cluster |
| ``KERNEL.ttir``, ``.source`` | Triton | tile: shape of its matrix product, else of its stored block |
| ``MODULE.meta`` | Warp | dynamic shared memory per kernel |
| ``MODULE.cu`` | Warp | threads per block |

:mod:`spillscan.reading.join` attaches them to the kernels of that machine code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import prod
from typing import Any

from spillscan.model import Origin, Reading, Sidecar
from spillscan.reading.inputs.paths import place_of
from spillscan.reading.inputs.source import DEFAULT, Options, Stream

FORMAT = "sidecar"

LARGEST_BYTES = 4 << 20
"""Largest sidecar; larger files are something else."""
LARGEST_SHARED_BYTES = 1 << 20
"""More shared memory than any device has."""

_WARP_SOURCE = re.compile(rb"^#define WP_TILE_BLOCK_DIM (\d{1,4})\s*$", re.MULTILINE)
_FUNCTION = re.compile(r'\btt\.func public @(?:([\w$.]+)|"([^"\n]+)")')
# Matches the first of a line, so that each line is scanned once.
_PRODUCT = re.compile(
    r"^(?>[^\n]*?\btt\.dot\w*\b)[^\n]*?: tensor<(\d{1,9})x(\d{1,9})x[^<>]*> \* tensor<(\d{1,9})x(\d{1,9})x[^<>]*> ->",
    re.MULTILINE,
)
_STORE = re.compile(r"^(?>[^\n]*?\btt\.store\b)[^\n]*?: tensor<((?:\d{1,9}x){1,8})!tt\.ptr", re.MULTILINE)


def read(stream: Stream, name: str, _: Options = DEFAULT) -> Reading:
    """Sidecars of one file. A damaged file gives none, which leaves the launches unknown."""
    text = stream.read(LARGEST_BYTES)
    origin = Origin(input=name, format=FORMAT)
    place = place_of(name)
    sidecars: list[Sidecar] = []
    if b"tt.func" in text and not text.lstrip().startswith(b"{"):
        sidecars = list(_tiles(text.decode("utf-8", "replace"), place, origin))
    elif (threads := _WARP_SOURCE.search(text, 0, 4096)) and 1 <= int(threads[1]) <= 1024:
        sidecars = [Sidecar(place=place, threads_per_block=int(threads[1]), origin=origin)]
    elif text.lstrip().startswith(b"{"):
        try:
            table = json.loads(text)
        except (ValueError, RecursionError):
            table = {}
        sidecars = list(_triton(table, place, origin) if "num_warps" in table else _warp(table, place, origin))
    return Reading(sidecars=sidecars)


def _triton(table: dict[str, Any], place: str, origin: Origin) -> Iterator[Sidecar]:
    """Metadata of one Triton kernel.

    Its warps have 32 threads and include warps that only load, in warp-specialised code.
    """
    warps, lanes = _whole(table.get("num_warps"), 32), _whole(table.get("warp_size", 32), 64)
    shared = _whole(table.get("shared"), LARGEST_SHARED_BYTES, least=0)
    ctas = _whole(table.get("num_ctas", 1), 16) or 1
    dimensions = table.get("cluster_dims")
    if isinstance(dimensions, list) and len(dimensions) == 3:
        x, y, z = (_whole(each, 16) or 1 for each in dimensions)
        ctas = max(ctas, x * y * z)
    symbol = table.get("name")
    if warps is None or lanes is None or shared is None or not isinstance(symbol, str) or not 1 <= ctas <= 16:
        return
    tuned = (("num_warps", warps), ("num_stages", _whole(table.get("num_stages"), 64, least=0)))
    more = [("num_ctas", ctas if ctas > 1 else None), ("maxnreg", _whole(table.get("maxnreg"), 255))]
    yield Sidecar(
        place=place,
        symbol=symbol,
        threads_per_block=warps * lanes,
        dynamic_shared_bytes=shared,
        cluster_blocks=ctas,
        configuration=tuple((key, str(value)) for key, value in (*tuned, *more) if value is not None),
        origin=origin,
    )


def _tiles(text: str, place: str, origin: Origin) -> Iterator[Sidecar]:
    """Tile of a module's only kernel: rows, columns and depth of its largest matrix product, or else the shape of its
    largest stored block."""
    functions = list(_FUNCTION.finditer(text))
    if len(functions) != 1:
        return
    products = [(int(a), int(d), int(b)) for a, b, _, d in _PRODUCT.findall(text)]
    stored = [tuple(map(int, shape[:-1].split("x"))) for shape in _STORE.findall(text)]
    tile = max(products or stored, key=prod, default=())
    if tile:
        symbol = functions[0][1] or functions[0][2]
        shape = (("tile", "×".join(map(str, tile))),)
        yield Sidecar(place=place, symbol=symbol, configuration=shape, origin=origin)


def _warp(table: dict[str, Any], place: str, origin: Origin) -> Iterator[Sidecar]:
    for key, value in table.items():
        shared = _whole(value, LARGEST_SHARED_BYTES, least=0)
        if key.endswith("_smem_bytes") and shared is not None:
            symbol = key.removesuffix("_smem_bytes")
            yield Sidecar(place=place, symbol=symbol, dynamic_shared_bytes=shared, origin=origin)


def _whole(value: object, most: int, least: int = 1) -> int | None:
    """``value`` if it is an integer from ``least`` to ``most``; otherwise ``None``."""
    return value if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most else None
