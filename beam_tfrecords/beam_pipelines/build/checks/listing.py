"""Checks a request against the listed samples, and the annotations and masks of these samples."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.checks.arrays import OF_IMAGES
from beam_tfrecords.beam_pipelines.build.checks.classes import resolve_classes
from beam_tfrecords.beam_pipelines.build.checks.masks import check_masks
from beam_tfrecords.beam_pipelines.build.listing.class_lists import choose_classes
from beam_tfrecords.errors import Reading, RequestError, SampleError
from beam_tfrecords.features.contents import CLASSES, Content
from beam_tfrecords.transforms.images.image_spec import ImageEncoding
from beam_tfrecords.transforms.labels import ClassNames, whole_number
from beam_tfrecords.transforms.objects.objects import Objects, RunOrder
from beam_tfrecords.transforms.refs.sample_refs import is_mask
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.class_files import find_lists_of_numbers
from beam_tfrecords.transforms.sources.inputs import folder_of_input, name_inputs
from beam_tfrecords.transforms.sources.meaning.row_sidecars import TEMPLATE, group_by_split, is_table, name_split_inputs
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.registry import RECORDS, ending_of_file, source_of_file
from beam_tfrecords.transforms.sources.selection import OTHER_CLASS
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.sources.tally import Tally
from beam_tfrecords.transforms.sources.unsupported_formats import find_unsupported

if TYPE_CHECKING:
    from beam_tfrecords.transforms.listing.listing import Listing, ObjectTotals

_MOST_CHOICES = 3
# Source for folders of files other than images -> the content that it reads.
_READ_BY_FILES = {
    "tfrecord": "the records of the TFRecord files",
    "idx": "the images of the IDX files",
    "cifar": "the images of CIFAR's files",
    "numpy": "the images of the NumPy files",
    "scans": "the images of the DICOM and NIfTI files",
}
# Sources of annotated images.
_ANNOTATED = frozenset({"yolo", "voc", "coco", "documents"})
# Extensions of images with numbers that have no fixed white.
_OF_NUMBERS = (".tif", ".tiff", ".pfm")
# Labels of rows that answer yes or no.
_ANSWERS = frozenset({"0", "1"})
# Number of images to open.
_FIRST = 3
# Fewer boxes than this prove nothing about their format.
_FEW = 8
# With fewer objects, each may have a class of its own.
_MANY = 24
# Code of the refusal of annotations, what was found, and perhaps the reading that fits better.
Fault: TypeAlias = tuple[str, str] | tuple[str, str, Reading]
# Maximum shift of the edge of an object from one row or column to the next, as a share of their length.
_MOST_DRIFT = 0.05
# Maximum number of images to open for their sizes, if nothing else records the sizes.
_MOST_MEASURED = 32


def check_listing(
    spec: BuildSpec, source: Source, listing: Listing, tally: Tally, *, kept: Sequence[str] = ()
) -> ClassNames:
    """Checks the request against the listed samples, and resolves the class names.

    Args:
      spec: the request.
      source: the listed source.
      listing: its samples.
      tally: counts of the listing; receives notes.
      kept: the classes of the dataset whose indices may be kept, in index order.

    Raises:
      RequestError: there are no samples, or their labels or splits do not match the request.
    """
    where = f"`input={', '.join(spec.input)}`"
    if not listing.total and tally.counts[OTHER_CLASS]:
        raise RequestError(
            f"`classes={','.join(spec.classes)}`: no sample has one of these classes; "
            f"{tally.counts[OTHER_CLASS]:,} samples have others",
            code="class_without_samples",
        )
    if not listing.total:
        inside = "" if source.is_whole else _describe_archives(tally)
        found = f"{where}: no {source.description.unit} found{_describe_skipped(tally)}{inside}"
        suggestions = _other_inputs(spec, tally)
        if spec.source != "auto":
            suggestions = [dataclasses.replace(one, settings={"source": None, **one.settings}) for one in suggestions]
        raise RequestError(found, suggestions, code="no_samples")
    pattern = spec.label_pattern or ""
    counted = [*([listing.labels] if "(?P<label>" in pattern else []), *listing.column_labels.values()]
    if pattern and counted and not any(label is not None for labels in counted for label in labels):
        raise RequestError(
            f"`label_pattern={spec.label_pattern}`: matches none of the {listing.total} keys; "
            "it is searched in the path below `input`",
            code="unmatched_label_pattern",
        )
    chosen, notes = choose_classes(spec, source.description, listing.labels)
    tally.notes += notes
    if chosen is None and spec.class_names is None and CLASSES & spec.required:
        tally.notes += _describe_names(spec, listing)
    has_others = bool(tally.counts[OTHER_CLASS])
    spec.check_classes(listing.labels, chosen, has_others=has_others)
    if left_out := listing.objects.left_out:
        tally.notes.append(f"`classes` leaves out {left_out:,} object{'s'[: left_out != 1]} of other classes")
    _check_answers(spec, listing, where)
    check_annotations(spec, source, listing, tally)
    check_masks(spec, source, listing, tally)
    tally.notes += _describe_scales(spec, listing)
    tally.notes += _describe_empty_splits(spec, listing)
    if spec.num_shards is not None:
        for split, samples in listing.samples.items():
            if split and samples < spec.num_shards:
                raise RequestError(
                    f"`num_shards={spec.num_shards}`: split {split} has only {samples} samples", code="too_few_samples"
                )
    class_names = resolve_classes(spec, source, listing, tally, kept, chosen)
    if source.description.is_inferred_later or source.name in _ANNOTATED or Content.MASK in spec.required:
        # Most requests need no such lists.
        from beam_tfrecords.beam_pipelines.build.checks.split_lists import check_split_lists

        check_split_lists(spec, source, listing, tally)
    if spec.where is not None and spec.map is None:
        # Only conditions need pyarrow here.
        from beam_tfrecords.transforms.blocks.filtering import Condition

        Condition(spec.where, spec.stored).check_classes(class_names.names)
    return class_names


def _describe_names(spec: BuildSpec, listing: Listing) -> Iterator[str]:
    """Yields a note on each file beside the input that may name the classes of labels that are numbers."""
    numbers = [whole_number(label) for label in listing.labels if label not in (None, "")]
    known = {number for number in numbers if number is not None}
    if len(known) == len(numbers) > 1:
        for path in find_lists_of_numbers(name_inputs(spec.input), known):
            name = printable(storage.basename(path))
            yield f"{name} has a name for each label and is not used; `class_names={printable(path)}` names the classes"


def _describe_empty_splits(spec: BuildSpec, listing: Listing) -> list[str]:
    """Returns a note on splits that the request names and that got no samples."""
    asked = spec.splits.fractions or (spec.splits.folders or {}).values()
    empty = [split for split in asked if not listing.samples[split]]
    return [f"`splits` asks for {', '.join(empty)}, which got none of the {listing.total:,} samples"] if empty else []


def _other_inputs(spec: BuildSpec, tally: Tally) -> list[Reading]:
    """Suggests files of a folder without images that may be meant."""
    folder = folder_of_input(spec.input[0])
    if len(spec.input) > 1 or not storage.is_folder(folder):
        return []
    keys = sorted(key for keys in tally.examples.values() for key in keys)
    word = "array,label" if spec.layout is None or Content.LABEL in spec.required else "array"
    arrays = [Reading("the arrays in its .npy files", {"layout": word, **OF_IMAGES})]
    is_glob = folder != spec.input[0]
    of_files = [*_files(folder, keys, is_glob=is_glob), *(arrays if any(key.endswith(".npy") for key in keys) else [])]
    if of_files or is_glob:
        return of_files
    if parquet := [key for key in keys if key.endswith(".parquet")]:
        images = Reading("the images in its Parquet files", {"source": "hf_parquet"})
        files = {"input": storage.join(folder, "**/*.parquet" if "/" in parquet[0] else "*.parquet")}
        return [images, *([Reading("its Parquet files", files)] if len(parquet) > 1 else [])]
    tables = [key for key in keys if (is_table(key) and not TEMPLATE.search(key)) or key.endswith((".json", ".npz"))]
    # A file of labels beside a file of images needs no offer.
    unsupported = [key for key in keys if find_unsupported(key) and "labels" not in storage.basename(key)]
    by_split = [
        Reading(f"the files {', '.join(keys)}", {"input": name_split_inputs(keys, folder)})
        for keys in group_by_split([key for key in tables if is_table(key)])
        if len(keys) > 1
    ]
    by_name = [Reading(f"the file {key}", {"input": storage.join(folder, key)}) for key in unsupported + tables]
    return [*by_split[:1], *[*_archives(folder, keys), *by_name][:_MOST_CHOICES]]


def _files(folder: str, keys: Sequence[str], *, is_glob: bool) -> Iterator[Reading]:
    """Suggests a source for the files of a folder or a glob, with globs if the source does not search below folders."""
    # Most requests do not need the readers of records.
    from beam_tfrecords.transforms.sources.records.record_files import is_record_file

    found: dict[str, list[str]] = {}
    for key in keys:
        name = RECORDS if is_record_file(storage.join(folder, key)) else source_of_file(key)
        # Several archives of arrays are separate datasets.
        if name in _READ_BY_FILES and not key.endswith(".npz"):
            found.setdefault(name, []).append(key)
    for name, files in found.items():
        settings: dict[str, object] = {"source": name}
        # The source of records searches below folders itself.
        if name != RECORDS and not is_glob and any("/" in key for key in files):
            globs = sorted({f"**/*{ending_of_file(key) or '-of-'}*" for key in files})
            paths = [storage.join(folder, one) for one in globs]
            settings["input"] = paths[0] if len(paths) == 1 else paths
        yield Reading(_READ_BY_FILES[name], settings)


def _archives(folder: str, keys: Sequence[str]) -> Iterator[Reading]:
    """Suggests the archives of a folder: by one glob per extension, or by name if there is only one."""
    for source in ("tar", "zip"):
        archives = [key for key in keys if source_of_file(key) == source]
        below = "**/" if any("/" in key for key in archives) else ""
        globs = sorted({f"{below}*{ending_of_file(key)}" for key in archives})
        names = [storage.join(folder, name) for name in (globs if len(archives) > 1 else archives)]
        settings = {"input": names[0] if len(names) == 1 else names}
        if names:
            yield Reading(f"its {source} archives" if len(archives) > 1 else f"the file {archives[0]}", settings)


def _describe_archives(tally: Tally) -> str:
    """Returns advice about archives in an archive; "" if there are none."""
    keys = [key for keys in tally.examples.values() for key in keys]
    if not any(source_of_file(key) in ("tar", "zip") for key in keys):
        return ""
    return "; archives in an archive are not opened: extract it, and give the folder or the archives as `input`"


def _describe_skipped(tally: Tally) -> str:
    """Describes the skipped files, for a message; returns "" if there are none."""
    if not tally.counts:
        return ""
    kinds = [
        f"{count} {kind} ({', '.join(tally.examples[kind])}{', …' if count > len(tally.examples[kind]) else ''})"
        for kind, count in tally.counts.most_common()
    ]
    return f"; {tally.counts.total()} other files: {', '.join(kinds)}"


def _describe_scales(spec: BuildSpec, listing: Listing) -> Iterator[str]:
    """Yields a note if the numbers of each of the first images decide which of them becomes black and white."""
    if Content.IMAGE not in spec.required or spec.image_encoding is ImageEncoding.KEEP or spec.map:
        return
    from beam_tfrecords.transforms.listing.listing import read_refs

    refs = sorted(itertools.islice(read_refs(listing), _FIRST), key=lambda ref: ref.key)
    files = [(ref.key, file) for ref in refs for name, file in ref.images.items() if not is_mask(name)]
    scales = dict[str, tuple[float, float]]()
    for key, file in files:
        if file.uri.lower().endswith(_OF_NUMBERS):
            # Most requests have no such images, and need none of these modules here.
            from beam_tfrecords.transforms.images.convert_pixels import find_scale
            from beam_tfrecords.transforms.processes.isolation import isolated
            from beam_tfrecords.transforms.refs.fetching import read_image

            data = read_image(file, size=0, max_file_size=spec.max_file_size)
            with isolated(find_scale, spec.image_timeout) as find:
                found = None if isinstance(data, SampleError) else find(data, spec.image)
            if found is not None and not isinstance(found, SampleError):
                scales[key] = found
    if len({*scales.values()}) > 1:
        shown = ", ".join(f"{low:g} to {high:g} in {printable(key)}" for key, (low, high) in [*scales.items()][:2])
        yield (
            f"the numbers of each image decide which of them becomes black and white: {shown}; `layout=array,label` "
            "stores the numbers"
        )


def _check_answers(spec: BuildSpec, listing: Listing, where: str) -> None:
    """Refuses labels of grouped rows that are only 0 and 1, because each row may answer a different question."""
    is_said = spec.class_names is not None or spec.map is not None or not spec.group_rows
    if not is_said and CLASSES & spec.required and {*map(str, listing.labels)} == _ANSWERS:
        raise RequestError(
            f"{where}: the labels of the rows of one image are 0 and 1, like answers to a question for each row, which "
            "classes do not keep; expected a column with a class in each row, or a column for each question",
            [Reading("the classes 0 and 1", {"class_names": ",".join(sorted(_ANSWERS))})],
            code="answers_as_classes",
        )


def check_annotations(spec: BuildSpec, source: Source, listing: Listing, tally: Tally) -> None:
    """Checks that annotations belong to the listed images, for any source.

    Raises:
      RequestError: no image has an object, most annotations belong to no image, or most boxes do not fit their images.
    """
    if spec.trust_annotations:
        return
    fault = _find_lost(spec, source, listing, tally)
    if fault is None:
        totals = listing.objects
        sized = [] if totals.placed or not totals.annotated else [*_find_sizes(spec, listing)]
        of_sizes = [_find_odd(_measure(sized)), _find_turned(spec, sized)] if sized else []
        fault = next(itertools.chain(_find_odd(totals), *of_sizes, _find_single(spec, source, listing)), None)
    if fault is None:
        return
    where = f"`input={', '.join(spec.input)}`"
    code, found, *better = fault
    suggestions = [*better, Reading("the annotations as they are", {"trust_annotations": True})]
    if source.name != "tfrecord":
        suggestions.append(Reading("the images without annotations", {"layout": "image"}))
    raise RequestError(f"{where}: {found}", suggestions, code=code)


def _find_lost(spec: BuildSpec, source: Source, listing: Listing, tally: Tally) -> Fault | None:
    """Describes annotations that belong to no image; returns None if most belong to one."""
    totals = listing.objects
    most = next((one for one in tally.unmatched if 2 * one.count > one.total), None)
    if most is not None:
        return "unmatched_annotations", most.note
    if totals.samples and not totals.annotated:
        return "no_objects", f"none of the {totals.samples:,} images has an object"
    # In this case, the classes of the objects become labels.
    by_labels = Content.OBJECTS in source.description.provides and Content.LABEL in spec.required
    if by_labels and not totals.samples and not any(label is not None for label in listing.labels):
        return "no_objects", f"none of the {listing.total:,} images has an object"
    return None


def _find_single(spec: BuildSpec, source: Source, listing: Listing) -> Iterator[Fault]:
    """Yields a fault if nearly every object has a class of its own, like ids or free text."""
    seen = source.description
    are_said = spec.class_names is not None or seen.labels.names or seen.found_classes or seen.records
    if Content.OBJECTS not in spec.required or are_said:
        return
    counts = {str(label): count for label, count in listing.labels.items() if label not in (None, "")}
    total = sum(counts.values())
    if len(counts) >= _MANY and len(counts) * 2 > total:
        shown = ", ".join(printable(repr(name)) for name in sorted(counts)[:3])
        found = f"there are {len(counts):,} classes for {total:,} objects, such as {shown}, like ids or free text"
        yield "class_of_each_object", f"{found}; expected classes that several objects share"


def _find_sizes(spec: BuildSpec, listing: Listing) -> Iterator[Objects]:
    """Yields the boxes and run lengths of the first images, with the sizes of these images from their files."""
    from beam_tfrecords.geometry.geometry import swaps_sides
    from beam_tfrecords.transforms.images.decode import open_image
    from beam_tfrecords.transforms.images.orient import orientation_of
    from beam_tfrecords.transforms.listing.listing import read_refs
    from beam_tfrecords.transforms.objects.polygons import find_steps
    from beam_tfrecords.transforms.refs.fetching import read_image

    annotated = (ref for ref in read_refs(listing) if ref.failure is None and ref.objects and ref.objects.labels)
    for ref in itertools.islice(annotated, _MOST_MEASURED):
        if ref.locator is None or ref.objects is None or storage.is_web(ref.locator.uri):
            continue
        # Masks in files of their own do not depend on the size of the image.
        has_steps = any(find_steps(one).size for one in ref.objects.polygons)
        if not has_steps and all(map(math.isnan, ref.objects.boxes)):
            continue
        data = read_image(ref.locator, size=ref.size, max_file_size=spec.max_file_size)
        with contextlib.suppress(SampleError):
            if isinstance(data, bytes):
                file = open_image(data, spec.image)
                height, width = file.size
                # Boxes refer to the image as it is displayed.
                size = (height, width) if swaps_sides(orientation_of(file.image)) else (width, height)
                yield dataclasses.replace(ref.objects, size=size)


def _find_turned(spec: BuildSpec, sized: Sequence[Objects]) -> Iterator[Fault]:
    """Yields a fault if most run lengths start about one row apart where columns are expected, or the reverse."""
    from beam_tfrecords.transforms.objects.polygons import find_steps

    of = spec.run_order
    other = of.other
    turned, total, shown = 0, 0, ""
    for objects in sized:
        width, height = objects.size or (0, 0)
        side, wrong = (height, width) if of is RunOrder.COLUMNS else (width, height)
        for step in itertools.chain(*map(find_steps, objects.polygons)):
            total += 1
            if abs(step - wrong) < min(abs(step - side), _MOST_DRIFT * wrong):
                turned, shown = turned + 1, f"{step} pixels in an image of {width} x {height} pixels (width x height)"
    if turned >= _FEW and 2 * turned > total:
        yield (
            "turned_run_lengths",
            f"{turned:,} of {total:,} runs start about one {other.value[:-1]} after the previous run, for example "
            f"{shown}, as if they count {other.words}; `run_order={of.value}` reads them {of.words}",
            Reading(f"run lengths {other.words}", {"run_order": other.value}),
        )


def _measure(sized: Sequence[Objects]) -> ObjectTotals:
    """Returns the totals of images whose sizes are known."""
    from beam_tfrecords.transforms.listing.listing import ObjectTotals

    totals = ObjectTotals()
    totals.add([objects.pack() for objects in sized])
    return totals


def _find_odd(totals: ObjectTotals) -> Iterator[Fault]:
    """Yields properties of most boxes that correct boxes, in pixels or in relative coordinates, do not have."""
    remedy = "correct the boxes, if the images are right"
    if totals.in_pixels and totals.small == totals.in_pixels:
        yield (
            "boxes_not_in_pixels",
            f"all {totals.in_pixels:,} boxes end within 1.5 pixels of the top left corner of their image, like "
            f"fractions of its size; expected pixels; {remedy}",
        )
    as_if = ""
    if totals.as_corners == totals.placed:
        as_if = ", and none would if the numbers that are read as width and height were the right and lower side"
    elif totals.as_centers == totals.placed:
        as_if = ", and none would if the numbers that are read as the upper left corner were the center"
    may_be_other = as_if and totals.placed >= _FEW and _FEW * totals.beyond > totals.placed
    if 2 * totals.beyond > totals.placed or may_be_other:
        yield (
            "boxes_beyond_image",
            f"{totals.beyond:,} of {totals.placed:,} boxes reach beyond their image{as_if}; {remedy}",
        )
