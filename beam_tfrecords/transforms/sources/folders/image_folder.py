"""The source for image folders: folders give class and split, or a pattern finds the class in the path."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError, SampleError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.images.formats import SNIFFED_BYTES, may_be_an_image
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import File, SampleRef, one_image, plain_files
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.sources.detect.folder_meaning import FolderMeaning
from beam_tfrecords.transforms.sources.detect.interpretation import Interpretation, Request, describe_unstored
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary, FolderTree
from beam_tfrecords.transforms.sources.folders.mask_files import (
    MaskFiles,
    ObjectMaskFiles,
    add_masks,
    choose_masks,
    find_masks,
    find_unmatched,
)
from beam_tfrecords.transforms.sources.folders.roots import Root, check_named_splits, describe_empty, root_of
from beam_tfrecords.transforms.sources.image_files import with_masks
from beam_tfrecords.transforms.sources.inputs import describe_splits, key_prefixes, quote_input, splits_of_names
from beam_tfrecords.transforms.sources.names import (
    FOLDER_MARKER,
    NOT_AN_IMAGE,
    has_extension,
    is_utf8,
    printable,
    skipped_kind,
)
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import WHOLE, Partition, StagingFiles
from beam_tfrecords.transforms.sources.path_labels import OUTSIDE_SPLITS, PathPattern, named_split_folders
from beam_tfrecords.transforms.sources.source import Finish, MakeSource, OpenRequest, Source
from beam_tfrecords.transforms.sources.tally import Tally

# Number of references to collect for a batch.
_MOST = 256
# Below this, starting a pipeline takes longer than listing here; above it, listing these again costs little.
MOST_LISTED_HERE = 1_000_000


class InferredSource(Source):
    """A source that infers labels and splits after all samples are listed."""

    _needs: Needs
    _pattern: PathPattern
    _joined: Sequence[str]

    def _names_paths(self) -> bool:
        """Whether the request has settings that only apply to this input or to paths below it."""
        folders = self._needs.splits.folders
        return bool(self._spec.globs or folders or self._pattern.pattern or self._inputs.splits)

    def _leave_joined(self, folders: FolderSummary, tally: Tally, roots: Mapping[str, str]) -> None:
        """Removes the files that the request joins from the files that nothing reads.

        Args:
          folders: folders of all inputs.
          tally: counts of the listing.
          roots: key prefix -> folder of an input.
        """
        for path, (prefix, root) in itertools.product(self._joined, roots.items()):
            key = prefix + path.removeprefix(f"{root}/")
            if path.startswith(f"{root}/") and (left := folders.remove_other(key)) is not None:
                tally.remove(key, left)

    def _list_images(
        self,
        files: Iterable[storage.FileEntry],
        root: Root,
        tally: Tally,
        masks: Sequence[MaskFiles] = (),
        *,
        is_image: Callable[[storage.FileEntry], bool] | None = None,
        find_failure: Callable[[storage.FileEntry], tuple[str, str] | None] | None = None,
    ) -> Iterator[SampleRef | RefColumns]:
        """Yields a reference to each image among the listed files of a root, in order; counts the others as skipped.

        Args:
          files: the listed files.
          root: their root.
          tally: counts the files that are not images.
          masks: files with masks.
          is_image: whether the file that was listed last may be an image, by its first bytes.
          find_failure: returns why it is rejected without being read.
        """
        is_image, find_failure = is_image or _may_be_an_image, find_failure or _failure
        start = root.start
        named = named_split_folders(self._needs.splits)
        splits = None if named is None else Interpretation(named)
        # Images of a folder are consecutive in the listing, but not in every archive.
        last, is_outside = "", False
        # Images without individual metadata.
        keys: list[str] = []
        plain: list[storage.FileEntry] = []
        is_plain = self._pattern.pattern is None and not masks

        def take() -> Iterator[RefColumns]:
            if keys:
                yield _by_column(keys, plain)
                keys.clear()
                plain.clear()

        for entry in files:
            relative = entry.path[start:]
            kind = skipped_kind(relative, arrays=Content.ARRAY in self._needs.contents)
            if kind == FOLDER_MARKER and entry.size < 0:
                kind = "link to a listed folder"
            if len(keys) == _MOST:
                yield from take()
            if splits is not None:
                folder = f"/{relative[: relative.rfind('/') + 1]}"
                if folder != last:
                    last, is_outside = folder, splits.place(folder[1:])[1] is None
                if kind is None and is_outside:
                    kind = OUTSIDE_SPLITS
            if kind is None and any(one.is_mask(entry.path) for one in masks):
                # Masks without an image are counted by their files.
                tally.see(printable(root.key_prefix + relative))
                continue
            if kind is None and not has_extension(relative) and not is_image(entry):
                kind = NOT_AN_IMAGE
            key = root.key_prefix + relative
            if kind is not None:
                tally.add(kind, printable(key))
                continue
            failure = find_failure(entry)
            if is_plain and failure is None:
                keys.append(key)
                plain.append(entry)
                continue
            yield from take()
            if failure is not None and not is_utf8(entry.path):
                yield SampleRef(printable(key), one_image(File(printable(entry.path))), failure=failure)
                continue
            size = max(entry.size, 0)
            images = one_image(File(entry.path, entry.version))
            ref = SampleRef(key, images, size, entry.fingerprint, failure=failure, **self._pattern.find(key))
            yield _with_masks(ref, masks, relative, self._needs.only_class) if masks and not failure else ref
        yield from take()

    def _decide(
        self, found: Mapping[str, Interpretation], *, folders: FolderSummary, splits: Mapping[str, str]
    ) -> Finish:
        """Returns the labels and splits that the folders give.

        Args:
          found: key prefix -> interpretation of the folders below it.
          folders: folders of all inputs.
          splits: key prefix -> split that an input states.

        Raises:
          RequestError: an input states its split, but its folders state another.
        """
        keeps_splits = self._needs.splits.fractions is not None
        meaning = FolderMeaning(found, "", self._pattern.pattern is not None, keeps_splits, splits)
        meaning.check_splits(folders, self._inputs)
        return Finish(self.description, meaning)

    def _take_request(self, request: OpenRequest, needs: Needs, prefixes: Iterable[str]) -> None:
        """Stores a request and the key prefixes, and turns the named groups of `label_pattern` into columns.

        Raises:
          RequestError: the layout needs a column that is not among these groups.
        """
        self._inputs, self._spec, self._needs = request.inputs, request.spec, needs
        self._joined = [file.path for one in request.joined for file in one.files]
        self._pattern = PathPattern.of(request.spec.label_pattern, needs)
        self._describe(
            provides=self.description.provides | self._pattern.contents,
            prefix_depth=max(prefix.count("/") for prefix in prefixes),
            **self._pattern.describe(),
        )
        self.notes += self._pattern.notes


class ImageFolder(InferredSource):
    """Lists the images below one or more roots.

    Args:
      roots: the folders and globs.
      request: the request.
      needs: requested contents.
    """

    def __init__(self, roots: Sequence[Root], request: OpenRequest, needs: Needs) -> None:
        super().__init__()
        self._roots = roots
        self._masks, has_objects = choose_masks(roots, request.spec, needs)
        self._has_masks = Content.MASK in needs.contents or has_objects
        self._take_request(request, needs, [root.key_prefix for root in roots])
        of_masks = {Content.OBJECTS, Content.OBJECT_MASKS} if has_objects else {Content.MASK}
        self._describe(provides=self.description.provides | (of_masks if self._has_masks else frozenset()))
        self.notes += describe_splits({root.folder: root.split for root in roots}, request.inputs)
        names = {root.key_prefix.strip("/") for root in roots if root.split is None} - {""}
        self.notes += [] if Content.LABEL in needs.contents else describe_unstored("inputs", names)

    def read(self, partition: Partition, tally: Tally, staging: StagingFiles) -> Iterator[SampleRef | RefColumns]:
        """Yields a reference to each image, in the listing order of the storage."""
        for root in self._roots:
            if partition == WHOLE:
                files = storage.list_files(root.listing, special=True, literal=root.is_folder)
                yield from self._list_images(files, root, tally, self._masks.get(root.key_prefix, ()))
            elif partition.key_prefix == root.key_prefix:
                files = storage.list_partition(root.listing, partition.part, special=True, literal=root.is_folder)
                yield from self._list_images(files, root, tally)

    def cut(self, listed: int) -> Sequence[Partition]:
        """See `Source.cut`."""
        # With masks, every worker would need the names of all masks in memory.
        if listed <= MOST_LISTED_HERE or self._has_masks:
            return ()
        if not all(storage.can_partition(root.listing) for root in self._roots):
            return ()
        return [
            Partition(root.listing, 0, "", root.key_prefix, part=part, identifies=False)
            for root in self._roots
            for part in storage.partition_listing(root.listing, literal=root.is_folder)
        ]

    def questions(self, folders: FolderSummary, tally: Tally) -> Mapping[str, tuple[FolderTree, Request]]:
        """See `Source.questions`."""
        unmatched = list(find_unmatched(itertools.chain.from_iterable(self._masks.values())))
        tally.unmatched += unmatched
        tally.notes += [one.note for one in unmatched]
        self._leave_joined(folders, tally, {root.key_prefix: root.folder for root in self._roots})
        names = [storage.basename(root.folder) for root in self._roots]
        asked: dict[str, tuple[FolderTree, Request]] = {}
        for root in self._roots:
            tree = folders.tree(root.key_prefix)
            if not tree.total():
                tally.notes.append(f"no image in {quote_input(root.listing)}")
                continue
            is_alone = root.is_folder and len(self._roots) == 1 and not self._names_paths()
            path = root.folder if is_alone else None
            name = storage.basename(root.folder)
            request = Request(
                self._spec,
                self._needs,
                quote_input(root.listing),
                name,
                path,
                root.key_prefix,
                names,
                says_splits=bool(self._inputs.splits),
                folders=[root.folder] if root.is_folder else (),
            )
            asked[root.key_prefix] = tree, request
        return asked

    def finish(self, folders: FolderSummary, tally: Tally, found: Mapping[str, Interpretation]) -> Finish:
        """See `Source.finish`."""
        by_folders = Content.LABEL in self._needs.contents and self._spec.label_pattern is None
        for root in self._roots:
            if root.is_folder and by_folders and root.key_prefix in found:
                tree = folders.tree(root.key_prefix)
                tally.notes += describe_empty(root, tree, found[root.key_prefix], self._spec)
        if self._has_masks and not self._masks:
            raise RequestError(
                f"{quote_input(self._roots[0].listing)}: the layout needs masks; name their folder with `mask_root`, "
                "or what their names have at their ends with `mask_suffix`",
                code="missing_masks",
            )
        splits = {root.key_prefix: root.split for root in self._roots if root.split}
        return self._decide(found, folders=folders, splits=splits)


def open_input(request: OpenRequest) -> MakeSource:
    """Opens folders and globs of images.

    Raises:
      RequestError: a folder does not exist, or its layout does not fit the request.
    """
    inputs, spec, needs = request.inputs, request.spec, request.needs
    if spec.source == "filename_pattern" and spec.label_pattern is None:
        raise RequestError(
            "`source=filename_pattern` needs `label_pattern`; use, for example, `label_pattern=(?P<label>cat|dog)`",
            code="needs_setting",
        )
    roots = [root_of(path) for path in inputs.paths]
    for root in roots:
        # The caller has already checked that folders exist.
        if not root.is_folder and not storage.is_folder(root.folder):
            raise RequestError(
                f"{quote_input(root.listing)}: there is no folder {printable(root.folder)}", code="not_found"
            )
    folders = [root.folder for root in roots]
    splits = [inputs.splits.get(path) for path in inputs.paths]
    prefixes = key_prefixes(folders, splits=splits)
    splits = splits_of_names(folders) if needs.splits.are_auto and not inputs.splits else splits
    roots = [
        dataclasses.replace(root, key_prefix=prefix, split=split)
        for root, prefix, split in zip(roots, prefixes, splits, strict=True)
    ]
    check_named_splits(roots, needs.splits)
    return functools.partial(ImageFolder, roots, request)


def _by_column(keys: Sequence[str], entries: Sequence[storage.FileEntry]) -> RefColumns:
    """Returns references to images as columns, in a third of the time of single references."""
    places = [entry.path for entry in entries], [entry.version for entry in entries]
    return RefColumns.of_rows(
        list(keys),
        [None] * len(keys),
        {},
        images=plain_files(*places),
        size=[entry.size for entry in entries],
        fingerprint=[entry.fingerprint for entry in entries],
    )


def _with_masks(ref: SampleRef, masks: Sequence[MaskFiles], relative: str, only_class: str) -> SampleRef:
    try:
        for one in masks:
            if isinstance(one, ObjectMaskFiles):
                return add_masks(ref, one, relative, only_class)
        return with_masks(ref, find_masks(masks, relative))
    except SampleError as error:
        return dataclasses.replace(ref, failure=(error.reason.value, error.detail))


def _may_be_an_image(entry: storage.FileEntry) -> bool:
    """Whether the first bytes of a local file may be an image. Checking remote files would cost a request each."""
    if storage.has_scheme(entry.path) or entry.size < 0:
        return True
    try:
        return may_be_an_image(retry_faults(entry.path, lambda: storage.read_range(entry.path, 0, SNIFFED_BYTES)))
    except OSError:
        return True  # The conversion fails again and counts the file.


def _failure(entry: storage.FileEntry) -> tuple[str, str] | None:
    if not is_utf8(entry.path):
        return (FailureReason.UNREADABLE.value, "the file name is not valid UTF-8; rename the file")
    if entry.size < 0:
        return (FailureReason.UNREADABLE.value, "not a regular file, or a broken link")
    return None
