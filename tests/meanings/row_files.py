"""Writes columns in each form."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.meanings import words
from tests.meanings.meaning import REST, Label, Meaning, Role, Split
from tests.writers import Rows, csv_of, jsonl_of, parquet_of, tfrecord_of, webdataset_of


def write_rows(draft: Meaning) -> None:
    """Adds the files of the columns, and the settings that name them."""
    if draft.form in _OTHERS:
        _OTHERS[draft.form](draft)
        return
    names, content = _FILES[draft.form]
    # Of columns alone, the key does not say the item among several files.
    has_images = not draft.unclear and next(iter(draft.images)) not in words.RARE_IMAGES
    # Parts are drawn for items that have one row each.
    may_be = draft.form in _IN_PARTS and has_images and "rows:shared" not in draft.kinds
    if may_be and not draft.splits and not draft.start and draft.chance.random() < 0.25:
        _write_parts(draft, names[0].rpartition(".")[2], content)
        return
    name = draft.chance.choice(names)
    draft.files[name] = content(draft, _rows_of(draft))
    draft.settings["input"] = f"{{root}}/{name}"


def _rows_of(draft: Meaning) -> list[dict[str, Any]]:
    return [dict(zip(draft.columns, row, strict=True)) for row in zip(*draft.columns.values(), strict=True)]


def _write_parts(draft: Meaning, end: str, content: Callable[[Meaning, Rows], bytes]) -> None:
    """Writes a file of each part: splits, splits and others, or places."""
    parts, rows = draw_parts(draft), _rows_of(draft)
    name = draft.chance.choice(("{part}.{end}", "{part}/data.{end}", "birds-{part}.{end}"))
    paths = {part: f"parts/{name.format(part=part, end=end)}" for part in parts}
    for part, path in paths.items():
        draft.files[path] = content(draft, [row for row, one in zip(rows, parts, strict=True) if one == part])
    every = f"{{root}}/parts/{name.format(part='*', end=end)}"
    draft.settings["input"] = draft.chance.choice(([f"{{root}}/{path}" for path in paths.values()], every))


def draw_parts(draft: Meaning) -> list[str]:
    """Draws the name of the part that each item is in."""
    style = draft.chance.choices(("splits", "extra", "plain"), (50, 25, 25))[0]
    names = draft.chance.choice(_PARTS[style])
    parts = draft.spread(names)
    draft.kinds.append(f"parts:{style}")
    if style != "plain":
        # Whether further samples are for training is for the user to say.
        draft.splits.append(Split(("inputs",), [words.SPLIT_OF.get(part.lower()) for part in parts]))
        draft.roles.append(
            Role("split", ("inputs", "files", "split", "splits", *(names if style == "splits" else names[-1:])))
        )
    return parts


_PARTS = {
    "splits": words.groups("train+test|train+val|train+val+test|Training+Testing"),
    "extra": words.groups("train+test+extra|train+extra|train+test+unlabeled"),
    "plain": words.groups("site_a+site_b|2019+2020|batch1+batch2"),
}


# Files of rows.


def _csv(draft: Meaning, rows: Rows, **how: Any) -> bytes:
    return csv_of(rows, end=draft.chance.choice(("\n", "\r\n")), **how)


def _jsonl(draft: Meaning, rows: Rows) -> bytes:
    keeps = draft.chance.random() < 0.3
    kept = [{name: one for name, one in row.items() if keeps or one is not None} for row in rows]
    return jsonl_of(kept, ensure_ascii=draft.chance.random() < 0.2)


def _webdataset(draft: Meaning, rows: Rows) -> bytes:
    kept = [{name: one for name, one in row.items() if one is not None} for row in rows]
    return webdataset_of({f"{draft.prefixes[n]}{n:05d}": row for n, row in enumerate(kept)})


_FILES: Mapping[str, tuple[Sequence[str], Callable[[Meaning, Rows], bytes]]] = {
    "csv": (
        words.words("labels.csv data.csv annotations.csv metadata.csv table.csv"),
        lambda draft, rows: _csv(draft, rows, delimiter=draft.chance.choices(",;|", (80, 15, 5))[0]),
    ),
    "tsv": (["data.tsv"], functools.partial(_csv, delimiter="\t")),
    "jsonl": (["data.jsonl"], _jsonl),
    "parquet": (["data.parquet"], lambda _, rows: parquet_of(rows)),
    "hf_parquet": (
        words.words("images.parquet train-00000-of-00001.parquet 0000.parquet"),
        lambda draft, rows: parquet_of(rows, class_names=draft.declared),
    ),
    "webdataset": (["data.tar"], _webdataset),
    "tfrecord": (["data.tfrecord", "flowers.tfrecord"], lambda _, rows: tfrecord_of(rows)),
}
_IN_PARTS = ("csv", "jsonl", "parquet", "hf_parquet", "tfrecord")


# Forms that are not a file of rows alone.


def _write_hf_folder(draft: Meaning) -> None:
    # The table lies beside its images.
    draft.table, content = draft.chance.choice((("metadata.csv", _csv), ("metadata.jsonl", _jsonl)))
    draft.files[draft.table] = content(draft, _rows_of(draft))
    draft.settings["input"] = "{root}"
    if draft.chance.random() < 0.7:
        draft.settings["source"] = "hf_folder"


def _write_headerless(draft: Meaning) -> None:
    draft.files["data.csv"] = _csv(draft, _rows_of(draft), delimiter=draft.chance.choice(",,;\t"), has_header=False)
    draft.settings["input"] = "{root}/data.csv"
    _unname(draft)


def _unname(draft: Meaning) -> None:
    """Replaces names of columns by places, in what the draft means."""
    draft.settings = {name: value for name, value in draft.settings.items() if not name.endswith("_column")}
    places = {name: f"column_{n}" for n, name in enumerate(draft.columns, 1)}

    def words_of(names: Sequence[str]) -> tuple[str, ...]:
        pairs = [[places[name], places[name].replace("_", " ")] if name in places else [name] for name in names]
        return tuple(word for pair in pairs for word in pair)

    def fields_of(one: Label | Split, usual: str) -> tuple[str, ...]:
        return (*(places[name] for name in one.fields if name in places), usual)

    draft.roles = [Role(role.kind, words_of(role.words)) for role in draft.roles]
    draft.labels = [
        one if one.fields == REST else dataclasses.replace(one, fields=fields_of(one, "label")) for one in draft.labels
    ]
    draft.splits = [dataclasses.replace(split, fields=fields_of(split, "split")) for split in draft.splits]
    draft.columns = {places[name]: cells for name, cells in draft.columns.items()}


def _write_list(draft: Meaning) -> None:
    """Writes cells between spaces; a text goes to the end of its line."""
    last = draft.labels[0].fields[0] if draft.labels else ""
    is_text = len(draft.columns) == 2 and last in draft.columns
    mark = " "
    if is_text:
        draft.columns[last] = draft.columns.pop(last)
        if draft.labels[0].kind == "text" and draft.chance.random() < 0.6:
            draft.settings["label_type"] = "text"
            if draft.chance.random() < 0.5 and all(draft.labels[0].values):
                # As ICDAR has them: the quotes are not those of a table.
                mark = ", "
                draft.columns[last] = [f'"{text}"' for text in draft.columns[last]]
                draft.labels[0] = dataclasses.replace(draft.labels[0], values=[[text] for text in draft.columns[last]])
    else:
        draft.columns = {name: [*map(_joined, values)] for name, values in draft.columns.items()}
        draft.labels = [_without_spaces(draft, label) for label in draft.labels]
    rows = [["" if one is None else str(one) for one in row] for row in zip(*draft.columns.values(), strict=True)]
    draft.labels.append(Label(REST, [[" ".join(row[1:])] for row in rows], is_first=False))
    name = draft.chance.choice(("list.txt", "labels.txt", "train.txt", "files.txt", "annotations.txt"))
    draft.files[name] = "".join(mark.join(row) + "\n" for row in rows).encode()
    draft.settings["input"] = f"{{root}}/{name}"
    if draft.chance.random() < 0.7:
        draft.settings["source"] = "csv"
    _unname(draft)


def _joined(value: Any) -> Any:
    return value.replace(" ", "_") if isinstance(value, str) else value


def _without_spaces(draft: Meaning, label: Label) -> Label:
    names, has_file = label.names, any(kind.startswith("names:") for kind in draft.kinds)
    return dataclasses.replace(
        label,
        # A text in one word may be a class.
        kind="class" if label.kind == "text" else label.kind,
        values=[[*map(_joined, several)] for several in label.values],
        rows=[[*map(_joined, several)] for several in label.rows],
        names=names if has_file else {n: _joined(name) for n, name in names.items()},
    )


_OTHERS: Mapping[str, Callable[[Meaning], None]] = {
    "hf_folder": _write_hf_folder,
    "csv_headerless": _write_headerless,
    "list": _write_list,
}
