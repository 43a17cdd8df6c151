"""Files at the merge base of HEAD and a revision.

They are read from git by path, never from the work tree, so that a change cannot replace its own policy or baseline by
a link, a submodule or another folder.
"""

from __future__ import annotations

import os
from posixpath import dirname, join, normpath

from spillscan.output.errors import UsageError
from spillscan.output.files import decoded
from spillscan.output.git import git

OPTION = "--baseline-from"
_DEEPER = "fetch the whole history (actions/checkout: fetch-depth: 0)"
_MOST_LINKS = 8


class MergeBase:
    """Merge base of HEAD and ``revision``, with paths relative to the current folder."""

    def __init__(self, revision: str) -> None:
        self.revision = revision
        if revision.startswith("-") or not revision:
            raise UsageError(f"{OPTION}: {revision!r} is not a git revision", "pass a branch, tag or commit")
        top = self._git("rev-parse", "--show-toplevel")
        if top is None:
            raise UsageError(f"{OPTION}: git finds no work tree here", "`git status` says why")
        self.top = top.decode(errors="surrogateescape").rstrip("\n")
        self.prefix = (self._git("rev-parse", "--show-prefix") or b"").decode(errors="surrogateescape").rstrip("\n")
        if self._git("rev-parse", "--verify", "--quiet", "HEAD^{commit}") is None:
            raise UsageError(f"{OPTION}: HEAD has no commit yet", "use --baseline instead")
        if self._git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}") is None:
            raise UsageError(f"{OPTION}: unknown revision {revision!r}", f"fetch it, or {_DEEPER}")
        base = self._git("merge-base", "HEAD", revision)
        if base is None:
            shallow = self._git("rev-parse", "--is-shallow-repository") == b"true\n"
            why, hint = (" in this shallow clone", _DEEPER) if shallow else ("", "use --baseline instead")
            raise UsageError(f"{OPTION}: HEAD and {revision!r} have no common commit{why}", hint)
        self.commit = base.decode().split()[0]

    def label(self, path: str) -> str:
        """Name of the file in messages."""
        return f"{path} at {self.commit[:12]}"

    def find(self, name: str) -> str | None:
        """Path of the file ``name`` in this folder or the nearest parent that contains it at the merge base, relative
        to this folder."""
        folder, climbed = self.prefix.rstrip("/"), ""
        while True:
            if self._mode(join(folder, name)) is not None:
                return climbed + name
            if not folder:
                return None
            folder, climbed = dirname(folder), f"../{climbed}"

    def text(self, path: str, most: int) -> str | None:
        """Text of ``path``, relative to this folder or absolute; ``None`` if the merge base lacks it."""
        wanted = normpath(join(self.prefix, path))
        if os.path.isabs(path):
            wanted = os.path.relpath(path, os.path.realpath(self.top))
        for _ in range(_MOST_LINKS):
            if wanted.startswith("../") or wanted == "..":
                raise UsageError(f"{OPTION}: {path} is outside the repository", "name a file in it")
            at, mode = self._first(wanted)
            if mode == "160000":
                raise UsageError(f"{OPTION}: {path} is in the submodule {at}", "move the file into this repository")
            if mode != "120000":
                break
            target = (self._git("cat-file", "blob", f"{self.commit}:{at}") or b"").decode(errors="surrogateescape")
            if target.startswith("/"):
                raise UsageError(f"{OPTION}: the link {at} has an absolute target", "make the target relative")
            wanted = normpath(join(dirname(at), target, wanted[len(at) :].lstrip("/")))
        else:
            raise UsageError(f"{OPTION}: {path} leads through too many links", "name the file itself")
        if mode is None:
            return None
        if mode == "040000":
            raise UsageError(f"{OPTION}: {path} is a folder", "name a file")
        size = self._git("cat-file", "-s", f"{self.commit}:{wanted}")
        if size is None or int(size) > most:
            raise UsageError(f"{self.label(path)} is larger than {most >> 20} MiB", "name another file")
        return decoded(self._git("cat-file", "blob", f"{self.commit}:{wanted}") or b"", self.label(path))

    def _first(self, path: str) -> tuple[str, str | None]:
        """First link or submodule in ``path``, else ``path`` itself, and its mode."""
        parts = path.split("/")
        for end in range(1, len(parts)):
            at = "/".join(parts[:end])
            mode = self._mode(at)
            if mode in ("120000", "160000"):
                return at, mode
        return path, self._mode(path)

    def _mode(self, path: str) -> str | None:
        """Mode of a path at the merge base; ``None`` if it does not exist."""
        listing = self._git("--literal-pathspecs", "ls-tree", "-z", "--full-tree", self.commit, "--", path)
        return listing.split(b" ", 1)[0].decode() if listing else None

    def _git(self, *words: str) -> bytes | None:
        """Output of git; ``None`` if it fails."""
        done = git(os.curdir, *words, option=OPTION)
        return None if done.returncode else done.stdout
