"""Read every byte of a dataset, and list lost or damaged files with their builds."""

from __future__ import annotations

import argparse

from spillscan.commands import _answers, _options
from spillscan.commands.history._datasets import place_of
from spillscan.history.dataset.reading import verify
from spillscan.output.errors import UndecidedError
from spillscan.output.nouns import count
from spillscan.reports.table import of_rows

EPILOG = "Example: spillscan history verify --dataset s3://bucket/kernels"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _options.add_dataset(parser)
    _options.add_formats(parser)


def run(arguments: argparse.Namespace) -> int:
    """Return 0; exit status 2 if a file is missing or damaged."""
    forms = _answers.forms_of(arguments)
    root = place_of(arguments)
    rows = [(", ".join(each.labels), each.path, each.why) for each in verify(root)]
    heads = ("build", "file", "damage")
    _answers.show(forms, of_rows(heads, rows, heads, empty="no damage"))
    if rows:
        raise UndecidedError(f"{count(len(rows), 'lost or damaged file')} in {root}", "audit the listed builds again")
    return 0
