"""Tar archives, plain or compressed."""

from __future__ import annotations

from beam_tfrecords.transforms.sources.archives.archive import open_archives
from beam_tfrecords.transforms.sources.archives.tar_reader import open_tar
from beam_tfrecords.transforms.sources.source import MakeSource
from beam_tfrecords.transforms.sources.source_spec import SourceSpec


def open_input(spec: SourceSpec) -> MakeSource:
    """Finds the archives.

    Raises:
      RequestError: an archive does not exist.
    """
    return open_archives(spec, open_tar)
