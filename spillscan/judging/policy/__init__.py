"""Policy: what a team requires of its kernels, the same for every command that checks.

A policy consists of layers: defaults, the file ``spillscan.yaml``, the command line. Each has settings, and entries for
the kernels that their patterns match; later ones win, key by key. ``Policy.terms_of(kernel)`` is the result for one
kernel. Everything here is pure except ``reading.load``, which finds and reads the file.
"""
