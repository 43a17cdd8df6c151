"""What a kernel is called, whatever checkout, toolkit and list of archs it was built with.

``symbol`` states the lexical grammar of mangled names and drops from a name what a checkout, toolkit or list of archs
put into it. ``pairs`` joins the kernels of two builds by keys from sure to less sure, ``namesakes`` aligns several of
one key by equal code and figures, ``renames`` pairs the rest: by ``substitutions``, then by ``likeness``.
"""

from spillscan.naming.identity.symbol import canonical, digest, source_file

__all__ = ["canonical", "digest", "source_file"]
