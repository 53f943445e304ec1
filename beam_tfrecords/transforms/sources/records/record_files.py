"""Finds TFRecord files below folders, by name and by content, and reads their records as rows.

References point to the image inside its record; images of compressed files are copied to a staging file.
"""

from __future__ import annotations

import gzip
import io
import itertools
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple, TypeVar, cast

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.features.serialize import parse_example, parse_plain_example
from beam_tfrecords.storage.members import check_expansion
from beam_tfrecords.storage.reading import reading
from beam_tfrecords.storage.threads import map_in_threads
from beam_tfrecords.tfrecord import HEADER_BYTES, Record, RecordError, masked_crc32c, scan_records
from beam_tfrecords.transforms.sources.inputs import find_entries, folder_of_input, names_several
from beam_tfrecords.transforms.sources.names import IMAGE_EXTENSIONS, is_utf8, printable
from beam_tfrecords.transforms.sources.partition import Partition
from beam_tfrecords.transforms.sources.tables.cells import read_cell
from beam_tfrecords.transforms.sources.tables.table import FirstRows

_CHUNK_BYTES = 1 << 16


def open_records(file: IO[bytes]) -> tuple[IO[bytes], bool]:
    """Returns the stream of records in an open file, and whether the file is compressed, with GZIP or ZLIB.

    A record's length may start with the same bytes as a compressed file, but then the length's CRC matches.
    """
    header = file.read(HEADER_BYTES)
    file.seek(0)
    if not is_header(header):
        if header[:2] == b"\x1f\x8b":
            return cast(IO[bytes], gzip.GzipFile(fileobj=file)), True
        # RFC 1950: method 8 with a window of up to 32 KiB, and a multiple of 31.
        if header[:1] and header[0] & 0x8F == 8 and int.from_bytes(header[:2], "big") % 31 == 0:
            return cast(IO[bytes], io.BufferedReader(cast(io.RawIOBase, _ZlibFile(file)))), True
    return file, False


def is_header(data: bytes) -> bool:
    """Whether bytes are the header of a record: a length, and the masked CRC of the length."""
    return len(data) == HEADER_BYTES and int.from_bytes(data[8:], "little") == masked_crc32c(data[:8])


class _ZlibFile(io.RawIOBase):
    """The decompressed content of a ZLIB file.

    Args:
      file: the compressed file.
    """

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        self._inflater = zlib.decompressobj()

    def readable(self) -> bool:
        """See `io.RawIOBase`."""
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        """See `io.RawIOBase`.

        Raises:
          EOFError, zlib.error: the file is cut or damaged.
        """
        while not self._inflater.eof:
            data = self._inflater.unconsumed_tail or self._file.read(_CHUNK_BYTES)
            piece = self._inflater.decompress(data, len(buffer))
            if piece:
                buffer[: len(piece)] = piece
                return len(piece)
            if not data and not self._inflater.eof:
                raise EOFError("the ZLIB file ended before its end mark")
        if self._inflater.unused_data or self._file.read(1):
            raise zlib.error("there is data after the end of the ZLIB stream")
        return 0


# Features with the name of the image's file, as TensorFlow's models and datasets name them.
FILE_NAMES = ("image/filename", "filename", "file_name")
# Limit for a record, which is kept in memory; no image is that large, so a longer record is damaged.
_MOST_BYTES = 1 << 30
# Number of valid records for finding the features.
_RECORDS = 32
# The search for features stops earlier after this many numbers in lists.
_MOST_NUMBERS = 1 << 22
_MOST_TRIED = 1000


def file_name(row: Mapping[str, Any]) -> str:
    """Returns the name of the image's file, which ends the key of a record, without folders; "" if there is none."""
    for feature in FILE_NAMES:
        value = row.get(feature)
        text = value.decode(errors="replace") if isinstance(value, bytes) else value
        if isinstance(text, str) and is_utf8(text) and (name := text.rpartition("/")[2].strip()):
            return name
    return ""


def corrupt(error: RecordError) -> SampleError:
    """Returns the error of a damaged record."""
    detail = f"record {error.record} at byte {error.offset:,}: {error}"
    return SampleError(Stage.LIST, FailureReason.CORRUPT, detail)


def scan_file(partition: Partition, *, offsets: Sequence[int] = ()) -> Iterator[tuple[Record | RecordError, bool]]:
    """Yields the records of a file, each with whether the file is compressed.

    Args:
      partition: the file.
      offsets: as in `scan_records`.

    Raises:
      SampleError: the file cannot be read.
    """
    end = 0

    def describe(error: Exception) -> SampleError:
        detail = f"the compressed file is damaged behind byte {end:,} of its records: {error}"
        return SampleError(Stage.LIST, FailureReason.CORRUPT, detail)

    with reading(describe), storage.open_read(partition.uri, version=partition.version) as file:
        stream, is_compressed = open_records(file)
        most = _MOST_BYTES if is_compressed else min(partition.size, _MOST_BYTES)
        for record in scan_records(stream, most_bytes=most, offsets=offsets):
            check_expansion(record.offset, partition.size)
            yield record, is_compressed
            end = record.offset + (record.length if isinstance(record, Record) else 0)


def read_first_records(partition: Partition, *, most: int = _RECORDS) -> FirstRows:
    """Reads the first valid records of a file.

    Args:
      partition: the file.
      most: number of records that are enough.

    Raises:
      SampleError: there are no records, or all first records are damaged.
    """
    rows: list[dict[str, Any]] = []
    types: dict[str, str] = {}
    damage, numbers = "", 0
    try:
        for record, _ in itertools.islice(scan_file(partition), _MOST_TRIED):
            if isinstance(record, RecordError):
                damage = damage or f"record {record.record}: {record}"
                continue
            try:
                features = parse_plain_example(record.data)
            except ValueError as error:
                damage = damage or str(error)
                continue
            rows.append({name: read_cell(feature) for name, feature in features.items()})
            types |= {name: kind for name, (kind, _) in features.items() if kind}
            numbers += sum(len(values) for kind, values in features.values() if kind != "bytes")
            if len(rows) >= most or numbers > _MOST_NUMBERS:
                break
    except SampleError as error:
        damage = damage or error.detail
    # Ignores damaged records if some are valid, because the listing rejects the damaged ones.
    if not rows:
        reason = FailureReason.CORRUPT if damage else FailureReason.EMPTY
        raise SampleError(Stage.LIST, reason, damage or "it has no record")
    return FirstRows(partition.uri, tuple(types), rows, column_types=types)


# Names with an extension of record files, also before or after the number of a shard or with a compression. Files of
# unsupported compressions count as damaged, so that they are not left out.
_ZIPPED = r"(?:\.(?:gz|gzip|zlib|deflate|z|bz2|zst|snappy|lz4|xz))?"
_NAMED = re.compile(
    rf".*\.(?:tfrecords?|tfrec|records?){_ZIPPED}(?:-\d{{5,}}-of-\d{{5,}})?{_ZIPPED}", re.IGNORECASE | re.DOTALL
)
# Words that are numbered, and values of `key=value` folders; files whose paths differ only in these are a series.
_VARYING = re.compile(r"=[^/]*|[A-Za-z]*\d[A-Za-z\d]*")
# Names of unfinished files and folders of TFDS; 1.0.0.incomplete7B2 is an older form.
_INCOMPLETE = re.compile(r"(?:^|\.)incomplete[.\dA-Z]")
_THREADS = 16

_File = TypeVar("_File")


class RecordFiles(NamedTuple):
    """The TFRecord files of an input.

    Attributes:
      root: folder that the paths are relative to.
      files: path relative to the root -> the file, sorted by path.
      others: paths of the other files below a folder, except images.
    """

    root: str
    files: Mapping[str, storage.FileEntry]
    others: Sequence[str] = ()


def find_record_files(path: str) -> RecordFiles:
    """Finds the TFRecord files of a folder, a glob or a path with braces; a single file is returned as it is.

    Empty files are left out, and so are hidden and unfinished ones, such as those in Spark's `_temporary/`. Files
    without a usual extension are recognized by their first bytes. Files of other records, such as statistics, are left
    out if others have examples.

    Raises:
      RequestError: a glob matches no file.
      OSError: the input cannot be read.
    """
    is_folder = not names_several(path) and storage.is_folder(path)
    if not is_folder and not names_several(path):
        return RecordFiles(storage.dirname(path), {storage.basename(path): storage.stat(path)})
    root = path if is_folder else folder_of_input(path)
    listed = storage.list_files(path, literal=True) if is_folder else find_entries(path)
    start = len(root.rstrip("/")) + 1
    found = {entry.path[start:]: entry for entry in listed if entry.size > 0}
    found = {name: found[name] for name in sorted(found)}
    found = {name: file for name, file in found.items() if not _is_hidden(name)}
    files = _find_records(found)
    examples = _choose_examples({name: found[name] for name in found if name in files})
    rest = [name for name in found if name not in files and not _is_image(name)]
    return RecordFiles(root, examples, rest)


def is_record_file(path: str) -> bool:
    """Whether a file is a TFRecord file by its name, or by its first bytes."""
    return bool(_NAMED.fullmatch(path)) or (not _is_image(path) and has_records(storage.stat(path)))


def has_records(file: storage.FileEntry) -> bool:
    """Whether a file starts with the header of a record, compressed or not."""
    if file.size <= 0:
        return False
    try:
        with reading(), storage.open_read(file.path, version=file.version) as opened:
            return is_header(open_records(opened)[0].read(HEADER_BYTES))
    except SampleError:
        return False


def _is_hidden(path: str) -> bool:
    """Whether a name says that a file is hidden or unfinished, as Spark and TFDS name them."""
    parts = path.split("/")
    return any(part[:1] in (".", "_") or _INCOMPLETE.search(part) for part in parts)


def _is_image(path: str) -> bool:
    return path[path.rfind(".") :].lower() in IMAGE_EXTENSIONS


def _find_records(files: Mapping[str, storage.FileEntry]) -> set[str]:
    """Returns the files with a usual name, and the series in which a file starts with a record: others are damaged."""
    named = {path for path in files if _NAMED.fullmatch(path)}
    series = _group((path for path in files if path not in named and not _is_image(path)), lambda path: path)
    found = map_in_threads(lambda paths: any(has_records(files[path]) for path in paths), series, threads=_THREADS)
    return named.union(*(paths for paths, is_found in zip(series, found, strict=True) if is_found))


def _choose_examples(files: Mapping[str, storage.FileEntry]) -> Mapping[str, storage.FileEntry]:
    """Returns the files with examples, by the first record of files with similar names; all files if none has any."""
    series = _group(files, storage.basename)
    if len(series) < 2:
        return files
    have = map_in_threads(lambda paths: _have_examples(files[path] for path in paths), series, threads=_THREADS)
    others = {path for paths, has in zip(series, have, strict=True) if not has for path in paths}
    return {path: file for path, file in files.items() if path not in others} or files


def _group(files: Iterable[str], name: Callable[[str], str]) -> list[list[str]]:
    """Groups files into series, by a part of their paths."""
    series: dict[str, list[str]] = {}
    for path in files:
        series.setdefault(_VARYING.sub("#", name(path)), []).append(path)
    return [*series.values()]


def _have_examples(files: Iterable[storage.FileEntry]) -> bool:
    """Whether the first record of some files is an example with a feature; True if it is damaged, or there is none."""
    for file in files:
        try:
            record, _ = next(scan_file(Partition.of(file)), (None, False))
        except SampleError:
            return True
        if isinstance(record, RecordError):
            return True
        if record is not None:
            try:
                return bool(parse_example(record.data))
            except ValueError:
                return False
    return True


def choose_evenly(files: Sequence[_File], most: int) -> list[_File]:
    """Returns up to `most` files that are spread evenly over all of them, with the first and the last one."""
    count = min(len(files), most)
    return [files[number * (len(files) - 1) // max(1, count - 1)] for number in range(count)]


def count_files(files: Iterable[str]) -> str:
    """Returns the number of some files, with the name of the first, for a message."""
    first, *others = sorted(files)
    return f"{1 + len(others):,} file{'s'[: bool(others)]}, such as {printable(first)}" if others else printable(first)
