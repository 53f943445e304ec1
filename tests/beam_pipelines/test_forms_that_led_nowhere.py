"""Inputs that were refused without a way on, or read in part without a word."""

from __future__ import annotations

import io
import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image

from tests.beam_pipelines.dataset_checks import manifest_of
from tests.beam_pipelines.dataset_records import read_dataset
from tests.framing import write_examples


def _image(number):
    content = io.BytesIO()
    Image.fromarray(np.full((8, 8, 3), number * 9, np.uint8)).save(content, "PNG")
    return content.getvalue()


def test_members_of_a_zip_with_backslashes_lie_in_folders(tmp_path, build):
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        for number in range(4):
            member = zipfile.ZipInfo()
            member.filename = f"{('cat', 'dog')[number % 2]}\\{number}.png"
            archive.writestr(member, _image(number))
    out = build(tmp_path / "out", f"--input={tmp_path}/in.zip", "--name=x")
    assert {one.key for one in read_dataset(out, "train")} == {"cat/0.png", "dog/1.png", "cat/2.png", "dog/3.png"}
    assert manifest_of(out)["class_names"] == ["cat", "dog"]


def test_captions_of_a_webdataset_are_offered(tmp_path, convert):
    with tarfile.open(tmp_path / "in.tar", "w") as archive:
        for number in range(4):
            for name, data in ((f"{number}.png", _image(number)), (f"{number}.txt", f"a thing, {number}".encode())):
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
    words = [f"--input={tmp_path}/in.tar", "--name=x"]
    refusal = convert(*words, f"--output={tmp_path}/out").refused("missing_label_column", "input", "label_column")
    assert refusal.suggestions[0].settings == {"label_column": "txt", "label_type": "text"}
    flags = [f"--{name}={value}" for name, value in refusal.suggestions[0].settings.items()]
    assert convert(*words, *flags, f"--output={tmp_path}/out").code == 0
    captions = {one.values["label"][0] for one in read_dataset(tmp_path / "out", "train")}
    assert captions == {f"a thing, {number}".encode() for number in range(4)}


@pytest.mark.parametrize(
    "names", [("a.tfrecord", "b.tfrecord"), ("more/a.tfrecord", "b/c.tfrecord"), ("x/part-00000-of-00001",)]
)
def test_a_folder_of_records_is_offered_as_records(tmp_path, convert, names):
    for name in names:
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        examples = ({"image": _image(number), "label": number % 2} for number in range(4))
        write_examples(tmp_path / "in" / name, examples)
    refusal = convert(f"--input={tmp_path}/in", f"--output={tmp_path}/out").refused("no_samples", "input")
    (suggestion,) = refusal.suggestions
    flags = [f"--{name}={value}" for name, value in {"input": tmp_path / "in", **suggestion.settings}.items()]
    assert convert(*flags, f"--output={tmp_path}/out", "--name=x").code == 0
    assert manifest_of(tmp_path / "out")["records"] == 4 * len(names)


def test_images_of_an_hf_folder_that_no_row_names_are_counted(tmp_path, convert):
    (tmp_path / "in/more").mkdir(parents=True)
    for name in ("0", "1", "2", "more/3"):
        (tmp_path / "in" / f"{name}.png").write_bytes(_image(1))
    (tmp_path / "in/metadata.csv").write_text("file_name,label\n0.png,cat\n1.png,dog\n")
    ran = convert(f"--input={tmp_path}/in", "--source=hf_folder", f"--output={tmp_path}/out", "--name=x")
    assert ran.code == 0, ran.err
    assert "skipped: 2 without a row (2.png, more/3.png)" in ran.out
