"""Prism, Beam's portable runner in Go."""

from __future__ import annotations

from beam_tfrecords.beam_pipelines.runners.runner import Runner


class PrismRunner(Runner):
    """Beam's portable runner in Go, in a process of its own for each pipeline."""

    def complete(self) -> list[str]:
        # Otherwise Beam takes the one of any earlier pipeline of this process, whatever `prism_location` says now.
        experiment = "--experiments=disable_prism_server_singleton"
        # What Prism writes to its console, Beam shows whatever level is asked for.
        return [*self.arguments.add({"prism_log_kind": "text"}), experiment]
