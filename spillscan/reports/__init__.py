"""What goes out: a report is rendered by formats, each a module of ``formats/``, and by pages of HTML.

In: a :class:`~spillscan.reports.report.Report`, groups of figures, curves. Out: text in a format, written by
``render``.
"""

PUBLIC = (
    "formats",
    "formats.html",
    "page",
    "page.columns",
    "page.details",
    "page.history",
    "render",
    "report",
    "size_groups",
    "sweep",
    "table",
    "weights",
    "words",
)
"""What other rooms may import from: these modules, and this one."""
