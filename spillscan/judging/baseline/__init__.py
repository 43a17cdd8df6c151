"""Baseline: findings that a team accepted are recorded, and only new or worse ones fail.

Pure: text in, text out; ``commands/_baseline.py`` opens files and calls git. ``model`` defines the content of a
baseline, ``file`` reads and writes it, ``recording`` creates and prunes it and finds what got worse since, and
``judging`` sets the state of each finding.

Entries are keyed by canonical identity and arch; copies of one kernel are compared as a multiset. A rule's measure
gives values of which greater is worse; findings of a rule without a measure are known as a whole, or not at all. The
metrics of each kernel are recorded, too: they are read back as a kernel and compared with the current one as by
``diff``.
"""
