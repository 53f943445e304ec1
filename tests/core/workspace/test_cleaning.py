"""RemoveTemporary: what it removes, and when."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pytest

from beam_tfrecords import Sample, WriteDataset
from beam_tfrecords.beam_pipelines.build.output import lock
from beam_tfrecords.storage.fence import Fence
from beam_tfrecords.transforms.workspace.build_folder import Workspace
from beam_tfrecords.transforms.workspace.cleaning import delete_batch, delete_temporary, list_batches
from beam_tfrecords.transforms.workspace.output_folder import register_version
from beam_tfrecords.transforms.workspace.stage import RemoveTemporary


@pytest.fixture
def build(tmp_path) -> Path:
    """An output folder with a finished dataset and its temporary files."""
    temporary = tmp_path / ".build" / "0123456789abcdef" / "parts"
    temporary.mkdir(parents=True)
    (temporary / "train-000000-0000.tfrecord").write_bytes(b"records")
    (tmp_path / "_SUCCESS").write_bytes(b"")
    (tmp_path / ".build" / "fence").write_text("mine")
    return tmp_path


def fence(build: Path, token: str = "mine") -> Fence:
    return Fence(Workspace(str(build)).fence, token)


def remove(build: Path, token: str = "mine") -> None:
    with beam.Pipeline() as root:
        root | beam.Create([None]) | RemoveTemporary(fence(build, token))


def names(build: Path) -> list[str]:
    return sorted(path.name for path in build.iterdir())


def test_nothing_is_left_of_a_published_build(build):
    remove(build)
    assert names(build) == ["_SUCCESS"]


def test_a_build_that_was_overtaken_leaves_the_files_of_the_other_one(build):
    remove(build, token="of a build that was suspended")
    assert (build / ".build/0123456789abcdef/parts/train-000000-0000.tfrecord").exists()
    assert (build / ".build/fence").read_text() == "mine"


def test_removing_twice_does_no_harm(build):
    (batch,) = list_batches(None, fence=fence(build))
    delete_batch(batch)
    delete_batch(batch)
    assert names(build) == ["_SUCCESS"]


def test_what_others_have_put_beside_temporary_files_stays(build):
    theirs = build / ".build" / "notes"
    theirs.mkdir()
    (theirs / "photo.png").write_bytes(b"theirs")
    (build / ".build" / "README.md").write_bytes(b"theirs")
    (build / ".build" / "claimed").write_bytes(b"[]")
    for remove_all in (remove, lambda build: delete_temporary(str(build))):
        remove_all(build)
        assert sorted(path.name for path in (build / ".build").rglob("*")) == ["README.md", "notes", "photo.png"]


def test_links_in_the_folder_of_a_build_are_not_followed(build, tmp_path_factory):
    theirs = tmp_path_factory.mktemp("theirs")
    (theirs / "photo.png").write_bytes(b"theirs")
    (build / ".build" / "0123456789abcdef" / "parts" / "link").symlink_to(theirs)
    (build / ".build" / "fedcba9876543210").symlink_to(theirs)
    remove(build)
    assert names(build) == ["_SUCCESS"]
    assert (theirs / "photo.png").exists()


def test_a_version_that_is_not_finished_stays_registered(build):
    for name in ("20260101T000000Z", "20260102T000000Z", "20260103T000000Z"):
        register_version(str(build), name)
        if name != "20260103T000000Z":
            (build / name).mkdir()
    (build / "20260101T000000Z" / "_SUCCESS").touch()
    delete_temporary(str(build))
    assert Workspace(str(build)).list_versions() == ["20260102T000000Z"]


def test_the_pipeline_finishes_what_an_earlier_one_left(tmp_path, photos):
    out, settings = tmp_path / "out", {"image_size": 16, "versioned": True}
    files = sorted(photos.glob("*/*.jpg"))
    samples = [Sample(path.name, image=str(path), label=path.parent.name) for path in files]
    for elements in (samples, samples[:-1]):
        with beam.Pipeline() as root:
            _ = root | beam.Create(elements) | WriteDataset(out, **settings)
    _, latest = sorted(path.name for path in out.glob("2*"))
    # Killed after `_SUCCESS`; and a version that a dead build has left, beside that of a build that has just begun.
    (out / "LATEST").unlink()
    (out / latest / "report.html").unlink()
    dead, going = "20200101T000000Z", "20200102T000000Z"
    for name in (dead, going):
        register_version(str(out), name)
        (out / name).mkdir()
    folder = out / ".build/fedcba9876543210"
    folder.mkdir()
    (folder / "version").write_text(going)
    with pytest.MonkeyPatch.context() as context, beam.Pipeline() as root:
        # The start of a build would remove the folder of another one.
        context.setattr(lock, "delete_temporary", lambda *_, **__: None)
        _ = root | beam.Create(samples[:-1]) | WriteDataset(out, **settings)
    assert (out / "LATEST").read_text().strip() == latest
    assert (out / latest / "report.html").exists()
    assert not (out / dead).exists()
    assert (out / going).exists()
    assert sorted(path.name for path in (out / ".build").iterdir()) == [f"version-{going}"]
