from __future__ import annotations

import pytest

from transforms.errors import RequestError


@pytest.mark.parametrize("name", ["tar", "zip", "tfrecord", "coco", "voc", "yolo"])
def test_a_source_of_later_work_is_refused_with_those_that_can_be_read(tmp_path, opened, name):
    with pytest.raises(RequestError, match=rf"--source={name}.*cannot read {name} yet.*image_folder.*csv.*parquet"):
        opened(tmp_path, source=name)


@pytest.mark.parametrize("name", ["photos.tar", "photos.tar.gz", "photos.zip", "a.tfrecord"])
def test_auto_says_of_an_archive_that_it_cannot_be_read_yet(touch, opened, name):
    with pytest.raises(RequestError, match=r"cannot read \w+ yet"):
        opened(touch(name) / name)


def test_an_unknown_source_is_refused_with_the_known_ones(tmp_path, opened):
    with pytest.raises(RequestError, match=r"--source=folder is not known; known are auto, image_folder.*, yolo"):
        opened(tmp_path, source="folder")


@pytest.mark.parametrize("name", ["none", "none.csv", "none/*.jpg", "none/*.csv"])
def test_a_missing_input_is_refused_by_name(tmp_path, opened, name):
    with pytest.raises(RequestError, match=r"--input=.*none"):
        opened(tmp_path / name)


def test_a_scheme_that_no_storage_knows_is_refused(opened):
    with pytest.raises(RequestError, match="--input=nowhere://x/y cannot be read"):
        opened("nowhere://x/y")


@pytest.mark.parametrize("inputs", [(), ("",)])
def test_no_input_is_refused(opened, inputs):
    with pytest.raises(RequestError, match="--input is missing"):
        opened(*inputs)


def test_auto_says_why_it_takes_no_image_for_a_manifest(touch, opened):
    with pytest.raises(RequestError, match=r"cat\.jpg is a file.*folder that holds the images"):
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
def test_auto_takes_a_manifest_by_its_extension(tmp_path, opened, name, text, source):
    (tmp_path / name).write_text(text)
    manifest = opened(tmp_path / name)
    assert manifest.name == source
    assert manifest.columns == ("image", "label")


def test_a_named_source_reads_a_file_of_any_extension(tmp_path, opened):
    (tmp_path / "table.txt").write_text("image,label\n")
    assert opened(tmp_path / "table.txt", source="csv").name == "csv"


def test_a_file_uri_is_a_local_path(touch, opened, listed):
    root = touch("my photos/cat/1.jpg")
    assert list(listed(opened(f"file://{root}/my%20photos"))) == ["cat/1.jpg"]


def test_a_folder_is_no_manifest_and_a_file_is_no_folder(touch, opened):
    root = touch("photos.csv/cat/1.jpg", "m.csv")
    with pytest.raises(RequestError, match=r"is a folder; --source=csv reads a file"):
        opened(root / "photos.csv", source="csv")
    with pytest.raises(RequestError, match=r"is a file; --source=image_folder reads a folder"):
        opened(root / "m.csv", source="image_folder")
    assert opened(root / "photos.csv").name == "image_folder"


def test_inputs_of_different_kinds_are_refused(touch, opened, tmp_path):
    root = touch("photos/cat/1.jpg")
    (root / "m.csv").write_text("image,label\n")
    with pytest.raises(RequestError, match=r"photos is read as image_folder, but .*m\.csv as csv"):
        opened(root / "photos", root / "m.csv")


@pytest.mark.parametrize("flag", ["image_column", "label_column", "split_column", "key_column"])
def test_a_column_of_a_folder_is_refused(touch, opened, flag):
    with pytest.raises(RequestError, match=rf"--{flag}=x names a manifest's column"):
        opened(touch("cat/1.jpg"), **{flag: "x"})


def test_a_layouts_column_of_a_folder_is_refused(touch, opened):
    with pytest.raises(RequestError, match=r"column\.age.*no columns"):
        opened(touch("cat/1.jpg"), columns=frozenset({"age"}))


def test_a_layout_that_takes_all_columns_goes_with_a_folder(touch, opened):
    assert opened(touch("cat/1.jpg"), columns=None).columns == ()


def test_the_pattern_and_its_source_go_together(touch, opened):
    root = touch("cat/1.jpg")
    with pytest.raises(RequestError, match="needs --label_pattern"):
        opened(root, source="filename_pattern")
    with pytest.raises(RequestError, match="exclude each other"):
        opened(root, source="image_folder", label_pattern="(?P<label>cat)")


def test_flags_for_folders_are_refused_with_a_manifest(tmp_path, opened):
    (tmp_path / "m.csv").write_text("image,label\n")
    with pytest.raises(RequestError, match=r"--label_pattern.*csv manifest.*--label_column"):
        opened(tmp_path / "m.csv", label_pattern="(?P<label>cat)")
    with pytest.raises(RequestError, match=r"--splits names folders \(training\).*--split_column"):
        opened(tmp_path / "m.csv", split_folders={"training": "train"})


def test_a_glob_of_manifests_reads_them_all_in_the_order_of_their_names(tmp_path, opened, listed):
    (tmp_path / "b.csv").write_text("label\n3\n")
    (tmp_path / "a.csv").write_text("label\n1\n2\n")
    samples = listed(opened(tmp_path / "*.csv"))
    assert {key: sample.label for key, sample in samples.items()} == {
        "a.csv/000000000000": "1",
        "a.csv/000000000001": "2",
        "b.csv/000000000000": "3",
    }
    assert list(samples) == sorted(samples)


def test_a_glob_of_one_manifest_has_the_keys_that_it_will_have_with_two(tmp_path, opened, listed):
    (tmp_path / "a.csv").write_text("label\n1\n")
    assert list(listed(opened(tmp_path / "*.csv"))) == ["a.csv/000000000000"]
