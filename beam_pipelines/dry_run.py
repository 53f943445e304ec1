"""`convert --dry_run`: what a build would do, from the listing alone; nothing is built and nothing is written."""

from __future__ import annotations

import dataclasses
import itertools
import tempfile
import zlib
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.checking import check_listing, check_output, open_spec_source
from beam_tfrecords.beam_pipelines.list_input import infer_listing, list_samples, plan_listing
from beam_tfrecords.beam_pipelines.notes import describe_request
from beam_tfrecords.beam_pipelines.places import check_place
from beam_tfrecords.beam_pipelines.settings.definitions import show_flags
from beam_tfrecords.beam_pipelines.summary import (
    describe_classes,
    describe_reasons,
    describe_skipped,
    format_bytes,
    format_table,
)
from beam_tfrecords.beam_pipelines.terminal import escape
from beam_tfrecords.beam_pipelines.versioning import earlier_classes, open_earlier
from beam_tfrecords.beam_pipelines.work import estimate_output
from beam_tfrecords.errors import SampleError
from beam_tfrecords.examples.layouts import Layout
from beam_tfrecords.transforms.blocks.convert_sample import ConvertSample
from beam_tfrecords.transforms.blocks.rows import CONFLICTING_ROWS, DUPLICATE_KEY, content_of
from beam_tfrecords.transforms.hashing import order_hashes
from beam_tfrecords.transforms.labels import ClassNames
from beam_tfrecords.transforms.listing.indexing import read_unchanged
from beam_tfrecords.transforms.listing.limiting import choose_refs
from beam_tfrecords.transforms.listing.listing import Listing, read_batches, write_listing
from beam_tfrecords.transforms.ref_columns import RefColumns
from beam_tfrecords.transforms.refs import SampleRef
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.shards.plan import ShardPolicy
from beam_tfrecords.transforms.sources.containers import Container, Spool, until_damage
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.source_spec import Skipped

_EXAMPLES = 5


@dataclasses.dataclass(frozen=True)
class DryRun:
    """What a build would do.

    Attributes:
      lines: for people.
      publishes: whether it would publish a dataset, as far as the listing tells.
    """

    lines: list[str]
    publishes: bool


class _Failures:
    """Counts the samples that a build would reject, as far as the listing tells; keeps the first of each reason.

    Attributes:
      counts: reason -> samples.
      classes: split -> index -> samples with this label that would not be rejected.

    Args:
      convert: rejects what has not the labels that the layout needs.
      class_names: of the classes.
      shares_keys: whether one of several samples with one key is no failure.
    """

    def __init__(self, convert: ConvertSample, class_names: ClassNames, *, shares_keys: bool) -> None:
        self.counts: Counter[str] = Counter()
        self.classes: dict[str, Counter[int]] = {}
        self.examples: dict[str, tuple[str, str]] = {}
        self._convert = convert
        self._class_names = class_names
        self._shares_keys = shares_keys
        # Sixteen bytes a sample: hashes of keys and of contents are enough to count equal ones.
        self._keys, self._contents = array("Q"), array("Q")

    def watch(self, batches: Iterable[RefColumns]) -> Iterator[SampleRef]:
        """Passes references through."""
        for sample, error in itertools.chain.from_iterable(map(self._check, batches)):
            if sample.failure is None and not self._shares_keys:
                self._keys.extend(order_hashes(seed=0, keys=[f"{sample.split}/{sample.key}"]))
                self._contents.append(zlib.crc32(content_of(sample)))
            failure = sample.failure or ((error.reason.value, error.detail) if error else None)
            if failure is not None:
                self._add(*failure, key=sample.key)
            else:
                found = (self._class_names.find(label) for label in sample.labels)
                self.classes.setdefault(sample.split or "", Counter()).update(one for one in found if one is not None)
            yield sample
        self._compare()

    def _compare(self) -> None:
        """Counts the samples that share their keys, as `reject_duplicates` rejects them."""
        keys, contents = (np.frombuffer(hashes, np.uint64) for hashes in (self._keys, self._contents))
        order = np.lexsort((contents, keys))
        keys, contents = keys[order], contents[order]
        _, starts, counts = np.unique(keys, return_index=True, return_counts=True)
        # Sorted, they are the same if the first and the last are.
        conflicts = contents[starts] != contents[starts + counts - 1]
        for failure, count in (
            (CONFLICTING_ROWS, counts[conflicts].sum()),
            (DUPLICATE_KEY, (counts[~conflicts] - 1).sum()),
        ):
            if count:
                self._add(*failure, key="", count=int(count))

    def _add(self, reason: str, detail: str, *, key: str, count: int = 1) -> None:
        self.counts[reason] += count
        self.examples.setdefault(reason, (key, detail))

    def _check(self, refs: RefColumns) -> Iterable[tuple[SampleRef, SampleError | None]]:
        return zip(refs, self._convert.find_failures(refs), strict=True)


def describe_build(spec: BuildSpec) -> DryRun:
    """Says what a build would do.

    Raises:
      RequestError: the request is wrong, as the build would say too.
    """
    with storage.using(spec.source.storage_options()):
        return _describe(spec)


def _describe(spec: BuildSpec) -> DryRun:
    check_place(spec)
    check_output(spec)
    spec, source = open_spec_source(spec)
    with tempfile.TemporaryDirectory(prefix="beam-tfrecords-") as folder:
        containers = source.containers()
        if containers is None:
            listing, skipped = list_samples(spec, source, folder), source.skipped
        else:
            listing, skipped = list_containers(containers, spec, source, folder)
        kept = earlier_classes(spec, open_earlier(spec))
        class_names = check_listing(spec, source, listing, skipped, earlier=kept)
        convert = ConvertSample(spec.image, spec.layout or Layout(()), class_names)
        failures = _Failures(convert, class_names, shares_keys=spec.source.group_rows or source.last_member_wins)
        refs = choose_refs(
            failures.watch(read_batches(listing)), limit=_EXAMPLES, seed=spec.seed, samples=listing.samples
        )
    classes = {
        split: {class_names.names[index]: count for index, count in sorted(found.items())}
        for split, found in sorted(failures.classes.items())
    }
    failed = failures.counts.total()
    publishes = failed < listing.total and failed <= spec.max_failures * listing.total
    lines = [
        *_describe_splits(spec, listing),
        *describe_classes(classes),
        *describe_reasons(failures.counts, failures.examples),
        *([] if publishes else [f"nothing would be published: --max_failures={spec.max_failures:g} allows fewer"]),
        *describe_skipped({kind: (count, skipped.examples[kind]) for kind, count in sorted(skipped.counts.items())}),
        *(f"note: {show_flags(note)}" for note in (*source.notes, *describe_request(spec))),
        *_describe_refs(refs),
        f"dry run: nothing was built or written; {listing.total:,} samples would go to {spec.output}",
    ]
    return DryRun(lines, publishes)


def list_containers(
    containers: Sequence[Container], spec: BuildSpec, source: Source, folder: str
) -> tuple[Listing, Skipped]:
    """Lists archives here, one after the other; a build does it in parallel."""
    source.check_containers()
    listing, skipped = Listing(), Skipped()
    for number, container in enumerate(containers):

        def read(container: Container, stem: str = f"{number:06d}-") -> tuple[Listing, Skipped]:
            return _list_container(container, spec, source, folder, stem=stem)

        listed, skipped_there = read_unchanged(container, read)
        listing.merge(listed)
        skipped.merge(skipped_there)
    return infer_listing(listing, spec, source, skipped, folder), skipped


def _list_container(
    container: Container, spec: BuildSpec, source: Source, folder: str, *, stem: str
) -> tuple[Listing, Skipped]:
    assert source.read_container is not None
    skipped = Skipped()
    samples = until_damage(
        source.read_container(container, Spool(folder, "", most_bytes=-1), skipped), container, skipped
    )
    return write_listing(samples, folder, plan=plan_listing(spec, source), skipped=skipped, stem=stem), skipped


def _describe_splits(spec: BuildSpec, listing: Listing) -> list[str]:
    policy = ShardPolicy(spec.shard_size, spec.num_shards)
    rows = [["split", "samples", "about", "shards"]]
    for split, samples in sorted(listing.samples.items()):
        size = estimate_output(
            spec.image, spec.layout or Layout(()), samples=samples, source_bytes=listing.source_bytes[split]
        )
        shards = policy.count(size, records=samples)
        rows.append([split or "(no valid split)", f"{samples:,}", format_bytes(size), f"{shards:,}" if split else "0"])
    return format_table(rows)


def _describe_refs(refs: Sequence[SampleRef]) -> list[str]:
    rows = [["sample", "split", "label", "source"]]
    for ref in refs:
        labels = ref.label if isinstance(ref.label, list) else [ref.label]
        label = ", ".join("(none)" if name is None else str(name) for name in labels)
        if ref.objects:
            label = ", ".join(f"{count} {name}" for name, count in Counter(ref.objects.labels).items()) or "(no object)"
        cells = (ref.key, ref.split or "(none)", label, ref.uri or "(no image)")
        rows.append([escape(cell) for cell in cells])
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, [*widths, 0], strict=True)) for row in rows]
