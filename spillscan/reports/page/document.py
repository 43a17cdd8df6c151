"""One HTML file: its own style sheet, its own script, and data that is text until the script reads it.

The content security policy names the two by their hashes and allows nothing else: no request, no other script, no style
attribute, no markup made of text. What comes from logs is inside of JSON in which no ``<`` stands, or escaped HTML.

Where no script runs, the page shows what a terminal does.
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

from spillscan.output.records import harmless
from spillscan.output.safe import printable
from spillscan.output.terminal import Style

_ASSETS = Path(__file__).parent / "assets"
COMMON = ("base", "core", "controls", "table", "chart")
"""What every page has: design tokens, the frame, and the components that views are made of."""
_ESCAPES = re.compile(r"(?:\\u[0-9a-f]{4})+|\\.")
_encode = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def document(
    title: str, payload: Mapping[str, Any], assets: Sequence[str], static: Iterable[str] = ()
) -> Iterator[str]:
    """The file's text, piece by piece.

    ``payload`` is JSON as the views read it; its ``views`` are the pages, the first of them shown at first:
    ``{"name": "overview", "label": "Overview"}``. A value may be an iterator of JSON texts, which is written as an
    array: for what is large. ``assets`` are names of files in ``assets/`` without suffix, in the order of loading;
    :data:`COMMON` come by themselves. ``static`` are lines of text for readers without JavaScript.
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
    yield "<p>With JavaScript this page sorts, filters and draws; this is what a terminal shows.</p>\n<pre>"
    yield from (f"{text(line)}\n" for line in static)
    yield '</pre>\n</main></noscript></div>\n<script type="application/json" id="payload">'
    yield from _json(payload)
    yield f"</script>\n<script>{script}</script>\n</body>\n</html>\n"


def text(value: str, most: int | None = None) -> str:
    """A log's text in HTML, between tags or in a quoted attribute: one printable line, at most ``most`` characters."""
    return escape(printable(value, most))


def _json(payload: Mapping[str, Any]) -> Iterator[str]:
    """An object, a value at a time: as it is, or where it is large ``{"deflated": …}``, which the script unpacks."""
    mark = "{"
    for name, value in payload.items():
        made = "[" + ",\n".join(value) + "]" if isinstance(value, Iterator) else _encode(value)
        safe = _harmless(made)
        yield f"{mark}{_encode(name)}:"
        yield safe if len(safe) <= PLAIN_CHARACTERS else f'{{"deflated":"{deflated(safe)}"}}'
        mark = ",\n"
    yield "{}" if mark == "{" else "}"


def _harmless(piece: str) -> str:
    """JSON that ends no script element, holds no command of a CI service (outside of strings it has neither sign), and
    shows only what is printable: what comes from a log may be put into a payload as it is."""
    shown = _ESCAPES.sub(_printable_escape, piece) if "\\" in piece else piece  # numbers have none, and are many
    return harmless(shown.replace("<", "\\u003c"))


def _printable_escape(match: re.Match[str]) -> str:
    """An escape of JSON, or several of them, as far as they are printable."""
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
"""How tables are shown without JavaScript."""


# ---- what is large, deflated: the script unpacks it (``unpack`` of ``core.js``) --------------------------------------

PLAIN_CHARACTERS = 60_000
"""Values of a payload, and names together, that have no more are written as they are."""
MOST_CHARACTERS = 96_000_000
"""What a browser should hold: beyond it each name keeps its head and tail."""
_LEAST_CHARACTERS = 300
_CHUNK_CHARACTERS = 2_000_000


def deflated(text: str) -> str:
    """What ``unpack`` of ``core.js`` reads: DEFLATE in base64. A higher level takes twice the time for a twentieth."""
    return b64encode(zlib.compress(text.encode(), 6)).decode()


def packed(pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """``plain``: [symbols, demangled names]; or ``packed``: each of the two in chunks, a chunk being a JSON list,
    deflated, in base64. Symbols stand beside symbols: what names of one template share is then near enough to be found.

    A demangled name that is the symbol is empty. ``cut``: how many characters a name keeps; ``None``: none is cut.
    """
    total = sum(len(symbol) + len(name) for symbol, name in pairs)
    cut = None if total <= MOST_CHARACTERS else max(_LEAST_CHARACTERS, MOST_CHARACTERS // (2 * len(pairs)))
    symbols = [_clip(symbol, cut) for symbol, _ in pairs]
    names = ["" if name == symbol else _clip(name, cut) for symbol, name in pairs]
    if total <= PLAIN_CHARACTERS:
        return {"plain": [symbols, names], "cut": None}
    return {
        "packed": [[deflated(json.dumps(chunk)) for chunk in _chunks(texts)] for texts in (symbols, names)],
        "cut": cut,
    }


def _clip(text: str, most: int | None) -> str:
    return text if most is None or len(text) <= most else f"{text[: most // 2]}…{text[-(most // 2) :]}"


def _chunks(texts: Sequence[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for text in texts:
        chunk.append(text)
        size += len(text)
        if size >= _CHUNK_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
