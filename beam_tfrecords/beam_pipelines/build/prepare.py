"""Prepares a build: checks the request against its input, and copies the listing to the workers' folder."""

from __future__ import annotations

import functools
import itertools
import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.checks.arrays import resolve_arrays
from beam_tfrecords.beam_pipelines.build.checks.classes import resolve_heads
from beam_tfrecords.beam_pipelines.build.checks.listing import check_listing
from beam_tfrecords.beam_pipelines.build.identity import describe_metadata, make_ledger
from beam_tfrecords.beam_pipelines.build.listing.list_input import ListedInput, collect_listing
from beam_tfrecords.beam_pipelines.build.output.lock import HeldOutput, open_folder, refuse_other
from beam_tfrecords.beam_pipelines.build.output.previous import (
    Previous,
    choose_version,
    describe_moved_classes,
    open_previous,
    previous_classes,
    would_repeat,
)
from beam_tfrecords.beam_pipelines.build.resolve import ResolvedBuild, plan_blocks, resolve_build
from beam_tfrecords.beam_pipelines.settings.definitions import show_flags
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.errors import FailureReason, RequestError, SampleError
from beam_tfrecords.transforms.blocks.block_plan import BlockPlan
from beam_tfrecords.transforms.blocks.guard import Convert, Made, convert_sample
from beam_tfrecords.transforms.hashing import content_hash
from beam_tfrecords.transforms.listing.indexing import read_partitions
from beam_tfrecords.transforms.listing.listing import Listing, read_batches, write_chunk_names
from beam_tfrecords.transforms.processes.isolation import isolated
from beam_tfrecords.transforms.publishing.publication import describe_heads
from beam_tfrecords.transforms.refs.fetching import read_images
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder

_log = logging.getLogger(__name__)
_UPLOADS = 16
# Names of chunk files that travel in the pipeline, and cost a store no request.
_FEW_CHUNKS = 16
_SAMPLES = 20
# Each timeout takes as long as `image_timeout`.
_MOST_TIMEOUTS = 5
# Failures that the function causes even if the sample also fails without it: labels and columns are its output.
_FUNCTION_REASONS = (
    FailureReason.MAP_ERROR,
    FailureReason.UNKNOWN_CLASS,
    FailureReason.LABEL_MISSING,
    FailureReason.VALUE_MISSING,
    FailureReason.WRONG_TYPE,
)
_WHAT = "the function of `map`"


def prepare_build(
    spec: BuildSpec,
    listed: ListedInput,
    *,
    output: HeldOutput,
    previous: Previous,
    may_repeat: bool = False,
) -> ResolvedBuild | None:
    """Checks the request against the listed input, resolves the build, and takes the right to publish it.

    Args:
      spec: the request, with its layout.
      listed: the listed input.
      output: the output.
      previous: the previous datasets.
      may_repeat: whether to resolve also a build that would repeat the newest version.

    Returns:
      The build; None if it would repeat the newest version.

    Raises:
      RequestError: the request does not match the input.
      OutputLockedError: a job of another build may write to the output.
    """
    listing, tally, source = listed.listing, listed.tally, listed.source
    spec = resolve_arrays(spec, source, listing, tally)
    kept, kept_heads = previous_classes(spec, previous)
    class_names = check_listing(spec, source, listing, tally, kept=kept)
    heads = resolve_heads(spec, source, listing, tally, kept_heads)
    for warning in describe_moved_classes(spec, class_names.names, heads):
        show(f"warning: {show_flags(warning)}", file=sys.stderr)
    plan = plan_blocks(spec, source, listing, class_names, heads=heads, previous=previous, is_new=output.is_new)
    refuse_other(output, plan.folder)
    _log.info("listed %d samples; the folder of the build is %s", listing.total, plan.folder)
    metadata = describe_metadata(
        spec,
        input_fingerprint=listed.fingerprint,
        tally=tally,
        ledger=make_ledger(spec, source, listing, tally, class_names, heads),
        read_with=listed.read_with,
    )
    named = {"class_names": class_names.names, **describe_heads(plan.convert.layout)}
    if not (may_repeat or listing.unknown) and would_repeat(previous, spec, {**metadata, **named}):
        return None
    check_map(spec, plan, listing)
    fence = open_folder(plan.folder, output, keeps=listed.folder)
    if source.is_whole:
        _copy_chunks(listing, BuildFolder(plan.folder).listing)
    has_few = len(listing.chunks) <= _FEW_CHUNKS
    if not has_few:
        write_chunk_names(listing, plan.folder)
    version = choose_version(spec, plan.folder, previous) if spec.versioned else None
    return resolve_build(
        spec,
        plan,
        listing,
        metadata,
        chunks=tuple(listing.chunks) if has_few else (),
        previous=previous,
        version=version,
        fence=fence,
    )


def resolve_listed(spec: BuildSpec, source: Source, folder: str, output: HeldOutput) -> ResolvedBuild:
    """Resolves a build whose input was listed by the pipeline that runs the build.

    Args:
      spec: the request, with its layout.
      source: the opened source.
      folder: folder of the listing.
      output: the output.

    Raises:
      RequestError, OutputLockedError: as `prepare_build`.
    """
    # A whole may have changed since it was cut.
    partitions = read_partitions(folder) if source.is_whole else source.partitions
    listed = collect_listing(spec, source, folder, partitions)
    build = prepare_build(spec, listed, output=output, previous=open_previous(spec), may_repeat=True)
    assert build is not None
    return build


def _copy_chunks(listing: Listing, folder: str) -> None:
    def copies(files: Iterable[str]) -> list[str]:
        return [storage.join(folder, storage.basename(file)) for file in files]

    # Sequential copies of the listing of a billion images to a bucket take an hour and a half.
    with ThreadPoolExecutor(_UPLOADS) as pool:
        for _ in pool.map(_copy, listing.files, copies(listing.files)):
            pass
    listing.chunks, listing.overflow_files = copies(listing.chunks), copies(listing.overflow_files)


def _copy(source: str, target: str) -> None:
    storage.write_bytes(target, storage.read_bytes(source))


def check_map(spec: BuildSpec, plan: BlockPlan, listing: Listing) -> None:
    """Refuses a function that fails for each of a few samples, or, with `check_map`, returns varying results.

    Args:
      spec: the request.
      plan: the plan of the blocks.
      listing: the listed samples.

    Raises:
      RequestError: the function fails, or its results differ.
      BuildError: a service fault.
    """
    if plan.map is None:
        return
    batch = max(itertools.islice(read_batches(listing), 2), key=len)
    count = min(_SAMPLES, len(batch))
    refs = [batch[index * len(batch) // count] for index in range(count)]
    name = f"`map={plan.map.function.name}`"
    if spec.check_map:
        _refuse_differing(name, refs, functools.partial(_map, plan=plan), seconds=plan.image_timeout)
    convert = functools.partial(_convert, plan=plan)
    _refuse_failing(name, refs, convert, seconds=plan.image_timeout)


def _refuse_differing(name: str, refs: Sequence[SampleRef], call: Callable[..., str], *, seconds: float) -> None:
    # The second calls run in another process and in another order, so that counters in the function differ.
    first = _call_each(refs, call, seconds=seconds)
    second = _call_each(refs[::-1], call, seconds=seconds)[::-1]
    wrong = next((ref.key for ref, one, other in zip(refs, first, second, strict=True) if one != other), None)
    if wrong is not None:
        raise RequestError(
            f"{name}: two calls with the sample {wrong} gave different results; expected a function whose result "
            "depends on the sample alone, without clock, counters or random numbers",
            code="nondeterministic_function",
        )


def _refuse_failing(name: str, refs: Sequence[SampleRef], call: Callable[..., None], *, seconds: float) -> None:
    failures: list[SampleError] = []
    timeouts = 0
    with isolated(call, seconds, name=_name, what=_WHAT) as isolated_call:
        for ref in refs:
            found = isolated_call(ref)
            if not isinstance(found, SampleError):
                return
            if found.reason in _FUNCTION_REASONS or not _is_same(found, isolated_call(ref, False)):
                failures.append(found)
                timeouts += found.reason is FailureReason.DECODE_TIMEOUT
            if timeouts == _MOST_TIMEOUTS:
                break
    if failures:
        first = failures[0]
        if first.traceback:
            show(*first.traceback.splitlines(), file=sys.stderr)
        remedy = "; name the classes with `class_names`" if first.reason is FailureReason.UNKNOWN_CLASS else ""
        raise RequestError(
            f"{name}: it fails for all {len(failures)} samples: {first.detail}{remedy}", code="failing_function"
        )


def _is_same(failure: SampleError, other: SampleError | None) -> bool:
    return isinstance(other, SampleError) and (failure.reason, failure.detail) == (other.reason, other.detail)


def _call_each(refs: Sequence[SampleRef], call: Callable[[SampleRef], str], *, seconds: float) -> list[str]:
    """Returns the result for each sample, computed in a separate process."""
    with isolated(call, seconds, name=_name) as isolated_call:
        return [str(isolated_call(ref)) for ref in refs]


def _map(ref: SampleRef, *, plan: BlockPlan) -> str:
    """Returns the function's result for a sample, as a digest."""
    assert plan.map is not None
    made = _attempt(ref, plan.map.apply, plan)
    if made is None:
        return "filtered"
    changed, files = made
    return "+".join([content_hash(changed.pack()), *(content_hash(data) for data in files.values())])


def _convert(ref: SampleRef, is_mapped: bool = True, *, plan: BlockPlan) -> None:
    """Converts a sample after the function has changed it, or without the function."""

    def attempt(ref: SampleRef, images: Mapping[str, bytes]) -> None:
        made = plan.map.apply(ref, images) if plan.map and is_mapped else (ref, images)
        if made is not None:
            changed, files = made
            plan.convert.finish(RefColumns.of_one(changed), [plan.convert.prepare(changed, files)])

    _attempt(ref, attempt, plan)


def _attempt(ref: SampleRef, convert: Convert[Made], plan: BlockPlan) -> Made:
    """Reads the images of a sample, and returns the result of `convert`.

    Raises:
      SampleError: the sample is rejected.
      BuildError: a service fault.
    """
    images = read_images(ref, max_file_size=plan.max_file_size) if plan.reads_images else {}
    if isinstance(images, SampleError):
        raise images
    found = convert_sample(convert, ref, images, memory=plan.max_image_memory)
    if isinstance(found, SampleError):
        raise found
    return found


def _name(ref: SampleRef, *_: bool) -> str:
    return ref.uri or ref.key
