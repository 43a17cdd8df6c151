"""Print the spill map of a kernel: what is spilled where, in which loops, from which source lines.

KERNEL is a part of the symbol, a glob for all of it, or what a table calls it. Without --arch every architecture of the
input is shown.
A snapshot (scan -f json of a dump) has all figures, but no longer the single slots. Of a binary, --sass adds the text
of the machine code; that takes nvdisasm.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import tempfile
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from spillscan.commands import _policy
from spillscan.errors import InputError, UsageError
from spillscan.output.terminal import complain, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from spillscan.inputs.source import Stream
    from spillscan.model import Issue
    from spillscan.model.code import FunctionUsage, LocalAccess, Operands, PortableCode, SassFunction, WarpRole


NAME = "show"
HELP = "print the spill map of a kernel in a SASS dump or a binary"
ORDER = 25
_SHOWN = 4
"""Places of a slot that are printed; the rest is counted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument(
        "kernel", metavar="KERNEL", help="part of the symbol, a glob such as '*gemm*', or a name as tables show it"
    )
    parser.add_argument(
        "dump",
        metavar="INPUT",
        help="dump (cuobjdump, nvdisasm), library, object, cubin, wheel, snapshot; - for stdin",
    )
    parser.add_argument("--arch", help="only this architecture, such as sm_90")
    parser.add_argument(
        "--slots", type=int, default=40, metavar="N", help="print at most N slots (default %(default)s)"
    )
    _policy.add_file(parser)
    parser.add_argument("--sass", action="store_true", help="print the machine code too, of a binary (needs nvdisasm)")


def run(arguments: argparse.Namespace) -> int:
    """Do the work; return the exit status."""
    limits = _policy.unpacking(_policy.policy_of(arguments))
    symbols: list[str] = []
    if not _shown(arguments, [arguments.kernel], limits, symbols):
        from spillscan.naming import Names, symbol_of

        called = [symbol_of(key) for key in Names(symbols).called(arguments.kernel)]
        if not called or arguments.dump == "-" or not _shown(arguments, called, limits, []):
            raise InputError(f"{arguments.dump}: no kernel matches {arguments.kernel!r}", "part of a symbol, or a glob")
    return 0


def _shown(
    arguments: argparse.Namespace, patterns: Sequence[str], limits: Mapping[str, int], symbols: list[str]
) -> int:
    """How many functions were shown; the symbols of all are put into ``symbols``."""
    from spillscan.dumps.common import unsupported
    from spillscan.inputs.source import Source
    from spillscan.model import Issue
    from spillscan.model.code import SassFunction

    functions, shown = 0, 0
    with Source(arguments.dump).open() as stream:
        items, cubins = _items(stream, arguments.dump, patterns, limits)
        if arguments.sass and cubins is None:
            raise UsageError("--sass is for binaries", f"{arguments.dump} is none")
        if arguments.sass:
            nvdisasm()  # say so before anything is printed
        for item in items:
            if isinstance(item, Issue):
                complain(f"{item.origin}: {item.message}")
            elif isinstance(item, SassFunction):
                functions += 1
                symbols.append(item.symbol)
                if refusal := unsupported(item.arch, item.stats.origin):
                    raise InputError(f"{arguments.dump}: {refusal.message}", "dump a cubin of a later architecture")
                if _wanted(item.symbol, patterns) and arguments.arch in (None, item.arch):
                    say([*[""] * bool(shown), *lines(item, arguments.slots)])
                    shown += 1
                    if arguments.sass and cubins is not None:
                        say(text_of(item, cubins(item.member)).expandtabs().splitlines())
    if not functions:
        raise InputError(f"{arguments.dump}: no function in this input", "is it complete?")
    return shown


def _items(
    stream: Stream, name: str, patterns: Sequence[str], unpacking: Mapping[str, int]
) -> tuple[Iterator[SassFunction | FunctionUsage | PortableCode | Issue], Callable[[int], bytes] | None]:
    """What the input holds, and of a binary its cubins by their number."""
    from spillscan import binary
    from spillscan import dumps as sass
    from spillscan.binary.window import Limits
    from spillscan.inputs import snapshot
    from spillscan.inputs.source import kind_of_binary

    head = stream.head()
    if snapshot.sniff(head):
        return _kept(stream, name), None
    if kind_of_binary(head) is None or not binary.sniff(head):
        return sass.items(stream.file(), name, operands=lambda symbol: _wanted(symbol, patterns)), None
    buffer, limits = stream.buffer(), Limits(**unpacking)
    return binary.items(buffer, name, limits), lambda member: binary.extract(buffer, member, limits)


def _kept(stream: Stream, name: str) -> Iterator[SassFunction]:
    """The functions of a snapshot."""
    from spillscan.inputs import snapshot
    from spillscan.model.code import SassFunction

    for kernel in snapshot.read(stream, name).kernels:
        if kernel.sass is not None:
            yield SassFunction(
                symbol=kernel.key.symbol, arch=kernel.key.arch, role=kernel.role, member=0, stats=kernel.sass
            )


def _wanted(symbol: str, patterns: Sequence[str]) -> bool:
    return any(
        fnmatchcase(symbol, pattern) if any(sign in pattern for sign in "*?[") else pattern in symbol
        for pattern in patterns
    )


def lines(function: SassFunction, most: int) -> Iterator[str]:
    """The map of one function."""
    from spillscan.machine import spillmap

    stats = function.stats
    local = stats.local
    yield f"{function.symbol}  {function.arch or 'unknown arch'}  {stats.origin or ''}".rstrip()
    classes = ", ".join(f"{count} {name}" for name, count in stats.opcode_classes.items())
    yield f"  {stats.instructions} instructions, {stats.code_bytes} bytes: {classes}"
    if stats.maker:
        yield f"  made by {stats.maker}"
    if stats.unknown_opcodes:
        yield f"  opcodes of no known class: {', '.join(stats.unknown_opcodes)}"
    if stats.operands:
        yield f"  {_operands(stats.operands)}"
        yield f"  {_work(stats.operands)}"
    if stats.live_peak:
        place = spillmap.where(stats.live_peak.source)
        yield (
            f"  {stats.live_peak.registers} registers live at {stats.live_peak.address:#x}"
            f" (line {stats.live_peak.line} of the dump{', ' + place if place else ''})"
        )
    if stats.shared_spills:
        yield f"  {stats.shared_spills} spills go to shared memory: no log counts their bytes"
    yield from map(_role, stats.roles)
    if not local.total.accesses:
        yield "  no local memory"
        return
    spill = local.spill
    yield (
        f"  spills: {spill.stores} stores ({spill.store_bytes} bytes), {spill.loads} loads ({spill.load_bytes} bytes); "
        f"evidence: {local.evidence}"
    )
    for kind, name in (("array", "local arrays"), ("frame", "call frame"), ("unknown", "not known")):
        other = local.of(kind)  # type: ignore[arg-type]
        if other.accesses:
            stored, read = f"{other.stores} stores ({other.store_bytes} bytes)", f"{other.loads} loads"
            yield f"  {name}: {stored}, {read} ({other.load_bytes} bytes)"
    for number, culprit in enumerate(spillmap.culprits(local)[: spillmap.TOP]):
        yield f"  {'by weight' if not number else '':9}  {spillmap.share_text(culprit.share):>5}  {culprit}"
    for sentence in spillmap.sentences(function):
        yield f"  {sentence}"
    slots = spillmap.slots(function)
    width = max((len(slot.name) for slot in slots[:most]), default=0)
    for slot in slots[:most]:
        yield f"    {slot.name:{width}}  {slot.kind:7}  stored {_places(slot.stores)}  read {_places(slot.loads)}"
    if len(slots) > most:
        yield f"    … {len(slots) - most} more slots"


def _role(role: WarpRole) -> str:
    """``role from 0x1eb0 on, 240 registers: spill stores 256 B, spill loads 308 B; all of local memory 564 B``."""
    place = "from the start" if role.address is None else f"from {role.address:#x}"
    budget = "as launched" if role.address is None else f"{role.registers or 'an unknown number of'} registers"
    spill = role.spill
    spills = "unknown" if spill is None else f"{spill.store_bytes:,} B stored, {spill.load_bytes:,} B loaded"
    return f"  role {place}, {budget}: spills {spills}; local memory {role.local.bytes:,} B"


def _operands(operands: Operands) -> str:
    """``highest register named: R29, UR4, P0; 12 register bank conflicts (8 at depth 2, 4 at depth 0)``."""
    numbers = {"R": operands.highest_register, "UR": operands.highest_uniform_register, "P": operands.highest_predicate}
    named = ", ".join(f"{kind}{number}" for kind, number in numbers.items() if number is not None)
    text = f"highest registers named: {named or 'none'}"
    if operands.bank_conflicts is None:
        return text + "; register banks of this architecture are not public"
    total = sum(count for _, count in operands.bank_conflicts)
    places = ", ".join(
        f"{count} at {'unknown depth' if depth is None else f'depth {depth}'}"
        for depth, count in operands.bank_conflicts
    )
    return text + f"; {total} register bank conflicts" + (f" ({places})" if total else "")


def _work(operands: Operands) -> str:
    """What a thread does, each instruction counted once, and the intensity that it comes to."""
    flops, moved = ("an unknown number of" if x is None else f"{x:,}" for x in (operands.flops, operands.global_bytes))
    text = f"each instruction once: {flops} flops, {moved} bytes of global, {operands.shared_bytes:,} of shared memory"
    intensity = operands.arithmetic_intensity
    return text + ("" if intensity is None else f"; {intensity:.2f} flops per global byte, as a hint")


def _places(accesses: tuple[LocalAccess, ...]) -> str:
    if not accesses:
        return "never"
    shown = " ".join(
        f"{access.address:#06x}" + (f"/{access.depth}" if access.depth else "") for access in accesses[:_SHOWN]
    )
    return shown + (f" +{len(accesses) - _SHOWN}" if len(accesses) > _SHOWN else "")


_SECTION = "//-"
_TIMEOUT_SECONDS = 600


def nvdisasm() -> str:
    """The program: on the path, of a toolkit, or of the PyPI wheel. Raises where there is none."""
    homes = [Path(home) / "bin" for name in ("CUDA_HOME", "CUDA_PATH") if (home := os.environ.get(name))]
    wheel = importlib.util.find_spec("nvidia")
    for place in wheel.submodule_search_locations or () if wheel else ():
        homes += sorted(Path(place).glob("*/bin"), reverse=True)
    for folder in (None, *homes):
        if found := shutil.which("nvdisasm", path=folder):
            return found
    raise UsageError("--sass needs nvdisasm", "pip install 'spillscan[cuda]', or put a CUDA toolkit's on the PATH")


def text_of(function: SassFunction, cubin: bytes) -> str:
    """What nvdisasm prints for one function of a cubin, with source lines where it has line information."""
    program = nvdisasm()
    with tempfile.TemporaryDirectory(prefix="spillscan-") as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        command = [program, "-c", "-gi", str(file)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(f"{program} failed: {error}") from error
    listing = done.stdout.decode(errors="replace")
    lines = listing.splitlines()
    heads = [index for index, line in enumerate(lines) if line.startswith(_SECTION)]
    for begin, end in zip(heads, [*heads[1:], len(lines)], strict=True):
        if lines[begin].split()[1:2] == [f".text.{function.symbol}"]:
            return "\n".join(lines[begin:end]).rstrip()
    said = (done.stderr.decode(errors="replace").strip().splitlines() or ["nothing"])[0]
    raise InputError(f"{program} does not print {function.symbol} of {function.arch}: {said}", "is it recent enough?")
