"""Nothing of an input vanishes or changes its number without a word, whatever its format is."""

from __future__ import annotations

import copy
import csv
import dataclasses
import functools
import io
import json
import random
import shutil
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml

from beam_tfrecords import LimitError, RequestError, Sample, WriteDataset, build, open_dataset, plan
from tests.archive_files import write_archive
from tests.cases.loading import read_area
from tests.framing import Example, example_of, framed, records_of
from tests.pictures import picture
from tests.writers import MEANING, WRITERS, Settings, save

EXTRA = "zz_extra"
# Names and values of a field that means nothing in these inputs.
_NAMES = (
    "score", "difficulty", "occluded", "attributes", "timestamp", "track", "weather", "photographer", "gps_lat", "pose",
    "quality", "verified", "reviewer", "area_m2", "site", "camera", "comment", "source_url", "depth_m", "visible",
    "priority", EXTRA, "taxon", "genus", "size_px", "light", "Über", "two words", "x.y", "crowd", "confidence",
)  # fmt: skip
_VALUES = (7, 7777.25, "zzvalue", "yes", True, [1, 2, 3], ["u", "v"], 0, -1, {"deep": 1}, "2026-01-01", "a b, c")
# Names of further files: one for each image, or one for all.
_FILES = (
    "{}.txt", "{}.json", "{}_extra.json", "{}.npy", "{}.wav", "{}.png.meta", "{}.pts", "{}_depth.npy", "{}.mat",
    "{}.xml", "{}.exr", "{}.csv", "{}.caption", "{}.mp4", "{}_mask.png", "{}.yaml", "{}.html", "{}.bin", "{}.zip",
    "{}.tfrecord", ".{}.json", "notes.csv", "extra.json", "README.txt", "info.xml", "more.jsonl", "metadata.json",
    "table.parquet", "model.h5", "split.txt", "annotations.txt", "poses.npz", "extra.png", "rest.zip", "LICENSE",
)  # fmt: skip
_CONTENTS = {
    ".txt": b"7 some words\n", ".json": b'{"score": 7}', ".csv": b"a,score\n1,7\n", ".xml": b"<a><score>7</score></a>",
    ".jsonl": b'{"score": 7}\n', ".png": picture("red 20x16"), ".yaml": b"score: 7\n",
}  # fmt: skip


class Extra:
    """One more field, and its value."""

    def __init__(self, draw: random.Random) -> None:
        self.draw, self.name, self.value = draw, draw.choice(_NAMES), draw.choice(_VALUES)

    @property
    def cell(self) -> Any:
        """The value, as a text if it is of several parts."""
        return self.value if isinstance(self.value, (int, float, str)) else json.dumps(self.value)


def _json(data: bytes, extra: Extra) -> bytes:
    tree = json.loads(data)
    found = [*_dictionaries(tree)]
    chosen = extra.draw.choice(found)
    # A key of a dictionary of numbers or words is data, not a field.
    alike = [one for one in found if one.keys() == chosen.keys()] if extra.draw.random() < 0.5 else [chosen]
    for one in alike:
        one[extra.name] = extra.value
    return json.dumps(tree).encode()


def _dictionaries(tree: Any) -> Iterator[dict[str, Any]]:
    if isinstance(tree, dict):
        yield tree
    for one in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _dictionaries(one)


def _lines(data: bytes, extra: Extra) -> bytes:
    rows = [json.loads(line) for line in data.splitlines() if line.strip()]
    chosen = [row if extra.draw.random() < 0.5 else [*_dictionaries(row)][-1] for row in rows]
    for one in chosen:
        one[extra.name] = extra.value
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def _xml(data: bytes, extra: Extra) -> bytes:
    root = ElementTree.fromstring(data)
    parents = [one for one in root.iter() if len(one)]
    extra.name = extra.name.replace(".", "_").replace(" ", "_")
    ElementTree.SubElement(extra.draw.choice(parents), extra.name).text = str(extra.cell)
    return ElementTree.tostring(root, encoding="utf-8")


def _table(delimiter: str, data: bytes, extra: Extra) -> bytes:
    rows = [*csv.reader(io.StringIO(data.decode()), delimiter=delimiter)]
    out = io.StringIO()
    place = extra.draw.randrange(len(rows[0]) + 1)
    for number, row in enumerate(rows):
        row.insert(place, extra.cell if number else extra.name)
    csv.writer(out, delimiter=delimiter).writerows(rows)
    return out.getvalue().encode()


def _yaml(data: bytes, extra: Extra) -> bytes:
    return yaml.safe_dump({**yaml.safe_load(data), extra.name: extra.value}, sort_keys=False).encode()


def _parquet(data: bytes, extra: Extra) -> bytes:
    table = pq.read_table(io.BytesIO(data))
    out = io.BytesIO()
    pq.write_table(table.append_column(extra.name, pa.array([extra.value] * len(table))), out)
    return out.getvalue()


def _npz(data: bytes, extra: Extra) -> bytes:
    arrays = dict(np.load(io.BytesIO(data)))
    length = len(next(iter(arrays.values()))) + extra.draw.choice((0, 0, 1, -1))
    out = io.BytesIO()
    more = np.array([extra.cell] * length) if extra.draw.random() < 0.8 else np.array(7)
    np.savez(out, **arrays, **{extra.name.replace(".", "_"): more})
    extra.name = extra.name.replace(".", "_")
    return out.getvalue()


def _tar(data: bytes, extra: Extra) -> bytes:
    """Adds a member to each sample of a WebDataset."""
    extra.name = extra.draw.choice(("zz_extra", "cls2", "npy", "meta.json", "depth.npy", "caption", "pyd", "wav"))
    out = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(data)) as old, tarfile.open(fileobj=out, mode="w") as new:
        stems = dict.fromkeys(member.name.partition(".")[0] for member in old if member.isfile())
        for stem in stems:
            for member in old:
                if member.isfile() and member.name.partition(".")[0] == stem:
                    new.addfile(member, old.extractfile(member))
            more = tarfile.TarInfo(f"{stem}.{extra.name}")
            more.size = 1
            new.addfile(more, io.BytesIO(b"7"))
    extra.name = extra.name.rpartition(".")[2]
    return out.getvalue()


def _zip(data: bytes, extra: Extra) -> bytes:
    out = io.BytesIO(data)
    form = extra.draw.choice([one for one in _FILES if "png" not in one])
    with zipfile.ZipFile(out, "a") as archive:
        names = [name for name in archive.namelist() if name.endswith(".png")]
        for name in names if "{}" in form else names[:1]:
            folder, _, image = name.rpartition("/")
            archive.writestr(f"{folder}/{form.format(image.partition('.')[0])}", _content_of(form))
    extra.name = Path(form).suffix or form
    return out.getvalue()


def _records(data: bytes, extra: Extra) -> bytes:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        examples = [Example.FromString(record) for record in records_of(Path(file.name))]
    for example in examples:
        value = extra.cell.encode() if isinstance(extra.cell, str) else extra.cell
        more = Example.FromString(example_of({extra.name: int(value) if isinstance(value, bool) else value}))
        example.MergeFrom(more)
    return framed(*(example.SerializeToString() for example in examples))


_CHANGES: Mapping[str, Callable[[bytes, Extra], bytes]] = {
    ".json": _json, ".jsonl": _lines, ".odgt": _lines, ".xml": _xml, ".csv": functools.partial(_table, ","),
    ".tsv": functools.partial(_table, "\t"), ".yaml": _yaml, ".parquet": _parquet, ".npz": _npz, ".tar": _tar,
    ".zip": _zip, ".tfrecord": _records,
}  # fmt: skip


def _content_of(name: str) -> bytes:
    return _CONTENTS.get(Path(name).suffix, b"\0\1binary")


def _add_field(folder: Path, settings: Settings, draw: random.Random) -> Sequence[str]:
    """Adds a field to the files of a form in a folder; returns its name, or none if no file has fields."""
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in _CHANGES and path.name != "mine.yaml"]
    if not files or Path(str(settings["input"])).name == "built":  # A dataset's own files are sealed.
        return ()
    extra, path = Extra(draw), draw.choice(files)
    are_alike = path.suffix in (".csv", ".tsv", ".parquet") or draw.random() < 0.5
    state = draw.getstate()
    for one in files:
        if one == path or (are_alike and one.suffix == path.suffix):
            draw.setstate(state)
            one.write_bytes(_CHANGES[one.suffix](one.read_bytes(), extra))
    # Columns of arrays have plain names, and a refusal may name the file alone.
    return [extra.name, extra.name.replace(" ", "_"), f"/{path.name}`: "]


def _add_files(folder: Path, settings: Settings, draw: random.Random) -> Sequence[str]:
    """Adds a family of files to the folders of a request; returns their names, or none if it has no folder."""
    given = [settings.get(name) for name in ("input", "image_root", "mask_root")]
    words = [word for one in given if one for word in ([one] if isinstance(one, str) else one)]
    roots = [Path(word.partition("=")[2] or word) for word in words if isinstance(word, str)]
    roots = [root for root in roots if root.is_dir()]
    if not roots:
        return ()
    root, form = draw.choice(roots), draw.choice(_FILES)
    images = [*sorted(root.rglob("*.png")), *sorted(root.rglob("*.jpg"))]
    if "{}" in form and not images:
        form = draw.choice([one for one in _FILES if "{}" not in one])
    beside = draw.choice((0, 1, 2, 3))
    folders = sorted({root, *(one.parent for one in root.rglob("*"))})
    place = draw.choice([*folders, root / "more", folders[-1] / "more"])
    names = []
    for image in images if "{}" in form else [None]:
        name = form.format(image.stem if image else "")
        path = (image.parent if image and beside else place) / name
        if path.exists():
            return ()
        save(path, _content_of(name))
        names.append(name)
    names += ["images in 'more'", "split folders (more)"]
    return [*names, f"*{Path(form).suffix}", form[2:].partition(".")[0] or form] if "{}" in form else names


def _add_class(folder: Path, settings: Settings, draw: random.Random) -> Sequence[str]:
    """Adds a class to the list of an input; returns its name, or none if there is no list."""
    name = draw.choice(("zebra", "7", "two words", "Ünd"))
    if isinstance(settings.get("class_names"), list):
        settings["class_names"] = [*settings["class_names"], name]
        return [name]
    for path in sorted(folder.rglob("*")):
        if path.name in ("classes.txt", "batches.meta.txt"):
            save(path, path.read_bytes() + f"{name}\n".encode())
            # A class that is a number may be a reason against the list.
            return [name, f"{path.name} has 3 class names and is not used"]
        if path.name == "names.json":
            save(path, json.dumps({**json.loads(path.read_bytes()), name: 2}))
            return [name]
        if path.name == "data.yaml":
            data = yaml.safe_load(path.read_bytes())
            save(path, yaml.safe_dump({**data, "names": [*data["names"], name]}))
            return [name]
        if path.name == "instances.json":
            document = json.loads(path.read_bytes())
            document["categories"].append({"id": draw.choice((0, 3, 90)), "name": name})
            save(path, json.dumps(document))
            return [name]
    return ()


def _write_plainly(name: str, folder: Path) -> Settings:
    settings = WRITERS[name].make(folder)
    shutil.rmtree(folder / "made", ignore_errors=True)
    return settings


def _write_folder(name: str, source: str, folder: Path) -> Settings:
    (folder / "in").mkdir()
    return {**WRITERS[name].write(folder / "in", MEANING), "input": f"{folder}/in", "source": source}


def _write_glob(folder: Path) -> Settings:
    WRITERS["class_folders"].write(folder, MEANING)
    return {"input": f"{folder}/in/*/*.png", "label_pattern": "(?P<label>cat|dog)/"}


def _write_yolo_folder(folder: Path) -> Settings:
    WRITERS["yolo"].write(folder / "in", MEANING)
    (folder / "in/data.yaml").unlink()
    save(folder / "in/classes.txt", "cat\ndog\n")
    return {"input": f"{folder}/in", "source": "yolo"}


def _write_joined(folder: Path) -> Settings:
    """Writes class folders, and tables of the images of each split."""
    settings = _write_plainly("class_folders", folder)
    names = [path.name for path in sorted(folder.rglob("*.png"))]
    for number, split in enumerate(("train", "test")):
        save(folder / f"{split}.csv", "\n".join(["image", *names[number::2], ""]))
    return {**settings, "join": [f"{split}={folder}/{split}.csv" for split in ("train", "test")]}


# `gzip_table` and `own_dataset` take files of others; a further column of pixels is a further pixel.
_WRITES: Mapping[str, Callable[[Path], Settings]] = {
    **{name: functools.partial(_write_plainly, name) for name in WRITERS.keys() - {"function", "gzip_table"}},
    **{
        f"{name} folder": functools.partial(_write_folder, name, source)
        for name, source in (
            ("tfrecord", "tfrecord"), ("npz", "numpy"), ("npy", "numpy"),
            ("parquet_images", "hf_parquet"),
        )
    },
    "glob": _write_glob,
    "joined": _write_joined,
    "yolo folder": _write_yolo_folder,
}  # fmt: skip
_ADDS = (_add_field, _add_field, _add_files, _add_files, _add_class)


def _draw(seed: int, folder: Path) -> tuple[str, bool]:
    """Draws an input with one more thing; returns what it is, and whether a plan or a question names it."""
    draw = random.Random(seed)
    form = draw.choice(sorted(_WRITES))
    settings = _WRITES[form](folder)
    before = _count_before(form)
    adds = draw.sample(_ADDS, len(_ADDS))
    names = next(filter(None, (add(folder, settings, draw) for add in adds)), ())
    if not names:
        return f"nothing can be added to {form}", True
    what = f"{seed} {form} {names[0]}"
    try:
        planned = plan(**settings, output=str(folder / "out"), image_encoding="png")
    except (RequestError, LimitError) as error:
        return f"{what} refused: {error}", any(name in str(error) for name in names)
    shown = " ".join([str(planned), *planned.notes, *planned.class_names, *(one.field for one in planned.ledger)])
    counted = sum(planned.skipped.values()) + planned.num_samples
    # Names of arrays are stored in lower case.
    return what, counted > before or any(name.casefold() in shown.casefold() for name in names)


@functools.cache
def _count_before(form: str) -> int:
    """Counts the samples and skipped files of a form."""
    with tempfile.TemporaryDirectory() as folder:
        planned = plan(**_WRITES[form](Path(folder)), output=f"{folder}/out", image_encoding="png")
        return sum(planned.skipped.values()) + planned.num_samples


def _find_silent(seeds: Iterable[int]) -> Iterator[str]:
    """Yields the drawn inputs with one more thing that no plan and no question names."""
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            what, is_named = _draw(seed, Path(folder))
        if not is_named:
            yield what


def test_one_more_thing_is_named():
    assert [*_find_silent(range(200))] == []


@pytest.mark.nightly
@pytest.mark.parametrize("first", range(200, 5000, 400))
def test_one_more_thing_of_many_is_named(first):
    assert [*_find_silent(range(first, first + 400))] == []


_JSON = (".json", ".jsonl", ".ndjson", ".manifest", ".geojson", ".odgt")
# Files of the formats that the mappings do not read.
_UNREAD = {"meta.json", "key/a.json"}
# Cases that have the name of a mapping, and documents of JSON.
_DOCUMENTS = {
    name: case
    for name, case in read_area("mappings").items()
    if case.settings.get("mapping") == name and any(path.endswith(_JSON) for path in {*case.files} - _UNREAD)
}
# Objects whose names are data: images, classes, flags.
_NAMED_BY_DATA = ("anns", "imgs", "assets", "labels", "flags", "class-map", "type", "_via_img_metadata", "labels.json")


def _mark(tree: Any, place: str, marks: dict[str, str]) -> None:
    """Adds a field to each object in a document; `marks` receives its name -> where the object is."""
    for name, one in (
        [*tree.items()] if isinstance(tree, dict) else [*enumerate(tree)] if isinstance(tree, list) else ()
    ):
        # Lists of classes are not looked into.
        if name not in ("categories", EXTRA):
            _mark(one, f"{place}/{name}", marks)
    if isinstance(tree, dict) and tree and place.rpartition("/")[2] not in _NAMED_BY_DATA:
        name = f"{EXTRA}{len(marks)}"
        tree[name], marks[name] = "zzvalue", place


@pytest.mark.parametrize("name", sorted(_DOCUMENTS))
def test_a_field_beside_each_that_a_mapping_reads_is_named(name, tmp_path, monkeypatch):
    case, marks = _DOCUMENTS[name], dict[str, str]()
    files = copy.deepcopy(case.files)
    for path, content in files.items():
        if path.endswith(_JSON) and path not in _UNREAD:
            _mark(content, path, marks)
    dataclasses.replace(case, files=files).write(tmp_path / "in")
    monkeypatch.chdir(tmp_path / "in")
    planned = plan(output=str(tmp_path / "out"), **case.settings)
    named = {entry.field.rpartition(".")[2] for entry in planned.ledger}
    # A field that is not stored is named without those in it.
    assert marks
    assert [place for mark, place in marks.items() if not named & {mark, *place.split("/")[1:]}] == []


def test_features_of_later_records_are_named(tmp_path):
    many = [{"image": picture("red 8x8"), "label": n % 2, **({EXTRA: 7} if n == 60 else {})} for n in range(61)]
    (tmp_path / "a.tfrecord").write_bytes(b"".join(framed(example_of(one)) for one in many))
    planned = plan(str(tmp_path / "a.tfrecord"), str(tmp_path / "out"))
    assert [(entry.field, entry.count) for entry in planned.ledger] == [(EXTRA, 1)]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "parquet_images", "npz"])
@pytest.mark.parametrize("is_first", [True, False])
def test_fields_of_one_of_two_inputs_are_named(form, is_first, tmp_path):
    inputs = []
    for name in ("a", "b"):
        rows = [{"image": f"{name}{n}.png", "label": ("cat", "dog")[n % 2]} for n in range(4)]
        if (name == "a") == is_first:
            rows = [{**row, EXTRA: f"some words of {n}"} for n, row in enumerate(rows)]
        for row in rows:
            (tmp_path / row["image"]).write_bytes(picture("red 8x8"))
        table = pa.Table.from_pylist(rows)
        path = tmp_path / f"{name}.{form.partition('_')[0]}"
        if form == "csv":
            pa.csv.write_csv(table, path)
        elif form == "jsonl":
            path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        elif form == "parquet":
            pq.write_table(table, path)
        elif form == "parquet_images":
            images = [{"bytes": picture("red 8x8"), "path": row["image"]} for row in rows]
            pq.write_table(table.set_column(0, "image", pa.array(images)), path)
        else:
            columns = {key: np.array(column) for key, column in table.to_pydict().items()}
            np.savez(path, **{**columns, "image": np.zeros((4, 8, 8, 3), np.uint8)})
        inputs.append(str(path))
    planned = plan(inputs, str(tmp_path / "out"))
    assert {entry.field for entry in planned.ledger} == {EXTRA}


def test_features_of_a_dataset_that_the_layout_leaves_are_named(tmp_path):
    settings = WRITERS["coco"].make(tmp_path / "made")
    dataset = build(output=str(tmp_path / "in"), quiet=True, **settings)
    planned = plan(str(dataset.path), str(tmp_path / "out"), layout="image")
    assert {entry.field for entry in planned.ledger} > {"image/object/bbox/xmin", "image/object/class/label"}


def test_members_of_later_samples_of_a_webdataset_are_named(tmp_path):
    members = {
        f"{number}.{end}": data
        for number in range(40)
        for end, data in (("cls", b"%d" % (number % 2)), ("png", picture("red 8x8")))
    }
    write_archive(tmp_path / "a.tar", {**members, "39.wav": b"x"})
    planned = plan(str(tmp_path / "a.tar"), str(tmp_path / "out"), source="webdataset")
    assert [(entry.field, entry.count) for entry in planned.ledger] == [("wav", 1)]


@pytest.mark.parametrize("layout", [None, "image"])
def test_columns_and_parts_of_samples_are_named(layout, tmp_path):
    planned = plan(_many_things, str(tmp_path / "out"), parts=["a"], **({"layout": layout} if layout else {}))
    named = {entry.field for entry in planned.ledger}
    assert named == {f"columns.{EXTRA}", "images.left", *(["label"] if layout else [])}


def _many_things(part):
    red = np.full((8, 8, 3), (255, 0, 0), np.uint8)
    for label in ("cat", "dog"):
        yield Sample(label, images={"image": red, "left": red}, label=label, columns={EXTRA: 1})


def test_features_of_examples_in_a_pipeline_are_named(tmp_path):
    example = example_of({"image/encoded": picture("red 8x8"), "image/class/label": 0, "image/class/synset": b"n01"})
    named = example_of({"image/encoded": picture("blue 8x8"), "image/class/label": 1, "image/filename": b"x/b.png"})
    with beam.Pipeline() as root:
        _ = root | beam.Create([example, named]) | WriteDataset(str(tmp_path / "out"), class_names=["a", "b"])
    dataset = open_dataset(tmp_path / "out")
    assert [(one["field"], one["count"]) for one in dataset.manifest["ledger"]] == [("columns.image/class/synset", 1)]
    assert "b.png" in {record["filename"] for record in dataset.records()}


@pytest.mark.parametrize(
    ("numbers", "layout", "stored"),
    [
        ((1, 10, 90), "detection", {"1": 1, "10": 10, "90": 90}),
        ((1, 2, 3), "detection", {"1": 1, "2": 2, "3": 3}),
        ((0, 1, 2), "detection", {"0": 1, "1": 2, "2": 3}),
        ((1, 18, 35), "tfds", {"1": 0, "18": 1, "35": 2}),
        ((0, 1, 2), "tfds", {"0": 0, "1": 1, "2": 2}),
    ],
)
def test_a_number_is_kept_or_the_ledger_says_the_other(numbers, layout, stored, tmp_path):
    names = [f"class {number}" for number in numbers]
    (tmp_path / "a.png").write_bytes(picture("red 20x20"))
    document = {
        "images": [{"id": 1, "file_name": "a.png"}],
        "annotations": [{"image_id": 1, "category_id": number, "bbox": [1, 1, 5, 5]} for number in numbers],
        "categories": [{"id": number, "name": name} for number, name in zip(numbers, names, strict=True)],
    }
    (tmp_path / "x.json").write_text(json.dumps(document))
    dataset = build(str(tmp_path / "x.json"), str(tmp_path / "out"), layout=layout, quiet=True)
    feature = "image/object/class/label" if layout == "detection" else "objects/label"
    (record,) = dataset.records()
    assert [*record[feature]] == [*stored.values()]
    moved = [one["detail"] for one in dataset.manifest["ledger"] if one["fate"] != "not stored"]
    assert moved == [", ".join(f"{was} -> {now}" for was, now in stored.items() if int(was) != now)][: len(moved)]
    assert bool(moved) == any(int(was) != now for was, now in stored.items())


def test_names_of_fields_cannot_control_a_terminal(tmp_path, capsys):
    for name in ("a", "b"):
        (tmp_path / f"{name}.png").write_bytes(picture("red 20x20"))
    rows = [{"image": f"{name}.png", "label": name, f"{EXTRA}\x1b[31m\n": 1} for name in ("a", "b")]
    (tmp_path / "t.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    dataset = build(str(tmp_path / "t.jsonl"), str(tmp_path / "out"))
    shown = str(plan(str(tmp_path / "t.jsonl"), str(tmp_path / "planned"))) + "".join(capsys.readouterr())
    assert EXTRA in shown
    assert "\x1b[31m" not in shown
    assert EXTRA in str(dataset.manifest["ledger"])
