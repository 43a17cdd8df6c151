"""What holds for files: settings for all of them, and entries of a policy for some. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from posixpath import basename

from spillscan.patterns import compiled, text_of
from spillscan.policy.effective import Policy, Setting
from spillscan.policy.keys import FILES, Value

WITHIN = " > "
"""Between an archive and its member."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """What holds for the files that it names."""

    match: tuple[str, ...]
    """Patterns of names; a file must fit one of them."""
    settings: Mapping[str, Setting[Value]] = field(default_factory=dict)
    """By key."""
    reason: str = ""
    """Why, in the team's words."""
    origin: str = ""
    """Where it begins."""

    def names(self, name: str) -> bool:
        """Whether it is about the file ``name``: by all of it, the member or the file alone, or its last part."""
        inner = name.rpartition(WITHIN)[2]
        names = [name, inner, basename(inner)]
        return any(compiled(pattern).fits(text_of(names), names) for pattern in self.match)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTerms:
    """What a policy demands of a file."""

    require_archs: tuple[str, ...] = ()
    """What it must hold code for."""
    driver_release: str | None = None
    """The CUDA release whose drivers must take its PTX."""
    max_file_bytes: int | None = None
    """Most bytes that it may have, as it is stored."""


def terms_of(policy: Policy, name: str) -> FileTerms:
    """What holds for the file ``name``; of entries that name it, the last wins, key by key."""
    found: dict[str, Value] = {}
    for layer in policy.layers:
        said = [layer.settings]
        if "files" in layer.settings:
            entries = layer.settings["files"].value
            assert isinstance(entries, tuple)
            said += [entry.settings for entry in entries if entry.names(name)]
        found |= {key: settings[key].value for settings in said for key in FILES if key in settings}
    return FileTerms(**found)  # type: ignore[arg-type]
