"""Tables with pixels: FER2013's texts, and a column for each pixel."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from beam_tfrecords import storage
from beam_tfrecords.transforms.refs.sample_refs import PixelRange, SampleRef
from beam_tfrecords.transforms.sources.source import Source
from tests.refusals import refuses
from tests.source_requests import suggest_columns

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 8), dtype=np.uint8)
COLORS = np.random.default_rng(1).integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
LABELS = [0, 1, 2, 0, 1, 2]
USAGE = ["Training"] * 4 + ["PublicTest", "PrivateTest"]


@pytest.fixture
def listed(opened, read_containers) -> Callable[..., tuple[Source, list[SampleRef]]]:
    def run(*inputs: Path, **fields: Any) -> tuple[Source, list[SampleRef]]:
        source = opened(*inputs, **fields)
        return source, read_containers(source)[0]

    return run


def text(image: np.ndarray) -> str:
    return " ".join(map(str, image.ravel()))


def save(path: Path, header: Iterable[str], rows: Iterable[Iterable[Any]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def save_fer(path: Path) -> Path:
    rows = zip(LABELS, map(text, PIXELS), USAGE, strict=True)
    return save(path, ["emotion", "pixels", "Usage"], rows)


def pixels_of(samples: list[SampleRef]) -> np.ndarray:
    found = []
    for sample in samples:
        locator = sample.locator
        assert isinstance(locator, PixelRange), sample
        assert locator.axes == "HWC"[: len(locator.shape)]
        data = storage.read_range(locator.uri, locator.offset, locator.length)
        found.append(np.frombuffer(data, locator.dtype).reshape(locator.shape))
    return np.stack(found)


def test_texts_of_pixels_are_images(listed, tmp_path):
    source, samples = listed(save_fer(tmp_path / "fer2013.csv"))
    assert (source.name, source.description.label_column) == ("pixel_table", "emotion")
    np.testing.assert_array_equal(pixels_of(samples), PIXELS)
    assert [sample.label for sample in samples] == list(map(str, LABELS))
    assert [sample.split for sample in samples] == USAGE
    assert {"splits from column 'Usage'", "labels from column 'emotion'"} <= {
        one for note in source.notes for one in note.partition(": ")[2].split(", ")
    }
    assert [sample.key for sample in samples] == [f"{number:012d}" for number in range(6)]
    assert any("read as pixel_table" in note for note in source.notes)


@pytest.mark.parametrize(
    ("images", "names"),
    [
        (PIXELS, [f"pixel{number}" for number in range(64)]),
        (PIXELS, [f"{row}x{column}" for row in range(1, 9) for column in range(1, 9)]),
        (COLORS, [f"pixel{number:04d}" for number in range(192)]),
    ],
)
def test_a_column_for_each_pixel(listed, tmp_path, images, names):
    rows = [[label, *image.ravel()] for label, image in zip(LABELS, images, strict=True)]
    _, samples = listed(save(tmp_path / "digits.csv", ["label", *names], rows))
    np.testing.assert_array_equal(pixels_of(samples), images)
    assert [sample.label for sample in samples] == list(map(str, LABELS))


@pytest.mark.parametrize("shuffle", [sorted, reversed])
@pytest.mark.parametrize(
    "names",
    [
        [f"pixel{number}" for number in range(64)],
        [f"Px_{number}" for number in range(1, 65)],
        [f"{row}x{column}" for row in range(8) for column in range(8)],
    ],
)
def test_the_numbers_of_the_columns_say_the_order_of_the_pixels(listed, tmp_path, names, shuffle):
    columns = list(shuffle(names))
    pixels = [dict(zip(names, image.ravel(), strict=True)) for image in PIXELS]
    rows = [[label, *(one[name] for name in columns)] for label, one in zip(LABELS, pixels, strict=True)]
    _, samples = listed(save(tmp_path / "digits.csv", ["label", *columns], rows))
    np.testing.assert_array_equal(pixels_of(samples), PIXELS)


def test_the_columns_of_an_oblong_image_say_its_sides(listed, tmp_path):
    names = [f"{row}x{column}" for column in range(1, 9) for row in range(1, 17)]
    image = np.arange(128, dtype=np.uint8).reshape(16, 8)
    _, samples = listed(save(tmp_path / "a.csv", ["label", *names], [[0, *image.T.ravel()]]))
    np.testing.assert_array_equal(pixels_of(samples), image[None])


@pytest.mark.parametrize(
    "names",
    [
        [f"pixel{number}" for number in range(65) if number != 7],
        [f"pixel{number}" for number in range(2, 66)],
        [*(f"pixel{number}" for number in range(63)), "pixel05"],
        [*(f"{cell // 8}x{cell % 8}" for cell in range(63)), "8x8"],
        [*(f"pixel{number}" for number in range(63)), "1x1"],
    ],
)
def test_columns_whose_numbers_do_not_tell_the_places_of_pixels_are_refused(opened, tmp_path, names):
    path = save(tmp_path / "a.csv", ["label", *names], [[0, *range(64)]])
    with refuses("unclear_pixel_columns", "input"):
        opened(path)


def test_other_tables_of_pixels_are_read_if_the_request_says_so(opened, listed, tmp_path):
    table = pa.table({"label": LABELS, "pixels": list(map(text, PIXELS))})
    pq.write_table(table, tmp_path / "a.parquet")
    with refuses("embedded_pixels", "input") as refused:
        suggest_columns(opened(tmp_path / "a.parquet"), needs_label=False)
    (suggestion,) = refused.value.suggestions
    assert suggestion.settings["source"] == "pixel_table"
    _, samples = listed(tmp_path / "a.parquet", source="pixel_table")
    np.testing.assert_array_equal(pixels_of(samples), PIXELS)
    assert [sample.label for sample in samples] == LABELS


@pytest.mark.parametrize("prefix", ["p", "V", "feature_", "img2_", "attr "])
def test_columns_of_other_names_that_hold_such_numbers_are_offered_as_pixels(convert, listed, tmp_path, prefix):
    numbers = sorted(range(1, 65), key=str)
    header = ["label", *(f"{prefix}{number}" for number in numbers)]
    rows = ([label, *image.ravel()[np.array(numbers) - 1]] for label, image in zip(LABELS, PIXELS, strict=True))
    path = save(tmp_path / "rows.csv", header, rows)
    ran = convert(f"--input={path}", f"--output={tmp_path / 'out'}")
    ran.refused("embedded_pixels", "input", says=["8 x 8"])
    assert ran.err.rstrip().endswith("--source=pixel_table")
    np.testing.assert_array_equal(pixels_of(listed(path, source="pixel_table")[1]), PIXELS)


def test_many_numbered_zeros_and_ones_are_no_pixels(convert, tmp_path):
    rows = ([f"{row}.jpg", *(int(number == row) for number in range(64))] for row in range(6))
    path = save(tmp_path / "rows.csv", ["name", *(f"tag_{number}" for number in range(64))], rows)
    ran = convert(f"--input={path}", f"--output={tmp_path / 'out'}")
    ran.refused("missing_image_column", "input", "image_column", "image_path")
    assert "pixels" not in ran.err


def test_rows_without_an_image_are_rejected(listed, tmp_path):
    bad = ["300 " * 64, "1.5 " * 64, "1 2 3", "", "x " * 64]
    rows = [[0, text(PIXELS[0])], *([1, one] for one in bad), [2, text(PIXELS[1][:7, :7])]]
    path = save(tmp_path / "a.csv", ["label", "pixels"], rows)
    path.write_text(path.read_text() + "only one cell\n")
    _, samples = listed(path)
    assert [sample.failure and sample.failure[0] for sample in samples] == [
        None, *["invalid_row"] * 5, None, "invalid_row",
    ]  # fmt: skip
    assert pixels_of(samples[6:7]).shape == (1, 7, 7)


def test_tables_of_something_else_are_no_pixels(opened, touch):
    root = touch("1.jpg")
    numbers = [f"f{number}" for number in range(64)]
    save(root / "paths.csv", ["image", "label", *map(str, range(64))], [["1.jpg", "a", *range(64)]])
    assert opened(root / "paths.csv").name == "csv"
    save(root / "parts.csv", ["image", "label", *map(str, range(7, 80))], [["1.jpg", "a", *range(7, 80)]])
    assert opened(root / "parts.csv").name == "csv"
    save(root / "features.csv", ["label", *numbers], [["a", *range(64)]])
    assert opened(root / "features.csv").name == "csv"
    fer = save_fer(root / "fer.csv")
    assert opened(fer, needs_image=False, label_column="emotion").name == "csv"


def test_a_request_for_pixels_where_there_are_none_is_refused(opened, tmp_path):
    save(tmp_path / "a.csv", ["label", "x"], [["a", "1 2 3"]])
    with refuses("missing_pixel_columns", "input"):
        opened(tmp_path / "a.csv", source="pixel_table")
    save(tmp_path / "c.csv", ["name", "pixels"], [["a", text(PIXELS[0])]])
    with refuses("missing_label_column", "input", "label_column", says=["'label'"]):
        opened(tmp_path / "c.csv")


def test_several_tables_are_read_by_themselves(listed, tmp_path):
    save_fer(tmp_path / "a.csv")
    save(tmp_path / "b.csv", ["emotion", "other"], [[0, 1]])
    _, samples = listed(tmp_path / "a.csv", tmp_path / "b.csv")
    assert len(samples) == 7
    assert samples[-1].failure == ("invalid_row", "the file has no column 'Usage', which the first one has")
