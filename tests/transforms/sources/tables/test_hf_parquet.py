"""Parquet files with the bytes of images, as Hugging Face's datasets writes them: every form, and what is damaged."""

from __future__ import annotations

import json
import os
import random
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords import storage
from beam_tfrecords.transforms.objects.objects import BoxFormat
from beam_tfrecords.transforms.refs.sample_refs import File, SampleRef
from beam_tfrecords.transforms.sources.skipped import Skipped
from tests.refusals import refuses
from tests.source_requests import FRACTIONS

IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
FEATURES = {"image": {"_type": "Image"}, "label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}
NOISE = random.Random(3)
# Of many sizes, so that pages end within and between them.
PICTURES = [NOISE.randbytes(size) for size in (1, 10, 3000, 70_000, 500, 2_000_000, 20, 7)]


def metadata_of(features: Mapping[str, Any]) -> dict[bytes, bytes]:
    """What `datasets` writes beside a schema."""
    return {b"huggingface": json.dumps({"info": {"features": features}}).encode()}


@pytest.fixture
def write(tmp_path) -> Callable[..., Path]:
    """Writes a file of rows with an image and a label."""

    def make(
        images: Sequence[Any],
        to: str = "a.parquet",
        kind: pa.DataType = IMAGE,
        features: Mapping[str, Any] = FEATURES,
        columns: Mapping[str, Sequence[Any]] | None = None,
        **options: Any,
    ) -> Path:
        columns = {"label": [number % 2 for number in range(len(images))], **(columns or {})}
        table = pa.table({"image": pa.array(images, kind), **columns})
        pq.write_table(table.replace_schema_metadata(metadata_of(features)), tmp_path / to, **options)
        return tmp_path / to

    return make


@pytest.fixture
def read(opened, read_containers) -> Callable[..., list[SampleRef]]:
    def run(*inputs: Path, **fields: Any) -> list[SampleRef]:
        samples, skipped = read_containers(opened(*inputs, **fields))
        assert skipped == Skipped()
        return samples

    return run


def content(sample: SampleRef) -> bytes:
    if isinstance(sample.locator, File):
        return storage.read_bytes(sample.locator.uri)
    return storage.read_range(sample.locator.uri, sample.locator.offset, sample.locator.length)


def rows_of(pictures: Sequence[bytes]) -> list[dict[str, Any]]:
    return [{"bytes": data, "path": f"{number}.jpg"} for number, data in enumerate(pictures)]


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("group", [1, 3, 100])
@pytest.mark.parametrize("encoding", ["dictionary", "PLAIN", "DELTA_LENGTH_BYTE_ARRAY"])
def test_images_are_read_where_they_are_or_copied(write, read, tmp_path, compression, group, encoding):
    options = (
        {} if encoding == "dictionary" else {"use_dictionary": False, "column_encoding": {"image.bytes": encoding}}
    )
    path = write(rows_of(PICTURES), compression=compression, row_group_size=group, **options)
    samples = read(path)
    assert [content(sample) for sample in samples] == PICTURES
    assert [sample.size for sample in samples] == list(map(len, PICTURES))
    assert [sample.label for sample in samples] == ["cat", "dog"] * 4
    assert [sample.key for sample in samples] == [f"{number:012d}" for number in range(8)]
    assert samples[2].uri == f"{path}#000000000002/2.jpg"
    in_place = [sample.locator.uri == str(path) for sample in samples]
    assert in_place == [compression == "none"] * 8
    assert (tmp_path / "staging").exists() is (compression != "none")


@pytest.mark.parametrize(
    "kind",
    [
        pa.struct([("path", pa.string()), ("bytes", pa.binary())]),
        pa.struct([("bytes", pa.large_binary()), ("path", pa.large_string())]),
        pa.struct([("bytes", pa.binary())]),
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
    ],
    ids=str,
)
def test_bytes_of_every_form_are_images(write, opened, read, kind):
    is_struct = pa.types.is_struct(kind)
    names = [field.name for field in kind] if is_struct else []
    images = [{name: row[name] for name in names} if is_struct else row["bytes"] for row in rows_of(PICTURES)]
    path = write(images, kind=kind)
    assert opened(path).name == "hf_parquet"
    assert [content(sample) for sample in read(path)] == PICTURES


def test_an_image_that_occurs_twice_is_read_twice(write, read):
    pictures = [PICTURES[2], PICTURES[4], PICTURES[2], PICTURES[6]]
    assert [content(sample) for sample in read(write(rows_of(pictures), compression="none"))] == pictures


def test_either_bytes_or_path_may_be_missing(write, read, tmp_path):
    (tmp_path / "1.jpg").write_bytes(b"beside")
    rows = [
        {"bytes": b"inside", "path": None},
        {"bytes": None, "path": "1.jpg"},
        {"bytes": None, "path": "../1.jpg"},
        {"bytes": None, "path": None},
        None,
    ]
    samples = read(write(rows))
    assert [content(sample) for sample in samples[:2]] == [b"inside", b"beside"]
    assert [sample.failure and sample.failure[0] for sample in samples] == [
        None, None, "outside_root", "invalid_row", "invalid_row"
    ]  # fmt: skip
    assert samples[3].failure == ("invalid_row", "column 'image' has neither bytes nor a path")


# Columns


def test_class_names_come_from_the_schema(write, opened, read):
    path = write(rows_of(PICTURES[:4]), columns={"label": [1, 0, -1, 5]})
    source = opened(path)
    assert (
        source.description.class_names,
        source.description.labels_may_be_indices,
        source.description.label_column,
    ) == (("cat", "dog"), False, "label")
    assert [sample.label for sample in read(path)] == ["dog", "cat", None, 5]


def test_without_names_labels_may_be_indices(write, opened, read):
    path = write(rows_of(PICTURES[:2]), features={"image": {"_type": "Image"}})
    assert (opened(path).description.class_names, opened(path).description.labels_may_be_indices) == ((), True)
    assert [sample.label for sample in read(path)] == [0, 1]


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"info": 1}', b'{"info": {"features": {"label": 3}}}'])
def test_a_damaged_description_names_no_classes(write, opened, tmp_path, text):
    path = write(rows_of(PICTURES[:2]))
    table = pq.read_table(path).replace_schema_metadata({b"huggingface": text})
    pq.write_table(table, path)
    assert opened(path).description.class_names == ()


def test_the_only_column_of_classes_is_the_label_and_of_two_one_is_named(write, opened, read):
    fine = {"_type": "ClassLabel", "names": ["a", "b"]}
    columns = {"fine": [1], "coarse": [0], "age": [3.5], "label": ["x"]}
    path = write(rows_of(PICTURES[:1]), columns=columns, features={"fine": fine})
    (sample,) = read(path, columns=frozenset({"age", "coarse"}))
    assert (sample.label, sample.columns) == ("b", {"age": 3.5, "coarse": 0})
    path = write(rows_of(PICTURES[:1]), columns={"fine": [1], "coarse": [0], "kind": [0]}, features={"coarse": fine})
    assert read(path, label_column="fine")[0].label == 1
    assert opened(path).description.column_types == {
        "label": "int64",
        "fine": "int64",
        "coarse": "int64",
        "kind": "int64",
    }


def test_keys_splits_and_groups_come_from_columns(write, read):
    columns = {"id": ["x", "y"], "split": ["val", "train"], "who": [1, 2]}
    samples = read(write(rows_of(PICTURES[:2])), key_column="label")
    assert [sample.key for sample in samples] == ["0", "1"]
    samples = read(write(rows_of(PICTURES[:2]), columns=columns), key_column="id", group_column="who")
    assert [(sample.key, sample.split) for sample in samples] == [("x", "val"), ("y", "train")]


def test_one_of_several_images_is_named(tmp_path, opened, read):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": pa.array([b"1"]), "b": pa.array([b"2"]), "label": [1]}), path)
    with refuses("several_image_columns", "input", "image_column", says=["a, b"]):
        opened(path, source="hf_parquet")
    assert content(read(path, source="hf_parquet", image_column="b")[0]) == b"2"
    with refuses("unknown_column", "image_column", says=["image_column=c"]):
        opened(path, source="hf_parquet", image_column="c")


# Splits


def test_splits_come_from_the_names_of_the_files(write, opened, read, tmp_path):
    names = ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet", "val-00000-of-00001-0a1b.parquet"]
    for name in names:
        write(rows_of(PICTURES[:1]), to=name)
    source = opened(tmp_path / "*.parquet")
    assert "splits from the names of the files: train, validation" in source.notes
    samples = read(tmp_path / "*.parquet")
    assert [sample.split for sample in samples] == ["train", "train", "validation"]
    assert [sample.key for sample in samples] == [f"{name}/{0:012d}" for name in names]
    assert [sample.split for sample in read(tmp_path / "*.parquet", splits=FRACTIONS)] == [None] * 3
    write(rows_of(PICTURES[:1]), to="other.parquet")
    assert [sample.split for sample in read(tmp_path / "*.parquet")] == [None] * 4


# What is recognised, and what is refused


def test_a_table_of_paths_is_not_taken_for_images(tmp_path, opened):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"image": ["1.jpg"], "embedding": pa.array([b"1"]), "label": ["cat"]}), path)
    assert opened(path).name == "parquet"


def test_a_file_without_images_is_refused(tmp_path, opened):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"label": ["cat"]}), path)
    with refuses("missing_image_column", "input"):
        opened(path, source="hf_parquet")


def test_a_file_without_labels_is_refused_with_its_columns(write, opened):
    path = write(rows_of(PICTURES[:1]), features={}, columns={"kinds": [0], "label": [0]})
    table = pq.read_table(path).drop_columns("label")
    pq.write_table(table, path)
    with refuses("missing_label_column", "input", "label_column", says=["'label'", "it has: kinds"]):
        opened(path)


def test_a_column_that_a_later_file_lacks_rejects_its_rows(write, read, tmp_path):
    write(rows_of(PICTURES[:1]), to="a.parquet")
    pq.write_table(pa.table({"image": [b"1"]}), tmp_path / "b.parquet")
    samples = read(tmp_path / "*.parquet")
    detail = "from row 0 on: the file has no column 'label', which the first one has"
    expected = [("b.parquet/000000000000", ("invalid_row", detail))]
    assert [(sample.key, sample.failure) for sample in samples[1:]] == expected


@pytest.mark.parametrize("compression", ["none", "snappy"])
def test_every_row_of_a_damaged_group_is_rejected_and_the_others_are_read(write, read, compression):
    path = write(rows_of([PICTURES[3]] * 3), row_group_size=1, compression=compression, use_dictionary=False)
    whole = path.read_bytes()
    column = pq.ParquetFile(path).metadata.row_group(1).column(0)
    start = column.data_page_offset
    path.write_bytes(whole[:start] + bytes(100) + whole[start + 100 :])
    samples = read(path, needs_label=False)
    assert content(samples[0]) == PICTURES[3]
    assert [sample.failure and sample.failure[0] for sample in samples] == [None, "corrupt", None]
    assert samples[1].key == "000000000001"


def test_a_file_that_is_replaced_is_changed(write, opened, tmp_path):
    source = opened(write(rows_of(PICTURES)))
    (container,) = source.containers()
    os.rename(tmp_path / "a.parquet", tmp_path / "b.parquet")
    write(rows_of(PICTURES[:3]))
    with pytest.raises(storage.ChangedError):
        list(source.read_container(container, None, Skipped()))


@pytest.mark.nightly
def test_many_images_take_the_memory_of_a_few(write, opened):
    source = opened(
        write(rows_of([NOISE.randbytes(1 << 20) for _ in range(100)]), compression="none", row_group_size=10)
    )
    (container,) = source.containers()
    tracemalloc.start()
    before = pa.total_allocated_bytes()
    peak = 0
    for _ in source.read_container(container, None, Skipped()):
        peak = max(peak, pa.total_allocated_bytes() - before)
    _, in_python = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak + in_python < 60 << 20


def in_sequence(feature: Mapping[str, Any], form: str) -> Any:
    return [feature] if form == "list" else {"feature": feature, "_type": form}


def test_each_file_numbers_its_classes_in_its_own_order(write, opened, read_containers):
    other = {**FEATURES, "label": {"names": ["dog", "ant", "cat"], "_type": "ClassLabel"}}
    first = write(rows_of(PICTURES[:2]), "a.parquet")
    second = write(rows_of(PICTURES[:3]), "b.parquet", features=other, columns={"label": [0, 1, 2]})
    third = write(rows_of(PICTURES[:2]), "c.parquet", features={})
    source = opened(first, second, third)
    assert source.description.class_names == ("cat", "dog", "ant")
    samples, _ = read_containers(source)
    assert [sample.label for sample in samples] == ["cat", "dog", "dog", "ant", "cat", "cat", "dog"]


@pytest.mark.parametrize("form", ["Sequence", "List", "LargeList", "list"])
def test_labels_of_a_sequence_keep_their_names(write, opened, read, form):
    features = {**FEATURES, "label": in_sequence(FEATURES["label"], form)}
    path = write(rows_of(PICTURES[:3]), features=features, columns={"label": [[0, 1], [], [1]]})
    assert (opened(path).description.class_names, opened(path).description.has_several_labels) == (("cat", "dog"), True)
    assert [sample.label for sample in read(path)] == [["cat", "dog"], [], ["dog"]]


@pytest.mark.parametrize("form", ["Sequence", "List", "list", "fields"])
def test_classes_of_objects_keep_the_names_of_their_field(write, opened, read, form):
    fields = {
        "occluded": {"names": ["no", "yes"], "_type": "ClassLabel"},
        "category": FEATURES["label"],
        "bbox": {"feature": {"dtype": "float32", "_type": "Value"}, "length": 4, "_type": "Sequence"},
    }
    described = {name: in_sequence(field, "List") for name, field in fields.items()} if form == "fields" else fields
    objects = [{"bbox": [[3, 4, 1, 2]], "category": [1], "occluded": [0]}]
    path = write(
        rows_of(PICTURES[:1]),
        features={"objects": described if form == "fields" else in_sequence(described, form)},
        columns={"label": ["x"], "objects": objects},
    )
    fields = {"columns": frozenset(), "needs_label": False}
    assert opened(path, **fields).description.class_names == ("cat", "dog")
    assert read(path, **fields)[0].objects.labels == ("dog",)


@pytest.mark.parametrize(
    "names",
    [
        ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet", "data/test-00000-of-00001.parquet"],
        ["train/0000.parquet", "train/0001.parquet", "test/0000.parquet"],
        ["plain_text/train/0.parquet", "plain_text/train/1.parquet", "plain_text/test/0.parquet"],
    ],
)
def test_a_folder_of_files_has_all_their_splits(write, read, tmp_path, names):
    for name in [*names, ".cache/x.parquet"]:
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        write(rows_of(PICTURES[:2]), f"in/{name}")
    samples = read(tmp_path / "in", source="hf_parquet")
    assert [(sample.key, sample.split) for sample in samples[::2]] == [
        (f"{name}/000000000000", "train" if "train" in name else "test") for name in sorted(names)
    ]
    assert {sample.split for sample in read(tmp_path / "in", source="hf_parquet", splits=FRACTIONS)} == {None}


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_list_of_images_is_several(write, opened, read, compression):
    first, second, third = rows_of(PICTURES[2:5])
    path = write([[first, second], [], [third]], kind=pa.list_(IMAGE), compression=compression, features={})
    source = opened(path)
    assert (source.name, dict(source.description.images)) == ("hf_parquet", {"image": True})
    samples = read(path)
    assert [list(sample.images) for sample in samples] == [["image[0]", "image[1]"], [], ["image[0]"]]
    found = [
        storage.read_range(one.uri, one.offset, one.length) for sample in samples for one in sample.images.values()
    ]
    assert found == PICTURES[2:5]


def test_an_image_of_a_list_without_bytes_rejects_its_row(write, read):
    path = write([[{"bytes": b"x", "path": None}, {"bytes": None, "path": None}]], kind=pa.list_(IMAGE), features={})
    assert read(path)[0].failure == ("invalid_row", "column 'image' has neither bytes nor a path")


def test_a_box_beside_a_label_is_read_where_the_layout_asks_for_objects(write, read, opened):
    boxes = [[1.0, 2.0, 20.0, 10.0]] * 3
    path = write(rows_of(PICTURES[:3]), columns={"bbox": boxes})
    assert [(sample.label, sample.objects) for sample in read(path)] == [("cat", None), ("dog", None), ("cat", None)]
    objects = {"needs_names_objects": True, "needs_label": False}
    with refuses("unclear_box_format", "input"):
        opened(path, **objects)
    samples = read(path, box_format=BoxFormat.SIZE, **objects)
    assert [(tuple(sample.objects.boxes), sample.objects.labels) for sample in samples] == [
        ((1, 2, 21, 12), (name,)) for name in ("cat", "dog", "cat")
    ]
