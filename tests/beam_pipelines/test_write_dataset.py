"""WriteDataset: a dataset from the collection of any Beam pipeline is that of a build of the same samples."""

from __future__ import annotations

import dataclasses
import io
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import PIL.Image
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.test_stream import TestStream
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import FixedWindows, TimestampedValue

from beam_tfrecords import OutputLockedError, Sample, SampleObjects, WriteDataset, build, open_dataset
from tests import tensorflow as tf
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.framing import example_of, sequence_of
from tests.refusals import refuses

pytestmark = pytest.mark.tensorflow

PHOTOS = Path(__file__).parents[1] / "data/photos"
FILES = sorted(PHOTOS.glob("*/*.jpg"))


class Row(NamedTuple):
    """A row of a table of photos."""

    key: str
    image: str
    label: str


def key_of(path: Path) -> str:
    return path.relative_to(PHOTOS).as_posix()


def photo_samples() -> Iterator[Sample]:
    for path in FILES:
        yield Sample(key_of(path), image=str(path), label=path.parent.name)


def pixel_samples() -> Iterator[Sample]:
    random = np.random.default_rng(0)
    for number in range(40):
        pixels = random.integers(0, 256, (9, 11, 3), np.uint8)
        mask = (pixels[..., 0] > 128).astype(np.uint8)
        boxes = np.array([[1.0, 1.0, 5.0 + number % 3, 6.0]])
        objects = SampleObjects(boxes, ["ab"[number % 2]])
        columns = {"weight": number / 8, "tags": ["x", "y"][: number % 3]}
        yield Sample(
            number, image=pixels, mask=mask, label=number % 2, columns=columns, objects=SampleObjects(**objects)
        )


def file_samples() -> Iterator[Sample]:
    for path in FILES:
        yield Sample(
            key_of(path), image=path.read_bytes(), label=[path.parent.name, f"number {path.stem[-1]}"], split="test"
        )


def write(elements: Sequence[Any], output: Path, **settings: Any) -> None:
    with beam.Pipeline() as root:
        written = root | beam.Create(elements, reshuffle=True) | WriteDataset(output, **settings)
        assert_that(written, equal_to([str(Path(output).resolve())]))


def content_of(folder: Path) -> dict[str, Any]:
    """What a dataset publishes; its manifest and index without what says where the samples come from, and when."""
    manifest = manifest_of(folder)
    for name in ("input_fingerprint", "input_function", "read_with", "files", "sizes"):
        manifest.pop(name, None)
    for name in ("input", "source"):
        manifest["spec"].pop(name)
    for entry in manifest["ledger"]:
        del entry["file"]
    indices = {shard["index"]: pq.read_table(folder / shard["index"]) for shard in manifest["shards"]}
    for shard in manifest["shards"]:
        del shard["index_sha256"], shard["index_bytes"]
    others = ("manifest.json", "_SUCCESS", "report.html", *indices)
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    assert {*others} <= {*files}
    return (
        {"manifest": manifest}
        | {name: path.read_bytes() for name, path in files.items() if name not in others}
        | {name: table.drop_columns(["uri", "fingerprint", "sample_hash"]) for name, table in indices.items()}
    )


LABELLED = {"image": "image.encoded", "label": "label.index"}
CLASSES = {"class_names": "a,b", "image_encoding": "png"}
CASES: dict[str, tuple[Callable[[], Iterator[Sample]], dict[str, Any]]] = {
    "photos": (photo_samples, {"image_size": 32, "splits": "train=0.7,test=0.3", "num_shards": 3}),
    "arrays": (
        pixel_samples,
        {
            "layout": {"image": "image.encoded", "label": "label.index"},
            "image_encoding": "png",
            "class_names": "a,b",
            "compression": "gzip",
        },
    ),
    "masks": (pixel_samples, {"layout": "segmentation", "image_size": "16x16", **CLASSES}),
    "objects": (pixel_samples, {"layout": "detection", "seed": 3}),
    "columns": (
        pixel_samples,
        {
            "layout": {
                "weight": {"field": "column.weight", "type": "float"},
                "tags": {"field": "column.tags", "type": "bytes", "several": True},
            }
        },
    ),
    "files": (file_samples, {"layout": "multilabel", "image_encoding": "keep", "duplicates": "drop"}),
    "near": (photo_samples, {"image_size": 64, "near_duplicates": 4, "where": "height > 20"}),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(CASES))
def test_a_collection_becomes_the_dataset_of_a_build(name, tmp_path):
    samples, settings = CASES[name]
    build(input=samples, output=tmp_path / "built", name="data", quiet=True, **settings)
    elements = list(samples())
    write(elements[::-1], tmp_path / "written", name="data", **settings)
    assert content_of(tmp_path / "written") == content_of(tmp_path / "built")
    dataset = open_dataset(tmp_path / "written")
    assert dataset.verify() == []
    assert not (tmp_path / "written/.build").exists()


def as_rows() -> Iterator[Row]:
    return (Row(key_of(path), str(path), path.parent.name) for path in FILES)


def as_examples() -> Iterator[bytes]:
    for path in FILES:
        yield example_of({"image": path.read_bytes(), "label": path.parent.name, "key": key_of(path)})


@dataclasses.dataclass(frozen=True)
class LabelledPhoto:
    key: str
    image: str
    label: str


FORMS: dict[str, Callable[[], Iterator[Any]]] = {
    "dictionaries": lambda: (row._asdict() for row in as_rows()),
    "named tuples": as_rows,
    "dataclasses": lambda: (LabelledPhoto(**row._asdict()) for row in as_rows()),
    "rows of Beam": lambda: (beam.Row(**row._asdict()) for row in as_rows()),
    "examples": as_examples,
}


@pytest.mark.nightly
@pytest.mark.parametrize("form", sorted(FORMS))
def test_elements_of_other_types_become_samples(form, tmp_path):
    write(list(photo_samples()), tmp_path / "samples", name="data", image_size=16)
    write(list(FORMS[form]()), tmp_path / "written", name="data", image_size=16)
    records = open_dataset(tmp_path / "samples").records(), open_dataset(tmp_path / "written").records()
    for one, other in zip(*records, strict=True):
        assert (one["label"], one["image"].tobytes()) == (other["label"], other["image"].tobytes())


def test_examples_of_the_object_detection_api_keep_their_boxes(tmp_path):
    train = tf.train

    def example(number: int) -> Any:
        def floats(*values: float) -> Any:
            return train.Feature(float_list=train.FloatList(value=values))

        pixels = io.BytesIO()
        PIL.Image.new("RGB", (20, 10), (number, 0, 0)).save(pixels, "png")
        features = {
            "image/encoded": train.Feature(bytes_list=train.BytesList(value=[pixels.getvalue()])),
            "image/filename": train.Feature(bytes_list=train.BytesList(value=[f"{number}.png".encode()])),
            "image/object/class/text": train.Feature(bytes_list=train.BytesList(value=[b"cat", b"dog"])),
            "image/object/bbox/xmin": floats(0.1, 0.5),
            "image/object/bbox/xmax": floats(0.2, 1.0),
            "image/object/bbox/ymin": floats(0.1, 0.0),
            "image/object/bbox/ymax": floats(0.3, 0.5),
        }
        return train.Example(features=train.Features(feature=features))

    write([example(number) for number in range(4)], tmp_path / "out", layout="detection", image_encoding="png")
    dataset = open_dataset(tmp_path / "out")
    assert dataset.class_names == ("cat", "dog")
    record = dataset.records()[0]
    np.testing.assert_allclose(record["image/object/bbox/xmax"], [0.2, 1.0], rtol=1e-6)
    assert list(record["image/object/class/label"]) == [1, 2]


def test_fields_have_the_names_that_the_request_gives(tmp_path):
    rows = [{"id": 10 + number, "photo": str(path), "kind": path.parent.name} for number, path in enumerate(FILES)]
    fields = {"key_column": "id", "image_column": "photo", "label_column": "kind"}
    layout = {"label": "label.name", "key": "key"}
    write(rows, tmp_path / "out", layout=layout, **fields)
    records = open_dataset(tmp_path / "out").records()
    assert sorted(records["key"]) == sorted(str(row["id"]) for row in rows)


@pytest.mark.parametrize(
    ("element", "says"),
    [
        ({"photo": "a.jpg"}, "found no key in an element with the fields photo"),
        ({"key": 1, "image": "a.jpg"}, "`label_column=kind`: found no such field in an element with the fields "),
        (7, "found an element of type int"),
        (sequence_of({"label": 1}, image=[b"a", b"b"]), "it is a SequenceExample; expected an Example"),
    ],
)
def test_elements_without_what_a_sample_needs_end_the_pipeline(element, says, tmp_path):
    fields = {"label_column": "kind"} if "kind" in says else {}
    with pytest.raises(Exception, match=says):
        write([element], tmp_path / "out", **fields)
    assert not (tmp_path / "out/_SUCCESS").exists()


REJECTED = (
    r"2 of 10 samples failed.*rejected: invalid_row 1, not_an_image 1; "
    r"for example (broken|shape): .+; for example (broken|shape): .+; `beam-tf"
)


def test_a_bad_sample_is_a_failure_and_too_many_publish_nothing(tmp_path):
    rows = [{"key": str(path), "image": path.read_bytes(), "label": path.parent.name} for path in FILES[:8]]
    rows += [{"key": key, "image": image, "label": "cat"} for key, image in (("broken", b"x"), ("shape", np.zeros(3)))]
    with pytest.raises(Exception, match=REJECTED):
        write(rows, tmp_path / "out", image_size=16)
    assert not (tmp_path / "out/_SUCCESS").exists()
    write(rows, tmp_path / "out", image_size=16, max_failures=0.2)
    lines = map(json.loads, (tmp_path / "out/failures.jsonl").read_text().splitlines())
    assert {line["key"]: line["reason"] for line in lines} == {"broken": "not_an_image", "shape": "invalid_row"}


LEFT_OUT = {
    "mask": {"mask": np.zeros((8, 8), np.uint8)},
    "objects": {"objects": {"boxes": [[1, 1, 5, 5]], "labels": ["cat"]}},
    "images left, right": {"images": {"left": FILES[0].read_bytes(), "right": FILES[1].read_bytes()}},
}


@pytest.mark.parametrize("what", sorted(LEFT_OUT))
def test_what_the_usual_layout_would_leave_out_rejects_the_sample(what, tmp_path):
    image = {"image": np.zeros((8, 8, 3), np.uint8)} if "image" not in what else {}
    rows = [{"key": str(number), "label": "ab"[number], **image, **LEFT_OUT[what]} for number in range(2)]
    with pytest.raises(Exception, match=f"rejected: invalid_row 2; for example [01]: .*{what}"):
        write(rows, tmp_path / "out", image_size=8)
    assert what in json.loads((tmp_path / "out/failures.jsonl").read_text().splitlines()[0])["detail"]


def test_an_output_that_another_build_holds_ends_the_pipeline(tmp_path):
    rows = [{"key": str(path), "image": path.read_bytes(), "label": path.parent.name} for path in FILES[:2]]
    output, seen = tmp_path / "out", tmp_path / "seen"
    held = f"another build is writing to it, process {os.getpid()} on .+; run the same command again after its end"

    def write_too(sample: Sample) -> Sample:
        with pytest.raises(OutputLockedError, match=held):
            write(rows, output, image_size=16, layout="image", overwrite=True)
        seen.write_text(str((output / "_SUCCESS").exists()))
        return sample

    build(input=PHOTOS / "cat", output=output, image_size=16, layout="image", map=write_too, limit=1, quiet=True)
    assert seen.read_text() == "False"
    write(rows, output, image_size=16, layout="image", overwrite=True)


def test_an_empty_collection_replaces_nothing(tmp_path):
    write(list(photo_samples()), tmp_path / "out", image_size=16)
    before = (tmp_path / "out/manifest.json").read_bytes()
    with pytest.raises(Exception, match="no image found"), beam.Pipeline() as root:
        _ = root | beam.Create([]) | WriteDataset(tmp_path / "out", image_size=16, overwrite=True)
    assert (tmp_path / "out/manifest.json").read_bytes() == before
    assert open_dataset(tmp_path / "out").verify() == []


def test_versions_reuse_records_and_repeat_nothing(tmp_path):
    out, settings = tmp_path / "out", {"image_size": 16, "versioned": True, "keep_versions": 2, "grace": "0s"}

    def write_version(elements: list[Any]) -> str:
        with beam.Pipeline() as root:
            _ = root | beam.Create(elements) | WriteDataset(out, **settings) | beam.Map(print)
        return (out / "LATEST").read_text().strip()

    first = write_version(list(photo_samples()))
    assert write_version(list(photo_samples())[::-1]) == first
    second = write_version(list(photo_samples())[:-1])
    assert second != first
    changes = json.loads((out / second / "changes.json").read_text())
    assert changes["changes"]["removed"]["samples"] == 1
    assert manifest_of(out / second)["reuse"]["copied"] == len(FILES) - 1
    assert open_dataset(out).verify() == []
    assert not (out / ".build").exists()


def test_windows_do_not_matter(tmp_path):
    with beam.Pipeline() as root:
        timed = (
            root
            | beam.Create([(number, sample) for number, sample in enumerate(photo_samples())])
            | beam.MapTuple(lambda number, sample: TimestampedValue(sample, number))
        )
        _ = timed | beam.WindowInto(FixedWindows(7)) | WriteDataset(tmp_path / "out", image_size=16)
    assert open_dataset(tmp_path / "out").num_records == len(FILES)


def test_a_later_run_resumes_from_the_blocks_of_a_failed_one(tmp_path):
    elements = [*photo_samples(), Sample("broken", image=b"x", label="cat")]
    with pytest.raises(Exception, match="allows fewer"):
        write(elements, tmp_path / "out", image_size=16, max_failures=0)
    root = beam.Pipeline()
    _ = root | beam.Create(elements) | WriteDataset(tmp_path / "out", image_size=16, max_failures=0.5)
    result = root.run()
    result.wait_until_finish()
    counters = {one.key.metric.name: one.committed for one in result.metrics().query()["counters"]}
    assert counters["blocks_resumed"] == counters["blocks"]
    assert open_dataset(tmp_path / "out").num_records == len(FILES)


def test_wrong_requests_are_refused_where_the_pipeline_is_made(tmp_path):
    write(list(photo_samples()), tmp_path / "out", image_size=16)
    with refuses("output_exists", "output", "versioned", "reuse", "overwrite"):
        WriteDataset(tmp_path / "out")
    for name in ("input", "map", "label_pattern", "strange"):
        with refuses("unknown_setting", name):
            WriteDataset(tmp_path / "new", **{name: "x"})
    with refuses("unknown_setting", "image_sizes", "image_size", says=["did you mean `image_size`?"]):
        WriteDataset(tmp_path / "new", image_sizes=16)
    with refuses("invalid_value", "image_size"):
        WriteDataset(tmp_path / "new", image_size="large")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/photo.jpg").write_bytes(b"theirs")
    with refuses("output_not_empty", "output"):
        WriteDataset(tmp_path / "theirs")
    root = beam.Pipeline()
    samples = root | beam.Create(list(photo_samples()))
    _ = samples | "first" >> WriteDataset(tmp_path / "new")
    with pytest.raises(ValueError, match="twice"):
        _ = samples | "second" >> WriteDataset(os.fspath(tmp_path / "new"))
    stream = beam.Pipeline() | TestStream().advance_watermark_to_infinity()
    with pytest.raises(ValueError, match="unbounded"):
        _ = stream | WriteDataset(tmp_path / "other")
    assert not (tmp_path / "new").exists()
