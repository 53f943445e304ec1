"""Finishes a listing: determines final labels and splits, and applies the request's limit."""

from __future__ import annotations

import copy
import dataclasses
import functools
import itertools
import posixpath
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.checks.settings import refuse_idle_places
from beam_tfrecords.beam_pipelines.build.listing.class_lists import choose_classes
from beam_tfrecords.errors import LimitError, Reading, RequestError
from beam_tfrecords.features.contents import CLASSES, Content
from beam_tfrecords.features.layouts import Layout
from beam_tfrecords.transforms.images.image_spec import ImageEncoding
from beam_tfrecords.transforms.labels import UNLABELLED, ClassNames
from beam_tfrecords.transforms.listing.deciding import count_paths, decide
from beam_tfrecords.transforms.listing.decisions import AssignSplits, LeaveSplits, MarkUnlabelled, SelectClasses
from beam_tfrecords.transforms.listing.groups import Groups
from beam_tfrecords.transforms.listing.listing import Listing, ListPlan, read_light, read_refs, write_listing
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.request.build_spec import BuildSpec, Duplicates
from beam_tfrecords.transforms.service_faults import suppress_refusals
from beam_tfrecords.transforms.sources.detect.path_splits import (
    MOST_DEPTH,
    PathSplits,
    PathWords,
    WordsOf,
    judge_splits,
)
from beam_tfrecords.transforms.sources.inputs import (
    folder_of_archive,
    key_prefixes,
    name_inputs,
    name_of_input,
    names_several,
    split_of_word,
)
from beam_tfrecords.transforms.sources.meaning.readings import finish_source
from beam_tfrecords.transforms.sources.names import NOT_AN_IMAGE, printable, skipped_kind
from beam_tfrecords.transforms.sources.registry import FUNCTIONS
from beam_tfrecords.transforms.sources.selection import EVERYTHING, OTHER_CLASS, Selection
from beam_tfrecords.transforms.sources.source import Finish, Source
from beam_tfrecords.transforms.sources.tables.table import ReadTable, Row, Table
from beam_tfrecords.transforms.sources.tally import Damage, Tally
from beam_tfrecords.transforms.splits import Splits, name_split

# Damaged containers that a message names.
_MOST_DAMAGED = 3
# Most samples whose files are compared with those of the input: 60 bytes of memory for each.
_MOST_COMPARED = 10_000_000
# Files that may have several frames or pages, and numbers of them and of batches of samples to look at.
_WITH_FRAMES = (".gif", ".tif", ".tiff", ".webp", ".apng")
_MOST_FRAMES, _MOST_BATCHES = 8, 4
# Number of files to look at beside the images of a table: at least this many, or this many for each sample.
_MOST_BESIDE, _MOST_TIMES = 20_000, 10


def plan_listing(spec: BuildSpec, source: Source) -> ListPlan:
    """Plans how to list the samples of a request."""
    needs_label = spec.layout is None or bool(CLASSES & spec.required)
    count_labels = needs_label or spec.label_pattern is not None or bool(spec.classes)
    return ListPlan(
        AssignSplits(spec.splits, spec.seed) if spec.splits.fractions and not spec.stratify else None,
        count_labels=count_labels,
        selection=Selection(spec.include, spec.exclude),
        summarizes_folders=source.description.is_inferred_later,
        class_columns=sorted({one.column for one in spec.layout.heads.values() if one.column}) if spec.layout else (),
        missing=frozenset(spec.missing_values),
        # The rows of a table have ids as keys then, and images in files.
        paths_are_images=spec.key_column is not None and source.description.unit == "row" and source.is_whole,
        paths=spec.published_paths,
    )


def _may_find_splits(spec: BuildSpec, source: Source) -> bool:
    """Whether paths may say the splits: the request does not, and the samples are not records with splits."""
    is_said = name_inputs(spec.input).splits or spec.split_column is not None
    return spec.splits.are_auto and not is_said and source.description.records is None


def finish_listing(
    listing: Listing, spec: BuildSpec, source: Source, tally: Tally, folder: str
) -> tuple[Listing, Source]:
    """Returns a listing with final labels and splits, and with at most `limit` samples; and the source, described.

    Args:
      listing: listing of all samples.
      spec: the request.
      source: the opened source.
      tally: files that are not samples.
      folder: folder for new chunk files.

    Raises:
      RequestError: the folders of the input do not fit the request, or globs of the request match nothing.
      LimitError: a container was not read to its end, and the request does not allow that.
    """
    tally.notes[:0] = source.notes
    if tally.damaged:
        # First: without the lost samples, folders may seem to have another meaning.
        tally.notes.append(_allow_damage(spec, tally.damaged))
    if Content.IMAGE in spec.required and spec.image_encoding is not ImageEncoding.KEEP:
        tally.notes += _note_frames(listing)
    tally.globs = set(listing.unmatched or ())
    _count_unread(listing, spec, source, tally)
    examples = (key for keys in tally.examples.values() for key in keys)
    spec.check_globs(tally.globs, examples)
    plan = plan_listing(spec, source)
    adding = functools.partial(decide, folder=folder, plan=plan)
    if listing.groups.counted_by != plan.splits:
        # An interrupted build with other fractions has listed the input.
        listing.groups = Groups(None)
    if listing.total or not source.description.is_inferred_later:
        finish = _finish(listing, source, tally)
        source = copy.copy(source)
        source.description = finish.description
        if finish.meaning is not None:
            listing = adding(listing, "folders", finish.meaning)
    if source.description.join is not None and listing.total:
        listing, table = _join_tables(listing, spec, source, tally, folder)
        source.description = dataclasses.replace(source.description, other_tables=[table])
    selects_early = bool(spec.classes) and not _selects_later(spec, source)
    if selects_early and listing.total:
        listing = _select_classes(listing, spec, None, tally, adding)
    if (left := _find_left_splits(listing, spec)) is not None:
        count = sum(listing.samples[word] for word in left.words)
        tally.notes.append(f"`where` leaves out the split {', '.join(sorted(map(printable, left.words)))} ({count:,})")
        listing = adding(listing, "split_words", left)
    words = count_paths(listing, plan) if _may_find_splits(spec, source) and listing.total else None
    empty = [] if spec.splits.fractions else [*_note_empty_splits(listing, source)]
    tally.notes += [*_note_synonyms(listing.samples)] if spec.splits.are_auto else []
    if spec.group_column and spec.splits.fractions:
        tally.notes += _note_ungrouped(listing, spec.group_column)
    if not (spec.stratify and spec.splits.fractions):
        listing = adding(listing, "splits", plan.splits or AssignSplits(Splits(), 0))
    if words is not None and (found := _find_splits(words, spec, source)) is not None:
        tally.notes.append(found.note)
        listing = adding(listing, "path_splits", found)
    else:
        tally.notes += empty
    if listing.total:
        refuse_idle_places(spec, source, listing)
    if _selects_later(spec, source) and listing.total:
        known = choose_classes(spec, source.description, listing.labels)[0]
        listing = _select_classes(listing, spec, known, tally, adding)
    if (unlabelled := _find_unlabelled(listing, spec, tally)) is not None:
        listing = adding(listing, "unlabelled", unlabelled)
        listing.labels.pop(UNLABELLED, None)
        for split in unlabelled.splits:
            listing.split_labels.pop(split, None)
    if spec.stratify and spec.splits.fractions is not None:
        # Most requests stratify nothing.
        from beam_tfrecords.transforms.listing.stratifying import find_strata

        strata = find_strata(listing, fractions=spec.splits.fractions, seed=spec.seed)
        listing = adding(listing, "strata", strata)
    if _may_share_images(spec, source) and sum(1 for split in listing.samples if split) > 1:
        _refuse_shared_image(listing, spec, source)
    if spec.limit is not None:
        # Most requests have no limit.
        from beam_tfrecords.transforms.listing.limiting import limit_listing

        if listing.total > spec.limit:
            tally.notes.append(f"`limit` takes {spec.limit:,} of {listing.total:,} samples")
        listing = limit_listing(listing, limit=spec.limit, seed=spec.seed, folder=folder, paths=plan.paths)
    return listing, source


def _finish(listing: Listing, source: Source, tally: Tally) -> Finish:
    """Returns the result of `finish_source`; the column of labels of a joined table answers its questions, too."""
    try:
        return finish_source(source, listing.folders, tally)
    except RequestError as error:
        join = source.description.join
        label = join.other_label if join is not None else None
        if label is None:
            raise
        joined = Reading(f"the labels in the joined column {label!r}", {"label_column": label})
        raise RequestError(error.message, [joined, *error.suggestions], code=error.code) from error


def _find_left_splits(listing: Listing, spec: BuildSpec) -> LeaveSplits | None:
    """Finds words that are not names of splits, such as DISCARD, and that the request's condition excludes."""
    words = [word for word in listing.samples if name_split(word) is None]
    if not words or spec.where is None or spec.map is not None or spec.splits.fractions:
        return None
    # Only conditions need pyarrow here.
    from beam_tfrecords.transforms.blocks.filtering import Condition

    left = Condition(spec.where, spec.layout or Layout(())).find_excluded_splits(words)
    return LeaveSplits(left) if left else None


def _note_ungrouped(listing: Listing, column: str) -> Iterator[str]:
    """Yields a note on samples without a group, which are divided one by one."""
    count = sum(not group for refs in read_light(listing) for group in refs.each("group"))
    if count:
        yield f"column {column!r} is empty for {count:,} of {listing.total:,} samples; each is a group of its own"


def _note_synonyms(words: Iterable[str]) -> Iterator[str]:
    """Yields a note on the words of the input that become one split."""
    by_split: dict[str, list[str]] = {}
    for word in filter(None, words):
        by_split.setdefault(name_split(word) or "", []).append(word)
    for split, several in sorted(by_split.items()):
        if split and len(several) > 1:
            yield f"{', '.join(map(printable, sorted(several)))} are words for one split, {split}"


def _note_empty_splits(listing: Listing, source: Source) -> Iterator[str]:
    """Yields a note on samples without a split if a column has the splits, or others have one."""
    column, totals = source.description.split_column, listing.groups.totals
    valid = [(group.split, one.samples) for group, one in (totals or {}).items() if not group.failed]
    known = Counter(listing.samples) if totals is None else Counter[str]()
    for split, samples in valid:
        known[split or ""] += samples
    if known[""] and (column or len(known) > 1):
        where = f"column {column!r} is empty" if column and source.description.table else "the input says no split"
        yield f"{where} for {known['']:,} of {known.total():,} samples, which go to train"


def _may_have_frames(file: str) -> bool:
    """Whether a file may have several frames; few PNG files have, and in a store, each would cost a request."""
    name = file.lower()
    return name.endswith(_WITH_FRAMES) or (name.endswith(".png") and not storage.has_scheme(file))


def _note_frames(listing: Listing) -> list[str]:
    """Returns a note if image files have several frames or pages: only the first is stored."""
    batches = itertools.islice(read_light(listing), _MOST_BATCHES)
    files = (file for refs in batches for file in refs.files() if _may_have_frames(file))
    some = [*itertools.islice(files, _MOST_FRAMES)]
    found: dict[str, int] = {}
    with suppress_refusals():
        # Most inputs have other files.
        from beam_tfrecords.transforms.sources.meaning.pixels_alike import count_frames

        found |= {file: count for file in some if (count := count_frames(file)) > 1}
    if not found:
        return []
    first = min(found)
    return [
        f"{printable(storage.basename(first))} has {found[first]} frames or pages, of which the first is stored; of "
        f"{len(some)} such files that were looked at, {len(found)} {'has' if len(found) == 1 else 'have'} several"
    ]


def _may_share_images(spec: BuildSpec, source: Source) -> bool:
    """Whether rows of one image may be in several splits, and the request does not say what happens to these."""
    if spec.group_rows:
        return True
    is_file = source.description.unit == "row" and source.is_whole and source.name != FUNCTIONS
    return is_file and spec.key_column is None and spec.duplicates is Duplicates.KEEP


def _refuse_shared_image(listing: Listing, spec: BuildSpec, source: Source) -> None:
    """Checks that the rows of an image, or with a key, are in one split.

    Raises:
      RequestError: names an image or key that is in several.
    """
    # Samples of files have one split.
    from beam_tfrecords.transforms.listing.shared_keys import find_shared_key

    by_image = spec.key_column is None and source.name != FUNCTIONS
    found = find_shared_key(listing, by_image=by_image)
    if found is None:
        return
    shared, splits = found
    column, unit = source.description.split_column, source.description.unit
    by = f"column {column!r} says" if column else "the rows are in"
    suggestions = []
    if column:
        suggestions.append(Reading("splits that follow from the key", {"split_column": ""}))
    elif spec.stratify or spec.group_column:
        suggestions.append(Reading("splits that follow from the key", {"stratify": None, "group_column": None}))
    drops = "" if spec.group_rows else "; `duplicates=drop` stores one copy, in the smaller split"
    raise RequestError(
        f"{by} the splits {' and '.join(splits)} for {unit}s with the {'image' if by_image else 'key'} "
        f"{printable(shared)}; expected one split for each image{drops}",
        suggestions,
        code="shared_key",
    )


def _count_unread(listing: Listing, spec: BuildSpec, source: Source, tally: Tally) -> None:
    """Counts the files in the folders of the input that are no samples and that the source has not read."""
    containers = {one.uri for one in source.partitions}
    # A note says whether the class names of a file are used.
    known = containers | {one.path for one in source.description.found_classes}
    inputs = tuple(f"{path.rstrip('/')}/" for path in name_inputs(spec.input).paths)
    roots = [split_of_word(word)[1].rstrip("/") for word in (*spec.image_root, *spec.mask_root)]
    beside = set[str]()
    if source.description.unit == "row" and not roots:
        # The images of a table lie in its folder, beside files of all kinds.
        paths = [one for one in name_inputs(spec.input).paths if one == folder_of_archive(one)]
        beside |= {storage.dirname(one) for one in paths if not (names_several(one) or storage.is_folder(one))}
    roots += beside
    outside = [root for root in roots if not (f"{root}/".startswith(inputs) or storage.is_web(root))]
    named, within = _find_files(listing, outside) if outside else (None, [])
    folders = _find_folders(spec, source, containers, within)
    if folders and listing.total > _MOST_COMPARED:
        tally.notes.append(f"more than {_MOST_COMPARED:,} samples: files that nothing reads are not counted")
        return
    most = max(_MOST_BESIDE, _MOST_TIMES * listing.total) if beside else None
    for folder, prefix in zip(folders, key_prefixes(folders) if folders else (), strict=True):
        try:
            for number, entry in enumerate(storage.list_files(folder, literal=True)):
                if number == most:
                    tally.notes.append(f"{printable(folder)}: more than {number:,} files; further ones are not counted")
                    break
                if not entry.size or entry.path in known or source.has_read(entry.path):
                    continue
                # The output may lie in a folder of the input.
                if entry.path.startswith(f"{spec.output}/"):
                    continue
                if named is None:
                    named, _ = _find_files(listing, ())
                is_named = hash(entry.path) in named
                if is_named and not tally.globs:
                    continue
                below = entry.path[len(folder) + 1 :]
                key, kind = printable(prefix + below), skipped_kind(below)
                is_named = is_named or hash(key) in named
                # Folders without an image of the table, such as a dataset that was built there, are not its images.
                is_other = kind not in (None, NOT_AN_IMAGE) or hash(f"{storage.dirname(entry.path)}/") not in named
                if beside and is_other:
                    continue
                if not is_named and spec.skips_path(key) is None:
                    image = "without a row" if source.description.unit == "row" else "not read"
                    tally.add(image if kind in (None, NOT_AN_IMAGE) else kind, key)
                tally.see(key)
        except OSError as error:
            tally.notes.append(f"{printable(folder)}: {error.strerror or error}; further files there are not counted")


def _find_folders(spec: BuildSpec, source: Source, containers: Collection[str], within: Sequence[str]) -> list[str]:
    """Returns the folders whose files the ledger accounts for, without those whose files the listing has counted."""
    every = list(within)
    if source.folders is not None:
        every += source.folders
    elif not source.description.is_inferred_later:
        inputs = name_inputs(spec.input).paths
        every += [path if path in containers else folder_of_archive(path) for path in inputs]
    every = [path.rstrip("/") for path in every if path and not names_several(path) and storage.is_folder(path)]
    return sorted(one for one in {*every} if not any(one.startswith(f"{other}/") for other in every))


def _find_files(listing: Listing, roots: Sequence[str]) -> tuple[set[int], list[str]]:
    """Returns hashes of the files and folders of all samples and of the keys of rejected ones, and each root's folder.

    Hashes take less memory than paths. The folder of a root, which may be a whole disk, is the innermost one with all
    its files; "" if there are none.
    """
    named, common = set[int](), dict.fromkeys(roots, "")
    for refs in read_light(listing):
        files = [*refs.files()]
        if listing.total <= _MOST_COMPARED:
            named.update(map(hash, (*files, *{f"{storage.dirname(file)}/" for file in files})))
            # A rejected row has no image, but its key may be the path of its image.
            named.update(hash(key) for key, failure in zip(refs.keys, refs.each("failure"), strict=True) if failure)
        for root in roots:
            inside = [file for file in files if file.startswith(f"{root}/")]
            common[root] = posixpath.commonprefix([*filter(None, [common[root]]), *inside])
    return named, [*map(storage.dirname, common.values())]


def _allow_damage(spec: BuildSpec, damaged: Sequence[Damage]) -> str:
    """Returns the note on containers that were not read to their end.

    Raises:
      LimitError: the request does not allow them.
    """
    shown = [
        f"{printable(one.uri)} (after {one.samples:,} samples: {one.detail})"
        for one in sorted(damaged, key=lambda one: one.uri)[:_MOST_DAMAGED]
    ]
    more = [f"{len(damaged) - len(shown):,} more"] if len(damaged) > len(shown) else []
    what = (
        "a container was not read to its end"
        if len(damaged) == 1
        else f"{len(damaged):,} containers were not read to their end"
    )
    found = f"{what}, and an unknown number of samples is lost: {'; '.join([*shown, *more])}"
    if spec.allow_damaged_containers:
        return found
    raise LimitError(
        f"{found}; get an intact copy, or use `allow_damaged_containers` to build without the lost samples"
    )


def _selects_later(spec: BuildSpec, source: Source) -> bool:
    """Whether the classes of samples are known only after the listing: from folders, or from all numbers together."""
    has_names = bool(spec.class_names or source.description.found_classes)
    is_later = source.description.is_inferred_later or source.description.join is not None
    return bool(spec.classes) and (is_later or has_names)


def _select_classes(
    listing: Listing, spec: BuildSpec, known: ClassNames | None, tally: Tally, adding: Callable[..., Listing]
) -> Listing:
    """Returns the listing with the samples and objects of the requested classes; `known` as in `class_filter`."""
    wanted, left_objects = SelectClasses(spec.classes, known), 0

    def select(refs: RefColumns) -> RefColumns:
        nonlocal left_objects
        kept, left, of_objects = wanted.select(refs)
        for key in left:
            tally.add(OTHER_CLASS, key)
        left_objects += of_objects
        return kept

    selected = adding(listing, "classes", wanted, by_sample=select)
    selected.objects.left_out += left_objects
    if known is not None:
        # The labels of all samples show whether numbers count from 0 or from 1.
        selected.labels.update(dict.fromkeys(listing.labels, 0))
    return selected


def _join_tables(listing: Listing, spec: BuildSpec, source: Source, tally: Tally, folder: str) -> tuple[Listing, Table]:
    """Returns the listing with the columns of the tables that the request joins, and a table of these.

    Raises:
      RequestError: the tables do not belong to the samples.
    """

    def read(_: Sequence[str]) -> Iterator[Row]:
        return ({"key": key} for refs in read_light(listing) for key in refs.keys)

    join = source.description.join
    add, notes, table = join.fit(ReadTable(", ".join(spec.input), ("key",), read))
    tally.notes += notes
    plan = dataclasses.replace(plan_listing(spec, source), selection=EVERYTHING, summarizes_folders=False)
    return write_listing(add(read_refs(listing)), folder, plan=plan, stem="joined-"), table


def _find_unlabelled(listing: Listing, spec: BuildSpec, tally: Tally) -> MarkUnlabelled | None:
    """Finds the splits without labels if other splits have labels; returns None if there are none."""
    bare = frozenset(split for split, labels in listing.split_labels.items() if split and labels <= {None, ""})
    fields = spec.layout.fields if spec.layout and Content.LABEL in spec.required and spec.map is None else ()
    if not fields or spec.splits.fractions or not bare or len(bare) == len(listing.split_labels):
        return None
    has_one = any(field.startswith("label.") for field in fields)
    count = sum(listing.samples[split] for split in bare)
    stored = "stored with the label -1" if has_one else "stored without one"
    tally.notes.append(f"the {count:,} samples of {' and '.join(sorted(bare))} have no label, and are {stored}")
    return MarkUnlabelled(bare, has_one)


def _find_splits(words: PathWords, spec: BuildSpec, source: Source) -> PathSplits | None:
    """Finds the splits that the paths or the input's name say; returns None if they say none.

    Raises:
      RequestError: they may be splits or not, or contradict a split column.
    """
    paths = name_inputs(spec.input).paths
    seen = source.description
    prefixes = {} if any(map(names_several, paths)) else dict(zip(paths, key_prefixes(paths), strict=True))
    inputs = WordsOf(
        f"`input={','.join(map(printable, paths))}`",
        prefixes,
        name=name_of_input(paths[0]) if len(paths) == 1 else "",
        most_depth=MOST_DEPTH if seen.prefix_depth is None else seen.prefix_depth,
        column=seen.split_column,
        by_image=plan_listing(spec, source).paths_are_images,
        include=spec.include,
        exclude=spec.exclude,
    )
    return judge_splits(words, inputs)
