"""What is asked of one image: the part of a build's spec that the image modules need."""

from __future__ import annotations

import dataclasses
import enum

from transforms.errors import RequestError


class ResizeMode(str, enum.Enum):
    """How an image of one shape becomes one of another.

    With a target of height H and width W (a single number N means H = W = N):

    * SHORTER: keep the aspect ratio; the smallest scale at which the image covers H x W (for a
      single number: the shorter side becomes N).
    * LONGER: keep the aspect ratio; the largest scale at which the image fits into H x W.
    * EXACT: H x W, whatever that does to the aspect ratio.
    * PAD: as LONGER, then centred on a black H x W canvas.
    * CROP: as SHORTER, then the central H x W.
    """

    SHORTER = "shorter"
    LONGER = "longer"
    EXACT = "exact"
    PAD = "pad"
    CROP = "crop"


class Resample(str, enum.Enum):
    """The filters, all antialiased when an image is made smaller."""

    BICUBIC = "bicubic"
    BILINEAR = "bilinear"
    LANCZOS = "lanczos"
    BOX = "box"
    NEAREST = "nearest"


class ImageEncoding(str, enum.Enum):
    """What is stored: an encoded file, raw pixels, or the source's own bytes."""

    JPEG = "jpeg"
    PNG = "png"
    WEBP = "webp"
    RAW = "raw"
    KEEP = "keep"


class Codec(str, enum.Enum):
    """FAST takes short cuts that nobody sees (PSNR of 38 dB or more); EXACT is what a Pillow script makes."""

    FAST = "fast"
    EXACT = "exact"


class Check(str, enum.Enum):
    """DECODE: every pixel is decoded once. HEADER: only the header is read (for KEEP)."""

    DECODE = "decode"
    HEADER = "header"


@dataclasses.dataclass(frozen=True)
class ImageSpec:
    """How images are read, resized and encoded.

    Attributes:
      size: target (height, width) in pixels, or None to keep each image's own size.
      resize_mode: how the target size is reached.
      resample: filter of the resize.
      upscale: whether smaller images are enlarged.
      encoding: form in which the image is stored.
      codec: fast or exact.
      jpeg_quality: 1 to 100, for JPEG and WebP output.
      channels: 1, 3 or 4; None keeps what the source has.
      check: how much of a source is decoded when encoding is KEEP.
      max_pixels: an image whose header claims more pixels is refused before it is decoded.
      allow_truncated: take what there is of a truncated file in place of refusing it.
    """

    size: tuple[int, int] | None = None
    resize_mode: ResizeMode = ResizeMode.SHORTER
    resample: Resample = Resample.BICUBIC
    upscale: bool = True
    encoding: ImageEncoding = ImageEncoding.JPEG
    codec: Codec = Codec.FAST
    jpeg_quality: int = 95
    channels: int | None = 3
    check: Check = Check.DECODE
    max_pixels: int = 178_956_970
    allow_truncated: bool = False

    def __post_init__(self) -> None:
        if self.size is not None and min(self.size) < 1:
            raise RequestError(f"--image_size={self.size[0]}x{self.size[1]}: both sides must be 1 pixel or more")
        if self.channels not in (None, 1, 3, 4):
            raise RequestError(f"--channels={self.channels}: expected 1, 3, 4 or keep")
        if not 1 <= self.jpeg_quality <= 100:
            raise RequestError(f"--jpeg_quality={self.jpeg_quality}: expected 1 to 100")
        if self.encoding is ImageEncoding.JPEG and self.channels == 4:
            raise RequestError("--channels=4: JPEG holds no transparency; use --image_encoding=png, webp or raw")
        if self.encoding is ImageEncoding.WEBP and self.channels == 1:
            raise RequestError("--channels=1: WebP holds no grey; use --image_encoding=jpeg, png or raw")


@dataclasses.dataclass(frozen=True)
class ConvertedImage:
    """One image as it goes into an example.

    Attributes:
      data: encoded file, or raw [H, W, C] uint8 pixels in row-major order.
      format: "jpeg", "png", "webp", "raw", or for KEEP the source's format in lower case.
      height: pixels.
      width: pixels.
      channels: 1, 3 or 4 (for KEEP: of the stored file as a decoder sees it).
      colorspace: "RGB", "Grayscale" or "RGBA".
    """

    data: bytes
    format: str
    height: int
    width: int
    channels: int
    colorspace: str
