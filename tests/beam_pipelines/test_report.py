"""`report.html`: what it shows of a dataset, that names are text, and that it never disturbs a build."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
import shutil
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image, ImageFilter

from beam_tfrecords import build as build_in_python
from beam_tfrecords import open_dataset
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.image_checks import PHOTOS, lossless_jpeg, psnr
from tests.trees import write_tree

# Elements without an end.
VOID = {"meta", "link", "img", "br", "rect"}
SCRIPT = "<script>alert(1)</script>"
SETTINGS = ["--image_size=64", "--splits=train=0.8,validation=0.2", "--name=photos"]
pytestmark = pytest.mark.report


class Page(HTMLParser):
    """The elements, attributes and texts of a page, as a browser finds them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.html = html
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.images: list[dict[str, str]] = []
        self.unusual: list[dict[str, str]] = []
        self.boxes: list[dict[str, str]] = []
        self.words: list[str] = []
        self.figures: dict[str, str] = {}
        self._open: list[str] = []
        self._section = ""
        self.feed(html)
        self.close()
        assert not self._open
        self.text = "\n".join(self.words)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag == "h2":
            self._section = dict(attrs)["id"]
        if tag == "img" and self._section != "failures":
            (self.unusual if self._section == "extremes" else self.images).append(dict(attrs))
        if tag == "rect" and "--c: #" in dict(attrs)["style"] and self._section == "records":
            self.boxes.append(dict(attrs))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open and self._open[-1] != "style" and data.strip():
            if "dd" in self._open:
                self.figures[self.words[-1]] = data
            self.words.append(data.strip())


def page_of(folder: Path) -> Page:
    return Page((folder / "report.html").read_text(encoding="utf-8"))


def thumbnail(image: dict[str, str]) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(image["src"].removeprefix("data:image/jpeg;base64,"))))


@pytest.fixture(scope="module")
def photos_out(photos, tmp_path_factory, build) -> Path:
    """The photos as a dataset, with a report."""
    return build(tmp_path_factory.mktemp("report") / "out", f"--input={photos}", *SETTINGS)


@pytest.fixture
def page(tmp_path):
    """Builds a tree of files from Python; returns the page of its report."""

    def make(pictures: str = "", files: dict[str, Any] | None = None, **settings: Any) -> Page:
        root = write_tree(tmp_path / "in", pictures, files)
        names = {"input", "image_root"} & settings.keys() or {"input"}
        paths = {name: str(root / settings.pop(name, "")) for name in names}
        return page_of(Path(build_in_python(output=tmp_path / "out", quiet=True, **paths, **settings).path))

    return make


# What it shows.


def test_a_build_writes_one_page_with_the_numbers_of_the_manifest_and_its_own_pictures(photos_out):
    page, manifest = page_of(photos_out), manifest_of(photos_out)
    figures = {name: page.figures[name] for name in ("records", "splits", "shards", "failures", "classes", "seed")}
    assert figures == {"records": "42", "splits": "2", "shards": "2", "failures": "0", "classes": "7", "seed": "0"}
    records = [str(entry["records"]) for entry in manifest["splits"].values()]
    assert {*records, *manifest["class_names"]} <= {*page.words}
    # All records are few enough to be shown.
    dataset = open_dataset(photos_out)
    stored = [example["image"] for split in dataset.splits for example in dataset.records(split)]
    sizes = sorted(image.shape[:2] for image in stored)
    assert sorted((int(image["height"]), int(image["width"])) for image in page.images) == sizes
    for image in page.images:
        pixels = np.asarray(thumbnail(image), int)
        assert min(np.abs(pixels - one).mean() for one in stored if one.shape == pixels.shape) < 12
    assert len(page.unusual) == 4 * (42 // 8)
    assert "%) could not be converted" not in page.text


def test_the_page_asks_for_nothing_and_runs_nothing(photos_out):
    page = page_of(photos_out)
    assert not page.tags & {"script", "iframe", "object", "embed", "form", "base"}
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    links = [value for name, value in page.attributes if name in ("src", "href", "srcset", "action")]
    assert all(link.startswith(("data:", "#")) for link in links)
    assert not re.search(r"url\(|@import", page.html)
    assert "default-src 'none'" in page.html


@pytest.mark.parametrize("has_images", [True, False])
def test_every_figure_leads_to_a_section_of_the_page(photos_out, page, has_images):
    rows = {"rows.jsonl": [{"x": number} for number in range(5)]}
    layout = {"x": {"field": "column.x", "type": "int64"}}
    shown = page_of(photos_out) if has_images else page(files=rows, input="rows.jsonl", layout=layout)
    figures = dict(re.findall(r'<dt>([^<]*)</dt><dd[^>]*>(?:<a href="#(\w+)">)?', shown.html))
    assert figures.keys() == shown.figures.keys()
    assert {name for name, section in figures.items() if not section} == (
        set() if has_images else {"classes", "images"}
    )
    assert {("id", section) for section in figures.values() if section} <= set(shown.attributes)


def test_unusual_pictures_are_shown_with_their_values_and_copies_once(photos, tmp_path, build):
    shutil.copytree(photos, tmp_path / "in")
    photo = Image.open(photos / "cat/cat_03.jpg")
    photo.point(lambda value: value // 30).save(tmp_path / "in/cat/dark.jpg")
    photo.filter(ImageFilter.GaussianBlur(12)).save(tmp_path / "in/cat/blurred.jpg")
    out = build(tmp_path / "out", f"--input={tmp_path / 'in'}", "--image_size=64")
    words = page_of(out).words
    rows = {row["key"]: row for row in pq.read_table(next((out / "index").iterdir())).to_pylist()}
    for title, name, column in (("Darkest", "dark", "brightness"), ("Most blurred", "blurred", "sharpness")):
        # The dark one is not sharp either.
        shown = words[words.index(title) :][: 4 * 3]
        assert shown[shown.index(f"{name}.jpg") + 1] == f"{column} {rows[f'cat/{name}.jpg'][column]:.1f}"
    for number in range(4):
        Image.new("RGB", (200, 150 + number)).save(tmp_path / f"in/cat/black_{number}.png")
    flags = [f"--input={tmp_path / 'in'}", "--image_size=64x64", "--resize_mode=exact", "--overwrite"]
    page = page_of(build(out, *flags))
    first = page.words.index("Darkest")
    unusual = page.words[first : page.words.index("Splits and bytes", first)]
    assert sum(word.startswith("black_") for word in unusual) == 3  # the darkest, most blurred and flattest
    for more in ("--limit=7", "--image_encoding=keep"):  # few have none, and kept files are not measured
        flags = [f"--input={photos}", more, *["--image_size=64"] * ("limit" in more), "--overwrite"]
        assert page_of(build(out, *flags)).unusual == []


COUNTED = [f"{number}.png" for number in range(6)]
CAPTIONS = {"field": "column.captions", "type": "bytes", "several": True}
TEXT = {"field": "column.text", "type": "bytes"}
# Name -> files, settings, words with their numbers, figures, and the number of pictures.
SHOWN: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, int], dict[str, str], int]] = {
    "sizes": (
        {"cat/1.png": "red 40x40", "dog/2.png": "blue 30x30"},
        {"image_size": "40x60", "resize_mode": "exact"},
        {"40\N{NO-BREAK SPACE}x\N{NO-BREAK SPACE}60": 2},
        {"images, height x width": "JPEG 40 x 60"},
        2,
    ),
    "captions": (
        {**{name: f"scene 9x9 {name[0]}" for name in COUNTED[:2]},
         "t.jsonl": [{"file_name": name, "captions": ["one, two", "three"]} for name in COUNTED[:2]]},
        {"input": "t.jsonl", "image_column": "file_name", "layout": {"image": "image.encoded", "captions": CAPTIONS}},
        {"captions: one, two": 2, "captions: three": 2},
        {},
        2,
    ),
    "several labels and texts": (
        {**{name: f"scene 9x9 {name[0]}" for name in COUNTED},
         "t.jsonl": [{"path": name, "labels": ["red", "round"][: number % 3], "text": f"a <i>thing</i> {number}"}
                     for number, name in enumerate(COUNTED)]},
        {"input": "t.jsonl", "image_column": "path", "label_column": "labels",
         "layout": {"image": "image.encoded", "labels": "labels.index", "text": TEXT}},
        {"labels: red, round": 2, "text: a <i>thing</i> 3": 1},
        {},
        6,
    ),
    "no images": (
        {"t.csv": "count,name\n" + "".join(f"{number},row\n" for number in range(60))},
        {"input": "t.csv", "layout": {"name": {"field": "column.name", "type": "bytes"}}},
        {"name: row": 40},
        {"images": "none"},
        0,
    ),
    "boxes": (
        {**{f"images/{name}": f"scene 40x30 {name[0]}" for name in COUNTED[:4]},
         # As many objects as pictures, which are no classes of pictures all the same.
         "t.json": {
             "images": [{"id": n, "file_name": f"{n}.png", "height": 30, "width": 40} for n in range(4)],
             "annotations": [{"id": n, "image_id": n // 2, "category_id": n % 2 + 1, "bbox": [2, 3, 10, 12]}
                             for n in range(4)],
             "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": SCRIPT}]}},
        {"input": "t.json", "image_root": "images", "source": "coco"},
        # The titles of two boxes, and the class; in the pictures, a long name is shortened.
        {SCRIPT: 3, f"{SCRIPT[:24]}…": 2},
        {},
        4,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_records_of_each_kind_are_shown_with_their_values(page, name):
    files, settings, words, figures, count = SHOWN[name]
    shown = page(files=files, **settings)
    assert {word: shown.words.count(word) for word in words} == words
    assert figures.items() <= shown.figures.items()
    assert len(shown.images) == count
    if name == "boxes":
        assert sum(f"cat, {SCRIPT}" in word for word in shown.words) == 2
        # The longer side of a picture has 256 units.
        sides = [[box[side] for side in ("x", "y", "width", "height")] for box in shown.boxes]
        assert sides == [["12.8", "19.2", "64.0", "76.8"]] * 4
        assert len({box["style"] for box in shown.boxes}) == 2
    if name == "sizes":
        assert "sizes are height x width" in shown.text
        assert ("title", "height x width in pixels") in shown.attributes


def test_names_are_text_and_failures_copies_and_leaks_are_shown(tmp_path, build):
    names = ["<img src=x onerror=alert(1)>.png", "turned\u202egnp.png", "\x1b[31mred.png", "'\"&amp;.png"]
    labels = [SCRIPT, "</style><b>bold", "a\u202eb", '" onload="alert(1)']
    pictures = {name: f"scene 20x20 {number}" for number, name in enumerate(names)}
    root = write_tree(tmp_path / "in", files={**pictures, **{f"{n}.png": f"scene 20x20 {n}" for n in range(4)}})
    write_tree(root, files={"<b>broken.png": "broken"})
    with (tmp_path / "in.csv").open("w", newline="") as file:
        rows = [(name, label, "train") for pair in zip(names, labels, strict=True) for name, label in [pair]]
        copies = [(f"{number}.png", label, "test" if number == 1 else "train") for number, label in enumerate(labels)]
        copies[0] = ("0.png", labels[1], "train")
        rows = [("path", "label", "split"), *rows, *copies, ("<b>broken.png", SCRIPT, "train")]
        csv.writer(file).writerows(rows)
    flags = [f"--image_root={root}", "--image_column=path", "--label_column=label", "--max_failures=0.5"]
    page = page_of(build(tmp_path / "out", f"--input={tmp_path / 'in.csv'}", *flags))
    assert not page.tags & {"script", "b"}
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert {"src": "x"} not in page.images
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", page.html)
    expected = {SCRIPT, "</style><b>bold", "a\\u202eb", "<b>broken.png", "not_an_image: 1", "Leaks:", "different"}
    assert expected <= {*page.words}
    assert "2 copies in test, train" in page.words
    said = page.text.index("1 of 9 samples (11.1%) could not be converted: not_an_image 1.")
    assert said < page.text.index("records\n8")
    assert "groups of equal images with different labels: 1" in page.html.partition("</header>")[0]


@pytest.mark.parametrize(
    "flags",
    [
        "--layout=raw --image_encoding=raw --resize_mode=exact --image_size=24x32",
        "--image_encoding=keep",
        "--image_encoding=png --bit_depth=16 --image_size=24",
        "--image_encoding=png --channels=4 --image_size=24",
        "--image_encoding=webp --image_size=24",
        "--image_encoding=jpeg --channels=1 --image_size=24",
        "--compression=gzip --image_size=24 --splits=train=0.5,test=0.5",
        "--layout=image --image_size=24",
        "--layout=imagenet --image_size=24 --splits=train=0.5,test=0.5",
    ],
)
def test_every_way_of_storing_images_has_pictures(photos, tmp_path, build, flags):
    page = page_of(build(tmp_path / "out", f"--input={photos}", *flags.split()))
    assert len(page.images) >= 40
    assert all(max(thumbnail(image).convert("RGB").size) <= 128 for image in page.images)
    assert "cannot be shown" not in page.text


def test_a_lossless_jpeg_that_was_kept_is_shown(tmp_path, build):
    picture = np.asarray(Image.open(PHOTOS[0]).convert("L").resize((640, 480)))
    root = write_tree(tmp_path / "in", files={"1.bin": lossless_jpeg(picture)})
    (root / "1.bin").rename(root / "1.jpg")
    out = build(tmp_path / "out", f"--input={root}", "--image_encoding=keep", "--layout=image")
    (image,) = page_of(out).images
    shown = np.asarray(thumbnail(image).convert("L"))
    assert psnr(shown, np.asarray(Image.fromarray(picture).resize(shown.shape[::-1]))) > 25


def test_what_is_damaged_is_said_in_its_place_or_in_one_line(photos_out, tmp_path, run):
    damaged = Path(shutil.copytree(photos_out, tmp_path / "damaged"))
    (shard,), (index,) = damaged.glob("*-train.tfrecord-*"), damaged.glob("index/*-train-*")
    (row, *_), data = pq.read_table(index).to_pylist(), shard.read_bytes()
    at = data.index(b"\xff\xd8\xff", row["offset"])
    shard.write_bytes(data[:at] + b"none" + data[at + 4 :])
    assert run("report", damaged).code == 0
    assert len(page_of(damaged).images) == 41
    assert "cannot be shown" in page_of(damaged).text
    index.write_bytes(b"none")
    ran = run("report", damaged)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "beam-tfrecords verify" in ran.err


def test_changes_and_verdicts_of_guards_are_shown_and_a_lost_report_comes_back(source_of):
    source = source_of(12)
    assert source.build().code == 0
    assert "the first version: there is nothing to compare it with" in page_of(source.latest).text
    source.put("cat/new.png", 99)
    ran = source.build("--accept=class_shares")
    assert ran.code == 0, ran.err
    assert {"added: 1", "cat/new.png", "Guards"} <= {*page_of(source.latest).words}
    # A build that was killed before its report gets it from the next one.
    report = source.latest / "report.html"
    written = report.read_bytes()
    report.unlink()
    assert "nothing has changed" in source.build("--no_report").out
    assert not report.exists()
    assert "nothing has changed" in source.build().out
    assert report.read_bytes() == written


# Bounds.


@pytest.mark.nightly
def test_a_million_records_of_a_thousand_classes_make_a_small_page_quickly(photos_out, tmp_path, run):
    out = Path(shutil.copytree(photos_out, tmp_path / "out"))
    names = [f"class {number:04d} {'x' * 40}" for number in range(1000)]
    manifest = manifest_of(out)
    (shard,) = [one for one in manifest["shards"] if one["split"] == "train"]
    rows, schema = pq.read_table(out / shard["index"]).to_pylist(), pq.read_schema(out / shard["index"])
    per_shard, generator = 250_000, np.random.default_rng(0)
    shards, counts = [], np.zeros(1000, int)
    for number in range(4):
        labels = generator.integers(0, 1000, per_shard)
        counts += np.bincount(labels, minlength=1000)
        places = generator.integers(0, len(rows), per_shard)
        taken = ("offset", "length", "sample_hash", "height", "width")
        columns = {
            "key": [f"{names[label]}/{row}.jpg" for row, label in enumerate(labels.tolist())],
            "label": pa.DictionaryArray.from_arrays(pa.array(labels), names).cast(pa.string()),
            **{name: np.array([row[name] for row in rows])[places] for name in taken},
            "source_height": generator.integers(20, 5000, per_shard),
            "source_width": generator.integers(20, 5000, per_shard),
        }
        fields = [field for field in schema if field.name in columns]
        index = out / f"index/{number}.parquet"
        pq.write_table(
            pa.table({field.name: pa.array(columns[field.name]).cast(field.type) for field in fields}), index
        )
        digest = hashlib.sha256(index.read_bytes()).hexdigest()
        changed = {"number": number, "of": 4, "index": f"index/{number}.parquet", "index_sha256": digest}
        shards.append({**shard, **changed, "records": per_shard})
    manifest |= {"shards": shards, "class_names": names, "records": 4 * per_shard}
    classes = dict(zip(names, counts.tolist(), strict=True))
    manifest["splits"] = {"train": {**manifest["splits"]["train"], "records": 4 * per_shard, "classes": classes}}
    (out / "manifest.json").write_text(json.dumps(manifest))
    start = time.process_time()
    assert run("report", out).code == 0
    assert time.process_time() - start < 20
    page = page_of(out)
    assert len(page.html) < 5_000_000
    assert (len(page.images), page.figures["records"]) == (200, "1,000,000")
    assert "Shows 100 of 1,000 classes" in page.text
    assert "and 940 more classes" in page.text


# In a build.


def test_the_command_writes_the_same_page_again_and_a_build_without_one_is_the_same_dataset(
    photos, photos_out, tmp_path, run, verify, build, convert, snapshot
):
    moved = Path(shutil.copytree(photos_out, tmp_path / "moved"))
    (moved / "report.html").unlink()
    ran = run("report", moved)
    assert (ran.code, ran.out) == (0, f"report: {moved}/report.html\n")
    assert snapshot(moved) == snapshot(photos_out)
    assert verify(moved).code == 0
    assert run("report", f"--dataset={tmp_path}").code == 2
    out = build(tmp_path / "out", f"--input={photos}", *SETTINGS, "--no_report")
    assert snapshot(out) == snapshot(photos_out, without=["report.html"])
    # That of a replaced dataset goes with it.
    build(moved, f"--input={photos / 'cat'}", "--image_size=8", "--overwrite", "--no_report", "--layout=image")
    assert not (moved / "report.html").exists()
    dataset = build_in_python(input=photos, output=tmp_path / "python", image_size=8, quiet=True, report=False)
    assert not Path(dataset.path, "report.html").exists()


def test_a_report_that_cannot_be_made_is_a_note_and_the_dataset_stands(photos, tmp_path, convert, run, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no page")

    with monkeypatch.context() as patched:
        patched.setattr(jinja2.Template, "render", fail)
        ran = convert(f"--input={photos}", f"--output={tmp_path / 'out'}", "--image_size=8")
    assert ran.code == 0
    (line,) = [line for line in ran.err.splitlines() if line.startswith("note: the report")]
    assert "no page" in line
    assert "report:" not in ran.out
    assert not (tmp_path / "out/report.html").exists()
    assert not (tmp_path / "out/.build").exists()
    (command,) = re.findall(r"`beam-tfrecords (report .*?)`", line)
    assert run(*command.split()).code == 0


def test_the_settings_build_the_same_records_again(photos_out, photos, tmp_path, build, monkeypatch):
    monkeypatch.chdir(photos.parent)
    (tmp_path / "settings.yaml").write_text(page_of(photos_out).words[-1])
    again = build(tmp_path / "out", f"--spec={tmp_path / 'settings.yaml'}")
    shards = [[one["crc32c"] for one in manifest_of(path)["shards"]] for path in (again, photos_out)]
    assert shards[0] == shards[1]


@pytest.mark.nightly
def test_the_code_for_tensorflow_reads_the_dataset(photos_out, capsys):
    code = next(word for word in page_of(photos_out).words if word.startswith("from beam_tfrecords import load"))
    exec(code.replace("FOLDER = 'photos'", f"FOLDER = {str(photos_out)!r}"), {})
    assert capsys.readouterr().out.count("'filename'") == open_dataset(photos_out).splits["train"]
