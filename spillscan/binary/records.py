"""Figures as records, and an issue for what keeps a function from being read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePath

from spillscan.binary.containers import Image, Place
from spillscan.binary.figures import Figures, LostLines, Resources, Told
from spillscan.binary.window import DamageError
from spillscan.model import Issue, LaunchBounds, Origin, Severity, Usage
from spillscan.model.code import NO_TRAFFIC, SassFunction, SassStats

FORMAT = "binary"
_OBJECTS = (".o", ".obj")
"""Files that are the output of one compilation, which is what a log's unit names, too."""
_MANY = 20
"""Issues of damage that are kept for one file; the rest is counted."""


class Records:
    """The records of one file."""

    def __init__(self, name: str) -> None:
        self._input = name
        self._unit = PurePath(name).name if name.endswith(_OBJECTS) else ""
        self._damages = 0
        self._unknown_archs: Counter[str] = Counter()
        self._unknown_codes: Counter[str] = Counter()
        self._damaged_lines: Counter[str] = Counter()
        """Cubins by what is wrong with their source lines."""
        self._shown = 0
        self._usages: dict[Resources, Usage] = {}

    def of(self, image: Image, number: int, told: Iterable[Told]) -> Iterator[SassFunction | Issue]:
        """All functions of one cubin; ``number`` is its place in the file, ``told`` what it says."""
        place = image.place
        identifier = place.identifier or (place.members[-1] if place.members else self._unit)
        origin = Origin(input=self._input, line=None, format=FORMAT)
        for each in told:
            if isinstance(each, DamageError):
                yield self.damage(each, place)
            elif isinstance(each, LostLines):
                self._damaged_lines[each.what] += 1
            else:
                yield self._function(each, number, identifier, origin)

    def worth(self, item: SassFunction | Issue) -> bool:
        """Whether it is told: every function, and the first issues of damage."""
        if isinstance(item, SassFunction):
            return True
        self._shown += 1
        return self._shown <= _MANY

    def rest(self) -> Iterator[Issue]:
        """What is only counted while the file is read."""
        for arch, count in _first(self._unknown_archs):
            message = f"no opcode table for {arch}: {count} functions without instruction counts and spills"
            message += "; `cuobjdump -sass FILE | spillscan scan -` counts them"
            yield self._issue("unknown-arch", message, "warning")
        for arch, count in _first(self._unknown_codes):
            yield self._issue("unknown-opcode", f"{count} instructions of {arch} are in no opcode table", "note")
        for what, count in _first(self._damaged_lines):
            yield self._issue("damaged-lines", f"{what}: {count} cubins without all their source lines", "warning")
        if self._damages > _MANY:
            yield self._issue("damaged", f"{self._damages} places are damaged; {_MANY} are shown", "error")

    def damage(self, error: DamageError, place: Place) -> Issue:
        """An issue for something that cannot be read."""
        self._damages += 1
        where = f"{place}: " if place.members else ""
        return self._issue("damaged", f"{where}{error}", "error")

    def _issue(self, code: str, message: str, severity: Severity) -> Issue:
        shown = "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in message)
        origin = Origin(input=self._input, format=FORMAT)
        return Issue(code=code, message=shown[:500], severity=severity, origin=origin)

    def _function(self, figures: Figures, number: int, identifier: str, origin: Origin) -> SassFunction:
        counts, bounds = figures.counts, figures.bounds
        if counts is None:
            self._unknown_archs[figures.arch] += 1
        elif counts.unknown:
            self._unknown_codes[figures.arch] += counts.unknown
        usage = self._usages.get(figures.resources)
        if usage is None:
            usage = self._usages[figures.resources] = Usage(**figures.resources._asdict())
        return SassFunction(
            symbol=figures.symbol,
            arch=figures.arch,
            role=figures.role,
            member=number,
            identifier=identifier,
            stats=SassStats(
                instructions=counts.instructions if counts else 0,
                code_bytes=figures.code_bytes,
                opcodes=counts.opcodes if counts else (),
                local=figures.local or NO_TRAFFIC,
                shared_spills=figures.shared_spills,
                registers=usage.registers,
                origin=origin,
                maker=figures.maker,
            ),
            usage=usage,
            launch_bounds=LaunchBounds(max_threads=bounds[0], required_threads=bounds[1]) if bounds else None,
            final=figures.final,
        )


def _first(counts: Counter[str]) -> Iterator[tuple[str, int]]:
    """The counts by name; of more than are shown, the last stands for all the others."""
    ranked = sorted(counts.items())
    yield from ranked[:_MANY]
    if rest := ranked[_MANY:]:
        yield f"{len(rest)} others", sum(count for _, count in rest)
