"""The main job on Prism, Beam's portable runner in Go: the same bytes as from the local one."""

from __future__ import annotations

from pathlib import Path

from beam_pipelines.cli import main
from tests.integration.servers import processes
from transforms.dataset import open_dataset

PHOTOS = Path(__file__).parents[1] / "data" / "photos"


def test_shards_and_indices_are_those_of_the_local_runner(tmp_path):
    flags = [f"--input={PHOTOS}", "--image_size=64", "--splits=train=0.8,validation=0.2", "--num_shards=2"]
    prism = ["--runner=PrismRunner", f"--prism_location={processes.binary('prism')}"]
    assert main(["convert", f"--output={tmp_path / 'prism'}", *flags, *prism]) == 0
    assert main(["convert", f"--output={tmp_path / 'local'}", *flags]) == 0
    assert open_dataset(str(tmp_path / "prism")).shards == open_dataset(str(tmp_path / "local")).shards
