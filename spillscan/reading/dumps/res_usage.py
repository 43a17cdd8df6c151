"""Reader of `cuobjdump -res-usage`: registers, stack, shared memory and constant banks per function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spillscan.model import Issue, Usage
from spillscan.model.code import FunctionUsage
from spillscan.model.gaps import EVERYTHING
from spillscan.reading import grammar
from spillscan.reading.dumps.listing import BEFORE_ALL, DumpAccount, Member, decode, known, lines

FORMAT = "res_usage"

DRIVER_SHARED_BYTES = 1024
"""Shared memory that the driver reserves per block from sm_90 on. -res-usage includes it, ptxas does not."""
FIRST_ARCH_WITH_RESERVE = 90

_RULES = ("figures", "function", "image", "field", "underline", "compressed", "title", "common", "globals", "member")


_ALWAYS = frozenset(b"REG STACK SHARED LOCAL TEXTURE SURFACE SAMPLER".split())
"""Values printed for every function."""
_BANKED = b"CONSTANT"


class ResourceUsage:
    """Functions and issues of one listing; ``account`` counts the lines read."""

    def __init__(self, chunks: Iterable[bytes], origin: str) -> None:
        self.account = DumpAccount(origin, FORMAT)
        self._chunks = chunks

    def __iter__(self) -> Iterator[FunctionUsage | Issue]:
        account, member = self.account, BEFORE_ALL
        symbol, number, text = "", 0, b""
        seen: set[str] = set()
        """Symbols listed in the current cubin."""
        long: list[Issue] = []
        titled = False
        read = lines(self._chunks, self.account, lambda: long.append(account.too_long(number + 1)))
        for number, text in enumerate(read, 1):
            line = text.rstrip(b"\r\n") if titled else _indented(text)
            rule, values = known(line, FORMAT, _RULES)
            if rule == "figures":
                account.functions += 1
                yield self._function(symbol, member, values[0], number, pasted=not titled)
                figures = [grammar.line("figure", FORMAT).fullmatch(word) for word in values[0].split()]
                names = [match["name"] + (match["bank"] or b"") for match in figures if match]
                unknown = any(match and (match["name"] == _BANKED) != bool(match["bank"]) for match in figures)
                lacking = titled and not _ALWAYS.issubset(names)
                if None in figures or len(names) > len({*names}) or lacking or unknown:
                    message = f"the values of {symbol} are damaged"
                    yield account.issue("damaged-listing", message, number, "error", symbol=symbol)
                if not symbol:
                    message = f"a record has no kernel name: '{decode(line.strip())}'"
                    yield account.issue("unnamed-kernel", message, number, "error")
                symbol = ""
            elif line and symbol and not grammar.line("diagnostic").match(text):
                yield self._without_figures(symbol, number)
                symbol = ""
            elif line and not rule and (issue := account.unknown_line(line + b"\n", number, hides=EVERYTHING)):
                yield issue
            if rule == "function":
                symbol = decode(values[0])
                if symbol in seen:
                    yield account.issue("damaged-listing", f"{symbol} is listed twice", number, "error", symbol=symbol)
                seen.add(symbol)
            elif rule == "title":
                seen.clear()
                titled = True
            member = member.after(rule, values)
        account.lines = number
        yield from long
        if symbol:
            yield self._without_figures(symbol, number)
        if text and not text.endswith(b"\n"):
            yield account.truncated("the last line of the listing is truncated", number)
        yield from account.summary()

    def _without_figures(self, symbol: str, line: int) -> Issue:
        return self.account.truncated(f"the values of {symbol} are missing", line)  # or belong to the next

    def _function(self, symbol: str, member: Member, text: bytes, line: int, *, pasted: bool) -> FunctionUsage:
        """Usage of one function; ``pasted``: no title precedes its lines."""
        found: dict[str, int | None] = {}
        banks: list[tuple[int, int]] = []
        for match in grammar.line("figure", FORMAT).finditer(text):
            amount = int(match["amount"]) if match["amount"].isdigit() else None
            if match["bank"] and amount is not None:
                banks.append((int(match["bank"][1:-1]), amount))
            else:
                found[match["name"].decode()] = amount
        shared = found.get("SHARED")
        number = "".join(filter(str.isdigit, member.arch or ""))
        if shared is not None and shared >= DRIVER_SHARED_BYTES and not pasted:
            if not number:
                shared = None  # unknown whether the driver's reserve is included
            elif int(number) >= FIRST_ARCH_WITH_RESERVE:
                shared -= DRIVER_SHARED_BYTES
        return FunctionUsage(
            symbol=symbol,
            arch=member.arch,
            identifier=member.identifier or member.unit,
            usage=Usage(
                registers=found.get("REG"),
                # covers the whole call tree; pasted lines use it for the kernel's own
                stack_bytes=found.get("STACK") if pasted or found.get("STACK") == 0 else None,
                cumulative_stack_bytes=found.get("STACK"),
                shared_bytes=shared,
                local_bytes=found.get("LOCAL"),
                constant_bytes=tuple(sorted(banks)),
                textures=found.get("TEXTURE"),
                surfaces=found.get("SURFACE"),
                samplers=found.get("SAMPLER"),
            ),
            dynamic_stack="STACK" in found and found["STACK"] is None,
            origin=self.account.origin(line),
        )


def _indented(text: bytes) -> bytes:
    """A pasted line with its original indent."""
    line = text.strip()
    if line.startswith(b"REG:"):
        return b"  " + line
    return b" " + line if line.startswith(b"Function ") else text.rstrip(b"\r\n")
