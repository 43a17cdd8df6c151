"""What a kernel is called, whatever checkout, toolkit and list of archs it was built with."""

from spillscan.identity.symbol import canonical, source_file

__all__ = ["canonical", "source_file"]
