"""The request of a build: one immutable value, checked before anything starts."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from beam_tfrecords import storage
from beam_tfrecords.byte_sizes import number_of_bytes
from beam_tfrecords.dataset.published_paths import PublishedPaths
from beam_tfrecords.errors import RequestError
from beam_tfrecords.features.contents import Content
from beam_tfrecords.features.layouts import Layout, parse_layout
from beam_tfrecords.storage.beside import does_not_exist
from beam_tfrecords.tfrecord import Compression
from beam_tfrecords.transforms.class_list import ClassList, list_classes, parse_class_words
from beam_tfrecords.transforms.images.image_spec import IMPOSSIBLE_CHANNELS, ImageEncoding, ImageSpec, ResizeMode
from beam_tfrecords.transforms.labels import BACKGROUND, ClassOrder
from beam_tfrecords.transforms.mapping.user_function import UserFunction, name_of
from beam_tfrecords.transforms.objects.objects import InvalidBoxes
from beam_tfrecords.transforms.refs.sample_refs import IMAGE
from beam_tfrecords.transforms.request.schedule_spec import NO_REUSE, ScheduleSpec
from beam_tfrecords.transforms.settings import (
    FAILURES,
    INPUT,
    OUTPUT,
    check_unique,
    describing_setting,
    failure_setting,
    input_setting,
    limit_setting,
    one_of,
    output_setting,
    setting,
    settings_of,
    share,
    slice_of,
    switch,
    whole_number,
    write_settings,
)
from beam_tfrecords.transforms.sources.class_files import read_class_file
from beam_tfrecords.transforms.sources.input_settings import image_folders
from beam_tfrecords.transforms.sources.needs import Needs
from beam_tfrecords.transforms.sources.source_spec import SourceSpec
from beam_tfrecords.transforms.splits import NAME_RULE, Splits, is_name, read_splits, write_splits

_EXCLUDE, _NEED = "conflicting_settings", "needs_setting"
# Matches names of files, which are unlikely names of classes.
_FILE_NAME = re.compile(r"\.(?:txt|names|csv|tsv|lst|list|json|ya?ml|pbtxt)$", re.IGNORECASE)


class Duplicates(str, enum.Enum):
    """What to do with images that have the same bytes: KEEP all, DROP all except one, or FAIL the build."""

    KEEP = "keep"
    DROP = "drop"
    FAIL = "fail"


def read_name(word: Any) -> str:
    """Reads the name of a dataset."""
    if is_name(str(word)):
        return str(word)
    raise ValueError(f"expected {NAME_RULE}")


def read_text(word: Any) -> str:
    """Reads a descriptive text; joins its lines with spaces."""
    text = " ".join(str(word).split())
    if not text or not text.isprintable():
        raise ValueError("expected a text")
    return text


def read_citation(word: Any) -> str:
    """Reads a citation, such as an entry of BibTeX; keeps its lines."""
    lines = [line.expandtabs().rstrip() for line in str(word).strip().splitlines()]
    if not lines or not all(line.isprintable() for line in lines):
        raise ValueError("expected a text")
    return "\n".join(lines)


def read_condition(word: Any) -> str:
    """Reads a condition. The columns that it may name depend on the layout, so they are checked later."""
    text = str(word).strip()
    if not text:
        raise ValueError('expected a condition, such as "height > 64"')
    return text


def read_url(word: Any) -> str:
    """Reads the URL of a page."""
    if re.fullmatch(r"https?://[^\s<>\"]+", str(word)):
        return str(word)
    raise ValueError("expected a URL, such as https://example.org/photos")


def name_from_input(first_input: str) -> str:
    """Makes the name of a dataset from the name of its input."""
    stem = re.sub(r"\.[A-Za-z0-9]+$", "", first_input.rstrip("/").rsplit("/", 1)[-1])
    name = re.sub(r"[^a-z0-9]+", "_", stem.lower()).strip("_")
    return name if is_name(name) else f"dataset_{name}".rstrip("_")


def read_class_names(word: Any) -> ClassList:
    """Reads class names from a list, a mapping, a comma-separated string or a file; see `class_list` for the forms."""
    is_text = isinstance(word, str)
    if is_text and "," not in word and storage.is_file(storage.absolute(word)):
        classes = read_class_file(storage.absolute(word))
    elif is_text and "," not in word and ("/" in word or _FILE_NAME.search(word)):
        raise ValueError(f"{does_not_exist(storage.absolute(word))}; expected a file of class names, or the names")
    elif is_text:
        classes = parse_class_words(word.split(","))
    else:
        classes = list_classes(word)
    count = len(classes)
    if isinstance(word, Mapping) and classes.numbers not in ((), tuple(range(count))):
        raise ValueError(f"expected every index from 0 to {count - 1} once")
    check_unique(list(classes.names))
    return classes


def read_output(word: Any) -> str:
    """Reads the folder of a dataset."""
    path = storage.absolute(str(word))
    folder = path.rstrip("/")
    if not word or not folder or (storage.has_scheme(path) and folder.endswith(":")):
        raise ValueError("expected a folder for the dataset alone, such as out/photos or gs://bucket/photos")
    return folder


def _write_class_names(classes: ClassList | None) -> Any:
    return classes and classes.to_json()


def read_compression(word: Any) -> Compression:
    """Reads the name of a compression."""
    if word == "none":
        return "none"
    if word == "gzip":
        return "gzip"
    raise ValueError("expected none or gzip")


def read_map(word: Any) -> Any:
    """Reads `module:function`, or a callable given from Python."""
    if callable(word) or re.fullmatch(r"[^\s:]+:[A-Za-z_]\w*", str(word)):
        return word
    raise ValueError("expected a module and a function in it, such as my_steps:clean")


def write_map(function: Any) -> str | None:
    """Returns the name of a function as `module:function`."""
    if isinstance(function, UserFunction):
        return function.name
    return name_of(function) if callable(function) else function


def _name_images(layout: Layout) -> Mapping[str, str]:
    """Returns image name -> its column; "" stands for a column with a usual name."""
    usual = {IMAGE: ""} if layout.image_names and layout.has_image else {}
    return {**usual, **{name: name for name in layout.image_names}}


def _write_layout(layout: Layout | None) -> Any:
    return layout.to_json() if layout else None


def _name_by_input(earlier: Mapping[str, Any]) -> str:
    """Returns the default name; "" if no input is given, which the settings of the source refuse."""
    paths = earlier["input"] or image_folders(earlier["images"])
    return name_from_input(paths[0]) if paths else ""


@dataclasses.dataclass(frozen=True)
class OutputSettings:
    """Settings of classes and splits, of the output, and of rejected samples."""

    class_names: ClassList | None = input_setting(
        None,
        help="names in index order: comma-separated, or a file of them",
        shown_default="the labels, sorted",
        read=read_class_names,
        write=_write_class_names,
    )
    class_order: ClassOrder | None = input_setting(
        None,
        help="indices of classes that `class_names` does not give: stable, as in the version before, with new classes "
        "behind them; or sorted",
        shown_default="stable with `versioned`, else sorted",
        read=one_of(ClassOrder),
    )
    splits: Splits = input_setting(
        Splits(),
        help="auto, train=0.9,validation=0.1 or train=FOLDER,validation=FOLDER",
        read=read_splits,
        write=write_splits,
    )
    stratify: bool = input_setting(
        False,
        help="the fractions in `splits` hold within each class, to the sample, or as well as whole groups allow",
        read=switch,
    )
    limit: int | None = input_setting(
        None,
        help="build from at most N samples, chosen by a hash of seed and key from all splits, for a first try",
        read=whole_number(1),
    )
    # First the raw value of the request, later the `UserFunction` that is found for it.
    map: Any = input_setting(
        None,
        help="your own function for each sample, such as my_steps:clean in my_steps.py",
        read=read_map,
        write=write_map,
    )
    map_revision: str | None = input_setting(
        None,
        help="a word to change when the function behaves differently with the same source, as after a new model file",
        read=read_text,
    )
    check_map: bool = setting(
        False,
        help="calls the function twice with 20 samples, and ends if the results differ",
        group=INPUT,
        read=switch,
        decides_bytes=False,
        in_spec=False,
    )
    where: str | None = input_setting(
        None,
        help="condition over index columns and columns of the layout, such as \"height > 64 and label = 'cat'\"; "
        "samples that do not fulfill it are filtered",
        read=read_condition,
    )
    output: str = describing_setting("", help="the folder of the dataset", read=read_output, paths="other")
    name: str = describing_setting(
        "",
        default_from=_name_by_input,
        help="name of the dataset",
        shown_default="made from the input's",
        read=read_name,
    )
    description: str | None = describing_setting(None, help="description of the dataset, for its card", read=read_text)
    license: str | None = describing_setting(
        None, help="license of the data, such as CC-BY-4.0 or a URL, for its card", read=read_text
    )
    homepage: str | None = describing_setting(None, help="URL of the origin of the data, for its card", read=read_url)
    citation: str | None = describing_setting(
        None, help="how to cite the data, such as an entry of BibTeX, for its card", read=read_citation
    )
    layout: Layout | None = setting(
        None,
        help="tfds, multilabel, image, captions, imagenet, detection, detection_masks, detection_polygons, "
        "detection_keypoints, segmentation, tutorial, raw, array, columns or same; also with others, such as "
        "array,label or array,mask, and with columns and their types, such as image,gender:class; in a spec file also "
        "a mapping of features",
        shown_default="tfds; detection for annotated objects, segmentation for masks",
        group=OUTPUT,
        read=parse_layout,
        write=_write_layout,
    )
    shard_size: int = output_setting(150 * 10**6, help="size of a shard", shown_default="150MB", read=number_of_bytes)
    num_shards: int | None = output_setting(None, help="fixed number of shards per split", read=whole_number(1))
    compression: Compression = output_setting("none", help="none or gzip", read=read_compression)
    seed: int = output_setting(0, help="seed of the order and of fractions of splits", read=whole_number(0, 10**18 - 1))
    overwrite: bool = describing_setting(False, help="replace a finished dataset", read=switch, in_spec=False)
    max_failures: float = limit_setting(
        0.01, help="share of the samples that may fail; with more, nothing is published", read=share
    )
    allow_damaged_containers: bool = limit_setting(
        False,
        help="publish the readable part of cut or damaged archives and tables; how many samples they have lost "
        "is unknown",
        read=switch,
    )
    max_file_size: int = setting(
        10**9, help="larger image files are rejected unread", shown_default="1GB", group=FAILURES, read=number_of_bytes
    )
    image_timeout: int = failure_setting(60, help="seconds that one image may take", read=whole_number(1))
    duplicates: Duplicates = failure_setting(
        Duplicates.KEEP, help="images with the same bytes: keep, drop (all except one) or fail", read=one_of(Duplicates)
    )
    near_duplicates: int = limit_setting(
        0,
        help="lists images that look nearly the same: their 64-bit perceptual hashes differ in at most N bits, such as "
        "4; 0 searches for none",
        read=whole_number(0, 10),
    )
    # `ConvertSample.sample_hashes` includes this setting only for samples with boxes.
    invalid_boxes: InvalidBoxes = failure_setting(
        InvalidBoxes.REJECT,
        help="a box without a size, or outside its image: reject the image, or drop the box and count it",
        read=one_of(InvalidBoxes),
    )


@dataclasses.dataclass(frozen=True)
class BuildSpec(ScheduleSpec, ImageSpec, OutputSettings, SourceSpec):
    """A request: everything that decides the content of a dataset, as it was asked for.

    Attributes:
      input_function: the input if it is a user's function, else None.
    """

    input_function: UserFunction | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for code, message in _find_broken(self):
            raise RequestError(message, code=code)

    @property
    def image(self) -> ImageSpec:
        """The settings of images, for workers."""
        return slice_of(ImageSpec, self)

    @property
    def needs(self) -> Needs:
        """Contents that the request needs from its source."""
        layout = self.layout
        needs = Needs(
            contents=Needs.contents | {Content.MASK} if self.mask_settings else Needs.contents,
            columns=None,
            all_columns=self.map is not None,
            splits=self.splits,
            class_names=(*self.class_names.names, *self.class_names.ids) if self.class_names else (),
        )
        if layout is None:
            return needs
        return dataclasses.replace(
            needs,
            contents=layout.required,
            required=layout.required,
            columns=frozenset(layout.read_columns),
            records=layout if layout.keeps_records else None,
            images=_name_images(layout),
        )

    @property
    def stored(self) -> Layout:
        """The layout; one without features if the source decides it and is not opened."""
        return self.layout or Layout(())

    @property
    def required(self) -> frozenset[Content]:
        """Contents that the layout requires; none if the source decides the layout."""
        return self.stored.required

    @property
    def order_of_classes(self) -> ClassOrder:
        """Value of `class_order`, or its default."""
        return self.class_order or (ClassOrder.STABLE if self.versioned else ClassOrder.SORTED)

    @property
    def mask_class_names(self) -> tuple[str, ...]:
        """The classes of the numbers of masks, if the request names them by color or by mask."""
        if self.mask_colors:
            return self.mask_colors.names
        classes = self.class_masks
        return (BACKGROUND, *classes) if classes else ()

    @property
    def published_paths(self) -> PublishedPaths:
        """The published paths of the request.

        Those of a function's samples start at the folder of its module; those of a function without a module, and of
        `WriteDataset`, at the folder that contains the output.
        """
        settings = self.to_json()
        words = _words(settings, "input")
        if not any(word.startswith("/") or storage.has_scheme(word) for word in words):
            # Not the current folder: a scheduler may start each build in another one, and workers have their own.
            modules = list(self.input_function.paths.values()) if self.input_function else []
            words += modules or [storage.join(storage.dirname(self.output), "*")]
        reuse = self.reuse
        return PublishedPaths.of(words, [*_words(settings, "other"), *([reuse] if reuse else [])])

    def to_json(self) -> dict[str, Any]:
        """Returns all settings as in a spec file, including defaults."""
        return write_settings(self)


def _find_broken(request: BuildSpec) -> Iterator[tuple[str, str]]:
    """Yields code and message of each broken rule about settings that exclude or need each other."""
    size, mode, encoding, channels = request.image_size, request.resize_mode, request.image_encoding, request.channels
    fields = request.layout.fields if request.layout else frozenset()
    is_raw, has_array = encoding is ImageEncoding.RAW, Content.ARRAY in request.required
    shown, other_channels = f"`image_encoding={encoding.value}`", channels not in (None, 1, 3, 4)
    if request.mask_suffix and not all(part.endswith("/") for part in request.class_masks.values()):
        yield _EXCLUDE, "`mask_classes` and `mask_suffix` both say how the names of masks end; leave `mask_suffix` out"
    # Only the layout shows whether raw pixels are arrays.
    if other_channels and not is_raw:
        yield "invalid_value", f"`channels={channels}`: expected 1, 3, 4 or keep"
    if channels is not None and IMPOSSIBLE_CHANNELS.get(encoding) == channels:
        lacks, other = ("transparency", "webp") if channels == 4 else ("gray images", "jpeg")
        yield (
            _EXCLUDE,
            f"`channels={channels}`: {encoding.name} has no {lacks}; use `image_encoding=png`, "
            f"`image_encoding={other}` or `image_encoding=raw`",
        )
    if request.bit_depth == 16 and encoding is not ImageEncoding.PNG:
        yield _EXCLUDE, f"`bit_depth=16`: {shown} stores 8 bits per channel; use `image_encoding=png`"
    if request.mask_bit_depth == 8 and request.mask_padding > 255:
        padding = f"`mask_padding={request.mask_padding}`"
        yield _EXCLUDE, f"{padding}: 8 bits hold up to 255; use `mask_bit_depth=16`"
    if request.mask_colors and request.mask_values:
        yield (
            _EXCLUDE,
            "`mask_colors` and `mask_values` exclude each other: a mask has colors or numbers; leave one out",
        )
    largest = max((number for _, number in request.mask_numbers), default=0)
    if request.mask_bit_depth == 8 and largest > 255:
        of_mask = "mask_colors" if request.mask_colors else "mask_values"
        yield (
            _EXCLUDE,
            f"`{of_mask}`: a mask would have the number {largest}, and 8 bits hold up to 255; use `mask_bit_depth=16`",
        )
    if not request.versioned and request.keep_versions is not None:
        yield _NEED, "`keep_versions` needs `versioned`; set both, or leave it out"
    if not request.output:
        yield "missing_setting", "`output` is missing; expected the folder of the dataset"
    if size is None and mode is not ResizeMode.SHORTER:
        yield (
            _NEED,
            f"`resize_mode={mode.value}`: without `image_size`, images keep their sizes; use, for example, "
            "`image_size=224`, or leave `resize_mode` out",
        )
    if request.class_order is ClassOrder.STABLE and not request.versioned and request.reuse in (None, NO_REUSE):
        yield (
            _NEED,
            "`class_order=stable` keeps the indices of a previous dataset, and there is none; use `versioned` or "
            "`reuse`, or leave it out",
        )
    if request.map is None and (request.map_revision or request.check_map):
        of_map = "map_revision" if request.map_revision else "check_map"
        yield _NEED, f"`{of_map}`: only has an effect with `map`; use, for example, `map=my_steps:clean`"
    if request.splits.fractions is None and (request.stratify or request.group_column):
        grouped = "`stratify`" if request.stratify else f"`group_column={request.group_column}`"
        yield _NEED, f"{grouped} needs fractions; use, for example, `splits=train=0.9,test=0.1`"
    if request.mask_colors and request.mask_classes:
        yield (
            _EXCLUDE,
            "`mask_colors` and `mask_classes` exclude each other: a mask has all classes or one; leave one out",
        )
    if "image.pixels" in fields and not is_raw:
        yield (
            _EXCLUDE,
            f"{shown}: the layout asks for image.pixels, which is raw; use `image_encoding=raw`, or ask for "
            "image.encoded",
        )
    if has_array and not is_raw:
        yield (
            _EXCLUDE,
            f"{shown}: the layout asks for image.array, which is raw; leave `image_encoding` out, or ask for "
            "image.encoded",
        )
    if other_channels and not has_array:
        yield _EXCLUDE, f"`channels={channels}`: expected 1, 3, 4 or keep; `layout=array` stores any number"
    has_several = request.layout is not None and request.layout.image_names
    if has_several and is_raw and not (request.has_fixed_size and channels):
        yield (
            _NEED,
            "`image_encoding=raw`: an example does not hold the sizes of several images, so they must be equal; use, "
            "for example, `image_size=224` `resize_mode=pad`",
        )
    if request.versioned and request.overwrite:
        yield _EXCLUDE, "`overwrite` replaces what `versioned` keeps; leave one of them out"


# Setting -> what its paths are.
_PATHS = {one.name: one.paths for one in settings_of(BuildSpec) if one.paths}
# A path, after its split or name if it has one: train=/data/photos.
_WORD = re.compile(r"((?:[A-Za-z][A-Za-z0-9_]*=)?)(.*)", re.DOTALL)


def publish_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns plain settings without local paths and without the output. Published settings stay unchanged."""
    paths = PublishedPaths.of(_words(settings, "input"), _words(settings, "other"))

    def publish(word: str) -> str:
        start, path = _WORD.fullmatch(word).groups()  # type: ignore[union-attr]
        return f"{start}{paths.publish(path)}"

    def publish_name(word: str) -> str:
        published = paths.publish(word)
        return published if published in ("", word) or not published.startswith("@") else storage.basename(word)

    published = {name: value for name, value in settings.items() if name != "output"}
    for name in _PATHS.keys() & published.keys():
        published[name] = _map(publish if _PATHS[name] == "input" else publish_name, published[name])
    return published


def _words(settings: Mapping[str, Any], kind: str) -> list[str]:
    """Returns the paths in plain settings, without their splits and names."""
    found: list[str] = []

    def add(word: str) -> str:
        found.append(_WORD.fullmatch(word)[2])  # type: ignore[index]
        return word

    for name, paths in _PATHS.items():
        if paths == kind:
            _map(add, settings.get(name))
    return found


def _map(function: Callable[[str], str], value: Any) -> Any:
    """Applies a function to all strings of a plain value."""
    if isinstance(value, Mapping):
        return {name: _map(function, one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_map(function, one) for one in value]
    return function(value) if isinstance(value, str) else value
