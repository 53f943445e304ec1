"""Converts one image from the bytes of its file to the stored bytes. All functions are pure: no Beam, I/O or clock."""

# Increase this number with every change to stored bytes, and regenerate the golden digests as their test explains.
# Builds never mix blocks or records of different revisions.
REVISION = 7
# Steps whose results `probe.py` compares between machines.
PROBED_STEPS = ("resize", "16-bit", "measures", "jpeg", "webp", "deflate")
