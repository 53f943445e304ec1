"""The source for image folders: folders give class and split, or a pattern finds the class in the path."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.sources.containers import Container
from beam_tfrecords.transforms.sources.detect.interpretation import Interpretation, Request
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary
from beam_tfrecords.transforms.sources.folders.listed_images import ReadImages
from beam_tfrecords.transforms.sources.folders.mask_files import find_unmatched
from beam_tfrecords.transforms.sources.folders.object_masks import choose_masks
from beam_tfrecords.transforms.sources.folders.roots import Root, check_named_splits, describe_empty, root_of
from beam_tfrecords.transforms.sources.inferred import InferredSource
from beam_tfrecords.transforms.sources.inputs import Inputs, describe_splits, key_prefixes, quote_input, splits_of_names
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.path_labels import compile_pattern
from beam_tfrecords.transforms.sources.source import MakeSource
from beam_tfrecords.transforms.sources.source_spec import SourceSpec

# Below this, starting a pipeline takes longer than listing here; above it, listing these again costs little.
MOST_LISTED_HERE = 1_000_000


class ImageFolder(InferredSource):
    """Lists the images below one or more roots.

    Args:
      roots: the folders and globs.
      inputs: inputs that name the roots.
      spec: settings of the request.
      needs: requested contents.
    """

    def __init__(self, roots: Sequence[Root], inputs: Inputs, spec: SourceSpec, needs: Needs) -> None:
        super().__init__()
        self._roots = roots
        self._masks, has_objects = choose_masks(roots, spec.paths, needs)
        self._has_masks = needs.mask or has_objects
        self._take_request(inputs, spec, needs, [root.key_prefix for root in roots])
        of_masks = {Content.OBJECTS, Content.OBJECT_MASKS} if has_objects else {Content.MASK}
        self._describe(provides=self.description.provides | (of_masks if self._has_masks else frozenset()))
        self.notes += describe_splits([root.folder for root in roots], [root.split for root in roots], inputs)
        self.read_container: ReadImages = ReadImages({root.key_prefix: root for root in roots}, self._pattern, needs)
        # With masks, every worker would need the names of all masks in memory.
        if not self._has_masks and all(storage.can_partition(root.listing) for root in roots):
            self.most_listed_here = MOST_LISTED_HERE

    def samples(self) -> Iterator[SampleRef | RefColumns]:
        """Yields a reference to each image, in the listing order of the storage; may be iterated once."""
        for root in self._roots:
            files = storage.list_files(root.listing, special=True, literal=root.is_folder)
            masks = self._masks.get(root.key_prefix, ())
            yield from self.read_container.list_images(files, root, self.skipped, masks)

    def partitions(self) -> Sequence[Container]:
        """See `Source.partitions`."""
        return [
            Container(root.listing, 0, "", root.key_prefix, partition=partition)
            for root in self._roots
            for partition in storage.partition_listing(root.listing, literal=root.is_folder)
        ]

    def infer(self, folders: FolderSummary) -> Callable[[SampleRef], SampleRef] | None:
        """See `Source.infer`."""
        self.unmatched = list(find_unmatched(itertools.chain.from_iterable(self._masks.values())))
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
            request = Request(
                self._spec,
                self._needs,
                quote_input(root.listing),
                name,
                path,
                root.key_prefix,
                names,
                says_splits=bool(self._inputs.splits),
                folder=root.folder if root.is_folder else None,
            )
            found[root.key_prefix] = self._infer(tree, request)
            if root.is_folder and request.by_folders:
                self.notes += describe_empty(root, tree, found[root.key_prefix], self._spec.selection)
        if self._has_masks and not self._masks:
            raise RequestError(
                f"{quote_input(self._roots[0].listing)}: the layout needs masks; name their folder with `mask_root`, "
                "or what their names have at their ends with `mask_suffix`",
                code="missing_masks",
            )
        splits = {root.key_prefix: root.split for root in self._roots if root.split}
        return self._change(found, trees, folders=folders, splits=splits)

    def _names_paths(self) -> bool:
        """Whether the request has settings that only apply to this input or to paths below it."""
        folders = self._needs.splits.folders
        return bool(self._spec.selection.globs or folders or self._pattern or self._inputs.splits)


def open_input(inputs: Inputs, spec: SourceSpec, needs: Needs) -> MakeSource:
    """Opens folders and globs of images.

    Raises:
      RequestError: a folder does not exist, or its layout does not fit the request.
    """
    if spec.source == "filename_pattern" and spec.label_pattern is None:
        raise RequestError(
            "`source=filename_pattern` needs `label_pattern`; use, for example, `label_pattern=(?P<label>cat|dog)`",
            code="needs_setting",
        )
    compile_pattern(spec.label_pattern, needs)
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
    return functools.partial(ImageFolder, roots, inputs, spec)
