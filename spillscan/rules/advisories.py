"""What the compiler itself says costs performance."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from spillscan.model import Change, Finding, Judged, Kernel, Rule, Severity
from spillscan.rules import Terms, finding

_WARNING: Severity = "warning"
_BOTH: tuple[Judged, ...] = ("build", "change")
_LIMITLESS = "It obeys no limit: ptxas says it or does not. It fails a gate under `fail_on: warning`."

RULES = (
    Rule(
        id="wgmma-serialized",
        severity=_WARNING,
        judges=_BOTH,
        title="ptxas serialized the kernel's wgmma instructions",
        means="ptxas prints `Potential Performance Loss: wgmma.mma_async instructions are serialized due to …` and the"
        " reason: too few registers for the pipeline, a call to a function that it does not see, or other instructions"
        " that read or write the accumulators or input registers while a wgmma is in flight.",
        matters="Serialized, each tensor core instruction waits for the one before it. The overlap for which Hopper's "
        "asynchronous wgmma was made is gone.",
        remedy="Do what the reason asks: give the consumer warps more registers (`setmaxnreg`, fewer or smaller "
        "tiles), inline what is called between wgmma instructions, and touch accumulators only after "
        "`wgmma.wait_group`.",
        tuning=_LIMITLESS,
    ),
    Rule(
        id="wgmma-wait-injected",
        severity=_WARNING,
        judges=_BOTH,
        title="ptxas put in a wait for wgmma that the source does not have",
        means="ptxas prints `wgmma.wait_group is injected in around line N` (older releases: `warpgroup.wait`): the "
        "code uses registers of a wgmma that may still be running, and the compiler waits for it first.",
        matters="The program stays right, but the pipeline drains at a place that nobody chose.",
        remedy="Put the wait where it belongs (`wgmma.wait_group`, CUTLASS: `warpgroup_wait`), or move the use of the "
        "accumulators behind it. The line number counts in the PTX.",
        tuning=_LIMITLESS,
    ),
    Rule(
        id="setmaxnreg-ignored",
        severity=_WARNING,
        judges=_BOTH,
        title="ptxas ignored setmaxnreg",
        means="ptxas prints `'setmaxnreg' ignored` and why: it cannot tell the register count at entry, the code is "
        "compiled for debugging, or it must stay compatible with other compilation units or external calls.",
        matters="Warp-specialised kernels move registers from producer to consumer warps by it. Without, every warp "
        "has the same count, and consumers spill or fewer blocks fit.",
        remedy="Give the kernel launch bounds (or `.maxntid` and `.maxnreg`), compile it whole rather than with "
        "`-rdc`, without `-G`, and inline the functions that it calls.",
        tuning=_LIMITLESS,
    ),
    Rule(
        id="performance-loss",
        severity=_WARNING,
        judges=_BOTH,
        title="ptxas expects a loss of performance",
        means="ptxas prints `Potential Performance Loss:` with a reason that has no rule of its own here.",
        matters="The compiler says so only where it gave up something that the source asked for.",
        remedy="Read the reason in the finding; it names the instruction or the option.",
        tuning=_LIMITLESS,
    ),
    Rule(
        id="min-blocks-out-of-range",
        severity=_WARNING,
        judges=_BOTH,
        title="The launch bounds ask for more threads than an SM holds",
        means="ptxas prints `Value of threads per SM for entry … is out of range. .minnctapersm will be ignored`: "
        "threads per block times the minimum of blocks, as `__launch_bounds__` gives them, pass what the SM of this "
        "arch holds.",
        matters="The second figure of the launch bounds is dropped, and with it the cap on registers that was meant. "
        "On another arch the same bounds may hold.",
        remedy="Ask for fewer blocks on this arch (`__CUDA_ARCH__`, a template parameter). sm_75 holds 1,024 threads, "
        "sm_86, sm_89 and sm_120 1,536, sm_80, sm_90 and sm_100 2,048: `spillscan devices` has all.",
        tuning=_LIMITLESS,
    ),
    Rule(
        id="register-mismatch",
        severity=_WARNING,
        judges=_BOTH,
        title="The kernel calls a function that needs more registers than its cap",
        means="ptxas or nvlink prints `Entry function … with max regcount of N calls function … with regcount of M`.",
        matters="The kernel's cap does not hold: it will be launched with the registers of what it calls, or not at "
        "all.",
        remedy="Compile the function with the same cap (`-maxrregcount` of its unit), raise the kernel's, or let it be"
        " inlined.",
        tuning=_LIMITLESS,
    ),
    Rule(
        id="callee-scratch-register",
        severity=_WARNING,
        judges=_BOTH,
        title="A called function takes scratch registers that the kernel does not leave free",
        means="ptxas prints `Register spills may happen since callee … specifies register … as scratch but caller … "
        "doesn't specify`: the two were compiled for different calling conventions.",
        matters="The caller must save those registers around each call, which costs spills that neither figure shows.",
        remedy="Compile caller and callee with the same options, or let the callee be inlined.",
        tuning=_LIMITLESS,
    ),
)
"""One rule a kind of advisory that is worth a warning; the grammar names the kinds, with underscores."""

COSTLY = {rule.id.replace("-", "_"): rule for rule in RULES}
"""Rule by kind of advisory."""


def findings(kernel: Kernel, terms: Terms) -> Iterator[Finding]:
    """One warning a kind, with the first text and how often it came."""
    yield from _of_kinds(kernel, {advisory.kind for advisory in kernel.advisories})


def regressions(change: Change, terms: Terms) -> Iterator[Finding]:
    """What the compiler did not say of this kernel before."""
    if change.before is None and change.after is not None:
        yield from findings(change.after, terms)
    elif change.after is not None and change.appeared:
        yield from _of_kinds(change.after, set(change.appeared))


def _of_kinds(kernel: Kernel, kinds: Collection[str]) -> Iterator[Finding]:
    for kind, rule in COSTLY.items() if kinds else ():
        texts = [advisory.text for advisory in kernel.advisories if advisory.kind == kind and kind in kinds]
        if texts:
            more = f" ({len(texts)} times)" if len(texts) > 1 else ""
            yield finding(rule, f"ptxas: {texts[0]}{more}", kernel)


def measure(rule: str, kernel: Kernel, terms: Terms) -> dict[str, int] | None:
    """How often ptxas said it."""
    kind = rule.replace("-", "_")
    if kind not in COSTLY:
        return None
    return {"times": sum(advisory.kind == kind for advisory in kernel.advisories)}
