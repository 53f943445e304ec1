"""Images in folders: the folders say class and split, or a pattern finds the class in the path."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import FailureReason, RequestError, SampleError
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.transforms.images.formats import SNIFFED_BYTES, may_be_an_image
from beam_tfrecords.transforms.refs import File, SampleRef, one_image
from beam_tfrecords.transforms.service_faults import retry_faults
from beam_tfrecords.transforms.sources.containers import Container, Spool
from beam_tfrecords.transforms.sources.detect.inference import assume_folders, change_refs
from beam_tfrecords.transforms.sources.detect.interpretation import Interpretation, Request, show_names
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary, FolderTree
from beam_tfrecords.transforms.sources.folders.mask_files import MaskFiles, find_mask_files, find_unmatched
from beam_tfrecords.transforms.sources.folders.roots import Root, check_named_splits, root_of
from beam_tfrecords.transforms.sources.image_files import with_mask
from beam_tfrecords.transforms.sources.inferred import InferredSource
from beam_tfrecords.transforms.sources.inputs import (
    describe_splits,
    key_prefixes,
    quote_input,
    splits_of_names,
)
from beam_tfrecords.transforms.sources.names import (
    FOLDER_MARKER,
    NOT_AN_IMAGE,
    has_extension,
    is_utf8,
    printable,
    skipped_kind,
)
from beam_tfrecords.transforms.sources.path_labels import (
    OUTSIDE_SPLITS,
    compile_pattern,
    find_path_columns,
    path_columns,
    path_group,
    path_label,
)
from beam_tfrecords.transforms.sources.source import MakeSource
from beam_tfrecords.transforms.sources.source_spec import Skipped, SourceSpec

# Of fewer images, starting a pipeline would take longer than it gains; of more, listing these once more costs little.
MOST_LISTED_HERE = 1_000_000
# In a bucket, a look at so many folders for empty ones takes a second.
_MOST_FOLDERS = 5_000


@dataclasses.dataclass(frozen=True)
class ReadImages:
    """Lists the images of one part of a folder or glob. Picklable.

    Attributes:
      roots: prefix of keys -> the root.
      spec: the request.
    """

    roots: Mapping[str, Root]
    spec: SourceSpec

    def __call__(self, container: Container, spool: Spool, skipped: Skipped) -> Iterator[SampleRef]:
        """One reference per image."""
        root = self.roots[container.key_prefix]
        files = storage.list_part(root.listing, container.part, special=True, literal=root.is_folder)
        return _list_images(files, root, self.spec, skipped)


class ImageFolder(InferredSource):
    """Lists the images below one or more roots.

    Args:
      roots: the folders and globs.
      spec: the request; its label pattern makes the source "filename_pattern".
    """

    def __init__(self, roots: Sequence[Root], spec: SourceSpec) -> None:
        super().__init__()
        self.name = "image_folder" if spec.label_pattern is None else "filename_pattern"
        self._roots = roots
        self._spec = spec
        self._label_pattern = compile_pattern(spec)
        self._has_masks = spec.needs_mask
        self._take_columns(self._label_pattern, spec)
        self.provides |= {Content.MASK} if self._has_masks else frozenset()
        self._masks: Mapping[str, MaskFiles] = {}
        self.notes += describe_splits([root.folder for root in roots], [root.split for root in roots], spec)
        self.read_container: ReadImages = ReadImages({root.key_prefix: root for root in roots}, spec)
        # The names of all masks would have to be in the memory of every worker.
        if not self._has_masks and all(storage.can_cut(root.listing) for root in roots):
            self.most_listed_here = MOST_LISTED_HERE

    def samples(self) -> Iterator[SampleRef]:
        """One reference per image, in the order in which storage lists them; may be iterated once."""
        self._masks = find_mask_files(self._roots, self._spec) if self._has_masks else {}
        for root in self._roots:
            files = storage.list_files(root.listing, special=True, literal=root.is_folder)
            yield from _list_images(files, root, self._spec, self.skipped, self._masks.get(root.key_prefix))

    def parts(self) -> Sequence[Container]:
        """See `Source.parts`."""
        return [
            Container(root.listing, 0, "", root.key_prefix, part=part)
            for root in self._roots
            for part in storage.cut_listing(root.listing, literal=root.is_folder)
        ]

    def infer(self, folders: FolderSummary) -> Callable[[SampleRef], SampleRef] | None:
        """See `Source.infer`."""
        self.unmatched = list(find_unmatched(self._masks.values()))
        self.notes += [one.note for one in self.unmatched]
        trees = {root.key_prefix: folders.tree(root.key_prefix) for root in self._roots}
        names = [storage.basename(root.folder) for root in self._roots]
        found: dict[str, Interpretation] = {}
        for root in self._roots:
            tree = trees[root.key_prefix]
            if not tree.total():
                found[root.key_prefix] = Interpretation()
                self.notes.append(f"no image in {quote_input(root.listing)}")
                continue
            is_alone = root.is_folder and len(self._roots) == 1 and not self._names_paths()
            path = root.folder if is_alone else None
            name = storage.basename(root.folder)
            request = Request(self._spec, quote_input(root.listing), name, path, root.key_prefix, names)
            request = dataclasses.replace(request, folder=root.folder if root.is_folder else None)
            found[root.key_prefix] = self._infer(tree, request)
            if root.is_folder and self._spec.needs_label and self._label_pattern is None:
                self.notes += self._empty_folders(root, tree, found[root.key_prefix])
        if self._has_masks and not self._masks:
            raise RequestError(
                f"{quote_input(self._roots[0].listing)}: the layout needs masks; name their folder with `mask_root`, "
                "or what their names have at their ends with `mask_suffix`"
            )
        splits = {root.key_prefix: root.split for root in self._roots if root.split}
        return change_refs(found, trees, self._spec, folders=folders, splits=splits)

    def _names_paths(self) -> bool:
        """Whether the request says something about the input or paths below it that another input would lose."""
        spec = self._spec
        return bool(spec.include or spec.exclude or spec.split_folders or spec.label_pattern or spec.input_splits)

    def _empty_folders(self, root: Root, tree: FolderTree, found: Interpretation) -> Iterator[str]:
        """A note on the folders among those of the classes that hold no image."""
        bases: Mapping[str, str | None] = found.bases if len(found.bases) < _MOST_FOLDERS else {}
        for base in bases:
            full = tree.below(base)
            if len(full) > _MOST_FOLDERS:
                continue
            with contextlib.suppress(OSError):
                names = retry_faults(root.folder, functools.partial(root.folder_names, base))
                empty = [
                    name
                    for name in names
                    if name not in full
                    and self._spec.selection.skips_path(f"{root.key_prefix}{base}/{name}".lstrip("/")) is None
                ]
                if empty:
                    yield f"no image in the folder {show_names(empty)} of {printable(storage.join(root.folder, base))}"


def _list_images(
    files: Iterable[storage.FileEntry], root: Root, spec: SourceSpec, skipped: Skipped, masks: MaskFiles | None = None
) -> Iterator[SampleRef]:
    """One reference per image among the listed files of a root; counts the others."""
    guess, pattern, start = assume_folders(spec), compile_pattern(spec), root.start
    only_splits = spec.split_folders is not None
    _, names = find_path_columns(pattern, spec)
    # Images of one folder come one after the other.
    last: str | None = None
    placed: tuple[str | None, str | None] = (None, None)
    for entry in files:
        relative = entry.path[start:]
        kind = skipped_kind(relative)
        if kind == FOLDER_MARKER and entry.size < 0:
            kind = "link to a listed folder"
        folder = relative[: relative.rfind("/") + 1]
        if folder != last:
            last, placed = folder, guess.place(folder)
        label, split = placed
        if kind is None and split is None and only_splits:
            kind = OUTSIDE_SPLITS
        if kind is None and masks is not None and masks.is_mask(entry.path):
            kind = "mask"
        if kind is None and not has_extension(relative) and not _may_be_an_image(entry):
            kind = NOT_AN_IMAGE
        key = root.key_prefix + relative
        if kind is not None:
            skipped.add(kind, printable(key))
            continue
        failure = _failure(entry)
        if failure is not None and not is_utf8(entry.path):
            yield SampleRef(printable(key), one_image(File(printable(entry.path))), split=split, failure=failure)
            continue
        if pattern is not None:
            label = path_label(key, pattern)
        size = max(entry.size, 0)
        images = one_image(File(entry.path, entry.version))
        group = path_group(key, pattern)
        columns = path_columns(key, pattern, names) if names else {}
        ref = SampleRef(key, images, size, entry.fingerprint, label, split, columns, failure, group)
        yield ref if masks is None or failure else _with_mask(ref, masks, relative)


def open_input(spec: SourceSpec) -> MakeSource:
    """Opens folders and globs of images.

    Raises:
      RequestError: a folder does not exist, or its layout does not fit the request.
    """
    if spec.source == "filename_pattern" and spec.label_pattern is None:
        raise RequestError(
            "`source=filename_pattern` needs `label_pattern`; say for instance `label_pattern=(?P<label>cat|dog)`"
        )
    compile_pattern(spec)
    roots = [root_of(path) for path in spec.input]
    for root in roots:
        if not storage.is_folder(root.folder):
            raise RequestError(f"{quote_input(root.listing)}: there is no folder {printable(root.folder)}")
    folders = [root.folder for root in roots]
    splits = [spec.input_splits.get(path) for path in spec.input]
    prefixes = key_prefixes(folders, splits=splits)
    splits = splits if spec.input_splits else splits_of_names(folders, spec)
    roots = [
        dataclasses.replace(root, key_prefix=prefix, split=split)
        for root, prefix, split in zip(roots, prefixes, splits, strict=True)
    ]
    check_named_splits(roots, spec)
    return functools.partial(ImageFolder, roots)


def _with_mask(ref: SampleRef, masks: MaskFiles, relative: str) -> SampleRef:
    try:
        return with_mask(ref, masks.find(relative))
    except SampleError as error:
        return dataclasses.replace(ref, failure=(error.reason.value, error.detail))


def _may_be_an_image(entry: storage.FileEntry) -> bool:
    """Whether the first bytes of a local file may be an image's; a remote one would cost a request per file."""
    if storage.has_scheme(entry.path) or entry.size < 0:
        return True
    try:
        return may_be_an_image(retry_faults(entry.path, lambda: storage.read_range(entry.path, 0, SNIFFED_BYTES)))
    except OSError:
        return True  # It fails again when it is converted, and is counted then.


def _failure(entry: storage.FileEntry) -> tuple[str, str] | None:
    if not is_utf8(entry.path):
        return (FailureReason.UNREADABLE.value, "the file name is not valid UTF-8; rename the file")
    if entry.size < 0:
        return (FailureReason.UNREADABLE.value, "not a regular file, or a broken link")
    return None
