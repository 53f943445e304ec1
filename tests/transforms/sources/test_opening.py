from __future__ import annotations

import os

import pytest

from tests.refusals import refuses


def test_an_unknown_source_is_refused_with_the_known_ones(tmp_path, opened):
    with refuses("unknown_source", "source", says=["source=folder", "auto, image_folder", "tar, "]):
        opened(tmp_path, source="folder")


@pytest.mark.parametrize("name", ["none", "none.csv", "none/*.jpg", "none/*.csv"])
def test_a_missing_input_is_refused_by_name(tmp_path, opened, name):
    with refuses("not_found", "input", says=["none"]):
        opened(tmp_path / name)


def test_a_scheme_that_no_storage_knows_is_refused(opened):
    with refuses("unreadable_input", "input", says=["input=nowhere://x/y"]):
        opened("nowhere://x/y")


@pytest.mark.parametrize("inputs", [(), ("",)])
def test_no_input_is_refused(opened, inputs):
    with refuses("missing_setting", "input"):
        opened(*inputs)


def test_auto_refuses_a_single_image_and_asks_for_its_folder(touch, opened):
    with refuses("unknown_format", "input", says=["cat.jpg", ".csv", "folder that holds the images"]):
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
    assert table.description.columns == ("image", "label")


def test_a_named_source_reads_a_file_of_any_extension(tmp_path, opened):
    (tmp_path / "table.txt").write_text("image,label\n")
    assert opened(tmp_path / "table.txt", source="csv").name == "csv"


def test_a_file_uri_is_a_local_path(touch, opened, listed):
    root = touch("my photos/cat/1.jpg")
    assert list(listed(opened(f"file://{root}/my%20photos"))) == ["cat/1.jpg"]


def test_a_source_of_files_refuses_folders_and_one_of_folders_refuses_files(touch, opened):
    root = touch("photos.csv/cat/1.jpg", "m.csv")
    with refuses("not_a_file", "input", "source", says=["source=csv"]):
        opened(root / "photos.csv", source="csv")
    with refuses("not_a_folder", "input", "source", says=["source=image_folder"]):
        opened(root / "m.csv", source="image_folder")
    assert opened(root / "photos.csv").name == "image_folder"


def test_inputs_of_different_sources_are_refused(touch, opened, tmp_path):
    root = touch("photos/cat/1.jpg")
    (root / "m.csv").write_text("image,label\n")
    with refuses("sources_differ", "input", says=["photos` is read as image_folder", "m.csv` as csv"]):
        opened(root / "photos", root / "m.csv")


@pytest.mark.parametrize("setting", ["image_column", "label_column", "split_column", "key_column"])
def test_a_column_setting_is_refused_with_a_folder(touch, opened, setting):
    with refuses("setting_not_applicable", setting, "input", says=[f"{setting}=x", "image_folder"]):
        opened(touch("cat/1.jpg"), **{setting: "x"})


def test_a_layout_of_all_columns_may_be_used_with_a_folder(touch, opened):
    assert opened(touch("cat/1.jpg"), columns=None).description.columns == ()


def test_a_pattern_and_its_source_need_each_other(touch, opened):
    root = touch("cat/1.jpg")
    with refuses("needs_setting", "source", "label_pattern"):
        opened(root, source="filename_pattern")
    with refuses("setting_not_applicable", "label_pattern", "input", says=["image_folder"]):
        opened(root, source="image_folder", label_pattern="(?P<label>cat)")


def test_settings_of_folders_are_refused_with_a_table(tmp_path, opened):
    (tmp_path / "m.csv").write_text("image,label\n")
    with refuses("setting_not_applicable", "label_pattern", "input", "label_column", says=["csv"]):
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
    with refuses("not_a_file", "input", says=["b.csv"]):
        opened(tmp_path / "*.csv")


@pytest.mark.parametrize("name", ["a.csv", "a.tar"])
def test_a_file_name_that_is_not_utf8_is_refused(touch, opened, name):
    (touch() / os.fsdecode(b"\xff" + name.encode())).write_text("label\n1\n")
    with refuses("not_utf8", "input"):
        opened(touch() / f"*{name}")
