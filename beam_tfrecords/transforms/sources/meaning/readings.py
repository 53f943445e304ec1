"""Infers labels and splits from folders after all files are listed, and proposes what ambiguous folders may mean."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import posixpath
from collections.abc import Iterator, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import Reading, RequestError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.service_faults import suppress_refusals
from beam_tfrecords.transforms.sources.class_files import is_class_file
from beam_tfrecords.transforms.sources.detect.interpretation import (
    Interpretation,
    Request,
    UnclearError,
    depth_of,
    describe_folders,
    join,
    show_names,
)
from beam_tfrecords.transforms.sources.detect.names import are_numbered, are_parts
from beam_tfrecords.transforms.sources.detect.tree import FolderSummary, FolderTree
from beam_tfrecords.transforms.sources.meaning.annotated import exclude
from beam_tfrecords.transforms.sources.meaning.annotation_sidecars import (
    are_annotated,
    describe_annotations,
    describe_documents,
    find_annotations,
    find_formats,
)
from beam_tfrecords.transforms.sources.meaning.companions import (
    find_companions,
    find_documents_of_folders,
    find_files_of_images,
    find_lost,
    find_rows_of_images,
    names_images,
)
from beam_tfrecords.transforms.sources.meaning.layouts import interpret
from beam_tfrecords.transforms.sources.meaning.pixels_alike import are_masks, find_drawn, find_drawn_ends
from beam_tfrecords.transforms.sources.meaning.row_sidecars import (
    find_contradictions,
    find_descriptions,
    find_folder_labels,
    find_rows,
    is_table,
    list_labels,
    list_lists,
    list_tables,
    list_unread,
    name_label_lists,
    name_split_lists,
    read_tables,
    split_of_list,
)
from beam_tfrecords.transforms.sources.names import is_about_folder, printable, stem_of
from beam_tfrecords.transforms.sources.registry import source_of_file
from beam_tfrecords.transforms.sources.source import Finish, Source
from beam_tfrecords.transforms.sources.tally import Tally
from beam_tfrecords.transforms.splits import split_words

_MOST_TABLES = 4
_MOST_PATHS = 3
_UNLABELLED = {"layout": "image"}
_MOST_NAMED = 3
_MOST_LISTS = 8
_MOST_CLASSES = 20
# Images of a tar whose masks are looked for.
_MOST_OF_TAR = 1000
# Format of annotations -> what its files may hold.
_ANNOTATIONS = {
    "COCO": "boxes, polygons, keypoints or captions",
    "YOLO": "boxes, polygons or keypoints",
    "Pascal VOC": "boxes, polygons and classes",
}


def refuse(error: UnclearError, tree: FolderTree, request: Request) -> RequestError:
    """Returns the error for an input with ambiguous folders, with suggested requests."""
    suggestions = [*propose(error, tree, request)]
    more = _describe_sidecars(tree, request, error.found)
    if request.spec.source in ("image_folder", "filename_pattern"):
        # The source in the request may not fit a pattern or a table.
        suggestions = [dataclasses.replace(one, settings={"source": None, **one.settings}) for one in suggestions]
    # The message states the finding first, then the remedy.
    seen, semicolon, remedy = error.found.partition("; ")
    return RequestError(f"{request.where}: {seen}{more}{semicolon}{remedy}", suggestions, code=error.code)


def _describe_sidecars(tree: FolderTree, request: Request, said: str = "") -> str:
    """Describes possible label files next to the images, for a message that says something so far."""
    annotations = describe_annotations(tree, request.roots)
    more = ""
    if annotations:
        more = f" (beside them are files that look like {annotations})"
    elif files := [*itertools.islice((one for one in find_files_of_images(tree) if one not in said), _MOST_PATHS)]:
        more = f" (beside them are files of each image: {', '.join(map(printable, files))})"
    rows = list_rows(tree)[:_MOST_PATHS]
    if rows:
        more += f" (tables beside them: {', '.join(map(printable, rows))})"
    return more


def list_rows(tree: FolderTree) -> list[str]:
    """Returns the paths of tables that may contain labels, and of lists whose names contain a split or such a word."""
    return [*list_tables(tree), *name_label_lists(tree)]


def find_sidecars(tree: FolderTree, request: Request) -> tuple[str, list[Reading]]:
    """Returns a message about possible label files next to the images, and the readings of these."""
    return _describe_sidecars(tree, request), [*_read_sidecars(tree, request)]


def _read_sidecars(tree: FolderTree, request: Request) -> Iterator[Reading]:
    """Yields readings of files next to the images instead of folder labels."""
    yield from find_annotations(tree, request)
    if request.by_folders:
        yield from (one for one, _ in itertools.islice(find_rows(tree, request), _MOST_TABLES))


def _find_samples(tree: FolderTree, request: Request) -> Iterator[Reading]:
    """Suggests a WebDataset for a tar archive with a text or JSON file beside each image."""
    archive = storage.archive_of(request.root) if request.root else None
    if archive is None or source_of_file(archive) != "tar":
        return
    names = [(path, *name.split(".")) for path, _ in tree.walk() for name in tree.others(path)]
    stems = {(path, stem) for path, stem, *_, extension in names if extension in ("json", "txt", "cls")}
    images = {(path, name.partition(".")[0]) for path, folder in tree.walk() for _, name in folder.names}
    if images and images <= stems:
        yield Reading("the samples of a WebDataset", {"source": "webdataset"})


def propose(error: UnclearError, tree: FolderTree, request: Request) -> Iterator[Reading]:
    """Yields what ambiguous folders may mean, as the settings that say so, the most certain ones first."""
    samples = [*_find_samples(tree, request)]
    yield from samples
    yield from find_annotations(tree, request)
    if Content.MASK in request.needs.contents:
        says_masks = bool(request.spec.mask_settings)
        yield from (one for one in error.answers if says_masks or "segmentation" in one.settings.values())
        return
    rows = list[tuple[Reading, bool]]()
    if request.by_folders and not error.has_lists:
        rows += itertools.islice(find_rows(tree, request), _MOST_TABLES)
    yield from (one for one, is_clear in rows if is_clear)
    yield from error.answers
    yield from (one for one, is_clear in rows if not is_clear)
    if Content.LABEL in request.needs.contents and samples:
        # As images of a plain archive, they would lose their fields without a note.
        yield from (Reading(f"{one.meaning}, without labels", {**one.settings, **_UNLABELLED}) for one in samples)
    elif Content.LABEL in request.needs.contents:
        yield Reading("all images, without labels", _UNLABELLED)


def finish_source(source: Source, folders: FolderSummary, tally: Tally) -> Finish:
    """Returns what only the whole listing of an input shows, with what its folders mean; adds notes on it.

    Args:
      source: the source that has listed the input.
      folders: folders of all samples.
      tally: counts of the listing; receives the notes.

    Raises:
      RequestError: the folders are ambiguous, or do not fit the request.
    """
    found: dict[str, Interpretation] = {}
    others = None
    for prefix, (tree, request) in source.questions(folders, tally).items():
        try:
            found[prefix], notes = infer_folders(tree, request)
        except storage.MemberError:
            # The files of a damaged archive cannot be opened; their names remain.
            found[prefix], notes = infer_folders(tree, dataclasses.replace(request, root=None, folders=()))
        tally.notes += notes
        others = functools.partial(find_sidecars, tree, request)
    finish = source.finish(folders, tally, found)
    if others is None:
        return finish
    return dataclasses.replace(finish, description=dataclasses.replace(finish.description, other_labels=others))


def infer_folders(tree: FolderTree, request: Request) -> tuple[Interpretation, list[str]]:
    """Returns the interpretation of an input's folders, and notes on it.

    Raises:
      RequestError: the folders are ambiguous; suggests settings.
    """
    try:
        found, notes = interpret(tree, request)
    except UnclearError as error:
        raise refuse(error, tree, request) from None
    if request.by_folders and not request.named:
        _refuse_alone(found, tree, request)
        notes += _refuse_drawn(found, tree, request)
        _refuse_annotated(found, tree, request)
    notes = [f"{request.where}: {one}" for one in notes]
    read = {one.path for one in found.lists.values()}
    named = tree.find_others(is_class_file)
    # Those of a folder itself are looked for when it is opened.
    class_files = [path for path in named if "/" in path or not _looks_for_classes(request)]
    files = _describe_unread(
        {} if Content.LABEL in request.needs.contents else find_formats(tree, request.roots),
        [] if request.named else class_files,
        [path for path in list_rows(tree) if path not in (*read, *named)],
        [
            *describe_documents(tree, request.roots),
            *_describe_lists(tree, request),
            *(_describe_documents(found, tree, request) if request.by_folders and not request.named else ()),
        ],
    )
    if request.by_folders:
        why = "the folders give the labels"
    elif request.spec.join:
        why = "only joined tables give labels"
    else:
        has_pattern = Content.LABEL in request.needs.contents
        why = "`label_pattern` gives the labels" if has_pattern else "no folder gives a label"
    classes = _note_parts(found, tree) if request.by_folders and not request.named else ()
    if Content.LABEL not in request.needs.contents:
        classes = describe_folders(path for path, folder in tree.walk() if folder.images)
    splits = [] if found.has_splits or not request.needs.splits.are_auto else [*_describe_splits(tree)]
    notes += [f"{request.where}: {one}" for one in (*(f"{why}; not read: {file}" for file in files), *classes, *splits)]
    return found, notes


def _describe_unread(
    annotations: Mapping[str, str], class_files: Sequence[str], files: Sequence[str], others: Sequence[str]
) -> Iterator[str]:
    """Describes the files beside images that may annotate them and are not read.

    Args:
      annotations: format -> an example of its files.
      class_files: paths of files of class names that no source reads there.
      files: paths of tables and lists.
      others: further files, in words.
    """
    for kind, path in annotations.items():
        yield f"annotations of {kind} ({path}), which may hold {_ANNOTATIONS[kind]}"
    for path in class_files:
        yield f"{printable(path)}, which may name the classes; `class_names` takes such a file"
    yield from others
    if files:
        yield f"{', '.join(map(printable, files[:_MOST_NAMED]))}{', …' if len(files) > _MOST_NAMED else ''}"


def _describe_lists(tree: FolderTree, request: Request) -> Iterator[str]:
    """Describes the other texts that name images, such as those to leave out."""
    named = {*name_label_lists(tree)}
    others = (one for one in list_lists(tree) if one not in named)
    for path in itertools.islice(others, _MOST_LISTS) if request.root else ():
        if not is_about_folder(posixpath.basename(path)) and names_images(tree, request.path(""), path):
            yield f"{printable(path)}, which names images"


def _describe_documents(found: Interpretation, tree: FolderTree, request: Request) -> Iterator[str]:
    """Describes the documents that name the class folders, which may be those of films or patients."""
    folders = _class_folders(found, tree) if request.root else []
    with suppress_refusals():
        found_in = find_documents_of_folders(tree, request.path(""), folders)
        # Another note covers files of class names.
        for path in (one for one in found_in if not is_class_file(posixpath.basename(one))):
            yield f"{printable(path)}, which names the folders"


def _looks_for_classes(request: Request) -> bool:
    """Whether files of class names in the folders have been looked for."""
    # Finding them in a whole archive, whose path ends with its mark, may take reading it.
    return bool(request.folders) and not request.folders[0].endswith("#")


def _note_parts(found: Interpretation, tree: FolderTree) -> Iterator[str]:
    """Yields a note on class folders with the names of parts of the images."""
    folders = _class_folders(found, tree)
    names = sorted({*map(storage.basename, folders)})
    first, *others = (set(some) for some in tree.names_alike(folders[:_MOST_NAMED])) if folders else [set[str]()]
    # As P01 and P02, with slices of the same names.
    are_like_parts = len(names) > _MOST_NAMED and are_numbered(names) and bool(first.intersection(*others))
    if (are_parts(names) or are_like_parts) and not found.lists:
        shown = show_names(names)
        yield f"the folders {shown} are the classes; if they are parts of the dataset, `layout=image` leaves them out"


def _describe_splits(tree: FolderTree) -> Iterator[str]:
    """Yields a note on folders of several splits that lie too deep to be read as such."""
    paths = (path for path, folder in tree.walk() if folder.images)
    splits = {name: split for path in paths for name, split in split_words(path).items()}
    if len({*splits.values()}) > 1:
        yield f"the folders {show_names(sorted(splits))} are not read as splits; `input=train=FOLDER` names one"


def _class_folders(found: Interpretation, tree: FolderTree) -> list[str]:
    """Returns the paths of the folders that are the classes; none if whole paths are."""
    return [] if found.is_nested else [join(base, name) for base in found.bases for name in tree.below(base)]


def _refuse_alone(found: Interpretation, tree: FolderTree, request: Request) -> None:
    """Raises an error if most class folders hold a single image, because such folders are seldom classes."""
    folders = _class_folders(found, tree)
    count, images = len({*map(storage.basename, folders)}), sum(map(tree.total, folders))
    if count > _MOST_CLASSES and 2 * count > images:
        pattern = request.class_pattern(depth_of(next(iter(found.bases))))
        error = UnclearError(
            f"nearly each image has a class of its own: {count:,} folders for {images:,} images, such as "
            f"{show_names(folders[:_MOST_NAMED])}",
            [Reading("the folders as classes", {"label_pattern": pattern})],
            code="unclear_folders",
        )
        raise refuse(error, tree, request)


def _refuse_drawn(found: Interpretation, tree: FolderTree, request: Request) -> list[str]:
    """Raises an error if the images of some class folders, or of some names, look like masks, unlike the others.

    Returns:
      A note if all of them do.
    """
    classes: dict[str, list[str]] = {}
    archive = storage.archive_of(request.root or "")
    # To find a member of a large tar takes as long as to list it.
    is_large = archive is not None and source_of_file(archive) == "tar" and tree.total() > _MOST_OF_TAR
    for path, folder in tree.walk() if request.root is not None and not is_large else ():
        label = found.place(f"{path}/")[0] if folder.images else None
        if label is not None:
            classes.setdefault(label, []).extend(request.path(join(path, name)) for _, name in folder.names)
    whole = Reading("all folders as classes", {"class_names": ",".join(classes)})
    may_be_named = len(classes) <= _MOST_CLASSES and not any("," in name for name in classes)
    drawn, ends = list[str](), list[str]()
    # Archives may be damaged, or replaced in the meantime; their images are rejected then.
    with suppress_refusals():
        drawn += find_drawn(classes)
        ends += find_drawn_ends(itertools.chain.from_iterable(classes.values()))
        if not (drawn or ends) and are_masks(paths[0] for paths in classes.values() if paths):
            return ["the images of all classes have few values, like masks"]
    if not (drawn or ends):
        return []
    if drawn:
        folders = [path for path in _class_folders(found, tree) if storage.basename(path) in drawn]
        seen, others = f"in {show_names(folders)}", "those of the other classes"
        outside = f"the images outside {show_names(folders)}"
        left = [Reading(outside, exclude(folders, request, tree))] if folders else []
    else:
        seen, others = show_names(ends), "the others"
        left = [Reading("the others", {"exclude": [*request.spec.exclude, *ends]})]
    error = UnclearError(
        f"the images {seen} have few values, like masks, unlike {others}",
        [*left, whole] if may_be_named else left,
        code="images_and_masks",
    )
    raise refuse(error, tree, request)


def _move_images(lists: Sequence[str], found: Interpretation, tree: FolderTree, root: str) -> bool:
    """Whether lists of splits give images another split than their folders."""
    for path in lists if root else ():
        for row in find_rows_of_images(storage.join(root, path), tree.image_names):
            word = row.split()[0]
            # Paths may be relative to the folder of a split.
            named = [one for one in tree.paths_by_stem.get(stem_of(word), ()) if f"/{one}".endswith(f"/{word}")]
            splits = {found.place(one)[1] for one in named or [word]}
            if len(splits) == 1 and not splits <= {None, split_of_list(path)}:
                return True
    return False


def _refuse_annotated(found: Interpretation, tree: FolderTree, request: Request) -> None:
    """Raises an error if files next to class folders annotate or contradict them, because either may be meant."""
    for what, rows in _find_doubts(found, tree, request):
        pattern = request.class_pattern(depth_of(next(iter(found.bases))))
        pattern = pattern.replace("[^/]+)/", ".+)/[^/]+$") if found.is_nested else pattern
        folders = Reading("the folders as classes", {"label_pattern": pattern})
        error = UnclearError(f"the folders may be classes, but there are {what}", [folders], code="unclear_folders")
        refused = refuse(error, tree, request)
        are_read = any("label_column" in one.settings for one in refused.suggestions)
        raise RequestError(refused.message, [*([] if are_read else rows), *refused.suggestions], code=refused.code)


def _find_doubts(found: Interpretation, tree: FolderTree, request: Request) -> Iterator[tuple[str, Sequence[Reading]]]:
    """Yields reasons to doubt that the folders are classes, the strongest first, each with readings of the files."""
    root = request.root or ""
    # Without a root folder, only names can tell, and no file is offered.
    if are_annotated(tree, request):
        yield "annotations of their images", ()
    lists = name_split_lists(tree)
    are_new = request.needs.splits.are_auto and (not found.has_splits or _move_images(lists, found, tree, root))
    if (
        lists
        and are_new
        and (not root or list_labels(tree, request) or all(names_images(tree, root, path) for path in lists))
    ):
        yield f"lists of splits ({', '.join(map(printable, lists))})", ()
    classes = _class_folders(found, tree)
    used = {one.path for one in found.lists.values()}
    companions, lost = list[str](), list[str]()
    with suppress_refusals():
        companions += (one for one in find_companions(tree, root, classes) if one not in used)
    if companions:
        yield _describe_files(companions), ()
    if not root:
        return
    tables = read_tables(tree, root)
    # Another check asks about a single class.
    if len(classes) != 1:
        every = {**tables, **read_tables(tree, root, list_lists(tree))}
        unlike = {
            path: {**({} if is_table(path) else {"source": "csv"}), "input": storage.join(root, path)}
            for path in find_contradictions(every, tree, found.place)
        }
        if unlike:
            yield _describe_files([*unlike]), [Reading(f"the rows of {path}", one) for path, one in unlike.items()]
    broken = (path for path in list_unread(tree, tables) if names_images(tree, root, path))
    if more := [*find_descriptions(tables, tree), *broken]:
        yield _describe_files(more), ()
    if others := [*find_folder_labels(tables, classes)]:
        shown = "; ".join(others[:_MOST_NAMED])
        yield f"other labels of them ({shown}); a table with a row for each image gives these", ()
    with suppress_refusals():
        lost += find_lost(tree, root, [*found.bases])
    if lost:
        yield f"files that may hold further images ({', '.join(map(printable, lost[:_MOST_NAMED]))})", ()


def _describe_files(paths: Sequence[str]) -> str:
    return f"files that may annotate their images ({', '.join(map(printable, paths[:_MOST_NAMED]))})"
