"""The ratchet: findings that a team has accepted are recorded, and only what is new or worse than recorded fails.

Pure: text in, text out; ``commands/_baseline.py`` opens files and asks git. ``model`` says what a baseline holds,
``file`` reads and writes it, ``recording`` makes and prunes one and says what got worse since, ``judging`` gives every
finding its state.

Entries are keyed by canonical identity and arch; several copies of one kernel are compared as a multiset. The measure
that a rule declares gives figures of which greater is worse; a finding without figures is never excused. What a kernel
took is kept besides: it is read as the kernel that it was, and what changed is found and judged as ``diff`` does.
"""
