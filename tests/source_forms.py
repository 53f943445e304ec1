"""Inputs in the form of every source: the same photos, the same objects, masks, arrays of pixels."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard
from PIL import Image

from beam_tfrecords.features.example_pb2 import BytesList, Feature, FloatList
from tests.annotated_inputs import CATEGORIES, PICTURES, Picture, save_pictures, write_coco, write_voc, write_yolo
from tests.archive_files import tar_of
from tests.framing import write_examples
from tests.pixel_files import save_cifar, save_mnist

PHOTOS = Path(__file__).parent / "data/photos"
NAMES = sorted(path.relative_to(PHOTOS).as_posix() for path in PHOTOS.glob("*/*_0[1-3].jpg"))


def _photos_tar() -> bytes:
    return tar_of({name: (PHOTOS / name).read_bytes() for name in NAMES})


def _write_folder(folder: Path) -> None:
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(PHOTOS / name, folder / name)


def _write_tar(folder: Path) -> None:
    (folder / "photos.tar").write_bytes(_photos_tar())


def _write_zstd(folder: Path) -> None:
    (folder / "photos.tar.zst").write_bytes(zstandard.compress(_photos_tar()))


def _write_zip(folder: Path) -> None:
    _write_folder(folder / "photos")
    shutil.make_archive(str(folder / "photos"), "zip", folder / "photos")


def _write_webdataset(folder: Path) -> None:
    members = {}
    for name in NAMES:
        stem = name.removesuffix(".jpg")
        members[name] = (PHOTOS / name).read_bytes()
        members[f"{stem}.json"] = json.dumps({"label": name.split("/")[0]}).encode()
        members[f"{stem}.index"] = b"7"
    (folder / "photos.tar").write_bytes(tar_of(members))


def _write_rows(path: Path) -> None:
    with open(path, "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["file_name", "label"])
        rows.writerows([name, name.split("/")[0]] for name in NAMES)


def _write_csv(folder: Path) -> None:
    _write_folder(folder / "photos")
    _write_rows(folder / "photos/table.csv")


def _write_metadata(folder: Path) -> None:
    _write_folder(folder / "photos")
    _write_rows(folder / "photos/metadata.csv")


def _write_parquet(folder: Path, compression: str) -> None:
    labels = [name.split("/")[0] for name in NAMES]
    images = [{"bytes": (PHOTOS / name).read_bytes(), "path": name} for name in NAMES]
    pq.write_table(pa.table({"image": images, "label": labels}), folder / "photos.parquet", compression=compression)


def _write_plain_parquet(folder: Path) -> None:
    _write_parquet(folder, "none")


def _write_snappy_parquet(folder: Path) -> None:
    _write_parquet(folder, "snappy")


def _write_tfrecord(folder: Path) -> None:
    examples = ({"image": (PHOTOS / name).read_bytes(), "label": name.split("/")[0].encode()} for name in NAMES)
    write_examples(folder / "photos.tfrecord", examples)


# Name -> what writes the input below a folder, and the flags of the request, where `{root}` is that folder.
Forms = Mapping[str, tuple[Callable[[Path], None], Sequence[str]]]
PHOTO_FORMS: Forms = {
    "folder": (_write_folder, ["--input={root}"]),
    "csv": (_write_csv, ["--input={root}/photos/table.csv"]),
    "hf_folder": (_write_metadata, ["--input={root}/photos", "--source=hf_folder"]),
    "tar": (_write_tar, ["--input={root}/photos.tar"]),
    "tar_zstd": (_write_zstd, ["--input={root}/photos.tar.zst"]),
    "zip": (_write_zip, ["--input={root}/photos.zip"]),
    "webdataset": (_write_webdataset, ["--input={root}/photos.tar"]),
    "parquet": (_write_plain_parquet, ["--input={root}/photos.parquet"]),
    "parquet_snappy": (_write_snappy_parquet, ["--input={root}/photos.parquet"]),
    "tfrecord": (_write_tfrecord, ["--input={root}/photos.tfrecord"]),
}


def _write_coco(folder: Path) -> None:
    save_pictures(folder / "images")
    write_coco(folder / "instances.json")


def _write_yolo(folder: Path) -> None:
    write_yolo(folder, {"train": PICTURES})


def _write_voc(folder: Path) -> None:
    write_voc(folder, {"train": PICTURES})


def _write_documents(folder: Path) -> None:
    save_pictures(folder / "images")
    lines = []
    for name, picture in PICTURES.items():
        boxes = [[xmin, ymin, xmax - xmin, ymax - ymin] for _, (xmin, ymin, xmax, ymax) in picture.objects]
        names = [label for label, _ in picture.objects]
        boxes = [{"tag": label, "fbox": box} for label, box in zip(names, boxes, strict=True)]
        lines.append(json.dumps({"ID": name, "gtboxes": boxes}) + "\n")
    (folder / "annotations.odgt").write_text("".join(lines))


def _objects_of(picture: Picture) -> dict[str, list[Any]]:
    """As Hugging Face's datasets has them."""
    boxes = [[xmin, ymin, xmax - xmin, ymax - ymin] for _, (xmin, ymin, xmax, ymax) in picture.objects]
    return {"bbox": boxes, "categories": [name for name, _ in picture.objects]}


def _write_object_metadata(folder: Path) -> None:
    save_pictures(folder / "images")
    rows = [{"file_name": name, "objects": _objects_of(picture)} for name, picture in PICTURES.items()]
    (folder / "images/metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _write_object_parquet(folder: Path) -> None:
    save_pictures(folder / "images")
    names = list(CATEGORIES)
    box = {"_type": "List", "feature": {"_type": "Value", "dtype": "float32"}, "length": 4}
    one = {"bbox": box, "category": {"_type": "ClassLabel", "names": names}}
    features = {"image": {"_type": "Image"}, "objects": {"_type": "List", "feature": one}}
    rows = []
    for name, picture in PICTURES.items():
        found = _objects_of(picture)
        objects = [
            {"bbox": box, "category": names.index(label)}
            for box, label in zip(found["bbox"], found["categories"], strict=True)
        ]
        rows.append({"image": {"bytes": (folder / "images" / name).read_bytes(), "path": name}, "objects": objects})
    schema = pa.schema(
        {
            "image": pa.struct({"bytes": pa.binary(), "path": pa.string()}),
            "objects": pa.list_(pa.struct({"bbox": pa.list_(pa.float32(), 4), "category": pa.int64()})),
        },
        metadata={"huggingface": json.dumps({"info": {"features": features}})},
    )
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / "objects.parquet")


def _write_object_webdataset(folder: Path) -> None:
    save_pictures(folder / "images")
    members = {}
    for name, picture in PICTURES.items():
        members[name] = (folder / "images" / name).read_bytes()
        members[name.replace(".jpg", ".json")] = json.dumps({"objects": _objects_of(picture)}).encode()
    (folder / "objects.tar").write_bytes(tar_of(members))


def _write_object_records(folder: Path) -> None:
    save_pictures(folder / "images")
    examples = []
    for name, picture in PICTURES.items():
        shape = (picture.width, picture.height) * 2
        sides = {
            f"image/object/bbox/{side}": Feature(
                float_list=FloatList(value=[box[place] / shape[place] for _, box in picture.objects])
            )
            for place, side in enumerate(("xmin", "ymin", "xmax", "ymax"))
        }
        classes = Feature(bytes_list=BytesList(value=[label.encode() for label, _ in picture.objects]))
        image = (folder / "images" / name).read_bytes()
        examples.append({"image/encoded": image, **sides, "image/object/class/text": classes})
    write_examples(folder / "objects.tfrecord", examples)


OBJECT_FORMS: Forms = {
    "coco": (_write_coco, ["--input={root}/instances.json", "--image_root={root}/images"]),
    "yolo": (_write_yolo, ["--input={root}/data.yaml"]),
    "voc": (_write_voc, ["--input={root}", "--source=voc"]),
    "documents": (_write_documents, ["--input={root}/annotations.odgt", "--mapping=crowdhuman"]),
    "hf_folder_objects": (_write_object_metadata, ["--input={root}/images", "--source=hf_folder"]),
    "parquet_objects": (_write_object_parquet, ["--input={root}/objects.parquet"]),
    "tfrecord_objects": (_write_object_records, ["--input={root}/objects.tfrecord"]),
    "webdataset_objects": (_write_object_webdataset, ["--input={root}/objects.tar"]),
}


def _write_masks(folder: Path) -> None:
    save_pictures(folder / "images")
    (folder / "masks").mkdir()
    for name, picture in PICTURES.items():
        mask = np.zeros((picture.height, picture.width), np.uint8)
        for number, (_, (xmin, ymin, xmax, ymax)) in enumerate(picture.objects, 1):
            mask[int(ymin) : int(ymax), int(xmin) : int(xmax)] = number
        Image.fromarray(mask).save(folder / "masks" / name.replace(".jpg", ".png"))


def _pairs(folder: Path) -> dict[str, tuple[bytes, bytes]]:
    """Stem -> an image and its mask."""
    _write_masks(folder)
    return {
        path.stem: (path.read_bytes(), (folder / "masks" / f"{path.stem}.png").read_bytes())
        for path in sorted((folder / "images").iterdir())
    }


def _write_mask_parquet(folder: Path) -> None:
    rows = [{"image": {"bytes": image}, "mask": {"bytes": mask}} for image, mask in _pairs(folder).values()]
    pq.write_table(pa.Table.from_pylist(rows), folder / "masks.parquet")


def _write_mask_webdataset(folder: Path) -> None:
    members = {}
    for stem, (image, mask) in _pairs(folder).items():
        members |= {f"{stem}.jpg": image, f"{stem}.mask.png": mask}
    (folder / "masks.tar").write_bytes(tar_of(members))


def _write_mask_records(folder: Path) -> None:
    pairs = _pairs(folder).values()
    examples = ({"image/encoded": image, "image/segmentation/class/encoded": mask} for image, mask in pairs)
    write_examples(folder / "masks.tfrecord", examples)


MASK_FORMS: Forms = {
    "masks": (_write_masks, ["--input={root}/images", "--mask_root={root}/masks"]),
    "parquet_masks": (_write_mask_parquet, ["--input={root}/masks.parquet", "--layout=segmentation"]),
    "webdataset_masks": (_write_mask_webdataset, ["--input={root}/masks.tar", "--layout=segmentation"]),
    "tfrecord_masks": (_write_mask_records, ["--input={root}/masks.tfrecord", "--layout=segmentation"]),
}


def _write_several(folder: Path) -> None:
    _write_folder(folder)
    rows = [
        {"left": name, "right": NAMES[number - 1], "views": NAMES[: number % 3], "label": name.split("/")[0]}
        for number, name in enumerate(NAMES)
    ]
    (folder / "several.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def _write_pairs(folder: Path) -> None:
    for name in NAMES:
        for side in ("left", "right"):
            (folder / side / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(PHOTOS / name, folder / side / name)


SEVERAL_FORMS: Forms = {
    "several": (_write_several, ["--input={root}/several.jsonl", "--image_column=left,right,views"]),
    "pairs": (
        _write_pairs,
        ["--images=left={root}/left,right={root}/right", "--label_pattern=^(?P<label>[^/]+)/"],
    ),
}

_GREY = np.random.default_rng(0).integers(0, 256, (40, 28, 28), dtype=np.uint8)
_COLORS = np.random.default_rng(1).integers(0, 256, (40, 32, 32, 3), dtype=np.uint8)
_LABELS = np.arange(40) % 4


def _write_npz(folder: Path) -> None:
    np.savez_compressed(folder / "pixels.npz", images=_GREY, labels=_LABELS)


def _write_npy(folder: Path) -> None:
    np.save(folder / "x.npy", _COLORS)
    np.save(folder / "y.npy", _LABELS)


def _write_mnist(folder: Path) -> None:
    save_mnist(folder, {"train": _GREY, "test": 255 - _GREY[:8]}, {"train": _LABELS, "test": _LABELS[:8]})


def _write_cifar(folder: Path) -> None:
    save_cifar(folder / "data_batch_1.bin", _COLORS, _LABELS.tolist())


def _write_pixel_table(folder: Path) -> None:
    with (folder / "fer2013.csv").open("w", newline="") as file:
        texts = (" ".join(map(str, image.ravel())) for image in _GREY)
        csv.writer(file).writerows([("emotion", "pixels"), *zip(_LABELS, texts, strict=True)])


def _write_pixel_records(folder: Path) -> None:
    shape = {"height": 32, "width": 32, "depth": 3}
    rows = zip(_COLORS, _LABELS.tolist(), strict=True)
    examples = ({"image_raw": image.tobytes(), **shape, "label": label} for image, label in rows)
    write_examples(folder / "pixels.tfrecord", examples)


ARRAY_FORMS: Forms = {
    "npz_deflated": (_write_npz, ["--input={root}/pixels.npz"]),
    "npy": (_write_npy, ["--input={root}/x.npy"]),
    "idx": (_write_mnist, ["--input={root}", "--source=idx"]),
    "pixel_table": (_write_pixel_table, ["--input={root}/fer2013.csv"]),
    "tfrecord_pixels": (_write_pixel_records, ["--input={root}/pixels.tfrecord"]),
    "cifar": (_write_cifar, ["--input={root}", "--source=cifar"]),
}
FORMS: Forms = {**PHOTO_FORMS, **OBJECT_FORMS, **MASK_FORMS, **SEVERAL_FORMS, **ARRAY_FORMS}


def write_form(name: str, folder: Path) -> None:
    """Writes the input below a folder that is made for it."""
    folder.mkdir(parents=True)
    FORMS[name][0](folder)


def flags_of(name: str, root: object) -> list[str]:
    """The flags of the request for an input below a folder or in a bucket."""
    return [flag.format(root=root) for flag in FORMS[name][1]]
