"""Numbers of a table that do not fit their type reject their row; nothing else is stored in their place."""

from __future__ import annotations

import json
import math

import pytest

from beam_tfrecords.reading.opening import open_dataset

LAYOUT = {"value": {"field": "column.value", "type": "float"}}


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_overflow_rejects_a_row_and_infinity_in_words_does_not(tmp_path, build, form):
    texts = ["1.5", "1e400", "-1e400", "1e39", "9" * 320, "Infinity", "-Infinity"]
    lines = ["value", *texts] if form == "csv" else [f'{{"value": {text}}}' for text in texts]
    (tmp_path / f"rows.{form}").write_text("\n".join(lines))
    (tmp_path / "spec.json").write_text(json.dumps({"layout": LAYOUT}))
    flags = [f"--input={tmp_path / f'rows.{form}'}", f"--spec={tmp_path / 'spec.json'}", "--max_failures=0.9"]
    dataset = open_dataset(build(tmp_path / "out", *flags))
    assert sorted(float(one["value"]) for one in dataset.records("train")) == [-math.inf, 1.5, math.inf]
    assert dataset.manifest["failures"] == 4
    assert set(dataset.manifest["failure_reasons"]) <= {"wrong_type", "invalid_row"}
