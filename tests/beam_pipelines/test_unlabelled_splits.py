"""A split without labels beside splits with labels."""

from __future__ import annotations

import shutil

import pytest

from tests.beam_pipelines.dataset_checks import manifest_of
from tests.published import read_published


@pytest.fixture
def paths(photos, tmp_path):
    shutil.copytree(photos, tmp_path / "photos", ignore=shutil.ignore_patterns("*_0[4-6].jpg"))
    return sorted(path.relative_to(tmp_path) for path in (tmp_path / "photos").glob("*/*"))


def write(path, header, rows):
    path.write_text("".join(f"{line}\n" for line in [header, *rows]))
    return path


def labels_of(out, feature="label"):
    records = read_published(out).records
    return {one.split: [other.values[feature] for other in records if other.split == one.split] for one in records}


def test_rows_of_a_split_without_labels_have_the_label_of_none(tmp_path, build, verify, paths):
    rows = [
        f"{path},{path.parent.name if n % 3 else ''},{'train' if n % 3 else 'test'}" for n, path in enumerate(paths)
    ]
    table = write(tmp_path / "table.csv", "image,label,split", rows)
    out = build(tmp_path / "out", f"--input={table}", "--image_size=16", "--name=x")
    found = labels_of(out)
    assert found["test"] == [[-1]] * 7
    assert all(label >= 0 for (label,) in found["train"])
    manifest = manifest_of(out)
    assert "the 7 samples of test have no label, and are stored with the label -1" in manifest["notes"]
    assert manifest["splits"]["test"].get("classes", {}) == {}
    assert sum(manifest["splits"]["train"]["classes"].values()) == 14
    assert verify(out).code == 0
    again = build(tmp_path / "again", f"--input={out}", "--name=x")
    assert labels_of(again) == found


def test_a_table_of_another_split_needs_no_column_of_labels(tmp_path, build, paths):
    train = write(tmp_path / "train.csv", "image,label", [f"{path},{path.parent.name}" for path in paths[::2]])
    test = write(tmp_path / "test.csv", "image", map(str, paths[1::2]))
    words = [f"--input={test}", f"--input={train}", "--image_size=16", "--name=x"]
    assert labels_of(build(tmp_path / "out", *words))["test"] == [[-1]] * 10
    several = build(tmp_path / "several", *words, "--layout=multilabel")
    assert labels_of(several, "labels")["test"] == [[]] * 10
