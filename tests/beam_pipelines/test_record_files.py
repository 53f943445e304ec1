"""`inspect` of TFRecord files that others have written."""

from __future__ import annotations

import gzip
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from beam_tfrecords import open_dataset
from tests.beam_pipelines.listed_records import read
from tests.cases.loading import read_area
from tests.each import each
from tests.framing import write_examples
from tests.refusals import refuses
from tests.writers import WRITERS

PHOTOS = Path(__file__).parents[1] / "data/photos"


@pytest.fixture
def records(tmp_path):
    """A folder with a file of examples."""
    WRITERS["tfrecord_objects"].make(tmp_path / "records")
    return tmp_path / "records"


@pytest.mark.parametrize("name", ["", "/objects.tfrecord", "/*.tfrecord"])
def test_inspect_shows_the_features_and_examples(records, run, name):
    ran = run("inspect", f"--dataset={records}{name}", "--examples=2")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0].startswith("1 TFRecord file of ")
    assert "image/encoded            bytes  1 value" in lines
    assert "image/object/bbox/xmin   float  1 to 2 values" in lines
    assert "  image/object/class/text: 'cat', 'dog'" in lines
    assert [line for line in lines if line.startswith("example")] == ["example 0", "example 1"]


def test_what_is_damaged_is_named(records, run):
    data = bytearray((records / "objects.tfrecord").read_bytes())
    data[100] ^= 1
    (records / "flipped.tfrecord").write_bytes(data)
    (records / "cut.tfrecord").write_bytes(data[:300])
    (records / "zipped.tfrecord.gz").write_bytes(gzip.compress(data)[:200])
    for name, said in (
        ("flipped.tfrecord", "record 0 at offset 0: the data's CRC does not match"),
        ("cut.tfrecord", "record 0"),
        ("zipped.tfrecord.gz", "the compressed file is damaged"),
    ):
        ran = run("inspect", f"--dataset={records}/{name}")
        assert (ran.code, ran.err.count("\n")) == (1, 1)
        assert f"{records}/{name}: {said}" in ran.err


def test_only_datasets_of_ours_are_verified(records, run):
    run("verify", f"--dataset={records}").refused("records_of_others", "output", says=["beam-tfrecords inspect"])


def test_what_needs_an_index_is_refused(records, run):
    ran = run("inspect", f"--dataset={records}", "--where=sharpness < 20")
    ran.refused("no_index", "where")


def test_a_folder_of_something_else_is_no_dataset(tmp_path, records, run):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/a.txt").write_text("a")
    for command in ("inspect", "verify"):
        run(command, f"--dataset={tmp_path}/other").refused("no_dataset", "output")
    (records / ".build").mkdir()
    run("inspect", f"--dataset={records}").refused("no_dataset", "output")


@each(
    "name, files",
    [("TFX's ExampleGen, an artifact", 3), ("spark-tensorflow-connector", 2), ("ImageNet with DALI's indices", 2)],
)
def test_files_are_found_in_trees_as_convert_finds_them(name, files, tmp_path, run):
    root = tmp_path / "in"
    read_area("record_trees")[name].write(root)
    inspected = run("inspect", f"--dataset={root}", "--examples=0")
    assert inspected.out.startswith(f"{files} TFRecord file")
    last = inspected.out.splitlines()[-1]
    command = shlex.split(last.partition("; to convert them: ")[2])
    assert command == ["beam-tfrecords", "convert", "--source=tfrecord", f"--input={root}", "--output=FOLDER"]


@pytest.mark.parametrize("content", [b"", b"done\n", b"{}"])
def test_the_success_of_another_program_makes_no_dataset(records, run, content):
    (records / "_SUCCESS").write_bytes(content)
    assert "to convert them: beam-tfrecords convert " in run("inspect", f"--dataset={records}").out
    with refuses("no_dataset", "output", says=["_SUCCESS"]):
        open_dataset(records)
    for flags in ([], ["--overwrite"]):
        ran = run("convert", f"--input={PHOTOS}", f"--output={records}", "--image_size=16", *flags)
        ran.refused("output_not_empty", "output")
    (records / "objects.tfrecord").rename(records / "part-00000.snappy.parquet")
    (records / "part-00000.snappy.parquet").write_bytes(b"PAR1")
    for command in ("inspect", "verify"):
        ran = run(command, f"--dataset={records}")
        ran.refused("no_dataset", "output")
        assert "part-00000.snappy.parquet" in ran.err


def test_a_dataset_of_ours_that_is_damaged_is_not_foreign(tmp_path, build, run):
    out = build(tmp_path / "out", f"--input={PHOTOS}", "--image_size=32")
    (out / "manifest.json").unlink()
    ran = run("verify", f"--dataset={out}")
    assert ran.code == 1
    assert "manifest.json cannot be read" in ran.err


def test_datasets_of_ours_below_a_folder_are_named(tmp_path, build, run):
    for name, flags in (("a", []), ("b", ["--versioned"])):
        build(tmp_path / "all" / name, f"--input={PHOTOS}", "--image_size=32", "--image_encoding=keep", *flags)
    for command in ("inspect", "verify"):
        ran = run(command, f"--dataset={tmp_path / 'all'}")
        ran.refused("no_dataset")
        assert f"({tmp_path}/all/a, {tmp_path}/all/b)" in ran.err
    words = ["--source=tfrecord", "--output=out"]
    with refuses("several_datasets", "input") as refused:
        read([f"--input={tmp_path / 'all'}", *words], tmp_path / "listing")
    given = [one.settings["input"] for one in refused.value.suggestions]
    assert given == [str(tmp_path / "all/a"), str(tmp_path / "all/b")]
    shutil.rmtree(tmp_path / "all/a")
    with refuses("several_datasets", "input"):
        read([f"--input={tmp_path / 'all'}", *words], tmp_path / "listing")


def test_inspect_shows_and_saves_a_record_of_other_programs(run, tmp_path):
    path = WRITERS["tfrecord"].make(tmp_path / "in")["input"]
    ran = run("inspect", path, "--image=3", f"--save={tmp_path / 'x.png'}")
    assert ran.code == 0, ran.err
    assert "example 3" in ran.out
    with Image.open(tmp_path / "x.png") as image:
        assert image.width > 16
    run("inspect", path, "--image=99999").refused("unknown_record", "image")


def test_inspect_saves_pixels_of_other_programs(run, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 8, 6, 3), dtype=np.uint8)
    shape = {"height": 8, "width": 6, "depth": 3}
    write_examples(tmp_path / "pixels.tfrecord", ({"image_raw": one.tobytes(), **shape} for one in pixels))
    ran = run("inspect", str(tmp_path / "pixels.tfrecord"), "--image=2", f"--save={tmp_path / 'x.png'}")
    assert ran.code == 0, ran.err
    with Image.open(tmp_path / "x.png") as image:
        np.testing.assert_array_equal(np.array(image), pixels[2])


def test_inspect_refuses_to_save_a_record_without_an_image(run, tmp_path):
    write_examples(tmp_path / "y.tfrecord", [{"a": 1}])
    words = ["inspect", str(tmp_path / "y.tfrecord"), "--image=0"]
    assert run(*words).out.splitlines() == ["example 0", "  a: 1"]
    run(*words, f"--save={tmp_path / 'y.png'}").refused("no_image")
    run(*words, f"--save={tmp_path / 'y.txt'}").refused("invalid_value", "save")
    assert not (tmp_path / "y.png").exists()
