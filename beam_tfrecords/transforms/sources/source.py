"""The interface of a source."""

from __future__ import annotations

import dataclasses
import math
import types
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from beam_tfrecords.errors import Suggestion
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.transforms.mapping.user_function import UserFunction
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, SampleRef
from beam_tfrecords.transforms.sources.class_files import FoundClasses
from beam_tfrecords.transforms.sources.containers import Container, ReadContainer, StagingFiles
from beam_tfrecords.transforms.sources.detect.column_suggestions import one_hot_columns
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary
from beam_tfrecords.transforms.sources.inputs import InputFile
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.skipped import Skipped
from beam_tfrecords.transforms.sources.stored_records import StoredRecords
from beam_tfrecords.transforms.sources.tables.table import Table


@dataclasses.dataclass(frozen=True)
class Unmatched:
    """Annotations that match no image.

    Attributes:
      note: message about the annotations.
      count: number of annotations without an image.
      total: number of all annotations of this kind.
    """

    note: str
    count: int
    total: int


@dataclasses.dataclass(frozen=True)
class ReadPipeline:
    """Lists samples that a Beam pipeline makes.

    Attributes:
      make: adds the user's transforms to a pipeline: root -> PCollection of `Sample`.
      read: writes a sample's bytes to a staging file, and returns its reference.
      function: the user's function.
    """

    make: Callable[[Any], Any]
    read: Callable[[Any, StagingFiles], SampleRef]
    function: UserFunction


class Source:
    """Lists samples, or containers whose samples the pipeline lists in parallel.

    Attributes:
      name: value of the setting `source` that selects this source.
      columns: columns of a table; empty for a source without columns.
      label_column: column with the labels, or None.
      split_column: column with the splits, or None.
      table: columns and first rows of the table; None for a source without columns.
      used: columns that the request uses.
      other_images: images of a sample that the request does not use.
      has_several_labels: whether a sample may have several labels or none.
      labels_are_numbered: whether labels are `numbered_label`s.
      text_column: column whose texts name the classes of labels that are numbers, if each class has one text; labels
        are then `numbered_label`s. "" for other labels.
      found_classes: class names beside the samples, in files and arrays, which name labels that they fit.
      one_hot_length: number of zeros and ones in a label that is a list of them; 0 for other labels.
      groups_rows: whether rows with the same key form one sample, as with one row per box.
      column_types: column -> "int64", "float" or "bytes"; None if the source has no types.
      images: name of each image of a sample -> whether it is a list of images; empty for rows without images.
      provides: contents of the samples, for this request.
      unit: word for one sample in messages: "image" or "row".
      last_member_wins: whether the last of several archive members with the same name counts, as in extraction.
      is_inferred_later: whether folders give labels or splits, so that `infer` determines them.
      prefix_depth: number of folders that key prefixes have, if `is_inferred_later`.
      class_names: class names in index order, if the source defines them; labels are then names.
      column_classes: column whose values are class numbers -> class names in index order, if the source declares them;
        empty names if its files declare different ones.
      first_class: number of the class with index 0, if the source has class numbers and no names.
      labels_may_be_indices: whether a numeric label is a class index; never true for folder names.
      skipped: files that are not samples; complete when `samples` has ended. Containers are not included.
      unmatched: annotations, label files or masks without an image; complete when `samples` has ended.
      unread: content -> number of objects that have it, of contents that the request does not read; complete when
        `samples` has ended.
      notes: warnings about a valid but unusual input, one line each; complete when `samples` has ended.
      most_listed_here: the caller calls `partitions` once `samples` has yielded more samples than this; 0 for at once.
      read_with: file that was opened or looked up while opening the source -> its fingerprint then; None if there are
        too many files to track.
      read_container: lists the samples of a container or of one of `partitions`; None for a source without both.
      pipeline: makes and lists the samples of the only container instead; None for other sources.
      records: storage format of the records, if the samples are records of an existing dataset; else None.
    """

    name: str
    columns: Sequence[str] = ()
    label_column: str | None = None
    split_column: str | None = None
    table: Table | None = None
    used: Collection[str | None] = frozenset()
    other_images: Sequence[str] = ()
    has_several_labels = False
    labels_are_numbered = False
    text_column = ""
    found_classes: Sequence[FoundClasses] = ()
    one_hot_length = 0
    groups_rows = False
    column_types: Mapping[str, str] | None = None
    images: Mapping[str, bool] = types.MappingProxyType({IMAGE: False})
    provides: frozenset[Content] = frozenset({Content.IMAGE, Content.LABEL})
    unit = "image"
    last_member_wins = False
    is_inferred_later = False
    prefix_depth = 0
    class_names: Sequence[str] = ()
    column_classes: Mapping[str, Sequence[str]] = types.MappingProxyType({})
    first_class = 0
    labels_may_be_indices = False
    most_listed_here: float = math.inf
    read_with: Mapping[str, str] | None = None
    read_container: ReadContainer | None = None
    pipeline: ReadPipeline | None = None
    records: StoredRecords | None = None

    def __init__(self) -> None:
        self.skipped = Skipped()
        self.notes: list[str] = []
        self.unmatched: list[Unmatched] = []
        self.unread: Counter[Content] = Counter()

    def column_suggestions(self, *, needs_label: bool) -> Sequence[Suggestion]:
        """Suggests settings for the image and label columns of a table with unusual column names, based on its rows."""
        return ()

    def one_hot_columns(self) -> Sequence[str]:
        """Returns the columns that look like one-hot classes: only zeros and ones in the first rows."""
        return one_hot_columns(self.table) if self.table else ()

    def other_labels(self) -> tuple[str, Sequence[Suggestion]]:
        """Returns a message about other possible sources of labels, and suggestions; called after the listing."""
        return "", ()

    def samples(self) -> Iterator[SampleRef | RefColumns]:
        """Yields the samples outside containers, in bounded memory; may be iterated once."""
        return iter(())

    def partitions(self) -> Sequence[Container]:
        """Splits the input of `samples` into partitions for workers; empty if it is too small or cannot be split.

        Unlike containers, partitions do not identify the input: the samples do.
        """
        return ()

    def images_beside(self) -> Iterator[tuple[str, str]]:
        """Yields key and path of the image files beside the rows; those that no row names are counted as skipped."""
        return iter(())

    def infer(self, folders: FolderSummary) -> Callable[[SampleRef], SampleRef] | None:
        """Interprets the folders after all samples are listed, and adds notes on the result.

        Args:
          folders: folders of all samples.

        Returns:
          A function that sets the final label and split of a reference; None if all are right already.

        Raises:
          RequestError: the folders are ambiguous, or do not fit the request.
        """
        return None

    def check_images(self) -> None:
        """Checks that images which the input names are there. Called before the listing.

        Raises:
          RequestError: none of the first images exists.
        """

    def check_containers(self) -> None:
        """Checks that the containers fit the request. Called before the first container is read.

        Raises:
          RequestError: a container has a different kind.
        """

    def containers(self) -> Sequence[Container] | None:
        """Returns the containers; None for a source without containers."""
        return None


# Makes the source of an opened input for some needs. The layout and the requested contents may vary; the input and how
# it is read are fixed. The function may read first rows, but does not open or list the input again.
MakeSource: TypeAlias = Callable[[Needs], Source]


class ContainerSource(Source):
    """A source whose files are containers.

    Args:
      files: the files.
    """

    def __init__(self, files: Sequence[InputFile]) -> None:
        super().__init__()
        self._containers = [Container.of(file.entry, key_prefix=file.key_prefix) for file in files]

    def containers(self) -> Sequence[Container]:
        """See `Source.containers`."""
        return self._containers
