"""One image: bytes in, the bytes that are stored out. Pure: no Beam, no I/O, no clock."""
