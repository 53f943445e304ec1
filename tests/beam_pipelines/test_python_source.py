"""Samples from a function of the user: plain Python by parts, or a pipeline of Beam."""

from __future__ import annotations

import functools
import io
import json
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from beam_tfrecords import BuildError, Sample, SampleObjects, build, open_dataset, plan
from tests.beam_pipelines.dataset_checks import manifest_of, shards_of
from tests.refusals import Refusal, refuses


def png_of(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def indexed(dataset: Any, split: str, column: str) -> list[Any]:
    """An index column, in the order of the records."""
    tables = (
        pq.read_table(Path(dataset.path, shard["index"]))
        for shard in manifest_of(Path(dataset.path))["shards"]
        if shard["split"] == split
    )
    return [value for table in tables for value in table[column].to_pylist()]


def make_pixels(number: int) -> np.ndarray:
    return np.random.default_rng(number).integers(0, 256, (10 + number, 12, 3), np.uint8)


def rows_of(part: str, folder: str) -> Iterator[Sample]:
    """Images as arrays, as bytes and as files."""
    for number in range(9):
        pixels = make_pixels(number)
        path = Path(folder, f"{part}{number}.png")
        if not path.exists():
            path.write_bytes(png_of(pixels))
        image = (pixels, png_of(pixels), path)[number % 3]
        split = "val" if number == 4 else "train"
        yield Sample(f"{part}/{number}", image=image, label="cat" if number % 2 else "dog", split=split)


@pytest.fixture
def build_of(tmp_path) -> Callable[..., Any]:
    def make(function: Any, name: str = "out", **settings: Any) -> Any:
        return build(input=function, output=str(tmp_path / name), quiet=True, name="x", **settings)

    return make


@pytest.mark.parametrize(("dtype", "channels"), [("uint8", 3), ("uint16", 3), ("float32", 3), ("float32", 5)])
def test_arrays_keep_their_type(build_of, dtype, channels):
    arrays = {f"{number}": np.arange(6 * channels, dtype=dtype).reshape(2, 3, -1) + number for number in range(4)}

    def rows() -> Iterator[Sample]:
        yield from (Sample(key, image=array, label="cat") for key, array in arrays.items())

    dataset = build_of(rows, layout="array,label", class_names=["cat"])
    for record, key in zip(dataset["train"], indexed(dataset, "train", "key"), strict=True):
        assert record["image"].dtype == np.dtype(dtype)
        np.testing.assert_array_equal(record["image"], arrays[key])


@pytest.mark.nightly
@pytest.mark.local_runner
def test_a_pipeline_gives_the_bytes_of_a_function(tmp_path, build_of):
    folder = tmp_path / "in"
    folder.mkdir()

    def rows(part: str) -> Iterator[Sample]:
        yield from rows_of(part, str(folder))

    def read(root: Any) -> Any:
        return root | beam.Create(["a", "b"]) | beam.FlatMap(rows)

    plain, piped = build_of(rows, "plain", parts=["a", "b"]), build_of(read, "piped")
    assert shards_of(Path(plain.path)) == shards_of(Path(piped.path))


@pytest.mark.local_runner
def test_an_empty_pipeline_and_one_of_something_else_are_said(build_of, tmp_path):
    with refuses("no_samples", "input"):
        build_of(lambda root: root | beam.Create([]))
    with pytest.raises(BuildError, match=r"gave int where a beam_tfrecords\.Sample is expected"):
        build_of(lambda root: root | beam.Create([1]))
    with pytest.raises(BuildError, match="returned list; expected a collection of samples, or the parts"):
        build_of(lambda part: [Sample("a", image=b"")])
    with refuses("pipeline_input", "dry_run", "input", "limit"):
        plan(input=lambda root: root | beam.Create([1]), output=str(tmp_path / "out"))


def test_the_module_and_function_of_the_command_line(tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    Path("my_rows.py").write_text(
        textwrap.dedent(
            """
            import numpy as np
            from beam_tfrecords import Sample

            def rows(part):
                for number in range(4):
                    label = ("red", "blue")[number % 2]
                    yield Sample(f"{part}/{number}", image=np.full((8, 8, 3), number, np.uint8), label=label)
            """
        )
    )
    ran = run("convert", "--input=my_rows:rows", "--parts=a,b", "--output=out")
    assert ran.code == 0, ran.err
    assert manifest_of(tmp_path / "out")["listed"] == 8
    assert manifest_of(tmp_path / "out")["input_function"]["function"] == "my_rows:rows"
    assert run("verify", "out").code == 0
    for words, refusal in (
        (["--input=my_rows:none"], Refusal("unknown_function", "input", says=["function none", "it has: rows"])),
        (["--input=no_rows:rows"], Refusal("unknown_module", "input", says=["module no_rows"])),
        (
            ["--input=my_rows:rows", "--label_column=a", "--parts=a"],
            Refusal("setting_not_applicable", "label_column", "input", says=["label_column=a"]),
        ),
        (["--input=photos", "--source=python"], Refusal("not_a_function", "input", "source")),
        (["--input=my_rows:rows", "--input=photos"], Refusal("several_inputs", "input", "parts")),
        (["--input=photos", "--parts=a"], Refusal("not_found", "input", says=["photos"])),
    ):
        run("convert", *words, "--output=other").refused(refusal)
    assert not Path("other").exists()


def test_masks_objects_columns_and_groups(build_of):
    def masks() -> Iterator[Sample]:
        for number in range(6):
            mask = np.full((10 + number, 12), number, np.uint8)
            yield Sample(number, image=make_pixels(number), mask=mask if number % 2 else png_of(mask))

    dataset = build_of(masks, "masks", image_encoding="png")
    for record in dataset["train"]:
        assert np.unique(record["mask"]).tolist() == [record["image"].shape[0] - 10]

    def boxes() -> Iterator[Sample]:
        for number in range(6):
            objects = SampleObjects(np.array([[1, 2, 5, 6 + number]], float), [("cup", "pen")[number % 2]])
            yield Sample(f"s{number}", image=make_pixels(number), objects=objects)

    dataset = build_of(boxes, "boxes")
    assert len(dataset["train"][0]["image/object/bbox/xmin"]) == 1
    assert indexed(dataset, "train", "objects") == [1] * 6

    def rows() -> Iterator[Sample]:
        for number in range(40):
            columns = {"patient": number // 4, "age": np.int64(number), "notes": None if number % 2 else "x"}
            yield Sample(number, image=make_pixels(number % 5), label=number % 2, columns=columns)

    layout = {
        "image": "image.encoded",
        "label": "label.index",
        "age": {"field": "column.age", "type": "int64"},
        "patient": {"field": "column.patient", "type": "int64"},
    }
    dataset = build_of(
        rows, "rows", layout=layout, group_column="patient", splits={"train": 0.5, "test": 0.5}, class_names="a,b"
    )
    found = {split: {record["patient"].item() for record in dataset[split]} for split in dataset.splits}
    assert not found["train"] & found["test"]
    assert sum(map(len, found.values())) == 10
    wrong = {**layout, "age": {"field": "column.years", "type": "int64"}}
    with refuses("unknown_column", "layout", "input", says=["years", "20"]):
        build_of(rows, "wrong", layout=wrong, class_names="a,b")


def test_one_bad_sample_is_a_failure_and_a_function_that_fails_ends_the_build(tmp_path, build_of):
    def rows(part: str) -> Iterator[Sample]:
        for number in range(30):
            image: Any = make_pixels(number % 5)
            if part == "b" and number in (21, 22, 23):
                image = {21: b"no image", 22: b"", 23: str(tmp_path / "missing.png")}[number]
            label = object() if (part, number) == ("b", 25) else "ab"[number % 2]
            yield Sample(f"{part}{number % 29}", image=image, label=label)

    dataset = build_of(rows, parts=["a", "b"], max_failures=0.5)
    failures = [json.loads(line) for line in Path(dataset.path, "failures.jsonl").read_text().splitlines()]
    assert {one["key"]: one["reason"] for one in failures} == {
        "b21": "not_an_image",
        "b22": "empty",
        "b23": "unreadable",
        "b25": "invalid_row",
        "a0": "conflicting_rows",
        "b0": "conflicting_rows",
    }
    assert manifest_of(Path(dataset.path))["listed"] == 60

    def fails(part: str) -> Iterator[Sample]:
        for number, sample in enumerate(rows(part)):
            if (part, number) == ("b", 28):
                raise ValueError("the database is gone")
            yield sample

    with pytest.raises(BuildError, match=r"part 'b': it fails: ValueError: the database is gone \(.*:\d+\)"):
        build_of(fails, "fails", parts=["a", "b"], max_failures=0.5)
    with refuses("failing_function", "input", says=["ValueError"]):
        build_of(lambda: (_ for _ in ()).throw(ValueError("at once")), "never")
    with refuses("wrong_return_type", "input", says=["tuple"]):
        build_of(lambda: [("a", 1)], "never")
    with refuses("wrong_parameters", "input", says=["a, b"]):
        build_of(lambda a, b: [], "never")
    with refuses("setting_not_applicable", "input", "parts"):
        build_of(lambda: [], "never", parts=[1])
    with refuses("invalid_value", "parts", says=["twice"]):
        build_of(lambda part: [], "never", parts=[1, 1])


def test_a_version_converts_what_the_function_gives_anew(tmp_path):
    state = tmp_path / "state.json"

    def rows() -> Iterator[Sample]:
        bright = json.loads(state.read_text())
        for number in range(12):
            yield Sample(
                f"s{number}", image=make_pixels(number) // (2 if number in bright else 1), label="ab"[number % 2]
            )

    def version() -> dict[str, Any]:
        build(input=rows, output=str(tmp_path / "out"), quiet=True, versioned=True)
        return manifest_of(Path(open_dataset(tmp_path / "out").path))

    state.write_text("[]")
    first = version()
    assert version() == first  # called again, and it gave the same
    state.write_text("[3]")
    second = version()
    assert second["reuse"] == {"copied": 11, "reserialized": 0, "converted": 1}
    assert second["listed"] == first["listed"] == 12


class Reader:
    """A reader that is no function."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, part: int = 0) -> Iterator[Sample]:
        for number in range(self.count):
            yield Sample(number, image=make_pixels(number), label=number % 2 + part)

    def method(self) -> Iterator[Sample]:
        yield from self(0)


@pytest.mark.parametrize("kind", ["object", "method", "partial"])
def test_what_can_be_called_is_an_input(build_of, kind):
    made = {"object": Reader(5), "method": Reader(5).method, "partial": functools.partial(Reader(5), 0)}[kind]
    assert len(build_of(made)) == 5
