"""The runner for Prism, Beam's portable runner in Go."""

from __future__ import annotations

from beam_tfrecords.beam_pipelines.runners.runner import Runner


class PrismRunner(Runner):
    """Beam's portable runner in Go, with a separate process for each pipeline."""

    def complete(self) -> list[str]:
        # Otherwise Beam reuses the Prism of an earlier pipeline in this process and ignores `prism_location`.
        experiment = "--experiments=disable_prism_server_singleton"
        # Beam shows Prism's console output at any log level.
        return [*self.arguments.add({"prism_log_kind": "text"}), experiment]
