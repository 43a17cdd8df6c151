"""Everything that may be wrong with an input, each kind declared once: what it may hide, and what to do about it.

An issue whose kind hides something that a gate judges is a *hole*: the gate cannot pass, unless the policy accepts it
on record. ``explain CODE``, ``docs/holes.md`` and every report follow from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spillscan.model.usage import Hidden

EVERYTHING: tuple[Hidden, ...] = ("kernels", "spills", "registers", "stack", "shared", "code", "launch")


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueKind:
    """One kind of issue. Texts are plain sentences; names of options and policy keys stand in backquotes."""

    code: str
    """Stable name, lower case with hyphens: what issues, policies and ``--accept`` call it."""
    title: str
    """One line, a sentence without its full stop: what is so."""
    hides: tuple[Hidden, ...] = ()
    """What it may hide from a gate, unless an issue of it says otherwise; empty: nothing."""
    means: str
    """When it is reported, and what is known then."""
    remedy: str
    """What to do; accepting it is always possible, and not repeated here."""


_ALL = (
    IssueKind(
        code="no-kernel",
        title="The input names no kernel",
        hides=("kernels",),
        means="What was given was read to its end, and no kernel stands in it: an empty log, the log of a link alone, a"
        " build that had nothing to compile.",
        remedy="Give the log of the compilation itself, with `nvcc -Xptxas -v`, or the object or library that it made.",
    ),
    IssueKind(
        code="unreadable",
        title="An input could not be read",
        hides=("kernels",),
        means="A file that was named, or found in a folder that was named, could not be opened or unpacked.",
        remedy="Mend the file or its permissions, fetch it again, or leave it out of the call.",
    ),
    IssueKind(
        code="nothing-recognised",
        title="Nothing in an input was understood",
        hides=("kernels",),
        means="A file that was named holds no report of a compiler and no machine code.",
        remedy="Compile with `nvcc -Xptxas -v` and keep its standard error; or leave the file out of the call.",
    ),
    IssueKind(
        code="left-over-record",
        title="A record file has lost its object",
        means="`spillscan wrap` wrote the record beside an object that is gone. The record is not read.",
        remedy="Delete it.",
    ),
    IssueKind(
        code="interleaved",
        title="Several compilers wrote into one log at the same time",
        means="Lines of different kernels stand between each other. What the lines themselves do not decide is "
        "unknown, and its kernels are ambiguous.",
        remedy="Let each step write its output whole: ninja does, `make -Otarget` does, and `spillscan wrap` keeps a "
        "record beside each object.",
    ),
    IssueKind(
        code="compiler-error",
        title="The compiler failed",
        hides=("kernels",),
        means="ptxas or nvlink reported an error: what it was to write is missing from this build.",
        remedy="Mend the build first.",
    ),
    IssueKind(
        code="truncated",
        title="The input breaks off",
        hides=EVERYTHING,
        means="A log or a dump ends inside a record: what follows is missing, and figures of the last one may be too "
        "low.",
        remedy="Make the file again, and let its writer finish.",
    ),
    IssueKind(
        code="damaged-listing",
        title="A listing lacks lines, or holds some twice",
        hides=EVERYTHING,
        means="Addresses of instructions, names or figures of a dump do not follow each other as its tool writes them: "
        "figures of the functions around may be wrong.",
        remedy="Make the dump again, and keep it as it was written.",
    ),
    IssueKind(
        code="unknown-line",
        title="A line of a known tool was not understood",
        means="The line begins like a message of a compiler or a row of a dump, and no rule of the grammar describes "
        "it.",
        remedy="Report the line, so that the grammar learns it.",
    ),
    IssueKind(
        code="unknown-clause",
        title="A clause of a known line was not understood",
        means="A newer toolkit prints a figure that this release does not know. The figures beside it are read.",
        remedy="Update spillscan, or report the clause.",
    ),
    IssueKind(
        code="unattributed-stack",
        title="A line with stack and spills names no kernel",
        hides=("spills", "stack"),
        means="The line that says whose stack it is is missing: the log was cut at its head, or lost a line.",
        remedy="Give the whole log.",
    ),
    IssueKind(
        code="unattributed-registers",
        title="A line with registers names no kernel",
        hides=("registers", "shared"),
        means="No kernel, or more than one, may own the line. Kernels that may are ambiguous.",
        remedy="Give the whole log; of parallel builds, let each step write its output whole.",
    ),
    IssueKind(
        code="unattached-advisory",
        title="A compiler message names no kernel of the log",
        means="The message is kept as printed, and stands with no kernel.",
        remedy="Nothing, where the kernel was compiled elsewhere.",
    ),
    IssueKind(
        code="mixed-input",
        title="A dump holds lines of a compiler's log",
        hides=EVERYTHING,
        means="One file is read in one way: the log's lines in it were not.",
        remedy="Give log and dump as two inputs.",
    ),
    IssueKind(
        code="unsupported-arch",
        title="Machine code of an architecture that is not read",
        hides=EVERYTHING,
        means="The code is of a generation for which there is no reader: its kernels are missing.",
        remedy="Judge the log of the compilation instead, or compile for a later architecture.",
    ),
    IssueKind(
        code="unknown-arch",
        title="No opcode table for an architecture",
        hides=("spills", "code"),
        means="The resources of these functions are read; their instructions, and so their spills, are not.",
        remedy="`cuobjdump -sass FILE | spillscan check -` counts them.",
    ),
    IssueKind(
        code="unknown-opcode",
        title="Instructions that are in no opcode table",
        means="They are counted as unknown; none of them is an access to local memory that is known.",
        remedy="Report the file, so that the tables learn them.",
    ),
    IssueKind(
        code="damaged",
        title="A binary is damaged",
        hides=("kernels",),
        means="A part of the file does not hold what its headers promise. Functions in it are missing.",
        remedy="Build or fetch the file again.",
    ),
    IssueKind(
        code="damaged-lines",
        title="Line information is damaged",
        means="Source lines of some functions are missing. No figure depends on them.",
        remedy="Build the file again, if lines are wanted.",
    ),
    IssueKind(
        code="tool-message",
        title="A dump holds a message of its tool",
        means="cuobjdump or nvdisasm said something about what it was given.",
        remedy="Read the message; what the tool left out is not in the dump.",
    ),
    IssueKind(
        code="undecodable",
        title="A dump holds bytes that are no text",
        means="cuobjdump and nvdisasm write ASCII only.",
        remedy="Make the dump again.",
    ),
    IssueKind(
        code="spill-mismatch",
        title="Log and machine code disagree about spills",
        hides=("spills",),
        means="Both were read, and they count different bytes for one kernel: they are of different compilations, or "
        "one of them is damaged.",
        remedy="Give the log and the code of the same build.",
    ),
    IssueKind(
        code="registers-mismatch",
        title="Log and machine code disagree about registers",
        hides=("registers",),
        means="Both were read, and they name different registers for one kernel.",
        remedy="Give the log and the code of the same build.",
    ),
    IssueKind(
        code="ambiguous-sass",
        title="Several functions of a dump may be one kernel",
        hides=("code",),
        means="The dump does not say which of them belongs to the kernel of the log, and they differ.",
        remedy="Give the dump of one object, or a binary, whose units have names.",
    ),
    IssueKind(
        code="not-in-dump",
        title="A kernel of the log is not in the dump",
        hides=("code",),
        means="The dump holds code of the kernel's architecture, and not this kernel.",
        remedy="Dump the binary of the same build.",
    ),
    IssueKind(
        code="not-in-log",
        title="Functions of the dump are in no log",
        means="They are kernels of their own, with what the code shows.",
        remedy="Nothing, where the log is of one part of the binary.",
    ),
    IssueKind(
        code="policy-names-nothing",
        title="A pattern of the policy names no kernel of this build",
        means="Policies serve several builds; what a pattern protects may be renamed.",
        remedy="Correct or delete the entry, if this is the build that it is for.",
    ),
    IssueKind(
        code="expired-suppression",
        title="A suppression of the baseline has expired",
        means="Its day is past. The gate fails until it is mended or renewed.",
        remedy="Mend the kernel, or renew the suppression.",
    ),
    IssueKind(
        code="idle-suppression",
        title="A suppression of the baseline excuses nothing",
        means="No finding of this build is the one that it names.",
        remedy="Delete it, if the kernel is mended.",
    ),
    IssueKind(
        code="unknown-spills",
        title="A kernel's spills are not known",
        hides=("spills",),
        means="The input announces the kernel and does not say whether it spills.",
        remedy="Give ptxas's own report too (`nvcc -Xptxas -v`), or judge no spills (`--max-spill-bytes none`).",
    ),
    IssueKind(
        code="unknown-registers",
        title="A kernel's registers are not known",
        hides=("registers",),
        means="The input does not say how many registers it uses, or says it of relocatable code before the link.",
        remedy="Give the whole log; of relocatable code the link's too (`nvcc -Xnvlink -v`).",
    ),
    IssueKind(
        code="unknown-stack",
        title="A kernel's stack is not known",
        hides=("stack",),
        means="The input announces the kernel and does not say how large its stack is.",
        remedy="Give ptxas's own report too (`nvcc -Xptxas -v`).",
    ),
    IssueKind(
        code="unknown-shared",
        title="A kernel's shared memory is not known",
        hides=("shared",),
        means="The input announces the kernel and does not say how much shared memory it uses.",
        remedy="Give ptxas's own report too (`nvcc -Xptxas -v`).",
    ),
    IssueKind(
        code="unknown-blocks",
        title="A kernel's resident blocks are not known",
        hides=("launch",),
        means="A rule counts resident blocks, and the launch or a figure that decides them is missing.",
        remedy="Say how the kernel is launched: `--launch 'GLOB=THREADS[,BYTES]'`, or `launch` in the policy.",
    ),
    IssueKind(
        code="unknown-code",
        title="A kernel's machine code is not known",
        hides=("code",),
        means="A rule judges machine code, and the input holds none for this kernel.",
        remedy="Give the object, the library or its dump besides the log.",
    ),
    IssueKind(
        code="fewer-kernels",
        title="The build has fewer kernels than it should",
        hides=("kernels",),
        means="`expect_kernels` or the baseline knows more kernels than the input names.",
        remedy="Compile everything anew and give the whole log; if kernels are gone on purpose, `spillscan baseline "
        "prune`, a smaller `expect_kernels`, or `--allow-fewer`.",
    ),
    IssueKind(
        code="not-comparable",
        title="What the baseline records is not reported by this input",
        hides=("spills", "registers", "stack", "shared", "code", "launch"),
        means="The baseline was written from inputs that say more than this one: what it records is neither fixed nor "
        "there.",
        remedy="Give the inputs from which the baseline was written, or `--allow-fewer`.",
    ),
    IssueKind(
        code="nothing-compared",
        title="The two builds have nothing in common",
        hides=("kernels",),
        means="No kernel of one was held against a kernel of the other.",
        remedy="Compare builds for the same architectures.",
    ),
    IssueKind(
        code="profile-unmatched",
        title="A launch of the profile is of no kernel of the build",
        means="Its name fits none, or several.",
        remedy="Profile the build that is judged.",
    ),
    IssueKind(
        code="profile-contradicts",
        title="Profile and build disagree",
        means="The profile names other registers or shared memory for a kernel than the build does.",
        remedy="Profile the build that is judged.",
    ),
    IssueKind(
        code="profiler-error",
        title="The profiler reported an error",
        means="Nsight Compute wrote a message between its rows.",
        remedy="Read the message; launches after it may be missing.",
    ),
)

KINDS: Mapping[str, IssueKind] = {kind.code: kind for kind in _ALL}
"""Every kind by its code."""
