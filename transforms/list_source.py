"""ListSource: the listing's chunk files in, packed refs out."""

from __future__ import annotations

from collections.abc import Iterable

import apache_beam as beam

from transforms.listing import read_listing


class ListSource(beam.PTransform):
    """Emits the packed refs of a listing, spread over the workers.

    Args:
      chunks: the listing's chunk files.
    """

    def __init__(self, chunks: Iterable[str]) -> None:
        super().__init__()
        self._chunks = list(chunks)

    def expand(self, begin: beam.pvalue.PBegin) -> beam.PCollection[bytes]:
        """Adds the reading steps."""
        return (
            begin
            | "Begin" >> beam.Impulse()
            | "Chunks" >> beam.FlatMap(lambda _, chunks: chunks, self._chunks)
            | "Spread" >> beam.Reshuffle()
            | "ReadRefs" >> beam.FlatMap(read_listing)
        )
