"""Records as a table of pandas."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from beam_tfrecords import build
from tests.refusals import refuses

pytestmark = pytest.mark.nightly


def test_records_become_a_table(tmp_path: Path, photos: Path) -> None:
    layout = {"image": "image.encoded", "label": "label.index", "score": {"field": "column.score", "type": "float"}}
    rows = [f"{path},{path.parent.name},{number}.5" for number, path in enumerate(sorted(photos.glob("*/*.jpg")))]
    (tmp_path / "table.csv").write_text("\n".join(["image,label,score", *rows]))
    dataset = build(
        input=str(tmp_path / "table.csv"),
        image_root="/",
        output=str(tmp_path / "out"),
        image_size=16,
        splits="train=0.8,test=0.2",
        layout=layout,
        num_shards=2,
        quiet=True,
    )
    table = dataset.records().to_pandas()
    assert isinstance(table, pd.DataFrame)
    assert table.groupby("split").size().to_dict() == dataset.splits
    counts = table.groupby(["split", "label"]).size()
    assert {split: counts[split].to_dict() for split in dataset.splits} == dataset.class_counts
    cats = dataset["train"].filter(label="cat")[1:]
    some = cats.to_pandas(["key", "label", "score", "labels", "split"])
    assert list(some.columns) == ["key", "label", "score", "labels", "split"]
    assert set(some["label"]) == {"cat"}
    assert some["score"].tolist() == [example["score"] for example in cats] == cats["score"].tolist()
    none = dataset["train"].filter(label="none").to_pandas()
    assert not len(none)
    assert list(none.columns) == list(table.columns)
    with refuses("invalid_condition", says=["no column 'colour'"]):
        dataset.records().to_pandas(["colour"])
