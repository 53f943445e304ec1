"""Images in folders: the class is the first folder below the root, or what a pattern finds in the path."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError
from transforms.images.formats import SNIFFED_BYTES, may_be_an_image
from transforms.refs import File, SampleRef
from transforms.service_faults import retry_faults
from transforms.sources.folders.roots import Root, refuse_unfit, root_of, with_splits
from transforms.sources.inputs import key_prefixes, quote_input, refuse_columns
from transforms.sources.names import FOLDER_MARKER, NOT_AN_IMAGE, has_extension, is_utf8, printable, skipped_kind
from transforms.sources.path_labels import OUTSIDE_SPLITS, compile_pattern, path_group, path_label
from transforms.sources.source import Source
from transforms.sources.source_spec import SourceSpec

_BESIDE_SPLITS = (FailureReason.UNKNOWN_SPLIT.value, "beside the split folders, not in one of them")


class ImageFolder(Source):
    """Lists the images below one or more roots.

    Args:
      roots: the folders and globs.
      label_pattern: where labels come from; None for folders. It makes the source "filename_pattern".
    """

    def __init__(self, roots: Sequence[Root], *, label_pattern: re.Pattern[str] | None = None) -> None:
        super().__init__()
        self.name = "image_folder" if label_pattern is None else "filename_pattern"
        self._roots = roots
        self._label_pattern = label_pattern

    def samples(self) -> Iterator[SampleRef]:
        """One reference per image, in the order in which storage lists them; may be iterated once."""
        for root in self._roots:
            start = root.start
            for entry in storage.list_files(root.listing, special=True, literal=root.is_folder):
                relative = entry.path[start:]
                kind = skipped_kind(relative)
                if kind == FOLDER_MARKER and entry.size < 0:
                    kind = "link to a listed folder"
                top, below, rest = relative.partition("/")
                split = root.splits.get(top) if root.splits is not None and below else None
                if kind is None and split is None and root.only_splits:
                    kind = OUTSIDE_SPLITS
                if kind is None and not has_extension(relative) and not _may_be_an_image(entry):
                    kind = NOT_AN_IMAGE
                key = root.key_prefix + relative
                if kind is not None:
                    self.skipped.add(kind, printable(key))
                    continue
                entry = _look_again(entry)
                failure = _failure(entry)
                if failure is None and split is None and root.splits is not None:
                    failure = _BESIDE_SPLITS
                if failure is not None and not is_utf8(entry.path):
                    yield SampleRef(printable(key), File(printable(entry.path)), split=split, failure=failure)
                    continue
                label = path_label(key, relative if split is None else rest, self._label_pattern)
                size = max(entry.size, 0)
                group = path_group(key, self._label_pattern)
                locator = File(entry.path, entry.version)
                yield SampleRef(key, locator, size, entry.fingerprint, label, split, {}, failure, group)


def open_source(spec: SourceSpec) -> ImageFolder:
    """Opens folders and globs of images.

    Raises:
      RequestError: a folder does not exist, or its layout does not fit the request.
    """
    if spec.source == "image_folder" and spec.label_pattern is not None:
        raise RequestError(
            f"`label_pattern={spec.label_pattern}` and `source=image_folder` exclude each other, because folders give "
            "the labels there; leave one of them out"
        )
    if spec.source == "filename_pattern" and spec.label_pattern is None:
        raise RequestError(
            "`source=filename_pattern` needs `label_pattern`; say for instance `label_pattern=(?P<label>cat|dog)`"
        )
    pattern = compile_pattern(spec)
    refuse_columns(spec)
    roots = [root_of(path) for path in spec.input]
    for root in roots:
        if not storage.is_folder(root.folder):
            raise RequestError(f"{quote_input(root.listing)}: there is no folder {printable(root.folder)}")
    prefixes = key_prefixes([root.folder for root in roots])
    roots = [
        dataclasses.replace(root, key_prefix=prefix, selection=spec.selection)
        for root, prefix in zip(roots, prefixes, strict=True)
    ]
    roots = with_splits(roots, spec)
    if pattern is None and spec.needs_label:
        for root in roots:
            refuse_unfit(root, spec)
    return ImageFolder(roots, label_pattern=pattern)


def _may_be_an_image(entry: storage.FileEntry) -> bool:
    """Whether the first bytes of a local file may be an image's; a remote one would cost a request per file."""
    if storage.has_scheme(entry.path) or entry.size < 0:
        return True
    try:
        return may_be_an_image(storage.read_range(entry.path, 0, SNIFFED_BYTES))
    except OSError:
        return True  # It fails again when it is converted, and is counted then.


def _look_again(entry: storage.FileEntry) -> storage.FileEntry:
    """The entry; one that was listed as no regular file may have been a service fault.

    Raises:
      BuildError: it still is one.
    """
    if entry.size >= 0 or not is_utf8(entry.path):
        return entry
    try:
        return retry_faults(entry.path, lambda: storage.stat(entry.path))
    except OSError:
        return entry


def _failure(entry: storage.FileEntry) -> tuple[str, str] | None:
    if not is_utf8(entry.path):
        return (FailureReason.UNREADABLE.value, "the file name is not valid UTF-8; rename the file")
    if entry.size < 0:
        return (FailureReason.UNREADABLE.value, "not a regular file, or a broken link")
    return None
