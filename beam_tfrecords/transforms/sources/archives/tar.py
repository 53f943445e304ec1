"""The source for tar archives, plain or compressed."""

from __future__ import annotations

from beam_tfrecords.transforms.sources.archives.archive import open_archives
from beam_tfrecords.transforms.sources.archives.tar_reader import open_tar
from beam_tfrecords.transforms.sources.inputs import Inputs
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.source import MakeSource
from beam_tfrecords.transforms.sources.source_spec import SourceSpec


def open_input(inputs: Inputs, spec: SourceSpec, needs: Needs) -> MakeSource:
    """Finds the archives.

    Raises:
      RequestError: an archive does not exist.
    """
    return open_archives(inputs, spec, needs, open_tar)
