"""Damage to build logs: cuts, lost, doubled, swapped and torn lines, gaps, interleaved writers, mixed encodings.

Damage after which the text is what an undisturbed compiler could have printed leaves no trace: a log that is cut
exactly between two complete blocks, one registers line instead of another. No reader can see it, and none is asked to.
"""

from __future__ import annotations

import io
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from spillscan.model import Kernel, Reading, Usage
from spillscan.model.metrics import static_shared
from spillscan.reading import logs
from spillscan.reading.inputs.source import Stream
from tests.conftest import FIXTURES, manifest, read_text
from tests.oracle.attacks import Attack, crashed, gate

NAME = "logs"
LARGEST_SAMPLE_BYTES = 24_000
GRANULARITIES = ("message", "line", "half line", "64", "512", "4096")

_HEAD = r"(?:[^\n]*?ptxas info +: )"
_ENTRY = re.compile(_HEAD + r"Compiling entry function '(.+)' for '(sm_\d+[af]?)'$")
_PROPERTIES = re.compile(_HEAD + r"Function properties for (\S+|\S.*\))$")
_STACK = re.compile(
    r"(?:ptxas {9}\. {4})?(?:[^\n]*?) +\d+ bytes stack frame, \d+ bytes spill stores, \d+ bytes spill loads$"
)
_USED = re.compile(
    _HEAD + r"Used \d+ registers(?:, used \d+ barriers)?(?:, \d+ bytes cumulative stack size)?(?:, [\d+]+ bytes smem)?"
    r"(?:, \d+ bytes cmem\[\d+\])*(?:, [\d+]+ bytes lmem)?(?:, \d+ textures)?(?:, \d+ surfaces)?(?:, \d+ samplers)?$"
)
_TIME = re.compile(_HEAD + r"Compile time = \d+\.\d+ ms$")
_LINK_NAME = re.compile(r"(?:nvlink |@O@)?info    : Function properties for '(.+)':(?: \(target: \w+\))?$")
_LINK_USED = re.compile(r"(?:nvlink |@O@)?info    : used \d+ registers, .*\d+ bytes lmem(?:, .*)?$")
_MESSAGE = re.compile(rb"[^\n]*Function properties[^\n]*\n[^\n]*\n|[^\n]*\n|[^\n]+")
"""Lines that a compiler writes at once: properties and their stack line stay together."""
_REPORT = re.compile(r"(?<!-X)ptxas(?! -)|nvlink|info {4}:|registers|spill|stack frame|cmem\[")


@dataclass(frozen=True, slots=True)
class Sample:
    """An undamaged log."""

    name: str
    text: bytes
    lines: tuple[bytes, ...]
    """Of ``text``, each with its end."""
    known: frozenset[str]
    """The same without their ends."""
    reading: Reading
    """Result of the reader."""


def read(data: bytes) -> Reading:
    """Result of the reader for ``data``."""
    return logs.read(Stream(io.BytesIO(data), "attacked.log"), "attacked.log")


@cache
def samples() -> tuple[Sample, ...]:
    """Every log of the fixtures that is orderly, the large ones in pieces of whole compiler runs."""
    found: list[Sample] = []
    for entry in manifest():
        file = entry["file"]
        if entry["format"] in ("ptxas", "mixed", "nvlink", "library", "build") and "/capture-" not in file:
            text = read_text(FIXTURES / file).rstrip("\0\n") + "\n"
            for number, piece in enumerate(_pieces(text)):
                if traceless(piece, frozenset(piece.split("\n"))):
                    found.append(sample_of(f"{file}#{number}" if number else file, piece.encode()))
    return tuple(found)


def sample_of(name: str, text: bytes) -> Sample:
    """An undamaged log."""
    lines = tuple(text.splitlines(keepends=True))
    return Sample(name, text, lines, frozenset(text.decode().split("\n")), read(text))


def _pieces(text: str) -> Iterator[str]:
    """At most four pieces, cut where a compiler run begins."""
    lines = text.splitlines(keepends=True)
    starts = [number for number, line in enumerate(lines) if " bytes gmem" in line] or [0]
    if len(text) <= LARGEST_SAMPLE_BYTES:
        yield text
        return
    size = position = 0
    for _ in range(4):
        end = position
        for start in [*starts, len(lines)]:
            size = sum(map(len, lines[position:start]))
            if start > position and (end == position or size <= LARGEST_SAMPLE_BYTES):
                end = start
        if size and end > position:
            yield "".join(lines[position:end][:400])
        position = end


# ---- does the text show that it is damaged? ------------------------------------------------------------------------


def traceless(text: str, known: frozenset[str]) -> bool:
    """Whether ``text`` is what undisturbed compilers print: whole lines, each kernel's in their order."""
    if text and not text.endswith("\n"):
        text, _, cut = text.rpartition("\n")
        if cut in known or any(form.match(cut) for _, form in _FORMS):
            text += f"\n{cut}"
        elif _REPORT.search(cut) or "ptxas info    : ".startswith(cut.strip()) or re.match(r" +\d*( \w*)?$", cut):
            return False
    text = re.sub(r"\A(?:txas|xas|as|s)? info    : ", "ptxas info    : ", text)
    no_abi = "disabling ABI" in text or "stack frame" not in text
    filtered = "Function properties" not in text
    kernel = named = link = ""
    has_stack = True
    before = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        kind = next((kind for kind, form in _FORMS if form.match(line)), "")
        if named and kind != "stack":
            return False
        if link and kind != "link used":
            return False
        match kind:
            case "entry":
                if kernel:
                    return False
                kernel, has_stack = _ENTRY.match(line)[1], False  # type: ignore[index]
            case "properties":
                named = _PROPERTIES.match(line)[1]  # type: ignore[index]
                if kernel and (has_stack or named != kernel):
                    return False
            case "stack":
                if not named and not (filtered and kernel):
                    return False
                has_stack |= named == kernel or filtered
                named = ""
            case "used":
                if not kernel or not (has_stack or no_abi):
                    return False
                kernel = ""
            case "time":
                if before not in ("used", "stack") or kernel:
                    return False
            case "link name":
                link = line
            case "link used":
                if not link:
                    return False
                link = ""
            case _ if line not in known and _REPORT.search(_without_known(line, known)):
                return False
            case _ if "\0" in line or "\ufffd" in line:
                return False
        before = kind
    return not (kernel or named or link)


def _without_known(line: str, known: frozenset[str]) -> str:
    """Text of another program before a whole message, whose own line was not ended."""
    at = line.rfind("ptxas ")
    return line[:at] if at >= 0 and line[at:] in known else line


_FORMS = (
    ("entry", _ENTRY),
    ("properties", _PROPERTIES),
    ("stack", _STACK),
    ("used", _USED),
    ("time", _TIME),
    ("link name", _LINK_NAME),
    ("link used", _LINK_USED),
)


# ---- damage --------------------------------------------------------------------------------------------------------


def attack(chance: Random) -> Attack:
    """A damaged log and its result."""
    name = chance.choice(tuple(_DAMAGES))
    count, damage = _DAMAGES[name]
    chosen = [chance.choice(samples()) for _ in range(count(chance))]
    data = damage(chance, chosen)
    text = data.decode("utf-8", "replace")
    known = frozenset().union(*(sample.known for sample in chosen))
    label = name
    failures: list[str] = []
    reading = read(data)
    if traceless(text, known):
        label += ", no trace"
    else:
        by_lines = text.split("\n") if name in _OF_LINES else []
        failures = [
            *wrong(reading, chosen, by_lines),
            *lost(reading, chosen, by_lines, exchanged=name == "swapped lines"),
            *_passed(chance, data, chosen),
        ]
    return Attack(label, " + ".join(sample.name for sample in chosen), text, failures)


def _passed(chance: Random, data: bytes, chosen: Sequence[Sample]) -> Iterator[str]:
    """Output of ``check`` with a limit that one of the kernels exceeds."""
    figures = [kernel.usage.registers for sample in chosen for kernel in sample.reading.kernels]
    if known := [registers for registers in figures if registers]:
        status, said = gate({"attacked.log": data}, "check", "--set", f"max_registers={chance.choice(known) - 1}")
        if status == 0:
            yield "passed"
        if crashed(said):
            yield f"crash: {said}"


def _position(chance: Random, sample: Sample) -> int:
    """Somewhere in the text; half of the time between two lines."""
    if chance.random() < 0.5:
        return sum(map(len, sample.lines[: chance.randint(0, len(sample.lines))]))
    return chance.randint(0, len(sample.text))


def _cut_head(chance: Random, chosen: Sequence[Sample]) -> bytes:
    return chosen[0].text[_position(chance, chosen[0]) :]


def _cut_tail(chance: Random, chosen: Sequence[Sample]) -> bytes:
    return chosen[0].text[: _position(chance, chosen[0])]


def _cut_both(chance: Random, chosen: Sequence[Sample]) -> bytes:
    start, end = sorted((_position(chance, chosen[0]), _position(chance, chosen[0])))
    return chosen[0].text[start:end]


def _of_lines(change: Callable[[Random, list[bytes], int], None]) -> Callable[[Random, Sequence[Sample]], bytes]:
    """Damage in one to four places; lines are lost in one, for what leaves no trace in one may in another."""

    def damage(chance: Random, chosen: Sequence[Sample]) -> bytes:
        lines = list(chosen[0].lines)
        for _ in range(1 if change is _lose else chance.choice((1, 1, 2, 4))):
            if lines:
                change(chance, lines, chance.randrange(len(lines)))
        return b"".join(lines)

    return damage


def _lose(chance: Random, lines: list[bytes], at: int) -> None:
    del lines[at : at + chance.choice((1, 1, 1, 2, 2, 3, 4, 5, 6, 9, 40))]


def _double(chance: Random, lines: list[bytes], at: int) -> None:
    size = chance.choice((1, 1, 1, 2, 3, 5))
    lines[at:at] = lines[at : at + size]


def _swap(chance: Random, lines: list[bytes], at: int) -> None:
    other = chance.choice((min(at + 1, len(lines) - 1), chance.randrange(len(lines))))
    lines[at], lines[other] = lines[other], lines[at]


def _spoil(chance: Random, lines: list[bytes], at: int) -> None:
    line = lines[at]
    if not line:
        return
    start = chance.randrange(len(line))
    end = min(len(line), start + chance.choice((1, 2, 5, 20, 100)))
    match chance.choice(("cut", "cut", "paint", "join", "elide", "high")):
        case "cut":
            lines[at] = line[:start] + b"\n"
        case "paint":
            lines[at] = line[:start] + bytes(chance.choices(b"#~\x00\xff ?", k=end - start)) + line[end:]
        case "join":
            lines[at] = line.rstrip(b"\n")
        case "elide":
            lines[at] = line[:start] + b"..." + b"\n"
        case "high":
            lines[at] = line[:start] + bytes([line[start] | 0x80]) + line[start + 1 :]


def _gap(chance: Random, chosen: Sequence[Sample]) -> bytes:
    data = chosen[0].text
    start = chance.randint(0, len(data))
    end = start + chance.choice((8, 30, 100, 300, 1000, 4096))
    return data[:start] + chance.choice((b"", b"", b"\0" * (end - start))) + data[end:]


def interleaved(chance: Random, texts: Sequence[bytes], granularity: str) -> bytes:
    """Output of several writers in one file, in pieces."""
    match granularity:
        case "message":
            pieces = [_MESSAGE.findall(text) for text in texts]
        case "line":
            pieces = [text.splitlines(keepends=True) for text in texts]
        case "half line":
            pieces = []
            for text in texts:
                mine = []
                for line in text.splitlines(keepends=True):
                    cut = chance.randrange(len(line)) if chance.random() < 0.3 else 0
                    mine += [line[:cut], line[cut:]] if cut else [line]
                pieces.append(mine)
        case _:
            size = int(granularity)
            first = [chance.randrange(size) for _ in texts]
            pieces = [
                [text[:start], *(text[at : at + size] for at in range(start, len(text), size))]
                for start, text in zip(first, texts, strict=True)
            ]
    busy = chance.choice((1, 1, 3, 12))  # how many pieces a writer writes on end
    order = [writer for writer, mine in enumerate(pieces) for _ in range(-(-len(mine) // busy))]
    chance.shuffle(order)
    sources = [iter(mine) for mine in pieces]
    return b"".join(piece for writer in order for piece in _next(sources[writer], busy))


def _next(source: Iterator[bytes], count: int) -> Iterator[bytes]:
    for _ in range(count):
        yield next(source, b"")


def _interleave(granularity: str) -> Callable[[Random, Sequence[Sample]], bytes]:
    return lambda chance, chosen: interleaved(chance, [sample.text for sample in chosen], granularity)


def _encode(chance: Random, chosen: Sequence[Sample]) -> bytes:
    """Parts of a file in different encodings, as shells append them: all in the byte order of one machine."""
    ways = chance.choice((("utf-8", "utf-8-sig", "utf-16-le", "utf-16"), ("utf-8", "utf-16-be")))
    return b"".join(sample.text.decode().encode(chance.choice(ways)) for sample in chosen)


def _two_builds(chance: Random, chosen: Sequence[Sample]) -> bytes:
    """Log of one build after a truncated log of another."""
    return _cut_tail(chance, chosen[:1]) + b"".join(sample.text for sample in chosen[1:])


def _one(chance: Random) -> int:
    return 1


def _several(chance: Random) -> int:
    return chance.randint(2, 4)


_Damage = Callable[[Random, Sequence[Sample]], bytes]
_DAMAGES: Mapping[str, tuple[Callable[[Random], int], _Damage]] = {
    "cut at its head": (_one, _cut_head),
    "cut at its tail": (_one, _cut_tail),
    "cut at both ends": (_one, _cut_both),
    "lost lines": (_one, _of_lines(_lose)),
    "doubled lines": (_one, _of_lines(_double)),
    "swapped lines": (_one, _of_lines(_swap)),
    "damaged lines": (_one, _of_lines(_spoil)),
    "gaps": (_one, _gap),
    "encodings": (_several, _encode),
    "two builds": (lambda chance: 2, _two_builds),
} | {f"interleaved by {size}": (_several, _interleave(size)) for size in GRANULARITIES}


DAMAGES_OF_ONE: Mapping[str, _Damage] = {name: damage for name, (count, damage) in _DAMAGES.items() if count is _one}
"""Kinds of damage of one log alone."""

_OF_LINES = ("lost lines", "doubled lines", "swapped lines", "gaps", "damaged lines", "two builds")
"""One damage may leave no trace next to another that does."""


# ---- judgement -----------------------------------------------------------------------------------------------------

_SUMS = ("cumulative_spill_store_bytes", "cumulative_spill_load_bytes")
"""No line prints them."""
_METRICS = tuple(name for name in Usage.__struct_fields__ if name != "unknown_clauses")


def wrong(reading: Reading, chosen: Sequence[Sample], lines: Sequence[str] = ()) -> Iterator[str]:
    """Values reported as certain that are wrong, except if the kernel's own lines (of ``lines``) are intact."""
    truth = _by_symbol(kernel for sample in chosen for kernel in sample.reading.kernels)
    for kernel in reading.kernels:
        if kernel.confidence == "certain":
            candidates = [
                each
                for each in truth[kernel.key.symbol]
                if None in (kernel.key.arch, each.key.arch) or kernel.key.arch == each.key.arch
            ]
            right = any(_agree(kernel, each) for each in candidates)
            if not right and not _orderly(lines, kernel.origins[0].line or 0):
                yield f"wrong: {kernel.key.symbol[:60]} {kernel.key.arch} {kernel.role} {_said(kernel)}"
    links = {(link.symbol, link.arch, link.usage) for sample in chosen for link in sample.reading.links}
    for link in reading.links:
        if (link.symbol, link.arch, link.usage) not in links and not _orderly(lines, (link.origin.line or 0) - 1):
            yield f"wrong link: {link.symbol[:60]} {link.usage.registers}"


def _orderly(lines: Sequence[str], line: int) -> bool:
    """Whether one kernel's lines are together from ``line`` on."""
    mine = [each.rstrip("\r") + "\n" for each in lines[line - 1 : line + 3]]
    return any(traceless("".join(mine[:size]), frozenset()) for size in (4, 2) if len(mine) >= size)


def _by_symbol(kernels: Iterator[Kernel]) -> defaultdict[str, list[Kernel]]:
    found: defaultdict[str, list[Kernel]] = defaultdict(list)
    for kernel in kernels:
        found[kernel.key.symbol].append(kernel)
    return found


def _agree(found: Kernel, true: Kernel) -> bool:
    mine, theirs = found.usage, true.usage
    unknown = {name for name in _SUMS if getattr(theirs, name) is None}  # for what stands further down in the log
    return all(
        getattr(mine, name) in (None, getattr(theirs, name)) for name in _METRICS if name not in unknown
    ) and not (found.role == "entry" and true.role == "function")


def _said(kernel: Kernel) -> str:
    usage = kernel.usage
    return f"{usage.registers} registers, spills {usage.spills}, stack {usage.stack_bytes}, smem {usage.shared_bytes}"


def lost(
    reading: Reading, chosen: Sequence[Sample], lines: Sequence[str] = (), *, exchanged: bool = False
) -> Iterator[str]:
    """Findings that are gone although nothing says that something may be missing, save where a kernel's lines (of
    ``lines``) stand as they should, so that no trace is left of those that stood between.

    ``exchanged``: kernels may have each other's figures, for lines of one form that change places leave no trace.
    """
    gaps = {hidden for issue in reading.issues for hidden in issue.hidden}
    if "kernels" in gaps or not reading.understood:
        return  # what is not understood at all is refused
    found = _by_symbol(iter(reading.kernels))
    spliced = {each.key.symbol for each in reading.kernels if _orderly(lines, each.origins[0].line or 0)}
    for what, figure in (("spills", _spills), ("registers", _registers), ("shared", static_shared)):
        if what in gaps:
            continue
        high = {
            (kernel.key.symbol, kernel.key.arch, size): None
            for sample in chosen
            for kernel in sample.reading.kernels
            if kernel.role == "entry" and (size := figure(kernel))
        }
        for symbol, arch, size in high:
            kernels = reading.kernels if exchanged else found[symbol]
            mine = [figure(each) for each in kernels if exchanged or arch is None or each.key.arch in (None, arch)]
            if not any(each in (size, None) for each in mine) and not (mine and symbol in spliced):
                yield f"lost {what}: {symbol[:60]} {arch}: {size}"
                break


def _spills(kernel: Kernel) -> int | None:
    return kernel.usage.spill_bytes


def _registers(kernel: Kernel) -> int | None:
    return kernel.usage.registers
