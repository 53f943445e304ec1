"""Refuses masks of colors if the request does not say which classes the colors stand for."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from beam_tfrecords.errors import RequestError, SampleError, Suggestion
from beam_tfrecords.transforms.mask_colors import NAMED
from beam_tfrecords.transforms.refs.sample_refs import MASK
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.source import Source

if TYPE_CHECKING:
    from beam_tfrecords.transforms.listing.listing import Listing

# Images with more colors are photos.
_MOST_COLORS = 256
# Number of masks to open.
_FIRST = 3


def check_masks(spec: BuildSpec, source: Source, listing: Listing) -> None:
    """Checks that the first masks have numbers. Only masks that may have colors by their headers are decoded.

    Raises:
      RequestError: they are photos, or have colors; offers the named table that has all colors.
    """
    is_known = spec.mask_class_names or spec.map or source.description.records or source.pipeline
    if spec.layout is None or not spec.layout.needs_mask or is_known:
        return
    # Most requests have no masks, and need none of these modules here.
    from beam_tfrecords.transforms.blocks.fetching import read_image
    from beam_tfrecords.transforms.images.masks import find_tables, may_have_colors
    from beam_tfrecords.transforms.listing.listing import read_refs
    from beam_tfrecords.transforms.processes.isolation import isolated

    first = sorted(itertools.islice(read_refs(listing), _FIRST), key=lambda ref: ref.key)
    refs = [ref for ref in first if MASK in ref.images]
    tables, counts = set(NAMED), list[int]()
    for ref in refs:
        data = read_image(ref.images[MASK], size=0, max_file_size=spec.max_file_size)
        if isinstance(data, SampleError) or not may_have_colors(data, spec.image):
            return
        with isolated(find_tables, spec.image_timeout) as find:
            found = find(data, spec.image)
        if found is None or isinstance(found, SampleError):
            return
        count, named = found
        counts.append(count)
        tables &= set(named)
    where = f"`input={', '.join(spec.source.input)}`"
    if min(counts, default=0) > _MOST_COLORS:
        raise RequestError(
            f"{where}: the mask of {printable(refs[0].key)} has {counts[0]:,} colors, as "
            "photos have; expected a number or a color of its own for each class",
            code="photos_as_masks",
        )
    if refs:
        raise RequestError(
            f"{where}: the masks have colors, such as that of {printable(refs[0].key)}, "
            "and which class each stands for is not known; name a file with the classes of the colors in `mask_colors`",
            [Suggestion(f"the colors of {name}", {"mask_colors": name}) for name in sorted(tables)],
            code="masks_of_colors",
        )
