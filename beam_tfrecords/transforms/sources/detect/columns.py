"""Assigns roles to the columns of a table: as the request states, or by usual names."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterable, Mapping, Sequence

from beam_tfrecords import storage
from beam_tfrecords.errors import Reading, RequestError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.transforms.refs.sample_refs import IMAGE
from beam_tfrecords.transforms.sources.detect.box_columns import describe_boxes, find_boxes
from beam_tfrecords.transforms.sources.detect.column_names import (
    IMAGE_NAMES,
    MASK_NAMES,
    USUAL_LABELS,
    find_usual,
    is_label_name,
)
from beam_tfrecords.transforms.sources.detect.column_suggestions import (
    column_suggestions,
    suggest_classes,
    suggest_values,
)
from beam_tfrecords.transforms.sources.detect.image_columns import find_lists, name_images, suggest_images
from beam_tfrecords.transforms.sources.detect.mask_columns import find_masks
from beam_tfrecords.transforms.sources.detect.roles import NO_LABELS, Role, role_of, roles_of
from beam_tfrecords.transforms.sources.detect.split_column import SplitColumn, find_split_column
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.names import printable
from beam_tfrecords.transforms.sources.needs import ONLY_CLASS, Needs
from beam_tfrecords.transforms.sources.tables.box_cells import BoxColumns, MaskColumns
from beam_tfrecords.transforms.sources.tables.cells import is_pattern, pattern_columns, split_patterns
from beam_tfrecords.transforms.sources.tables.object_cells import ObjectColumns, find_objects
from beam_tfrecords.transforms.sources.tables.table import Table, available, first_cells
from beam_tfrecords.transforms.sources.tables.table_settings import LabelType, TableSettings


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns by role; None for a role without a column.

    Attributes:
      image: column with the path of the first image.
      patterns: name of an image -> pattern that makes its path from columns; empty if columns have the paths.
      label: column with the label.
      split: column with the split.
      key: column with the key.
      group: column with the group; all rows of a group go to the same split.
      labels: columns of zeros and ones, one per class.
      objects: columns of annotated objects.
      mask: column with the mask path.
      images: name of an image -> column with its path or list of paths; empty if a pattern makes the paths.
      lists: names of images whose column has lists.
      boxes: columns of the box, or of the masks, in each row.
    """

    image: str | None
    patterns: Mapping[str, str]
    label: str | None
    split: SplitColumn | None
    key: str | None
    group: str | None = None
    labels: tuple[str, ...] = ()
    objects: ObjectColumns | None = None
    mask: str | None = None
    images: Mapping[str, str] = dataclasses.field(default_factory=dict)
    lists: frozenset[str] = frozenset()
    boxes: BoxColumns | MaskColumns | None = None

    @functools.cached_property
    def needed(self) -> list[str]:
        """All columns with a role."""
        split = self.split.name if self.split else None
        columns = *self.images.values(), self.label, split, self.key, self.group, self.mask
        named = [name for name in columns if name is not None]
        annotated = [name for part in (self.objects, self.boxes) if part for name in part.needed]
        return [*named, *self.labels, *self.of_patterns, *annotated]

    @property
    def has_images(self) -> bool:
        """Whether the samples have images."""
        return self.image is not None or bool(self.patterns)

    @property
    def of_patterns(self) -> list[str]:
        """The columns that the patterns name."""
        return [name for pattern in self.patterns.values() for name in pattern_columns(pattern)]


def choose_columns(
    table: Table, settings: TableSettings, needs: Needs, *, has_classes: bool = False
) -> tuple[Columns, list[str]]:
    """Returns the columns of a table by role, and notes on guessed columns.

    Args:
      table: the table.
      settings: settings of the table.
      needs: requested contents.
      has_classes: whether the file declares the classes of the label column.

    Raises:
      RequestError: a column in the request does not exist, or its values do not fit its role.
    """
    _refuse_contradictions(table, settings)
    notes = list(table.notes)
    taken: list[str] = []

    def choose(setting: str, names: Sequence[str], what: str, *, text: bool = False) -> str | None:
        named: str | None = getattr(settings, setting)
        if named is not None:
            if named not in table.columns:
                raise RequestError(
                    f"`{setting}={named}`: {table.path} has no such column; {available(table, named)}",
                    code="unknown_column",
                )
            return named
        are_classes = setting == "label_column" and settings.label_type is LabelType.CLASS
        guessed = find_label(table, names) if are_classes else _guess(table, names, text=text)
        if guessed is not None and guessed != names[0]:
            taken.append(f"{what} from column {guessed!r}")
        return guessed

    wants_image, wants_label = Content.IMAGE in needs.contents, Content.LABEL in needs.contents
    usual_images = () if settings.image_path is not None else IMAGE_NAMES if wants_image else IMAGE_NAMES[:1]
    images = name_images(table.columns, table, settings, needs.images)
    if not images or images.get(IMAGE) == "":
        guessed = choose("image_column", usual_images, "images", text=True)
        if usual_images and guessed != IMAGE_NAMES[0] and wants_image and not images:
            _refuse_several_images(table)
        images = {**images, IMAGE: guessed} if guessed else {}
    listed = find_lists(table, images)
    images = {column if column in listed and name == IMAGE else name: column for name, column in images.items()}
    lists = frozenset(name for name, column in images.items() if column in listed)
    image = next(iter(images.values()), None)
    usual_labels = () if settings.label_columns else USUAL_LABELS if wants_label else USUAL_LABELS[:1]
    label = choose("label_column", usual_labels, "labels")
    if label is not None and settings.label_column is None and wants_label:
        _refuse_other_labels(table, label, settings, image=image)
    if settings.label_column is not None and settings.label_type is LabelType.CLASS and not has_classes:
        _refuse_other_cells(table, settings.label_column, image=image)
    masks = _choose_masks(table, settings, needs, taken, image)
    reads_mask = Content.MASK in needs.contents and masks is None
    mask = choose("mask_column", MASK_NAMES, "masks", text=True) if reads_mask else None
    key = choose("key_column", (), "keys")
    group = choose("group_column", (), "groups")
    patterns = split_patterns(settings.image_path) if settings.image_path is not None else {}
    of_patterns = (name for pattern in patterns.values() for name in pattern_columns(pattern))
    others = *images.values(), mask, key, group, *settings.label_columns, *of_patterns
    split, note = find_split_column(table, settings.split_column, needs.splits, taken=[label, *others])
    if note:
        taken.append(note)
    for pattern in patterns.values():
        _check_pattern(table, pattern)
    reads_objects = masks is None and (mask is None or Content.OBJECTS in needs.required)
    objects = find_objects(table, settings, needs, find_label(table)) if reads_objects else None
    if objects is not None:
        taken.append(f"boxes from column {objects.column!r}")
        label = None if label == objects.labels else label
    boxes = masks or (_choose_boxes(table, settings, needs, taken, others) if objects is None else None)
    if boxes is not None and boxes.label is not None and settings.label_column is None:
        _refuse_other_labels(table, boxes.label, settings, image=image)
    if boxes is not None and not wants_label:
        label = None
    if taken:
        notes.append(f"{printable(storage.basename(table.path))}: {', '.join(taken)}")
    labels = settings.label_columns
    found = Columns(image, patterns, label, split, key, group, labels, objects, mask, images, lists, boxes)
    _check_needed(table, settings, needs, found)
    return found, notes


def _refuse_contradictions(table: Table, settings: TableSettings) -> None:
    pattern, image, label = settings.image_path, settings.image_column, settings.label_column
    if pattern is not None and image is not None:
        raise RequestError(
            f"`image_path={pattern}` and `image_column={image}` both say where the images are; leave one out",
            code="conflicting_settings",
        )
    for name in settings.label_columns:
        if name not in table.columns:
            raise RequestError(
                f"`label_columns`: {table.path} has no column {name!r}; {available(table, name)}", code="unknown_column"
            )
    if label is not None and settings.label_columns:
        raise RequestError(
            f"`label_column={label}` and `label_columns` both say where the labels are; leave one of them out",
            code="conflicting_settings",
        )


def _choose_boxes(
    table: Table, settings: TableSettings, needs: Needs, taken: list[str], others: Collection[str | None]
) -> BoxColumns | None:
    """Returns the box columns unless the request wants only labels; adds to `taken` for the note.

    Args:
      table: the table.
      settings: settings of the table.
      needs: requested contents.
      taken: what was found.
      others: columns with another role.
    """
    if Content.OBJECTS not in needs.contents or settings.label_columns or settings.label_type is not LabelType.CLASS:
        return None
    label = _label_of_objects(table, settings)
    boxes = find_boxes(table, settings, needs, label)
    if boxes and label in boxes.sides:
        # A column `y` may be a class, but not next to a column `x`.
        boxes = find_boxes(table, settings, needs, None)
    if boxes is not None:
        taken.append(describe_boxes(boxes))
        if boxes.label is None and len(needs.class_names) != 1:
            _refuse_unclear_classes(table, others)
    return boxes


def _choose_masks(
    table: Table, settings: TableSettings, needs: Needs, taken: list[str], image: str | None
) -> MaskColumns | None:
    """Returns the column with the masks of objects; adds to `taken` for the note."""
    masks = find_masks(table, settings, needs, _label_of_objects(table, settings), image=image)
    if masks is not None:
        alone = "" if masks.label else f", all of the class {masks.only!r}"
        order = f", runs {masks.run_order.words}" if _role_of(table, masks.column) is Role.RUNS else ""
        taken.append(f"masks of objects from column {masks.column!r}{order}{alone}")
    return masks


def _label_of_objects(table: Table, settings: TableSettings) -> str | None:
    by_name = [name for name in table.columns if is_label_name(name) and _role_of(table, name) not in NO_LABELS]
    return settings.label_column or find_label(table) or (by_name[0] if len(by_name) == 1 else None)


def _refuse_unclear_classes(table: Table, others: Collection[str | None]) -> None:
    """Refuses boxes if columns of words may have their classes; columns with another role do not count."""
    found = [one for one in suggest_classes(table) if one.settings["label_column"] not in others]
    if found:
        names = ", ".join(one.settings["label_column"] for one in found)
        what = "a column that may have" if len(found) == 1 else "several columns that may have"
        raise RequestError(
            f"{quote_input(table.path)} has boxes and {what} their classes ({names}); name one with `label_column`; "
            f"{available(table)}",
            [*found, Reading("boxes of one class", {"class_names": ONLY_CLASS})],
            code="unclear_label_column",
        )


def _check_needed(table: Table, settings: TableSettings, needs: Needs, found: Columns) -> None:
    """Checks that all columns that the layout needs exist and have suitable values."""
    lacks_label = found.label is None and Content.LABEL in needs.contents
    wrong = next(
        (one for name, one in found.images.items() if name not in found.lists and not table.may_hold_text(one)), None
    )
    if wrong is not None:
        raise RequestError(
            f"{quote_input(table.path)}: the values in column {wrong!r} are not strings, but an image is given by its "
            f"path; name the column with the paths with `image_column`; {available(table)}",
            column_suggestions(table, image=None, needs_image=True, needs_label=lacks_label),
            code="column_without_images",
        )
    if lacks_label and not settings.label_columns and not (found.objects or found.boxes):
        for name in find_usual(table.columns, USUAL_LABELS):
            _refuse_other_cells(table, name, image=found.image)
        raise RequestError(
            f"{quote_input(table.path)} has no column 'label', which the layout needs; name another with "
            f"`label_column`; {available(table)}",
            _suggest_values(table, settings)
            or column_suggestions(
                table,
                image=found.image,
                needs_image=found.image is None and settings.image_path is None,
                needs_label=True,
            ),
            code="missing_label_column",
        )
    has_polygons = isinstance(found.boxes, MaskColumns) or (found.objects and found.objects.has_polygons)
    if Content.MASK in needs.contents and found.mask is None and not has_polygons:
        raise RequestError(
            f"{quote_input(table.path)} has no column 'mask', which the layout needs; name another with `mask_column`; "
            f"{available(table)}",
            code="missing_mask_column",
        )
    if settings.group_rows and (len(found.images or found.patterns) > 1 or found.lists):
        raise RequestError(
            "`group_rows` joins the rows of one image, and these rows have several images; leave it out, and name a "
            "column of unique values with `key_column`",
            code="several_images_per_row",
        )


def _refuse_several_images(table: Table) -> None:
    """Refuses a table with several image columns but none named `image`: each could be the one to use."""
    cells = first_cells(table, [name for name in table.columns if name not in table.embedded])
    found = [name for name, role in roles_of(cells).items() if role is Role.IMAGE]
    if len(found) < 2:
        return
    usual = [*find_usual(found, IMAGE_NAMES)]
    found.sort(key=lambda name: usual.index(name) if name in usual else len(usual))
    raise RequestError(
        f"{quote_input(table.path)} has several columns with images ({', '.join(found)}); name one, or several "
        f"images of a sample, with `image_column`; {available(table)}",
        suggest_images(found, cells, "column"),
        code="several_image_columns",
    )


def _refuse_other_labels(table: Table, label: str, settings: TableSettings, *, image: str | None) -> None:
    """Refuses a table without a header in which other columns may be the label as well."""
    if not table.other_labels:
        return
    raise RequestError(
        f"{quote_input(table.path)}: no header names the columns, and {', '.join((label, *table.other_labels))} may be "
        f"the labels; name their column with `label_column`; {available(table)}",
        _suggest_values(table, settings)
        or column_suggestions(table, image=image, needs_image=False, needs_label=True, needs_boxes=False),
        code="unclear_label_column",
    )


def _suggest_values(table: Table, settings: TableSettings) -> list[Reading]:
    """Suggests columns of labels of the type that the request states; [] for classes."""
    is_class = settings.label_type is LabelType.CLASS
    return [] if is_class else suggest_values(table, are_numbers=settings.label_type is LabelType.FLOAT)


def _refuse_other_cells(table: Table, label: str, *, image: str | None) -> None:
    """Refuses a label column whose cells cannot be classes, such as names of images, annotations or vectors."""
    role = _role_of(table, label)
    if role not in NO_LABELS:
        return
    suggestions = [
        dataclasses.replace(one, settings={"label_column": None, **one.settings})
        for one in column_suggestions(table, image=image, needs_image=False, needs_label=True)
    ]
    if role is Role.VECTOR:
        vectors = Reading(f"the numbers in column {label!r}", {"label_column": label, "label_type": "float"})
        suggestions = [vectors, *suggestions]
    raise RequestError(
        f"{quote_input(table.path)}: column {label!r} has {'images' if label in table.embedded else role.value} in "
        f"place of classes; name the column of the classes with `label_column`; {available(table)}",
        suggestions,
        code="column_without_labels",
    )


def has_labels(table: Table, named: Sequence[str]) -> bool:
    """Whether a table has the label columns that the request names, or a label column with a usual name."""
    return set(named) <= set(table.columns) if named else find_label(table) is not None


def choose_label(
    table: Table,
    settings: TableSettings,
    needs: Needs,
    *,
    declared: Iterable[str] = (),
    first: Sequence[str] = (),
    then: Sequence[str] = (),
    lacks: str = "no column 'label'",
) -> str | None:
    """Chooses the label column of a file that contains its images; None if not needed, or if objects have the classes.

    Args:
      table: the table without its image columns.
      settings: settings of the table.
      needs: requested contents.
      declared: columns with declared class names; a single such column is the label column.
      first: usual names in such files, tried before the usual names of tables.
      then: columns to try last.
      lacks: description of the missing column, for the error message.

    Raises:
      RequestError: there is no label column.
    """
    if settings.label_column is not None or settings.label_columns or Content.LABEL not in needs.contents:
        return settings.label_column
    classes = [name for name in declared if name in table.columns]
    usual_names = (*first, *USUAL_LABELS)
    are_classes = settings.label_type is LabelType.CLASS
    usual = find_label(table, usual_names) if are_classes else _guess(table, usual_names, text=False)
    label = classes[0] if len(classes) == 1 else usual or next((name for name in then if name in table.columns), None)
    if label is None and find_objects(table, settings, needs, None) is None:
        for name in find_usual(table.columns, usual_names):
            _refuse_other_cells(table, name, image=None)
        raise RequestError(
            f"{quote_input(table.path)} has {lacks}, which the layout needs"
            + (f"; name another with `label_column`; {available(table)}" if table.columns else ""),
            column_suggestions(table, image=None, needs_image=False, needs_label=True),
            code="missing_label_column",
        )
    return label


def find_label(table: Table, names: Sequence[str] = USUAL_LABELS) -> str | None:
    """Returns the first column with a usual name whose cells may be classes; None if there is none."""
    return next((name for name in find_usual(table.columns, names) if _role_of(table, name) not in NO_LABELS), None)


def _role_of(table: Table, name: str) -> Role:
    return role_of(name, first_cells(table, [name])[name])


def _check_pattern(table: Table, pattern: str) -> None:
    if not is_pattern(pattern):
        raise RequestError(
            f"`image_path={pattern}`: expected a path with columns in braces, such as train/{{id}}.jpg",
            code="invalid_value",
        )
    for name in pattern_columns(pattern):
        if name not in table.columns:
            raise RequestError(
                f"`image_path={pattern}`: {table.path} has no column {name!r}; {available(table, name)}",
                code="unknown_column",
            )


def _guess(table: Table, names: Sequence[str], *, text: bool) -> str | None:
    """Returns the first column with a usual name; with `text`, only the first name may be a column without strings."""
    found = find_usual(table.columns, names)
    return next((name for name in found if not text or name == names[0] or table.may_hold_text(name)), None)
