"""The same photos give the same records, whatever holds them."""

from __future__ import annotations

import pytest

from tests.source_forms import NAMES, PHOTO_FORMS, PHOTOS, flags_of, write_form

FLAGS = ["--name=photos", "--image_encoding=keep", "--num_shards=1"]


@pytest.mark.parametrize("form", PHOTO_FORMS)
def test_the_same_photos_give_the_same_images_and_labels(tmp_path, build, read, form):
    write_form(form, tmp_path / "in")
    records = read(build(tmp_path / "out", *flags_of(form, tmp_path / "in"), *FLAGS), "train")
    classes = (tmp_path / "out/label.labels.txt").read_text().split()
    found = {(classes[record["label"]], record["image"]) for record in records}
    assert found == {(name.split("/")[0], (PHOTOS / name).read_bytes()) for name in NAMES}
    assert len(records) == len(NAMES)
