"""What machine code means: control flow, loops, local memory, spills, operands; of dumps and binaries alike."""
