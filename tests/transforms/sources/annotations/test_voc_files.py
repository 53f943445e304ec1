"""XML files of Pascal VOC's form wherever they lie, found by the names of the images."""

from __future__ import annotations

import random
from pathlib import Path
from xml.etree import ElementTree

import pytest

from beam_tfrecords.beam_pipelines.settings.suggested_commands import explain
from tests.annotated_inputs import PICTURES, Picture, save_pictures, voc_of
from tests.beam_pipelines.listed_records import commands_of, read
from tests.refusals import refuses
from tests.source_requests import FRACTIONS

# Folders of the images and of the XML files, and the split that both say.
PLACES = [
    ("", ""),
    ("images", "annotations"),
    ("JPEGImages", "xmls"),
    ("data/photos", "data/labels/xml"),
    ("", "annotations"),
    ("img", ""),
]


def write(root: Path, pictures: dict[str, Picture], images: str = "", annotations: str = "") -> Path:
    save_pictures(root / images, pictures)
    (root / annotations).mkdir(parents=True, exist_ok=True)
    for name, picture in pictures.items():
        (root / annotations / f"{Path(name).stem}.xml").write_text(voc_of(name, picture))
    return root


def boxes_of(path: Path) -> list[float]:
    """The boxes that the format's own definition gives: from the first pixel, (1, 1), to the last."""
    sides = []
    for one in ElementTree.parse(path).getroot().iter("object"):
        found = {side.tag: float(side.text or "nan") for side in one.find("bndbox") or ()}
        sides += [found["xmin"] - 1, found["ymin"] - 1, found["xmax"], found["ymax"]]
    return sides


@pytest.mark.parametrize(("images", "annotations"), PLACES)
def test_an_xml_file_belongs_to_the_image_of_its_name(tmp_path, opened, listed, images, annotations):
    root = write(tmp_path, dict(PICTURES), images, annotations)
    samples = listed(opened(root, source="voc"))
    assert list(samples) == [f"{images}/{name}".lstrip("/") for name in PICTURES]
    for name, picture in PICTURES.items():
        sample = samples[f"{images}/{name}".lstrip("/")]
        assert sample.objects.boxes == pytest.approx(boxes_of(root / annotations / f"{Path(name).stem}.xml"))
        assert sample.objects.labels == tuple(label for label, _ in picture.objects)
        assert (sample.split, sample.failure) == (None, None)


@pytest.mark.parametrize(
    ("images", "annotations"), [("{}", "{}"), ("{}/images", "{}/annotations"), ("images/{}", "annotations/{}")]
)
def test_splits_with_equal_names_keep_their_boxes(tmp_path, opened, listed, images, annotations):
    splits = {"train": "train", "valid": "validation", "test": "test"}
    expected = {}
    for number, (folder, split) in enumerate(splits.items()):
        box = (number, number, 20.0 + number, 20.0)
        pictures = {"1.jpg": Picture(40, 60, [("cat", box)]), "2.jpg": Picture(40, 60, [("dog", box)])}
        write(tmp_path, pictures, images.format(folder), annotations.format(folder))
        expected |= {f"{images.format(folder)}/{name}": (split, box) for name in pictures}
    samples = listed(opened(tmp_path, source="voc"))
    assert {key: (sample.split, sample.objects.boxes) for key, sample in samples.items()} == expected


def test_a_name_of_several_images_is_a_failure(tmp_path, opened, listed):
    write(tmp_path, dict(PICTURES), "one", "xml")
    save_pictures(tmp_path / "two", {"a.jpg": PICTURES["a.jpg"]})
    samples = listed(opened(tmp_path, source="voc"))
    failures = {key: sample.failure for key, sample in samples.items() if sample.failure}
    assert list(failures) == ["xml/a.xml"]
    assert failures["xml/a.xml"][0] == "invalid_row"
    assert "several images may be meant" in failures["xml/a.xml"][1]


def test_what_has_no_image_or_no_annotation_is_counted(tmp_path, opened, listed):
    write(tmp_path, dict(PICTURES), "images", "xml")
    (tmp_path / "images/a.jpg").unlink()
    (tmp_path / "xml/b.xml").unlink()
    source = opened(tmp_path, source="voc")
    samples = listed(source)
    assert {key: sample.failure for key, sample in samples.items() if sample.failure} == {
        "xml/a.xml": ("unreadable", "xml/a.xml: no image of this name")
    }
    assert source.notes == [f"1 of 3 images of {tmp_path.name} have no annotation, and are left out"]
    assert [(one.count, one.total) for one in source.unmatched] == [(1, 3)]


@pytest.mark.parametrize("seed", range(4))
def test_random_trees_are_read_as_they_were_written(tmp_path, opened, listed, seed):
    rng = random.Random(seed)
    expected = {}
    for number in range(30):
        folder = rng.choice(["a", "b/c", "train", "d/images"])
        boxes = []
        for _ in range(rng.randrange(4)):
            left, top = rng.randrange(40), rng.randrange(30)
            boxes.append(
                (rng.choice(["cat", "dog"]), (left, top, rng.randrange(left + 1, 61), rng.randrange(top + 1, 41)))
            )
        picture = Picture(40, 60, boxes)
        write(tmp_path, {f"{number}.jpg": picture}, folder, rng.choice([folder, "xml", f"xml/{folder}"]))
        expected[f"{folder}/{number}.jpg"] = [side for _, box in boxes for side in box]
    samples = listed(opened(tmp_path, source="voc", splits=FRACTIONS))
    assert {key: list(sample.objects.boxes) for key, sample in samples.items()} == expected


@pytest.mark.parametrize(("images", "annotations"), PLACES[:3])
def test_the_command_of_a_folder_reads_them(tmp_path, images, annotations):
    root = write(tmp_path / "in", dict(PICTURES), images, annotations)
    argv = [f"--input={root}", "--output=out"]
    with refuses("no_class_folders", "input", "label_pattern", says=["annotations of Pascal VOC"]) as refused:
        read(argv, tmp_path / "listing")
    first, *_ = commands_of(explain(refused.value, "convert", argv))
    assert "--source=voc" in first
    assert read(first, tmp_path / "other")[0] == {"train": {"": 4}}


def test_a_folder_without_any_is_refused(tmp_path, opened):
    save_pictures(tmp_path)
    with refuses("not_found", "input", says=["JPEGImages"]):
        opened(tmp_path, source="voc")
