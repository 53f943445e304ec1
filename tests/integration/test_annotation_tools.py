"""Objects and masks agree with those of the tools of annotation: supervision, LabelMe and Label Studio."""

from __future__ import annotations

import io
import json
import random
import subprocess

import numpy as np
import PIL.Image
import pytest

from beam_tfrecords import open_dataset
from tests.beam_pipelines.dataset_records import read_dataset
from tests.core.opened_sources import objects_of, open_source
from tests.integration.servers.processes import PROJECT, ServerError

pytestmark = pytest.mark.nightly

PYTHON = PROJECT / ".venv-annotations" / "bin" / "python"
PROGRAM = PROJECT / "tests" / "integration" / "annotation_tools.py"
CLASSES = ["cat", "dog", "far away"]
SEED = 20_261_126
COUNT = 40


def run_tool(name, path):
    if not PYTHON.exists():
        raise ServerError(f"{PYTHON} is missing; run tests/integration/install.sh")
    ran = subprocess.run([PYTHON, PROGRAM, name, path], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]


def make_images(folder, rng):
    """Writes images of random sizes; returns name -> width and height."""
    sizes = {f"{number:03d}.png": (rng.randrange(20, 200), rng.randrange(20, 200)) for number in range(COUNT)}
    (folder / "images").mkdir()
    for name, size in sizes.items():
        PIL.Image.new("RGB", size).save(folder / "images" / name)
    return sizes


def make_box(rng, size):
    """Corners of a box with whole sides, which all formats keep."""
    sides = [sorted(rng.sample(range(side + 1), 2)) for side in size]
    return [sides[0][0], sides[1][0], sides[0][1], sides[1][1]]


def assert_same(found, expected, *, within):
    """Compares classes and boxes."""
    assert found.keys() == expected.keys()
    for name, objects in expected.items():
        assert [one[0] for one in found[name]] == [one[0] for one in objects]
        for one, other in zip(found[name], objects, strict=True):
            assert one[1] == pytest.approx(other[1], abs=within), name


@pytest.fixture(scope="module")
def supervised(tmp_path_factory):
    """A folder with documents of supervision, the sizes of its images, and the truth."""
    folder, rng = tmp_path_factory.mktemp("supervision"), random.Random(SEED)
    sizes = make_images(folder, rng)
    images = {
        name: [{"class": rng.choice(CLASSES), "box": make_box(rng, size)} for _ in range(rng.randrange(1, 6))]
        for name, size in sizes.items()
    }
    (folder / "truth.json").write_text(json.dumps({"classes": CLASSES, "images": images}))
    run_tool("supervision", folder)
    with (folder / "yolo/data.yaml").open("a") as file:
        file.write("train: images\n")
    truth = {name: sorted((one["class"], one["box"]) for one in objects) for name, objects in images.items()}
    return folder, sizes, truth


# Documents, the settings that read them, and how exactly: YOLO's shares have five digits or more.
WRITTEN = {
    "coco": ("coco.json", {"source": "coco"}, 1e-3),
    "yolo": ("yolo/data.yaml", {}, 0.01),
    "voc": ("voc", {"source": "voc"}, 1e-3),
    "labelme": ("labelme", {"mapping": "labelme"}, 1e-3),
    "createml": ("createml.json", {"mapping": "createml"}, 1e-3),
}


@pytest.mark.parametrize("form", WRITTEN)
def test_the_boxes_that_supervision_writes_are_read(form, supervised):
    folder, sizes, truth = supervised
    path, settings, within = WRITTEN[form]
    root = {} if form in ("yolo", "voc") else {"image_root": (str(folder / "images"),)}
    source = open_source(folder / path, **root, **settings)
    assert_same(objects_of(source, sizes), truth, within=within)


def test_masks_of_polygons_are_those_of_labelme_but_for_their_borders(tmp_path, build):
    """LabelMe draws the border too, from corner to corner; masks here have the pixels whose centers are inside."""
    rng = np.random.default_rng(SEED)
    width, height = 120, 90
    shapes = []
    for number in range(30):
        center, radius = rng.uniform((20, 20), (100, 70)), rng.uniform(4, 40, 12)
        turns = np.sort(rng.uniform(0, 2 * np.pi, 12))
        points = center + np.stack([np.cos(turns), np.sin(turns)], 1) * radius[:, None]
        points = np.clip(points, 0, (width - 1, height - 1)).round(3).tolist()
        is_box = number % 3 == 0
        shapes.append(
            {"label": f"{number:02d}", "points": points[:9:8] if is_box else points, "group_id": None}
            | {"shape_type": "rectangle" if is_box else "polygon", "flags": {}}
        )
    folder = tmp_path / "in"
    folder.mkdir()
    PIL.Image.new("RGB", (width, height)).save(folder / "a.png")
    document = {"version": "5.5.0", "flags": {}, "shapes": shapes, "imagePath": "a.png", "imageData": None}
    (folder / "a.json").write_text(json.dumps({**document, "imageHeight": height, "imageWidth": width}))
    run_tool("labelme", folder / "a.json")
    theirs = np.load(folder / "masks.npy")
    flags = ("--mapping=labelme", "--layout=detection_masks", "--image_encoding=png", "--name=x", "--no_report")
    out = build(tmp_path / "out", f"--input={folder}", *flags)
    (record,) = read_dataset(out, "train")
    names = [label.decode() for label in record.values["image/object/class/text"]]
    masks = [np.asarray(PIL.Image.open(io.BytesIO(mask))) > 0 for mask in record.values["image/object/mask"]]
    ours = dict(zip(names, masks, strict=True))
    assert open_dataset(out).splits == {"train": 1}
    for number, shape in enumerate(shapes):
        ys, xs = np.nonzero(ours[shape["label"]] != theirs[number])
        (left, top), (right, bottom) = shape["points"][0], shape["points"][-1]
        corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
        outline = shape["points"] if shape["shape_type"] == "polygon" else corners
        assert distance_to(np.stack([xs, ys], 1) + 0.5, np.array(outline)).max(initial=0) < 1.5, number


def distance_to(points, outline):
    """The distance of each point to the nearest side of an outline."""
    distances = []
    for one, other in zip(outline, np.roll(outline, -1, 0), strict=True):
        side = other - one
        along = np.clip((points - one) @ side / (side @ side), 0, 1)
        distances.append(np.linalg.norm(points - one - along[:, None] * side, axis=1))
    return np.min(distances, axis=0)


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    """A folder with tasks of Label Studio and what its converter makes of them, and the sizes of its images."""
    folder, rng = tmp_path_factory.mktemp("studio"), random.Random(SEED)
    sizes = make_images(folder, rng)
    tasks = []
    for number, (name, (width, height)) in enumerate(sizes.items()):
        results = []
        for _ in range(rng.randrange(1, 5)):
            about = {"original_width": width, "original_height": height, "image_rotation": 0, "to_name": "image"}
            label = [rng.choice(CLASSES)]
            if rng.random() < 0.5:
                sides = make_box(rng, (width, height))
                x, y = 100 * sides[0] / width, 100 * sides[1] / height
                value = {"x": x, "y": y, "width": 100 * sides[2] / width - x, "height": 100 * sides[3] / height - y}
                value |= {"rotation": rng.choice([0, 0, 30, 211.5]), "rectanglelabels": label}
                results.append({**about, "from_name": "box", "type": "rectanglelabels", "value": value})
            else:
                points = [[rng.uniform(0, 100), rng.uniform(0, 100)] for _ in range(rng.randrange(3, 9))]
                value = {"points": points, "closed": True, "polygonlabels": label}
                results.append({**about, "from_name": "outline", "type": "polygonlabels", "value": value})
        annotation = {"id": number, "was_cancelled": False, "completed_by": 1, "result": results}
        annotation |= {"created_at": "2024-01-30T02:40:43Z", "updated_at": "2024-01-30T02:40:43Z", "lead_time": 2.5}
        tasks.append({"id": number, "data": {"image": f"/data/upload/1/{name}"}, "annotations": [annotation]})
    (folder / "tasks.json").write_text(json.dumps(tasks))
    run_tool("label_studio", folder)
    return folder, sizes


def read_studio(studio, path, mapping):
    folder, sizes = studio
    settings = {"mapping": mapping} if mapping else {"source": "coco"}
    source = open_source(folder / path, image_root=(str(folder / "images"),), needs_polygons=True, **settings)
    return objects_of(source, sizes)


def test_the_exports_of_label_studio_are_the_same(studio):
    tasks = read_studio(studio, "tasks.json", "labelstudio")
    assert sum(map(len, tasks.values())) > COUNT
    assert read_studio(studio, "JSON_MIN/result.json", "labelstudio_min") == tasks
    assert read_studio(studio, "CSV/result.csv", "labelstudio_csv") == tasks


def test_turned_boxes_of_label_studio_have_the_corners_of_its_converter(studio):
    folder, _ = studio
    tasks = read_studio(studio, "tasks.json", "labelstudio")
    corners = json.loads((folder / "corners.json").read_text())
    turned = 0
    for name, objects in tasks.items():
        found = sorted(box for _, box, _ in objects)
        for points in corners[f"/data/upload/1/{name}"]:
            x, y = zip(*points, strict=True)
            expected = [min(x), min(y), max(x), max(y)]
            assert any(box == pytest.approx(expected, abs=1e-3) for box in found), name
            turned += len({*x}) > 2
    assert turned > 10


def test_polygons_of_label_studio_are_those_of_its_coco(studio):
    path = studio[0] / "COCO/result.json"
    path.write_text(path.read_text().replace("\\/data\\/upload\\/1\\/", "").replace("/data/upload/1/", ""))
    tasks, coco = read_studio(studio, "tasks.json", "labelstudio"), read_studio(studio, path, None)
    outlines = {name: sorted(parts for _, _, parts in objects if parts) for name, objects in coco.items()}
    compared = 0
    for name, several in outlines.items():
        ours = [parts for _, _, parts in tasks[name] if parts]
        for parts in several:
            assert any(are_close(parts, one) for one in ours), name
            compared += 1
    assert compared > 20


def are_close(parts, others):
    """Whether polygons have the same corners."""
    pairs = zip(parts, others, strict=False)
    return len(parts) == len(others) and all(len(a) == len(b) and np.allclose(a, b, atol=1e-2) for a, b in pairs)
