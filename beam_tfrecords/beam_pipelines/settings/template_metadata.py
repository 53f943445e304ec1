"""The metadata of the Dataflow Flex Template, generated from the settings: parameters, groups, choices and checks.

python -m beam_tfrecords.beam_pipelines.settings.template_metadata > deploy/dataflow/metadata.json
"""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from beam_tfrecords.beam_pipelines.settings.definitions import SETTINGS
from beam_tfrecords.byte_sizes import number_of_bytes
from beam_tfrecords.sizes import read_image_size
from beam_tfrecords.transforms.images.image_spec import read_channels
from beam_tfrecords.transforms.request.build_spec import BuildSpec
from beam_tfrecords.transforms.settings import Setting, share, whole_number
from beam_tfrecords.transforms.sources.registry import FUNCTIONS, SOURCES

# The service checks parameters before it starts a machine. The patterns are POSIX extended regular expressions, and
# match everything that `read` of the setting accepts.
_PATTERNS: Mapping[Callable[[Any], Any], str] = {
    number_of_bytes: r"^ *[0-9]+([.][0-9]+)? *[A-Za-z]* *$",
    share: r"^ *[-+0-9._eE]+ *$",
    read_channels: r"^([1-9][0-9]{0,3}|keep)$",
    read_image_size: r"^ *[0-9]{1,5}( *[xX] *[0-9]{1,5})? *$",
}
_WHOLE_NUMBER = r"^[-+]?[0-9]{1,18}$"
# A template takes only locations.
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "source": ("auto", *(source.name for source in SOURCES if source.name != FUNCTIONS))
}
# Workers can only access locations that all machines can access; a split may precede the location.
_PLACE = r"^([A-Za-z0-9_]+=)?(gs|s3)://.+$"
_PLACES: Mapping[str, str] = {
    **dict.fromkeys(("input", "image_root", "mask_root"), _PLACE),
    "output": r"^(gs|s3)://[^/]+/.+$",
    "reuse": r"^(none|(gs|s3)://.+)$",
}
# Help texts that also name what the template does not take.
_HELP: Mapping[str, str] = {
    "input": "folder, glob, table or archive in a bucket, gs:// or s3://, also as train=PATH",
}
# Settings of inputs that are functions.
_LEFT_OUT = frozenset({"parts"})
_DATAFLOW = "Dataflow"
# Parameters that are not settings.
_OTHERS: tuple[dict[str, Any], ...] = (
    {
        "name": "spec",
        "label": "Spec file",
        "helpText": "YAML or JSON file with settings under the names of these parameters; a parameter beats it. "
        "What has several values, such as several inputs, is given here.",
        "isOptional": True,
        "paramType": "GCS_READ_FILE",
        "regexes": [r"^gs://[^/]+/.+$"],
        "groupName": "Spec file",
    },
    {
        "name": "fail_job",
        "label": "Fail job",
        "helpText": "Lets the job fail if it publishes nothing, because of a limit or guard. Default: off.",
        "isOptional": True,
        "paramType": "BOOLEAN",
        "defaultValue": "false",
        "groupName": _DATAFLOW,
    },
    {
        "name": "sdk_container_image",
        "label": "Image of the workers",
        "helpText": "The image of this template: the workers need the program and libraries of the launcher.",
        "isOptional": False,
        "paramType": "TEXT",
        "groupName": _DATAFLOW,
    },
    {
        "name": "number_of_worker_harness_threads",
        "label": "Threads per worker process",
        "helpText": "1 converts one image at a time in each process, of which there is one per core.",
        "isOptional": True,
        "paramType": "NUMBER",
        "regexes": [r"^[0-9]+$"],
        "defaultValue": "1",
        "groupName": _DATAFLOW,
    },
)


def template_metadata() -> dict[str, Any]:
    """Returns the metadata for `gcloud dataflow flex-template build --metadata-file`."""
    hints = _type_hints(BuildSpec)
    return {
        "name": "beam-tfrecords",
        "description": "Images and labels in; a shuffled, sharded, verified TFRecord dataset out.",
        "parameters": [
            *(
                _parameter(setting, hints[setting.name])
                for setting in SETTINGS.values()
                if setting.name not in _LEFT_OUT
            ),
            *_OTHERS,
        ],
    }


def _parameter(setting: Setting, hint: Any) -> dict[str, Any]:
    default = f" Default: {setting.shown_default}." if setting.shown_default else ""
    text = _HELP.get(setting.name, setting.help)
    parameter: dict[str, Any] = {
        "name": setting.name,
        "label": setting.name.replace("_", " ").capitalize(),
        "helpText": f"{text[0].upper()}{text[1:]}.{default}".replace("`", ""),
        # A spec file may contain it; the launcher refuses an incomplete request.
        "isOptional": True,
        "groupName": setting.group,
    }
    kinds = [kind for kind in _members(hint) if kind is not type(None)]
    choices = _CHOICES.get(setting.name) or tuple(choice for kind in kinds for choice in _choices(kind))
    pattern = _PLACES.get(setting.name) or _pattern(setting.read)
    if setting.is_switch:
        parameter.update(paramType="BOOLEAN", defaultValue=str(setting.default).lower())
    elif choices:
        parameter.update(paramType="ENUM", enumOptions=[{"value": choice, "label": choice} for choice in choices])
        if setting.default is not None and not callable(setting.default):
            parameter["defaultValue"] = str(setting.write(setting.default))
    elif pattern:
        parameter.update(paramType="NUMBER" if pattern == _WHOLE_NUMBER else "TEXT", regexes=[pattern])
    else:
        parameter["paramType"] = "TEXT"
    return parameter


def _pattern(read: Callable[[Any], Any]) -> str | None:
    # `whole_number` returns a new reader for each range.
    if getattr(read, "__qualname__", "").startswith(f"{whole_number.__qualname__}."):
        return _WHOLE_NUMBER
    return _PATTERNS.get(read)


def _type_hints(kind: type) -> dict[str, Any]:
    """Returns the types of a dataclass's fields by name, including those of nested dataclasses."""
    hints = typing.get_type_hints(kind)
    for hint in list(hints.values()):
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            hints = {**_type_hints(hint), **hints}
    return hints


def _members(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)


def _choices(kind: Any) -> tuple[str, ...]:
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return tuple(str(member.value) for member in kind)
    return typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()


if __name__ == "__main__":
    print(json.dumps(template_metadata(), indent=2))
