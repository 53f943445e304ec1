"""Imports the modules that all workers need, once in the fork server."""

from __future__ import annotations

import importlib

for _module in ("blocks.convert_block", "listing.indexing", "shards.compose", "verifying.checks", "duplicates.groups"):
    importlib.import_module(f"beam_tfrecords.transforms.{_module}")
