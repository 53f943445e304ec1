"""Checks the content of the output before anything starts."""

from __future__ import annotations

import functools

from beam_tfrecords import storage
from beam_tfrecords.dataset.files import SUCCESS
from beam_tfrecords.dataset.pointers import check_pointers
from beam_tfrecords.dataset.published import is_foreign, read_latest
from beam_tfrecords.dataset.versions import State, list_versions
from beam_tfrecords.errors import BuildError, RequestError
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.workspace.output_folder import check_versions_root, find_replaced_files


def check_output(spec: BuildSpec) -> list[str]:
    """Refuses an output whose content a build would damage.

    Returns:
      The files that the build replaces, as `find_replaced_files` does.

    Raises:
      RequestError: the output contains a finished dataset that may not be replaced, or files that are not ours.
    """
    versioned = spec.versioned
    try:
        is_finished, latest, versions = storage.run_concurrently(
            spec.output,
            functools.partial(storage.exists, storage.join(spec.output, SUCCESS)),
            functools.partial(read_latest, spec.output),
            functools.partial(list_versions, spec.output),
        )
    except (OSError, storage.SchemeError) as error:
        if isinstance(error, OSError) and storage.is_service_fault(error):
            raise BuildError(f"{error}; once this is fixed, run the same command again") from error
        raise RequestError(f"`output={spec.output}`: cannot be reached: {error}", code="output_unreachable") from error
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
