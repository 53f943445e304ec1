"""Images that crash or hang the decoder: refused one by one, on the local runner with real workers."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from pathlib import Path

import pytest

from beam_pipelines.convert import prepare_build
from beam_pipelines.options import parse_arguments
from beam_pipelines.request import build_spec
from beam_pipelines.running import run_build
from tests.hostile import Hostile
from transforms.dataset import open_dataset

PHOTOS = Path(__file__).parents[1] / "data" / "photos"


def test_images_that_crash_or_hang_the_decoder_are_refused_and_the_rest_is_converted(tmp_path, capfd):
    argv = [f"--input={PHOTOS}", f"--output={tmp_path / 'out'}", "--image_size=64", "--max_failures=0.1"]
    plan = prepare_build(build_spec(parse_arguments([*argv, "--image_timeout=2"]).words), contextlib.ExitStack())
    hostile = Hostile(plan.convert, crash="cat/cat_01.jpg", hang="space/space_03.jpg")
    outcome = run_build(dataclasses.replace(plan, convert=hostile), ["--direct_num_workers=2"], verbose=False)
    assert outcome is None
    failures = [json.loads(line) for line in (tmp_path / "out/failures.jsonl").read_text().splitlines()]
    assert sorted((failure["key"], failure["reason"]) for failure in failures) == [
        ("cat/cat_01.jpg", "decoder_crash"),
        ("space/space_03.jpg", "decode_timeout"),
    ]
    assert open_dataset(str(tmp_path / "out")).manifest["records"] == 40
    assert capfd.readouterr().err == ""


def test_a_bug_in_a_conversion_stops_the_build_and_shows_where(tmp_path):
    argv = [f"--input={PHOTOS}", f"--output={tmp_path / 'out'}", "--image_size=64"]
    plan = prepare_build(build_spec(parse_arguments(argv).words), contextlib.ExitStack())
    hostile = Hostile(plan.convert, bug="cat/cat_01.jpg")
    with pytest.raises(RuntimeError, match="ZeroDivisionError: a bug"):
        run_build(dataclasses.replace(plan, convert=hostile), [], verbose=False)
    assert not (tmp_path / "out/_SUCCESS").exists()
