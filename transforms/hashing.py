"""Hashes that decide order and split."""

from __future__ import annotations

import hashlib

_ORDER = b"order"
_SPLIT = b"split"
SPACE = 1 << 64


def order_hash(*, seed: int, key: str) -> int:
    """The place of a sample in the shuffled dataset, uniform over [0, 2**64)."""
    return _hash64(_ORDER, seed, key)


def split_hash(*, seed: int, key: str) -> int:
    """The value that fractions of splits are cut from, uniform over [0, 2**64), independent of the order."""
    return _hash64(_SPLIT, seed, key)


def _hash64(purpose: bytes, seed: int, key: str) -> int:
    # This may never change: with another hash, every image would move to another place, and with
    # fractions to another split, so that test images of yesterday's build train tomorrow's model.
    # blake2b is stable across platforms and Python versions; Python's own hash() is neither.
    digest = hashlib.blake2b(key.encode(), digest_size=8, key=b"%d" % seed, person=purpose)
    return int.from_bytes(digest.digest(), "big")
