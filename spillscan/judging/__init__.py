"""What is judged: two builds compared, rules with their limits, the policy that sets these, the baseline that excuses,
and the one verdict that makes an exit status.

In: builds, policies, baselines. Out: changes, findings, gaps, a verdict.
"""

PUBLIC = (
    "baseline.file",
    "baseline.judging",
    "baseline.model",
    "baseline.recording",
    "compare.causes",
    "compare.code_changes",
    "compare.effects",
    "compare.figures",
    "compare.matrix",
    "compare.missing_kernels",
    "compare.pairing",
    "definitions",
    "places",
    "policy",
    "policy.effective",
    "policy.file",
    "policy.reading",
    "rule_docs",
    "rules",
    "rules.code",
    "rules.spills",
    "verdict",
)
"""What other packages may import from: these modules, and this one."""
