"""Draws inputs of rows: tables and files of samples."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.meanings import columns
from tests.meanings.labels import HEADERLESS, TYPED, add_label
from tests.meanings.meaning import Meaning, canonical
from tests.meanings.row_files import write_rows

_SHARED_FORMS = ("csv", "tsv", "jsonl", "parquet", "hf_folder")
ROW_FORMS = (*_SHARED_FORMS, "csv_headerless", "list", "hf_parquet", "webdataset", "tfrecord")
# Rows of a table, and the first row that has a value that comes later.
_SIZES = {0: range(6, 13), 5: range(12, 17), 60: range(75, 90), 1200: range(1220, 1240)}
_MORE: Sequence[tuple[float, Callable[[Meaning], None]]] = (
    (0.3, columns.add_split),
    (0.16, columns.add_boxes),
    (0.08, columns.add_mask),
)


def draw_rows(chance: random.Random, form: str) -> Meaning:
    """Draws rows of a form."""
    # In a list, no cell is empty.
    start = chance.choices((0, 5, 60, 1200), (70, 20, 9, 0.4))[0] if form in (*_SHARED_FORMS, "csv_headerless") else 0
    draft = Meaning(chance, form, chance.choice(_SIZES[start]), start)
    draft.folder = "" if form == "hf_folder" else chance.choice(("", "images/", "images/", "img/", "data/pics/"))
    columns.add_split_prefix(draft)
    columns.add_image(draft)
    add_label(draft)
    can_share = form in _SHARED_FORMS and draft.kinds[-1] in ("label:names", "label:text") and len(draft.images) == 1
    if can_share and not start and not draft.unclear and chance.random() < 0.25:
        _share_images(draft)
        return draft
    for share, add in _MORE:
        if chance.random() < share:
            add(draft)
    if start and not any("later" in kind for kind in draft.kinds):
        draft.start = 0
    # Without names, the only further column would be taken for the label, and could be it.
    if draft.labels or form not in HEADERLESS:
        columns.add_junk(draft)
    if form not in HEADERLESS and chance.random() < 0.25:
        _state(draft)
    return _finish(draft)


def _state(draft: Meaning) -> None:
    """States what a user would: which columns hold what; this decides what is unclear otherwise."""
    stated: dict[str, Any] = {}
    if len(draft.images) > 1 and "images" in draft.unclear:
        stated["image_column"] = draft.chance.choice((",".join(draft.images), next(iter(draft.images))))
    elif draft.form not in ("hf_folder", *columns.EMBEDDED):
        stated["image_column"] = next(iter(draft.images))
    label = next(iter(draft.labels), None)
    if label is not None and label.kind == "class" and "label_column" not in draft.settings:
        stated["label_columns" if len(label.fields) > 1 else "label_column"] = ",".join(label.fields)
        cells = [str(cell) for cell in draft.columns[label.fields[0]]]
        separator = next((one for one in "|;," if any(one in cell for cell in cells)), "")
        if "label:list" in draft.kinds and separator and not cells[0].startswith("["):
            stated["label_separator"] = separator
    if draft.splits and draft.splits[0].fields[0] in draft.columns and draft.chance.random() < 0.5:
        stated["split_column"] = draft.splits[0].fields[0]
    if ("images" in draft.unclear and "image_column" not in stated) or (
        "splits" in draft.unclear and "split_column" not in stated
    ):
        return
    if "label:names" in draft.kinds and "label:later" not in draft.kinds and draft.chance.random() < 0.2:
        names = sorted({value for one in draft.labels[0].values for value in one if "," not in value})
        if len(names) > 2:
            stated["classes"] = ",".join(names[:2])
    draft.settings |= stated
    draft.kinds.append("stated")
    if not (draft.unclear.startswith("boxes") or ("classes" in draft.unclear and "label_column" not in stated)):
        draft.unclear = ""


def _finish(draft: Meaning) -> Meaning:
    names = list(draft.columns)
    if draft.form in HEADERLESS:
        # Without names, people keep what belongs together in one place.
        names = names[1:] + names[:1] if draft.chance.random() < 0.2 else names
    elif draft.form not in columns.EMBEDDED and draft.chance.random() < 0.5:
        first, *others = names
        draft.chance.shuffle(others)
        names = [first, *others] if draft.chance.random() < 0.7 else draft.chance.sample(names, len(names))
    draft.columns = {name: draft.columns[name] for name in names}
    write_rows(draft)
    if draft.form not in TYPED and not draft.table.endswith(".jsonl"):
        draft.columns = {
            name: [str(one) if isinstance(one, bool) else one for one in found] for name, found in draft.columns.items()
        }
    return draft


def _share_images(draft: Meaning) -> None:
    """Repeats the rows of some images with another label, and once with another split."""
    chance, label = draft.chance, draft.labels[0]
    draft.kinds.append("rows:shared")
    if not draft.splits and chance.random() < 0.5:
        draft.columns["split"] = draft.spread(("train", "test"))
        draft.add_split("split", draft.columns["split"])
    order = sorted([*range(draft.count), 0, *(n for n in range(draft.count) if chance.random() < 0.3)])
    values = {canonical(value): value for value in draft.columns[label.fields[0]]}
    columns = {name: [cells[n] for n in order] for name, cells in draft.columns.items()}
    for row, n in enumerate(order):
        others = [one for one in values if one not in label.values[n]]
        if row and order[row - 1] == n and others:
            columns[label.fields[0]][row] = values[others[0]]
            label.values[n].append(others[0])
    if "split" in columns and chance.random() < 0.4:
        columns["split"][1] = next(one for one in ("train", "test") if one != columns["split"][0])
        draft.unclear = "rows of one image in two splits"
    draft.columns = columns
    write_rows(draft)
    of_item = {n: [row for row, one in enumerate(order) if one == n] for n in range(draft.count)}
    draft.columns = {
        name: [list(dict.fromkeys(str(cells[row]) for row in of_item[n])) for n in range(draft.count)]
        for name, cells in columns.items()
    }
