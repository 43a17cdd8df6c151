"""From what the user names to files: folders, patterns and URLs become items, each file once."""

from __future__ import annotations

import os
from collections.abc import Sequence

from spillscan.audit import stores, trees
from spillscan.audit.messages import Item, Outcome
from spillscan.audit.patience import LASTING, patiently
from spillscan.audit.selection import Selection
from spillscan.errors import InputError, SpillscanError, UsageError


def find(inputs: Sequence[str], label: str, selection: Selection, into: str) -> tuple[list[Item], list[Outcome]]:
    """The files at or below ``inputs``, sorted by name, and what shall not be read, each with the reason.

    A file of several names (links) is taken once, by the first in order that is no symbolic link. ``into`` is where the
    dataset lies; it is no input. Raises :class:`~spillscan.errors.SpillscanError` for an input behind which there is
    nothing, or that no driver opens.
    """
    items: dict[str, Item] = {}
    left: list[Outcome] = []
    leaves: list[trees.Leaf] = []

    def admit(uri: str, path: str, below: str, size_bytes: int | None, tag: str | None = None) -> None:
        if reason := selection.refusal(below, size_bytes):
            left.append(Outcome(label=label, uri=uri, state="skipped", reason=reason))
        else:
            items[uri] = Item(uri=uri, path=path, size_bytes=size_bytes or 0, store_tag=tag)

    for given in inputs:
        if given == "-":
            raise UsageError("audit keeps files, and standard input is none", "name a file or a folder")
        if stores.is_url(given) and not given.startswith("file://"):
            for each in _listed(given):
                admit(stores.shown(each.url), each.url, each.below, each.size_bytes, each.tag)
        else:
            leaves += trees.leaves(given.removeprefix("file://"), selection, into)
    seen: set[tuple[int, int]] = set()
    for leaf in sorted(leaves, key=lambda leaf: (leaf.is_link, leaf.path)):
        if leaf.path in items:
            continue
        if leaf.trouble:
            left.append(Outcome(label=label, uri=leaf.path, state="skipped", reason=leaf.trouble))
        elif leaf.identity in seen:
            left.append(Outcome(label=label, uri=leaf.path, state="skipped", reason="another name of a file"))
        else:
            seen.add(leaf.identity)
            admit(leaf.path, os.path.abspath(leaf.path), leaf.below, leaf.size_bytes)
    return [items[uri] for uri in sorted(items)], sorted(left, key=lambda outcome: outcome.uri)


def _listed(url: str) -> list[stores.Listed]:
    try:
        return patiently(lambda: list(stores.listing(url)), (*LASTING, FileNotFoundError))
    except SpillscanError:
        raise
    except FileNotFoundError as error:
        raise InputError(f"there is no {stores.shown(url)}", "give files, folders, patterns or URLs") from error
    except Exception as error:
        raise InputError(f"cannot list {stores.shown(url)}: {error or type(error).__name__}", "try again") from error
