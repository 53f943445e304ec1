"""The rule about what `tf.io.decode_image` reads, compared with TensorFlow itself."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image

from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.converted_image import ConvertedImage
from beam_tfrecords.transforms.images.image_spec import Check, ImageEncoding, ImageSpec
from beam_tfrecords.transforms.images.tensorflow_formats import unreadable_by_tensorflow
from tests import tensorflow as tf
from tests.each import each
from tests.fuzz_images import seed_files
from tests.image_checks import PHOTO_IDS, PHOTOS, pixels
from tests.make_corpus import corpus

pytestmark = [pytest.mark.tensorflow, pytest.mark.filterwarnings("ignore::UserWarning:PIL")]
KEEP = ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None)
HEADER = ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None, check=Check.HEADER)
LOSSLESS = ImageSpec(image_encoding=ImageEncoding.PNG, channels=None)


@functools.cache
def files() -> dict[str, bytes]:
    return {name: case.data for name, case in corpus().items() if case.reason is None} | seed_files()


@functools.cache
def kept(name: str) -> ConvertedImage:
    return convert_image(files()[name], KEEP)


@functools.cache
def shown(name: str) -> np.ndarray:
    """[H, W, C] uint8 as a lossless image of the file has it."""
    return pixels(convert_image(files()[name], LOSSLESS))


def decoded(image: ConvertedImage) -> np.ndarray:
    """[H, W, C] uint8 as TensorFlow decodes it."""
    return tf.io.decode_image(image.data, expand_animations=False).numpy()


@each("name", files)
@each("spec", [KEEP, HEADER], ids=["decode", "header"])
def test_tensorflow_decodes_whatever_keep_stores_with_its_height_and_width(name: str, spec: ImageSpec) -> None:
    image = convert_image(files()[name], spec)
    assert decoded(image).shape[:2] == (image.height, image.width)


@each("photo", PHOTOS, ids=PHOTO_IDS)
def test_photos_are_kept_and_decoded(photo: bytes) -> None:
    image = convert_image(photo.read_bytes(), KEEP)
    assert (image.format, image.replaced_format) == ("jpeg", None)
    assert decoded(image).shape == (image.height, image.width, image.channels)


@each("name", files)
def test_a_file_is_either_kept_or_replaced_by_a_lossless_png_of_what_it_shows(name: str) -> None:
    data, image = files()[name], kept(name)
    if unreadable_by_tensorflow(data) is None:
        assert image.data is data
        assert image.replaced_format is None
        return
    assert image.format == "png"
    assert image.replaced_format in ("avif", "bmp", "gif", "jpeg", "jpeg2000", "ppm", "tiff", "webp")
    np.testing.assert_array_equal(pixels(image), shown(name))
    assert unreadable_by_tensorflow(image.data) is None


@each(
    "name, kind",
    [
        ("lossy.webp", "a WebP image"),
        ("plain.avif", "an AVIF image"),
        ("plain.tif", "a TIFF image"),
        ("big.tif", "a TIFF image"),
        ("plain.jp2", "a JPEG 2000 image"),
        ("codestream.j2k", "a JPEG 2000 image"),
        ("binary.ppm", "a PPM image"),
        ("cmyk_adobe_inverted.jpg", "a CMYK JPEG"),
        ("ycck_adobe_inverted.jpg", "a CMYK JPEG"),
        ("arithmetic.jpg", "a JPEG of process 0xc9"),
        ("first_frame_smaller.gif", "a GIF whose first frame does not fill the screen"),
        ("grey_1_bit.bmp", "a BMP of 1 bits per pixel"),
        ("palette_4_bit.bmp", "a BMP of 4 bits per pixel"),
        ("palette.bmp", "a BMP with a color table"),
        ("16_bits.bmp", "a compressed BMP"),
        ("32_bits.bmp", "a BMP of 32 bits per pixel"),
        ("run_length.bmp", "a compressed BMP"),
        ("os2.bmp", "a BMP with an OS/2 header"),
        ("followed_by_zeros.bmp", "a BMP with bytes missing or left over"),
    ],
)
def test_the_rule_names_the_kind_that_tensorflow_does_not_read(name: str, kind: str) -> None:
    assert unreadable_by_tensorflow(files()[name]) == kind


def test_a_gif_without_a_color_table_is_replaced() -> None:
    data = files()["still.gif"]
    colors = 3 << (data[10] & 7) + 1
    without = data[:10] + bytes((data[10] & 0x7F,)) + data[11:13] + data[13 + colors :]
    assert unreadable_by_tensorflow(without) == "a GIF without a color table"
    assert decoded(convert_image(without, KEEP)).shape == (32, 48, 1)


def test_a_gif_with_an_unknown_block_is_replaced() -> None:
    data = files()["still.gif"]
    frame = data.index(b",\0\0\0\0")
    irregular = data[:frame] + b"\0" + data[frame:]
    assert unreadable_by_tensorflow(irregular) == "a GIF of irregular structure"
    assert decoded(convert_image(irregular, KEEP)).shape == (32, 48, 3)


def with_empty_extension(gif: bytes) -> bytes:
    """A comment without text before the frame, as in Pillow's test image hopper_zero_comment_subblocks.gif."""
    frame = gif.index(b",\0\0\0\0")
    return gif[:frame] + b"!\xfe\0" + gif[frame:]


def with_codes_of_11_bits(gif: bytes) -> bytes:
    """The pixels as codes that begin with 11 bits, as in Pillow's test image issue_2811.gif."""
    with Image.open(io.BytesIO(gif)) as image:
        codes = [1 << 11, *image.tobytes(), (1 << 11) + 1]
    packed = sum(code << 12 * place for place, code in enumerate(codes)).to_bytes(len(codes) * 12 // 8 + 1, "little")
    blocks = b"".join(bytes([len(packed[at : at + 255])]) + packed[at : at + 255] for at in range(0, len(packed), 255))
    return gif[: gif.index(b",\0\0\0\0") + 10] + b"\x0b" + blocks + b"\0;"


@each(
    "change, kind",
    [
        (with_empty_extension, "a GIF with an empty extension"),
        (with_codes_of_11_bits, "a GIF with codes of more than 8 bits"),
    ],
)
@each("spec", [KEEP, HEADER], ids=["decode", "header"])
def test_a_gif_that_pillow_reads_and_tensorflow_does_not_is_replaced(
    change: Callable[[bytes], bytes], kind: str, spec: ImageSpec
) -> None:
    odd = change(files()["not_interlaced.gif"])
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.io.decode_image(odd)
    assert unreadable_by_tensorflow(odd) == kind
    made = convert_image(odd, spec)
    assert made.replaced_format == "gif"
    np.testing.assert_array_equal(decoded(made), shown("not_interlaced.gif"))


def with_few_colors(gif: bytes) -> bytes:
    """The same pixels with the first half of the color table."""
    colors = 3 << (gif[10] & 7) + 1
    return gif[:10] + bytes([gif[10] - 1]) + gif[11 : 13 + colors // 2] + gif[13 + colors :]


def test_a_gif_with_colors_that_it_does_not_have_is_replaced_unless_its_header_alone_is_read() -> None:
    odd = with_few_colors(files()["not_interlaced.gif"])
    with pytest.raises(tf.errors.InvalidArgumentError, match="outside of color map"):
        tf.io.decode_image(odd)
    made = convert_image(odd, KEEP)
    assert made.replaced_format == "gif"
    np.testing.assert_array_equal(decoded(made), pixels(convert_image(odd, LOSSLESS)))
    assert convert_image(odd, HEADER).data is odd


def test_verify_finds_it_where_the_header_alone_was_read(tmp_path, build, verify) -> None:
    (tmp_path / "in/cat").mkdir(parents=True)
    (tmp_path / "in/cat/1.gif").write_bytes(with_few_colors(files()["not_interlaced.gif"]))
    (tmp_path / "in/cat/2.gif").write_bytes(files()["not_interlaced.gif"])
    flags = [f"--input={tmp_path / 'in'}", "--image_encoding=keep", "--class_names=cat"]
    ran = verify(build(tmp_path / "header", *flags, "--check=header"))
    assert ran.code == 1
    assert ran.out.count("a GIF with colors that its table does not have, which tf.io.decode_image does not read") == 1
    assert verify(build(tmp_path / "decode", *flags)).code == 0


@each("name", files)
def test_the_rule_is_not_stricter_than_tensorflow(name: str) -> None:
    data = files()[name]
    kind = unreadable_by_tensorflow(data)
    # TensorFlow decodes these three as well, but not in every release or build of it.
    if kind is None or "WebP" in kind or "CMYK" in kind or "process" in kind:
        return
    try:
        seen = tf.io.decode_image(data, expand_animations=False).numpy()
    except tf.errors.InvalidArgumentError:
        return
    assert seen.shape != shown(name).shape


@each(
    "name",
    ["progressive.jpg", "grey.jpg", "rgb_not_ycbcr.jpg", "multi_picture.mpo", "interlaced.png", "rgb_16_bit.png",
     "animated.png", "animated.gif", "local_colors.gif", "plain.bmp", "grey.bmp", "top_down.bmp"],
)  # fmt: skip
def test_the_usual_kinds_are_kept(name: str) -> None:
    assert unreadable_by_tensorflow(files()[name]) is None
