"""Tar archives as a source: keys, labels, splits and what is skipped."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile

import pytest
import zstandard

from beam_tfrecords import storage
from beam_tfrecords.transforms.refs.sample_refs import Range
from beam_tfrecords.transforms.settings import read_settings
from beam_tfrecords.transforms.sources.source_spec import SourceSpec
from beam_tfrecords.transforms.splits import Splits
from tests.refusals import refuses
from tests.source_requests import FRACTIONS

MODES = {".tar": "w", ".tar.gz": "w:gz", ".tgz": "w:gz", ".tar.bz2": "w:bz2", ".tar.xz": "w:xz", ".tar.zst": "w"}


@pytest.fixture
def pack(tmp_path):
    """Writes an archive of small files; returns its path."""

    def write(*names: str, to: str = "photos.tar", **options):
        mode = MODES.get("." + to.partition(".")[2], "w")
        with tarfile.open(tmp_path / to, mode, **options) as archive:
            for name in names:
                member = tarfile.TarInfo(name)
                data = f"bytes of {name}".encode("utf-8", "surrogateescape")
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        if to.endswith(".zst"):
            (tmp_path / to).write_bytes(zstandard.compress((tmp_path / to).read_bytes()))
        return tmp_path / to

    return write


@pytest.fixture
def listed_tar(opened, read_containers):
    """Key -> reference of all archives."""

    def read(*inputs, **fields):
        samples, _ = read_containers(opened(*inputs, **fields))
        assert [sample.failure for sample in samples] == [None] * len(samples)
        return {sample.key: sample for sample in samples}

    return read


def labels(samples):
    return {key: sample.label for key, sample in samples.items()}


def splits(samples):
    return {key: sample.split for key, sample in samples.items()}


def content(sample):
    return storage.read_range(sample.locator.uri, sample.locator.offset, sample.locator.length)


@pytest.mark.parametrize("extension", MODES)
def test_the_class_is_the_first_folder_inside_the_archive(pack, listed_tar, extension):
    samples = listed_tar(pack("cat/1.jpg", "cat/old/2.PNG", "dog/1.jpg", to=f"photos{extension}"))
    assert labels(samples) == {"cat/1.jpg": "cat", "cat/old/2.PNG": "cat", "dog/1.jpg": "dog"}


@pytest.mark.parametrize("extension", MODES)
def test_a_locator_leads_to_the_bytes_and_names_the_member(pack, listed_tar, extension):
    path = pack("cat/1.jpg", "cat/2.jpg", to=f"photos{extension}")
    samples = listed_tar(path)
    assert [content(sample) for sample in samples.values()] == [b"bytes of cat/1.jpg", b"bytes of cat/2.jpg"]
    assert [sample.size for sample in samples.values()] == [18, 18]
    assert [sample.uri for sample in samples.values()] == [f"{path}#cat/1.jpg", f"{path}#cat/2.jpg"]


def test_a_plain_archive_is_read_where_it_is(pack, listed_tar, tmp_path):
    path = pack("cat/1.jpg")
    version = storage.stat(str(path)).version
    assert listed_tar(path)["cat/1.jpg"].locator == Range(str(path), 512, 18, f"{path}#cat/1.jpg", version)
    assert not (tmp_path / "staging").exists()


def test_a_fingerprint_changes_with_the_archive_and_the_offset(pack, listed_tar):
    path = pack("cat/1.jpg", "cat/2.jpg")
    fingerprint = storage.stat(str(path)).fingerprint
    assert [sample.fingerprint for sample in listed_tar(path).values()] == [f"{fingerprint}@512", f"{fingerprint}@1536"]


def test_the_launcher_lists_archives_and_reads_no_samples(pack, opened):
    pack("cat/1.jpg", to="a.tar")
    pack("cat/1.jpg", to="b.tgz")
    source = opened(pack("dog/1.jpg", to="c.tar").parent / "*.t*", source="tar")
    assert (source.name, source.description.unit, source.description.labels_may_be_indices) == ("tar", "image", False)
    assert list(source.samples()) == []
    assert [container.key_prefix for container in source.containers()] == ["a.tar/", "b.tgz/", "c.tar/"]


def test_keys_of_several_archives_begin_with_their_names(pack, listed_tar):
    samples = listed_tar(pack("cat/1.jpg", to="a.tar"), pack("cat/1.jpg", to="b.tar"))
    assert labels(samples) == {"a.tar/cat/1.jpg": "cat", "b.tar/cat/1.jpg": "cat"}


def test_a_glob_of_one_archive_gives_the_keys_that_it_will_have_with_two(pack, listed_tar):
    assert list(listed_tar(pack("cat/1.jpg").parent / "*.tar")) == ["photos.tar/cat/1.jpg"]


@pytest.mark.parametrize("word", ["{a,c,b}.tar", "{a,c}.tar,{0}/b.tar", "{a,b,c}.ta*"])
def test_braces_and_lists_name_archives(pack, listed_tar, tmp_path, word):
    for name in ("a.tar", "b.tar", "c.tar", "d.tar"):
        pack(f"{name[0]}/1.jpg", to=name)
    inputs = read_settings(SourceSpec, {"input": f"{tmp_path}/{word.replace('{0}', str(tmp_path))}"}).input
    assert set(labels(listed_tar(*inputs, source="tar"))) == {"a.tar/a/1.jpg", "b.tar/b/1.jpg", "c.tar/c/1.jpg"}


def test_braces_of_one_archive_give_the_keys_that_it_will_have_with_two(pack, listed_tar):
    assert list(listed_tar(pack("cat/1.jpg", to="0.tar").parent / "{0..0}.tar")) == ["0.tar/cat/1.jpg"]


def test_archives_that_braces_name_and_that_are_missing_are_refused_by_name(pack, opened):
    path = pack("cat/1.jpg", to="001.tar").parent / "{001..003}.tar"
    with refuses("not_found", "input", says=["{001..003}.tar", "3 files", "002.tar and 1 more"]):
        opened(path)


def test_an_archive_whose_name_has_braces_or_commas_is_that_archive(pack, listed_tar):
    for name in ("{a,b}.tar", "a.tar,b.tar"):
        inputs = read_settings(SourceSpec, {"input": str(pack("cat/1.jpg", to=name))}).input
        assert list(listed_tar(*inputs)) == ["cat/1.jpg"]


def test_two_members_of_the_same_name_are_two_samples(pack, opened, read_containers):
    samples, _ = read_containers(opened(pack("cat/1.jpg", "./cat/1.jpg")))
    assert [sample.key for sample in samples] == ["cat/1.jpg"] * 2
    assert [content(sample) for sample in samples] == [b"bytes of cat/1.jpg", b"bytes of ./cat/1.jpg"]


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_are_read_in_every_format(pack, listed_tar, kind):
    name = f"cat/{'x' * 80}/{'y' * 90}.jpg"
    samples = listed_tar(pack(name, "cat/2.jpg", format=kind))
    assert [content(sample) for sample in samples.values()] == [f"bytes of {name}".encode(), b"bytes of cat/2.jpg"]
    assert list(samples) == [name, "cat/2.jpg"]


@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_very_long_and_unicode_names_are_read(pack, listed_tar, kind):
    names = [f"猫/{'é' * 300}.jpg", "e\u0301/1.jpg"]
    assert labels(listed_tar(pack(*names, format=kind))) == {names[0]: "猫", names[1]: "e\u0301"}


@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_a_name_that_is_not_utf8_is_written_with_escapes(pack, listed_tar, kind):
    samples = listed_tar(pack("caf\udce9/1.jpg", format=kind))
    assert labels(samples) == {"caf\\xe9/1.jpg": "caf\\xe9"}
    assert content(samples["caf\\xe9/1.jpg"]) == b"bytes of caf\xe9/1.jpg"


def test_names_that_lead_out_of_the_archive_become_relative_keys(pack, listed_tar):
    samples = listed_tar(pack("/abs/1.jpg", "../../up/2.jpg", "./dot/3.jpg", "a/../b/4.jpg"))
    assert labels(samples) == {"abs/1.jpg": "abs", "up/2.jpg": "up", "dot/3.jpg": "dot", "b/4.jpg": "b"}


def test_members_that_are_not_images_are_skipped_and_counted(tmp_path, opened, read_containers):
    with tarfile.open(tmp_path / "photos.tar", "w") as archive:
        for name in ("cat/a.TXT", "cat/b.txt", "cat/._1.jpg", ".git/x.jpg", "__MACOSX/cat/1.jpg", "cat/1.jpg"):
            archive.addfile(tarfile.TarInfo(name))
        for number, kind in enumerate([tarfile.LNKTYPE, tarfile.SYMTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE, b"?"]):
            member = tarfile.TarInfo(f"cat/other{number}.jpg")
            member.type = kind
            member.linkname = "cat/1.jpg"
            archive.addfile(member)
    samples, skipped = read_containers(opened(tmp_path / "photos.tar"))
    assert [sample.key for sample in samples] == ["cat/1.jpg"]
    assert dict(skipped.counts) == {".txt": 2, "hidden": 2, "system folder": 1, "link": 2, "special": 2}
    assert skipped.examples[".txt"] == ["cat/a.TXT", "cat/b.txt"]


@pytest.mark.parametrize("compressed", [(), ("--gzip",)], ids=["plain", "gzip"])
@pytest.mark.parametrize("kind", ["gnu", "pax"])
def test_links_are_skipped_and_counted(tmp_path, opened, read_containers, kind, compressed):
    root, long = tmp_path / "in", "long" * 40
    for name, data in ((f"b/{long}.jpg", b"1"), ("b/2.jpg", b"22")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
    os.link(root / f"b/{long}.jpg", root / "b/x_hard.jpg")
    for name, target in ((f"b/z_{long}.jpg", "2.jpg"), ("b/z_gone.jpg", "nothing.jpg"), ("b/z_folder", "../b")):
        (root / name).symlink_to(target)
    path = tmp_path / "photos.tar"
    subprocess.run(["tar", *compressed, f"--format={kind}", "--sort=name", "-cf", path, "-C", root, "."], check=True)
    samples, skipped = read_containers(opened(path))
    assert {sample.key: content(sample) for sample in samples} == {f"b/{long}.jpg": b"1", "b/2.jpg": b"22"}
    assert dict(skipped.counts) == {"link": 4}


@pytest.mark.parametrize("command", [["zstd"], ["zstd", "--long"], ["pzstd", "-p", "2"]], ids=" ".join)
def test_an_archive_by_the_programs_of_zstd_is_read(pack, listed_tar, command):
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs {command[0]}")
    path = pack(*(f"cat/{number}.jpg" for number in range(2000)))
    subprocess.run([*command, "-q", path], check=True)
    path.unlink()
    samples = listed_tar(f"{path}.zst")
    assert [content(sample) for sample in samples.values()] == [f"bytes of {name}".encode() for name in samples]
    assert len(samples) == 2000


@pytest.mark.parametrize("extension", [".tar", ".tar.gz"])
def test_an_empty_archive_has_no_samples(pack, listed_tar, extension):
    assert listed_tar(pack(to=f"photos{extension}")) == {}


def test_an_empty_member_is_a_sample_without_bytes(tmp_path, listed_tar):
    for name, mode in (("a.tar", "w"), ("b.tar.gz", "w:gz")):
        with tarfile.open(tmp_path / name, mode) as archive:
            archive.addfile(tarfile.TarInfo("cat/1.jpg"))
    samples = listed_tar(tmp_path / "a.tar", tmp_path / "b.tar.gz")
    assert [(sample.size, content(sample)) for sample in samples.values()] == [(0, b"")] * 2


@pytest.mark.parametrize(
    "options",
    [("--format=gnu",), *(("--format=posix", f"--sparse-version={version}") for version in ("0.0", "0.1", "1.0"))],
)
def test_a_sparse_member_has_the_bytes_of_the_file(tmp_path, listed_tar, options):
    (tmp_path / "cat").mkdir()
    with open(tmp_path / "cat/1.jpg", "wb") as file:
        file.write(b"start")
        file.seek(1 << 20, io.SEEK_CUR)
        file.write(b"end")
    subprocess.run(["tar", "--sparse", *options, "-cf", "photos.tar", "cat"], cwd=tmp_path, check=True)
    with tarfile.open(tmp_path / "photos.tar") as archive:
        assert any(member.issparse() for member in archive)
    assert content(listed_tar(tmp_path / "photos.tar")["cat/1.jpg"]) == b"start" + bytes(1 << 20) + b"end"


# Splits


def test_split_folders_are_found_and_the_class_is_the_folder_below(pack, listed_tar):
    samples = listed_tar(pack("train/cat/1.jpg", "val/cat/2.jpg", "./test/dog/old/3.jpg", "spare/4.jpg"))
    assert splits(samples) == {
        "train/cat/1.jpg": "train",
        "val/cat/2.jpg": "validation",
        "test/dog/old/3.jpg": "test",
        "spare/4.jpg": None,
    }
    assert list(labels(samples).values()) == ["cat", "cat", "dog", "spare"]


def test_a_split_folder_without_folders_below_is_a_class(pack, listed_tar):
    samples = listed_tar(pack("train/1.jpg", "plane/2.jpg"))
    assert labels(samples) == {"train/1.jpg": "train", "plane/2.jpg": "plane"}
    assert set(splits(samples).values()) == {None}


def test_without_auto_split_folders_are_classes(pack, listed_tar):
    samples = listed_tar(pack("train/cat/1.jpg"), splits=FRACTIONS)
    assert (labels(samples), splits(samples)) == ({"train/cat/1.jpg": "train"}, {"train/cat/1.jpg": None})


def test_members_outside_named_split_folders_are_skipped_and_counted(pack, opened, read_containers):
    path = pack("training/joy/1.jpg", "dev/joy/2.jpg", "dev/3.jpg", "spare/joy/4.jpg", "5.jpg", "n.txt")
    samples, skipped = read_containers(opened(path, splits=Splits(folders={"training": "train", "dev/": "validation"})))
    assert [(sample.split, sample.label) for sample in samples] == [
        ("train", "joy"),
        ("validation", "joy"),
        ("validation", None),
    ]
    assert dict(skipped.counts) == {"outside the split folders": 2, ".txt": 1}


def test_a_pattern_reads_the_label_from_the_key(pack, listed_tar):
    samples = listed_tar(pack("a/cat-1.jpg", "train/dog-2.jpg"), label_pattern="(?P<label>cat|dog)")
    assert labels(samples) == {"a/cat-1.jpg": "cat", "train/dog-2.jpg": "dog"}
    assert splits(samples) == {"a/cat-1.jpg": None, "train/dog-2.jpg": "train"}


# Requests that are refused


def test_a_column_setting_is_refused(pack, opened):
    with refuses(
        "setting_not_applicable", "label_column", "input", says=["label_column=x", "photos.tar", "tar, which"]
    ):
        opened(pack("cat/1.jpg"), label_column="x")


def test_a_pattern_without_a_label_group_is_refused(pack, opened):
    with refuses("missing_group", "label_pattern"):
        opened(pack("cat/1.jpg"), label_pattern="cat")


def test_a_glob_that_matches_no_archive_is_refused(tmp_path, opened):
    with refuses("not_found", "input", says=["*.tar"]):
        opened(tmp_path / "*.tar")


@pytest.mark.parametrize("data", [b"", b"no archive", b"no archive" * 1000, b"\x1f\x8b not gzip"])
def test_a_single_file_that_is_not_a_tar_archive_is_refused(tmp_path, opened, data):
    (tmp_path / "a.tar").write_bytes(data)
    with refuses("invalid_file", "input", says=["a.tar"]):
        opened(tmp_path / "a.tar").check_containers()
