"""Labels of rows, in the forms that people write them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.meanings import words
from tests.meanings.class_files import add_class_file
from tests.meanings.meaning import Label, Meaning, Role, canonical

# Forms that name no columns, and those whose cells are more than text.
HEADERLESS = ("csv_headerless", "list")
TYPED = ("jsonl", "parquet", "hf_parquet", "webdataset", "tfrecord")
# Usual names in a form alone.
_USUAL: Mapping[tuple[str, str], Sequence[str]] = {
    ("webdataset", "index"): ["cls"] * 9,
    ("webdataset", "text"): ["txt"] * 6,
    ("tfrecord", "index"): ["image/class/label"] * 4,
    ("tfrecord", "names"): ["image/class/text"] * 4,
    ("tfrecord", "text"): ["image/caption"] * 3,
}
_TWINS = {
    "webdataset": words.groups("cls+txt|cls+class_name|label+txt"),
    "tfrecord": words.groups("image/class/label+image/class/text|label+image/class/text"),
}


def _name(draft: Meaning, names: Sequence[str], kind: str) -> str:
    return draft.name([*names, *_USUAL.get((draft.form, kind), ())])


def _add(draft: Meaning, field: str, cells: Sequence[Any], *role: str, **others: Any) -> None:
    draft.columns[field] = list(cells)
    draft.add_label(field, cells, *role, **others)


def _names(draft: Meaning) -> None:
    field = _name(draft, words.RARE_LABELS if draft.chance.random() < 0.3 else words.LABELS, "names")
    values = draft.spread(draft.pick_classes())
    if draft.start and draft.chance.random() < 0.2:
        values = draft.shorten(values)
        draft.kinds.append("label:later")
    _add(draft, field, values)


def _pair(draft: Meaning) -> None:
    first, second = draft.chance.sample(words.CLASSES, 2)
    fields = draft.chance.choice([pair for pair in words.PAIRS if draft.is_free(pair)])
    for field, classes in zip(fields, (first, second), strict=True):
        _add(draft, field, draft.spread(classes))
    draft.unclear = "two columns of classes, either of which may be the label"


def _beside_label(draft: Meaning) -> None:
    """Adds `label` and another column of classes: `label` may be taken, if the other is named."""
    _add(draft, "label", draft.spread(draft.pick_classes()))
    other = draft.name(("species", "category", "breed", "weather", "view", "stage"))
    values = first = draft.columns["label"]
    while [*map(canonical, values)] == [*map(canonical, first)]:
        values = draft.spread(draft.pick_classes())
    _add(draft, other, values, is_first=False)
    if draft.form in HEADERLESS:
        draft.unclear = "two columns without names, both of classes"


def _index(draft: Meaning) -> None:
    chance = draft.chance
    base = chance.choice((0, 0, 1))
    texts = {str(base + n): name for n, name in enumerate(draft.pick_classes())}
    field = _name(draft, words.RARE_LABELS if chance.random() < 0.2 else words.INDICES, "index")
    indices = [*map(int, draft.spread([*texts]))]
    beside = chance.choices(("nothing", "twin", "file"), (30, 40, 30))[0]
    draft.kinds.append(f"index:{base}_{beside}")
    if beside == "twin":
        field, twin = chance.choice([pair for pair in _TWINS.get(draft.form, words.TWINS) if draft.is_free(pair)])
    _add(draft, field, indices, names=texts if beside != "nothing" else {})
    if beside == "twin":
        _add(draft, twin, [texts[str(index)] for index in indices], "names")
        draft.roles.append(Role("label", (field, twin)))
    if beside == "file":
        add_class_file(draft, texts, share=0.6)
        if "class_names" in draft.settings and draft.form not in HEADERLESS:
            draft.settings["label_column"] = field


def _declared(draft: Meaning) -> None:
    """Adds numbers whose names the schema of a Parquet file of Hugging Face declares; two such columns, at times."""
    if draft.form != "hf_parquet":
        _names(draft)
        return
    several = draft.chance.random() < 0.3
    fields = draft.chance.choice(words.PAIRS) if several else [draft.name((*words.INDICES, *words.RARE_LABELS))]
    for field in fields:
        draft.declared[field] = names = draft.pick_classes()
        _add(draft, field, draft.spread(range(len(names))), names={str(n): name for n, name in enumerate(names)})
    if several:
        draft.unclear = "two columns of classes, either of which may be the label"


def _one_hot(draft: Meaning) -> None:
    names = [name for name in draft.pick_classes() if not set(name) & set(",/")]
    if len(names) < 2 or not draft.is_free(names):
        names = ["healthy", "rust", "scab"]
    chosen = draft.spread(names)
    cells = {name: [int(one == name) for one in chosen] for name in names}
    if draft.chance.random() < 0.4:
        for row in range(draft.count):
            cells[draft.chance.choice(names)][row] = 1
    draft.columns |= cells
    values = [[name for name in names if cells[name][row]] for row in range(draft.count)]
    draft.labels.append(Label(tuple(names), values))
    draft.roles.append(Role("label", tuple(names)))
    if len(names) > 2 and draft.chance.random() < 0.15:
        add_class_file(draft, {str(n): one for n, one in enumerate(names[1:])})
        draft.roles.pop()
        draft.unclear = "class names of another number than the columns"


def _list(draft: Meaning) -> None:
    """Adds cells with any number of classes."""
    names = [name for name in draft.pick_classes() if not set(name) & set(",;| '\"[]")]
    names = names if len(names) > 2 else ["sky", "sea", "sand", "tree"]
    field = draft.name(("labels", "tags", "label", "classes", "categories", "Finding Labels"))
    values = [draft.chance.sample(names, draft.chance.choice((1, 1, 2, 3))) for _ in range(draft.count)]
    if all(len(one) == 1 for one in values):
        values[0] = names[:2]
    draft.add_label(field, values, rows=())
    separator = "|" if draft.form in HEADERLESS else draft.chance.choice("|;, ")
    if draft.form in TYPED:
        draft.columns[field] = values
    elif draft.form in HEADERLESS or draft.chance.random() < 0.7:
        draft.columns[field] = [separator.join(one) for one in values]
    else:
        draft.columns[field] = [*map(str, values)]


def _float(draft: Meaning) -> None:
    digits = draft.chance.choice((1, 2, 4))
    values: list[Any] = [round(draft.chance.uniform(0.5, 90), digits) for _ in range(draft.count)]
    field = draft.name(words.VALUES)
    draft.add_label(field, values, "value", kind="float")
    if draft.form != "list" and draft.chance.random() < 0.2:
        row = draft.chance.randrange(draft.count)
        is_typed = draft.form in TYPED
        values[row] = draft.chance.choice([None, float("nan"), float("inf")] if is_typed else ["", "NaN", "inf", " "])
        draft.labels[-1].values[row].clear()
        draft.kinds.append("label:missing")
    draft.columns[field] = values
    _state_type(draft, field, "float", 0.6)


def _text(draft: Meaning) -> None:
    values: list[Any] = [draft.chance.choice(words.SENTENCES) for _ in range(draft.count)]
    if draft.chance.random() < 0.5:
        values = [f"{value} {n}" for n, value in enumerate(values)]
    if draft.form != "list" and draft.chance.random() < 0.15:
        values[draft.chance.randrange(draft.count)] = draft.chance.choice((None, "", "  "))
        draft.kinds.append("label:missing")
    field = _name(draft, words.CAPTIONS, "text")
    draft.columns[field] = values
    draft.add_label(field, [value if value and value.strip() else None for value in values], "text", kind="text")
    _state_type(draft, field, "text", 0.6)


def _vector(draft: Meaning) -> None:
    length, whole = draft.chance.choice((3, 4, 5, 10)), draft.chance.random() < 0.5
    draw = (lambda: draft.chance.randrange(10)) if whole else (lambda: round(draft.chance.random(), 3))
    values = [[draw() for _ in range(length)] for _ in range(draft.count)]
    field = _name(draft, words.VECTORS, "vector")
    is_typed = draft.form in TYPED
    draft.columns[field] = list(values) if is_typed else [json.dumps(value) for value in values]
    draft.add_label(field, values, "vector", kind="float")
    _state_type(draft, field, "float", 0.3)


def _state_type(draft: Meaning, field: str, kind: str, share: float) -> None:
    if draft.chance.random() < share and draft.form not in HEADERLESS:
        draft.settings |= {"label_column": field, "label_type": kind}


# Name -> share, what adds it, and the forms that have none.
_NO_CELLS = ("webdataset", "tfrecord")
LABELS: Mapping[str, tuple[float, Callable[[Meaning], None], Sequence[str]]] = {
    "names": (26, _names, ()),
    "index": (24, _index, ()),
    "declared": (4, _declared, ()),
    "pair": (6, _pair, HEADERLESS),
    "beside": (6, _beside_label, ()),
    "one_hot": (7, _one_hot, (*HEADERLESS, *_NO_CELLS)),
    "list": (7, _list, _NO_CELLS),
    "float": (5, _float, _NO_CELLS),
    "text": (6, _text, ()),
    "vector": (5, _vector, HEADERLESS),
    "none": (4, lambda _: None, ()),
}


def add_label(draft: Meaning) -> None:
    """Adds a label that the form can hold."""
    styles = {name: share for name, (share, _, without) in LABELS.items() if draft.form not in without}
    name = draft.chance.choices(list(styles), list(styles.values()))[0]
    LABELS[name][1](draft)
    draft.kinds.append(f"label:{name}")
