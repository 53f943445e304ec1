"""Inputs of public questions, rebuilt small: each is read by one command, or by one that its refusal offers.

| cases | test |
|---|---|
| keras-retinanet#309, keras-yolo3#520, Faster_RCNN_Open_Images#37, BDD100K, KITTI (DIGITS#992), VIA in csv and json, \
ICDAR 2015, VisDrone#2, Supervisely, Label Studio, Ground Truth, Vertex, CrowdHuman, labelme#71 with masks | \
`mappings.yaml`, `properties/test_known_formats.py` |
| driving logs, Great Barrier Reef, labelImg with `label_map.pbtxt` | here |
| masks of colors (tensorflow#37243) | `tests/cases/mask_colors.yaml` |
| UTKFace, two heads (keras#11638) | `test_heads.py`, `columns.yaml` |
| CelebA, NYU Depth, LFW as folders | `tests/cases/public.yaml` |
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path

import pytest

from beam_tfrecords.beam_pipelines.settings.suggested_commands import explain
from beam_tfrecords.errors import RequestError
from tests.beam_pipelines.listed_records import PICTURE, commands_of, list_samples


def offers_of(argv: list[str], folder: Path) -> list[list[str]]:
    """The commands that a refusal offers."""
    with pytest.raises(RequestError) as refused:
        list_samples(argv, folder / "refused")
    return commands_of(explain(refused.value, "convert", argv))


def save_images(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(PICTURE)


def test_several_classes_of_an_image_are_offered_with_their_layout_alone(tmp_path):
    """Label Studio's choices may be several, and one label is not enough then."""
    save_images(tmp_path, *(f"in/{number}.png" for number in range(4)))
    choices = {"type": "choices", "value": {"choices": ["cat", "indoor"]}}
    tasks = [{"data": {"image": f"/{number}.png"}, "annotations": [{"result": [choices]}]} for number in range(4)]
    (tmp_path / "in/tasks.json").write_text(json.dumps(tasks))
    first, *others = offers_of([f"--input={tmp_path / 'in'}", "--output=out"], tmp_path)
    assert first[-2:] == ["--mapping=labelstudio_classes", "--layout=multilabel"]
    assert [one[-1] for one in others] == ["--layout=image"]
    assert len(list_samples(first, tmp_path / "listing").refs) == 4


def test_a_driving_log_has_three_images_in_a_row_and_spaces_after_commas(tmp_path):
    paths = [[f"IMG/{view}_{number}.jpg" for view in ("center", "left", "right")] for number in range(4)]
    save_images(tmp_path, *(path for row in paths for path in row))
    rows = [f"{', '.join(row)}, {number / 10}, 0.5, 30.1\n" for number, row in enumerate(paths)]
    log = tmp_path / "driving_log.csv"
    log.write_text("".join(["center,left,right,steering,throttle,speed\n", *rows]))
    argv = [f"--input={log}", "--output=out"]
    images = "--image_column=center,left,right"
    assert [one for one in offers_of(argv, tmp_path) if images in one] == [[*argv, images, "--layout=image"]]
    listed = list_samples([*argv, images, "--label_column=steering", "--label_type=float"], tmp_path / "listing")
    assert [
        (len(ref.images), float(ref.columns["steering"])) for ref in sorted(listed.refs, key=lambda ref: ref.key)
    ] == [(3, number / 10) for number in range(4)]


REEF = r"""
documents: "*.csv"
samples: "[]"
image: "join('', ['video_', video_id, '/', video_frame, '.jpg'])"
objects: "json(join('\"', split(annotations, '\\'')))"
class: "'starfish'"
box: [x, y, width, height]
form: xywh
"""


def test_boxes_in_a_cell_in_the_way_of_python_need_a_mapping_of_one_s_own(tmp_path):
    """Great Barrier Reef on Kaggle."""
    save_images(tmp_path, *(f"train_images/video_0/{number}.jpg" for number in range(3)))
    box = {"x": 1, "y": 2, "width": 3, "height": 4}
    with (tmp_path / "train.csv").open("w", newline="") as file:
        header = ["video_id", "sequence", "video_frame", "sequence_frame", "image_id", "annotations"]
        csv.writer(file).writerows(
            [header, *([0, 40258, number, number, f"0-{number}", str([box] * number)] for number in range(3))]
        )
    (tmp_path / "reef.yaml").write_text(REEF)
    argv = [f"--input={tmp_path / 'train.csv'}", f"--mapping={tmp_path / 'reef.yaml'}", "--layout=detection"]
    listed = list_samples([*argv, "--output=out"], tmp_path / "listing")
    found = sorted((ref.key, ref.objects.labels, ref.objects.boxes) for ref in listed.refs)
    assert found == [
        (f"train_images/video_0/{number}.jpg", ("starfish",) * number, (1, 2, 4, 6) * number) for number in range(3)
    ]


def test_boxes_of_labelimg_take_the_ids_of_their_label_map(tmp_path):
    for number, name in enumerate(("raccoon", "fox", "fox")):
        save_images(tmp_path, f"in/images/{number}.jpg")
        box = "<bndbox><xmin>2</xmin><ymin>3</ymin><xmax>8</xmax><ymax>8</ymax></bndbox>"
        (tmp_path / f"in/images/{number}.xml").write_text(
            f"<annotation><folder>images</folder><filename>{number}.jpg</filename><size><width>8</width><height>8"
            f"</height></size><object><name>{name}</name>{box}</object></annotation>"
        )
    items = [f"item {{\n  id: {number}\n  name: '{name}'\n}}\n" for number, name in ((1, "raccoon"), (2, "fox"))]
    (tmp_path / "in/label_map.pbtxt").write_text("".join(items))
    command, _ = offers_of([f"--input={tmp_path / 'in'}", "--output=out"], tmp_path)
    named = list_samples([*command, f"--class_names={tmp_path / 'in/label_map.pbtxt'}"], tmp_path / "listing")
    assert named.classes.names == ("raccoon", "fox")
    assert Counter(label for ref in named.refs for label in ref.objects.labels) == {"raccoon": 1, "fox": 2}
