"""One HTML file: its own style sheet, its own script, and data that is text until the script reads it.

The content security policy names the two by their hashes and allows nothing else: no request, no other script, no style
attribute, no markup made of text. What comes from logs is inside of JSON in which no ``<`` stands, or escaped HTML.

Where no script runs, the page shows what a terminal does.
"""

from __future__ import annotations

import json
import re
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
from spillscan.reports.page.packing import PLAIN_CHARACTERS, deflated

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
