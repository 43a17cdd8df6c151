"""Names for people: the instances of a template by the arguments in which they differ."""

from spillscan.naming.names import WIDTH, Family, Key, Names, alone, symbol_of

__all__ = ["WIDTH", "Family", "Key", "Names", "alone", "symbol_of"]
