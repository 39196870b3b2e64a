"""A thousand of everything: the cost of an event grows only with the groups and members that it concerns."""

from __future__ import annotations

from pybroker.coordinator.group.tests.driver import Driver
from pybroker.coordinator.shard import Producer
from pyclient.protocol import errors


def test_a_group_of_a_thousand_members_rebalances_shrinks_and_is_loaded() -> None:
    driver = Driver()
    ids = driver.stable(1_000)
    generation = driver.group().generation
    assert {driver.heartbeat(id, generation).code for id in ids} == {errors.NONE}
    newcomer, joining = driver.member()
    assert {driver.heartbeat(id, generation).code for id in ids} == {
        errors.RebalanceInProgress.code
    }
    tickets = [driver.join(id) for id in ids]
    assert {each.code for each in (joining, *tickets)} == {errors.NONE}
    driver.settle([newcomer, *ids])
    driver.leave(*((id, None) for id in ids[:500]))
    for id in (*ids[500:], newcomer):
        driver.join(id)
    driver.settle([*ids[500:], newcomer])
    loaded = Driver(log=driver.log)
    assert {each.id for each in loaded.group().members} == {*ids[500:], newcomer}
    loaded.pass_ms(10_000)
    assert loaded.group().is_empty


def test_a_deleted_topic_concerns_only_the_groups_that_committed_for_it() -> None:
    driver = Driver()
    for number in range(1_000):
        driver.commit({(f"t{number % 100}", 0): number}, group=f"g{number}")
    driver.commit_in_transaction({("t7", 3): 1}, Producer(1, 0), group="g8")
    before = len(driver.log)
    assert len(list(driver.shard.offsets.of_topic("t7"))) == 11
    driver.send(lambda result: driver.shard.forget_topics({"t7": bytes(16)}, result))
    assert len(driver.log) == before + 11
    assert list(driver.shard.offsets.of_topic("t7")) == []
    assert driver.committed(group="g7") == {}
    assert driver.committed(group="g8") == {("t8", 0): 8}


def test_many_offsets_of_a_deleted_topic_go_in_several_steps() -> None:
    driver = Driver()
    for index in range(2_500):
        driver.commit({("t", index): 1})
    driver.perform(lambda result: driver.shard.forget_topics({"t": bytes(16)}, result))
    assert len(driver.log) == 2_500 + 1_000
    driver.pass_ms(10)
    assert driver.committed() == {}
    assert driver.shard._gone == {}


def test_offsets_of_a_deleted_topic_go_when_they_can_be_written_again() -> None:
    driver = Driver()
    driver.commit({("t", 0): 1})
    driver.refuse = errors.NotEnoughReplicas
    driver.perform(lambda result: driver.shard.forget_topics({"t": bytes(16)}, result))
    driver.pass_ms(5_000)
    assert driver.committed() == {("t", 0): 1}
    driver.refuse = None
    driver.pass_ms(1_000)
    assert driver.committed() == {}
    assert driver.writes_refused <= 7
