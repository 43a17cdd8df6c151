"""Axes of a sweep: what each changes (an option of nvcc or ptxas, a macro, a pragma), and its values. The points are
all combinations of the axes' values with the register settings, and the kernel as it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from itertools import chain, product
from math import prod
from typing import Literal, NamedTuple

from spillscan.advice.sweep.model import AS_IS, DEFAULT_CAPS, Knob, Setting, registers_of, words_of
from spillscan.output.errors import UsageError
from spillscan.output.nouns import count

MOST_POINTS = 2000
"""Of one kernel: more are a mistake."""
_NAME = re.compile(r"-{0,2}[A-Za-z][\w-]*")
_MACRO = re.compile(r"[A-Za-z_]\w*")
_SET_OTHERWISE = {
    **dict.fromkeys(("maxrregcount", "maxntid", "minnctapersm"), "--vary cap, bounds or maxnreg"),
    **dict.fromkeys(("arch", "gpu-name", "gpu-architecture", "gencode", "generate-code", "code"), "--arch"),
    **dict.fromkeys(("o", "output-file", "e", "entry", "v", "verbose", "dryrun"), "nothing: the sweep sets it itself"),
}


Tool = Literal["nvcc", "ptxas", "pragma"]


class Axis(NamedTuple):
    """What is changed, and how."""

    tool: Tool
    """What it is given to."""
    text: str
    """As the user wrote it: ``opt-level=1,2,3``; a flag without values is tried without and with."""
    macro: bool = False
    """Whether it is a macro, ``TILE=16,32``."""

    def values(self) -> list[tuple[Knob, ...]]:
        """Its values, each as what is added to the command; of a flag nothing is the first. Raises
        :class:`~spillscan.UsageError` where it is none."""
        name, equals, listed = self.text.partition("=")
        option = "-D" if self.macro else f"--vary {self.tool}"
        if not (_MACRO if self.macro or self.tool == "pragma" else _NAME).fullmatch(name):
            raise UsageError(f"{option}: {self.text!r} is not an axis", f"write {_EXAMPLES[option]}")
        if instead := _SET_OTHERWISE.get(name.lstrip("-")):
            raise UsageError(f"{option}: {name} is not an axis of its own", f"use {instead}")
        plain = self.tool == "pragma" or name.startswith("-")
        word = f"-D{name}" if self.macro else name if plain else f"--{name}"
        if not equals:
            return [(), (Knob(tool=self.tool, word=word),)]
        found = [Knob(tool=self.tool, word=word, value=_whole(value)) for value in words_of([listed])]
        if not found:
            raise UsageError(f"{option}: {self.text!r} has no values", f"write {_EXAMPLES[option]}")
        return [(each,) for each in dict.fromkeys(found)]


_EXAMPLES = {
    "-D": "-D TILE=16,32,64",
    "--vary pragma": "--vary pragma.enable_smem_spilling",
    "--vary nvcc": "--vary nvcc.fmad=true,false",
    "--vary ptxas": "--vary ptxas.register-usage-level=0,5,10",
}


def _whole(value: str) -> str:
    """A file that is there as its whole path: compilers run in folders of their own."""
    return os.path.abspath(value) if os.path.isfile(value) else value


def settings_of(
    caps: Sequence[str] | None, bounds: Sequence[str], maxnreg: Sequence[str], axes: Iterable[Axis] = ()
) -> tuple[Setting, ...]:
    """The points that options ask for, each once, ``as is`` first; without any, ``as is`` and the default caps."""
    found = registers_of(caps or (), bounds, maxnreg)
    listed = [axis.values() for axis in axes]
    if not found and not listed and caps is None:
        found = registers_of([str(cap) for cap in DEFAULT_CAPS], (), ())
    registers = found or [AS_IS]
    number = len(registers) * prod(map(len, listed))
    if number > MOST_POINTS:
        raise UsageError(f"{count(number, 'point')} of each kernel", f"{MOST_POINTS:,} are the most: fewer values")
    points = (each.with_knobs(tuple(chain(*knobs))) for each in registers for knobs in product(*listed))
    return (AS_IS, *(point for point in dict.fromkeys(points) if point != AS_IS))
