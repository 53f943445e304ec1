"""The interface of a source."""

from __future__ import annotations

import dataclasses
import math
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from beam_tfrecords.errors import Suggestion
from beam_tfrecords.examples.contents import Content
from beam_tfrecords.transforms.mapping.user_function import UserFunction
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, SampleRef
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
    """Annotations that belong to no image.

    Attributes:
      note: says so.
      count: of them.
      total: of all annotations of the kind.
    """

    note: str
    count: int
    total: int


@dataclasses.dataclass(frozen=True)
class ReadPipeline:
    """What lists samples that are made in a pipeline of Beam.

    Attributes:
      make: adds what makes them to a pipeline: root -> collection of `Sample`.
      read: the reference of one, with its bytes in a staging file.
      function: of the user.
    """

    make: Callable[[Any], Any]
    read: Callable[[Any, StagingFiles], SampleRef]
    function: UserFunction


class Source:
    """Lists samples, or containers whose samples the pipeline lists in parallel.

    Attributes:
      name: value of the setting `source` that selects it.
      columns: columns of a table; empty for a source that has none.
      label_column: column of a table that has the labels, or None.
      table: the columns, with first rows that show what they hold; None for a source without columns.
      has_several_labels: whether a sample may be of several classes or of none, as its labels say.
      labels_are_numbered: whether labels are `numbered_label`s.
      groups_rows: whether the samples with one key are one, as rows of a box each are.
      column_types: column -> "int64", "float" or "bytes"; None if the source has no types.
      images: name of each image of a sample -> whether it is a list of images; empty for rows without one.
      provides: what samples have, for this request.
      unit: what a message calls one sample: "image" or "row".
      last_member_wins: whether a member of an archive replaces those before it with the same name, as when extracted.
      is_inferred_later: whether folders give labels or splits, so that `infer` has the last word on them.
      class_names: the classes in the order of their indices, if the source names them; its labels are then names.
      first_class: number of the class of index 0, if the source has numbers for classes and no names.
      labels_may_be_indices: whether a label that is a number is a class index. The name of a folder never is.
      skipped: files that are not samples; complete when `samples` has ended. Containers are not included.
      unmatched: annotations, label files or masks that belong to no image; complete when `samples` has ended.
      notes: warnings about a valid but unusual input, one line each; complete when `samples` has ended.
      most_listed_here: `parts` is asked when `samples` has yielded so many and there are more; if it is 0, at once.
      read_with: file that was opened or asked for when the source was opened -> its fingerprint then; None if they are
        too many to tell.
      read_container: lists the samples of one container, or of one of `parts`; None for a source that has neither.
      pipeline: what makes and lists the samples of the only container instead; None for other sources.
      records: how they are stored, if samples are records of a dataset of ours; else None.
    """

    name: str
    columns: Sequence[str] = ()
    label_column: str | None = None
    table: Table | None = None
    has_several_labels = False
    labels_are_numbered = False
    groups_rows = False
    column_types: Mapping[str, str] | None = None
    images: Mapping[str, bool] = types.MappingProxyType({IMAGE: False})
    provides: frozenset[Content] = frozenset({Content.IMAGE, Content.LABEL})
    unit = "image"
    last_member_wins = False
    is_inferred_later = False
    class_names: Sequence[str] = ()
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

    def column_suggestions(self, *, needs_label: bool) -> Sequence[Suggestion]:
        """The settings that find images and labels of a table whose columns have no usual names, as its rows look."""
        return ()

    def one_hot_columns(self) -> Sequence[str]:
        """The columns that look like a class each: zeros and ones in all of the first rows."""
        return one_hot_columns(self.table) if self.table else ()

    def other_labels(self) -> tuple[str, Sequence[Suggestion]]:
        """What else may say the labels, once all samples are listed: words for a message, and requests that read it."""
        return "", ()

    def samples(self) -> Iterator[SampleRef | RefColumns]:
        """The samples that are not in containers, in bounded memory; may be iterated once."""
        return iter(())

    def parts(self) -> Sequence[Container]:
        """What `samples` reads one after the other, if it is so much that workers should list it at once; else empty.

        Empty as well if it cannot be cut.

        Unlike containers, they do not identify the input: what they list does.
        """
        return ()

    def infer(self, folders: FolderSummary) -> Callable[[SampleRef], SampleRef] | None:
        """Decides what the folders mean, once all samples are listed; adds notes on what was recognised.

        Args:
          folders: of all samples.

        Returns:
          What gives every reference its final label and split; None if those that it has are right.

        Raises:
          RequestError: the folders may mean several things, or do not fit the request.
        """
        return None

    def check_containers(self) -> None:
        """Refuses containers that cannot be what the request says; called before they are read, if they are.

        Raises:
          RequestError: one is of another kind.
        """

    def containers(self) -> Sequence[Container] | None:
        """The containers; None for a source without containers."""
        return None


# What an opened input makes for each request of it: the layout and the contents that are asked for may be others, the
# input and how it is read are not. It may look at first rows, but opens and lists nothing again.
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
