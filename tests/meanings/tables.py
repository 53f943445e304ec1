"""Draws inputs that are tables: csv, tsv, lists, JSON lines, Parquet, folders with metadata."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from tests.meanings.drafts import HEADERLESS, TYPED, Draft, new_draft
from tests.meanings.meaning import Case
from tests.meanings.shared_rows import SHARED_FORMS, draw_shared_rows
from tests.meanings.table_extras import (
    add_boxes,
    add_caption,
    add_group,
    add_junk,
    add_mask,
    add_objects,
    add_outline,
    add_split,
)
from tests.meanings.table_files import WRITERS
from tests.meanings.table_images import add_image, add_split_prefix, lose_images
from tests.meanings.table_labels import LABELS, NEED_NAMES

TABLE_FORMS = (
    "csv", "tsv", "csv_headerless", "list", "jsonl", "parquet", "hf_folder", "hf_parquet",
)  # fmt: skip
# Rows of a table, and the first row that has a value that comes later.
_SIZES = {0: range(6, 13), 5: range(12, 17), 60: range(75, 90), 1200: range(1220, 1240)}


def draw_table(chance: random.Random, form: str) -> Case:
    """Draws a table of a form."""
    # In a list, no cell is empty.
    start = 0 if form == "list" else chance.choices((0, 5, 60, 1200), (70, 20, 9, 0.4))[0]
    count = chance.choice(_SIZES[start])
    draft = new_draft(chance, form, count, start=start)
    draft.folder = "" if form == "hf_folder" else chance.choice(("", "images/", "images/", "img/", "data/pics/"))
    if form in SHARED_FORMS and chance.random() < 0.1:
        cells = draw_shared_rows(draft)
        WRITERS[form](draft)
        return draft.case(cells)
    add_split_prefix(draft)
    add_image(draft)
    styles = {name: one for name, one in LABELS.items() if form not in HEADERLESS or name not in NEED_NAMES}
    styles[chance.choices(list(styles), [weight for weight, _ in styles.values()])[0]][1](draft)
    # Without names, the only further column would be taken for the label, and could be it.
    is_bare = form in HEADERLESS and not draft.labels
    for share, add in _MORE:
        if chance.random() < share and not (is_bare and add in (add_group, add_caption, add_outline)):
            add(draft)
    if start and not any("later" in kind for kind in draft.kinds):
        draft.start = 0
    if not is_bare:
        add_junk(draft)
    if form not in HEADERLESS and chance.random() < 0.25:
        _state(draft)
    return _finish(draft)


def _state(draft: Draft) -> None:
    """States what a user would: which columns hold what; this decides what is unclear otherwise."""
    stated: dict[str, Any] = {}
    if len(draft.images) > 1 and "images" in draft.unclear:
        stated["image_column"] = draft.chance.choice((",".join(draft.images), next(iter(draft.images))))
    elif draft.form not in ("hf_folder", "hf_parquet"):
        stated["image_column"] = next(iter(draft.images))
    label = next(iter(draft.labels), None)
    if label is not None and label.kind == "class" and "label_column" not in draft.settings:
        stated |= (
            {"label_columns": ",".join(label.fields)} if len(label.fields) > 1 else {"label_column": label.fields[0]}
        )
        separator = next((one for one in "|;," if any(one in str(cell) for cell in draft.columns[label.fields[0]])), "")
        if "label:list" in draft.kinds and separator and not str(draft.columns[label.fields[0]][0]).startswith("["):
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
            draft.kinds.append("classes:stated")
    draft.settings |= stated
    draft.kinds.append("stated")
    if not (
        draft.unclear.startswith(("boxes", "no image")) or ("classes" in draft.unclear and "label_column" not in stated)
    ):
        draft.unclear = ""


def _finish(draft: Draft) -> Case:
    names = list(draft.columns)
    if draft.form in HEADERLESS:
        # Without names, people keep what belongs together in one place.
        names = names[1:] + names[:1] if draft.chance.random() < 0.2 else names
    elif draft.chance.random() < 0.5:
        first, *others = names
        draft.chance.shuffle(others)
        names = [first, *others] if draft.chance.random() < 0.7 else draft.chance.sample(names, len(names))
    draft.columns = {name: draft.columns[name] for name in names}
    WRITERS[draft.form](draft)
    cells = dict(draft.columns)
    if draft.form not in TYPED and not draft.table.endswith(".jsonl"):
        cells = {name: [str(one) if isinstance(one, bool) else one for one in found] for name, found in cells.items()}
    if draft.form in HEADERLESS:
        cells = {f"column_{n}": values for n, values in enumerate(cells.values(), 1)}
    return draft.case(cells)


_MORE: Sequence[tuple[float, Callable[[Draft], None]]] = (
    (0.3, add_split),
    (0.14, add_boxes),
    (0.07, add_mask),
    (0.08, add_caption),
    (0.08, add_group),
    (0.1, add_objects),
    (0.06, add_outline),
    (0.03, lose_images),
)
