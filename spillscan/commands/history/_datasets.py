"""Dataset that a command queries, and its damage."""

from __future__ import annotations

import argparse
import os

from spillscan.commands._options import DATASET, DATASET_VARIABLE
from spillscan.history.dataset.reading import Dataset, advice
from spillscan.output.errors import UndecidedError
from spillscan.output.nouns import count


def dataset_of(arguments: argparse.Namespace) -> Dataset:
    """Open the dataset of the parsed arguments."""
    dataset = Dataset.open(place_of(arguments))
    import pyarrow

    pyarrow.set_memory_pool(pyarrow.system_memory_pool())  # the other pools keep a third more than they use
    return dataset


def place_of(arguments: argparse.Namespace) -> str:
    """Folder or URL of the dataset: --dataset, environment variable or default."""
    return str(arguments.dataset or os.environ.get(DATASET_VARIABLE) or DATASET)


def answered(dataset: Dataset) -> int:
    """Return 0; raise :class:`~spillscan.output.errors.UndecidedError` if builds that are damaged or incomplete
    are missing from the result."""
    if not dataset.damage:
        return 0
    more = len(dataset.damage) - 1
    others = f", and {count(more, 'more file')}" if more else ""
    message = f"builds missing from the result: {dataset.damage[0].text(dataset.root)}{others}"
    raise UndecidedError(message, advice(dataset.root))
