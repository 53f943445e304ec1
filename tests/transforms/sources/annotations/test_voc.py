"""Folders of Pascal VOC as a source."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import pytest

from beam_tfrecords.errors import SampleError
from beam_tfrecords.transforms.objects.polygons import unpack_polygons
from beam_tfrecords.transforms.sources.annotations.voc_xml import parse_annotation
from tests.annotated_inputs import PICTURES, save_pictures, voc_of, write_voc
from tests.each import each
from tests.refusals import refuses
from tests.transforms.sources.documents.formats import turned

TRAIN = {name: PICTURES[name] for name in ("a.jpg", "b.jpg", "c.jpg")}
VAL = {"d.jpg": PICTURES["d.jpg"]}


@pytest.fixture
def root(tmp_path) -> Path:
    root = write_voc(tmp_path / "VOC2012", {"train": TRAIN, "val": VAL})
    (root / "ImageSets/Main/trainval.txt").write_text("a\nb\nc\nd\n")
    (root / "ImageSets/Main/cat_train.txt").write_text("a  1\nb -1\nc  0\n")
    return root


def test_the_images_of_the_lists_have_their_objects_and_splits(root, opened, listed):
    save_pictures(root / "JPEGImages", {"unlisted.jpg": PICTURES["a.jpg"]})
    source = opened(root, source="voc")
    samples = listed(source)
    assert {key: sample.split for key, sample in samples.items()} == {
        "a.jpg": "train", "b.jpg": "train", "c.jpg": "train", "d.jpg": "validation"
    }  # fmt: skip
    for name, sample in samples.items():
        picture, objects = PICTURES[name], sample.objects
        assert objects.boxes == pytest.approx([side for _, box in picture.objects for side in box])
        assert objects.labels == tuple(label for label, _ in picture.objects)
        assert objects.size == (picture.width, picture.height)
        assert sample.uri == str(root / "JPEGImages" / name)
    assert samples["d.jpg"].objects.values == {
        "difficult": (1, 0, 1), "truncated": (0, 1, 0), "pose": ("Unspecified", "Left", "Left")
    }  # fmt: skip
    assert source.notes == ["1 of 5 images of VOC2012 are in no list of ImageSets/Main, and are left out"]


def test_masks_are_those_of_the_lists_of_segmentation(root, opened, listed):
    save_pictures(root / "JPEGImages", {"unlisted.jpg": PICTURES["a.jpg"]})
    (root / "ImageSets/Segmentation/train.txt").write_text("a\nc\n")
    (root / "SegmentationClass/c.png").unlink()
    source = opened(root, source="voc", needs_mask=True, needs_objects=False, needs_label=False)
    samples = listed(source)
    assert {key: (sample.split, sample.objects) for key, sample in samples.items()} == {
        "a.jpg": ("train", None), "c.jpg": ("train", None), "d.jpg": ("validation", None)
    }  # fmt: skip
    assert samples["a.jpg"].images["mask"].uri == str(root / "SegmentationClass/a.png")
    assert samples["c.jpg"].failure == ("mask_missing", "no mask: SegmentationClass/c.png")
    assert source.notes == ["2 of 5 images of VOC2012 are in no list of ImageSets/Segmentation, and are left out"]
    both = listed(opened(root, source="voc", needs_mask=True))
    assert both["a.jpg"].objects.labels == tuple(label for label, _ in PICTURES["a.jpg"].objects)


def test_without_lists_all_masks_count(root, opened, listed):
    for path in (root / "ImageSets/Segmentation").iterdir():
        path.unlink()
    (root / "SegmentationClass/c.png").unlink()
    source = opened(root, source="voc", needs_mask=True, needs_objects=False, needs_label=False)
    assert sorted(listed(source)) == ["a.jpg", "b.jpg", "d.jpg"]
    assert source.notes == ["1 of 4 images of VOC2012 have no mask, and are left out"]


def test_a_folder_without_masks_is_refused(root, opened):
    (root / "SegmentationClass").rename(root / "masks")
    with refuses("not_found", "input", says=["SegmentationClass", "ImageSets/Segmentation"]):
        opened(root, source="voc", needs_mask=True)
    with refuses("setting_not_applicable", "mask_suffix", "input", says=["voc"]):
        opened(root, source="voc", mask_suffix="_mask")


def test_one_is_subtracted_from_the_first_corner_alone(root):
    objects = parse_annotation((root / "Annotations/b.xml").read_bytes())
    box = ElementTree.fromstring((root / "Annotations/b.xml").read_text()).find("object/bndbox")
    raw = {side.tag: float(side.text) for side in box}
    assert objects.boxes == (raw["xmin"] - 1, raw["ymin"] - 1, raw["xmax"], raw["ymax"])


@pytest.mark.parametrize("lists", ["trainval", None])
def test_without_lists_of_splits_all_are_one(root, opened, listed, lists):
    for path in (root / "ImageSets/Main").iterdir():
        if path.stem != lists:
            path.unlink()
    save_pictures(root / "JPEGImages", {"unlisted.jpg": PICTURES["a.jpg"]})
    source = opened(root, source="voc")
    assert {sample.split for sample in listed(source).values()} == {None}
    assert source.notes[0].endswith(
        f"{'are in no list of ImageSets/Main' if lists else 'have no annotation'}, and are left out"
    )


def test_an_image_of_two_lists_is_in_the_first(root, opened, listed):
    (root / "ImageSets/Main/val.txt").write_text("d\na\n")
    source = opened(root, source="voc")
    assert listed(source)["a.jpg"].split == "train"
    assert source.notes == ["1 images are in several lists of ImageSets/Main, and in the first of these splits"]


def test_what_is_missing_or_broken_is_a_failure_of_its_own(root, opened, listed):
    (root / "Annotations/a.xml").unlink()
    (root / "Annotations/b.xml").write_text("<annotation><object>")
    (root / "JPEGImages/d.jpg").unlink()
    failures = {key: sample.failure for key, sample in listed(opened(root, source="voc")).items() if sample.failure}
    assert {key: failure[0] for key, failure in failures.items()} == {
        "a.jpg": "label_missing", "b.jpg": "invalid_row", "d": "unreadable"
    }  # fmt: skip
    assert failures["a.jpg"][1] == "no annotation: Annotations/a.xml"
    assert failures["b.jpg"][1].startswith("b.xml: not valid XML: no element found")


BOMB = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
REFUSED = {
    "a bomb": f'<!DOCTYPE a [<!ENTITY a0 "x">{BOMB}]><annotation><object><name>&a9;</name></object></annotation>',
    "a file": '<!DOCTYPE a [<!ENTITY f SYSTEM "file:///etc/passwd">]><annotation>&f;</annotation>',
    "a document type": '<!DOCTYPE a SYSTEM "http://localhost/a.dtd"><annotation/>',
}


@pytest.mark.parametrize("text", REFUSED.values(), ids=REFUSED)
def test_entities_are_refused(text):
    with pytest.raises(SampleError, match="the XML has a document type or entities, which are not read") as error:
        parse_annotation(text.encode())
    assert error.value.reason.value == "invalid_row"


@pytest.mark.parametrize("data", [b"", b"\xff\x00", b"<a>&b;</a>", b"{}", b"<?xml version='1.0' encoding='x'?><a/>"])
def test_what_is_not_xml_is_refused(data):
    with pytest.raises(SampleError, match="not valid XML"):
        parse_annotation(data)


def test_deep_nesting_is_read():
    assert parse_annotation(b"<a>" * 100_000 + b"</a>" * 100_000).labels == ()


@pytest.mark.parametrize("size", ["0", "", "x", "-5", "nan", "inf", "1e30"])
def test_a_size_that_says_nothing_is_none(size):
    text = voc_of("b.jpg", PICTURES["b.jpg"]).replace("<width>50", f"<width>{size}")
    assert parse_annotation(text.encode()).size is None


def test_an_object_without_a_box_has_none_and_one_without_a_name_is_refused():
    text = "<annotation><object><name>a</name></object></annotation>"
    assert all(side != side for side in parse_annotation(text.encode()).boxes)
    with pytest.raises(SampleError, match="an object has no name"):
        parse_annotation(text.replace("<name>a</name>", "").encode())


SHAPES = {
    "turned": "<robndbox><cx>20</cx><cy>10</cy><w>16</w><h>8</h><angle>{turn}</angle></robndbox>",
    "corners": "<robndbox>{names}</robndbox>",
    "polygon": "<bndbox><xmin>3</xmin><ymin>5</ymin><xmax>9</xmax><ymax>8</ymax></bndbox><polygon>{numbers}</polygon>",
    "quad": "<bndbox>{numbers}</bndbox>",
}


@each("name", SHAPES)
def test_turned_boxes_and_polygons_are_read(name):
    corners = turned((12, 6, 28, 14), 30, (20, 10))
    points = list(zip(corners[::2], corners[1::2], strict=True))
    sides = ("left_top", "right_top", "right_bottom", "left_bottom")
    shape = SHAPES[name].format(
        turn=math.radians(30),
        numbers="".join(f"<x{n}>{x}</x{n}><y{n}>{y}</y{n}>" for n, (x, y) in enumerate(points, 1)),
        names="".join(f"<x_{n}>{x}</x_{n}><y_{n}>{y}</y_{n}>" for n, (x, y) in zip(sides, points, strict=True)),
    )
    box = "<object><name>a</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>8</ymax></bndbox></object>"
    text = f"<annotation><object><name>b</name>{shape}</object>{box}</annotation>"
    objects = parse_annotation(text.encode())
    around = [min(corners[::2]), min(corners[1::2]), max(corners[::2]), max(corners[1::2])]
    expected = [2, 4, 9, 8] if name == "polygon" else around
    assert objects.boxes == pytest.approx([*expected, 0, 0, 9, 8])
    assert objects.polygons[1] == b""
    (polygon,) = unpack_polygons(objects.polygons[0])
    assert polygon.ravel() == pytest.approx(corners, abs=1e-4)


def test_an_angle_of_degrees_is_refused():
    shape = SHAPES["turned"].format(turn=45)
    with pytest.raises(SampleError, match="the angle 45 of a box is no number of radians"):
        parse_annotation(f"<annotation><object><name>b</name>{shape}</object></annotation>".encode())


def test_several_folders_have_their_names_in_the_keys(root, opened, listed):
    other = write_voc(root.parent / "VOC2007", {"train": VAL})
    samples = listed(opened(root, f"{other}", source="voc"))
    assert list(samples) == ["VOC2012/a.jpg", "VOC2012/b.jpg", "VOC2012/c.jpg", "VOC2012/d.jpg", "VOC2007/d.jpg"]


def test_another_folder_is_refused(root, opened):
    with refuses("not_found", "input", says=["JPEGImages"]):
        opened(root.parent, source="voc")
