"""Several inputs or files of the same name lose no sample."""

from __future__ import annotations

import numpy as np

from tests.beam_pipelines.dataset_checks import manifest_of
from tests.beam_pipelines.dataset_records import read_dataset
from tests.each import each
from tests.identity_inputs import COUNT, INPUTS, flags_of
from tests.pixel_files import save_idx

_ONE_INPUT = ("yolo", "python", "paired_images")
_FOLDERS = ("image_folder", "filename_pattern", "hf_folder", "voc", "tfrecord", "idx", "cifar", "documents")
# Files beside each of which others are looked for.
_FILES = [source for source in INPUTS if source not in (*_ONE_INPUT, *_FOLDERS)]


def _two_folders(root, source):
    """Writes two inputs of the same name, with other images; returns the flags, with a mark where they differ."""
    for number, name in enumerate("ab"):
        (root / "in" / name / "set").mkdir(parents=True)
        INPUTS[source][0](root / "in" / name / "set", number)
    return flags_of(source, root / "in" / "*" / "set")


def _keys_and_failures(out):
    manifest = manifest_of(out)
    return {one.key for split in manifest["splits"] for one in read_dataset(out, split)}, manifest["failures"]


@each("source", [source for source in INPUTS if source not in _ONE_INPUT])
def test_two_inputs_of_the_same_name_lose_no_sample(tmp_path, build, source):
    flags = [
        flag.replace("*", name)
        for flag in _two_folders(tmp_path, source)
        for name in ("ab" if "*" in flag and not flag.startswith("--mapping") else "a")
    ]
    keys, failures = _keys_and_failures(build(tmp_path / "out", *flags, "--name=x"))
    assert (len(keys), failures) == (2 * COUNT, 0)
    assert {key.split("/")[0] for key in keys} == {"a", "b"}


@each("source", _FILES)
def test_a_glob_of_files_of_the_same_name_loses_no_sample(tmp_path, build, source):
    flags = _two_folders(tmp_path, source)
    if source == "coco":
        flags = [flags[0], *(flags[1].replace("*", name) for name in "ab")]
    keys, failures = _keys_and_failures(build(tmp_path / "out", *flags, "--name=x"))
    assert (len(keys), failures) == (2 * COUNT, 0)


def test_of_an_idx_file_and_its_compressed_copy_one_is_read(tmp_path, build):
    for name in ("train-images-idx3-ubyte", "train-images-idx3-ubyte.gz"):
        save_idx(tmp_path / "in" / name, np.arange(3 * 8 * 8).reshape(3, 8, 8))
    flags = [f"--input={tmp_path}/in", "--source=idx", "--layout=image", "--name=x"]
    keys, failures = _keys_and_failures(build(tmp_path / "out", *flags))
    assert (len(keys), failures) == (3, 0)
