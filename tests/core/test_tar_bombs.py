"""Archives that expand without end, and members with holes: read right, or rejected in bounded memory and disk."""

from __future__ import annotations

import bz2
import gzip
import io
import os
import shutil
import subprocess
import tarfile
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import zstandard

from beam_tfrecords import storage
from beam_tfrecords.storage import members
from beam_tfrecords.transforms.refs.ref_columns import one_by_one
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.sources.archives.archive import ReadArchive
from beam_tfrecords.transforms.sources.folders.image_folder import ImageLister
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles, until_damage
from beam_tfrecords.transforms.sources.tally import Tally

READ = ReadArchive("tar", ImageLister(None, Needs()))


def list_archive(container: Partition, staging: StagingFiles, tally: Tally) -> Iterator[SampleRef]:
    """The samples, as a build lists them."""
    return one_by_one(until_damage(READ(container, tally, staging), container, tally))


BOMB = (
    "too_large_file",
    "the archive of {:,} bytes expands to more than 100 times its size; extract it if that is meant",
)


@pytest.fixture
def read(tmp_path, monkeypatch) -> Callable[..., tuple[dict[str, bytes], tuple[str, str] | None, int]]:
    """Reads an archive: key -> bytes, the failure if there is one, and the bytes of the staging files."""
    monkeypatch.setattr(members, "FREE_BYTES", 1 << 20)

    def run(path: Path, *, most_bytes: int = 10**9) -> tuple[dict[str, bytes], tuple[str, str] | None, int]:
        container = Partition(str(path), path.stat().st_size, "f", "")
        with StagingFiles(str(tmp_path / "staging"), "a", most_bytes=most_bytes) as staging:
            samples = list(list_archive(container, staging, Tally()))
        failure = samples.pop().failure if samples and samples[-1].failure else None
        images = {sample.key: bytes_of(sample) for sample in samples if sample.size <= most_bytes}
        return images, failure, sum(file.stat().st_size for file in (tmp_path / "staging").glob("*"))

    return run


def bytes_of(sample: SampleRef) -> bytes:
    return storage.read_bytes(sample.locator.uri, version=sample.locator.version)


def tar_of(*members: tuple[tarfile.TarInfo, bytes], is_ended: bool = True) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for member, content in members:
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        size = file.tell()
    return file.getvalue() if is_ended else file.getvalue()[:size]


def bomb_of(members: int, size: int, *, name: str = "cat/{}.jpg", compress: Callable = gzip.compress) -> bytes:
    """An archive of zeros, compressed piece by piece; every method may have several streams in a file."""
    zeros = compress(bytes(size))
    pieces = []
    for number in range(members):
        member = tarfile.TarInfo(name.format(number))
        member.size = size
        pieces += [compress(member.tobuf()), zeros]
    return b"".join([*pieces, compress(bytes(1024))])


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, zstandard.compress])
@pytest.mark.parametrize("name", ["cat/{}.jpg", "cat/{}.bin"], ids=["images", "other files"])
def test_a_bomb_is_read_up_to_a_multiple_of_its_size(tmp_path, read, compress, name):
    data = bomb_of(1000, 1 << 18, name=name, compress=compress)
    (tmp_path / "bomb.tar").write_bytes(data)
    images, failure, staged = read(tmp_path / "bomb.tar")
    assert failure == (BOMB[0], BOMB[1].format(len(data)))
    limit = max(1 << 20, 100 * len(data))
    assert staged <= limit < 1000 << 18
    assert len(images) == (limit // ((1 << 18) + 512) if "jpg" in name else 0)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("is_ended", "behind", "reason"),
    [(True, bytes(1 << 19), "corrupt"), (False, tarfile.TarInfo("cat/0").tobuf() * 1024, "too_large_file")],
    ids=["behind its end", "of empty members"],
)
def test_a_bomb_without_a_large_member_is_one_too(tmp_path, read, is_ended, behind, reason):
    first = tar_of((tarfile.TarInfo("cat/1.jpg"), b"image"), is_ended=is_ended)
    (tmp_path / "bomb.tar").write_bytes(gzip.compress(first) + gzip.compress(behind) * 100)
    images, failure, _ = read(tmp_path / "bomb.tar")
    assert images["cat/1.jpg"] == b"image"
    assert failure is not None
    assert failure[0] == reason


# Members with holes


@pytest.fixture
def with_holes(tmp_path) -> Path:
    """Files with holes at their beginning, within, and at their end; skips where the disk keeps no holes."""
    folder = tmp_path / "in/cat"
    folder.mkdir(parents=True)
    pieces = {"begin": [500_000], "within": [0, 700_000], "end": [0], "many": range(0, 3_000_000, 100_000), "none": []}
    for name, offsets in pieces.items():
        with open(folder / f"{name}.jpg", "wb") as file:
            for offset in offsets:
                file.seek(offset)
                file.write(b"\xff\xd8" + os.urandom(9000))
            file.truncate(3_100_000)
    if (folder / "many.jpg").stat().st_blocks * 512 > 1_000_000:
        pytest.skip("the disk keeps no holes")
    return tmp_path / "in"


@pytest.mark.skipif(shutil.which("tar") is None, reason="needs GNU tar")
@pytest.mark.parametrize("method", [[], ["-z"]], ids=["plain", "gz"])
@pytest.mark.parametrize(
    "kind", [["gnu"], *(["posix", f"--sparse-version={version}"] for version in ("0.0", "0.1", "1.0"))], ids=" ".join
)
def test_members_with_holes_are_read_right(tmp_path, read, with_holes, kind, method):
    path = tmp_path / "a.tar"
    subprocess.run(
        ["tar", "-cS", *method, f"--format={kind[0]}", *kind[1:], "-f", path, "-C", with_holes, "."], check=True
    )
    assert path.stat().st_size < 1_000_000
    images, failure, _ = read(path)
    assert failure is None
    assert images == {f"cat/{file.name}": file.read_bytes() for file in (with_holes / "cat").iterdir()}


def sparse(
    name: str, size: int, pieces: Sequence[tuple[int, int]], content: bytes = b""
) -> tuple[tarfile.TarInfo, bytes]:
    """A member in GNU's format 1.0: its map of (offset, size) stands before its bytes."""
    member = tarfile.TarInfo(name)
    fields = {"major": "1", "minor": "0", "name": name, "realsize": str(size)}
    member.pax_headers = {f"GNU.sparse.{field}": value for field, value in fields.items()}
    numbers = [len(pieces), *(number for piece in pieces for number in piece)]
    table = "".join(f"{number}\n" for number in numbers).encode()
    return member, table + bytes(-len(table) % 512) + content


def test_a_few_bytes_that_stand_for_many_large_members_are_a_bomb(tmp_path, read):
    members = [sparse(f"cat/{number}.jpg", 1 << 20, [(0, 3)], b"\xff\xd8\xff") for number in range(200)]
    (tmp_path / "bomb.tar").write_bytes(tar_of(*members))
    _, failure, staged = read(tmp_path / "bomb.tar")
    size = (tmp_path / "bomb.tar").stat().st_size
    assert failure == (BOMB[0], BOMB[1].format(size))
    assert staged <= 100 * size + (1 << 20) < 200 << 20


def test_a_member_with_holes_above_the_limit_is_not_staged(tmp_path, read):
    members = [
        sparse("disk.img", 1 << 50, []),
        sparse("cat/large.jpg", 1 << 50, []),
        sparse("cat/1.jpg", 9, [(0, 9)], b"9 letters"),
    ]
    (tmp_path / "a.tar").write_bytes(tar_of(*members))
    images, failure, staged = read(tmp_path / "a.tar", most_bytes=1000)
    assert (images, failure, staged) == ({"cat/1.jpg": b"9 letters"}, None, 0)


@pytest.mark.parametrize(
    "pieces",
    [[(0, 600), (500, 600)], [(600, 10), (0, 10)], [(0, -5)], [(-5, 5)], [(5000, 10)], [(0, 5000)], [(0, 2000)]],
    ids=["overlap", "backwards", "negative size", "negative offset", "beyond", "larger", "not stored"],
)
def test_a_map_of_holes_that_contradicts_itself_is_corrupt(tmp_path, read, pieces):
    members = [sparse("cat/1.jpg", 4000, [(0, 3)], b"abc"), sparse("cat/2.jpg", 4000, pieces, bytes(1024))]
    (tmp_path / "a.tar").write_bytes(tar_of(*members, (tarfile.TarInfo("cat/3.jpg"), b"next")))
    images, failure, _ = read(tmp_path / "a.tar")
    assert images == {"cat/1.jpg": b"abc" + bytes(3997)}
    assert failure is not None
    assert failure[0] == "corrupt"


@pytest.mark.parametrize("kind", [pytest.param(tarfile.XHDTYPE, marks=pytest.mark.nightly), tarfile.GNUTYPE_SPARSE])
def test_a_map_of_holes_that_would_fill_the_memory_is_corrupt(tmp_path, read, kind):
    if kind == tarfile.XHDTYPE:
        data = tar_of(sparse("cat/1.jpg", 10**9, [(1, 0)] * 5_000_000))
    else:  # after each block of 21 pieces there is another one
        header = bytearray(tarfile.TarInfo("cat/1.jpg").tobuf(tarfile.GNU_FORMAT))
        header[156:157] = kind
        header[482] = 1
        header[148:156] = b"%06o\0 " % (sum(header[:148]) + 256 + sum(header[156:]))
        piece = b"00000000001\0" * 42
        data = bytes(header) + (piece + b"\1".ljust(8, b"\0")) * 20_000
    (tmp_path / "a.tar").write_bytes(data)
    tracemalloc.start()
    images, failure, _ = read(tmp_path / "a.tar")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert images == {}
    assert failure == ("corrupt", "the archive is damaged at byte 0: headers of more than 1,048,576 bytes")
    assert peak < 60 << 20
