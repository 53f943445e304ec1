"""The jars of Beam's job servers."""

from __future__ import annotations

import os

from beam_tfrecords import storage
from beam_tfrecords.errors import RequestError


def jar_folder() -> str:
    """Where `deploy/*/job-server/build.sh` puts what it builds."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "beam-tfrecords", "jars")


def find_jar(name: str, target: str) -> str:
    """The jar that was built here, or else Beam's own, which is downloaded if it was not yet.

    Args:
      name: of the jar in `jar_folder`.
      target: Beam's name for its runner and version, such as `flink:1.19`.

    Raises:
      RequestError: there is none.
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
            f"Beam's job server for {target.replace(':', ' ')} cannot be had: {reason}; build one with "
            f"deploy/{runner}/job-server/build.sh, or name a jar with `{runner}_job_server_jar`"
        ) from error
