"""Print the spill map of a kernel: what is spilled where, in which loops, from which source lines.

KERNEL is a part of the symbol, or a glob for all of it. Without --arch every architecture of the dump is shown.
"""

from __future__ import annotations

import argparse
import sys
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from spillscan.errors import InputError
from spillscan.safe import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spillscan.sass.model import LocalAccess, SassFunction

NAME = "show"
HELP = "print the spill map of a kernel in a SASS dump"
ORDER = 25
_SHOWN = 4
"""Places of a slot that are printed; the rest is counted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("kernel", metavar="KERNEL", help="part of the symbol, or a glob such as '*gemm*'")
    parser.add_argument("dump", metavar="DUMP", help="cuobjdump -sass, nvdisasm text or JSON; .gz, .zst; - for stdin")
    parser.add_argument("--arch", help="only this architecture, such as sm_90")
    parser.add_argument(
        "--slots", type=int, default=40, metavar="N", help="print at most N slots (default %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Do the work; return the exit status."""
    from spillscan import sass
    from spillscan.model import Issue
    from spillscan.sass.model import SassFunction
    from spillscan.source import Source

    functions, shown = 0, 0
    with Source(arguments.dump).open() as stream:
        for item in sass.read(stream.file(), arguments.dump):
            if isinstance(item, Issue):
                print(printable(f"spillscan: {item.origin}: {item.message}"), file=sys.stderr)
            elif isinstance(item, SassFunction):
                functions += 1
                if _wanted(item, arguments.kernel) and arguments.arch in (None, item.arch):
                    print("\n" * bool(shown) + "\n".join(lines(item, arguments.slots)))
                    shown += 1
    if not functions:
        raise InputError(f"{arguments.dump}: no function in this dump", "is it complete?")
    if not shown:
        raise InputError(f"{arguments.dump}: no kernel matches {arguments.kernel!r}", "part of a symbol, or a glob")
    return 0


def _wanted(function: SassFunction, pattern: str) -> bool:
    if any(sign in pattern for sign in "*?["):
        return fnmatchcase(function.symbol, pattern)
    return pattern in function.symbol


def lines(function: SassFunction, most: int) -> Iterator[str]:
    """The map of one function."""
    from spillscan.sass import spillmap

    stats = function.stats
    local = stats.local
    yield f"{printable(function.symbol)}  {function.arch or 'unknown arch'}  {stats.origin or ''}".rstrip()
    classes = ", ".join(f"{count} {name}" for name, count in stats.opcode_classes.items())
    yield f"  {stats.instructions} instructions, {stats.code_bytes} bytes: {classes}"
    if stats.live_peak:
        place = spillmap.where(stats.live_peak.source)
        yield (
            f"  {stats.live_peak.registers} registers live at {stats.live_peak.address:#x}"
            f" (line {stats.live_peak.line} of the dump{', ' + place if place else ''})"
        )
    if stats.shared_spills:
        yield f"  {stats.shared_spills} spills go to shared memory: no log counts their bytes"
    if not local.accesses:
        yield "  no local memory"
        return
    spill = local.spill
    yield (
        f"  spills: {spill.stores} stores ({spill.store_bytes} bytes), {spill.loads} loads ({spill.load_bytes} bytes); "
        f"evidence: {local.evidence}"
    )
    for kind, name in (("array", "local arrays"), ("frame", "call frame"), ("unknown", "cannot be told")):
        other = local.of(kind)  # type: ignore[arg-type]
        if other.accesses:
            stored, read = f"{other.stores} stores ({other.store_bytes} bytes)", f"{other.loads} loads"
            yield f"  {name}: {stored}, {read} ({other.load_bytes} bytes)"
    for sentence in spillmap.sentences(function):
        yield f"  {printable(sentence)}"
    slots = spillmap.slots(function)
    width = max(len(slot.name) for slot in slots[:most])
    for slot in slots[:most]:
        yield f"    {slot.name:{width}}  {slot.kind:7}  stored {_places(slot.stores)}  read {_places(slot.loads)}"
    if len(slots) > most:
        yield f"    … {len(slots) - most} more slots"


def _places(accesses: tuple[LocalAccess, ...]) -> str:
    if not accesses:
        return "never"
    shown = " ".join(
        f"{access.address:#06x}" + (f"/{access.depth}" if access.depth else "") for access in accesses[:_SHOWN]
    )
    return shown + (f" +{len(accesses) - _SHOWN}" if len(accesses) > _SHOWN else "")

