"""Patterns that name kernels: globs and regular expressions over the names that a kernel has.

A glob (``*``, ``?``, ``[abc]``, ``[!abc]``; case counts) must fit a whole name; so must ``re:EXPRESSION``, a regular
expression of RE2. The names of a kernel are its :func:`~spillscan.model.symbols.spellings`.

Both take time that grows with the name: RE2 never tries a place twice, whatever the expression, and what
:func:`fnmatch.translate` makes of a glob takes what stands before a literal once.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from fnmatch import translate
from functools import lru_cache

from msgspec import Struct

from spillscan.model import Kernel
from spillscan.model.symbols import Tuned, spellings
from spillscan.output.errors import UsageError

_WILD = re.compile(r"[*?]|\[!?\]?[^\]]*\]")
_EDGE = "\n"  # stands around and between names in the text that needles are looked for in; in no name itself


class Pattern(Struct, frozen=True):
    """A pattern made ready to be tried on very many names."""

    needle: str
    """What must stand in the text of the names (:func:`text_of`) for the pattern to fit; quickly looked up."""
    is_whole: Callable[[str], object] | None
    """What must then be true of one of the names; ``None`` where the needle decides."""

    @property
    def exact(self) -> str | None:
        """The one name that it fits, where it is no more than a name."""
        whole = self.is_whole is None and len(self.needle) > 1 and self.needle[0] == self.needle[-1] == _EDGE
        return self.needle[1:-1] if whole else None

    def fits(self, text: str, names: Sequence[str]) -> bool:
        """Whether it names what has these ``names``, whose text is ``text``."""
        if self.needle not in text:
            return False
        return self.is_whole is None or any(map(self.is_whole, names))


@lru_cache(maxsize=4096)
def compiled(pattern: str) -> Pattern:
    """``pattern`` made ready; :class:`~spillscan.UsageError` where it is not a regular expression."""
    if pattern.startswith("re:"):
        return Pattern("", _expression(pattern))
    if pattern and not pattern.strip("*"):
        return Pattern("", None)
    closed, last, rest = pattern.rpartition("]")
    pattern = closed + last + rest.replace("[", "[[]")  # of those that nothing closes, each would look for an end
    whole = _EDGE + pattern + _EDGE
    pieces = _WILD.split(whole)
    literal = [piece for piece in pieces if piece.strip(_EDGE)]
    only_stars = all(mark == "*" for mark in _WILD.findall(whole))
    # One literal with nothing but stars around it, at the edges or not: whether it occurs decides.
    if only_stars and len(literal) == 1:
        return Pattern(literal[0], None)
    return Pattern(max(literal, key=len, default=""), re.compile(translate(pattern)).fullmatch)


def _expression(pattern: str) -> Callable[[str], object]:
    """What Python reads, too, so that nothing has another meaning than it seems to have, as RE2 matches it."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a later Python may read another way
            re.compile(pattern[3:])
        expression = re2.compile(pattern[3:], options)
    except re2.error as error:
        raise UsageError(
            f"{pattern[:60]!r}: {error.args[0].decode()} cannot be read by RE2", "write it without"
        ) from None
    except (re.error, OverflowError, RecursionError, UnicodeError) as error:
        raise UsageError(f"{pattern[:60]!r} is not a regular expression: {error}") from None
    return lambda name: expression.fullmatch(name.encode("utf-8", "replace").decode())


def text_of(names: Iterable[str]) -> str:
    """The names in one string in which a needle may be looked for."""
    return _EDGE + _EDGE.join(names) + _EDGE


def names_of(called: str | Tuned) -> tuple[str, ...]:
    """The names that patterns are tried on, each one line: of a symbol; of a tuner's candidate, which shares it with
    others, its own before it (``mm[64×64×32, 4 warps, 3 stages]``)."""
    if isinstance(called, Tuned):
        own = f"{called.symbol}[{', '.join(called.words)}]"
        return (own.replace(_EDGE, " "), *names_of(called.symbol))
    return spellings(called.replace(_EDGE, " "))


def matches(kernel: Kernel, pattern: str) -> bool:
    """Whether a glob or ``re:`` pattern names ``kernel``, by any of its names."""
    names, text = _spelled(kernel.named_by)
    return compiled(pattern).fits(text, names)


@lru_cache(maxsize=64)
def _spelled(called: str | Tuned) -> tuple[tuple[str, ...], str]:
    """The names of a kernel, and their text: of one kernel many patterns are tried."""
    names = names_of(called)
    return names, text_of(names)
