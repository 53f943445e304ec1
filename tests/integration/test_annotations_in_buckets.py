"""Annotated objects in buckets: the same examples as from a disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from beam_tfrecords import open_dataset
from tests.annotated_inputs import PICTURES, save_pictures, write_coco, write_voc, write_yolo
from tests.integration.buckets import SCHEMES, build, services, upload


@pytest.fixture(scope="module", params=SCHEMES)
def bucket(request, tmp_path_factory):
    with services(tmp_path_factory.mktemp("services"), request.param):
        yield f"{request.param}://photos"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("inputs")
    save_pictures(root / "coco/images")
    write_coco(root / "coco/instances.json")
    write_yolo(root / "yolo", {"train": PICTURES})
    write_voc(root / "voc", {"train": PICTURES})
    return root


@pytest.mark.parametrize(
    ("source", "path", "root"),
    [("coco", "coco/instances.json", "coco/images"), ("yolo", "yolo/data.yaml", None), ("voc", "voc", None)],
)
def test_examples_are_those_of_a_disk(bucket, inputs, tmp_path, source, path, root):
    upload(inputs, bucket)
    examples = []
    for place in (str(inputs), bucket):
        flags = [f"--image_root={place}/{root}"] if root else []
        out = tmp_path / f"out{len(examples)}"
        build(f"--output={out}", f"--input={place}/{path}", f"--source={source}", *flags)
        examples.append(list(open_dataset(out).records("train", form="bytes")))
    assert examples[0] == examples[1]
    assert len(examples[0]) == 4
