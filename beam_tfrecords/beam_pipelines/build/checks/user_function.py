"""Calls the function of `map` with a few samples before a build starts."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.errors import FailureReason, RequestError, SampleError
from beam_tfrecords.transforms.blocks.block_plan import BlockPlan
from beam_tfrecords.transforms.blocks.fetching import read_images
from beam_tfrecords.transforms.blocks.guard import Convert, Made, convert_sample
from beam_tfrecords.transforms.hashing import content_hash
from beam_tfrecords.transforms.processes.isolation import isolated
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from beam_tfrecords.transforms.request.build_spec import BuildSpec

if TYPE_CHECKING:
    from beam_tfrecords.transforms.listing.listing import Listing

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
    from beam_tfrecords.transforms.listing.listing import read_batches

    if plan.map is None:
        return
    batch = next(read_batches(listing))
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
