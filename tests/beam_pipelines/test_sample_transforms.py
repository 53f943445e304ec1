"""ReadSamples and ConvertSamples in pipelines of Beam."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.testing.util import assert_that, equal_to

from beam_tfrecords import ConvertSamples, ReadSamples, Sample, WriteDataset, WriteTFRecordShards
from tests.archive_files import pack_folder
from tests.beam_pipelines.dataset_checks import manifest_of, shards_of
from tests.framing import records_of
from tests.refusals import refuses
from tests.writers import MEANING, WRITERS, flags_of

pytestmark = pytest.mark.local_runner
PHOTOS = Path(__file__).parents[1] / "data/photos"


def records_in(folder: Path) -> list[bytes]:
    """The examples of all shards of a folder, sorted."""
    return sorted(record for path in folder.glob("*tfrecord-*") for record in records_of(path))


@pytest.mark.nightly
@pytest.mark.parametrize("form", WRITERS)
def test_a_pipeline_makes_the_examples_of_a_build(form, tmp_path, convert):
    of_input = WRITERS[form].make(tmp_path / "in")
    ran = convert(f"--output={tmp_path / 'built'}", "--max_failures=0.5", *flags_of(of_input))
    assert ran.code == 0, ran.err
    manifest = manifest_of(tmp_path / "built")
    layout, classes = manifest["spec"]["layout"], manifest["class_names"]
    of_image = {name: of_input[name] for name in ("image_size", "image_encoding") if name in of_input}
    with beam.Pipeline() as pipeline:
        samples = pipeline | ReadSamples(**{"layout": layout, "max_failures": 0.5, **of_input})
        converted = samples | ConvertSamples(layout=layout, class_names=classes or None, max_failures=0.5, **of_image)
        _ = converted | WriteTFRecordShards(tmp_path / "written/all")
        words = {"layout": layout, "class_names": classes or None, "max_failures": 0.5, "name": manifest["name"]}
        _ = samples | WriteDataset(tmp_path / "dataset", **words, **of_image)
    assert records_in(tmp_path / "written") == records_in(tmp_path / "built")
    assert shards_of(tmp_path / "dataset") == shards_of(tmp_path / "built")


@pytest.mark.nightly
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


@pytest.mark.nightly
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


def make_rejected(folder: Path) -> str:
    """A table of four images, of which one is missing and one is no image."""
    for name in ("1.jpg", "2.jpg"):
        shutil.copy(next(PHOTOS.glob("cat/*.jpg")), folder / name)
    (folder / "3.jpg").write_bytes(b"no image")
    (folder / "table.csv").write_text("image,label\n1.jpg,cat\n2.jpg,cat\n3.jpg,cat\n4.jpg,cat\n")
    return str(folder / "table.csv")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("read", "convert", "reads", "stops"),
    [
        ({}, {}, (), r"Samples: [34].jpg is rejected \("),
        ({}, {}, ("samples",), r"ConvertSamples: 3.jpg is rejected \(not_an_image"),
        ({}, {}, ("converted",), "ReadSamples: 4.jpg is rejected"),
        ({}, {}, ("samples", "converted"), None),
        ({"max_failures": 0.25}, {"max_failures": 0.5}, (), None),
        ({"max_failures": "0.2"}, {"max_failures": 0.5}, (), "ReadSamples: 1 of 4 samples are rejected.*allows 0"),
        ({"max_failures": 0.25}, {"max_failures": 0.3}, ("samples",), "ConvertSamples: 1 of 3 samples"),
        ({"max_failures": 1}, {}, ("converted",), None),
    ],
)
def test_a_rejected_sample_stops_the_pipeline_unless_it_is_read_or_allowed(tmp_path, read, convert, reads, stops):
    table = make_rejected(tmp_path)
    pipeline = beam.Pipeline()
    samples = pipeline | ReadSamples(input=table, **read)
    converted = samples | ConvertSamples(class_names=["cat"], **convert)
    assert_that(converted | beam.combiners.Count.Globally(), equal_to([2]))
    for name, one in (("samples", samples), ("converted", converted)):
        if name in reads:
            _ = one.failures | f"Read {name}" >> beam.Map(lambda failure: failure["key"])
    if stops is None:
        pipeline.run().wait_until_finish()
    else:
        with pytest.raises(Exception, match=stops):
            pipeline.run().wait_until_finish()


def test_failures_may_be_a_side_input(tmp_path):
    table = make_rejected(tmp_path)
    with beam.Pipeline() as pipeline:
        samples = pipeline | ReadSamples(input=table)
        keys = beam.pvalue.AsIter(samples.failures | beam.Map(lambda failure: failure["key"]))
        found = pipeline | beam.Impulse() | beam.Map(lambda _, keys: sorted(keys), keys)
        assert_that(found, equal_to([["4.jpg"]]))


def test_a_share_of_an_unbounded_collection_is_refused():
    pipeline = beam.Pipeline()
    samples = pipeline | beam.Create([Sample("a")])
    samples.is_bounded = False
    with refuses("setting_not_applicable", "failures", "max_failures"):
        samples | ConvertSamples(class_names=["cat"], max_failures=0.1)
    samples | "Fails at once" >> ConvertSamples(class_names=["cat"])


def test_annotated_images_of_a_compressed_archive_are_read_by_all_workers(tmp_path):
    WRITERS["voc"].write(tmp_path, MEANING)
    pack_folder(tmp_path / "VOC", tmp_path / "VOC.tar.gz")
    settings = {"input": f"{tmp_path}/VOC.tar.gz", "source": "voc", "layout": "detection"}
    with beam.Pipeline() as pipeline:
        samples = pipeline | ReadSamples(**settings, temp_folder=f"{tmp_path}/temporary")
        examples = samples | ConvertSamples(layout="detection", class_names=["cat", "dog"])
        assert_that(examples | beam.combiners.Count.Globally(), equal_to([len(MEANING.items)]))
    assert len(list((tmp_path / "temporary").rglob("*.tar"))) == 1
