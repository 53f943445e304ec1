"""The header of a JPEG: size, components, color profile, orientation (ITU T.81, B.2)."""

from __future__ import annotations

import dataclasses

from PIL import Image

from transforms.images.orient import orientation_of

JPEG_START = b"\xff\xd8\xff"
_SOS = 0xDA
_APP1, _APP2 = 0xE1, 0xE2
_EOI = b"\xff\xd9"
_PLAIN_PROCESSES = (0xC0, 0xC1, 0xC2)
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_EXIF = b"Exif\0\0"
_ICC = b"ICC_PROFILE\0"


@dataclasses.dataclass(frozen=True)
class JpegHeader:
    """The markers up to the first scan.

    Attributes:
      height: pixels.
      width: pixels.
      components: 1 (grey), 3 (color) or 4 (CMYK).
      precision: bits per component.
      process: the frame's marker: 0xC0 baseline, 0xC1 extended, 0xC2 progressive, others rare.
      scan: offset of the first scan's marker.
      exif: the EXIF block, or None.
      xmp: the XMP packet, or None.
      icc_profile: the color profile, or None.
    """

    height: int
    width: int
    components: int
    precision: int
    process: int
    scan: int
    exif: bytes | None
    xmp: bytes | None
    icc_profile: bytes | None

    @property
    def is_plain(self) -> bool:
        """Whether it is of the usual kind: 8 bits, grey or three colors, Huffman-coded."""
        return self.precision == 8 and self.components in (1, 3) and self.process in _PLAIN_PROCESSES

    def has_end(self, data: bytes) -> bool:
        """Whether an end-of-image marker follows the first scan; scan data cannot contain one."""
        return data.rfind(_EOI, self.scan) >= 0

    def orientation(self) -> int:
        """The orientation in EXIF or XMP, 1 to 8; 1 if there is none or it cannot be read."""
        if self.exif is None and self.xmp is None:
            return 1
        image = Image.Image()
        if self.exif is not None:
            image.info["exif"] = self.exif
        if self.xmp is not None:
            image.info["xmp"] = self.xmp
        return orientation_of(image)


def parse_jpeg_header(data: bytes) -> JpegHeader | None:
    """The header of a well-formed JPEG; None if anything about it is odd."""
    exif = xmp = None
    profile: list[tuple[int, int, bytes]] = []
    frame: tuple[int, int, int, int, int] | None = None
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # padding
            at += 1
            continue
        if marker < 0xC0 or 0xD0 <= marker <= 0xD9:
            return None
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        body = data[at + 4 : end]
        if end > len(data):
            return None
        if marker == _SOS:
            break
        if marker in _FRAMES:
            if frame is not None or len(body) < 6:
                return None
            height, width = int.from_bytes(body[1:3], "big"), int.from_bytes(body[3:5], "big")
            frame = height, width, body[5], body[0], marker
        elif marker == _APP1 and body.startswith(_EXIF):
            exif = body if exif is None else exif + body[len(_EXIF) :]
        elif marker == _APP1 and body.startswith(b"http://ns.adobe.com/xap/1.0/\0"):
            xmp = body
        elif marker == _APP2 and body.startswith(_ICC) and len(body) > 14:
            profile.append((body[12], body[13], body[14:]))
        at = end
    else:
        return None
    if frame is None or not frame[0] or not frame[1]:
        return None
    return JpegHeader(*frame, scan=at, exif=exif, xmp=xmp, icc_profile=_join_profile(profile))


def _join_profile(pieces: list[tuple[int, int, bytes]]) -> bytes | None:
    """The profile from its numbered pieces (ICC.1:2010, B.4), or None if some are missing."""
    pieces.sort(key=lambda piece: piece[0])
    if [number for number, _, _ in pieces] != list(range(1, len(pieces) + 1)):
        return None
    return b"".join(piece for _, _, piece in pieces) or None
