"""Rejects settings that the source of a request does not use."""

from __future__ import annotations

import itertools

from beam_tfrecords.errors import RequestError
from beam_tfrecords.transforms.settings import settings_of
from beam_tfrecords.transforms.sources.inputs import quote_input
from beam_tfrecords.transforms.sources.registry import MASK_FILES, SOURCES, Registered, find_source
from beam_tfrecords.transforms.sources.source_spec import SourceSpec

# Settings that only some sources accept.
SOME_TAKE = tuple(dict.fromkeys(itertools.chain.from_iterable(entry.takes for entry in SOURCES)))
_DEFAULTS = {one.name: one.default for one in settings_of(SourceSpec)}


def refuse_settings(entry: Registered, spec: SourceSpec) -> None:
    """Checks that the source of a request accepts all given settings.

    Raises:
      RequestError: names a setting that the source does not accept.
    """
    where = f"{quote_input(spec.input[0])} is read as {entry.name}, which"
    for name in SOME_TAKE:
        value = getattr(spec, name)
        if value != _DEFAULTS[name] and name not in entry.takes:
            shown = ",".join(value) if isinstance(value, tuple) else getattr(value, "value", value)
            quoted = f"`{name}`" if value is True else f"`{name}={shown}`"
            raise RequestError(f"{quoted}: {where} {_explain(name, entry)}", code="setting_not_applicable")


def _explain(name: str, entry: Registered) -> str:
    """Explains why a source does not accept a setting, and what to do."""
    if name == "label_pattern" and entry.among and name in find_source(entry.among, "").takes:
        return f"has labels of its own; leave it out, or use `source={entry.among}` to read a folder of images"
    if name == "label_pattern" and entry.has_columns:
        return "has no folders; leave it out and name the column of the labels with `label_column`"
    if name == "allow_outside_root":
        return "names no files elsewhere; leave it out"
    if name in MASK_FILES:
        return "takes no files of masks; leave it out, or give folders or a table"
    if name in ("label_pattern", "classes") or entry.has_columns:
        return f"takes no `{name}`; leave it out"
    return f"has no columns; leave `{name}` out or give a table as `input`"
