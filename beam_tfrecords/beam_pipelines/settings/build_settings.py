"""Settings of `build` for editors and type checkers; made by `typed_settings`."""

# fmt: off

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypedDict

Path: TypeAlias = "str | os.PathLike[str]"
Words: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"


class BuildSettings(TypedDict, total=False):
    """Settings under the names of the flags, with values as in a spec file."""
    # Input
    input: Words | Callable[..., Any]
    source: str
    mapping: str
    save_mapping: str
    parts: str | Sequence[str | int | float]
    label_pattern: str
    image_column: str
    label_column: str
    label_type: Literal['class', 'float', 'text']
    group_rows: bool
    label_columns: Words
    split_column: str
    key_column: str
    allow_outside_root: bool
    allow_private_addresses: bool
    trust_annotations: bool
    images: Words
    image_path: str
    image_root: Words
    mask_root: Words
    mask_column: str
    mask_suffix: str
    image_suffix: str
    mask_classes: Words
    pixels: str
    label_separator: str
    unknown_labels: Literal['reject', 'no', 'yes']
    missing_values: Words
    delimiter: str
    encoding: str
    include: Words
    exclude: Words
    classes: Words
    group_column: str
    box_columns: Words
    box_format: Literal['auto', 'xyxy', 'xywh', 'cxcywh']
    box_unit: Literal['auto', 'pixels', 'shares']
    run_order: Literal['columns', 'rows']
    window: Literal['file', 'full']
    join: Words
    join_key: Words
    fingerprint: Literal['stat', 'content']
    requester_pays: str
    class_names: Words | Sequence[Mapping[str, Any]] | Mapping[Any, Any]
    class_order: Literal['stable', 'sorted']
    splits: str | Mapping[str, Any]
    stratify: bool
    limit: int
    map: str | Callable[..., Any]
    map_revision: str
    check_map: bool
    where: str
    # Output
    output: Path
    name: str
    description: str
    license: str
    homepage: str
    citation: str
    layout: str | Mapping[str, Any]
    shard_size: int | str
    num_shards: int
    compression: Literal['none', 'gzip']
    seed: int
    overwrite: bool
    # Rejected images
    max_failures: float
    allow_damaged_containers: bool
    max_file_size: int | str
    image_timeout: int
    duplicates: Literal['keep', 'drop', 'fail']
    near_duplicates: int
    invalid_boxes: Literal['reject', 'drop']
    max_pixels: int
    max_image_memory: int | str
    allow_truncated: bool
    # Images
    image_size: int | str | tuple[int, int]
    resize_mode: Literal['shorter', 'longer', 'exact', 'pad', 'crop']
    resample: Literal['bicubic', 'bilinear', 'lanczos', 'box', 'nearest']
    upscale: bool
    orientation: Literal['apply', 'ignore']
    color_profile: Literal['apply', 'ignore']
    image_encoding: Literal['jpeg', 'png', 'webp', 'raw', 'keep']
    codec: Literal['fast', 'exact']
    jpeg_quality: int
    channels: int | str
    bit_depth: int | str
    array_type: Literal['uint8', 'uint16', 'float32']
    array_axes: Literal['HWC', 'CHW']
    pages: Literal['first', 'bands']
    mask_bit_depth: int | str
    mask_padding: int
    mask_colors: Path | Sequence[Mapping[str, Any]] | Mapping[str, Any]
    mask_values: str | Mapping[int, int]
    # Scheduled builds
    versioned: bool
    keep_versions: int
    grace: int | str
    reuse: Path
    guard: Literal['strict', 'warn', 'off']
    accept: Words
    min_count_ratio: float
    max_count_ratio: float
    max_failure_rise: float
    max_share_change: float
    min_size_ratio: float
    max_size_ratio: float
