"""The flags with which a cluster starts Python workers in the environment of this program."""

from __future__ import annotations

import json
import os
import sysconfig

from beam_tfrecords import storage
from beam_tfrecords.beam_pipelines.runners.arguments import BeamArguments
from beam_tfrecords.beam_pipelines.runners.forking import JOB_VARIABLE
from beam_tfrecords.errors import RequestError

_COMMAND = "beam-tfrecords-worker"


def worker_flags(arguments: BeamArguments, job_name: str) -> dict[str, str]:
    """Returns flag name -> value for starting workers.

    Args:
      arguments: arguments of the request; if they configure workers, no flags are returned.

    Raises:
      RequestError: the command is not installed.
    """
    if arguments.say_workers:
        return {}
    command = os.path.join(sysconfig.get_path("scripts"), _COMMAND)
    if not storage.exists(command):
        raise RequestError(
            f"{command} is missing, by which the cluster would start Python workers; install beam-tfrecords with pip, "
            "or set `environment_type` and `environment_config`",
            code="missing_program",
        )
    config = {"command": command, "env": {JOB_VARIABLE: job_name}}
    return {"environment_type": "PROCESS", "environment_config": json.dumps(config)}
