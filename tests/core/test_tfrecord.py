"""The TFRecord container: known bytes, round trips, and TensorFlow's own reader and writer as the oracle."""

from __future__ import annotations

import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.tfrecord import RecordError, masked_crc32c, read_records, scan_records
from tests import tensorflow as tf
from tests.framing import framed

pytestmark = pytest.mark.tensorflow


def test_the_masked_crc_is_a_rotation_of_crc32c_plus_a_constant():
    crc = 0xE3069283  # of the check string, RFC 3720
    assert masked_crc32c(b"123456789") == ((crc >> 15 | crc << 17) + 0xA282EAD8) % 2**32


def test_a_framed_record_has_the_bytes_that_tensorflow_writes():
    # Recipe: tf.io.TFRecordWriter(path).write(b"foo"), TensorFlow 2.21.
    golden = bytes.fromhex("0300000000000000" + "b099490e" + "666f6f" + "618abefe")
    assert framed(b"foo") == golden


def test_tensorflow_reads_what_we_frame(tmp_path):
    payloads = [b"", b"a", bytes(range(256)) * 1000]
    path = tmp_path / "x.tfrecord"
    path.write_bytes(framed(*payloads))
    assert [record.numpy() for record in tf.data.TFRecordDataset(str(path))] == payloads


def test_we_frame_byte_for_byte_what_tensorflow_writes(tmp_path):
    payloads = [b"", b"foo", bytes(range(256))]
    path = str(tmp_path / "x.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for payload in payloads:
            writer.write(payload)
    assert (tmp_path / "x.tfrecord").read_bytes() == framed(*payloads)


def test_concatenated_gzip_members_are_one_file_for_tensorflow(tmp_path):
    path = tmp_path / "x.tfrecord"
    path.write_bytes(gzip.compress(framed(b"one")) + gzip.compress(framed(b"two", b"three")))
    records = [record.numpy() for record in tf.data.TFRecordDataset(str(path), compression_type="GZIP")]
    assert records == [b"one", b"two", b"three"]


@given(st.lists(st.binary(max_size=300)))
def test_records_come_back_with_number_and_offset(payloads):
    records = list(read_records(io.BytesIO(framed(*payloads))))
    assert [record.data for record in records] == payloads
    assert [record.number for record in records] == list(range(len(payloads)))
    whole = framed(*payloads)
    for record in records:
        assert whole[record.offset : record.offset + record.length] == framed(record.data)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=4), st.data())
def test_every_flipped_bit_is_found(payloads, data):
    whole = bytearray(framed(*payloads))
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    whole[bit // 8] ^= 1 << bit % 8
    with pytest.raises(RecordError):
        list(read_records(io.BytesIO(whole)))


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=4), st.data())
def test_every_truncation_inside_a_record_is_found(payloads, data):
    whole = framed(*payloads)
    ends = {0}
    for payload in payloads:
        ends.add(max(ends) + len(payload) + 16)
    cut = data.draw(st.integers(0, len(whole)).filter(lambda size: size not in ends))
    with pytest.raises(RecordError, match="truncated"):
        list(read_records(io.BytesIO(whole[:cut])))


def test_scanning_continues_after_a_record_with_damaged_data():
    whole = bytearray(framed(b"first", b"second", b"third"))
    whole[21 + 12] ^= 1  # the first byte of "second"
    found = list(scan_records(io.BytesIO(whole)))
    assert [getattr(one, "data", None) for one in found] == [b"first", None, b"third"]
    assert isinstance(found[1], RecordError)
    assert (found[1].record, found[1].offset) == (1, 21)


def test_scanning_continues_after_a_damaged_header_where_the_index_says():
    whole = bytearray(framed(b"first", b"second", b"third"))
    whole[21] ^= 1  # the length of "second"
    found = list(scan_records(io.BytesIO(whole), offsets=[0, 21, 43]))
    assert [getattr(one, "data", None) for one in found] == [b"first", None, b"third"]
    assert found[2].offset == 43
    assert len(list(scan_records(io.BytesIO(whole)))) == 2


def test_a_stream_that_answers_in_pieces_is_read_whole():
    class Dripping(io.BytesIO):
        def read(self, size=-1):
            return super().read(min(size, 3))

    assert [record.data for record in read_records(Dripping(framed(b"abcdefgh")))] == [b"abcdefgh"]
