"""The interface of a source."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from beam_tfrecords.errors import Suggestion
from beam_tfrecords.transforms.mapping.user_function import UserFunction
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.sources.containers import Container, ReadContainer, StagingFiles
from beam_tfrecords.transforms.sources.description import Description
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary
from beam_tfrecords.transforms.sources.inputs import InputFile
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.tally import Tally

if TYPE_CHECKING:
    from beam_tfrecords.transforms.sources.detect.inference import FolderMeaning


@dataclasses.dataclass(frozen=True)
class ReadPipeline:
    """Lists samples that a Beam pipeline makes.

    Attributes:
      make: adds the user's transforms to a pipeline: root -> PCollection of `Sample`.
      read: writes a sample's bytes to a staging file, and returns its reference.
      function: the user's function.
    """

    make: Callable[[Any], Any]
    read: Callable[[Any, StagingFiles, Tally], SampleRef]
    function: UserFunction


class Source:
    """Lists samples, or containers whose samples the pipeline lists in parallel.

    Attributes:
      name: value of the setting `source` that selects this source.
      description: what the source sees in its input.
      notes: warnings about how the input is read, one line each.
      most_listed_here: the caller calls `partitions` once `samples` has yielded more samples than this; 0 for at once.
      read_with: file that was opened or looked up while opening the source -> its fingerprint then; None if there are
        too many files to track.
      read_container: lists the samples of a container or of one of `partitions`; None for a source without both.
      pipeline: makes and lists the samples of the only container instead; None for other sources.
      join_listed: joins the columns of tables to the listed samples; None if there are none, or the source joins them.
    """

    name: str
    description = Description()
    most_listed_here: float = math.inf
    read_with: Mapping[str, str] | None = None
    read_container: ReadContainer | None = None
    pipeline: ReadPipeline | None = None
    join_listed: Any = None

    def __init__(self) -> None:
        self.notes: list[str] = []

    def _describe(self, **seen: Any) -> None:
        """Changes fields of the description."""
        self.description = dataclasses.replace(self.description, **seen)

    def other_labels(self) -> tuple[str, Sequence[Suggestion]]:
        """Returns a message about other possible sources of labels, and suggestions; called after the listing."""
        return "", ()

    def samples(self, tally: Tally) -> Iterator[SampleRef | RefColumns]:
        """Yields the samples outside containers, in bounded memory.

        Args:
          tally: counts what is no sample.
        """
        return iter(())

    def partitions(self) -> Sequence[Container]:
        """Splits the input of `samples` into partitions for workers; empty if it is too small or cannot be split.

        Unlike containers, partitions do not identify the input: the samples do.
        """
        return ()

    def images_beside(self) -> Iterator[tuple[str, str]]:
        """Yields key and path of the image files beside the rows; those that no row names are counted as skipped."""
        return iter(())

    def infer(self, folders: FolderSummary, tally: Tally) -> FolderMeaning | None:
        """Interprets the folders after all samples are listed, and adds notes on the result.

        Args:
          folders: folders of all samples.
          tally: receives the notes.

        Returns:
          The decision that sets label and split of each reference; None if all are right already.

        Raises:
          RequestError: the folders are ambiguous, or do not fit the request.
        """
        return None

    def check_images(self, most_missing: float) -> None:
        """Checks that images which the input names are there. Called before the listing.

        Args:
          most_missing: share of the images that may be missing.

        Raises:
          RequestError: none of the first images exists, or too few.
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
