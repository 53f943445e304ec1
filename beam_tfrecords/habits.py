"""Names and values that people type from habit, and what they mean here; the same for flags, spec files and Python.

A hint is right, or there is none. Names and values are compared without case and separators.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

# Setting or flag, with a value where the name says it -> names in other tools. The first one that a command has counts.
_NAMES: Mapping[str, str] = {
    "input": "i in infile infiles input_dir input_path input_folder input_file input_files input_data inputs indir "
    "src source_dir source_path source_folder data data_dir data_path data_root data_files data_folder dataset_dir "
    "dataset_path dir directory folder path root root_dir img_dir img_path img_folder image image_dir images_dir "
    "images_path image_folder images_folder files file file_path file_pattern url_list csv csv_file csv_path "
    "csv_input dataframe jsonl parquet manifest annotations annotation annotation_file annotations_file "
    "annotation_path annotations_path ann_file anno anno_file coco_json json_path xml_dir raw_data_dir "
    "object_annotations_file caption_annotations_file labels_csv label_csv",
    "output": "o out outfile out_dir out_path out_folder out_file outdir output_dir output_path output_folder "
    "output_file output_directory output_prefix dest destination dst target_dir save_dir save_to save_path "
    "save_to_dir export_dir tfrecord_dir tfrecord_path tfrecords_dir write_to",
    "overwrite": "f y force force_overwrite overwrite_output overwrite_existing allow_overwrite exist_ok clobber "
    "replace rewrite rebuild force_rebuild recreate delete_existing force_download yes",
    "image_size": "size resize resize_to img_size imgsz image_shape target_size input_size resolution res scale "
    "image_dim img_dim width height image_width image_height img_width img_height output_size new_size dimensions "
    "min_image_side",
    "image_encoding": "format image_format img_format encoding_format encode_format image_type output_image_format "
    "output_format image_codec img_encoding to_format ext extension save_format convert_to",
    "image_encoding=keep": "skip_reencode no_reencode keep_original keep_bytes raw_bytes copy_images",
    "image_encoding=png": "png lossless as_png",
    "image_encoding=jpeg": "jpeg jpg as_jpeg",
    "image_encoding=webp": "webp",
    "jpeg_quality": "quality image_quality img_quality jpg_quality encode_quality webp_quality output_quality",
    "resize_mode": "resize_method resize_type resize_strategy fit_mode aspect_mode",
    "resize_mode=crop": "crop_to_aspect_ratio center_crop centre_crop crop crop_size",
    "resize_mode=pad": "pad_to_aspect_ratio letterbox",
    "resize_mode=shorter": "resize_shortest shortest_edge shorter_side shortest_side min_side",
    "resize_mode=longer": "resize_longest longest_edge longer_side longest_side max_side thumbnail_size",
    "resize_mode=exact": "ignore_aspect_ratio stretch squash",
    "upscale=false": "resize_only_if_bigger only_shrink shrink_only dont_upscale never_upscale no_enlarge "
    "without_enlargement",
    "resample": "interpolation interpolation_method resampling resize_filter filter_type upscale_interpolation "
    "downscale_interpolation resample_filter interp",
    "channels": "num_channels n_channels color_mode colour_mode image_channels colorspace color_space colors pix_fmt "
    "image_mode",
    "channels=1": "grayscale greyscale gray grey to_gray monochrome",
    "channels=3": "rgb to_rgb convert_rgb",
    "channels=4": "rgba keep_alpha",
    "orientation=apply": "auto_orient autoorient exif_rotate exif_transpose autorotate fix_orientation apply_exif",
    "orientation=ignore": "no_autorotate ignore_exif",
    "bit_depth": "bits depth bits_per_channel bits_per_sample color_depth",
    "array_type": "dtype data_type",
    "array_axes": "data_format channel_order",
    "class_names": "label_map label_map_path labelmap label_map_file labels_path labels_file label_file names_file "
    "class_names_file class_file classes_file class_list label_names label_list category_names id2label label2id "
    "class_index class_map names class_labels labels_txt",
    "classes": "only_classes select_classes class_filter filter_classes include_classes keep_classes",
    "class_order": "sort_classes label_order",
    "label_column": "label_col label_key label_field label_name y_col y target_column target_col class_column "
    "class_col category_column caption_col caption_column text_column",
    "label_columns": "label_cols y_cols target_columns",
    "image_column": "image_col image_key image_field path_col path_column x_col filename_col filename_column "
    "file_column url_col url_column file_name_column image_path_column",
    "split_column": "split_col split_key split_field subset_column fold_column",
    "key_column": "id_col id_column key_col uid_column index_col",
    "group_column": "group_col groups group_by groupby patient_column group_key",
    "label_type": "label_mode class_mode task_type",
    "label_pattern": "label_regex class_regex regex filename_pattern label_re class_pattern",
    "label_separator": "label_sep label_delimiter multilabel_separator",
    "delimiter": "sep separator csv_separator field_separator delim csv_delimiter",
    "encoding": "charset text_encoding csv_encoding file_encoding",
    "image_root": "img_root images_root image_root_dir image_base_dir img_prefix image_prefix data_prefix base_dir "
    "base_path",
    "mask_root": "mask_dir masks_dir mask_folder mask_path masks masks_path seg_dir segmentation_dir label_image_dir",
    "box_format": "bbox_format bounding_box_format bbox_type box_type",
    "box_columns": "bbox_columns bbox_cols bbox_col box_cols box_column",
    "splits": "split split_ratio split_ratios split_fractions ratio ratios train_val_split train_test_split "
    "train_val_ratio split_percentages split_sizes split_by data_split",
    "stratify": "stratified stratify_split stratify_by_column stratify_by stratify_by_label",
    "seed": "random_seed random_state rng_seed rand_seed shuffle_seed split_seed",
    "limit": "max_samples num_samples n_samples max_examples num_examples max_images num_images n_images take "
    "subsample sample samples first head max_records max_items nrows max_rows sample_size debug_samples count",
    "shard_size": "max_shard_size shard_bytes maxsize max_shard_bytes target_shard_size shard_size_bytes shard_mb",
    "num_shards": "shards n_shards number_of_shards num_of_shards shard_count nshards train_shards validation_shards "
    "num_files n_files num_output_shards num_tfrecords",
    "compression": "compress compression_type compression_method codec_type",
    "compression=gzip": "gzip gz zip_output use_gzip compressed",
    "compression=none": "no_compression no_compress uncompressed",
    "layout": "features schema task example_format feature_spec",
    "layout=columns": "save_additional_columns keep_columns all_columns",
    "layout=detection": "bbox boxes bboxes object_detection",
    "layout=detection_masks": "include_masks",
    "layout=multilabel": "multi_label",
    "name": "dataset_name ds_name title",
    "license": "licence",
    "homepage": "website home_page",
    "description": "desc",
    "max_failures": "max_errors max_error_rate error_rate allowed_failures failure_rate max_bad max_bad_images "
    "tolerance error_threshold max_failed ignore_errors skip_errors skip_bad skip_corrupt skip_invalid skip_broken "
    "skip_failed on_error errors",
    "allow_truncated": "load_truncated_images load_truncated truncated accept_truncated",
    "image_timeout": "decode_timeout timeout per_image_timeout",
    "max_file_size": "max_image_bytes max_input_size max_image_file_size",
    "max_pixels": "max_image_pixels max_image_area pixel_limit max_area",
    "duplicates": "on_duplicates duplicate_policy duplicate_handling",
    "duplicates=drop": "dedup dedupe deduplicate drop_duplicates remove_duplicates skip_duplicates unique "
    "no_duplicates compute_hash",
    "near_duplicates": "near_dup phash_distance hamming_distance similarity_threshold phash_threshold",
    "include": "include_pattern include_glob only include_files allow_patterns",
    "exclude": "exclude_pattern exclude_glob ignore ignore_patterns ignore_files skip_files exclude_files blacklist",
    "where": "filter query condition predicate filter_expr filter_expression",
    "map": "map_fn map_func mapper transform transforms transform_fn preprocess preprocess_fn preprocessing "
    "preprocessing_function preprocessor process_fn processing_fn target_transform udf function fn image_transform",
    "join": "merge_with",
    "join_key": "join_on merge_on join_column",
    "source": "input_format input_type source_type source_format dataset_type dataset_format annotation_format",
    "mapping": "annotation_mapping",
    "versioned": "versioning version_output versions keep_history timestamped",
    "keep_versions": "max_versions num_versions keep_last retain retention max_to_keep",
    "reuse": "reuse_from previous previous_dataset incremental_from base_dataset reuse_dataset",
    "dali_index": "dali tfrecord_index tfrecord2idx",
    "missing_values": "na_values null_values nan_values",
    "fingerprint=content": "checksum checksums verify_checksums hash_files use_hash",
    "allow_outside_root": "follow_external allow_absolute_paths",
    # Flags that are not settings, and flags of other commands.
    "spec": "config config_file config_path cfg conf params params_file yaml settings_file spec_file options_file",
    "dry_run": "dryrun simulate preview plan plan_only list_only check_only no_op noop just_print validate_only "
    "whatif what_if test_run dry",
    "quiet": "silent no_progress noprogress no_progress_bar hide_progress disable_progress_bar disable_tqdm no_tqdm",
    "verbose": "v debug log_level loglevel verbosity show_log show_logs logging",
    "no_report": "skip_report disable_report no_html without_report",
    "json_summary": "summary summary_json summary_file json_output stats_file",
    "metrics_file": "metrics prometheus_file",
    "no_wait": "detach detached background async submit_only",
    "direct_num_workers": "j workers num_workers n_workers nworkers max_workers num_proc nproc n_proc num_procs "
    "num_processes n_processes processes process_count processes_count procs jobs n_jobs njobs threads num_threads "
    "n_threads nthreads thread_count max_threads parallel num_parallel num_parallel_calls concurrency cores num_cores "
    "n_cores cpus num_cpus ncpus parallel_jobs",
    "runner": "beam_runner backend engine execution_engine pipeline_runner distributor",
    "dataset": "i in input input_dir input_path input_file data data_dir data_path dir directory folder path root "
    "dataset_dir dataset_path src tfrecord_dir tfrecords",
    "to": "o out out_dir outdir out_path output_dir output_path output_folder dest destination dst target target_dir "
    "save_dir save_to export_dir",
    "examples": "n num_examples n_examples max_examples count head take num num_records max_records records number "
    "samples num_samples n_samples",
    "findings": "max_findings num_findings max_errors max_problems",
    "sample": "fraction share sample_rate sample_fraction subset",
    "save": "save_image save_to save_path output out o png write_image image_file",
    "follow": "f watch tail wait poll",
    "split": "subset partition splits",
    "json": "as_json json_output to_json output_json",
}
_HELD_OUT = {
    "validation": "validation_split val_split valid_split dev_split validation_ratio val_ratio valid_ratio val_size "
    "valid_size validation_size val_fraction validation_fraction valid_fraction val_pct valid_pct validation_pct "
    "val_percent val_percentage validation_percentage holdout holdout_fraction eval_split eval_fraction val_frac "
    "valid_frac dev_ratio eval_ratio",
    "test": "test_split test_size test_ratio test_fraction test_pct test_percent test_percentage test_frac",
    "train": "train_split train_size train_ratio train_fraction train_pct train_percent train_percentage train_frac "
    "training_split training_ratio training_fraction",
}
_FOLDERS = {
    "train": "train_dir train_path train_folder train_directory training_dir train_data train_root train_image_dir",
    "validation": "val_dir val_path val_folder validation_dir validation_directory valid_dir val_data dev_dir "
    "val_root val_image_dir",
    "test": "test_dir test_path test_folder test_directory test_data test_root test_image_dir",
}
# A share of a split, or its folder.
_SPLITS = {"train": "train training", "validation": "val valid validation dev", "test": "test"}
# Arguments of `load`, and what training does.
_READING = (
    "batch batch_size bs batchsize drop_remainder drop_last as_supervised prefetch prefetch_factor buffer_size "
    "shuffle_buffer shuffle_buffer_size shuffle_buffersize repeat epochs num_epochs cache cache_dir pin_memory "
    "persistent_workers shuffle_files reshuffle_each_iteration collate_fn sampler one_hot multi_hot"
)
_TRAINING = (
    "augment augmentation augmentations data_augmentation rotation_range width_shift_range height_shift_range "
    "shear_range zoom_range horizontal_flip vertical_flip hflip flip random_flip random_crop brightness_range "
    "channel_shift_range fill_mode color_jitter mixup cutmix normalize normalization normalise rescale mean std "
    "standardize featurewise_center samplewise_center zca_whitening"
)
_ADVICE: Mapping[str, str] = {
    "resume continue restart incremental incremental_mode checkpoint skip_existing resume_from auto_resume "
    "resume_build skip_done skip_completed": "leave it out: the same command resumes an interrupted build",
    "shuffle shuffled no_shuffle random_order randomize randomise": "leave it out: every build shuffles, and `seed` "
    "decides the order",
    _READING: "leave it out: a dataset is batched, cached and repeated when it is read, as by `load(batch_size=32)` "
    "in Python",
    _TRAINING: "leave it out: augment and normalize when you train",
    "file_format record_format writer_type output_type tfrecord_format": "leave it out: the output is always TFRecord",
    "samples_per_shard examples_per_shard images_per_shard number_sample_per_shard num_samples_per_shard "
    "max_examples_per_split max_examples_per_shard records_per_shard maxcount items_per_shard shard_count_limit "
    "num_examples_per_shard records_per_file samples_per_file": "shards have a size in bytes, `shard_size=150MB`, or a "
    "number, `num_shards`",
    "labels_from label_source label_from labels label labels_dir label_dir label_path infer_labels inferred "
    "class_from classes_from": "labels come from folders, from the columns of a table that is the `input` "
    "(`label_column`), or from names (`label_pattern`)",
    "streaming push_to_hub token hub trust_remote_code download try_gcs manual_dir download_mode data_url": "",
    "version": "`beam-tfrecords --version` shows the version",
    "verify check_images validate validate_images verify_images": "leave it out: `beam-tfrecords verify` "
    "checks a dataset",
}

# Setting -> value here -> values in other tools.
_VALUES: Mapping[str, Mapping[str, str]] = {
    "image_encoding": {
        "jpeg": "jpg jpe jfif mjpeg imagejpeg",
        "png": "lossless imagepng",
        "webp": "imagewebp",
        "raw": "numpy npy array tensor uint8 decoded pixels ndarray",
        "keep": "none original same copy asis passthrough bytes source noreencode unchanged",
    },
    "resize_mode": {
        "crop": "centercrop centrecrop cropcenter cover croptoaspectratio",
        "pad": "letterbox padding padded border contain padtoaspectratio resizewithpad",
        "exact": "stretch squash distort warp ignoreaspectratio",
        "shorter": "shortest short shorterside shortestside shortestedge smallest smaller min minside keepratio",
        "longer": "longest long longerside longestside longestedge largest larger max maxside keepratiolargest",
    },
    "resample": {
        "bicubic": "cubic intercubic",
        "bilinear": "linear interlinear triangle",
        "lanczos": "lanczos3 interlanczos antialias",
        "box": "area interarea",
        "nearest": "nearestneighbor nearestneighbour neighbor nn internearest nearestexact",
    },
    "compression": {"gzip": "gz", "none": "no false off uncompressed null"},
    "duplicates": {
        "drop": "remove delete dedup dedupe deduplicate skip unique discard",
        "fail": "error raise refuse forbid",
        "keep": "allow all",
    },
    "channels": {"3": "rgb color colour", "1": "gray grey grayscale greyscale l mono", "4": "rgba", "keep": "0"},
    "box_format": {
        "xyxy": "voc pascal pascalvoc albumentations ltrb corners x1y1x2y2 xminyminxmaxymax relxyxy",
        "xywh": "coco ltwh tlwh",
        "cxcywh": "yolo centerxywh center ccwh",
    },
    "box_unit": {
        "pixels": "pixel px absolute abs",
        "shares": "relative rel normalized normalised fraction fractions share ratio",
    },
    "label_type": {
        "class": "int integer categorical category classification classindex sparse binary",
        "float": "regression number numeric real double float32 continuous",
        "text": "caption captions str",
    },
    "class_order": {"sorted": "alphabetical alphanumeric alpha sort", "stable": "keep previous append"},
    "layout": {
        "tfds": "classification imageclassification imagefolder imagelabel",
        "detection": "objectdetection bbox boxes bboxes",
        "segmentation": "semanticsegmentation semantic",
        "detection_keypoints": "keypoints keypoint pose",
        "detection_polygons": "polygons",
        "captions": "caption captioning imagecaptioning imagetext img2dataset",
    },
    "source": {
        "image_folder": "imagefolder folder folders directory dir imagedir imagedirectory imagedatasetfromdirectory",
        "voc": "pascalvoc pascal",
        "coco": "cocojson instances",
        "yolo": "yolov5 yolov8 yolov11 ultralytics darknet",
        "jsonl": "jsonlines ndjson",
        "csv": "tsv table",
        "parquet": "pq",
        "tfrecord": "tfrecords tfrec tfds",
        "webdataset": "wds",
        "numpy": "npy npz np",
        "idx": "mnist fashionmnist",
        "cifar": "cifar10 cifar100",
        "scans": "dicom nifti dcm nii",
        "tar": "tgz targz tarball",
    },
    "check": {"header": "fast quick headers", "decode": "full pixels all"},
    "guard": {"off": "no false none disable disabled", "warn": "warning", "strict": "on true yes error fail"},
    "fingerprint": {"content": "hash md5 sha256 sha1 checksum crc crc32 bytes", "stat": "mtime time timestamp size"},
    "orientation": {
        "apply": "exif auto autoorient upright rotate transpose true yes on",
        "ignore": "keep none false no off",
    },
    "color_profile": {"apply": "srgb convert icc true yes on", "ignore": "none false no off"},
    "invalid_boxes": {"drop": "skip remove delete discard", "reject": "error fail raise"},
    "unknown_labels": {
        "no": "negative 0 false zeros uzeros",
        "yes": "positive 1 true ones uones",
        "reject": "drop skip",
    },
    "codec": {"exact": "pillow pil", "fast": "turbo libjpegturbo simplejpeg opencv"},
    "array_type": {"float32": "float fp32 f4", "uint8": "byte u1", "uint16": "u2 ushort"},
    "array_axes": {"HWC": "channelslast nhwc last", "CHW": "channelsfirst nchw first"},
    "pages": {"bands": "all stack channels", "first": "one"},
    "window": {"full": "none minmax all range", "file": "header dicom default"},
}
_SWITCHES = {"true": "yes y on 1 t enable enabled", "false": "no n off 0 f disable disabled none"}
# Settings whose value is a file, which may be misspelt.
_FILES = ("class_names",)
# Commands -> names in other tools.
_COMMANDS: Mapping[str, str] = {
    "convert": "build create make write pack run generate encode transform ingest prepare tfrecord tfrecords "
    "conversion download_and_prepare",
    "verify": "check validate test fsck lint verification",
    "inspect": "info show head cat schema describe view peek dump print ls list",
    "export": "extract unpack decode untar restore",
    "report": "html summary stats statistics explore visualize visualise",
    "status": "ps progress versions watch follow pin jobs",
    "completion": "completions autocomplete complete",
}
_UNITS = {"k": 10**3, "m": 10**6}
_SHORTEST = 4
# Longer values are texts of the user, not habits.
_LONGEST = 100
_SIZE = re.compile(r"[\[(]?[0-9]+(\s*px)?([\s,x*:]+[0-9]+){0,2}(\s*px)?[\])]?")
_FRACTION = re.compile(r"([a-z]*)\s*[=:]?\s*([0-9]*[.]?[0-9]+)%?")
_FRACTIONS = re.compile(rf"{_FRACTION.pattern}(?:[\s,;/:-]+{_FRACTION.pattern})*")

Accepts = Callable[[str, str], bool]


def _key(word: str) -> str:
    return re.sub(r"[-_. ]", "", word).lower()


def _words(table: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields each word of a table, without separators, and what it means."""
    for meaning, words in table.items():
        for word in words.split():
            yield _key(word), meaning


def find_near(word: str, known: Collection[str], *, shortest: int = _SHORTEST) -> str | None:
    """Returns the only known name that differs from a word in one letter, or in case and separators; else None.

    Args:
      word: the word.
      known: the names.
      shortest: names with fewer letters have to be the same.
    """
    key = _key(word)
    same = [name for name in known if _key(name) == key]
    near = [name for name in known if min(len(key), len(_key(name))) >= shortest and _is_near(key, _key(name))]
    found = same or near
    return found[0] if len(set(map(_key, found))) == 1 else None


def _is_near(one: str, other: str) -> bool:
    """Whether two words differ by one letter more, less or changed, or by two neighbours that changed places."""
    start = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    one, other = one[start:], other[start:]
    swapped = len(one) > 1 and len(other) > 1 and one[:2] == other[1::-1] and one[2:] == other[2:]
    return swapped or one[1:] == other[1:] or one[1:] == other or one == other[1:]


def find_command(word: str, known: Collection[str]) -> str | None:
    """Returns the command that a word means, or None."""
    return next((name for key, name in _words(_COMMANDS) if key == _key(word)), None) or find_near(word, known)


def is_habit(word: str) -> bool:
    """Whether a name is one of those that people type from habit."""
    return any(key == _key(word) for table in (_NAMES, _HELD_OUT, _FOLDERS) for key, _ in _words(table)) or any(
        _key(word) in map(_key, words.split()) for words in _ADVICE
    )


def explain_name(
    word: str,
    value: Any,
    *,
    known: Collection[str],
    accepts: Accepts,
    ask: Callable[[str], str],
    flags: Collection[str] = (),
) -> str:
    """Returns a hint about an unknown name; "" for none.

    Args:
      word: the name.
      value: its value; None without one.
      known: names of settings, and of flags that are not settings.
      accepts: says whether a setting takes a value.
      ask: makes a hint of what the name means, which is a name or `name=value`.
      flags: more names, which have to be nearly equal, such as those of Beam's flags.
    """
    key = _key(word)
    if str(value).lower() in ("true", "false"):
        value = str(value).lower() == "true"
    if same := [name for name in known if _key(name) == key]:
        return ask(same[0])
    meanings = [meaning for name, meaning in _words(_NAMES) if name == key]
    said = None if value is None or isinstance(value, bool) else str(value)
    of_split = dict(_words(_SPLITS)).get(key) if said else None
    is_share = of_split is not None and _number((said or "").removesuffix("%")) is not None
    held_out = of_split if is_share else dict(_words(_HELD_OUT)).get(key)
    folder = of_split or dict(_words(_FOLDERS)).get(key)
    if held_out and "splits" in known:
        fractions = None if value is False else _hold_out(held_out, said)
        return ask(f"splits={fractions}") if fractions else ""
    if folder and "input" in known:
        return ask(f"input={folder}={said or 'FOLDER'}")
    for meaning in meanings:
        name, _, fixed = meaning.partition("=")
        if name not in known:
            continue
        if fixed:
            return _explain_fixed(meaning, value, said, accepts, ask)
        if said is None:
            return ask(name)
        if accepts(name, said):
            return ask(f"{name}={said}" if name in _VALUES else name)
        better = better_value(name, said, accepts)
        return ask(f"{name}={better}") if better else ask(name) if name in _FILES else ""
    advice = next((advice for words, advice in _ADVICE.items() if key in map(_key, words.split())), None)
    if advice is not None and "splits" in known:
        return advice
    started = [name for name in known if _abbreviates(key, name)]
    near = started[0] if len(started) == 1 else find_near(word, known) or find_near(word, flags, shortest=2 * _SHORTEST)
    if near is None or meanings or (said is not None and near not in _FILES and not accepts(near, said)):
        return ""
    return ask(near)


def _abbreviates(key: str, name: str) -> bool:
    """Whether a word is the beginning of a name and ends within one of its words: `min_size` may be a name itself."""
    ends = [at for at in range(len(name)) if _key(name[:at]) == key]
    return len(key) >= _SHORTEST and bool(ends) and "_" not in {name[at] for at in ends}


def _explain_fixed(meaning: str, value: Any, said: str | None, accepts: Accepts, ask: Callable[[str], str]) -> str:
    """Returns a hint about a name that means a setting with its value, such as `grayscale`."""
    if said is not None and meaning.startswith("resize_mode=") and accepts("image_size", said):
        return f"{ask(f'image_size={said}').rstrip('?')} with `{meaning}`?"
    return ask(meaning) if value is not False and (said is None or _is_true(said)) else ""


def _is_true(word: str) -> bool:
    return word.lower() in ("true", *_SWITCHES["true"].split())


def _hold_out(split: str, word: str | None) -> str | None:
    """Returns the fractions for a share such as 0.2 or 20% of a split, or for a usual one without it."""
    number = (0.8 if split == "train" else 0.2) if word is None else _number(word.removesuffix("%"))
    share = number / 100 if number is not None and number >= 1 else number
    if share is None or not 0 < share < 1:
        return None
    train = share if split == "train" else 1 - share
    return f"train={train:.6g},{'validation' if split == 'train' else split}={1 - train:.6g}"


def better_value(name: str, value: Any, accepts: Accepts, choices: Sequence[str] = ()) -> str | None:
    """Returns the value of a setting that is meant by a value which the setting does not take; None if unclear.

    Args:
      name: the setting.
      value: the value.
      accepts: says whether a setting takes a value.
      choices: the values that the setting takes, if they are a list.
    """
    text = str(value).strip()
    if len(text) > _LONGEST:
        return None
    key = _key(text)
    choices = choices or tuple(_VALUES.get(name, {}))
    same = next((choice for choice in choices if _key(choice) == key), None)
    meant = next((meaning for word, meaning in _words(_VALUES.get(name, {})) if word == key), None)
    candidates = (same, meant, *_as_numbers(name, text), find_near(text, choices), dict(_words(_SWITCHES)).get(key))
    return next((one for one in candidates if one is not None and one != text and accepts(name, one)), None)


def _as_numbers(name: str, text: str) -> Iterator[str]:
    """Yields other forms of a number, a size or fractions."""
    if name == "splits":
        yield from _as_fractions(text)
    numbers = re.findall(r"[0-9]+", text)
    if name == "image_size" and _SIZE.fullmatch(text):
        if len(set(numbers[:2])) == 1:
            yield numbers[0]
        elif ":" not in text:  # ffmpeg names the width first
            yield "x".join(numbers[:2])
        return
    share = _number(text.rstrip("% ")) if text.endswith("%") else None
    if share is not None:
        yield f"{share:g}" if name == "jpeg_quality" else f"{share / 100:.6g}"
    if re.fullmatch(r"[0-9]+([.][0-9]+)?\s*[kmgKMG]i?", text):
        yield f"{text}B"
    if name in ("limit", "max_pixels") and (match := re.fullmatch(r"([0-9]+)\s*([km])", text.lower())):
        yield str(int(match[1]) * _UNITS[match[2]])
    if name == "image_timeout" and (match := re.fullmatch(r"([0-9]+)\s*s(ec(ond)?s?)?", text)):
        yield match[1]
    if re.fullmatch(r"[0-9]{1,3}(_[0-9]{3})+", text):
        yield text.replace("_", "")
    if re.fullmatch(r"0,[0-9]+", text):
        yield text.replace(",", ".")
    number = _number(text)
    if number is not None and number == int(number) and abs(number) < 10**15:
        yield str(int(number))


def _as_fractions(text: str) -> Iterator[str]:
    """Yields the fractions that are meant by `0.8,0.1,0.1`, `80/20`, `train:0.8 val:0.2` or `train=80,val=20`."""
    text = re.sub("[{}()\"' ]+|\\[|\\]", " ", text.lower()).strip()
    if not _FRACTIONS.fullmatch(text):
        return
    pairs = _FRACTION.findall(text)
    names = [name for name, _ in pairs]
    numbers = [float(number) for _, number in pairs]
    whole = next((whole for whole in (1, 100) if abs(sum(numbers) - whole) < 1e-9), None)
    if whole is None and len(numbers) == 1 and names == ["train"] and 0 < numbers[0] < 1:
        names, numbers, whole = ["train", "validation"], [numbers[0], 1 - numbers[0]], 1
    if whole is None or len(numbers) not in (2, 3) or len(set(names)) not in (1, len(names)):
        return
    if not any(names):
        names = ["train", "validation", "test"][: len(numbers)]
    if all(names):
        yield ",".join(f"{name}={number / whole:.6g}" for name, number in zip(names, numbers, strict=True))


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"[0-9]+[.]?[0-9]*(e[0-9])?|[.][0-9]+", text) else None
