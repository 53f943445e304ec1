"""`convert --dry_run`: describes a build from its listing alone, without building or writing anything."""

from __future__ import annotations

import dataclasses
import tempfile

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.checks.heads import resolve_heads
from beam_tfrecords.beam_pipelines.build.checks.listing import check_listing
from beam_tfrecords.beam_pipelines.build.checks.output import check_output
from beam_tfrecords.beam_pipelines.build.listing.executors import LocalExecutor
from beam_tfrecords.beam_pipelines.build.listing.expected_failures import ExpectedFailures
from beam_tfrecords.beam_pipelines.build.listing.list_input import list_input
from beam_tfrecords.beam_pipelines.build.listing.listing_tables import describe_refs, describe_splits
from beam_tfrecords.beam_pipelines.build.listing.source_opening import open_spec_source
from beam_tfrecords.beam_pipelines.build.listing.trial import trying_suggestions
from beam_tfrecords.beam_pipelines.build.output.location import check_location
from beam_tfrecords.beam_pipelines.build.output.previous import open_previous, previous_classes
from beam_tfrecords.beam_pipelines.build.user_functions import find_functions
from beam_tfrecords.beam_pipelines.messages.notes import describe_request
from beam_tfrecords.beam_pipelines.messages.summary import describe_classes, describe_reasons, describe_skipped
from beam_tfrecords.beam_pipelines.settings.definitions import show_flags
from beam_tfrecords.errors import RequestError
from beam_tfrecords.examples.layouts import Layout
from beam_tfrecords.transforms.blocks.convert_sample import ConvertSample
from beam_tfrecords.transforms.listing.limiting import choose_refs
from beam_tfrecords.transforms.listing.listing import read_batches
from beam_tfrecords.transforms.refs.ref_columns import join_packed, one_by_one, unpack_refs
from beam_tfrecords.transforms.request.build_spec import BuildSpec

_EXAMPLES = 5


@dataclasses.dataclass(frozen=True)
class DryRun:
    """The result of a dry run.

    Attributes:
      lines: description of the build.
      publishes: whether the build would publish a dataset, according to the listing.
    """

    lines: list[str]
    publishes: bool


def describe_build(spec: BuildSpec) -> DryRun:
    """Describes what a build would do.

    Raises:
      RequestError: the request is wrong; the build raises the same error.
    """
    with storage.using(spec.source.storage_options()):
        check_location(spec)
        check_output(spec)
        spec = find_functions(spec)
        with trying_suggestions(spec):
            return _describe(spec)


def _describe(spec: BuildSpec) -> DryRun:
    spec, source = open_spec_source(spec)
    if source.pipeline is not None:
        raise RequestError(
            f"`dry_run`: `input={source.pipeline.function.name}` is a pipeline: its samples are known when it has run; "
            "leave `dry_run` out, and use, for example, `limit=100`",
            code="pipeline_input",
        )
    with tempfile.TemporaryDirectory(prefix="beam-tfrecords-") as folder:
        listed = list_input(spec, source, LocalExecutor(folder, copies=False))
        assert listed is not None
        listing, skipped = listed.listing, listed.skipped
        kept, kept_heads = previous_classes(spec, open_previous(spec))
        class_names = check_listing(spec, source, listing, skipped, kept=kept)
        heads = resolve_heads(spec, source, listing, kept_heads) if spec.map is None else {}
        # The labels that a user function returns are unknown.
        layout = spec.layout if spec.layout and spec.map is None else Layout(())
        convert = ConvertSample(spec.image, layout, class_names, heads=heads)
        shares_keys = spec.source.table.group_rows or source.last_member_wins
        failures = ExpectedFailures(convert, class_names, shares_keys=shares_keys)
        batches = failures.watch(read_batches(listing))
        packed = choose_refs(batches, limit=_EXAMPLES, seed=spec.seed, samples=listing.samples)
        refs = list(one_by_one(unpack_refs(join_packed(packed))))
    classes = {
        split: {class_names.names[index]: count for index, count in sorted(found.items())}
        for split, found in sorted(failures.classes.items())
    }
    of_columns = listing.column_labels
    of_heads = {name: head.count(of_columns.get(layout.heads[name].column or "", {})) for name, head in heads.items()}
    failed = failures.counts.total()
    # Some conditions need the converted image.
    most = "at most " if spec.where else ""
    publishes = failed < listing.total and failed <= spec.max_failures * listing.total
    lines = [
        *describe_splits(spec, listing),
        *describe_classes(classes),
        *(line for name in heads for line in describe_classes({"": of_heads[name]}, head=name)),
        *describe_reasons(failures.counts, failures.examples),
        *([] if publishes else [f"nothing would be published: --max_failures={spec.max_failures:g} allows fewer"]),
        *describe_skipped({kind: (count, skipped.examples[kind]) for kind, count in sorted(skipped.counts.items())}),
        *(f"note: {show_flags(note)}" for note in (*source.notes, *describe_request(spec))),
        *describe_refs(refs),
        *_describe_shared(spec, failures.shared),
        f"dry run: nothing was built or written; {most}{listing.total - failures.shared:,} samples would go to "
        f"{spec.output}",
    ]
    return DryRun(lines, publishes)


def _describe_shared(spec: BuildSpec, shared: int) -> list[str]:
    """Explains the counts above where several rows or members form one sample."""
    if not shared:
        return []
    are_rows = spec.source.table.group_rows
    how = "rows belong to the image of another row" if are_rows else "members are replaced by a later one"
    return [f"note: {shared:,} {how}, and are counted above"]
