"""Few large files instead of many small ones; what no commit names any more is deleted.

A compaction is an append that replaces: new parts, then one record that names them and the commits it replaces, then
their deletion. Whoever kills it leaves a dataset that reads the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from spillscan import __version__
from spillscan.dataset import builds as commits
from spillscan.dataset import schema
from spillscan.dataset import store as names
from spillscan.dataset.builds import Commit, Part
from spillscan.dataset.reading import Dataset
from spillscan.dataset.schema import Field
from spillscan.dataset.store import DRAFT, Store, digest
from spillscan.dataset.writing import put, write_kernels, write_rows
from spillscan.errors import InputError
from spillscan.output.safe import clip, printable

HOURS_UNTIL_DEAD = 24.0
"""A file that no commit names is of an append that may still commit, unless it is older than this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """What a compaction did."""

    labels: int = 0
    """Builds that were written anew."""
    files_before: int = 0
    """Files that were there."""
    files_after: int = 0
    """Files that are there now."""
    swept: int = 0
    """Files of killed appends that were deleted."""


def compact(dataset: Dataset, labels: Iterable[str] | None = None, hours: float = HOURS_UNTIL_DEAD) -> Compacted:
    """Write builds of more than one commit, or of an older schema, anew; delete what is surely dead.

    Not while one of the builds is being appended to: what is appended at the same time may have to be audited again.
    """
    place = dataset.place
    before = len(place.list(""))
    swept = _sweep(place, hours)
    wanted = dataset.labels if labels is None else tuple(labels)
    done = [label for label in wanted if _rewrite(dataset, label)]
    return Compacted(labels=len(done), files_before=before, files_after=len(place.list("")), swept=swept)


def _rewrite(dataset: Dataset, label: str) -> bool:
    place = dataset.place
    held = [each for each in dataset.commits if each.label == label]
    if not held:
        raise InputError(
            f"{dataset.root} has no build {clip(printable(label), 60)}", "spillscan dataset info lists them"
        )
    if len(held) == 1 and held[0].version == schema.VERSION:
        return False
    name = digest("compaction", str(schema.VERSION), label, *(word for each in held for word in (each.name, each.time)))
    parts = [*_kernels(dataset, label, name), *_others(dataset, label, name)]
    meta: dict[str, str] = {}
    for each in held:
        meta.update(each.meta)
    whole = Commit(
        name=name,
        label=label,
        time=held[-1].time,
        first_time=min(each.first_time or each.time for each in held),
        parts=tuple(parts),
        meta=meta,
        replaces={each.name: each.time for each in held},
        tool=__version__,
    )
    put(place, whole)
    _delete(place, held)
    return True


def _kernels(dataset: Dataset, label: str, name: str) -> Iterator[Part]:
    """Arch by arch, so that no more than one is held at once."""
    held = (each for each in dataset.commits if each.label == label)
    arches = {part.arch for each in held for part in each.parts if part.table == "kernels"}
    for arch in sorted(arches, key=lambda each: each or ""):
        found = dataset.kernels_of(label, (arch,))
        yield from write_kernels(
            dataset.place, label, name, [schema.row_of(*each[:2], name, each[2]) for each in found]
        )


def _others(dataset: Dataset, label: str, name: str) -> Iterator[Part]:
    for table, key in (("units", "uri"), ("issues", "unit_id")):
        rows = sorted(dataset.rows(table, label), key=lambda row: (row[key], row.get("position", 0)))
        folder = names.folder(table, label)
        yield from write_rows(
            dataset.place, table, folder, name, [row | {"commit": name} for row in rows], None, _stored
        )


def _stored(field: Field, row: dict[str, Any]) -> Any:
    return row[field.name]


def _delete(place: Store, gone: Sequence[Commit]) -> None:
    """Records first: a file that no record names is harmless, a record whose files are gone is not."""
    place.delete([each.path for each in gone])
    place.delete([part.path for each in gone for part in each.parts])


def _sweep(place: Store, hours: float) -> int:
    """Delete commits that others replace, and files that no record names and that are old.

    Files are listed before the records are read: what is committed in between has a record then.
    """
    files = [each for each in place.list("") if each.path.endswith(".parquet") or DRAFT in each.path]
    present = commits.load(place, replaced=True)
    kept = commits.current(present)
    living = {part.path for each in kept for part in each.parts}
    left = [each for each in present if each not in kept]
    place.delete([each.path for each in left])
    named = {part.path for each in left for part in each.parts} - living
    latest = time.time() - 3600 * hours
    dead = [
        each
        for each in files
        if each.path in named or (each.path not in living and each.modified is not None and each.modified < latest)
    ]
    if dead:  # a retry may have written one of them again meanwhile
        still = set(place.list(""))
        dead = [each for each in dead if each in still]
        place.delete([each.path for each in dead])
    return len(dead)
