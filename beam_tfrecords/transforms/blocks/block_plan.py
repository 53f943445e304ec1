"""The slice of a build that workers need to convert blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from beam_tfrecords.tfrecord import Compression
from beam_tfrecords.transforms.blocks.convert_sample import ConvertSample
from beam_tfrecords.transforms.parts import PartPolicy
from beam_tfrecords.transforms.refs.ref_columns import RefColumns

if TYPE_CHECKING:
    from beam_tfrecords.transforms.blocks.filtering import Condition
    from beam_tfrecords.transforms.blocks.reuse import ReusePlan
    from beam_tfrecords.transforms.mapping.open_sample import MapSample


def _keep(refs: RefColumns) -> RefColumns:
    return refs


@dataclasses.dataclass(frozen=True)
class BlockPlan:
    """The slice of a build that workers need to convert blocks.

    The digest of the compared fields names the build. The other fields do not affect the bytes.

    Attributes:
      convert: converts samples. An exception in it counts as a failure of the sample.
      blocks: split -> number of blocks.
      policies: split -> policy of its parts.
      image_timeout: seconds that the conversion of one sample may take.
      max_image_memory: bytes of memory that the conversion of one sample may take.
      hashes_files: whether the fingerprint of a file is the hash of its bytes.
      libraries: library -> its version on the launcher; a worker needs the same if it decides records.
      group_rows: whether references with one key are one sample.
      last_member_wins: whether a member of an archive replaces earlier members with the same name.
      map: applies the user's function; None without one.
      where: condition that samples have to fulfill; None keeps all samples.
      most_index_bytes: as in `PartWriter`.
      decide: makes the decisions of the listing, whose fingerprint they are part of, about rows as they were listed.
      nothing_reused_because: why no record of a previous dataset can be reused; "" if some can.
      folder: the build's folder for temporary files.
      launcher: host name of the launcher.
      run_id: identifies this run of the build; every run retries failures that may not be the sample's fault.
      is_new: whether no earlier run can have finished a block.
    """

    convert: ConvertSample
    seed: int
    policies: Mapping[str, PartPolicy]
    compression: Compression
    max_file_size: int
    image_timeout: float
    max_image_memory: int = 0
    hashes_files: bool = False
    reuse: ReusePlan | None = None
    libraries: Mapping[str, str] = dataclasses.field(default_factory=dict)
    group_rows: bool = False
    last_member_wins: bool = False
    map: MapSample | None = None
    where: Condition | None = None
    most_index_bytes: int = 0
    blocks: Mapping[str, int] = dataclasses.field(default_factory=dict)
    decide: Callable[[RefColumns], RefColumns] = dataclasses.field(default=_keep, compare=False)
    nothing_reused_because: str = dataclasses.field(default="", compare=False)
    folder: str = dataclasses.field(default="", compare=False)
    launcher: str = dataclasses.field(default="", compare=False)
    run_id: str = dataclasses.field(default="", compare=False)
    is_new: bool = dataclasses.field(default=False, compare=False)

    @property
    def reads_images(self) -> bool:
        """Whether workers read the images of samples, or the records that are stored as they are."""
        return self.convert.layout.reads_bytes
