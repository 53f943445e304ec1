"""The label of a table, in the forms that people write it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.meanings import words
from tests.meanings.class_files import add_class_file, may_state
from tests.meanings.drafts import HEADERLESS, TYPED, Draft
from tests.meanings.meaning import Label, Role, canonical


def _add_labels(draft: Draft, field: str, values: Sequence[Any], **others: Any) -> None:
    draft.columns[field] = list(values)
    of_each = [[] if value is None else [canonical(value)] for value in values]
    draft.labels.append(Label((field,), of_each, rows=of_each, **others))
    draft.roles.append(Role("label", (field,)))


def _label_names(draft: Draft) -> None:
    rare = draft.chance.random() < 0.3
    field = draft.name(words.RARE_LABELS if rare else words.LABELS)
    values = draft.spread(draft.pick_classes())
    if draft.start and draft.chance.random() < 0.2:
        values = draft.shorten(values)
        draft.kinds.append("label:later")
    _add_labels(draft, field, values)
    draft.kinds.append("label:names")


def _label_pair(draft: Draft) -> None:
    pairs = [pair for pair in words.PAIRS if draft.is_free(pair)]
    first, second = draft.chance.sample(words.CLASSES, 2)
    for field, classes in zip(draft.chance.choice(pairs), (first, second), strict=True):
        _add_labels(draft, field, draft.spread(classes))
    draft.unclear = "two columns of classes, neither of which is the label"
    draft.kinds.append("label:doubled")


def _label_beside_label(draft: Draft) -> None:
    """Adds `label` and another column of classes: `label` may be taken, if the other is named."""
    _add_labels(draft, "label", draft.spread(draft.pick_classes()))
    other = draft.name(("species", "category", "breed", "weather", "view", "stage"))
    first = draft.labels[0].values
    values = draft.spread(draft.pick_classes())
    while [canonical(value) for value in values] == [one for (one,) in first]:
        values = draft.spread(draft.pick_classes())
    _add_labels(draft, other, values, is_first=False)
    if draft.form in HEADERLESS:
        draft.unclear = "two columns without names, both of classes"
    draft.kinds.append("label:and_other")


def _label_index(draft: Draft) -> None:
    chance = draft.chance
    base = chance.choice((0, 0, 1))
    names = draft.pick_classes()
    rare = chance.random() < 0.2
    field = draft.name(words.RARE_LABELS if rare else words.INDICES)
    indices = draft.spread(range(base, base + len(names)))
    texts = {str(base + n): name for n, name in enumerate(names)}
    draft.kinds.append(f"label:index{base}")
    beside = chance.choices(("nothing", "twin", "file"), (35, 30, 35))[0]
    if beside == "nothing":
        _add_labels(draft, field, indices)
    elif beside == "twin":
        pairs = [pair for pair in words.TWINS if draft.is_free(pair)]
        field, twin = chance.choice(pairs)
        _add_labels(draft, field, indices, names=texts)
        cells = [texts[str(index)] for index in indices]
        draft.columns[twin] = cells
        of_each = [[cell] for cell in cells]
        draft.labels.append(Label((twin,), of_each, rows=of_each))
        draft.roles += [Role("names", (twin,)), Role("label", (field, twin))]
        draft.kinds.append("label:twin")
    else:
        _add_labels(draft, field, indices, names=texts)
        file = add_class_file(draft, texts)
        draft.roles.append(Role("names", (file,)))
        if may_state(draft, file, 0.6):
            draft.settings["label_column"] = field


def _label_declared(draft: Draft) -> None:
    """Adds numbers whose names the schema of a Parquet file of Hugging Face declares; two such columns, at times."""
    if draft.form != "hf_parquet":
        _label_names(draft)
        return
    chance = draft.chance
    several = chance.random() < 0.3
    for field in chance.choice(words.PAIRS) if several else [draft.name((*words.INDICES, *words.RARE_LABELS))]:
        names = draft.pick_classes()
        texts = {str(n): name for n, name in enumerate(names)}
        _add_labels(draft, field, draft.spread(range(len(names))), names=texts)
        draft.declared[field] = names
    if several:
        draft.unclear = "two columns of classes, neither of which is the label"
    draft.kinds.append("label:declared" + ("_doubled" if several else ""))


def _label_one_hot(draft: Draft) -> None:
    names = [name for name in draft.pick_classes() if not set(name) & set(",/")]
    if len(names) < 2 or not draft.is_free(names):
        names = ["healthy", "rust", "scab"]
    chosen = draft.spread(names)
    several = draft.chance.random() < 0.4
    cells = {name: [int(one == name) for one in chosen] for name in names}
    if several:
        for row in range(draft.count):
            cells[draft.chance.choice(names)][row] = 1
    draft.columns |= cells
    values = [[name for name in names if cells[name][row]] for row in range(draft.count)]
    draft.labels.append(Label(tuple(names), values))
    draft.roles.append(Role("label", tuple(names)))
    draft.kinds.append("label:one_hot" + ("_several" if several else ""))
    if len(names) > 2 and draft.chance.random() < 0.15:
        add_class_file(draft, {str(n): one for n, one in enumerate(names[1:])})
        draft.unclear = "class names of another number than the columns"


def _label_list(draft: Draft) -> None:
    """Adds cells with any number of classes."""
    names = [name for name in draft.pick_classes() if not set(name) & set(",;| '\"[]")]
    names = names if len(names) > 2 else ["sky", "sea", "sand", "tree"]
    field = draft.name(("labels", "tags", "label", "classes", "categories", "Finding Labels"))
    values = [draft.chance.sample(names, draft.chance.choice((1, 1, 2, 3))) for _ in range(draft.count)]
    if all(len(one) == 1 for one in values):
        values[0] = names[:2]
    separator = draft.chance.choice("|;, ")
    if draft.form in TYPED:
        cells: list[Any] = values
    elif draft.form in HEADERLESS:
        cells = ["|".join(one) for one in values]
    else:
        cells = [separator.join(one) for one in values] if draft.chance.random() < 0.7 else list(map(str, values))
    draft.columns[field] = cells
    draft.labels.append(Label((field,), values))
    draft.roles.append(Role("label", (field,)))
    draft.kinds.append("label:list")


def _label_float(draft: Draft) -> None:
    field = draft.name(words.VALUES)
    digits = draft.chance.choice((1, 2, 4))
    values: list[Any] = [round(draft.chance.uniform(0.5, 90), digits) for _ in range(draft.count)]
    of_each = [[value] for value in values]
    missing = draft.chance.random() < 0.2
    if missing:
        row = draft.chance.randrange(draft.count)
        is_typed = draft.form in TYPED
        values[row] = draft.chance.choice(
            (None, float("nan"), float("inf")) if is_typed else ("", "NaN", "inf", "nan", " ")
        )
        of_each[row] = []
    draft.columns[field] = values
    draft.labels.append(Label((field,), of_each, kind="float"))
    draft.roles.append(Role("value", (field,)))
    draft.kinds.append("label:float" + ("_missing" if missing else ""))
    _state_type(draft, field, "float", 0.6)


def _label_text(draft: Draft) -> None:
    field = draft.name(words.CAPTIONS)
    values = [f"{draft.chance.choice(words.SENTENCES)}" for _ in range(draft.count)]
    if draft.chance.random() < 0.5:
        values = [f"{value} {n}" for n, value in enumerate(values)]
    missing = draft.chance.random() < 0.15
    if missing:
        values[draft.chance.randrange(draft.count)] = draft.chance.choice((None, "", "  "))
    draft.columns[field] = values
    of_each = [[value] if value is not None and value.strip() else [] for value in values]
    draft.labels.append(Label((field,), of_each, kind="text"))
    draft.roles.append(Role("text", (field,)))
    draft.kinds.append("label:text" + ("_missing" if missing else ""))
    _state_type(draft, field, "text", 0.6)


def _label_vector(draft: Draft) -> None:
    field = draft.name(words.VECTORS)
    length = draft.chance.choice((3, 4, 5, 10))
    whole = draft.chance.random() < 0.5
    draw = (lambda: draft.chance.randrange(10)) if whole else (lambda: round(draft.chance.random(), 3))
    values = [[draw() for _ in range(length)] for _ in range(draft.count)]
    is_typed = draft.form in TYPED
    cells: list[Any] = values if is_typed else [json.dumps(value) for value in values]
    if draft.form in HEADERLESS:
        cells = [",".join(map(str, value)) for value in values]
    draft.columns[field] = cells
    draft.labels.append(Label((field,), values, kind="float"))
    draft.roles.append(Role("vector", (field,)))
    draft.kinds.append("label:vector" + ("_whole" if whole else ""))
    _state_type(draft, field, "float", 0.3)


def _label_json(draft: Draft) -> None:
    field = draft.name(words.JSON_CELLS)
    names = draft.pick_classes()
    style = draft.chance.choice(("studio", "labelbox", "via"))
    cells = []
    for name in draft.spread(names):
        x, y = draft.chance.randrange(1, 40), draft.chance.randrange(1, 40)
        value: Any = [{"x": x, "y": y, "width": 20, "height": 10, "rectanglelabels": [name], "original_width": 48}]
        if style == "labelbox":
            value = {"objects": [{"title": name, "bbox": {"top": y, "left": x, "height": 9, "width": 8}}]}
        if style == "via":
            value = {"name": "rect", "x": x, "y": y, "width": 8, "height": 9}
        cells.append(json.dumps(value))
    draft.columns[field] = cells
    draft.roles.append(Role("annotation", (field,)))
    draft.kinds.append(f"label:json_{style}")


def _label_none(draft: Draft) -> None:
    draft.kinds.append("label:absent")


def _state_type(draft: Draft, field: str, kind: str, share: float) -> None:
    if draft.chance.random() < share and draft.form not in HEADERLESS:
        draft.settings |= {"label_column": field, "label_type": kind}
        draft.kinds.append("label:stated")


LABELS: Mapping[str, tuple[float, Callable[[Draft], None]]] = {
    "names": (26, _label_names),
    "index": (24, _label_index),
    "declared": (4, _label_declared),
    "pair": (6, _label_pair),
    "beside": (6, _label_beside_label),
    "one_hot": (7, _label_one_hot),
    "list": (7, _label_list),
    "float": (5, _label_float),
    "text": (6, _label_text),
    "vector": (5, _label_vector),
    "json": (4, _label_json),
    "none": (4, _label_none),
}


# Labels that say nothing without the names of columns.
NEED_NAMES = ("pair", "one_hot", "vector", "json")
