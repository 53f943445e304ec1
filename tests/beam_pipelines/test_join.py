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
    from beam_tfrecords.transforms.sources.tables import joined_table

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
    noted = [note for note in manifest_of(out)["notes"] if "join no sample" in note]
    assert noted == [f"table.parquet: 1 of {len(keys) + 1} rows join no sample; the first has the key 'no such key'"]


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
        (["--join=nothing.parquet"], Refusal("not_found", "join")),
        (["--join=twice.parquet"], Refusal("duplicate_feature", "join", says=["'label'"])),
        (["--join=table.parquet"], Refusal("unmatched_join", "join", "join_key", says=["none of its rows", "'a'"])),
    ],
)
def test_a_table_that_cannot_join_is_refused(tmp_path, convert, first, monkeypatch, flags, refusal):
    monkeypatch.chdir(tmp_path)
    write_table(tmp_path / "table.parquet", ["a"])
    (tmp_path / "table.csv").write_text(f"key,score\n{min(facts(first))},1\n")
    pq.write_table(pa.table({"key": [min(facts(first))], "label": ["b"]}), tmp_path / "twice.parquet")
    ran = convert(f"--input={first}", f"--output={tmp_path / 'out'}", *flags)
    ran.refused(refusal)


@pytest.fixture
def photos(tmp_path):
    """A folder of 21 photos, and the rows of a table with their names, patients and folds."""
    write_form("folder", tmp_path / "photos")
    paths = sorted(path.relative_to(tmp_path / "photos") for path in (tmp_path / "photos").glob("*/*"))
    return [(path, f"p{number // 3}", "ab"[number % 2], number + 0.5) for number, path in enumerate(paths)]


def write_rows(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header.split(","), *rows])


def test_a_folder_joins_a_table_with_splits_and_values(tmp_path, build, photos):
    write_rows(tmp_path / "table.csv", "file,patient,fold,score", [(path.name, *rest) for path, *rest in photos])
    words = [f"--input={tmp_path / 'photos'}", f"--join={tmp_path / 'table.csv'}", "--image_size=16"]
    words += ["--split_column=fold", "--splits=train=a,test=b", "--layout=tfds,patient:class,score:float", "--name=x"]
    out = build(tmp_path / "out", *words)
    found = {
        key: (split, record["patient"][1], record["score"][1])
        for split, records in examples(out).items()
        for key, record in records.items()
    }
    assert found == {
        str(path): ({"a": "train", "b": "test"}[fold], [int(patient[1:])], [score])
        for path, patient, fold, score in photos
    }
    manifest = manifest_of(out)
    assert manifest["class_names"] == sorted({path.parent.name for path, *_ in photos})
    assert "table.csv: column 'file' joins 'key' by the file name without extension" in manifest["notes"]
    assert not any("not used" in note for note in manifest["notes"])


def test_a_folder_joins_a_label_and_groups_of_another_table(tmp_path, build, photos):
    write_rows(tmp_path / "labels.csv", "id,fold", [(path.stem, fold) for path, _, fold, _ in photos])
    write_rows(tmp_path / "patients.csv", "id,patient", [(path.stem, patient) for path, patient, *_ in photos[1:]])
    words = [f"--input={tmp_path / 'photos'}", f"--join={tmp_path / 'labels.csv'}", "--image_size=16", "--name=x"]
    words += [f"--join={tmp_path / 'patients.csv'}", "--label_column=fold", "--group_column=patient", "--stratify"]
    out = build(tmp_path / "out", *words, "--splits=train=0.5,test=0.5", "--max_failures=1")
    found = {key: split for split, records in examples(out).items() for key in records}
    by_patient = {(patient, found[str(path)]) for path, patient, *_ in photos[1:]}
    assert len(by_patient) == len({patient for patient, _ in by_patient})
    assert manifest_of(out)["class_names"] == ["a", "b"]
    (failure,) = map(json.loads, (out / "failures.jsonl").read_text().splitlines())
    assert (failure["key"], failure["reason"]) == (str(photos[0][0]), "value_missing")


def test_a_folder_with_lists_of_splits_has_these_splits(tmp_path, build, photos):
    for name, rows in (("a", photos[:15]), ("b", photos[15:])):
        (tmp_path / f"{name}.txt").write_text("".join(f"{path}\n" for path, *_ in rows))
    joins = [f"--join=train={tmp_path / 'a.txt'}", f"--join=test={tmp_path / 'b.txt'}"]
    out = build(tmp_path / "out", f"--input={tmp_path / 'photos'}", *joins, "--image_size=16", "--name=x")
    assert {split: {*records} for split, records in examples(out).items()} == {
        "train": {str(path) for path, *_ in photos[:15]},
        "test": {str(path) for path, *_ in photos[15:]},
    }


def test_records_that_are_no_dataset_join_by_number(tmp_path, build, first):
    count = manifest_of(first)["splits"]["train"]["records"]
    (shard,) = first.glob("*train*-of-00001")
    write_rows(tmp_path / "table.csv", "number,weight", [(f"{n:012d}", n) for n in range(count)])
    words = [f"--input={shard}", "--source=tfrecord", f"--join={tmp_path / 'table.csv'}", "--layout=tfds,weight:float"]
    out = build(tmp_path / "out", *words, "--name=x")
    assert sorted(record["weight"][1][0] for record in examples(out)["train"].values()) == [*range(count)]


def test_a_setting_about_columns_that_no_joined_table_has_is_refused(tmp_path, convert, photos):
    write_rows(tmp_path / "table.csv", "file,patient", [(path.name, patient) for path, patient, *_ in photos])
    joined = [f"--join={tmp_path / 'table.csv'}", "--split_column=fold"]
    ran = convert(f"--input={tmp_path / 'photos'}", f"--output={tmp_path / 'out'}", *joined)
    ran.refused("unknown_column", "split_column", says=["split_column=fold", "file, patient"])


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
