"""ReadSamples and ConvertSamples in pipelines of Beam."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_tfrecords import ConvertSamples, ReadSamples, Sample, WriteTFRecordShards
from beam_tfrecords.tfrecord import read_records
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.refusals import refuses
from tests.source_forms import FORMS, flags_of, write_form

pytestmark = pytest.mark.local_runner
PHOTOS = Path(__file__).parents[1] / "data/photos"


def records_in(folder: Path) -> list[bytes]:
    """The examples of all shards of a folder, sorted."""
    found = []
    for path in sorted(folder.glob("*tfrecord-*")):
        with path.open("rb") as file:
            found += [record.data for record in read_records(file)]
    return sorted(found)


def settings_of(flags: list[str]) -> dict[str, Any]:
    words = (flag.removeprefix("--").partition("=") for flag in flags)
    return {name: word if sign else True for name, sign, word in words}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("form", sorted(FORMS))
def test_a_pipeline_makes_the_examples_of_a_build(form, tmp_path, convert):
    write_form(form, tmp_path / "in")
    flags = flags_of(form, tmp_path / "in")
    ran = convert(f"--output={tmp_path / 'built'}", "--max_failures=0.5", *flags)
    assert ran.code == 0, ran.err
    manifest = manifest_of(tmp_path / "built")
    layout, classes = manifest["spec"]["layout"], manifest["class_names"]
    of_input = settings_of(flags)
    of_image = {name: of_input[name] for name in ("image_size", "image_encoding") if name in of_input}
    with beam.Pipeline() as pipeline:
        samples = pipeline | ReadSamples(**{"layout": layout, **of_input})
        converted = samples | ConvertSamples(layout=layout, class_names=classes or None, **of_image)
        _ = converted | WriteTFRecordShards(tmp_path / "written/all")
    assert records_in(tmp_path / "written") == records_in(tmp_path / "built")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["photos", "photos.tar", "photos.zip"])
def test_a_folder_for_temporary_files_keeps_nothing_of_another_request(name, tmp_path):
    shutil.copytree(PHOTOS, tmp_path / "photos")
    if kind := name.partition(".")[2]:
        shutil.make_archive(str(tmp_path / "photos"), kind, PHOTOS)
    label_of = {path.relative_to(PHOTOS).as_posix(): path.parent.name for path in PHOTOS.glob("*/*.jpg")}
    number_of = {key: key[-6:-4] for key in label_of}
    for settings, expected in (({}, label_of), ({"label_pattern": r"_(?P<label>\d+)\."}, number_of)):
        with beam.Pipeline() as pipeline:
            source = ReadSamples(input=str(tmp_path / name), temp_folder=str(tmp_path / "temporary"), **settings)
            found = pipeline | source | beam.Map(lambda sample: (sample.key, sample.label))
            assert_that(found, equal_to(expected.items()))


def test_failures_have_their_reasons(tmp_path):
    for name in ("cat/1.jpg", "dog/2.jpg"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"no image")
    table = "image,label\ncat/1.jpg,cat\ndog/2.jpg,dog\nmissing.jpg,dog\n"
    (tmp_path / "table.csv").write_text(table)
    with beam.Pipeline() as pipeline:
        samples = pipeline | ReadSamples(input=str(tmp_path / "table.csv"))
        converted = samples | ConvertSamples(class_names=["cat"])
        assert_that(converted, equal_to([]), "none")
        listed = samples.failures | "A" >> beam.Map(lambda line: (line["key"], line["reason"]))
        failed = converted.failures | "B" >> beam.Map(lambda line: (line["key"], line["stage"], line["reason"]))
        assert_that(listed, equal_to([("missing.jpg", "unreadable")]), "listed")
        expected = [("cat/1.jpg", "decode", "not_an_image"), ("dog/2.jpg", "label", "unknown_class")]
        assert_that(failed, equal_to(expected), "failed")


def test_samples_travel_without_the_bytes_of_their_images():
    with beam.Pipeline() as pipeline:
        samples = pipeline | ReadSamples(input=str(PHOTOS))
        sizes = samples | beam.Map(lambda sample: len(pickle.dumps(sample)) < 2000)
        shuffled = samples | beam.Reshuffle() | beam.Map(lambda sample: (sample.image.ndim, sample.label))
        assert_that(sizes | beam.Distinct(), equal_to([True]), "small")
        labels = [path.parent.name for path in PHOTOS.glob("*/*.jpg")]
        assert_that(shuffled, equal_to([(3, label) for label in labels]), "opened")


def test_samples_of_ones_own(tmp_path):
    pixels = np.full((8, 8, 3), 7, np.uint8)
    with beam.Pipeline() as pipeline:
        samples = pipeline | beam.Create([Sample(1, image=pixels, label=1), Sample(2, image=b"", label=0)])
        converted = samples | ConvertSamples(class_names="a,b", image_encoding="png")
        _ = converted | WriteTFRecordShards(tmp_path / "own/all")
        assert_that(converted.failures | beam.Map(lambda line: line["reason"]), equal_to(["empty"]))
    assert len(records_in(tmp_path / "own")) == 1


def test_wrong_requests_are_refused(tmp_path):
    with refuses("missing_class_names", "class_names", "layout"):
        ConvertSamples()
    with refuses("unknown_setting", "versioned"):
        ConvertSamples(versioned=True)
    with refuses("unknown_setting", "output"):
        ReadSamples(input="photos", output="out")
    with refuses("not_found", "input"):
        beam.Pipeline() | ReadSamples(input=str(tmp_path / "nowhere"))
    (tmp_path / "empty").mkdir()
    with refuses("no_samples", "input"):
        beam.Pipeline() | ReadSamples(input=str(tmp_path / "empty"))
