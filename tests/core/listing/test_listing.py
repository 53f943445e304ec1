"""The listing: chunk files, totals, fingerprint, containers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.util import assert_that, equal_to

from beam_tfrecords.errors import BuildError
from beam_tfrecords.transforms.listing import listing as listing_module
from beam_tfrecords.transforms.listing.decisions import UNDECIDED
from beam_tfrecords.transforms.listing.indexing import (
    IndexPlan,
    index_partition,
    read_index_checkpoints,
    write_partitions,
)
from beam_tfrecords.transforms.listing.listing import (
    Listing,
    ListPlan,
    read_chunk,
    read_chunk_names,
    read_refs,
    write_chunk_names,
    write_listing,
)
from beam_tfrecords.transforms.listing.stage import IndexContainers, ListSource
from beam_tfrecords.transforms.refs.sample_refs import File, SampleRef, one_image
from beam_tfrecords.transforms.sources.partition import Partition
from beam_tfrecords.transforms.workspace.build_folder import BuildFolder

PLAN = ListPlan()


def refs(count: int, **fields) -> list[SampleRef]:
    return [
        SampleRef(f"cat/{number}.jpg", one_image(File(f"/photos/cat/{number}.jpg")), size=10, label="cat", **fields)
        for number in range(count)
    ]


def test_chunks_hold_all_references_and_the_totals_count_them(tmp_path, monkeypatch):
    monkeypatch.setattr(listing_module, "CHUNK_REFS", 10)
    listing = write_listing(refs(25), str(tmp_path), plan=PLAN)
    assert [len(refs) for chunk in listing.chunks for refs in read_chunk(chunk, UNDECIDED)] == [10, 10, 5]
    assert [ref.key for ref in read_refs(listing)] == [ref.key for ref in refs(25)]
    assert listing.samples == {"": 25}
    assert listing.source_bytes == {"": 250}
    assert listing.labels == {"cat": 25}


def test_a_chunk_ends_with_the_reference_that_fills_it(tmp_path, monkeypatch):
    monkeypatch.setattr(listing_module, "CHUNK_BYTES", 1000)
    texts = [SampleRef(str(number), {}, label="x" * (400 if number % 5 else 3000)) for number in range(11)]
    listing = write_listing(texts, str(tmp_path), plan=PLAN)
    assert [len(refs) for chunk in listing.chunks for refs in read_chunk(chunk, UNDECIDED)] == [1, 3, 2, 3, 2]
    assert [ref.key for ref in read_refs(listing)] == [ref.key for ref in texts]
    assert 12_200 < listing.ref_bytes[""] < 12_200 + 11 * 40


def test_what_references_weigh_does_not_depend_on_where_they_are(tmp_path):
    here, there = (
        SampleRef("1.jpg", one_image(File(f"/{place}/1.jpg")), 10, fingerprint)
        for place, fingerprint in (("here", "10-1.0"), ("over there", "10-1763750000123456789"))
    )
    first, second = (write_listing([ref], str(tmp_path), plan=PLAN) for ref in (here, there))
    assert first.ref_bytes == second.ref_bytes


def test_every_label_of_a_sample_is_counted_and_those_of_rejected_samples_are_not(tmp_path):
    several = SampleRef("1", {}, label=["cat", "dog"])
    rejected = SampleRef("2", {}, label="horse", failure=("corrupt", ""))
    listing = write_listing([several, rejected, SampleRef("3", {})], str(tmp_path), plan=PLAN)
    assert (listing.total, listing.labels) == (3, {"cat": 1, "dog": 1, None: 1})


def test_a_split_has_the_labels_of_its_samples_if_any(tmp_path):
    samples = [
        SampleRef("1", {}, label="cat"),
        SampleRef("2", {}, label="dog"),
        SampleRef("3", {}, label=[], split="x"),
    ]
    listing = write_listing(samples, str(tmp_path), plan=PLAN)
    assert (listing.samples, listing.split_labels) == ({"": 2, "x": 1}, {"": {"cat", "dog"}})


def test_labels_that_nobody_asks_for_are_not_kept(tmp_path):
    listing = write_listing(refs(25), str(tmp_path), plan=ListPlan(count_labels=False))
    assert (listing.total, listing.labels) == (25, {})


def test_the_fingerprint_ignores_the_order_and_notices_changes(tmp_path):
    def fingerprint(samples: list[SampleRef]) -> str:
        return write_listing(samples, str(tmp_path), plan=PLAN).fingerprint

    samples = refs(20)
    assert fingerprint(random.Random(1).sample(samples, 20)) == fingerprint(samples)
    assert fingerprint(samples[1:]) != fingerprint(samples)
    changed = SampleRef("cat/0.jpg", one_image(File("/photos/cat/0.jpg")), size=11)
    assert fingerprint([*samples[1:], changed]) != fingerprint(samples)


def test_listings_of_several_containers_add_up_to_the_listing_of_all(tmp_path):
    samples = [*refs(20), SampleRef("row", {}, label=3, split="test")]
    whole = write_listing(samples, str(tmp_path / "whole"), plan=PLAN)
    merged = Listing()
    for number, part in enumerate((samples[:7], [], samples[7:])):
        one = write_listing(part, str(tmp_path / "parts"), plan=PLAN, stem=f"{number}-")
        merged.merge(Listing.unpack(one.pack()))
    assert (merged.samples, merged.source_bytes, merged.labels) == (whole.samples, whole.source_bytes, whole.labels)
    assert merged.fingerprint == whole.fingerprint
    assert sorted(Path(chunk).name for chunk in merged.chunks) == ["0-000000.refs", "2-000000.refs"]
    assert list(read_refs(merged)) == list(read_refs(whole))


def test_a_size_and_a_time_say_the_same_only_of_the_same_uri(tmp_path):
    here, there = (SampleRef("1.jpg", one_image(File(f"/{place}/1.jpg")), 10, "10-1.0") for place in ("here", "there"))
    first, second = (write_listing([ref], str(tmp_path), plan=PLAN) for ref in (here, there))
    assert first.fingerprint != second.fingerprint


def test_list_source_emits_every_chunk_once(tmp_path, monkeypatch):
    monkeypatch.setattr(listing_module, "CHUNK_REFS", 10)
    listing = write_listing(refs(25), BuildFolder(str(tmp_path)).listing, plan=PLAN)
    write_chunk_names(listing, str(tmp_path))
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        assert_that(pipeline | ListSource(str(tmp_path)), equal_to(listing.chunks))


def test_a_worker_without_the_output_names_its_machine_and_the_file(tmp_path):
    with pytest.raises(BuildError, match=rf"the worker on .* cannot read {tmp_path}/chunks \(No such file"):
        list(read_chunk_names(str(tmp_path)))


# Containers


def read_numbers(container: Partition, skipped, staging) -> Iterator[SampleRef]:
    """Lists one sample per line of a text file, and stages its bytes."""
    skipped.add(".txt", container.uri)
    for number in Path(container.uri).read_text().split():
        locator = staging.add([number.encode()], size=len(number), name=f"{container.uri}#{number}")
        yield SampleRef(container.key_prefix + number, one_image(locator), len(number))


def make_containers(folder: Path) -> list[Partition]:
    containers = []
    for number in range(3):
        path = folder / f"{number}.txt"
        path.write_text(" ".join(str(10 * number + one) for one in range(number * 2)))
        containers.append(Partition(str(path), path.stat().st_size, "", f"{number}.txt/"))
    return containers


def test_containers_are_indexed_and_their_staged_samples_can_be_read(tmp_path):
    containers = make_containers(tmp_path)
    plan = IndexPlan(str(tmp_path / "build"), read_numbers, PLAN, 10**9)
    write_partitions(containers, plan.folder)
    with beam.Pipeline(runner=FnApiRunner()) as pipeline:
        _ = pipeline | IndexContainers(plan, processes=0)
    listing, skipped = read_index_checkpoints(containers, plan.folder)
    found = {}
    for ref in read_refs(listing):
        data = Path(ref.locator.uri).read_bytes()
        found[ref.key] = data[ref.locator.offset :][: ref.locator.length].decode()
        assert ref.uri == f"{tmp_path}/{ref.key[:5]}#{found[ref.key]}"
    assert found == {"1.txt/10": "10", "1.txt/11": "11", **{f"2.txt/{20 + n}": str(20 + n) for n in range(4)}}
    assert (listing.total, listing.samples) == (6, {"": 6})
    assert skipped.counts == {".txt": 3}
    assert sorted(skipped.examples[".txt"]) == [container.uri for container in containers]


def test_a_container_with_a_checkpoint_is_not_read_again(tmp_path):
    container = make_containers(tmp_path)[2]
    plan = IndexPlan(str(tmp_path / "build"), read_numbers, PLAN, 10**9)
    checkpoint = index_partition(container, plan=plan)
    Path(container.uri).unlink()
    assert index_partition(container, plan=plan) == checkpoint
    assert read_index_checkpoints([container], plan.folder)[0].total == 4
