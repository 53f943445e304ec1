"""Draws inputs that are folders of images, and archives of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from tests.archive_files import tar_of, zip_of
from tests.meanings import pictures, words
from tests.meanings.class_files import add_class_file
from tests.meanings.meaning import Label, Meaning, Role
from tests.meanings.row_files import draw_parts

FOLDER_FORMS = ("folder", "tar", "zip")
_PAIRS = words.groups("left+right|before+after|rgb+depth|A+B|noisy+clean|hr+lr|input+target")
_PLACES = (
    "{kind}/{stem}", "set/{kind}/{stem}", "{split}/{kind}/{stem}", "{kind}/{split}/{stem}", "{kind}/images/{stem}",
    "{stem}_{kind}", "{scene}/{kind}/{stem}", "{scene}/{stem}_{kind}", "{kind}/{scene}/{stem}",
)  # fmt: skip
_OTHER_PAIRS = words.groups("tele+wide|dry+wet|opt+sar")
_LEVELS = words.groups("Paris Rome+day night|Audi BMW+red blue|photo sketch+dog horse")
_MASKS = ("masks", "annotations", "labels", "gt", "segmentation", "SegmentationClass")


def draw_folder(chance: random.Random, form: str) -> Meaning:
    """Draws a folder, or an archive of it."""
    draft = Meaning(chance, form, chance.randrange(8, 14))
    style = chance.choices(list(_STYLES), [weight for weight, _ in _STYLES.values()])[0]
    _STYLES[style][1](draft)
    draft.kinds.append(f"tree:{style}")
    if "input" in draft.settings:
        return draft
    if chance.random() < 0.15:
        draft.files["README.md"] = b"Photos of things.\n"
    wrapper = chance.choice(("", "", "data/", "photos/")) if style not in ("table", "names") else ""
    files = {f"{wrapper}{name}": data for name, data in draft.files.items()}
    draft.settings["input"] = "{root}/in" if form == "folder" else f"{{root}}/photos.{form}"
    if form == "folder":
        draft.files = {f"in/{name}": data for name, data in files.items()}
    elif form == "tar":
        draft.files = {"photos.tar": tar_of(files, compression=chance.choice(("", "gz")))}
    else:
        slash = "\\" if chance.random() < 0.1 else "/"
        draft.files = {"photos.zip": zip_of({name.replace("/", slash): data for name, data in files.items()})}
    return draft


def _save(draft: Meaning, folders: Sequence[str], field: str = "image", stems: Sequence[str] = ()) -> list[str]:
    """Adds an image for each item; returns their paths without extension."""
    style = draft.chance.choice(("{n:04d}", "img_{n}", "{n}", "DSC{n:05d}", "{h}"))
    numbers, kind = range(1, draft.count + 1), draft.chance.choice(("png", "jpg"))
    stems = stems or [style.format(n=n, h=f"{n * 2654435761 % 2**32:08x}") for n in numbers]
    paths = [f"{folder}{stem}" for folder, stem in zip(folders, stems, strict=True)]
    for path, number in zip(paths, draft.add_pictures(field), strict=True):
        draft.files[f"{path}.{kind}"] = pictures.picture(number, kind)
    return paths


def _stems_of(paths: Sequence[str]) -> list[str]:
    return [path.rpartition("/")[2] for path in paths]


def _pick_classes(draft: Meaning) -> list[str]:
    names = draft.chance.choice([names for names in words.CLASSES if "train" not in names])
    return [name.replace("/", "_") for name in names]


def _add_label(draft: Meaning, labels: Sequence[str], names: Mapping[str, str] | None = None) -> None:
    said = dict.fromkeys(("folders", *labels, "label", "labels", "class", "classes"))
    draft.add_label("folders", labels, said=[*said], names=names or {}, rows=())


def _add_split(draft: Meaning, splits: Sequence[str]) -> None:
    draft.add_split("folders", splits, *dict.fromkeys(splits), "split", "splits")


def _add_masks(draft: Meaning, paths: Sequence[str], said: str) -> None:
    draft.masks = [draft.chance.randrange(1, 200) for _ in paths]
    for path, value in zip(paths, draft.masks, strict=True):
        draft.files[f"{path}.png"] = pictures.mask_picture(value)
    draft.roles.append(Role("mask", (said, "mask", "masks")))


def _classes(draft: Meaning) -> None:
    """Draws a folder for each class, called by its name or its number, and a file of the names or another table."""
    chance, names = draft.chance, _pick_classes(draft)
    if chance.random() < 0.4:
        base = chance.choice((0, 0, 1))
        texts = {str(n + base): name for n, name in enumerate(names)}
        labels, is_named = draft.spread(list(texts)), chance.random() < 0.7
        _add_label(draft, labels, texts if is_named else {})
        if is_named:
            add_class_file(draft, texts)
        _save(draft, [f"{label}/" for label in labels])
        return
    labels = draft.spread(names)
    _add_label(draft, labels)
    if chance.random() < 0.3:
        # In another order than that of the folders' names, or in the same.
        order = chance.sample(names, len(names))
        add_class_file(draft, {str(n): one for n, one in enumerate(order)})
        if order == sorted(names):
            draft.roles.pop()
    paths = _save(draft, [f"{label}/" for label in labels])
    if chance.random() < 0.15:
        _add_table(draft, paths, is_first=False)


def _add_table(draft: Meaning, paths: Sequence[str], *, is_first: bool = True) -> None:
    """Adds a table of labels beside the images."""
    labels, bare = draft.spread(draft.pick_classes()), is_first and draft.chance.random() < 0.3
    ends = {name.rpartition(".")[0]: name for name in draft.files}
    names = _stems_of([ends[path] for path in paths]) if bare else [ends[path] for path in paths]
    table = draft.chance.choice(("labels.csv", "annotations.csv", "metadata.csv") if is_first else ("labels.csv",))
    field = draft.chance.choice(("label", "species", "Class") if is_first else ("species",))
    rows = "".join(f'{name},"{label}"\n' for name, label in zip(names, labels, strict=True))
    draft.files[table] = f"filename,{field}\n{rows}".encode()
    draft.add_label(field, labels, said=(table, field), is_first=is_first, rows=())
    draft.kinds.append("label:table")


def _two(draft: Meaning) -> None:
    """Draws folders of splits and of classes, in either order; or the inputs of some parts."""
    chance = draft.chance
    chosen = chance.choice((("train", "test"), ("train", "val"), ("Training", "Testing"), ("train", "valid", "test")))
    pairs = [(split, name) for split in chosen for name in _pick_classes(draft)[:2]]
    splits, labels = map(list, zip(*(pairs[n % len(pairs)] for n in range(draft.count)), strict=True))
    _add_label(draft, labels)
    is_parts = draft.form == "folder" and chance.random() < 0.4
    path = "{split}/{label}/"
    if is_parts:
        splits = draw_parts(draft)
        draft.settings["input"] = [f"{{root}}/{part}" for part in sorted(set(splits))]
    else:
        _add_split(draft, splits)
        path = chance.choice((path, path, "{label}/{split}/"))
    _save(draft, [path.format(split=split, label=label) for split, label in zip(splits, labels, strict=True)])


def _splits(draft: Meaning) -> None:
    """Draws split folders of images, and a table that says the classes or nothing."""
    splits = draft.spread(draft.chance.choice((("train", "test"), ("train", "val"))))
    paths = _save(draft, [f"{split}/" for split in splits])
    _add_split(draft, splits)
    if draft.chance.random() < 0.6:
        _add_table(draft, paths)


def _table(draft: Meaning) -> None:
    """Draws images in one folder, and a table that says their classes."""
    _add_table(draft, _save(draft, [draft.chance.choice(("", "images/"))] * draft.count))


def _names(draft: Meaning) -> None:
    """Draws images whose names begin with the class."""
    names = draft.chance.choice((("cat", "dog"), ("apple", "pear", "plum"), ("ok", "bad"), ("Abyssinian", "pug")))
    labels, between = draft.spread(names), draft.chance.choice("._-")
    _save(draft, [""] * draft.count, stems=[f"{label}{between}{n}" for n, label in enumerate(labels)])
    draft.add_label("names", labels, said=(*names, "names", "label_pattern"), rows=())


def _two_levels(draft: Meaning) -> None:
    """Draws two levels of folders, either of which may be the classes."""
    outer, inner = map(words.words, draft.chance.choice(_LEVELS))
    pairs = [(one, two) for one in outer for two in inner]
    drawn = [pairs[n % 4] for n in range(draft.count)]
    _save(draft, [f"{one}/{two}/" for one, two in drawn])
    for field, cells in (("outer", [one for one, _ in drawn]), ("inner", [two for _, two in drawn])):
        draft.labels.append(Label((field,), [[cell] for cell in cells]))
    draft.labels.append(Label(("both",), [[f"{one}/{two}"] for one, two in drawn]))
    draft.roles.append(Role("label", (*outer, *inner, "label", "labels")))
    draft.unclear = "two levels of folders, either of which may be the classes"


def _pairs(draft: Meaning) -> None:
    """Draws images of two kinds of each item: in folders of the kinds, at any level, or in names."""
    chance, kinds = draft.chance, draft.chance.choice((*_PAIRS, *_OTHER_PAIRS))
    are_known = kinds in _PAIRS and kinds != ["A", "B"]
    place = chance.choice(_PLACES if are_known else _PLACES[:5])
    if chance.random() < 0.2:
        # More than the names that a summary keeps.
        draft.set_count(80)
    splits = draft.spread(("train", "test")) if "{split}" in place else [""] * draft.count
    scenes = draft.spread(("alley", "cave", "market")) if "{scene}" in place else splits
    # What all names of a kind begin with.
    in_names = "_{kind}" in place
    begins = [("", ""), ("", ""), (f"{kinds[0]}_", f"{kinds[1]}_"), ("x", "y")]
    first, second = chance.choice(begins[:1] if in_names else begins)
    # With the same numbers, folders of other words may be classes.
    is_clear = are_known or (kinds == ["A", "B"] and first == "")
    style = chance.choice(("{n:04d}", "img_{n}", "{n}", "{h}") if is_clear else ("{h}",))
    stems = [style.format(n=n, h=f"{n * 2654435761 % 2**32:08x}") for n in range(1, draft.count + 1)]
    for kind, begin in zip(kinds, (first, second), strict=True):
        paths = [
            place.format(kind=kind, stem=f"{begin}{stem}", split=split, scene=scene)
            for stem, split, scene in zip(stems, splits, scenes, strict=True)
        ]
        _save(draft, [""] * draft.count, f"_{kind}" if in_names else kind, paths)
    draft.kinds.append(f"pair:{place}, {first}{style}")
    if any(splits):
        _add_split(draft, splits)
    if "{scene}" in place:
        _add_label(draft, scenes)
    draft.roles.append(Role("image", (kinds[1], f"_{kinds[1]}")))
    draft.unclear = "images of two kinds of the same things"


def _listed_split(draft: Meaning) -> None:
    """Draws split folders, one of which has class folders and the other a table of its classes."""
    chance = draft.chance
    splits = draft.spread(chance.choice((("Train", "Test"), ("train", "val"), ("training", "testing"))))
    labels = draft.spread(chance.choice((("0", "1", "2"), ("cat", "dog"), ("benign", "malignant"))))
    listed = splits[0] if chance.random() < 0.3 else next(split for split in reversed(splits) if split != splits[0])
    inner = ["" if split == listed else f"{label}/" for split, label in zip(splits, labels, strict=True)]
    _save(draft, [f"{split}/{one}" for split, one in zip(splits, inner, strict=True)])
    rows = [*zip(draft.files, labels, splits, strict=True)]
    _add_label(draft, labels)
    _add_split(draft, splits)
    draft.labels.append(Label(("ClassId",), [[label] for label in labels], is_first=False))
    header, row = chance.choice((("Width,ClassId,Path", "48,{label},{path}"), ("Path,ClassId", "{path},{label}")))
    for table in dict.fromkeys(splits) if chance.random() < 0.5 else (listed,):
        lines = [row.format(path=path, label=label) for path, label, split in rows if split == table]
        draft.files[f"{table}.csv"] = "\n".join([header, *lines, ""]).encode()
        draft.roles.append(Role("label", (f"{table}.csv",)))


def _split_lists(draft: Meaning) -> None:
    """Draws class folders, or images alone, and lists of the stems of each split."""
    chance = draft.chance
    labels = draft.spread(_pick_classes(draft)) if chance.random() < 0.7 else None
    stems = _stems_of(_save(draft, [f"{one}/" for one in labels] if labels else ["JPEGImages/"] * draft.count))
    if labels:
        _add_label(draft, labels)
    elif chance.random() < 0.6:
        _add_masks(draft, [f"SegmentationClass/{stem}" for stem in stems], "SegmentationClass")
    names = chance.choice((("train", "val"), ("train", "test"), ("train", "val", "test")))
    splits, folder = draft.spread(names), chance.choice(("", "", "ImageSets/", "ImageSets/Main/", "splits/"))
    for name in names:
        lines = [f"{stem}\n" for stem, split in zip(stems, splits, strict=True) if split == name]
        draft.files[f"{folder}{name}.txt"] = "".join(lines).encode()
    # The counts of skipped files name all files; a note or question says that these are not read.
    draft.add_split("lists", splits, "not read", "lists of splits", "tables beside them")
    draft.roles[-1] = Role("split", draft.roles[-1].words[1:])


def _masks(draft: Meaning) -> None:
    """Draws a folder of images and one of their masks, or masks beside the images with another end."""
    chance, is_beside = draft.chance, draft.chance.random() < 0.33
    labels = draft.spread(_pick_classes(draft)) if is_beside or chance.random() < 0.3 else None
    inner = [f"{label}/" for label in labels] if labels else [""] * draft.count
    paths = _save(draft, inner if is_beside else [f"images/{one}" for one in inner])
    folder = chance.choice(_MASKS)
    end = chance.choice(("_mask", "_seg", "_gt") if is_beside else ("", "", "_mask", "_seg"))
    moved = paths if is_beside else [path.replace("images", folder, 1) for path in paths]
    _add_masks(draft, [f"{path}{end}" for path in moved], end if is_beside else folder)
    if labels:
        _add_label(draft, labels)


_STYLES: dict[str, tuple[float, Callable[[Meaning], None]]] = {
    "classes": (34, _classes),
    "two": (24, _two),
    "splits": (8, _splits),
    "table": (5, _table),
    "names": (5, _names),
    "two_levels": (8, _two_levels),
    "pairs": (7, _pairs),
    "listed_split": (6, _listed_split),
    "split_lists": (6, _split_lists),
    "masks": (12, _masks),
}
