"""The index: one row per record, in Parquet files beside the shards."""

from __future__ import annotations

import pyarrow as pa

INDEX_SCHEMA = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("uri", pa.string()),
        pa.field("fingerprint", pa.string(), nullable=False),
        pa.field("content_hash", pa.string(), nullable=False),
        pa.field("sample_hash", pa.string(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),
        pa.field("label", pa.string()),
        pa.field("height", pa.int32()),
        pa.field("width", pa.int32()),
        pa.field("replaced_format", pa.string()),
    ]
)
