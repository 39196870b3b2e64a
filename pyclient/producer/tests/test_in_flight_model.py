"""Five batches under way meet any answers. Their results are reported in order, and each acknowledged batch is in the
log once, at the reported offset. Nothing is there twice, or before a batch that was sent earlier.

The test tries each pair of faults at each pair of places, and many at random, with a broker like Kafka and one like
ours. After each fault, every batch is in one place, in the phase of that place.
"""

from __future__ import annotations

import itertools
import random

import pytest

from cy.produce.phase import Phase
from pyclient.producer.in_flight import WINDOW
from pyclient.producer.tests.scripted_partition import DUPLICATE, GAP, Partition

BATCHES = 7
PLACES = 9
TROUBLES = (
    *("unreplicated", "deposed", "refused", "invalid", "too_large"),
    *("lost", "lost_behind_one", "lost_answers", "lost_with_news", "lost_answers_with_news", "unreachable"),
    *("restarted", "restarted_between", "delayed", "late", "expire"),
)


def run(script: list[str], forgotten: int) -> None:
    partition = Partition(BATCHES, forgotten)
    check_phases(partition, script)
    for action in script:
        partition.do(action)
        check_phases(partition, script)
    partition.finish()
    check(partition, script)
    assert partition.lane.batches == [], script


def check_phases(partition: Partition, script: list[str]) -> None:
    lane = partition.lane
    batches, queued = lane.batches, lane.queue.batches()
    assert len({*batches, *queued}) == len(batches) + len(queued), f"{script}: in two places"
    assert [batch.phase for batch in queued] == [Phase.QUEUED] * len(queued), script
    out = [batch for batch in batches if batch.phase is Phase.UNDER_WAY]
    assert len(out) == len(partition.client.posts), f"{script}: under way: {out}"
    assert len(out) <= WINDOW, script
    for batch in batches:
        known = batch.phase in (Phase.WRITTEN, Phase.FAILED)
        assert batch.phase not in (Phase.QUEUED, Phase.ARRIVED), script
        assert not known or (batch.tell is not None), f"{script}: {batch} is told and stays"
        assert batch.phase is not Phase.DENIED or (lane.halted and batch.maybe_written), script
    waited_for = [batch.phase for batch in batches if not batch.done][:1]
    assert not {Phase.WRITTEN, Phase.FAILED}.intersection(waited_for), f"{script}: it is its turn to be told"


def check(partition: Partition, script: list[str]) -> None:
    values, told = partition.log.values, partition.told
    assert [value for value, _ in told] == partition.sent, script
    places = [partition.sent.index(value) for value in values]
    assert len(set(places)) == len(places), f"{script}: twice: {values}"
    assert places == sorted(places), f"{script}: out of order: {values}"
    for value, offset in told:
        if offset is not None:
            assert value in values, f"{script}: {value!r} was acknowledged: {values}"
            assert offset in (-1, values.index(value)), script
    assert partition.queues.used == 0


@pytest.mark.parametrize("forgotten", [GAP, DUPLICATE])
@pytest.mark.parametrize("first", TROUBLES)
def test_two_faults_anywhere_cause_no_loss_duplicate_or_reordering(first, forgotten):
    for second in TROUBLES:
        for places in itertools.combinations(range(PLACES), 2):
            script = ["served"] * PLACES
            script[places[0]], script[places[1]] = first, second
            run(script, forgotten)


@pytest.mark.parametrize("seed", range(20))
def test_many_random_faults_cause_no_loss_duplicate_or_reordering(seed):
    dice = random.Random(seed)
    for _ in range(50):
        script = dice.choices(["served", *TROUBLES], [10, *[1] * len(TROUBLES)], k=dice.randrange(3, 25))
        run(script, dice.choice([GAP, DUPLICATE]))
