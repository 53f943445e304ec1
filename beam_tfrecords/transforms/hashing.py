"""Hashes that decide order and split, and that identify equal images."""

from __future__ import annotations

import hashlib
import sys
from array import array
from collections.abc import Iterable

from blake3 import blake3

_ORDER = b"order"
_SPLIT = b"split"
SPACE = 1 << 64


def order_hashes(*, seed: int, keys: Iterable[str]) -> array[int]:
    """The place of each sample in the shuffled dataset, uniform over [0, 2**64)."""
    return _hash64(_ORDER, seed, keys)


def split_hashes(*, seed: int, keys: Iterable[str]) -> array[int]:
    """The values that fractions of splits are cut from, uniform over [0, 2**64), independent of the order."""
    return _hash64(_SPLIT, seed, keys)


def content_hash(data: bytes) -> str:
    """Hex BLAKE3 of a file's bytes, as `b3sum` prints it."""
    # This hash may never change: later builds find unchanged images by it. BLAKE3 takes a quarter of the time of
    # SHA-256 where the processor has SHA instructions, a tenth elsewhere.
    return str(blake3(data).hexdigest())


def _hash64(purpose: bytes, seed: int, keys: Iterable[str]) -> array[int]:
    # This hash may never change: with another one every image would move, and with fractions also to another
    # split, so that test images of yesterday's build would train tomorrow's model.
    # blake2b is stable across platforms and Python versions; Python's own hash() is neither.
    begun = hashlib.blake2b(digest_size=8, key=b"%d" % seed, person=purpose)
    digests = []
    for key in keys:
        digest = begun.copy()
        digest.update(key.encode())
        digests.append(digest.digest())
    hashes = array("Q", b"".join(digests))
    if sys.byteorder == "little":
        hashes.byteswap()
    return hashes
