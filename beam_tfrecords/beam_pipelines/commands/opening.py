"""Opens the argument of `inspect`, `verify` and `export`: a dataset, or TFRecord files of other programs."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from beam_tfrecords import storage
from beam_tfrecords.dataset.dataset import StoredDataset
from beam_tfrecords.dataset.pointers import open_latest
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.transforms.workspace.build_folder import Workspace

if TYPE_CHECKING:
    from beam_tfrecords.transforms.sources.records.record_files import RecordFiles


def open_dataset_or_files(path: str) -> StoredDataset | RecordFiles:
    """Opens the finished dataset at a path, or finds the TFRecord files there.

    Raises:
      RequestError: the path has neither; the message says what it has.
      BuildError: the dataset's manifest cannot be read.
    """
    try:
        return open_latest(path)
    except RequestError as error:
        from beam_tfrecords.beam_pipelines.commands.record_files import find_foreign_files
        from beam_tfrecords.transforms.sources.names import is_image_name
        from beam_tfrecords.transforms.sources.registry import RECORDS, source_of_file

        kind = source_of_file(path) or ("image_folder" if is_image_name(path) else None)
        found = find_foreign_files(path, error) if kind in (None, RECORDS) else None
        if found:
            return found
        absolute = storage.absolute(path)
        seen = _describe_input(absolute, is_known=kind not in (None, "image_folder"))
        if error.code != "no_dataset" or not seen:
            raise
        what = f"{absolute} is not a dataset (the `output` of a build)" if storage.is_file(path) else error.message
        raise RequestError(f"{what}; {seen}", code=error.code) from error


def _describe_input(path: str, *, is_known: bool) -> str:
    """Says what `convert` takes a local path for, or why it refuses a file with a known extension; "" for others."""
    from beam_tfrecords.beam_pipelines.build.listing.source_opening import open_spec_source
    from beam_tfrecords.beam_pipelines.settings.definitions import read_build_spec

    if storage.has_scheme(path) or storage.is_folder(Workspace(path).path):
        return ""
    try:
        _, source = open_spec_source(read_build_spec({"input": path, "output": f"{path}.out"}))
    except RequestError as error:
        return (
            re.sub(r"\A`input=[^`]*`(: )?", lambda start: "" if start[1] else "it", error.message) if is_known else ""
        )
    except (BuildError, OSError):
        return ""
    command = shlex.join(["beam-tfrecords", "convert", f"--input={path}", "--output=FOLDER", "--dry_run"])
    return f"convert reads it as {source.name}; this lists it: {command}"
