"""Builds in a real IPython kernel, as a notebook runs them."""

from __future__ import annotations

import queue
import shutil

import pytest
from jupyter_client.manager import start_new_kernel

BUILD = """
from beam_tfrecords import build
dataset = build(input={photos!r}, output={output!r}, image_size=(32, 32), splits={{"train": 0.75, "test": 0.25}})
dataset
"""


@pytest.fixture(scope="module")
def run_cell():
    """Runs a cell: (text that it printed, text of its value); raises what it raised."""
    manager, client = start_new_kernel(kernel_name="python3")

    def run(code: str) -> tuple[str, str]:
        printed, value = [], ""
        request = client.execute(code, stop_on_error=False)
        while True:
            try:
                message = client.get_iopub_msg(timeout=300)
            except queue.Empty:
                raise TimeoutError("the kernel does not answer") from None
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                printed.append(content["text"])
            elif kind == "execute_result":
                value = content["data"]["text/plain"]
            elif kind == "error":
                raise RuntimeError("\n".join(content["traceback"]))
            elif kind == "status" and content["execution_state"] == "idle":
                return "".join(printed), value

    yield run
    client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.mark.nightly
def test_a_cell_builds_a_dataset_and_shows_it(run_cell, photos, tmp_path):
    printed, value = run_cell(BUILD.format(photos=str(photos), output=str(tmp_path / "out")))
    assert "apitools" not in printed
    first, counts, names = value.splitlines()
    assert first == f"Dataset({str(tmp_path / 'out')!r})"
    assert "42 records in 2 shards: " in counts
    assert "7 classes: " in names


def test_progress_is_one_line_that_is_rewritten(run_cell):
    code = """
import sys
from beam_tfrecords.beam_pipelines.messages.progress import Progress
print(Progress("/nowhere", total=1).rewrites, Progress("/nowhere", total=1, stream=sys.__stderr__).rewrites)
"""
    assert run_cell(code)[0].split() == ["True", "False"]


@pytest.mark.nightly
def test_a_wrong_request_is_one_message_and_the_next_cell_runs(run_cell, photos, tmp_path):
    run_cell("from beam_tfrecords import build")
    wrong = f"build(input={str(photos)!r}, output={str(tmp_path)!r}, image_sise=3)"
    with pytest.raises(RuntimeError) as raised:
        run_cell(wrong)
    message = "RequestError: `image_sise` is not a setting; did you mean `image_size`?"
    assert str(raised.value).splitlines() == [message, f"  line 1: {wrong}"]
    run_cell("from beam_tfrecords import plan")
    text = run_cell(f"print(plan(input={str(photos)!r}, output={str(tmp_path)!r}, image_size=3))")[0]
    assert "42" in text
    assert not list(tmp_path.iterdir())


@pytest.mark.nightly
def test_an_ambiguous_request_has_a_line_for_each_reading(run_cell, photos, tmp_path):
    run_cell("from beam_tfrecords import build")
    (tmp_path / "all").symlink_to(photos)
    names = [f"all/{path.relative_to(photos)}" for path in sorted(photos.glob("*/*.jpg"))]
    rows = [f"{name},small{number % 2 * ' outdoor'}" for number, name in enumerate(names)]
    (tmp_path / "tags.csv").write_text("\n".join(["image,tags", *rows]))
    with pytest.raises(RuntimeError) as refused:
        run_cell(f"build(input={str(tmp_path / 'tags.csv')!r}, output={str(tmp_path / 'out')!r})")
    first, *readings, called = str(refused.value).splitlines()
    assert first.startswith("RequestError: ")
    assert len(readings) > 1
    assert all(reading.startswith("  for ") for reading in readings)
    assert called.startswith("  line 1: build(")


@pytest.mark.nightly
def test_a_build_that_publishes_nothing_is_one_message(run_cell, photos, tmp_path):
    shutil.copytree(photos, tmp_path / "photos")
    (tmp_path / "photos/cat/page.jpg").write_text("<html>")
    failing = f"build(input={str(tmp_path / 'photos')!r}, output={str(tmp_path / 'out')!r}, quiet=True)"
    with pytest.raises(RuntimeError) as raised:
        run_cell(f"from beam_tfrecords import build\n{failing}")
    message, called = str(raised.value).splitlines()
    assert message.startswith("LimitError: nothing was published: 1 of 43 samples failed")
    assert called == f"  line 2: {failing}"


@pytest.mark.nightly
def test_what_a_dataset_says_of_itself(run_cell, photos, tmp_path):
    run_cell(BUILD.format(photos=str(photos), output=str(tmp_path / "out")))
    assert run_cell("dataset.splits")[1] == "{'test': 8, 'train': 34}"
    assert run_cell("dataset.class_names[:2]")[1] == "('building', 'cat')"
    assert run_cell("dataset.verify()")[1] == "[]"
    assert run_cell("import beam_tfrecords; beam_tfrecords.__version__")[1].count(".") == 2
