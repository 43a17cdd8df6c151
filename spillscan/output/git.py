"""Run git in a folder; the only place that starts it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping

from spillscan.output.errors import UsageError


def git(
    folder: str, *words: str, option: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run git in ``folder``; returns its status and output.

    ``option``: the spillscan option that needs it, for the message. ``environment``: additional variables. Raises
    :class:`~spillscan.UsageError` if git cannot be started.
    """
    own = None if environment is None else {**os.environ, **environment}
    command = ["git", "-C", folder, *words]
    try:
        return subprocess.run(command, env=own, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except (OSError, ValueError) as error:  # ValueError: a null character
        raise UsageError(f"{option}: cannot run git: {getattr(error, 'strerror', None) or error}") from None
