"""The same objects as each format with a mapping writes them; the numbers are computed here, from corners in pixels."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.sax.saxutils import quoteattr

from beam_tfrecords.transforms.objects.polygons import unpack_polygons
from beam_tfrecords.transforms.refs.sample_refs import SampleRef

Box = tuple[float, float, float, float]


class Image(NamedTuple):
    """Size of an image in pixels, and class and corners of its objects."""

    width: int
    height: int
    objects: Sequence[tuple[str, Box]]


IMAGES: Mapping[str, Image] = {
    "a.jpg": Image(60, 40, [("cat", (0, 0, 30, 20)), ("person", (15.5, 10, 60, 40))]),
    "b.jpg": Image(50, 80, [("person", (10, 12.25, 20, 45))]),
    "c.jpg": Image(32, 64, []),
    "d.jpg": Image(64, 48, [("dog", (1, 2, 3, 40)), ("cat", (0, 0, 48, 48)), ("dog", (20, 20, 40, 41.5))]),
}
# Class and points of polygons: one with more than four corners, and one of two parts.
POLYGONS: Mapping[str, Sequence[tuple[str, Sequence[Sequence[float]]]]] = {
    "a.jpg": [("cat", [(3, 2, 30, 4, 25, 20, 9.5, 33, 1, 17)])],
    "b.jpg": [("dog", [(4, 4, 20, 4, 12, 30)]), ("person", [(1, 50, 40, 50, 40, 70, 1, 70)])],
    "c.jpg": [],
    "d.jpg": [("person", [(5, 5, 20, 5, 20, 20)])],
}
# The numbers of classes in formats that have these.
NUMBERS = {"person": 1, "cat": 4, "dog": 10}


def points_of(numbers: Sequence[float]) -> list[list[float]]:
    return [[x, y] for x, y in zip(numbers[::2], numbers[1::2], strict=True)]


def corners_of(box: Box) -> list[float]:
    left, top, right, bottom = box
    return [left, top, right, top, right, bottom, left, bottom]


def pixels_of(box: Box) -> Box:
    """The first and the last pixel of a box."""
    return box[0], box[1], box[2] - 1, box[3] - 1


def size_of(box: Box) -> tuple[float, float]:
    return box[2] - box[0], box[3] - box[1]


def in_pixels(sample: SampleRef, name: str = "a.jpg") -> list[list[float]]:
    """The boxes of a sample in pixels."""
    scale = (IMAGES[name].width, IMAGES[name].height) * 2 if sample.objects.is_normalized else (1,) * 4
    sides = sample.objects.boxes
    return [[side * size for side, size in zip(sides[n : n + 4], scale, strict=True)] for n in range(0, len(sides), 4)]


def polygons_of(sample: SampleRef, name: str = "a.jpg") -> list[list[list[float]]]:
    """The polygons of each object of a sample in pixels."""
    scale = (IMAGES[name].width, IMAGES[name].height) if sample.objects.is_normalized else (1, 1)
    return [[(part * scale).ravel().tolist() for part in unpack_polygons(one)] for one in sample.objects.polygons]


def write_json(path: Path, value: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))
    return path


def write_lines(path: Path, values: Sequence[Any]) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def write_rows(path: Path, rows: Sequence[Sequence[Any]]) -> Path:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    path.write_text(text.getvalue())
    return path


# Each writes the annotations of IMAGES, with POLYGONS if the format has them, and returns the input.


def write_labelme(folder: Path) -> Path:
    for number, (name, image) in enumerate(IMAGES.items()):
        shapes: list[dict[str, Any]] = [
            {"label": label, "points": points_of(box), "shape_type": "rectangle"} for label, box in image.objects
        ]
        # Some are drawn from the lower right corner.
        for shape in shapes[1:]:
            shape["points"].reverse()
        shapes += [
            {"label": label, "points": points_of(part), "shape_type": "polygon", "group_id": None}
            for label, parts in POLYGONS[name]
            for part in parts
        ]
        shapes.append({"label": "spot", "points": [[3, 4]], "shape_type": "point", "group_id": None})
        path = f"..\\photos\\{name}" if number % 2 else name
        document = {"version": "5.4.1", "flags": {}, "shapes": shapes, "imagePath": path, "imageData": None}
        write_json(folder / f"{name[0]}.json", {**document, "imageHeight": image.height, "imageWidth": image.width})
    return folder


def studio_results(name: str) -> list[dict[str, Any]]:
    image = IMAGES[name]
    side = {"original_width": image.width, "original_height": image.height, "image_rotation": 0}
    results: list[dict[str, Any]] = []
    for label, box in image.objects:
        width, height = size_of(box)
        value = {"x": 100 * box[0] / image.width, "y": 100 * box[1] / image.height, "rotation": 0}
        value |= {"width": 100 * width / image.width, "height": 100 * height / image.height}
        results.append({**side, "type": "rectanglelabels", "value": {**value, "rectanglelabels": [label]}})
    for label, (part, *_) in POLYGONS[name]:
        points = [[100 * x / image.width, 100 * y / image.height] for x, y in points_of(part)]
        results.append({**side, "type": "polygonlabels", "value": {"points": points, "polygonlabels": [label]}})
    results.append({**side, "type": "keypointlabels", "value": {"x": 1, "y": 2, "keypointlabels": ["nose"]}})
    return results


def min_results(name: str) -> list[dict[str, Any]]:
    """The same in JSON-MIN and CSV, without their kinds."""
    results = [{**one, **one["value"]} for one in studio_results(name)]
    return [{key: value for key, value in one.items() if key not in ("value", "type")} for one in results]


def write_labelstudio(folder: Path) -> Path:
    urls = ("/data/upload/3/0a1b2c3d-{}", "s3://bucket/photos/{}", "/data/local-files/?d=photos/{}", "{}")
    tasks = [
        {
            "id": number,
            "data": {"image": url.format(name)},
            "annotations": [
                {"id": 7, "was_cancelled": True, "result": []},
                {"id": 8, "was_cancelled": False, "result": studio_results(name)},
            ],
            "predictions": [{"result": [{"type": "rectanglelabels", "value": {"rectanglelabels": ["wrong"]}}]}],
        }
        for number, (name, url) in enumerate(zip(IMAGES, urls, strict=True))
    ]
    tasks.append({"id": 99, "data": {"image": "unlabelled.jpg"}, "annotations": [], "predictions": []})
    return write_json(folder / "project-1.json", tasks)


def write_labelstudio_min(folder: Path) -> Path:
    tasks = []
    for name in IMAGES:
        tasks.append({"photo": f"/data/upload/3/0a1b2c3d-{name}", "id": 1, "label": min_results(name), "annotator": 1})
    return write_json(folder / "project-1-min.json", tasks)


def write_labelstudio_csv(folder: Path) -> Path:
    rows: list[list[Any]] = [["annotation_id", "annotator", "created_at", "id", "image", "label", "lead_time"]]
    for number, name in enumerate(IMAGES):
        results = json.dumps(min_results(name))
        rows.append([number, "me@example.com", "2024-01-30T02:40:43Z", 7, f"s3://bucket/{name}", results, 8.65])
    return write_rows(folder / "project-1.csv", rows)


def write_labelstudio_classes(folder: Path) -> Path:
    tasks = []
    for number, name in enumerate(IMAGES):
        choice = {"type": "choices", "from_name": "kind", "value": {"choices": [f"kind {number}"]}}
        about = {"type": "textarea", "from_name": "about", "value": {"text": ["far away"]}}
        annotation = {"was_cancelled": False, "result": [about, choice]}
        tasks.append({"id": number, "data": {"photo": f"/data/upload/3/{name}"}, "annotations": [annotation]})
    return write_json(folder / "project-2.json", tasks)


def via_regions(name: str) -> list[dict[str, Any]]:
    regions = []
    for label, box in IMAGES[name].objects:
        width, height = size_of(box)
        shape = {"name": "rect", "x": box[0], "y": box[1], "width": width, "height": height}
        regions.append({"shape_attributes": shape, "region_attributes": {"type": label}})
    for label, (part, *_) in POLYGONS[name]:
        shape = {"name": "polygon", "all_points_x": part[::2], "all_points_y": part[1::2]}
        regions.append({"shape_attributes": shape, "region_attributes": {"name": label, "note": "far"}})
    shape = {"name": "point", "cx": 3, "cy": 4}
    return [*regions, {"shape_attributes": shape, "region_attributes": {"type": "spot"}}]


def via_images(*, as_lists: bool) -> dict[str, Any]:
    found = {}
    for name in IMAGES:
        regions: Any = via_regions(name)
        if not as_lists:
            regions = {str(number): region for number, region in enumerate(regions)}
        found[f"{name}123"] = {"filename": name, "size": 123, "regions": regions, "file_attributes": {}}
    return found


def write_via(folder: Path) -> Path:
    """A project of VIA 2."""
    project = {"_via_settings": {"core": {"buffer_size": 18}}, "_via_img_metadata": via_images(as_lists=True)}
    return write_json(folder / "via_project.json", {**project, "_via_attributes": {"region": {}}})


def write_via_1(folder: Path) -> Path:
    """An export of VIA 1."""
    return write_json(folder / "via_region_data.json", via_images(as_lists=False))


def write_via_csv(folder: Path) -> Path:
    rows: list[list[Any]] = [
        ["filename", "file_size", "file_attributes", "region_count", "region_id"],
    ]
    rows[0] += ["region_shape_attributes", "region_attributes"]
    for name in IMAGES:
        regions = via_regions(name)
        for number, one in enumerate(regions if IMAGES[name].objects else [None]):
            cells = [json.dumps(one[f"{key}_attributes"]) for key in ("shape", "region")] if one else ["{}", "{}"]
            rows.append([name, 123, "{}", len(regions), number, *cells])
    return write_rows(folder / "via_csv.csv", rows)


def write_cvat(folder: Path) -> Path:
    lines = ['<?xml version="1.0" encoding="utf-8"?>', "<annotations><version>1.1</version>"]
    lines += ["<meta><task><id>3</id><labels><label><name>cat</name></label></labels></task></meta>"]
    for number, (name, image) in enumerate(IMAGES.items()):
        path = quoteattr(f"photos/{name}")
        lines.append(f'<image id="{number}" name={path} width="{image.width}" height="{image.height}">')
        for label, (left, top, right, bottom) in image.objects:
            sides = f'xtl="{left:.2f}" ytl="{top:.2f}" xbr="{right:.2f}" ybr="{bottom:.2f}"'
            lines.append(f'<box label="{label}" source="manual" occluded="0" {sides} z_order="0">')
            lines.append('<attribute name="age">old</attribute></box>')
        for label, (part, *_) in POLYGONS[name]:
            points = ";".join(f"{x:.2f},{y:.2f}" for x, y in points_of(part))
            lines.append(f'<polygon label="{label}" occluded="0" points="{points}" z_order="0"></polygon>')
        lines.append('<polyline label="way" occluded="0" points="1.00,2.00;3.00,4.00"></polyline></image>')
    path = folder / "annotations.xml"
    path.write_text("\n".join([*lines, "</annotations>"]))
    return path


def write_supervisely(folder: Path) -> Path:
    write_json(folder / "meta.json", {"classes": [{"title": "cat", "shape": "any", "color": "#FF0000"}], "tags": []})
    for name, image in IMAGES.items():
        objects = []
        for number, (label, box) in enumerate(image.objects):
            # The corners may be in any order.
            corners = points_of(pixels_of(box))[:: -1 if number else 1]
            points = {"exterior": corners, "interior": []}
            objects.append({"classTitle": label, "geometryType": "rectangle", "points": points})
        objects += [
            {"classTitle": label, "geometryType": "polygon", "points": {"exterior": points_of(part), "interior": []}}
            for label, (part, *_) in POLYGONS[name]
        ]
        bitmap = {"data": "eJwBgQB+/4lQTkc", "origin": [3, 4]}
        objects.append({"classTitle": "spot", "geometryType": "bitmap", "bitmap": bitmap})
        size = {"height": image.height, "width": image.width}
        document = {"description": "", "tags": [], "size": size, "objects": objects}
        write_json(folder / "ds" / "ann" / f"{name}.json", document)
    return folder


def bdd_frames() -> list[dict[str, Any]]:
    frames = []
    for name, image in IMAGES.items():
        labels: list[dict[str, Any]] = [
            {"id": "1", "category": label, "box2d": dict(zip(("x1", "y1", "x2", "y2"), pixels_of(box), strict=True))}
            for label, box in image.objects
        ]
        for label, (part, *_) in POLYGONS[name]:
            vertices = points_of(part)
            poly = {"vertices": vertices, "types": "L" * len(vertices), "closed": True}
            labels.append({"id": "2", "category": label, "poly2d": [poly]})
        lane = {"vertices": [[1, 2], [3, 4]], "types": "LL", "closed": False}
        labels.append({"id": "3", "category": "lane/crosswalk", "poly2d": [lane]})
        # Images without objects have no labels at all.
        frames.append({"name": name, "attributes": {"weather": "clear"}, "timestamp": 10000, "labels": labels})
        if not image.objects:
            del frames[-1]["labels"]
    return frames


def write_bdd100k(folder: Path) -> Path:
    return write_json(folder / "det_train.json", bdd_frames())


def write_kitti(folder: Path) -> Path:
    (folder / "label_2").mkdir()
    for name, image in IMAGES.items():
        rows = [
            f"{label} 0.00 0 1.55 {' '.join(f'{side:.2f}' for side in box)} 1.57 1.73 4.15 1.00 1.75 13.22 1.62\n"
            for label, box in [*image.objects, ("DontCare", (1, 2, 3, 4))]
        ]
        (folder / "label_2" / f"{name[0]}.txt").write_text("".join(rows if image.objects else []))
    (folder / "README.txt").write_text("The labels of a test.\n\nSee the paper, and cite it.\n")
    return folder


def write_visdrone(folder: Path) -> Path:
    (folder / "annotations").mkdir()
    for name, image in IMAGES.items():
        rows = []
        for label, box in image.objects:
            rows.append(f"{box[0]},{box[1]},{box[2] - box[0]},{box[3] - box[1]},1,{NUMBERS[label]},0,0,\n")
        rows += ["1,2,3,4,0,0,0,0\n", "1,2,3,4,0,11,0,0\n"]
        (folder / "annotations" / f"{name[0]}.txt").write_text("".join(rows))
    return folder


VISDRONE = {"person": "pedestrian", "cat": "car", "dog": "motor"}


def write_icdar2015(folder: Path) -> Path:
    for name in IMAGES:
        rows = [f"{','.join(map(str, part))},{label}, the {label}\n" for label, (part,) in quads()[name]]
        rows.append("1,2,3,4,5,6,7,8,###\n")
        (folder / f"gt_{name[0]}.txt").write_text("".join(rows), encoding="utf-8-sig")
    return folder


def quads() -> Mapping[str, Sequence[tuple[str, Sequence[Sequence[float]]]]]:
    """Four corners of each object, which are no rectangle."""
    found = {}
    for name, image in IMAGES.items():
        found[name] = []
        for label, box in image.objects:
            corners = corners_of(box)
            corners[2] -= 0.5
            found[name].append((label, [corners]))
    return found


def write_widerface(folder: Path) -> Path:
    lines = []
    for name, image in IMAGES.items():
        lines += [f"0--Parade/{name}", str(len(image.objects) + 1)]
        for _, box in image.objects:
            lines.append(f"{box[0]} {box[1]} {box[2] - box[0]} {box[3] - box[1]} 2 0 0 0 0 0 ")
        lines.append("0 0 0 0 0 0 0 0 0 0 ")
    path = folder / "wider_face_train_bbx_gt.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def write_sagemaker(folder: Path) -> Path:
    names = sorted({label for image in IMAGES.values() for label, _ in image.objects})
    lines: list[dict[str, Any]] = []
    for name, image in IMAGES.items():
        boxes = [
            {"class_id": names.index(label), "left": box[0], "top": box[1], "width": width, "height": height}
            for label, box in image.objects
            for width, height in [size_of(box)]
        ]
        size = [{"width": image.width, "height": image.height, "depth": 3}]
        there = sorted({label for label, _ in image.objects})
        lines.append(
            {
                "source-ref": f"s3://bucket/photos/{name}",
                "animals": {"image_size": size, "annotations": boxes},
                "animals-metadata": {
                    "objects": [{"confidence": 0.8} for _ in boxes],
                    "class-map": {str(names.index(label)): label for label in there},
                    "type": "groundtruth/object-detection",
                },
            }
        )
    failed = {"failure-reason": "ClientError: too large", "type": "groundtruth/object-detection"}
    lines.append({"source-ref": "s3://bucket/photos/failed.jpg", "animals-metadata": failed})
    return write_lines(folder / "output.manifest", lines)


def write_sagemaker_classes(folder: Path) -> Path:
    lines = [
        {
            "source-ref": f"s3://bucket/{name}",
            "kind": number,
            "kind-metadata": {"class-name": f"kind {number}", "confidence": 0.9},
        }
        for number, name in enumerate(IMAGES)
    ]
    return write_lines(folder / "output.manifest", lines)


def write_vertex(folder: Path) -> Path:
    lines = []
    for name, image in IMAGES.items():
        boxes = [
            {
                "displayName": label,
                "xMin": box[0] / image.width,
                "yMin": box[1] / image.height,
                "xMax": box[2] / image.width,
                "yMax": box[3] / image.height,
                "annotationResourceLabels": {"aiplatform.googleapis.com/annotation_set_name": "x"},
            }
            for label, box in image.objects
        ]
        use = {"aiplatform.googleapis.com/ml_use": "test" if name == "b.jpg" else "training"}
        line = {"imageGcsUri": f"gs://bucket/{name}", "boundingBoxAnnotations": boxes, "dataItemResourceLabels": use}
        lines.append(line)
    return write_lines(folder / "import.jsonl", lines)


def write_labelme_flags(folder: Path) -> Path:
    for number, name in enumerate(IMAGES):
        flags = {f"kind {other}": other == number for other in range(len(IMAGES))}
        write_json(folder / f"{name[0]}.json", {"version": "5.4.1", "flags": flags, "shapes": [], "imagePath": name})
    return folder


def write_via_classes(folder: Path) -> Path:
    kinds = {name: f"kind {number}" for number, name in enumerate(IMAGES)}
    images = {
        # Checkboxes are objects.
        f"{name}9": {"filename": name, "regions": [], "file_attributes": {"type": {kind: True} if name > "b" else kind}}
        for name, kind in kinds.items()
    }
    return write_json(folder / "via_project.json", {"_via_img_metadata": images})


def write_labelbox_classes(folder: Path) -> Path:
    lines: list[dict[str, Any]] = []
    for number, name in enumerate(IMAGES):
        answer = {"name": f"kind {number}", "value": f"kind_{number}"}
        answers = {"checklist_answers": [answer]} if number % 2 else {"radio_answer": answer}
        annotations = {"objects": [], "classifications": [{"name": "kind", "value": "kind", **answers}]}
        row = {"id": "cl1", "external_id": name, "row_data": f"https://storage.example/{name}"}
        lines.append({"data_row": row, "projects": {"clp": {"labels": [{"annotations": annotations}]}}})
    return write_lines(folder / "export.ndjson", lines)


def write_json_list(folder: Path) -> Path:
    items = [{"id": number, "image": f"photos/{name}", "label": f"kind {number}"} for number, name in enumerate(IMAGES)]
    return write_json(folder / "labels.json", items)


def write_json_object(folder: Path) -> Path:
    values = [f"kind {number}" if number % 2 else {"label": f"kind {number}", "by": "me"} for number in range(4)]
    return write_json(folder / "labels.json", dict(zip(IMAGES, values, strict=True)))


def write_vertex_classes(folder: Path) -> Path:
    lines = [
        {"imageGcsUri": f"gs://bucket/{name}", "classificationAnnotation": {"displayName": f"kind {number}"}}
        for number, name in enumerate(IMAGES)
    ]
    return write_lines(folder / "import.jsonl", lines)


def write_vertex_csv(folder: Path) -> Path:
    rows: list[list[Any]] = []
    for name, image in IMAGES.items():
        use = {"b.jpg": "TEST", "d.jpg": "UNASSIGNED"}.get(name, "TRAIN")
        for number, (label, box) in enumerate(image.objects):
            scale = (image.width, image.height) * 4
            shares = [side / size for side, size in zip(corners_of(box), scale, strict=False)]
            if number % 2 == 0:
                shares[2:4] = shares[6:8] = ["", ""]  # type: ignore[list-item]
            rows.append([use, f"gs://bucket/{name}", label, *shares])
        if not image.objects:
            rows.append([f"gs://bucket/{name}"])
    # The first cell may be left out.
    rows[0] = rows[0][1:]
    return write_rows(folder / "import.csv", rows)


def write_createml(folder: Path) -> Path:
    items = []
    for number, (name, image) in enumerate(IMAGES.items()):
        found = []
        for label, box in image.objects:
            width, height = size_of(box)
            center = {"x": (box[0] + box[2]) / 2, "y": (box[1] + box[3]) / 2}
            found.append({"label": label, "coordinates": {**center, "width": width, "height": height}})
        # The names of the keys have changed with the versions.
        words = ("image", "annotations") if number % 2 else ("imagefilename", "annotation")
        items.append({words[0]: name, words[1]: found})
    return write_json(folder / "_annotations.createml.json", items)


def write_crowdhuman(folder: Path) -> Path:
    lines = []
    for name, image in IMAGES.items():
        boxes = [
            {"tag": "person", "fbox": [*box[:2], *size_of(box)], "vbox": [0, 0, 1, 1], "extra": {"box_id": 0}}
            for _, box in image.objects
        ]
        boxes.append({"tag": "mask", "fbox": [1, 2, 3, 4], "extra": {"ignore": 1}})
        boxes.append({"tag": "person", "fbox": [1, 2, 3, 4], "extra": {"ignore": 1}})
        lines.append({"ID": name[0], "gtboxes": boxes})
    return write_lines(folder / "annotation_train.odgt", lines)


def write_labelbox(folder: Path) -> Path:
    lines = []
    for name, image in IMAGES.items():
        objects: list[dict[str, Any]] = []
        for label, box in image.objects:
            width, height = size_of(box)
            sides = {"top": box[1], "left": box[0], "height": height, "width": width}
            objects.append({"name": label, "annotation_kind": "ImageBoundingBox", "bounding_box": sides})
        for label, (part, *_) in POLYGONS[name]:
            points = [{"x": x, "y": y} for x, y in points_of(part)]
            objects.append({"name": label, "annotation_kind": "ImagePolygon", "polygon": points})
        objects.append({"name": "nose", "annotation_kind": "ImagePoint", "point": {"x": 1, "y": 2}})
        label = {"label_kind": "Default", "annotations": {"objects": objects, "classifications": []}}
        row = {"id": "cl1", "external_id": name, "row_data": f"https://storage.example/{name}"}
        media = {"height": image.height, "width": image.width, "exif_rotation": "1"}
        projects = {"clp": {"name": "animals", "labels": [label]}}
        lines.append({"data_row": row, "media_attributes": media, "projects": projects})
    lines.append({"data_row": {"external_id": "e.jpg"}, "projects": {"clp": {"labels": []}}})
    return write_lines(folder / "export.ndjson", lines)


def write_vott(folder: Path) -> Path:
    assets = {}
    for number, (name, image) in enumerate(IMAGES.items()):
        regions = []
        for label, box in image.objects:
            width, height = size_of(box)
            points = [{"x": x, "y": y} for x, y in points_of(corners_of(box))]
            sides = {"height": height, "width": width, "left": box[0], "top": box[1]}
            regions.append({"type": "RECTANGLE", "tags": [label], "boundingBox": sides, "points": points})
        for label, (part, *_) in POLYGONS[name]:
            points = [{"x": x, "y": y} for x, y in points_of(part)]
            regions.append({"type": "POLYGON", "tags": [label], "points": points})
        size = {"width": image.width, "height": image.height}
        asset = {"format": "jpg", "name": name, "path": f"file:/home/me/{name}", "size": size, "state": 2, "type": 1}
        assets[f"id{number}"] = {"asset": asset, "regions": regions, "version": "2.2.0"}
    project = {"name": "animals", "tags": [{"name": "cat", "color": "#5db300"}], "assets": assets}
    return write_json(folder / "animals-export.json", project)


def write_dota(folder: Path) -> Path:
    (folder / "labelTxt").mkdir()
    for name in IMAGES:
        rows = ["imagesource:GoogleEarth", "gsd:0.146343590398"]
        rows += [f"{' '.join(map(str, part))} {label} 0" for label, (part,) in quads()[name]]
        (folder / "labelTxt" / f"{name[0]}.txt").write_text("\n".join(rows) + "\n")
    return folder


def write_openimages(folder: Path) -> Path:
    header = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsTruncated,IsGroupOf,IsDepiction"
    rows: list[Sequence[Any]] = [header.split(",")]
    for name, image in IMAGES.items():
        for label, (left, top, right, bottom) in image.objects:
            sides = [left / image.width, right / image.width, top / image.height, bottom / image.height]
            rows.append([name[0], "xclick", f"/m/0{label[0]}", 1, *sides, 0, 0, 0, 0])
    return write_rows(folder / "train-annotations-bbox.csv", rows)


def write_retinanet(folder: Path) -> Path:
    rows = [[f"photos/{name}", *box, label] for name, image in IMAGES.items() for label, box in image.objects]
    rows += [[f"photos/{name}", *[""] * 5] for name, image in IMAGES.items() if not image.objects]
    return write_rows(folder / "annotations.csv", rows)


def write_keras_yolo3(folder: Path) -> Path:
    lines = []
    for name, image in IMAGES.items():
        boxes = [f"{','.join(f'{side:g}' for side in box)},{NUMBERS[label]}" for label, box in image.objects]
        lines.append(" ".join([f"/home/me/{name}", *boxes]))
    path = folder / "train.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def write_tfod(folder: Path) -> Path:
    rows: list[Sequence[Any]] = [["filename", "width", "height", "class", "xmin", "ymin", "xmax", "ymax"]]
    for name, image in IMAGES.items():
        rows += [[name, image.width, image.height, label, *box] for label, box in image.objects]
    rows.append(["c.jpg", 32, 64, "", "", "", "", ""])
    return write_rows(folder / "train_labels.csv", rows)


# Degrees by which the boxes of formats with angles are turned.
TURN = 1.0


def write_hrsc2016(folder: Path) -> Path:
    (folder / "Annotations").mkdir()
    for name, image in IMAGES.items():
        objects = []
        for number, (label, box) in enumerate(image.objects):
            width, height = size_of(box)
            sides = {"box_xmin": 1, "box_ymin": 2, "box_xmax": 3, "box_ymax": 4, "header_x": 5, "header_y": 6}
            turned_box = {"mbox_cx": (box[0] + box[2]) / 2, "mbox_cy": (box[1] + box[3]) / 2}
            turned_box |= {"mbox_w": width, "mbox_h": height, "mbox_ang": math.radians(TURN)}
            values = {
                "Object_ID": number,
                "Class_ID": 100000000 + NUMBERS[label],
                "difficult": 0,
                **sides,
                **turned_box,
            }
            objects.append("".join(f"<{key}>{value}</{key}>" for key, value in values.items()))
        found = "".join(f"<HRSC_Object>{one}</HRSC_Object>" for one in objects)
        size = f"<Img_SizeWidth>{image.width}</Img_SizeWidth><Img_SizeHeight>{image.height}</Img_SizeHeight>"
        text = f"<HRSC_Image><Img_ID>1</Img_ID>{size}<HRSC_Objects>{found}</HRSC_Objects></HRSC_Image>"
        (folder / "Annotations" / f"{name[0]}.xml").write_text(text)
    return folder


def write_msra_td500(folder: Path) -> Path:
    for name, image in IMAGES.items():
        rows = [
            f"{number} 0 {box[0]} {box[1]} {size_of(box)[0]} {size_of(box)[1]} {math.radians(TURN)}\n"
            for number, (_, box) in enumerate(image.objects)
        ]
        (folder / f"{name[0]}.gt").write_text("".join(rows))
    return folder


def write_pts(folder: Path) -> Path:
    """The corners of the first object as points, which count from 1."""
    for name, image in IMAGES.items():
        for _, box in image.objects[:1]:
            rows = [f"{x + 0.5:.6f} {y + 0.5:.6f}" for x, y in points_of(corners_of(box))]
            text = "\n".join(["version: 1", "n_points:  4", "{", *rows, "}", ""])
            (folder / f"{name[0]}.pts").write_text(text)
    return folder


def write_quads(folder: Path) -> Path:
    names = [f"{axis}{number}" for number in range(1, 5) for axis in "xy"]
    rows: list[Sequence[Any]] = [["image", "label", *names]]
    for name in IMAGES:
        rows += [[name, label, *corners] for label, (corners,) in quads()[name]]
    return write_rows(folder / "quads.csv", rows)


def write_landmarks(folder: Path) -> Path:
    """The corners of the first object, and twice its center."""
    lines = []
    for name, image in IMAGES.items():
        for _, box in image.objects[:1]:
            center = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
            lines.append(f"{name} {' '.join(map(str, [*corners_of(box), *center, *center]))} \n")
    path = folder / "landmark_list_part1.txt"
    path.write_text("".join(lines))
    return path


def write_wflw(folder: Path) -> Path:
    lines = []
    for name, image in IMAGES.items():
        for _, box in image.objects:
            points = [f"{box[n % 2] + n / 100:.6f}" for n in range(196)]
            lines.append(" ".join([*points, *map(str, box), *"010010", f"23--Shoppers/{name}"]))
    path = folder / "list_98pt_rect_attr_train.txt"
    path.write_text("\n".join(lines) + "\n")
    return path


def write_fiftyone(folder: Path) -> Path:
    samples = []
    for name, image in IMAGES.items():
        detections = [
            {
                "_cls": "Detection",
                "label": label,
                "bounding_box": [
                    box[0] / image.width,
                    box[1] / image.height,
                    width / image.width,
                    height / image.height,
                ],
                "tags": [],
            }
            for label, box in image.objects
            for width, height in [size_of(box)]
        ]
        polylines = [
            {
                "_cls": "Polyline",
                "label": label,
                "points": [[[x / image.width, y / image.height] for x, y in points_of(part)]],
                "closed": True,
                "filled": False,
            }
            for label, (part, *_) in POLYGONS[name]
        ]
        polylines.append({"_cls": "Polyline", "label": "lane", "points": [[[0, 0], [1, 1]]], "closed": False})
        samples.append(
            {
                "filepath": f"data/{name}",
                "tags": ["far away", "validation"] if name == "b.jpg" else [],
                "metadata": {"_cls": "ImageMetadata", "width": image.width, "height": image.height},
                "predictions": {"_cls": "Detections", "detections": []},
                "ground_truth": {"_cls": "Detections", "detections": detections},
                "lanes": {"_cls": "Polylines", "polylines": polylines},
            }
        )
    return write_json(folder / "samples.json", {"samples": samples})


def write_fiftyone_classes(folder: Path) -> Path:
    samples = []
    for number, name in enumerate(IMAGES):
        label: dict[str, Any] = {"_cls": "Classification", "label": f"kind {number}"}
        if number % 2:
            label = {"_cls": "Classifications", "classifications": [label]}
        samples.append({"filepath": name, "tags": [], "metadata": None, "kind": label})
    return write_json(folder / "samples.json", {"samples": samples})


def write_datumaro_items(folder: Path, annotations: Mapping[str, Sequence[Any]], names: Sequence[str]) -> Path:
    labels = [{"name": name, "parent": "", "attributes": []} for name in names]
    items = [
        {
            "id": f"folder/{name[0]}",
            "annotations": annotations[name],
            "image": {"path": f"folder/{name}", "size": [image.height, image.width]},
        }
        for name, image in IMAGES.items()
    ]
    categories = {"label": {"label_groups": [], "labels": labels, "attributes": []}}
    document = {"dm_format_version": "1.0", "infos": {}, "categories": categories, "items": items}
    write_json(folder / "annotations" / "default.json", document)
    return folder


def write_datumaro(folder: Path) -> Path:
    names = [*NUMBERS]
    found = {}
    for name, image in IMAGES.items():
        boxes = [("bbox", label, {"bbox": [*box[:2], *size_of(box)]}) for label, box in image.objects]
        parts = [("polygon", label, {"points": list(part)}) for label, (part, *_) in POLYGONS[name]]
        line = ("polyline", "cat", {"points": [1, 2, 3, 4]})
        found[name] = [
            {"id": 0, "type": kind, "group": 0, "label_id": names.index(label), **shape}
            for kind, label, shape in (*boxes, *parts, line)
        ]
    return write_datumaro_items(folder, found, names)


def write_datumaro_classes(folder: Path) -> Path:
    names = [f"kind {number}" for number in range(len(IMAGES))]
    found = {name: [{"id": 0, "type": "label", "label_id": number}] for number, name in enumerate(IMAGES)}
    return write_datumaro_items(folder, found, names)


def write_dlib(folder: Path) -> Path:
    lines = ["<?xml version='1.0' encoding='ISO-8859-1'?>", "<dataset><name>\xe4</name><images>"]
    for name, image in IMAGES.items():
        lines.append(f"<image file='photos/{name}' width='{image.width}' height='{image.height}'>")
        boxes = [*image.objects, ("mask", (1, 2, 3, 4))]
        for number, (label, box) in enumerate(boxes):
            width, height = size_of(box)
            ignored = " ignore='1'" if number == len(image.objects) else ""
            lines.append(f"<box top='{box[1]}' left='{box[0]}' width='{width}' height='{height}'{ignored}>")
            lines.append(f"<label>{label}</label></box>")
        lines.append("</image>")
    path = folder / "training.xml"
    path.write_text("\n".join([*lines, "</images></dataset>"]), encoding="latin-1")
    return path


def write_azure(folder: Path) -> Path:
    lines = []
    for number, (name, image) in enumerate(IMAGES.items()):
        scale = (image.width, image.height) * 2
        labels: list[dict[str, Any]] = [
            {"label": label, **dict(zip(("topX", "topY", "bottomX", "bottomY"), shares, strict=True)), "isCrowd": 0}
            for label, box in image.objects
            for shares in [[side / size for side, size in zip(box, scale, strict=True)]]
        ]
        for label, (part, *_) in POLYGONS[name]:
            polygon = [side / scale[n % 2] for n, side in enumerate(part)]
            labels.append({"label": label, "isCrowd": 0, "polygon": [polygon]})
        store = "azureml://subscriptions/s/workspaces/w/datastores/d/paths" if number % 2 else "AmlDatastore://photos"
        details = {"format": "jpg", "width": f"{image.width}px", "height": image.height}
        lines.append({"image_url": f"{store}/{name}", "image_details": details, "label": labels})
    return write_lines(folder / "train.jsonl", lines)


def write_azure_classes(folder: Path) -> Path:
    lines = [
        {"image_url": f"AmlDatastore://photos/{name}", "label": [f"kind {number}"] if number % 2 else f"kind {number}"}
        for number, name in enumerate(IMAGES)
    ]
    write_lines(folder / "train.jsonl", lines)
    return folder


def write_paddleocr(folder: Path) -> Path:
    lines = []
    for name in IMAGES:
        words = [{"transcription": f"the, {label}", "points": points_of(part)} for label, (part,) in quads()[name]]
        words += [{"transcription": text, "points": [[1, 2], [3, 2], [3, 4], [1, 4]]} for text in ("###", "*")]
        lines.append(f"photos/{name}\t{json.dumps(words if IMAGES[name].objects else [])}\n")
    path = folder / "Label.txt"
    path.write_text("".join(lines))
    return path


def write_deepfashion2(folder: Path) -> Path:
    for name, image in IMAGES.items():
        boxes = [(label, box, corners_of(box)) for label, box in image.objects]
        parts = [(label, [*map(min, zip(*points, strict=True)), *map(max, zip(*points, strict=True))], part)
                 for label, (part, *_) in POLYGONS[name] for points in [points_of(part)]]  # fmt: skip
        items = {
            f"item{number}": {
                "category_name": label,
                "bounding_box": box,
                "segmentation": [part],
                "landmarks": [1, 2, 2],
            }
            for number, (label, box, part) in enumerate([*boxes, *parts], 1)
        }
        write_json(folder / "train/annos" / f"{name[0]}.json", {**items, "source": "user", "pair_id": 1})
    return folder


def write_oidv4(folder: Path) -> Path:
    (folder / "validation/cat/Label").mkdir(parents=True)
    for name, image in IMAGES.items():
        rows = [f"{label} {' '.join(map(str, box))}\n" for label, box in image.objects]
        if rows:
            (folder / "validation/cat/Label" / f"{name[0]}.txt").write_text("".join(rows))
    return folder


def write_xview(folder: Path) -> Path:
    numbers = {"person": 19, "cat": 18, "dog": 50}
    features = [
        {
            "type": "Feature",
            "properties": {
                "bounds_imcoords": ",".join(map(str, box)),
                "type_id": numbers.get(label, 75),
                "image_id": name,
            },
            "geometry": {"type": "Polygon", "coordinates": [[[-90.5, 15.1], [-90.4, 15.1], [-90.4, 15.2]]]},
        }
        for name, image in IMAGES.items()
        for label, box in [*image.objects, ("nothing", (1, 2, 3, 4))]
    ]
    document = {"type": "FeatureCollection", "crs": {"type": "name"}, "features": features}
    return write_json(folder / "xView_train.geojson", document)


XVIEW = {"person": "Bus", "cat": "Small Car", "dog": "Yacht"}


def write_icdar2013(folder: Path) -> Path:
    for number, (name, image) in enumerate(IMAGES.items()):
        delimiter = " " if number % 2 else ", "
        rows = [delimiter.join([*map(str, box), f'"{label}, there"\n']) for label, box in image.objects]
        (folder / f"gt_{name[0]}.txt").write_text("".join(rows), encoding="utf-8-sig")
    return folder


def write_sroie(folder: Path) -> Path:
    (folder / "box").mkdir()
    for name in IMAGES:
        rows = [f'{",".join(map(str, part))},"{label}, there\n' for label, (part,) in quads()[name]]
        (folder / "box" / f"{name[0]}.csv").write_text("".join(rows))
        write_json(folder / "key" / f"{name[0]}.json", {"company": "A", "total": "9.00"})
    return folder


def write_cvat_video(folder: Path) -> Path:
    lines = ["<annotations><version>1.1</version><meta><task><mode>interpolation</mode></task></meta>"]
    for frame, (name, image) in enumerate(IMAGES.items()):
        shared = f'frame="{frame}" keyframe="1" occluded="0" z_order="0"'
        for label, (left, top, right, bottom) in [*image.objects, ("gone", (1, 2, 3, 4))]:
            sides = f'xtl="{left}" ytl="{top}" xbr="{right}" ybr="{bottom}" outside="{int(label == "gone")}"'
            lines.append(f'<track id="0" label="{label}" source="manual"><box {shared} {sides}></box></track>')
        for label, (part, *_) in POLYGONS[name]:
            points = ";".join(f"{x:.2f},{y:.2f}" for x, y in points_of(part))
            lines.append(f'<track id="0" label="{label}"><polygon {shared} outside="0" points="{points}"/></track>')
    path = folder / "annotations.xml"
    path.write_text("\n".join([*lines, "</annotations>"]))
    return path


FRAMES = {name: f"frame_{number:06d}.jpg" for number, name in enumerate(IMAGES)}


def write_tt100k(folder: Path) -> Path:
    images = {}
    for number, (name, image) in enumerate(IMAGES.items()):
        objects = [
            {"category": label, "bbox": dict(zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))}
            for label, box in image.objects
        ]
        split = "other" if name == "b.jpg" else "train"
        images[str(number)] = {"path": f"{split}/{name}", "id": number, "objects": objects}
    return write_json(folder / "annotations_all.json", {"types": ["cat", "dog"], "imgs": images})


def write_xview2(folder: Path) -> Path:
    for name, image in IMAGES.items():
        boxes = [(label, corners_of(box)) for label, box in image.objects]
        found = []
        for number, (label, part) in enumerate([*boxes, *((one, parts[0]) for one, parts in POLYGONS[name])]):
            points = ", ".join(f"{x} {y}" for x, y in points_of([*part, *part[:2]]))
            # Images before the disaster have no damage.
            kinds = {"feature_type": "building", "subtype": label} if number % 2 else {"feature_type": label}
            found.append({"properties": {**kinds, "uid": "0"}, "wkt": f"POLYGON (({points}))"})
        metadata = {"sensor": "GEOEYE01", "img_name": name, "width": image.width, "height": image.height}
        document = {"features": {"lng_lat": [], "xy": found}, "metadata": metadata}
        write_json(folder / "labels" / f"{name[0]}.json", document)
    return folder


def write_funsd(folder: Path) -> Path:
    for name, image in IMAGES.items():
        form = [
            {"box": box, "text": f"the {label}", "label": label, "words": [], "linking": [], "id": number}
            for number, (label, box) in enumerate(image.objects)
        ]
        write_json(folder / "annotations" / f"{name[0]}.json", {"form": form})
    return folder


def write_visual_genome(folder: Path) -> Path:
    items = []
    for name, image in IMAGES.items():
        found = [
            {"object_id": 1, "names": [label], "synsets": [], "x": box[0], "y": box[1], "w": width, "h": height}
            for label, box in image.objects
            for width, height in [size_of(box)]
        ]
        items.append({"image_id": 1, "image_url": f"https://example.org/VG_100K_2/{name}", "objects": found})
    return write_json(folder / "objects.json", items)


def write_textocr(folder: Path) -> Path:
    images = {name[0]: {"id": name[0], "set": "train", "file_name": f"train/{name}"} for name in IMAGES}
    words: dict[str, Any] = {}
    for name in IMAGES:
        for number, (label, (part,)) in enumerate([*quads()[name], (".", ([1, 2, 3, 2, 3, 4, 1, 4],))]):
            word = {"image_id": name[0], "bbox": [1, 2, 3, 4], "points": part, "utf8_string": label, "area": 12}
            words[f"{name[0]}_{number}"] = word
    document = {"info": {}, "imgs": images, "anns": words, "imgToAnns": {name[0]: [] for name in IMAGES}}
    return write_json(folder / "TextOCR_0.1_train.json", document)


class Format(NamedTuple):
    """A format.

    Attributes:
      write: writes its documents in a folder.
      has_polygons: whether it has POLYGONS beside the boxes.
      names: class here -> class in the format; None for the same.
      only: names of the images that it can have.
      of_quads: whether its objects are `quads`.
      turn: degrees by which its boxes are turned.
      has_first: whether it has only the first object of an image.
      others: number of elements of other kinds, which the note says; None without a note.
      files: image here -> its name in the format; None for the same.
    """

    write: Callable[[Path], Path]
    has_polygons: bool = False
    names: Mapping[str, str] | None = None
    only: str = "abcd"
    of_quads: bool = False
    turn: float = 0.0
    has_first: bool = False
    others: int | None = None
    files: Mapping[str, str] | None = None


FACES = dict.fromkeys(("person", "cat", "dog"), "face")
TEXTS = dict.fromkeys(FACES, "text")
FORMATS: Mapping[str, Format] = {
    "labelme": Format(write_labelme, has_polygons=True, others=4),
    "labelstudio": Format(write_labelstudio, has_polygons=True, others=4),
    "labelstudio_min": Format(write_labelstudio_min, has_polygons=True, others=4),
    "labelstudio_csv": Format(write_labelstudio_csv, has_polygons=True, others=4),
    "via": Format(write_via, has_polygons=True, others=4),
    "via_csv": Format(write_via_csv, has_polygons=True, others=3),
    "cvat": Format(write_cvat, has_polygons=True, others=4),
    "supervisely": Format(write_supervisely, has_polygons=True, others=4),
    "bdd100k": Format(write_bdd100k, has_polygons=True, others=3),
    "kitti": Format(write_kitti),
    "visdrone": Format(write_visdrone, names=VISDRONE),
    "icdar2015": Format(write_icdar2015, names=TEXTS, of_quads=True),
    "widerface": Format(write_widerface, names=FACES),
    "sagemaker": Format(write_sagemaker),
    "vertex": Format(write_vertex),
    "vertex_csv": Format(write_vertex_csv),
    "createml": Format(write_createml),
    "crowdhuman": Format(write_crowdhuman, names=dict.fromkeys(FACES, "person")),
    "labelbox": Format(write_labelbox, has_polygons=True, others=4),
    "vott": Format(write_vott, has_polygons=True),
    "dota": Format(write_dota, of_quads=True),
    "hrsc2016": Format(
        write_hrsc2016, names={"person": "ship", "cat": "merchant ship", "dog": "Sanantonio"}, turn=TURN
    ),
    "msra_td500": Format(write_msra_td500, names=TEXTS, turn=TURN),
    "pts": Format(write_pts, names=FACES, only="abd", has_first=True),
    "quads": Format(write_quads, of_quads=True, only="abd"),
    "landmarks": Format(write_landmarks, names=FACES, only="abd", has_first=True),
    "wflw": Format(write_wflw, names=FACES, only="abd"),
    "openimages": Format(write_openimages, names={"cat": "/m/0c", "person": "/m/0p", "dog": "/m/0d"}, only="abd"),
    "retinanet": Format(write_retinanet),
    "keras_yolo3": Format(write_keras_yolo3, names={name: str(number) for name, number in NUMBERS.items()}),
    "tfod": Format(write_tfod),
    "fiftyone": Format(write_fiftyone, has_polygons=True, others=4),
    "datumaro": Format(write_datumaro, has_polygons=True, others=4),
    "dlib": Format(write_dlib),
    "azure": Format(write_azure, has_polygons=True),
    "paddleocr": Format(write_paddleocr, names=TEXTS, of_quads=True),
    "deepfashion2": Format(write_deepfashion2, has_polygons=True),
    "oidv4": Format(write_oidv4, only="abd"),
    "xview": Format(write_xview, names=XVIEW),
    "icdar2013": Format(write_icdar2013, names=TEXTS),
    "sroie": Format(write_sroie, names=TEXTS, of_quads=True),
    "cvat_video": Format(write_cvat_video, has_polygons=True, files=FRAMES),
    "tt100k": Format(write_tt100k),
    "xview2": Format(write_xview2, has_polygons=True),
    "funsd": Format(write_funsd),
    "visual_genome": Format(write_visual_genome),
    "textocr": Format(write_textocr, names=TEXTS, of_quads=True),
}
# Formats with one class for each image: `kind 0` and so on, in the order of IMAGES.
LABELS: Mapping[str, Callable[[Path], Path]] = {
    "json_list": write_json_list,
    "json_object": write_json_object,
    "labelme_flags": write_labelme_flags,
    "labelstudio_classes": write_labelstudio_classes,
    "sagemaker_classes": write_sagemaker_classes,
    "labelbox_classes": write_labelbox_classes,
    "vertex_classes": write_vertex_classes,
    "via_classes": write_via_classes,
    "fiftyone_classes": write_fiftyone_classes,
    "datumaro_classes": write_datumaro_classes,
    "azure_classes": write_azure_classes,
}


def turned(box: Box, degrees: float, around: tuple[float, float]) -> list[float]:
    """The corners of a box after a clockwise turn, in pixels."""
    turn = complex(math.cos(math.radians(degrees)), math.sin(math.radians(degrees)))
    center = complex(*around)
    places = [(complex(x, y) - center) * turn + center for x, y in points_of(corners_of(box))]
    return [side for place in places for side in (place.real, place.imag)]
