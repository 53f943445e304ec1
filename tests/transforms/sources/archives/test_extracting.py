"""Small archives are extracted to find out what their files mean: never outside the folder, never large ones."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import pytest

from beam_tfrecords.transforms.sources.archives.extracting import extract
from tests.archive_files import tar_of

FILES = {"a/1.txt": b"one", "2.txt": b"two" * 100}


def pack(path: Path, files: dict[str, bytes]) -> str:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for name, data in files.items():
                file.writestr(name, data)
    else:
        path.write_bytes(tar_of(files, compression="gz" if path.suffix == ".tgz" else ""))
    return str(path)


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tgz"])
def test_the_files_are_those_of_the_archive(tmp_path, name):
    assert extract(pack(tmp_path / name, FILES), str(tmp_path / "out"), most_bytes=20_000)
    found = {path.relative_to(tmp_path / "out").as_posix(): path for path in (tmp_path / "out").rglob("*.txt")}
    assert {name: path.read_bytes() for name, path in found.items()} == FILES
    assert not extract(str(tmp_path / name), str(tmp_path / "small"), most_bytes=200)
    assert not (tmp_path / "small").exists()


@pytest.mark.parametrize("name", ["x.zip", "x.tar"])
@pytest.mark.parametrize("member", ["../x.txt", "/x.txt", "a/../../x.txt"])
def test_no_file_leads_out_of_the_folder(tmp_path, name, member):
    extract(pack(tmp_path / name, {member: b"x"}), str(tmp_path / "in/out"), most_bytes=1000)
    outside = [path for path in tmp_path.rglob("x.txt") if not path.is_relative_to(tmp_path / "in/out")]
    assert not outside
    assert not Path("/x.txt").exists()


def test_links_are_left_out(tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        info = tarfile.TarInfo("link")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc"
        tar.addfile(info)
    extract(str(tmp_path / "x.tar"), str(tmp_path / "out"), most_bytes=1000)
    assert not (tmp_path / "out/link").is_symlink()


@pytest.mark.parametrize("name", ["x.zip", "x.tar.gz"])
def test_a_damaged_or_missing_archive_is_not_extracted(tmp_path, name):
    assert not extract(str(tmp_path / name), str(tmp_path / "out"), most_bytes=1000)
    (tmp_path / name).write_bytes(b"PK\3\4 no archive")
    assert not extract(str(tmp_path / name), str(tmp_path / "out"), most_bytes=1000)
