"""Recognizes by its first bytes in which format a file annotates the images beside it."""

from __future__ import annotations

import posixpath
import re
import tempfile
from collections import Counter
from collections.abc import Iterator

from beam_tfrecords import storage
from beam_tfrecords.transforms.sources.annotations.yolo_labels import holds_shares
from beam_tfrecords.transforms.sources.documents.recognition import EXTENSIONS, fitting_mappings

FORMATS = COCO, YOLO, VOC = "COCO", "YOLO", "Pascal VOC"
# Extensions of YOLO's data files.
DATA_EXTENSIONS = (".yaml", ".yml", ".data")
_DATA_FILE = re.compile(rb"^(?:train|val|valid|test)\s*[:=]", re.MULTILINE)
_NAMES = re.compile(rb"^names\s*[:=]", re.MULTILINE)
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\]:]')
_VOC = re.compile(rb"<annotation\b.*<object\b.*<(?:ro)?bndbox\b", re.DOTALL)
_SNIFFED_BYTES = 64 << 10
# Number of files of each extension to look into; further ones are likely to be of the same tool.
_MOST_FILES = 4
# Room for a document that holds a photo, as those of LabelMe may.
MOST_BYTES = 8 << 20


def holds_coco(path: str) -> bool:
    """Whether a JSON file is an object whose `images` or `annotations` is an array of objects, or empty."""
    depth, names = 0, (b'"images"', b'"annotations"')
    last: tuple[bytes, ...] = (b"", b"", b"")
    for token in (match[0] for match in _TOKEN.finditer(read_start(path))):
        if depth == 2 and last[0] in names and last[1:] == (b":", b"[") and token in (b"{", b"]"):
            return True
        last = (*last[1:], token)
        depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(token, 0)
    return False


def holds_data(path: str) -> bool:
    """Whether a file is a data file of YOLO."""
    start = read_start(path)
    return bool(_DATA_FILE.search(start) and _NAMES.search(start))


def read_start(path: str) -> bytes:
    """Returns the first bytes of a file."""
    return storage.read_range(path, 0, min(storage.stat(path).size, _SNIFFED_BYTES))


class FormatFinder:
    """Recognizes the first documents of an archive while its members are listed."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def looks_into(self, name: str) -> bool:
        """Whether a member is one of the first documents of its extension."""
        extension = _extension_of(name)
        return extension in (*EXTENSIONS, *DATA_EXTENSIONS) and self._seen[extension] < _MOST_FILES

    def find(self, name: str, chunks: Iterator[bytes]) -> list[str]:
        """Returns the formats of a member: those of `FORMATS`, and names of our mappings.

        Args:
          name: its path in the archive.
          chunks: its content in pieces; those beyond `MOST_BYTES` are not read.
        """
        extension = _extension_of(name)
        self._seen[extension] += 1
        start = _join_start(chunks)
        # The listing does not depend on the temporary file.
        apart = storage.noting_files(storage.DependencyTracker())
        with apart, tempfile.TemporaryDirectory(prefix="beam-tfrecords-") as folder:
            path = storage.join(folder, f"document{extension}")
            storage.write_bytes(path, start)
            return list(_find_formats(path, extension))


def _extension_of(name: str) -> str:
    return posixpath.splitext(name)[1].lower()


def _find_formats(path: str, extension: str) -> Iterator[str]:
    if extension in DATA_EXTENSIONS:
        yield from [YOLO] if holds_data(path) else []
    elif extension == ".json" and holds_coco(path):
        yield COCO
    elif extension == ".xml" and _VOC.search(read_start(path)):
        yield VOC
    elif extension == ".txt" and holds_shares(read_start(path)):
        yield YOLO
    else:
        yield from fitting_mappings(storage.stat(path))


def _join_start(chunks: Iterator[bytes]) -> bytes:
    start = b""
    for chunk in chunks:
        start += chunk
        if len(start) >= MOST_BYTES:
            break
    return start[:MOST_BYTES]
