"""The source for folders whose images of the same names are one sample: stereo pairs, low and high resolution."""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Iterator, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.storage.beside import does_not_exist
from beam_tfrecords.transforms.refs.sample_refs import File, SampleRef
from beam_tfrecords.transforms.sources.detect.interpretation import describe_folders
from beam_tfrecords.transforms.sources.detect.mask_names import without_common_ends
from beam_tfrecords.transforms.sources.folders.roots import Root, root_of
from beam_tfrecords.transforms.sources.image_files import join_fingerprints, of_path
from beam_tfrecords.transforms.sources.inputs import has_wildcards
from beam_tfrecords.transforms.sources.names import printable, unpaired_kind
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition, StagingFiles
from beam_tfrecords.transforms.sources.path_labels import PathPattern
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest, Source
from beam_tfrecords.transforms.sources.tally import Tally

# Of all names, the share that must be in every folder.
_LEAST_COMMON = 0.5
_MOST_SHOWN = 3

# Name of an image -> the files of the folder with this name.
_Files = dict[str, list[storage.FileEntry]]


def open_input(request: OpenRequest) -> MakeSource:
    """Opens the folders of paired images.

    Raises:
      RequestError: there are none, `input` names others, or one does not exist.
    """
    inputs, spec = request.inputs, request.spec
    folders = dict(word.split("=", 1) for word in spec.images)
    if tuple(inputs.paths) != tuple(folders.values()):
        raise RequestError(
            "`images` names the folders of paired images, such as left=DIR,right=DIR; expected it without `input`",
            code="conflicting_settings",
        )
    roots = {name: root_of(folder) for name, folder in folders.items()}
    for name, folder in folders.items():
        if roots[name].is_folder and not storage.is_folder(folder):
            raise RequestError(f"`images={name}={printable(folder)}` {does_not_exist(folder)}", code="not_found")
    return functools.partial(PairedImages, roots, spec.label_pattern)


class PairedImages(Source):
    """Lists the images that have the same path below each of several folders, as one sample.

    Extensions may differ, and so may a beginning or an end that all names of a folder share, such as `_left`. The
    folders that a glob names after its first wildcard, such as `left` in `scenes/*/left/**`, may differ, too.

    Args:
      folders: name of an image of a sample -> its folder or glob.
      label_pattern: pattern that gives label, group and columns; None for samples without labels.
      needs: requested contents.
    """

    def __init__(self, folders: Mapping[str, Root], label_pattern: str | None, needs: Needs) -> None:
        super().__init__()
        self._folders, self._needs = folders, needs
        self._pattern = PathPattern.of(label_pattern, needs)
        provides = self._pattern.contents | {Content.IMAGE, Content.IMAGES}
        self._describe(provides=provides, images=dict.fromkeys(folders, False), **self._pattern.describe())
        self.notes += self._pattern.notes

    def read(self, partition: Partition, tally: Tally, staging: StagingFiles) -> Iterator[SampleRef]:
        """Yields the samples in the order of the first folder.

        Raises:
          RequestError: fewer than half of the names are in every folder.
        """
        found = _match_names({name: self._list(root) for name, root in self._folders.items()})
        first = next(iter(found.values()))
        if Content.LABEL not in self._pattern.contents:
            tally.notes += describe_folders({posixpath.dirname(stem) for stem in first})
        for stem in sorted({one for files in found.values() for one in files}, key=lambda one: (one not in first, one)):
            yield self._reference({name: files.get(stem, []) for name, files in found.items()})

    def _list(self, root: Root) -> _Files:
        """Returns path below a folder without extension -> images; for a glob, without the folders that it names."""
        files: _Files = {}
        parts = [] if root.is_folder else root.listing[root.start :].split("/")[:-1]
        parts = parts[: parts.index("**")] if "**" in parts else parts
        named = [place for place, part in enumerate(parts) if not has_wildcards(part)]
        for entry in storage.list_files(root.listing, literal=root.is_folder):
            below = entry.path[root.start :]
            if unpaired_kind(below, arrays=Content.ARRAY in self._needs.contents) is None:
                path = posixpath.splitext(below)[0].split("/")
                stem = "/".join(part for place, part in enumerate(path) if place not in named)
                files.setdefault(stem, []).append(entry)
        return {stem: sorted(some, key=lambda one: one.path) for stem, some in files.items()}

    def _reference(self, files: Mapping[str, Sequence[storage.FileEntry]]) -> SampleRef:
        name, first = next((name, found[0]) for name, found in files.items() if found)
        key = first.path[self._folders[name].start :]
        missing = next((name for name, found in files.items() if not found), None)
        several = next((name for name, found in files.items() if len(found) > 1), None)
        failure = None
        if missing is not None:
            failure = (
                FailureReason.UNREADABLE.value,
                f"{missing}: no image of this name in {self._folders[missing].listing}",
            )
        elif several is not None:
            shown = ", ".join(printable(storage.basename(one.path)) for one in files[several][:_MOST_SHOWN])
            failure = FailureReason.INVALID_ROW.value, f"{several}: several images of this name: {shown}"
        entries = [found[0] for found in files.values() if found]
        fingerprints = [first.fingerprint, *(of_path(one.fingerprint, one.path) for one in entries[1:])]
        return SampleRef(
            key,
            {name: File(found[0].path, found[0].version) for name, found in files.items() if found},
            max(first.size, 0),
            join_fingerprints(fingerprints),
            failure=failure,
            **self._pattern.find(key),
        )


def _match_names(found: Mapping[str, _Files]) -> dict[str, _Files]:
    """Returns the images of each folder by the names that the folders have in common.

    Raises:
      RequestError: fewer than half of the names are in every folder.
    """
    for rename in (dict, _without_common_ends):
        named = {name: rename(files) for name, files in found.items()}
        common = set.intersection(*(set(files) for files in named.values()))
        most = max(map(len, named.values()))
        if common and len(common) >= _LEAST_COMMON * most:
            return named
    counts = ", ".join(f"{name} has {sum(map(len, files.values())):,}" for name, files in found.items())
    some = " and ".join(printable(min(files)) if files else "none" for files in found.values())
    common = set.intersection(*(set(files) for files in found.values()))
    raise RequestError(
        f"`images`: {counts} images, and {len(common):,} names are in all of these folders; expected the same "
        f"names in each folder, but found {some}; a table can name the images of each sample",
        code="unpaired_images",
    )


def _without_common_ends(files: _Files) -> _Files:
    """Returns the images without the beginning and the end that all file names of a folder share."""
    names = without_common_ends([posixpath.basename(stem) for stem in files])
    renamed: _Files = {}
    for (stem, entries), name in zip(files.items(), names, strict=True):
        renamed.setdefault(posixpath.join(posixpath.dirname(stem), name), []).extend(entries)
    return renamed
