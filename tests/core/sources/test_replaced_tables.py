"""A table that is replaced while its rows are listed ends the build."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords.beam_pipelines.build.listing import list_input
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from tests.beam_pipelines.test_changed_inputs import rename_over, write_in_place
from tests.trees import write_tree


def table_of(names: list[str], kind: str) -> bytes:
    """Returns a table of images whose folders are their labels."""
    rows = [{"image": name, "label": name.split("/")[0]} for name in names]
    if kind == "parquet":
        content = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows), content)
        return content.getvalue()
    if kind == "jsonl":
        return "\n".join(map(json.dumps, rows)).encode()
    text = "\n".join(["image,label", *(",".join(row.values()) for row in rows)]).encode()
    return gzip.compress(text) if kind.endswith("gz") else text


@pytest.mark.parametrize("replace", [rename_over, write_in_place])
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "jsonl", "parquet"])
def test_a_table_that_is_replaced_while_it_is_read_ends_the_build(tmp_path, convert, monkeypatch, replace, kind):
    write_tree(tmp_path, "cat/{0..9}.png dog/{10..19}.png")
    names = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/*.png"))
    path = tmp_path / f"rows.{kind}"
    path.write_bytes(table_of(names, kind))
    write_listing = list_input.write_listing

    def write_and_replace(samples: Iterator[SampleRef], *arguments, **named):
        def replaced() -> Iterator[SampleRef]:
            for number, sample in enumerate(samples):
                if number == 3:
                    replace(path, table_of(names[::-1], kind))
                yield sample

        return write_listing(replaced(), *arguments, **named)

    flags = [f"--input={path}", f"--output={tmp_path / 'out'}", "--image_size=16"]
    with monkeypatch.context() as patch:
        patch.setattr(list_input, "write_listing", write_and_replace)
        ran = convert(*flags)
    assert ran.code == 1
    assert f"{path} has changed while it was read; run the same command again when it is complete" in ran.err
    assert not (tmp_path / "out/_SUCCESS").exists()
    assert convert(*flags).code == 0
