"""Trees of TFRecord files as other programs write them: the files, and what is in them."""

from __future__ import annotations

import dataclasses
import gzip
import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from beam_tfrecords.transforms.sources.braces import expand_braces
from tests.beam_pipelines.public_layouts import Records
from tests.framing import example_of, framed

_FORMS = {"gzip": gzip.compress, "zlib": zlib.compress, "none": bytes}


@dataclasses.dataclass(frozen=True)
class Written:
    """A TFRecord file.

    Attributes:
      has_label: whether its records have a label: 0 and 1, in turn.
      form: how the file is compressed.
      records: number of its records.
      features: other features of the records.
    """

    has_label: bool = True
    form: str = "none"
    records: int = 2
    features: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class RecordLayout:
    """A tree of TFRecord files, and what becomes of it with `source=tfrecord`.

    Attributes:
      name: who writes it.
      files: path -> a file of records, or the content of another file; a path may have braces.
      records: split -> label -> number of records; None if the tree is refused.
      input: the input below the tree; or a glob.
      notes: parts of the notes.
      refused: code of the refusal.
      suggestions: what the commands in the refusal give.
      flags: more flags.
    """

    name: str
    files: Mapping[str, Written | str | bytes]
    records: Records | None = None
    _: dataclasses.KW_ONLY
    input: str = ""
    notes: Sequence[str] = ()
    refused: str = ""
    suggestions: Sequence[Records] = ()
    flags: Sequence[str] = ()

    def write(self, root: Path) -> str:
        """Writes the files; returns the input."""
        for number, (name, content) in enumerate(self._each()):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            content = content.encode() if isinstance(content, str) else content
            path.write_bytes(content if isinstance(content, bytes) else _records(content, number))
        return f"{root}/{self.input}".rstrip("/")

    def _each(self) -> Iterator[tuple[str, Written | str | bytes]]:
        for names, content in self.files.items():
            for name in expand_braces(names):
                yield name, content


def _records(written: Written, number: int) -> bytes:
    """Returns the content of a file; the images of two files differ."""
    several = [
        {"image": _image(number, one), **({"label": one % 2} if written.has_label else {}), **written.features}
        for one in range(written.records)
    ]
    return _FORMS[written.form](framed(*map(example_of, several)))


def _image(number: int, record: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (number, record, 99)).save(file, "PNG")
    return file.getvalue()


PLAIN, GZIP, ZLIB = Written(), Written(form="gzip"), Written(form="zlib")
NO_LABEL, MORE = Written(has_label=False), Written(records=4)
EMPTY_GZIP = Written(form="gzip", records=0)
# tensorflow_metadata's Schema.
_SCHEMA = 'feature { name: "label" type: INT }\n'
# tensorflow_metadata's DatasetFeatureStatisticsList of a dataset with a name and a number of examples.
_STATISTICS = b"\n\x10\n\x0cAll Examples\x10\x02"
_INFO = '{"name": "my_dataset", "version": "1.0.0", "splits": []}'


def _labels(count: int) -> dict[str, int]:
    return {"0": count // 2, "1": count // 2}


TRAIN_EVAL = {"train": _labels(4), "validation": _labels(2)}

RECORD_LAYOUTS = [
    # tfx/types/standard_artifacts.py, Examples: Split-{split_name}/{file}-xxxxx-of-xxxxx.gz
    RecordLayout(
        "TFX's ExampleGen, an artifact",
        {"Split-train/data_tfrecord-0000{0..1}-of-00002.gz": GZIP, "Split-eval/data_tfrecord-00000-of-00001.gz": GZIP},
        TRAIN_EVAL,
        notes=["splits from the folders in the paths: Split-eval, Split-train"],
    ),
    RecordLayout(
        "TFX's Transform",
        {
            "Split-train/transformed_examples-0000{0..1}-of-00002.gz": GZIP,
            "Split-eval/transformed_examples-00000-of-00001.gz": GZIP,
        },
        TRAIN_EVAL,
        notes=["splits from the folders in the paths"],
    ),
    RecordLayout(
        "one split of TFX's ExampleGen",
        {"Split-eval/data_tfrecord-00000-of-00001.gz": GZIP},
        {"validation": _labels(2)},
        input="Split-eval",
        notes=["the split validation comes from the name of the input"],
    ),
    RecordLayout(
        "one file of TFX's ExampleGen",
        {"data_tfrecord-00000-of-00001.gz": GZIP},
        {"train": _labels(2)},
        input="data_tfrecord-00000-of-00001.gz",
    ),
    RecordLayout(
        "splits of TFX that the request names",
        {"Split-{train,eval,other}/data_tfrecord-00000-of-00001.gz": GZIP},
        {"train": _labels(2), "test": _labels(2)},
        notes=["in no folder of `splits`: "],
        flags=["--splits=train=Split-train,test=Split-eval"],
    ),
    # A pipeline root has the artifacts of all components and of all runs, and statistics that are records too.
    RecordLayout(
        "TFX's pipeline root after one run",
        {
            "CsvExampleGen/examples/1/Split-{train,eval}/data_tfrecord-00000-of-00001.gz": GZIP,
            "StatisticsGen/statistics/2/Split-{train,eval}/FeatureStats.pb": _STATISTICS,
            "StatisticsGen/statistics/2/Split-{train,eval}/stats_tfrecord": framed(_STATISTICS),
            "Evaluator/evaluation/8/metrics-00000-of-00001.tfrecord": framed(_STATISTICS),
            "SchemaGen/schema/3/schema.pbtxt": _SCHEMA,
        },
        {"train": _labels(2), "validation": _labels(2)},
        notes=[
            "the records are not tf.train.Examples: 3 files, such as Evaluator",
            "splits from the folders in the paths",
        ],
    ),
    RecordLayout(
        "TFX's pipeline root after two runs",
        {
            "CsvExampleGen/examples/{1,12}/Split-train/data_tfrecord-00000-of-00001.gz": GZIP,
            "CsvExampleGen/examples/12/Split-eval/data_tfrecord-00000-of-00001.gz": GZIP,
            "SchemaGen/schema/3/schema.pbtxt": _SCHEMA,
        },
        refused="several_datasets",
        suggestions=[
            {"train": _labels(2), "validation": _labels(2)},
            {"train": _labels(2)},
            {"train": _labels(4), "validation": _labels(2)},
        ],
    ),
    # docs/guide/examplegen.md
    RecordLayout(
        "spans of TFX",
        {"span-{1..2}/{train,eval}/data": PLAIN},
        {"train": _labels(4), "validation": _labels(4)},
        notes=["splits from the folders in the paths"],
    ),
    RecordLayout(
        "spans of TFX with versions",
        {"span-1/ver-1/{train,eval}/data": PLAIN, "span-2/ver-{1,10}/{train,eval}/data": PLAIN},
        refused="several_datasets",
        suggestions=[{"train": _labels(2), "validation": _labels(2)}] * 3,
    ),
    RecordLayout(
        "a version of a span that is asked for",
        {"span-2/version-000{1..2}/data-00000-of-00001": PLAIN},
        {"train": _labels(2)},
        flags=["--include=span-2/version-0001/**"],
    ),
    # saveAsNewAPIHadoopFile of tensorflow/ecosystem's connector, with the checksums of Hadoop's local file system.
    RecordLayout(
        "spark-tensorflow-connector",
        {
            "part-r-0000{0..1}": PLAIN,
            ".part-r-0000{0..1}.crc": "crc\x00",
            "_SUCCESS": "",
            "._SUCCESS.crc": "crc\x00",
            "_temporary/0/task_1/part-r-00007": PLAIN,
        },
        {"train": _labels(4)},
        notes=["hidden or unfinished: _temporary/0/task_1/part-r-00007"],
    ),
    RecordLayout(
        "spark-tensorflow-connector with GzipCodec and empty partitions",
        {"part-r-00000.gz": EMPTY_GZIP, "part-r-0000{1..2}.gz": GZIP, "_SUCCESS": ""},
        {"train": _labels(4)},
    ),
    RecordLayout(
        "spark-tfrecord with empty partitions",
        {"part-0000{0,3}-6b1d.c000.tfrecord": "", "part-00001-6b1d.c000.tfrecord": PLAIN, "_SUCCESS": ""},
        {"train": _labels(2)},
    ),
    RecordLayout(
        "spark-tensorflow-connector with DefaultCodec",
        {"part-r-0000{0..1}.deflate": ZLIB, "_SUCCESS": ""},
        {"train": _labels(4)},
    ),
    # linkedin/spark-tfrecord's partitionBy
    RecordLayout(
        "spark-tfrecord with partitionBy of a day",
        {"day=2026-01-0{1..2}/part-r-00000": PLAIN, "_SUCCESS": ""},
        {"train": _labels(4)},
        notes=["folders such as day=… are not read"],
    ),
    # tensorflow_datasets
    RecordLayout(
        "TFDS, one version",
        {
            "my_dataset/1.0.0/my_dataset-{train,test}.tfrecord-00000-of-00001": PLAIN,
            "my_dataset/1.0.0/dataset_info.json": _INFO,
        },
        {"train": _labels(2), "test": _labels(2)},
        notes=["splits from the names of the files: test, train"],
    ),
    RecordLayout(
        "TFDS, several versions of two configs",
        {
            "small/{1.0.0,1.10.0,1.9.0}/my_dataset-train.tfrecord-00000-of-00001": MORE,
            "big/{1.0.0,2.0.0}/my_dataset-{train,extra}.tfrecord-00000-of-00001": PLAIN,
            "{small,big}/1.0.0/dataset_info.json": _INFO,
        },
        refused="several_datasets",
        suggestions=[
            {"train": _labels(6), "extra": _labels(2)},
            {"train": _labels(2), "extra": _labels(2)},
            {"train": _labels(4)},
            {"train": _labels(4)},
            {"train": _labels(2), "extra": _labels(2)},
        ],
    ),
    RecordLayout(
        "TFDS, several versions",
        {"my_dataset/{1.0.0,1.10.0,1.9.0}/my_dataset-train.tfrecord-00000-of-00001": MORE},
        refused="several_datasets",
        suggestions=[{"train": _labels(4)}] * 3,
    ),
    RecordLayout(
        "TFDS, a split of its own name",
        {"stl10-{train,unlabelled}.tfrecord-00000-of-00001": PLAIN},
        {"train": _labels(2), "unlabelled": _labels(2)},
        notes=["splits from the names of the files"],
    ),
    RecordLayout(
        "ImageNet",
        {"train-0000{0..1}-of-01024": PLAIN, "validation-00000-of-00128": PLAIN},
        TRAIN_EVAL,
        notes=["splits from the names of the files"],
    ),
    RecordLayout(
        "ImageNet with DALI's indices",
        {"train/train-0000{0..1}-of-01024": PLAIN, "idx/train-0000{0..1}-of-01024": "0 99\n99 99\n"},
        {"train": _labels(4)},
        notes=["splits from the names of the files: train"],
    ),
    RecordLayout(
        "TF Object Detection API",
        {
            "coco_train.record-0000{0..1}-of-00100": PLAIN,
            "coco_val.record-00000-of-00050": PLAIN,
            "coco_testdev.record-00000-of-00050": PLAIN,
        },
        {**TRAIN_EVAL, "testdev": _labels(2)},
        notes=["splits from the names of the files"],
    ),
    RecordLayout(
        "TF Object Detection API, one file of validation",
        {"coco_val.record-00000-of-00001": PLAIN},
        {"validation": _labels(2)},
        input="coco_val.record-00000-of-00001",
        notes=["splits from the names of the files"],
    ),
    # Kaggle: flower-classification-with-tpus
    RecordLayout(
        "flowers of Kaggle, one size",
        {
            "tfrecords-jpeg-224x224/train/0{0..1}-224x224-798.tfrec": PLAIN,
            "tfrecords-jpeg-224x224/val/00-224x224-232.tfrec": PLAIN,
            "sample_submission.csv": "id,label\n",
        },
        TRAIN_EVAL,
        notes=["splits from the folders in the paths: train, val"],
    ),
    RecordLayout(
        "flowers of Kaggle, whose test images have no labels",
        {
            "tfrecords-jpeg-224x224/train/0{0..1}-224x224-798.tfrec": PLAIN,
            "tfrecords-jpeg-224x224/val/00-224x224-232.tfrec": PLAIN,
            "tfrecords-jpeg-224x224/test/0{0..8}-224x224-462.tfrec": NO_LABEL,
        },
        {**TRAIN_EVAL, "test": {"": 18}},
        notes=["splits from the folders in the paths: test, train, val", "the 18 samples of test have no label"],
    ),
    RecordLayout(
        "flowers of Kaggle, several sizes",
        {
            "tfrecords-jpeg-192x192/train/0{0..1}-192x192-798.tfrec": PLAIN,
            "tfrecords-jpeg-192x192/val/00-192x192-232.tfrec": PLAIN,
            "tfrecords-jpeg-512x512/train/0{0..1}-512x512-798.tfrec": PLAIN,
            "tfrecords-jpeg-512x512/val/00-512x512-232.tfrec": PLAIN,
        },
        refused="several_datasets",
        suggestions=[TRAIN_EVAL] * 2,
    ),
    RecordLayout(
        "cameras of several sizes, which are no copies",
        {"front-640x480/{a,b}.tfrecord": PLAIN, "front-1280x720/c.tfrecord": PLAIN},
        {"train": _labels(6)},
    ),
    RecordLayout(
        "cassava of Kaggle",
        {
            "train_tfrecords/ld_train0{0..1}-1338.tfrec": PLAIN,
            "test_tfrecords/ld_test00-1.tfrec": MORE,
            "train.csv": "image_id,label\n",
        },
        {"train": _labels(4), "test": _labels(4)},
        notes=["splits from the names of the files"],
    ),
    RecordLayout(
        "melanoma of Kaggle",
        {"train0{0..1}-2071.tfrec": PLAIN, "test00-687.tfrec": PLAIN},
        {"train": _labels(4), "test": _labels(2)},
        notes=["splits from the names of the files"],
    ),
    RecordLayout(
        "other extensions, compressed whatever the name says",
        {"a.record": GZIP, "b.records": ZLIB, "c.tfrec": PLAIN, "d": GZIP, "e.gz": PLAIN, "f.tfrecord.zlib": ZLIB},
        {"train": _labels(12)},
    ),
    # models/tutorials/image/cifar10_estimator of TensorFlow
    RecordLayout(
        "CIFAR-10 of a tutorial, which calls the test split eval",
        {"train.tfrecords": MORE, "validation.tfrecords": PLAIN, "eval.tfrecords": MORE},
        refused="unclear_splits",
        suggestions=[
            {"train": _labels(4), "validation": _labels(2), "test": _labels(4)},
            {"train": _labels(4), "validation": _labels(6)},
        ],
    ),
    RecordLayout(
        "folders of validation and development",
        {"train/part-0": MORE, "x_val/part-{0,1}": PLAIN, "x_dev/part-0": MORE},
        refused="unclear_splits",
        suggestions=[{"train": _labels(4), "validation": _labels(8)}],
    ),
    RecordLayout(
        "folders of splits of which one is unknown",
        {"{train,val,extra}/a.tfrecord": PLAIN},
        refused="unclear_splits",
        suggestions=[{"train": _labels(2), "validation": _labels(2)}, {"train": _labels(6)}],
    ),
]
