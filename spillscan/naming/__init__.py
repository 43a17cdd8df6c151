"""Names of kernels, for display and for comparison.

In: symbols. Out: :class:`Names`, canonical symbols, pairs of kernels.

For display: last scope, base name and arguments, in one width per output. For comparison: one identity, independent of
checkout, toolkit and the list of archs built.

``names`` shortens names to a width and keeps them distinct. ``symbol`` has the lexical grammar of mangled names and
replaces their volatile parts; the result is still a mangled name. ``pairs`` joins the kernels of two builds by keys,
from certain to less certain. ``same_named`` aligns several kernels of one key by equal code and metrics. ``renames``
pairs the rest by substitutions in their names.
"""

from spillscan.naming.names import NARROW, WIDTH, Key, Names, alone, symbol_of

__all__ = ["NARROW", "WIDTH", "Key", "Names", "alone", "symbol_of"]
