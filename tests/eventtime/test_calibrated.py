import functools
import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from braid.core.errors import ConfigError, StateError
from braid.core.times import DAY, HOUR, MIN_TIME, MINUTE, SECOND
from braid.eventtime.calibrated import Calibrated
from braid.testing.accuracy import Accuracy, measure
from braid.testing.streams import (
    MONDAY,
    ClientLike,
    Cut,
    Outage,
    ServerLike,
    Stream,
    chunk_of,
    chunk_times,
    cut,
)

TARGET = 99.0
SERVER = ServerLike(150_000, duration=36 * HOUR)
CLIENT = ClientLike(150_000)


@functools.cache
def server_like(*outages: Outage) -> Stream:
    return trimmed(replace(SERVER, outages=outages).generate(7))


@functools.cache
def client_like(*outages: Outage) -> Stream:
    return trimmed(replace(CLIENT, outages=outages).generate(SERVER.generate(7), 7))


def trimmed(stream: Stream) -> Stream:
    """Without the few rows that arrive after the stream has ended."""
    return stream.between(0, int(np.searchsorted(stream.arrival_time, MONDAY + SERVER.duration)))


@functools.cache
def run(make: Callable[..., Stream], *outages: Outage) -> Accuracy:
    stream = make(*outages)
    return measure(Calibrated(), stream, cut(stream, MINUTE))


@pytest.mark.parametrize("make", [client_like, server_like])
def test_the_share_of_late_rows_is_held(make) -> None:
    found = run(make)
    assert found.accuracy == pytest.approx(TARGET, abs=0.25)
    assert np.percentile(found.by_period(2 * HOUR), 10) > TARGET - 0.6


def test_delays_follow_the_disorder_of_the_stream() -> None:
    client, server = run(client_like), run(server_like)
    assert server.mean_delay < 10 * SECOND
    assert 1 * HOUR < client.mean_delay < 4 * HOUR
    hour = client.wall_time // HOUR % 24
    night, day = client.delay[(hour >= 2) & (hour < 8)], client.delay[(hour >= 12) & (hour < 20)]
    assert night.mean() > 1.5 * day.mean()


@pytest.mark.parametrize("make", [client_like, server_like])
def test_an_outage_and_the_flood_after_it(make) -> None:
    found = run(make, Outage(MONDAY + DAY, 3 * HOUR))
    assert found.accuracy == pytest.approx(TARGET, abs=0.3)


@pytest.mark.parametrize("make", [client_like, server_like])
def test_a_backlog_in_large_chunks_and_then_live_in_small_ones(make) -> None:
    stream = make()
    half = len(stream) // 2
    backlog = [Cut(i, 0, a, min(a + 8_192, half), 0, True) for i, a in enumerate(range(0, half, 8_192))]
    live = cut(stream.between(half, len(stream)), 30 * SECOND)
    tail = [
        replace(c, commit=c.commit + len(backlog), start=c.start + half, stop=c.stop + half) for c in live
    ]
    found = measure(Calibrated(), stream, backlog + tail)
    assert found.accuracy == pytest.approx(TARGET, abs=0.6)
    assert found.by_period(4 * HOUR)[:4].min() > TARGET - 1.5


@pytest.mark.parametrize("interval", [2 * SECOND, MINUTE])
def test_clocks_that_are_days_ahead_do_not_take_the_stream_with_them(interval: int) -> None:
    stream = server_like().between(0, 10_000)
    rng = np.random.default_rng(1)
    wrong = rng.random(len(stream)) < 0.01
    times = stream.event_time + wrong * rng.integers(MINUTE, 6 * DAY, len(stream))
    found = measure(Calibrated(), replace(stream, event_time=times), cut(stream, interval))
    assert found.accuracy > TARGET - 0.3
    assert found.delay.min() > -MINUTE


@pytest.mark.parametrize("interval", [2 * SECOND, MINUTE])
def test_clocks_that_were_never_set_do_not_hold_it_back(interval: int) -> None:
    stream = server_like().between(0, 10_000)
    wrong = np.random.default_rng(1).random(len(stream)) < 0.03
    times = np.where(wrong, 0, stream.event_time)
    found = measure(Calibrated(), replace(stream, event_time=times), cut(stream, interval))
    assert np.percentile(found.delay, 90) < MINUTE
    assert found.accuracy == pytest.approx(TARGET - 3, abs=0.5)


def test_a_gap_in_the_stream_is_believed_once_confirmed() -> None:
    clock = Calibrated().start()
    for commit in range(10):
        clock.observe(chunk_of(MONDAY + commit * SECOND + np.arange(100), commit))
    before = clock.stream_time
    clock.observe(chunk_of(MONDAY + 5 * DAY + np.arange(100), 10))
    assert clock.stream_time == before
    clock.observe(chunk_of(MONDAY + 5 * DAY + SECOND + np.arange(100), 11))
    assert clock.stream_time > MONDAY + 5 * DAY - MINUTE


def test_no_stream_time_from_a_handful_of_rows() -> None:
    clock = Calibrated().start()
    clock.observe(chunk_of([MONDAY], 0))
    clock.observe(chunk_of([], 1, nulls=1_000))
    assert clock.stream_time == MIN_TIME
    for commit in range(2, 5):
        clock.observe(chunk_of([MONDAY + commit], commit))
    assert MONDAY - SECOND < clock.stream_time <= MONDAY + 4


def test_restored_after_every_chunk_it_goes_the_same_way() -> None:
    stream = client_like().between(0, 60_000)
    config = Calibrated()
    plain, restored = config.start(), config.start()
    longest = 0
    last = MIN_TIME
    for piece in cut(stream, 5 * MINUTE):
        chunk = chunk_times(stream, piece)
        plain.observe(chunk)
        text = json.dumps(restored.snapshot(), separators=(",", ":"))
        longest = max(longest, len(text))
        restored = config.restore(json.loads(text))
        restored.observe(chunk)
        assert restored.stream_time >= last
        last = restored.stream_time
    assert restored.snapshot() == plain.snapshot()
    assert longest < 700


def test_wrong_settings_and_snapshots_are_refused() -> None:
    for wrong in ({"percentile": 50}, {"percentile": 0}, {"late_memory": 0}):
        with pytest.raises(ConfigError):
            Calibrated(**wrong)
    good = Calibrated().start().snapshot()
    for key, value in (("time", "x"), ("frontier", [1]), ("first", 99), ("late", 3), ("weight", None)):
        with pytest.raises(StateError, match=key):
            Calibrated().restore({**good, key: value})
