"""One module a kind of input that is attacked."""
