"""Which of several images of a sample is the image, in every source whose samples name them."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from beam_tfrecords import storage
from tests.archive_files import tar_of
from tests.framing import write_examples
from tests.refusals import refuses


def _picture(value: int) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.full((4, 4), value, np.uint8)).save(stream, "PNG")
    return stream.getvalue()


def _write_parquet(folder: Path, images: Mapping[str, bytes]) -> Path:
    path = folder / "a.parquet"
    pq.write_table(pa.table({**{name: [{"bytes": data}] for name, data in images.items()}, "label": [1]}), path)
    return path


def _write_binary_parquet(folder: Path, images: Mapping[str, bytes]) -> Path:
    path = folder / "b.parquet"
    pq.write_table(pa.table({**{name: [data] for name, data in images.items()}, "label": [1]}), path)
    return path


def _write_records(folder: Path, images: Mapping[str, bytes]) -> Path:
    write_examples(folder / "a.tfrecord", [{**images, "label": 1}])
    return folder / "a.tfrecord"


def _write_webdataset(folder: Path, images: Mapping[str, bytes]) -> Path:
    members = {f"0.{name}.png": data for name, data in images.items()}
    (folder / "a.tar").write_bytes(tar_of({**members, "0.cls": b"1"}))
    return folder / "a.tar"


# With the source that reads it.
FORMS = (
    (_write_parquet, "hf_parquet"),
    (_write_binary_parquet, "hf_parquet"),
    (_write_records, "tfrecord"),
    (_write_webdataset, "webdataset"),
)


@pytest.fixture(params=FORMS, ids=lambda form: form[0].__name__)
def sample_of(tmp_path, request, opened, read_containers) -> Callable[..., Callable[..., dict[str, str]]]:
    """Writes one sample with images of some names; what is returned reads it: role -> name of the image."""
    write, source = request.param

    def make(*names: str) -> Callable[..., dict[str, str]]:
        images = {name: _picture(number) for number, name in enumerate(names)}
        path = write(tmp_path, images)

        def read(**fields: Any) -> dict[str, str]:
            [sample], _ = read_containers(opened(path, source=source, **fields))
            found = {role: storage.read_range(at.uri, at.offset, at.length) for role, at in sample.images.items()}
            return {role: next(name for name in names if images[name] == data) for role, data in found.items()}

        return read

    return make


@pytest.mark.parametrize(
    ("names", "image"),
    [
        (["left"], "left"),
        (["depth", "image"], "image"),
        (["depth", "img", "right"], "img"),
        (["mask", "photo"], "photo"),
        (["photo", "segmentation_map"], "photo"),
        (["mask"], "mask"),
        (["mask", "image_mask", "image"], "image"),
    ],
)
def test_the_image_is_that_of_a_usual_name_or_the_only_one(sample_of, names, image):
    assert sample_of(*names)() == {"image": image}


@pytest.mark.parametrize("names", [["left", "right"], ["left", "mask", "right"]])
def test_several_images_are_refused_with_the_setting_that_names_one(sample_of, names):
    read = sample_of(*names)
    with refuses("several_image_columns", "input", "image_column", says=["left", "right", "image_column=left"]):
        read()
    with refuses("unknown_column", "image_column", says=["image_column=other", "left"]):
        read(image_column="other")


@pytest.mark.parametrize("mask", ["mask", "segmentation", "seg", "masks"])
def test_the_mask_is_that_of_a_usual_name(sample_of, mask):
    assert sample_of(mask, "photo")(needs_mask=True) == {"image": "photo", "mask": mask}
