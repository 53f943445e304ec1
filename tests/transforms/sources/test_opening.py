from __future__ import annotations

import os

import pytest

from beam_tfrecords.errors import RequestError


def test_an_unknown_source_is_refused_with_the_known_ones(tmp_path, opened):
    with pytest.raises(RequestError, match=r"`source=folder`: unknown source; expected one of auto, image.*tar, "):
        opened(tmp_path, source="folder")


@pytest.mark.parametrize("name", ["none", "none.csv", "none/*.jpg", "none/*.csv"])
def test_a_missing_input_is_refused_by_name(tmp_path, opened, name):
    with pytest.raises(RequestError, match=r"`input=.*none"):
        opened(tmp_path / name)


def test_a_scheme_that_no_storage_knows_is_refused(opened):
    with pytest.raises(RequestError, match="`input=nowhere://x/y` cannot be read"):
        opened("nowhere://x/y")


@pytest.mark.parametrize("inputs", [(), ("",)])
def test_no_input_is_refused(opened, inputs):
    with pytest.raises(RequestError, match="`input` is missing; expected folder"):
        opened(*inputs)


def test_auto_refuses_a_single_image_and_asks_for_its_folder(touch, opened):
    with pytest.raises(RequestError, match=r"cat\.jpg` is a file without the ext.*\.csv.*folder that holds the images"):
        opened(touch("cat.jpg") / "cat.jpg")


@pytest.mark.parametrize(
    ("name", "text", "source"),
    [
        ("m.csv", "image,label\n", "csv"),
        ("M.TSV", "image\tlabel\n", "csv"),
        ("m.jsonl", '{"image": "a", "label": 1}\n', "jsonl"),
        ("m.ndjson", '{"image": "a", "label": 1}\n', "jsonl"),
    ],
)
def test_auto_chooses_the_source_of_a_table_by_its_extension(tmp_path, opened, name, text, source):
    (tmp_path / name).write_text(text)
    table = opened(tmp_path / name)
    assert table.name == source
    assert table.columns == ("image", "label")


def test_a_named_source_reads_a_file_of_any_extension(tmp_path, opened):
    (tmp_path / "table.txt").write_text("image,label\n")
    assert opened(tmp_path / "table.txt", source="csv").name == "csv"


def test_a_file_uri_is_a_local_path(touch, opened, listed):
    root = touch("my photos/cat/1.jpg")
    assert list(listed(opened(f"file://{root}/my%20photos"))) == ["cat/1.jpg"]


def test_a_source_of_files_refuses_folders_and_one_of_folders_refuses_files(touch, opened):
    root = touch("photos.csv/cat/1.jpg", "m.csv")
    with pytest.raises(RequestError, match=r"is a folder; `source=csv` reads files"):
        opened(root / "photos.csv", source="csv")
    with pytest.raises(RequestError, match=r"is a file; `source=image_folder` reads a folder"):
        opened(root / "m.csv", source="image_folder")
    assert opened(root / "photos.csv").name == "image_folder"


def test_inputs_of_different_sources_are_refused(touch, opened, tmp_path):
    root = touch("photos/cat/1.jpg")
    (root / "m.csv").write_text("image,label\n")
    with pytest.raises(RequestError, match=r"photos` is read as image_folder, but .*m\.csv` as csv"):
        opened(root / "photos", root / "m.csv")


@pytest.mark.parametrize("setting", ["image_column", "label_column", "split_column", "key_column"])
def test_a_column_setting_is_refused_with_a_folder(touch, opened, setting):
    with pytest.raises(RequestError, match=rf"`{setting}=x`: .*is read as image_folder, which has no columns"):
        opened(touch("cat/1.jpg"), **{setting: "x"})


def test_a_layout_of_all_columns_may_be_used_with_a_folder(touch, opened):
    assert opened(touch("cat/1.jpg"), columns=None).columns == ()


def test_a_pattern_and_its_source_need_each_other(touch, opened):
    root = touch("cat/1.jpg")
    with pytest.raises(RequestError, match="needs `label_pattern`"):
        opened(root, source="filename_pattern")
    with pytest.raises(RequestError, match="image_folder, which takes no `label_pattern`; leave it out"):
        opened(root, source="image_folder", label_pattern="(?P<label>cat)")


def test_settings_of_folders_are_refused_with_a_table(tmp_path, opened):
    (tmp_path / "m.csv").write_text("image,label\n")
    with pytest.raises(RequestError, match=r"`label_pattern=.*is read as csv, which has no folders.*`label_column`"):
        opened(tmp_path / "m.csv", label_pattern="(?P<label>cat)")


def test_a_glob_of_tables_reads_all_of_them_sorted_by_name(tmp_path, opened, listed):
    (tmp_path / "b.csv").write_text("label\n3\n")
    (tmp_path / "a.csv").write_text("label\n1\n2\n")
    samples = listed(opened(tmp_path / "*.csv"))
    assert {key: sample.label for key, sample in samples.items()} == {
        "a.csv/000000000000": "1",
        "a.csv/000000000001": "2",
        "b.csv/000000000000": "3",
    }
    assert list(samples) == sorted(samples)


def test_a_glob_of_one_table_gives_the_keys_that_it_will_have_with_two(tmp_path, opened, listed):
    (tmp_path / "a.csv").write_text("label\n1\n")
    assert list(listed(opened(tmp_path / "*.csv"))) == ["a.csv/000000000000"]


def test_a_glob_that_matches_a_broken_link_is_refused(tmp_path, opened):
    (tmp_path / "a.csv").write_text("label\n1\n")
    (tmp_path / "b.csv").symlink_to("nowhere.csv")
    with pytest.raises(RequestError, match=r"b\.csv` is not a regular file, or is a broken link"):
        opened(tmp_path / "*.csv")


@pytest.mark.parametrize("name", ["a.csv", "a.tar"])
def test_a_file_name_that_is_not_utf8_is_refused(touch, opened, name):
    (touch() / os.fsdecode(b"\xff" + name.encode())).write_text("label\n1\n")
    with pytest.raises(RequestError, match="is not valid UTF-8"):
        opened(touch() / f"*{name}")
