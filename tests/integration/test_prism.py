"""The pipeline of `convert` on Prism, Beam's portable runner in Go: the same bytes as from the local runner."""

from __future__ import annotations

from beam_tfrecords.dataset import open_dataset
from tests.integration.servers import processes


def test_shards_and_indices_are_those_of_the_local_runner(photos, tmp_path, run, build):
    flags = [f"--input={photos}", "--image_size=64", "--splits=train=0.8,validation=0.2", "--num_shards=2"]
    prism = ["--runner=PrismRunner", f"--prism_location={processes.binary('prism')}"]
    ran = run("convert", f"--output={tmp_path / 'prism'}", *flags, *prism)
    assert ran.code == 0, ran.err
    build(tmp_path / "local", *flags)
    assert open_dataset(str(tmp_path / "prism")).shards == open_dataset(str(tmp_path / "local")).shards
