"""``python -m spillscan``."""

from spillscan.cli import entry

entry()
