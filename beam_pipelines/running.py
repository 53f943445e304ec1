"""Runs a planned build on a runner, and tells how it ended."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence

import apache_beam as beam

from beam_pipelines.pipeline import build_pipeline
from beam_pipelines.planning import BuildPlan
from beam_pipelines.progress import Progress
from beam_pipelines.resuming import forget_taken_parts
from beam_pipelines.runners import choose_runner, read_options
from transforms import storage
from transforms.errors import BuildError
from transforms.pool import close_pools
from transforms.publication import OUTCOME
from transforms.stats import DUPLICATE_COUNTS, Stats

_BUILD_ERROR = re.compile(r"^(?:transforms\.errors\.)?BuildError: (.*?)(?: \[while running .*\])?$", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Unpublished:
    """A build that published nothing: too many samples failed, or there are duplicates and may be none.

    Attributes:
      listed: samples listed.
      failed: samples refused.
      reasons: reason -> samples.
      duplicates: what is counted of identical images -> count.
      folder: where the lists of failures and duplicates are.
    """

    listed: int
    failed: int
    reasons: Mapping[str, int]
    duplicates: Mapping[str, int]
    folder: str


def run_build(plan: BuildPlan, beam_arguments: Sequence[str], *, verbose: bool) -> Unpublished | None:
    """Runs a build to its end.

    Returns:
      None if the dataset is published.

    Raises:
      BuildError: if a worker found the build broken.
    """
    # What an earlier attempt at the same build came to does not count.
    storage.delete_files([storage.join(plan.block_plan.folder, OUTCOME)])
    options = read_options(beam_arguments, verbose=verbose)
    runner, processes = choose_runner(options)
    forget_taken_parts(plan, processes)
    pipeline = beam.Pipeline(runner=runner, options=options)
    build_pipeline(pipeline, plan, processes=processes)
    with Progress(plan.block_plan.folder, total=sum(plan.publication.listed.values())):
        try:
            pipeline.run().wait_until_finish()
        except RuntimeError as error:
            # Runners hand on a worker's exception as text.
            message = _BUILD_ERROR.search(str(error))
            if message:
                raise BuildError(message[1]) from error
            raise
        finally:
            close_pools()
    return _read_outcome(plan)


def _read_outcome(plan: BuildPlan) -> Unpublished | None:
    path = storage.join(plan.block_plan.folder, OUTCOME)
    if not storage.exists(path):
        return None
    outcome = json.loads(storage.read_bytes(path))
    stats = Stats.from_json(outcome["stats"])
    return Unpublished(
        listed=sum(outcome["listed"].values()),
        failed=stats.total("failed"),
        reasons=stats.failure_reasons(),
        duplicates={what: stats.total("duplicates", what) for what in DUPLICATE_COUNTS},
        folder=outcome["folder"],
    )
