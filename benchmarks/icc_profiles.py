"""Builds ICC profiles of RGB and grey colour spaces (ICC.1:2001-04, version 2): a matrix and tone curves, no tables."""

from __future__ import annotations

import dataclasses
import struct
from typing import TypeAlias

import numpy as np

Chromaticity: TypeAlias = "tuple[float, float]"

D65, D50 = (0.3127, 0.3290), (0.3457, 0.3585)
# Gamma of the sRGB formula in `_curve`; any other number is a plain power.
SRGB_GAMMA = 0.0
# XYZ of the profile connection space's white (ICC.1:2001-04, 6.3.2).
_PCS_WHITE = (0.9642, 1.0, 0.8249)
_BRADFORD = np.array([[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]])
_HEADER_BYTES = 128
# As many entries as the curves of the common "sRGB IEC61966-2.1" profile have.
_SRGB_ENTRIES = 1024


@dataclasses.dataclass(frozen=True)
class RgbSpace:
    """An RGB colour space.

    Attributes:
      name: the profile's description.
      primaries: CIE x and y of red, green and blue.
      white: CIE x and y of white.
      gamma: exponent of the tone curve, or `SRGB_GAMMA`.
    """

    name: str
    primaries: tuple[Chromaticity, Chromaticity, Chromaticity]
    white: Chromaticity
    gamma: float


SRGB = RgbSpace("sRGB IEC61966-2.1", ((0.64, 0.33), (0.30, 0.60), (0.15, 0.06)), D65, SRGB_GAMMA)
ADOBE_RGB = RgbSpace("Adobe RGB (1998)", ((0.64, 0.33), (0.21, 0.71), (0.15, 0.06)), D65, 563 / 256)
APPLE_RGB = RgbSpace("Apple RGB", ((0.625, 0.34), (0.28, 0.595), (0.155, 0.07)), D65, 1.8)
DISPLAY_P3 = RgbSpace("Display P3", ((0.68, 0.32), (0.265, 0.69), (0.15, 0.06)), D65, SRGB_GAMMA)
PROPHOTO_RGB = RgbSpace("ProPhoto RGB", ((0.7347, 0.2653), (0.1596, 0.8404), (0.0366, 0.0001)), D50, 1.8)


def build_rgb_profile(space: RgbSpace) -> bytes:
    """The profile of an RGB display: about 0.5 KB with a power curve, 2.6 KB with sRGB's."""
    curve = _curve(space.gamma)
    tags = {b"desc": _description(space.name), b"cprt": _text("Public domain"), b"wtpt": _xyz(_white_xyz(space.white))}
    for channel, column in zip("rgb", _matrix(space).T, strict=True):
        tags[f"{channel}XYZ".encode()] = _xyz(column)
        tags[f"{channel}TRC".encode()] = curve
    return _assemble(b"RGB ", tags)


def build_grey_profile(name: str, gamma: float) -> bytes:
    """The profile of a grey display with a power curve."""
    tags = {b"desc": _description(name), b"cprt": _text("Public domain"), b"wtpt": _xyz(_white_xyz(D50))}
    return _assemble(b"GRAY", {**tags, b"kTRC": _curve(gamma)})


def _white_xyz(white: Chromaticity) -> np.ndarray:
    x, y = white
    return np.array([x / y, 1.0, (1 - x - y) / y])


def _matrix(space: RgbSpace) -> np.ndarray:
    """[3, 3] float64: linear RGB -> XYZ under the connection space's white, adapted by Bradford's matrix."""
    primaries = np.array([_white_xyz(primary) for primary in space.primaries]).T
    white = _white_xyz(space.white)
    to_xyz = primaries * np.linalg.solve(primaries, white)
    gains = (_BRADFORD @ _PCS_WHITE) / (_BRADFORD @ white)
    return np.asarray(np.linalg.inv(_BRADFORD) @ np.diag(gains) @ _BRADFORD @ to_xyz)


def _curve(gamma: float) -> bytes:
    if gamma != SRGB_GAMMA:
        return b"curv" + struct.pack(">4xIH", 1, round(gamma * 256))
    encoded = np.linspace(0, 1, _SRGB_ENTRIES)
    linear = np.where(encoded <= 0.04045, encoded / 12.92, ((encoded + 0.055) / 1.055) ** 2.4)
    return b"curv" + struct.pack(">4xI", _SRGB_ENTRIES) + np.round(linear * 65535).astype(">u2").tobytes()


def _xyz(values: np.ndarray) -> bytes:
    return b"XYZ " + struct.pack(">4x3i", *(round(float(value) * 65536) for value in values))


def _text(text: str) -> bytes:
    return b"text" + bytes(4) + text.encode("ascii") + b"\0"


def _description(name: str) -> bytes:
    ascii_name = name.encode("ascii") + b"\0"
    # No Unicode name (language and length) and no Macintosh one (code, length and 67 bytes).
    return b"desc" + struct.pack(">4xI", len(ascii_name)) + ascii_name + bytes(8 + 3 + 67)


def _assemble(color_space: bytes, tags: dict[bytes, bytes]) -> bytes:
    """Header, tag table and tags; equal tags share their bytes."""
    at = _HEADER_BYTES + 4 + 12 * len(tags)
    offsets: dict[bytes, int] = {}
    table, body = struct.pack(">I", len(tags)), b""
    for signature, data in tags.items():
        if data not in offsets:
            offsets[data] = at + len(body)
            body += data + bytes(-len(data) % 4)
        table += struct.pack(">4sII", signature, offsets[data], len(data))
    white = struct.pack(">3i", *(round(value * 65536) for value in _PCS_WHITE))
    # Version 2.1, a display's profile, made on 1 January 2000.
    header = struct.pack(
        ">I4xI4s4s4s6H4s28x12s", at + len(body), 0x02100000, b"mntr", color_space, b"XYZ ", 2000, 1, 1, 0, 0, 0,
        b"acsp", white,
    )  # fmt: skip
    return header.ljust(_HEADER_BYTES, b"\0") + table + body
