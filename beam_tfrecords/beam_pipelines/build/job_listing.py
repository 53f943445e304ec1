"""Builds whose job lists the input itself, because their launcher cannot wait for a job that does."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import apache_beam as beam
import cloudpickle

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.build.checks.output import check_output
from beam_tfrecords.beam_pipelines.build.listing.list_for_build import add_listing, sending_pipeline
from beam_tfrecords.beam_pipelines.build.listing.trial import trying_suggestions
from beam_tfrecords.beam_pipelines.build.output.lock import HeldOutput, LockedOutput, refuse_other
from beam_tfrecords.beam_pipelines.build.pipeline import build_pipeline
from beam_tfrecords.beam_pipelines.build.prepare import resolve_listed
from beam_tfrecords.beam_pipelines.build.resolve import ResolvedBuild
from beam_tfrecords.beam_pipelines.runners.execution import Execution
from beam_tfrecords.beam_pipelines.runners.jobs import JobRecord, Run, read_job
from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.listing.indexing import IndexPlan
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.sources.source import Source
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder
from beam_tfrecords.transforms.workspace.state_files import read_state, write_state


def submit_unlisted(
    given: BuildSpec,
    spec: BuildSpec,
    source: Source,
    plan: IndexPlan,
    execution: Execution,
    output: LockedOutput,
    *,
    fails_unpublished: bool,
    report: bool,
) -> JobRecord:
    """Submits a job that lists the input of a build, resolves the build and runs it.

    Args:
      given: the request without its layout, for offers.
      spec: the request, with its layout.
      source: the opened source.
      plan: lists the input.
      execution: where pipelines run.
      output: the locked output.
      fails_unpublished: fails the job if it publishes nothing.
      report: lets the job write `report.html`.

    Returns:
      The submitted job.

    Raises:
      OutputLockedError: a job of another build may write to the output.
      BuildError: the job was not submitted.
    """
    runner, folder = execution.runner, BuildFolder(plan.folder)
    refuse_other(output, folder.path)
    fence = output.take_fence()
    sent = copy.copy(source)
    if source.pipeline is not None:
        sent.partitions = [source.pipeline.without_code()]
    storage.write_bytes(folder.request, cloudpickle.dumps((given, spec, sent, fence)))
    write_state(folder.run, Run.of_this_process())

    def add_stages(root: beam.Pipeline) -> None:
        build = (
            add_listing(root, source=source, plan=plan, processes=runner.processes)
            | "AllListed" >> beam.combiners.Count.Globally()
            | "ResolveBuild" >> beam.Map(storage.with_storage_options(_resolve), folder=folder.path)
            # Retries of later steps get the same build.
            | "KeepBuild" >> beam.Reshuffle()
        )
        build_pipeline(
            root,
            spec,
            build,
            processes=runner.processes,
            least_memory=runner.least_memory(spec.max_image_memory),
            cleans=True,
            fails_unpublished=fails_unpublished,
            report=report,
        )

    with sending_pipeline(source):
        job = execution.run(add_stages, folder.path, wait=False)
    assert job is not None
    return job


def _resolve(_: Any, *, folder: str) -> ResolvedBuild:
    """Resolves the build of a listed input on a worker, and moves the record of the job to the folder of the build.

    Raises:
      RequestError: the input does not fit the request; `status` shows it, and the next build may start.
    """
    listing = BuildFolder(folder)
    given, spec, source, fence = pickle.loads(storage.read_bytes(listing.request))
    try:
        with trying_suggestions(given):
            build = resolve_listed(spec, source, folder, HeldOutput(spec.output, check_output(spec), fence))
    except RequestError as error:
        run = read_state(Run, listing.run) or Run.of_this_process()
        write_state(listing.run, dataclasses.replace(run, refusal=str(error)))
        storage.delete_files([listing.job])
        raise
    # On a retry, the record is already there.
    if (job := read_job(folder)) is not None:
        listed, blocks = sum(build.listed.values()), sum(build.block_plan.blocks.values())
        run = read_state(Run, listing.run) or Run.of_this_process()
        write_state(BuildFolder(build.folder).run, dataclasses.replace(run, listed=listed, blocks=blocks))
        job.write(build.folder)
        storage.delete_files([listing.job, listing.run])
    return build
