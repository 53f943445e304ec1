"""Draws inputs that are files of samples: WebDataset, TFRecord, NumPy, IDX, CIFAR."""

from __future__ import annotations

import gzip
import io
import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tests.archive_files import tar_of
from tests.framing import example_of, framed
from tests.meanings import pictures, words
from tests.meanings.class_files import add_class_file, may_state
from tests.meanings.drafts import SPLIT_OF, Draft, new_draft
from tests.meanings.meaning import Case, Label, Role, Split
from tests.pixel_files import cifar_of, idx_of

CONTAINER_FORMS = ("webdataset", "tfrecord", "npz", "npy", "idx", "cifar")


def draw_container(chance: random.Random, form: str) -> Case:
    """Draws a container."""
    draft = new_draft(chance, form, chance.randrange(8, 13))
    _DRAW[form](draft)
    return draft.case(draft.columns)


def draw_fields(draft: Draft, roles: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
    """Draws the label of each item and what lies beside it; returns name -> value of each item.

    Args:
      roles: role -> names in this form, such as "index" -> ("label", "image/class/label").
    """
    chance, fields = draft.chance, dict[str, list[Any]]()
    style = chance.choices(
        ("index", "twin", "names", "file", "text", "vector", "doubled", "none"), (18, 18, 18, 18, 8, 6, 8, 6)
    )[0]
    classes = draft.pick_classes()
    base = chance.choice((0, 0, 1))
    texts = {str(n + base): name for n, name in enumerate(classes)}
    draft.kinds.append(f"label:{style}{base if style in ('index', 'twin', 'file') else ''}")
    if style in ("index", "twin", "file"):
        indices = [int(one) for one in draft.spread(list(texts))]
        field = chance.choice(roles["index"])
        fields[field] = indices
        of_each = [[str(one)] for one in indices]
        names = texts if style != "index" else {}
        draft.labels.append(Label((field,), of_each, names=names, rows=of_each))
        draft.roles.append(Role("label", (field,)))
    if style == "twin":
        twin = chance.choice([name for name in roles["twin"] if name not in fields])
        fields[twin] = [texts[str(one)] for one in indices]
        of_each = [[one] for one in fields[twin]]
        draft.labels.append(Label((twin,), of_each, rows=of_each))
        draft.roles[-1] = Role("label", (field, twin))
        draft.roles.append(Role("names", (twin,)))
    if style == "file":
        file = add_class_file(draft, texts)
        draft.roles.append(Role("names", (file,)))
        may_state(draft, file, 0.4)
    if style in ("names", "doubled"):
        for field in chance.choice(words.PAIRS) if style == "doubled" else [chance.choice(roles["names"])]:
            fields[field] = draft.spread(draft.pick_classes())
            of_each = [[one] for one in fields[field]]
            draft.labels.append(Label((field,), of_each, rows=of_each))
            draft.roles.append(Role("label", (field,)))
    if style == "doubled":
        draft.unclear = "two fields of classes, neither of which is the label"
    if style == "vector":
        field = chance.choice(roles["vector"])
        fields[field] = [[chance.randrange(9) for _ in range(5)] for _ in range(draft.count)]
        draft.labels.append(Label((field,), fields[field], kind="float"))
        draft.roles.append(Role("vector", (field,)))
    if style == "text" or chance.random() < 0.1:
        field = chance.choice(roles["text"])
        fields[field] = [f"{chance.choice(words.SENTENCES)} no {n}" for n in range(draft.count)]
        draft.labels.append(Label((field,), [[one] for one in fields[field]], kind="text", is_first=style == "text"))
        draft.roles.append(Role("text", (field,)))
    if chance.random() < 0.12 and roles.get("split"):
        field = chance.choice(roles["split"])
        fields[field] = draft.spread(("train", "test"))
        draft.splits.append(Split((field,), fields[field]))
        draft.roles.append(Role("split", (field,)))
        draft.kinds.append("split:field")
    return fields


# WebDataset ----------------------------------------------------------------------------------------------------------

_MEMBERS = {
    "index": ("cls", "cls", "label", "class", "target", "class_id"),
    "twin": ("label_name", "class_name", "category", "txt"),
    "names": ("label", "class", "category", "species", "cls_name", "txt"),
    "text": ("txt", "caption", "text"),
    "vector": ("votes", "embedding", "label"),
    "split": ("split", "subset"),
}


def _draw_webdataset(draft: Draft) -> None:
    chance = draft.chance
    fields = draft.columns = draw_fields(draft, _MEMBERS)
    prefixes = [""] * draft.count
    if not draft.splits and chance.random() < 0.15:
        folders = draft.spread(chance.choice((("train", "test"), ("train", "val"))))
        prefixes = [f"{folder}/" for folder in folders]
        draft.splits.append(Split(("keys",), [SPLIT_OF[folder] for folder in folders]))
        draft.roles.append(Role("split", ("keys", *sorted(set(folders)), "split", "splits")))
        draft.kinds.append("split:keys")
    kind = chance.choice(("jpg", "png"))
    draft.images[kind] = draft.add_pictures()
    second = ""
    if chance.random() < 0.1:
        second = chance.choice(("right.jpg", "depth.jpg", "thumb.jpg", "nir.jpg"))
        draft.images[second] = draft.add_pictures()
        draft.roles.append(Role("image", (second, second.partition(".")[0])))
        draft.kinds.append("image2:present")
    if chance.random() < 0.08:
        draft.masks = [chance.randrange(1, 200) for _ in range(draft.count)]
        draft.roles.append(Role("mask", ("mask.png", "mask", "masks")))
        draft.kinds.append("mask:present")
    if chance.random() < 0.12:
        fields["bbox"] = _draw_boxes(draft)
    members: dict[str, bytes] = {}
    own = {"cls", "txt"}
    for n in range(draft.count):
        stem = f"{prefixes[n]}{n:05d}"
        members[f"{stem}.{kind}"] = pictures.picture(draft.images[kind][n], kind)
        if second:
            members[f"{stem}.{second}"] = pictures.picture(draft.images[second][n], "jpg")
        if draft.masks:
            members[f"{stem}.mask.png"] = pictures.mask_picture(draft.masks[n])
        document = {}
        for name, values in fields.items():
            if name in own and isinstance(values[n], str | int):
                members[f"{stem}.{name}"] = str(values[n]).encode()
            else:
                document[name] = values[n]
        if document:
            members[f"{stem}.json"] = json.dumps(document).encode()
    draft.files["data.tar"] = tar_of(members)
    draft.settings["input"] = "{root}/data.tar"


def _draw_boxes(draft: Draft) -> list[list[float]]:
    """Draws a box of each item, as two corners that are no corner and size."""
    corners = [
        [left := draft.chance.randrange(20, 30), top := draft.chance.randrange(15, 20), left + 18, top + 15]
        for _ in range(draft.count)
    ]
    draft.boxes = [[tuple(box)] for box in corners]
    draft.roles.append(Role("box", ("bbox", "box", "boxes")))
    draft.kinds.append("box:cell_xyxy")
    return corners


# TFRecord ------------------------------------------------------------------------------------------------------------

_FEATURES = {
    "index": ("label", "image/class/label", "class", "target", "class_id", "y"),
    "twin": ("label_name", "image/class/text", "class_name", "category"),
    "names": ("label", "class", "image/class/text", "species", "category"),
    "text": ("caption", "text", "image/caption"),
    "vector": ("votes", "embedding", "label"),
    "split": ("split", "subset"),
}


def _draw_tfrecord(draft: Draft) -> None:
    chance = draft.chance
    fields = draft.columns = draw_fields(draft, _FEATURES)
    image = chance.choice(("image", "image/encoded", "image_raw", "img", "jpeg"))
    draft.images[image] = draft.add_pictures()
    if chance.random() < 0.1:
        second = chance.choice(("right", "depth", "image/depth", "image2"))
        draft.images[second] = draft.add_pictures()
        draft.roles.append(Role("image", (second,)))
        draft.kinds.append("image2:present")
    if chance.random() < 0.12:
        fields["bbox"] = _draw_boxes(draft)
    elif chance.random() < 0.12 and len(draft.labels) == 1 and draft.labels[0].kind == "class":
        _draw_api_boxes(draft, fields)
    records = []
    for n in range(draft.count):
        encoded = {name: pictures.picture(numbers[n], "jpg") for name, numbers in draft.images.items()}
        records.append(example_of({**encoded, **{name: values[n] for name, values in fields.items()}}))
    _write_records(draft, records)


def _draw_api_boxes(draft: Draft, fields: dict[str, list[Any]]) -> None:
    """Moves the label of each item to a box, in the form of TensorFlow's Object Detection API."""
    (name, values), *_ = fields.items()
    boxes = _draw_boxes(draft)
    draft.roles[-1] = Role("box", tuple(f"image/object/bbox/{side}" for side in ("xmin", "ymin", "xmax", "ymax")))
    del fields[name]
    sizes = (pictures.WIDTH, pictures.HEIGHT) * 2
    for place, side in enumerate(("xmin", "ymin", "xmax", "ymax")):
        fields[f"image/object/bbox/{side}"] = [[box[place] / sizes[place]] for box in boxes]
    of = "text" if isinstance(values[0], str) else "label"
    fields[f"image/object/class/{of}"] = [[value] for value in values]
    draft.roles[0] = Role("label", (f"image/object/class/{of}", name))
    draft.kinds.append("box:api")


def _write_records(draft: Draft, records: Sequence[bytes]) -> None:
    chance = draft.chance
    if draft.splits or chance.random() < 0.6:
        name = chance.choice(("data.tfrecord", "flowers.tfrecord", "images.tfrec"))
        draft.files[name] = framed(*records)
        draft.settings["input"] = f"{{root}}/{name}"
        return
    chosen = chance.choice((("train", "test"), ("train", "validation"), ("train", "val")))
    pattern = chance.choice(
        ("{}.tfrecord", "birds-{}.tfrecord-00000-of-00001", "{}-00000-of-00001", "{}/data.tfrecord")
    )
    splits = draft.spread(chosen)
    for split in chosen:
        of_split = [record for record, one in zip(records, splits, strict=True) if one == split]
        draft.files[f"records/{pattern.format(split)}"] = framed(*of_split)
    draft.splits.append(Split(("files",), [SPLIT_OF[split] for split in splits]))
    draft.roles.append(Role("split", ("files", *chosen, "split", "splits")))
    draft.kinds.append("split:files")
    end = "*/*" if "/" in pattern else "*"
    draft.settings["input"] = chance.choice((f"{{root}}/records/{end}", "{root}/records"))


# Arrays --------------------------------------------------------------------------------------------------------------


def _pixels(numbers: Sequence[int], size: int) -> np.ndarray:
    """Returns the images of some numbers: [N, H, W, 3] uint8."""
    colours = np.array([pictures.colour_of(number) for number in numbers], np.uint8)
    return np.broadcast_to(colours[:, None, None], (len(numbers), size, size, 3)).copy()


def _draw_npz(draft: Draft) -> None:
    chance = draft.chance
    images, labels = chance.choice(
        (("x", "y"), ("images", "labels"), ("image", "label"), ("data", "targets"), ("X", "y"))
    )
    draft.images[images] = draft.add_pictures()
    pixels = _pixels(draft.images[images], 16)
    values = _draw_array_labels(draft, labels)
    arrays: dict[str, np.ndarray] = {}
    if chance.random() < 0.5:
        chosen = chance.choice((("train", "test"), ("train", "val", "test"), ("train", "val")))
        splits = draft.spread(chosen)
        pattern = chance.choice(("{name}_{split}", "{split}_{name}"))
        for split in chosen:
            rows = [n for n, one in enumerate(splits) if one == split]
            arrays[pattern.format(name=images, split=split)] = pixels[rows]
            for name, array in values.items():
                arrays[pattern.format(name=name, split=split)] = array[rows]
        draft.splits.append(Split(("arrays",), [SPLIT_OF[split] for split in splits]))
        draft.roles.append(Role("split", ("arrays", *chosen, "split", "splits")))
        draft.kinds.append("split:arrays")
    else:
        arrays = {images: pixels, **values}
    file = io.BytesIO()
    np.savez(file, **arrays)
    draft.files["data.npz"] = file.getvalue()
    draft.columns = {name: array.tolist() for name, array in values.items()}
    draft.settings["input"] = "{root}/data.npz"


def _draw_array_labels(draft: Draft, name: str) -> dict[str, np.ndarray]:
    """Draws arrays with a row for each image."""
    chance = draft.chance
    style = chance.choices(
        ("index", "index_file", "names", "one_hot", "vector", "doubled", "none"),
        (18, 14, 10, 10, 8, 10, 6),
    )[0]
    classes = draft.pick_classes()
    base = 1 if style != "one_hot" and chance.random() < 0.25 else 0
    texts = {str(n + base): one for n, one in enumerate(classes)}
    indices = [int(one) for one in draft.spread(list(texts))]
    draft.kinds.append(f"label:{style}{base if style.startswith('index') else ''}")
    array = np.array(indices, chance.choice((np.int64, np.uint8, np.int32)))
    of_each = [[str(index)] for index in indices]
    if style == "none":
        return {}
    if style == "doubled":
        first, second = chance.choice(
            (("coarse_labels", "fine_labels"), ("age", "gender"), ("shape", "color"), ("digit", "hue"))
        )
        other = [int(one) for one in draft.spread(("0", "1"))]
        draft.labels += [Label((first,), of_each), Label((second,), [[str(one)] for one in other])]
        draft.roles += [Role("label", (first,)), Role("label", (second,))]
        draft.unclear = "two arrays of classes, neither of which is the label"
        return {first: array, second: np.array(other)}
    if style == "vector":
        rows = [[chance.randrange(10) for _ in range(len(classes) + 2)] for _ in range(draft.count)]
        draft.labels.append(Label((name,), rows, kind="float"))
        draft.roles.append(Role("vector", (name,)))
        return {name: np.array(rows)}
    draft.roles.append(Role("label", (name,)))
    if style == "names":
        cells = [texts[str(index)] for index in indices]
        draft.labels.append(Label((name,), [[cell] for cell in cells]))
        return {name: np.array(cells)}
    if style == "one_hot":
        draft.labels.append(Label((name,), of_each))
        return {name: np.eye(len(classes), dtype=np.uint8)[indices]}
    draft.labels.append(Label((name,), of_each, names=texts if style != "index" else {}))
    if style == "index_file":
        file = add_class_file(draft, texts)
        draft.roles.append(Role("names", (file,)))
        may_state(draft, file, 0.4)
    return {name: array}


def _draw_npy(draft: Draft) -> None:
    images, labels = draft.chance.choice(
        (("x", "y"), ("images", "labels"), ("train_images", "train_labels"), ("X", "y"))
    )
    draft.images[images] = draft.add_pictures()
    values = _draw_array_labels(draft, labels)
    # Only names tie a file to the images: that of the labels without the split, and no other.
    draft.roles = [
        Role(role.kind, (*role.words, *(word.removeprefix("train_") for word in role.words))) for role in draft.roles
    ]
    if draft.unclear:
        draft.roles, draft.unclear = [], ""
    for name, array in {images: _pixels(draft.images[images], 16), **values}.items():
        file = io.BytesIO()
        np.save(file, array)
        draft.files[f"{name}.npy"] = file.getvalue()
    draft.columns = {name: array.tolist() for name, array in values.items()}
    draft.settings["input"] = f"{{root}}/{images}.npy"


def grey_pictures(draft: Draft) -> tuple[list[int], np.ndarray]:
    """Draws pictures of grey; returns their numbers, and their pixels: [N, 12, 12] uint8."""
    numbers = [pictures.grey(level) for level in draft.chance.sample(range(12), draft.count)]
    values = np.array([pictures.colour_of(number)[0] for number in numbers], np.uint8)
    return numbers, np.broadcast_to(values[:, None, None], (draft.count, 12, 12)).copy()


def _draw_idx(draft: Draft) -> None:
    chance = draft.chance
    draft.images["image"], pixels = grey_pictures(draft)
    classes = draft.pick_classes()
    base = chance.choice((0, 0, 1))
    texts = {str(n + base): one for n, one in enumerate(classes)}
    indices = np.array([int(one) for one in draft.spread(list(texts))])
    splits = draft.spread(("train", "test"))
    has_names = chance.random() < 0.4
    draft.labels.append(Label(("label",), [[str(one)] for one in indices], names=texts if has_names else {}))
    draft.roles.append(Role("label", ("label", "labels")))
    draft.kinds.append(f"label:index{base}")
    if has_names:
        draft.roles.append(Role("names", (add_class_file(draft, texts, folder="data/"),)))
    end = chance.choice(("", ".gz"))
    for split, stem in (("train", "train"), ("test", "t10k")):
        rows = [n for n, one in enumerate(splits) if one == split]
        for name, array in (("images-idx3", pixels[rows]), ("labels-idx1", indices[rows])):
            content = idx_of(array)
            draft.files[f"data/{stem}-{name}-ubyte{end}"] = gzip.compress(content) if end else content
    draft.splits.append(Split(("files",), splits))
    draft.roles.append(Role("split", ("files", "train", "test", "t10k")))
    draft.settings["input"] = "{root}/data"
    if chance.random() < 0.6:
        draft.settings["source"] = "idx"


def _draw_cifar(draft: Draft) -> None:
    chance = draft.chance
    draft.images["image"] = draft.add_pictures()
    pixels = _pixels(draft.images["image"], 32)
    classes = draft.pick_classes()
    indices = [int(one) for one in draft.spread(list(map(str, range(len(classes)))))]
    splits = draft.spread(("train", "test"))
    texts = {str(n): one for n, one in enumerate(classes)}
    has_names = chance.random() < 0.5
    draft.labels.append(Label(("label",), [[str(one)] for one in indices], names=texts if has_names else {}))
    draft.roles.append(Role("label", ("label", "labels")))
    if has_names:
        draft.files["data/batches.meta.txt"] = ("\n".join(classes) + "\n").encode()
        draft.roles.append(Role("names", ("batches.meta.txt",)))
    for split, name in (("train", "data_batch_1.bin"), ("test", "test_batch.bin")):
        rows = [n for n, one in enumerate(splits) if one == split]
        draft.files[f"data/{name}"] = cifar_of(pixels[rows], [indices[n] for n in rows])
    draft.splits.append(Split(("files",), splits))
    draft.roles.append(Role("split", ("files", "train", "test")))
    draft.kinds.append("label:index0")
    draft.settings["input"] = "{root}/data"
    if chance.random() < 0.6:
        draft.settings["source"] = "cifar"


_DRAW: Mapping[str, Callable[[Draft], None]] = {
    "webdataset": _draw_webdataset,
    "tfrecord": _draw_tfrecord,
    "npz": _draw_npz,
    "npy": _draw_npy,
    "idx": _draw_idx,
    "cifar": _draw_cifar,
}
