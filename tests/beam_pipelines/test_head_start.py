"""The first blocks are converted before there is a pipeline, which takes them as if it had converted them."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest

from beam_pipelines import head_start
from beam_pipelines.convert import prepare_build
from beam_pipelines.head_start import begin_blocks
from beam_pipelines.options import parse_arguments
from beam_pipelines.planning import BuildPlan
from beam_pipelines.request import build_spec
from beam_pipelines.running import run_build
from tests.beam_pipelines.dataset_checks import manifest_of, shards_of
from transforms.child import do_nothing
from transforms.pool import close_pools, shared_pool

PHOTOS = Path(__file__).parents[1] / "data" / "photos"


@pytest.fixture(autouse=True)
def no_pools():
    yield
    close_pools()


def prepare(photos: Path, output: Path) -> BuildPlan:
    argv = [
        f"--input={photos}",
        f"--output={output}",
        "--name=photos",
        "--image_size=32",
        "--splits=train=0.5,test=0.5",
    ]
    return prepare_build(build_spec(parse_arguments(argv).words), contextlib.ExitStack())


def wait_for_pool() -> None:
    # One process, so this call comes after all that were begun.
    shared_pool(1).submit(do_nothing).result()


def blocks_of(plan: BuildPlan) -> set[str]:
    return {marker.stem for marker in Path(plan.block_plan.folder).glob("blocks/*.json")}


def test_blocks_that_were_begun_are_not_converted_by_the_pipeline(tmp_path):
    shutil.copytree(PHOTOS, tmp_path / "photos")
    plan = prepare(tmp_path / "photos", tmp_path / "out")
    begin_blocks(plan, processes=1)
    wait_for_pool()
    assert blocks_of(plan) == {f"{split}-{block:06d}" for split in plan.blocks for block in range(plan.blocks[split])}
    shutil.rmtree(tmp_path / "photos")
    assert run_build(plan, ["--direct_num_workers=1"], verbose=False) is None

    other = prepare(PHOTOS, tmp_path / "without")
    assert run_build(other, ["--direct_running_mode=in_memory"], verbose=False) is None
    assert manifest_of(tmp_path / "out")["records"] == 42
    assert shards_of(tmp_path / "out") == shards_of(tmp_path / "without")


def test_only_so_many_blocks_are_begun(tmp_path, monkeypatch):
    monkeypatch.setattr(head_start, "_SAMPLES_PER_PROCESS", 1)
    plan = prepare(PHOTOS, tmp_path / "out")
    begin_blocks(plan, processes=1)
    wait_for_pool()
    assert len(blocks_of(plan)) == 1


def test_none_is_begun_where_finding_its_samples_takes_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr(head_start, "_MOST_SAMPLES", 41)
    plan = prepare(PHOTOS, tmp_path / "out")
    begin_blocks(plan, processes=1)
    wait_for_pool()
    assert not blocks_of(plan)
