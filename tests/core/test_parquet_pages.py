"""The sizes of pages: what Arrow would allocate is known before, and a page out of proportion is not read."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from beam_tfrecords.transforms.sources.tables import parquet_pages
from beam_tfrecords.transforms.sources.tables.parquet_pages import check_pages
from tests.each import each

NOISE = random.Random(7)
CODECS = ["none", "snappy", "gzip", "zstd", "lz4", "brotli"]


@each("codec", CODECS)
@each("version", ["1.0", "2.0"])
def test_the_headers_of_all_pages_are_read(tmp_path, codec, version):
    table = pa.table(
        {
            "bytes": [NOISE.randbytes(NOISE.randrange(3000)) for _ in range(500)],
            "words": ["one", "two", None, "three"] * 125,
            "lists": [[1, 2], [], None, [3]] * 125,
            "nested": [{"a": 1.5, "b": ["x"]}] * 500,
        }
    )
    path = tmp_path / "a.parquet"
    pq.write_table(table, path, compression=codec, data_page_version=version, data_page_size=10_000, row_group_size=300)
    metadata = pq.read_metadata(path)
    with path.open("rb") as file:
        for number, group in enumerate(map(metadata.row_group, range(metadata.num_row_groups))):
            check_pages(file, metadata, number, table.column_names)
            for chunk in map(group.column, range(group.num_columns)):
                start = chunk.dictionary_page_offset or chunk.data_page_offset
                sizes = [*parquet_pages._page_sizes(file, start, start + chunk.total_compressed_size)]
                assert 0 < sum(size for _, size in sizes) <= chunk.total_uncompressed_size
                assert sum(compressed for compressed, _ in sizes) <= chunk.total_compressed_size


@each("seed", range(20))
def test_damaged_headers_are_an_error(tmp_path, seed):
    noise = random.Random(seed)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": ["word"] * 1000}), path, compression="zstd")
    data = bytearray(path.read_bytes())
    for _ in range(8):
        data[noise.randrange(4, 40)] = noise.randrange(256)
    metadata = pq.read_metadata(path)
    path.write_bytes(data)
    # Any other exception would end the build.
    with path.open("rb") as file, contextlib.suppress(pa.ArrowInvalid):
        check_pages(file, metadata, 0, ["a"])


def test_no_byte_of_a_footer_ends_the_process(tmp_path):
    """Arrow ends it where a C++ exception, such as of a histogram of another size, meets Python."""
    program = """
        import io, struct, sys
        import pyarrow as pa
        import pyarrow.parquet as pq
        from beam_tfrecords.transforms.sources.tables.parquet_pages import check_pages
        data = open(sys.argv[1], "rb").read()
        size = struct.unpack("<i", data[-8:-4])[0]
        refused = 0
        for place in range(len(data) - 8 - size, len(data) - 8):
            changed = bytearray(data)
            changed[place] ^= 1 << place % 8
            try:
                check_pages(io.BytesIO(changed), pq.read_metadata(io.BytesIO(changed)), 0, ["a", "b"])
            except (pa.ArrowException, OSError, IndexError):
                refused += 1
        print(refused)
    """
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [[1, 2], [3]], "b": [{"x": "y"}, None]}), path, store_schema=False)
    command = [sys.executable, "-c", textwrap.dedent(program), str(path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 50


@each("size", [0, 1, 14, 15, 16, 127, 128, 300])
def test_lists_of_any_length_in_a_header_are_passed_over(size):
    # Thrift's compact protocol: a list of 32-bit integers, then 7 in field 2, then the end.
    varint = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
    head = bytes([size << 4 | 5]) if size < 15 else b"\xf5" + varint
    data = b"\x19" + head + b"\x02" * size + b"\x15\x0e\x00"
    found = parquet_pages._ThriftStruct(data + b"page")
    assert (found.sizes[2], found.end) == (7, len(data))
