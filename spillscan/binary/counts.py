"""Instructions by opcode, of many functions at once.

Functions stand one behind the other in a cubin. Neighbours make a stretch, whose words are looked up in one pass of
NumPy and counted into one table: a row a function, a column a mnemonic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, overload

import numpy as np

from spillscan.binary.cubin import Function
from spillscan.binary.table import Pairs, Table
from spillscan.binary.window import DamageError, Window
from spillscan.binary.words import Code, Kepler, Narrow, Wide, Words

_STRETCH_BYTES = 1 << 20
"""Columns of so much code stay in a processor's cache."""
_STRETCH_FUNCTIONS = 256
_GAP_BYTES = 1 << 12
"""Most bytes between neighbours: they are looked up for nothing."""
_HEX = "unknown 0x{:03x}"


class Opcodes(Sequence[tuple[str, int]]):
    """(mnemonic, instructions), by mnemonic; behind them codes that no table knows, by their number. As numbers until
    they are looked at: most kernels are only counted."""

    __slots__ = ("_known", "_named", "_packed", "_rest")

    def __init__(self, named: Pairs, packed: bytes, rest: Sequence[tuple[str, int]] = ()) -> None:
        self._named = named
        self._packed = packed
        """``rank << 32 | instructions``, 8 bytes each."""
        self._rest = tuple(rest)
        self._known: tuple[tuple[str, int], ...] | None = None

    def _pairs(self) -> tuple[tuple[str, int], ...]:
        if self._known is None:
            numbers = np.frombuffer(self._packed, np.int64).tolist()
            self._known = *map(self._named.__getitem__, numbers), *self._rest
        return self._known

    def __len__(self) -> int:
        return len(self._packed) // 8 + len(self._rest)

    @overload
    def __getitem__(self, index: int) -> tuple[str, int]: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[tuple[str, int], ...]: ...

    def __getitem__(self, index: int | slice) -> tuple[str, int] | tuple[tuple[str, int], ...]:
        return self._pairs()[index]

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self._pairs())

    def __eq__(self, other: object) -> bool:
        return self._pairs() == (other._pairs() if isinstance(other, Opcodes) else other)

    def __hash__(self) -> int:
        return hash(self._pairs())

    def __repr__(self) -> str:
        return repr(self._pairs())


class Counts(NamedTuple):
    """What one function holds."""

    instructions: int
    """All, padding included."""
    code_bytes: int
    """To the end of the last instruction."""
    opcodes: Sequence[tuple[str, int]]
    """How many of each: :class:`Opcodes`."""
    local: int
    """STL and LDL."""
    unknown: int
    """Instructions whose code is in no table."""
    settings: int
    """USETMAXREG."""
    may_share: bool
    """Whether an instruction may touch shared memory, or call what does."""


def code_of(window: Window, table: Table, number: int) -> Code:
    """The instructions in a window that begins with one (Maxwell and Pascal: with a control word); ``number``: of their
    architecture."""
    if table.wide:
        return Wide(window, number, table.selectors)
    return (Kepler if table.kepler else Narrow)(window, table.selectors)


def stretches(functions: Iterable[Function], table: Table) -> Iterator[list[Function]]:
    """Functions as lists of neighbours. What ``functions`` raises comes behind those before it."""
    step = (Wide if table.wide else Kepler if table.kepler else Narrow).group_bytes
    stretch: list[Function] = []
    begin = end = 0
    try:
        for function in functions:
            code = function.code
            if stretch and (
                not end <= code.start <= end + _GAP_BYTES
                or (code.start - begin) % step
                or code.end - begin > _STRETCH_BYTES
                or len(stretch) == _STRETCH_FUNCTIONS
            ):
                yield stretch
                stretch = []
            if not stretch:
                begin = code.start
            stretch.append(function)
            end = code.end
    except DamageError:
        if stretch:
            yield stretch
        raise
    if stretch:
        yield stretch


def code_of_stretch(windows: Sequence[Window], table: Table, number: int) -> Code:
    """The instructions of all functions in a stretch, and what stands between them."""
    begin = windows[0].start
    return code_of(Window(windows[0].buffer, begin, windows[-1].end - begin), table, number)


def of_stretch(windows: Sequence[Window], code: Code, table: Table) -> Iterator[Counts]:
    """The counts of the functions in a stretch; ``code``: what :func:`code_of_stretch` makes of it."""
    bounds = [code.rows_before(at - code.start) for window in windows for at in (window.start, window.end)]
    ranks = table.ranks.take(code.codes)
    width = table.unknown + 1
    counts = _table(ranks, bounds, width)
    places = np.flatnonzero(counts)
    rows, columns = np.divmod(places, width)
    packed = (columns << 32 | counts.reshape(-1)[places]).tobytes()
    cuts = (8 * np.searchsorted(rows, np.arange(len(windows) + 1))).tolist()
    unknown = counts[:, table.unknown].tolist()
    local = counts[:, table.local].sum(axis=1).tolist()
    settings = counts[:, table.settings].sum(axis=1).tolist()
    sharing = np.any(counts[:, table.may_share], axis=1).tolist()
    for first, end, begin, stop, own_local, own_unknown, own_settings, may_share in zip(
        bounds[::2], bounds[1::2], cuts[:-1], cuts[1:], local, unknown, settings, sharing, strict=True
    ):
        rest: Sequence[tuple[str, int]] = ()
        if own_unknown:
            rest = _unknown(code.codes[first:end], ranks[first:end], table)
        known = packed[begin : stop - 8 * bool(rest)]  # codes that no table knows stand last
        held = Opcodes(table.pairs, known, rest)
        yield Counts(end - first, code.bytes_to(end - first), held, own_local, own_unknown, own_settings, may_share)


def _table(ranks: Words, bounds: Sequence[int], width: int) -> Words:
    """Counts by function (rows) and rank (columns); ``bounds``: first row of each function and the one behind it.

    What stands between functions is counted into a row more, which is dropped.
    """
    functions = len(bounds) // 2
    edges = np.array((*bounds, len(ranks)))
    rows = np.full(len(bounds), functions)
    rows[::2] = np.arange(functions)
    keys = np.repeat(rows * width, edges[1:] - edges[:-1])
    keys += ranks[bounds[0] :]
    found: Words = np.bincount(keys, minlength=(functions + 1) * width)[: functions * width].reshape(functions, width)
    return found


def _unknown(codes: Words, ranks: Words, table: Table) -> list[tuple[str, int]]:
    """(number, instructions) of the codes that are in no table."""
    found, counts = np.unique(codes[ranks == table.unknown] & table.mask, return_counts=True)
    return [(_HEX.format(code), count) for code, count in zip(found.tolist(), counts.tolist(), strict=True)]
