"""The ratchet: findings that a team has accepted are recorded, and only what is new or worse than recorded fails.

Pure: text in, text out; ``commands/_baseline.py`` opens files and asks git. ``reading`` and ``writing``
know the file, ``recording`` makes and prunes a baseline, ``judging`` gives every finding its state.
"""
