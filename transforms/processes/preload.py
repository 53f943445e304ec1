"""What the fork server imports once, for all workers."""

from __future__ import annotations

import importlib
import logging

# Beam warns on import about extras that are not installed.
logging.getLogger().setLevel(logging.CRITICAL)
for _module in ("blocks", "listing", "samples", "shards", "verifying", "duplicates.drop"):
    importlib.import_module(f"transforms.{_module}")
