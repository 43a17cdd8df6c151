"""Say what to do first over a whole build: the families of kernels that spill, what weighs most first (bytes, ten times
as many for each loop around them; with --measured what takes most time), each with its source line, cause, fix and a
command to try; behind them those that nothing but occupancy limits, which are helped the other way.

Facts come from code, records and logs; what none of them shows is named as not known. Whether it pays is not said.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spillscan.advice.fixes import Fix, facts, fix, relief_data
from spillscan.advice.profile.exports import read_all
from spillscan.advice.profile.judged import JudgedLaunch, judge, launch_figures
from spillscan.advice.ranking import ranked, spill_weight, why_here
from spillscan.advice.sweep.proposals import no_step, refusal
from spillscan.commands import _answers, _inputs, _issues, _offers, _options, _policy, _trying
from spillscan.commands._selection import Selection
from spillscan.model import Build, Kernel, Launch
from spillscan.model.build import labels_of
from spillscan.naming import Names
from spillscan.occupancy.launches import Launches, settled
from spillscan.output.markdown import code, words
from spillscan.output.nouns import count, listed
from spillscan.output.safe import printable
from spillscan.output.terminal import BOLD, Style, fold, hung, paint
from spillscan.reading.binary import fetch
from spillscan.reading.inputs.source import expand
from spillscan.reports.groups import other_local
from spillscan.reports.render import tree_here
from spillscan.reports.words import label_of, summary

if TYPE_CHECKING:
    from spillscan.advice.sweep.model import Curve

EPILOG = "Example: spillscan advise build/ --launch 'gemm*=256' --top 5"
_LONGEST = 400
_NAMED = 3
"""Kernels with local memory that is no spill that are named, the rest is counted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _options.add_inputs(parser)
    _options.words(
        parser,
        "--measured",
        "FILE",
        "what ncu --csv wrote: families whose spills take most time come first; or what sweep -f json wrote: registers"
        " that end spills, tried, not estimated, and times",
    )
    _trying.add_try(parser, "families")
    _options.add_launches(parser)
    _policy.add_file(parser)
    _options.add_selection(parser)
    _options.add_formats(parser, "text", "json", "markdown")
    _options.add_rows(parser, 10, "families to show", "families")


def run(arguments: argparse.Namespace) -> int:
    """0; 2 where the input cannot be read."""
    forms = _answers.forms_of(arguments)
    policy = _policy.policy_of(arguments)
    unpacking = _policy.unpacking(policy)
    inputs = _inputs.inputs_or_stdin(arguments.inputs)
    build = _inputs.scan(inputs, unpacking=unpacking)
    kept = Selection(arguments.arch, arguments.kernel, arguments.launch).of(build, policy.labels)
    names = Names((kernel.named_by for kernel in build.kernels), labels=labels_of([build], policy.labels))
    sweeps = [each for each in arguments.measured if _is_json(each)]
    profiles = [each for each in arguments.measured if each not in sweeps]
    swept = _swept(sweeps) if sweeps else {}
    profile = judge(read_all(expand(profiles)), build) if profiles else ()
    launches = _Launches(policy, profile)
    found = ranked(kept.kernels, names, launches, profile)
    shown = found[: _options.rows_of(arguments)]
    code = fetch.pressures_of((each.worst for each in shown), unpacking)
    tree, databases = tree_here(), _offers.databases_near(inputs)
    sources = {id(each): _offers.source_of(each.worst, databases) for each in shown}
    made_of = _trying.trials_of(arguments, [(each.worst, sources[id(each)]) for each in shown], launches)
    trials = dict(zip(map(id, shown), made_of, strict=False))
    advice = []
    for each in shown:
        stuck = no_step(each.worst, launches.launch_of(each.worst))  # and says so itself
        untried = "" if stuck else refusal(each.worst, sources[id(each)])
        curve = swept.get((each.worst.key.symbol, each.worst.key.arch))
        made = fix(each, launches, tree, code.get(id(each.worst)), trials.get(id(each)), untried, curve)
        offered = _offers.commands_for(
            each, sources[id(each)], inputs, names, launches, arguments.config, made.trial is not None
        )
        advice.append((made, list(offered)))
    rest = list(_left_open(kept, launches, names))
    more = len(found) - len(shown)
    _answers.answer(
        forms,
        text=lambda style: _text(kept, advice, rest, more, names, style),
        json=lambda: _document(kept, advice, rest, len(found), names),
        markdown=lambda: _markdown(kept, advice, rest, more, names),
    )
    _issues.report_issues(build.issues)
    return 0


class _Launches:
    """How kernels are launched: as the policy says, else as a profile saw it."""

    def __init__(self, policy: Launches, profile: Sequence[JudgedLaunch]) -> None:
        self._policy = policy
        self._seen = {id(each.match.kernel): launch_figures(each.launch) for each in profile if each.match.kernel}

    def launch_of(self, kernel: Kernel) -> Launch | None:
        """The launch; ``None`` where neither says."""

        said = self._policy.launch_of(kernel)
        seen = self._seen.get(id(kernel))
        return settled(kernel, seen) if seen is not None and (said is None or said.source == "bounds") else said


def _swept(paths: Sequence[str]) -> Mapping[tuple[str, str | None], Curve]:
    from spillscan.advice.sweep import kept

    return kept.swept(curve for path in paths for curve in kept.curves_in(path))


def _is_json(path: str) -> bool:
    """Whether a file is a sweep's, not a profiler's."""
    if not os.path.isfile(path):
        return path.endswith(".json")
    with open(path, "rb") as file:
        return file.read(64).lstrip()[:1] in (b"{", b"[")


# ---- forms -----------------------------------------------------------------------------------------------------------


Advice = Sequence[tuple["Fix", Sequence[str]]]


def _left_open(build: Build, launches: Launches, names: Names) -> Iterator[str]:
    """What nothing can be said of, and what is no spill."""
    entries = [kernel for kernel in build.kernels if kernel.role == "entry"]
    silent = sum(kernel.spills is None for kernel in entries)
    unlaunched = sum(not spill_weight(kernel) and launches.launch_of(kernel) is None for kernel in entries)
    if using := other_local(entries):
        first = dict.fromkeys(label_of(kernel, names) for kernel in using[:_NAMED])
        said = listed(first, len(using) - _NAMED)
        yield f"local memory without spills (arrays, call frames): {said}; `spillscan show` says where"
    if silent:
        yield f"not known whether they spill: {silent:,} of {count(len(entries), 'kernel')}"
    if unlaunched:
        yield f"not known what limits {unlaunched:,} of {count(len(entries), 'kernel')}: give --launch 'GLOB=THREADS'"


def _head(build: Build, advice: Advice, rest: Sequence[str]) -> str:
    first = summary(build).splitlines()[0]
    if advice:
        return f"what to do first; {first}"
    return f"nothing {'found so far' if rest or build.issues or not build.kernels else 'to do'}; {first}"


def _text(build: Build, advice: Advice, rest: Sequence[str], more: int, names: Names, style: Style) -> Iterator[str]:
    yield from (paint(line, BOLD, style) for line in hung([_head(build, advice, rest)], style))
    about = None
    for number, (made, tried) in enumerate(advice, 1):
        if made.ranked.about != about and made.ranked.about == "occupancy":
            yield from ("", paint("no spills, limited by occupancy:", BOLD, style))
        about = made.ranked.about
        yield ""
        heading = f"{number}. {label_of(made.ranked.worst, names)}: {why_here(made.ranked)}"
        yield from (paint(line, BOLD, style) for line in hung([heading], style))
        last = ""
        for heading, text in facts(made, tried):
            lead = f"   {heading if heading != last else '':8}"
            last = heading
            if heading == "try":  # a line to paste is one line
                yield printable(f"{lead}{text}")
            else:
                yield from hung([lead + printable(text, _LONGEST)], style, indent=len(lead))
    yield from fold(more, style, " families")
    yield from (["", *rest] if rest else [])


def _markdown(build: Build, advice: Advice, rest: Sequence[str], more: int, names: Names) -> Iterator[str]:
    yield f"**spillscan** {words(_head(build, advice, rest))}"
    for number, (made, tried) in enumerate(advice, 1):
        yield ""
        yield f"{number}. {code(label_of(made.ranked.worst, names))}: {words(why_here(made.ranked))}"
        yield from (f"   - {heading}: {code(text, 2000)}" for heading, text in facts(made, tried))
    if more:
        yield from ("", f"… {count(more, 'more family', 'more families')}: --all shows them")
    for line in rest:
        yield from ("", words(line))


def _sweep_data(curve: Curve | None) -> dict[str, Any] | None:
    """What a sweep shows of its loops and times."""
    if curve is None:
        return None
    from spillscan.advice.sweep.kept import point_data

    return {
        "points": [point_data(each) for each in curve.points if each.timing],
        "loops": curve.loops,
        "measured": curve.measured,
        "spills_and_times": list(curve.spills_and_times),
    }


def _document(build: Build, advice: Advice, rest: Sequence[str], total: int, names: Names) -> dict[str, Any]:
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
                "weight": made.ranked.weight,
                "share": made.ranked.share,
                "spill_ns": made.ranked.spill_ns,
                "time_ns": made.ranked.time_ns,
                "places": [
                    {"path": place.path, "line": place.line, "inlined": place.inner, "share": place.share}
                    for place in made.places
                ],
                "causes": list(made.causes),
                **relief_data(made.need, made.relaxation),
                "tried": _trying.trial_data(made.trial, made.untried),
                "sweep": _sweep_data(made.swept),
                "fixes": list(made.fixes),
                "commands": list(commands),
            }
            for made, commands in advice
        ],
        "not_known": list(rest),
    }
