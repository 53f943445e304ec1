"""CRC-32C (Castagnoli) of bytes, and of concatenated pieces without reading them again."""

from __future__ import annotations

import functools
import warnings

with warnings.catch_warnings():
    # The library's warning about its pure Python fallback says less than the error below.
    warnings.simplefilter("ignore", RuntimeWarning)
    import google_crc32c

if google_crc32c.implementation != "c":
    raise ImportError(
        "google-crc32c has only its pure Python implementation here, which is some thousand times too slow; "
        "install a wheel of google-crc32c for this platform"
    )

# The polynomial without x^32, in the bit order of the CRC registers: x^31 in the lowest bit, x^0 in the highest.
_POLYNOMIAL = 0x82F63B78
_ONE = 1 << 31
_X8 = _ONE >> 8


def value(data: bytes) -> int:
    """Returns the CRC of bytes."""
    return int(google_crc32c.value(data))


def extend(crc: int, data: bytes) -> int:
    """Returns the CRC of bytes whose CRC is `crc`, followed by `data`; the CRC of no bytes is 0."""
    return int(google_crc32c.extend(crc, data))


def combine(crc_a: int, crc_b: int, length_b: int) -> int:
    """Returns the CRC of A followed by B, from the CRCs of both.

    A followed by n zero bits has the CRC of A times x^n modulo the polynomial, so B need not be read
    (`crc32_combine` of zlib 1.2.12, crc32.c, with this polynomial).
    """
    return _multiply(_power_of_x8(length_b), crc_a) ^ crc_b


def to_hex(crc: int) -> str:
    """Formats a CRC as the 8 hex digits that a manifest contains."""
    return f"{crc:08x}"


def _multiply(a: int, b: int) -> int:
    """Multiplies two polynomials modulo the CRC's polynomial."""
    product = 0
    while a:
        if a & _ONE:
            product ^= b
        a = a << 1 & 0xFFFFFFFF
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product


@functools.lru_cache(maxsize=64)
def _power_of_x8(exponent: int) -> int:
    """Returns x^(8 * exponent) modulo the polynomial, by squaring."""
    power, factor = _ONE, _X8
    while exponent:
        if exponent & 1:
            power = _multiply(factor, power)
        factor = _multiply(factor, factor)
        exponent >>= 1
    return power
