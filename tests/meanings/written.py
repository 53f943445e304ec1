"""Draws what `tests.writers` writes: one labelled set in a format of datasets, read with fewer settings at times."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path

from tests import writers
from tests.meanings import pictures, words
from tests.meanings.columns import draw_box
from tests.meanings.meaning import Label, Meaning, Role

# Folders, tables and their archives have forms of their own; a function and a dataset name all that they hold.
_ARRAYS = ("npz", "deflated_npz", "npy", "idx", "cifar", "pixel_table", "tfrecord_pixels")
_OBJECTS = [name for name, writer in writers.WRITERS.items() if "objects" in writer.holds]
_FILES = words.words("""class_in_names split_inputs paired_folders mask_folder gzip_table joined_tables image_columns
    numbered_classes list_file parquet_masks webdataset_masks tfrecord_masks""")
_WRITERS = {"coco": ["coco"], "yolo": ["yolo"], "voc": ["voc", "xml_beside_images"], "objects": _OBJECTS}
_WRITERS |= {"arrays": _ARRAYS, "files": _FILES}
WRITTEN_FORMS = tuple(_WRITERS)
# Nobody can know these.
_KEPT = ("input", "images", "mask_root", "join", "label_pattern")
_LABEL = words.words("""label labels folders class classes category categories emotion names kind tag targets objects
    annotations label_pattern COCO YOLO VOC .txt .xml .json""")


def draw_written(chance: random.Random, form: str) -> Meaning:
    """Draws a set and one of the form's writers."""
    name = chance.choice(_WRITERS[form])
    writer = writers.WRITERS[name]
    draft = Meaning(chance, form, chance.randrange(7, 12), kinds=[name])
    numbers = draft.add_pictures("image")
    if writer.is_gray:
        numbers[:] = [pictures.gray(level) for level in chance.sample(range(18), draft.count)]
    plain = [names for names in words.CLASSES if "," not in "".join(names)]
    classes = [one.replace("/", "_") for one in chance.choice(plain)]
    meaning = writer.fit(_draw_meaning(draft, classes, has_columns=name == "joined_tables" or chance.random() < 0.5))
    with tempfile.TemporaryDirectory() as folder:
        settings = writer.make(Path(folder), meaning)
        # A command names classes between commas.
        settings |= {"class_names": ",".join(classes)} if isinstance(settings.get("class_names"), list) else {}
        draft.settings = json.loads(json.dumps(settings).replace(folder, "{root}"))
        paths = [path for path in Path(folder).rglob("*") if path.is_file()]
        draft.files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    _mean(draft, writer, meaning)
    if form == "coco":
        _vary_coco(draft)
    for setting in [one for one in draft.settings if one not in _KEPT and chance.random() < 0.25]:
        del draft.settings[setting]
        draft.kinds.append(f"without:{setting}")
    return draft


def _draw_meaning(draft: Meaning, classes: list[str], *, has_columns: bool) -> writers.Meaning:
    chance = draft.chance
    labels, splits = draft.spread(classes), draft.spread(("train", "train", "validation", "test"))
    items = []
    for n, number in enumerate(draft.images["image"]):
        names = [chance.choice(classes) for _ in range(chance.choice((1, 1, 2, 3)))] if n else classes
        objects = [(name, draw_box(draft)) for name in names]
        columns = {"age": chance.randrange(1, 90), "note": chance.choice(words.SENTENCES)} if has_columns else {}
        item = writers.Item(f"a{n}", pictures.color_of(number or 0), labels[n], splits[n], objects, columns)
        items.append(item)
    return writers.Meaning(items, classes, (pictures.WIDTH, pictures.HEIGHT))


def _mean(draft: Meaning, writer: writers.Writer, meaning: writers.Meaning) -> None:
    """Says what the writer's format holds of a meaning."""
    items, texts = meaning.items, {str(n): name for n, name in enumerate(meaning.classes)}
    if "label" in writer.holds:
        is_number = writer.is_raw or draft.kinds[0] in ("numbered_classes", "list_file")
        values = [str(meaning.classes.index(one.label)) if is_number else one.label for one in items]
        field = "emotion" if draft.kinds == ["pixel_table"] else "label"
        draft.columns[field] = values
        draft.add_label(field, values, said=[*_LABEL, *meaning.classes], names=texts if is_number else {})
    if "split" in writer.holds:
        draft.columns["split"] = [one.split for one in items]
        said = ("splits", "folders", "paths", "lists", "files", "train", "val", "validation", "test", "not read")
        draft.add_split("split", draft.columns["split"], *said)
    if "mask" in writer.holds:
        draft.masks = [meaning.classes.index(one.objects[0][0]) + 1 for one in items]
        draft.roles.append(Role("mask", ("mask", "masks", "image/segmentation/class/encoded")))
    if "objects" in writer.holds:
        rows = [[name for name, _ in one.objects] for one in items]
        draft.boxes = [[box for _, box in one.objects] for one in items]
        draft.labels.append(Label(("categories", "class", "names"), [[*dict.fromkeys(one)] for one in rows], rows=rows))
        files = ("bbox", "box", "boxes", "xmin", "bboxes")
        draft.roles += [Role("label", (*_LABEL, *files)), Role("box", (*files, *_LABEL))]
    if "columns" in writer.holds:
        draft.columns |= {name: [one.columns[name] for one in items] for name in items[0].columns}


def _vary_coco(draft: Meaning) -> None:
    """Adds captions to objects, or takes their boxes."""
    chance, document = draft.chance, json.loads(draft.files["instances.json"])
    style = chance.choice(("boxes", "boxes", "captions", "labels"))
    draft.kinds.append(f"coco:{style}")
    items = [int(image["file_name"][1:-4]) for image in document["images"]]
    if style == "captions":
        texts = [f"{chance.choice(words.SENTENCES)} no {n}" for n in range(draft.count)]
        document["annotations"] += [
            {"id": 100 + n, "image_id": image["id"], "caption": texts[n]}
            for n, image in zip(items, document["images"], strict=True)
        ]
        draft.add_label("captions", texts, "text", said=("caption", "captions"), kind="text")
    if style == "labels":
        first = {one["image_id"]: one for one in reversed(document["annotations"])}
        document["annotations"] = [{name: one[name] for name in one if name != "bbox"} for one in first.values()]
        labels = [[one.rows[n][0] for n in range(draft.count)] for one in draft.labels]
        draft.boxes, draft.roles, draft.labels = None, [], []
        draft.add_label("categories", labels[0], said=("category_id", *_LABEL))
    draft.files["instances.json"] = json.dumps(document).encode()
