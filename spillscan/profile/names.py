"""Kernel names as Nsight Compute prints them, and as LLVM's demangler does, in one form that can be compared.

NVIDIA's demangler writes ``outer::<unnamed>::scale<float, (int)4>(T1 *, const T1 *, int)`` where LLVM's writes
``outer::(anonymous namespace)::scale<float, 4>(float*, float const*, int)``. Parameters of templates cannot be
compared: NVIDIA's are those of the template. What is dropped for the comparison (``const``) can only make two names
alike, never one kernel two; who finds several says so.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_CAST = re.compile(r"\((?:unsigned |signed )?[A-Za-z_][\w:]*(?: (?:int|long|char|short|long int|long long))*\)(?=-?\d)")
_SUFFIX = re.compile(r"(?<![\w.])(-?\d+)[uU]?[lL]{0,2}(?![\w.])")
_WORDS = re.compile(r"\b(?:const|volatile|struct|class|enum)\b")
_BOOLEANS = re.compile(r"\b(?:true|false)\b")
_LAMBDA = re.compile(r"\[lambda(\(.*?\)) \(instance (\d+)\)\]")
_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Name:
    """What a kernel is called."""

    qualified: str
    """Namespaces, base name and template arguments."""
    parameters: str | None
    """Its parameters in parentheses; ``None`` where none are printed."""

    @property
    def template(self) -> bool:
        """Whether it has template arguments."""
        return self.qualified.endswith(">")


@lru_cache(maxsize=65536)
def parsed(text: str) -> Name:
    """The parts of a demangled name, each in the comparable form."""
    text = text.replace("<unnamed>", "(anonymous namespace)")
    text = _LAMBDA.sub(_lambda, text)
    at = _parameters_at(text)
    head = text if at is None else text[:at]
    return Name(_plain(head.removeprefix("void ")), None if at is None else _plain(text[at:]))


def _parameters_at(text: str) -> int | None:
    """Where the parameter list begins: the last parenthesis that no bracket encloses, at the name's end."""
    text = text.rstrip()
    if not text.endswith(")"):
        return None
    depth = 0
    for place in range(len(text) - 1, -1, -1):
        if text[place] == ")":
            depth += 1
        elif text[place] == "(":
            depth -= 1
            if depth == 0:
                return None if text.startswith("(anonymous namespace)", place) else place
    return None


def _lambda(found: re.Match[str]) -> str:
    """NVIDIA's ``[lambda(float) (instance 2)]`` is LLVM's ``'lambda0'(float)``, the first one ``'lambda'(float)``."""
    nth = int(found[2])
    return f"'lambda{nth - 2 if nth > 1 else ''}'{found[1]}"


def _plain(text: str) -> str:
    text = _CAST.sub("", text)
    text = _BOOLEANS.sub(lambda found: "1" if found[0] == "true" else "0", text)
    text = _WORDS.sub(" ", text)
    text = _SUFFIX.sub(r"\1", text)
    text = text.replace("(void)", "()")
    return _BLANKS.sub("", text)
