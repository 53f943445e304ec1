"""Finds the image that a document names, among the images below the folders of a request."""

from __future__ import annotations

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from urllib.parse import unquote

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.transforms.sources.detect.names import plain_path
from beam_tfrecords.transforms.sources.names import has_extension
from beam_tfrecords.transforms.sources.path_rule import shorten

_MOST_SHOWN = 3
# What upload forms put before the name of a file: Label Studio's `/data/upload/1/0a1b2c3d-photo.jpg`.
_UPLOAD = re.compile(r"^[0-9a-f]{8}-(?=.)")


class ImageFinder:
    """Finds images by the end of their paths.

    A document may name its image by a path on another machine, a URL, a file name, or a name without an extension. The
    image is the one whose path ends as the name does, over the most folders; among equals, the one nearest to the
    document.

    Args:
      images: the images and their paths relative to the folder that holds them.
    """

    def __init__(self, images: Iterable[tuple[str, storage.FileEntry]]) -> None:
        self._by_name: dict[str, list[tuple[str, storage.FileEntry]]] = defaultdict(list)
        self.count = 0
        for below, entry in images:
            self.count += 1
            name = posixpath.basename(below)
            self._by_name[name].append((below, entry))
            stem = posixpath.splitext(name)[0]
            if stem != name:
                self._by_name[stem].append((below, entry))

    def find(self, name: str, document: str) -> tuple[str, storage.FileEntry] | None:
        """Returns the path of an image relative to its folder, and its file; None if there is none.

        Args:
          name: name in the document.
          document: path of the document, relative to its folder.

        Raises:
          SampleError: several images may be meant.
        """
        parts = _plain(name).split("/")
        found = self._by_name.get(parts[-1]) or self._by_name.get(_UPLOAD.sub("", parts[-1])) or []
        if len(found) > 1 and has_extension(parts[-1]):
            # `a.b` may be the stem of `a.b.jpg`.
            found = [one for one in found if posixpath.basename(one[0]) == parts[-1]] or found
        for rank in (lambda below: _count_common(below.split("/"), parts), lambda below: _near(below, document)):
            if len(found) > 1:
                best = max(rank(below) for below, _ in found)
                found = [one for one in found if rank(one[0]) == best]
        if len(found) > 1:
            shown = ", ".join(shorten(below) for below, _ in found[:_MOST_SHOWN])
            detail = f"{shorten(name)} may be {shown}"
            raise SampleError(Stage.LIST, FailureReason.INVALID_ROW, detail)
        return found[0] if found else None


def _plain(name: str) -> str:
    """Returns the path in a name: of a URL without its query, with slashes as on Linux."""
    if "://" in name or name.startswith("/data/"):
        local = name.partition("?d=")[2]  # Label Studio's URLs of local files.
        name = unquote(local or name.partition("?")[0])
    return name.replace("\\", "/").rstrip("/")


def _count_common(below: Sequence[str], parts: Sequence[str]) -> int:
    """Counts the folders before the file names that two paths share."""
    count = 0
    for one, other in zip(reversed(below[:-1]), reversed(parts[:-1]), strict=False):
        if one != other:
            break
        count += 1
    return count


def _near(below: str, document: str) -> tuple[bool, bool]:
    """Ranks the folder of an image: that of the document, one that differs in words such as `images` alone, others."""
    folder, own = posixpath.dirname(below), posixpath.dirname(document)
    return folder == own, plain_path(folder) == plain_path(own)
