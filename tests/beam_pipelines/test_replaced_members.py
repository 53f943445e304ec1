"""Archives with several members of one name: the last one is the sample, as it is when they are extracted."""

from __future__ import annotations

import tarfile
import warnings
import zipfile
from pathlib import Path

import pytest

import beam_tfrecords
from tests.beam_pipelines.dataset_checks import manifest_of, shards_of


def write_archive(path: Path, files: list[tuple[str, Path]]) -> Path:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a name is there twice
            for name, file in files:
                archive.write(file, name)
        return path
    with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as archive:
        for name, file in files:
            archive.add(file, name)
    return path


@pytest.mark.parametrize("name", ["photos.tar", "photos.tar.gz", "photos.zip"])
@pytest.mark.parametrize("copies", [2, 3])
def test_the_last_of_several_members_is_the_sample_and_the_others_are_counted(
    tmp_path, picture, save, convert, run, name, copies
):
    for number in range(copies + 2):
        save(tmp_path / f"{number}.png", picture(number, 12, 12))
    others = [("dog/other.png", tmp_path / "0.png"), ("cat/one.png", tmp_path / "1.png")]
    newer = [("cat/one.png", tmp_path / f"{number}.png") for number in range(2, copies + 1)]
    flags = ["--name=pets", "--image_size=8"]
    path = write_archive(tmp_path / name, [*others, *newer])
    ran = convert(f"--input={path}", f"--output={tmp_path / 'out'}", *flags)
    assert ran.code == 0, ran.err
    manifest = manifest_of(tmp_path / "out")
    assert (manifest["listed"], manifest["records"], manifest["failures"]) == (copies + 1, 2, 0)
    assert manifest["replaced_members"] == copies - 1
    assert f"members of archives that a later member of the same name replaced: {copies - 1}" in ran.out
    assert beam_tfrecords.verify(tmp_path / "out") == []
    (tmp_path / "last").mkdir()
    path = write_archive(tmp_path / "last" / name, [others[0], newer[-1]])
    assert convert(f"--input={path}", f"--output={tmp_path / 'alone'}", *flags).code == 0
    assert shards_of(tmp_path / "out") == shards_of(tmp_path / "alone")
    dry = run("convert", f"--input={tmp_path / name}", f"--output={tmp_path / 'none'}", *flags, "--dry_run")
    assert "duplicate_key" not in dry.out


def test_what_is_broken_and_replaced_is_no_failure(tmp_path, picture, save, convert):
    (tmp_path / "broken.png").write_bytes(b"no image")
    save(tmp_path / "good.png", picture(1, 12, 12))
    files = [("cat/one.png", tmp_path / "broken.png"), ("cat/one.png", tmp_path / "good.png")]
    path = write_archive(tmp_path / "photos.tar", files)
    flags = ["--image_size=8", "--name=pets", "--class_names=cat"]
    ran = convert(f"--input={path}", f"--output={tmp_path / 'out'}", *flags)
    assert ran.code == 0, ran.err
