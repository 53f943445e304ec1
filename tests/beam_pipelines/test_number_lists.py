"""Lists of bare numbers, as ImageNet's development kit has them: they name no image."""

from __future__ import annotations

import pytest

from beam_tfrecords.errors import RequestError
from tests.beam_pipelines.listed_records import read, write_layout
from tests.beam_pipelines.public_layouts import Layout
from tests.refusals import refuses

NAME = "ILSVRC2012_validation_ground_truth.txt"


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ("val/ILSVRC2012_val_0000000{1..4}.JPEG", NAME),
        ("test/{01..04}.png", "data/test_labels.txt"),
        ("train/{n01,n02}/{1..3}.JPEG val/v_{1..4}.JPEG", NAME),
    ],
)
def test_a_list_of_numbers_beside_images_is_named(tmp_path, files, name):
    root = write_layout(Layout("numbers", files, tables={name: "7\n3\n3\n7\n"}), tmp_path)
    with pytest.raises(RequestError, match=f"{name} has numbers and names no image; write a table"):
        read([f"--input={root}", "--output=out"], tmp_path / "listing")


def test_a_list_of_words_is_no_list_of_numbers(tmp_path):
    root = write_layout(Layout("words", "val/{1..4}.jpg", tables={NAME: "cat\ndog\ndog\ncat\n"}), tmp_path)
    with pytest.raises(RequestError) as refused:
        read([f"--input={root}", "--output=out"], tmp_path / "listing")
    assert "names no image" not in refused.value.message


def test_a_list_of_numbers_by_itself_is_named(tmp_path):
    (tmp_path / NAME).write_text("490\n361\n171\n")
    with refuses("number_list", "input", "image_root"):
        read([f"--input={tmp_path / NAME}", "--output=out"], tmp_path / "listing")
