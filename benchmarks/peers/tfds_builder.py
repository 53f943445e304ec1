"""TensorFlow Datasets: a generator in one process, or its Beam writer on Beam's local runner.

python benchmarks/peers/tfds_builder.py PHOTOS OUTPUT [BEAM_WORKERS]
"""

from __future__ import annotations

import io
import pathlib
import sys
from typing import Any

import tensorflow_datasets as tfds
from photos import list_photos, shrink_photo


def make_example(photo: tuple[pathlib.Path, int]) -> tuple[str, dict[str, Any]]:
    """Key and features of one photo, given its path and label."""
    path, label = photo
    return path.name, {"image": io.BytesIO(shrink_photo(path)), "label": label}


class Photos(tfds.core.GeneratorBasedBuilder):
    """The photos of the command line as a dataset of images and labels."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> tfds.core.DatasetInfo:
        classes = sorted(folder.name for folder in pathlib.Path(sys.argv[1]).iterdir())
        features = {"image": tfds.features.Image(), "label": tfds.features.ClassLabel(names=classes)}
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager: Any) -> dict[str, Any]:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Any:
        return map(make_example, list_photos(pathlib.Path(sys.argv[1])))


class BeamPhotos(Photos):
    """The same with Beam."""

    def _generate_examples(self) -> Any:
        import apache_beam as beam

        return beam.Create(list_photos(pathlib.Path(sys.argv[1]))) | beam.Map(make_example)


def main() -> None:
    """Builds the dataset."""
    if len(sys.argv) == 3:
        Photos(data_dir=sys.argv[2]).download_and_prepare()
        return
    from apache_beam.options.pipeline_options import PipelineOptions

    # By its name alone, DirectRunner would try to download another runner first.
    options = PipelineOptions(
        runner="apache_beam.runners.portability.fn_api_runner.FnApiRunner",
        direct_running_mode="multi_processing",
        direct_num_workers=int(sys.argv[3]),
    )
    configuration = tfds.download.DownloadConfig(beam_options=options)
    BeamPhotos(data_dir=sys.argv[2]).download_and_prepare(download_config=configuration)


if __name__ == "__main__":
    main()
