"""A file as it was where a branch left another: git, asked through its own command."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from spillscan.errors import UsageError


def at_merge_base(path: str, ref: str) -> tuple[str, str]:
    """(commit, text) of the file ``path`` at the merge base of HEAD and ``ref``."""
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir():
        raise UsageError(f"cannot read {path}: its folder does not exist")
    if ref.startswith("-") or not ref:
        raise UsageError(f"{ref!r} is no git ref", "give a branch, tag or commit: origin/main")
    if _git(folder, "rev-parse", "--git-dir") is None:
        raise UsageError(f"--baseline-from: {folder} is in no git repository")
    if _git(folder, "rev-parse", "--verify", "--quiet", "HEAD^{commit}") is None:
        raise UsageError("--baseline-from: HEAD has no commit yet")
    deeper = "fetch more of the history first (actions/checkout: fetch-depth: 0)"
    if _git(folder, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}") is None:
        raise UsageError(f"--baseline-from: git knows no {ref!r} here", f"git fetch it, or {deeper}")
    base = _git(folder, "merge-base", "HEAD", ref)
    if base is None:
        shallow = _git(folder, "rev-parse", "--is-shallow-repository") == b"true\n"
        hint = f"this clone is shallow: {deeper}" if shallow else "they have no common history"
        raise UsageError(f"--baseline-from: HEAD and {ref!r} have no merge base", hint)
    commit = base.decode().split()[0]
    name = Path(os.path.realpath(path)).name
    content = _git(folder, "show", f"{commit}:./{name}")
    if content is None:
        raise UsageError(
            f"--baseline-from: the merge base with {ref!r} ({commit[:12]}) has no {path}",
            "bring the baseline in with a change of its own, checked with --baseline alone",
        )
    return commit, decoded(content, f"{path} at {commit[:12]}")


def decoded(content: bytes, label: str) -> str:
    """``content`` as text, without a byte order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{label}:{line}: not UTF-8") from error


def _git(folder: Path, *arguments: str) -> bytes | None:
    """What git printed; ``None`` where it says no."""
    try:
        result = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=False)
    except OSError as error:
        raise UsageError(f"--baseline-from: cannot run git: {error.strerror}") from error
    return result.stdout if result.returncode == 0 else None
