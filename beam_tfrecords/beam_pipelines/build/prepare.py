"""Lists and checks the input of a build, and puts the listing where all workers find it."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.listing.list_input import list_containers, list_input
from beam_tfrecords.beam_pipelines.build.output.lock import Output, open_folder, refuse_other
from beam_tfrecords.beam_pipelines.build.output.previous import Previous, choose_version, open_previous, would_repeat
from beam_tfrecords.beam_pipelines.runners.runners import Execution
from beam_tfrecords.beam_pipelines.terminal import show
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder

if TYPE_CHECKING:
    from beam_tfrecords.beam_pipelines.build.planning import BuildPlan
    from beam_tfrecords.transforms.listing.listing import Listing

_log = logging.getLogger(__name__)
_UPLOADS = 16


def prepare_build(spec: BuildSpec, source: Source, execution: Execution, *, output: Output) -> BuildPlan | Previous:
    """Lists the input, checks the request against it, and puts the listing where all workers find it.

    Args:
      spec: the request.
      source: the opened source.
      execution: where pipelines run.
      output: the output, held.

    Returns:
      The plan; or the datasets before, if the build would make the version before again.

    Raises:
      RequestError: the request does not match the input, or a job of another build may write to the output.
    """
    from beam_tfrecords.beam_pipelines.build.checks.user_function import check_map
    from beam_tfrecords.beam_pipelines.build.identity import build_folder, describe_facts
    from beam_tfrecords.beam_pipelines.build.planning import plan_build
    from beam_tfrecords.beam_pipelines.build.work import plan_work
    from beam_tfrecords.transforms.listing.listing import write_chunk_names

    earlier, containers = open_previous(spec), source.containers()
    if earlier.warning:
        show(
            f"warning: {spec.output}: {earlier.warning}; until a whole one takes its place, readers fail",
            file=sys.stderr,
        )
    with contextlib.ExitStack() as stack:
        if containers is None:
            listed = list_input(spec, source, execution, earlier=earlier, output=output, stack=stack)
        else:
            execution.runner.check_listing_job()
            found = list_containers(containers, spec, source, execution, earlier=earlier, output=output)
            if found is None:
                return earlier
            listed = found
        listing, class_names = listed.listing, listed.class_names
        facts = describe_facts(
            spec,
            input_fingerprint=listed.fingerprint,
            skipped=listed.skipped,
            notes=source.notes,
            read_with=listed.read_with,
        )
        work = plan_work(
            spec,
            class_names=class_names,
            listing=listing,
            versions=facts["versions"],
            earlier=earlier,
            last_member_wins=source.last_member_wins,
            records=source.records,
        )
        folder = build_folder(spec, work, listing.fingerprint)
        refuse_other(output, folder)
        _log.info("listed %d samples; the folder of the build is %s", listing.total, folder)
        if not listing.unknown and would_repeat(earlier, spec, {**facts, "class_names": class_names.names}):
            return earlier
        check_map(spec, work, listing)
        fence, claim = open_folder(folder, output, execution, keeps=listed.folder)
        if containers is None:
            _copy_chunks(listing, BuildFolder(folder).listing)
    write_chunk_names(listing, folder)
    version = choose_version(spec, folder, earlier) if spec.schedule.versioned else None
    return plan_build(
        spec,
        work,
        folder=folder,
        listing=listing,
        facts=facts,
        earlier=earlier,
        version=version,
        fence=fence,
        claim=claim,
        is_new=output.is_new,
    )


def _copy_chunks(listing: Listing, folder: str) -> None:
    def copies(files: Iterable[str]) -> list[str]:
        return [storage.join(folder, storage.basename(file)) for file in files]

    # One after the other, those of a billion images take an hour and a half to a bucket.
    with ThreadPoolExecutor(_UPLOADS) as pool:
        for _ in pool.map(_copy, listing.files, copies(listing.files)):
            pass
    listing.chunks, listing.spools = copies(listing.chunks), copies(listing.spools)


def _copy(source: str, target: str) -> None:
    storage.write_bytes(target, storage.read_bytes(source))
