"""CRC-32C: combining agrees with hashing, for every length."""

from __future__ import annotations

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords import crc32c, storage


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_the_crc_of_two_pieces_is_combined_from_theirs(one, other):
    combined = crc32c.combine(google_crc32c.value(one), google_crc32c.value(other), len(other))
    assert combined == google_crc32c.value(one + other)


@given(st.lists(st.binary(max_size=50), max_size=8))
def test_pieces_are_combined_one_after_the_other(pieces):
    crc = 0
    for piece in pieces:
        crc = crc32c.combine(crc, google_crc32c.value(piece), len(piece))
    assert crc == google_crc32c.value(b"".join(pieces))


@pytest.mark.parametrize("length", [0, 1, 12, (1 << 16) - 1, 1 << 16, 5_000_003, 16 << 20])
def test_long_pieces_are_combined(length):
    long = bytes(range(256)) * (length // 256) + bytes(length % 256)
    crc = crc32c.combine(google_crc32c.value(b"before"), google_crc32c.value(long), length)
    assert crc == google_crc32c.value(b"before" + long)


def test_pieces_longer_than_memory_are_combined_as_if_they_were_cut():
    terabyte = 1 << 40
    whole = crc32c.combine(0x12345678, 0, terabyte)
    in_two = crc32c.combine(crc32c.combine(0x12345678, 0, terabyte - 999), 0, 999)
    assert whole == in_two


def test_the_check_value_of_the_catalogue():
    # https://reveng.sourceforge.io/crc-catalogue/17plus.htm, CRC-32/ISCSI.
    assert crc32c.value(b"123456789") == 0xE3069283
    assert crc32c.extend(crc32c.value(b"1234"), b"56789") == 0xE3069283
    assert crc32c.combine(crc32c.value(b"1234"), crc32c.value(b"56789"), 5) == 0xE3069283


@pytest.mark.parametrize("size", [0, 9, 1 << 18, (1 << 19) + 1])
def test_of_a_file(tmp_path, size):
    data = b"\x5a" * size
    (tmp_path / "file").write_bytes(data)
    assert storage.crc32c(str(tmp_path / "file")) == google_crc32c.value(data)


def test_eight_hex_digits():
    assert crc32c.to_hex(0xABC) == "00000abc"
