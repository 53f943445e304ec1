"""The images of a table: columns of paths, ids or files, and the files themselves."""

from __future__ import annotations

from tests.meanings import pictures, words
from tests.meanings.drafts import HEADERLESS, SPLIT_OF, Draft
from tests.meanings.meaning import Role, Split


def add_split_prefix(draft: Draft) -> None:
    """Lets the paths of the images begin with the split."""
    draft.prefixes = [""] * draft.count
    if draft.form in ("hf_parquet", "list") or draft.chance.random() > 0.1:
        return
    chosen = draft.chance.choice((("train", "test"), ("train", "val"), ("train", "val", "test"), ("Train", "Test")))
    folders = draft.spread(chosen)
    draft.prefixes = [f"{folder}/" for folder in folders]
    draft.splits.append(Split(("paths",), [SPLIT_OF[folder.lower()] for folder in folders]))
    draft.roles.append(Role("split", ("paths", *chosen, "split", "splits", "validation")))
    draft.kinds.append("split:paths")


def _file_names(draft: Draft, stem: str) -> list[str]:
    style = draft.chance.choice(("{stem}{n:04d}", "{n}", "{stem}_{n}", "{h}", "{stem} {n}"))
    if draft.form in HEADERLESS:
        style = style.replace(" ", "-")
    extension = draft.chance.choice((".png", ".jpg", ".jpg", ".JPG", ".jpeg"))
    return [
        style.format(stem=stem, n=n + 1, h=f"{(n + 1) * 2654435761 % 2**32:08x}") + extension
        for n in range(draft.count)
    ]


def add_image(draft: Draft) -> None:
    chance = draft.chance
    if draft.form == "hf_parquet":
        field = chance.choice(("image", "image", "img", "picture", "jpg"))
        draft.images[field] = draft.add_pictures()
        kinds = chance.choice(("png", "jpg"))
        draft.columns[field] = [
            {"bytes": pictures.picture(number, kinds), "path": f"{n}.{kinds}"}
            for n, number in enumerate(draft.images[field])
        ]
        draft.kinds.append("image:embedded")
        return
    style = chance.choices(("path", "bare", "id", "pair", "parts"), (67, 15, 8, 7, 3))[0]
    if draft.form in ("hf_folder", *HEADERLESS) and style in ("id", "pair", "parts"):
        style = "path"
    if style == "pair":
        pair = chance.choice(words.SECOND_IMAGES)
        for field in pair:
            _add_paths(draft, field, f"{field.replace('_path', '')}", in_cell=True)
        draft.unclear = "two columns of images, neither of which is the image"
        draft.kinds.append("image:doubled")
        return
    if style == "parts" and not any(draft.prefixes):
        draft.prefixes = draft.spread(("a/", "b/"))
    names = words.RARE_IMAGES if chance.random() < 0.25 and draft.form != "hf_folder" else words.IMAGES
    field = draft.name(("file_name",) if draft.form == "hf_folder" else names)
    _add_paths(
        draft,
        field,
        chance.choice(("img", "photo", "x", "DSC")),
        in_cell=style in ("path", "parts"),
        has_end=style != "id",
    )
    draft.kinds.append(f"image:{style}")
    if style == "parts":
        draft.columns["folder"] = [path.rpartition("/")[0] for path in draft.columns[field]]
        draft.columns[field] = [path.rpartition("/")[2] for path in draft.columns[field]]
        return
    if chance.random() < 0.12:
        second = draft.name(words.BESIDE_IMAGE)
        _add_paths(draft, second, "second", in_cell=style == "path")
        draft.roles.append(Role("image", (second,)))
        draft.kinds.append("image2:present")


def _add_paths(draft: Draft, field: str, stem: str, *, in_cell: bool, has_end: bool = True) -> None:
    """Adds a column of paths, and the files."""
    draft.images[field] = draft.add_pictures()
    names = _file_names(draft, stem)
    if f"{draft.folder}{draft.prefixes[0]}{names[0]}" in draft.files:
        names = [f"{field}-{name}" for name in names]
    cells = []
    for number, name, prefix in zip(draft.images[field], names, draft.prefixes, strict=True):
        kind = "png" if name.endswith("png") else "jpg"
        draft.files[f"{draft.folder}{prefix}{name}"] = pictures.picture(number, kind)
        cells.append(f"{draft.folder if in_cell else ''}{prefix}{name if has_end else name.rpartition('.')[0]}")
    draft.columns[field] = cells


def lose_images(draft: Draft) -> None:
    """Leaves out the files: no reference leads anywhere."""
    if draft.form == "hf_parquet":
        return
    draft.files = {
        name: data for name, data in draft.files.items() if not name.lower().endswith((".png", ".jpg", ".jpeg"))
    }
    if draft.form != "hf_folder":
        draft.files["other/unrelated.png"] = pictures.picture(0)
    draft.unclear = "no image is there"
    draft.kinds.append("image:lost")
