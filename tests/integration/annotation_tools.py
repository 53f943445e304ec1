"""What tools of annotation write and draw. Runs in an environment of their own, which has no beam_tfrecords.

python annotation_tools.py supervision FOLDER | labelme FILE | label_studio FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

STUDIO = """<View><Image name="image" value="$image"/>
<RectangleLabels name="box" toName="image">{labels}</RectangleLabels>
<PolygonLabels name="outline" toName="image">{labels}</PolygonLabels></View>"""


def write_supervision(folder: Path) -> None:
    """Writes the objects of truth.json as COCO, YOLO, Pascal VOC, LabelMe and Create ML."""
    import supervision as sv

    truth = json.loads((folder / "truth.json").read_text())
    names = truth["classes"]
    annotations = {}
    for name, objects in truth["images"].items():
        boxes = np.array([one["box"] for one in objects], np.float32).reshape(-1, 4)
        labels = np.array([names.index(one["class"]) for one in objects], int)
        annotations[str(folder / "images" / name)] = sv.Detections(xyxy=boxes, class_id=labels)
    dataset = sv.DetectionDataset(classes=names, images=list(annotations), annotations=annotations)
    dataset.as_coco(annotations_path=str(folder / "coco.json"))
    dataset.as_yolo(str(folder / "yolo/images"), str(folder / "yolo/labels"), str(folder / "yolo/data.yaml"))
    dataset.as_pascal_voc(str(folder / "voc/JPEGImages"), str(folder / "voc/Annotations"))
    dataset.as_labelme(annotations_directory_path=str(folder / "labelme"))
    dataset.as_createml(annotations_path=str(folder / "createml.json"))


def draw_labelme(path: Path) -> None:
    """Writes the masks of the shapes in a document of LabelMe, as masks.npy beside it."""
    from labelme.utils import shape_to_mask

    document = json.loads(path.read_text())
    size = document["imageHeight"], document["imageWidth"]
    masks = [shape_to_mask(size, one["points"], one["shape_type"]) for one in document["shapes"]]
    np.save(path.with_name("masks.npy"), np.stack(masks))


def export_label_studio(folder: Path) -> None:
    """Exports tasks.json as JSON-MIN, CSV and COCO; prints the corners of its turned boxes in pixels."""
    from label_studio_sdk.converter import Converter
    from label_studio_sdk.converter.utils import convert_annotation_to_yolo_obb

    tasks: list[dict[str, Any]] = json.loads((folder / "tasks.json").read_text())
    labels = "".join(f'<Label value="{name}"/>' for name in ("cat", "dog", "far away"))
    converter = Converter(STUDIO.format(labels=labels), str(folder), download_resources=False)
    for name, settings in (("JSON_MIN", {}), ("CSV", {"sep": ","}), ("COCO", {})):
        converter.convert(str(folder / "tasks.json"), str(folder / name), name, is_dir=False, **settings)
    corners = {
        task["data"]["image"]: [
            convert_annotation_to_yolo_obb({**one, **one["value"]}, normalize=False)
            for one in task["annotations"][0]["result"]
            if one["type"] == "rectanglelabels"
        ]
        for task in tasks
    }
    (folder / "corners.json").write_text(json.dumps(corners))


if __name__ == "__main__":
    tool, path = sys.argv[1:]
    {"supervision": write_supervision, "labelme": draw_labelme, "label_studio": export_label_studio}[tool](Path(path))
