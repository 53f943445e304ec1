"""`report.html`: what it shows of a dataset, that names are text, and that it never disturbs a build."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import os
import re
import shutil
import time
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image, ImageFilter

from beam_tfrecords import build as build_in_python
from beam_tfrecords import open_dataset
from beam_tfrecords.beam_pipelines.report.page import render_report
from beam_tfrecords.dataset.index import INDEX_SCHEMA
from tests.beam_pipelines.dataset_checks import manifest_of
from tests.beam_pipelines.version_builds import make_source
from tests.image_checks import PHOTOS, lossless_jpeg, psnr

ROOT = Path(__file__).parents[2]
# Elements without an end.
VOID = {"meta", "link", "img", "br", "rect"}
SCRIPT = "<script>alert(1)</script>"
pytestmark = pytest.mark.report


class Page(HTMLParser):
    """The elements, attributes and texts of a page, as a browser finds them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.images: list[dict[str, str]] = []
        self.unusual: list[dict[str, str]] = []
        self.failed: dict[str, dict[str, str]] = {}
        self.boxes: list[dict[str, str]] = []
        self.words: list[str] = []
        self.figures: dict[str, str] = {}
        self._open: list[str] = []
        self._failed: dict[str, str] = {}
        self.feed(html)
        self.close()
        assert not self._open
        self.text = "\n".join(self.words)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs
        if tag == "h2":
            self._section = dict(attrs)["id"]
        if tag == "img" and self._section == "failures":
            self._failed = dict(attrs)
        elif tag == "img":
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
            if self._failed:  # the key is beside the picture
                self.failed[data], self._failed = self._failed, {}
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
    output = tmp_path_factory.mktemp("report") / "out"
    return build(output, f"--input={photos}", "--image_size=64", "--splits=train=0.8,validation=0.2", "--name=photos")


# What it shows


def test_a_build_writes_one_page_with_the_numbers_of_the_manifest_and_its_own_pictures(photos_out, run):
    page, manifest = page_of(photos_out), manifest_of(photos_out)
    figures = {name: page.figures[name] for name in ("records", "splits", "shards", "failures", "classes", "seed")}
    assert figures == {"records": "42", "splits": "2", "shards": "2", "failures": "0", "classes": "7", "seed": "0"}
    for entry in manifest["splits"].values():
        assert str(entry["records"]) in page.words
    for name in manifest["class_names"]:
        assert name in page.words
    # All records are few enough to be shown.
    assert len(page.images) == 42
    dataset = open_dataset(photos_out)
    stored = [example["image"] for split in dataset.splits for example in dataset.records(split)]
    sizes = sorted(image.shape[:2] for image in stored)
    assert sorted((int(image["height"]), int(image["width"])) for image in page.images) == sizes
    for image in page.images:
        pixels = np.asarray(thumbnail(image), int)
        same = [np.abs(pixels - one).mean() for one in stored if one.shape == pixels.shape]
        assert min(same) < 12


def test_the_darkest_and_most_blurred_pictures_are_shown_with_their_values(photos_out, photos, tmp_path, build):
    assert len(page_of(photos_out).unusual) == 4 * (42 // 8)
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


def test_copies_stand_out_once(photos, tmp_path, build):
    shutil.copytree(photos, tmp_path / "in")
    for number in range(4):
        Image.new("RGB", (200, 150 + number)).save(tmp_path / f"in/cat/black_{number}.png")
    page = page_of(build(tmp_path / "out", f"--input={tmp_path / 'in'}", "--image_size=64x64", "--resize_mode=exact"))
    unusual = page.words[
        page.words.index("Darkest") : page.words.index("Splits and bytes", page.words.index("Darkest"))
    ]
    assert sum(word.startswith("black_") for word in unusual) == 3  # the darkest, most blurred and flattest
    assert len(page.unusual) == 4 * (46 // 8)


def test_many_failures_are_said_at_the_top(photos, photos_out, tmp_path, build):
    shutil.copytree(photos, tmp_path / "in")
    (tmp_path / "in/cat/broken.jpg").write_bytes(b"none")
    flags = ("--image_size=64", "--max_failures=0.5")
    text = page_of(build(tmp_path / "out", f"--input={tmp_path / 'in'}", *flags)).text
    said = text.index("1 of 43 samples (2.3%) could not be converted: not_an_image 1.")
    assert said < text.index("records\n42")
    assert "%) could not be converted" not in page_of(photos_out).text


def test_every_figure_leads_to_a_section_of_the_page(photos_out, tmp_path, build):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"x": number}) + "\n" for number in range(5)))
    (tmp_path / "spec.yaml").write_text("layout: {x: {field: column.x, type: int64}}")
    rows = build(tmp_path / "out", f"--input={tmp_path / 'rows.jsonl'}", f"--spec={tmp_path / 'spec.yaml'}")
    for out, missing in ((photos_out, set()), (rows, {"classes", "images"})):
        html, page = (out / "report.html").read_text(), page_of(out)
        figures = dict(re.findall(r'<dt>([^<]*)</dt><dd[^>]*>(?:<a href="#(\w+)">)?', html))
        assert figures.keys() == page.figures.keys()
        assert {name for name, section in figures.items() if not section} == missing
        assert {("id", section) for section in figures.values() if section} <= set(page.attributes)


def test_sizes_are_height_and_width_and_say_so(photos, tmp_path, build):
    page = page_of(build(tmp_path / "out", f"--input={photos}", "--image_size=40x60", "--resize_mode=exact"))
    assert page.figures["images, height x width"] == "JPEG 40 x 60"
    assert "sizes are height x width" in page.text
    assert ("title", "height x width in pixels") in page.attributes
    assert "40\N{NO-BREAK SPACE}x\N{NO-BREAK SPACE}60" in page.words


def test_captions_are_apart(tmp_path, build, photos):
    rows = [{"file_name": f"cat/cat_0{number}.jpg", "captions": ["one, two", "three"]} for number in (1, 2)]
    shutil.copytree(photos / "cat", tmp_path / "in/cat")
    (tmp_path / "in/metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    layout = {"image": "image.encoded", "captions": {"field": "column.captions", "type": "bytes", "several": True}}
    spec = {"input": str(tmp_path / "in/metadata.jsonl"), "image_root": str(tmp_path / "in"), "layout": layout}
    (tmp_path / "spec.yaml").write_text(json.dumps({**spec, "image_column": "file_name", "image_size": 32}))
    words = page_of(build(tmp_path / "out", f"--spec={tmp_path / 'spec.yaml'}")).words
    assert words.count("captions: one, two") == words.count("captions: three") == 2


def test_few_or_kept_pictures_have_none_that_stand_out(photos, tmp_path, build):
    few = build(tmp_path / "few", f"--input={photos}", "--limit=7", "--image_size=64")
    kept = build(tmp_path / "kept", f"--input={photos}", "--image_encoding=keep")
    assert page_of(few).unusual == page_of(kept).unusual == []


def test_the_page_asks_for_nothing_and_runs_nothing(photos_out):
    html, page = (photos_out / "report.html").read_text(), page_of(photos_out)
    assert not page.tags & {"script", "iframe", "object", "embed", "form", "base"}
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    links = [value for name, value in page.attributes if name in ("src", "href", "srcset", "action")]
    assert all(link.startswith(("data:", "#")) for link in links)
    assert not re.search(r"url\(|@import", html)
    assert "default-src 'none'" in html


def test_the_command_writes_the_same_page_again_wherever_the_dataset_is(photos_out, tmp_path, run, verify):
    moved = shutil.copytree(photos_out, tmp_path / "moved")
    (moved / "report.html").unlink()
    ran = run("report", moved)
    assert (ran.code, ran.out) == (0, f"report: {moved}/report.html\n")
    assert (moved / "report.html").read_bytes() == (photos_out / "report.html").read_bytes()
    assert verify(moved).code == 0
    assert run("report", f"--dataset={tmp_path}").code == 2


def test_class_and_file_names_are_text(tmp_path, picture, save, build):
    names = ["<img src=x onerror=alert(1)>.png", "turned\u202egnp.png", "\x1b[31mred.png", "'\"&amp;.png"]
    labels = [SCRIPT, "</style><b>bold", "a\u202eb", '" onload="alert(1)']
    for number, name in enumerate(names):
        save(tmp_path / "in" / name, picture(number, 20, 20), format="PNG")
        save(tmp_path / f"in/{number}.png", picture(number, 20, 20))  # identical
    (tmp_path / "in/<b>broken.png").write_bytes(b"none")
    with (tmp_path / "in.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label"])
        writer.writerows(
            [name, label] for number, label in enumerate(labels) for name in (names[number], f"{number}.png")
        )
        writer.writerow(["<b>broken.png", SCRIPT])
    out = build(
        tmp_path / "out",
        f"--input={tmp_path / 'in.csv'}",
        f"--image_root={tmp_path / 'in'}",
        "--image_column=path",
        "--label_column=label",
        "--max_failures=0.5",
        "--image_size=16",
    )
    page = page_of(out)
    assert not page.tags & {"script", "b"}
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert SCRIPT in page.words
    assert "</style><b>bold" in page.words
    assert {"src": "x"} not in page.images
    html = (out / "report.html").read_text(encoding="utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e]", html)
    assert "a\\u202eb" in page.words
    assert "<b>broken.png" in page.words
    assert "Images that occur more than once: 4;" in page.text


def test_failures_leaks_and_notes_are_shown(tmp_path, picture, save, build):
    for number in range(12):
        split = ("train", "test")[number % 3 == 0]
        save(tmp_path / f"in/{split}/{('cat', 'dog')[number % 2]}/{number}.png", picture(number, 30, 40))
    shutil.copy(tmp_path / "in/train/dog/1.png", tmp_path / "in/test/cat/leaked.png")
    (tmp_path / "in/train/cat/broken.png").write_bytes(b"no picture")
    out = build(tmp_path / "out", f"--input={tmp_path / 'in'}", "--max_failures=0.5", "--image_size=16")
    page = page_of(out)
    (reason,) = manifest_of(out)["failure_reasons"]
    assert f"{reason}: 1" in page.words
    assert "train/cat/broken.png" in page.words
    assert "Leaks:" in page.words
    assert "test/cat/leaked.png" in page.words
    assert "different" in page.words  # its labels
    assert "2 copies in test, train" in page.words


def test_the_changes_since_the_version_before_and_the_verdicts_of_the_guards_are_shown(
    tmp_path, picture, save, convert
):
    source = make_source(tmp_path, 12, picture=picture, save=save, convert=convert)
    assert source.build().code == 0
    assert "the first version: there is nothing to compare it with" in page_of(source.latest).text
    save(tmp_path / "in/cat/new.png", picture(99, 30, 40))
    ran = source.build("--accept=class_shares")
    assert ran.code == 0, ran.err
    page = page_of(source.latest)
    assert "added: 1" in page.words
    assert "cat/new.png" in page.words
    assert "Guards" in page.words


def test_a_version_whose_build_was_killed_before_its_report_gets_it_from_the_next(tmp_path, picture, save, convert):
    source = make_source(tmp_path, 4, picture=picture, save=save, convert=convert)
    assert source.build().code == 0
    report = source.latest / "report.html"
    written = report.read_bytes()
    report.unlink()
    assert "nothing has changed" in source.build("--no_report").out
    assert not report.exists()
    assert "nothing has changed" in source.build().out
    assert report.read_bytes() == written


# Every kind of dataset


@pytest.mark.parametrize(
    "flags",
    [
        ["--layout=raw", "--image_encoding=raw", "--resize_mode=exact", "--image_size=24x32"],
        ["--image_encoding=keep"],
        ["--image_encoding=png", "--bit_depth=16", "--image_size=24"],
        ["--image_encoding=png", "--channels=4", "--image_size=24"],
        ["--image_encoding=webp", "--image_size=24"],
        ["--image_encoding=jpeg", "--channels=1", "--image_size=24"],
        ["--compression=gzip", "--image_size=24", "--splits=train=0.5,test=0.5"],
        ["--layout=image", "--image_size=24"],
        ["--layout=imagenet", "--image_size=24", "--splits=train=0.5,test=0.5"],
    ],
    ids=lambda flags: " ".join(flags[:2]),
)
def test_every_way_of_storing_images_has_pictures(photos, tmp_path, build, flags):
    page = page_of(build(tmp_path / "out", f"--input={photos}", *flags))
    assert len(page.images) >= 40
    for image in page.images:
        shown = thumbnail(image)
        shown.load()
        assert max(shown.size) <= 128
    assert "cannot be shown" not in page.text


def test_captions_and_several_labels_are_shown_with_their_pictures(tmp_path, picture, save, build):
    rows = []
    for number in range(6):
        save(tmp_path / f"in/{number}.png", picture(number, 20, 20))
        labels = ["red", "round"][: number % 3]
        rows.append({"path": f"in/{number}.png", "labels": labels, "text": f"a <i>thing</i> {number}"})
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    layout = {"image": "image.encoded", "labels": "labels.index", "text": {"field": "column.text", "type": "bytes"}}
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump({"layout": layout}))
    out = build(
        tmp_path / "out",
        f"--input={tmp_path / 'in.jsonl'}",
        f"--spec={tmp_path / 'spec.yaml'}",
        *["--image_column=path", "--label_column=labels"],
    )
    page = page_of(out)
    assert len(page.images) == 6
    assert "labels: red, round" in page.words
    assert "text: a <i>thing</i> 3" in page.words


def test_pictures_with_boxes_are_shown_with_the_classes_of_their_objects(tmp_path, picture, save, build):
    names = ["cat", SCRIPT]
    for number in range(4):
        save(tmp_path / f"images/{number}.png", picture(number, 30, 40))
    images = [{"id": number, "file_name": f"{number}.png", "height": 30, "width": 40} for number in range(4)]
    # As many objects as pictures, which are no classes of pictures all the same.
    objects = [
        {"id": number, "image_id": number // 2, "category_id": number % 2 + 1, "bbox": [2, 3, 10, 12], "area": 120}
        for number in range(4)
    ]
    classes = [{"id": number + 1, "name": name} for number, name in enumerate(names)]
    annotations = {"images": images, "annotations": objects, "categories": classes}
    (tmp_path / "boxes.json").write_text(json.dumps(annotations))
    words = [f"--input={tmp_path / 'boxes.json'}", f"--image_root={tmp_path / 'images'}", "--source=coco"]
    page = page_of(build(tmp_path / "out", *words))
    assert len(page.images) == 4
    assert sum(f"cat, {SCRIPT}" in word for word in page.words) == 2
    # The longer side of a picture has 256 units.
    assert [[box[side] for side in ("x", "y", "width", "height")] for box in page.boxes] == [
        ["12.8", "19.2", "64.0", "76.8"]
    ] * 4
    assert len({box["style"] for box in page.boxes}) == 2
    # The titles of two boxes, and the class; in the pictures, a long name is shortened.
    assert page.words.count(SCRIPT) == 3
    assert page.words.count(f"{SCRIPT[:24]}…") == 2


def test_a_table_without_images_is_shown_by_its_values(tmp_path, build):
    (tmp_path / "rows.csv").write_text("count,name\n" + "".join(f"{n},row {n}\n" for n in range(60)))
    layout = {"count": {"field": "column.count", "type": "int64"}, "name": {"field": "column.name", "type": "bytes"}}
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump({"layout": layout}))
    page = page_of(build(tmp_path / "out", f"--input={tmp_path / 'rows.csv'}", f"--spec={tmp_path / 'spec.yaml'}"))
    assert not page.images
    assert sum(word.startswith("name: row ") for word in page.words) == 40
    assert page.figures["images"] == "none"


def test_a_picture_that_does_not_decode_is_said_in_its_place(photos_out, tmp_path, run):
    damaged = shutil.copytree(photos_out, tmp_path / "damaged")
    (shard,) = damaged.glob("*-train.tfrecord-*")
    rows = pq.read_table(next(damaged.glob("index/*-train-*"))).to_pylist()
    data = shard.read_bytes()
    first = data[rows[0]["offset"] :][: rows[0]["length"]]
    at = rows[0]["offset"] + first.index(b"\xff\xd8\xff")
    shard.write_bytes(data[:at] + b"none" + data[at + 4 :])
    assert run("report", damaged).code == 0
    assert len(page_of(damaged).images) == 41
    assert "cannot be shown" in page_of(damaged).text


def test_a_damaged_index_is_one_line(photos_out, tmp_path, run):
    damaged = shutil.copytree(photos_out, tmp_path / "damaged")
    next(damaged.glob("index/*-train-*")).write_bytes(b"none")
    ran = run("report", damaged)
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "beam-tfrecords verify" in ran.err


# Bounds


@pytest.mark.nightly
def test_a_million_records_of_a_thousand_classes_make_a_small_page_quickly(photos_out, tmp_path):
    out = shutil.copytree(photos_out, tmp_path / "out")
    names = [f"class {number:04d} {'x' * 40}" for number in range(1000)]
    manifest = manifest_of(out)
    (shard,) = [one for one in manifest["shards"] if one["split"] == "train"]
    rows = pq.read_table(out / shard["index"]).to_pylist()
    per_shard, generator = 250_000, np.random.default_rng(0)
    print("seed 0")
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
        fields = [field for field in INDEX_SCHEMA if field.name in columns]
        table = pa.table({field.name: pa.array(columns[field.name]).cast(field.type) for field in fields})
        shards.append({**shard, "number": number, "of": 4, "index": f"index/{number}.parquet", "records": per_shard})
        index = out / shards[-1]["index"]
        pq.write_table(table, index)
        shards[-1]["index_sha256"] = hashlib.sha256(index.read_bytes()).hexdigest()
    manifest |= {"shards": shards, "class_names": names, "records": 4 * per_shard}
    classes = dict(zip(names, counts.tolist(), strict=True))
    manifest["splits"] = {"train": {**manifest["splits"]["train"], "records": 4 * per_shard, "classes": classes}}
    (out / "manifest.json").write_text(json.dumps(manifest))
    start = time.process_time()
    html = render_report(open_dataset(out))
    assert time.process_time() - start < 20
    assert len(html) < 5_000_000
    page = Page(html)
    assert len(page.images) == 200
    assert "Shows 100 of 1,000 classes" in page.text
    assert "and 940 more classes" in page.text
    assert page.figures["records"] == "1,000,000"


# In a build


def test_a_build_without_a_report_is_the_same_dataset(photos, photos_out, tmp_path, build, snapshot):
    flags = [f"--input={photos}", "--image_size=64", "--splits=train=0.8,validation=0.2", "--name=photos"]
    out = build(tmp_path / "out", *flags, "--no_report")
    assert not (out / "report.html").exists()
    assert snapshot(out) == snapshot(photos_out, without=["report.html"])
    dataset = build_in_python(
        input=photos, output=tmp_path / "python", image_size=8, quiet=True, report=False, name="photos"
    )
    assert not os.path.exists(f"{dataset.path}/report.html")


def test_the_report_of_a_replaced_dataset_goes_with_it(photos, photos_out, tmp_path, build, convert):
    out = shutil.copytree(photos_out, tmp_path / "out")
    build(out, f"--input={photos / 'cat'}", "--image_size=8", "--overwrite", "--no_report", "--layout=image")
    assert not (out / "report.html").exists()
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "report.html").write_text("mine")
    ran = convert(f"--input={photos / 'cat'}", f"--output={mine}", "--image_size=8", "--layout=image")
    ran.refused("output_not_empty", "output", says=["report.html"])
    assert (mine / "report.html").read_text() == "mine"


def test_a_report_that_cannot_be_made_is_a_note_and_the_dataset_stands(photos, tmp_path, convert, run, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no page")

    with monkeypatch.context() as patched:
        patched.setattr("beam_tfrecords.beam_pipelines.report.page.render_report", fail)
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
    page = page_of(photos_out)
    settings = page.words[-1]
    (tmp_path / "settings.yaml").write_text(settings)
    again = build(tmp_path / "out", f"--spec={tmp_path / 'settings.yaml'}")
    assert [one["crc32c"] for one in manifest_of(again)["shards"]] == [
        one["crc32c"] for one in manifest_of(photos_out)["shards"]
    ]


@pytest.mark.nightly
def test_the_code_for_tensorflow_reads_the_dataset(photos_out, capsys):
    code = next(word for word in page_of(photos_out).words if word.startswith("from beam_tfrecords import load"))
    exec(code.replace("FOLDER = 'photos'", f"FOLDER = {str(photos_out)!r}"), {})
    assert capsys.readouterr().out.count("'filename'") == open_dataset(photos_out).splits["train"]


def test_a_lossless_jpeg_that_was_kept_is_shown(tmp_path, convert):
    picture = np.asarray(Image.open(PHOTOS[0]).convert("L").resize((640, 480)))
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.jpg").write_bytes(lossless_jpeg(picture))
    ran = convert(
        f"--input={tmp_path / 'in'}", f"--output={tmp_path / 'out'}", "--image_encoding=keep", "--layout=image"
    )
    assert ran.code == 0, ran.err
    (image,) = page_of(tmp_path / "out").images
    shown = np.asarray(thumbnail(image).convert("L"))
    assert psnr(shown, np.asarray(Image.fromarray(picture).resize(shown.shape[::-1]))) > 25
