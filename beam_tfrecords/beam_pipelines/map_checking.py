"""Calls the function of `map` with a few samples before a build starts."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.beam_pipelines.work import Work
from beam_tfrecords.errors import FailureReason, RequestError, SampleError
from beam_tfrecords.transforms.blocks.block_plan import BlockPlan
from beam_tfrecords.transforms.blocks.convert_sample import ConvertSample
from beam_tfrecords.transforms.blocks.fetching import read_images
from beam_tfrecords.transforms.hashing import content_hash
from beam_tfrecords.transforms.processes.isolation import isolated
from beam_tfrecords.transforms.ref_columns import RefColumns
from beam_tfrecords.transforms.refs import SampleRef
from beam_tfrecords.transforms.request.build_spec import BuildSpec

if TYPE_CHECKING:
    from beam_tfrecords.transforms.listing.listing import Listing

_SAMPLES = 20
# What the function is to blame for.
_BLAMED = (FailureReason.MAP_ERROR, FailureReason.UNKNOWN_CLASS)
# They say nothing of a function that works with other samples, and take their time.
_ENDS = (FailureReason.DECODE_TIMEOUT, FailureReason.DECODER_CRASH)


def check_map(spec: BuildSpec, work: Work, listing: Listing) -> None:
    """Refuses a function that fails for each of a few samples, or with `check_map` gives different results.

    Args:
      spec: the request.
      work: of the build.
      listing: the listed samples.

    Raises:
      RequestError: the function fails, or its results differ.
      BuildError: a service fault.
    """
    from beam_tfrecords.transforms.listing.listing import read_batches

    plan = work.block_plan
    if plan.map is None:
        return
    batch = next(read_batches(listing))
    count = min(_SAMPLES, len(batch))
    refs = [batch[place * len(batch) // count] for place in range(count)]
    name = f"`map={plan.map.function.name}`"
    call = functools.partial(_call, plan=plan, convert=work.convert)
    _refuse_failing(name, refs, call, seconds=plan.image_timeout)
    if not spec.check_map:
        return
    # In another process and in another order, so that what the function counts differs too.
    first = _call_each(refs, call, seconds=plan.image_timeout)
    second = _call_each(refs[::-1], call, seconds=plan.image_timeout)[::-1]
    wrong = next((ref.key for ref, one, other in zip(refs, first, second, strict=True) if one != other), None)
    if wrong is not None:
        raise RequestError(
            f"{name}: two calls with the sample {wrong} gave different results; expected a function whose result "
            "depends on the sample alone, without clock, counters or random numbers"
        )


def _refuse_failing(name: str, refs: Sequence[SampleRef], call: Callable[[SampleRef], str], *, seconds: float) -> None:
    failures: list[SampleError] = []
    with isolated(call, seconds, name=_name) as isolated_call:
        for ref in refs:
            found = isolated_call(ref)
            if not isinstance(found, SampleError) or found.reason in _ENDS:
                return
            failures += [found] if found.reason in _BLAMED else []
    if failures:
        first = failures[0]
        show(*(first.traceback or "").splitlines(), file=sys.stderr)
        remedy = "; name the classes with `class_names`" if first.reason is FailureReason.UNKNOWN_CLASS else ""
        raise RequestError(f"{name}: it fails for each of {len(failures)} samples: {first.detail}{remedy}")


def _call_each(refs: Sequence[SampleRef], call: Callable[[SampleRef], str], *, seconds: float) -> list[str]:
    """What a process of its own makes of each sample."""
    with isolated(call, seconds, name=_name) as isolated_call:
        return [str(isolated_call(ref)) for ref in refs]


def _call(ref: SampleRef, *, plan: BlockPlan, convert: ConvertSample) -> str:
    """What the function makes of a sample, as a digest."""
    assert plan.map is not None
    images = read_images(ref, max_file_size=plan.max_file_size) if plan.read_images else {}
    if isinstance(images, SampleError):
        raise images
    made = plan.map.apply(ref, images)
    if made is None:
        return "filtered"
    changed, files = made
    (failure,) = convert.find_failures(RefColumns.of_one(changed))
    if failure is not None:
        raise failure
    return "+".join([content_hash(changed.pack()), *(content_hash(data) for data in files.values())])


def _name(ref: SampleRef) -> str:
    return ref.uri or ref.key
