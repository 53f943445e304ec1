"""`plan` and `convert --dry_run`: describe a build from its listing alone, without building or writing anything."""

from __future__ import annotations

import dataclasses
import functools
import html
import logging
import tempfile
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.checks.arrays import resolve_arrays
from beam_tfrecords.beam_pipelines.build.checks.classes import resolve_heads
from beam_tfrecords.beam_pipelines.build.checks.listing import check_listing
from beam_tfrecords.beam_pipelines.build.checks.output import check_location, check_output
from beam_tfrecords.beam_pipelines.build.checks.settings import describe_request
from beam_tfrecords.beam_pipelines.build.identity import make_ledger
from beam_tfrecords.beam_pipelines.build.listing.list_input import list_input
from beam_tfrecords.beam_pipelines.build.listing.source_opening import open_spec_source
from beam_tfrecords.beam_pipelines.build.listing.trial import trying_suggestions
from beam_tfrecords.beam_pipelines.build.output.previous import (
    describe_moved_classes,
    open_previous,
    previous_classes,
)
from beam_tfrecords.beam_pipelines.build.user_functions import find_functions
from beam_tfrecords.beam_pipelines.messages.summary import (
    describe_classes,
    describe_missing,
    describe_reasons,
    describe_shares,
    describe_skipped,
    format_bytes,
    format_table,
)
from beam_tfrecords.beam_pipelines.runners.find_runner import find_runner
from beam_tfrecords.beam_pipelines.settings.definitions import read_call, show_flags
from beam_tfrecords.errors import RequestError, SampleError, naming_end
from beam_tfrecords.escaping import escape
from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.quiet_beam import beam_logs_from
from beam_tfrecords.transforms.blocks.convert_sample import ConvertSample
from beam_tfrecords.transforms.blocks.rows import CONFLICTING_ROWS, DUPLICATE_KEY, content_of
from beam_tfrecords.transforms.hashing import order_hashes
from beam_tfrecords.transforms.labels import ClassNames
from beam_tfrecords.transforms.listing.limiting import choose_refs
from beam_tfrecords.transforms.listing.listing import Listing, read_batches
from beam_tfrecords.transforms.refs.ref_columns import RefColumns, one_by_one, unpack_batches
from beam_tfrecords.transforms.refs.sample_refs import SampleRef, Scalar
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.shards.plan import ShardPolicy, estimate_output
from beam_tfrecords.transforms.sources.meaning.ledger import Entry, describe_ledger

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from beam_tfrecords.beam_pipelines.settings.build_settings import BuildSettings, Path, Words

_EXAMPLES = 5


@dataclasses.dataclass(frozen=True, repr=False)
class Plan:
    """What a build would do, according to its listing. `str` returns the text of `convert --dry_run`.

    Attributes:
      output: folder of the dataset.
      num_samples: number of samples that the build would convert; at most this number with `where`.
      estimates: split -> its number of samples, its size in bytes and its number of shards.
      class_names: class names, in the order of their indices.
      class_counts: split -> class name -> number of samples, or of objects.
      layout: features of an example as in a spec file; `build(layout=plan.layout)` uses the same.
      failures: reason -> number of samples that the build would reject, as far as the listing shows.
      skipped: kind of skipped file, such as hidden ones -> number of such files.
      ledger: everything of the input that is not stored, or stored under another number.
      notes: remarks on the request and the input; they quote settings as `name=value`.
      publishes: whether the build would publish a dataset.
      lines: the text, by line.
    """

    output: str
    num_samples: int
    estimates: Mapping[str, SplitEstimate]
    class_names: tuple[str, ...]
    class_counts: Mapping[str, Mapping[str, int]]
    layout: Mapping[str, object]
    failures: Mapping[str, int]
    skipped: Mapping[str, int]
    ledger: Sequence[Entry]
    notes: Sequence[str]
    publishes: bool
    lines: Sequence[str]

    @property
    def splits(self) -> dict[str, int]:
        """Number of samples by split name."""
        return {split: estimate.samples for split, estimate in self.estimates.items()}

    def __str__(self) -> str:
        return "\n".join(map(escape, self.lines))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{html.escape(split)}</td><td>{one.samples:,}</td><td>{format_bytes(one.bytes)}</td>"
            f"<td>{one.shards:,}</td></tr>"
            for split, one in self.estimates.items()
        )
        return (
            f"<table><caption>plan of {html.escape(escape(self.output))}</caption>"
            f"<tr><th>split</th><th>samples</th><th>about</th><th>shards</th></tr>{rows}</table>"
            f"<pre>{html.escape(str(self))}</pre>"
        )


def plan(
    input: Words | Callable[..., Any] | None = None,
    output: Path | None = None,
    /,
    *,
    beam_arguments: Sequence[str] = (),
    **settings: Unpack[BuildSettings],
) -> Plan:
    """Lists an input and says what `build` with the same settings would do; builds and writes nothing.

        >>> from beam_tfrecords import plan
        >>> planned = plan("photos/", "planned/", image_size=16)
        >>> planned.splits, planned.class_names, planned.publishes
        ({'train': 12}, ('cat', 'dog'), True)

    Args:
      input: the setting `input`; it may also be given by name.
      output: the setting `output`; it may also be given by name.
      beam_arguments: arguments for Beam, as in `build`.
      settings: as in `build`.

    Raises:
      RequestError: the request is wrong; `build` raises the same error.
    """
    with beam_logs_from(logging.CRITICAL), naming_end():
        find_runner(beam_arguments).arguments.check_known()
        return make_plan(read_call(input, output, settings))


def make_plan(spec: BuildSpec) -> Plan:
    """Returns what a build would do.

    Raises:
      RequestError: the request is wrong; the build raises the same error.
    """
    with storage.using(spec.storage_options()):
        check_location(spec)
        check_output(spec)
        spec = find_functions(spec)
        with trying_suggestions(spec):
            return _make_plan(spec)


def _make_plan(spec: BuildSpec) -> Plan:
    spec, source = open_spec_source(spec)
    if source.pipeline is not None:
        raise RequestError(
            f"`dry_run`: `input={source.pipeline.function.name}` is a pipeline, whose samples are unknown before "
            "it runs; leave `dry_run` out, and use, for example, `limit=100`",
            code="pipeline_input",
        )
    with tempfile.TemporaryDirectory(prefix="beam-tfrecords-") as folder:
        # No image is read, so none needs a copy.
        listed = list_input(spec, source, folder, max_file_size=-1)
        listing, tally, source = listed.listing, listed.tally, listed.source
        spec = resolve_arrays(spec, source, listing, tally)
        kept, kept_heads = previous_classes(spec, open_previous(spec))
        class_names = check_listing(spec, source, listing, tally, kept=kept)
        heads = resolve_heads(spec, source, listing, tally, kept_heads) if spec.map is None else {}
        # The labels that a user function returns are unknown.
        layout = spec.layout if spec.layout and spec.map is None else Layout(())
        convert = ConvertSample(spec.image, layout, class_names, heads=heads)
        shares_keys = spec.group_rows or source.description.last_member_wins
        failures = ExpectedFailures(convert, class_names, shares_keys=shares_keys)
        batches = failures.watch(read_batches(listing))
        packed = choose_refs(batches, limit=_EXAMPLES, seed=spec.seed, samples=listing.samples)
        refs = list(one_by_one(unpack_batches(packed)))
    classes = {
        split: {class_names.names[index]: count for index, count in sorted(found.items())}
        for split, found in sorted(failures.classes.items())
    }
    of_columns = listing.column_labels
    of_heads = {name: head.count(of_columns.get(layout.heads[name].column or "", {})) for name, head in heads.items()}
    failed = failures.counts.total()
    # Some conditions need the converted image.
    most = "at most " if spec.where else ""
    request = spec.to_json()
    missing = describe_missing(
        {"splits": {split: {"classes": found} for split, found in classes.items()}, "spec": request}
    )
    samples = listing.total - failures.shared
    publishes = failed < samples and failed <= spec.max_failures * samples
    estimates = _estimate_splits(spec, listing)
    ledger = make_ledger(spec, source, listing, tally, class_names, heads)
    notes = (*tally.notes, *describe_request(spec), *describe_moved_classes(spec, class_names.names, heads))
    lines = [
        *_describe_splits(estimates),
        *describe_classes(classes),
        *(line for name in heads for line in describe_classes({"": of_heads[name]}, head=name)),
        *(f"warning: {line}" for line in missing),
        *describe_shares({split: count for split, count in listing.samples.items() if split}, request),
        *describe_reasons(failures.counts, failures.examples),
        *([] if publishes else [f"nothing would be published: --max_failures={spec.max_failures:g} allows fewer"]),
        *describe_skipped({kind: (count, tally.examples[kind]) for kind, count in sorted(tally.counts.items())}),
        *map(show_flags, describe_ledger(ledger)),
        *(f"note: {show_flags(note)}" for note in notes),
        *_describe_refs(refs),
        *_describe_shared(spec, failures.shared),
        f"dry run: nothing was built or written; {most}{samples:,} samples would go to {spec.output}",
    ]
    return Plan(
        output=spec.output,
        num_samples=samples,
        estimates={split: estimate for split, estimate in estimates.items() if split},
        class_names=class_names.names,
        class_counts=classes,
        layout=spec.layout.to_json() if spec.layout else {},
        failures=dict(failures.counts),
        skipped=dict(sorted(tally.counts.items())),
        ledger=ledger,
        notes=notes,
        publishes=publishes,
        lines=lines,
    )


def _describe_shared(spec: BuildSpec, shared: int) -> list[str]:
    """Explains the counts above where several rows or members form one sample."""
    if not shared:
        return []
    are_rows = spec.group_rows
    how = "rows belong to the image of another row" if are_rows else "members are replaced by a later one"
    return [f"note: {shared:,} {how}, and are counted above"]


class SplitEstimate(NamedTuple):
    """What a split of a dataset would have.

    Attributes:
      samples: number of listed samples.
      bytes: estimated size of its shards.
      shards: number of its shards.
    """

    samples: int
    bytes: int
    shards: int


def _estimate_splits(spec: BuildSpec, listing: Listing) -> dict[str, SplitEstimate]:
    """Returns the splits of a listing, sorted by name; "" has the samples without a valid one."""
    policy = ShardPolicy(spec.shard_size, spec.num_shards)
    estimates = {}
    for split, samples in sorted(listing.samples.items()):
        size = estimate_output(spec.image, spec.stored, samples=samples, source_bytes=listing.source_bytes[split])
        estimates[split] = SplitEstimate(samples, size, policy.count(size, records=samples) if split else 0)
    return estimates


def _describe_splits(estimates: Mapping[str, SplitEstimate]) -> list[str]:
    """Returns a table with a row per split: samples, total size and number of shards."""
    rows = [["split", "samples", "about", "shards"]]
    for split, (samples, size, shards) in estimates.items():
        rows.append([split or "(no valid split)", f"{samples:,}", format_bytes(size), f"{shards:,}"])
    return format_table(rows)


def _describe_refs(refs: Sequence[SampleRef]) -> list[str]:
    """Returns a table with a row per sample: key, split, label and file."""
    rows = [["sample", "split", "label", "source"]]
    for ref in refs:
        labels = ref.label if isinstance(ref.label, list) else [ref.label]
        label = ", ".join("(none)" if name is None else _shown(name) for name in labels)
        if ref.objects:
            label = (
                ", ".join(f"{count} {name}" for name, count in Counter(map(_shown, ref.objects.labels)).items())
                or "(no object)"
            )
        cells = (ref.key, ref.split or "(none)", label, ref.uri or "(no image)")
        rows.append([escape(cell) for cell in cells])
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, [*widths, 0], strict=True)) for row in rows]


def _shown(label: Scalar) -> str:
    """Returns a label; of one with a number and a text, the text."""
    return str(label).rpartition("\t")[2]


class ExpectedFailures:
    """Counts the samples that a build would reject, as far as the listing shows; keeps the first of each reason.

    Attributes:
      counts: reason -> number of samples.
      classes: split -> index -> number of samples with this label that would not be rejected.
      examples: reason -> (key, detail) of its first sample.
      shared: number of samples that another sample with the same key joins or replaces.

    Args:
      convert: rejects samples without the labels that the layout needs.
      class_names: the classes.
      shares_keys: whether several samples may have one key: they are joined, or the last one counts.
    """

    def __init__(self, convert: ConvertSample, class_names: ClassNames, *, shares_keys: bool) -> None:
        self.counts: Counter[str] = Counter()
        self.classes: dict[str, Counter[int]] = {}
        self.examples: dict[str, tuple[str, str]] = {}
        self.shared = 0
        self._convert = convert
        self._find = functools.lru_cache(1 << 16, typed=True)(class_names.find)
        self._shares_keys = shares_keys
        # Sixteen bytes per sample: hashes of keys and contents are enough to count equal ones.
        self._keys, self._contents = array("Q"), array("Q")

    def watch(self, batches: Iterable[RefColumns]) -> Iterator[RefColumns]:
        """Yields the references unchanged, and counts them."""
        for refs in batches:
            hashes = order_hashes(seed=0, keys=map("{}/{}".format, refs.each("split"), refs.keys))
            for sample, key, error in zip(refs, hashes, self._convert.find_failures(refs), strict=True):
                self._look_at(sample, key, error)
            yield refs
        self._compare()

    def _look_at(self, sample: SampleRef, key: int, error: SampleError | None) -> None:
        if sample.failure is None:
            self._keys.append(key)
            self._contents.append(zlib.crc32(content_of(sample)))
        failure = sample.failure or ((error.reason.value, error.detail) if error else None)
        if failure is not None:
            self._add(*failure, key=sample.key)
        else:
            found = map(self._find, sample.labels)
            self.classes.setdefault(sample.split or "", Counter()).update(one for one in found if one is not None)

    def _compare(self) -> None:
        """Counts samples with equal keys, as `reject_duplicates` rejects them."""
        keys, contents = (np.frombuffer(hashes, np.uint64) for hashes in (self._keys, self._contents))
        order = np.lexsort((contents, keys))
        keys, contents = keys[order], contents[order]
        _, starts, counts = np.unique(keys, return_index=True, return_counts=True)
        if self._shares_keys:
            self.shared = len(keys) - len(counts)
            return
        # In sorted order, all contents are equal if the first equals the last.
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
