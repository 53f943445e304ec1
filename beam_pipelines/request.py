"""From the words of a request to a build's spec, refusing what can't be meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from beam_pipelines import parsing
from transforms import storage
from transforms.dataset import SUCCESS
from transforms.errors import RequestError
from transforms.examples.layouts import parse_layout
from transforms.sources.spec import SourceSpec
from transforms.spec import NAME_RULE, BuildSpec, is_name


def build_spec(words: Mapping[str, Any]) -> BuildSpec:
    """Reads all words of a request.

    Raises:
      RequestError: if one is missing, wrong, or contradicts another.
    """
    inputs, output = _read_inputs(words["input"]), words["output"]
    if not output:
        raise RequestError("--output is missing; expected the folder that the dataset goes to")
    output = storage.absolute(str(output)).rstrip("/")
    name = words["name"] or parsing.default_name(inputs[0])
    if not is_name(str(name)):
        raise RequestError(f"--name={name}: expected {NAME_RULE}")
    splits = parsing.parse_splits(words["splits"])
    layout = parse_layout(words["layout"]) if words["layout"] is not None else None
    source = SourceSpec(
        input=inputs,
        source=str(words["source"]),
        label_pattern=words["label_pattern"],
        image_column=words["image_column"],
        label_column=words["label_column"],
        split_column=words["split_column"],
        key_column=words["key_column"],
        split_folders=splits.folders,
        splits_auto=splits.folders is None and splits.fractions is None,
        columns=layout.columns if layout else None,
        needs_label=layout.needs_label if layout else True,
        allow_outside_root=parsing.parse_bool("--allow_outside_root", words["allow_outside_root"]),
    )
    num_shards = words["num_shards"]
    return BuildSpec(
        source=source,
        output=output,
        name=str(name),
        class_names=_read_class_names(words["class_names"]),
        splits=splits,
        image=parsing.image_spec(words, layout),
        layout=layout,
        shard_size=parsing.parse_size("--shard_size", words["shard_size"]),
        num_shards=None if num_shards is None else parsing.parse_int("--num_shards", num_shards, at_least=1),
        compression=parsing.parse_compression(words["compression"]),
        seed=parsing.parse_int("--seed", words["seed"], at_least=0),
        max_failures=parsing.parse_share("--max_failures", words["max_failures"]),
        max_file_size=parsing.parse_size("--max_file_size", words["max_file_size"]),
        image_timeout=parsing.parse_int("--image_timeout", words["image_timeout"], at_least=1),
        duplicates=parsing.parse_duplicates(words["duplicates"]),
        overwrite=parsing.parse_bool("--overwrite", words["overwrite"]),
    )


def check_output(spec: BuildSpec) -> None:
    """Refuses an output that would harm what is there.

    Raises:
      RequestError: if a finished dataset is there and may not be replaced, if the output is a file, or if
        it lies among the input's images.
    """
    try:
        is_finished = storage.exists(storage.join(spec.output, SUCCESS))
    except (OSError, ValueError) as error:  # of which Beam raises one or the other for an unknown scheme
        raise RequestError(f"--output={spec.output}: can't be reached: {error}") from error
    if is_finished and not spec.overwrite:
        raise RequestError(
            f"--output={spec.output}: there is a finished dataset; say --overwrite to replace it, or another folder"
        )
    if storage.is_file(spec.output):
        raise RequestError(f"--output={spec.output}: is a file; expected a folder")
    for root in spec.source.input:
        if f"{spec.output}/".startswith(root.rstrip("/") + "/") and storage.is_folder(root):
            raise RequestError(
                f"--output={spec.output}: lies in --input={root}, so that the next build would take it for input; "
                "say a folder outside"
            )


def _read_inputs(value: Any) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    if not values or not all(values):
        raise RequestError("--input is missing; expected a folder, glob or manifest")
    return tuple(storage.absolute(str(one)) for one in values)


def _read_class_names(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, str) and "," not in value and storage.is_file(storage.absolute(value)):
        text = storage.read_bytes(storage.absolute(value)).decode("utf-8-sig")
        value = [line.strip() for line in text.splitlines() if line.strip()]
    return parsing.parse_class_names(value)
