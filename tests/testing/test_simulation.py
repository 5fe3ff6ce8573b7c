from dataclasses import replace

import numpy as np
import pytest

from braid.core.config import AppConfig
from braid.core.errors import ConfigError
from braid.core.times import DAY, HOUR, MINUTE, SECOND
from braid.kernels.join.spec import JoinType, MatchMode
from braid.testing import Simulation, Stream, batch_matched, measure, search_sessions, simulate
from braid.testing.streams import MONDAY, Outage, ServerLike, cut
from braid.testing.workloads import SEARCH_BOUNDS, arrived_before, merged

WINDOW = (-60 * MINUTE, 10 * MINUTE)
INTERVAL = 5 * MINUTE


def options(**changed: object) -> AppConfig:
    return AppConfig.model_validate({"shards": 1, "percentile": 1, **changed})


@pytest.fixture(scope="module")
def streams() -> tuple[Stream, Stream]:
    return search_sessions(60_000, days=1)


@pytest.fixture(scope="module")
def day(streams: tuple[Stream, Stream]) -> Simulation:
    return simulate(*streams, WINDOW, options(shards=2), interval=INTERVAL)


def test_late_lookups_find_every_match_of_the_batch_join(day: Simulation) -> None:
    assert day.rescued > 100
    assert day.missed == 0
    assert np.array_equal(day.matched, day.batch_matched)
    assert 0.8 < day.match_rate == day.batch_match_rate < 0.95
    assert day.recall == 1


def test_without_late_lookups_the_papers_loss_is_visible(
    streams: tuple[Stream, Stream], day: Simulation
) -> None:
    without = simulate(*streams, WINDOW, options(late_lookup=False), interval=INTERVAL)
    assert without.rescued == 0
    assert 0.98 < without.recall < 0.999
    assert not np.any(without.matched & ~without.batch_matched)
    # Shards change nothing, so that what is missed is what was rescued.
    assert without.missed == day.rescued


def test_the_right_window_holds_no_more_than_window_and_slack(day: Simulation) -> None:
    assert 0 < day.peak_window <= 1.1 * day.window_limit
    assert np.all(np.diff(day.timeline.left_time) >= 0)
    assert day.timeline.rows_left.sum() == len(day.matched)
    # The last micro-batch decides everything.
    assert day.timeline.pending_left[-1] == day.timeline.pending_right[-1] == 0


def test_stream_times_are_measured_as_without_a_join(streams: tuple[Stream, Stream], day: Simulation) -> None:
    from braid.eventtime.calibrated import Calibrated

    alone = measure(Calibrated(), streams[0], cut(streams[0], INTERVAL))
    assert day.left.accuracy == pytest.approx(alone.accuracy, abs=0.3)
    assert day.left.accuracy == pytest.approx(99, abs=0.5)
    assert day.left.rows.sum() == alone.rows.sum()
    assert day.left.mean_delay > 20 * MINUTE > MINUTE > day.right.mean_delay


def test_rows_come_out_once_a_commit_has_brought_them_and_all_have_a_delay(day: Simulation) -> None:
    assert day.output_delay.min() >= 0
    assert day.output_delay_percentile(50) < day.output_delay_percentile(99)
    # What has no match must wait for the window to pass, what has one need not.
    assert day.output_delay_percentile(50) < day.output_delay_percentile(50, matched=False)


def test_the_estimator_and_its_percentile_are_chosen_by_option(
    streams: tuple[Stream, Stream], day: Simulation
) -> None:
    ascending = simulate(*streams, WINDOW, options(stream_time="ascending"), interval=INTERVAL)
    assert ascending.recall == 1
    assert ascending.left.mean_delay != day.left.mean_delay
    looser = simulate(*streams, WINDOW, options(percentile=5), interval=INTERVAL)
    assert looser.left.accuracy == pytest.approx(95, abs=0.5)
    assert looser.rescued > day.rescued
    assert looser.output_delay_percentile(50) < day.output_delay_percentile(50)
    assert looser.recall == 1


def test_streams_whose_late_rows_are_rescued_are_paced_daringly(streams: tuple[Stream, Stream]) -> None:
    found = simulate(*streams, WINDOW, AppConfig(shards=1), interval=INTERVAL)
    assert found.left.accuracy == pytest.approx(95, abs=0.5)
    assert found.recall == 1


@pytest.mark.parametrize("match", [MatchMode.FIRST, MatchMode.NEAREST])
def test_inner_joins_emit_matches_only(streams: tuple[Stream, Stream], match: MatchMode) -> None:
    left, right = (arrived_before(stream, MONDAY + 6 * HOUR) for stream in streams)
    found = simulate(left, right, WINDOW, options(), interval=INTERVAL, join=JoinType.INNER, match=match)
    assert found.recall == 1
    assert np.array_equal(found.output_delay >= 0, found.matched)
    assert found.counts.matches == found.matched.sum()


def test_what_retention_removes_is_missed_and_counted(streams: tuple[Stream, Stream]) -> None:
    found = simulate(*streams, WINDOW, options(retention="1 hour"), interval=INTERVAL)
    assert found.lost["beyond_retention"] >= found.missed > 0


def test_a_best_match_so_far_outlives_the_retention() -> None:
    """Partners are 50 minutes older than left rows, which choose an hour after their own time."""
    number = np.arange(12 * 120)
    times = MONDAY + number * 30 * SECOND
    left, right = Stream(times, times, number), Stream(times, times, number + 100)
    brief = options(retention="30 minutes")
    found = simulate(left, right, (-HOUR, HOUR), brief, interval=INTERVAL, match=MatchMode.NEAREST)
    assert found.recall == 1
    assert found.matched.sum() == len(number) - 100


def test_an_outage_of_one_side_costs_no_matches() -> None:
    outage = Outage(MONDAY + 4 * HOUR, HOUR)
    server = ServerLike(10_000, duration=8 * HOUR, outages=(outage,)).generate()
    plain = ServerLike(10_000, duration=8 * HOUR).generate()
    client = replace(
        plain, event_time=plain.event_time + 30 * SECOND, arrival_time=plain.arrival_time + MINUTE
    )
    # Longer than the outage, so that the silent side is waited for.
    found = simulate(client, server, WINDOW, options(idle_timeout="2 hours"), interval=INTERVAL)
    assert found.match_rate == found.recall == 1
    # Rows that are ahead of the silent side wait in the log, not in memory.
    held = np.count_nonzero(
        (client.arrival_time > outage.start) & (client.arrival_time < outage.start + HOUR)
    )
    assert found.peak_pending < 0.7 * held
    assert found.output_delay.max() > 50 * MINUTE


@pytest.mark.parametrize("silent", ["left", "right"])
@pytest.mark.parametrize("idle", ["proceed", "wait"])
def test_a_silence_that_is_short_against_the_window_costs_no_match(silent: str, idle: str) -> None:
    """Three minutes to either side, 45 s of silence after which everything comes, and a timeout of 30 s."""
    outage = Outage(MONDAY + 200 * SECOND, 45 * SECOND)
    left, right = (
        ServerLike(3_000, duration=6 * MINUTE, outages=(outage,) * (name == silent)).generate(seed)
        for seed, name in enumerate(("left", "right"))
    )
    window = (-3 * MINUTE, 3 * MINUTE)
    found = simulate(left, right, window, options(idle=idle), interval=5 * SECOND, join=JoinType.FULL)
    assert found.match_rate == found.recall == 1
    assert found.counts.lost_matches == 0
    assert found.lost == {}


def test_a_long_silence_costs_what_the_other_input_has_passed_and_that_is_counted() -> None:
    outage = Outage(MONDAY + 5 * MINUTE, 10 * MINUTE)
    left = ServerLike(2_000, duration=20 * MINUTE, swing=0).generate(0)
    right = ServerLike(2_000, duration=20 * MINUTE, swing=0, outages=(outage,)).generate(1)
    window = (-2 * MINUTE, 2 * MINUTE)
    found = simulate(left, right, window, options(), interval=10 * SECOND)
    assert 0 < found.missed == found.counts.lost_matches == found.lost["late_right"]
    # A hundred left rows a minute, less those of the two minutes that they wait.
    assert found.missed < 100 * 8.5
    waited = simulate(left, right, window, options(idle="wait"), interval=10 * SECOND)
    assert (waited.missed, waited.lost) == (0, {})
    # What comes meanwhile stays in the log, beyond the window and a minute of slack.
    assert waited.peak_pending < 100 * 3.5


def test_a_log_can_be_put_in_a_folder_and_leaves_nothing(tmp_path, streams: tuple[Stream, Stream]) -> None:
    left, right = (stream.between(0, 500) for stream in streams)
    found = simulate(left, right, WINDOW, interval=HOUR, folder=tmp_path)
    assert found.options.shards == 1
    assert found.recall == 1
    assert list(tmp_path.iterdir()) == []


def test_streams_that_cannot_be_simulated_are_refused(streams: tuple[Stream, Stream]) -> None:
    left, right = streams
    with pytest.raises(ConfigError, match="left stream is empty"):
        simulate(left.between(0, 0), right, WINDOW)
    backwards = Stream(right.event_time, right.arrival_time[::-1], right.key)
    with pytest.raises(ConfigError, match="right stream are not in order"):
        simulate(left, backwards, WINDOW)
    with pytest.raises(ConfigError, match="interval"):
        simulate(left, right, WINDOW, interval=0)


def test_daily_partitions_lose_what_crosses_midnight() -> None:
    right = Stream(*(np.array(column) for column in ([0, 1, 2], [HOUR, DAY + 1, DAY + 2], [1, 2, 3])))
    left = Stream(*(np.array(column) for column in ([0, 1, 9], [DAY, DAY + 1, DAY + 2], [1, 2, 3])))
    assert batch_matched(left, right, None).tolist() == [True, True, True]
    assert batch_matched(left, right, None, right_days=1).tolist() == [False, True, True]
    assert batch_matched(left, right, None, right_days=2).tolist() == [True, True, True]
    assert batch_matched(left, right, (-5, 0)).tolist() == [True, True, False]
    assert batch_matched(left, right, (-7, 0)).tolist() == [True, True, True]


def test_search_sessions_are_what_arrives_in_time() -> None:
    left, right = search_sessions(20_000, days=2, seed=1)
    assert np.all(np.diff(left.arrival_time) >= 0)
    assert max(left.arrival_time[-1], right.arrival_time[-1]) < MONDAY + 2 * DAY
    shares = [batch_matched(left, right, bounds).mean() for bounds in (None, SEARCH_BOUNDS, (-HOUR, 0))]
    assert 0.93 < shares[0] < 0.95
    assert shares[0] > shares[1] + 0.008 > shares[2] + 0.008
    assert len(merged(left, right)) == len(left) + len(right)
