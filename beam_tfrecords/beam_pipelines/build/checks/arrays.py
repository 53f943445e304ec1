"""Finds the type and the channels of stored arrays: as in the first samples, unless the request gives them."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beam_tfrecords.errors import FailureReason, Reading, RequestError, SampleError, Stage
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.transforms.images.image_spec import ArrayType, Axes, ImageEncoding, ImageSpec, Pages, ResizeMode
from beam_tfrecords.transforms.refs.sample_refs import SampleRef, is_mask
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.settings import settings_of
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.tally import Tally

if TYPE_CHECKING:
    from beam_tfrecords.transforms.listing.listing import Listing

# Number of samples to open.
_FIRST = 3
# Settings of images that arrays do not have, or that have another meaning for them.
OF_IMAGES: Mapping[str, None] = {"image_encoding": None, "channels": None, "bit_depth": None}
# Settings of arrays that a request may lack; a refusal offers the settings that make the samples readable.
_FLOATS: Mapping[str, Any] = {"array_type": ArrayType.FLOAT32}
_READINGS: Sequence[Mapping[str, Any]] = (
    {"array_axes": Axes.CHW},
    {"array_axes": Axes.HWC},
    {"pages": Pages.BANDS},
    {"pages": Pages.FIRST},
)
_ANSWERS: Sequence[Sequence[Mapping[str, Any]]] = (
    ({},),
    (*_READINGS, _FLOATS),
    tuple({**one, **_FLOATS} for one in _READINGS),
)


def resolve_arrays(spec: BuildSpec, source: Source, listing: Listing, tally: Tally) -> BuildSpec:
    """Returns the request with the type and the channels of its arrays; the same one if it stores none.

    Raises:
      RequestError: the first samples cannot be read as arrays; offers the settings with which they can.
    """
    image, layout = spec.image, spec.layout
    if layout is None or Content.ARRAY not in layout.required:
        if layout is not None and Content.IMAGE in layout.required and spec.map is None and not source.pipeline:
            _check_channels(spec, layout, listing)
        return spec
    if image.array_type and image.channels:
        return spec
    if spec.map is not None or source.pipeline is not None:
        raise RequestError(
            "`layout`: a function of yours makes the arrays, whose type and channels must be known; name them with "
            "`array_type` and `channels`",
            code="needs_setting",
        )
    # Most requests have no arrays, and need none of these modules here.
    import numpy as np

    from beam_tfrecords.transforms.processes.isolation import isolated
    from beam_tfrecords.transforms.refs.fetching import read_images

    refs = _first_refs(spec, listing, _FIRST)
    failure, answers, kinds = None, list[Reading](), list[tuple[str, int]]()
    with isolated(describe_arrays, spec.image_timeout) as describe, isolated(find_answers, spec.image_timeout) as find:
        for ref in refs:
            read = read_images(ref, max_file_size=spec.max_file_size)
            files = {} if isinstance(read, SampleError) else {name: read[name] for name in read if not is_mask(name)}
            found = describe(files, image) if files else read
            if isinstance(found, tuple):
                kinds.append(found)
            elif isinstance(found, SampleError):
                suggested = find(files, image) if files else []
                failure, answers = found, [] if isinstance(suggested, SampleError) else suggested
    different = sorted({channels for _, channels in kinds})
    if len(different) > 1:
        raise RequestError(
            f"`input={', '.join(spec.input)}`: the first arrays have {' and '.join(map(str, different))} channels; "
            "`channels` says which number a record has, and rejects the others",
            code="unclear_array",
        )
    if kinds:
        return _fill(spec, tally, np.result_type(*(kind for kind, _ in kinds)).name, kinds[0][1])
    detail = failure.detail if failure else "there is none"
    raise RequestError(
        f"`input={', '.join(spec.input)}`: {printable(refs[-1].key)} cannot be read as an array: {detail}",
        answers,
        code="unclear_array",
    )


def _first_refs(spec: BuildSpec, listing: Listing, number: int) -> list[SampleRef]:
    """Returns the first samples in the order of the dataset, which does not depend on the file system."""
    from beam_tfrecords.transforms.listing.limiting import choose_refs
    from beam_tfrecords.transforms.listing.listing import read_batches
    from beam_tfrecords.transforms.refs.ref_columns import one_by_one, unpack_batches

    packed = choose_refs(read_batches(listing), limit=number, seed=spec.seed, samples=listing.samples)
    return list(one_by_one(unpack_batches(packed)))


def _check_channels(spec: BuildSpec, layout: Layout, listing: Listing) -> None:
    """Refuses TIFF files whose channels no image can have; offers to store them as arrays.

    Raises:
      RequestError: the first sample can be read as an array only.
    """
    from beam_tfrecords.transforms.listing.listing import read_light

    first = next((uri for refs in read_light(listing) for uri in refs.uris() if uri), "")
    if not first.lower().endswith((".tif", ".tiff")):
        return
    from beam_tfrecords.transforms.images.convert_image import convert_image
    from beam_tfrecords.transforms.processes.isolation import isolated
    from beam_tfrecords.transforms.refs.fetching import read_images

    (ref,) = _first_refs(spec, listing, 1)
    read = read_images(ref, max_file_size=spec.max_file_size)
    if isinstance(read, SampleError):
        return
    files = {name: data for name, data in read.items() if not is_mask(name)}
    with isolated(convert_image, spec.image_timeout) as convert, isolated(find_answers, spec.image_timeout) as find:
        failure = convert(next(iter(files.values())), spec.image)
        if not isinstance(failure, SampleError) or failure.reason is not FailureReason.UNSUPPORTED_MODE:
            return
        found = find(
            files, dataclasses.replace(spec.image, image_encoding=ImageEncoding.RAW, channels=None, bit_depth=8)
        )
    word = "array" + ",label" * (Content.LABEL in layout.required) + ",mask" * (Content.MASK in layout.required)
    if isinstance(found, SampleError) or not found or Content.OBJECTS in layout.required or layout.columns:
        return
    raise RequestError(
        f"`input={', '.join(spec.input)}`: {printable(ref.key)} cannot be an image: {failure.detail}",
        [dataclasses.replace(one, settings={"layout": word, **OF_IMAGES, **one.settings}) for one in found],
        code="arrays_as_images",
    )


def describe_arrays(files: Mapping[str, bytes], spec: ImageSpec) -> tuple[str, int]:
    """Returns the type and the number of channels of the joined arrays of a sample.

    Args:
      files: name of an image -> its file.

    Raises:
      SampleError: the sample would be rejected.
    """
    import numpy as np

    from beam_tfrecords.transforms.images.convert_array import convert_array, join_bands, read_array

    joined = np.result_type(*(read_array(data, spec).pixels for data in files.values())).name
    kind = spec.array_type or next((one for one in ArrayType if one.value == joined), None)
    if kind is None:
        types = ", ".join(one.value for one in ArrayType)
        detail = f"its numbers are {joined}; arrays are of {types} (`array_type`)"
        raise SampleError(Stage.DECODE, FailureReason.UNSUPPORTED_MODE, detail)
    typed = dataclasses.replace(spec, array_type=kind)
    return kind.value, join_bands({name: convert_array(data, typed) for name, data in files.items()}, typed).channels


def find_answers(files: Mapping[str, bytes], spec: ImageSpec) -> list[Reading]:
    """Returns the settings with which a sample that cannot be read as an array can be."""
    from beam_tfrecords.transforms.images.convert_array import read_array

    found, sizes = list[Reading](), list[tuple[int, int]]()
    with contextlib.suppress(SampleError):
        sizes = [read_array(data, spec).size for data in files.values()]
    resized = [{"image_size": max(sizes), "resize_mode": ResizeMode.EXACT}] if len(set(sizes)) > 1 else []
    for settings in itertools.chain(*_ANSWERS, resized):
        # Further settings beside those that are enough would be no other meaning.
        if found and len(settings) > len(found[0].settings):
            break
        with contextlib.suppress(SampleError):
            changed = dataclasses.replace(spec, **settings)
            said = {one.name: one.write(settings[one.name]) for one in settings_of(ImageSpec) if one.name in settings}
            found.append(Reading(_name(*describe_arrays(files, changed)), said))
    return found


def _fill(spec: BuildSpec, tally: Tally, kind: str, channels: int) -> BuildSpec:
    if spec.channels is None:
        tally.notes.append(f"{_name(kind, channels)}, as the first samples have them")
    return dataclasses.replace(spec, array_type=ArrayType(kind), channels=spec.channels or channels)


def _name(kind: str, channels: int) -> str:
    return f"arrays of {channels} channel{'s'[: channels != 1]} of {kind}"
