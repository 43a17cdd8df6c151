"""Reads `cuobjdump -res-usage`: registers, stack, shared memory and constant banks of each function."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.dumps import terminals
from spillscan.dumps.blocks import Stream
from spillscan.dumps.headers import Cubin
from spillscan.dumps.lines import lines
from spillscan.model import Issue, Origin, Usage
from spillscan.model.code import FunctionUsage, Outcome

FORMAT = "res_usage"

DRIVER_SHARED_BYTES = 1024
"""Shared memory that the driver keeps in each block from sm_90 on. -res-usage counts it, ptxas does not."""
FIRST_ARCH_WITH_RESERVE = 90

_RULES = ("figures", "function", "image", "field", "underline", "compressed", "title", "common", "globals", "member")
_SHOWN = 120


class ResourceUsage:
    """One listing: an iterator of functions and issues; ``outcome`` says how much was read."""

    def __init__(self, stream: Stream, origin: str) -> None:
        self.outcome = Outcome()
        self._stream = stream
        self._input = origin

    def __iter__(self) -> Iterator[FunctionUsage | Issue]:
        cubin, symbol, number = Cubin(-1), "", 0
        for number, text in enumerate(lines(self._stream), 1):
            self.outcome.bytes += len(text)
            line = text.rstrip(b"\r\n")
            rule, values = _known(line)
            if rule == "figures" and symbol:
                self.outcome.functions += 1
                yield self._function(symbol, cubin, values[0], number)
                symbol = ""
            elif rule == "function":
                symbol = values[0].decode("utf-8", "backslashreplace")
            elif rule == "image":
                cubin = Cubin(cubin.member + (values[0] == b"elf"), object=cubin.object)
            elif rule == "member":
                cubin = cubin._replace(object=values[0].decode("utf-8", "backslashreplace"))
            elif rule == "field" and values[0] == b"arch":
                cubin = cubin._replace(arch=values[1].decode())
            elif rule == "field" and values[0] == b"identifier":
                cubin = cubin._replace(identifier=values[1].decode("utf-8", "backslashreplace"))
            elif line and not rule:
                self.outcome.unknown_lines += 1
                shown = ascii(line.decode("utf-8", "backslashreplace"))[1:-1][:_SHOWN]
                yield Issue(
                    code="unknown-line",
                    message=f"not a line of a resource usage listing: {shown}",
                    origin=Origin(input=self._input, line=number, format=FORMAT),
                )
        self.outcome.lines = number

    def _function(self, symbol: str, cubin: Cubin, text: bytes, line: int) -> FunctionUsage:
        found: dict[str, int | None] = {}
        banks: list[tuple[int, int]] = []
        for match in terminals.line("figure", FORMAT).finditer(text):
            amount = None if match["amount"] == b"UNKNOWN" else int(match["amount"])
            if match["bank"] and amount is not None:
                banks.append((int(match["bank"][1:-1]), amount))
            else:
                found[match["name"].decode()] = amount
        shared = found.get("SHARED")
        number = "".join(filter(str.isdigit, cubin.arch or ""))
        if shared is not None and number and int(number) >= FIRST_ARCH_WITH_RESERVE and shared >= DRIVER_SHARED_BYTES:
            shared -= DRIVER_SHARED_BYTES
        return FunctionUsage(
            symbol=symbol,
            arch=cubin.arch,
            identifier=cubin.identifier or cubin.unit,
            usage=Usage(
                registers=found.get("REG"),
                stack_bytes=found.get("STACK"),
                shared_bytes=shared,
                local_bytes=found.get("LOCAL"),
                constant_bytes=tuple(sorted(banks)),
                textures=found.get("TEXTURE"),
                surfaces=found.get("SURFACE"),
                samplers=found.get("SAMPLER"),
            ),
            dynamic_stack="STACK" in found and found["STACK"] is None,
            origin=Origin(input=self._input, line=line, format=FORMAT),
        )


def _known(text: bytes) -> tuple[str, tuple[bytes, ...]]:
    for rule in _RULES:
        if match := terminals.line(rule, FORMAT).match(text):
            return rule, match.groups(b"")
    return "", ()
