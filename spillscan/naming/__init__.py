"""What kernels are called: for people, the instances of a template by the arguments in which they differ; for
comparisons, one identity whatever checkout, toolkit and list of archs a kernel was built with.

In: symbols. Out: :class:`Names`, canonical symbols, pairs of kernels.

A demangled name is parsed in one place, ``model/demangled.py``, which pairs its brackets: short names, likeness and
trees are read off that. ``tree`` makes nodes of it, equal ones one object; ``columns`` finds where the trees of a
family differ and spells that at five levels; ``names`` fits names to a width and keeps them apart, checked. A mangled
name is parsed in one place, too, ``identity/symbol.py``: what is volatile in it is replaced, and it stays a mangled
name.
"""

from spillscan.naming.families import Family, Key, symbol_of
from spillscan.naming.names import WIDTH, Names, alone

__all__ = ["WIDTH", "Family", "Key", "Names", "alone", "symbol_of"]

PUBLIC = ("identity", "identity.libraries", "identity.code", "identity.pairs", "identity.renames", "identity.symbol")
"""What other packages may import from: these modules, and this one."""
