"""Maps an image to the one that is stored or returned, for its pixels, masks and objects alike."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from beam_tfrecords.geometry.sizes import resized_size

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


def swaps_sides(orientation: Any) -> Any:
    """Whether turning an image upright swaps height and width: by a quarter turn, or by a flip along a diagonal.

    Takes one orientation, or an array of them.
    """
    return orientation >= 5


@dataclasses.dataclass(frozen=True)
class Geometry:
    """Maps the pixels of a file to the pixels of the stored image: turned, resized, then cropped or padded.

    Attributes:
      height: height of the image in the file in pixels, before turning.
      width: width of the image in the file in pixels, before turning.
      orientation: applied EXIF orientation, 1 to 8.
      resized: (height, width) of the whole upright image after the resize.
      final: (height, width) of the stored image, which is the middle of the resized image, or a black canvas with the
        resized image in its middle. An odd pixel goes to the bottom and the right.
      is_nearest: whether stored pixels are picked from the source by Pillow's filter NEAREST.
      kept_orientation: EXIF orientation of a kept file, 1 to 8, that readers must still apply.
      drawn_in_file: whether masks and objects belong to the image in the file, not to the upright image.
    """

    height: int
    width: int
    orientation: int
    resized: tuple[int, int]
    final: tuple[int, int]
    is_nearest: bool = False
    kept_orientation: int = 1
    drawn_in_file: bool = False

    @classmethod
    def unchanged(cls, height: int, width: int) -> Geometry:
        """Returns the geometry of a file whose bytes are stored."""
        return cls(height, width, 1, (height, width), (height, width))

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
        return self.orientation == 1 and (self.height, self.width) == self.resized == self.final

    @property
    def resized_unturned(self) -> tuple[int, int]:
        """(height, width) of the resized image before turning."""
        height, width = self.resized
        return (width, height) if swaps_sides(self.orientation) else (height, width)

    @property
    def offset(self) -> tuple[int, int]:
        """(rows, columns) cropped at the top and left; negative if padding adds them."""
        # Rounded toward zero, so that the odd pixel goes to the bottom and the right in both cases.
        return int((self.resized[0] - self.final[0]) / 2), int((self.resized[1] - self.final[1]) / 2)

    def to_stored(self) -> np.ndarray:
        """Returns the affine map from pixel coordinates in the file to coordinates in the stored image.

        Coordinates are (x, y) from the top left corner of the image: the center of the first pixel is (0.5, 0.5).

        Returns:
          [2, 3] float64 M such that M @ (x, y, 1) is a point in the stored image.
        """
        down, across = self.resized_unturned
        if self.orientation == 1:
            # Readers map every record.
            top, left = self.offset
            return np.array([[across / self.width, 0, -left], [0, down / self.height, -top]])
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


def plan(
    height: int,
    width: int,
    size: tuple[int, int] | None,
    mode: str,
    *,
    orientation: int = 1,
    upscale: bool = True,
    is_nearest: bool = False,
) -> Geometry:
    """Plans the sizes of one image.

    The deciding side fits exactly; the other is rounded to the nearest pixel (halves up), at least 1. Without
    `upscale` no side grows: "shorter", "longer", "pad" and "crop" leave a smaller image at scale 1, "exact" limits each
    side separately, "crop" keeps a side that is already shorter, and the canvas of "pad" keeps its size.

    Args:
      height: height of the image in the file in pixels.
      width: width of the image in the file in pixels.
      size: the requested (height, width) in pixels; None keeps the size of the image.
      mode: as in `resized_size`.
      orientation: as in `Geometry`.
      upscale: whether sides may grow.
      is_nearest: as in `Geometry`.
    """
    upright = (width, height) if swaps_sides(orientation) else (height, width)
    resized = final = upright
    if size is not None:
        resized = resized_size(*upright, size, mode)
        if not upscale and mode == "exact":
            resized = min(resized[0], upright[0]), min(resized[1], upright[1])
        elif not upscale and (resized[0] > upright[0] or resized[1] > upright[1]):
            resized = upright
        cut = min(size[0], resized[0]), min(size[1], resized[1])
        final = {"crop": cut, "pad": size}.get(mode, resized)
    return Geometry(height, width, orientation, resized, final, is_nearest=is_nearest)
