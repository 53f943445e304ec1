"""Every step that reads or writes files has the options of the launch with it, wherever it runs."""

from __future__ import annotations

import tarfile

import apache_beam as beam
import pytest
from apache_beam.internal.cloudpickle import cloudpickle
from apache_beam.pipeline import PipelineVisitor

from beam_tfrecords import storage

# Steps that read and write nothing.
PURE = {
    *("CountSamples", "CountBlocks", "CountDuplicates", "CountBytes", "CountHashed"),
    *("TakeParts", "TakeDropped", "TakePhashes", "TakePairs", "TakeFile", "TakeParts/Keys"),
    *("WithoutHashes", "KeyParts", "JoinRows", "WholeParts", "OtherParts", "IfAnythingLeft", "JoinRefs", "FindFiles"),
    *("NumberShards", "FindRepeated", "FindNear", "MergePairs", "CountNear"),
    *("GatherImages", "EachShard", "KeyByRange", "Sizes", "PlaceParts", "IfPublished"),
    *("DuplicateFiles", "ByFile", "Findings", "MergeStats", "Classes", "AddClasses", "CompareClasses", "Miscounted"),
}
# Of Beam.
OF_BEAM = ("Once/", "ChooseShards/", "Reshuffle", "Spread", "Join", "Group", "Combine", "Impulse", "AfterPublishing")

# The graph of Beam is what is looked at.
pytestmark = pytest.mark.local_runner


class _Steps(PipelineVisitor):
    """Label of each step that the project has added -> whether it has options with it."""

    def __init__(self) -> None:
        self.found: dict[str, bool] = {}

    def visit_transform(self, node) -> None:
        if isinstance(node.transform, beam.ParDo):
            self.found[node.full_label] = b"StorageOptions" in cloudpickle.dumps(node.transform.fn)


@pytest.fixture
def steps(monkeypatch) -> dict[str, bool]:
    visitor = _Steps()
    run = beam.Pipeline.run

    def run_visited(pipeline: beam.Pipeline, *arguments, **named):
        pipeline.visit(visitor)
        return run(pipeline, *arguments, **named)

    monkeypatch.setattr(beam.Pipeline, "run", run_visited)
    return visitor.found


def test_every_step_that_touches_files_has_the_options(tmp_path, photos, build, verify, steps):
    with tarfile.open(tmp_path / "photos.tar", "w") as archive:
        for path in sorted(photos.glob("*/*_01.jpg")):
            archive.add(path, path.relative_to(photos))
    flags = ["--image_size=16", "--duplicates=drop", "--near_duplicates=4", "--shard_size=10kB"]
    out = build(tmp_path / "out", f"--input={tmp_path / 'photos.tar'}", "--direct_running_mode=in_memory", *flags)
    assert verify(out, "--direct_running_mode=in_memory").code == 0
    bare = {label for label, has_options in steps.items() if not has_options}
    ours = {label for label in bare if not any(word in label for word in OF_BEAM)}
    unknown = {label for label in ours if not PURE & set(label.split("/"))}
    assert not unknown, (
        f"wrap them in `storage.with_storage_options` if they touch files, or add to PURE: {sorted(unknown)}"
    )
    assert len(steps) - len(bare) >= 10


def _keep(sample):
    return sample


@pytest.mark.nightly
def test_a_launch_leaves_no_options_behind(tmp_path, photos):
    from beam_tfrecords import build

    options = storage.current_options()
    build(
        input=photos / "cat",
        output=tmp_path / "out",
        class_names="cat",
        image_size=16,
        layout="image",
        map=_keep,  # A function may read from buckets and the web.
        requester_pays="project",
        allow_private_addresses=True,
        quiet=True,
    )
    assert storage.current_options() == options
