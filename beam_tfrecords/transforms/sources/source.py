"""The interface of a source."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from beam_tfrecords.transforms.mapping.user_function import UserFunction
from beam_tfrecords.transforms.refs.ref_columns import one_by_one
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.sources.description import Description
from beam_tfrecords.transforms.sources.detect.folder_meaning import FolderMeaning
from beam_tfrecords.transforms.sources.detect.interpretation import Interpretation, Request
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary, FolderTree
from beam_tfrecords.transforms.sources.inputs import Inputs
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import (
    WHOLE,
    Partition,
    PipelinePartition,
    ReadPartition,
    StagingFiles,
    find_files,
)
from beam_tfrecords.transforms.sources.source_spec import SourceSpec
from beam_tfrecords.transforms.sources.tally import Tally

if TYPE_CHECKING:
    from beam_tfrecords.transforms.sources.tables.joined_table import JoinedTable


@dataclasses.dataclass(frozen=True)
class Finish:
    """What only the whole listing of an input shows.

    Attributes:
      description: the description of the source, with what the listing shows.
      meaning: sets the labels and splits that folders give; None if the source says them.
    """

    description: Description
    meaning: FolderMeaning | None = None


class Source:
    """Lists the samples of an input in partitions.

    Args:
      partitions: the partitions of the input; `WHOLE` if the launcher lists it.

    Attributes:
      name: value of the setting `source` that selects this source.
      partitions: as above.
      description: what the source sees in its input.
      notes: warnings about how the input is read, one line each.
      read_with: file that was opened or looked up while opening the source -> its fingerprint then; None if there are
        too many files to track.
      folders: folders whose unread files are counted after the listing; None for the inputs.
      read: lists the samples of a partition. Picklable for partitions that workers list.
    """

    name: str
    description = Description()
    read_with: Mapping[str, str] | None = None
    folders: Sequence[str] | None = None
    read: ReadPartition

    def __init__(self, partitions: Sequence[Partition] = (WHOLE,)) -> None:
        self.partitions = partitions
        self.notes: list[str] = []

    @property
    def is_whole(self) -> bool:
        """Whether the launcher lists the input, so that its samples identify it."""
        return self.partitions[0] == WHOLE

    @property
    def pipeline(self) -> PipelinePartition | None:
        """The partition that a user's pipeline makes; None for other sources."""
        first = self.partitions[0]
        return first if isinstance(first, PipelinePartition) else None

    def for_workers(self) -> ReadPartition:
        """Returns `read` without what only the launcher needs, such as first rows."""
        sent = copy.copy(self)
        sent.description = dataclasses.replace(
            self.description, table=None, other_tables=(), other_labels=None, join=None
        )
        sent.notes, sent.partitions, sent.read_with = [], (), {}
        return sent.read

    def samples(self) -> Iterator[SampleRef]:
        """Yields the samples of a whole, for callers that need the first ones and no counts."""
        return one_by_one(self.read(WHOLE, Tally(), StagingFiles("", "")))

    def check(self, most_missing: float) -> None:
        """Checks what can be refused before the listing.

        Args:
          most_missing: share of the images that the input names and that may be missing.

        Raises:
          RequestError: the files are of another kind, or too few of the first images exist.
        """

    def cut(self, listed: int) -> Sequence[Partition]:
        """Cuts a whole into partitions for workers; empty while listing it here is faster, or if it cannot be cut.

        Args:
          listed: number of samples that the launcher has listed so far.
        """
        return ()

    def has_read(self, path: str) -> bool:
        """Whether the source has read a listed file, or has counted it, other than for a sample."""
        return path in (self.read_with or ())

    def questions(self, folders: FolderSummary, tally: Tally) -> Mapping[str, tuple[FolderTree, Request]]:
        """Returns the folders whose meaning gives labels or splits: key prefix -> its folders, and the request.

        Args:
          folders: folders of all samples.
          tally: counts of the listing; receives notes on it.
        """
        return {}

    def finish(self, folders: FolderSummary, tally: Tally, found: Mapping[str, Interpretation]) -> Finish:
        """Returns what only the whole listing shows, and adds notes on it.

        Args:
          folders: folders of all samples.
          tally: counts of the listing; receives the notes.
          found: key prefix -> what the folders below it mean, for each of the `questions`.

        Raises:
          RequestError: the listing does not fit the request.
        """
        return Finish(self.description)

    def _describe(self, **seen: Any) -> None:
        """Changes fields of the description."""
        self.description = dataclasses.replace(self.description, **seen)


@dataclasses.dataclass(frozen=True)
class OpenRequest:
    """What the module of a source opens.

    Attributes:
      spec: settings of the input, of which the source takes some.
      inputs: paths and splits of the inputs.
      needs: requested contents.
      joined: the opened tables that join the samples.
      function: the input, if it is a user's function.
    """

    spec: SourceSpec
    inputs: Inputs
    needs: Needs
    joined: Sequence[JoinedTable]
    function: UserFunction | None = None

    def find_files(self) -> list[Partition]:
        """Returns the files of paths and globs; their names say the splits, unless the request does.

        Raises:
          RequestError: as `partition.find_files`.
        """
        return find_files(self.inputs, by_name=self.needs.splits.are_auto and not self.spec.split_column)


# Makes the source of an opened input for some needs. The layout and the requested contents may vary; the input and how
# it is read are fixed. The function may read first rows, but does not open or list the input again.
MakeSource: TypeAlias = Callable[[Needs], Source]
