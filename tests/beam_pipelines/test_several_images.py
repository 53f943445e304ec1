"""Examples with several images, from tables to a training batch."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import simplejpeg
from PIL import Image

from beam_tfrecords import open_dataset
from tests.beam_pipelines.dataset_checks import find_all, manifest_of
from tests.beam_pipelines.test_verify_records import one_record, rewrite_shard, with_feature
from tests.image_checks import encoded
from tests.refusals import Refusal
from tests.tensorflow import load

pytestmark = pytest.mark.tensorflow

PNG = ["--image_encoding=png"]


@pytest.fixture
def pairs(tmp_path, picture, save) -> Path:
    """A table of four pairs of different sizes, with as many views as its number says."""
    rows = []
    for number in range(4):
        left, right = f"l/{number}.png", f"r/{number}.png"
        save(tmp_path / left, picture(10 * number, 20, 30))
        save(tmp_path / right, picture(10 * number + 1, 25, 24 + number))
        views = [f"v/{number}_{view}.png" for view in range(number)]
        for view, path in enumerate(views):
            save(tmp_path / path, picture(10 * number + 2 + view, 20 + view, 30))
        rows.append({"left": left, "right": right, "views": views, "label": "ab"[number % 2]})
    write_table(tmp_path / "pairs.jsonl", rows)
    return tmp_path


def write_table(path: Path, rows: list[dict]) -> Path:
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            cells = ((json.dumps(one) if isinstance(one, list) else one for one in row.values()) for row in rows)
            csv.writer(file).writerows([rows[0], *cells])
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def rows_of(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def check_pixels(stored: np.ndarray, path: Path) -> None:
    np.testing.assert_array_equal(stored, np.asarray(Image.open(path)))


@pytest.fixture
def build_pairs(pairs, build) -> Callable[..., Path]:
    """Builds the pairs with flags."""
    table = pairs / "pairs.jsonl"
    return lambda name, *flags: build(pairs / name, f"--input={table}", "--image_column=left,right,views", *flags)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_every_image_of_a_row_is_a_feature(kind, pairs, build):
    table = write_table(pairs / f"t.{kind}", rows_of(pairs / "pairs.jsonl"))
    out = build(pairs / "out", f"--input={table}", "--image_column=left,right,views", *PNG)
    layout = {one.name: (one.field, one.several) for one in open_dataset(out).layout.features}
    assert layout == {
        "left": ("images.left", False), "right": ("images.right", False), "views": ("images.views", True),
        "label": ("label.index", False), "filename": ("filename", False),
    }  # fmt: skip
    records = {one["filename"]: one for one in open_dataset(out).records("train")}
    for row in rows_of(pairs / "pairs.jsonl"):
        record = records[Path(row["left"]).name]
        check_pixels(record["left"], pairs / row["left"])
        check_pixels(record["right"], pairs / row["right"])
        assert len(record["views"]) == len(row["views"])
        for stored, path in zip(record["views"], row["views"], strict=True):
            check_pixels(stored, pairs / path)
    assert find_all(out) == []


@pytest.mark.parametrize(
    ("layout", "flags"),
    [
        ("{a: images.left, b: images.right}", []),
        ("{a: image.encoded, b: images.right}", ["--image_column=left"]),
        ("{a: image.encoded, b: images.right}", ["--image_column=left,right"]),
    ],
)
def test_a_layout_of_ones_own_names_images(layout, flags, pairs, build):
    (pairs / "s.yaml").write_text(f"layout: {layout}")
    out = build(pairs / "out", f"--spec={pairs / 's.yaml'}", f"--input={pairs / 'pairs.jsonl'}", *flags, *PNG)
    for record, row in zip(open_dataset(out).records("train"), rows_in_order(out, pairs), strict=True):
        check_pixels(record["a"], pairs / row["left"])
        check_pixels(record["b"], pairs / row["right"])


def rows_in_order(out: Path, pairs: Path) -> list[dict]:
    """The rows in the order of the records."""
    by_key = {row["left"]: row for row in rows_of(pairs / "pairs.jsonl")}
    return [by_key[key] for key in index_of(out)["key"]]


def index_of(out: Path) -> dict[str, list]:
    return pa.concat_tables([pq.read_table(path) for path in sorted((out / "index").glob("*"))]).to_pydict()


def test_each_image_is_resized_and_batches_have_all(build_pairs):
    out = build_pairs("out", "--image_size=16x12", "--resize_mode=exact", *PNG)
    (batch,) = load(out, "train", batch_size=4)
    assert batch["left"].shape == batch["right"].shape == (4, 16, 12, 3)
    views = batch["views"]
    assert sorted(views.row_lengths().numpy()) == [0, 1, 2, 3]
    assert views.values.shape == (6, 16, 12, 3)
    for example, record in zip(load(out, "train"), open_dataset(out).records("train"), strict=True):
        assert example["views"].shape == (len(record["views"]), 16, 12, 3)
        for one, other in zip(example["views"], record["views"], strict=True):
            np.testing.assert_array_equal(one, other)
    (small,) = load(out, "train", batch_size=4, image_size=8, resize_mode="crop")
    assert (small["left"].shape, small["views"].values.shape) == ((4, 8, 8, 3), (6, 8, 8, 3))


def test_records_that_are_read_together_keep_their_images_apart(build_pairs):
    out = build_pairs("out", "--image_size=16x12", "--resize_mode=exact")
    records = open_dataset(out).records("train")
    for number, together in enumerate(records.__getitems__(range(4))):
        encoded_ones = open_dataset(out).records("train", form="features")[number]
        for name in ("left", "right"):
            alone = simplejpeg.decode_jpeg(encoded_ones[name])
            np.testing.assert_array_equal(together[name], alone)


@pytest.mark.nightly
def test_a_list_of_images_of_different_sizes_needs_a_size_to_be_loaded(build_pairs):
    out = build_pairs("out")
    with pytest.raises(ValueError, match=r"the images of a list \(views\) have different sizes; pass image_size="):
        load(out, "train")
    assert len(list(load(out, "train", decode=False))) == 4
    assert {len(example["views"]) for example in load(out, "train", image_size=8, resize_mode="crop")} == {0, 1, 2, 3}


@pytest.mark.nightly
@pytest.mark.parametrize("encoding", ["raw", "png", "webp", "keep"])
def test_images_of_every_encoding_are_read_back(encoding, pairs, build_pairs):
    size = [] if encoding == "keep" else ["--image_size=16x12", "--resize_mode=exact"]
    out = build_pairs("out", f"--image_encoding={encoding}", *size)
    for example, record in zip(
        load(out, "train", image_size=(16, 12), resize_mode="crop"), open_dataset(out).records("train"), strict=True
    ):
        assert example["right"].shape == (16, 12, 3)
        if size:
            np.testing.assert_array_equal(example["right"], record["right"])
    assert find_all(out) == []


# What is missing or wrong


@pytest.mark.parametrize(
    ("change", "reason", "detail"),
    [
        (lambda root: (root / "r/1.png").unlink(), "unreadable", "right: no such file: "),
        (lambda root: (root / "v/2_1.png").write_bytes(b"a text"), "not_an_image", "views[1]: "),
        (lambda root: (root / "v/3_0.png").write_bytes(b""), "empty", "views[0]: the file has no bytes"),
        (lambda root: (root / "l/0.png").unlink(), "unreadable", "left: no such file: "),
    ],
)
def test_a_bad_image_rejects_its_sample_and_is_named(change, reason, detail, pairs, convert):
    change(pairs)
    flags = [f"--input={pairs / 'pairs.jsonl'}", "--image_column=left,right,views", f"--output={pairs / 'out'}"]
    # The request is refused if images of its first column are missing.
    assert convert(*flags).code == (2 if detail.startswith("left: no such file") else 3)
    assert convert(*flags, "--max_failures=0.5").code == 0
    (failure,) = map(json.loads, (pairs / "out/failures.jsonl").read_text().splitlines())
    assert (failure["reason"], failure["detail"][: len(detail)]) == (reason, detail)
    assert manifest_of(pairs / "out")["records"] == 3


def test_an_empty_cell_rejects_its_row_under_the_name_of_its_first_image(pairs, convert):
    rows = rows_of(pairs / "pairs.jsonl")
    rows[2]["right"] = ""
    rows[3]["views"] = "v/3_0.png"
    write_table(pairs / "pairs.jsonl", rows)
    flags = [f"--input={pairs / 'pairs.jsonl'}", "--image_column=left,right,views", f"--output={pairs / 'out'}"]
    assert convert(*flags, "--max_failures=0.5").code == 0
    failures = map(json.loads, (pairs / "out/failures.jsonl").read_text().splitlines())
    assert {one["key"]: (one["reason"], one["detail"]) for one in failures} == {
        "l/2.png": ("invalid_row", "column 'right' is empty"),
        "l/3.png": ("invalid_row", "column 'views' has 'v/3_0.png'; expected a list of paths"),
    }


@pytest.mark.parametrize(
    ("flags", "layout", "refusal"),
    [
        (
            ["--image_column=left,middle"],
            "",
            Refusal("unknown_column", "image_column", says=["/pairs.jsonl ", "'middle'"]),
        ),
        (
            [],
            "{a: images.left, b: images.middle}",
            Refusal("unknown_column", "layout", says=["/pairs.jsonl ", "'middle'"]),
        ),
        (
            ["--image_column=left,right"],
            "{a: images.views}",
            Refusal("unknown_image", "layout", "image_column", says=["images.views"]),
        ),
        (["--image_column=left,label"], "", Refusal("several_images", says=["'label'"])),
        (
            ["--image_column=left,right", "--group_rows"],
            "",
            Refusal("several_images_per_row", "group_rows", "key_column"),
        ),
        (
            ["--image_column=left,right", "--image_encoding=raw"],
            "",
            Refusal("needs_setting", "image_encoding", "image_size", "resize_mode"),
        ),
        (
            ["--image_path={}/{{left}}"],
            "{a: images.left}",
            Refusal("unknown_image", "layout", "image_column", says=["images.left"]),
        ),
    ],
)
def test_requests_that_cannot_be_met_are_refused(flags, layout, refusal, pairs, convert):
    spec = pairs / "s.yaml"
    spec.write_text(f"layout: {layout}" if layout else "seed: 1")
    words = [flag.format(pairs) for flag in flags]
    ran = convert(f"--spec={spec}", f"--input={pairs / 'pairs.jsonl'}", f"--output={pairs / 'out'}", *words)
    ran.refused(refusal)


def test_a_source_of_single_images_has_none_by_name(pairs, convert):
    (pairs / "s.yaml").write_text("layout: {a: images.left}")
    ran = convert(f"--spec={pairs / 's.yaml'}", f"--input={pairs / 'l'}", f"--output={pairs / 'out'}")
    ran.refused("unknown_image", "layout", "image_column", says=["images.left"])


def test_what_messages_about_several_images_offer_is_right(pairs, convert, save):
    rows = rows_of(pairs / "pairs.jsonl")
    for number, row in enumerate(rows):
        save(pairs / f"m/{number}.png", np.zeros((20, 30), np.uint8))
        row |= {"mask": f"m/{number}.png", "left": "l/0.png", "id": number}
    write_table(pairs / "t.jsonl", rows)
    table = f"--input={pairs / 't.jsonl'}"
    for number, (flags, wrong, right) in enumerate(
        (
            ([], ["--image_column=left,mask"], ["--image_column=left", "--mask_column=mask", "--layout=segmentation"]),
            (["--image_column=left,right"], ["--group_rows"], ["--key_column=id"]),
            (["--image_column=left,right"], ["--image_encoding=raw"], ["--image_size=224", "--resize_mode=pad"]),
        )
    ):
        output = f"--output={pairs / str(number)}"
        assert convert(table, output, *flags, *wrong).code == 2
        more = [] if "--key_column=id" in right else ["--key_column=id"]
        ran = convert(table, output, *flags, *right, *more)
        assert ran.code == 0, ran.err


# Duplicates, reuse, other readers


def test_samples_are_duplicates_if_all_their_images_are_the_same(pairs, convert):
    rows = rows_of(pairs / "pairs.jsonl")
    names = [("left", "right"), ("left", "right"), ("right", "left"), ("left", "left")]
    table = [{"a": rows[0][a], "b": rows[0][b], "id": number} for number, (a, b) in enumerate(names)]
    write_table(pairs / "t.jsonl", table)
    flags = [f"--input={pairs / 't.jsonl'}", "--image_column=a,b", "--key_column=id", "--layout=image"]
    ran = convert(*flags, f"--output={pairs / 'out'}", "--duplicates=drop")
    assert ran.code == 0, ran.err
    (found,) = map(json.loads, (pairs / "out/duplicates.jsonl").read_text().splitlines())
    assert sorted(one["key"] for one in found["images"]) == ["0", "1"]
    assert manifest_of(pairs / "out")["records"] == 3


def test_the_index_describes_the_first_image(pairs, build_pairs):
    rows = index_of(build_pairs("out"))
    assert set(zip(rows["height"], rows["width"], strict=True)) == {(20, 30)}
    assert sorted(rows["uri"]) == [f"l/{number}.png" for number in range(4)]


def changes_of(out: Path) -> dict[str, int]:
    changes = json.loads((out / (out / "LATEST").read_text().strip() / "changes.json").read_text())
    return {kind: found["samples"] for kind, found in changes["changes"].items() if found["samples"]}


def test_a_new_version_converts_what_has_another_image_or_label(pairs, build, save, picture):
    table = pairs / "pairs.jsonl"
    flags = [f"--input={table}", "--versioned", "--key_column=left", "--accept=class_shares", *PNG]
    out = build(pairs / "out", *flags, "--image_column=left,right")
    save(pairs / "r/1.png", picture(99, 25, 25))
    rows = rows_of(table)
    rows[2]["label"] = "a" if rows[2]["label"] == "b" else "b"
    write_table(table, rows)
    build(pairs / "out", *flags, "--image_column=left,right")
    assert changes_of(out) == {"copied": 2, "changed": 2}
    latest = out / (out / "LATEST").read_text().strip()
    for record, row in zip(open_dataset(latest).records("train"), rows_in_order(latest, pairs), strict=True):
        check_pixels(record["right"], pairs / row["right"])
    # The same files under other names.
    table.write_text(table.read_text().replace('"left"', '"x"').replace('"right"', '"left"').replace('"x"', '"right"'))
    flags = [f"--input={table}", "--versioned", "--key_column=right", "--accept=settings", *PNG]
    build(pairs / "out", *flags, "--image_column=right,left")
    assert changes_of(out) == {"changed": 4}
    latest = out / (out / "LATEST").read_text().strip()
    for record, key in zip(open_dataset(latest).records("train"), index_of(latest)["key"], strict=True):
        check_pixels(record["right"], pairs / key)


def test_verify_finds_an_image_that_does_not_decode(build_pairs):
    out = build_pairs("out", "--image_size=16x12", "--resize_mode=exact")
    wrong = encoded(Image.new("RGB", (16, 16)), "JPEG")
    for name, data, message in (
        ("right", b"no image", "feature 'right': the image does not decode"),
        ("right", wrong, "feature 'right': the image has width 16; expected 12"),
        ("views", b"no image", "feature 'views': the image does not decode"),
    ):
        rewrite_shard(out, 0, one_record(0, lambda _, e, d=data, n=name: with_feature(e, n, bytes_list=[d])))
        assert any(message in str(finding) for finding in find_all(out))


def test_people_see_all_images(pairs, build_pairs, run):
    out = build_pairs("out", *PNG)
    row = rows_in_order(out, pairs).index(next(row for row in rows_of(pairs / "pairs.jsonl") if len(row["views"]) == 1))
    ran = run("inspect", f"--dataset={out}", f"--image={row}", f"--save={pairs / 'x.png'}")
    assert ran.code == 0, ran.err
    assert "right     " in ran.out
    drawn, record = np.asarray(Image.open(pairs / "x.png")), open_dataset(out).records("train")[row]
    np.testing.assert_array_equal(drawn[:20, :30], record["left"])
    np.testing.assert_array_equal(drawn[:25, 30 : 30 + record["right"].shape[1]], record["right"])
    assert run("report", out).code == 0
    assert 'width="' in (out / "report.html").read_text()
