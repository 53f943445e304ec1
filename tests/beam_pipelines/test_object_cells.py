"""Objects in the cells of a table: the same as those of COCO."""

from __future__ import annotations

import json

from tests.annotated_inputs import coco_of, save_pictures, write_coco
from tests.beam_pipelines.test_dataset_input import examples


def test_objects_of_a_table_have_all_their_fields(build, tmp_path):
    save_pictures(tmp_path / "in")
    content = coco_of()
    for one in content["annotations"]:
        x, y, width, height = one["bbox"]
        one |= {"segmentation": [[x, y, x + width, y, x + width, y + height]], "keypoints": [x, y, 2, x + 1, y + 2, 1]}
    path = write_coco(tmp_path / "in/a.json", annotations=content["annotations"])
    names = {one["id"]: one["name"] for one in content["categories"]}
    rows = []
    for image in content["images"]:
        own = [one for one in content["annotations"] if one["image_id"] == image["id"]]
        fields = ("bbox", "segmentation", "keypoints", "area", "iscrowd")
        objects = [{name: one.get(name) for name in fields} | {"category": names[one["category_id"]]} for one in own]
        rows.append({"image": image["file_name"], "source_id": str(image["id"]), "objects": objects})
    (tmp_path / "in/rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    classes = tmp_path / "classes.json"
    classes.write_text(json.dumps([*names.values()]))
    for layout in ("detection_keypoints", "detection_polygons", "detection_masks"):
        words = [f"--layout={layout}", "--name=x", "--image_encoding=keep", f"--class_names={classes}"]
        of_coco = build(tmp_path / f"{layout}_coco", f"--input={path}", f"--image_root={tmp_path / 'in'}", *words)
        table = f"--input={tmp_path / 'in/rows.jsonl'}"
        of_table = build(tmp_path / f"{layout}_table", table, "--box_format=xywh", *words)
        assert examples(of_table) == examples(of_coco)
