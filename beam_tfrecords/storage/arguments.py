"""Arguments of a command that Beam's file systems read: `--azure_connection_string`, `--hdfs_host` and the like."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

# In the environment, so that worker processes have them too.
BEAM_ARGUMENTS = "BEAM_TFRECORDS_BEAM_ARGUMENTS"


def set_beam_arguments(words: Sequence[str]) -> None:
    """Passes arguments on to Beam's file systems, in this process and those that it starts from now on."""
    os.environ[BEAM_ARGUMENTS] = json.dumps(list(words))
