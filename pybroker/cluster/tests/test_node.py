"""A broker in its cluster, on a real embedded store: a change is durable and visible when it is answered."""

from __future__ import annotations

import asyncio
import gc

import pytest

from pybroker.cluster import cluster_secret
from pybroker.cluster.cluster_id import ClusterMismatch
from pybroker.cluster.decisions.config_changes import ConfigChange, KeyChange
from pybroker.cluster.decisions.features import FeatureUpdate, UpgradeType
from pybroker.cluster.decisions.plan import NewPartitions, NewTopic, TopicName
from pybroker.cluster.endpoints import name_of_machine
from pybroker.cluster.metadata import znodes
from pybroker.cluster.metadata.image import MetadataDelta, MetadataImage, ResourceType, TopicImage
from pybroker.cluster.producer_ids import BLOCK_SIZE, ProducerIds
from pybroker.cluster.tests.one_store import LISTENERS, Cluster, Run, until_no_note_is_left
from pybroker.tests.waiting import until_async
from pyclient.protocol import errors


def test_the_first_broker_becomes_controller_and_registers_as_kafka_does(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        node, store, _ = await cluster.broker()
        image = node.metadata.image
        assert (image.controller_id, image.controller_epoch) == (1, 1)
        assert image.brokers[1].endpoints == tuple(LISTENERS.values())
        data, stat = await store.get("/brokers/ids/1")
        assert b'"endpoints":["PLAINTEXT://127.0.0.1:9092"]' in data
        assert b'"rack"' not in data
        assert (image.brokers[1].rack, image.brokers[1].machine) == (None, name_of_machine())
        assert stat.owner == store.session.id
        assert image.brokers[1].epoch == stat.created
        assert (await store.get("/controller_epoch"))[0] == b"1"
        assert len(node.cluster_id) == 22

    run(scenario)


def test_a_topic_is_durable_and_visible_when_the_reply_comes(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        node, store, _ = await cluster.broker()
        [topic] = await node.controller.create_topics([NewTopic("t", 2, 1)])
        assert isinstance(topic, TopicImage)
        assert node.metadata.image.topic("t") == topic
        assert node.metadata.image.topic_by_id(topic.id) == topic
        assert cluster.deltas[-1].changed == {"t": topic}
        data, _ = await store.get("/brokers/topics/t/partitions/1/state")
        assert data == (
            b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
        )

    run(scenario)


def test_all_metadata_are_loaded_again_after_a_restart(run: Run) -> None:
    images: list[MetadataImage] = []

    async def first(cluster: Cluster) -> None:
        node, _, _ = await cluster.broker()
        await node.controller.create_topics(
            [NewTopic("t", 3, 1, configs=(("retention.ms", "5"),)), NewTopic("u", 1, 1)]
        )
        await node.controller.create_partitions([NewPartitions("u", 2)])
        await node.controller.alter_configs(
            [
                ConfigChange(ResourceType.BROKER, "", (KeyChange("log.roll.ms", 0, "9"),)),
                ConfigChange(
                    ResourceType.GROUP, "g", (KeyChange("consumer.session.timeout.ms", 0, "50000"),)
                ),
            ]
        )
        images.append(node.metadata.image)

    async def second(cluster: Cluster) -> None:
        node, _, config = await cluster.broker(was_clean=True)
        image = node.metadata.image
        assert image.topics == images[0].topics
        assert image.names == images[0].names
        assert image.resource_configs == images[0].resource_configs
        assert image.cluster_id == images[0].cluster_id
        assert image.controller_epoch == 2
        assert config["log.roll.ms"] == 9

    run(first)
    run(second)


def test_after_an_unclean_stop_leaders_begin_a_new_epoch(run: Run) -> None:
    async def first(cluster: Cluster) -> None:
        node, _, _ = await cluster.broker()
        await node.controller.create_topics([NewTopic("t", 2, 1)])

    async def second(cluster: Cluster) -> None:
        node, store, _ = await cluster.broker()
        for partition in node.metadata.image.topics["t"].partitions:
            assert (partition.leader_epoch, partition.partition_epoch) == (1, 1)
        assert (await store.get("/brokers/topics/t/partitions/0/state"))[1].version == 1
        assert len(cluster.deltas) == 1

    run(first)
    run(second)


def test_a_deleted_topic_is_hidden_before_its_logs_are_deleted(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        node, store, _ = await cluster.broker()
        await node.controller.create_topics([NewTopic("t", 2, 1)])
        seen: list[bool] = []

        async def look(delta: MetadataDelta, image: MetadataImage) -> None:
            seen.append("t" in node.metadata.image.topics)

        node.metadata.add_listener(look)
        await node.controller.delete_topics([TopicName("t")])
        assert seen == [False]
        assert await store.children("/brokers/topics") == []
        assert await store.children("/config/topics") == []
        await until_no_note_is_left(store)

    run(scenario)


def test_a_deletion_that_was_interrupted_is_finished_by_the_next_start(run: Run) -> None:
    gone: list[bytes] = []

    async def scenario(cluster: Cluster) -> None:
        node, _, _ = await cluster.broker()
        [topic, _] = await node.controller.create_topics([NewTopic("t", 2, 1), NewTopic("u", 1, 1)])
        assert isinstance(topic, TopicImage)
        gone.append(topic.id)

        async def crash(delta: MetadataDelta, image: MetadataImage) -> None:
            raise SystemError("the process ends here")

        node.metadata.add_listener(crash)
        with pytest.raises(SystemError):
            await node.controller.delete_topics([TopicName("t")])

    async def next_start(cluster: Cluster) -> None:
        node, store, _ = await cluster.broker()
        assert [topic.id for topic in cluster.deltas[0].deleted.values()] == gone
        assert set(node.metadata.image.topics) == {"u"}
        await until_no_note_is_left(store)

    async def start_after_that(cluster: Cluster) -> None:
        await cluster.broker()
        assert not cluster.deltas[0].deleted

    run(scenario)
    run(next_start)
    run(start_after_that)


def test_a_new_topic_is_visible_only_after_the_broker_has_its_partitions(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        node, _, _ = await cluster.broker()
        seen: list[bool] = []

        async def look(delta: MetadataDelta, image: MetadataImage) -> None:
            assert "t" in image.topics
            seen.append("t" in node.metadata.image.topics)

        node.metadata.add_listener(look)
        await node.controller.create_topics([NewTopic("t", 1, 1)])
        assert seen == [False]

    run(scenario)


def test_validate_only_changes_nothing(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        node, store, _ = await cluster.broker()
        [topic] = await node.controller.create_topics([NewTopic("t", 2, 1)], validate_only=True)
        assert isinstance(topic, TopicImage)
        assert node.metadata.image.topics == {}
        assert await store.children("/brokers/topics") == []

    run(scenario)


def test_a_refused_change_without_a_waiting_caller_is_not_an_unhandled_error(run: Run) -> None:
    """A client may close its connection after its request. On Python 3.14, asyncio.shield would log the error."""

    async def scenario(cluster: Cluster) -> None:
        node, _, _ = await cluster.broker()
        accidents: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: accidents.append(context))
        update = FeatureUpdate("no.such.feature", 1, UpgradeType.UPGRADE)
        first = asyncio.ensure_future(node.controller.create_topics([NewTopic("t", 1, 1)]))
        asked = asyncio.ensure_future(node.controller.update_features([update]))
        await asyncio.sleep(0)
        asked.cancel()
        await asyncio.wait([first, asked])
        await node.controller.create_topics([NewTopic("u", 1, 1)])
        gc.collect()
        assert accidents == []

    run(scenario)


def test_a_brokers_setting_is_in_effect_when_the_reply_comes(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        node, _, config = await cluster.broker()
        heard: list[frozenset[str]] = []
        config.on_change(heard.append)
        key = KeyChange("log.retention.ms", 0, "77")
        [error] = await node.controller.alter_configs([ConfigChange(4, "1", (key,))])
        assert error is None
        assert config["log.retention.ms"] == 77
        assert heard == [{"log.retention.ms"}]
        assert (await node.controller.alter_configs([ConfigChange(4, "1", (key,))])) == [None]
        assert len(heard) == 1
        undo = KeyChange("log.retention.ms", 1, None)
        await node.controller.alter_configs([ConfigChange(4, "1", (undo,))])
        assert config["log.retention.ms"] is None

    run(scenario)


@pytest.mark.parametrize(
    ("kind", "name", "key", "value"),
    [
        (4, "", "log.retention.ms", "77"),
        (4, "1", "log.retention.ms", "77"),
        (32, "readers", "consumer.session.timeout.ms", "46000"),
    ],
)
def test_a_configuration_key_is_set_removed_and_set_again(run: Run, kind: int, name: str, key: str, value: str) -> None:
    """A resource without keys keeps its node. So does the next controller, which loads it."""

    async def first(cluster: Cluster) -> None:
        node, _, _ = await cluster.broker()
        for _ in range(3):
            for change in (KeyChange(key, 0, value), KeyChange(key, 1, None)):
                assert await node.controller.alter_configs([ConfigChange(kind, name, (change,))]) == [None]
        assert node.metadata.image.controller_epoch == 1

    async def second(cluster: Cluster) -> None:
        node, _, _ = await cluster.broker(was_clean=True)
        assert await node.controller.alter_configs([ConfigChange(kind, name, (KeyChange(key, 0, value),))]) == [None]
        assert node.metadata.image.controller_epoch == 2
        assert node.metadata.image.configs(ResourceType(kind), name) == {key: value}

    run(first)
    run(second)


def test_case_20_a_controller_whose_epoch_is_over_changes_nothing(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        node, _, _ = await cluster.broker()
        other = await cluster.server.connect()
        await other.set(znodes.CONTROLLER_EPOCH, b"9")
        with pytest.raises(errors.NotController):
            await node.controller.create_topics([NewTopic("t", 1, 1)])
        assert not node.controller.is_controller
        assert "t" not in node.metadata.image.topics
        assert await other.children("/brokers/topics") == []

    run(scenario)


def test_case_22_an_expired_session_is_followed_by_a_new_registration_and_term(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        node, store, _ = await cluster.broker()
        await node.controller.create_topics([NewTopic("t", 1, 1)])
        before = node.metadata.image.brokers[1].epoch
        await cluster.server.expire(store.session.id)
        await until_async(lambda: node.metadata.image.controller_epoch == 2)
        assert node.metadata.image.brokers[1].epoch > before
        await until_async(lambda: node.metadata.image.topics["t"].partitions[0].leader == 1)
        [topic] = await node.controller.create_topics([NewTopic("u", 1, 1)])
        assert isinstance(topic, TopicImage)

    run(scenario)


def test_a_leftover_note_of_a_deletion_does_not_delete_a_new_topic_of_the_name(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        node, store, _ = await cluster.broker()
        [topic] = await node.controller.create_topics([NewTopic("t", 1, 1)])
        await store.create(znodes.deleted_path(bytes(range(16))), b"t")
        await cluster.server.expire(store.session.id)
        await until_async(lambda: node.metadata.image.controller_epoch == 2)
        assert isinstance(topic, TopicImage)
        found = node.metadata.image.topic("t")
        assert found is not None
        assert found.id == topic.id

    run(scenario)


def test_a_broker_stays_in_the_cluster_after_another_controller_refuses_its_change(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        node, _, _ = await cluster.broker()
        membership = node._membership
        assert membership is not None
        done = asyncio.Event()

        async def refused() -> None:
            raise errors.NotController("another one is")

        async def next_one() -> None:
            done.set()

        membership._start(refused)
        membership._start(next_one)
        await asyncio.wait_for(done.wait(), 30)

    run(scenario)


def test_another_broker_takes_over_when_the_controller_goes(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        first, store, _ = await cluster.broker(1)
        second, _, _ = await cluster.broker(2)
        await until_async(lambda: set(first.metadata.image.brokers) == {1, 2})
        assert second.metadata.image.controller_id == 1
        with pytest.raises(errors.NotController):
            await second.controller.create_topics([NewTopic("t", 1, 1)])
        request = NewTopic("t", -1, -1, ((0, (1, 2)),))
        await first.controller.create_topics([request])
        await first.leave()
        await store.close()
        await until_async(lambda: second.metadata.image.controller_epoch == 2)
        await until_async(lambda: set(second.metadata.image.brokers) == {2})
        await until_async(lambda: second.metadata.image.topics["t"].partitions[0].leader == 2)
        assert second.metadata.image.topics["t"].partitions[0].isr == (2,)

    run(scenario)


def test_a_store_of_another_cluster_is_refused(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        node, _, _ = await cluster.broker()
        with pytest.raises(ClusterMismatch, match=node.cluster_id):
            await cluster.broker(2, cluster_id="another")
        await cluster.broker(3, cluster_id=node.cluster_id)

    run(scenario)


def test_a_new_store_takes_the_cluster_id_of_the_data(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        node, _, _ = await cluster.broker(cluster_id="fromDisk")
        assert node.cluster_id == "fromDisk"

    run(scenario)


def test_producer_ids_are_never_assigned_twice(run: Run) -> None:
    given: set[int] = set()

    async def scenario(cluster: Cluster) -> None:
        makers = [ProducerIds(await cluster.server.connect(), n) for n in range(3)]
        await (await cluster.server.connect()).create("/ready", ephemeral=True)
        ids = [await maker.next() for _ in range(BLOCK_SIZE // 2 + 5) for maker in makers]
        ids += await asyncio.gather(*(maker.next() for maker in makers for _ in range(BLOCK_SIZE)))
        assert len(set(ids)) == len(ids)
        assert not given & set(ids)
        given.update(ids)

    run(scenario)
    run(scenario)


def test_clients_get_the_address_they_used_unless_one_is_advertised(run: Run) -> None:
    async def scenario(cluster: Cluster) -> None:
        node, _, _ = await cluster.broker()
        assert node.addresses("PLAINTEXT", ("10.0.0.1", 1234)) == {1: ("10.0.0.1", 1234)}
        other, _, _ = await cluster.broker(
            2, {"advertised.listeners": "PLAINTEXT://kafka.example:9"}
        )
        told = other.addresses("PLAINTEXT", ("10.0.0.1", 1234))
        assert told == {1: ("127.0.0.1", 9092), 2: ("kafka.example", 9)}
        assert other.addresses("SSL", ("10.0.0.1", 1)) == {2: ("10.0.0.1", 1)}

    run(scenario)


def test_a_store_written_by_a_version_for_one_broker_is_migrated(run: Run) -> None:
    images: list[MetadataImage] = []

    async def first(cluster: Cluster) -> None:
        node, store, _ = await cluster.broker()
        await node.controller.create_topics([NewTopic("t", 3, 1), NewTopic("u", 1, 1)])
        images.append(node.metadata.image)
        await node.leave()
        for name in await store.children(znodes.JOURNAL):
            await store.delete(f"{znodes.JOURNAL}/{name}")
        for path in (znodes.JOURNAL, znodes.KNOWN, znodes.UNFIT, cluster_secret.PATH, znodes.OWN):
            await store.delete(path)

    async def second(cluster: Cluster) -> None:
        node, _, _ = await cluster.broker(was_clean=True)
        assert node.metadata.image.topics == images[0].topics
        assert set(node.metadata.image.brokers) == {1}
        await node.controller.create_topics([NewTopic("v", 1, 1)])
        assert "v" in node.metadata.image.topics

    run(first)
    run(second)
