"""Recognizes documents by their contents: finds the mappings of ours that fit an input, and checks a given one."""

from __future__ import annotations

import fnmatch
import functools
import itertools
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.dataset.split_names import SPLIT_NAMES
from beam_tfrecords.errors import Reading, RequestError, SampleError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.fields import CAPTIONS
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.sources.annotated.mapped_objects import ObjectReader, as_list
from beam_tfrecords.transforms.sources.annotated.mapping import (
    HEADING,
    ITEMS,
    STEM,
    DocumentMapping,
    Expression,
    Unit,
    mapping_names,
    read_mapping,
)
from beam_tfrecords.transforms.sources.annotated.shell import Annotated
from beam_tfrecords.transforms.sources.annotated.trees import LINES, ROWS, read_samples
from beam_tfrecords.transforms.sources.inputs import find_entries, folder_of_archive, name_inputs, quote_input
from beam_tfrecords.transforms.sources.names import has_extension, is_about_folder, is_image_name
from beam_tfrecords.transforms.sources.path_rule import shorten
from beam_tfrecords.transforms.sources.registry import source_of_file

EXTENSIONS = (".json", ".geojson", ".labels", ".xml", *LINES, *ROWS)
# Extensions of rows that any program writes.
_TABLES = (".csv", ".tsv", ".txt")
# Extensions of the same kind of document.
_ALIKE = (frozenset(LINES), frozenset({".csv", ".tsv"}))
# Documents of a kind to read, samples of each, files to list, and kinds: an extension in folders of one name.
_MOST_DOCUMENTS, _MOST_SAMPLES, _MOST_LISTED, _MOST_KINDS = 3, 20, 5000, 8
_MOST_BYTES = 64 << 20
# How much of a list of samples, or of rows, to read: room for a few samples with many polygons.
_START_BYTES, _START_OF_ROWS = 1 << 20, 16 << 10
# A word that a program adds to each line, such as a score, changes nothing.
_MOST_WORDS = 2
# Number of documents whose mappings are kept, because several notes and offers of one request ask for them.
_MOST_KEPT = 64
# Scripts before the texts of ICDAR MLT, a column that ICDAR 2015 lacks.
_SCRIPTS = frozenset(
    {"Arabic", "Bangla", "Chinese", "Hindi", "Japanese", "Korean", "Latin", "Mixed", "None", "Symbols"}
)
# Equal numbers of labels that are numbers, which may be classes.
_MOST_CLASSES = 3
# Number of samples that show whether a mapping fits.
MOST_FIRST = 50
_MOST_SHOWN = 400
# Expressions of an object's numbers: x and y of each point may be one.
_MOST_NUMBERS = 8
# Larger coordinates are no shares of an image, even of boxes that reach beyond it.
_MOST_SHARE = 1.5


def suggest_mappings(inputs: Sequence[str]) -> Iterator[Reading]:
    """Yields a reading for each mapping of ours that fits the documents of an input.

    Args:
      inputs: values of the setting `input`.

    Raises:
      OSError: the input cannot be read.
    """
    path = name_inputs(inputs).paths[0]
    # A tar of images and documents is a WebDataset, whose fields are offered.
    path = path if source_of_file(path) == "tar" else folder_of_archive(path)
    if storage.is_folder(path):
        folder, listed = path, list_some(path)
        files = listed
    else:
        files = find_entries(path)
        folder = storage.dirname(files[0].path)
        listed = list_some(folder)
    # Exports often are in a folder of their own beside that of the images.
    has_images = any(is_image_name(file.path) for file in listed)
    root = {} if has_images else {"image_root": storage.dirname(folder)}
    documents = choose_documents(files)
    layouts: dict[str, str] = {}
    fitting = {file.path: fitting_mappings(file) for file in documents}
    for found in fitting.values():
        for name, layout in found.items():
            layouts[name] = layouts.get(name) or layout
    # Any text may be a caption or a class of its image, so all of them must be one.
    texts = [path for path in fitting if extension_of(path) == ".txt" and not is_about_folder(storage.basename(path))]
    for name in [one for one in layouts if _takes_any_text(_read_mapping(one))]:
        if not all(name in fitting[path] for path in texts):
            del layouts[name]
    for name in sorted(layouts, key=lambda name: not _are_named(documents, _read_mapping(name).documents)):
        glob = _read_mapping(name).documents
        if files is listed and "/" in glob and not _are_named(documents, glob):
            continue  # In a folder, the mapping reads other documents.
        yield suggest_mapping(name, {**({"layout": layouts[name]} if layouts[name] else {}), **root})


def suggest_mapping(name: str, settings: Mapping[str, Any] | None = None) -> Reading:
    """Returns the reading by a mapping of ours, with further settings and the layout of what all objects have.

    Quads and turned boxes get a layout with their corners; users may want other layouts for other polygons.
    """
    mapping = _read_mapping(name)
    kinds = mapping.objects
    layout = {"layout": "detection"} if kinds else {}
    if kinds and all(kind.points for kind in kinds):
        layout = {"layout": "detection_keypoints"}
    elif kinds and all(kind.is_quad or kind.angle for kind in kinds):
        layout = {"layout": "detection_polygons"}
    what = f"the {'objects' if kinds else 'labels'} of {name}"
    if CAPTIONS in mapping.values:
        what = f"the captions in {mapping.documents}"
    return Reading(f"the images with {what}", {"mapping": name, **layout, **(settings or {})})


def list_some(folder: str) -> list[storage.FileEntry]:
    """Returns the first files below a folder, sorted, so that a message names the same one everywhere."""
    listed = itertools.islice(storage.list_files(folder, literal=True), _MOST_LISTED)
    return sorted(listed, key=lambda file: file.path)


def choose_documents(files: Iterable[storage.FileEntry], *, most: int = _MOST_DOCUMENTS) -> list[storage.FileEntry]:
    """Returns some documents of each extension in the folders of each name."""
    chosen: dict[tuple[str, str], list[storage.FileEntry]] = {}
    for file in files:
        kind = (storage.basename(storage.dirname(file.path)), extension_of(file.path))
        if kind[1] in EXTENSIONS and 0 < file.size <= _MOST_BYTES and (kind in chosen or len(chosen) < _MOST_KINDS):
            some = chosen.setdefault(kind, [])
            if len(some) < most:
                some.append(file)
    return [file for some in chosen.values() for file in some]


@functools.lru_cache(_MOST_KEPT)
def fitting_mappings(file: storage.FileEntry) -> Mapping[str, str]:
    """Returns the mappings of ours that fit the first samples of a document, and the layout for the labels of each.

    The layout is "" for the default one.
    """
    extension = extension_of(file.path)
    read: dict[object, Sequence[Any]] = {}
    found = {}
    for name in mapping_names():
        mapping = _read_mapping(name)
        # A tree is found by its folders.
        if mapping.image_folder or not _may_be(mapping, extension):
            continue
        # Mappings that differ only in what they find in a sample read the document once.
        lists = mapping.listed if extension == ".xml" else None
        key = (mapping.samples, mapping.columns, mapping.quotes, mapping.image.text == HEADING, lists)
        if key not in read:
            read[key] = _read_first(mapping, file)
        layout = _find_layout(mapping, read[key])
        if layout is not None:
            found[name] = layout
    return found


def fits(mapping: DocumentMapping, file: storage.FileEntry) -> bool:
    """Whether a mapping fits the first samples of a document."""
    return _find_layout(mapping, _read_first(mapping, file)) is not None


def _are_named(files: Sequence[storage.FileEntry], glob: str) -> bool:
    """Whether a glob that says more than an extension matches a document."""
    return glob != f"*{extension_of(glob)}" and any(
        fnmatch.fnmatch(file.path.lower(), f"*/{glob.lower()}") for file in files
    )


@functools.cache
def _read_mapping(name: str) -> DocumentMapping:
    return read_mapping(name)


def _may_be(mapping: DocumentMapping, extension: str) -> bool:
    """Whether a mapping may be one of documents with an extension."""
    own = extension_of(mapping.documents)
    if mapping.columns and own in _TABLES and mapping.quotes:
        return extension in ROWS
    return own == extension or any({own, extension} <= some for some in _ALIKE)


def extension_of(path: str) -> str:
    """Returns the extension of a path, in lower case."""
    return posixpath.splitext(path)[1].lower()


def _read_first(mapping: DocumentMapping, file: storage.FileEntry) -> Sequence[Any]:
    """Returns the first samples of a document; none if it is damaged."""
    has_rows = mapping.columns or extension_of(file.path) in (*ROWS, *LINES)
    try:
        samples = read_samples(file, mapping, most_bytes=_START_OF_ROWS if has_rows else _START_BYTES)
        return list(itertools.islice(samples, _MOST_SAMPLES))
    except SampleError:
        return ()


def _find_layout(mapping: DocumentMapping, nodes: Sequence[Any]) -> str | None:
    """Returns the layout for the labels of samples, or ""; None if they lack images, or both objects and labels."""
    try:
        if not _are_samples(mapping, nodes):
            return None
        labels = [as_list(mapping.label.find(node)) for node in nodes] if mapping.label else []
    except (SampleError, RecursionError):
        return None
    # Long lists of numbers, equally long for every image, are keypoints or the like, not classes.
    lengths = {len(some) if all(isinstance(one, (int, float)) for one in some) else 0 for some in labels}
    if len(lengths) == 1 and max(lengths) > _MOST_CLASSES:
        return None
    return "multilabel" if any(len(some) > 1 for some in labels) else ""


def _are_samples(mapping: DocumentMapping, nodes: Sequence[Any]) -> bool:
    names = mapping.class_names if isinstance(mapping.class_names, Mapping) else {}
    reader = ObjectReader(mapping, frozenset({Content.OBJECT_MASKS, Content.KEYPOINTS})) if mapping.objects else None
    last = mapping.columns[-1] if mapping.columns and not _uses(mapping, mapping.columns[-1]) else ""
    # A last column may be missing that only says more about an object.
    optional = any(one.text == last for kind in mapping.objects for one in kind.attributes.values())
    lengths = {1, 2, len(mapping.columns), len(mapping.columns) - optional}
    captions = mapping.values.get(CAPTIONS)
    rows = [row for some in nodes if mapping.columns and isinstance(some, list) for row in some]
    texts = [str(row.get(mapping.columns[-1], "")) for row in rows]
    if texts and all(text.partition(",")[0] in _SCRIPTS and "," in text for text in texts):
        return False
    found, are_splits = 0, True
    for node in nodes:
        if isinstance(node, SampleError) or not _names_image(mapping, node):
            return False
        rows = node if isinstance(node, list) else [node]
        if mapping.columns and not all(len(row) in lengths for row in rows):
            return False
        # The last column of a text takes the rest of a line; numbers there are of a longer format.
        if mapping.columns and any(len(row.get(last, "").split()) > _MOST_WORDS for row in rows):
            return False
        objects = reader.read(node, names) if reader else Objects()
        if not all(
            left < right and top < bottom
            for left, top, right, bottom in zip(*(objects.boxes[n::4] for n in range(4)), strict=True)
        ):
            return False
        label = mapping.label.find(node) if mapping.label else None
        are_splits &= str(label).lower() in SPLIT_NAMES
        found += len(objects.labels) + (label is not None)
        found += captions is not None and all(map(_is_text, as_list(captions.find(node))))
    return found > 0 and not are_splits


def _takes_any_text(mapping: DocumentMapping) -> bool:
    """Whether a mapping reads no objects from rows of the image's own document."""
    return bool(mapping.columns) and not mapping.objects and mapping.image.text == STEM


def _is_text(line: str) -> bool:
    """Whether a line has several words, half of them with letters, unlike a class or the numbers of a box."""
    words = line.split()
    return len(words) > 1 and 2 * sum(bool(re.search(r"[^\W\d]", word)) for word in words) >= len(words)


def _uses(mapping: DocumentMapping, column: str) -> bool:
    """Whether an expression of a mapping reads a column."""
    found = [mapping.image, mapping.samples, *mapping.values.values()]
    for kind in mapping.objects:
        found += [kind.objects, kind.label, kind.ignore, *kind.box, *kind.points]
        found += [kind.angle.value] if kind.angle else []
    return any(column in re.findall(r"\w+", one.text) for one in found if one is not None)


def _names_image(mapping: DocumentMapping, node: Any) -> bool:
    if mapping.image.text == STEM:
        return True
    value = mapping.image.find(node)
    name = value.partition("?")[0] if isinstance(value, str) else ""
    # Any word of a line, and any name in an object, may be a name without an extension.
    are_words = bool(mapping.columns) or (mapping.samples is not None and mapping.samples.text == ITEMS)
    return bool(name) and (is_image_name(name) or not (are_words or has_extension(name)))


def refuse_unfit(mapping: DocumentMapping, file: storage.FileEntry, problem: str) -> None:
    """Raises `RequestError` if there is a problem, with what each expression finds in the first document."""
    if problem:
        found = "; ".join(describe_first(mapping, file))
        raise RequestError(
            f"{quote_input(file.path)}: the mapping {mapping.name} {problem}. In the first document, {found}",
            code="unfit_mapping",
        )


def find_problem(mapping: DocumentMapping, samples: Sequence[Annotated], missing: Sequence[str]) -> str:
    """Returns how a mapping does not fit any of the first samples; "" if it does.

    Args:
      mapping: the mapping.
      samples: the first samples.
      missing: names of their images that are not there.
    """
    failures = [one.failure.detail for one in samples if one.failure]
    if not samples:
        return "finds no sample"
    if len(missing) == len(samples):
        return (
            f"names the image {shorten(missing[0])}, and none of the first {len(samples):,} images is below the folder "
            "of the documents; `image_root` names the folder of the images"
        )
    if len(failures) == len(samples):
        which = "the first sample" if len(samples) == 1 else f"any of the first {len(samples):,} samples"
        return f"does not fit {which}: {failures[0].replace(chr(96), chr(39))}"
    # A share beyond the image is one box, or all.
    sides = sorted(abs(side) for one in samples for side in (one.objects.boxes if one.objects else ()))
    if not sides:
        return ""
    are_pixels = mapping.objects[0].unit is Unit.PIXELS
    if are_pixels and sides[-1] <= _MOST_SHARE:
        return "says pixels, and all boxes are within 0 to 1; write `unit: share`"
    if not are_pixels and sides[len(sides) // 2] > _MOST_SHARE:
        unit = mapping.objects[0].unit.value
        return f"says `unit: {unit}`, and its boxes reach beyond their images; write the unit of the documents"
    return ""


def describe_first(mapping: DocumentMapping, file: storage.FileEntry) -> Iterator[str]:
    """Yields what each expression finds in the first sample of a document."""
    try:
        node = next(iter(read_samples(file, mapping)), None)
    except SampleError as error:
        node = error
    if node is None or isinstance(node, SampleError):
        yield node.detail if node else f"`samples: {mapping.samples.text if mapping.samples else '@'}` finds nothing"
        return
    for one in (mapping.image, *mapping.size, mapping.split, mapping.label):
        if one is not None and one.text not in (STEM, HEADING):
            yield _describe_found(one, node)
    for kind in mapping.objects:
        yield _describe_found(kind.objects, node)
        try:
            objects = as_list(kind.objects.find(node))
        except SampleError:
            continue
        for element in objects[:1]:
            for one in (kind.label, *[*kind.box, *kind.polygon, *kind.points][:_MOST_NUMBERS]):
                yield _describe_found(one, element)


def _describe_found(expression: Expression, node: Any) -> str:
    try:
        value = expression.find(node)
        shown = "nothing" if value is None else shorten(str(value)[:_MOST_SHOWN])
    except SampleError as error:
        return error.detail
    except RecursionError:
        shown = "values that are nested too deeply"
    return f"`{expression.key}: {expression.text}` finds {shown}"
