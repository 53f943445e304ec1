"""`inspect` and `verify` of TFRecord files that others have written."""

from __future__ import annotations

import gzip

import pytest

from tests.source_forms import write_form


@pytest.fixture
def records(tmp_path):
    """A folder with a file of four examples."""
    write_form("tfrecord_objects", tmp_path / "records")
    return tmp_path / "records"


@pytest.mark.parametrize("name", ["", "/objects.tfrecord", "/*.tfrecord"])
def test_inspect_shows_the_features_and_examples(records, run, name):
    ran = run("inspect", f"--dataset={records}{name}", "--examples=2")
    assert ran.code == 0, ran.err
    lines = ran.out.splitlines()
    assert lines[0].startswith("1 TFRecord file of ")
    assert "image/encoded            bytes  1 value" in lines
    assert "image/object/bbox/xmin   float  0 to 3 values" in lines
    assert "  image/object/class/text: 'cat', 'person'" in lines
    assert [line for line in lines if line.startswith("example")] == ["example 0", "example 1"]


def test_verify_checks_every_record(records, run):
    ran = run("verify", f"--dataset={records}")
    assert (ran.code, ran.out.partition(" in ")[0]) == (0, "OK: framing and CRCs of 4 records")
    data = (records / "objects.tfrecord").read_bytes()
    (records / "zipped.tfrecord.gz").write_bytes(gzip.compress(data))
    assert "of 8 records in 2 TFRecord files" in run("verify", f"--dataset={records}").out


def test_what_is_damaged_is_found(records, run):
    data = bytearray((records / "objects.tfrecord").read_bytes())
    data[100] ^= 1
    (records / "flipped.tfrecord").write_bytes(data)
    (records / "cut.tfrecord").write_bytes(data[:300])
    (records / "zipped.tfrecord.gz").write_bytes(gzip.compress(data)[:200])
    ran = run("verify", f"--dataset={records}")
    assert ran.code == 1
    assert f"{records}/flipped.tfrecord: record 0 at offset 0: the data's CRC does not match" in ran.out
    assert f"{records}/cut.tfrecord: record 0" in ran.out
    assert f"{records}/zipped.tfrecord.gz: the compressed file is damaged" in ran.out
    assert "7 records are whole" in ran.err
    inspected = run("inspect", f"--dataset={records}/cut.tfrecord")
    assert (inspected.code, inspected.err.count("\n")) == (1, 1)


def test_what_needs_an_index_is_refused(records, run):
    ran = run("inspect", f"--dataset={records}", "--where=sharpness < 20")
    ran.refused("no_index", "where")


def test_a_folder_of_something_else_is_no_dataset(tmp_path, records, run):
    (tmp_path / "a.txt").write_text("a")
    for command in ("inspect", "verify"):
        run(command, f"--dataset={tmp_path}").refused("no_dataset", "output")
    (records / ".build").mkdir()
    run("verify", f"--dataset={records}").refused("no_dataset", "output")
