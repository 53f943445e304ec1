"""Tries what a refusal suggests: each reading is a request that was listed with all settings of the refused one."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
import posixpath
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.checks.arrays import resolve_arrays
from beam_tfrecords.beam_pipelines.build.checks.classes import resolve_heads
from beam_tfrecords.beam_pipelines.build.checks.listing import check_listing
from beam_tfrecords.beam_pipelines.build.listing.source_opening import open_spec_source
from beam_tfrecords.beam_pipelines.settings.definitions import change_request
from beam_tfrecords.errors import BuildError, FailureReason, Reading, RequestError, SampleError
from beam_tfrecords.features.contents import CLASSES, Content
from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.features.serialize import serialize_examples
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, File, SampleRef, is_mask
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.service_faults import suppress_refusals
from beam_tfrecords.transforms.sources.class_files import is_class_file
from beam_tfrecords.transforms.sources.detect.path_splits import ALL_IN_ONE
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary
from beam_tfrecords.transforms.sources.inputs import folder_of_archive, name_inputs
from beam_tfrecords.transforms.sources.meaning.coverage import (
    MOST_LISTED,
    Coverage,
    Trial,
    decide,
    describe_coverage,
    measure,
)
from beam_tfrecords.transforms.sources.meaning.facts import Facts, summarise
from beam_tfrecords.transforms.sources.meaning.layouts import NAME_PATTERNS, NAMES_OF_INPUTS
from beam_tfrecords.transforms.sources.meaning.pixels_alike import are_masks, find_drawn, find_drawn_ends
from beam_tfrecords.transforms.sources.meaning.readings import finish_source
from beam_tfrecords.transforms.sources.names import printable, stem_of
from beam_tfrecords.transforms.sources.tally import Tally
from beam_tfrecords.transforms.stats import share_above

if TYPE_CHECKING:
    from beam_tfrecords.transforms.sources.source import Source

# File for a drafted mapping.
_DRAFT = "mapping{}.yaml"
# Refusals of an input that may be documents of another format.
_UNREAD = frozenset(
    {
        "unknown_format", "unsupported_format", "invalid_file", "no_class_folders", "unclear_folders", "single_class",
        "unclear_class_level", "part_or_class", "classes_differ_by_split", "images_and_masks", "missing_image_column",
        "missing_label_column", "unclear_label_column", "missing_header", "labels_without_images", "turned_boxes",
        "split_or_class", "missing_mask_column", "missing_masks", "missing_content", "column_without_labels",
        "missing_images",
    }
)  # fmt: skip
# Refusals of annotations that belong to other images, or have another form. Nobody knows that before they are read.
_IMPLAUSIBLE = frozenset(
    {"boxes_not_in_pixels", "boxes_beyond_image", "unmatched_annotations", "no_objects", "class_of_each_object"}
)
# Refusals of tables and records that may have a mask instead of a class.
_MAY_BE_MASKS = frozenset({"missing_label_column", "column_without_labels"})
_MASKS = Reading("the images with their masks", {"layout": "segmentation"})
# Refusals of labels that a list of class names does not fit.
_UNFIT = frozenset({"first_class_number", "unknown_class"})
_MOST_REASONS = 2
# Number of files in which names of images are looked for.
_MOST_DOCUMENTS = 8
_TABLES = frozenset({"csv", "jsonl", "parquet"})
# Fields with boxes, by their names or by what their values are.
_BOXES = re.compile(r"box|annotations \(", re.IGNORECASE)
# Settings that only say where samples, classes and splits are.
_PLACES = frozenset({"input", "label_pattern", "splits", "include", "exclude", "image_root", "source"})
# Settings that say where a file has labels or names of images.
_COLUMNS = frozenset({"mapping", "save_mapping", "label_column", "label_columns", "image_column", "image_path"})
# Settings that a layout of images alone does not need.
_LABELS = frozenset({"images", "label_pattern", "class_names"})
# What a message begins with.
_INPUT = re.compile(r"^`input=[^`]*`: ")
# Most requests to try for one refusal, and most settings to add one after the other.
_MOST_TRIED = 24
_DEEPEST = 4
# Seconds after which a refusal with an offer tries no further ones.
_MOST_SECONDS = 30
# Number of samples of a larger input to look at, and size of the containers that are listed.
_MOST_JUDGED = 1000
_MOST_BYTES = 64 << 20
# Largest share of rejected samples that an offer allows.
_MOST_FAILED = 0.5
# The same for images without a mask, because the others may be what is meant.
_MOST_UNMASKED = 0.95
_SAME_KEYS = "shared_key"
_UNTRIED = Trial.of((), frozenset(), is_whole=False)


@contextlib.contextmanager
def trying_suggestions(spec: BuildSpec) -> Iterator[None]:
    """Keeps the readings of a refusal that work; joins one that leads to another question with its answers.

    Args:
      spec: the request.
    """
    try:
        yield
    except RequestError as refused:
        if spec.input_function is not None or spec.map is not None:
            raise
        error = _with_mappings(_without_layout(refused, spec), spec)
        trial = _Trials(spec)
        tried = [*trial.follow_all(error, Reading("", {}), _DEEPEST)]
        # A source or a shipped mapping is more certain than a draft, but class folders say nothing about documents.
        if not any(_reads_files(*one) for one in tried):
            drafted = _with_drafts(error, spec)
            found = [*trial.follow_all(drafted, Reading("", {}), _DEEPEST)]
            if all(coverage.trial.is_bare or coverage.trial.lost for _, coverage in tried):
                error = RequestError(drafted.message, error.suggestions, code=error.code, traceback=error.traceback)
            else:
                found = [one for one in found if one[1].trial.objects]
            tried = found + tried
        # What a file says of the images comes before words in their names.
        tried.sort(key=lambda one: one[0].settings.get("label_pattern") in NAME_PATTERNS)
        if not error.suggestions and not tried:
            raise error from refused.__cause__
        unnamed = "".join(f"; with a file of the colors' classes in `mask_colors`, {one}" for one in trial.unnamed[:1])
        # Of annotations, or of the only readings, users want to know why these are not read.
        why = trial.implausible or [
            (one, inner)
            for one, inner in trial.refused
            if not tried or one.settings.get("layout") == "detection" or inner.code in _UNFIT
        ]
        # A mapping that does not fit says nothing about the input, nor does a source without what its offer needs.
        left = (error.code, "missing_content")
        why = [(one, inner) for one, inner in why if inner.code not in left and "mapping" not in one.settings]
        if unnamed or any(not coverage.trial.is_bare for _, coverage in tried):
            why = []
        said = "".join(
            dict.fromkeys(f"; {one.meaning}: {_INPUT.sub('', inner.message)}" for one, inner in why[:_MOST_REASONS])
        )
        if not (unnamed or any(_reads_files(*one) for one in tried) or "may annotate" in error.message):
            said += trial.name_documents()
        raise RequestError(
            error.message + unnamed + said, decide(tried), code=error.code, traceback=error.traceback
        ) from refused.__cause__


def _reads_files(reading: Reading, coverage: Coverage) -> bool:
    """Whether a reading takes labels, objects or masks from files, not from names of folders."""
    trial = coverage.trial
    is_said = trial.objects or trial.masks or not _COLUMNS.isdisjoint(reading.settings)
    return bool(is_said) and not (trial.is_bare or trial.lost)


def _without_layout(error: RequestError, spec: BuildSpec) -> RequestError:
    """Returns a refusal of an input without what the layout needs, with the readings of the input without a layout.

    The readings leave the layout to the request, so that those without its contents do not work.
    """
    if error.code != "missing_content" or error.suggestions or spec.layout is None:
        return error
    try:
        try_reading(dataclasses.replace(spec, layout=None))
    except RequestError as plain:
        # Images alone have nothing of what is missing.
        found = [
            Reading(one.meaning, {name: value for name, value in one.settings.items() if name != "layout"})
            for one in plain.suggestions
            if one.settings.get("layout") != "image"
        ]
        return RequestError(error.message, [one for one in found if one.settings], code=error.code)
    except (BuildError, OSError) as fault:
        if storage.is_unanswered(fault) or storage.is_unanswered(fault.__cause__):
            raise
    return error


def _with_mappings(error: RequestError, spec: BuildSpec) -> RequestError:
    """Returns a refusal of an input that offers the mappings which fit its documents first."""
    if spec.mapping or error.code not in _UNREAD:
        return error
    # Only refused inputs need this module.
    from beam_tfrecords.transforms.sources.annotated.recognition import suggest_mappings

    mappings = list[Reading]()
    with suppress_refusals():
        mappings += suggest_mappings(spec.input)
    found = [*_for_request(mappings, spec), *error.suggestions]
    return RequestError(error.message, found, code=error.code, traceback=error.traceback)


def _for_request(mappings: Sequence[Reading], spec: BuildSpec) -> list[Reading]:
    """Returns readings of mappings without the source of a request, and with its own layout."""
    left = {"source": None} if spec.source != "auto" else {}
    kept = {"layout"} if spec.layout is not None else set[str]()
    return [
        dataclasses.replace(
            one, settings={name: one.settings[name] for name in one.settings if name not in kept} | left
        )
        for one in mappings
    ]


def _with_drafts(error: RequestError, spec: BuildSpec) -> RequestError:
    """Returns a refusal of an input that offers the mappings drafted from its documents, or names such a document."""
    drafts, more = list[Reading](), ""
    # Images that are missing say nothing about the format.
    if not spec.mapping and error.code in _UNREAD and error.code != "missing_images":
        with suppress_refusals():
            drafts, more = _draft(spec)
    # A damaged file of a known format says what is wrong.
    message = error.message if error.code == "invalid_file" else f"{error.message}{more}"
    return RequestError(message, _for_request(drafts, spec), code=error.code, traceback=error.traceback)


def _draft(spec: BuildSpec) -> tuple[list[Reading], str]:
    """Suggests a mapping that is drafted from the documents of an input, or says that some may annotate the images."""
    from beam_tfrecords.transforms.sources.meaning.drafting import (
        describe_draft,
        find_drafts,
        layout_of,
        suggest_drafts,
    )

    path = name_inputs(spec.input).paths[0]
    folder = folder_of_archive(path)
    moved = {"input": folder} if folder != path else {}
    texts, document = find_drafts(folder)
    if len(texts) > 1:
        return suggest_drafts(texts, printable(document), **moved), ""
    if not texts:
        hint = "; {} names the images and may annotate them: docs/mappings.md shows how a mapping reads it"
        return [], hint.format(printable(document)) if document else ""
    name = next(one for one in (_DRAFT.format(of) for of in ("", *range(2, 100))) if not storage.exists(one))
    shown = describe_draft(texts[0])
    settings = {**moved, "save_mapping": name, **layout_of(texts[0])}
    return [Reading(f"the annotations of {printable(document)} by a drafted mapping, {shown}", settings)], ""


@dataclasses.dataclass
class _Trials:
    """Tries requests that differ from a refused one in some settings.

    Attributes:
      spec: the refused request.
      started: when the first request was tried, in seconds.
      tried: number of requests that were tried.
      offered: the requests of the readings that were found.
      named: the meanings of those, with their settings other than `_PLACES`.
      read: digests of what these have, with their settings other than `_PLACES`.
      unnamed: readings that need a table of colors, which the user has to write.
      implausible: readings whose annotations do not fit their images, and why.
      refused: the other readings that led to no offer, and why.
    """

    spec: BuildSpec
    started: float = dataclasses.field(default_factory=time.monotonic)
    tried: int = 0
    offered: list[BuildSpec] = dataclasses.field(default_factory=list)
    named: set[tuple[str, str]] = dataclasses.field(default_factory=set)
    read: set[tuple[int, str]] = dataclasses.field(default_factory=set)
    unnamed: list[Reading] = dataclasses.field(default_factory=list)
    implausible: list[tuple[Reading, RequestError]] = dataclasses.field(default_factory=list)
    refused: list[tuple[Reading, RequestError]] = dataclasses.field(default_factory=list)

    def follow_all(
        self, error: RequestError, said: Reading, depth: int, *, is_answer: bool = False
    ) -> Iterator[tuple[Reading, Coverage]]:
        """Yields the readings of a refusal that work, each with what was said before, and their coverage.

        Args:
          error: the refusal.
          said: the reading that led to it.
          depth: largest number of further readings to add.
          is_answer: whether that reading was one of several to a question about labels.
        """
        found = set[str]()
        asks_labels = is_answer or any(one.settings.get("layout") == "image" for one in error.suggestions)
        has_masks = error.code in _MAY_BE_MASKS or (error.code == "several_image_columns" and not error.suggestions)
        may_be_masks = has_masks and self.spec.layout is None and "layout" not in said.settings
        for one in [*([_MASKS] if may_be_masks else []), *error.suggestions]:
            # Images alone in one split are within those of several splits.
            is_within = bool(found) and said.settings.get("layout") == "image" and one.settings.keys() == {"splits"}
            if is_within or _contradicts(one, said, error, is_answer=is_answer):
                continue
            # Of several ways to read the same, the first that works is enough, wherever a new input was said to be.
            reading = said.then(one)
            if {"input", "join"} <= one.settings.keys() and isinstance(said.settings.get("input"), list):
                # A table that is joined leaves the others of the request.
                shown = ", ".join(map(storage.basename, one.settings["join"]))
                reading = dataclasses.replace(reading, meaning=f"the rows of {shown}, {one.meaning}")
            named = one.meaning, _describe_others(reading)
            if one.meaning in found or ("input" in one.settings and named in self.named):
                continue
            for offer in self._follow(reading, depth, is_answer=asks_labels):
                found.add(one.meaning)
                self.named.add(named)
                yield offer

    @functools.cached_property
    def _facts(self) -> Facts:
        return summarise(name_inputs(self.spec.input).paths)

    def name_documents(self) -> str:
        """Returns a sentence on the documents that name the images of the input, for a message; "" without any."""
        # Only refused inputs need these modules.
        from beam_tfrecords.transforms.sources.meaning.companions import LISTS, find_rows_of_images
        from beam_tfrecords.transforms.sources.meaning.row_sidecars import is_table
        from beam_tfrecords.transforms.sources.unsupported_formats import find_unsupported

        names = {posixpath.basename(path) for path in self._facts.images}
        # Plain numbers may be anything.
        names |= {stem for stem in map(stem_of, names) if not stem.isdecimal()}
        paths = [path for path in self._facts.texts if not is_table(path)][:_MOST_DOCUMENTS]
        rows = {path: find_rows_of_images(path, names) for path in paths if names}
        # A list of names says nothing else.
        lists = {path for path in rows if path.endswith(LISTS) and all(len(row.split()) < 2 for row in rows[path])}
        found = [path for path in rows if rows[path] and path not in lists]
        if not found:
            return ""
        shown = ", ".join(printable(storage.basename(path)) for path in found[:_MOST_REASONS])
        if (unread := find_unsupported(found[0])) is not None:
            return f"; {shown} names the images, and no source reads {unread.what}: {unread.remedy}"
        if found[0].lower().endswith((".yaml", ".yml")):
            return f"; {shown} names the images, and no mapping reads YAML; write it as JSON"
        return f"; {shown} names the images and may annotate them: docs/mappings.md shows how a mapping reads it"

    def _follow(self, reading: Reading, depth: int, *, is_answer: bool) -> Iterator[tuple[Reading, Coverage]]:
        self.tried += 1
        is_late = self.offered and time.monotonic() - self.started > _MOST_SECONDS
        if self.tried > _MOST_TRIED or is_late:
            return
        try:
            asked = change_request(self.spec, reading.settings)
            if asked not in self.offered and (found := try_reading(asked, self._facts)) is not None:
                self.offered.append(asked)
                read = (found.meaning, _describe_others(reading))
                if found.is_whole and read in self.read:
                    return
                self.read.add(read)
                coverage = measure(self._facts, found, _name_files(reading.settings))
                yield dataclasses.replace(reading, gives=describe_coverage(coverage)), coverage
        except RequestError as error:
            if error.code == "masks_of_colors" and not error.suggestions:
                # Only the user knows the classes of the colors.
                self.unnamed.append(reading)
            elif error.code == "missing_extra":
                command = error.message.rpartition("need an extra: ")[2]
                untried = measure(self._facts, _UNTRIED)
                yield dataclasses.replace(reading, meaning=f"{reading.meaning}, after {command}"), untried
            elif error.code in _IMPLAUSIBLE:
                # A format of boxes that do not fit their images is not the right one.
                if "box_format" not in reading.settings:
                    self.implausible.append((reading, error))
            elif depth:
                offered = len(self.offered)
                yield from self.follow_all(error, reading, depth - 1, is_answer=is_answer)
                if offered == len(self.offered):
                    self.refused.append((reading, error))
        except (BuildError, OSError) as error:
            if storage.is_unanswered(error) or storage.is_unanswered(error.__cause__):
                raise


def _describe_others(reading: Reading) -> str:
    """Describes the settings of a reading other than `_PLACES`."""
    return repr(sorted((name, value) for name, value in reading.settings.items() if name not in _PLACES))


def _contradicts(one: Reading, said: Reading, error: RequestError, *, is_answer: bool) -> bool:
    """Whether a reading takes back what was said before; see `_Trials.follow_all`."""
    if said.settings.get("layout") == "image":
        return not _LABELS.isdisjoint(one.settings)
    if one.settings.get("layout") == "image":
        # The question is which label; leaving labels out does not answer it, unless there are several images instead.
        return is_answer and "," not in f"{said.settings.get('image_column')} {said.settings.get('image_path')}"
    # The splits of the input after one split of all lead back to the first question, and the other way round.
    if {"auto", ALL_IN_ONE["splits"]} == {each.settings.get("splits") for each in (said, one)}:
        return True
    # Of several labels, one that all samples have says least.
    is_single = is_answer and error.code == "single_class" and "class_names" in one.settings
    # Inputs that an answer names are not the user's classes.
    are_answers = isinstance(said.settings.get("input"), list) and one.settings.get("label_pattern") in NAMES_OF_INPUTS
    # Several images of a sample have no mask.
    are_pairs = "images" in one.settings and "layout" in said.settings
    # Words that are read as classes leave no sample without one.
    are_blank = "missing_values" in said.settings and "max_failures" in one.settings
    return is_single or are_answers or are_pairs or are_blank


def _name_files(settings: Mapping[str, Any]) -> list[str]:
    """Returns the words of settings that may be files, such as one of class names."""
    values = [value for value in settings.values() if isinstance(value, (str, list))]
    words = [word for value in values for word in ([value] if isinstance(value, str) else value)]
    return [part for word in words for part in re.split("[,=]", word)]


def try_reading(spec: BuildSpec, facts: Facts | None = None) -> Trial | None:
    """Lists a request; returns what its first samples have, or None if fewer than half are valid and have labels.

    Args:
      spec: the request.
      facts: the files of the input; None if it does not matter which of them are read.

    Raises:
      RequestError, BuildError: it is refused.
    """
    opened, source = open_spec_source(spec)
    if source.pipeline is not None or sum(one.size for one in source.partitions) > _MOST_BYTES:
        return _UNTRIED
    # Only refused requests need this module here.
    from beam_tfrecords.beam_pipelines.build.listing.list_input import CutError

    try:
        refs, lost = _list(opened, source)
    except CutError:
        opened, source = open_spec_source(spec)
        trial = _try_some(opened, source)
    else:
        trial = _judge_all(refs, opened, shares_keys=opened.group_rows or source.description.last_member_wins)
        trial = trial and dataclasses.replace(trial, lost=lost)
    texts = [*facts.texts, *facts.texts_of_images.values()] if facts else []
    if not (CLASSES | {Content.OBJECTS}) & opened.required:
        # Files of class names are looked up for every input.
        texts = [one for one in texts if not is_class_file(storage.basename(one))]
    if trial and facts and not trial.drawn and trial.images < facts.images and are_masks(sorted(trial.images)):
        # All of these may be masks, where others are photos.
        folders = {storage.basename(storage.dirname(path)) for path in trial.images}
        if not are_masks(sorted(facts.images - trial.images)):
            trial = dataclasses.replace(trial, drawn=sorted(folders))
    containers = {one.uri for one in source.partitions}
    read = frozenset(one for one in texts if one in containers or source.has_read(one))
    return trial and dataclasses.replace(trial, read=read)


def _judge_all(refs: Sequence[SampleRef], spec: BuildSpec, *, shares_keys: bool) -> Trial | None:
    """Returns what all samples have; references with the same key are one sample if `shares_keys`. See `_judge`."""
    if shares_keys:
        trial = _judge(refs, spec, is_whole=True, shares_keys=True)
        keys = {(ref.split, ref.key) for ref in refs if ref.failure is None}
        return trial and dataclasses.replace(trial, samples=len(keys))
    # Only refused requests need this module here.
    from beam_tfrecords.transforms.blocks.rows import content_of

    by_key: dict[tuple[str | None, str], list[bytes]] = {}
    for ref in refs:
        by_key.setdefault((ref.split, ref.key), []).append(content_of(ref))
    # Of equal samples, one stays.
    repeated = sum(len(some) - (len({*some}) == 1) for some in by_key.values())
    return _judge(refs, spec, is_whole=True, repeated=repeated)


def _try_some(spec: BuildSpec, source: Source) -> Trial | None:
    """Returns what some of the first samples of a large input have; see `try_reading`."""
    wanted = (ref for ref in source.samples() if spec.skips_path(ref.key) is None)
    refs = list(itertools.islice(wanted, MOST_LISTED))
    # Classes and splits lie one after the other.
    some = refs[:: len(refs) // _MOST_JUDGED + 1]
    if source.description.is_inferred_later:
        folders = FolderSummary()
        for ref in refs:
            if ref.failure is None:
                folders.add_image(ref.key)
        try:
            meaning = finish_source(source, folders, Tally()).meaning
        except RequestError:
            # A part of the folders may be ambiguous where all are not.
            return _UNTRIED
        some = some if meaning is None else [ref for batch in RefColumns.of(some) for ref in meaning.apply(batch)]
    return _judge(some, spec, is_whole=False)


def _list(spec: BuildSpec, source: Source) -> tuple[list[SampleRef], Sequence[str]]:
    """Returns the samples of a source, and the fields with boxes that a layout without boxes does not store."""
    # Only refused requests need these modules here.
    from beam_tfrecords.beam_pipelines.build.checks.split_lists import check_split_lists
    from beam_tfrecords.beam_pipelines.build.identity import make_ledger
    from beam_tfrecords.beam_pipelines.build.listing.list_input import list_input
    from beam_tfrecords.transforms.listing.listing import read_refs

    with tempfile.TemporaryDirectory(prefix="beam-tfrecords-") as folder:
        listed = list_input(spec, source, folder, max_file_size=spec.max_file_size, most=MOST_LISTED)
        listing, tally, source = listed.listing, listed.tally, listed.source
        classes = check_listing(spec, source, listing, tally)
        # Whoever names a folder means the lists beside its tables, too.
        if source.name in _TABLES:
            check_split_lists(spec, source, listing, tally)
        resolve_arrays(spec, source, listing, tally)
        heads = resolve_heads(spec, source, listing, tally, {})
        has_places = {Content.OBJECTS, Content.MASK, Content.OBJECT_MASKS} & spec.required
        ledger = () if has_places else make_ledger(spec, source, listing, tally, classes, heads)
        lost = [one.field for one in ledger if _BOXES.search(f"{one.field} {one.detail}")]
        return [_without_folder(ref, folder) for ref in read_refs(listing)], lost


def _without_folder(ref: SampleRef, folder: str) -> SampleRef:
    """Returns a sample without the temporary folder of its files, so that those of two trials can be compared."""
    if not any(one.uri.startswith(folder) for one in ref.images.values()):
        return ref
    images = {name: dataclasses.replace(one, uri=one.uri.removeprefix(folder)) for name, one in ref.images.items()}
    return dataclasses.replace(ref, images=images)


def _judge(
    refs: Sequence[SampleRef], spec: BuildSpec, *, is_whole: bool, shares_keys: bool = False, repeated: int = 0
) -> Trial | None:
    """Returns what the samples have; None if too many of them are invalid."""
    layout = spec.stored
    # Records that are stored as they are have been checked.
    stored = () if layout.keeps_records else layout.features
    columns = Layout(tuple(one for one in stored if one.column is not None and not one.is_class))
    classes = [one.column or "" for one in layout.heads.values()]
    needs_label = bool(CLASSES & layout.required)
    has_one = layout.has_single_label
    needs_mask = Content.MASK in layout.required
    samples = [(ref.split, ref.key) if shares_keys else number for number, ref in enumerate(refs)]
    failed = {
        sample
        for sample, ref in zip(samples, refs, strict=True)
        if not _is_valid(ref, needs_label=needs_label, has_one=has_one)
        or (needs_mask and not ref.objects and not any(map(is_mask, ref.images)))
    }
    # Rows are damaged here and there; what a column lacks, it lacks in the other rows too.
    lacking = {
        sample
        for sample, ref in zip(samples, refs, strict=True)
        if ref.failure is None and not _has_values(ref, columns, classes)
    }
    total = len({*samples})
    rejected = len(failed) + len(lacking) + repeated
    # A dataset without a record is never published.
    is_empty = 0 < total <= len(failed) + len(lacking)
    if is_empty or rejected > spec.max_failures * total:
        is_blank = needs_label and any(ref.failure is None and None in ref.labels for ref in refs)
        may_be_few = not is_empty and len(lacking) <= spec.max_failures * total
        _refuse_rejected(
            refs, rejected, total, may_be_few=may_be_few, may_be_words=is_blank and bool(spec.missing_values)
        )
        return None
    trial = dataclasses.replace(Trial.of(refs, layout.required, is_whole=is_whole), failed=rejected)
    if spec.label_pattern or spec.class_names or trial.is_bare:
        trial = dataclasses.replace(trial, drawn=_find_drawn(refs))
    return trial


def _refuse_rejected(
    refs: Sequence[SampleRef], rejected: int, total: int, *, may_be_few: bool, may_be_words: bool
) -> None:
    """Raises an error if more samples would be rejected than the request allows; offers to allow them.

    Args:
      refs: the samples, or their rows.
      rejected: number of samples that would be rejected, also for a key that others have.
      total: number of samples.
      may_be_few: whether the others may be what is meant.
      may_be_words: whether words for an empty cell may be the labels that are missing.
    """
    reasons = sorted((ref.key, ref.failure) for ref in refs if ref.failure)
    found = []
    if may_be_words:
        found.append(Reading("also words such as None and NA as classes", {"missing_values": ""}))
    are_masks = bool(reasons) and {code for _, (code, _) in reasons} == {FailureReason.MASK_MISSING.value}
    share = share_above(rejected, total)
    if may_be_few and share <= (_MOST_UNMASKED if are_masks else _MOST_FAILED):
        meaning = "all images but those without a mask" if are_masks else "all samples but those that are rejected"
        found.append(Reading(meaning, {"max_failures": share}))
    if reasons or found:
        _, (code, message) = reasons[0] if reasons else ("", (_SAME_KEYS, "samples have the same key"))
        raise RequestError(message, found, code=code)


def _find_drawn(refs: Sequence[SampleRef]) -> Sequence[str]:
    """Returns the classes, or else the folders or the ends of names, whose images look like masks, unlike others."""
    classes: dict[str, list[str]] = {}
    folders: dict[str, list[str]] = {}
    for ref in refs:
        image = ref.images.get(IMAGE)
        if isinstance(image, File):
            folders.setdefault(storage.basename(storage.dirname(image.uri)), []).append(image.uri)
            if isinstance(ref.label, str):
                classes.setdefault(ref.label, []).append(image.uri)
    every = itertools.chain.from_iterable(folders.values())
    drawn = list[str]()
    # Archives may be damaged.
    with suppress_refusals():
        drawn += find_drawn(classes) or find_drawn(folders) or find_drawn_ends(every)
    return tuple(drawn)


def _is_valid(ref: SampleRef, *, needs_label: bool, has_one: bool) -> bool:
    """Whether a sample is listed, its boxes are numbers, and it has a label if it needs one, or no more than one."""
    if has_one and isinstance(ref.label, list) and len(ref.label) != 1:
        return False
    if ref.objects and any(map(math.isnan, ref.objects.boxes)) and not _has_masks(ref, ref.objects):
        return False
    return ref.failure is None and not (needs_label and not {None, ""}.isdisjoint(ref.labels))


def _has_masks(ref: SampleRef, objects: Objects) -> bool:
    """Whether objects have masks, which say their boxes."""
    return any(objects.polygons) or any(map(is_mask, ref.images))


def _has_values(ref: SampleRef, columns: Layout, classes: Sequence[str]) -> bool:
    """Whether a sample has values of the types of its features, and of its classes."""
    if any(ref.columns.get(name) in (None, "") for name in classes):
        return False
    try:
        if columns.features:
            serialize_examples(columns, [[ref.columns.get(feature.column or "")] for feature in columns.features])
    except SampleError:
        return False
    return True
