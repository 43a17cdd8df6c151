"""How many bytes of one cubin are of which section and function."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from spillscan.reading.binary import elf
from spillscan.reading.binary.cubin import Cubin
from spillscan.reading.binary.found import Intermediate, Member
from spillscan.reading.binary.window import DamageError, Window
from spillscan.reading.inputs.memory import Pages, Scratch

UNEXPLAINED, PADDING = "unexplained", "padding"
_T = TypeVar("_T")


def is_padding(window: Window, begin: int, end: int) -> bool:
    """Whether zeros stand where nothing is said to stand."""
    return not window.copy(begin, end - begin, "gap").strip(b"\0")


_Label = tuple[str, str]
"""Of a section of a cubin: its name without the function's, and the function."""


class CubinSizes(NamedTuple):
    """What is in one cubin."""

    arch: str
    sizes: dict[_Label, int]
    """Bytes by section and function."""
    gaps: list[tuple[int, int]]
    """(offset, size) of what nothing explains."""
    copies: list[tuple[str, str, bool, int]]
    """(symbol, digest, whether it is a kernel, bytes of code) of each function, where they were asked for."""


class CubinSizer:
    """Reads cubins: their headers and tables of sections."""

    def __init__(self, symbols: bool, copies: bool) -> None:
        self._symbols = symbols
        self._copies = copies
        self._pages = Pages()
        self._scratch = Scratch()

    def read(self, member: Member | None) -> CubinSizes | DamageError | None:
        """What is in it, where it is a cubin."""
        if member is None or isinstance(member, Intermediate):
            return None
        try:
            return self._contents(member)
        except DamageError as error:
            return error
        finally:
            self._pages.leave(member.raw.buffer, member.raw.start)

    def _contents(self, member: Member) -> CubinSizes:
        window = member.plain(self._scratch)
        cubin = Cubin(window)
        found = CubinSizes(f"sm_{member.target}" if member.target else cubin.arch, {}, [], [])
        sizes = found.sizes
        for begin, end, named in partition(window.size, self._sections(cubin)):
            label = named
            if label is None:
                padding = is_padding(window, begin, end)
                label = PADDING if padding else UNEXPLAINED, ""
                found.gaps.extend([] if padding else [(begin, end - begin)])
            sizes[label] = sizes.get(label, 0) + end - begin
        if self._copies:
            for function in cubin.functions():
                digest = cubin.digest_of(function)
                found.copies.append((function.symbol, digest, function.role == "entry", function.code.size))
        return found

    def _sections(self, cubin: Cubin) -> list[tuple[int, int, _Label]]:
        """(begin, end, label) of everything in a cubin."""
        found = [(offset, offset + size, (what, "")) for what, (offset, size) in cubin.elf.headers.items()]
        columns = (cubin.elf.sections[column].tolist() for column in ("offset", "size", "type"))
        found += [
            (offset, offset + size, label)
            for label, offset, size, kind in zip(self._labels(cubin.elf.names), *columns, strict=True)
            if kind not in (0, elf.NOBITS)
        ]
        return found

    def _labels(self, names: Sequence[bytes]) -> Iterator[_Label]:
        functions = {name[len(b".text.") :] for name in names if name.startswith(b".text.")}
        for name in names:
            section, symbol = _label(name, functions)
            yield section, symbol if self._symbols else ""


def _label(name: bytes, functions: Container[bytes]) -> _Label:
    at = name.find(b".", 1)
    while at >= 0:
        if (symbol := name[at + 1 :]) in functions:
            return _text(name[:at]), _text(symbol)
        at = name.find(b".", at + 1)
    return _text(name) or UNEXPLAINED, ""


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def partition(size: int, spans: Iterable[tuple[int, int, _T]]) -> Iterator[tuple[int, int, _T | None]]:
    """All bytes of a file in order, each once: of spans that overlap the first has them; ``None`` has what none has."""
    at = 0
    for span in sorted(spans, key=lambda span: (span[0], -span[1])):
        first, last, label = span
        if at <= first <= last <= size:  # as in all sound files
            if at < first:
                yield at, first, None
            if first < last:
                yield span
            at = last
            continue
        begin, end = max(at, min(first, size)), min(last, size)
        if begin > at:
            yield at, begin, None
        if end > begin:
            yield begin, end, label
        at = max(begin, end)
    if at < size:
        yield at, size, None
