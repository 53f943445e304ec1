"""Files of unsupported formats are named; what other files hold is offered."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from beam_tfrecords import build
from tests.each import each
from tests.pixel_files import save_cifar, save_mnist
from tests.published import read_published
from tests.refusals import refuses


@each(
    "name, start, what",
    [
        ("t.xlsx", b"PK\x03\x04", "an Excel table"),
        ("t.csv", b"PK\x03\x04" + bytes(26) + b"[Content_Types].xml", "an Excel table"),
        ("t.xls", b"\xd0\xcf\x11\xe0", "an Excel table"),
        ("a.7z", b"7z\xbc\xaf", "a 7z archive"),
        ("a.rar", b"Rar!", "a RAR archive"),
        ("a.pkl", b"\x80\x04", "a pickle, which may run any code"),
        ("data_batch_1", b"\x80\x02", "a pickle of CIFAR's Python version"),
        ("a.pt", b"PK\x03\x04", "a file of PyTorch"),
        ("data.mdb", b"", "an LMDB database"),
        ("a.h5", b"", "an HDF5 file"),
        ("data-00000-of-00001.arrow", b"", "an Arrow file of Hugging Face's datasets"),
        ("train_32x32.mat", b"", "a MATLAB file"),
        ("unknown", b"MATLAB 5.0 MAT-file, Platform: GLNXA64", "a MATLAB file"),
        ("unknown", b"\x89HDF\r\n", "an HDF5 file"),
        ("a.json", b'[\n  {"image": "0.jpg", "label": "a"}]', "a JSON array"),
        ("a.jsonl", b'[\n  {"image": "0.jpg", "label": "a"}]', "a JSON array"),
        ("a.json", b'{"0.jpg": "a", "1.jpg": "b"}', "a JSON object of names and labels"),
    ],
)
def test_an_unsupported_format_is_known_by_its_name_or_its_first_bytes(tmp_path, name, start, what):
    (tmp_path / name).write_bytes(start)
    with refuses("unsupported_format", "input", says=[name, f" {what}; ", "docs/unsupported.md#"]) as refused:
        build(input=str(tmp_path / name), output=str(tmp_path / "out"))
    assert refused.value.suggestions == ()


@pytest.mark.parametrize("form", ["idx", "cifar", "npz"])
def test_a_folder_of_arrays_is_refused_with_what_reads_them(tmp_path, form):
    pixels, labels = np.zeros((6, 8, 8), np.uint8), np.array([0, 1, 2, 0, 1, 2])
    (tmp_path / "in").mkdir()
    if form == "idx":
        save_mnist(tmp_path / "in", {"train": pixels, "test": pixels}, {"train": labels, "test": labels})
    elif form == "cifar":
        save_cifar(tmp_path / "in/data_batch_1.bin", np.zeros((6, 32, 32, 3), np.uint8), labels)
    else:
        np.savez(tmp_path / "in/one.npz", x=pixels, y=labels)
    settings = {"input": str(tmp_path / "in"), "output": str(tmp_path / "out"), "quiet": True}
    with refuses("no_samples", "input") as refused:
        build(**settings)
    (reading,) = refused.value.suggestions
    published = read_published(build(**{**settings, **reading.settings}).path)
    assert published.manifest["splits"]["train"]["classes"] == {"0": 2, "1": 2, "2": 2}


def test_records_of_a_damaged_dataset_are_told_by_their_files(tmp_path, photos):
    settings = {"quiet": True, "image_size": 8}
    dataset = build(input=str(photos), output=str(tmp_path / "old"), **settings)
    # What makes it a dataset of ours.
    Path(dataset.path, "manifest.json").unlink()
    with refuses("no_samples", "input") as refused:
        build(input=str(dataset.path), output=str(tmp_path / "out"), **settings)
    assert [one.settings for one in refused.value.suggestions] == [{"source": "tfrecord"}]
