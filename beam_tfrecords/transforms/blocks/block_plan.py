"""What the workers that convert blocks need to know."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

from beam_tfrecords.tfrecord import Compression
from beam_tfrecords.transforms.blocks.reuse import ReusePlan
from beam_tfrecords.transforms.mapping.map_sample import MapSample
from beam_tfrecords.transforms.parts import PartPolicy

if TYPE_CHECKING:
    from beam_tfrecords.transforms.blocks.filtering import Condition


@dataclasses.dataclass(frozen=True)
class BlockPlan:
    """What a worker needs to know to convert blocks.

    Attributes:
      policies: split -> when its parts end.
      image_timeout: seconds that the conversion of one sample may take.
      max_image_memory: bytes that it may take.
      hashes_files: whether the fingerprint of a file is the hash of its bytes.
      libraries: library -> version of the launcher; those that decide records have to be the same here.
      launcher: host name of the launcher.
      launch: tells this launch of the build from others, which try again what may not be the sample's fault.
      group_rows: whether references with one key are one sample.
      last_member_wins: whether a member of an archive replaces those before it with the same name.
      map: applies the function of the user; None without one.
      where: what samples have to fulfil; None for nothing.
      most_index_bytes: as in `PartWriter`.
      is_new: whether no earlier launch can have finished a block.
    """

    folder: str
    seed: int
    policies: Mapping[str, PartPolicy]
    compression: Compression
    read_images: bool
    max_file_size: int
    image_timeout: float
    max_image_memory: int = 0
    hashes_files: bool = False
    reuse: ReusePlan | None = None
    libraries: Mapping[str, str] = dataclasses.field(default_factory=dict)
    launcher: str = dataclasses.field(default="", compare=False)
    launch: str = ""
    group_rows: bool = False
    last_member_wins: bool = False
    map: MapSample | None = None
    where: Condition | None = None
    most_index_bytes: int = 0
    is_new: bool = False
