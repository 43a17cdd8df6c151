"""What kernels are called: for people, the instances of a template by the arguments in which they differ; for
comparisons, one identity whatever checkout, toolkit and list of archs a kernel was built with.

In: symbols. Out: :class:`Names`, canonical symbols, pairs of kernels.
"""

from spillscan.naming.families import Family, Key, symbol_of
from spillscan.naming.names import WIDTH, Names, alone

__all__ = ["WIDTH", "Family", "Key", "Names", "alone", "symbol_of"]

PUBLIC = ("identity", "identity.libraries", "identity.likeness", "identity.pairs", "identity.symbol")
"""What other rooms may import from: these modules, and this one."""
