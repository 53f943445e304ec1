"""TFRecord files of given records."""

from __future__ import annotations

import itertools

from beam_tfrecords.tfrecord import frame, masked_crc32c


def framed(*records: bytes) -> bytes:
    """The bytes of a file of these records."""
    return b"".join(itertools.chain.from_iterable(frame(records, list(map(masked_crc32c, records)))))
