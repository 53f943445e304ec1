"""Checks the location and the content of the output before anything starts."""

from __future__ import annotations

import contextlib
import fnmatch
import functools
from collections.abc import Iterator

from beam_tfrecords import storage
from beam_tfrecords.dataset.files import SUCCESS
from beam_tfrecords.dataset.pointers import check_pointers
from beam_tfrecords.dataset.published import is_foreign, read_latest
from beam_tfrecords.dataset.versions import State, list_versions
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.storage.paths import literal_prefix
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.request.schedule_spec import NO_REUSE
from beam_tfrecords.transforms.sources.braces import expand_braces, has_braces
from beam_tfrecords.transforms.sources.inputs import (
    has_wildcards,
    name_inputs,
    names_several,
    split_of_word,
)
from beam_tfrecords.transforms.workspace.build_folder import Workspace
from beam_tfrecords.transforms.workspace.output_folder import check_versions_root, find_replaced_files


def check_output(spec: BuildSpec) -> list[str]:
    """Refuses an output whose content a build would damage.

    Returns:
      The files that the build replaces, as `find_replaced_files` does.

    Raises:
      RequestError: the output contains a finished dataset that may not be replaced, or files that are not ours.
    """
    versioned = spec.versioned
    with _reaching(spec.output):
        is_finished, latest, versions = storage.run_concurrently(
            spec.output,
            functools.partial(storage.exists, storage.join(spec.output, SUCCESS)),
            functools.partial(read_latest, spec.output),
            functools.partial(list_versions, spec.output),
        )
    # Files of other programs are refused by their names.
    is_finished = is_finished and not is_foreign(spec.output)
    has_versions = bool(latest) or any(version.state is State.FINISHED for version in versions)
    if versioned and is_finished:
        raise RequestError(
            f"`output={spec.output}`: holds a dataset without versions; choose another folder",
            code="output_not_versioned",
        )
    if has_versions and not versioned:
        raise RequestError(
            f"`output={spec.output}`: holds versions of a dataset; use `versioned`, or choose another folder",
            code="output_versioned",
        )
    if is_finished and not spec.overwrite:
        raise RequestError(
            f"`output={spec.output}`: holds a finished dataset; choose another folder, where `versioned` keeps each "
            f"build as a version and `reuse={spec.output}` converts only what changed, or use `overwrite` to replace "
            "it",
            code="output_exists",
        )
    if versioned:
        check_versions_root(spec.output, versions)
        check_pointers(spec.output)
        return []
    return find_replaced_files(spec.output)


def check_location(spec: BuildSpec) -> None:
    """Checks that the output is a folder of its own: not inside the input, and not around it.

    Links are resolved, so a second name for a folder is recognized.

    Raises:
      RequestError: the output cannot be reached, is a file, or overlaps the input.
    """
    with _reaching(spec.output):
        is_file = storage.is_file(spec.output)
    if is_file:
        raise RequestError(f"`output={spec.output}`: is a file; expected a folder", code="not_a_folder")
    output = storage.real_path(spec.output)
    temporary = Workspace(spec.output).path
    leads_to = storage.real_path(temporary)
    if leads_to != Workspace(output).path:
        raise RequestError(
            f"`output={spec.output}`: {temporary} links to {leads_to}; remove the link", code="linked_workspace"
        )
    inputs = name_inputs(spec.input).paths
    # A glob without braces costs no request here.
    several = [expand_braces(word) if has_braces(word) and names_several(word) else [word] for word in inputs]
    places = [("input", path) for paths in several for path in paths]
    places += [("mask_root", path) for _, path in map(split_of_word, spec.mask_root)]
    places += [("image_root", path) for _, path in map(split_of_word, spec.image_root)]
    places += [("reuse", spec.reuse)] if spec.reuse and spec.reuse != NO_REUSE else []
    for setting, path in places:
        is_inside = _reads_in(path, output) if setting == "input" else _is_in(output, storage.real_path(path))
        # Folders of images may hold the output, and the reused dataset may be the output.
        may_be_there = setting == "image_root" or (setting == "reuse" and output == storage.real_path(path))
        if is_inside and not may_be_there:
            raise RequestError(
                f"`output={spec.output}`: lies inside `{setting}={path}`; choose a folder outside",
                code="overlapping_folders",
            )
        start = literal_prefix(path).rpartition("/")[0] or "/" if has_wildcards(path) else path
        if setting != "reuse" and not storage.is_web(path) and _is_in(storage.real_path(start), output):
            raise RequestError(
                f"`output={spec.output}`: holds `{setting}={path}`, so the dataset would be among its own input; "
                "choose a separate folder",
                code="overlapping_folders",
            )


@contextlib.contextmanager
def _reaching(output: str) -> Iterator[None]:
    """Raises `RequestError` if an output cannot be reached, and `BuildError` for a service fault."""
    try:
        yield
    except (OSError, storage.SchemeError) as error:
        if isinstance(error, OSError) and storage.is_service_fault(error):
            raise BuildError(f"{error}; once this is fixed, run the same command again") from error
        raise RequestError(f"`output={output}`: cannot be reached: {error}", code="output_unreachable") from error


def _reads_in(path: str, output: str) -> bool:
    """Whether a folder or glob of the input may match files in the output, given as a real path."""
    if storage.is_web(path):
        return False
    if not has_wildcards(path):
        return _is_in(output, storage.real_path(path)) and storage.is_folder(path)
    start = literal_prefix(path).rpartition("/")[0]
    root = storage.real_path(start or "/")
    if not _is_in(output, root):
        return False
    folders = [name for name in output[len(root) :].split("/") if name]
    patterns = path[len(start) :].strip("/").split("/")
    for folder, pattern in zip(folders, patterns, strict=False):
        if "**" in pattern:
            return True
        if not fnmatch.fnmatchcase(folder, pattern):
            return False
    return len(patterns) > len(folders)


def _is_in(path: str, folder: str) -> bool:
    """Whether a real path is a folder or lies inside it."""
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")
