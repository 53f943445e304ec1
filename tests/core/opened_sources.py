"""Sources that are opened without the rest of a build: settings and needs of a request, told apart by their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.objects.polygons import unpack_polygons
from beam_tfrecords.transforms.refs.ref_columns import one_by_one
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.settings import settings_of
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.opening import open_input
from beam_tfrecords.transforms.sources.partition import WHOLE, Partition, StagingFiles, until_damage
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.source_spec import SourceSpec
from beam_tfrecords.transforms.sources.tally import Tally


def make_request(*inputs: Any, **fields: Any) -> tuple[SourceSpec, Needs]:
    """A request.

    Args:
      inputs: paths.
      fields: settings, fields of `Needs`, and names of contents, such as `needs_label` or `mask`: whether it is wanted.
    """
    known = {one.name for one in settings_of(SourceSpec)}
    own = {name: value for name, value in fields.items() if name in known}
    others = {name.removeprefix("needs_"): value for name, value in fields.items() if name not in known}
    contents = set(Needs.contents)
    for content in {*Content} - {Content.IMAGES, Content.COLUMNS, Content.RECORDS}:
        if content.name.lower() in others:
            (contents.add if others.pop(content.name.lower()) else contents.discard)(content)
    return SourceSpec(**{"input": tuple(map(str, inputs)), **own}), Needs(frozenset(contents), **others)


class OpenedSource:
    """An opened source, and the tally of its last listing."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.skipped = Tally()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def samples(self) -> Iterator[SampleRef]:
        """Lists the samples with a new tally."""
        self.skipped = Tally()
        return one_by_one(self.source.read(WHOLE, self.skipped, StagingFiles("", "")))

    def containers(self) -> Sequence[Partition] | None:
        """Returns the partitions that identify the input, if any."""
        return None if self.is_whole else self.source.partitions

    def pieces(self) -> Sequence[Partition]:
        """Cuts a whole for workers."""
        return self.source.cut(0) or self.source.cut(10**9)

    def read_all(self, staging: Path) -> Iterator[SampleRef]:
        """Lists the samples as builds do: of each partition, of each piece of a whole, or of the whole."""
        containers = self.containers()
        partitions = self.pieces() if containers is None else containers
        if containers is None and not partitions:
            yield from self.samples()
        for number, partition in enumerate(partitions):
            tally, packed = Tally(), partition.pack()
            with StagingFiles(str(staging), f"{number:06d}", most_bytes=100 << 20) as files:
                opened = Partition.unpack(packed)
                yield from one_by_one(until_damage(self.source.read(opened, tally, files), opened, tally))


def open_source(*inputs: Any, **fields: Any) -> OpenedSource:
    """Opens the source of a request; see `make_request`."""
    spec, needs = make_request(*inputs, **fields)
    return OpenedSource(open_input(spec, needs).read(needs))


def list_archive(archive: Partition, staging: StagingFiles, tally: Tally) -> Iterator[SampleRef]:
    """The samples of a zip or tar archive, as a build lists them."""
    source = open_source(archive.uri, source="zip" if archive.uri.endswith(".zip") else "tar")
    return one_by_one(until_damage(source.read(archive, tally, staging), archive, tally))


def objects_of(source: OpenedSource, sizes: Mapping[str, tuple[int, int]]) -> dict[str, list[Any]]:
    """Returns name of an image -> sorted class and box in pixels of each object, and its polygons.

    Args:
      source: opened.
      sizes: name of an image -> width and height.
    """
    found = {}
    for ref in source.samples():
        assert ref.failure is None, ref
        name = ref.key.rpartition("/")[2]
        objects = ref.objects or Objects()
        scale = sizes[name] * 2 if objects.is_normalized else (1,) * 4
        boxes = np.reshape(objects.boxes, (-1, 4)) * scale
        polygons = [unpack_polygons(one) if one else [] for one in objects.polygons] or [[]] * len(objects.labels)
        points = [[(part * scale[:2]).ravel().tolist() for part in one] for one in polygons]
        found[name] = sorted(zip(map(str, objects.labels), boxes.tolist(), points, strict=True))
    return found
