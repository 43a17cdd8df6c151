"""git, asked of a folder: the one place in which it is started."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from spillscan.output.errors import UsageError


def git(
    folder: str, *words: str, option: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """How git ended in ``folder``, and what it said; ``option``: what of ours needs it; ``environment``: variables
    besides ours.

    Raises :class:`~spillscan.UsageError` where it cannot be started.
    """
    own = None if environment is None else {**os.environ, **environment}
    command = ["git", "-C", folder, *words]
    try:
        return subprocess.run(command, env=own, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except (OSError, ValueError) as error:  # a null character is a ValueError
        raise UsageError(f"{option}: cannot run git: {getattr(error, 'strerror', None) or error}") from None
