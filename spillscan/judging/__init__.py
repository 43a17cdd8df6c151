"""What is judged: two builds compared, rules with their limits, the policy that sets these, the baseline that excuses,
and the one verdict that makes an exit status.

In: builds, policies, baselines. Out: changes, findings, gaps, a verdict.
"""
