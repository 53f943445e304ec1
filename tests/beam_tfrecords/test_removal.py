"""Which versions `--keep_versions` removes: the rule over its whole domain."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beam_tfrecords.dataset.versions import State, Version, choose_removals

NOW = 1_000_000.0


def version(
    number: int, published: float | None = 0.0, *, state: State = State.FINISHED, is_link: bool = False
) -> Version:
    return Version(f"202601{number // 24 + 1:02d}T{number % 24:02d}0000Z", state, published, is_link)


@st.composite
def folders(draw) -> tuple[list[Version], str | None, str | None]:
    """Folders in any order, of every state and age, some links, and what LATEST and PINNED name."""
    count = draw(st.integers(0, 40))
    times = st.one_of(st.none(), st.floats(0, NOW), st.floats(NOW - 100, NOW + 100))
    states = st.sampled_from([*State, State.FINISHED, State.FINISHED])
    versions = [
        version(number, draw(times), state=draw(states), is_link=draw(st.booleans())) for number in range(count)
    ]
    names = st.one_of(st.none(), st.sampled_from([*(one.name for one in versions), "20990101T000000Z"]))
    return draw(st.permutations(versions)), draw(names), draw(names)


@given(folders(), st.integers(0, 40), st.sampled_from([0.0, 50.0, 3600.0]))
def test_what_is_removed_obeys_the_postconditions(folder, keep, grace):
    versions, latest, pinned = folder
    removed = choose_removals(versions, latest=latest, pinned=pinned, keep=keep, grace=grace, now=NOW)
    finished = sorted(one.name for one in versions if one.state is State.FINISHED)
    assert len(set(removed)) == len(removed)
    assert set(removed) <= set(finished)
    assert len(finished) - len(removed) >= min(keep, len(finished))
    assert not set(removed) & set(finished[max(0, len(finished) - keep) :])
    assert not set(removed) & {latest, pinned, *(one.name for one in versions if one.is_link)}
    times = {one.name: one.published for one in versions}
    for name in removed:
        newer = times[finished[finished.index(name) + 1]]
        assert newer is not None
        assert NOW - newer >= grace


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_all_but_the_newest_go_if_nothing_holds_them(count, keep, pinned):
    versions = [version(number) for number in range(count)]
    names = [one.name for one in versions]
    held = names[pinned] if pinned < count else None
    removed = choose_removals(versions, latest=names[-1] if names else None, pinned=held, keep=keep, grace=0.0, now=NOW)
    # The newest has not been replaced.
    assert removed == [name for name in names[: max(0, count - max(1, keep))] if name != held]


def test_eight_nights_leave_the_seven_newest():
    versions: list[Version] = []
    for night in range(8):
        versions.append(version(night))
        latest = versions[-1].name
        removed = choose_removals(versions, latest=latest, pinned=None, keep=7, grace=0.0, now=NOW)
        versions = [one for one in versions if one.name not in removed]
    assert versions == [version(night) for night in range(1, 8)]
