"""One input as it was read: what a dataset counts once."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One input file, or one member of an archive, of one build."""

    uri: str
    """Path or URL, the same in every audit of the build."""
    content_hash: str
    """Hash of its bytes, hexadecimal; empty where they could not be fetched."""
    size_bytes: int | None = None
    """Its bytes as they are stored; ``None`` where nobody told."""
    failure: str | None = None
    """Why it could not be read, one line; ``None`` where it was read."""
    store_tag: str | None = None
    """What its store calls this content (an ETag): while it does, the bytes are these; ``None`` where it tells none."""

    @property
    def id(self) -> str:
        """What its rows are known by: 16 hexadecimal digits of uri and content."""
        return digest(self.uri, self.content_hash)


def digest(*words: str) -> str:
    """16 hexadecimal digits that stand for ``words``."""
    hasher = blake2b(digest_size=8)
    for word in words:
        data = word.encode("utf-8", "surrogatepass")
        hasher.update(len(data).to_bytes(8, "little"))
        hasher.update(data)
    return hasher.hexdigest()
