"""Canonical names, the same for any checkout, toolkit or list of archs, and the pairing of kernels across builds.

``symbol`` contains the lexical grammar of mangled names and removes their volatile parts. ``pairs`` joins the kernels
of two builds by keys, from certain to less certain. ``namesakes`` aligns several kernels of one key by equal code and
metrics. ``renames`` pairs the rest by substitutions in their names.
"""

from spillscan.naming.identity.symbol import canonical, digest, source_file

__all__ = ["canonical", "digest", "source_file"]
