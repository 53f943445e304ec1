"""`--join`: columns of a table become features of a dataset that there is, without touching its images."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.beam_pipelines.dataset_checks import manifest_of
from tests.beam_pipelines.test_dataset_input import examples, facts
from tests.refusals import Refusal
from tests.source_forms import write_form


@pytest.fixture
def first(tmp_path, build) -> Path:
    """A dataset of 21 photos in two splits."""
    write_form("folder", tmp_path / "photos")
    words = [f"--input={tmp_path / 'photos'}", "--image_size=16", "--name=x", "--splits=train=0.7,test=0.3"]
    return build(tmp_path / "first", *words)


def write_table(path: Path, keys: list[str], name: str = "key") -> Path:
    """A row for each key: a vector, a number and a text."""
    vectors = pa.array([[number / 7, -1.0, 0.5] for number in range(len(keys))], pa.list_(pa.float32()))
    others = {"score": list(range(len(keys))), "note": [f"ü {key}" for key in keys]}
    pq.write_table(pa.table({name: keys, "vector": vectors, **others}), path)
    return path


@pytest.mark.parametrize("held", [True, False])
def test_columns_of_a_table_become_features_and_images_stay(tmp_path, build, verify, first, monkeypatch, held):
    from beam_tfrecords.transforms.sources.records import joined_table

    monkeypatch.setattr(joined_table, "_HELD_BYTES", 1 << 30 if held else 0)
    keys = sorted(facts(first), reverse=True)
    table = write_table(tmp_path / "table.parquet", [*keys, "no such key"])
    out = build(tmp_path / "out", f"--input={first}", f"--join={table}", "--name=x")
    was, now = examples(first), examples(out)
    for split, records in was.items():
        assert [*now[split]] == [*records]
        for key, record in records.items():
            number = keys.index(key)
            kind, vector = now[split][key].pop("vector")
            assert (kind, vector) == ("float", pytest.approx([number / 7, -1.0, 0.5]))
            assert now[split][key].pop("score") == ("int64", [number])
            assert now[split][key].pop("note") == ("bytes", [f"ü {key}".encode()])
            assert now[split][key] == record
    assert facts(out) == facts(first)
    assert verify(out).code == 0
    noted = [note for note in manifest_of(out)["notes"] if "join no record" in note]
    assert noted == [f"table.parquet: 1 of {len(keys) + 1} rows join no record; the first has the key 'no such key'"]


def test_a_record_without_a_row_is_rejected_and_one_with_two_as_well(tmp_path, build, first):
    keys = sorted(facts(first))
    table = write_table(tmp_path / "table.parquet", [*keys[1:], keys[4]], "name")
    words = [f"--input={first}", f"--join={table}", "--join_key=name", "--max_failures=0.2", "--name=x"]
    out = build(tmp_path / "out", *words)
    failed = {one["key"]: one["detail"] for one in map(json.loads, (out / "failures.jsonl").read_text().splitlines())}
    assert failed.keys() == {keys[0], keys[4]}
    assert "has no row with name" in failed[keys[0]]
    assert "different rows" in failed[keys[4]]
    assert manifest_of(out)["records"] == len(keys) - 2


def test_a_spec_file_chooses_columns_and_gives_types_to_those_of_a_csv_file(tmp_path, build, first):
    keys = sorted(facts(first))
    with (tmp_path / "table.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("key", "score", "other"), *((key, n / 2, "x") for n, key in enumerate(keys))])
    layout = {"image": "image.encoded", "points": {"field": "column.score", "type": "float"}}
    (tmp_path / "spec.yaml").write_text(json.dumps({"layout": layout}))
    words = [f"--input={first}", f"--join={tmp_path / 'table.csv'}", f"--spec={tmp_path / 'spec.yaml'}", "--name=x"]
    out = build(tmp_path / "out", *words, "--where=column.score > 3")
    found = {key: record["points"][1][0] for records in examples(out).values() for key, record in records.items()}
    assert found == {key: number / 2 for number, key in enumerate(keys) if number / 2 > 3}


@pytest.mark.parametrize(
    ("flags", "refusal"),
    [
        (["--join=table.parquet", "--join_key=kee"], Refusal("unknown_column", "join_key", says=["join_key=kee"])),
        (["--join=table.csv"], Refusal("missing_column_type", "layout", says=["'score'"])),
        (["--join=nothing.parquet"], Refusal("unknown_format", "join")),
        (["--join=twice.parquet"], Refusal("duplicate_feature", "join", says=["'label'"])),
        (["--join=table.parquet"], Refusal("unmatched_join", "join", "join_key", says=["1 rows", "'a'"])),
    ],
)
def test_a_table_that_cannot_join_is_refused(tmp_path, convert, first, monkeypatch, flags, refusal):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "table.parquet", ["a"])
    (tmp_path / "table.csv").write_text(f"key,score\n{min(facts(first))},1\n")
    pq.write_table(pa.table({"key": ["a"], "label": ["b"]}), tmp_path / "twice.parquet")
    ran = convert(f"--input={first}", f"--output={tmp_path / 'out'}", *flags)
    ran.refused(refusal)


def test_other_inputs_have_no_keys_to_join(tmp_path, convert, first):
    table = write_table(tmp_path / "table.parquet", ["a"])
    for words in ([f"--input={tmp_path / 'photos'}"], [f"--input={first}/*-of-00001", "--source=tfrecord"]):
        ran = convert(*words, f"--output={tmp_path / 'out'}", f"--join={table}")
        ran.refused("setting_not_applicable", "join", "input")


def test_a_changed_table_makes_another_version(tmp_path, build, first):
    keys = sorted(facts(first))
    words = [f"--input={first}", f"--join={tmp_path / 'table.parquet'}", "--versioned", "--name=x"]
    write_table(tmp_path / "table.parquet", keys)
    build(tmp_path / "out", *words)
    write_table(tmp_path / "table.parquet", keys[::-1])
    build(tmp_path / "out", *words)
    assert len([*(tmp_path / "out").glob("2*")]) == 2
    build(tmp_path / "out", *words)
    assert len([*(tmp_path / "out").glob("2*")]) == 2
