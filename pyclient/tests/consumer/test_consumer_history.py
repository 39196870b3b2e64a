"""Random histories of members of a group, against the model of ``consumer_history``. The seed is in the test's name."""

from __future__ import annotations

import asyncio

import pytest

from pyclient.tests.consumer.consumer_history import PROTOCOLS, History

STEPS = 60
PARTITIONS = 3


def check(broker, topic, group, protocol, seed, steps=STEPS):
    history = History(broker.bootstrap, topic, group, PARTITIONS, protocol, seed)
    try:
        asyncio.run(history.run(steps))
    except BaseException:
        print(*history.told, sep="\n")
        raise


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("seed", range(3))
def test_a_short_random_history_of_consumers_keeps_every_promise(broker, new_topic, group, protocol, seed):
    check(broker, new_topic(PARTITIONS), group, protocol, seed)


@pytest.mark.nightly
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("seed", range(100, 120))
def test_a_long_random_history_of_consumers_keeps_every_promise(broker, new_topic, group, protocol, seed):
    check(broker, new_topic(PARTITIONS), group, protocol, seed, 6 * STEPS)
