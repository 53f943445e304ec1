"""`convert` from archives: the dataset of the folder that was archived, listed by the workers."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from beam_tfrecords.beam_pipelines.settings.suggested_commands import explain
from beam_tfrecords.storage.tar_archive import TarReader
from beam_tfrecords.storage.zip_archive import ZipReader
from tests.beam_pipelines.dataset_checks import manifest_of, shards_of
from tests.beam_pipelines.listed_records import commands_of, read
from tests.refusals import refuses

FLAGS = ["--name=pets", "--image_size=16", "--splits=train=0.7,test=0.3", "--num_shards=2", "--max_failures=0.1"]
EXTENSIONS = [".tar", pytest.param(".tar.gz", marks=pytest.mark.nightly), ".zip"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, pets) -> Path:
    """The pets, with two files that are not images and two copies of one image."""
    root = tmp_path_factory.mktemp("tar") / "pets"
    shutil.copytree(pets, root)
    (root / "dog/broken.png").write_bytes(b"not an image")
    (root / "dog/empty.png").write_bytes(b"")
    for name in ("cat/copy.png", "dog/copy.png"):
        shutil.copy(root / "cat/cat01.png", root / name)
    return root


@pytest.fixture(scope="module")
def from_folder(folder, build) -> Path:
    return build(folder.parent / "from_folder", f"--input={folder}", *FLAGS)


@pytest.fixture(scope="module", params=EXTENSIONS)
def archive(request, folder) -> Path:
    path = folder.parent / f"pets{request.param}"
    if request.param == ".zip":
        # Every second member compressed.
        with zipfile.ZipFile(path, "w") as written:
            for number, file in enumerate(sorted(folder.rglob("*"))):
                written.write(file, file.relative_to(folder), compress_type=(0, 8)[number % 2])
        return path
    with tarfile.open(path, f"w:{request.param[5:]}") as tar:
        tar.add(folder, arcname=".")
    return path


@pytest.fixture(scope="module")
def from_archive(archive, build) -> Path:
    def fail(reader: TarReader | ZipReader) -> None:
        raise AssertionError("the launcher lists an archive")

    with pytest.MonkeyPatch.context() as patch:
        # In this process only: workers are forked from another one.
        for reader in (TarReader, ZipReader):
            patch.setattr(reader, "members", fail)
        # It looks at the first members of a tar archive, to know a WebDataset, unless the request names the source.
        source = "zip" if archive.suffix == ".zip" else "tar"
        return build(archive.parent / f"from_{archive.name}", f"--input={archive}", f"--source={source}", *FLAGS)


def lines_of(path: Path) -> list[dict]:
    return sorted((json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()), key=str)


def from_archive_to_folder(archive: Path, folder: Path) -> Callable[[str], str]:
    """From a name in an archive to the path that was archived under it."""

    def rename(name: str) -> str:
        prefix = f"{archive.name}#"
        assert name.startswith(prefix)
        return f"{folder.name}/{name.removeprefix(prefix)}"

    return rename


@pytest.mark.local_runner
@pytest.mark.any_workers
def test_the_shards_have_the_same_bytes(from_archive, from_folder):
    assert shards_of(from_archive) == shards_of(from_folder)


@pytest.mark.local_runner
def test_the_index_differs_only_in_where_the_images_are(from_archive, from_folder, archive, folder, read):
    rename = from_archive_to_folder(archive, folder)
    for split in ("train", "test"):
        rows = [(record.key, record.row) for record in read(from_archive, split)]
        expected = [(record.key, record.row) for record in read(from_folder, split)]
        assert [key for key, _ in rows] == [key for key, _ in expected]
        for (_, row), (_, other) in zip(rows, expected, strict=True):
            same = {"uri": rename(row["uri"]), "fingerprint": other["fingerprint"], "sample_hash": other["sample_hash"]}
            assert {**row, **same} == other
            assert row["uri"] == f"{archive.name}#{row['key']}"
            assert row["fingerprint"] != other["fingerprint"]


@pytest.mark.local_runner
def test_rejected_members_are_listed_under_the_names_of_the_archive(from_archive, from_folder, archive, folder):
    rename = from_archive_to_folder(archive, folder)
    failures = lines_of(from_archive / "failures.jsonl")
    assert {failure["uri"] for failure in failures} == {
        f"{archive.name}#dog/{name}.png" for name in ("broken", "empty")
    }
    renamed = [{**failure, "uri": rename(failure["uri"])} for failure in failures]
    assert sorted(renamed, key=str) == lines_of(from_folder / "failures.jsonl")


@pytest.mark.local_runner
def test_duplicates_are_listed_under_the_names_of_the_archive(from_archive, from_folder, archive, folder):
    rename = from_archive_to_folder(archive, folder)
    (group,) = lines_of(from_archive / "duplicates.jsonl")
    assert group["copies"] == 3
    group["images"] = [{**image, "uri": rename(image["uri"])} for image in group["images"]]
    assert [group] == lines_of(from_folder / "duplicates.jsonl")


@pytest.mark.local_runner
def test_the_manifest_counts_the_same_samples_and_skipped_files(from_archive, from_folder, verify):
    for name in ("listed", "records", "failures", "failure_reasons", "duplicates", "class_names", "splits"):
        assert manifest_of(from_archive)[name] == manifest_of(from_folder)[name]
    skipped = {
        path: {kind: entry["files"] for kind, entry in manifest_of(path)["skipped"].items()}
        for path in (from_archive, from_folder)
    }
    assert skipped[from_archive] == skipped[from_folder]
    assert verify(from_archive).code == 0
    assert not (from_archive / ".build").exists()


def test_several_archives_are_one_dataset_whose_keys_begin_with_their_names(folder, tmp_path, build, read):
    paths = []
    for name in ("cat", "dog"):
        paths.append(tmp_path / f"{name}s.tar")
        with tarfile.open(paths[-1], "w") as tar:
            tar.add(folder / name, arcname=name)
    (tmp_path / "spec.json").write_text(json.dumps({"input": list(map(str, paths))}))
    out = build(tmp_path / "out", f"--spec={tmp_path / 'spec.json'}", "--image_size=16", "--max_failures=0.1")
    manifest = manifest_of(out)
    assert (manifest["listed"], manifest["class_names"]) == (84, ["cat", "dog"])
    assert {record.key.split("/")[0] for record in read(out, "train")} == {"cats.tar", "dogs.tar"}


def test_a_refused_request_leaves_nothing_of_the_indexed_archive(archive, tmp_path, convert):
    ran = convert(f"--input={archive}", f"--output={tmp_path / 'out'}", "--class_names=horse")
    ran.refused("unknown_class", "class_names")
    assert not (tmp_path / "out").exists() or not any(path.is_file() for path in (tmp_path / "out").rglob("*"))


def test_unchanged_archives_are_not_read_again(folder, tmp_path, convert):
    path = tmp_path / "pets.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        tar.add(folder, arcname=".")
    words = [f"--input={path}", f"--output={tmp_path / 'out'}", *FLAGS, "--versioned", "--guard=off"]
    assert convert(*words).code == 0
    (first,) = tmp_path.glob("out/2*")
    # Nobody who reads it would take it for an archive.
    content, times = path.read_bytes(), path.stat()
    path.write_bytes(b"x" * len(content))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    ran = convert(*words)
    assert (ran.code, ran.out) == (0, f"nothing has changed since dataset: {first}\n"), ran.err
    assert {path.name for path in (tmp_path / "out").iterdir()} == {first.name, "LATEST", "UNCHANGED"}
    # What says nothing about the bytes does.
    convert(*words, "--fingerprint=content").refused("invalid_file", "input")
    convert(*words, "--seed=1").refused("invalid_file", "input")
    # Another time is another archive.
    path.write_bytes(content)
    ran = convert(*words)
    assert ran.code == 0, ran.err
    assert len(list(tmp_path.glob("out/2*"))) == 2


def test_an_archive_of_archives_is_named(tmp_path, convert):
    with tarfile.open(tmp_path / "all.tar", "w") as archive:
        for name in ("train.tar", "val.tar.gz"):
            archive.addfile(tarfile.TarInfo(name))
    ran = convert(f"--input={tmp_path / 'all.tar'}", f"--output={tmp_path / 'out'}", "--image_size=8")
    ran.refused("no_samples", "input", says=["1 .tar (train.tar)", "1 .gz (val.tar.gz)", "archives in an archive"])


@pytest.mark.parametrize("source", [[], ["--source=image_folder"]])
@pytest.mark.parametrize(
    ("names", "globs"),
    [
        (("a.tar", "b.tar"), ["*.tar"]),
        (("a.tar.gz", "b.tgz"), ["*.tar.gz", "*.tgz"]),
        (("a.TAR", "below/b.tar"), ["**/*.TAR", "**/*.tar"]),
        (("a.zip", "b.zip"), ["*.zip"]),
        (("a.zip",), ["a.zip"]),
    ],
)
def test_a_folder_of_archives_is_refused_with_a_command_that_reads_them(tmp_path, pets, names, globs, source):
    for number, name in enumerate(names):
        path = tmp_path / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        images = sorted(pets.glob("*/*.png"))[number :: len(names)]
        if name.endswith(".zip"):
            with zipfile.ZipFile(path, "w") as written:
                for image in images:
                    written.write(image, image.relative_to(pets))
        else:
            with tarfile.open(path, "w" if name.lower().endswith(".tar") else "w:gz") as tar:
                for image in images:
                    tar.add(image, image.relative_to(pets))
    argv = [f"--input={tmp_path / 'in'}", "--output=out", *source]
    with refuses("no_samples", "input") as refused:
        read(argv, tmp_path / "listing")
    (command,) = commands_of(explain(refused.value, "convert", argv))
    assert command == ["--output=out", *(f"--input={tmp_path / 'in' / glob}" for glob in globs)]
    found, _ = read(command, tmp_path / "listing1")
    assert found["train"].total() == len(list(pets.glob("*/*.png")))
