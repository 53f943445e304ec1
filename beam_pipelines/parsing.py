"""From the words of flags and spec files to values, with a clear refusal for every wrong one."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from transforms.errors import RequestError
from transforms.examples.layouts import Layout
from transforms.images.spec import Check, Codec, ImageEncoding, ImageSpec, Resample, ResizeMode
from transforms.spec import NAME_RULE, Duplicates, Splits, is_name
from transforms.tfrecord import Compression

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


def parse_size(flag: str, value: Any) -> int:
    """Reads a number of bytes: `150MB` (10**6), `16MiB` (2**20) or a plain number.

    Raises:
      RequestError: if it is none of these or not positive.
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", str(value))
    if match and match[2].upper() in _UNITS:
        size = int(float(match[1]) * _UNITS[match[2].upper()])
        if size > 0:
            return size
    raise RequestError(f"{flag}={value}: not a size; expected something like 150MB, 16MiB or a number of bytes")


def parse_image_size(value: Any) -> tuple[int, int]:
    """Reads `256` (both sides) or `224x160` (height x width), in pixels.

    Raises:
      RequestError: if it is neither.
    """
    match = re.fullmatch(r"\s*([0-9]{1,5})(?:\s*[xX]\s*([0-9]{1,5}))?\s*", str(value))
    if match:
        height = int(match[1])
        width = int(match[2] or height)
        if height and width:
            return height, width
    raise RequestError(f"--image_size={value}: expected pixels as 256, or as height x width: 224x160")


def parse_splits(value: Any) -> Splits:
    """Reads `auto`, fractions (`train=0.9,validation=0.1`) or folders (`train=training_data,…`).

    Raises:
      RequestError: if it is none of these, fractions do not sum to 1, or a split's name can't be one.
    """
    if value == "auto":
        return Splits()
    if isinstance(value, str):
        pairs = [pair.partition("=") for pair in value.split(",")]
        if any(not (split and equals and word) for split, equals, word in pairs):
            raise RequestError(
                f"--splits={value}: expected auto, fractions (train=0.9,validation=0.1) or folders by name "
                "(train=training_data,validation=crossvalidation_data)"
            )
        items = [(split.strip(), word.strip()) for split, _, word in pairs]
    elif isinstance(value, Mapping):
        items = [(str(split), str(word)) for split, word in value.items()]
    else:
        raise RequestError(f"splits: expected auto or a mapping of split to fraction or folder, found {value!r}")
    _check_unique("--splits", [split for split, _ in items])
    for split, _ in items:
        if not is_name(split) or split == "all":
            raise RequestError(f"--splits: {split!r} can't name a split; expected {NAME_RULE} (and not `all`)")
    fractions = [_as_fraction(word) for _, word in items]
    if all(fraction is None for fraction in fractions):
        _check_unique("--splits", [word for _, word in items])
        return Splits(folders={word: split for split, word in items})
    if any(fraction is None or not 0 < fraction <= 1 for fraction in fractions):
        found = ", ".join(f"{split}={word}" for split, word in items)
        raise RequestError(f"--splits={found}: expected fractions between 0 and 1 for all splits, or folders for all")
    total = math.fsum(fraction for fraction in fractions if fraction)
    if abs(total - 1) > 1e-9:
        raise RequestError(f"--splits: fractions sum to {total:g}; expected 1")
    return Splits(fractions={split: float(word) for split, word in items})


def image_spec(words: Mapping[str, Any], layout: Layout | None) -> ImageSpec:
    """Reads the flags about images, and holds them against each other and the layout.

    Raises:
      RequestError: if a value is not known or two contradict each other.
    """
    wants_pixels = layout is not None and "image.pixels" in layout.fields
    encoding = words["image_encoding"] or ("raw" if wants_pixels else "jpeg")
    if wants_pixels and encoding != "raw":
        raise RequestError(
            f"--image_encoding={encoding}: the layout asks for image.pixels, which is raw; "
            "say --image_encoding=raw, or ask for image.encoded"
        )
    # Bytes that are to be kept are not touched for a default's sake.
    channels = words["channels"] if words["channels"] is not None else "keep" if encoding == "keep" else 3
    size = words["image_size"]
    mode = _choice("--resize_mode", ResizeMode, words["resize_mode"])
    spec = ImageSpec(
        size=None if size is None else parse_image_size(size),
        resize_mode=mode,
        resample=_choice("--resample", Resample, words["resample"]),
        upscale=parse_bool("--upscale", words["upscale"]),
        encoding=_choice("--image_encoding", ImageEncoding, encoding),
        codec=_choice("--codec", Codec, words["codec"]),
        jpeg_quality=parse_int("--jpeg_quality", words["jpeg_quality"], at_least=1, at_most=100),
        channels=_parse_channels(channels),
        check=_choice("--check", Check, words["check"]),
        max_pixels=parse_int("--max_pixels", words["max_pixels"], at_least=1),
        allow_truncated=parse_bool("--allow_truncated", words["allow_truncated"]),
    )
    if spec.encoding is ImageEncoding.JPEG and spec.channels == 4:
        raise RequestError("--channels=4: JPEG has no transparency; say --image_encoding=png, webp or raw")
    if spec.check is Check.HEADER and spec.encoding is not ImageEncoding.KEEP:
        raise RequestError("--check=header: only --image_encoding=keep can do without decoding")
    if spec.check is Check.HEADER and spec.size is not None:
        raise RequestError("--check=header: --image_size asks for decoding; leave one of the two out")
    return spec


def parse_bool(flag: str, value: Any) -> bool:
    """Reads a yes or no.

    Raises:
      RequestError: if it is neither.
    """
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    raise RequestError(f"{flag}={value}: expected true or false")


def parse_int(flag: str, value: Any, *, at_least: int, at_most: int | None = None) -> int:
    """Reads a whole number within bounds.

    Raises:
      RequestError: if it is none or outside.
    """
    bounds = f"of {at_least} or more" if at_most is None else f"from {at_least} to {at_most}"
    if not isinstance(value, bool) and re.fullmatch(r"[+-]?[0-9]+", str(value)):
        number = int(value)
        if number >= at_least and (at_most is None or number <= at_most):
            return number
    raise RequestError(f"{flag}={value}: expected a whole number {bounds}")


def parse_share(flag: str, value: Any) -> float:
    """Reads a share between 0 and 1.

    Raises:
      RequestError: if it is none.
    """
    share = _as_fraction(str(value))
    if share is None or not 0 <= share <= 1:
        raise RequestError(f"{flag}={value}: expected a share between 0 and 1, such as 0.01")
    return share


def parse_compression(value: Any) -> Compression:
    """Reads the name of a compression.

    Raises:
      RequestError: if it is not known.
    """
    if value == "none":
        return "none"
    if value == "gzip":
        return "gzip"
    raise RequestError(f"--compression={value}: expected none or gzip")


def parse_duplicates(value: Any) -> Duplicates:
    """Reads what happens to images with the same bytes.

    Raises:
      RequestError: if it is not known.
    """
    duplicates: Duplicates = _choice("--duplicates", Duplicates, value)
    return duplicates


def parse_class_names(value: Any) -> tuple[str, ...]:
    """Reads class names from a list or a comma-separated string.

    Raises:
      RequestError: if there are none, or one is empty or there twice.
    """
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else [str(name) for name in value]
    if not names or not all(names):
        raise RequestError(f"--class_names: expected names in index order, found {names!r}")
    _check_unique("--class_names", names)
    return tuple(names)


def default_name(first_input: str) -> str:
    """A dataset's name made from its input's."""
    stem = re.sub(r"\.[A-Za-z0-9]+$", "", first_input.rstrip("/").rsplit("/", 1)[-1])
    name = re.sub(r"[^a-z0-9]+", "_", stem.lower()).strip("_")
    return name if is_name(name) else f"dataset_{name}".rstrip("_")


def _parse_channels(value: Any) -> int | None:
    if value == "keep":
        return None
    if str(value) in ("1", "3", "4"):
        return int(value)
    raise RequestError(f"--channels={value}: expected 1, 3, 4 or keep")


def _choice(flag: str, kind: Any, value: Any) -> Any:
    try:
        return kind(str(value))
    except ValueError:
        raise RequestError(f"{flag}={value}: expected one of {', '.join(one.value for one in kind)}") from None


def _as_fraction(word: str) -> float | None:
    try:
        number = float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _check_unique(flag: str, words: list[str]) -> None:
    twice = sorted({word for word in words if words.count(word) > 1})
    if twice:
        raise RequestError(f"{flag}: {', '.join(twice)} given more than once")
