"""The scheduler of weighted_round_robin is tested by values (A58)."""

import math
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trxds.lb.weighted_round_robin.edf_scheduler import EdfScheduler, fill_unknown_weights


class TestSchedule:
    def turns(self, *weights, times=1000):
        schedule = EdfScheduler(lambda now: list(weights), 1.0, Random(1))
        return [schedule.next(0.0) for _ in range(times)]

    def test_the_edf_scheduler_gives_turns_by_weight(self):
        counted = Counter(self.turns(3, 1, times=400))
        assert abs(counted[0] - 300) <= 1

    def test_the_edf_scheduler_spreads_the_turns_of_a_host(self):
        gaps = "".join(map(str, self.turns(3, 1))).split("1")
        assert {len(gap) for gap in gaps[1:-1]} <= {2, 3, 4}

    def test_the_edf_scheduler_gives_equal_weights_equal_turns(self):
        turns = self.turns(2, 2, 2, times=30)
        assert turns == turns[:3] * 10

    def test_the_edf_scheduler_gives_each_host_its_first_turn_before_any_has_a_second(self):
        turns = self.turns(*[1] * 20, times=20)
        assert sorted(turns) == list(range(20)) != turns

    def test_weights_that_stay_leave_the_turns_as_they_are(self):
        schedule = EdfScheduler(lambda now: [2.0, 2.0, 2.0], 1.0, Random(1))
        turns = [schedule.next(float(now)) for now in range(30)]
        assert turns == turns[:3] * 10

    def test_clients_begin_with_different_hosts(self):
        first = {EdfScheduler(lambda now: [1.0] * 3, 1.0, Random(seed)).next(0.0) for seed in range(20)}
        assert first == {0, 1, 2}

    def test_each_update_is_told_with_the_weights_that_are_known(self):
        told = []
        schedule = EdfScheduler(lambda now: [4.0, 0.0, 2.0], 1.0, Random(1), lambda *update: told.append(update))
        for now in (0.0, 0.5, 1.0):
            schedule.next(now)
        schedule.copy(lambda random: random).next(5.0)
        assert told == [([4.0, 0.0, 2.0], 0.0), ([4.0, 0.0, 2.0], 1.0)]

    @pytest.mark.parametrize("copied", [False, True])
    def test_a_host_in_slow_start_counts_by_its_share(self, copied):
        schedule = EdfScheduler(lambda now: [10.0, 20.0], 1.0, Random(1), shares=lambda now: [1.0, 0.5 * now])
        if copied:
            schedule = schedule.copy(lambda random: random)
        assert abs(Counter(schedule.next(1.0) for _ in range(100))[1] - 50) <= 1
        assert abs(Counter(schedule.next(2.0) for _ in range(90))[1] - 60) <= 1

    def test_weights_are_read_once_in_an_update_period(self):
        asked = []
        schedule = EdfScheduler(lambda now: asked.append(now) or [1.0, 2.0], 1.0, Random(1))
        for now in (0.0, 0.5, 0.99, 1.0, 1.5, 7.0):
            schedule.next(now)
        assert asked == [0.0, 1.0, 7.0]

    @pytest.mark.parametrize(
        ("weights", "used"),
        [
            ([4.0, 0.0, 2.0], [4.0, 3.0, 2.0]),
            ([4.0, 0.0, 0.0], [1.0, 1.0, 1.0]),
            ([0.0, 0.0], [1.0, 1.0]),
            ([5.0], [1.0]),
            ([4.0, math.nan, math.inf, -1.0, 2.0], [4.0, 3.0, 3.0, 3.0, 2.0]),
            ([1.5e308, 1.5e308], [1.5e308, 1.5e308]),
        ],
    )
    def test_an_unknown_weight_is_the_mean_if_two_are_known(self, weights, used):
        assert fill_unknown_weights(weights) == used

    def test_a_weight_is_bounded_by_a_hundredth_and_ten_times_the_mean(self):
        used = fill_unknown_weights([1e-9, 1.0] + [1.0] * 98)
        assert used[0] == pytest.approx(0.01 * 0.99)
        used = fill_unknown_weights([1e9] + [1.0] * 99)
        assert used[0] == pytest.approx(10 * (1e9 + 99) / 100)

    @given(weights=st.lists(st.floats(), min_size=1, max_size=8), seed=st.integers(0, 99))
    @settings(deadline=None)
    def test_all_hosts_get_turns_in_the_ratio_of_any_weights(self, weights, seed):
        schedule = EdfScheduler(lambda now: weights, 1.0, Random(seed))
        lightest = min(fill_unknown_weights(weights))
        shares = [share / lightest for share in fill_unknown_weights(weights)]
        turns = 3 * math.ceil(sum(shares))
        counted = Counter(schedule.next(0.0) for _ in range(turns))
        for position, share in enumerate(shares):
            assert abs(counted[position] - turns * share / sum(shares)) <= len(weights)
            assert counted[position] >= 1, "it starves"

    @given(
        weights=st.lists(st.floats(1.0, 50.0), min_size=2, max_size=8),
        invalid=st.sampled_from([math.nan, math.inf, -math.inf, -1.0, 0.0]),
    )
    def test_an_invalid_weight_keeps_the_ratio_of_valid_ones(self, weights, invalid):
        shares = fill_unknown_weights([*weights, invalid])
        assert shares[:-1] == weights
        assert shares[-1] == pytest.approx(sum(weights) / len(weights))
