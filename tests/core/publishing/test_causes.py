"""What stops a build: the message names that, and nothing else."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.transforms.publishing.publication import Publication
from beam_tfrecords.transforms.request.build_spec import Duplicates
from beam_tfrecords.transforms.stats import Stats

COUNTS = st.integers(0, 5)
SPECS = st.sampled_from([{"where": "height > 9"}, {"map": "a:b"}, {"where": "height > 9", "map": "a:b"}])


def causes(*, written: int, failed: int, filtered: int, groups: int, spec: Any, **given: Any) -> list[str]:
    publication = object.__new__(Publication)
    publication.__dict__.update(listed={"train": written + failed + filtered}, metadata={"spec": spec}, **given)
    counts = {("written", "train"): written, ("failed", "train", "corrupt"): failed, ("filtered", "train"): filtered}
    return list(publication.find_causes(Stats(Counter({**counts, ("duplicates", "groups"): groups}))))


@given(COUNTS, COUNTS, COUNTS, COUNTS, st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from(Duplicates), SPECS)
def test_a_cause_is_named_if_and_only_if_it_stops_the_build(written, failed, filtered, groups, share, duplicates, spec):
    listed = written + failed + filtered
    named = "; ".join(
        causes(
            written=written,
            failed=failed,
            filtered=filtered,
            groups=groups,
            spec=spec,
            max_failures=share,
            duplicates=duplicates,
        )
    )
    too_many, none = failed > share * listed, not written
    has_duplicates = duplicates is Duplicates.FAIL and groups > 0
    assert bool(named) == (too_many or none or has_duplicates)
    assert ("identical" in named) == has_duplicates
    assert ("max_failures" in named) == too_many
    assert ("filtered" in named) == (none and filtered > 0)
    assert all((f"`{name}`" in named) == (none and filtered > 0) for name in spec)
    assert ("samples failed" in named) == (too_many or (none and (failed > 0 or not filtered)))
