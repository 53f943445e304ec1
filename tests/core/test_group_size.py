"""What has one key in a shuffle stays small, whatever is built: Flink fails a job with a larger one."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.beam_pipelines.build.resolve import plan_blocks
from beam_tfrecords.beam_pipelines.settings.definitions import read_build_spec
from beam_tfrecords.transforms.labels import ClassNames
from beam_tfrecords.transforms.listing.listing import Listing
from beam_tfrecords.transforms.parts import GROUP_BYTES, RANGE_BLOCKS
from beam_tfrecords.transforms.sources.source import Source

COUNTS = st.dictionaries(st.sampled_from(["train", "validation", "test"]), st.integers(1, 10**8), min_size=1)


@given(samples=COUNTS, source_bytes=st.integers(0, 10**6), ref_bytes=st.integers(0, 10**5), size=st.integers(1, 2000))
def test_references_of_a_block_and_indices_of_a_range_fit_in_a_group(samples, source_bytes, ref_bytes, size):
    listing = Listing(
        samples=Counter(samples),
        source_bytes=Counter({split: count * source_bytes for split, count in samples.items()}),
        ref_bytes=Counter({split: count * ref_bytes for split, count in samples.items()}),
    )
    spec = read_build_spec({"input": "in", "output": "out", "image_size": str(size)})
    plan = plan_blocks(spec, Source(), listing, ClassNames(("cat",)))
    for split, blocks in plan.blocks.items():
        assert listing.ref_bytes[split] / blocks <= GROUP_BYTES
        assert min(blocks, RANGE_BLOCKS) * plan.most_index_bytes <= GROUP_BYTES
