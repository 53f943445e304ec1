"""`beam-tfrecords-worker`: a Beam Python worker in the environment of this package.

A runner starts it as the command of a PROCESS environment; Beam's worker pool starts it as its `container_executable`.
If the pipeline's packages are already installed, the worker needs only one part of `boot`, the program in Beam's
containers: it queries the runner for the pipeline options and the endpoints. Unlike `boot`, it needs no Go, creates no
virtual environment, and leaves restarting a dead worker to the runner.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from apache_beam.portability.api import beam_provision_api_pb2, endpoints_pb2

_PROVISION_TIMEOUT = 60.0
_PARENT_CHECK_INTERVAL = 1.0


def main(argv: Sequence[str] | None = None) -> None:
    """Works until the runner ends it.

    Args:
      argv: `--id` and `--provision_endpoint`. Other endpoints that a runner passes are ignored, because the
        provision endpoint returns them.

    Raises:
      grpc.RpcError: the runner did not answer.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--id", required=True)
    parser.add_argument("--provision_endpoint", required=True)
    args, _ = parser.parse_known_args(argv)
    # Prism passes the id inside quotes.
    worker_id = args.id.strip("'")
    _end_with(os.getppid())
    # Keeps NumPy and Arrow from starting threads that would be idle.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    os.environ.update(_environment(_provision_info(args.provision_endpoint, worker_id), worker_id))
    # This module reads WORKER_ID when it is imported.
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main([])


def _provision_info(endpoint: str, worker_id: str) -> beam_provision_api_pb2.ProvisionInfo:
    import grpc  # type: ignore[import-untyped]
    from apache_beam.portability.api import beam_provision_api_pb2, beam_provision_api_pb2_grpc

    with grpc.insecure_channel(endpoint) as channel:
        response = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel).GetProvisionInfo(
            beam_provision_api_pb2.GetProvisionInfoRequest(),
            metadata=[("worker_id", worker_id)],
            timeout=_PROVISION_TIMEOUT,
            wait_for_ready=True,
        )
    return response.info


def _environment(info: beam_provision_api_pb2.ProvisionInfo, worker_id: str) -> dict[str, str]:
    """Returns the environment variables with which Beam's containers configure a worker."""
    from google.protobuf import json_format

    environment = {
        "WORKER_ID": worker_id,
        "PIPELINE_OPTIONS": json_format.MessageToJson(info.pipeline_options),
        "LOGGING_API_SERVICE_DESCRIPTOR": _as_text(info.logging_endpoint),
        "CONTROL_API_SERVICE_DESCRIPTOR": _as_text(info.control_endpoint),
        "RUNNER_CAPABILITIES": " ".join(info.runner_capabilities),
    }
    if info.HasField("status_endpoint"):
        environment["STATUS_API_SERVICE_DESCRIPTOR"] = _as_text(info.status_endpoint)
    return environment


def _as_text(endpoint: endpoints_pb2.ApiServiceDescriptor) -> str:
    from google.protobuf import text_format

    return text_format.MessageToString(endpoint, as_one_line=True)


def _end_with(parent: int) -> None:
    """Ends this process soon after its parent, so that a killed task manager leaves no running workers."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_PARENT_CHECK_INTERVAL)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="watch parent").start()


if __name__ == "__main__":
    main()
