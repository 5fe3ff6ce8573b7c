from dataclasses import replace

import numpy as np
import pytest

from braid.core.errors import ConfigError
from braid.core.times import DAY, HOUR, MINUTE, SECOND
from braid.eventtime.ascending import Ascending
from braid.testing.accuracy import measure
from braid.testing.streams import MONDAY, ClientLike, Outage, ServerLike, chunk_times, cut, week

ROWS = 100_000


def test_a_week_is_the_same_for_the_same_seed() -> None:
    first, again, other = week(20_000, 3), week(20_000, 3), week(20_000, 4)
    for one, two, three in zip(first, again, other, strict=True):
        assert np.array_equal(one.event_time, two.event_time)
        assert np.array_equal(one.key, two.key)
        assert not np.array_equal(one.event_time, three.event_time)


def test_rows_come_in_the_order_of_their_arrival_after_they_happened() -> None:
    for stream in week(ROWS):
        assert np.all(np.diff(stream.arrival_time) >= 0)
        assert np.all(stream.arrival_time >= stream.event_time)
        assert stream.event_time.min() >= MONDAY
        assert stream.event_time.dtype == stream.key.dtype == np.int64


def test_servers_are_seconds_late_and_slower_at_night() -> None:
    stream = ServerLike(ROWS, swing=0.5).generate()
    delay = stream.arrival_time - stream.event_time
    assert delay.mean() == pytest.approx(2 * SECOND, rel=0.05)
    assert len(np.unique(stream.key)) == ROWS
    hour = stream.event_time // HOUR % 24
    assert np.mean((hour >= 1) & (hour < 5)) < 0.6 * np.mean((hour >= 13) & (hour < 17))


def test_clients_have_a_heavy_tail_that_is_worse_at_night() -> None:
    stream = ClientLike(ROWS, night=2.0).generate(ServerLike(ROWS).generate())
    delay = stream.arrival_time - stream.event_time
    assert MINUTE < np.median(delay) * 2 < 3 * MINUTE
    assert 0.03 < np.mean(delay > 20 * MINUTE) < 0.06
    assert 0.004 < np.mean(delay > 3 * HOUR) < 0.01
    hour = stream.event_time // HOUR % 24
    night = (hour >= 1) & (hour < 5)
    assert np.median(delay[night]) > 1.5 * np.median(delay[(hour >= 13) & (hour < 17)])


def test_clients_refer_to_requests_but_for_a_chosen_share() -> None:
    server = ServerLike(ROWS).generate()
    client = replace(ClientLike(ROWS), unmatched=0.1).generate(server)
    lost = client.key < 0
    assert lost.mean() == pytest.approx(0.1, abs=0.01)
    asked = np.empty(ROWS, dtype=np.int64)
    asked[server.key] = server.event_time
    reaction = client.event_time[~lost] - asked[client.key[~lost]]
    assert reaction.min() >= 0
    assert reaction.mean() == pytest.approx(2 * MINUTE, rel=0.05)
    with pytest.raises(ConfigError):
        ClientLike(1).generate(server.between(0, 0))
    with pytest.raises(ConfigError):
        ClientLike(1, unmatched=2)


def test_nothing_arrives_in_an_outage_and_all_of_it_after() -> None:
    outage = Outage(MONDAY + DAY, HOUR)
    stream = ServerLike(ROWS, outages=(outage,)).generate()
    within = (stream.arrival_time > outage.start) & (stream.arrival_time < outage.start + HOUR)
    assert not within.any()
    assert np.count_nonzero(stream.arrival_time == outage.start + HOUR) > 100


def test_cuts_cover_the_stream_in_order_and_chunks_tell_their_times() -> None:
    stream = ServerLike(5_000, duration=HOUR).generate()
    pieces = list(cut(stream, MINUTE, chunk_rows=50))
    assert [p.start for p in pieces[1:]] == [p.stop for p in pieces[:-1]]
    assert (pieces[0].start, pieces[-1].stop) == (0, 5_000)
    assert max(p.stop - p.start for p in pieces) == 50
    assert sum(p.last for p in pieces) == pieces[-1].commit + 1
    for piece in pieces:
        arrived = stream.arrival_time[piece.start : piece.stop]
        assert np.all((arrived < piece.wall_time) & (arrived >= piece.wall_time - MINUTE))
    chunk = chunk_times(stream, pieces[3])
    times = stream.event_time[pieces[3].start : pieces[3].stop]
    assert (chunk.rows, chunk.min, chunk.max) == (len(times), times.min(), times.max())


def test_accuracy_counts_rows_behind_the_stream_time_they_meet() -> None:
    stream = ServerLike(50_000, duration=6 * HOUR).generate()
    found = measure(Ascending(), stream, cut(stream, 10 * SECOND))
    assert found.rows.sum() == pytest.approx(50_000, rel=0.01)
    assert 98 < found.accuracy <= 100
    assert 2 * SECOND < found.mean_delay < MINUTE
    assert len(found.by_period()) in (6, 7)
