"""One self-contained page for people: overview, table, changes, builds side by side."""

from __future__ import annotations

from collections.abc import Iterator

from spillscan.reports import ALL_KINDS, Report, Style

FORMAT = "html"
HELP = "one self-contained page to look at"
KINDS = (*ALL_KINDS, "matrix")


def render(report: Report, style: Style) -> Iterator[str]:
    """The page; see ``docs/page.md``."""
    from spillscan.page.document import document
    from spillscan.page.payload import ASSETS, payload
    from spillscan.page.static import static

    found = payload(report)
    yield from document(found["title"] or "spillscan", found, ASSETS, static(found))
