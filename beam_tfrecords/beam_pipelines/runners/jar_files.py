"""Finds the jars of Beam's job servers, and makes small ones for clusters that have such a jar."""

from __future__ import annotations

import io
import os
import zipfile

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError

# Classes that load the pipeline from the jar that they are in, with the classes whose package-private members they use.
_OF_THE_JOB = (
    "org/apache/beam/runners/flink/FlinkPipelineRunner",
    "org/apache/beam/runners/flink/FlinkPortableRunnerResult",
    "org/apache/beam/runners/jobsubmission/PortablePipelineJarUtils",
)


def jar_folder() -> str:
    """Returns the folder for the jars that `deploy/*/job-server/build.sh` builds."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "beam-tfrecords", "jars")


def write_small_jar(jar: str, target: str) -> None:
    """Writes a small jar that submits jobs to a Flink cluster with Beam's job server among its libraries.

    Args:
      jar: the job server, as the cluster has it.
      target: path of the small jar.
    """
    content = io.BytesIO()
    with storage.open_read(jar) as file, zipfile.ZipFile(file) as whole, zipfile.ZipFile(content, "w") as small:
        for name in whole.namelist():
            if name.startswith(_OF_THE_JOB) or name == "META-INF/MANIFEST.MF":
                small.writestr(name, whole.read(name))
    storage.write_bytes(target, content.getvalue())


def find_jar(name: str, target: str) -> str:
    """Returns a locally built jar, or else Beam's jar, which is downloaded on first use.

    Args:
      name: name of the jar in `jar_folder`.
      target: Beam's name for the runner and its version, such as `flink:1.19`.

    Raises:
      RequestError: there is no jar, and the download fails.
    """
    from apache_beam.utils.subprocess_server import JavaJarServer

    jar = os.path.join(jar_folder(), name)
    if storage.exists(jar):
        return jar
    runner = target.split(":")[0]
    try:
        return str(JavaJarServer.local_jar(JavaJarServer.path_to_beam_jar(f":runners:{target}:job-server:shadowJar")))
    except (OSError, RuntimeError) as error:
        reason = str(error).partition(". Also failed")[0]
        raise RequestError(
            f"Beam's job server for {target.replace(':', ' ')} is not available: {reason}; build one with "
            f"deploy/{runner}/job-server/build.sh, or name a jar with `{runner}_job_server_jar`",
            code="missing_job_server",
        ) from error
