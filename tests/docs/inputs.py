"""The inputs that the passages read, under the names that they use, made from the photos of the tests."""

from __future__ import annotations

import csv
import io
import itertools
import json
import shutil
import sqlite3
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from PIL import Image, ImageOps

from tests.annotated_inputs import Picture, coco_of, write_captions, write_coco, write_voc, write_yolo
from tests.docs.pages import PROJECT
from tests.framing import write_examples
from tests.pixel_files import save_cifar, save_mnist
from tests.tiff_files import tiff_of
from tests.writers import WRITERS

PHOTOS = (PROJECT / "tests" / "data" / "photos").resolve()
EMOTIONS = ("surprise", "fear", "happy", "sadness", "disgust", "anger")
# As on the page of the user's own code.
ROWS = """
import sqlite3

from beam_tfrecords import Sample

def rows(part):
    for number, path in sqlite3.connect("photos.db").execute("SELECT id, path FROM photos WHERE kind = ?", (part,)):
        yield Sample(number, image=path, label=part)
"""


def make_inputs(folder: Path) -> None:
    """Makes all inputs in a folder."""
    (folder / "photos").symlink_to(PHOTOS)
    photos = sorted(PHOTOS.glob("*/*.jpg"))
    names = [path.relative_to(PHOTOS).as_posix() for path in photos]
    _copy(photos[:4], [folder / "more_photos" / name for name in names[:4]])
    fruits = ("apple01", "apple02", "apple03", "orange01", "orange02")
    _copy(photos[:5], [folder / "fruit" / f"{fruit}.jpg" for fruit in fruits])
    for split in ("training_data", "crossvalidation_data"):
        _copy(sorted(PHOTOS.glob("cat/*.jpg")), [folder / "faces" / split / emotion / "1.jpg" for emotion in EMOTIONS])
        for number, emotion in enumerate(EMOTIONS):
            size = (40 + 7 * number, 75 - 9 * number)
            Image.open(photos[-number]).resize(size).save(folder / "faces" / split / emotion / "2.png")
    for subject, photo in enumerate(photos[:3], 1):
        face = Image.open(photo).convert("L").resize((92, 112))
        (folder / "subjects" / f"s{subject}").mkdir(parents=True)
        face.save(folder / "subjects" / f"s{subject}" / "1.pgm")
        face.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(folder / "subjects" / f"s{subject}" / "2.png")
    for photo in photos[:12]:
        file = folder / "scans" / photo.relative_to(PHOTOS).with_suffix(".png")
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.asarray(Image.open(photo).convert("L")).astype(np.uint16) * 16).save(file)
    _make_scraped(folder / "scraped", photos)
    for split, chosen in (("train", photos[::2]), ("val", photos[1::2])):
        _copy(chosen, [folder / "split_photos" / split / photo.relative_to(PHOTOS) for photo in chosen])
    _make_tables(folder, names)
    with tarfile.open(folder / "photos.tar", "w") as archive:
        archive.add(PHOTOS.resolve(), ".")
    with zipfile.ZipFile(folder / "photos.zip", "w") as archive:
        for name in names:
            archive.write(PHOTOS / name, name)
    _make_annotated(folder, photos)
    shutil.make_archive(str(folder / "yolo"), "zip", folder / "yolo")
    shutil.make_archive(str(folder / "VOC2012"), "tar", folder / "VOC2012")
    _make_documents(folder, photos)
    _make_masks(folder, photos)
    _make_bands(folder)
    (folder / "archives").mkdir()
    for name in ("cat", "flower"):
        with tarfile.open(folder / "archives" / f"{name}.tar.gz", "w:gz") as archive:
            archive.add(PHOTOS / name, name)
    for folder_name in ("shards", "wordnet"):
        (folder / folder_name).mkdir()
    for number in range(3):
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as archive:
            for name in names[number::3]:
                archive.add(PHOTOS / name, name)
        (folder / "shards" / f"{number:03d}.tar.zst").write_bytes(zstandard.compress(content.getvalue()))
    _make_hf_parquet(folder / "hf", photos)
    for name in ("old", "older"):
        (folder / name).symlink_to(PROJECT / "tests" / "data" / "dataset_1_0_0")
    indices = sorted((folder / "old/index").glob("*.parquet"))
    keys = [key for index in indices for key in pq.read_table(index)["key"].to_pylist()]
    embeddings = pa.array([[number / 4, 0.5] for number in range(len(keys))], pa.list_(pa.float32()))
    pq.write_table(pa.table({"key": keys, "embedding": embeddings}), folder / "embeddings.parquet")
    shutil.copytree(folder / "old", folder / "tfds", ignore=lambda *_: ["manifest.json", "_SUCCESS", "index"])
    _make_arrays(folder)
    _make_records(folder, photos)
    (folder / "webdataset").mkdir()
    for number in range(2):
        with tarfile.open(folder / "webdataset" / f"{number:02d}.tar", "w") as archive:
            for name in names[number::2]:
                archive.add(PHOTOS / name, name)
                label = sorted({one.split("/")[0] for one in names}).index(name.split("/")[0])
                for suffix, text in (("cls", str(label)), ("txt", f"a photo of {name}")):
                    member = tarfile.TarInfo(name.replace("jpg", suffix))
                    member.size = len(text)
                    archive.addfile(member, io.BytesIO(text.encode()))
    for name, wordnet_id in (("cat", "n02121808"), ("flower", "n11669921")):
        with tarfile.open(folder / "wordnet" / f"{wordnet_id}.tar", "w") as archive:
            for photo in sorted((PHOTOS / name).iterdir()):
                archive.add(photo, photo.name)
    for writer in WRITERS.values():
        if writer.source and not (folder / writer.source).exists():
            writer.make(folder / writer.source)


def photos_by_name() -> dict[str, bytes]:
    """Some photos, for a server."""
    return {photo.relative_to(PHOTOS).as_posix(): photo.read_bytes() for photo in sorted(PHOTOS.glob("*/*_01.jpg"))}


def make_urls(folder: Path, server: str) -> None:
    """Makes the table of their URLs."""
    with (folder / "urls.csv").open("w", newline="") as file:
        rows = ((f"{server}/{name}", name.split("/")[0]) for name in photos_by_name())
        csv.writer(file).writerows([("url", "label"), *rows])


def _make_scraped(folder: Path, photos: list[Path]) -> None:
    """Photos of two classes, among them one that occurs twice, a truncated one and a web page."""
    _copy(photos[:20], [folder / ("cat" if number % 2 else "dog") / f"{number}.jpg" for number in range(20)])
    _copy(photos[:1], [folder / "cat" / "again.jpg"])
    (folder / "cat" / "cut.jpg").write_bytes(photos[0].read_bytes()[:9_000])
    (folder / "dog" / "page.jpg").write_text("<html>Not found</html>")


def _make_records(folder: Path, photos: list[Path]) -> None:
    """Records of several kinds: texts, names of images, and pairs of images."""
    images = [photo.read_bytes() for photo in photos]
    names = [photo.relative_to(PHOTOS).as_posix().encode() for photo in photos]
    labels = [index % 2 for index in range(len(photos))]
    rows = {
        "reviews": [{"id": name, "text": b"good", "stars": index % 5} for index, name in enumerate(names)],
        "named": [{"image/filename": name, "label": label} for name, label in zip(names, labels, strict=True)],
        "stereo_records": [
            {"left": left, "right": right, "label": label}
            for left, right, label in zip(images, reversed(images), labels, strict=True)
        ],
    }
    for name, examples in rows.items():
        (folder / name).mkdir()
        write_examples(folder / name / "data.tfrecord", examples)


def _make_arrays(folder: Path) -> None:
    random = np.random.default_rng(0)
    grey, labels = random.integers(0, 256, (12, 28, 28), dtype=np.uint8), np.arange(12) % 3
    parts = {"train": slice(0, 8), "val": slice(8, 10), "test": slice(10, 12)}
    arrays = {f"{split}_images": grey[part] for split, part in parts.items()}
    np.savez(folder / "medmnist.npz", **arrays, **{f"{split}_labels": labels[part] for split, part in parts.items()})
    save_mnist(folder / "mnist", {"train": grey, "test": 255 - grey}, {"train": labels, "test": labels})
    with (folder / "fer2013.csv").open("w", newline="") as file:
        texts = (" ".join(map(str, image.ravel())) for image in grey)
        usage = ["Training"] * 8 + ["PublicTest"] * 2 + ["PrivateTest"] * 2
        csv.writer(file).writerows([("emotion", "pixels", "Usage"), *zip(labels, texts, usage, strict=True)])
    digits = [{"image": image.tobytes(), "label": int(label)} for image, label in zip(grey, labels, strict=True)]
    write_examples(folder / "digits.tfrecord", digits)
    patches = random.uniform(-1, 1, (12, 40, 40, 3)).astype("<f4")
    numbers = [{"image": patch.tobytes(), "label": int(label)} for patch, label in zip(patches, labels, strict=True)]
    write_examples(folder / "patches.tfrecord", numbers)
    cifar = folder / "cifar-10-batches-bin"
    for name in ("data_batch_1", "data_batch_2", "test_batch"):
        save_cifar(cifar / f"{name}.bin", random.integers(0, 256, (12, 32, 32, 3), dtype=np.uint8), labels)
    (cifar / "batches.meta.txt").write_text("airplane\nautomobile\nbird\n")


def _make_hf_parquet(folder: Path, photos: list[Path]) -> None:
    classes = sorted({photo.parent.name for photo in photos})
    features = {"image": {"_type": "Image"}, "label": {"names": classes, "_type": "ClassLabel"}}
    folder.mkdir()
    for split, chosen in (("train", photos[::2]), ("test", photos[1::2])):
        images = [{"bytes": photo.read_bytes(), "path": photo.name} for photo in chosen]
        table = pa.table({"image": images, "label": [classes.index(photo.parent.name) for photo in chosen]})
        described = json.dumps({"info": {"features": features}}).encode()
        pq.write_table(
            table.replace_schema_metadata({b"huggingface": described}), folder / f"{split}-00000-of-00001.parquet"
        )


def _make_tables(folder: Path, names: list[str]) -> None:
    with (folder / "labels.csv").open("w", newline="") as file:
        rows = [(f"photos/{name}", name.split("/")[0], 2000 + number) for number, name in enumerate(names)]
        csv.writer(file).writerows([("image", "label", "year"), *rows])
    with (folder / "views.jsonl").open("w") as file:
        for number, name in enumerate(names):
            view = {"view": ("front", "back")[number % 3 == 0], "box": [10, 5, 90 + number, 80]}
            label = name.split("/")[0]
            if label in ("cat", "coffee", "flower"):
                file.write(json.dumps({"path": f"photos/{name}", "label": label.title(), **view}) + "\n")
    with (folder / "boxes.csv").open("w", newline="") as file:
        boxes = [(f"photos/{name}", 0, 0, 20, 10 + number, name.split("/")[0]) for number, name in enumerate(names)]
        csv.writer(file).writerows([("image", "xmin", "ymin", "xmax", "ymax", "class"), *boxes])
    with (folder / "breeds.csv").open("w", newline="") as file:
        stems = [name.removesuffix(".jpg").split("/") for name in names]
        csv.writer(file, delimiter=";").writerows([("id", "class"), *((stem, kind) for kind, stem in stems)])
    for split, some in (("train", names[:8]), ("val", names[8:14])):
        _copy(
            [PHOTOS / name for name in some], [folder / "split_tables" / split / f"{n}.jpg" for n in range(len(some))]
        )
        lines = [f"{number}.jpg,{name.split('/')[0]}" for number, name in enumerate(some)]
        (folder / f"split_tables/{split}.csv").write_text("\n".join(["image,label", *lines]))
    with (folder / "table.csv").open("w", newline="", encoding="utf-8") as file:
        rows = ((number, number / 8 - 3.3, ("one", "two, or more", "Grüße")[number % 3]) for number in range(10_000))
        csv.writer(file).writerows([("count", "weight", "name"), *rows])
    with (folder / "tags.csv").open("w", newline="") as file:
        rows = [(f"photos/{name}", "outdoor small" if number % 2 else "small") for number, name in enumerate(names)]
        csv.writer(file).writerows([("image", "tags"), *rows])
    with (folder / "frame.csv").open("w", newline="") as file:
        rows = [(number, f"photos/{name}", f"{number % 3}.0") for number, name in enumerate(names)]
        csv.writer(file).writerows([("", "image", "label"), *rows])
    _copy([PHOTOS / name for name in names[:6]], [folder / "captioned" / f"{number}.jpg" for number in range(6)])
    with (folder / "captioned" / "metadata.csv").open("w", newline="") as file:
        rows = [(f"{number}.jpg", "odd" if number % 2 else "even") for number in range(6)]
        csv.writer(file).writerows([("file_name", "label"), *rows])
    with (folder / "pairs.csv").open("w", newline="") as file:
        rows = [(f"photos/{one}", f"photos/{other}", one.split("/")[0]) for one, other in itertools.pairwise(names)]
        csv.writer(file).writerows([("left", "right", "label"), *rows])
    colors = (f"proteins/{number}_{color}.png" for number in range(3) for color in ("red", "green"))
    _copy([PHOTOS / name for name in names[:6]], [folder / name for name in colors])
    (folder / "proteins.csv").write_text("id,label\n0,cat\n1,coffee\n2,cat\n")
    _make_joined(folder, names)
    for side in ("left", "right"):
        _copy([PHOTOS / name for name in names[:6]], [folder / "stereo" / side / f"{n}.jpg" for n in range(6)])
    _copy([PHOTOS / name for name in names[:6]], [folder / "views" / f"{number}.jpg" for number in range(6)])
    views = ({"file_names": [f"{view}.jpg" for view in range(first, 6)]} for first in range(4))
    (folder / "views" / "metadata.jsonl").write_text("\n".join(map(json.dumps, views)))
    table = {"path": [f"photos/{name}" for name in names], "label": [name.split("/")[0] for name in names]}
    pq.write_table(pa.table(table), folder / "paths.parquet")
    with sqlite3.connect(folder / "photos.db") as database:
        database.execute("CREATE TABLE photos (id INTEGER PRIMARY KEY, path TEXT, kind TEXT)")
        rows = [(number, f"photos/{name}", name.split("/")[0]) for number, name in enumerate(names)]
        database.executemany("INSERT INTO photos VALUES (?, ?, ?)", rows)
    (folder / "my_rows.py").write_text(ROWS)
    with (folder / "people.csv").open("w", newline="") as file:
        values = ((f"photos/{name}", "fm"[number % 2]) for number, name in enumerate(names[:8]))
        ages = (("adult", "child", "baby")[number % 3] for number in range(8))
        rows = [(*row, age, 10, 12, 31, 33) for row, age in zip(values, ages, strict=True)]
        csv.writer(file).writerows([("image", "gender", "age", "x0", "y0", "x1", "y1"), *rows])
    ages_of = [folder / "utkface" / f"{20 + number}_{number % 2}_{number % 3}_2017{number}.jpg" for number in range(6)]
    _copy([PHOTOS / name for name in names[:6]], ages_of)
    with (folder / "faces.jsonl").open("w") as file:
        for number, name in enumerate(names[:8]):
            row = {"path": f"photos/{name}", "class": number % 2, "age": 20 + number, "landmarks": [0.5] * number}
            file.write(json.dumps(row) + "\n")


def _make_joined(folder: Path, names: list[str]) -> None:
    """Tables beside each other, as those of CelebA, and lists of splits."""
    ids = [f"{number:06d}.jpg" for number in range(1, 9)]
    _copy([PHOTOS / name for name in names[:8]], [folder / "celeba/images" / name for name in ids])
    attributes = "".join(f"{name}  1 {1 - number % 2 * 2:2}  1\n" for number, name in enumerate(ids))
    (folder / "celeba/list_attr_celeba.txt").write_text(f"8\nMale Smiling Young\n{attributes}")
    for name, modulus in (("identity_CelebA", 4), ("list_eval_partition", 3)):
        lines = (f"{one} {number % modulus}\n" for number, one in enumerate(ids))
        (folder / f"celeba/{name}.txt").write_text("".join(lines))
    with (folder / "patients.csv").open("w", newline="") as file:
        rows = [(Path(name).name, f"p{number // 2}") for number, name in enumerate(names)]
        csv.writer(file).writerows([("file", "patient"), *rows])
    people = [f"{name}/{name}_{number:04d}.jpg" for name in ("Ann", "Bo") for number in (1, 2)]
    _copy([PHOTOS / name for name in names[:4]], [folder / "people" / name for name in people])
    pairs = [("Ann", 1, "Ann", 2), ("Bo", 1, "Bo", 2), ("Ann", 1, "Bo", 2), ("Ann", 2, "Bo", 1)]
    lines = (f"{a}/{a}_{i:04}.jpg,{b}/{b}_{j:04}.jpg,{'same' if a == b else 'different'}\n" for a, i, b, j in pairs)
    (folder / "people/pairs.csv").write_text("first,second,label\n" + "".join(lines))
    # Beside the tables, they would be the splits of all pages.
    (folder / "names").mkdir()
    (folder / "names/train_list.txt").write_text("\n".join(names[::2]))
    (folder / "names/test_list.txt").write_text("\n".join(names[1::2]))


def _make_documents(folder: Path, photos: list[Path]) -> None:
    """Photos with a box in each, as LabelMe, KITTI and a tool of one's own have them."""
    tasks, faces = [], []
    for number, photo in enumerate(photos[:8]):
        _copy([photo] * 2, [folder / f"leaves/{number}.jpg", folder / f"kitti/image_2/{number:06d}.jpg"])
        with Image.open(photo) as image:
            width, height = image.size
        left, top, right, bottom = width // 5, height // 10, width // 2, height // 2
        shape = {"label": "leaf", "shape_type": "polygon", "points": [[left, top], [right, top], [right, bottom]]}
        document = {"imagePath": f"{number}.jpg", "imageWidth": width, "imageHeight": height, "shapes": [shape]}
        (folder / f"leaves/{number}.json").write_text(json.dumps(document))
        row = f"Car 0.00 0 1.5 {left} {top} {right} {bottom} 1.5 1.6 3.7 1.0 1.7 13.2 1.6\n"
        path = folder / f"kitti/label_2/{number:06d}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(row if number else "")
        faces.append(f"{number}.jpg {width / 2} {height / 2} 20 10 0.3 {' '.join(['12 15.5'] * 5)}\n")
        mark = {"kind": "leaf", "at": {"x": 20, "y": 10, "w": 30, "h": 40}}
        marks = [mark, {"kind": "unsure", "at": mark["at"]}]
        tasks.append({"photo": f"C:\\scans\\leaves\\{number}.jpg", "marks": marks, "seconds": 2.5, "fold": "train"})
    (folder / "faces.txt").write_text("".join(faces))
    (folder / "export.json").write_text(json.dumps({"version": 3, "tasks": tasks}))


def _standing(pictures: dict[str, Picture]) -> list[dict[str, Any]]:
    """Annotations with a keypoint at the upper left corner of each box, and one that is not labelled."""
    annotations: list[dict[str, Any]] = coco_of(pictures)["annotations"]
    return [{**one, "keypoints": [*map(int, one["bbox"][:2]), 2, 0, 0, 0], "num_keypoints": 1} for one in annotations]


def _make_annotated(folder: Path, photos: list[Path]) -> None:
    """Photos with a box in each, as COCO, YOLO and Pascal VOC have them."""
    yolo: dict[str, dict[str, Picture]] = {}
    for number, split in enumerate(("train", "val")):
        chosen = photos[number :: len(photos) // 6]
        names = [f"{split}2017/{2 * place + number:012d}.jpg" for place in range(len(chosen))]
        _copy(chosen, [folder / name for name in names])
        pictures = {}
        for name, photo in zip(names, chosen, strict=True):
            width, height = Image.open(folder / name).size
            box = (width * 0.2, height * 0.1, width * 0.7, height * 0.9)
            label = "dog" if photo.parent.name == "dog" else "cat"
            pictures[name.partition("/")[2]] = Picture(height, width, [(label, box)])
        yolo[{"val": "valid"}.get(split, split)] = pictures
        write_coco(folder / f"annotations/instances_{split}2017.json", pictures)
        write_coco(folder / f"annotations/person_keypoints_{split}2017.json", pictures, annotations=_standing(pictures))
        write_captions(folder / f"annotations/captions_{split}2017.json", pictures)
    write_yolo(folder / "yolo", yolo)
    write_voc(folder / "VOC2012", {"train": yolo["train"], "val": yolo["valid"]})


def _copy(sources: list[Path], targets: list[Path]) -> None:
    for source, target in zip(sources, targets, strict=True):
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)


def _make_bands(folder: Path) -> None:
    noise = np.random.default_rng(0)

    def save(path: Path, *shape: int) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tiff_of(noise.integers(0, 10_000, shape, dtype=np.uint16)))

    for name, number in itertools.product(("Forest", "River"), range(1, 4)):
        save(folder / "eurosat" / name / f"{name}_{number}.tif", 64, 64, 13)
    (folder / "sentinel_masks").mkdir()
    for number in range(3):
        save(folder / "sentinel" / f"{number}.tif", 40, 60, 13)
        Image.fromarray(noise.integers(0, 3, (40, 60), dtype=np.uint8)).save(
            folder / "sentinel_masks" / f"{number}.png"
        )
        for band in ("B02", "B03", "B08"):
            save(folder / "bands" / band / f"tile{number}.tif", 20, 30)
        for band in ("nir", "red"):
            save(folder / "tiles" / f"{number}_{band}.tif", 20, 30)


def _make_masks(folder: Path, photos: list[Path]) -> None:
    """Photos with masks of two classes, in folders named in several ways, and a table of them."""
    rows = []
    for number, photo in enumerate(photos[:6]):
        with Image.open(photo) as image:
            mask = image.convert("L").point(lambda value: value > 128)
        colored = ImageOps.colorize(mask.point(lambda value: value * 255), (128, 64, 128), (244, 35, 232))
        other = mask.point(lambda value: 1 - value)
        places = {
            f"scenes/images/{number}.jpg": {f"scenes/masks/{number}.png": mask},
            f"cars/train/{number}.jpg": {f"cars/train_masks/{number}_mask.png": mask},
            f"streets/leftImg8bit/a_{number}_leftImg8bit.jpg": {f"streets/gtFine/a_{number}_gtFine_labelIds.png": mask},
            f"roads/images/{number}.jpg": {f"roads/colored/{number}.png": colored},
            f"leaves/images/{number}.jpg": {
                f"leaves/masks/leaf/{number}.png": mask,
                f"leaves/masks/spot/{number}.png": other,
            },
        }
        for copy, masks in places.items():
            _copy([photo], [folder / copy])
            for path, drawn in masks.items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                drawn.save(folder / path)
        rows.append([f"scenes/images/{number}.jpg", f"scenes/masks/{number}.png"])
    _make_object_masks(folder, photos[:6])
    (folder / "roads/colors.txt").write_text("road 128 64 128\nsidewalk 244 35 232\nvoid 0 0 0\n")
    with (folder / "scenes.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["image", "mask"], *rows])


def _make_object_masks(folder: Path, photos: list[Path]) -> None:
    """Photos with a file for each object, in the form of the Data Science Bowl, and with run lengths in a table."""
    rows = []
    for number, photo in enumerate(photos):
        _copy([photo] * 2, [folder / f"cells/{number}/images/{number}.jpg", folder / f"steel/{number}.jpg"])
        with Image.open(photo) as image:
            width, height = image.size
        for place in range(2):
            mask = np.zeros((height, width), bool)
            mask[place * height // 2 : (place + 1) * height // 2, width // 4 : width // 2] = True
            (folder / f"cells/{number}/masks").mkdir(exist_ok=True)
            Image.fromarray(mask).save(folder / f"cells/{number}/masks/{place}.png")
            pixels = np.concatenate([[0], mask.T.ravel(), [0]])
            runs = np.flatnonzero(pixels[1:] != pixels[:-1]) + 1
            runs[1::2] -= runs[::2]
            rows.append([f"{number}.jpg", place + 1, " ".join(map(str, runs))])
    with (folder / "steel.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["ImageId", "ClassId", "EncodedPixels"], *rows])
