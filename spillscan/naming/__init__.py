"""Names of kernels: for people, last scope, base name and arguments in one width per output; for comparisons, one
identity whatever checkout, toolkit and list of archs a kernel was built with.

In: symbols. Out: :class:`Names`, canonical symbols, pairs of kernels.

``display`` reads a demangled name, ``names`` fits names to a width and keeps them apart. ``identity/symbol.py`` parses
mangled names: what is volatile in one is replaced, and it stays a mangled name.
"""

from spillscan.naming.display import Key, symbol_of
from spillscan.naming.names import NARROW, WIDTH, Names, alone

__all__ = ["NARROW", "WIDTH", "Key", "Names", "alone", "symbol_of"]
