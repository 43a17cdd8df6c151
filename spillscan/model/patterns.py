"""Globs over the names of a kernel.

A glob (``*``, ``?``, ``[abc]``, ``[!abc]``; case-sensitive) must match a whole name. The names of a kernel are its
:func:`~spillscan.model.symbols.spellings`. Matching does not backtrack: :func:`fnmatch.translate` makes an expression
that matches the text before each literal only once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate
from functools import lru_cache

from msgspec import Struct

from spillscan.model import Kernel
from spillscan.model.symbols import Tuned, spellings
from spillscan.output.errors import UsageError

_WILD = re.compile(r"[*?]|\[!?\]?[^\]]*\]")
_EDGE = "\n"  # separates the names in the text that needles are searched in; in no name itself


class Pattern(Struct, frozen=True):
    """Pattern prepared for matching very many names."""

    needle: str
    """String without which in the names' text (:func:`text_of`) the pattern cannot match; fast to look up."""
    is_whole: Callable[[str], object] | None
    """Test that one of the names must then pass; ``None`` if the needle decides."""

    @property
    def exact(self) -> str | None:
        """The only name that it matches, if it is a plain name."""
        whole = self.is_whole is None and len(self.needle) > 1 and self.needle[0] == self.needle[-1] == _EDGE
        return self.needle[1:-1] if whole else None

    def fits(self, text: str, names: Sequence[str]) -> bool:
        """Whether it matches one of ``names``, whose text is ``text``."""
        if self.needle not in text:
            return False
        return self.is_whole is None or any(map(self.is_whole, names))


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> Pattern:
    """``pattern`` prepared for matching. Raises :class:`~spillscan.UsageError` for a regular expression."""
    if pattern.startswith("re:"):
        raise UsageError(
            f"{pattern[:60]!r}: regular expressions are not supported", "write a glob: *, ?, [abc], [!abc]"
        )
    if pattern and not pattern.strip("*"):
        return Pattern("", None)
    closed, last, rest = pattern.rpartition("]")
    pattern = closed + last + rest.replace("[", "[[]")  # brackets that nothing closes would each search for an end
    whole = _EDGE + pattern + _EDGE
    pieces = _WILD.split(whole)
    literal = [piece for piece in pieces if piece.strip(_EDGE)]
    only_stars = all(mark == "*" for mark in _WILD.findall(whole))
    # A single literal with only stars around it, at the edges or not: whether it occurs decides.
    if only_stars and len(literal) == 1:
        return Pattern(literal[0], None)
    return Pattern(max(literal, key=len, default=""), re.compile(translate(pattern)).fullmatch)


def text_of(names: Iterable[str]) -> str:
    """Names joined to one string in which needles can be searched."""
    return _EDGE + _EDGE.join(names) + _EDGE


def names_of(called: str | Tuned) -> tuple[str, ...]:
    """Names that patterns are matched against, each on one line.

    An autotuning config shares its symbol with others, so that a name of its own comes before those of the symbol
    (``mm[64×64×32, 4 warps, 3 stages]``).
    """
    if isinstance(called, Tuned):
        own = f"{called.symbol}[{', '.join(called.words)}]"
        return (own.replace(_EDGE, " "), *names_of(called.symbol))
    return spellings(called.replace(_EDGE, " "))


def matches(kernel: Kernel, pattern: str) -> bool:
    """Whether a glob matches ``kernel``, by any of its names."""
    names, text = _spelled(kernel.named_by)
    return compiled(pattern).fits(text, names)


@lru_cache(maxsize=64)
def _spelled(called: str | Tuned) -> tuple[tuple[str, ...], str]:
    """Names of a kernel and their text, cached, since many patterns are matched against one kernel."""
    names = names_of(called)
    return names, text_of(names)
