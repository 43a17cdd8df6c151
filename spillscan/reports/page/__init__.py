"""Self-contained HTML pages: no network, no framework, no active content from logs.

``document`` combines style sheets, scripts and a payload in one file. ``formats/html.py`` makes the payload of a
report, ``series`` and ``history`` those of other pages. Assets are hand-written, in ``assets/``; a view is a script
that registers itself by name (``docs/internals/page.md``).
"""
