"""Encodings, compression and delimiters of tables are found, or taken from the request."""

from __future__ import annotations

import codecs
import contextlib
import encodings.aliases
import gzip
import json
import re
from collections.abc import Iterator

import pytest

from beam_tfrecords.transforms.sources.tables import text_file, text_table
from beam_tfrecords.transforms.sources.tables.text_file import find_encoding
from tests.refusals import refuses

TEXT = "image,label\na.jpg,Hündin\nb.jpg,Kätzchen\n"
ROWS = [("a.jpg", "Hündin"), ("b.jpg", "Kätzchen")]


@pytest.fixture
def write(touch, tmp_path):
    def make(data: bytes, name: str = "labels.csv"):
        touch("a.jpg", "b.jpg")
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    return make


def pairs(source):
    return [(sample.key, sample.label) for sample in source.samples()]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_unicode_is_found_without_a_note(write, opened, encoding):
    source = opened(write(TEXT.encode(encoding)))
    assert pairs(source) == ROWS
    assert source.notes == []


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
def test_latin_1_and_windows_1252_are_found_with_a_note(write, opened, encoding):
    source = opened(write(TEXT.encode(encoding)))
    assert pairs(source) == ROWS
    (note,) = source.notes
    assert "labels.csv: not UTF-8, read as Windows-1252; `encoding` names another" in note


def test_another_encoding_is_taken_from_the_request(write, opened):
    source = opened(write("image,label\na.jpg,猫\n".encode("shift_jis")), encoding="shift_jis")
    assert pairs(source) == [("a.jpg", "猫")]


def test_one_damaged_row_does_not_change_the_encoding(write, opened):
    source = opened(write(TEXT.encode() + b"c.jpg,caf\xe9\n"))
    assert [sample.failure and sample.failure[0] for sample in source.samples()] == [None, None, "invalid_row"]


def test_a_character_that_the_sample_cuts_is_no_damage():
    assert find_encoding("a,é".encode()[:-1]) == "utf-8"


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_a_delimiter_is_found_with_a_note(write, opened, delimiter):
    text = TEXT.replace(",", delimiter).replace("a.jpg", '"a.jpg"')
    source = opened(write(text.encode()))
    assert pairs(source) == ROWS
    (note,) = source.notes
    assert "cells are separated by" in note


def test_a_comma_in_the_cells_of_a_semicolon_table_is_no_delimiter(write, opened):
    source = opened(write(b"image;label;score\na.jpg;cat;1,5\nb.jpg;dog;2,5\n"))
    assert source.description.columns == ("image", "label", "score")


def test_a_semicolon_in_the_cells_of_a_comma_table_is_no_delimiter(write, opened):
    source = opened(write(b"image,label,note\na.jpg,cat,x;y\nb.jpg,dog,y;z\n"))
    assert source.description.columns == ("image", "label", "note")


def test_a_tsv_file_has_tabs(write, opened):
    source = opened(write(TEXT.replace(",", "\t").encode(), "labels.tsv"))
    assert (pairs(source), source.notes) == (ROWS, [])


def test_the_delimiter_of_the_request_is_taken(write, opened):
    assert pairs(opened(write(TEXT.replace(",", ":").encode()), delimiter=":")) == ROWS


def test_spaces_after_delimiters_are_no_part_of_names_and_cells(write, opened):
    source = opened(write(b'image, label\na.jpg, "cat"\nb.jpg, dog\n'))
    assert source.description.columns == ("image", "label")
    assert pairs(source) == [("a.jpg", "cat"), ("b.jpg", "dog")]


@pytest.mark.parametrize("name", ["labels.csv.gz", "labels.TSV.gz", "labels.jsonl.gz"])
def test_gzip_is_read(write, opened, name):
    text = TEXT.replace(",", "\t") if "TSV" in name else TEXT
    if "jsonl" in name:
        text = "".join(json.dumps({"image": image, "label": label}) + "\n" for image, label in ROWS)
    assert pairs(opened(write(gzip.compress(text.encode()), name))) == ROWS


def test_what_is_no_gzip_is_refused(write, opened):
    with refuses("invalid_file", "input", says=["labels.csv.gz"]):
        opened(write(TEXT.encode(), "labels.csv.gz"))


@pytest.mark.nightly
def test_a_gzip_file_that_is_cut_is_damaged(write, opened):
    rows = "".join(f"{number}.jpg,{number * 7919 % 1009}\n" for number in range(400_000))
    source = opened(
        write(gzip.compress(f"image,label\n{rows}".encode(), 1)[:-1000], "labels.csv.gz"), key_column="image"
    )
    *rows, last = source.samples()
    (damage,) = source.skipped.damaged
    assert re.search(r"labels\.csv\.gz cannot be read beyond line [\d,]+: Compressed file ended", damage.detail)
    assert damage.samples == len(rows) > 100_000
    assert last.failure == ("truncated", damage.detail)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("labels.csv", "image,label\na.jpg,cat\nb.jp"),
        ("labels.csv", 'image,label\na.jpg,cat\nb.jpg,"do'),
        ("labels.csv", 'image,label\na.jpg,cat\nb.jpg,"two\nlin'),
        ("labels.csv", "image,label\r\na.jpg,cat\r\nb"),
        ("labels.jsonl", '{"image": "a.jpg", "label": "cat"}\n{"image": "b.j'),
    ],
)
def test_a_table_that_ends_within_a_row_is_damaged(write, opened, name, text):
    source = opened(write(text.encode(), name))
    samples = list(source.samples())
    assert samples[0].failure is None
    assert [sample.key for sample in samples[1:] if sample.failure is None] == []
    (damage,) = source.skipped.damaged
    lines = text.count("\n") + 1
    assert damage.detail.startswith(f"the file ends within line {lines}: line ")


@pytest.mark.parametrize("end", ["", "\n", "\n\n"])
@pytest.mark.parametrize(
    ("name", "row"), [("labels.csv", "a.jpg,cat"), ("labels.jsonl", '{"image": "a.jpg", "label": "cat"}')]
)
def test_a_table_need_not_end_with_a_line_end(write, opened, name, row, end):
    head = "image,label\n" if name.endswith("csv") else ""
    source = opened(write(f"{head}{row}{end}".encode(), name))
    assert [sample.failure for sample in source.samples()] == [None]
    assert source.skipped.damaged == []


def test_an_invalid_row_that_has_its_line_end_is_not_the_end_of_the_table(write, opened):
    source = opened(write(b"image,label\na.jpg,cat\nb.jpg\n"))
    assert [bool(sample.failure) for sample in source.samples()] == [False, True]
    assert source.skipped.damaged == []


def test_a_jsonl_file_in_utf_16_is_read(write, opened):
    assert pairs(opened(write('{"image": "a.jpg", "label": "Hündin"}\n'.encode("utf-16"), "labels.jsonl"))) == ROWS[:1]


def test_a_table_of_numbers_without_a_header_is_refused(write, opened):
    with refuses("missing_header", "input", says=["image,label"]):
        opened(write(b"0,1,2\n1,2,3\n"))


@pytest.mark.parametrize("rows", ["a.jpg,cat\nb.jpg,dog\n", "a.jpg;cat\nb.jpg;dog\n", '"a.jpg",cat\nb.jpg,dog\n'])
def test_a_table_without_a_header_gets_names_for_its_columns(write, opened, rows):
    source = opened(write(rows.encode()))
    assert [sample.label for sample in source.samples()] == ["cat", "dog"]
    assert any(note.endswith("no header, read as the columns image, label") for note in source.notes)


def test_the_only_row_of_a_table_without_a_header_is_read(write, opened):
    (sample,) = opened(write(b"a.jpg,cat\n")).samples()
    assert sample.label == "cat"


def test_a_compressed_row_without_an_end_is_not_read_to_it(tmp_path, opened, monkeypatch):
    monkeypatch.setattr(text_file, "_MOST_SKIPPED", 8 << 20)
    with gzip.open(tmp_path / "a.csv.gz", "wb", compresslevel=1) as file:
        file.write(b"image,label\n1.jpg,cat\n" + b"x" * (40 << 20) + b"\n2.jpg,dog\n")
    *_, last = opened(tmp_path / "a.csv.gz").samples()
    assert "it has no end" in last.failure[1]


def test_ranges_are_cut_where_no_byte_changes_the_meaning_of_the_next():
    kept = {name for name in text_encodings() if text_table._keeps_lines(name)}
    for name in kept - {"utf-8", "utf-8-sig"}:
        for first in range(128, 256):
            found = bytes(byte for second in range(128) for byte in (first, second)).decode(name, "replace")
            assert found[1::2] == bytes(range(128)).decode()
    assert kept >= {"utf-8", "ascii", "iso8859-1", "cp1252", "koi8-r", "mac-roman"}
    assert not kept & {"utf-16", "utf-16-le", "utf-32", "utf-7", "hz", "shift_jis", "gbk", "big5", "cp037"}
    # Its characters are pairs of ASCII bytes, quotes too.
    assert not [name for name in kept if name.startswith("iso2022")]


def text_encodings() -> Iterator[str]:
    for name in set(encodings.aliases.aliases.values()):
        with contextlib.suppress(LookupError, ValueError):  # of another system, or of bytes
            b"a".decode(name)
            yield codecs.lookup(name).name
