"""HTML file with an inline style sheet, an inline script, and data that is text until the script reads it.

The content security policy allows these two by hash and nothing else: no request, other script, style attribute or
markup made of text. Log text is only in JSON without any ``<``, or in escaped HTML.

Without JavaScript, the page shows the terminal's output.
"""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

from spillscan import __version__
from spillscan.output.records import harmless
from spillscan.output.safe import clip, printable
from spillscan.output.terminal import Style

_ASSETS = Path(__file__).parent / "assets"
COMMON = ("base", "core", "controls", "table", "chart")
"""Assets of every page: design tokens, the frame, and the components of views."""
_LONGEST_TITLE = 120
_ESCAPES = re.compile(r"(?:\\u[0-9a-f]{4})+|\\.")
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def document(
    title: str, payload: Mapping[str, Any], assets: Sequence[str], static: Iterable[str] = ()
) -> Iterator[str]:
    """Yield the file in pieces.
    ``payload`` is the data for the views, written as JSON; its ``views`` are the pages, the first of them shown
    initially: ``{"name": "overview", "label": "Overview"}``. A large value may be an iterator of JSON texts, which is
    written as an array. ``assets`` are names of files in ``assets/`` without suffix, in loading order; :data:`COMMON`
    are always included. ``static`` are lines of text for readers without JavaScript.
    """
    style, script = _style(tuple(assets)), _script(tuple(assets))
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
    yield f"<title>{text(title, 200)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
    yield f'<div id="page"><noscript><main>\n<h1>{text(title) or "spillscan"}</h1>\n'
    yield "<p>Enable JavaScript to sort, filter and draw charts; below is the terminal output.</p>\n<pre>"
    yield from (f"{text(line)}\n" for line in static)
    yield '</pre>\n</main></noscript></div>\n<script type="application/json" id="payload">'
    yield from _json(payload)
    yield f"</script>\n<script>{script}</script>\n</body>\n</html>\n"


def head(title: str, kind: str, views: Mapping[str, str]) -> dict[str, Any]:
    """Payload fields that each page has; ``views``: labels by name."""
    return {
        "title": clip(title, _LONGEST_TITLE),
        "tool": f"spillscan {__version__}",
        "kind": kind,
        "views": [{"name": name, "label": label} for name, label in views.items()],
    }


def text(value: str, most: int | None = None) -> str:
    """Log text as HTML, for content or a quoted attribute: one printable line, at most ``most`` characters."""
    return escape(printable(value, most))


def _json(payload: Mapping[str, Any]) -> Iterator[str]:
    """A JSON object, one value at a time; large values are ``{"deflated": …}``, which the script unpacks."""
    mark = "{"
    for name, value in payload.items():
        made = "[" + ",\n".join(value) + "]" if isinstance(value, Iterator) else _encode(value)
        safe = _harmless(made)
        yield f"{mark}{_encode(name)}:"
        yield safe if len(safe) <= PLAIN_CHARACTERS else f'{{"deflated":"{deflated(safe)}"}}'
        mark = ",\n"
    yield "{}" if mark == "{" else "}"


def _harmless(piece: str) -> str:
    """JSON that cannot end a script element or form a CI command, and shows only printable characters.

    Outside strings JSON contains neither, so that log text may be put into a payload unchanged.
    """
    shown = _ESCAPES.sub(_printable_escape, piece) if "\\" in piece else piece  # fast path for long lists of numbers
    return harmless(shown.replace("<", "\\u003c"))


def _printable_escape(match: re.Match[str]) -> str:
    """One or several JSON escapes, without unprintable characters."""
    if match[0][1] in '"\\/':
        return match[0]
    return _encode(printable(json.loads(f'"{match[0]}"')))[1:-1]


@cache
def _style(assets: tuple[str, ...]) -> str:
    return "\n" + "".join(_files((*COMMON, *assets), "css"))


@cache
def _script(assets: tuple[str, ...]) -> str:
    parts = "".join(_files((*COMMON, *assets), "js"))
    return f'\n(async () => {{\n"use strict";\n{parts}spillscan.start();\n}})();\n'


def _files(names: Iterable[str], suffix: str) -> Iterator[str]:
    for name in names:
        path = _ASSETS / f"{name}.{suffix}"
        if path.exists():
            yield path.read_text(encoding="utf-8")


def _hash(source: str) -> str:
    return f"'sha256-{b64encode(sha256(source.encode()).digest()).decode()}'"


STATIC = Style(width=160, rows=50)
"""Style of tables shown without JavaScript."""


# ---- deflated values, for ``unpack`` of ``core.js`` ------------------------------------------------------------------

PLAIN_CHARACTERS = 60_000
"""Longest value of a payload, and longest total of names, that is written uncompressed."""
MOST_CHARACTERS = 96_000_000
"""Most characters of names for a browser's memory; if there are more, each name is cut in the middle."""
_LEAST_CHARACTERS = 300


def deflated(text: str) -> str:
    """Text as ``unpack`` of ``core.js`` reads it: DEFLATE in base64.

    A higher level takes twice the time to save a twentieth.
    """
    return b64encode(zlib.compress(text.encode(), 6)).decode()


def packed(pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Symbols and demangled names: few as ``plain`` lists, many as ``packed`` ones, which are deflated.

    Symbols are packed separately from names: the common parts of one template are then near enough to compress well. A
    demangled name is empty if it equals the symbol.
    """
    total = sum(len(symbol) + len(name) for symbol, name in pairs)
    cut = None if total <= MOST_CHARACTERS else max(_LEAST_CHARACTERS, MOST_CHARACTERS // (2 * len(pairs)))
    symbols = [_clip(symbol, cut) for symbol, _ in pairs]
    names = ["" if name == symbol else _clip(name, cut) for symbol, name in pairs]
    if total <= PLAIN_CHARACTERS:
        return {"plain": [symbols, names]}
    return {"packed": [deflated(json.dumps(texts)) for texts in (symbols, names)]}


def _clip(text: str, most: int | None) -> str:
    return text if most is None or len(text) <= most else f"{text[: most // 2]}…{text[-(most // 2) :]}"
