"""`convert`: class names that the request gives."""

from __future__ import annotations

import json

import pytest

from tests.beam_pipelines.dataset_checks import manifest_of

NAMES = ["bird", "cat", "Äpfel & Birnen", "horse", "dog", "zebra"]


@pytest.fixture(scope="module")
def named(pets, build, tmp_path_factory):
    # Beside `pets`, the file would name the classes of other tests too.
    file = tmp_path_factory.mktemp("classes") / "names.txt"
    file.write_text("\n".join(NAMES), encoding="utf-8")
    flags = ["--name=pets", "--image_size=16", f"--class_names={file}"]
    return build(pets.parent / "named", f"--input={pets}", *flags)


def test_class_names_without_samples_keep_their_index(named, read):
    assert manifest_of(named)["class_names"] == NAMES
    labels = {record.key.split("/")[0]: record["label"] for record in read(named, "train")}
    assert labels == {"cat": 1, "Äpfel & Birnen": 2, "dog": 4}
    assert set(manifest_of(named)["splits"]["train"]["classes"]) == set(labels)


def test_the_metadata_has_all_class_names_in_their_order(named, verify):
    assert (named / "label.labels.txt").read_text(encoding="utf-8").splitlines() == NAMES
    features = json.loads((named / "features.json").read_text())["featuresDict"]["features"]
    assert features["label"]["classLabel"]["numClasses"] == "6"
    assert verify(named).code == 0


def test_a_subset_of_the_images_keeps_the_indices_of_the_whole(pets, tmp_path, build, read):
    flags = ["--image_size=16", f"--class_names={','.join(NAMES)}"]
    subset = build(tmp_path / "out", f"--input={pets / 'dog'}", "--label_pattern=(?P<label>dog|cat)", *flags)
    assert {record["label"] for record in read(subset, "train")} == {4}
    assert manifest_of(subset)["class_names"] == NAMES


def test_integer_labels_are_indices_into_the_class_names(tmp_path, picture, save, build, read):
    rows = ["image,label"]
    for number, label in enumerate([0, 3, 3, 5]):
        save(tmp_path / f"{number}.png", picture(number, 9, 9))
        rows.append(f"{number}.png,{label}")
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    flags = [f"--input={tmp_path / 'rows.csv'}", f"--class_names={','.join(NAMES)}"]
    records = read(build(tmp_path / "out", *flags), "train")
    assert {record.key: (record["label"], record.row["label"]) for record in records} == {
        "0.png": (0, "bird"),
        "1.png": (3, "horse"),
        "2.png": (3, "horse"),
        "3.png": (5, "zebra"),
    }
