"""Analysis of machine code: control flow, loops, local memory, spills, operands; for disassembly and binaries alike."""
