"""Launch bounds of kernels in a preprocessed CUDA source, rewritten as text: nvcc's front end makes other PTX of a
source with other bounds, so that bounds which are put into the PTX alone may do better, or worse, than in the source.

In what nvcc preprocesses ``__global__`` is ``__attribute__((global))``, and ``__launch_bounds__(256, 4)`` is
``__attribute__((launch_bounds(256, 4)))`` (``crt/host_defines.h``, 11.8 to 13.5).
"""

from __future__ import annotations

import re

from spillscan.advice.sweep.model import Setting

_KERNEL = "__attribute__((global))"
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\(\s*(launch_bounds|maxnreg|block_size|\w+)")
_BLANK = re.compile(r"(?:\s+|#[^\n]*\n)*")
_ROUND = re.compile(r"[()]")
_WORD = re.compile(r"[A-Za-z_]\w*")


def rewritten(text: str, setting: Setting) -> str:
    """The source with the setting's bounds in the place of every kernel's own; other settings change nothing."""
    if setting.kind not in ("bounds", "maxnreg"):
        return text
    pieces, at, place = [], 0, text.find(_KERNEL)
    while place >= 0:
        name = _name(text, place + len(_KERNEL))
        if name is not None:
            begin = max(at, *(text.rfind(sign, at, place) + 1 for sign in ";{}"))
            pieces += [text[at:begin], _head(text[begin:name], setting)]
            at = name
        place = text.find(_KERNEL, max(name or 0, place + 1))
    return "".join((*pieces, text[at:]))


def _name(text: str, at: int) -> int | None:
    """Where the name of a kernel begins that is declared or defined behind its attribute; ``None`` of an instance of a
    template, which has the template's bounds."""
    while True:
        blank = _BLANK.match(text, at)
        at = blank.end() if blank else at
        word = _WORD.match(text, at)
        if word is None:
            return None
        if word[0] == "__attribute__":
            at = _closed(text, word.end())
            continue
        behind = _BLANK.match(text, word.end())
        if text.startswith("(", behind.end() if behind else word.end()):
            return at
        at = word.end()


def _closed(text: str, at: int) -> int:
    """Behind the parenthesis that closes the first one from here; the end of the text where none does."""
    depth = 0
    for match in _ROUND.finditer(text, at):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.end()
    return len(text)


def _head(head: str, setting: Setting) -> str:
    """What stands before a kernel's name, with other bounds."""
    dropped = ("launch_bounds", "maxnreg", "block_size") if setting.kind == "bounds" else ("launch_bounds", "maxnreg")
    kept, at, threads = [], 0, str(setting.threads or "")
    for match in _ATTRIBUTE.finditer(head):
        if match[1] in dropped:
            end = _closed(head, match.start())
            if match[1] == "launch_bounds" and not threads:
                threads = _first(head[match.end() : end])
            kept.append(head[at : match.start()])
            at = end
    if setting.kind == "maxnreg":
        bounds = f"maxnreg({setting.registers})"
    elif threads:
        bounds = f"launch_bounds({threads}, {setting.blocks})" if setting.blocks else f"launch_bounds({threads})"
    else:
        return head
    return "".join((*kept, head[at:], f" __attribute__(({bounds})) "))


def _first(arguments: str) -> str:
    """The first of ``(THREADS, BLOCKS)``."""
    depth = 0
    for match in re.finditer(r"[(),]", arguments):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == (1 if match[0] == "," else 0):
            return arguments[arguments.find("(") + 1 : match.start()]
    return ""
