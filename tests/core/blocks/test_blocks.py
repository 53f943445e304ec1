"""Converting one block: its order, its rejected samples, and every way in which an attempt can end."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.errors import BuildError, FailureReason, SampleError, Stage
from beam_tfrecords.features.layouts import parse_layout
from beam_tfrecords.tfrecord import read_records
from beam_tfrecords.transforms.blocks.block_plan import BlockPlan
from beam_tfrecords.transforms.blocks.convert_block import convert_block
from beam_tfrecords.transforms.blocks.convert_sample import ConvertedBatch, ConvertSample, PreparedSample
from beam_tfrecords.transforms.blocks.guard import convert_sample, guarded
from beam_tfrecords.transforms.blocks.results import BlockResult, read_checkpoint
from beam_tfrecords.transforms.blocks.rows import read_block
from beam_tfrecords.transforms.hashing import order_hashes
from beam_tfrecords.transforms.images import PROBED_STEPS, decode
from beam_tfrecords.transforms.images.image_spec import ImageEncoding, ImageSpec
from beam_tfrecords.transforms.labels import ClassNames
from beam_tfrecords.transforms.libraries import library_versions
from beam_tfrecords.transforms.listing.decisions import UNDECIDED
from beam_tfrecords.transforms.parts import PartPolicy, read_index
from beam_tfrecords.transforms.processes.worker import Worker, WorkerDiedError
from beam_tfrecords.transforms.refs import fetching
from beam_tfrecords.transforms.refs.fetching import fetch
from beam_tfrecords.transforms.refs.ref_columns import RefColumns
from beam_tfrecords.transforms.refs.sample_refs import IMAGE, File, SampleRef, one_image
from beam_tfrecords.transforms.workspace.counts import BlockCounts, read_block_counts
from tests.core.converting import pack_refs
from tests.core.hostile import Converter, Hostile, echo
from tests.image_writers import png_file

ROOT = Path(__file__).parents[3]
PNG = ConvertSample(ImageSpec(), parse_layout({"image": "image.encoded"}), ClassNames(()))
KEYS = [f"{number}.jpg" for number in range(12)]


def read_refs_of(joined: list[bytes], *, seed: int) -> list[SampleRef]:
    return [ref for together in read_block(joined, seed=seed, decide=UNDECIDED.apply) for ref in together]


def ordered(keys: Iterable[str], *, seed: int) -> list[str]:
    places = {key: order_hashes(seed=seed, keys=[key])[0] for key in keys}
    return sorted(keys, key=places.__getitem__)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), unique=True), st.randoms())
def test_the_order_of_a_block_does_not_depend_on_how_its_references_arrive(keys, random):
    # Those of two tables, say, have other columns, and are another run of the block where they change.
    refs = [SampleRef(key, {}, columns=dict.fromkeys("ab"[: len(key) % 3], key)) for key in keys]
    shuffled = random.sample(refs, len(refs))
    half = len(refs) // 2
    joined = [pack_refs(shuffled[half:]), pack_refs(shuffled[:half])]
    found = read_refs_of(joined, seed=3)
    assert [ref.key for ref in found] == ordered([ref.key for ref in refs], seed=3)
    assert found == read_refs_of([pack_refs(refs)], seed=3)


@given(st.randoms())
def test_references_with_one_key_are_neighbours_in_an_order_of_their_own(random):
    refs = [SampleRef(key, {}, size=size) for key in "abc" for size in range(4)]
    packed = [pack_refs([ref]) for ref in random.sample(refs, len(refs))]
    found = read_refs_of(packed, seed=0)
    assert [ref.key for ref in found] == [key for key in ordered("abc", seed=0) for _ in range(4)]
    assert found == read_refs_of([pack_refs(refs)], seed=0)


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of twelve files whose content is their key, and the folder of its build."""

    folder: Path
    plan: BlockPlan
    refs: list[SampleRef]

    def files(self) -> dict[Path, bytes]:
        """What the build's folder holds, without what workers say about their progress."""
        files = [path for path in Path(self.plan.folder).rglob("*") if path.is_file()]
        return {path: path.read_bytes() for path in files if path.parent.name not in ("workers", "stages")}

    def convert(self, convert: Callable = echo, refs: list[SampleRef] | None = None) -> BlockResult:
        joined = [pack_refs([ref]) for ref in refs or self.refs]
        converter = Converter(convert) if callable(convert) else convert
        return convert_block((("train", 3), joined), plan=dataclasses.replace(self.plan, convert=converter))

    def records(self, result: BlockResult) -> list[bytes]:
        found = []
        for part in result.parts:
            with open(part.uri, "rb") as file:
                found += [record.data for record in read_records(file)]
        return found

    def failures(self, result: BlockResult) -> list[dict]:
        files = [file for kind, (file, _) in result.lists.items() if kind == "failures"]
        return [json.loads(line) for file in files for line in Path(file).read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def block(tmp_path) -> Block:
    refs = []
    for key in KEYS:
        (tmp_path / key).write_text(key)
        refs.append(SampleRef(key, one_image(File(str(tmp_path / key))), len(key), "print", split="train"))
    plan = BlockPlan(
        convert=Converter(),
        folder=str(tmp_path / "build"),
        seed=5,
        policies={"train": PartPolicy(bytes=100)},
        compression="none",
        max_file_size=10**6,
        image_timeout=1,
        libraries=library_versions(),
        launcher="LAUNCHER",
    )
    return Block(tmp_path, plan, refs)


def in_order(keys: list[str]) -> list[bytes]:
    return [key.encode() for key in ordered(keys, seed=5)]


def reject_odd(ref: SampleRef, images: Mapping[str, bytes]) -> PreparedSample:
    if int(ref.key.split(".")[0]) % 2:
        raise SampleError(Stage.DECODE, FailureReason.CORRUPT, "odd: ü")
    return echo(ref, images)


def convert_in_batches(
    plan: BlockPlan, refs: list[SampleRef], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[Path, bytes], BlockResult]:
    """The files and the result of a block of several parts, which are the same in batches of one and of many."""
    results = []
    for name, samples in (("one", 1), ("many", 64)):
        monkeypatch.setattr(fetching, "_ROWS", samples)
        monkeypatch.setattr(fetching, "_IMAGES", samples)
        block = Block(folder, dataclasses.replace(plan, folder=str(folder / name)), refs)
        result = block.convert(plan.convert)
        files = {path.relative_to(folder / name): data for path, data in block.files().items()}
        files = {path: data for path, data in files.items() if "block" not in str(path)}
        results.append((files, result.stats, len(result.parts), block.failures(result)))
    assert results[0] == results[1]
    assert len(result.parts) > 3
    return files, result


@pytest.mark.parametrize(
    "layout", [{"x": "column.x", "y": "column.y"}, {"x": "column.x", "name": "label.name", "key": "key"}]
)
def test_a_batch_of_rows_becomes_what_batches_of_one_become(tmp_path, monkeypatch, layout):
    names = ClassNames(("cat", "dog"))
    types = {"column.x": "int64", "column.y": "bytes"}
    features = {
        name: {"field": field, "type": types[field]} if field in types else field for name, field in layout.items()
    }
    convert = ConvertSample(ImageSpec(), parse_layout(features), names)
    refs = [
        SampleRef(
            f"{number % 590}",  # The last ten have the keys of others.
            label="bird" if number % 50 == 7 else "dog" if number % 3 else None if number % 50 == 9 else "cat",
            columns={"x": None if number % 100 == 3 else number * 10**15, "y": "ü" * (number % 7)},
            failure=("invalid_row", "bad") if number % 200 == 5 else None,
        )
        for number in range(600)
    ]
    plan = BlockPlan(convert, 5, {"train": PartPolicy(bytes=3000)}, "none", 10**6, 1)
    files, result = convert_in_batches(plan, refs, tmp_path, monkeypatch)
    assert result.stats.total("written") < 590
    assert sum(path.suffix == ".parquet" for path in files) == 1


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_batch_of_small_images_becomes_what_batches_of_one_become(tmp_path, monkeypatch, compression):
    layout = {"image": "image.encoded", "x": {"field": "column.x", "type": "int64"}, "label": "label.index"}
    # Every fifth is large, so that it is alone.
    convert = ConvertSample(ImageSpec(image_encoding=ImageEncoding.PNG), parse_layout(layout), ClassNames(("a", "b")))
    refs = []
    for number in range(200):
        side = 90 if number % 5 == 0 else 1 + number % 40
        data = png_file(np.random.default_rng(number).integers(0, 256, (side, 20, 3), dtype=np.uint8))
        path = tmp_path / f"{number}.png"
        path.write_bytes(data[:-30] if number % 50 == 3 else data * 4 if number % 50 == 5 else data)
        columns = {"x": None if number % 20 == 4 else number}
        images = one_image(File(str(path)))
        refs.append(
            SampleRef(path.name, images, 0, "", "c" if number % 20 == 11 else "ab"[number % 2], columns=columns)
        )
    plan = BlockPlan(convert, 5, {"train": PartPolicy(bytes=30_000)}, compression, 10**6, 60, hashes_files=True)
    _, result = convert_in_batches(plan, refs, tmp_path, monkeypatch)
    assert result.stats.failure_reasons().keys() == {"truncated", "unknown_class", "value_missing"}


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        ("", [[9, 9, 10**7], [10**7], [9, 10**6, 10**5], [9, 9]]),
        ("gs://photos/", [[9, 9, 10**7], [10**7], [9, 10**6], [10**5], [9, 9]]),
    ],
    ids=["disk", "store"],
)
def test_a_batch_ends_with_the_image_that_fills_it(monkeypatch, scheme, expected):
    sizes = [9, 9, 10**7, 10**7, 9, 10**6, 10**5, 9, 9]
    read: list[int] = []

    def read_image(locator: File, **_: object) -> bytes:
        read.append(int(locator.uri.rpartition("/")[2]))
        return bytes(read[-1])

    monkeypatch.setattr(fetching, "read_image", read_image)
    refs = [SampleRef(f"{number}", one_image(File(f"{scheme}{size}")), size) for number, size in enumerate(sizes)]
    batches = []
    for found, images in fetch(RefColumns.of(refs), needs_images=lambda refs: [True] * len(refs), max_file_size=10**9):
        assert len(found) == len(images)
        batches.append([len(one[IMAGE]) for one in images])
        # Nothing behind it is read from a disk before it is taken.
        assert scheme or len(read) == sum(map(len, batches))
        images.clear()
    assert batches == expected


def test_a_block_is_written_in_order_to_parts_with_their_index(block):
    result = block.convert(refs=block.refs[::-1])
    assert block.records(result) == in_order(KEYS)
    assert [(part.split, part.block, part.number, part.records) for part in result.parts] == [
        ("train", 3, 0, 5),
        ("train", 3, 1, 5),
        ("train", 3, 2, 2),
    ]
    assert len({part.index for part in result.parts}) == 1
    rows = [row for part in result.parts for row in read_index(part).to_pylist()]
    assert [(row["key"].encode(), row["uri"], row["fingerprint"]) for row in rows] == [
        (key, str(block.folder / key.decode()), "print") for key in in_order(KEYS)
    ]
    assert (block.failures(result), result.stats.total("written", "train")) == ([], 12)
    assert result.stats.total("source_bytes") == sum(map(len, KEYS))


def test_rejected_samples_are_counted_and_listed_and_the_others_are_written(block):
    result = block.convert(reject_odd)
    good = [key for key in KEYS if int(key.split(".")[0]) % 2 == 0]
    assert block.records(result) == in_order(good)
    assert {failure["key"] for failure in block.failures(result)} == set(KEYS) - set(good)
    assert block.failures(result)[0] == {
        "key": block.failures(result)[0]["key"],
        "uri": str(block.folder / block.failures(result)[0]["key"]),
        "stage": "decode",
        "reason": "corrupt",
        "detail": "odd: ü",
    }
    assert (result.stats.total("written"), result.stats.total("failed", "train", "corrupt")) == (6, 6)


def test_an_unexpected_exception_rejects_its_sample_with_its_traceback(block):
    result = block.convert(Hostile(Converter(), bug="7.jpg"))
    (failure,) = block.failures(result)
    assert (failure["key"], failure["stage"], failure["reason"]) == ("7.jpg", "convert", "internal_error")
    assert failure["detail"] == "a bug"
    assert failure["traceback"].startswith("Traceback (most recent call last)")
    assert 'raise ZeroDivisionError("a bug")' in failure["traceback"]
    assert block.records(result) == in_order([key for key in KEYS if key != "7.jpg"])
    assert result.stats.total("failed", "train", "internal_error") == 1


def test_of_samples_with_one_key_all_but_the_first_are_rejected(block):
    twice = dataclasses.replace(block.refs[4], size=9999)
    result = block.convert(refs=[*block.refs, twice])
    assert block.records(result) == in_order(KEYS)
    (failure,) = block.failures(result)
    assert (failure["key"], failure["stage"], failure["reason"]) == (KEYS[4], "list", "duplicate_key")


def test_a_machine_with_another_version_of_a_library_converts_nothing(block):
    versions = {**library_versions(), "Pillow": "1.0", "python": "2.7"}
    other = dataclasses.replace(block, plan=dataclasses.replace(block.plan, libraries=versions))
    with pytest.raises(BuildError, match=r"Pillow is \d+\S* on .*, and 1\.0 on LAUNCHER, where the build was"):
        other.convert()
    same = dataclasses.replace(block.plan, libraries={**library_versions(), "python": "2.7", "beam-tfrecords": "9.9"})
    assert dataclasses.replace(block, plan=same).convert().parts


@pytest.mark.parametrize("revision", ["image-revision", "example-revision"])
def test_a_machine_with_another_revision_of_our_code_converts_nothing(block, revision):
    versions = {**library_versions(), revision: "999"}
    other = dataclasses.replace(block, plan=dataclasses.replace(block.plan, libraries=versions))
    with pytest.raises(BuildError, match=rf"{revision} is \d+ on .*, and 999 on LAUNCHER, where the build was"):
        other.convert()


@pytest.mark.parametrize("step", PROBED_STEPS)
def test_a_machine_that_makes_other_bytes_converts_nothing(block, step):
    versions = {**library_versions(), f"{step}-probe": "00000000"}
    other = dataclasses.replace(block, plan=dataclasses.replace(block.plan, libraries=versions))
    with pytest.raises(BuildError, match=rf"{step}: \S+ \(.*\) makes other bytes of the same image than LAUNCHER"):
        other.convert()


def test_a_finished_block_is_taken_from_its_checkpoint(block):
    first = block.convert(reject_odd)
    for key in KEYS:
        (block.folder / key).unlink()
    assert block.convert(Hostile(Converter(), crash=KEYS[0])) == first


@pytest.mark.parametrize("pattern", ["blocks/*.json", "parts/*0001.tfrecord", "parts/*.parquet", "failures/*"])
@pytest.mark.parametrize("damage", ["emptied", "cut", "grown", "gone", "zeros"])
def test_a_block_with_a_file_that_a_power_cut_damaged_is_done_again(block, pattern, damage):
    first = block.convert(reject_odd)
    written = block.files()
    path = next(Path(block.plan.folder).glob(pattern))
    if damage == "gone":
        path.unlink()
    elif damage == "zeros":  # of the same size: the file system knew it before the content was on the disk
        path.write_bytes(bytes(path.stat().st_size))
    else:
        os.truncate(path, {"emptied": 0, "cut": 7, "grown": path.stat().st_size + 1}[damage])
    assert read_checkpoint(str(Path(block.plan.folder) / "blocks/train-000003.json")) is None
    assert block.convert(reject_odd) == first
    assert block.files() == written


def test_what_may_not_be_the_fault_of_a_sample_is_tried_again_by_every_launch_and_once_in_each(block):
    def launched(name: str) -> Block:
        return dataclasses.replace(block, plan=dataclasses.replace(block.plan, run_id=name))

    (block.folder / "7.jpg").rename(block.folder / "away")
    first = launched("first").convert()
    assert [(failure["key"], failure["reason"]) for failure in block.failures(first)] == [("7.jpg", "unreadable")]
    (block.folder / "away").rename(block.folder / "7.jpg")
    # The runner may ask for a block again.
    assert launched("first").convert() == first
    second = launched("second").convert()
    assert (block.failures(second), block.records(second)) == ([], in_order(KEYS))
    for key in KEYS:
        (block.folder / key).unlink()
    assert launched("third").convert() == second
    assert read_block_counts(block.plan.folder) == BlockCounts(blocks=1, written=len(KEYS))


def test_what_is_the_fault_of_a_sample_is_not_tried_again(block):
    first = block.convert(reject_odd)
    other = dataclasses.replace(block, plan=dataclasses.replace(block.plan, run_id="other"))
    assert other.convert() == first


def test_a_fault_of_the_machine_while_converting_ends_the_build(block):
    def convert(ref: SampleRef, images: Mapping[str, bytes]) -> PreparedSample:
        raise OSError(errno.EMFILE, "Too many open files")

    with pytest.raises(BuildError, match=r"\.jpg cannot be read: Too many open files"):
        block.convert(convert)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM, errno.EIO])
def test_a_fault_of_the_machine_within_a_decoder_ends_the_build(monkeypatch, code):
    def fail(_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setitem(decode._OPENERS, "png", fail)
    with pytest.raises(
        BuildError, match=rf"^1\.png cannot be read: {os.strerror(code)}; once this is fixed, the same command resumes"
    ):
        convert_sample(PNG.prepare, SampleRef("1.png", {}), {IMAGE: b"\x89PNG\r\n\x1a\n" + bytes(100)})


def test_a_decoder_that_runs_out_of_memory_rejects_its_sample_only_if_there_is_what_it_may_take():
    worker = Worker()
    with pytest.raises(SampleError, match="too_much_memory"):
        worker.call(run_out_of_memory, 1 << 30)
    with pytest.raises(
        BuildError, match=r"cannot have the 1,000 MiB of memory that an image may take: .* allows \d,\d+ MiB in all"
    ):
        worker.call(run_out_of_memory, 1000 << 20, 900 << 20)
    worker.close()


def run_out_of_memory(memory: int, left: int = 0) -> PreparedSample | SampleError:
    """Converts a sample with a decoder that runs out of memory, in a process that may take `left` bytes more."""

    def fail(ref: SampleRef, images: Mapping[str, bytes]) -> PreparedSample:
        raise MemoryError

    if left:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + left,) * 2)
    return convert_sample(fail, SampleRef("1.png", {}), b"", memory=memory)


def test_a_block_with_a_part_in_which_a_bit_flipped_is_done_again(block):
    first = block.convert()
    part = Path(first.parts[1].uri)
    whole = part.read_bytes()
    part.write_bytes(whole[:20] + bytes([whole[20] ^ 1]) + whole[21:])
    assert block.convert() == first
    assert part.read_bytes() == whole


@pytest.mark.parametrize("text", ["[]", "{}", "null", '{"parts": 1}', "\0" * 900, "\xff"])
def test_a_checkpoint_that_makes_no_sense_is_none(tmp_path, text):
    (tmp_path / "checkpoint.json").write_text(text, encoding="latin-1")
    assert read_checkpoint(str(tmp_path / "checkpoint.json")) is None


def test_a_block_without_records_has_no_part(block):
    def reject(ref: SampleRef, images: Mapping[str, bytes]) -> PreparedSample:
        raise SampleError(Stage.LABEL, FailureReason.LABEL_MISSING, "no label")

    result = block.convert(reject)
    assert (result.parts, result.stats.total("failed")) == ((), 12)
    assert block.convert(reject) == result


@pytest.mark.parametrize(
    ("hostile", "reason"), [({"crash": "7.jpg"}, "decoder_crash"), ({"hang": "7.jpg"}, "decode_timeout")]
)
def test_a_second_attempt_names_the_sample_that_ended_the_first_and_keeps_other_reasons(block, hostile, reason):
    (block.folder / "8.jpg").write_bytes(b"")
    block.refs[:] = [dataclasses.replace(ref, size=0) for ref in block.refs]
    convert = Hostile(Converter(reject_odd_but_seven), **hostile)
    worker = Worker()
    with pytest.raises(WorkerDiedError, match=r"SIGSEGV|SIGALRM"):
        worker.call(block.convert, convert)
    worker.close()
    assert not list(Path(block.plan.folder).glob("blocks/*.json"))
    result = block.convert(convert)
    reasons = {failure["key"]: failure["reason"] for failure in block.failures(result)}
    odd = {key: "corrupt" for key in KEYS if int(key.split(".")[0]) % 2}
    assert reasons == {**odd, "7.jpg": reason, "8.jpg": "empty"}
    assert block.records(result) == in_order([key for key in KEYS if key not in reasons])


def test_where_a_worker_has_died_later_blocks_are_converted_in_child_processes(block, monkeypatch):
    def die(ref: SampleRef, images: Mapping[str, bytes]) -> PreparedSample:
        raise KeyboardInterrupt

    def convert_by(number: int, convert: Callable) -> BlockResult:
        joined = [pack_refs(block.refs)]
        plan = dataclasses.replace(block.plan, convert=convert)
        return convert_block((("train", number), joined), plan=plan, isolates_later=True)

    firsts = []

    def watch(convert: Callable, **words):
        firsts.append(words["is_first"])
        return guarded(convert, **words)

    monkeypatch.setattr("beam_tfrecords.transforms.blocks.convert_block.guarded", watch)
    convert_by(0, Converter(echo))
    with pytest.raises(KeyboardInterrupt):
        convert_by(1, Converter(die))
    convert_by(1, Converter(echo))
    convert_by(2, Converter(echo))
    assert firsts == [True, True, False, False]


def reject_odd_but_seven(ref: SampleRef, images: Mapping[str, bytes]) -> PreparedSample:
    return echo(ref, images) if ref.key == "7.jpg" else reject_odd(ref, images)


@pytest.mark.parametrize("column", [0, 100_000])
def test_photos_are_written_together_up_to_a_mebibyte(block, monkeypatch, column):
    counts: list[int] = []
    finish = Converter.finish

    def watch(self: Converter, refs: RefColumns, *others) -> ConvertedBatch:
        counts.append(len(refs))
        return finish(self, refs, *others)

    def store(ref: SampleRef, images: Mapping[str, bytes]) -> PreparedSample:
        return echo(ref, images)._replace(size=len(images[IMAGE]))

    monkeypatch.setattr(Converter, "finish", watch)
    photos = []
    for ref in block.refs:
        (block.folder / ref.key).write_bytes(ref.key.encode().ljust(200_000))
        photos.append(dataclasses.replace(ref, size=200_000, columns={"text": "x" * column}))
    result = block.convert(store, refs=photos)
    assert counts == ([4, 4, 4] if column else [6, 6])
    assert block.records(result) == [key.ljust(200_000) for key in in_order(KEYS)]


def test_an_attempt_in_a_child_process_writes_the_same_bytes(block):
    first = block.convert(reject_odd)
    written = block.files()
    (checkpoint,) = Path(block.plan.folder).glob("blocks/*.json")
    checkpoint.unlink()  # what is left is a block that was started
    assert block.convert(reject_odd) == first
    assert block.files() == written


def test_a_result_survives_its_checkpoint(block):
    result = block.convert(reject_odd)
    assert BlockResult.from_json(json.loads(json.dumps(result.to_json()))) == result
    # As of a store: the rows are in the checkpoint, and there is no file of them.
    part = result.parts[0]
    kept = dataclasses.replace(part, rows=Path(part.index).read_bytes())
    result = dataclasses.replace(result, parts=(kept,))
    Path(part.index).unlink()
    again = BlockResult.from_json(json.loads(json.dumps(result.to_json())))
    assert (again, part.index in again.files) == (result, False)
    assert read_index(again.parts[0]).num_rows == part.records


def test_converting_samples_imports_no_tensorflow():
    program = "import sys, beam_tfrecords.transforms.blocks.convert_block; sys.exit('tensorflow' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True)


def test_rows_are_not_given_to_a_decoder(block):
    def crash(ref: SampleRef, images: Mapping[str, bytes]) -> PreparedSample:
        raise AssertionError

    result = block.convert(crash, refs=[SampleRef("row", split="train")])
    assert (block.records(result), result.stats.total("failed")) == ([b""], 0)
