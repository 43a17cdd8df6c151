"""What goes out: a report is rendered by formats, each a module of ``formats/``, and by pages of HTML.

In: a :class:`~spillscan.reports.report.Report`, groups of figures, curves. Out: text in a format, written by
``render``.

A format renders pieces of text and opens nothing. ``render`` gathers what formats cannot know (terminal, repository),
and ``output/files.py`` puts files in their places, all of them or none. ``output/safe.py`` makes a text from a log one
harmless line, and each format adds its own escapes.
"""
