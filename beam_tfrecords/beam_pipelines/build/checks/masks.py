"""Checks that the pixels of the first masks of a request are class numbers."""

from __future__ import annotations

import contextlib
import glob
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from beam_tfrecords import storage
from beam_tfrecords.errors import Reading, RequestError, SampleError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.mask_colors import NAMED, VOID, MaskColors, read_mask_colors, show_color
from beam_tfrecords.transforms.refs.sample_refs import MASK, SampleRef
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.service_faults import suppress_refusals
from beam_tfrecords.transforms.sources.inputs import folder_of_input, name_inputs
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.tally import Tally

if TYPE_CHECKING:
    from beam_tfrecords.transforms.listing.listing import Listing

# Images with more colors are photos.
_MOST_COLORS = 256
# Extensions of tables of colors, files of each to read in a folder, and names of classes to show.
_OF_COLORS, _MOST_TABLES, _MOST_CHOICES = (".txt", ".csv", ".json"), 8, 3
# Number of masks to open, and number of masks among which to look for some that are not empty.
_FIRST, _MOST_EMPTY = 6, 64
# Minimum share of a mask's pixels that a class fills, minimum gap between class numbers, minimum number of gray values,
# and how far these may lie outside the class numbers.
_LEAST_SHARE, _LEAST_GAP, _FEWEST_GRAYS, _BEYOND = 0.05, 40, 5, 16


def check_masks(spec: BuildSpec, source: Source, listing: Listing, tally: Tally) -> None:
    """Checks that the pixels of the first masks are class numbers; adds a note if they may mean something else.

    Raises:
      RequestError: the masks are photos, cannot be read, have colors, or have palettes that disagree; offers the named
        table that has all colors.
    """
    is_known = spec.mask_class_names or spec.map or source.description.records or source.pipeline
    if Content.MASK not in spec.required or is_known:
        return
    # Most requests have no masks, and need none of these modules here.
    from beam_tfrecords.transforms.images.masks import count_numbers, find_tables, may_have_colors
    from beam_tfrecords.transforms.listing.listing import read_refs
    from beam_tfrecords.transforms.processes.isolation import isolated
    from beam_tfrecords.transforms.refs.fetching import read_image

    first = sorted(itertools.islice(read_refs(listing), _MOST_EMPTY), key=lambda ref: ref.key)
    refs = [ref for ref in first if MASK in ref.images]
    # Masks of one program are often next to each other in the list, so the masks to open are spread over it.
    order = dict.fromkeys([*range(0, len(refs), len(refs) // _FIRST + 1), *range(len(refs))])
    seen, palettes = dict[str, Mapping[int, int]](), dict[str, Mapping[int, int]]()
    tables, counts, faults = dict[str, MaskColors](), list[int](), list[SampleError]()
    with (
        isolated(count_numbers, spec.image_timeout) as count,
        isolated(find_tables, spec.image_timeout) as find,
    ):
        for ref in map(refs.__getitem__, order):
            if len(seen) + len(counts) + len(faults) == _FIRST:
                break
            data = read_image(ref.images[MASK], size=0, max_file_size=spec.max_file_size)
            if isinstance(data, SampleError):
                return
            if may_have_colors(data, spec.image):
                if not counts:
                    tables = {name: read_mask_colors(name) for name in NAMED} | dict(_find_color_tables(spec, refs))
                found = find(data, spec.image, tables)
                if isinstance(found, SampleError):
                    faults.append(found)
                    continue
                if found is not None:
                    counts.append(found[0])
                    tables = {name: tables[name] for name in found[1]}
                    continue
            numbers = count(data, spec.image)
            if isinstance(numbers, SampleError):
                faults.append(numbers)
            # Of images without a defect, say, masks are empty.
            elif numbers[0].keys() != {0}:
                seen[ref.key], palettes[ref.key] = numbers
    where = f"`input={', '.join(spec.input)}`"
    if len(faults) == min(len(refs), _FIRST) > 0:
        raise RequestError(
            f"{where}: the first masks cannot be read, such as that of {printable(refs[0].key)}: {faults[0].detail}",
            code="invalid_masks",
        )
    if seen:
        _refuse_deep(where, seen, spec)
        if not spec.image.mask_values:
            _refuse_palettes(where, palettes)
            tally.notes += _describe_numbers(seen)
        return
    if min(counts, default=0) > _MOST_COLORS:
        raise RequestError(
            f"{where}: the mask of {printable(refs[0].key)} has {counts[0]:,} colors, like a "
            "photo; expected one number or one color for each class",
            code="photos_as_masks",
        )
    if counts:
        raise RequestError(
            f"{where}: the masks have colors, for example the mask of {printable(refs[0].key)}, and nothing says which "
            "class a color stands for; name a file with the classes of the colors in `mask_colors`",
            [
                # A known palette is a guess, which a table of the dataset answers. Black is seldom void.
                Reading(f"the colors of {_describe_colors(name, tables[name])}", {"mask_colors": name})
                for name in sorted(
                    tables.keys() - NAMED or tables, key=lambda one: (dict(tables[one].numbers).get(0) == VOID, one)
                )
            ],
            code="masks_of_colors",
        )


def _refuse_deep(where: str, masks: Mapping[str, Mapping[int, int]], spec: BuildSpec) -> None:
    """Raises an error if a number of a mask needs more bits than are stored."""
    for key, numbers in masks.items():
        if max(numbers) >> spec.image.mask_bit_depth:
            raise RequestError(
                f"{where}: the mask of {printable(key)} has the number {max(numbers)}; 8 bits hold up to 255",
                [Reading("masks of 16 bits", {"mask_bit_depth": 16})],
                code="deep_masks",
            )


def _refuse_palettes(where: str, palettes: Mapping[str, Mapping[int, int]]) -> None:
    """Raises an error if the palettes of two masks give a color different numbers.

    Args:
      where: start of the message.
      palettes: key -> color -> number.
    """
    known: dict[int, tuple[int, str]] = {}
    for key, numbers in palettes.items():
        for color, number in numbers.items():
            other, of = known.setdefault(color, (number, key))
            if number != other:
                every = sorted({one for some in palettes.values() for one in some.values()})
                raise RequestError(
                    f"{where}: the palettes of the masks differ: the color {show_color(color)} is {other} in the mask "
                    f"of {printable(of)} and {number} in that of {printable(key)}; name a file with the classes of the "
                    "colors in `mask_colors`",
                    [Reading("the numbers of the masks", {"mask_values": ",".join(f"{one}:{one}" for one in every)})],
                    code="masks_of_colors",
                )


def _describe_numbers(masks: Mapping[str, Mapping[int, int]]) -> Iterator[str]:
    """Yields notes on numbers of masks that may not be class numbers.

    Args:
      masks: key -> number -> pixels.
    """
    every = {number for numbers in masks.values() for number in numbers}
    if every == {0, 255}:
        yield "the masks have the numbers 0 and 255; `mask_values=0:0,255:1` stores 255 as 1"
    largest = {max(numbers): printable(key) for key, numbers in masks.items()}
    if every == {0, 1, 255} and 1 in largest:
        yield (
            f"the largest number is 1 in the mask of {largest[1]} and 255 in that of {largest[255]}; "
            "`mask_values=0:0,1:1,255:1` stores both as 1"
        )
    blurred = [numbers for numbers in masks.values() if _have_grays(numbers)]
    if 2 * len(blurred) >= len(masks):
        yield (
            f"the masks have up to {max(map(len, blurred))} numbers, most of them of few pixels, as after resizing or "
            "JPEG compression; `mask_values=0-127:0,128-255:1` stores two classes"
        )


def _have_grays(numbers: Mapping[int, int]) -> bool:
    """Whether a mask has a few frequent numbers far apart, and several rare numbers between or next to these."""
    ordered = sorted(numbers, key=lambda number: -numbers[number])
    least = _LEAST_SHARE * sum(numbers.values())
    main = sorted(number for place, number in enumerate(ordered) if place < 2 or numbers[number] >= least)
    apart = all(other - one >= _LEAST_GAP for one, other in itertools.pairwise(main))
    near = all(main[0] - _BEYOND <= number <= main[-1] + _BEYOND for number in numbers)
    return apart and near and len(numbers) - len(main) >= _FEWEST_GRAYS


def _describe_colors(name: str, table: MaskColors) -> str:
    names = ", ".join(map(printable, table.names[:_MOST_CHOICES]))
    return f"{printable(storage.basename(name))} ({names}{', …' if len(table.names) > _MOST_CHOICES else ''})"


def _find_color_tables(spec: BuildSpec, refs: Sequence[SampleRef]) -> Iterator[tuple[str, MaskColors]]:
    """Yields the tables of colors in the folders of an input, and in and beside those of masks."""
    masks = [storage.dirname(ref.images[MASK].uri) for ref in refs]
    folders = dict.fromkeys(
        [*map(folder_of_input, name_inputs(spec.input).paths), *masks, *map(storage.dirname, masks)]
    )
    for folder, extension in itertools.product(folders, _OF_COLORS):
        with suppress_refusals():
            for file in storage.list_files(f"{glob.escape(folder)}/*{extension}", limit=_MOST_TABLES):
                with contextlib.suppress(ValueError):
                    yield file.path, read_mask_colors(file.path)
