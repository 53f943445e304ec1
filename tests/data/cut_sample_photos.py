"""Cuts the sample photos below tests/data/photos from the originals that its credits name.

    python tests/data/cut_sample_photos.py --output=tests/data/photos SKIMAGE/data SKLEARN/datasets/images

The folders are those of the installed scikit-image and scikit-learn packages. The same originals and
the same Pillow make the same bytes.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib

from PIL import ExifTags, Image

_QUALITY = 90

# EXIF orientation -> what to do to the upright picture so that a reader who applies the tag undoes it.
_UNDONE_BY_READER = {3: Image.Transpose.ROTATE_180, 6: Image.Transpose.ROTATE_90}


@dataclasses.dataclass(frozen=True)
class Cut:
    """One sample photo.

    Attributes:
      name: path below the output folder, without extension: class/name.
      original: file name of the original.
      box: left, top, right, bottom in pixels of the original.
      width: pixels of the upright result; the height follows from the box.
      chroma: Pillow's name of the chroma subsampling.
      progressive: whether the JPEG is progressive.
      orientation: EXIF orientation to store; 1 stores none.
    """

    name: str
    original: str
    box: tuple[int, int, int, int]
    width: int
    chroma: str = "4:2:0"
    progressive: bool = False
    orientation: int = 1


CUTS = (
    Cut("building/building_01", "china.jpg", (0, 0, 640, 427), 480),
    Cut("building/building_02", "china.jpg", (50, 20, 390, 420), 340, chroma="4:4:4"),
    Cut("building/building_03", "china.jpg", (80, 20, 350, 230), 400),
    Cut("building/building_04", "china.jpg", (40, 160, 400, 427), 400),
    Cut("building/building_05", "china.jpg", (300, 130, 640, 400), 420),
    Cut("building/building_06", "china.jpg", (60, 90, 280, 380), 320, orientation=6),
    Cut("cat/cat_01", "chelsea.png", (0, 0, 451, 300), 451),
    Cut("cat/cat_02", "chelsea.png", (20, 0, 320, 300), 360, chroma="4:4:4"),
    Cut("cat/cat_03", "chelsea.png", (90, 60, 390, 240), 440),
    Cut("cat/cat_04", "chelsea.png", (110, 0, 351, 300), 301),
    Cut("cat/cat_05", "chelsea.png", (150, 120, 451, 300), 450, chroma="4:4:4"),
    Cut("cat/cat_06", "chelsea.png", (0, 30, 270, 210), 400),
    Cut("coffee/coffee_01", "coffee.png", (0, 0, 600, 400), 500),
    Cut("coffee/coffee_02", "coffee.png", (130, 0, 450, 400), 320, chroma="4:4:4"),
    Cut("coffee/coffee_03", "coffee.png", (60, 40, 500, 340), 440),
    Cut("coffee/coffee_04", "coffee.png", (150, 20, 430, 230), 420),
    Cut("coffee/coffee_05", "coffee.png", (230, 130, 540, 380), 400, chroma="4:4:4"),
    Cut("coffee/coffee_06", "coffee.png", (70, 150, 370, 400), 360, progressive=True),
    Cut("flower/flower_01", "flower.jpg", (0, 0, 640, 427), 500),
    Cut("flower/flower_02", "flower.jpg", (150, 50, 470, 370), 320),
    Cut("flower/flower_03", "flower.jpg", (180, 60, 440, 427), 300, chroma="4:4:4"),
    Cut("flower/flower_04", "flower.jpg", (200, 110, 420, 310), 330),
    Cut("flower/flower_05", "flower.jpg", (40, 60, 400, 330), 420, chroma="4:4:4"),
    Cut("flower/flower_06", "flower.jpg", (230, 170, 630, 427), 440, orientation=3),
    Cut("person/person_01", "astronaut.png", (0, 0, 512, 512), 420),
    Cut("person/person_02", "astronaut.png", (90, 0, 350, 300), 312, chroma="4:4:4"),
    Cut("person/person_03", "astronaut.png", (20, 0, 410, 512), 312),
    Cut("person/person_04", "astronaut.png", (0, 0, 480, 320), 450),
    Cut("person/person_05", "camera.png", (0, 0, 512, 512), 384),
    Cut("person/person_06", "camera.png", (20, 50, 400, 335), 400),
    Cut("rocket/rocket_01", "rocket.jpg", (0, 0, 640, 427), 500),
    Cut("rocket/rocket_02", "rocket.jpg", (200, 60, 460, 427), 300, chroma="4:4:4"),
    Cut("rocket/rocket_03", "rocket.jpg", (130, 100, 510, 427), 400),
    Cut("rocket/rocket_04", "rocket.jpg", (240, 40, 540, 427), 310),
    Cut("rocket/rocket_05", "astronaut.png", (340, 0, 512, 190), 330, chroma="4:4:4"),
    Cut("rocket/rocket_06", "rocket.jpg", (40, 120, 400, 420), 380),
    Cut("space/space_01", "hubble_deep_field.jpg", (0, 0, 480, 360), 480),
    Cut("space/space_02", "hubble_deep_field.jpg", (560, 280, 1000, 600), 440, chroma="4:4:4"),
    Cut("space/space_03", "hubble_deep_field.jpg", (60, 330, 380, 730), 320),
    Cut("space/space_04", "hubble_deep_field.jpg", (330, 540, 710, 860), 380),
    Cut("space/space_05", "hubble_deep_field.jpg", (680, 0, 980, 380), 300),
    Cut("space/space_06", "hubble_deep_field.jpg", (560, 560, 960, 860), 400, chroma="4:4:4"),
)


def cut_photo(cut: Cut, original: pathlib.Path, target: pathlib.Path) -> None:
    """Writes one sample photo as a JPEG file.

    Args:
      cut: what to cut.
      original: the file to cut it from.
      target: the file to write.
    """
    left, top, right, bottom = cut.box
    height = round(cut.width * (bottom - top) / (right - left))
    with Image.open(original) as image:
        photo = image.crop(cut.box).resize((cut.width, height), Image.Resampling.LANCZOS)
    exif_data = b""
    if cut.orientation != 1:
        photo = photo.transpose(_UNDONE_BY_READER[cut.orientation])
        exif = Image.Exif()
        exif[ExifTags.Base.Orientation] = cut.orientation
        exif_data = exif.tobytes()
    target.parent.mkdir(parents=True, exist_ok=True)
    photo.save(
        target,
        quality=_QUALITY,
        subsampling=cut.chroma,
        optimize=True,
        progressive=cut.progressive,
        exif=exif_data,
        comment=b"",
    )


def find_original(name: str, folders: list[pathlib.Path]) -> pathlib.Path:
    """The first file of that name in the folders.

    Raises:
      FileNotFoundError: none of the folders has it.
    """
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{name} is in none of {', '.join(map(str, folders))}")


def main() -> None:
    """Cuts all sample photos."""
    parser = argparse.ArgumentParser(description="Cuts the sample photos from their originals.")
    parser.add_argument("folders", nargs="+", type=pathlib.Path, help="folders of the originals")
    parser.add_argument("--output", type=pathlib.Path, required=True, help="folder to write to")
    arguments = parser.parse_args()
    for cut in CUTS:
        target = arguments.output / f"{cut.name}.jpg"
        cut_photo(cut, find_original(cut.original, arguments.folders), target)


if __name__ == "__main__":
    main()
