"""Opens the source of a request."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from beam_tfrecords import storage
from beam_tfrecords.dataset.dataset import is_dataset
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.storage.beside import does_not_exist
from beam_tfrecords.transforms.mapping.user_function import UserFunction
from beam_tfrecords.transforms.service_faults import describe_fault
from beam_tfrecords.transforms.settings import settings_of
from beam_tfrecords.transforms.sources.class_files import FoundClasses, find_class_files
from beam_tfrecords.transforms.sources.inputs import (
    Inputs,
    find_entries,
    folder_of_archive,
    keep_inputs,
    name_inputs,
    names_several,
    quote_input,
)
from beam_tfrecords.transforms.sources.names import has_extension, skipped_kind
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.partition import Partition
from beam_tfrecords.transforms.sources.registry import (
    ARCHIVES,
    DOCUMENTS,
    FILE_EXTENSIONS,
    FUNCTIONS,
    MASK_FILES,
    NAMES,
    PAIRS,
    RECORDS,
    SOURCES,
    Registered,
    find_source,
    source_of_file,
)
from beam_tfrecords.transforms.sources.source import MakeSource, OpenRequest, Source
from beam_tfrecords.transforms.sources.source_spec import SourceSpec
from beam_tfrecords.transforms.sources.unsupported_formats import (
    START_BYTES,
    find_unsupported,
    refuse_json,
    refuse_text,
    refuse_unsupported,
)

if TYPE_CHECKING:
    from beam_tfrecords.transforms.sources.tables.joined_table import JoinedTable

# Sources of folders that read archives under other names.
_FOLDERS = ("image_folder", "filename_pattern")


@dataclasses.dataclass(frozen=True)
class OpenedInput:
    """An opened input, which can be read for the needs of several layouts.

    Attributes:
      inputs: paths and splits of the inputs.
      entry: source that reads the inputs.
      notes: notes on how the source was recognized.
      make: makes the source for the needs of a request.
      files: files that were opened or looked up.
      class_files: files of class names beside the inputs.
      draft: as in `Description`.
    """

    inputs: Inputs
    entry: Registered
    notes: Sequence[str]
    make: MakeSource
    files: storage.DependencyTracker
    class_files: Sequence[FoundClasses]
    draft: str

    def read(self, needs: Needs) -> Source:
        """Returns the source for these needs, which may differ from the needs given to `open_input`.

        Raises:
          RequestError: the input does not fit the request.
          BuildError: a service fault.
        """
        with _refusing(self.inputs, self.files):
            source = self.make(needs)
        source.name = self.entry.name
        source.notes[:0] = self.notes
        source.read_with = self.files.fingerprints
        found_classes = (*source.description.found_classes, *self.class_files)
        source.description = dataclasses.replace(source.description, found_classes=found_classes, draft=self.draft)
        return source


def open_input(spec: SourceSpec, needs: Needs, function: UserFunction | None = None) -> OpenedInput:
    """Opens `spec.input`, and checks its folders and headers.

    Args:
      spec: the settings of the request.
      needs: requested contents.
      function: the input, if it is a user function.

    Raises:
      RequestError: the input does not exist, or does not fit the request.
      BuildError: a service fault.
    """
    inputs = name_inputs(spec.input)
    paths = inputs.paths
    if inputs.splits and not needs.splits.are_auto:
        raise RequestError(
            "`input` and `splits` both say the splits; leave one of them out", code="conflicting_settings"
        )
    files = storage.DependencyTracker()
    with _refusing(inputs, files):
        named, *others = [_choose(path, spec, function) for path in paths]
        for path, other in zip(paths[1:], others, strict=True):
            if other != named:
                raise RequestError(
                    f"{quote_input(paths[0])} is read as {named.name}, but {quote_input(path)} as {other.name}; "
                    "the inputs of one dataset must be of one source",
                    code="sources_differ",
                )
        is_open = spec.source == "auto" and spec.label_pattern is None
        entry = _recognise(named, paths[0], spec, needs) if is_open else named
        if entry.name not in ARCHIVES:
            paths = [*map(folder_of_archive, paths)]
            splits = {folder_of_archive(path): split for path, split in inputs.splits.items()}
            inputs = Inputs(paths, splits)
        chosen = dataclasses.replace(spec, input=tuple(paths), source=entry.name)
        joined: Sequence[JoinedTable] = ()
        late, wanted = None, needs
        if spec.join:
            # Most requests join nothing.
            from beam_tfrecords.transforms.sources.tables.joined_table import open_joins

            joined = open_joins(spec.join, spec.join_key)
            if not _joins_itself(entry, paths):
                from beam_tfrecords.transforms.sources.tables.joined_samples import JoinedSamples

                late = JoinedSamples.of(joined, spec, has_columns=entry.has_columns)
                chosen = dataclasses.replace(chosen, **late.others, join=(), join_key=("key",))
                wanted = late.needs_of_source(needs)
        refuse_settings(entry, chosen)
        draft = ""
        if spec.save_mapping and not spec.mapping and not storage.exists(spec.save_mapping):
            # Only new formats need it.
            from beam_tfrecords.transforms.sources.meaning.drafting import describe_draft, draft_mapping

            draft = draft_mapping(inputs)
            chosen = dataclasses.replace(chosen, mapping=describe_draft(draft), save_mapping=None)
        make: MakeSource = _module(entry).open_input(OpenRequest(chosen, inputs, wanted, joined, function))
        if late is not None:
            make = functools.partial(late.make, make)
        class_files = [] if needs.class_names or entry.name == FUNCTIONS else find_class_files(inputs)
    notes = []
    if entry != named:
        notes.append(f"{quote_input(paths[0])} is read as {entry.name}, not as {entry.among} (`source`)")
    if draft:
        notes.append(f"mapping drafted from the documents: {chosen.mapping}")
    return OpenedInput(inputs, entry, notes, make, files, class_files, draft)


@contextlib.contextmanager
def _refusing(inputs: Inputs, files: storage.DependencyTracker) -> Iterator[None]:
    """Records the opened files, turns read errors into `RequestError`, and keeps all inputs in its readings."""
    try:
        with storage.noting_files(files):
            yield
    except RequestError as error:
        raise keep_inputs(error, inputs) from error.__cause__
    except OSError as error:
        if storage.is_service_fault(error):
            raise BuildError(describe_fault(", ".join(inputs.paths), error)) from error
        raise RequestError(
            f"{quote_input(','.join(inputs.paths))} cannot be read: {error}", code="unreadable_input"
        ) from error


def _recognise(entry: Registered, path: str, spec: SourceSpec, needs: Needs) -> Registered:
    """Returns the source for the first file, among the sources that share its extension."""
    special = [one for one in SOURCES if one.among == entry.name]
    if not special:
        return entry
    first = Partition.of(find_entries(path)[0])
    return next((one for one in special if _module(one).recognizes(first, spec, needs)), entry)


def _joins_itself(entry: Registered, paths: Sequence[str]) -> bool:
    """Whether a source joins tables to its rows: tables, and records with keys."""
    return "join" in entry.takes and (entry.name != RECORDS or all(map(is_dataset, paths)))


def _module(entry: Registered) -> Any:
    return importlib.import_module(f"beam_tfrecords.transforms.sources.{entry.module}")


def _choose(path: str, spec: SourceSpec, function: UserFunction | None) -> Registered:
    """Returns the source for one path."""
    named = None if spec.source == "auto" else find_source(spec.source, f"`source={spec.source}`")
    if function is not None or spec.source == FUNCTIONS:
        return find_source(FUNCTIONS, "")
    if spec.images:
        return named or find_source(PAIRS, "")
    if spec.source == DOCUMENTS or (named is None and (spec.mapping or spec.save_mapping)):
        return find_source(DOCUMENTS, "")
    shown = quote_input(path)
    try:
        is_file = _is_file(path, named)
    except (OSError, storage.SchemeError) as error:
        if isinstance(error, OSError) and storage.is_service_fault(error):
            raise BuildError(describe_fault(path, error)) from error
        raise RequestError(f"{shown} cannot be read: {error}", code="unreadable_input") from error
    if not is_file:
        if named is None:
            return find_source("image_folder" if spec.label_pattern is None else "filename_pattern", shown)
        if named.extensions and not named.reads_folders:
            raise RequestError(f"{shown} is a folder; `source={named.name}` reads files", code="not_a_file")
        return named
    if named is None:
        name = source_of_file(path) or _recognise_records(path)
        if name not in NAMES:
            _refuse_unsupported(path)
        if name is None:
            is_image = skipped_kind(storage.basename(path)) is None and has_extension(path)
            advice = (
                f"give the folder that holds the images{_quote_pattern(spec.input)}"
                if is_image
                else "name its format with `source`"
            )
            raise RequestError(
                f"{shown} is a file without the extension of a table or an archive ({', '.join(FILE_EXTENSIONS)}); "
                f"{advice}",
                code="unknown_format",
            )
        return find_source(name, shown)
    if not named.extensions and (named.name in _FOLDERS or folder_of_archive(path) == path):
        raise RequestError(
            f"{shown} is a file; `source={named.name}` reads a folder or a glob of images", code="not_a_folder"
        )
    return named


def _recognise_records(path: str) -> str | None:
    """Returns the source of records for a file without an extension of a source that starts with a record."""
    # Only such files need the readers of records.
    from beam_tfrecords.transforms.sources.records.record_files import is_record_file

    return RECORDS if not names_several(path) and is_record_file(path) else None


def _refuse_unsupported(path: str) -> None:
    """Raises an error for a file of an unsupported format, or a text file without its source's extension."""
    if (found := find_unsupported(path)) is not None:
        raise refuse_unsupported(path, found)
    if names_several(path):
        return
    start = storage.read_range(path, 0, min(storage.stat(path).size, START_BYTES))
    if (found := find_unsupported(path, start)) is not None:
        raise refuse_unsupported(path, found)
    if (refusal := refuse_json(path, start) or refuse_text(path, start)) is not None:
        raise refusal


def _is_file(path: str, named: Registered | None) -> bool:
    """Whether the path is a file or a glob of tables or archives; False for a folder or a glob of images."""
    if names_several(path):
        return bool(named.extensions) if named else source_of_file(path) is not None
    if storage.is_folder(path):
        return False
    if not storage.is_file(path):
        if storage.exists(path):
            raise RequestError(f"{quote_input(path)} is not a regular file", code="not_a_file")
        raise RequestError(f"{quote_input(path)} {does_not_exist(path)}", code="not_found")
    return True


def _quote_pattern(paths: Sequence[str]) -> str:
    """Offers the pattern that a shell has replaced by these paths; "" if they have no common one."""
    parts = [path.split("/") for path in paths]
    endings = {path.rpartition(".")[2] for path in paths}
    if len(paths) < 2 or len(set(map(len, parts))) > 1 or len(endings) > 1:
        return ""
    *folders, _ = [names[0] if len(set(names)) == 1 else "*" for names in zip(*parts, strict=True)]
    return f", or quote the pattern that the shell has replaced: `input={'/'.join(folders)}/*.{endings.pop()}`"


# Settings that only some sources accept.
SOME_TAKE = tuple(dict.fromkeys(itertools.chain.from_iterable(entry.takes for entry in SOURCES)))
_DEFAULTS = {one.name: one.default for one in settings_of(SourceSpec)}


def refuse_settings(entry: Registered, spec: SourceSpec) -> None:
    """Checks that the source of a request accepts all given settings.

    Raises:
      RequestError: names a setting that the source does not accept.
    """
    where = f"{quote_input(spec.input[0])} is read as {entry.name}, which"
    for name in SOME_TAKE:
        value = getattr(spec, name)
        if value != _DEFAULTS[name] and name not in entry.takes:
            shown = ",".join(value) if isinstance(value, tuple) else getattr(value, "value", value)
            quoted = f"`{name}`" if value is True else f"`{name}={shown}`"
            raise RequestError(f"{quoted}: {where} {_explain(name, entry)}", code="setting_not_applicable")


def _explain(name: str, entry: Registered) -> str:
    """Explains why a source does not accept a setting, and what to do."""
    if name == "label_pattern" and entry.among and name in find_source(entry.among, "").takes:
        return f"has labels of its own; leave it out, or use `source={entry.among}` to read a folder of images"
    if name == "label_pattern" and entry.has_columns:
        return "has no folders; leave it out and name the column of the labels with `label_column`"
    if name == "allow_outside_root":
        return "names no files elsewhere; leave it out"
    if name in MASK_FILES:
        return "takes no files of masks; leave it out, or give folders or a table"
    if name in ("label_pattern", "classes") or entry.has_columns:
        return f"takes no `{name}`; leave it out"
    return f"has no columns; leave `{name}` out or give a table as `input`"
