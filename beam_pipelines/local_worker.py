"""A worker process of the local runner.

Beam's own entry point for workers sends its log over the network and, at the end, waits for that
connection, the workers one after the other: about a second each. This one writes to standard error.
"""

from __future__ import annotations

import logging
import os
import sys

from apache_beam.runners.worker import sdk_worker_main

COMMAND = f"exec {sys.executable} -m beam_pipelines.local_worker"
VERBOSE = "BEAM_TFRECORDS_VERBOSE"
_LOG_SERVICE = "LOGGING_API_SERVICE_DESCRIPTOR"


def main() -> None:
    """Serves the runner that has started this process, until it has no more work."""
    if VERBOSE in os.environ:
        logging.basicConfig(format=f"worker {os.getpid()}: %(message)s")
    else:
        logging.disable(logging.WARNING)
    environment = {name: value for name, value in os.environ.items() if name != _LOG_SERVICE}
    _, harness, _ = sdk_worker_main.create_harness(environment)
    harness.run()
    sys.stdout.flush()
    sys.stderr.flush()
    # All work has been handed over; tearing down the interpreter would take another half second.
    os._exit(0)


if __name__ == "__main__":
    main()
