"""One self-contained HTML file that people look at: no network, no framework, nothing from a log that acts.

``document`` puts style sheets, scripts and a payload into one file; ``payload`` makes the payload of a report, and
``series`` pages of trends and sweeps. Assets are hand-written and lie in ``assets/``; a view is a script that registers
itself by name (``docs/internals/page.md``).
"""
