"""WebDataset as a source: which members are a sample, what their suffixes say, and what is refused."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from beam_tfrecords import storage
from beam_tfrecords.transforms.refs.sample_refs import Range, SampleRef
from beam_tfrecords.transforms.sources.skipped import Skipped
from tests.refusals import refuses

Members = list[tuple[str, bytes]]


@pytest.fixture
def write(tmp_path) -> Callable[..., Path]:
    """Writes an archive of members; compressed by its name."""

    def make(*members: tuple[str, bytes | str | dict], to: str = "a.tar") -> Path:
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as archive:
            for name, value in members:
                data = json.dumps(value) if isinstance(value, dict) else value
                data = data.encode() if isinstance(data, str) else data
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        data = content.getvalue()
        (tmp_path / to).write_bytes(gzip.compress(data) if to.endswith("gz") else data)
        return tmp_path / to

    return make


@pytest.fixture
def read(opened, read_containers) -> Callable[..., tuple[dict[str, SampleRef], Skipped]]:
    """Key -> reference of all archives, and what was skipped."""

    def run(*inputs: Path, source: str = "webdataset", **fields: Any) -> tuple[dict[str, SampleRef], Skipped]:
        samples, skipped = read_containers(opened(*inputs, source=source, **fields))
        assert len({sample.key for sample in samples}) == len(samples)
        return {sample.key: sample for sample in samples}, skipped

    return run


def content(sample: SampleRef) -> bytes:
    assert isinstance(sample.locator, Range)
    return storage.read_range(sample.locator.uri, sample.locator.offset, sample.locator.length)


def failures(samples: dict[str, SampleRef]) -> dict[str, tuple[str, str] | None]:
    return {key: sample.failure for key, sample in samples.items()}


PAIR = (("0.jpg", b"zero"), ("0.cls", "3"), ("1.jpg", b"one"), ("1.cls", " 4\n"))


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz"])
def test_consecutive_members_of_one_name_are_a_sample(write, read, name):
    path = write(*PAIR, to=name)
    samples, skipped = read(path)
    assert {key: (sample.label, content(sample), sample.size, sample.failure) for key, sample in samples.items()} == {
        "0": (3, b"zero", 4, None),
        "1": (4, b"one", 3, None),
    }
    assert samples["0"].uri == f"{path}#0.jpg"
    assert not skipped.counts


def test_the_key_is_all_up_to_the_first_dot_of_the_base_name_and_the_suffix_is_in_lower_case(write, read):
    samples, _ = read(write(("v1.0/a/7.JPG", b"x"), ("v1.0/a/7.CLS", "1"), ("v1.0/a/8.0.jpg", b"y")))
    assert list(samples) == ["v1.0/a/7", "v1.0/a/8"]
    assert samples["v1.0/a/7"].label == 1


def test_the_members_of_a_sample_may_be_in_any_order(write, read):
    samples, _ = read(
        write(("0.cls", "3"), ("0.json", {"a": 1}), ("0.png", b"zero"), ("1.png", b"one"), ("1.cls", "4"))
    )
    assert [(sample.label, content(sample)) for sample in samples.values()] == [(3, b"zero"), (4, b"one")]


def test_keys_of_several_archives_begin_with_their_names(write, read):
    samples, _ = read(write(*PAIR, to="a.tar"), write(*PAIR, to="b.tar"))
    assert list(samples) == ["a.tar/0", "a.tar/1", "b.tar/0", "b.tar/1"]


def test_other_members_are_skipped_and_counted(write, read):
    members = [("__index__", b""), ("__meta__/x.json", b""), ("README", b""), (".DS_Store", b""), ("0.npy", b"1")]
    samples, skipped = read(write(*members[:4], PAIR[0], members[4], ("0.pyd", b"!"), PAIR[1]))
    assert failures(samples) == {"0": None}
    assert dict(skipped.counts) == {"metadata": 2, "no suffix": 1, "hidden": 1, ".npy": 1, ".pyd": 1}


# Columns


def test_members_and_fields_of_objects_are_columns(write, read):
    fields = {"age": 7, "who": "é", "tags": ["a", "b"], "of": {"x": 1}, "none": None}
    path = write(("0.jpg", b"x"), ("0.json", fields), ("0.txt", "some\ntext"), ("0.id", "12"))
    samples, _ = read(path, label_column="who", columns=frozenset({"age", "tags", "of", "none", "txt", "id"}))
    assert samples["0"].label == "é"
    assert samples["0"].columns == {
        "age": 7, "tags": ["a", "b"], "of": '{"x": 1}', "none": None, "txt": "some\ntext", "id": 12
    }  # fmt: skip


@pytest.mark.parametrize(
    ("members", "label"),
    [([("0.cls", "3"), ("0.json", {"label": "cat"})], 3), ([("0.json", {"Class": "cat"})], "cat")],
    ids=["cls", "a field of a usual name"],
)
def test_the_label_is_found(write, read, members, label):
    samples, _ = read(write(("0.jpg", b"x"), *members))
    assert samples["0"].label == label


def test_splits_keys_and_groups_come_from_columns(write, read):
    path = write(("0.jpg", b"x"), ("0.cls", "3"), ("0.json", {"split": "val", "name": "k", "who": 5}))
    samples, _ = read(path, key_column="name", group_column="who")
    assert (list(samples), samples["k"].split) == (["k"], "val")


def test_the_inputs_may_say_the_splits(write, read, opened):
    first, second = write(*PAIR, to="train.tar"), write(*PAIR, to="val.tar")
    samples, _ = read(first, second)
    assert [sample.split for sample in samples.values()] == ["train"] * 2 + ["validation"] * 2
    samples, _ = read(f"test={first}", f"train={second}")
    assert [sample.split for sample in samples.values()] == ["test"] * 2 + ["train"] * 2


def test_a_label_is_not_read_where_none_is_needed(write, read):
    samples, _ = read(write(("0.jpg", b"x"), ("0.cls", "no number")), needs_label=False)
    assert (samples["0"].label, samples["0"].failure) == (None, None)


@pytest.mark.parametrize(
    ("member", "detail"),
    [
        (("0.cls", "cat"), "the member .cls has 'cat'; expected a whole number"),
        (("0.txt", b"\xff"), "the member .txt is not valid UTF-8"),
        (("0.json", "[1]"), "the member .json is not a JSON object"),
        (("0.json", "{"), "the member .json is not JSON: Expecting property name enclosed in double quotes"),
        (("0.json", "[" * 100_000), "the member .json is nested too deeply"),
        (("0.txt", b"x" * (5 << 20)), "its member .txt has 5,242,880 bytes; expected 4,194,304 at most"),
    ],
)
def test_a_member_that_is_not_what_its_suffix_says_rejects_its_sample(write, read, member, detail):
    column = member[0].partition(".")[2]
    good = {"cls": "1", "txt": "t", "json": {"json": 1, "field": 2}}[column]
    first = [("00.jpg", b"x"), (f"00.{column}", good)]
    label = "field" if column == "json" else column
    samples, _ = read(write(*first, ("0.jpg", b"x"), member, *PAIR[2:]), label_column=label)
    assert samples["00"].failure is None
    reason, found = samples["0"].failure
    assert (reason, found[: len(detail)]) == ("invalid_row", detail)
    assert samples["1"].failure is None or column != "cls"


# Images


def test_of_several_images_the_one_without_a_dot_is_the_image(write, read):
    samples, _ = read(write(("0.seg.png", b"mask"), ("0.jpg", b"photo"), ("0.cls", "1")))
    assert content(samples["0"]) == b"photo"


def test_a_suffix_with_a_dot_is_the_image_if_it_is_the_only_one(write, read):
    samples, _ = read(write(("0.input.jpg", b"photo"), ("0.cls", "1")))
    assert content(samples["0"]) == b"photo"


def test_one_of_several_images_is_named_by_its_suffix(write, opened, read):
    path = write(("0.left.jpg", b"left"), ("0.right.jpg", b"right"), ("0.cls", "1"))
    with refuses(
        "several_image_columns", "input", "image_column", says=["left.jpg, right.jpg", "image_column=left.jpg"]
    ):
        opened(path, source="webdataset")
    samples, _ = read(path, image_column="right.jpg")
    assert content(samples["0"]) == b"right"
    with refuses("unknown_column", "image_column", says=["image_column=jpg", "left.jpg"]):
        opened(path, source="webdataset", image_column="jpg")


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz"])
def test_an_image_that_is_not_wanted_is_not_copied(write, read, tmp_path, name):
    read(write(("0.jpg", b"photo"), ("0.seg.png", bytes(10_000)), ("0.cls", "1"), to=name))
    assert sum(path.stat().st_size for path in (tmp_path / "staging").glob("*")) == (5 if name.endswith("gz") else 0)


# Samples that are not whole


def test_a_repeated_suffix_rejects_its_sample(write, read):
    samples, _ = read(write(("0.jpg", b"x"), ("0.cls", "1"), ("0.jpg", b"y"), *PAIR[2:]))
    assert failures(samples) == {"0": ("invalid_row", "it has two members with the suffix .jpg"), "1": None}


def test_a_sample_with_two_images_is_rejected(write, read):
    samples, _ = read(write(("0.jpg", b"x"), ("0.png", b"x"), ("0.cls", "1"), *PAIR[2:]))
    detail = "it has two images; name the suffix of one with `image_column`"
    assert failures(samples) == {"0": ("invalid_row", detail), "1": None}


def test_a_sample_that_crosses_archives_is_rejected_in_both(write, read):
    first = write(*PAIR, ("2.jpg", b"two"), to="a.tar")
    samples, _ = read(
        first, write(("2.cls", "5"), *[(name.replace("1", "3"), data) for name, data in PAIR[2:]], to="b.tar")
    )
    assert failures(samples) == {
        "a.tar/0": None,
        "a.tar/1": None,
        "a.tar/2": (
            "invalid_row",
            "the last sample of its archive has no member .cls, but .jpg; samples that cross archives are not read",
        ),
        "b.tar/2": (
            "invalid_row",
            "the first sample of its archive has no image, but .cls; samples that cross archives are not read",
        ),
        "b.tar/3": None,
    }


def test_a_sample_without_an_image_is_rejected_and_one_without_a_label_has_none(write, read):
    samples, _ = read(write(*PAIR[:2], ("1.cls", "4"), ("2.jpg", b"two"), ("3.jpg", b"x"), ("3.cls", "1")))
    assert failures(samples) == {"0": None, "1": ("invalid_row", "it has no image, but .cls"), "2": None, "3": None}
    assert samples["2"].label is None


def test_a_damaged_archive_gives_the_samples_that_are_whole_and_one_failure(write, read):
    path = write(*PAIR)
    path.write_bytes(path.read_bytes()[:3000])
    samples, _ = read(path)
    assert list(samples) == ["0", "a.tar"]
    assert samples["a.tar"].failure[0] == "truncated"


# What is refused


def test_pickles_are_refused_by_name_and_never_opened(write, opened):
    path = write(("0.jpg", b"x"), ("0.pyd", b"cos\nsystem\n(S'touch pickled'\ntR."), ("0.cls", "1"))
    with refuses("pickle_labels", "input", says=[".pyd"]):
        opened(path, source="webdataset", label_column="pyd")


def test_numbers_that_are_none_are_no_missing_labels(write, read):
    samples, _ = read(write(("0.jpg", b"x"), ("0.cls", "cat"), ("1.jpg", b"x"), ("1.cls", "dog")))
    assert [sample.failure[0] for sample in samples.values()] == ["invalid_row"] * 2


def test_an_archive_without_labels_is_refused_with_its_columns(write, opened):
    path = write(("0.jpg", b"x"), ("0.txt", "a cat"), ("0.json", {"url": "http://x/1.jpg"}))
    with refuses("missing_label_column", "input", "label_column", says=[".cls", "'label'", "it has: txt, url"]):
        opened(path, source="webdataset")


def test_a_setting_of_folders_is_refused(write, opened):
    with refuses("setting_not_applicable", "label_pattern", "input", "source", says=["label_pattern=x", "webdataset"]):
        opened(write(*PAIR), source="webdataset", label_pattern="x")


def test_a_file_that_is_no_archive_is_refused(tmp_path, opened):
    (tmp_path / "a.tar").write_bytes(b"no archive")
    with refuses("invalid_file", "input", says=["a.tar"]):
        opened(tmp_path / "a.tar", source="webdataset")


# Recognised from the members


@pytest.mark.parametrize(
    ("names", "source"),
    [
        (["0.jpg", "0.cls"], "webdataset"),
        (["cat/0.jpg", "cat/0.cls"], "webdataset"),
        (["0.jpg", "0.txt", "0.json"], "webdataset"),
        (["__x__", "0.json", "0.jpg"], "webdataset"),
        (["0.seg.png", "0.jpg", "0.json"], "webdataset"),
        (["cat/0.jpg", "dog/0.jpg"], "tar"),
        (["cat/0.jpg", "cat/0.json"], "tar"),  # what labelme writes
        (["0.jpg", "1.jpg", "labels.json"], "tar"),
        (["0.jpg", "0.xml"], "tar"),
    ],
)
def test_a_webdataset_is_recognised_from_its_members(write, opened, names, source):
    path = write(*((name, {"label": 1} if name.endswith("json") else b"1") for name in names))
    found = opened(path)
    assert found.name == source
    note = f"`input={path}` is read as webdataset, not as tar (`source`)"
    assert (note in found.notes) is (source == "webdataset")
    assert opened(path, source="tar").name == "tar"
    assert opened(path.parent / "*.tar").name == source


@pytest.mark.parametrize(
    ("names", "source"), [(["0.jpg", "0.mask.png"], "webdataset"), (["0.jpg", "1.mask.png"], "tar")]
)
def test_masks_show_a_webdataset_if_they_are_asked_for(write, opened, names, source):
    path = write(*((name, b"1") for name in names))
    assert opened(path, needs_mask=True, needs_label=False).name == source
    assert opened(path).name == "tar"


def test_a_pattern_for_labels_keeps_an_archive_a_folder(write, opened):
    assert opened(write(*PAIR), label_pattern="(?P<label>.)").name == "tar"
