"""Runs the pipeline that a launcher has staged for Dataflow, as Dataflow's workers would: without the launcher.

python -m tests.integration.run_staged_job gs://bucket/staging/…/pipeline.pb
"""

from __future__ import annotations

import sys

from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.runner import PipelineState
from google.auth.credentials import AnonymousCredentials
from google.cloud.storage import Blob, Client


def main(path: str) -> None:
    """Runs it to its end.

    Raises:
      RuntimeError: it failed.
    """
    proto = beam_runner_api_pb2.Pipeline.FromString(
        Blob.from_string(path, Client("test", AnonymousCredentials())).download_as_bytes()
    )
    # In place of the container, this process.
    python = beam_runner_api_pb2.Environment(urn=python_urns.EMBEDDED_PYTHON)
    for environment in proto.components.environments.values():
        environment.CopyFrom(python)
    result = FnApiRunner().run_via_runner_api(proto, PipelineOptions([]))
    if result.wait_until_finish() != PipelineState.DONE:
        raise RuntimeError(f"the pipeline ended with {result.state}")


if __name__ == "__main__":
    main(sys.argv[1])
