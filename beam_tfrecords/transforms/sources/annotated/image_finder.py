"""Finds the image that a document names, among the images below the folders of a request."""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from urllib.parse import unquote

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, SampleError, Stage
from beam_tfrecords.transforms.sources.detect.names import is_mask_folder, plain_path
from beam_tfrecords.transforms.sources.names import has_extension
from beam_tfrecords.transforms.sources.path_rule import shorten

_MOST_SHOWN = 3
# What upload forms put before the name of a file: Label Studio's `/data/upload/1/0a1b2c3d-photo.jpg`.
_UPLOAD = re.compile(r"^[0-9a-f]{8}-(?=.)")


class ImageFinder:
    """Finds images by the end of their paths.

    A document may name its image by a path on another machine, a URL, a file name, or a name without an extension. The
    image is the one whose path ends as the name does, over the most folders; among equals, the one nearest to the
    document. No name leads to a file that was not listed.

    Args:
      images: the images and their paths relative to the folder that holds them.
    """

    def __init__(self, images: Iterable[tuple[str, storage.FileEntry]]) -> None:
        self._by_name: dict[str, list[tuple[str, storage.FileEntry]]] = defaultdict(list)
        self.count = 0
        for below, entry in images:
            self.count += 1
            name = posixpath.basename(below)
            for one in {name, posixpath.splitext(name)[0]}:
                self._by_name[one].append((below, entry))

    def find(self, name: str, document: str) -> tuple[str, storage.FileEntry] | None:
        """Returns the path of an image relative to its folder, and its file; None if there is none.

        Args:
          name: name in the document.
          document: path of the document, relative to its folder.

        Raises:
          SampleError: several images may be meant.
        """
        path = _plain(name)
        parts = path.split("/")
        last = parts[-1]
        if last not in self._by_name:
            others = [unquote(last), _UPLOAD.sub("", last), _UPLOAD.sub("", unquote(last))]
            # macOS writes accents apart.
            others += [unicodedata.normalize(form, last) for form in ("NFC", "NFD")]
            last = next((one for one in others if one in self._by_name), "")
        found = self._by_name.get(last, ())
        if has_extension(last):
            # `a.b` may be the stem of `a.b.jpg`.
            found = [one for one in found if posixpath.basename(one[0]) == last] or found
        if len(found) < 2:
            return next(iter(found), None)
        exact = {path, posixpath.normpath(posixpath.join(posixpath.dirname(document), path))}
        ranks: Sequence[Callable[[str], Any]] = (
            lambda below: _count_common(below.split("/")[-2::-1], parts[-2::-1]),
            lambda below: below in exact,
            lambda below: posixpath.dirname(below) == posixpath.dirname(document),
            lambda below: not any(map(is_mask_folder, below.split("/")[:-1])),
            lambda below: _near(below, document),
        )
        for rank in ranks:
            best = max(rank(below) for below, _ in found) if len(found) > 1 else None
            found = [one for one in found if best is None or rank(one[0]) == best]
        if len(found) > 1:
            shown = ", ".join(sorted(shorten(below) for below, _ in found)[:_MOST_SHOWN])
            raise SampleError(Stage.LIST, FailureReason.INVALID_ROW, f"{shorten(name)} may be {shown}")
        return found[0]


def _plain(name: str) -> str:
    """Returns the path in a name: of a URL without its query, with slashes as on Linux."""
    if "://" in name or name.startswith("/data/"):
        name = name.partition("?d=")[2] or name.partition("?")[0]  # Label Studio's local files have `?d=PATH`.
    return name.replace("\\", "/").rstrip("/")


def _count_common(one: Sequence[str], other: Sequence[str]) -> int:
    """Counts the elements at the start that two lists share."""
    shared = (pair[0] == pair[1] for pair in zip(one, other, strict=False))
    return next((count for count, is_shared in enumerate(shared) if not is_shared), min(len(one), len(other)))


def _near(below: str, document: str) -> tuple[bool, bool, int]:
    """Ranks an image by its folder.

    First is one with the name of the document, such as `images/train` for `train.json`, then one that differs from that
    of the document in words such as `images`, and then the nearest.
    """
    folder, own = posixpath.dirname(below), posixpath.dirname(document)
    parts, name = folder.split("/"), posixpath.splitext(posixpath.basename(document))[0]
    is_alike = plain_path(folder) == plain_path(own)
    return name in parts, is_alike, _count_common(parts, own.split("/"))
