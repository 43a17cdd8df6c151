"""What a CI service says of the change at hand: where its files and this run are to be seen, and what it changed.

Read from the variables of GitHub's and GitLab's jobs; elsewhere nothing is known, and reports have no links.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cache

from spillscan.output.errors import UsageError

_PLAIN = re.compile(r"https?://[\w.:/~%+-]+")


def addresses(environment: Mapping[str, str]) -> tuple[str, str]:
    """(what stands before the path of a file, and the page of this run); empty where no service says it."""
    get = environment.get
    if repository := get("GITHUB_REPOSITORY"):
        top = f"{get('GITHUB_SERVER_URL')}/{repository}"
        files, run = f"{top}/blob/{get('GITHUB_SHA')}/", f"{top}/actions/runs/{get('GITHUB_RUN_ID')}"
    else:
        files, run = f"{get('CI_PROJECT_URL')}/-/blob/{get('CI_COMMIT_SHA')}/", get("CI_JOB_URL", "")
    return (files if _PLAIN.fullmatch(files) else ""), (run if _PLAIN.fullmatch(run) else "")


def base_of(environment: Mapping[str, str]) -> str:
    """What a pull or merge request is to be merged into; empty where this is none."""
    branch = environment.get("GITHUB_BASE_REF")
    return f"origin/{branch}" if branch else environment.get("CI_MERGE_REQUEST_DIFF_BASE_SHA", "")


def changed(root: str, base: str) -> Callable[[str], Mapping[int, bool]]:
    """The lines of a file below ``root`` that the diff of a request shows: see :func:`shown`. git is asked once, when
    first needed; where it does not know ``base`` (a shallow clone), there are none."""

    @cache
    def lines() -> Mapping[str, Mapping[int, bool]]:
        from spillscan.output.git import git

        plain = ("--relative", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")
        words = ("-c", "core.quotePath=false", "diff", *plain, f"{base}...HEAD", "--")
        try:
            done = git(root, *words, option="changed lines")
        except UsageError:
            return {}
        return shown(done.stdout.decode("utf-8", "replace"))

    return lambda path: lines().get(path, {})


_HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")


def shown(diff: str) -> dict[str, dict[int, bool]]:
    """The lines of the new files that a diff has, by path, and of each whether it is new, or stands beside what is."""
    found: dict[str, dict[int, bool]] = defaultdict(dict)
    path, old, new, at = "", 0, 0, 0
    for line in diff.split("\n"):
        if old > 0 or new > 0:  # nothing that stands in a hunk is taken for a heading
            old -= line[:1] in ("", " ", "-")
            if line[:1] in ("", " ", "+"):
                found[path][at] = line[:1] == "+"
                new, at = new - 1, at + 1
        elif line.startswith("+++ b/"):
            path = line.removeprefix("+++ b/").rstrip("\t\r")
        elif hunk := _HUNK.match(line):
            old, at, new = int(hunk[1] or 1), int(hunk[2]), int(hunk[3] or 1)
    return found
