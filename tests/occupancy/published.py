"""The published examples, and the page of the docs that compares them with the truth.

Run as a script it writes ``docs/internals/published-occupancy.md`` again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from spillscan.occupancy import occupancy
from tests.occupancy.assumptions import ASSUMPTIONS
from tests.occupancy.deviations import DEVIATIONS

EXAMPLES: list[dict[str, Any]] = yaml.load(
    Path(__file__).with_name("published.yaml").read_bytes(), Loader=yaml.CSafeLoader
)
PAGE = Path(__file__).parents[2] / "docs" / "internals" / "published-occupancy.md"

HEAD = """\
# Published occupancy examples against the true values

{count} worked examples from articles, talks and course notes were compared with `spillscan occupancy`, which
equals NVIDIA's `cuda_occupancy.h` 13.5. The table lists the examples that are not right. *Assuming* names the omitted
rule, or the wrong device, that reproduces the printed value. `tests/occupancy/published.py` generates this page from
`tests/occupancy/published.yaml`, which has all examples; a test checks each one.

{switches}

| id | example | printed | assuming | true | verdict | why |
|---|---|---|---|---|---|---|
"""

TAIL = """

## Where others say otherwise

| what | who says otherwise | how | here |
|---|---|---|---|
"""


def truth(example: dict[str, Any]) -> str:
    if example["kind"] != "occupancy":
        return str(example["truth"])
    found = occupancy(**example["given"])
    limiters = ", ".join(found.limiters).replace("_", " ")
    percent = f"{100 * found.fraction:.4g} %"
    return f"{found.resident_blocks} blocks, {found.active_warps} warps, {percent} ({limiters})"


def page() -> str:
    switches = "\n".join(
        f"- `{one.name}{'=N' if one.default is not None else ''}`: {one.what}"
        + (f" ({one.default} by default)" if one.default is not None else "")
        for one in ASSUMPTIONS
    )
    lines = []
    for example in EXAMPLES:
        if str(example["verdict"]).startswith("right"):
            continue
        assume = "<br>".join(f"`{switch}`" for switch in example.get("assume") or []) or "–"
        cells = [
            example["id"],
            example["example"],
            example["says"] or "–",
            assume,
            truth(example),
            example["verdict"],
            example["why"] or "–",
        ]
        lines.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |")
    rows = [f"| {one.name} | {one.where} | {one.what} | {one.here} |" for one in DEVIATIONS]
    return HEAD.format(count=len(EXAMPLES), switches=switches) + "\n".join(lines) + TAIL + "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
