"""Output of all commands: terminal tables and charts, CSV, escaped text, progress, atomic files, one-line errors.

In: text, rows, pieces of a document. Out: bytes on standard output, standard error and disk.

Also finds the folders of the package and of the cache.
"""
