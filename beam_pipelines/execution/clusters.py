"""What a cluster needs to be told and the user has not said: found out, filled in, and told in one line."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import sysconfig
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from beam_pipelines.execution.flink import FlinkCluster
from beam_pipelines.execution.forking import JOB_VARIABLE
from beam_pipelines.settings.command_line import Parser
from beam_tfrecords.errors import RequestError

WORKER = "beam-tfrecords-worker"
_FLAGS = (
    "runner",
    "job_endpoint",
    "job_name",
    "environment_type",
    "environment_config",
    "environment_option",
    "environment_options",
    "sdk_worker_parallelism",
    "parallelism",
    "flink_master",
    "flink_version",
    "flink_job_server_jar",
    "spark_master_url",
    "spark_job_server_jar",
)


@dataclasses.dataclass(frozen=True)
class Completed:
    """Beam's arguments, with what was filled in.

    Attributes:
      arguments: for Beam.
      note: says what was filled in; empty if nothing was.
      flink: the cluster that the job goes to, if it is one of Flink's.
      job_name: by which the cluster finds the job.
    """

    arguments: list[str]
    note: str = ""
    flink: FlinkCluster | None = None
    job_name: str = ""


def complete_arguments(arguments: Sequence[str]) -> Completed:
    """Fills in what the runner needs; what the user has set stays.

    Args:
      arguments: for Beam.

    Raises:
      RequestError: the cluster does not answer, does not fit, or something that it needs is not installed.
    """
    given = _parse(arguments)
    runner = str(given["runner"]).rpartition(".")[2].lower()
    if given["job_endpoint"] is not None:
        return Completed(list(arguments))
    if runner == "flinkrunner" and (given["flink_master"] or "[")[0] != "[":
        return _complete_flink(list(arguments), given)
    if runner == "sparkrunner":
        return _complete_spark(list(arguments), given)
    return Completed(list(arguments))


def jar_folder() -> Path:
    """Where `deploy/*/job-server/build.sh` puts what it builds."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "beam-tfrecords" / "jars"


def _complete_flink(arguments: list[str], given: Mapping[str, Any]) -> Completed:
    from apache_beam.options.pipeline_options import FlinkRunnerOptions

    cluster = FlinkCluster.at(given["flink_master"])
    version, known = cluster.minor_version, FlinkRunnerOptions.PUBLISHED_FLINK_VERSIONS
    where = f"`flink_master={given['flink_master']}`"
    if version not in known:
        raise RequestError(f"{where}: Flink {cluster.version}; this Beam runs jobs on {', '.join(known)}")
    if given["flink_version"] not in (None, version):
        raise RequestError(
            f"`flink_version={given['flink_version']}`: the cluster runs Flink {cluster.version}; leave it out"
        )
    if not cluster.free_slots and given["parallelism"] is None:
        raise RequestError(
            f"{where}: none of its {cluster.slots} task slots is free; wait for the job that has them, start task "
            "managers, or set `parallelism` for a job that waits"
        )
    job_name = given["job_name"] or f"beam-tfrecords-{uuid.uuid4().hex[:12]}"
    filled = {
        **_worker_environment(given, job_name),
        "flink_version": version,
        "parallelism": str(cluster.free_slots),
        "sdk_worker_parallelism": str(cluster.slots_per_manager),
    }
    # Beam would list all installed packages, which takes seconds, for the log alone.
    hidden = {"job_name": job_name, "experiments": "disable_logging_submission_environment"}
    if given["flink_job_server_jar"] is None:
        filled["flink_job_server_jar"] = _find_jar(f"flink-{version}-job-server.jar", f"flink:{version}")
        # The cluster runs the jar itself: no Java is needed here, and no server that would have to outlive this.
        hidden["flink_submit_uber_jar"] = ""
    note = _describe(f"Flink {cluster.version} with {cluster.free_slots} free task slots", filled, given)
    if not cluster.is_here:
        hosts = ", ".join(cluster.hosts[:3]) + (", ..." if len(cluster.hosts) > 3 else "")
        note += (
            f"\nnote: task managers run on other machines ({hosts}); input and output have to be there under the same "
            "names (a bucket, or a disk that is mounted everywhere), and this package in the same place"
        )
    return Completed(_add(arguments, {**filled, **hidden}, given), note, cluster, job_name)


def _complete_spark(arguments: list[str], given: Mapping[str, Any]) -> Completed:
    if shutil.which("java") is None:
        raise RequestError("`runner=SparkRunner` needs Java, and there is no `java` on the PATH; install Java 11 or 17")
    filled = _worker_environment(given, f"beam-tfrecords-{uuid.uuid4().hex[:12]}")
    if given["spark_job_server_jar"] is None:
        filled["spark_job_server_jar"] = _find_jar("spark-3-job-server/spark-3-job-server.jar", "spark:3")
    master = str(given["spark_master_url"] or "local[4]")
    cores = re.fullmatch(r"local\[(\d+)\]", master)
    if cores:
        filled["sdk_worker_parallelism"] = cores[1]
    return Completed(_add(arguments, filled, given), _describe(f"Spark at {master}", filled, given))


def _find_jar(name: str, target: str) -> str:
    """The jar that was built here, or else Beam's own, which is downloaded if it was not yet.

    Args:
      name: of the jar in `jar_folder`.
      target: Beam's name for its runner and version, such as `flink:1.19`.

    Raises:
      RequestError: there is none.
    """
    from apache_beam.utils.subprocess_server import JavaJarServer

    jar = jar_folder() / name
    if jar.exists():
        return str(jar)
    runner = target.split(":")[0]
    try:
        return str(JavaJarServer.local_jar(JavaJarServer.path_to_beam_jar(f":runners:{target}:job-server:shadowJar")))
    except (OSError, RuntimeError) as error:
        reason = str(error).partition(". Also failed")[0]
        raise RequestError(
            f"Beam's job server for {target.replace(':', ' ')} cannot be had: {reason}; build one with "
            f"deploy/{runner}/job-server/build.sh, or name a jar with `{runner}_job_server_jar`"
        ) from error


def _worker_environment(given: Mapping[str, Any], job_name: str) -> dict[str, str]:
    """Workers are processes of the environment that runs this program, unless the user says what they are."""
    if any(given[name] is not None for name in _FLAGS if name.startswith("environment_")):
        return {}
    command = Path(sysconfig.get_path("scripts")) / WORKER
    if not command.exists():
        raise RequestError(
            f"{command} is missing, by which the cluster would start Python workers; install beam-tfrecords with pip, "
            "or set `environment_type` and `environment_config`"
        )
    config = {"command": str(command), "env": {JOB_VARIABLE: job_name}}
    return {"environment_type": "PROCESS", "environment_config": json.dumps(config)}


def _parse(arguments: Sequence[str]) -> dict[str, Any]:
    parser = Parser(prog="beam-tfrecords convert", add_help=False, allow_abbrev=False)
    for name in _FLAGS:
        parser.add_argument(f"--{name}", default=None)
    return vars(parser.parse_known_args(list(arguments))[0])


def _add(arguments: list[str], filled: Mapping[str, str], given: Mapping[str, Any]) -> list[str]:
    missing = {name: word for name, word in filled.items() if given.get(name) is None}
    return [*arguments, *(f"--{name}={word}" if word else f"--{name}" for name, word in missing.items())]


def _describe(where: str, filled: Mapping[str, str], given: Mapping[str, Any]) -> str:
    said = " ".join(f"--{name}={word}" for name, word in filled.items() if given.get(name) is None)
    return f"{where}; set: {said or 'nothing'}"
