"""One HTML file: its own style sheet, its own script, and data that is text until the script reads it.

The content security policy names the two by their hashes and allows nothing else: no request, no other script, no style
attribute, no markup made of text. What comes from logs is inside of JSON in which no ``<`` stands, or escaped HTML.

Where no script runs, the page shows what :func:`static` makes: the same figures, the worst first, no more than a person
reads.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

from spillscan.output.nouns import count, size
from spillscan.output.records import harmless
from spillscan.output.safe import printable
from spillscan.reports.page.columns import ASSUMED, AT_MOST, BY_BOUNDS
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
    :data:`COMMON` come by themselves. ``static`` is HTML for readers without JavaScript, escaped already
    (:func:`text`).
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
    yield '<div id="page"><noscript><main>\n'
    yield from static
    yield '</main></noscript></div>\n<script type="application/json" id="payload">'
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
    return harmless(_ESCAPES.sub(_printable_escape, piece).replace("<", "\\u003c"))


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


ROWS = 50
"""Kernels, changes and findings that are shown without JavaScript."""


def static(payload: Mapping[str, Any]) -> Iterator[str]:
    """HTML, escaped."""
    yield f"<h1>{text(payload['title']) or 'spillscan'}</h1>\n<p>{text(headline(payload['overview']['kernels']))}</p>\n"
    yield from _first(payload["first"])
    if "findings" in payload:
        yield from _findings(payload["findings"])
    if "changes" in payload:
        yield from _changes(payload["changes"])
    if "heat" in payload:
        yield from _heat(payload["heat"])
    if "candidates" in payload:
        yield from _candidates(payload["candidates"])
    yield from _kernels(payload["kernels"])
    yield from _issues(payload["overview"]["issues"])
    if note := payload["overview"]["note"]:
        yield f"<p>{text(note)}</p>\n"
    yield "<p>With JavaScript this page sorts, filters and draws.</p>\n"


def headline(found: Mapping[str, int]) -> str:
    """``2 of 12 kernels spill: 608 B stores, 432 B loads per thread``."""
    if not found["count"]:
        return "The input names no kernel"
    kernels = count(found["count"], "kernel")
    silent = f"; {found['silent']:,} {'does' if found['silent'] == 1 else 'do'} not say" if found["silent"] else ""
    if not found["spilling"]:
        return f"None of {kernels} is known to spill{silent}" if silent else f"None of {kernels} spills"
    return (
        f"{found['spilling']:,} of {kernels} {'spills' if found['spilling'] == 1 else 'spill'}: "
        f"{size(found['stores'])} stores, {size(found['loads'])} loads per thread{silent}"
    )


def _first(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if found:
        rows = (
            (each["name"], each["arch"] or "", each["why"], "; ".join(words for _, words in each["facts"]))
            for each in found
        )
        yield from table("What to do first", ("kernel", "arch", "why", "what"), rows, len(found))


def _findings(found: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    rows = ((f["severity"], f["name"], f["arch"] or "", f["message"], f["rule"]) for f in found)
    yield from table(count(len(found), "finding"), ("severity", "kernel", "arch", "what", "rule"), rows, len(found))


def _changes(found: Mapping[str, Any]) -> Iterator[str]:
    changes = found["rows"]
    rows = (
        (row["name"], row["arch"] or "", row["state"], _metrics(found["metrics"], row["figures"])) for row in changes
    )
    yield from table(count(len(changes), "change"), ("kernel", "arch", "state", "before → after"), rows, len(changes))


def _metrics(metrics: Sequence[Mapping[str, Any]], figures: Iterable[Sequence[Any]]) -> str:
    return "; ".join(
        f"{metrics[name]['label']} {_pair(before, after, metrics[name]['unit'])}" for name, before, after in figures
    )


def _heat(found: Mapping[str, Any]) -> Iterator[str]:
    heads = [" ".join(part for part in (found["builds"][c["build"]], c["arch"]) if part) for c in found["columns"]]
    for at, metric in enumerate(found["metrics"]):
        rows = ((row["name"], row["arch"] or "", *map(figure, row["values"][at])) for row in found["rows"])
        title = f"{metric['label']} ({metric['unit']})" if metric["unit"] else metric["label"]
        yield from table(title, ("kernel", "arch", *heads), rows, len(found["rows"]), numbers=2)


def _candidates(found: Mapping[str, Any]) -> Iterator[str]:
    from spillscan.judging.compare.matrix import over_builds

    rows = ((row["name"], row["arch"] or "", row["configuration"], *over_builds(row["cells"])) for row in found["rows"])
    heads = ("kernel", "arch", "configuration", *found["heads"])
    yield from table("Candidates", heads, rows, len(found["rows"]), numbers=3)


def _kernels(found: Mapping[str, Any]) -> Iterator[str]:
    heads = ("kernel", "arch", *map(_head, found["figures"]), "occupancy", "limited by")
    rows = (_kernel(found, at) for at in range(found["count"]))
    yield from table("Kernels, worst first", heads, rows, found["count"], numbers=2)


def _head(figure: Mapping[str, str]) -> str:
    return f"{figure['label']} ({figure['unit']})" if figure["unit"] else figure["label"]


def _kernel(found: Mapping[str, Any], at: int) -> tuple[str, ...]:
    arch, limiter, share = (found[name][at] for name in ("arch", "limiter", "occupancy"))
    flags = found["flags"][at]
    mark = "≤" if flags & (ASSUMED | AT_MOST) else "~" if flags & BY_BOUNDS else ""
    return (
        found["names"][found["symbol"][at]],
        "–" if arch is None else found["arches"][arch],
        *(figure(found[each["key"]][at]) for each in found["figures"]),
        "–" if share is None else f"{mark}{share / 10:g} %",
        "–" if limiter is None else found["limiters"][limiter],
    )


def _issues(found: Mapping[str, Any]) -> Iterator[str]:
    if found["shown"]:
        rows = ((i["severity"], i["place"], i["message"], i["code"]) for i in found["shown"])
        total = sum(number for _, number in found["counts"])
        yield from table("Not understood", ("severity", "where", "what", "code"), rows, total)


def figure(value: int | None) -> str:
    """``12,345``; a dash where the input did not say."""
    return "–" if value is None else f"{value:,}"


def _pair(before: int | None, after: int | None, unit: str) -> str:
    """``0 → 304 B``; large bytes as people write them."""
    if unit == "B" and max(before or 0, after or 0) >= 1 << 20:
        return " → ".join(figure(value) if value is None else size(value) for value in (before, after))
    return f"{figure(before)} → {figure(after)} {unit}".rstrip()


def table(
    title: str, heads: Sequence[str], rows: Iterable[Sequence[str]], total: int, numbers: int | None = None
) -> Iterator[str]:
    """A table with its title: the first :data:`ROWS` of ``total`` rows; columns from ``numbers`` on hold figures."""

    def mark(at: int) -> str:
        return ' class="num"' if numbers is not None and at >= numbers else ""

    yield f'<section><h2>{text(title)}</h2>\n<div class="scroll"><table>\n<thead><tr>'
    yield from (f'<th scope="col"{mark(at)}>{text(head)}</th>' for at, head in enumerate(heads))
    yield "</tr></thead>\n<tbody>\n"
    for row in islice(rows, ROWS):
        yield "<tr>" + "".join(f"<td{mark(at)}>{text(cell)}</td>" for at, cell in enumerate(row)) + "</tr>\n"
    yield "</tbody></table></div>\n"
    if total > ROWS:
        yield f'<p class="quiet">{total - ROWS:,} more are shown with JavaScript.</p>\n'
    yield "</section>\n"
