"""A folder of Parquet files, from the refusal and its command to a dataset of lists of images."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from beam_tfrecords import open_dataset
from beam_tfrecords.beam_pipelines.settings.suggested_commands import explain
from tests.beam_pipelines.listed_records import commands_of, read
from tests.refusals import refuses


def picture(shade: int) -> dict[str, object]:
    data = io.BytesIO()
    Image.fromarray(np.full((8, 8, 3), shade, np.uint8)).save(data, "png")
    return {"bytes": data.getvalue(), "path": None}


def test_a_folder_of_parquet_files_is_refused_with_a_command_that_reads_all(tmp_path):
    for name in ("train-00000-of-00001", "test-00000-of-00001"):
        table = pa.table({"image": [picture(0), picture(9)], "label": ["cat", "dog"]})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    argv = [f"--input={tmp_path}", "--output=out"]
    with refuses("no_samples", "input") as refused:
        read(argv, tmp_path / "listing")
    (command,) = commands_of(explain(refused.value, "convert", argv))
    assert command == [*argv, "--source=hf_parquet"]
    assert read(command, tmp_path / "listing1")[0] == {"train": {"cat": 1, "dog": 1}, "test": {"cat": 1, "dog": 1}}


def test_a_list_of_images_becomes_a_feature_of_any_number(tmp_path, build):
    views = [[picture(1), picture(2)], [], [picture(3)]]
    pq.write_table(pa.table({"views": views, "label": ["a", "b", "a"]}), tmp_path / "a.parquet")
    out = build(tmp_path / "out", f"--input={tmp_path / 'a.parquet'}", "--layout=image", "--image_encoding=png")
    found = [[int(view[0, 0, 0]) for view in record["views"]] for record in open_dataset(out).records("train")]
    assert sorted(found) == [[], [1, 2], [3]]
