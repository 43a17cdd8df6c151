"""In the build: the compiler's figures go into record files beside the objects, everything else goes on as printed."""
