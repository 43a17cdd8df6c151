"""What a kernel is called, whatever checkout, toolkit and list of archs it was built with."""

from spillscan.naming.identity.symbol import canonical, digest, source_file

__all__ = ["canonical", "digest", "source_file"]
