"""Names for people: the instances of a template by the arguments in which they differ."""

from spillscan.naming.names import WIDTH, Family, Names, alone

__all__ = ["WIDTH", "Family", "Names", "alone"]
