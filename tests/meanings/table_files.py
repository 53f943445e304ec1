"""Writes the columns of a table in each form."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.meanings.drafts import Draft
from tests.meanings.meaning import REST, Label, Role, Split


def _cell(value: Any) -> str:
    return "" if value is None else str(value)


def _write_rows(draft: Draft, *, delimiter: str, has_header: bool = True) -> bytes:
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, lineterminator=draft.chance.choice(("\n", "\r\n")))
    if has_header:
        writer.writerow(draft.columns)
    for row in zip(*draft.columns.values(), strict=True):
        writer.writerow([_cell(value) for value in row])
    return file.getvalue().encode()


def _write_csv(draft: Draft) -> None:
    name = draft.chance.choice(("labels.csv", "data.csv", "annotations.csv", "metadata.csv", "table.csv"))
    draft.files[name] = _write_rows(draft, delimiter=draft.chance.choices(",;|", (80, 15, 5))[0])
    draft.settings["input"] = f"{{root}}/{name}"


def _write_tsv(draft: Draft) -> None:
    draft.files["data.tsv"] = _write_rows(draft, delimiter="\t")
    draft.settings["input"] = "{root}/data.tsv"


def _unname(draft: Draft) -> None:
    """Replaces names of columns by places, in what the case expects."""
    draft.settings = {name: value for name, value in draft.settings.items() if not name.endswith("_column")}
    places = {name: n for n, name in enumerate(draft.columns, 1)}

    def words_of(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(
            word
            for name in names
            for word in ([f"column_{places[name]}", f"column {places[name]}"] if name in places else [name])
        )

    draft.roles = [Role(role.kind, words_of(role.words)) for role in draft.roles]

    def fields_of(one: Label | Split, usual: str) -> tuple[str, ...]:
        return (*(f"column_{places[name]}" for name in one.fields if name in places), usual)

    draft.labels = [
        label if label.fields == REST else dataclasses.replace(label, fields=fields_of(label, "label"))
        for label in draft.labels
    ]
    draft.splits = [dataclasses.replace(split, fields=fields_of(split, "split")) for split in draft.splits]


def _write_headerless(draft: Draft) -> None:
    draft.files["data.csv"] = _write_rows(draft, delimiter=draft.chance.choice(",,;\t"), has_header=False)
    draft.settings["input"] = "{root}/data.csv"
    _unname(draft)


def _write_list(draft: Draft) -> None:
    """Writes cells between spaces; a text goes to the end of its line."""
    last = draft.labels[0].fields[0] if draft.labels else ""
    is_text = len(draft.columns) == 2 and last in draft.columns
    names = [*(name for name in draft.columns if name != last), last] if is_text else list(draft.columns)
    draft.columns = {name: draft.columns[name] for name in names}
    if not is_text:
        for name, values in draft.columns.items():
            draft.columns[name] = [value.replace(" ", "_") if isinstance(value, str) else value for value in values]
        has_twin = "label:twin" in draft.kinds
        draft.labels = [_without_spaces(label, has_twin=has_twin) for label in draft.labels]
    elif draft.labels[0].kind == "text" and draft.chance.random() < 0.6:
        draft.settings["label_type"] = "text"
    mark = " "
    if "label_type" in draft.settings and draft.chance.random() < 0.5 and all(draft.labels[0].values):
        # As ICDAR has them: the quotes are not those of a table.
        mark = ", "
        draft.columns[last] = [f'"{text}"' for text in draft.columns[last]]
        draft.labels[0] = dataclasses.replace(draft.labels[0], values=[[text] for text in draft.columns[last]])
        draft.kinds.append("label:quoted")
    rows = list(zip(*draft.columns.values(), strict=True))
    lines = [mark.join(map(_cell, row)) for row in rows]
    rest = [[" ".join(map(_cell, row[1:]))] for row in rows]
    draft.labels.append(Label(REST, rest, is_first=False))
    name = draft.chance.choice(("list.txt", "labels.txt", "train.txt", "files.txt", "annotations.txt"))
    draft.files[name] = ("\n".join(lines) + "\n").encode()
    draft.settings["input"] = f"{{root}}/{name}"
    if draft.chance.random() < 0.7:
        draft.settings["source"] = "csv"
    _unname(draft)


def _without_spaces(label: Label, *, has_twin: bool) -> Label:
    def joined(several: Sequence[Sequence[Any]]) -> list[list[Any]]:
        return [[one.replace(" ", "_") if isinstance(one, str) else one for one in values] for values in several]

    names = {n: name.replace(" ", "_") for n, name in label.names.items()} if has_twin else label.names
    # A text in one word may be a class.
    kind = "class" if label.kind == "text" else label.kind
    return dataclasses.replace(label, kind=kind, values=joined(label.values), rows=joined(label.rows), names=names)


def _write_jsonl(draft: Draft) -> None:
    draft.files["data.jsonl"] = _json_lines(draft)
    draft.settings["input"] = "{root}/data.jsonl"


def _json_lines(draft: Draft) -> bytes:
    keeps = draft.chance.random() < 0.3
    rows = zip(*draft.columns.values(), strict=True)
    named = (dict(zip(draft.columns, row, strict=True)) for row in rows)
    lines = [
        json.dumps({name: value for name, value in row.items() if keeps or value is not None}, ensure_ascii=False)
        for row in named
    ]
    return ("\n".join(lines) + "\n").encode()


def _parquet(draft: Draft) -> bytes:
    file = io.BytesIO()
    table = pa.table(dict(draft.columns))
    if draft.declared:
        features = {name: {"names": names, "_type": "ClassLabel"} for name, names in draft.declared.items()}
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, file)
    return file.getvalue()


def _write_parquet(draft: Draft) -> None:
    draft.files["data.parquet"] = _parquet(draft)
    draft.settings["input"] = "{root}/data.parquet"


def _write_hf_folder(draft: Draft) -> None:
    # The table lies beside its images.
    kind = draft.chance.choice(("csv", "jsonl"))
    data = _write_rows(draft, delimiter=",") if kind == "csv" else _json_lines(draft)
    draft.table = f"metadata.{kind}"
    draft.files[draft.table] = data
    draft.settings["input"] = "{root}"
    if draft.chance.random() < 0.7:
        draft.settings["source"] = "hf_folder"


def _write_hf_parquet(draft: Draft) -> None:
    name = draft.chance.choice(("images.parquet", "train-00000-of-00001.parquet", "0000.parquet"))
    draft.files[name] = _parquet(draft)
    draft.settings["input"] = f"{{root}}/{name}"


WRITERS: Mapping[str, Callable[[Draft], None]] = {
    "csv": _write_csv,
    "tsv": _write_tsv,
    "csv_headerless": _write_headerless,
    "list": _write_list,
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
    "hf_folder": _write_hf_folder,
    "hf_parquet": _write_hf_parquet,
}
