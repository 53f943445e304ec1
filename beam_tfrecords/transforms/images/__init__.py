"""One image: bytes in, the bytes that are stored out. Pure: no Beam, no I/O, no clock."""

# Whoever changes the bytes that an image is stored as adds one, and makes the golden digests again as their test says.
# Blocks and records of another revision are not mixed with new ones.
REVISION = 4
# What `probe.py` compares between machines.
PROBED_STEPS = ("resize", "16-bit", "measures", "jpeg", "webp", "deflate")
