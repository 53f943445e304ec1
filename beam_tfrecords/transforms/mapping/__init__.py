"""Functions of the user between decoding and storing."""
