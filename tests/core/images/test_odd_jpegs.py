"""JPEGs with oddities in the header, which every decoder reads, and with damage behind them, which none may hide."""

from __future__ import annotations

import dataclasses
import io
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

from beam_tfrecords.errors import FailureReason, SampleError
from beam_tfrecords.transforms.images.convert_image import check_file, convert_image, read_header
from beam_tfrecords.transforms.images.image_spec import Codec, ImageEncoding, ImageSpec, Metadata
from beam_tfrecords.transforms.images.jpeg_header import JPEG_START, parse_jpeg_header
from tests.each import each
from tests.image_checks import PHOTOS, detailed, encoded, lossless_jpeg, pixels, psnr, with_profile

RAW = ImageSpec(image_encoding=ImageEncoding.RAW, color_profile=Metadata.IGNORE, orientation=Metadata.IGNORE)
KEEP = ImageSpec(image_encoding=ImageEncoding.KEEP, channels=None)
PHOTO = PHOTOS[0].read_bytes()
KINDS = {
    "photo": PHOTO,
    "progressive": encoded(detailed(90, 120), "JPEG", progressive=True),
    "grey": encoded(detailed(90, 120).convert("L"), "JPEG"),
    "cmyk": encoded(detailed(90, 120).convert("CMYK"), "JPEG"),
}
TIFF = b"Exif\0\0MM\0*\0\0\0\x08"
UPRIGHT, TURNED = (b"\x01\x12\0\x03\0\0\0\x01\0" + bytes([number, 0, 0]) for number in (1, 6))
# Malformed EXIF blocks -> whether the orientation is there to be read.
BAD_EXIF = {
    "more entries said than there are": (TIFF + b"\0\x20" + TURNED + bytes(90), True),  # as in hopper_bad_exif.jpg
    "cut behind an entry": (TIFF + b"\0\x05" + TURNED, True),
    "cut within an entry": (TIFF + b"\0\x05" + TURNED + UPRIGHT[:7], True),
    "a value beyond the end": (TIFF + b"\0\x02" + b"\x01\x0f\0\x02\0\0\xff\xff\0\0\xff\xff" + TURNED, False),
    "an unknown type": (TIFF + b"\0\x02" + b"\x01\x0f\0\x63\0\0\0\x01\0\0\0\0" + TURNED, True),
    "a directory beyond the end": (b"Exif\0\0MM\0*\x7f\0\0\x08\0\x01" + TURNED, False),
    "a directory in its own header": (b"Exif\0\0MM\0*\0\0\0\0" + TURNED, False),
    "another byte order": (b"Exif\0\0MI\0*\0\0\0\x08\0\x01" + TURNED, False),
    "a header alone": (b"Exif\0\0MM\0", False),
}
JUNK = {"zeros": b"\0" * 16, "text": b"left over", "stuffed": b"\x12\xff\0\x34", "padding": b"\x01\xff\xff\xff"}


def with_junk(jpeg: bytes, junk: bytes) -> bytes:
    """The file with bytes that belong to no marker behind every segment of its header."""
    pieces, at = [jpeg[:2]], 2
    while jpeg[at + 1] != 0xDA:
        end = at + 2 + int.from_bytes(jpeg[at + 2 : at + 4], "big")
        pieces += [jpeg[at:end], junk]
        at = end
    return b"".join([*pieces, jpeg[at:]])


def with_hole(jpeg: bytes) -> bytes:
    """The file without some bytes of its scan."""
    middle = (jpeg.index(b"\xff\xda") + len(jpeg)) // 2
    return jpeg[:middle] + jpeg[middle + len(jpeg) // 10 :]


def failure(data: bytes, spec: ImageSpec) -> FailureReason:
    with pytest.raises(SampleError) as rejected:
        convert_image(data, spec)
    return rejected.value.reason


@each("codec", Codec)
@each("junk", JUNK.values(), ids=JUNK)
@each("data", KINDS.values(), ids=KINDS)
def test_bytes_between_the_markers_of_the_header_change_no_pixel(data: bytes, junk: bytes, codec: Codec) -> None:
    odd = with_junk(data, junk)
    with Image.open(io.BytesIO(odd)) as image:
        expected = np.asarray(image.convert("RGB"))
    assert psnr(pixels(convert_image(odd, dataclasses.replace(RAW, codec=codec))), expected) >= 45
    same = dataclasses.replace(RAW, codec=Codec.EXACT)
    assert convert_image(odd, same) == convert_image(data, same)


@each("junk", JUNK.values(), ids=JUNK)
@each("name", ["photo", "progressive", "grey"])
def test_such_a_file_is_kept_as_it_is(name: str, junk: bytes) -> None:
    odd = with_junk(KINDS[name], junk)
    assert convert_image(odd, KEEP).data is odd
    assert read_header(odd, KEEP) == check_file(odd, KEEP)


@each(
    "spec",
    [*(ImageSpec(codec=codec, image_size=size) for codec in Codec for size in (None, (64, 64))), KEEP],
    ids=lambda spec: f"{spec.image_encoding.value}-{spec.codec.value}-{spec.image_size}",
)
@each("name", KINDS)
def test_damage_in_the_scan_behind_them_is_found(name: str, spec: ImageSpec) -> None:
    odd = with_junk(KINDS[name], JUNK["zeros"])
    assert failure(with_hole(odd), spec) is FailureReason.CORRUPT
    assert failure(odd[: -len(odd) // 3], spec) is FailureReason.TRUNCATED


@each("codec", Codec)
@each(
    "odd",
    [PHOTO[:11] + b"\x09" + PHOTO[12:], with_profile(PHOTO, b"x").replace(b"PROFILE\0\1\1", b"PROFILE\0\2\1")],
    ids=["version of JFIF", "number of a profile"],
)
def test_an_oddity_in_the_metadata_hides_no_damage_in_the_scan(odd: bytes, codec: Codec) -> None:
    assert odd != PHOTO
    convert_image(odd, ImageSpec(codec=codec))
    assert failure(with_hole(odd), ImageSpec(codec=codec)) is FailureReason.CORRUPT
    assert failure(with_hole(odd), KEEP) is FailureReason.CORRUPT


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@each("codec", Codec)
@each("name", BAD_EXIF)
def test_a_malformed_exif_block_changes_nothing_but_what_it_says(name: str, codec: Codec) -> None:
    block, is_read = BAD_EXIF[name]
    picture = detailed(30, 50)
    odd, same = encoded(picture, "JPEG", exif=block), encoded(picture, "JPEG", exif=b"Exif\0\0MM\0*" + bytes(8))
    assert block in odd
    spec = ImageSpec(image_encoding=ImageEncoding.RAW, codec=codec)
    expected = pixels(convert_image(same, spec))
    np.testing.assert_array_equal(pixels(convert_image(odd, spec)), np.rot90(expected, -1) if is_read else expected)
    assert convert_image(odd, KEEP).data is odd
    assert failure(with_hole(odd), spec) is FailureReason.CORRUPT


def test_the_header_behind_them_is_read() -> None:
    profiled = with_profile(PHOTO, b"x" * 300)
    plain, odd = parse_jpeg_header(profiled), parse_jpeg_header(with_junk(profiled, JUNK["stuffed"]))
    assert plain is not None
    assert odd is not None
    assert odd == dataclasses.replace(plain, scan=odd.scan)
    assert odd.icc_profile == b"x" * 300


@each("length", [0, 2, 3, 8, 40, 400, 65_000])
def test_a_header_is_read_as_a_whole_whatever_looks_like_its_end(length: int) -> None:
    """A comment holds the marker of a scan, as a thumbnail does, and a length that leads anywhere."""
    small = encoded(detailed(20, 30), "JPEG")
    comment = b"\xff\xfe\0\x14" + b"abcdef\xff\xda" + length.to_bytes(2, "big") + bytes(8)
    plain, odd = parse_jpeg_header(small), parse_jpeg_header(small[:2] + comment + small[2:])
    assert plain is not None
    assert odd == dataclasses.replace(plain, scan=plain.scan + len(comment))


def test_images_that_differ_behind_a_header_of_their_own_share_it_and_no_other() -> None:
    pictures = [detailed(20, 30), detailed(20, 30).rotate(180), detailed(30, 20), detailed(20, 30).convert("L")]
    found = [parse_jpeg_header(encoded(picture, "JPEG")) for picture in pictures]
    assert found[0] is found[1]
    assert [(one.height, one.width, one.components) for one in found if one] == [
        *[(20, 30, 3)] * 2, (30, 20, 3), (20, 30, 1)
    ]  # fmt: skip


def test_junk_without_a_scan_is_no_header() -> None:
    assert parse_jpeg_header(JPEG_START + b"\xff" * 100 + b"\0" * 100 + b"\xff\0" * 100) is None


GREY = np.asarray(detailed(64, 80).convert("L"))


@each("codec", Codec)
def test_a_lossless_jpeg_is_read_exactly(codec: Codec) -> None:
    converted = convert_image(lossless_jpeg(GREY), dataclasses.replace(RAW, channels=1, codec=codec))
    np.testing.assert_array_equal(pixels(converted)[..., 0], GREY)


# Start-of-frame markers (ITU T.81, table B.1), and those that are decoded by a DCT.
FRAMES = (0xC0, 0xC1, 0xC2, 0xC3, 0xC5, 0xC6, 0xC7, 0xC9, 0xCA, 0xCB, 0xCD, 0xCE, 0xCF)
DCT_FRAMES = (0xC0, 0xC1, 0xC2, 0xC9, 0xCA)


def of_frame(jpeg: bytes, marker: int, *, precision: int = 8) -> bytes:
    """The file under another start of frame."""
    at = min(jpeg.index(bytes([0xFF, frame, 0])) for frame in (0xC0, 0xC2, 0xC3) if bytes([0xFF, frame, 0]) in jpeg)
    return jpeg[: at + 1] + bytes([marker]) + jpeg[at + 2 : at + 4] + bytes([precision]) + jpeg[at + 5 :]


def mutated_headers(jpeg: bytes, count: int) -> Iterator[bytes]:
    """The file with one byte of its header changed, most often in the frame."""
    rng = np.random.default_rng(len(jpeg))
    scan = jpeg.index(b"\xff\xda")
    frame = max(jpeg.find(bytes([0xFF, marker, 0]), 0, scan) for marker in (0xC0, 0xC2, 0xC3))
    for _ in range(count):
        begin = frame if rng.random() < 0.7 else 2
        at = int(rng.integers(begin, min(scan + 12, begin + 20) if begin == frame else scan))
        yield jpeg[:at] + rng.bytes(1) + jpeg[at + 1 :]


@each("marker", FRAMES)
def test_only_a_dct_is_decoded_at_a_fraction_of_the_size(marker: int) -> None:
    header = parse_jpeg_header(of_frame(KINDS["grey"], marker))
    assert header is not None
    assert header.is_reducible is (marker in DCT_FRAMES)


@pytest.mark.nightly
def test_no_decoder_writes_behind_its_array(tmp_path) -> None:
    color = detailed(65, 127)
    plain = {
        **KINDS,
        "lossless": lossless_jpeg(GREY),
        "odd lossless": with_junk(lossless_jpeg(GREY), b"left over"),
        **{f"{size}": encoded(detailed(*size).convert("L"), "JPEG") for size in ((1, 1), (7, 9), (65, 127))},
        **{sampling: encoded(color, "JPEG", subsampling=sampling) for sampling in ("4:4:4", "4:2:2", "4:2:0")},
        "progressive grey": encoded(color.convert("L"), "JPEG", progressive=True),
        "progressive cmyk": encoded(color.convert("CMYK"), "JPEG", progressive=True),
        "restarts": encoded(color, "JPEG", restart_marker_blocks=1),
    }
    odd = {
        f"{name} as {marker:x} of {precision}": of_frame(plain[name], marker, precision=precision)
        for name in ("photo", "grey", "cmyk", "progressive", "lossless")
        for marker in FRAMES
        for precision in (8, 12, 16)
    }
    odd["cut lossless"] = lossless_jpeg(GREY)[:-500] + b"\xff\xd9"
    for name in ("grey", "cmyk", "progressive", "lossless", "4:2:0"):
        for number, data in enumerate(mutated_headers(plain[name], 40)):
            odd[f"{name} mutated {number}"] = data
    for name, data in {**plain, **odd}.items():
        (tmp_path / f"{name}.jpg").write_bytes(data)
    program = [sys.executable, "-m", "tests.core.images.guarded_decoding"]
    ran = subprocess.run([*program, *tmp_path.glob("*.jpg")], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    rejected = {line.partition(".jpg")[0].rpartition("/")[2] for line in ran.stdout.splitlines()}
    assert rejected.isdisjoint(plain)
    assert "cut lossless" in rejected
