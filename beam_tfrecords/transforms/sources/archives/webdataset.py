"""The source for WebDatasets: tar archives whose consecutive members with the same stem form a sample."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from beam_tfrecords.errors import RequestError, SampleError, Suggestion
from beam_tfrecords.features.contents import Content
from beam_tfrecords.storage.tar_archive import open_tar
from beam_tfrecords.transforms.sources.archives.webdataset_samples import (
    PICKLES,
    ReadWebDataset,
    decode,
    is_image,
    is_index,
    is_object,
    is_pickle,
    is_value,
    list_members,
)
from beam_tfrecords.transforms.sources.description import Description
from beam_tfrecords.transforms.sources.detect.column_names import is_mask_name
from beam_tfrecords.transforms.sources.detect.columns import choose_label
from beam_tfrecords.transforms.sources.detect.image_columns import choose_image, choose_mask
from beam_tfrecords.transforms.sources.inputs import InputFile, Inputs, describe_splits, find_files, quote_input
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest
from beam_tfrecords.transforms.sources.tables.row_source import RowSource, splits_of
from beam_tfrecords.transforms.sources.tables.table import MOST_ROW_SIZE, FirstRows
from beam_tfrecords.transforms.sources.tables.table_settings import LabelType, TableSettings

# Number of samples for finding the columns, and of members for recognizing a WebDataset.
_SAMPLES = 32
_MEMBERS = 64
# Suffix of captions.
_TEXTS = "txt"


@dataclasses.dataclass(frozen=True)
class _Start(FirstRows):
    """The first samples of an archive, presented as a table.

    Attributes:
      images: suffix of images -> number of samples with such an image.
      pickles: suffixes of pickles, which are never opened.
    """

    images: Mapping[str, int] = dataclasses.field(default_factory=dict)
    pickles: frozenset[str] = frozenset()


class WebDatasetSource(RowSource):
    """WebDataset archives.

    Raises:
      RequestError: the archives do not fit the request.
    """

    description = Description(unit="sample", labels_may_be_indices=True)

    def __init__(
        self, files: Sequence[InputFile], start: _Start, inputs: Inputs, settings: TableSettings, needs: Needs
    ) -> None:
        super().__init__(files, inputs)
        self.notes += describe_splits([file.entry.path for file in files], [file.split for file in files], inputs)
        image, mask = _choose_images(start, settings, needs)
        label = _choose_label(start, settings, needs)
        cells = self._take_columns(start, settings, needs, label, has_mask=mask is not None)
        others = [suffix for suffix in sorted(start.images) if suffix not in (image, mask) and (image or "." in suffix)]
        self._describe(other_images=others)
        self.read: ReadWebDataset = ReadWebDataset(cells, image, splits_of(files), mask)


def recognises(partition: Partition, settings: TableSettings, needs: Needs) -> bool:
    """Whether a tar archive is a WebDataset.

    Members with the same name may also be a photo and a program's sidecar file. So a WebDataset must have a class
    number, or a text or JSON object outside folders, or a mask if the request needs masks.
    """
    try:
        with open_tar(partition.uri, size=partition.size, version=partition.version) as archive:
            found = [(key, suffix) for key, suffix, _ in itertools.islice(list_members(archive, partition), _MEMBERS)]
    except SampleError:
        return False
    kinds = Counter(key for key, suffix in found if is_image(suffix))
    beside = [(key, suffix) for key, suffix in found if kinds[key]]
    return any(is_index(suffix) for _, suffix in beside) or any(
        ("/" not in key and (is_value(suffix) or is_object(suffix)))
        or (Content.MASK in needs.contents and kinds[key] > 1 and is_image(suffix) and is_mask_name(suffix))
        for key, suffix in beside
    )


def open_input(request: OpenRequest) -> MakeSource:
    """Finds the archives, and reads the first samples.

    Raises:
      RequestError: an archive does not exist, or the archives do not fit the request.
    """
    inputs, table, needs = request.inputs, request.spec, request.needs
    files = find_files(inputs, by_name=needs.splits.are_auto and not table.split_column)
    try:
        start = _read_start(Partition.of(files[0].entry, key_prefix=""))
    except SampleError as error:
        where = quote_input(files[0].entry.path)
        raise RequestError(f"{where} is not a tar archive: {error.detail}", code="invalid_file") from error
    return functools.partial(WebDatasetSource, files, start, inputs, table)


def _read_start(partition: Partition) -> _Start:
    rows: dict[str, dict[str, Any]] = {}
    images: Counter[str] = Counter()
    pickles: set[str] = set()
    with open_tar(partition.uri, size=partition.size) as archive, contextlib.suppress(SampleError):
        # Ignores damage after the first header, because the listing rejects the damaged sample.
        for key, suffix, member in list_members(archive, partition):
            if key not in rows and len(rows) == _SAMPLES:
                break
            row = rows.setdefault(key, {})
            images[suffix] += is_image(suffix)
            if is_pickle(suffix):
                pickles.add(suffix)
            if (is_value(suffix) or is_object(suffix)) and member.size <= MOST_ROW_SIZE:
                data = b"".join(member.chunks())
                with contextlib.suppress(SampleError):
                    row.update(decode(suffix, data))
            if is_value(suffix):
                row.setdefault(suffix, None)
    columns = tuple(dict.fromkeys(name for row in rows.values() for name in row))
    return _Start(partition.uri, columns, list(rows.values()), images=+images, pickles=frozenset(pickles))


def _choose_images(start: _Start, settings: TableSettings, needs: Needs) -> tuple[str, str | None]:
    """Returns the suffix of the images, "" for any without a dot, and the suffix of the masks or None."""
    suffixes = dataclasses.replace(start, columns=sorted(start.images))
    mask = None
    if Content.MASK in needs.contents:
        mask = choose_mask(suffixes.columns, suffixes, _plain_suffix(settings.mask_column))
    images = [suffix for suffix in suffixes.columns if suffix != mask]
    named = _plain_suffix(settings.image_column)
    plain = [""] if not images or any("." not in suffix for suffix in images) else []
    return choose_image([plain, images], suffixes, named, lacks="no image in its first samples"), mask


def _plain_suffix(suffix: str | None) -> str | None:
    return suffix and suffix.lower().lstrip(".")


def _choose_label(start: _Start, settings: TableSettings, needs: Needs) -> str | None:
    """Returns the label column; None if none is needed."""
    named = [name for name in (settings.label_column, *settings.label_columns, *sorted(needs.columns or ())) if name]
    pickle = next((name for name in named if name in start.pickles or name in PICKLES), None)
    if pickle is not None:
        raise RequestError(
            f"{quote_input(start.path)}: the members .{pickle} are pickles, which can run any code and are never "
            "opened; write them as .cls, .txt or .json",
            code="pickle_labels",
        )
    try:
        return choose_label(start, settings, needs, first=("cls",), lacks="no .cls and no field 'label'")
    except RequestError as error:
        texts = {"label_column": _TEXTS, "label_type": LabelType.TEXT.value}
        captions = [Suggestion("the texts of .txt as captions", texts)] if _TEXTS in start.columns else []
        raise RequestError(error.message, [*captions, *error.suggestions], code=error.code) from None
