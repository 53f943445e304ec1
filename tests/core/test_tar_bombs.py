"""Archives that expand without end, and members with holes: rejected in bounded memory and disk."""

from __future__ import annotations

import bz2
import gzip
import io
import tarfile
import tracemalloc
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import zstandard

from beam_tfrecords import storage
from beam_tfrecords.storage import members
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles
from beam_tfrecords.transforms.sources.tally import Tally
from tests.core.opened_sources import list_archive

BOMB = (
    "too_large_file",
    "the archive of {:,} bytes expands to more than 100 times its size; if this is intended, extract it",
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


@pytest.mark.parametrize("method", [bytes, gzip.compress])
def test_a_member_with_holes_is_rejected_and_the_others_are_read(tmp_path, method):
    before, after = (tarfile.TarInfo("0"), b"before"), (tarfile.TarInfo("2"), b"next")
    (tmp_path / "a.tar").write_bytes(method(tar_of(before, sparse("1", 1 << 50, [(0, 3)], b"abc"), after)))
    one, other, third = (f"{tmp_path}/a.tar#/{name}" for name in "012")
    assert (storage.read_bytes(one), storage.read_bytes(third)) == (b"before", b"next")
    with pytest.raises(storage.MemberError, match="the member has holes") as raised:
        storage.read_bytes(other)
    assert raised.value.reason.value == "unsupported_format"


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
