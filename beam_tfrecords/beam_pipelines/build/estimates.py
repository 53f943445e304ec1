"""Estimates the output size of a build before anything is converted."""

from __future__ import annotations

from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from beam_tfrecords.transforms.listing.listing import Listing

# Bytes per stored pixel, for all channels: typical of photos as JPEG at quality 95, as PNG and as WebP. An estimate
# is enough: it determines the number of blocks, not their content.
_BYTES_PER_PIXEL = {ImageEncoding.JPEG: 0.5, ImageEncoding.PNG: 1.8, ImageEncoding.WEBP: 0.3, ImageEncoding.KEEP: 0.5}
# Bytes of an encoded image in addition to its pixels: in tiny images, the tables of a JPEG dominate.
_HEADER_BYTES = {ImageEncoding.JPEG: 620, ImageEncoding.KEEP: 620}
_UNKNOWN_FILE_BYTES = 100_000
_ROW_BYTES = 200


def estimate_output(image: ImageSpec, layout: Layout, *, samples: int, source_bytes: int) -> int:
    """Estimates the size of the records of these samples in bytes."""
    if layout.keeps_records:
        return source_bytes
    if Content.IMAGE not in layout.required:
        return samples * _ROW_BYTES
    if image.image_size is None:
        return source_bytes or samples * _UNKNOWN_FILE_BYTES
    # A photo's longer side is about 4/3 of its shorter one.
    pixels = image.image_size[0] * image.image_size[1] * 4 / 3
    bytes_per_pixel = _BYTES_PER_PIXEL.get(image.image_encoding, image.channels or 3)
    header_bytes = _HEADER_BYTES.get(image.image_encoding, 0)
    return int(samples * (pixels * bytes_per_pixel * image.stored_bits / 8 + header_bytes + _ROW_BYTES))


def estimate_index_row(listing: Listing) -> int:
    """Estimates the mean size of an index row in bytes; a row contains its key twice, also in its file name."""
    return _ROW_BYTES + 2 * sum(listing.ref_bytes.values()) // max(1, listing.total)
