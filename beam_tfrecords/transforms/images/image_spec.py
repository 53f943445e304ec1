"""The settings of image conversion."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Mapping
from typing import Any

from beam_tfrecords.byte_sizes import number_of_bytes
from beam_tfrecords.features.contents import Content
from beam_tfrecords.geometry.sizes import FIXED_MODES, read_image_size
from beam_tfrecords.transforms.mask_colors import NAMED, MaskColors, read_mask_colors, read_mask_values
from beam_tfrecords.transforms.settings import FAILURES, IMAGES, one_of, setting, switch, whole_number


class ResizeMode(str, enum.Enum):
    """Method of resizing an image to the target size of H x W pixels (one number N means H = W = N).

    * SHORTER: keeps the aspect ratio; uses the smallest scale at which the image covers H x W. With one number, the
      shorter side becomes N.
    * LONGER: keeps the aspect ratio; uses the largest scale at which the image fits into H x W.
    * EXACT: resizes to H x W, whatever the aspect ratio.
    * PAD: resizes as LONGER, then centers the image on a black H x W canvas.
    * CROP: resizes as SHORTER, then cuts out the central H x W.
    """

    SHORTER = "shorter"
    LONGER = "longer"
    EXACT = "exact"
    PAD = "pad"
    CROP = "crop"


class Resample(str, enum.Enum):
    """Resize filters, antialiased when an image shrinks."""

    BICUBIC = "bicubic"
    BILINEAR = "bilinear"
    LANCZOS = "lanczos"
    BOX = "box"
    NEAREST = "nearest"


class ImageEncoding(str, enum.Enum):
    """Encoding of stored images: an encoded file, raw pixels, or the source's own bytes."""

    JPEG = "jpeg"
    PNG = "png"
    WEBP = "webp"
    RAW = "raw"
    KEEP = "keep"


class Codec(str, enum.Enum):
    """EXACT writes the same bytes as a Pillow script; FAST stays within 38 dB PSNR of these pixels for most images."""

    FAST = "fast"
    EXACT = "exact"


class ArrayType(str, enum.Enum):
    """Type of the numbers of stored arrays."""

    UINT8 = "uint8"
    UINT16 = "uint16"
    FLOAT32 = "float32"


class Axes(str, enum.Enum):
    """Order of the axes of a .npy file: channels last or first."""

    HWC = "HWC"
    CHW = "CHW"


class Pages(str, enum.Enum):
    """What the pages of a TIFF file are: FIRST takes the first one only, BANDS takes all as channels."""

    FIRST = "first"
    BANDS = "bands"


class Metadata(str, enum.Enum):
    """Whether metadata of a file, such as its orientation, is applied to its pixels."""

    APPLY = "apply"
    IGNORE = "ignore"


# Channels that an encoding cannot hold: transparency in JPEG, gray in WebP.
IMPOSSIBLE_CHANNELS: Mapping[ImageEncoding, int] = {ImageEncoding.JPEG: 4, ImageEncoding.WEBP: 1}


def read_channels(word: Any) -> int | None:
    """Reads a number of channels; None for `keep`."""
    if word == "keep":
        return None
    if re.fullmatch("[1-9][0-9]{0,3}", str(word)):
        return int(word)
    raise ValueError("expected 1, 3, 4 or keep, or the channels of arrays")


def read_bit_depth(word: Any) -> int:
    """Reads a number of bits per channel."""
    if str(word) in ("8", "16"):
        return int(word)
    raise ValueError("expected 8 or 16")


def _default_encoding(earlier: Mapping[str, Any]) -> ImageEncoding:
    layout = earlier.get("layout")
    is_raw = layout and (Content.ARRAY in layout.required or "image.pixels" in layout.fields)
    return ImageEncoding.RAW if is_raw else ImageEncoding.JPEG


def _default_channels(earlier: Mapping[str, Any]) -> int | None:
    layout = earlier.get("layout")
    is_array = layout is not None and Content.ARRAY in layout.required
    return None if earlier["image_encoding"] is ImageEncoding.KEEP or is_array else 3


@dataclasses.dataclass(frozen=True)
class ImageSpec:
    """The settings for reading, resizing and encoding images."""

    image_size: tuple[int, int] | None = setting(
        None,
        help="target size in pixels: 256, or height x width as 224x160",
        shown_default="the size of each image",
        group=IMAGES,
        read=read_image_size,
        write=lambda size: None if size is None else f"{size[0]}x{size[1]}",
    )
    resize_mode: ResizeMode = setting(
        ResizeMode.SHORTER,
        help="how the target size is reached: shorter, longer, exact, pad or crop",
        group=IMAGES,
        read=one_of(ResizeMode),
    )
    resample: Resample = setting(
        Resample.BICUBIC,
        help="resize filter: bicubic, bilinear, lanczos, box or nearest",
        group=IMAGES,
        read=one_of(Resample),
    )
    upscale: bool = setting(
        True, help="enlarge smaller images; `no_upscale` leaves them", shown_default="on", group=IMAGES, read=switch
    )
    orientation: Metadata = setting(
        Metadata.APPLY,
        help="EXIF orientation: apply (images are stored upright) or ignore",
        group=IMAGES,
        read=one_of(Metadata),
    )
    color_profile: Metadata = setting(
        Metadata.APPLY,
        help="embedded color profile: apply (pixels become sRGB) or ignore, as tf.io.decode_jpeg does",
        group=IMAGES,
        read=one_of(Metadata),
    )
    image_encoding: ImageEncoding = setting(
        ImageEncoding.JPEG,
        help="jpeg, png, webp, raw, or keep: the source's own bytes",
        shown_default="jpeg; raw if the layout asks for image.pixels or image.array",
        default_from=_default_encoding,
        group=IMAGES,
        read=one_of(ImageEncoding),
    )
    codec: Codec = setting(
        Codec.FAST,
        help="fast, or exact: byte for byte what Pillow writes",
        group=IMAGES,
        read=one_of(Codec),
    )
    jpeg_quality: int = setting(
        95, help="quality of JPEG and WebP files, 1 to 100", group=IMAGES, read=whole_number(1, 100)
    )
    channels: int | None = setting(
        3,
        help="channels of the stored image: 1, 3, 4 or keep; any number for arrays",
        shown_default="3; keep with `image_encoding=keep`; of arrays as in the first samples",
        default_from=_default_channels,
        group=IMAGES,
        read=read_channels,
        write=lambda channels: channels or "keep",
    )
    bit_depth: int = setting(
        8,
        help="bits per channel of the stored image: 8, or 16 with `image_encoding=png`",
        group=IMAGES,
        read=read_bit_depth,
    )
    # `ConvertSample.sample_hashes` includes these three settings only for samples with arrays.
    array_type: ArrayType | None = setting(
        None,
        help="type of the numbers of arrays (`layout=array`): uint8, uint16 or float32",
        shown_default="as in the first samples",
        group=IMAGES,
        read=one_of(ArrayType),
        decides_records=False,
    )
    array_axes: Axes | None = setting(
        None,
        help="order of the axes of a .npy file with an image: HWC or CHW",
        shown_default="HWC, if the last axis is the shortest",
        group=IMAGES,
        read=one_of(Axes),
        decides_records=False,
    )
    pages: Pages | None = setting(
        None,
        help="how arrays take the pages of a TIFF file: bands (all are channels), or first (the others are left out)",
        shown_default="refuses several pages",
        group=IMAGES,
        read=one_of(Pages),
        decides_records=False,
    )
    # `ConvertSample.sample_hashes` includes these four settings only for samples with masks.
    mask_bit_depth: int = setting(
        8,
        help="bits of a stored mask: 8, or 16 for numbers above 255",
        group=IMAGES,
        read=read_bit_depth,
        decides_records=False,
    )
    mask_padding: int = setting(
        0,
        help="number in a mask where `resize_mode=pad` adds pixels, such as 255",
        group=IMAGES,
        read=whole_number(0, 65535),
        decides_records=False,
    )
    mask_colors: MaskColors | None = setting(
        None,
        help="masks of colors become masks of class indices: a file of names and colors with lines such as "
        f"`road 128 64 128`, or {', '.join(NAMED[:-1])} or {NAMED[-1]}",
        group=IMAGES,
        read=read_mask_colors,
        write=lambda colors: colors and colors.to_json(),
        decides_records=False,
    )
    mask_values: tuple[tuple[int, int], ...] = setting(
        (),
        help="numbers in the files of masks, each with its number in the records, such as 255:1,128:0, or ranges of "
        "them, such as 0-127:0,128-255:1",
        group=IMAGES,
        read=read_mask_values,
        write=lambda values: {str(value): number for value, number in values} or None,
        shown_default="",
        decides_records=False,
    )
    max_pixels: int = setting(
        178_956_970, help="images with more pixels are rejected before decoding", group=FAILURES, read=whole_number(1)
    )
    max_image_memory: int = setting(
        10**9,
        help="images that would take more memory than this, estimated from the header, are rejected before decoding",
        shown_default="1GB",
        group=FAILURES,
        read=number_of_bytes,
    )
    allow_truncated: bool = setting(
        False, help="take truncated files; the missing rows are gray or black", group=FAILURES, read=switch
    )

    @property
    def has_fixed_size(self) -> bool:
        """Whether every stored image has exactly the requested height and width."""
        return self.image_size is not None and self.resize_mode.value in FIXED_MODES and self.upscale

    @property
    def stored_bits(self) -> int:
        """Bits of a stored number."""
        return {ArrayType.UINT16: 16, ArrayType.FLOAT32: 32}.get(self.array_type or ArrayType.UINT8, self.bit_depth)

    @property
    def mask_numbers(self) -> tuple[tuple[int, int], ...]:
        """(color or number in the file of a mask, number in the record); empty if numbers stay as they are."""
        return self.mask_colors.numbers if self.mask_colors else self.mask_values
