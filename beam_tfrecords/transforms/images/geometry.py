"""Plans orientation and sizes of an image, once for both codecs and for masks and objects."""

from __future__ import annotations

import dataclasses

import numpy as np

from beam_tfrecords.sizes import resized_size
from beam_tfrecords.transforms.images.decode_errors import check_pixels
from beam_tfrecords.transforms.images.image_spec import ImageSpec, Resample, ResizeMode
from beam_tfrecords.transforms.images.orient import swaps_sides

# EXIF orientation -> (x, y) in the upright image, each as factors of (x, y, width, height) in the file.
_UPRIGHT = {
    1: ((1, 0, 0, 0), (0, 1, 0, 0)),
    2: ((-1, 0, 1, 0), (0, 1, 0, 0)),
    3: ((-1, 0, 1, 0), (0, -1, 0, 1)),
    4: ((1, 0, 0, 0), (0, -1, 0, 1)),
    5: ((0, 1, 0, 0), (1, 0, 0, 0)),
    6: ((0, -1, 0, 1), (1, 0, 0, 0)),
    7: ((0, -1, 0, 1), (-1, 0, 1, 0)),
    8: ((0, 1, 0, 0), (-1, 0, 1, 0)),
}


@dataclasses.dataclass(frozen=True)
class Geometry:
    """Maps the pixels of a file to those of the stored image: turned, resized, then cropped or padded.

    Attributes:
      height: height of the image in the file in pixels, before turning.
      width: width of the image in the file in pixels, before turning.
      orientation: applied EXIF orientation, 1 to 8.
      resized_height: height of the whole upright image after the resize.
      resized_width: width of the whole upright image after the resize.
      final_height: height of the stored image, which is the middle of the resized image, or a black canvas with the
        resized image in its middle. An odd pixel goes to the bottom and the right.
      final_width: width of the stored image.
      is_nearest: whether stored pixels are picked from the source by Pillow's filter NEAREST.
      kept_orientation: EXIF orientation of a kept file, 1 to 8, that readers must still apply.
      drawn_in_file: whether masks and objects belong to the image in the file, not to the upright image.
    """

    height: int
    width: int
    orientation: int
    resized_height: int
    resized_width: int
    final_height: int
    final_width: int
    is_nearest: bool = False
    kept_orientation: int = 1
    drawn_in_file: bool = False

    @classmethod
    def unchanged(cls, height: int, width: int) -> Geometry:
        """Returns the geometry of a file whose bytes are stored."""
        return cls(height, width, 1, height, width, height, width)

    def keeping(self, orientation: int | None) -> Geometry:
        """Returns the geometry of a kept file with an EXIF orientation; None stands for no orientation."""
        return dataclasses.replace(self, kept_orientation=orientation or 1)

    @property
    def upright_size(self) -> tuple[int, int]:
        """(height, width) of the upright source, or of the image in the file if `drawn_in_file`."""
        is_turned = not self.drawn_in_file and swaps_sides(max(self.orientation, self.kept_orientation))
        return (self.width, self.height) if is_turned else (self.height, self.width)

    @property
    def keeps_pixels(self) -> bool:
        """Whether every pixel stays where it is."""
        resized, final = (self.resized_height, self.resized_width), (self.final_height, self.final_width)
        return self.orientation == 1 and (self.height, self.width) == resized == final

    @property
    def resized_unturned(self) -> tuple[int, int]:
        """(height, width) of the resized image before turning."""
        if swaps_sides(self.orientation):
            return self.resized_width, self.resized_height
        return self.resized_height, self.resized_width

    @property
    def offset(self) -> tuple[int, int]:
        """(rows, columns) cropped at the top and left; negative if padding adds them."""
        # Rounded towards zero, so that the odd pixel goes to the bottom and the right in both cases.
        return int((self.resized_height - self.final_height) / 2), int((self.resized_width - self.final_width) / 2)

    def to_stored(self) -> np.ndarray:
        """Returns the affine map from pixel coordinates in the file to those in the stored image.

        Coordinates are (x, y) from the top left corner of the image: the centre of the first pixel is (0.5, 0.5).

        Returns:
          [2, 3] float64 M such that M @ (x, y, 1) is a point in the stored image.
        """
        down, across = self.resized_unturned
        scaled = np.array([[across / self.width, 0, 0], [0, down / self.height, 0], [0, 0, across], [0, 0, down]])
        stored = np.array(_UPRIGHT[self.orientation]) @ scaled
        stored[:, 2] -= self.offset[::-1]
        return stored

    def upright_to_stored(self) -> np.ndarray:
        """Returns the map of `to_stored`, but from the pixel coordinates of the upright source, used by annotations."""
        if self.drawn_in_file:
            return self.to_stored()
        upright = np.array(_UPRIGHT[max(self.orientation, self.kept_orientation)])
        sizes = np.array([[1, 0, 0], [0, 1, 0], [0, 0, self.width], [0, 0, self.height]])
        turn = np.vstack([upright @ sizes, (0, 0, 1)])
        return self.to_stored() @ np.linalg.inv(turn)


def plan_geometry(height: int, width: int, *, orientation: int, spec: ImageSpec) -> Geometry:
    """Plans the sizes of one image.

    The deciding side fits exactly; the other is rounded to the nearest pixel (halves up), at least 1. Without
    `upscale` no side grows: SHORTER, LONGER, PAD and CROP leave a smaller image at scale 1, EXACT limits each side
    separately, CROP keeps a side that is already shorter, and PAD's canvas keeps its size.

    Raises:
      SampleError: reason `too_many_pixels` if the resized image or the canvas would exceed `max_pixels`.
    """
    upright = (width, height) if swaps_sides(orientation) else (height, width)
    resized, final = _sizes(*upright, spec)
    check_pixels(*resized, spec.max_pixels)
    check_pixels(*final, spec.max_pixels)
    return Geometry(height, width, orientation, *resized, *final, is_nearest=spec.resample is Resample.NEAREST)


def _sizes(height: int, width: int, spec: ImageSpec) -> tuple[tuple[int, int], tuple[int, int]]:
    """Returns the resized and the final (height, width) of an upright image."""
    if spec.image_size is None:
        return (height, width), (height, width)
    resized = resized_size(height, width, spec.image_size, spec.resize_mode.value)
    if not spec.upscale and spec.resize_mode is ResizeMode.EXACT:
        resized = min(resized[0], height), min(resized[1], width)
    elif not spec.upscale and (resized[0] > height or resized[1] > width):
        resized = height, width
    if spec.resize_mode is ResizeMode.CROP:
        return resized, (min(spec.image_size[0], resized[0]), min(spec.image_size[1], resized[1]))
    return resized, spec.image_size if spec.resize_mode is ResizeMode.PAD else resized
