"""What every command writes with, and where files lie: a terminal's tables and charts, CSV, harmless text, progress,
files that appear whole or not at all, and the errors that become one line.

In: text, rows, pieces of a document. Out: bytes on standard output, standard error and disk.
"""
