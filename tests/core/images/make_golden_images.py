"""Makes the digests that tell whether the bytes of records have changed.

    python -m tests.core.images.make_golden_images

writes them to tests/data/golden_images.json, with the revisions and versions that they belong to. It refuses to write
other digests for the same revision and versions: add one to the revision first.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import hashlib
import io
import itertools
import json
import platform
import sys
import tempfile
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import cv2
import numpy as np
from PIL import Image, features

from beam_tfrecords.dataset.index import QUALITY
from beam_tfrecords.errors import SampleError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.fields import COLUMN
from beam_tfrecords.features.layouts import NAMED, TFDS_OBJECTS, parse_layout
from beam_tfrecords.tfrecord import Compression, masked_crc32c
from beam_tfrecords.transforms.blocks.convert_sample import ConvertSample
from beam_tfrecords.transforms.images.convert_array import convert_array
from beam_tfrecords.transforms.images.convert_image import convert_image
from beam_tfrecords.transforms.images.converted_image import ConvertedImage
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from beam_tfrecords.transforms.images.masks import convert_mask
from beam_tfrecords.transforms.images.orient import plan_geometry
from beam_tfrecords.transforms.images.probe import probe_digests
from beam_tfrecords.transforms.images.quality import measure_together
from beam_tfrecords.transforms.labels import ClassNames
from beam_tfrecords.transforms.libraries import library_versions, record_versions
from beam_tfrecords.transforms.objects.objects import Objects
from beam_tfrecords.transforms.objects.polygons import pack_segmentation
from beam_tfrecords.transforms.parts import PartPolicy, PartWriter, read_index
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, MASK, File, SampleRef, one_image
from beam_tfrecords.transforms.settings import read_settings
from tests.core.converting import convert_one, finish, serialize_example
from tests.core.images.corpus import corpus
from tests.pixel_files import npy_of
from tests.tiff_files import tiff_of

COMMAND = "python -m tests.core.images.make_golden_images"
FILE = Path(__file__).parents[2] / "data/golden_images.json"
PHOTOS = ("cat/cat_01", "coffee/coffee_06", "person/person_05", "flower/flower_06", "building/building_02")
# One request per line; those with a list are made once with each of its values.
_REQUESTS: tuple[dict[str, Any], ...] = (
    {"image_size": "24x32", "codec": ["fast", "exact"], "resize_mode": ["shorter", "longer", "exact", "pad", "crop"]},
    {"image_size": "20", "codec": ["fast", "exact"], "resample": ["bilinear", "lanczos", "box", "nearest"]},
    {"image_size": "60", "codec": ["fast", "exact"], "upscale": [True, False]},
    {"image_encoding": ["jpeg", "png", "webp", "raw", "keep"], "codec": ["fast", "exact"]},
    {"image_encoding": ["jpeg", "webp"], "image_size": "24", "jpeg_quality": 60},
    {"image_encoding": ["png", "raw", "keep"], "image_size": "24", "channels": [1, 3, 4, "keep"]},
    {"image_size": "24", "codec": ["fast", "exact"], "orientation": "ignore", "color_profile": "ignore"},
    {"image_encoding": ["png", "keep"], "image_size": "24", "allow_truncated": True},
    {"image_encoding": ["png", "keep"], "max_pixels": 1000},
    {"image_encoding": ["png", "keep"], "max_image_memory": 60_000},
    {"image_encoding": "png", "bit_depth": 16, "channels": [1, 3, 4, "keep"]},
    {"image_encoding": "png", "bit_depth": 16, "image_size": "24x32", "resize_mode": ["shorter", "pad", "crop"]},
)
# Likewise, of masks.
_MASK_REQUESTS: tuple[dict[str, Any], ...] = (
    {"image_size": "24x32", "mask_bit_depth": [8, 16], "resize_mode": ["shorter", "longer", "exact", "pad", "crop"]},
    {"image_size": "20x33", "resize_mode": ["exact", "crop"], "resample": "nearest"},
    {"image_size": "60x90", "mask_padding": [0, 255], "resize_mode": "pad", "upscale": [True, False]},
    {"image_size": "24x32", "mask_values": ",".join(f"{number}:{20 * number}" for number in range(11))},
    {"image_size": "24x32", "mask_colors": {f"{n}": [3 * n, 3 * n + 1, 3 * n + 2] for n in reversed(range(11))}},
)
# Likewise, of arrays.
_FLOATS = {"image_encoding": "raw", "channels": "keep", "array_type": ["uint16", "float32"]}
_ARRAY_REQUESTS: tuple[dict[str, Any], ...] = (
    {**_FLOATS, "image_size": "24x32", "array_axes": "CHW", "resize_mode": ["shorter", "pad", "crop"]},
    {**_FLOATS, "image_size": "60", "array_axes": "HWC", "resample": ["bilinear", "lanczos", "box", "nearest"]},
    {**_FLOATS, "image_size": "20x33", "pages": ["first", "bands"], "orientation": ["apply", "ignore"]},
    {"image_encoding": "raw", "channels": "keep", "array_type": "uint8", "image_size": "24", "pages": "bands"},
)
# Those whose records and measures are written as parts.
_STORED = frozenset(
    {
        "image_size=24x32 codec=fast resize_mode=shorter",
        "image_encoding=raw codec=fast",
        "image_encoding=png bit_depth=16 channels=keep",
    }
)
LARGE = "large.png"
# Takes as long as all others together, and is rejected.
_SLOW = frozenset({"many_texts_bomb.png"})
_VALUES = {
    "image.encoded": b"\xff\xd8 bytes \x00",
    "image.pixels": bytes(range(12)),
    "image.array": bytes(range(12)),
    "image.shape": [2, 2, 3],
    "image.dtype": "uint8",
    "image.format": "jpeg",
    "image.height": 2,
    "image.width": 2,
    "image.channels": 3,
    "image.colorspace": "RGB",
    "label.index": 300,
    "label.name": "Äpfel",
    "labels.index": [0, 70_000],
    "labels.name": ["a", "ü"],
    **{f"objects.{side}": [0.25, 1.0] for side in ("xmin", "xmax", "ymin", "ymax")},
    "objects.bbox": [0.25, 0.5, 0.75, 1.0],
    "objects.index": [1, 0],
    "objects.id": [2, 1],
    "objects.name": ["ü", "a"],
    "objects.is_crowd": [0, 1],
    "objects.difficult": [1, 0],
    "objects.area": [1.5, 300.0],
    "objects.mask": [b"\x89PNG", b""],
    "objects.polygon": [0.25, 0.5, 1.25, 0.5, 1.0, -0.5, 0.0, 0.0, 1.0, 0.0, 0.0, 1.0],
    "objects.polygon_points": [3, 3],
    "objects.keypoint_x": [0.25, 0.0, 1.0, 0.0],
    "objects.keypoint_y": [0.5, 0.0, 1.0, 0.0],
    "objects.keypoint_visibility": [2, 0, 1, 0],
    "source_id": "139",
    "mask.encoded": b"\x89PNG bytes \x00",
    "key": "a/b.jpg",
    "filename": "a/b.jpg",
    "column.price": "-1.5e3",
    "column.number": "-7",
    "column.text": "写真",
}
# x and y of two points, in pixels.
_POINTS = [0.5, 1.5, 2.5, -1.0]
_CAPTIONS = ["写真", "a photo"]
_LAYOUTS = {
    **NAMED,
    "tfds of objects": TFDS_OBJECTS,
    "columns": {
        "price": {"field": "column.price", "type": "float"},
        "number": {"field": "column.number", "type": "int64"},
        "text": {"field": "column.text", "type": "bytes"},
    },
    "points": {
        "image": "image.encoded",
        "points": {"field": "column.points", "type": "float", "length": 4, "moves": "points"},
    },
}
_POLYGONS = (
    pack_segmentation([[0, 0, 2, 0, 0, 1.5]]),
    pack_segmentation({"size": [2, 2], "counts": "0111"}),
)
_KEYPOINTS = tuple(np.array(points, "<f4").tobytes() for points in ([0.5, 1.5, 2, 0, 0, 0], [2, 1, 1, 3, 1, 2]))
# An image that no codec changes.
_PIXELS = b"P6 2 2 255\n" + bytes(range(12))
_MASK = b"P5 2 2 255\n" + bytes(range(4))


@functools.cache
def specs() -> Mapping[str, ImageSpec]:
    """The requests, by what they say."""
    return _expand(_REQUESTS)


@functools.cache
def mask_specs() -> Mapping[str, ImageSpec]:
    """Likewise, of masks."""
    return _expand(_MASK_REQUESTS)


@functools.cache
def array_specs() -> Mapping[str, ImageSpec]:
    """Likewise, of arrays."""
    return _expand(_ARRAY_REQUESTS)


def _expand(requests: tuple[dict[str, Any], ...]) -> Mapping[str, ImageSpec]:
    found = {}
    for request in requests:
        choices = [value if isinstance(value, list) else [value] for value in request.values()]
        for values in itertools.product(*choices):
            words = dict(zip(request, values, strict=True))
            found[" ".join(f"{name}={value}" for name, value in words.items())] = read_settings(ImageSpec, words)
    return found


def photos() -> Iterator[tuple[str, bytes]]:
    """Name and bytes of photos."""
    for name in PHOTOS:
        yield name, (FILE.parent / f"photos/{name}.jpg").read_bytes()


def images() -> Iterator[tuple[str, bytes]]:
    """Name and bytes of the images: photos, every kind of unusual and of broken file, and a large one."""
    yield from photos()
    for name, case in corpus().items():
        if name not in _SLOW:
            yield name, case.data
    yield LARGE, _large_image()


def few_images() -> Iterator[tuple[str, bytes]]:
    """Name and bytes of two photos, and of a small image in 16 bits: some requests enlarge it."""
    yield from itertools.islice(photos(), 2)
    noise = np.random.default_rng(0).integers(0, 1 << 16, (20, 33, 3), dtype=np.uint16)
    yield "small.png", cv2.imencode(".png", noise)[1].tobytes()


def _large_image() -> bytes:
    """A PNG that is converted in strips."""
    file = io.BytesIO()
    ramp = np.add.outer(np.arange(4096, dtype=np.uint8), np.arange(4097, dtype=np.uint8) // 3)
    Image.fromarray(ramp).save(file, "PNG", compress_level=1)
    return file.getvalue()


def make_digests(chosen: Iterable[tuple[str, bytes]]) -> dict[str, dict[str, str]]:
    """What the code makes: a kind of result -> name -> digest.

    Args:
      chosen: name and bytes of images.
    """
    by_spec, by_image = defaultdict[str, Any](hashlib.blake2b), defaultdict[str, Any](hashlib.blake2b)
    first, *others = specs()
    stored = dict[str, ConvertedImage]()
    for image, data in chosen:
        # It takes long under every request.
        for spec in (first, *(() if image == LARGE else others)):
            made = _convert(data, specs()[spec])
            by_spec[spec].update(_describe(made, data))
            # Digests of their own, so that those of 8 bits stay as they are.
            by_image[image if specs()[spec].bit_depth == 8 else f"{image} in 16 bits"].update(_describe(made, data))
            if spec in _STORED and not isinstance(made, SampleError):
                stored[f"{image} {spec}"] = made
    return {
        "specs": {name: digest.hexdigest()[:16] for name, digest in by_spec.items()},
        "images": {name: digest.hexdigest()[:16] for name, digest in by_image.items()},
        "parts": {name: hashlib.blake2b(data).hexdigest()[:16] for name, data in _parts(stored)},
        "layouts": {name: hashlib.blake2b(data).hexdigest()[:16] for name, data in _examples()},
        "samples": {name: hashlib.blake2b(data).hexdigest()[:16] for name, data in _samples()},
        "masks": {name: hashlib.blake2b(data).hexdigest()[:16] for name, data in _masks()},
        "arrays": {name: hashlib.blake2b(data).hexdigest()[:16] for name, data in _arrays()},
    }


def _arrays() -> Iterator[tuple[str, bytes]]:
    """Arrays of all types in .npy files, and pages of a TIFF file that is to be turned."""
    noise = np.random.default_rng(0).integers(0, 256, (30, 29, 28), dtype=np.uint8)
    files = [npy_of(noise.astype(dtype)) for dtype in ("|u1", "<u2", "<f4")]
    files.append(tiff_of(*noise[:3], tags={274: 6}))
    for name, spec in array_specs().items():
        yield name, b"".join(_describe(_convert(file, spec), file) for file in files)


def _masks() -> Iterator[tuple[str, bytes]]:
    """A palette mask, as it is stored of an image of every orientation."""
    mask = Image.fromarray((np.add.outer(np.arange(30) // 7, np.arange(44) // 5) % 11).astype(np.uint8))
    mask.putpalette(bytes(range(33)))
    file = io.BytesIO()
    mask.save(file, "PNG")
    for name, spec in mask_specs().items():
        turned = (plan_geometry(30, 44, orientation=orientation, spec=spec) for orientation in range(1, 9))
        yield name, b"".join(convert_mask(file.getvalue(), geometry, spec) for geometry in turned)


def _parts(stored: Mapping[str, ConvertedImage]) -> Iterator[tuple[str, bytes]]:
    """Records and index, measures included, as a block writes them."""
    examples = [image.data for image in stored.values()]
    columns = {
        "key": [*stored],
        **dict.fromkeys(("fingerprint", "content_hash", "sample_hash"), [""] * len(stored)),
        **measure_together([image.quality for image in stored.values()]),
    }
    for compression in get_args(Compression):
        with tempfile.TemporaryDirectory() as folder:
            writer = PartWriter(
                folder=folder,
                stem="part",
                split="train",
                block=0,
                policy=PartPolicy(member_records=8),
                compression=compression,
            )
            writer.add(examples, [masked_crc32c(example) for example in examples], columns)
            (part,) = writer.close()
            yield compression, Path(part.uri).read_bytes() + repr(read_index(part).to_pylist()).encode()


def _convert(data: bytes, spec: ImageSpec) -> ConvertedImage | SampleError:
    try:
        return (convert_array if spec.array_type else convert_image)(data, spec)
    except SampleError as error:
        return error


def _describe(made: ConvertedImage | SampleError, data: bytes) -> bytes:
    if isinstance(made, SampleError):
        return made.reason.value.encode()
    index_columns = (made.format, made.height, made.width, made.channels, made.colorspace, made.replaced_format)
    # Some kinds of sources are written with the time of day in them.
    return repr(index_columns).encode() + (b"kept" if made.data == data else hashlib.blake2b(made.data).digest())


def _examples() -> Iterator[tuple[str, bytes]]:
    for name, layout in _LAYOUTS.items():
        yield (
            name,
            serialize_example(
                parse_layout(layout), {**_VALUES, "column.captions": _CAPTIONS, "column.points": _POINTS}
            ),
        )


def _samples() -> Iterator[tuple[str, bytes]]:
    """What is stored of a sample: the example, and its index row with the hash and the seal by which it is reused."""
    columns = {name.removeprefix(COLUMN): value for name, value in _VALUES.items() if name.startswith(COLUMN)}
    for name, layout in _LAYOUTS.items():
        labels = ["ü", 0] if name == "multilabel" else "ü"
        boxes = (0, 0, 1, 1.5, -1, 0.25, 2, 2)
        objects = Objects(boxes, ("ü", "a"), {"area": (1, None), "is_crowd": (0, 1)}, image_id="139", size=(2, 2))
        if Content.OBJECT_MASKS in parse_layout(layout).required or Content.POLYGONS in parse_layout(layout).required:
            objects = dataclasses.replace(objects, polygons=_POLYGONS)
        if Content.KEYPOINTS in parse_layout(layout).required:
            objects = dataclasses.replace(objects, keypoints=_KEYPOINTS)
        image = one_image(File("in/a/b.ppm"))
        cells = columns | {"captions": {"captions": _CAPTIONS}, "points": {"points": _POINTS}}.get(name, {})
        ref = SampleRef("a/b.ppm", image, 23, "23-1.5", labels, "train", cells, objects=objects)
        spec = ImageSpec(image_encoding=ImageEncoding.RAW)
        convert = ConvertSample(
            spec, parse_layout(layout), ClassNames(("a", "ü"), numbers_are_indices=True), "settings"
        )
        made = convert_one(convert, ref, {IMAGE: _PIXELS, MASK: _MASK})
        taken = finish(convert, ref, convert.reuse(ref, made.example, made.index_columns, whole=False))
        # No record depends on what is measured of pixels.
        index_columns = [
            sorted(item for item in one.index_columns.items() if item[0] not in {"quality", *QUALITY})
            for one in (made, taken)
        ]
        pairs = zip((made, taken), index_columns, strict=True)
        yield name, repr([(one.example, one.class_names, found) for one, found in pairs]).encode()


def versions() -> dict[str, str | None]:
    """What the digests belong to: our revisions, libraries, the codecs in them, and the kind of processor."""
    codecs = {
        name: features.version(name) for name in ("libjpeg_turbo", "webp", "zlib", "littlecms2", "libtiff", "avif")
    }
    own = {"processor": platform.machine(), "zlib of Python": zlib.ZLIB_RUNTIME_VERSION}
    return {**own, **codecs, **record_versions(library_versions())}


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--print", action="store_true", help="print the digests instead of writing them")
    parser.add_argument(
        "--digests",
        choices=["all", "few"],
        help="print only digests, of all images or of three; needs no Beam",
    )
    arguments = parser.parse_args()
    if arguments.digests:
        chosen = images() if arguments.digests == "all" else few_images()
        json.dump({**make_digests(chosen), "probes": dict(probe_digests())}, sys.stdout)
        return
    made = {"versions": versions(), **make_digests(images())}
    text = json.dumps(made, indent=1, ensure_ascii=False) + "\n"
    if arguments.print:
        sys.stdout.write(text)
        return
    before = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    old = {(kind, name): digest for kind in made if kind != "versions" for name, digest in before.get(kind, {}).items()}
    # More digests than before change none.
    changed = [place for place, digest in old.items() if made[place[0]].get(place[1]) != digest]
    if before.get("versions") == made["versions"] and changed:
        sys.exit("the digests have changed, and neither a revision nor a library has; add one to the REVISION first")
    FILE.write_text(text, encoding="utf-8")
    print(f"{FILE}: {len(made['specs'])} requests, {len(made['images'])} images")


if __name__ == "__main__":
    main()
