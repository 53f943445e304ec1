"""Draws inputs that are folders of images, and archives of them."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable, Sequence

from tests.archive_files import tar_of
from tests.meanings import pictures, words
from tests.meanings.class_files import add_class_file
from tests.meanings.drafts import SPLIT_OF, Draft, new_draft
from tests.meanings.meaning import Case, Label, Role, Split

FOLDER_FORMS = ("folder", "tar", "zip")
_PAIRS = (
    ("left", "right"),
    ("before", "after"),
    ("rgb", "depth"),
    ("A", "B"),
    ("noisy", "clean"),
    ("hr", "lr"),
    ("input", "target"),
)
_MASKS = ("masks", "annotations", "labels", "gt", "segmentation", "SegmentationClass")


def draw_folder(chance: random.Random, form: str) -> Case:
    """Draws a folder, or an archive of it."""
    draft = new_draft(chance, form, chance.randrange(8, 14))
    style = chance.choices(list(_STYLES), [weight for weight, _ in _STYLES.values()])[0]
    _STYLES[style][1](draft)
    draft.kinds.append(f"tree:{style}")
    if chance.random() < 0.15:
        draft.files["README.md"] = b"Photos of things.\n"
    wrapper = chance.choice(("", "", "data/", "photos/")) if style != "flat" else ""
    draft.files = {f"{wrapper}{name}": data for name, data in draft.files.items()}
    if form == "folder":
        draft.files = {f"in/{name}": data for name, data in draft.files.items()}
        draft.settings["input"] = "{root}/in"
    else:
        write = _tar_of if form == "tar" else _zip_of
        draft.files = {f"photos.{form}": write(draft)}
        draft.settings["input"] = f"{{root}}/photos.{form}"
    return draft.case({})


def _tar_of(draft: Draft) -> bytes:
    return tar_of(draft.files, compression=draft.chance.choice(("", "gz")))


def _zip_of(draft: Draft) -> bytes:
    file = io.BytesIO()
    slash = "\\" if draft.chance.random() < 0.1 else "/"
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in draft.files.items():
            member = zipfile.ZipInfo("x")
            member.filename = name.replace("/", slash)
            archive.writestr(member, data)
    return file.getvalue()


def _save(draft: Draft, folders: Sequence[str], stems: Sequence[str], *, field: str = "image") -> list[str]:
    """Adds an image for each item; returns their paths."""
    draft.images[field] = draft.add_pictures()
    kind = draft.chance.choice(("png", "jpg"))
    paths = [f"{folder}{stem}.{kind}" for folder, stem in zip(folders, stems, strict=True)]
    for path, number in zip(paths, draft.images[field], strict=True):
        draft.files[path] = pictures.picture(number, kind)
    return paths


def _stems(draft: Draft) -> list[str]:
    style = draft.chance.choice(("{n:04d}", "img_{n}", "{n}", "DSC{n:05d}", "{h}"))
    return [style.format(n=n + 1, h=f"{(n + 1) * 2654435761 % 2**32:08x}") for n in range(draft.count)]


def _set_labels(draft: Draft, values: Sequence[str], *words_: str, names: dict[str, str] | None = None) -> None:
    of_each = [[value] for value in values]
    draft.labels.append(Label(("folders",), of_each, names=names or {}))
    draft.roles.append(
        Role("label", tuple(dict.fromkeys(("folders", *values, *words_, "label", "labels", "class", "classes"))))
    )


def _set_splits(draft: Draft, values: Sequence[str]) -> None:
    draft.splits.append(Split(("folders",), [SPLIT_OF[value.lower()] for value in values]))
    draft.roles.append(Role("split", tuple(dict.fromkeys(("folders", *values, "split", "splits")))))
    draft.kinds.append("split:folders")


def _safe_classes(draft: Draft) -> list[str]:
    names = draft.chance.choice([names for names in words.CLASSES if "train" not in names])
    return [name.replace("/", "_") for name in names]


def _classes(draft: Draft) -> None:
    """Draws a folder for each class."""
    names = _safe_classes(draft)
    labels = draft.spread(names)
    _save(draft, [f"{label}/" for label in labels], _stems(draft))
    _set_labels(draft, labels)
    draft.kinds.append("label:folders")
    if draft.chance.random() < 0.3:
        _add_class_list(draft, names)
    elif draft.chance.random() < 0.2:
        _add_table(draft)


def _add_class_list(draft: Draft, names: Sequence[str]) -> None:
    """Adds a file of the class names, in another order than that of the folders' names or in the same."""
    order = draft.chance.sample(list(names), len(names))
    name = add_class_file(draft, {str(n): one for n, one in enumerate(order)})
    if tuple(order) != tuple(sorted(names)):
        draft.roles.append(Role("names", (name,)))


def _add_table(draft: Draft) -> None:
    """Adds a table of other labels beside the images."""
    others = draft.spread(draft.chance.choice(words.CLASSES))
    paths = [name for name in draft.files if name.endswith(("png", "jpg"))]
    rows = "".join(f'{path},"{other}"\n' for path, other in zip(paths, others, strict=True))
    draft.files["labels.csv"] = f"filename,species\n{rows}".encode()
    draft.labels.append(Label(("species",), [[other] for other in others], is_first=False))
    draft.roles.append(Role("label", ("labels.csv", "species")))
    draft.kinds.append("label:table_beside")


def _numbered_classes(draft: Draft) -> None:
    """Draws folders called by numbers, with a file that says their names or without."""
    base = draft.chance.choice((0, 0, 1))
    names = _safe_classes(draft)
    texts = {str(n + base): name for n, name in enumerate(names)}
    labels = draft.spread(list(texts))
    _save(draft, [f"{label}/" for label in labels], _stems(draft))
    draft.kinds.append(f"label:numbered{base}")
    if draft.chance.random() < 0.3:
        _set_labels(draft, labels)
        return
    _set_labels(draft, labels, names=texts)
    draft.roles.append(Role("names", (add_class_file(draft, texts),)))


def _split_classes(draft: Draft) -> None:
    """Draws split folders, with class folders in each."""
    _save_both(draft, "{split}/{label}/")


def _class_splits(draft: Draft) -> None:
    """Draws class folders, with split folders in each."""
    _save_both(draft, "{label}/{split}/")


def _save_both(draft: Draft, path: str) -> None:
    splits, labels = _both(draft)
    _save(
        draft,
        [path.format(split=split, label=label) for split, label in zip(splits, labels, strict=True)],
        _stems(draft),
    )
    _set_labels(draft, labels)
    _set_splits(draft, splits)
    draft.kinds.append("label:folders")


def _both(draft: Draft) -> tuple[list[str], list[str]]:
    """Draws split and class of each item, each class in each split."""
    words_of_splits = draft.chance.choice(
        (("train", "test"), ("train", "val"), ("Training", "Testing"), ("train", "valid", "test"))
    )
    classes = _safe_classes(draft)[:2]
    pairs = [(split, name) for split in words_of_splits for name in classes]
    drawn = [pairs[n % len(pairs)] for n in range(draft.count)]
    return [split for split, _ in drawn], [name for _, name in drawn]


def _splits_alone(draft: Draft) -> None:
    """Draws split folders of images, and a table that says the classes or nothing."""
    splits = draft.spread(draft.chance.choice((("train", "test"), ("train", "val"))))
    _save(draft, [f"{split}/" for split in splits], _stems(draft))
    _set_splits(draft, splits)
    if draft.chance.random() < 0.6:
        _add_only_table(draft)
    else:
        draft.kinds.append("label:absent")


def _add_only_table(draft: Draft) -> None:
    labels = draft.spread(draft.pick_classes())
    paths = [name for name in draft.files if name.endswith(("png", "jpg"))]
    bare = draft.chance.random() < 0.3
    names = [path.rpartition("/")[2] if bare else path for path in paths]
    rows = "".join(f'{path},"{label}"\n' for path, label in zip(names, labels, strict=True))
    table = draft.chance.choice(("labels.csv", "annotations.csv", "metadata.csv"))
    field = draft.chance.choice(("label", "species", "Class"))
    draft.files[table] = f"filename,{field}\n{rows}".encode()
    draft.labels.append(Label((field,), [[label] for label in labels]))
    draft.roles.append(Role("label", (table, field)))
    draft.kinds.append("label:table")


def _flat(draft: Draft) -> None:
    """Draws images in one folder, whose names begin with the class, or a table that says it."""
    if draft.chance.random() < 0.5:
        _save(draft, [draft.chance.choice(("", "images/"))] * draft.count, _stems(draft))
        _add_only_table(draft)
        return
    names = draft.chance.choice((("cat", "dog"), ("apple", "pear", "plum"), ("ok", "bad"), ("Abyssinian", "pug")))
    labels = draft.spread(names)
    between = draft.chance.choice((".", "_", "-"))
    _save(draft, [""] * draft.count, [f"{label}{between}{n}" for n, label in enumerate(labels)])
    draft.labels.append(Label(("names",), [[label] for label in labels]))
    draft.roles.append(Role("label", (*names, "names", "label_pattern")))
    draft.kinds.append("label:file_names")


def _two_levels(draft: Draft) -> None:
    """Draws two levels of folders, either of which may be the classes."""
    chance = draft.chance
    outer, inner = chance.choice(
        (
            (("Paris", "Rome"), ("day", "night")),
            (("Audi", "BMW"), ("red", "blue")),
            (("photo", "sketch"), ("dog", "horse")),
        )
    )
    pairs = [(one, two) for one in outer for two in inner]
    drawn = [pairs[n % 4] for n in range(draft.count)]
    _save(draft, [f"{one}/{two}/" for one, two in drawn], _stems(draft))
    for field, place in (("outer", 0), ("inner", 1)):
        draft.labels.append(Label((field,), [[pair[place]] for pair in drawn]))
    draft.labels.append(Label(("both",), [[f"{one}/{two}"] for one, two in drawn]))
    draft.roles.append(Role("label", (*outer, *inner, "label", "labels")))
    draft.unclear = "two levels of folders, either of which may be the classes"
    draft.kinds.append("label:doubled")


def _letters(draft: Draft) -> None:
    """Draws class folders below the first letter of their names."""
    names = ("abbey", "alley", "bridge", "canal", "castle")
    labels = draft.spread(names)
    _save(draft, [f"{label[0]}/{label}/" for label in labels], _stems(draft))
    _set_labels(draft, labels)
    draft.kinds.append("label:letters")


def _pairs(draft: Draft) -> None:
    """Draws two folders with an image of each item."""
    first, second = draft.chance.choice(_PAIRS)
    stems = _stems(draft)
    _save(draft, [f"{first}/"] * draft.count, stems, field=first)
    _save(draft, [f"{second}/"] * draft.count, stems, field=second)
    draft.roles.append(Role("image", (second,)))
    draft.unclear = "two folders of images of the same things"
    draft.kinds.append("image:doubled")


def _listed_split(draft: Draft) -> None:
    """Draws split folders, one of which has class folders and the other a table of its classes."""
    chance = draft.chance
    splits = draft.spread(chance.choice((("Train", "Test"), ("train", "val"), ("training", "testing"))))
    labels = draft.spread(chance.choice((("0", "1", "2"), ("cat", "dog"), ("benign", "malignant"))))
    listed = splits[0] if chance.random() < 0.3 else next(split for split in reversed(splits) if split != splits[0])
    inner = ["" if split == listed else f"{label}/" for split, label in zip(splits, labels, strict=True)]
    folders = [f"{split}/{one}" for split, one in zip(splits, inner, strict=True)]
    paths = _save(draft, folders, _stems(draft))
    _set_labels(draft, labels)
    _set_splits(draft, splits)
    draft.labels.append(Label(("ClassId",), [[label] for label in labels], is_first=False))
    header = chance.choice(("Width,Height,ClassId,Path", "Path,ClassId"))
    for table in dict.fromkeys(splits) if chance.random() < 0.5 else (listed,):
        found = [(path, label) for path, label, split in zip(paths, labels, splits, strict=True) if split == table]
        rows = [f"48,36,{label},{path}" if header.startswith("W") else f"{path},{label}" for path, label in found]
        draft.files[f"{table}.csv"] = "\n".join([header, *rows, ""]).encode()
        draft.roles.append(Role("label", (f"{table}.csv",)))
    draft.kinds += ["label:folders", "label:table"]


def _split_lists(draft: Draft) -> None:
    """Draws class folders, or images alone, and lists of the stems of each split."""
    chance = draft.chance
    labels = draft.spread(_safe_classes(draft)) if chance.random() < 0.7 else None
    stems = _stems(draft)
    _save(draft, [f"{label}/" for label in labels] if labels else ["JPEGImages/"] * draft.count, stems)
    if labels:
        _set_labels(draft, labels)
        draft.kinds.append("label:folders")
    elif chance.random() < 0.6:
        draft.masks = [chance.randrange(1, 200) for _ in range(draft.count)]
        for stem, value in zip(stems, draft.masks, strict=True):
            draft.files[f"SegmentationClass/{stem}.png"] = pictures.mask_picture(value)
        draft.roles.append(Role("mask", ("SegmentationClass", "mask", "masks")))
    names = chance.choice((("train", "val"), ("train", "test"), ("train", "val", "test")))
    splits = draft.spread(names)
    folder = chance.choice(("", "", "ImageSets/", "ImageSets/Main/", "splits/"))
    for name in names:
        lines = [f"{stem}\n" for stem, split in zip(stems, splits, strict=True) if split == name]
        draft.files[f"{folder}{name}.txt"] = "".join(lines).encode()
    draft.splits.append(Split(("lists",), [SPLIT_OF[split] for split in splits]))
    # The counts of skipped files name all files; a note or question says that these are not read.
    draft.roles.append(Role("split", ("not read", "lists of splits", "tables beside them")))
    draft.kinds.append("split:lists")


def _masks(draft: Draft) -> None:
    """Draws a folder of images, and one of their masks."""
    chance = draft.chance
    labels = draft.spread(_safe_classes(draft)) if chance.random() < 0.3 else None
    inner = [f"{label}/" for label in labels] if labels else [""] * draft.count
    stems = _stems(draft)
    _save(draft, [f"images/{one}" for one in inner], stems)
    folder, end = chance.choice(_MASKS), chance.choice(("", "", "_mask", "_seg"))
    draft.masks = [chance.randrange(1, 200) for _ in range(draft.count)]
    for one, stem, value in zip(inner, stems, draft.masks, strict=True):
        draft.files[f"{folder}/{one}{stem}{end}.png"] = pictures.mask_picture(value)
    draft.roles.append(Role("mask", (folder, "mask", "masks")))
    draft.kinds.append("mask:folder")
    if labels:
        _set_labels(draft, labels)
        draft.kinds.append("label:folders")


def _masks_beside(draft: Draft) -> None:
    """Draws masks beside their images, told apart by the end of their names."""
    labels = draft.spread(_safe_classes(draft))
    stems = _stems(draft)
    _save(draft, [f"{label}/" for label in labels], stems)
    end = draft.chance.choice(("_mask", "_seg", "_gt"))
    draft.masks = [draft.chance.randrange(1, 200) for _ in range(draft.count)]
    for label, stem, value in zip(labels, stems, draft.masks, strict=True):
        draft.files[f"{label}/{stem}{end}.png"] = pictures.mask_picture(value)
    draft.roles.append(Role("mask", (end, "mask", "masks")))
    _set_labels(draft, labels)
    draft.kinds += ["mask:beside", "label:folders"]


def _captions(draft: Draft) -> None:
    """Draws a text file for each image."""
    stems = _stems(draft)
    folder = draft.chance.choice(("", "images/"))
    _save(draft, [folder] * draft.count, stems)
    texts = [f"{draft.chance.choice(words.SENTENCES)} no {n}" for n in range(draft.count)]
    for stem, text in zip(stems, texts, strict=True):
        draft.files[f"{folder}{stem}.txt"] = text.encode()
    draft.labels.append(Label(("txt",), [[text] for text in texts], kind="text"))
    draft.roles.append(Role("text", (".txt", "txt", "text", "caption", "captions")))
    draft.kinds.append("label:text_beside")


_STYLES: dict[str, tuple[float, Callable[[Draft], None]]] = {
    "classes": (20, _classes),
    "numbered": (14, _numbered_classes),
    "split_classes": (12, _split_classes),
    "class_splits": (6, _class_splits),
    "splits": (8, _splits_alone),
    "flat": (10, _flat),
    "two_levels": (8, _two_levels),
    "letters": (3, _letters),
    "pairs": (7, _pairs),
    "listed_split": (5, _listed_split),
    "split_lists": (6, _split_lists),
    "masks": (8, _masks),
    "masks_beside": (4, _masks_beside),
    "captions": (4, _captions),
}
