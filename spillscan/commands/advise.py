"""Rank the kernels of a build by spill cost, and suggest a fix for each family (kernels of one template).

Spill cost is bytes × 10^loop depth. Each suggestion has a mark. `fix`: a change that was compiled, or whose
effect follows from the metrics; `option`: a change that was compiled, but has a drawback; `try`: an estimate, or a
change that was compiled for only some of the affected kernels. Kernels without spills come last, and only if their
occupancy can be higher.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from spillscan.advice.families import Advice, advice, facts, fix_data
from spillscan.advice.profile.launches import read_profiles
from spillscan.advice.profile.matching import Matched, matched
from spillscan.advice.ranking import ranked, why_here
from spillscan.advice.sweep.proposals import no_step, refusal
from spillscan.commands import _answers, _inputs, _issues, _offers, _options, _policy, _trying
from spillscan.commands._selection import Selection
from spillscan.model import Build, Kernel, Launch
from spillscan.naming import Names
from spillscan.occupancy.launches import Launches, settled
from spillscan.output.markdown import code, words
from spillscan.output.nouns import count, listed, of_number
from spillscan.output.safe import printable
from spillscan.output.terminal import BOLD, Style, fold, paint, wrapped
from spillscan.reading.binary import fetch
from spillscan.reading.inputs.paths import expand
from spillscan.reports.groups import other_local
from spillscan.reports.render import tree_here
from spillscan.reports.words import label_of, summary

EPILOG = "Example: spillscan advise build/ --launch 'gemm*=256' --top 5"
_LONGEST = 400
_NAMED = 3
"""Maximum number of named kernels with local memory but no spills; the rest is counted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _options.add_inputs(parser)
    _options.words(parser, "--measured", "FILE", "CSV of an ncu profile; rank by time × share of spill instructions")
    _trying.add_try(parser, "families")
    _options.add_launches(parser)
    _policy.add_file(parser)
    _options.add_selection(parser)
    _options.add_formats(parser, "text", "json", "markdown")
    _options.add_rows(parser, 10, "families to show", "families")


def run(arguments: argparse.Namespace) -> int:
    """Return 0; exit status 2 if the input cannot be read."""
    forms = _answers.forms_of(arguments)
    policy = _policy.policy_of(arguments)
    inputs = _inputs.inputs_or_stdin(arguments.inputs)
    build = _inputs.scan(inputs)
    kept = Selection(arguments.arch, arguments.kernel, arguments.launch).of(build)
    names = Names(kernel.named_by for kernel in build.kernels)
    profile = matched(read_profiles(expand(arguments.measured))[0], build) if arguments.measured else ()
    launches = _Launches(policy, profile)
    families = ranked(kept.kernels, names, launches, profile)
    shown = families[: _options.rows_of(arguments)]
    live = fetch.pressures_of(each.worst for each in shown)
    tree, run_files, invocation = tree_here(), _offers.run_files_near(inputs), _offers.Invocation.by(arguments, inputs)
    sources = {id(each): _offers.source_in(build, each.worst, run_files) for each in shown}
    wanted = [(each.worst, sources[id(each)]) for each in shown]
    trials = _trying.trials_of(arguments, wanted, launches, policy, build)
    advised = []
    for each in shown:
        source, trial = sources[id(each)], trials.get(id(each.worst))
        untried = "" if no_step(each.worst, launches.launch_of(each.worst)) else refusal(each.worst, source)
        goal = _offers.goal_of(policy, each.worst, "spill" if each.about == "spills" else "blocks-per-sm")
        made = advice(each, launches, tree, live.get(id(each.worst)), trial, untried, goal)
        steps = _offers.commands_for(each, source, invocation, names, launches, trial)
        advised.append((made, list(steps)))
    rest = list(_left_open(kept, launches, names))
    more = len(families) - len(shown)
    _answers.answer(
        forms,
        text=lambda style: _text(kept, advised, rest, more, names, style),
        json=lambda: _document(kept, advised, rest, len(families), names),
        markdown=lambda: _markdown(kept, advised, rest, more, names),
    )
    _issues.report_issues(build.issues)
    return 0


class _Launches:
    """Launches from the policy, else from a profile."""

    def __init__(self, policy: Launches, profile: Sequence[Matched]) -> None:
        self._policy = policy
        self._seen = {id(each.kernel): each.launch.launch for each in profile if each.kernel}

    def launch_of(self, kernel: Kernel) -> Launch | None:
        """Launch of a kernel; ``None`` if unknown."""
        launch = self._policy.launch_of(kernel)
        seen = self._seen.get(id(kernel))
        return settled(kernel, seen) if seen is not None and (launch is None or launch.source == "bounds") else launch


# ---- forms -----------------------------------------------------------------------------------------------------------


Advised = Sequence[tuple[Advice, Sequence[str]]]
"""Advice on each family, and the next commands."""


def _left_open(build: Build, launches: Launches, names: Names) -> Iterator[str]:
    """Reasons why kernels have no advice."""
    entries = [kernel for kernel in build.kernels if kernel.role == "entry"]
    silent = sum(kernel.spills is None for kernel in entries)
    unlaunched = sum(launches.launch_of(kernel) is None for kernel in entries)
    if using := other_local(entries):
        first = [f"{names.of(each.named_by)} ({each.key.arch or 'arch unknown'})" for each in using[:_NAMED]]
        shown = listed(dict.fromkeys(first), len(using) - _NAMED)
        yield f"local memory without spills (arrays, call frames): {shown}; see `spillscan show`"
    if silent:
        yield f"spills unknown for {silent:,} of {count(len(entries), 'kernel')}"
    if unlaunched:
        yield f"limiter unknown for {unlaunched:,} of {count(len(entries), 'kernel')}; set --launch 'GLOB=THREADS'"


def _head(build: Build, families: int) -> str:
    first = "; ".join(line for line in summary(build).splitlines() if line[0].isdigit())
    return f"{count(families, 'family', 'families')} to fix; {first}" if families else f"nothing to fix; {first}"


def _text(build: Build, advised: Advised, rest: Sequence[str], more: int, names: Names, style: Style) -> Iterator[str]:
    yield from (paint(line, BOLD, style) for line in wrapped([_head(build, len(advised) + more)], style))
    about = None
    for number, (made, steps) in enumerate(advised, 1):
        if made.ranked.about != about and made.ranked.about == "occupancy":
            yield from ("", paint("no spills, but occupancy can be higher:", BOLD, style))
        about = made.ranked.about
        yield ""
        heading = f"{number}. {label_of(made.ranked.worst, names)}: {why_here(made.ranked)}"
        yield from (paint(line, BOLD, style) for line in wrapped([heading], style))
        last = ""
        for heading, text in facts(made, steps):
            lead = f"   {heading if heading != last else '':8}"
            last = heading
            if heading == "next":  # keep a command on one line
                yield printable(f"{lead}{text}")
            else:
                yield from wrapped([lead + printable(text, _LONGEST)], style, indent=len(lead))
    yield from fold(more, style, f" {of_number(more, 'family', 'families')}")
    yield from wrapped(["", *rest] if rest else [], style, indent=2)


def _markdown(build: Build, advised: Advised, rest: Sequence[str], more: int, names: Names) -> Iterator[str]:
    yield f"**spillscan** {words(_head(build, len(advised) + more))}"
    for number, (made, steps) in enumerate(advised, 1):
        yield ""
        yield f"{number}. {code(label_of(made.ranked.worst, names))}: {words(why_here(made.ranked))}"
        yield from (f"   - {heading}: {code(text, 2000)}" for heading, text in facts(made, steps))
    if more:
        yield from ("", f"… {count(more, 'more family', 'more families')}: --all shows them")
    for line in rest:
        yield from ("", words(line))


def _document(build: Build, advised: Advised, rest: Sequence[str], total: int, names: Names) -> dict[str, Any]:
    return {
        "version": 1,
        "families": total,
        "first": [
            {
                "about": made.ranked.about,
                "family": made.ranked.family,
                "kernels": len(made.ranked.kernels),
                "archs": sorted({each.key.arch or "" for each in made.ranked.kernels}),
                "symbol": made.ranked.worst.key.symbol,
                "name": names.of(made.ranked.worst.named_by),
                "arch": made.ranked.worst.key.arch,
                "unit": made.ranked.worst.key.unit,
                "cost": made.ranked.cost,
                "share": made.ranked.share,
                "spill_ns": made.ranked.spill_ns,
                "time_ns": made.ranked.time_ns,
                "places": [
                    {"path": place.path, "line": place.line, "inlined": place.inner, "share": place.share}
                    for place in made.places
                ],
                "causes": list(made.causes),
                "registers_needed": None if made.need is None else made.need.registers,
                "registers_needed_by": None if made.need is None else made.need.basis,
                "tried": _trying.trial_data(made.trial, made.untried),
                "fixes": fix_data(made.fixes),
                "commands": list(steps),
            }
            for made, steps in advised
        ],
        "unknown": list(rest),
    }
