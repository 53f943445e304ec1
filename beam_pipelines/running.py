"""Runs a planned build on a runner, and tells how it ended."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import re
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence

import apache_beam as beam

from beam_pipelines.pipeline import build_pipeline
from beam_pipelines.planning import BuildPlan
from beam_pipelines.progress import Progress
from beam_pipelines.runners import choose_runner, is_local, read_options
from transforms import storage
from transforms.blocks import BEGUN
from transforms.errors import BuildError
from transforms.publish import OUTCOME
from transforms.stats import Stats

_BUILD_ERROR = re.compile(r"^(?:transforms\.errors\.)?BuildError: (.*?)(?: \[while running .*\])?$", re.MULTILINE)

# Stands in what a worker that lives raises; one that dies just closes its connection.
_WORKER_EXCEPTION = "[while running '"


@dataclasses.dataclass(frozen=True)
class TooManyFailures:
    """A build that published nothing.

    Attributes:
      listed: samples listed.
      failed: samples refused.
      reasons: reason -> samples.
      failures: file that lists them.
    """

    listed: int
    failed: int
    reasons: Mapping[str, int]
    failures: str


def run_build(plan: BuildPlan, beam_arguments: Sequence[str], *, verbose: bool) -> TooManyFailures | None:
    """Runs a build to its end.

    Returns:
      None if the dataset is published.

    Raises:
      BuildError: if a worker found the build broken.
    """
    # What an earlier attempt at the same build came to does not count.
    storage.delete_files([storage.join(plan.block_plan.folder, OUTCOME)])
    total = sum(plan.publication.listed.values())
    with Progress(plan.block_plan.folder, total=total), _quiet_threads(verbose=verbose):
        for attempt in itertools.count(1):
            begun = _count_begun(plan)
            try:
                _run_pipeline(plan, beam_arguments, verbose=verbose)
                break
            except RuntimeError as error:
                # Runners hand on a worker's exception as text.
                message = _BUILD_ERROR.search(str(error))
                if message:
                    raise BuildError(message[1]) from error
                if _WORKER_EXCEPTION in str(error) or not is_local(read_options(beam_arguments, verbose=verbose)):
                    raise
                # The local runner does not start a worker again that has died. A cluster does.
                if _count_begun(plan) == begun and plan.block_plan.isolate:
                    raise BuildError(f"worker processes keep ending ({error}); is there too little memory?") from error
                print(
                    "a worker process died; its blocks are tried again, image by image in a process apart",
                    file=sys.stderr,
                )
                isolate = attempt > 1
                plan = dataclasses.replace(plan, block_plan=dataclasses.replace(plan.block_plan, isolate=isolate))
    return _read_outcome(plan)


@contextlib.contextmanager
def _quiet_threads(*, verbose: bool) -> Iterator[None]:
    """Keeps Beam's threads from printing that a worker has died: that is told in a line of ours."""
    if verbose:
        yield
        return
    before = threading.excepthook
    threading.excepthook = lambda args: None if _is_beams(args.thread) else before(args)
    try:
        yield
    finally:
        threading.excepthook = before


def _is_beams(thread: threading.Thread | None) -> bool:
    return thread is not None and thread.name in ("run_worker", "beam_control_read", "read_grpc_client_inputs")


def _run_pipeline(plan: BuildPlan, beam_arguments: Sequence[str], *, verbose: bool) -> None:
    options = read_options(beam_arguments, verbose=verbose)
    pipeline = beam.Pipeline(runner=choose_runner(options), options=options)
    build_pipeline(pipeline, plan)
    pipeline.run().wait_until_finish()


def _count_begun(plan: BuildPlan) -> int:
    folder = storage.join(plan.block_plan.folder, "blocks")
    if not storage.is_folder(folder):
        return 0
    return sum(entry.path.endswith(BEGUN) for entry in storage.list_files(folder))


def _read_outcome(plan: BuildPlan) -> TooManyFailures | None:
    path = storage.join(plan.block_plan.folder, OUTCOME)
    if not storage.exists(path):
        return None
    outcome = json.loads(storage.read_bytes(path))
    stats = Stats.from_json(outcome["stats"])
    reasons: dict[str, int] = {}
    for split in outcome["listed"]:
        for reason, count in stats.by("failed", split).items():
            reasons[reason] = reasons.get(reason, 0) + count
    return TooManyFailures(sum(outcome["listed"].values()), stats.total("failed"), reasons, outcome["failures"])
