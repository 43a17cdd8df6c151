"""Files by URL: object stores and web servers, through whatever driver fsspec has for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from spillscan.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
"""At least two letters: ``C:`` is a drive."""
_TAGS = ("ETag", "etag", "md5Hash", "content_md5", "blob_id")
"""Where drivers tell it: S3 and the Web, Google, Azure, Hugging Face. A weak ETag (``W/``) may outlive a change."""


def is_url(name: str) -> bool:
    """Whether ``name`` is a URL, not a path."""
    return _URL.match(name) is not None


def shown(url: str) -> str:
    """``url`` without user name and password: names are kept and shown."""
    parts = urlsplit(url)
    return url.replace(parts.netloc, parts.netloc.rpartition("@")[2], 1) if "@" in parts.netloc else url


def filesystem(url: str) -> tuple[Any, str]:
    """The driver's file system, and what it calls ``url``. Raises :class:`~spillscan.errors.UsageError` where there is
    no driver."""
    protocol = url.partition("://")[0].lower()
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise UsageError(f"{protocol}:// needs the package fsspec", "pip install 'spillscan[data]'") from error
    try:
        found, path = url_to_fs(url)
    except ImportError as error:
        cause = error.__cause__  # fsspec's own error tells in prose what this one has as a name
        package = (cause.name if isinstance(cause, ImportError) else None) or str(error)
        raise UsageError(f"{protocol}:// needs the package {package}", f"pip install {package}") from error
    except ValueError as error:
        raise UsageError(f"{shown(url)} cannot be opened: {error}", "is it s3://, gs://, hf:// or https://?") from error
    return found, path


class Listed(NamedTuple):
    """One file as its store lists it."""

    url: str
    below: str
    """The path below the URL that it was found in."""
    size_bytes: int | None
    """``None`` where the store does not tell."""
    tag: str | None
    """See :func:`tag_of`."""


def tag_of(entry: Mapping[str, Any]) -> str | None:
    """What a store calls the content of a file: as long as it does, the bytes are the same. ``None`` where it has no
    name for it; a size and a time are none, for both may stay while the bytes change."""
    for name in _TAGS:
        tag = entry.get(name)
        if isinstance(tag, str) and tag and not tag.startswith("W/"):
            return f"{name}={tag}"
    return None


def tag_now(url: str) -> str | None:
    """What the store calls the content at ``url`` now; errors as of :func:`listing`."""
    found, path = filesystem(url)
    found.invalidate_cache()
    return tag_of(found.info(path))


def listing(url: str) -> Iterator[Listed]:
    """Every file at or below ``url``, or that it matches, sorted.

    Raises what the driver raises where the store fails, and ``FileNotFoundError`` where nothing is there.
    """
    found, path = filesystem(url)
    if any(sign in path for sign in "*?["):
        entries = found.glob(path, detail=True)
    elif (single := found.info(path))["type"] == "directory":
        entries = found.find(path, detail=True)
    else:
        yield Listed(url, path.rpartition("/")[2], single.get("size"), tag_of(single))
        return
    if not entries:
        raise FileNotFoundError(url)
    top = path.rstrip("/") + "/"
    account = urlsplit(url).netloc.rpartition("@")[0]
    for name in sorted(entries):
        if entries[name]["type"] == "file" and not name.endswith("/"):
            full = found.unstrip_protocol(name)
            if account and "@" not in urlsplit(full).netloc:
                full = full.replace("://", f"://{account}@", 1)
            yield Listed(full, name.removeprefix(top), entries[name].get("size"), tag_of(entries[name]))
