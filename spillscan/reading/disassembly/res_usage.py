"""Reader of `cuobjdump -res-usage`: registers, stack, shared memory and constant banks per function."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from spillscan.model import Usage
from spillscan.model.code import DRIVER_SHARED_BYTES, FIRST_ARCH_WITH_RESERVE, FunctionUsage
from spillscan.model.gaps import EVERYTHING
from spillscan.reading import grammar
from spillscan.reading.disassembly.listing import BEFORE_ALL, ListingReader, decode, known

_RULES = ("resources", "function", "image", "field", "underline", "compressed", "title", "common", "globals", "member")


_ALWAYS = frozenset(b"REG STACK SHARED LOCAL TEXTURE SURFACE SAMPLER".split())
"""Values printed for every function."""
_BANKED = b"CONSTANT"


class ResourceUsage(ListingReader):
    """Functions and issues of one listing."""

    form = "res_usage"

    def __init__(self, chunks: Iterable[bytes], origin: str) -> None:
        super().__init__(chunks, origin)
        self._member = BEFORE_ALL
        self._symbol = ""
        """Function whose values follow."""
        self._seen: set[str] = set()
        """Symbols listed in the current cubin."""
        self._listed: list[FunctionUsage] = []
        """Its functions, with their values as printed."""
        self._titled = False

    def _part(self, text: bytes) -> None:
        """Read one line."""
        account = self.account
        line = text.rstrip(b"\r\n") if self._titled else _indented(text)
        rule, values = known(line, self.form, _RULES)
        if rule == "resources":
            self._resources(values[0])
            if not self._symbol:
                message = f"values without a kernel name: '{decode(line.strip())}'"
                account.report("unnamed-kernel", message, account.lines, "error")
            self._symbol = ""
        elif line and self._symbol and not grammar.line("diagnostic").match(text):
            self._end(is_cut=False)
        elif line and not rule:
            account.unknown_line(line + b"\n", account.lines, hides=EVERYTHING)
        if rule == "function":
            self._symbol = symbol = decode(values[0])
            if symbol in self._seen:
                account.damaged(f"{symbol} is listed twice", account.lines, symbol)
            self._seen.add(symbol)
        elif rule == "title":
            self._finish_cubin()
            self._seen.clear()
            self._titled = True
        self._member = self._member.after(rule, values)

    def _end(self, *, is_cut: bool) -> None:
        if self._symbol:  # its values are missing, or belong to the next
            self.account.truncated(f"the values of {self._symbol} are missing", self.account.lines)
            self._symbol = ""
        self._finish_cubin()
        if is_cut:
            self.account.truncated("the last line of the listing is truncated", self.account.lines)

    def _finish_cubin(self) -> None:
        """Add the functions of a cubin, without the driver's reserve. Relocatable code has none, which a smaller value
        of any of its functions proves."""
        shared = [each.usage.shared_bytes for each in self._listed if each.usage.shared_bytes]
        linked = self._titled and min(shared, default=0) >= DRIVER_SHARED_BYTES
        self.account.found += map(_without_reserve, self._listed) if linked else self._listed
        self._listed.clear()

    def _resources(self, text: bytes) -> None:
        """Read the values of a function."""
        account = self.account
        account.functions += 1
        self._listed.append(self._function(text))
        resources = [grammar.line("resource", self.form).fullmatch(word) for word in text.split()]
        names = [match["name"] + (match["bank"] or b"") for match in resources if match]
        unknown = any(match and (match["name"] == _BANKED) != bool(match["bank"]) for match in resources)
        lacking = self._titled and not _ALWAYS.issubset(names)
        if None in resources or len(names) > len({*names}) or lacking or unknown:
            account.damaged(f"the values of {self._symbol} are damaged", account.lines, self._symbol)

    def _function(self, text: bytes) -> FunctionUsage:
        """Usage of one function. Its lines are pasted from another text if no title precedes them."""
        member, pasted = self._member, not self._titled
        values: dict[str, int | None] = {}
        banks: list[tuple[int, int]] = []
        for match in grammar.line("resource", self.form).finditer(text):
            amount = int(match["amount"]) if match["amount"].isdigit() else None
            if match["bank"] and amount is not None:
                banks.append((int(match["bank"][1:-1]), amount))
            else:
                values[match["name"].decode()] = amount
        return FunctionUsage(
            symbol=self._symbol,
            arch=member.arch,
            identifier=member.identifier or member.unit,
            usage=Usage(
                registers=values.get("REG"),
                # covers the whole call tree; pasted lines use it for the kernel's own
                stack_bytes=values.get("STACK") if pasted or values.get("STACK") == 0 else None,
                cumulative_stack_bytes=values.get("STACK"),
                shared_bytes=values.get("SHARED"),
                local_bytes=values.get("LOCAL"),
                constant_bytes=tuple(sorted(banks)),
                textures=values.get("TEXTURE"),
                surfaces=values.get("SURFACE"),
                samplers=values.get("SAMPLER"),
            ),
            dynamic_stack="STACK" in values and values["STACK"] is None,
            origin=self.account.origin(self.account.lines),
        )


def _without_reserve(function: FunctionUsage) -> FunctionUsage:
    """A function of linked code, with its shared memory as ptxas counts it; unknown if the arch is."""
    number, shared = "".join(filter(str.isdigit, function.arch or "")), function.usage.shared_bytes
    if shared is None or shared < DRIVER_SHARED_BYTES or (number and int(number) < FIRST_ARCH_WITH_RESERVE):
        return function
    return replace(
        function, usage=replace(function.usage, shared_bytes=shared - DRIVER_SHARED_BYTES if number else None)
    )


def _indented(text: bytes) -> bytes:
    """A pasted line with its original indent."""
    line = text.strip()
    if line.startswith(b"REG:"):
        return b"  " + line
    return b" " + line if line.startswith(b"Function ") else text.rstrip(b"\r\n")
