"""Labels as zeros and ones, one for each class: the same in every source that has columns."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords.features import example_pb2
from beam_tfrecords.transforms.sources.tables.table_settings import UnknownLabels
from tests.framing import framed
from tests.refusals import refuses

JPEG = next(Path(__file__).parents[3].glob("data/photos/*/*.jpg")).read_bytes()
Labels = list[list[int]]


def save_csv(path: Path, labels: Labels) -> None:
    path.write_text("\n".join(["image,label", *(f'1.jpg,"{row}"' for row in labels)]))


def save_jsonl(path: Path, labels: Labels) -> None:
    path.write_text("\n".join(json.dumps({"image": "1.jpg", "label": row}) for row in labels))


def save_parquet(path: Path, labels: Labels) -> None:
    pq.write_table(pa.table({"image": ["1.jpg"] * len(labels), "label": labels}), path)


def save_hf_parquet(path: Path, labels: Labels) -> None:
    pq.write_table(pa.table({"image": [{"bytes": JPEG, "path": None}] * len(labels), "label": labels}), path)


def save_numpy(path: Path, labels: Labels) -> None:
    np.savez(path, x=np.zeros((len(labels), 8, 8), np.uint8), y=np.array(labels))


def save_tfrecord(path: Path, labels: Labels) -> None:
    records = []
    for row in labels:
        example = example_pb2.Example()
        example.features.feature["image"].bytes_list.value.append(JPEG)
        example.features.feature["label"].int64_list.value.extend(row)
        records.append(example.SerializeToString())
    path.write_bytes(framed(*records))


def save_webdataset(path: Path, labels: Labels) -> None:
    with tarfile.open(path, "w") as tar:
        for number, row in enumerate(labels):
            for suffix, data in (("jpg", JPEG), ("json", json.dumps({"label": row}).encode())):
                member = tarfile.TarInfo(f"{number:04d}.{suffix}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))


FORMS: dict[str, Callable[[Path, Labels], None]] = {
    "a.csv": save_csv,
    "a.jsonl": save_jsonl,
    "a.parquet": save_parquet,
    "hf.parquet": save_hf_parquet,
    "a.npz": save_numpy,
    "a.tfrecord": save_tfrecord,
    "a.tar": save_webdataset,
}


@pytest.fixture(params=FORMS)
def read(request, opened, read_containers, touch) -> Callable[..., tuple[Any, list[Any], list[Any]]]:
    """The source, and the labels and failures of its samples."""

    def run(labels: Labels, **spec: Any) -> tuple[Any, list[Any], list[Any]]:
        path = touch("1.jpg") / request.param
        FORMS[request.param](path, labels)
        source = opened(path, **spec)
        samples = list(source.samples()) if source.containers() is None else read_containers(source)[0]
        return source, [sample.label for sample in samples], [sample.failure for sample in samples]

    return run


def test_zeros_and_ones_are_several_labels(read):
    source, labels, _ = read([[0, 1, 1], [0, 0, 0], [1, 0, 0]])
    assert (labels, source.description.has_several_labels) == ([[1, 2], [], [0]], True)
    assert any("zeros and ones, one for each class" in note for note in source.notes)


def test_with_a_single_one_in_each_row_they_are_one_label(read):
    source, labels, _ = read([[0, 1, 0], [1, 0, 0]])
    assert (labels, source.description.has_several_labels) == ([[1], [0]], False)


def test_beside_zeros_and_ones_a_minus_one_is_refused_with_what_it_may_be(read):
    with refuses("unknown_labels", "input", "unknown_labels", says=["1 labels", "1,000 rows", "-1"]) as refused:
        read([[0, 1, 0], [1, -1, 0]])
    assert [one.settings for one in refused.value.suggestions] == [
        {"unknown_labels": "no"},
        {"unknown_labels": "yes"},
        {"unknown_labels": "reject"},
    ]


@pytest.mark.parametrize(("meaning", "second"), [("no", [0]), ("yes", [0, 1]), ("reject", None)])
def test_the_request_says_what_a_minus_one_is(read, meaning, second):
    source, labels, failures = read([[0, 1, 0], [1, -1, 0]], unknown_labels=UnknownLabels(meaning))
    assert labels == [[1], second]
    missing = f"column {source.description.label_column!r} has -1, which is neither yes nor no beside 0 and 1"
    assert failures[1] == (None if second else ("label_missing", missing))
    assert any("-1 in the labels is" in note and "(1 in the first 1,000 rows)" in note for note in source.notes)


def test_beside_ones_alone_a_minus_one_is_no(read):
    assert read([[-1, 1, 1], [1, -1, -1]])[1] == [[1, 2], [0]]


def test_numbers_of_classes_are_no_zeros_and_ones(read):
    source, labels, _ = read([[0, 2, 3], [0, 1, 2]])
    assert labels == [[0, 2, 3], [0, 1, 2]] or isinstance(labels[0], str)
    assert not any("zeros and ones" in note for note in source.notes)


def test_columns_of_minus_ones_and_ones_are_yes_and_no(opened, touch, tmp_path):
    touch("1.jpg")
    (tmp_path / "celeba.csv").write_text("image,a,b\n1.jpg,1,-1\n1.jpg,-1,-1\n")
    labels = [one.label for one in opened(tmp_path / "celeba.csv", label_columns=("a", "b")).samples()]
    assert labels == [["a"], []]


# Uncertain ones are -1, and what a report does not mention is empty.
CHEXPERT = """Path,Sex,No Finding,Edema,Fracture
1.jpg,Male,1.0,,
1.jpg,Female,,-1.0,1.0
1.jpg,Male,,0.0,-1.0
1.jpg,Female,,1.0,
"""


@pytest.mark.parametrize(
    ("meaning", "labels"),
    [
        ("no", [["No Finding"], ["Fracture"], [], ["Edema"]]),
        ("yes", [["No Finding"], ["Edema", "Fracture"], ["Fracture"], ["Edema"]]),
        ("reject", [["No Finding"], None, None, ["Edema"]]),
    ],
)
def test_columns_of_chexpert_are_refused_and_read_as_the_request_says(opened, touch, tmp_path, meaning, labels):
    touch("1.jpg")
    (tmp_path / "train.csv").write_text(CHEXPERT)
    with refuses("missing_label_column", "input", "label_column", says=["'label'"]) as refused:
        opened(tmp_path / "train.csv")
    settings = {"image_column": "Path"} | {"label_columns": "No Finding,Edema,Fracture"}
    suggested = [one.settings for one in refused.value.suggestions if one.settings.get("unknown_labels") == meaning]
    assert [{**one, "image_column": "Path"} for one in suggested] == [{**settings, "unknown_labels": meaning}]
    columns = tuple(settings["label_columns"].split(","))
    source = opened(tmp_path / "train.csv", label_columns=columns, unknown_labels=UnknownLabels(meaning))
    assert [one.label for one in source.samples()] == labels
    assert any("(2 in the first 1,000 rows), and an empty cell is no (6)" in note for note in source.notes)


def test_an_empty_cell_without_an_unknown_one_stays_a_failure_unless_the_request_says(opened, touch, tmp_path):
    touch("1.jpg")
    (tmp_path / "a.csv").write_text("image,a,b\n1.jpg,1,0\n1.jpg,,1\n")
    failures = [
        one.failure and one.failure[0] for one in opened(tmp_path / "a.csv", label_columns=("a", "b")).samples()
    ]
    assert failures == [None, "invalid_row"]
    said = opened(tmp_path / "a.csv", label_columns=("a", "b"), unknown_labels=UnknownLabels.NO)
    assert [one.label for one in said.samples()] == [["a"], ["b"]]
