"""What was compiled, by what, and what came of it: command lines, the launcher inside a build and the records that it
leaves, CUDA releases, and which GPUs can run the result.

In: a compiler's command line; a build. Out: ``Compilation``; record files; gaps of archs that are missing.
"""

PUBLIC = (
    "account",
    "buildfile",
    "compilation",
    "configured",
    "coverage",
    "databases",
    "launcher",
    "records",
    "watching",
)
"""What other packages may import from: these modules, and this one."""
