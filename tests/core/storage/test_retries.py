"""The policy by which requests to a store are sent again."""

from __future__ import annotations

import time

import pytest

from beam_tfrecords.storage.retries import Store


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which only pauses move on."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    return now


@pytest.mark.parametrize(("seconds", "is_over"), [(20, False), (60, False), (100, False), (180, True)])
def test_a_storm_ends_by_time_only(clock, seconds, is_over):
    def request() -> str:
        if clock[0] < 1000 + seconds:
            raise ConnectionError("refused")
        return "answer"

    try:
        assert Store().send(request, may_pass=lambda error: isinstance(error, ConnectionError)) == "answer"
        assert not is_over
    except ConnectionError:
        assert is_over
        assert 1120 <= clock[0] < 1140


def test_a_request_goes_on_while_the_store_answers_others(clock):
    store, asked = Store(), []

    def request() -> None:
        asked.append(clock[0])
        store.note_answer()
        raise ConnectionError

    with pytest.raises(ConnectionError):
        store.send(request, may_pass=lambda error: isinstance(error, ConnectionError))
    assert 1600 <= clock[0] < 1620


def test_what_will_not_pass_is_raised_at_once(clock):
    with pytest.raises(KeyError):
        Store().send(lambda: {}["a"], may_pass=lambda _: False)
    assert clock == [1000.0]


def test_refusals_set_requests_apart_and_answers_bring_them_together(clock):
    store = Store()
    for _ in range(10):
        store.pause(clock[0], 0, is_busy=True)
        clock[0] += 2
    began = clock[0]
    for _ in range(11):
        store.wait()
    assert clock[0] - began == pytest.approx(10 * 0.05)
    for _ in range(100):
        store.note_answer()
    began = clock[0]
    store.wait()
    store.wait()
    assert clock[0] == began
