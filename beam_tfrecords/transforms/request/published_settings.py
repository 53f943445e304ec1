"""The settings of a request as published files contain them: without local paths."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.dataset.published_paths import PublishedPaths
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.settings import settings_of

# Setting -> what its paths are.
_PATHS = {one.name: one.paths for one in settings_of(BuildSpec) if one.paths}
# A path, after its split or name if it has one: train=/data/photos.
_WORD = re.compile(r"((?:[A-Za-z][A-Za-z0-9_]*=)?)(.*)", re.DOTALL)


def published_paths(spec: BuildSpec) -> PublishedPaths:
    """Returns the published paths of a request.

    Those of a function's samples start at the folder of its module; those of a function without a module, and of
    `WriteDataset`, at the folder that contains the output.
    """
    settings = spec.to_json()
    words = _words(settings, "input")
    if not any(word.startswith("/") or storage.has_scheme(word) for word in words):
        # Not the current folder: a scheduler may start each build in another one, and workers have their own.
        modules = list(spec.input_function.paths.values()) if spec.input_function else []
        words += modules or [storage.join(storage.dirname(spec.output), "*")]
    reuse = spec.reuse
    return PublishedPaths.of(words, [*_words(settings, "other"), *([reuse] if reuse else [])])


def publish_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns plain settings without local paths and without the output. Published settings stay unchanged."""
    paths = PublishedPaths.of(_words(settings, "input"), _words(settings, "other"))

    def publish(word: str) -> str:
        start, path = _WORD.fullmatch(word).groups()  # type: ignore[union-attr]
        return f"{start}{paths.publish(path)}"

    def publish_name(word: str) -> str:
        published = paths.publish(word)
        return published if published in ("", word) or not published.startswith("@") else storage.basename(word)

    published = {name: value for name, value in settings.items() if name != "output"}
    for name in _PATHS.keys() & published.keys():
        published[name] = _map(publish if _PATHS[name] == "input" else publish_name, published[name])
    return published


def _words(settings: Mapping[str, Any], kind: str) -> list[str]:
    """Returns the paths in plain settings, without their splits and names."""
    found: list[str] = []

    def add(word: str) -> str:
        found.append(_WORD.fullmatch(word)[2])  # type: ignore[index]
        return word

    for name, paths in _PATHS.items():
        if paths == kind:
            _map(add, settings.get(name))
    return found


def _map(function: Callable[[str], str], value: Any) -> Any:
    """Applies a function to all strings of a plain value."""
    if isinstance(value, Mapping):
        return {name: _map(function, one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_map(function, one) for one in value]
    return function(value) if isinstance(value, str) else value
