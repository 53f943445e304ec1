"""Which features of a TFDS dataset are the boxes of an image and their classes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from beam_tfrecords.beam_pipelines.settings.suggested_commands import explain
from beam_tfrecords.transforms.sources.records.folder_metadata import Features, parse_features
from beam_tfrecords.transforms.sources.records.object_features import find_object_features
from tests.beam_pipelines.listed_records import PICTURE, commands_of, read
from tests.each import each
from tests.framing import write_examples
from tests.refusals import refuses

_TFDS = "tensorflow_datasets.core.features"
# The features of `kitti` and of others in the catalog of TFDS: those with boxes, by their names and classes.
KITTI = ["alpha", "bbox:BBox", "dimensions", "location", "occluded:Class", "rotation_y", "truncated", "type:Class"]


def features_of(tree: Mapping[str, Any]) -> bytes:
    """What TFDS writes as features.json; a list is a sequence of dictionaries."""

    def feature(value: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            below = {name: feature(one) for name, one in value.items()}
            return {"pythonClassName": f"{_TFDS}.features_dict.FeaturesDict", "featuresDict": {"features": below}}
        if isinstance(value, list):
            pairs = (name.partition(":") for name in value)
            inner = feature({name: {"BBox": "BBoxFeature", "Class": "ClassLabel"}.get(kind) for name, _, kind in pairs})
            return {"pythonClassName": f"{_TFDS}.sequence_feature.Sequence", "sequence": {"feature": inner}}
        return {"pythonClassName": f"{_TFDS}.{value or 'Tensor'}"}

    return json.dumps(feature(tree)).encode()


def found(tree: Mapping[str, Any], image: str = "image", label: str | None = None):
    described = parse_features(features_of(tree))
    columns = [*described.images, *described.boxes, *described.labels, "objects/is_crowd"]
    objects = find_object_features(columns, described, image=image, shown="`input=x`", label=label)
    return objects and (*objects.boxes, objects.label)


@each(
    "names, label",
    [
        (KITTI, "type"),
        (["bbox:BBox", "area", "is_crowd", "label:Class"], "label"),
        (["bbox:BBox", "is_truncated", "label:Class", "pose:Class"], "label"),
        (["bbox:BBox", "attribute:Class", "category:Class"], "category"),
        (["action:Class", "bbox:BBox", "class:Class", "type:Class"], "class"),
        (["bbox:BBox", "species:Class"], "species"),
    ],
)
@each("turned", [False, True])
def test_the_usual_name_is_the_class(names, label, turned):
    tree = {"image": "Image", "objects": names[::-1] if turned else names}
    assert found(tree) == ("objects/bbox", f"objects/{label}")


def test_no_usual_name_is_refused_with_the_choices():
    tree = {"image": "Image", "objects": ["bbox:BBox", "color:Class", "shape:Class"]}
    with refuses("several_label_features", "input", says=["input=x", "objects/color, objects/shape"]) as refused:
        found(tree)
    assert [one.settings["label_column"] for one in refused.value.suggestions] == ["objects/color", "objects/shape"]
    for name in ("color", "shape"):
        assert found(tree, label=f"objects/{name}") == ("objects/bbox", f"objects/{name}")
    assert found(tree, label="objects/none") is None


def test_the_boxes_are_those_of_the_image():
    sides = {side: {"image": "Image", "objects": ["bbox:BBox", "label:Class"]} for side in ("left", "right")}
    for side in sides:
        assert found(sides, f"{side}/image") == (f"{side}/objects/bbox", f"{side}/objects/label")
    tree = {"image": "Image", "objects": ["bbox:BBox", "label:Class"], **sides}
    assert found(tree) == ("objects/bbox", "objects/label")
    assert found(tree, "right/image") == ("right/objects/bbox", "right/objects/label")
    assert found({"image": "Image", "other": {"image": "Image", "objects": ["bbox:BBox", "label:Class"]}}) is None
    assert found({"camera": {"image": "Image"}, "objects": ["bbox:BBox", "label:Class"]}, "camera/image") is not None


def test_two_kinds_of_boxes_are_refused_with_the_choices():
    tree = {"image": "Image", "faces": ["bbox:BBox", "label:Class"], "objects": ["bbox:BBox", "label:Class"]}
    with refuses("several_label_features", "input"):
        found(tree)
    assert found(tree, label="faces/label") == ("faces/bbox", "faces/label")


def test_records_of_the_object_detection_api_have_their_own_names():
    columns = [f"image/object/bbox/{side}" for side in ("xmin", "ymin", "xmax", "ymax")]
    columns += ["image/object/class/text", "image/object/class/label", "image/class/label"]
    for label, expected in ((None, "text"), ("image/object/class/label", "label"), ("image/class/label", None)):
        objects = find_object_features(columns, Features(), image="image/encoded", shown="", label=label)
        assert (objects and objects.label) == (expected and f"image/object/class/{expected}")


def test_each_command_of_the_refusal_reads_its_classes(tmp_path):
    tree = {"image": "Image", "objects": ["bbox:BBox", "color:Class", "shape:Class"]}
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "features.json").write_bytes(features_of(tree))
    (folder / "objects-color.labels.txt").write_text("red\ngreen\n")
    (folder / "objects-shape.labels.txt").write_text("ball\ncube\nrod\n")
    example = {"image": PICTURE, "objects/bbox": [0.1, 0.2, 0.3, 0.4], "objects/color": 1, "objects/shape": 2}
    write_examples(folder / "x-train.tfrecord-00000-of-00001", [example])
    argv = ["--source=tfrecord", f"--input={folder}", "--output=out"]
    with refuses("several_label_features", "input") as refused:
        read(argv, tmp_path / "listing")
    commands = commands_of(explain(refused.value, "convert", argv))
    given = [read(command, tmp_path / f"{number}") for number, command in enumerate(commands)]
    assert [records for records, _ in given] == [{"train": {"": 1}}] * 2
