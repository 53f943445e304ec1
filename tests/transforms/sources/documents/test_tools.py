"""What the documents of tools have besides the objects that all formats share."""

from __future__ import annotations

import numpy as np
import pytest

from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.objects.polygons import unpack_polygons
from beam_tfrecords.transforms.sources.annotated import recognition
from tests.each import each
from tests.transforms.sources.documents.formats import (
    IMAGES,
    bdd_frames,
    in_pixels,
    polygons_of,
    turned,
    via_images,
    write_json,
    write_labelstudio_csv,
    write_lines,
    write_via_1,
)


@each("version", ["project", "version 1", "frames"])
def test_other_forms_of_a_format_are_the_same(version, folder, opened, listed):
    if version == "frames":
        lists = write_json(folder / "1.json", bdd_frames()), write_json(folder / "2.json", {"frames": bdd_frames()})
        name = "bdd100k"
    else:
        name = "via"
        other = write_via_1(folder) if version == "version 1" else folder / "list.json"
        lists = write_json(folder / "1.json", {"_via_img_metadata": via_images(as_lists=True)}), other
        if version == "project":
            write_json(other, via_images(as_lists=True))
    first, second = (listed(opened(path, mapping=name, needs_polygons=True)) for path in lists)
    assert first == second
    assert len(first) == len(IMAGES)


def test_a_turned_box_of_label_studio_turns_in_pixels(folder, opened, listed):
    value = {"x": 50, "y": 25, "width": 20, "height": 10, "rotation": 30, "rectanglelabels": ["cat"]}
    result = {"type": "rectanglelabels", "original_width": 60, "original_height": 40, "value": value}
    tasks = [{"data": {"image": "a.jpg"}, "annotations": [{"result": [result]}]}]
    path = write_json(folder / "tasks.json", tasks)
    (sample,) = listed(opened(path, mapping="labelstudio", needs_polygons=True)).values()
    corners = turned((30, 10, 42, 14), 30, (30, 10))
    assert polygons_of(sample) == [[pytest.approx(corners, abs=1e-4)]]
    assert in_pixels(sample) == [pytest.approx([min(corners[::2]), 10, max(corners[::2]), max(corners[1::2])])]


def test_a_turned_box_of_cvat_turns_around_its_center(folder, opened, listed):
    box = '<box label="cat" xtl="10" ytl="20" xbr="30" ybr="26" rotation="90.0"></box>'
    (folder / "a.xml").write_text(
        f'<annotations><image name="a.jpg" width="60" height="40">{box}</image></annotations>'
    )
    (sample,) = listed(opened(folder / "a.xml", mapping="cvat")).values()
    assert in_pixels(sample) == [pytest.approx([17, 13, 23, 33])]


def test_a_circle_of_via_is_in_its_box(folder, opened, listed):
    shape = {"name": "circle", "cx": 20, "cy": 15, "r": 4.5}
    region = {"shape_attributes": shape, "region_attributes": {"kind": "coin"}}
    path = write_json(folder / "1.json", {"a": {"filename": "a.jpg", "regions": [region]}})
    (sample,) = listed(opened(path, mapping="via")).values()
    assert (sample.objects.labels, in_pixels(sample)) == (("coin",), [[15.5, 10.5, 24.5, 19.5]])


def test_a_region_of_via_with_several_attributes_has_no_class(folder, opened, listed):
    shape = {"name": "rect", "x": 1, "y": 2, "width": 3, "height": 4}
    good = {"shape_attributes": shape, "region_attributes": {"kind": "coin"}}
    region = {"shape_attributes": shape, "region_attributes": {"kind": "coin", "color": "red"}}
    images = {n: {"filename": f"{n}.jpg", "regions": [one]} for n, one in {"a": good, "b": region}.items()}
    samples = listed(opened(write_json(folder / "1.json", images), mapping="via"))
    assert samples["a.jpg"].failure is None
    assert samples["b.jpg"].failure[0] == "label_missing"
    assert "'kind': 'coin', 'color': 'red'" in samples["b.jpg"].failure[1]


def via_region(attributes):
    return {
        "shape_attributes": {"name": "rect", "x": 1, "y": 2, "width": 3, "height": 4},
        "region_attributes": attributes,
    }


def vott_asset(*regions):
    asset = {"name": "a.jpg", "size": {"width": 60, "height": 40}}
    sides = {"left": 1, "top": 2, "width": 3, "height": 4}
    return {
        "a": {
            "asset": asset,
            "regions": [{"type": "RECTANGLE", "tags": tags, "boundingBox": sides} for tags in regions],
        }
    }


# VIA's checkboxes, and VoTT's tags: one of two objects has two.
SEVERAL = {
    "via": {
        "a": {
            "filename": "a.jpg",
            "regions": [via_region({"kind": {"cat": True, "pet": True}}), via_region({"n": "x"})],
        }
    },
    "vott": {"assets": vott_asset(["cat", "pet"], ["x"])},
}


@each("name", SEVERAL)
def test_an_object_of_several_classes_is_an_object_for_each(name, folder, opened, listed):
    source = opened(write_json(folder / "x-export.json", SEVERAL[name]), mapping=name)
    (sample,) = listed(source).values()
    assert (sample.objects.labels, in_pixels(sample)) == (("cat", "pet", "x"), [[1, 2, 4, 6]] * 3)
    assert source.notes[-1] == "1 objects have several classes, and are an object for each"


def test_a_region_of_vott_without_tags_is_left_out_and_counted(folder, opened, listed):
    path = write_json(folder / "x-export.json", {"assets": vott_asset([], ["x"])})
    source = opened(path, mapping="vott")
    (sample,) = listed(source).values()
    assert (sample.objects.labels, source.notes[-1][-45:]) == (("x",), ", and are left out, such as 'type: RECTANGLE'")


def studio_task(*annotations):
    return [{"data": {"photo": "/data/upload/1/a.jpg"}, "annotations": list(annotations)}]


def studio_annotation(*classes, **more):
    value = {"x": 50, "y": 25, "width": 20, "height": 10}
    results = [
        {
            "type": "rectanglelabels",
            "original_width": 60,
            "original_height": 40,
            "value": {**value, "rectanglelabels": [one]},
        }
        for one in classes
    ]
    return {"result": results, **more}


@each("chosen", ["first", "ground truth"])
def test_one_of_several_annotations_of_label_studio_is_read_and_a_note_says_so(chosen, folder, opened, listed):
    tasks = studio_task(
        studio_annotation("skipped", was_cancelled=True),
        studio_annotation("first"),
        studio_annotation("ground truth", "ground truth", ground_truth=chosen == "ground truth"),
    )
    source = opened(write_json(folder / "tasks.json", tasks), mapping="labelstudio")
    (sample,) = listed(source).values()
    assert set(sample.objects.labels) == {chosen}
    assert "1 of 1 samples have several annotations; the mapping labelstudio reads one" in source.notes


def test_boxes_of_label_studio_may_have_their_classes_in_labels(folder, opened, listed):
    value = {"x": 50, "y": 25, "width": 20, "height": 10, "labels": ["cat"]}
    region = {"original_width": 60, "original_height": 40, "id": "x"}
    results = [{**region, "type": "labels", "value": value}, {**region, "type": "rectangle", "value": {"x": 1, "y": 2}}]
    path = write_json(folder / "tasks.json", studio_task({"result": results}))
    (sample,) = listed(opened(path, mapping="labelstudio")).values()
    assert (sample.objects.labels, in_pixels(sample)) == (("cat",), [[30, 10, 42, 14]])


def test_images_of_label_studio_may_have_several_choices(folder, opened, listed):
    kinds = {"type": "choices", "value": {"choices": ["cat", "indoor"]}}
    of_region = {"type": "choices", "value": {"x": 1, "y": 2, "width": 3, "height": 4, "choices": ["blurred"]}}
    path = write_json(folder / "tasks.json", studio_task({"result": [of_region, kinds]}))
    (sample,) = listed(opened(path, mapping="labelstudio_classes")).values()
    assert sample.label == ["cat", "indoor"]
    (found,) = recognition.suggest_mappings([str(path)])
    assert found.settings == {"mapping": "labelstudio_classes", "layout": "multilabel"}


def test_rows_of_several_annotators_are_not_objects_of_one(folder, opened):
    """Two rows of one image would have each object twice."""
    path = write_labelstudio_csv(folder)
    source = opened(path, mapping="labelstudio_csv")
    assert not source.description.groups_rows


def test_adjusted_boxes_of_sagemaker_replace_those_before(folder, opened, listed):
    def label(left):
        box = {"class_id": 5, "left": left, "top": 2, "width": 3, "height": 4}
        return {"image_size": [{"width": 60, "height": 40, "depth": 3}], "annotations": [box]}

    line = {"source-ref": "s3://bucket/a.jpg", "boxes": label(1), "boxes-metadata": {"class-map": {"5": "toy"}}}
    adjusted = {"class-map": {"5": "bone"}, "adjustment-status": "adjusted"}
    path = write_lines(folder / "x.manifest", [{**line, "new-boxes": label(9), "new-boxes-metadata": adjusted}])
    source = opened(path, mapping="sagemaker")
    (sample,) = listed(source).values()
    assert (sample.objects.labels, in_pixels(sample)) == (("bone",), [[9, 2, 12, 6]])
    assert source.notes[1:] == ["1 of 1 samples have several annotations; the mapping sagemaker reads one"]


def test_the_words_of_icdar_are_a_column(folder, opened, listed):
    (folder / "gt_a.txt").write_text("﻿0,0,9,0,9,9,0,9,EXIT, 12\n1,1,2,1,2,2,1,2,###\n", encoding="utf-8")
    (sample,) = listed(opened(folder, mapping="icdar2015", columns=frozenset({"texts"}))).values()
    assert (sample.columns, sample.objects.labels) == ({"texts": ["EXIT, 12"]}, ("text",))


# Words in documents of text: what an image has in the column `texts`.
TEXTS = {
    "icdar2013": ("gt_a.txt", '1, 2, 30, 8, "say "hi", Bob"\n3, 4, 5, 6, "on"\n', ['say "hi", Bob', "on"]),
    "sroie": ("box/a.csv", '0,0,9,0,9,9,0,9,"1,20" OFF, 3\n1,1,2,1,2,2,1,2,A;B\n', ['"1,20" OFF, 3', "A;B"]),
    "paddleocr": (
        "Label.txt",
        'x/a.jpg\t[{"transcription": "a\\tb, c", "points": [[1, 2], [3, 2], [3, 4]]}]\nx/a.jpg\t1\n',
        ["a\tb, c"],
    ),
}


@each("name", TEXTS)
def test_texts_keep_their_quotes_and_commas(name, folder, opened, listed):
    path, text, texts = TEXTS[name]
    (folder / path).parent.mkdir(exist_ok=True)
    (folder / path).write_text(text)
    (sample,) = listed(opened(folder, mapping=name, columns=frozenset({"texts"}))).values()
    assert (sample.failure, sample.columns) == (None, {"texts": texts})
    assert sample.objects.labels == ("text",) * len(texts)


def test_a_class_of_oidv4_may_have_several_words(folder, opened, listed):
    (folder / "Polar bear/Label").mkdir(parents=True)
    (folder / "a.jpg").rename(folder / "Polar bear/a.jpg")
    (folder / "Polar bear/Label/a.txt").write_text("Polar bear 1.5 2.0 30.25 40.0\n")
    (sample,) = listed(opened(folder, mapping="oidv4")).values()
    assert (sample.objects.labels, in_pixels(sample)) == (("Polar bear",), [[1.5, 2, 30.25, 40]])


def test_parts_of_dlib_are_keypoints_in_the_order_of_their_names(folder, opened, listed):
    parts = "".join(f"<part name='{name}' x='{x}' y='9'/>" for name, x in (("01", 5), ("00", 3)))
    boxes = f"<box top='1' left='2' width='3' height='4'>{parts}</box><box top='1' left='2' width='3' height='4'/>"
    (folder / "x.xml").write_text(f"<dataset><images><image file='a.jpg'>{boxes}</image></images></dataset>")
    (sample,) = listed(opened(folder / "x.xml", mapping="dlib", needs_keypoints=True)).values()
    assert sample.objects.labels == ("object", "object")
    assert [np.frombuffer(one, np.float32).tolist() for one in sample.objects.keypoints] == [
        [3, 9, 2, 5, 9, 2],
        [0] * 6,
    ]


def test_predictions_of_fiftyone_are_not_read_beside_the_truth(folder, opened, listed):
    def field(label):
        return {"_cls": "Detections", "detections": [{"label": label, "bounding_box": [0, 0, 0.5, 0.5]}]}

    sample = {"filepath": "a.jpg", "tags": [], "predictions": field("dog"), "ground_truth": field("cat")}
    source = opened(write_json(folder / "samples.json", {"samples": [sample]}), mapping="fiftyone")
    (found,) = listed(source).values()
    assert found.objects.labels == ("cat",)
    assert "1 of 1 samples have several annotations; the mapping fiftyone reads one" in source.notes


def test_splits_of_images_are_those_of_the_documents(folder, opened, listed):
    images = {str(n): {"path": f"{split}/{n}.jpg", "objects": []} for n, split in {"a": "test", "b": "other"}.items()}
    path = write_json(folder / "annotations.json", {"imgs": images})
    splits = [sample.split for _, sample in sorted(listed(opened(path, mapping="tt100k")).items())]
    assert splits == ["test", "other"]
    samples = [{"filepath": f"{n}.jpg", "tags": tags, "x": {"_cls": "Classification", "label": "y"}}
               for n, tags in {"a": ["far", "val"], "b": []}.items()]  # fmt: skip
    path = write_json(folder / "samples.json", {"samples": samples})
    assert [one.split for one in listed(opened(path, mapping="fiftyone_classes")).values()] == ["val", None]


def test_images_of_visual_genome_may_have_only_numbers(folder, opened, listed):
    (folder / "a.jpg").rename(folder / "7.jpg")
    found = {"names": ["man", "person"], "x": 1, "y": 2, "w": 3, "h": 4}
    path = write_json(folder / "objects.json", [{"image_id": 7, "objects": [found]}])
    (sample,) = listed(opened(path, mapping="visual_genome")).values()
    assert sample.objects.labels == ("man", "person")


# Well-known text -> polygons with a line to each hole and back.
WKT = {
    "POLYGON ((1 1, 9 1, 9 9, 1 1), (2 2,3 2,3 3,2 2))": [[1, 1, 9, 1, 9, 9, 1, 1, 2, 2, 3, 2, 3, 3, 2, 2]],
    "MULTIPOLYGON (((1 1, 9 1, 9 9, 1 1)), ((2 2, 3 2, 3 3, 2 2)))": [[1, 1, 9, 1, 9, 9], [2, 2, 3, 2, 3, 3]],
    "polygon Z((1 1 0, 9 1 0, 9 9 0, 1 1 0))": [[1, 1, 9, 1, 9, 9]],
    "POINT (1 2)": "'POINT (1 2)' is no POLYGON or MULTIPOLYGON of well-known text",
    None: "'None' is no POLYGON or MULTIPOLYGON of well-known text",
}


@each("text", WKT)
def test_polygons_may_be_well_known_text(text, folder, opened, listed):
    good = {"properties": {"feature_type": "building"}, "wkt": "POLYGON ((1 1, 9 1, 9 9, 1 1))"}
    for letter, found in (("a", {**good, "wkt": text}), ("b", good)):
        metadata = {"img_name": f"{letter}.jpg"}
        write_json(folder / f"labels/{letter}.json", {"features": {"xy": [found]}, "metadata": metadata})
    samples = listed(opened(folder, mapping="xview2", needs_polygons=True))
    assert samples["b.jpg"].failure is None
    if isinstance(WKT[text], str):
        assert WKT[text] in samples["a.jpg"].failure[1]
    else:
        assert polygons_of(samples["a.jpg"]) == [WKT[text]]


def test_class_names_may_be_those_of_the_document(folder, opened, listed):
    """Those of a sample come first; a document of another order of classes has its own."""
    (folder / "my.yaml").write_text("""
documents: "*.json"
samples: items[]
image: image
label: label
class_names: about.classes
""")
    more = [{"image": "b.jpg", "label": 0, "about": {"classes": ["fish"]}}]
    write_json(
        folder / "1.json", {"items": [{"image": "a.jpg", "label": 1}, *more], "about": {"classes": ["cat", "dog"]}}
    )
    write_json(folder / "2.json", {"about": {"classes": {"1": "bird"}}, "items": [{"image": "c.jpg", "label": 1}]})
    write_json(folder / "3.json", {"items": [{"image": "d.jpg", "label": 1}]})
    source = opened(folder, mapping=str(folder / "my.yaml"))
    samples = listed(source)
    assert [samples[f"{letter}.jpg"].label for letter in "abcd"] == ["dog", "fish", "bird", 1]
    assert not [note for note in source.notes if "class_names" in note]
    assert "about" in source.description.uses


def test_objects_of_one_image_may_be_apart_in_json(folder, opened):
    (folder / "my.yaml").write_text("samples: found[]\nimage: image\nclass: name\nbox: box\nform: xyxy\n")
    found = [{"image": "a.jpg", "name": name, "box": [1, 2, 3, 4]} for name in ("cat", "dog")]
    source = opened(write_json(folder / "1.json", {"found": found}), mapping=str(folder / "my.yaml"))
    assert source.description.groups_rows


def test_a_kind_without_others_is_read_beside_one_with_others(folder, opened, listed):
    """Elements of other kinds in images of their own are not all that there is."""
    boxes = {"_cls": "Detections", "detections": [{"label": "cat", "bounding_box": [0, 0, 0.5, 0.5]}]}
    lines = {"_cls": "Polylines", "polylines": [{"label": "lane", "points": [[[0, 0], [1, 1]]], "closed": False}]}
    samples = [{"filepath": "a.jpg", "truth": boxes}, {"filepath": "b.jpg", "truth": lines}]
    source = opened(write_json(folder / "samples.json", {"samples": samples}), mapping="fiftyone")
    assert len(listed(source)) == 2
    assert [note[:48] for note in source.notes if "of no kind" in note] == [
        "1 of 2 elements are of no kind that the mapping "
    ]


# Pixels that are no polygons, in images of their own.
BITMAP = {"id": 7, "classTitle": "cat", "geometryType": "bitmap", "bitmap": {"data": "eJwBgQB+", "origin": [3, 4]}}
BRUSH = {"original_width": 60, "id": "x1", "type": "brushlabels", "value": {"format": "rle", "rle": [0, 0, 1]}}
BRUSHES = {
    "supervisely": ("ann/a.jpg.json", {"size": {}, "objects": [BITMAP]}, "classTitle: cat, geometryType: bitmap"),
    "labelstudio": ("tasks.json", studio_task({"result": [BRUSH]}), "id: x1, type: brushlabels"),
    "labelstudio_min": ("min.json", [{"image": "a.jpg", "kind": [{**BRUSH, **BRUSH["value"]}]}], "format: rle"),
}


@each("name", BRUSHES)
def test_pixels_of_objects_are_refused_by_name(name, folder, opened, listed):
    path, document, words = BRUSHES[name]
    write_json(folder / path, document)
    with pytest.raises(RequestError) as error:
        listed(opened(folder, mapping=name))
    assert "reads none of 1 elements, which are of other kinds, such as '" in str(error.value)
    assert words in str(error.value)


def test_images_of_one_name_are_in_the_folder_with_the_name_of_their_document(tmp_path, opened, listed):
    box = {"type": "bbox", "label_id": 0, "bbox": [1, 2, 3, 4]}
    for subset, label in (("train", "cat"), ("val", "dog")):
        (tmp_path / "images" / subset).mkdir(parents=True)
        (tmp_path / "images" / subset / "0.jpg").write_bytes(b"pixels")
        categories = {"label": {"labels": [{"name": label}]}}
        items = [{"id": "0", "annotations": [box], "image": {"path": "0.jpg"}}]
        write_json(tmp_path / f"annotations/{subset}.json", {"categories": categories, "items": items})
    samples = listed(opened(tmp_path, mapping="datumaro"))
    found = {key: (sample.split, sample.objects.labels) for key, sample in samples.items()}
    assert found == {"images/train/0.jpg": ("train", ("cat",)), "images/val/0.jpg": ("validation", ("dog",))}


# A mask of 40 x 60 pixels (height x width): the pixels (1, 2), (1, 3) and (2, 2), in columns.
RUNS = {"size": [40, 60], "counts": [42, 2, 38, 1, 2317]}


@each("runs", [RUNS, {**RUNS, "counts": "Z12V1OWW2"}, {**RUNS, "counts": [2400]}, {**RUNS, "counts": [1, 2]}])
def test_masks_of_datumaro_are_read(runs, folder, opened, listed):
    masks = [{"type": "mask", "label_id": 0, "rle": runs}]
    items = [{"id": name, "annotations": masks if name == "a" else []} for name in "ab"]
    write_json(folder / "annotations/x.json", {"categories": {"label": {"labels": [{"name": "cat"}]}}, "items": items})
    source = opened(folder, mapping="datumaro", needs_polygons=True)
    sample = listed(source)["a.jpg"]
    assert [field for _, field in source.skipped.fields if "rle" in field] == ["items[].annotations[].rle"]
    if len(runs["counts"]) < 5:
        assert "expected pixels of an object in run lengths of COCO" in sample.failure[1]
    else:
        assert (sample.objects.labels, in_pixels(sample)) == (("cat",), [[1, 2, 3, 4]])
        assert np.argwhere(unpack_polygons(sample.objects.polygons[0]).mask()).tolist() == [[2, 1], [2, 2], [3, 1]]
