"""`convert` with other times of the lease: `python -m tests.core.lease_times RENEWAL STALE WORD...`, in seconds."""

from __future__ import annotations

import sys

from beam_tfrecords.beam_pipelines.commands.cli import main
from beam_tfrecords.storage.lease import Lease

if __name__ == "__main__":
    renewal, stale, *words = sys.argv[1:]
    Lease.take.__func__.__kwdefaults__.update(renewal=float(renewal), stale=float(stale))  # type: ignore[attr-defined]
    sys.exit(main(["convert", *words]))
