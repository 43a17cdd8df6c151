"""Reports: one module of ``formats/`` per output format, and HTML pages in ``page/``.

Input: a :class:`~spillscan.reports.report.Report`, groups of sizes, or sweep curves. Output: text in a format,
written by ``render``.

A format renders pieces of text and opens no file. ``render`` gathers what formats cannot know (terminal, repository),
and ``output/files.py`` puts all files in place, or none. ``output/safe.py`` reduces log text to one harmless line, and
each format adds its own escapes.
"""
