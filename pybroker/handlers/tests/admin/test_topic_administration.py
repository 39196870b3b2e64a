"""CreateTopics, CreatePartitions, DeleteTopics, ElectLeaders: results per topic, by version."""

from __future__ import annotations

from typing import Any

import pytest

from pybroker.cluster.decisions.plan import NewTopic
from pybroker.config import TOPICS, Source
from pybroker.handlers import envelope
from pybroker.handlers.common import forwarding
from pybroker.handlers.common.call import Call
from pybroker.handlers.tests.admin.administration import Administration, run
from pybroker.handlers.tests.harness import FakeConnection, OneItemTurns
from pyclient.protocol import (
    ZERO_UUID,
    AlterPartitionReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    Envelope,
    errors,
)

Creatable = CreateTopics.Request.CreatableTopic
Config = CreateTopics.Request.CreatableTopicConfig
Grown = CreatePartitions.Request.CreatePartitionsTopic


@pytest.mark.parametrize("version", range(2, 8))
def test_create_topics_returns_the_settings_of_the_new_topic_in_every_version(version: int) -> None:
    async def scenario(ask: Administration) -> None:
        configs = [Config(name="retention.ms", value="5")]
        topic = Creatable(name="t", num_partitions=2, replication_factor=-1, configs=configs)
        response = await ask(CreateTopics, version, CreateTopics.Request(topics=[topic]))
        [result] = response.topics
        assert (result.error_code, result.error_message) == (0, None)
        assert (result.num_partitions, result.replication_factor) == (2, 1)
        assert result.topic_id == ask.node.metadata.image.topics["t"].id
        by_name = {config.name: config for config in result.configs}
        assert sorted(by_name) == [config.name for config in result.configs] == sorted(TOPICS)
        assert by_name["retention.ms"].config_source == Source.DYNAMIC_TOPIC
        assert by_name["segment.bytes"].config_source == Source.DEFAULT

    run(scenario)


def test_create_topics_returns_each_topics_own_configuration() -> None:
    async def scenario(ask: Administration) -> None:
        values = {"a": "5", "b": None, "c": "6", "d": "5"}
        configs = {name: [Config(name="retention.ms", value=value)] if value else [] for name, value in values.items()}
        topics = [
            Creatable(name=name, num_partitions=1, replication_factor=1, configs=each) for name, each in configs.items()
        ]
        response = await ask(CreateTopics, 7, CreateTopics.Request(topics=topics))
        told = {topic.name: {each.name: each.value for each in topic.configs} for topic in response.topics}
        assert {name: shown["retention.ms"] for name, shown in told.items()} == values | {"b": "604800000"}

    run(scenario)


def test_create_topics_returns_a_result_for_each_topic() -> None:
    async def scenario(ask: Administration) -> None:
        names = ["ok", "a/b", "twice", "twice"]
        topics = [Creatable(name=name, num_partitions=1, replication_factor=1) for name in names]
        response = await ask(CreateTopics, 7, CreateTopics.Request(topics=topics))
        assert [(result.name, result.error_code) for result in response.topics] == [
            ("ok", 0),
            ("a/b", errors.InvalidTopicException.code),
            ("twice", errors.InvalidRequest.code),
        ]
        assert response.topics[1].topic_id == ZERO_UUID

    run(scenario)


def test_create_topics_with_validate_only_creates_nothing() -> None:
    async def scenario(ask: Administration) -> None:
        topic = Creatable(name="t", num_partitions=1, replication_factor=1)
        request = CreateTopics.Request(topics=[topic], validate_only=True)
        assert (await ask(CreateTopics, 7, request)).topics[0].error_code == 0
        assert ask.node.metadata.image.topics == {}

    run(scenario)


def test_a_broker_that_finds_no_controller_refuses_topic_changes_with_not_controller() -> None:
    async def scenario(ask: Administration) -> None:
        ask.node.controller.step_down()
        topic = Creatable(name="t", num_partitions=1, replication_factor=1)
        response = await ask(CreateTopics, 7, CreateTopics.Request(topics=[topic]))
        assert response.topics[0].error_code == errors.NotController.code
        deleted = await ask(DeleteTopics, 5, DeleteTopics.Request(topic_names=["t"]))
        assert deleted.responses[0].error_code == errors.NotController.code
        grown = CreatePartitions.Request(topics=[Grown(name="t", count=2, assignments=None)])
        response = await ask(CreatePartitions, 3, grown)
        assert response.results[0].error_code == errors.NotController.code
        elected = await ask(ElectLeaders, 2, ElectLeaders.Request(topic_partitions=None))
        assert elected.error_code == errors.NotController.code

    run(scenario)


def test_topics_are_deleted_by_name_and_by_id() -> None:
    async def scenario(ask: Administration) -> None:
        await ask.node.controller.create_topics([NewTopic(name, 1, 1) for name in "abc"])
        response = await ask(DeleteTopics, 1, DeleteTopics.Request(topic_names=["a", "no"]))
        assert [(r.name, r.error_code) for r in response.responses] == [
            ("a", 0),
            ("no", errors.UnknownTopicOrPartition.code),
        ]
        state = DeleteTopics.Request.DeleteTopicState
        topic_id = ask.node.metadata.image.topics["b"].id
        request = DeleteTopics.Request(
            topics=[
                state(name="c"),
                state(name=None, topic_id=topic_id),
                state(name=None, topic_id=b"x" * 16),
                state(name="c2", topic_id=topic_id),
            ]
        )
        response = await ask(DeleteTopics, 6, request)
        assert [(r.name, r.error_code) for r in response.responses] == [
            ("c", 0),
            ("b", 0),
            (None, errors.UnknownTopicId.code),
            ("c2", errors.InvalidRequest.code),
        ]
        assert response.responses[1].topic_id == topic_id
        assert ask.node.metadata.image.topics == {}

    run(scenario)


@pytest.mark.parametrize(
    ("version", "error"), [(2, errors.InvalidRequest), (3, errors.TopicDeletionDisabled)]
)
def test_delete_topics_is_refused_if_delete_topic_enable_is_false(version: int, error: type[errors.KafkaError]) -> None:
    async def scenario(ask: Administration) -> None:
        response = await ask(DeleteTopics, version, DeleteTopics.Request(topic_names=["a"]))
        assert response.responses[0].error_code == error.code

    run(scenario, {"delete.topic.enable": "false"})


def test_a_topic_that_a_long_request_names_twice_is_refused() -> None:
    """It is refused even if it is in different pieces: the request is written piece by piece."""

    async def scenario(ask: Administration) -> None:
        names = [f"t{number}" for number in range(600)]
        twice = [names[0], names[300], names[-1]]
        codes = {name: errors.InvalidRequest.code if name in twice else 0 for name in names}
        asked = [*names, *twice, *twice]
        created = await ask(
            CreateTopics,
            7,
            CreateTopics.Request(topics=[Creatable(name=n, num_partitions=1, replication_factor=1) for n in asked]),
        )
        assert {result.name: result.error_code for result in created.topics} == codes
        assert len(created.topics) == len(codes)
        assert ask.node.metadata.image.topics.keys() == set(names) - set(twice)
        await ask.node.controller.create_topics([NewTopic(name, 1, 1) for name in twice])

        more = [Grown(name=name, count=2, assignments=None) for name in asked]
        grown = await ask(CreatePartitions, 3, CreatePartitions.Request(topics=more))
        assert {result.name: result.error_code for result in grown.results} == codes
        assert len(grown.results) == len(codes)
        topics = ask.node.metadata.image.topics
        assert {name for name, topic in topics.items() if len(topic.partitions) == 1} == set(twice)

        state = DeleteTopics.Request.DeleteTopicState
        by_name = [state(name=name) for name in [*asked, "unknown", "unknown"]]
        by_id = [state(name=None, topic_id=topics[name].id) for name in names[1:3]]
        gone = await ask(DeleteTopics, 6, DeleteTopics.Request(topics=[*by_name, *by_id]))
        twice += names[1:3]
        codes = {name: errors.InvalidRequest.code if name in twice else 0 for name in names}
        assert {result.name: result.error_code for result in gone.responses} == {
            **codes,
            "unknown": errors.InvalidRequest.code,
            None: errors.InvalidRequest.code,
        }
        assert ask.node.metadata.image.topics.keys() == set(twice)
        gone = await ask(DeleteTopics, 5, DeleteTopics.Request(topic_names=[*names, *names]))
        assert {result.error_code for result in gone.responses} == {errors.InvalidRequest.code}
        assert ask.node.metadata.image.topics.keys() == set(twice)

    run(scenario)


def test_the_topics_of_a_long_forwarded_request_are_created_in_several_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(ask: Administration) -> None:
        sizes: list[int] = []
        plain = ask.node.controller.create_topics

        async def create(wanted: list[NewTopic], **options: bool) -> Any:
            sizes.append(len(wanted))
            return await plain(wanted, **options)

        monkeypatch.setattr(ask.node.controller, "create_topics", create)
        monkeypatch.setattr(envelope, "asking_broker", lambda call: 2)
        topics = [Creatable(name=f"t{number}", num_partitions=1, replication_factor=1) for number in range(450)]
        frame = CreateTopics.encode_request(7, 0, "c", CreateTopics.Request(topics=topics))
        request = Envelope.Request(request_data=forwarding._joined(frame), request_principal=None)
        call = Call(ask.broker, 0, "b", FakeConnection())
        response = await envelope.handle(request, call)
        assert response.error_code == 0
        assert len(ask.node.metadata.image.topics) == sum(sizes) == 450
        assert max(sizes) <= 200
        assert call.connection.held == 0

    run(scenario)


def test_many_topics_are_deleted_in_pieces_of_100(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size does not depend on the time that a piece takes. Another broker gets the same pieces."""

    async def scenario(ask: Administration) -> None:
        ask.broker.turns = OneItemTurns()
        sizes: dict[str, list[int]] = {"here": [], "there": []}

        async def delete(names: list[Any]) -> list[Any]:
            sizes["here"].append(len(names))
            return [errors.UnknownTopicOrPartition()] * len(names)

        async def hand_on(api: Any, version: int, client_id: str, request: Any, asker: Any) -> Any:
            sizes["there"].append(len(request.topic_names))
            result = DeleteTopics.Response.DeletableTopicResult
            return DeleteTopics.Response(responses=[result(name=name) for name in request.topic_names])

        monkeypatch.setattr(ask.node.controller, "delete_topics", delete)
        ask.broker.forwarding.ask = hand_on
        names = [f"t{number}" for number in range(250)]
        for _ in sizes:
            response = await ask(DeleteTopics, 5, DeleteTopics.Request(topic_names=names))
            assert [each.name for each in response.responses] == names
            ask.node.controller.step_down()
        assert sizes == {"here": [100, 100, 50], "there": [100, 100, 50]}

    run(scenario)


Moved = AlterPartitionReassignments.Request.ReassignablePartition


def moving(*indexes: int) -> AlterPartitionReassignments.Request:
    topic = AlterPartitionReassignments.Request.ReassignableTopic
    return AlterPartitionReassignments.Request(
        topics=[
            topic(name=name, partitions=[Moved(partition_index=index, replicas=[1]) for index in indexes])
            for name in ("t", "u")
        ]
    )


def test_a_partition_that_a_reassignment_names_twice_is_refused() -> None:
    """It is refused even if it is in different pieces. Partitions that a long request names once are moved."""

    async def scenario(ask: Administration) -> None:
        await ask.node.controller.create_topics([NewTopic("t", 150, 1), NewTopic("u", 150, 1)])
        twice = {0, 99, 149}
        response = await ask(AlterPartitionReassignments, 0, moving(*range(150), *twice, *twice))
        assert [topic.name for topic in response.responses] == ["t", "u"]
        for topic in response.responses:
            codes = {(each.partition_index, each.error_code) for each in topic.partitions}
            assert codes == {(i, errors.InvalidRequest.code if i in twice else 0) for i in range(150)}

    run(scenario)


def test_a_long_reassignment_stops_at_the_first_error_and_returns_its_message(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(ask: Administration) -> None:
        calls: list[int] = []

        async def refuse(wanted: list[Any], **options: bool) -> list[None]:
            calls.append(len(wanted))
            if len(calls) > 1:
                raise errors.NotController(f"in piece {len(calls)}")
            return [None] * len(wanted)

        monkeypatch.setattr(ask.node.controller, "alter_reassignments", refuse)
        response = await ask(AlterPartitionReassignments, 0, moving(*range(150)))
        assert (response.error_code, response.error_message) == (errors.NotController.code, "in piece 2")
        assert calls == [100, 100]

    run(scenario)


def test_an_election_for_many_partitions_returns_results_in_the_order_of_the_request() -> None:
    async def scenario(ask: Administration) -> None:
        await ask.node.controller.create_topics([NewTopic("t", 150, 1), NewTopic("u", 150, 1)])
        kind = ElectLeaders.Request.TopicPartitions
        topics = [kind(topic=name, partitions=list(range(151))) for name in ("t", "u")]
        response = await ask(ElectLeaders, 2, ElectLeaders.Request(topic_partitions=topics))
        needless, unknown = errors.ElectionNotNeeded.code, errors.UnknownTopicOrPartition.code
        assert [
            (topic.topic, [(each.partition_id, each.error_code) for each in topic.partition_result])
            for topic in response.replica_election_results
        ] == [(name, [*((i, needless) for i in range(150)), (150, unknown)]) for name in ("t", "u")]

    run(scenario)


def test_create_partitions_adds_partitions_and_reports_an_unknown_topic() -> None:
    async def scenario(ask: Administration) -> None:
        await ask.node.controller.create_topics([NewTopic("t", 1, 1)])
        by_hand = CreatePartitions.Request.CreatePartitionsAssignment(broker_ids=[1])
        topics = [Grown(name="t", count=2, assignments=[by_hand]), Grown(name="u", count=2)]
        response = await ask(CreatePartitions, 3, CreatePartitions.Request(topics=topics))
        assert [(r.name, r.error_code) for r in response.results] == [
            ("t", 0),
            ("u", errors.UnknownTopicOrPartition.code),
        ]
        assert response.results[0].error_message is None
        assert len(ask.node.metadata.image.topics["t"].partitions) == 2

    run(scenario)


def test_elect_leaders_reports_a_partition_that_needs_no_election() -> None:
    async def scenario(ask: Administration) -> None:
        await ask.node.controller.create_topics([NewTopic("t", 1, 1)])
        asked = ElectLeaders.Request.TopicPartitions(topic="t", partitions=[0, 9])
        request = ElectLeaders.Request(election_type=0, topic_partitions=[asked])
        [result] = (await ask(ElectLeaders, 2, request)).replica_election_results
        assert [(r.partition_id, r.error_code) for r in result.partition_result] == [
            (0, errors.ElectionNotNeeded.code),
            (9, errors.UnknownTopicOrPartition.code),
        ]
        everything = await ask(ElectLeaders, 2, ElectLeaders.Request(topic_partitions=None))
        assert everything.replica_election_results[0].partition_result == []
        wrong = await ask(ElectLeaders, 2, ElectLeaders.Request(election_type=7))
        assert wrong.error_code == errors.InvalidRequest.code

    run(scenario)
