"""Advice on one family of kernels: source lines of its spills, causes, fixes, what was compiled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from spillscan.advice.causes import causes, live_groups
from spillscan.advice.fixes import Fix, Goal, Need, fixes, registers_needed, summary_of
from spillscan.advice.ranking import Ranked
from spillscan.judging.places import Place, Tree, by_cost
from spillscan.model.local import NO_TRAFFIC
from spillscan.occupancy.model import LABELS
from spillscan.reading.machine.spillmap import TOP, share_text

if TYPE_CHECKING:
    from spillscan.advice.sweep.trials import Trial
    from spillscan.occupancy.launches import Launches
    from spillscan.reading.binary.pressure import Pressure


class Advice(Struct, frozen=True, kw_only=True):
    """Advice on the worst kernel of a family."""

    ranked: Ranked
    """The family."""
    places: tuple[Place, ...] = ()
    """Source lines of its spills, most costly first."""
    causes: tuple[str, ...] = ()
    """Facts, one sentence each; empty if unknown."""
    fixes: tuple[Fix, ...] = ()
    """Fixes, best first."""
    need: Need | None = None
    """Registers needed to end its spills; ``None`` if unknown."""
    trial: Trial | None = None
    """Compiled settings; ``None`` if not requested."""
    untried: str = ""
    """Why nothing can be compiled; empty if it can."""


def advice(
    about: Ranked,
    launches: Launches,
    tree: Tree,
    code: Pressure | None = None,
    trial: Trial | None = None,
    untried: str = "",
    goal: Goal | None = None,
) -> Advice:
    """Advice on a family.

    ``code``: live registers of its worst kernel; ``untried``: why that kernel cannot be compiled.
    """
    kernel = about.worst
    launch = launches.launch_of(kernel)
    made = Advice(ranked=about, trial=trial, untried=untried if trial is None else trial.missing)
    if about.about == "occupancy":
        summary = summary_of(kernel, launch)
        reasons = [summary.line, *(f"{LABELS[name]}: {text}" for name, text in summary.findings)] if summary else []
        found = fixes(kernel, launch, code, trial, goal or Goal("blocks"))
        return structs.replace(made, causes=tuple(reasons), fixes=tuple(found))
    local = kernel.sass.local if kernel.sass else NO_TRAFFIC
    groups = [] if code is None else live_groups(code, local, tree)
    return structs.replace(
        made,
        places=tuple(by_cost(local.own, "spill", tree)[:TOP]),
        causes=tuple(causes(kernel, tree, code, groups, trial.points[0].kernel if trial and trial.points else None)),
        fixes=tuple(fixes(kernel, launch, code, trial, goal or Goal("spills"), groups)),
        need=registers_needed(kernel, code, trial),
    )


def facts(made: Advice, commands: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """(heading, text) of each known fact about a family."""
    if made.ranked.about == "spills":
        code, lines = made.ranked.worst.sass, [f"{each.text} {share_text(each.share or 0)}" for each in made.places]
        if lines or not code or not code.local.lines:
            how = "-lineinfo" if code else "-lineinfo, and pass the binary"
            yield "lines", ", ".join(lines) or f"unknown; compile with {how}"
    yield from (("cause", text) for text in made.causes or ["unknown"])
    yield from made.fixes
    if made.untried:
        yield "tried", f"none: {made.untried}"
    elif made.trial is not None:
        for point in made.trial.points:
            outcome = point.outcome(made.trial.points[0]) + ", tried in PTX" * point.in_ptx
            yield "tried", f"{point.setting.source}: {outcome}"
    yield from (("next", text) for text in commands)


def fix_data(made: Sequence[Fix]) -> list[dict[str, Any]]:
    """Fixes for JSON."""
    return [{"kind": each.kind, "text": each.text} for each in made]
