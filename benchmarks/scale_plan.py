"""What a build of 10^7, 10^8 and 10^9 images asks of the launcher, the shuffle and the store; converts nothing.

    python benchmarks/scale_plan.py                  all three; 10^9 takes about two minutes and 1 GB

The decisions are those of the project's own functions. Listing and ordering are run on a sample of the references and
counted up; the sizes of all blocks are drawn, and every part is placed in its shard. The figures go to --results, and
`tables.py` makes the tables of docs/scale.md from them.
"""

from __future__ import annotations

import argparse
import bisect
import dataclasses
import hashlib
import itertools
import json
import math
import pathlib
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
from apache_beam.typehints import Tuple
from figures import RESULTS, write_figures
from many_shards import make_shards
from scale_cluster import (
    GCS_READS,
    GCS_WRITES,
    S3_READS,
    S3_WRITES,
    Clock,
    Copies,
    Machines,
    count_copies,
    draw_clocks,
    size_machines,
    soft_delete_dollars,
)

from beam_tfrecords.beam_pipelines.build.estimates import estimate_output
from beam_tfrecords.escaping import json_file
from beam_tfrecords.examples.layouts import parse_layout
from beam_tfrecords.output.files import ShardNames
from beam_tfrecords.output.manifest import lists_shards
from beam_tfrecords.output.shard_rows import write_rows
from beam_tfrecords.storage import FileEntry
from beam_tfrecords.storage.name_ranges import Names, Page, partition_below
from beam_tfrecords.transforms.duplicates.near import find_near
from beam_tfrecords.transforms.duplicates.search import DuplicateSearch, part_id
from beam_tfrecords.transforms.images.image_spec import ImageSpec
from beam_tfrecords.transforms.listing.listing import CHUNK_REFS, ListPlan, read_chunk, write_listing
from beam_tfrecords.transforms.listing.ordering import assign_blocks, count_blocks
from beam_tfrecords.transforms.parts import RANGE_BLOCKS, Part, PartPolicy
from beam_tfrecords.transforms.refs.ref_columns import RefColumns, join_packed
from beam_tfrecords.transforms.refs.sample_refs import File, SampleRef, one_image
from beam_tfrecords.transforms.shards.plan import ShardPolicy, place_parts
from beam_tfrecords.transforms.sources.folders.image_folder import MOST_LISTED_HERE
from beam_tfrecords.transforms.splits import Splits

_SAMPLE = 200_000
_CLASSES = 1000
_SOURCE_BYTES = 110_000  # of a photo, as in ImageNet
_SPREAD = 0.4  # standard deviation of the size of a record, in means
_FAILURES = 0.001
_SHARD_BYTES = 150 * 10**6
_SHARDS = 20_000  # whose list is written, to count it up
_NEAR_BITS = 4
_HASH_BYTES, _ROW_BYTES = 8, 320  # of an image, in the search for duplicates: its hash, its row of the index
# Flink writes all that a task gives once for each task that takes a piece of it: `ConvertBlocks` for so many.
_TAKERS = 5
_PAGE = 1000  # objects in one answer to a request for a list
_DELETES = 100  # objects that one request deletes
_READ_BYTES = 8 << 20  # of one ranged read of a part
_LISTERS, _UPLOADS, _DELETERS = 16, 16, 8  # requests at once, as in `storage.gcs` and `preparing`
# What a store and a network usually do.
_PAGE_SECONDS = 0.15
_ENTRY_SECONDS = 11e-6  # of the launcher, for one object of a list: measured
_REQUEST_SECONDS = 0.05
_DELETE_SECONDS = 0.5
# Dollars, list prices of a Google Cloud region in the USA: 1,000 requests of class A (write, list) and B (read);
# a GB through Dataflow's shuffle; an hour of a core with 4 GB.
_CLASS_A, _CLASS_B, _SHUFFLE_GB, _CORE_HOUR = 0.005, 0.0004, 0.011, 0.07
# Where latency.py has not been run: 312 from a disk, and 0.59 of that from gs://.
_RATE = 184
_WORKERS = (100, 1000)


@dataclasses.dataclass(frozen=True)
class Photos:
    """What the images are like: their shorter side when stored, and their bytes in the bucket."""

    side: int = 256
    source_bytes: int = _SOURCE_BYTES


@dataclasses.dataclass
class Stage:
    """What one stage asks for.

    Attributes:
      name: of the stage.
      elements: that it shuffles, or in the launcher handles.
      shuffled: bytes.
      largest: elements of the largest group.
      objects: created.
      writes: requests of class A.
      reads: requests of class B.
      serial: seconds that one process is busy with it, where no other can help; 0 where workers share it.
    """

    name: str
    elements: int = 0
    shuffled: int = 0
    largest: int = 0
    objects: int = 0
    writes: int = 0
    reads: int = 0
    serial: float = 0

    @property
    def dollars(self) -> float:
        """Of requests and shuffle."""
        return (self.writes * _CLASS_A + self.reads * _CLASS_B) / 1000 + self.shuffled / 1e9 * _SHUFFLE_GB


def make_refs(count: int) -> Iterator[SampleRef]:
    """References to photos in a thousand class folders of a bucket, with the ETags and sizes that no two share."""
    sizes = np.random.default_rng(0).lognormal(np.log(_SOURCE_BYTES), _SPREAD, count).astype(int).tolist()
    for key, size in zip(map(_key, range(count)), sizes, strict=True):
        etag = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
        yield SampleRef(key, one_image(File(f"gs://photos/train/{key}")), size, f"{size}-{etag}", key[:9])


def _key(number: int) -> str:
    return f"n{1_440_764 + 7 * (number % _CLASSES):08d}/n{number:010d}.JPEG"


@dataclasses.dataclass
class Plan:
    """What a build asks for.

    Attributes:
      stages: in the order of the data.
      blocks: of references.
      parts: written.
      shards: published.
      shard_bytes: in all shards.
      list_bytes: of the list of the shards, in `manifest.json` or beside it.
      near: the stage of `--near_duplicates=4`, which the sums leave out.
      near_alike: hashes that agree in a band at most.
      near_hours: of a core, to compare those of all bands.
      clocks: how long the conversion takes, by the number of workers.
      copies: what S3 is asked for to join the parts.
      sent: bytes that tasks of Flink send: what is shuffled, once more to where a group is used, and the outputs of
        `ConvertBlocks`.
      machines: of Flink, by the number of workers.
    """

    stages: list[Stage]
    blocks: int
    parts: int
    shards: int
    shard_bytes: int
    list_bytes: int
    near: Stage
    near_alike: int
    near_hours: float
    clocks: list[Clock]
    copies: Copies
    sent: int
    machines: list[Machines]

    @property
    def dollars(self) -> float:
        """Of requests and shuffle."""
        return sum(stage.dollars for stage in self.stages)

    @property
    def shuffled(self) -> int:
        """Bytes that are shuffled."""
        return sum(stage.shuffled for stage in self.stages)


def plan(samples: int, seed: int, *, rate: float, photos: Photos = Photos()) -> Plan:
    """Plans a build of images that one core converts so many of a second."""
    listing, packed = _list(samples)
    spec = ImageSpec(image_size=(photos.side, photos.side))
    output = estimate_output(spec, parse_layout("tfds"), samples=samples, source_bytes=0)
    blocks = count_blocks(
        samples=samples, output_bytes=output, of_samples=samples, source_bytes=samples * photos.source_bytes
    )
    chunks = -(-samples // CHUNK_REFS)
    order = _order(samples, blocks, packed)
    generator = np.random.default_rng(seed)
    # The order is a hash: how many samples a block gets is as good as a Poisson number.
    counts = generator.poisson(samples / blocks, size=blocks)
    order.largest = int(counts.max())
    parts = _Parts(counts, output / samples, generator)
    failed_blocks = int((generator.binomial(counts, _FAILURES) > 0).sum())
    convert = Stage(
        "ConvertBlocks",
        elements=blocks,
        objects=3 * blocks + parts.number + failed_blocks,
        # And the counts of the worker, written over.
        writes=4 * blocks + parts.number + failed_blocks,
        reads=samples,
    )
    place, shards = _place(parts)
    compose = Stage(
        "ComposeShards",
        elements=shards,
        objects=2 * shards,
        # And the two parts that are cut: a range of each becomes an object for a while.
        writes=4 * shards,
        # Size and ranges of each part, its index; the size of the shard; where the two parts are cut, and their ranges.
        reads=parts.number * (2 + -(-int(parts.bytes.mean()) // _READ_BYTES)) + 5 * shards,
    )
    joins = blocks > RANGE_BLOCKS
    failure_files = -(-blocks // RANGE_BLOCKS) if joins else failed_blocks
    collect = Stage(
        "CollectFiles",
        elements=failed_blocks,
        shuffled=failed_blocks * 100,
        largest=min(failed_blocks, RANGE_BLOCKS),
        objects=failure_files * joins,
        writes=failure_files * joins,
        reads=failed_blocks * joins,
    )
    publish = Stage(
        "PublishDataset",
        elements=shards + failure_files,
        writes=6,
        reads=3 * failure_files,
        serial=3 * failure_files * _REQUEST_SECONDS,
    )
    temporary = convert.objects + collect.objects + chunks
    clean = Stage(
        "clean-up of .build/",
        elements=temporary,
        writes=temporary // _PAGE,
        serial=temporary * (_PAGE_SECONDS / _PAGE / _LISTERS + _DELETE_SECONDS / _DELETES / _DELETERS),
    )
    source = Stage("ListSource", elements=chunks, reads=chunks)
    near, alike, near_hours = _find_near_duplicates(samples, parts, generator)
    # They are looked for if the build is told to: not part of the sums.
    stages = [*listing, source, order, convert, _find_duplicates(samples, parts)]
    stages += [place, compose, collect, publish, clean]
    sent = 2 * sum(stage.shuffled for stage in stages) + _TAKERS * (
        samples * _HASH_BYTES + parts.number * _part_bytes()
    )
    return Plan(
        stages=stages,
        near=near,
        blocks=blocks,
        parts=parts.number,
        shards=shards,
        shard_bytes=int(parts.bytes.sum()),
        list_bytes=_list_bytes(shards),
        near_alike=alike,
        near_hours=near_hours,
        clocks=draw_clocks(counts, _WORKERS, rate=rate, writes=convert.writes, generator=generator),
        copies=count_copies(parts.bytes, shards=shards),
        sent=sent,
        machines=[size_machines(workers, sent=sent) for workers in _WORKERS],
    )


class _PhotoNames(Sequence[str]):
    """The names of the objects of `make_refs`, in their order, without making them all."""

    def __init__(self, samples: int) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return self._samples

    def __getitem__(self, place: Any) -> str:
        # The first classes have the samples that are left over.
        each, more = divmod(self._samples, _CLASSES)
        start = more * (each + 1)
        label, number = divmod(place, each + 1) if place < start else divmod(place - start, each)
        label += 0 if place < start else more
        return f"train/{_key(number * _CLASSES + label)}"


def _cut(samples: int) -> tuple[Stage, Stage]:
    """Cuts the bucket as the launcher does, and has workers list the parts."""
    names, asked = _PhotoNames(samples), Counter[str]()

    def list_page(after: str, before: str | None, *, prefix: str, size: int) -> Page:
        asked["pages"] += 1
        start = bisect.bisect_right(names, after) if after >= prefix else bisect.bisect_left(names, prefix)
        found = [names[place] for place in range(start, min(start + size + 1, samples))]
        found = list(itertools.takewhile(lambda name: name.startswith(prefix), found))
        entries = [FileEntry(f"gs://photos/{name}", _SOURCE_BYTES, 0) for name in found[:size]]
        return Page(entries, found[0] if len(found) > size else "", found[size - 1] if len(found) > size else "")

    parts = partition_below(Names("gs://photos/", "train", literal=True, list_page=list_page))
    ends = [bisect.bisect_right(names, str(before)) if before else samples for _, before in parts]
    largest = max(end - start for start, end in itertools.pairwise([0, *ends]))
    chunks = sum(-(-(end - start) // CHUNK_REFS) for start, end in itertools.pairwise([0, *ends]))
    cut = Stage(
        "cut the bucket",
        elements=len(parts),
        writes=asked["pages"],
        serial=asked["pages"] * max(_PAGE_SECONDS / _LISTERS, _PAGE * _ENTRY_SECONDS),
    )
    # A chunk and a checkpoint each, and the chunk once more where the build keeps it.
    index = Stage(
        "IndexContainers",
        elements=samples,
        largest=largest,
        objects=2 * chunks + len(parts),
        writes=-(-samples // _PAGE) + 2 * chunks + len(parts),
        reads=len(parts) + chunks,
    )
    return cut, index


def _list(samples: int) -> tuple[list[Stage], RefColumns]:
    here = min(samples, MOST_LISTED_HERE)
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        listing = write_listing(make_refs(_SAMPLE), folder, plan=ListPlan(Splits(), seed=0))
        listed = time.process_time() - start
        chunk = read_chunk(listing.chunks[0])[0]
    first = Stage(
        "list the first million",
        elements=here,
        writes=-(-here // _PAGE),
        serial=max(here / _PAGE * _PAGE_SECONDS / _LISTERS, here * _ENTRY_SECONDS) + listed * here / _SAMPLE,
    )
    chunks = -(-samples // CHUNK_REFS)
    move = Stage("move the listing", elements=chunks, serial=2 * chunks * _REQUEST_SECONDS / _UPLOADS)
    if samples <= MOST_LISTED_HERE:
        return [first, move], chunk
    cut, index = _cut(samples)
    checkpoints = Stage(
        "read the checkpoints", elements=cut.elements, reads=cut.elements, serial=cut.elements * _REQUEST_SECONDS
    )
    return [first, cut, index, checkpoints, move], chunk


def _order(samples: int, blocks: int, chunk: RefColumns) -> Stage:
    """A bundle is one chunk of the listing: what goes to one block is joined."""
    coder = beam.coders.registry.get_coder(Tuple[Tuple[str, int], bytes])
    joined = {
        block: join_packed([chunk.take(places).pack()])
        for block, places in assign_blocks(chunk, seed=0, blocks={"train": blocks})
    }
    size = sum(len(coder.encode(pair)) for pair in joined.items())
    share = samples / len(chunk)
    return Stage("AssignOrder, GroupByKey", elements=int(len(joined) * share), shuffled=int(size * share))


class _Parts:
    """The parts that blocks of these numbers of samples write.

    Attributes:
      number: of parts.
      blocks: the block of each.
      bytes: the size of each.
      records: the records of each.
    """

    def __init__(self, counts: Any, record_bytes: float, generator: np.random.Generator) -> None:
        policy = PartPolicy()
        sizes = counts * record_bytes + generator.normal(size=counts.size) * np.sqrt(counts) * record_bytes * _SPREAD
        # A part ends with the record that fills it.
        full = (sizes // (policy.bytes + record_bytes / 2)).astype(int)
        rest = sizes - full * (policy.bytes + record_bytes / 2)
        self.blocks = np.concatenate([np.repeat(np.arange(counts.size), full), np.arange(counts.size)])
        self.bytes = np.concatenate([np.full(full.sum(), policy.bytes + record_bytes / 2), rest]).astype(np.int64)
        self.records = np.maximum(1, (self.bytes / record_bytes).astype(np.int64))
        order = np.argsort(self.blocks, kind="stable")
        self.blocks, self.bytes, self.records = self.blocks[order], self.bytes[order], self.records[order]
        self.number = self.blocks.size

    def ranges(self) -> Iterator[tuple[int, list[Part]]]:
        """The parts by range of blocks."""
        ends = np.searchsorted(self.blocks // RANGE_BLOCKS, np.arange(self.blocks[-1] // RANGE_BLOCKS + 1), "right")
        start = 0
        for number, end in enumerate(ends.tolist()):
            columns = (column[start:end].tolist() for column in (self.blocks, self.bytes, self.records))
            yield number, [make_part(*row) for row in zip(*columns, strict=True)]
            start = end


def make_part(block: int, size: int, records: int) -> Part:
    """A part as `ConvertBlocks` describes it."""
    uri = f"gs://datasets/out/photos/.build/0123456789abcdef/parts/train-{block:06d}-0000.tfrecord"
    return Part("train", block, 0, uri, size, size, records, block, f"{uri}.parquet", 90 * records, block)


def _place(parts: _Parts) -> tuple[Stage, int]:
    """Places every part; returns the stage, and the number of shards."""
    policy = ShardPolicy(_SHARD_BYTES)
    totals: dict[tuple[str, int], tuple[int, int]] = {}
    bounds = np.flatnonzero(np.diff(parts.blocks // RANGE_BLOCKS, prepend=-1))
    sums = (np.add.reduceat(column, bounds).tolist() for column in (parts.bytes, parts.records))
    for number, pair in enumerate(zip(*sums, strict=True)):
        totals["train", number] = pair
    groups: Counter[int] = Counter()
    largest = 0
    for number, found in parts.ranges():
        largest = max(largest, len(found))
        for (_, shard, *_), _ in place_parts((("train", number), found), totals, policy=policy):
            groups[shard] += 1
    # Once by range, once by shard.
    shuffled = 2 * parts.number * _part_bytes()
    return Stage("PlanShards", elements=2 * parts.number, shuffled=shuffled, largest=largest), len(groups)


def _part_bytes() -> int:
    return len(beam.coders.registry.get_coder(Part).encode(make_part(123_456, 16 << 20, 382)))


def _search(samples: int) -> DuplicateSearch:
    return DuplicateSearch("", {"train": samples}, _ROW_BYTES, False, _NEAR_BITS, parse_layout("tfds"), (), "none")


def _find_duplicates(samples: int, parts: _Parts) -> Stage:
    buckets = _search(samples).buckets
    mean = samples / parts.number
    pieces = buckets * (1 - (1 - 1 / buckets) ** mean)
    coder = beam.coders.registry.get_coder(Tuple[int, Any])
    element = (buckets, (part_id(make_part(123_456, 16 << 20, 382)), bytes(int(_HASH_BYTES * mean / pieces))))
    elements = int(parts.number * pieces)
    return Stage(
        "FindDuplicates",
        elements=elements + 2 * parts.number,
        shuffled=elements * len(coder.encode(element)) + 2 * parts.number * 300,
        largest=elements // buckets,
    )


def _find_near_duplicates(samples: int, parts: _Parts, generator: np.random.Generator) -> tuple[Stage, int, float]:
    """With `--near_duplicates=4`; compares the most hashes that agree in a band, and counts that up.

    Returns:
      The stage, those hashes, and the core hours that comparing all takes.

    Half of the bits of a hash are ones, and these are random here: photos that look alike come on top.
    """
    bands = _NEAR_BITS + 1
    width = 64 // bands  # bits of the first band, which has the fewest values
    search = _search(samples)
    ranges = min(search.near_buckets, 1 << width)
    mean = samples / parts.number
    pieces = ranges * (1 - (1 - 1 / ranges) ** mean)
    coder = beam.coders.registry.get_coder(Tuple[Tuple[int, int], Any])
    element = ((bands, ranges), (part_id(make_part(123_456, 16 << 20, 382)), bytes(int(_HASH_BYTES * mean / pieces))))
    elements = int(bands * parts.number * pieces)
    alike = int(samples * math.comb(64 - width, 32 - width // 2) / math.comb(64, 32))
    hashes = _draw_hashes(alike, width, generator)
    start = time.process_time()
    found = find_near(((0, 0), [(("train", 0, 0), hashes.tobytes())]), search=search).stats
    hours = (time.process_time() - start) * bands * samples / max(1, alike) / 3600
    if found.total("near", "ranges_cut"):
        raise RuntimeError(f"of {alike:,} hashes that agree in a band, not all are compared")
    stage = Stage(
        "FindNearDuplicates",
        elements=elements + 2 * parts.number,
        shuffled=elements * len(coder.encode(element)) + 2 * parts.number * 300,
        largest=max(alike, elements // bands // ranges),
    )
    return stage, alike, hours


def _draw_hashes(count: int, width: int, generator: np.random.Generator) -> np.ndarray:
    """Hashes with 32 ones that agree in their first band, half of which are ones: [N] uint64."""
    others = np.zeros((count, 64 - width), bool)
    others[:, : 32 - width // 2] = True
    others = generator.permuted(others, axis=1)
    band = np.broadcast_to(np.arange(width) % 2 == 0, (count, width))
    return np.packbits(np.concatenate([band, others], axis=1), axis=1, bitorder="little").view("<u8").reshape(-1)


def _list_bytes(shards: int) -> int:
    names = ShardNames("", "photos", "")
    listed = list(make_shards(shards, count=min(shards, _SHARDS), names=names, split="train", seed=0))
    size = len(json_file([one.to_json() for one in listed])) if lists_shards(shards) else len(write_rows(listed))
    return size * shards // len(listed)


def measured_rate() -> float:
    """Images a second and core from gs://, as `latency.py` has measured it last."""
    path = RESULTS / "latency_2000.json"
    if not path.exists():
        return _RATE
    results = json.loads(path.read_text())
    return statistics.median(results["count"] / seconds for seconds in results["seconds"]["gs"]) / int(results["cores"])


def to_json(found: Plan, *, samples: int, rate: float) -> dict[str, Any]:
    """A plan as plain values, with what they cost."""
    values = dataclasses.asdict(found)
    for stage, row in zip(found.stages, values["stages"], strict=True):
        row["dollars"] = stage.dollars
    hours = samples / rate / 3600
    return {
        "samples": samples,
        **values,
        "dollars": found.dollars,
        "core_hours": hours,
        "core_dollars": hours * _CORE_HOUR,
        "serial_hours": sum(stage.serial for stage in found.stages) / 3600,
        "shuffled": found.shuffled,
        # The parts are deleted when the shards are there.
        "soft_delete_dollars": soft_delete_dollars(found.shard_bytes),
        "copy_dollars": (found.copies.writes * _CLASS_A + found.copies.reads * _CLASS_B) / 1000,
    }


def main() -> None:
    """Plans each number of images."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=lambda word: int(float(word)), nargs="*", default=[10**7, 10**8, 10**9])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=measured_rate(), help="images a second and core, from a bucket")
    parser.add_argument("--results", type=pathlib.Path, default=RESULTS, help="folder to write to")
    arguments = parser.parse_args()
    plans = []
    for samples in arguments.samples:
        found = to_json(plan(samples, arguments.seed, rate=arguments.rate), samples=samples, rate=arguments.rate)
        plans.append(found)
        print(f"\n{samples:,} images, {arguments.rate:.0f} a second and core (seed {arguments.seed})")
        for name, value in found.items():
            for row in value if isinstance(value, list) else [value]:
                print(f"{name:16} {row}")
    write_figures(
        arguments.results / "scale_plan.json",
        script=__file__,
        rounds=1,
        seed=arguments.seed,
        rate=arguments.rate,
        gcs={"reads": GCS_READS, "writes": GCS_WRITES},
        s3={"reads": S3_READS, "writes": S3_WRITES},
        plans=plans,
    )


if __name__ == "__main__":
    main()
