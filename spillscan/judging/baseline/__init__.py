"""The ratchet: findings that a team has accepted are recorded, and only what is new or worse than recorded fails.

Pure: text in, text out; ``commands/_baseline.py`` opens files and asks git. ``model`` says what a baseline holds,
``file`` reads and writes it, ``recording`` makes and prunes one and says what got worse since, ``judging`` gives every
finding its state.
"""
