from __future__ import annotations

import os
import tracemalloc

import pytest

from beam_tfrecords import storage
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.refs.ref_columns import RefColumns, one_by_one
from beam_tfrecords.transforms.refs.sample_refs import File, SampleRef, one_image
from beam_tfrecords.transforms.sources.folders.image_folder import ImageFolder
from beam_tfrecords.transforms.sources.folders.roots import Root
from beam_tfrecords.transforms.sources.inputs import Inputs
from beam_tfrecords.transforms.sources.partition import WHOLE, StagingFiles
from beam_tfrecords.transforms.sources.source import OpenRequest
from beam_tfrecords.transforms.sources.tally import Tally
from beam_tfrecords.transforms.splits import Splits
from tests.refusals import refuses
from tests.source_requests import FRACTIONS, make_request


def labels(samples):
    return {key: sample.label for key, sample in samples.items()}


def splits(samples):
    return {key: sample.split for key, sample in samples.items()}


def test_the_class_is_the_first_folder_below_the_root(touch, opened, listed):
    root = touch("cat/1.jpg", "cat/old/scans/2.PNG", "dog/1.jpg")
    source = opened(root)
    assert source.name == "image_folder"
    assert (source.description.provides, source.description.columns, source.description.column_types) == (
        {Content.IMAGE, Content.LABEL},
        (),
        None,
    )
    assert (source.description.unit, source.description.labels.may_be_indices, source.containers()) == (
        "image",
        False,
        None,
    )
    assert labels(listed(source)) == {"cat/1.jpg": "cat", "cat/old/scans/2.PNG": "cat", "dog/1.jpg": "dog"}


def test_a_reference_has_the_locator_size_and_fingerprint_of_its_file(touch, opened, listed):
    root = touch("cat/1.jpg")
    sample = listed(opened(root))["cat/1.jpg"]
    entry = storage.stat(str(root / "cat/1.jpg"))
    assert (sample.locator, sample.size, sample.fingerprint) == (File(entry.path, entry.version), 6, entry.fingerprint)


def test_hidden_files_and_files_without_an_image_extension_are_skipped_and_counted(touch, opened, listed):
    root = touch("cat/1.jpg", "cat/a.TXT", "cat/b.txt", ".git/x.jpg", "cat/.DS_Store", "cat/.old/1.jpg", "cat/x.")
    source = opened(root)
    assert list(listed(source)) == ["cat/1.jpg"]
    assert dict(source.skipped.counts) == {".txt": 2, "hidden": 3, ".": 1}
    assert sorted(source.skipped.examples[".txt"]) == ["cat/a.TXT", "cat/b.txt"]


def test_images_without_an_extension_are_samples(touch, opened, listed):
    root = touch("cat/0a1b2c")
    (root / "cat/0a1b2c").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert list(listed(opened(root))) == ["cat/0a1b2c"]


def test_a_million_odd_extensions_are_counted_in_bounded_memory(touch, opened):
    source = opened(touch("cat/1.jpg", *(f"cat/frame.{number:04d}" for number in range(300))))
    assert len(list(source.samples())) == 1
    assert source.skipped.counts["other"] == 200
    assert len(source.skipped.counts) == 101


def test_unicode_names_stay_as_they_are(touch, opened, listed):
    samples = listed(opened(touch("猫/café ☕.jpg", "e\u0301/1.jpg")))
    assert labels(samples) == {"猫/café ☕.jpg": "猫", "e\u0301/1.jpg": "e\u0301"}


def test_a_name_that_is_not_utf8_is_rejected_under_a_printable_key(touch, opened, listed):
    root = touch("cat/1.jpg")
    (root / os.fsdecode(b"cat/caf\xe9.jpg")).write_bytes(b"pixels")
    (root / os.fsdecode(b"cat/caf\xe9.t\xe9t")).write_bytes(b"text")
    source = opened(root)
    samples = listed(source)
    assert sorted(samples) == ["cat/1.jpg", "cat/caf\\xe9.jpg"]
    failure = samples["cat/caf\\xe9.jpg"].failure
    assert failure is not None
    assert failure[0] == "unreadable"
    assert dict(source.skipped.counts) == {".t\\xe9t": 1}


def test_an_input_that_is_not_utf8_is_refused(tmp_path, opened):
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    with refuses("not_utf8", "input"):
        opened(folder)


def test_broken_links_and_pipes_are_rejected_samples(touch, opened, listed):
    root = touch("cat/1.jpg")
    (root / "cat/gone.jpg").symlink_to("nowhere.jpg")
    (root / "cat/itself.jpg").symlink_to("itself.jpg")
    os.mkfifo(root / "cat/pipe.jpg")
    samples = listed(opened(root))
    rejected = {key for key, sample in samples.items() if sample.failure}
    assert rejected == {"cat/gone.jpg", "cat/itself.jpg", "cat/pipe.jpg"}
    assert all(sample.size >= 0 for sample in samples.values())


def test_links_to_files_and_folders_are_followed(touch, opened, listed):
    root = touch("photos/cat/1.jpg", "elsewhere/2.jpg")
    (root / "photos/dog").symlink_to(root / "elsewhere")
    assert labels(listed(opened(root / "photos"))) == {"cat/1.jpg": "cat", "dog/2.jpg": "dog"}


def test_images_beside_class_folders_have_no_label(touch, opened, listed):
    assert labels(listed(opened(touch("1.jpg", "cat/2.jpg")))) == {"1.jpg": None, "cat/2.jpg": "cat"}


def test_a_flat_folder_is_refused_with_what_else_can_give_the_labels(touch, opened, listed):
    with refuses("no_class_folders", "input", "label_pattern", says=["directly in it", "`layout="]):
        listed(opened(touch("1.jpg", "2.jpg", "docs/read.txt")))


def test_flat_split_folders_are_refused(touch, opened, listed):
    with refuses("no_class_folders", "input", "label_pattern", says=["split folders"]):
        listed(opened(touch("train/1.jpg", "test/2.jpg")))


def test_a_flat_folder_is_read_where_no_label_is_needed(touch, opened, listed):
    assert labels(listed(opened(touch("1.jpg"), needs_label=False))) == {"1.jpg": None}


def test_an_empty_folder_lists_nothing(tmp_path, opened):
    assert list(opened(tmp_path).samples()) == []


def test_a_folder_of_other_files_lists_nothing_and_counts_them(touch, opened):
    source = opened(touch("a/1.txt", "2.md"))
    assert list(source.samples()) == []
    assert dict(source.skipped.counts) == {".txt": 1, ".md": 1}


# Splits


def test_split_folders_are_found_and_the_class_is_the_folder_below(touch, opened, listed):
    samples = listed(opened(touch("train/cat/1.jpg", "train/cat/old/3.jpg", "val/cat/2.jpg", "test/cat/4.jpg")))
    assert set(labels(samples).values()) == {"cat"}
    assert splits(samples) == {
        "train/cat/1.jpg": "train",
        "train/cat/old/3.jpg": "train",
        "val/cat/2.jpg": "validation",
        "test/cat/4.jpg": "test",
    }


def test_both_names_of_validation_may_be_there(touch, opened, listed):
    samples = listed(opened(touch("val/cat/1.jpg", "validation/cat/2.jpg")))
    assert set(splits(samples).values()) == {"validation"}


def test_a_single_class_called_train_is_a_class(touch, opened, listed):
    samples = listed(opened(touch("car/1.jpg", "plane/2.jpg", "train/3.jpg")))
    assert labels(samples) == {"car/1.jpg": "car", "plane/2.jpg": "plane", "train/3.jpg": "train"}
    assert set(splits(samples).values()) == {None}


def test_folders_without_images_do_not_stop_split_folders_from_being_found(touch, opened, listed):
    source = opened(touch("train/cat/1.jpg", "test/cat/2.jpg", "docs/read.txt", ".cache/x.jpg"))
    assert splits(listed(source)) == {"train/cat/1.jpg": "train", "test/cat/2.jpg": "test"}
    assert dict(source.skipped.counts) == {".txt": 1, "hidden": 1}


def test_two_split_folders_beside_others_are_ambiguous(touch, opened, listed):
    with refuses("split_or_class", "input", says=["test, train", "'extra'"]):
        listed(opened(touch("train/cat/1.jpg", "test/cat/2.jpg", "extra/3.jpg")))


def test_images_beside_the_split_folders_found_are_rejected_samples(touch, opened, listed):
    samples = listed(opened(touch("train/cat/1.jpg", "test/cat/2.jpg", "3.jpg")))
    assert samples["3.jpg"].failure == ("unknown_split", "beside the split folders, not in one of them")


def test_without_auto_split_folders_are_classes_if_the_request_names_them(touch, opened, listed):
    root = touch("train/cat/1.jpg", "test/2.jpg")
    samples = listed(opened(root, splits=FRACTIONS, class_names=("test", "train")))
    assert labels(samples) == {"train/cat/1.jpg": "train", "test/2.jpg": "test"}
    assert set(splits(samples).values()) == {None}


def test_files_outside_named_split_folders_are_skipped_and_counted(touch, opened, listed):
    root = touch("training_data/joy/1.jpg", "crossvalidation_data/joy/2.jpg", "spare/joy/3.jpg", "4.jpg", "n.txt")
    source = opened(root, splits=Splits(folders={"training_data": "train", "crossvalidation_data/": "validation"}))
    samples = listed(source)
    assert splits(samples) == {"training_data/joy/1.jpg": "train", "crossvalidation_data/joy/2.jpg": "validation"}
    assert set(labels(samples).values()) == {"joy"}
    assert dict(source.skipped.counts) == {"outside the split folders": 2, ".txt": 1}


def test_a_split_folder_that_does_not_exist_is_refused_with_those_that_do(touch, opened):
    with refuses("unknown_split", "splits", "input", says=["'training'", "dev, train"]):
        opened(
            touch("train/cat/1.jpg", "dev/cat/2.jpg", "3.jpg", ".git/x"), splits=Splits(folders={"training": "train"})
        )


# Patterns


def test_a_pattern_reads_the_label_from_the_key(touch, opened, listed):
    root = touch("apple01.jpg", "orange07.jpg", "sub/apple02.jpg", "pear.jpg")
    source = opened(root, label_pattern="(?P<label>apple|orange)")
    assert source.name == "filename_pattern"
    assert labels(listed(source)) == {
        "apple01.jpg": "apple",
        "orange07.jpg": "orange",
        "sub/apple02.jpg": "apple",
        "pear.jpg": None,
    }


def test_a_pattern_works_below_split_folders(touch, opened, listed):
    samples = listed(opened(touch("train/cat-1.jpg", "test/dog-2.jpg"), label_pattern=r"/(?P<label>\w+)-"))
    assert labels(samples) == {"train/cat-1.jpg": "cat", "test/dog-2.jpg": "dog"}
    assert splits(samples) == {"train/cat-1.jpg": "train", "test/dog-2.jpg": "test"}


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("(apple|orange)", "missing_group"),
        ("(?P<label>apple", "invalid_value"),
        ("(?P<label>a{99999999999})", "invalid_value"),
    ],
)
def test_a_pattern_that_cannot_give_labels_is_refused(touch, opened, pattern, code):
    with refuses(code, "label_pattern"):
        opened(touch("apple01.jpg"), label_pattern=pattern)


# Globs and several inputs


def test_keys_of_a_glob_are_relative_to_the_folder_before_the_first_wildcard(touch, opened, listed):
    root = touch("photos/cat/1.jpg", "photos/cat/2.png", "photos/dog/3.jpg", "other/4.jpg")
    assert labels(listed(opened(root / "photos/**/*.jpg"))) == {"cat/1.jpg": "cat", "dog/3.jpg": "dog"}
    assert labels(listed(opened(root / "photos/c?t/*"))) == {"cat/1.jpg": "cat", "cat/2.png": "cat"}


def test_a_glob_of_images_without_folders_is_flat(touch, opened, listed):
    root = touch("1.jpg", "cat/2.jpg")
    with refuses("no_class_folders", "input", "label_pattern", says=["directly in it"]):
        listed(opened(root / "*.jpg"))
    assert labels(listed(opened(root / "*.jpg", label_pattern=r"(?P<label>\d)"))) == {"1.jpg": "1"}


def test_a_glob_looks_for_split_folders_only_where_it_leads(touch, opened, listed):
    root = touch("train/cat/1.jpg", "test/cat/2.jpg", "extra/3.jpg")
    assert splits(listed(opened(root / "t*/*/*.jpg"))) == {"train/cat/1.jpg": "train", "test/cat/2.jpg": "test"}


def test_a_folder_with_wildcard_characters_in_its_name_is_a_folder(touch, opened, listed):
    root = touch("trip [2020]/cat/1.jpg", "trip 2/dog/2.jpg")
    assert list(listed(opened(root / "trip [2020]"))) == ["cat/1.jpg"]


def test_keys_of_several_inputs_begin_with_their_folders_names(touch, opened, listed):
    root = touch("a/cat/1.jpg", "b/cat/1.jpg")
    assert labels(listed(opened(root / "a", f"{root}/b/"))) == {"a/cat/1.jpg": "cat", "b/cat/1.jpg": "cat"}


def test_keys_of_inputs_with_the_same_name_begin_with_the_folders_around_them_too(touch, opened, listed):
    root = touch("x/photos/cat/1.jpg", "y/photos/cat/1.jpg")
    keys = {"x/photos/cat/1.jpg": "cat", "y/photos/cat/1.jpg": "cat"}
    assert labels(listed(opened(root / "x/photos", root / "y/photos"))) == keys


def test_an_input_that_is_given_twice_is_refused(touch, opened):
    root = touch("photos/cat/1.jpg", "photos/cat/2.png")
    with refuses("duplicate_key_prefix", "input", says=["/photos"]):
        opened(root / "photos/**/*.jpg", root / "photos/**/*.png")


@pytest.mark.nightly
def test_the_listing_takes_the_same_memory_for_many_files_as_for_few(touch):
    root = touch(*(f"{folder}/{number}.jpg" for folder in "abcd" for number in range(1000)))

    def peak(source: ImageFolder) -> int:
        tracemalloc.start()
        for _ in source.samples():
            pass
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    def listing_of(folder: str) -> ImageFolder:
        spec, needs = make_request(folder)
        return ImageFolder([Root(folder, folder)], OpenRequest(spec, Inputs([folder]), needs, ()), needs)

    few = peak(listing_of(f"{root}/a"))
    assert peak(listing_of(str(root))) < few + 20_000


def test_images_of_a_folder_are_listed_by_column(touch, opened):
    names = [f"{kind}/{number}.jpg" for kind in ("cat", "dog") for number in range(300)]
    root = touch(*names, "dog/notes.txt")
    os.symlink(root / "nowhere", root / "cat/300.jpg")
    found = list(opened(root, source="image_folder").source.read(WHOLE, Tally(), StagingFiles("", "")))
    batches = [refs for refs in found if isinstance(refs, RefColumns)]
    assert sum(map(len, batches)) == 600
    assert max(map(len, batches)) == 256
    (broken,) = (ref for ref in found if not isinstance(ref, RefColumns))
    assert (broken.key, broken.failure[0]) == ("cat/300.jpg", "unreadable")
    refs = {ref.key: ref for ref in one_by_one(found)}
    assert refs.keys() == {*names, "cat/300.jpg"}
    entry = storage.stat(str(root / "dog/7.jpg"))
    place = one_image(File(entry.path, entry.version))
    assert refs["dog/7.jpg"] == SampleRef("dog/7.jpg", place, entry.size, entry.fingerprint)
