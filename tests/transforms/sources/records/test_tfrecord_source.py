"""TFRecord files as a source: images inside their records, names of classes, and records that are damaged."""

from __future__ import annotations

import gzip
import json
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

from beam_tfrecords import storage
from beam_tfrecords.features import example_pb2
from beam_tfrecords.tfrecord import masked_crc32c
from beam_tfrecords.transforms.refs.sample_refs import PixelRange, SampleRef
from beam_tfrecords.transforms.sources.meaning.ledger import describe_ledger, find_unused
from beam_tfrecords.transforms.sources.tally import Tally
from tests.framing import framed
from tests.refusals import refuses
from tests.source_requests import FRACTIONS, open_source

PHOTOS = sorted((Path(__file__).parents[3] / "data/photos").glob("*/*_01.jpg"))
IMAGES = [path.read_bytes() for path in PHOTOS]
_TFDS = "tensorflow_datasets.core.features"


def example_of(features: Mapping[str, Any]) -> bytes:
    example = example_pb2.Example()
    for name, value in features.items():
        values = value if isinstance(value, list) else [value]
        kind = (
            "bytes" if isinstance((values or [b""])[0], bytes) else "float" if isinstance(values[0], float) else "int64"
        )
        getattr(example.features.feature[name], f"{kind}_list").value.extend(values)
    return example.SerializeToString()


def records_of(examples: Sequence[bytes]) -> bytes:
    return framed(*examples)


def features_json(**kinds: str) -> str:
    """What TFDS writes; a kind such as `[ClassLabel]` is in a sequence."""

    def feature(kind: str) -> dict[str, Any]:
        if kind.startswith("["):
            return {"pythonClassName": f"{_TFDS}.Sequence", "sequence": {"feature": feature(kind[1:-1])}}
        return {"pythonClassName": f"{_TFDS}.{kind}"}

    features = {name: feature(kind) for name, kind in kinds.items()}
    return json.dumps({"pythonClassName": f"{_TFDS}.FeaturesDict", "featuresDict": {"features": features}})


@pytest.fixture
def write(tmp_path) -> Callable[..., Path]:
    """Writes a file of examples with an image and a label, and others."""

    def make(count: int = 3, to: str = "a.tfrecord", **features: Sequence[Any]) -> Path:
        columns = {"image": IMAGES[:count], "label": [number % 2 for number in range(count)], **features}
        examples = [example_of({name: values[number] for name, values in columns.items()}) for number in range(count)]
        path = tmp_path / to
        path.parent.mkdir(parents=True, exist_ok=True)
        data = records_of(examples)
        path.write_bytes(gzip.compress(data) if to.endswith(".gz") else data)
        return path

    return make


@pytest.fixture
def read(opened, read_containers) -> Callable[..., list[SampleRef]]:
    def run(*inputs: Path, **fields: Any) -> list[SampleRef]:
        samples, tally = read_containers(opened(*inputs, source="tfrecord", **fields))
        assert not tally.counts
        return samples

    return run


def content(sample: SampleRef) -> bytes:
    return storage.read_range(sample.locator.uri, sample.locator.offset, sample.locator.length)


@pytest.mark.parametrize("name", ["a.tfrecord", "a.tfrecord.gz", "a-train.tfrecord-00000-of-00001"])
def test_the_image_is_read_inside_its_record(write, read, tmp_path, name):
    path = write(to=name)
    samples = read(path)
    assert [content(sample) for sample in samples] == IMAGES[:3]
    assert [sample.size for sample in samples] == list(map(len, IMAGES[:3]))
    assert [(sample.key, sample.label) for sample in samples] == [(f"{number:012d}", number % 2) for number in range(3)]
    assert [sample.uri for sample in samples] == [f"{path}#{number}" for number in range(3)]
    assert (tmp_path / "staging").exists() is name.endswith(".gz")


def test_a_record_of_a_length_that_looks_like_gzip_is_not_compressed(tmp_path, read):
    features = {"image": IMAGES[0], "label": 1, "x": b""}
    while len(example := example_of(features)) < 0x88B1F:  # longer by what is missing; lengths have lengths too
        features["x"] += bytes(max(1, 0x88B1F - len(example) - 8))
    assert struct.pack("<Q", len(example))[:3] == b"\x1f\x8b\x08"
    (tmp_path / "a.tfrecord").write_bytes(records_of([example]))
    assert content(read(tmp_path / "a.tfrecord")[0]) == IMAGES[0]


def test_a_folder_and_a_glob_name_all_files(write, read, tmp_path):
    for number in range(2):
        write(to=f"old/x-train.tfrecord-0000{number}-of-00002")
    write(to="old/x-val.tfrecord-00000-of-00001")
    for name in ("features.json", "index/x-00000-of-00001", ".build/x.tfrecord"):
        (tmp_path / "old" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "old" / name).write_text("{}")
    by_folder = read(tmp_path / "old")
    assert [sample.key for sample in by_folder[:1]] == ["x-train.tfrecord-00000-of-00002/000000000000"]
    assert [sample.split for sample in by_folder] == ["train"] * 6 + ["validation"] * 3
    assert read(tmp_path / "old/x-*") == by_folder
    assert [sample.split for sample in read(tmp_path / "old", splits=FRACTIONS)] == [None] * 9


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train-00000-of-01024", "train"),
        ("validation-00001-of-00128", "validation"),
        ("flowers-dev.tfrecord-00000-of-00002", "validation"),
        ("part.tfrecord", None),
    ],
)
def test_the_split_is_in_the_name_of_the_file(write, read, name, split):
    assert {sample.split for sample in read(write(to=name))} == {split}


def test_keys_splits_and_values_are_features(write, read):
    path = write(2, name=[b"x", b"y"], split=[b"val", b"train"], age=[3.5, 4.5], tags=[[1, 2], []])
    samples = read(path, key_column="name", columns=frozenset({"age", "tags"}))
    assert [(sample.key, sample.split) for sample in samples] == [("x", "val"), ("y", "train")]
    assert [sample.columns for sample in samples] == [{"age": 3.5, "tags": [1, 2]}, {"age": 4.5, "tags": None}]


def test_the_types_of_the_features_are_known(write, opened):
    source = opened(write(name=[b"x"] * 3, age=[3.5] * 3), source="tfrecord")
    assert source.description.column_types == {"age": "float", "label": "int64", "name": "bytes"}


# Descriptions of datasets


def describe(folder: Path, names: str, **kinds: str) -> None:
    (folder / "features.json").write_text(features_json(**{"image": "Image", "label": "ClassLabel", **kinds}))
    (folder / "label.labels.txt").write_text(names)


def test_classes_have_the_names_of_the_dataset(write, opened, read):
    path = write(4, label=[1, 0, -1, 7])
    describe(path.parent, "cat\ndog\n")
    source = opened(path, source="tfrecord")
    assert (source.description.labels.names, source.description.labels.may_be_indices) == (("cat", "dog"), False)
    assert [sample.label for sample in read(path)] == ["dog", "cat", None, 7]


def test_datasets_of_other_classes_are_merged_by_their_names(write, opened, read, tmp_path):
    for folder, names in (("a", "cat\ndog\n"), ("b", "dog\nelk\n")):
        describe(write(2, to=f"{folder}/x.tfrecord").parent, names)
    assert opened(tmp_path / "a", tmp_path / "b", source="tfrecord").description.labels.names == ()
    samples = read(tmp_path / "a", tmp_path / "b")
    assert [(sample.key[:2], sample.label) for sample in samples] == [
        ("a/", "cat"), ("a/", "dog"), ("b/", "dog"), ("b/", "elk")
    ]  # fmt: skip


def test_a_record_may_have_several_labels_or_none(write, read):
    path = write(3, label=[[0, 1], [1], []])
    describe(path.parent, "cat\ndog\n", label="[ClassLabel]")
    assert [sample.label for sample in read(path)] == [["cat", "dog"], "dog", []]


@pytest.mark.parametrize("text", ["{", "[]", '{"featuresDict": 3}', "{}"])
def test_a_damaged_description_names_nothing(write, opened, text):
    path = write()
    (path.parent / "features.json").write_text(text)
    assert opened(path, source="tfrecord").description.labels.names == ()


# The image


def test_the_described_image_counts_and_one_of_several_is_named(write, opened, read):
    path = write(mask=IMAGES[3:6])
    assert content(read(path, image_column="mask")[0]) == IMAGES[3]
    describe(path.parent, "cat\ndog\n", mask="Tensor")
    assert content(read(path)[0]) == IMAGES[0]
    with refuses("unknown_column", "image_column", says=["image_column=nothing", "it has: image"]):
        opened(path, source="tfrecord", image_column="nothing")


def test_bytes_that_are_no_image_are_refused(tmp_path, opened):
    (tmp_path / "a.tfrecord").write_bytes(records_of([example_of({"image": bytes(100), "label": 1})]))
    with refuses("missing_pixel_size", "input", "pixels", says=["100 bytes", "it has: image, label"]):
        opened(tmp_path / "a.tfrecord")
    (tmp_path / "b.tfrecord").write_bytes(records_of([example_of({"text": b"no image at all", "label": 1})]))
    with refuses("missing_image_column", "input", says=["it has: label, text"]):
        opened(tmp_path / "b.tfrecord")


def test_a_record_without_its_image_is_rejected(tmp_path, read):
    examples = [
        {"image": IMAGES[0], "label": 1},
        {"label": 1},
        {"image": [], "label": 1},
        {"image": IMAGES[:2], "label": 1},
    ]
    (tmp_path / "a.tfrecord").write_bytes(records_of(list(map(example_of, examples))))
    assert [sample.failure and sample.failure[1] for sample in read(tmp_path / "a.tfrecord")] == [
        None, *(f"the feature 'image' has {count} images; expected 1" for count in (0, 0, 2))
    ]  # fmt: skip


# Damage


def damaged(path: Path, at: int, change: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[at : at + len(change)] = change
    path.write_bytes(data)


def test_a_record_with_a_flipped_bit_is_rejected_and_the_next_are_read(write, read):
    path = write()
    second = 16 + len(example_of({"image": IMAGES[0], "label": 0}))
    damaged(path, second + 500, b"flip")
    samples = read(path)
    assert [sample.failure for sample in samples] == [
        None, ("corrupt", f"record 1 at byte {second:,}: the data's CRC does not match"), None
    ]  # fmt: skip
    assert samples[1].uri == f"{path}#1"
    assert content(samples[2]) == IMAGES[2]


def test_workers_do_not_get_the_first_records(write):
    source = open_source(write()).source
    assert len(cloudpickle.dumps(source.for_workers())) < min(map(len, IMAGES[:3]))


@pytest.mark.parametrize("length", [None, 1 << 60])
def test_reading_ends_where_the_framing_does(write, read, length):
    path = write()
    second = 16 + len(example_of({"image": IMAGES[0], "label": 0}))
    header = struct.pack("<Q", length or 3)
    damaged(path, second, header + (struct.pack("<L", masked_crc32c(header)) if length else b"\0"))
    samples = read(path)
    assert len(samples) == 2
    reason, detail = samples[1].failure
    found = (
        f"{1 << 60:,} bytes announced, {path.stat().st_size:,} at most" if length else "the length's CRC does not match"
    )
    assert (reason, detail) == ("corrupt", f"record 1 at byte {second:,}: {found}")


def test_a_file_that_ends_within_a_record_rejects_it(write, read):
    path = write()
    path.write_bytes(path.read_bytes()[:-10])
    samples = read(path)
    assert [sample.failure and sample.failure[0] for sample in samples] == [None, None, "corrupt"]
    assert "truncated: " in samples[2].failure[1]


def test_what_is_no_example_is_rejected(write, read):
    path = write(1)
    path.write_bytes(path.read_bytes() + records_of([b"no example"]))
    assert [sample.failure and sample.failure[0] for sample in read(path)] == [None, "invalid_row"]


def test_a_damaged_compressed_file_gives_the_records_before_and_one_failure(write, read):
    path = write(6, to="a.tfrecord.gz")
    path.write_bytes(path.read_bytes()[:-30_000])
    samples = read(path)
    assert 0 < len(samples) <= 6
    assert [content(sample) for sample in samples[:-1]] == IMAGES[: len(samples) - 1]
    assert (samples[-1].key, samples[-1].failure[0]) == ("a.tfrecord.gz", "corrupt")


def test_a_file_that_is_replaced_is_changed(write, opened, tmp_path):
    source = opened(write(), source="tfrecord")
    (container,) = source.containers()
    os.rename(tmp_path / "a.tfrecord", tmp_path / "b.tfrecord")
    write(2)
    with pytest.raises(storage.ChangedError):
        list(source.read(container, Tally(), None))


@pytest.mark.parametrize(("data", "found"), [(b"", "no record"), (b"no records at all" * 9, "record 0: the length's")])
def test_a_file_that_is_none_is_refused(tmp_path, opened, data, found):
    (tmp_path / "a.tfrecord").write_bytes(data)
    with refuses("invalid_file", "input", says=["a.tfrecord", found]):
        opened(tmp_path / "a.tfrecord")


def test_a_folder_without_records_is_refused(tmp_path, opened):
    with refuses("not_found", "input"):
        opened(tmp_path, source="tfrecord")


@pytest.mark.parametrize("to", ["a.tfrecord", "a.tfrecord.gz"])
@pytest.mark.parametrize(
    ("name", "sides", "shape"),
    [
        ("image_raw", {"height": 5, "width": 7, "depth": 3}, (5, 7, 3)),
        ("image/raw", {"image/height": 5, "image/width": 7, "image/channels": 1}, (5, 7, 1)),
        ("image", {"height": 5, "width": 7}, (5, 7)),
    ],
)
def test_pixels_are_images_of_the_sides_that_their_record_says(tmp_path, read, to, name, sides, shape):
    arrays = np.random.default_rng(0).integers(0, 256, (3, *shape), dtype=np.uint8)
    data = records_of([example_of({name: array.tobytes(), "label": 1, **sides}) for array in arrays])
    (tmp_path / to).write_bytes(gzip.compress(data) if to.endswith(".gz") else data)
    samples = read(tmp_path / to)
    for sample, array in zip(samples, arrays, strict=True):
        assert isinstance(sample.locator, PixelRange)
        assert (sample.locator.shape, sample.locator.axes) == (shape, "HWC"[: len(shape)])
        assert content(sample) == array.tobytes()


def test_a_record_with_other_sides_than_its_pixels_is_rejected(tmp_path, read):
    good = example_of({"image": bytes(35), "label": 1, "height": 5, "width": 7})
    bad = [example_of({"image": bytes(35), "label": 1, "height": 5, **width}) for width in ({"width": 6}, {})]
    (tmp_path / "a.tfrecord").write_bytes(records_of([good, *bad, good]))
    samples = read(tmp_path / "a.tfrecord")
    assert [sample.failure and sample.failure[0] for sample in samples] == [None, "invalid_row", "invalid_row", None]


@pytest.mark.parametrize(
    ("names", "splits"),
    [
        (["pets_train.record-00000-of-00001", "pets_val.record-00000-of-00001"], ["train", "validation"]),
        (["train.record", "test.record"], ["test", "train"]),
        (["train00-3.tfrec", "val01-3.tfrec"], ["train", "validation"]),
        (["a.tfrec", "b.records"], [None, None]),
    ],
)
def test_records_of_any_usual_name_are_found_in_a_folder(write, read, tmp_path, names, splits):
    for name in names:
        write(1, to=f"old/{name}")
    assert [sample.split for sample in read(tmp_path / "old")] == splits


@pytest.mark.parametrize("damage", ["crc", "no example"])
def test_a_damaged_first_record_is_one_failure(write, read, tmp_path, damage):
    path = write(3)
    if damage == "crc":
        data = bytearray(path.read_bytes())
        data[40] ^= 1
        path.write_bytes(data)
    else:
        path.write_bytes(records_of([b"\xff\xff"]) + path.read_bytes())
    samples = read(path)
    assert [sample.failure is None for sample in samples] == [False, *[True] * (len(samples) - 1)]


def test_a_damaged_first_file_is_one_failure(write, opened, read_containers, tmp_path):
    write(2, to="old/b.tfrecord")
    (tmp_path / "old/a.tfrecord").write_bytes(b"damaged")
    samples, tally = read_containers(opened(tmp_path / "old", source="tfrecord"))
    assert [one.failure is None for one in samples] == [False, True, True]
    assert [one.uri for one in tally.damaged] == [str(tmp_path / "old/a.tfrecord")]


def boxes_of(label: str, *numbers: int) -> dict[str, Any]:
    sides = {f"image/object/bbox/{side}": [0.5] * len(numbers) for side in ("xmin", "ymin", "xmax", "ymax")}
    return {"image/encoded": IMAGES[0], **sides, label: list(numbers)}


def test_numbers_of_objects_without_a_text_stay_as_they_are(read, tmp_path):
    records = [boxes_of("image/object/class/label", 1, 90), boxes_of("image/object/class/label", 13)]
    (tmp_path / "a.record").write_bytes(records_of(list(map(example_of, records))))
    assert [one.objects.labels for one in read(tmp_path / "a.record", needs_label=False)] == [(1, 90), (13,)]


@pytest.mark.parametrize("name", ["label_map.pbtxt", "mscoco_label_map.pbtxt"])
def test_a_label_map_keeps_the_numbers_that_it_leaves_out(opened, read, tmp_path, name):
    (tmp_path / "a.record").write_bytes(records_of([example_of(boxes_of("image/object/class/label", 1, 4, 3))]))
    (tmp_path / name).write_text("item { id: 1 name: 'cat' } item { id: 4 display_name: 'dog' }")
    source = opened(tmp_path / "a.record", needs_label=False)
    assert source.description.labels.names == ("cat", "category_2", "category_3", "dog")
    assert read(tmp_path / "a.record", needs_label=False)[0].objects.labels == ("cat", "dog", "category_3")


def test_features_that_nothing_takes_are_named(write, opened):
    source = opened(write(2, source_id=[b"a", b"b"], weight=[0.5, 1.0]))
    assert describe_ledger(find_unused(source.description.table, source.description.used)) == [
        "not stored: a.tfrecord: source_id, weight; a layout takes such as column.source_id"
    ]
    source = opened(write(2, source_id=[b"a", b"b"]), columns=frozenset({"source_id"}))
    assert not describe_ledger(find_unused(source.description.table, source.description.used))


def test_a_feature_of_a_described_dataset_that_nothing_takes_is_named(write, opened, tmp_path):
    path = write(view=[b"front", b"back", b"front"])
    (tmp_path / "features.json").write_text(features_json(image="Image", label="ClassLabel", view="Text"))
    source = opened(path, source="tfrecord")
    assert {*source.description.table.columns} - {*source.description.used} == {"view"}
