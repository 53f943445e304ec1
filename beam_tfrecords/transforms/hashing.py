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
    """Returns hashes whose order is the order of the shuffled dataset, uniform over [0, 2**64)."""
    return _hash64(_ORDER, seed, keys)


def split_hashes(*, seed: int, keys: Iterable[str]) -> array[int]:
    """Returns hashes that are cut at the fractions of splits, uniform over [0, 2**64), independent of the order."""
    return _hash64(_SPLIT, seed, keys)


def content_hash(data: bytes) -> str:
    """Returns the hex BLAKE3 of a file's bytes, as `b3sum` prints it."""
    # This hash must never change, because later builds find unchanged images by it. BLAKE3 takes a quarter of the time
    # of SHA-256 on processors with SHA instructions, and a tenth on others.
    return str(blake3(data).hexdigest())


def _hash64(purpose: bytes, seed: int, keys: Iterable[str]) -> array[int]:
    # This hash must never change: another one would move every image, with fractions also to another split, so that
    # test images of yesterday's build would train tomorrow's model.
    # blake2b is stable across platforms and Python versions; Python's own hash() is not.
    hasher = hashlib.blake2b(digest_size=8, key=b"%d" % seed, person=purpose)
    digests = []
    for key in keys:
        digest = hasher.copy()
        digest.update(key.encode())
        digests.append(digest.digest())
    hashes = array("Q", b"".join(digests))
    if sys.byteorder == "little":
        hashes.byteswap()
    return hashes
