"""Parses the header of a JPEG: size, components, color profile, orientation (ITU T.81, B.2)."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator

from PIL import Image

from beam_tfrecords.transforms.images.orient import orientation_of

JPEG_START = b"\xff\xd8\xff"
_SOI, _SOS = 0xD8, 0xDA
_APP0, _APP1, _APP2, _APP15, _COM = 0xE0, 0xE1, 0xE2, 0xEF, 0xFE
_EOI = b"\xff\xd9"
_PLAIN_PROCESSES = (0xC0, 0xC1, 0xC2)
_PROGRESSIVE = (0xC2, 0xCA)
# Baseline, extended and progressive, with Huffman or arithmetic coding.
_DCT_PROCESSES = (0xC0, 0xC1, 0xC2, 0xC9, 0xCA)
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# Bytes after 0xFF that start no segment: a stuffed byte, padding, restart markers.
_ALONE = frozenset((0, 0xFF, *range(0xD0, 0xD8)))
_EXIF = b"Exif\0\0"
_ICC = b"ICC_PROFILE\0"
# Marker of the first scan; and maximum bytes of a header that is cached because other files may share it.
_SCAN, _LONGEST_REPEATED = b"\xff\xda", 1024


@dataclasses.dataclass(frozen=True)
class JpegHeader:
    """The header of a JPEG: all segments up to the first scan.

    Attributes:
      components: 1 (gray), 3 (color) or 4 (CMYK).
      process: the frame's marker: 0xC0 baseline, 0xC1 extended, 0xC2 progressive; others are rare.
      samples: number of samples of all components; 1.5 per pixel with the usual 4:2:0 subsampling.
      has_many_scans: whether the file has several scans, as a progressive file has.
      scan: offset of the first scan's marker.
    """

    height: int
    width: int
    components: int
    precision: int
    process: int
    samples: float
    has_many_scans: bool
    scan: int
    exif: bytes | None
    xmp: bytes | None
    icc_profile: bytes | None

    @property
    def is_plain(self) -> bool:
        """Whether the file is of the usual kind: 8 bits, gray or three colors, Huffman-coded."""
        return self.precision == 8 and self.components in (1, 3) and self.process in _PLAIN_PROCESSES

    @property
    def is_reducible(self) -> bool:
        """Whether the file may be decoded at a fraction of its size.

        libjpeg-turbo always decodes a lossless file at full size, and would write beyond the array of a reduced image.
        """
        return self.process in _DCT_PROCESSES

    def has_end(self, data: bytes) -> bool:
        """Whether an end-of-image marker follows the first scan; scan data cannot contain one."""
        return data.rfind(_EOI, self.scan) >= 0

    def orientation(self) -> int:
        """Returns the orientation in EXIF or XMP, 1 to 8; 1 if there is none or it cannot be read."""
        if self.exif is None and self.xmp is None:
            return 1
        image = Image.Image()
        if self.exif is not None:
            image.info["exif"] = self.exif
        if self.xmp is not None:
            image.info["xmp"] = self.xmp
        return orientation_of(image)


def parse_jpeg_header(data: bytes) -> JpegHeader | None:
    """Parses the header of a JPEG; returns None if it is so unusual that decoders may disagree about it.

    Skips bytes between the segments of the header, as all decoders do.
    """
    at = data.find(_SCAN, 0, _LONGEST_REPEATED)
    if at >= 0:
        # Caches the parsed header if this is the first scan's marker; otherwise parses the whole file.
        header = _parse_repeated(data[: at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")])
        if header is not None:
            return header
    return _parse(data)


def _parse(data: bytes) -> JpegHeader | None:
    exif = xmp = None
    profile: list[tuple[int, int, bytes]] = []
    frame: tuple[int, int, int, int, int] | None = None
    samples, scan, has_many_scans = 0.0, None, False
    for marker, at, end in _segments(data):
        body = data[at + 4 : end]
        if marker == _SOS:
            scan, has_many_scans = at, not body or not frame or body[0] < frame[2] or frame[4] in _PROGRESSIVE
        elif marker in _FRAMES:
            if frame is not None or len(body) < 6 or (sampling := _sampling(body[6:])) is None:
                return None
            height, width = int.from_bytes(body[1:3], "big"), int.from_bytes(body[3:5], "big")
            frame = height, width, body[5], body[0], marker
            samples = height * width * sampling[0] / sampling[1]
        elif marker == _APP1 and body.startswith(_EXIF):
            exif = body if exif is None else exif + body[len(_EXIF) :]
        elif marker == _APP1 and body.startswith(b"http://ns.adobe.com/xap/1.0/\0"):
            xmp = body
        elif marker == _APP2 and body.startswith(_ICC) and len(body) > 14:
            profile.append((body[12], body[13], body[14:]))
    if scan is None or frame is None or not frame[0] or not frame[1]:
        return None
    return JpegHeader(
        *frame,
        samples=samples,
        has_many_scans=has_many_scans,
        scan=scan,
        exif=exif,
        xmp=xmp,
        icc_profile=_join_profile(profile),
    )


# Small images of one program and one size share a header, and parsing it takes as long as decoding them.
_parse_repeated = functools.lru_cache(64)(_parse)


# Nearly all files use one of a few subsamplings.
@functools.lru_cache(256)
def _sampling(components: bytes) -> tuple[int, int] | None:
    """Returns the number of samples of all components in a unit, and of its pixels; None if a factor is 0."""
    factors = [(pair >> 4, pair & 15) for pair in components[1::3]]
    if not all(across and down for across, down in factors):
        return None
    largest = max((across for across, _ in factors), default=1) * max((down for _, down in factors), default=1)
    return sum(across * down for across, down in factors), largest


def bare_jpeg(data: bytes) -> bytes | None:
    """Returns the file without metadata and without stray bytes in the header; None if it has no scan."""
    kept = [data[:2]]
    for marker, at, end in _segments(data):
        if marker == _SOS:
            return b"".join([*kept, data[at:]])
        if not (_APP0 <= marker <= _APP15 or marker == _COM):
            kept.append(data[at:end])
    return None


def _segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yields (marker, offset, end) of the segments up to the first scan; stops at a damaged segment."""
    at = 2
    while 0 <= (at := data.find(0xFF, at)) < len(data) - 3:
        marker = data[at + 1]
        if marker in _ALONE:
            at += 1 if marker == 0xFF else 2
            continue
        end = at + 2 + (data[at + 2] << 8 | data[at + 3])
        if marker < 0xC0 or marker in (_SOI, _EOI[1]) or end > len(data):
            return
        yield marker, at, end
        if marker == _SOS:
            return
        at = end


def _join_profile(pieces: list[tuple[int, int, bytes]]) -> bytes | None:
    """Joins a profile from its numbered pieces (ICC.1:2010, B.4); returns None if pieces are missing."""
    pieces.sort(key=lambda piece: piece[0])
    if [number for number, _, _ in pieces] != list(range(1, len(pieces) + 1)):
        return None
    return b"".join(piece for _, _, piece in pieces) or None
