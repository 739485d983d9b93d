"""How many runs a simulated GPU is given: until memory, or the gain of more, says stop."""

import random

import pytest

from fedrepro.fl.engine.admission import ROUNDS, SECONDS, Admission
from fedrepro.fl.engine.places import STREAMS

ROUND = 10.0
"""Work of a round of a run."""


class Card:
    """A GPU whose speed depends on the runs in flight; time goes by in small steps.

    Args:
        speed: work a second, given how many runs are in flight.
        load: share of memory of a run.
        rounds: of a run.
        first: how many times as long a run's first round takes.
        noise: relative standard deviation of a round's length.
    """

    def __init__(self, speed, load=0.01, rounds=10**6, first=5.0, noise=0.0):
        self.speed, self.load, self.rounds = speed, load, rounds
        self.first, self.noise = first, noise
        self.admission, self.now, self.number = Admission(), 0.0, 0
        self.runs = {}  # number: rounds done, work left of the round
        self.counts = []
        self.random = random.Random(0)

    def length(self, done):
        length = ROUND * (self.first if done == 0 else 1.0)
        return max(0.1, length * self.random.gauss(1.0, self.noise))

    def fill(self, kind):
        while self.admission.has_room([self.load] * len(self.runs)):
            self.number += 1
            self.runs[self.number] = [0, self.length(0)]
            self.admission.admitted(self.number, kind, 0, STREAMS)

    def work(self, seconds, kind="a"):
        end = self.now + seconds
        while self.now < end:
            self.fill(kind)
            self.counts.append(len(self.runs))
            share = self.speed(len(self.runs)) / len(self.runs)
            number = min(self.runs, key=lambda run: self.runs[run][1])
            step = self.runs[number][1] / share
            self.now += step
            for run in self.runs.values():
                run[1] -= share * step
            done = self.runs[number][0] + 1
            self.runs[number] = [done, self.length(done)]
            self.admission.worked(number, ROUND, done, self.now)
            if done == self.rounds:
                del self.runs[number]
                self.admission.ended(number)
        return len(self.runs)


def saturating(at, most=10.0):
    return lambda runs: most * min(1.0, runs / at)


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize(("at", "enough"), [(1, 1), (2, 2), (5, 8), (20, 32)])
def test_runs_are_admitted_while_they_make_it_faster(at, enough, noise):
    """The last group gains nothing: its places are not filled again."""
    card = Card(saturating(at), noise=noise)
    card.work(20_000)
    assert max(card.counts) == 2 * enough
    card.rounds = card.runs[1][0] + 100  # from here on runs end
    card.work(20_000)
    assert max(card.counts[-10:]) == enough


def test_one_run_after_the_other_where_one_fills_the_card():
    card = Card(lambda runs: 10.0, rounds=50)
    card.work(3000)
    assert max(card.counts) == 2
    assert set(card.counts[-20:]) == {1}


def test_more_runs_that_slow_each_other_down_are_not_wanted():
    card = Card(lambda runs: 10.0 / runs, rounds=50)
    card.work(3000)
    assert max(card.counts) == 2
    assert set(card.counts[-20:]) == {1}


@pytest.mark.parametrize(("load", "runs"), [(1.0, 1), (0.6, 1), (0.5, 2), (0.3, 3), (0.09, 11)])
def test_memory_is_never_given_out_twice(load, runs):
    card = Card(lambda runs: 10.0 * runs, load=load)
    assert card.work(20_000) == runs


def test_the_next_run_is_assumed_to_take_the_mean_of_the_others():
    admission = Admission()
    for run in (1, 2):
        admission.admitted(run, "a", 0, lanes=1)
    assert admission.has_room([0.1, 0.5])
    assert not admission.has_room([0.2, 0.5])


def test_the_first_round_says_nothing_of_the_speed():
    """It takes 100 times as long as those after it, and the card is far from full."""
    card = Card(saturating(8), first=100.0)
    card.work(50_000)
    assert max(card.counts) == 16


def test_short_rounds_are_measured_for_a_while():
    admission, now = Admission(), 0.0
    admission.admitted(1, "a", 0, STREAMS)
    for done in range(1, 1000):
        now += 0.01
        admission.worked(1, 1.0, done, now)
        if admission.has_room([0.1]):
            break
    assert now >= SECONDS
    assert done > ROUNDS


def test_nobody_is_admitted_before_anything_was_measured():
    admission = Admission()
    assert admission.has_room([])
    admission.admitted(1, "a", 7, STREAMS)
    for done, now in ((7, 10.0), (8, 20.0), (8, 30.0), (9, 40.0)):
        admission.worked(1, 1.0, done, now)
        assert not admission.has_room([0.1])
    admission.worked(1, 1.0, 10, 50.0)
    assert admission.has_room([0.1])


def one_measured():
    """Return what knows that one run does a unit of work a second, and may be given another."""
    admission = Admission()
    admission.admitted(1, "a", 0, STREAMS)
    for done in range(1, 4):
        admission.worked(1, 10.0, done, 10.0 * done)
    assert admission.has_room([0.1])
    return admission


def test_rounds_beside_a_first_round_are_not_measured():
    """They take ten times as long; the two then do 1.1 units a second, told in halves of rounds."""
    admission, now = one_measured(), 30.0
    admission.admitted(2, "a", 0, STREAMS)
    for done in range(4, 8):
        now += 100
        admission.worked(1, 10.0, done, now)
    admission.worked(2, 10.0, 1, now)
    for done in range(1, 4):
        for half in (0, 1):
            now += 9
            admission.worked(1, 5.0, 6 + done + half, now)
            admission.worked(2, 5.0, done + half, now)
    assert admission.has_room([0.1, 0.1])


def test_the_end_of_a_run_drops_what_it_is_measured_in():
    admission = one_measured()
    admission.admitted(2, "a", 0, STREAMS)
    admission.ended(2)
    for done in range(4, 8):
        admission.worked(1, 10.0, done, 10.0 * done)
    assert admission.has_room([0.1])


def test_a_first_group_keeps_its_places_when_a_run_of_it_ends_early():
    admission = Admission()
    for run in range(3):
        admission.admitted(run, "a", 0, lanes=1)
    admission.ended(0)
    assert admission.has_room([0.01] * (STREAMS - 1))


def test_a_later_group_has_no_more_runs_for_having_fewer_lanes():
    admission = one_measured()
    admission.admitted(2, "b", 0, lanes=1)
    assert not admission.has_room([0.1, 0.1])


def test_a_group_that_gains_nothing_leaves_as_many_as_were_in_flight_before_it():
    """Not as many as had a place: there were two runs for three."""
    admission, rounds, now = Admission(), [0] * 4, 0.0
    for count in (2, 4):
        for run in range(count)[-2:]:
            admission.admitted(run, "a", 0, lanes=STREAMS // 3)
        for _ in range(4):
            now += count  # all of them together are as fast as two
            for run in range(count):
                rounds[run] += 1
                admission.worked(run, 10.0, rounds[run], now)
    for run in (0, 1):
        admission.ended(run)
    assert not admission.has_room([0.1, 0.1])


def test_runs_too_short_to_be_measured_fill_the_card_by_and_by():
    card = Card(saturating(6), rounds=2, load=0.1)
    card.work(3000)
    assert max(card.counts) == 10


def test_another_kind_of_run_opens_the_question_anew():
    """A card that one run of the first kind fills takes many of the second."""
    wide = Card(saturating(1), rounds=40)
    wide.work(2000)
    assert wide.counts[-1] == 1
    wide.speed = saturating(8)
    wide.work(4000, kind="b")
    assert max(wide.counts) == 16
    wide.work(4000, kind="b")
    assert max(wide.counts[-10:]) == 8


@pytest.mark.parametrize(("lanes", "first"), [(1, 24), (10, 3), (24, 1), (50, 1)])
def test_the_first_group_has_as_many_lanes_as_there_are_streams(lanes, first):
    admission, runs = Admission(), 0
    while admission.has_room([0.01] * runs):
        runs += 1
        admission.admitted(runs, "a", 0, lanes)
    assert runs == first
