"""Images of the same names in several folders are one sample, whatever ends the names have."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from beam_tfrecords.transforms.refs.sample_refs import SampleRef
from tests.core.opened_sources import open_source


def list_pairs(folder: Path, files: Mapping[str, Sequence[str]], **settings: object) -> list[SampleRef]:
    """Writes name of a folder -> names of its files, and lists the samples."""
    for name, names in files.items():
        (folder / name).mkdir(parents=True)
        for one in names:
            (folder / name / one).parent.mkdir(exist_ok=True)
            (folder / name / one).write_bytes(one.encode())
    images = tuple(f"{name}={folder / name}" for name in files)
    return list(open_source(*(folder / name for name in files), images=images, **settings).samples())


def pairs_of(refs: Sequence[SampleRef]) -> list[list[str]]:
    return [[Path(image.name).name for image in ref.images.values()] for ref in refs]


def test_names_decide_and_never_the_order(tmp_path):
    """Any common names, in any order of files, with any ends of the folders."""
    chance = random.Random(3)
    for number in range(30):
        stems = sorted({f"{chance.choice('abc')}{chance.randrange(1000)}" for _ in range(chance.randint(2, 9))})
        ends = {name: chance.choice(("", "_x", "-2", f"_{name}")) for name in ("left", "right", "depth")}
        files = {name: [f"{stem}{end}.png" for stem in stems] for name, end in ends.items()}
        refs = list_pairs(tmp_path / str(number), files)
        assert pairs_of(refs) == [[f"{stem}{end}.png" for end in ends.values()] for stem in stems]


def test_an_image_without_a_partner_or_with_two_is_a_failure(tmp_path):
    refs = list_pairs(tmp_path, {"left": ["1.png", "2.png", "3.png"], "right": ["1.png", "2.png", "2.jpg", "4.png"]})
    assert [ref.key for ref in refs] == ["1.png", "2.png", "3.png", "4.png"]
    assert [ref.failure and ref.failure[1].split(":")[0] for ref in refs] == [None, "right", "right", "left"]
    assert "2.jpg" in refs[1].failure[1]
