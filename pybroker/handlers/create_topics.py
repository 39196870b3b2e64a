"""CreateTopics (19), 2-7: creates topics. From v4 on, counts of -1 mean the defaults (KIP-464). Version 5 returns
configurations (KIP-525), v7 topic ids (KIP-516).

The reply comes when the topics are durable and visible. Their logs may be created later, at the latest for the first
request that needs them.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

from pybroker.cluster.decisions.plan import NewTopic, Outcome
from pybroker.cluster.decisions.topics import MAX_PARTITIONS_PER_REQUEST
from pybroker.cluster.metadata.image import Configs, TopicImage
from pybroker.config import TOPICS, BrokerConfig, describe_topic_key
from pybroker.handlers.common.call import Call
from pybroker.handlers.common.forwarding import forwarded
from pybroker.handlers.common.mutation_quota import Mutation, within_quota
from pybroker.handlers.common.security.rights import CREATE_CLUSTER, CREATE_TOPIC, DESCRIBE_CONFIGS_TOPIC, may
from pybroker.handlers.common.writes import in_writes
from pyclient.protocol import CreateTopics, errors
from pyclient.protocol.errors import KafkaError

if TYPE_CHECKING:
    Creatable = CreateTopics.Request.CreatableTopic
    Result = CreateTopics.Response.CreatableTopicResult
    Config = CreateTopics.Response.CreatableTopicConfigs

_LISTS: Final = "topics", "topics"
_DENIED: Final = errors.TopicAuthorizationFailed()


def _cost(topic: Creatable, call: Call) -> int:
    count = len(topic.assignments) or topic.num_partitions
    if count == -1:
        count = call.broker.config["num.partitions"]
    is_there = call.broker.metadata.image.topic(topic.name) is not None
    return 0 if is_there or count > MAX_PARTITIONS_PER_REQUEST else count


_MUTATION: Final = Mutation(
    lists=lambda version: _LISTS,
    strict_since=6,
    key=lambda topic, call: topic.name,
    cost=_cost,
    is_permitted=lambda topic, call: (
        may(call, CREATE_CLUSTER, is_told=False) or may(call, CREATE_TOPIC, topic.name, is_told=False)
    ),
    refused=lambda topic, error: _failed(topic.name, error),
)


@within_quota(_MUTATION)
async def handle(request: CreateTopics.Request, call: Call) -> CreateTopics.Response:
    """Answers with one result per topic, in the order of the request. A repeated name gets only one result."""
    response: CreateTopics.Response = await in_writes(request, call, _at_controller, _LISTS, attrgetter("name"))
    return response


async def _create(request: CreateTopics.Request, call: Call) -> CreateTopics.Response:
    may_create_any = call.broker.authorizer is None or may(call, CREATE_CLUSTER, is_told=False)
    by_name: dict[str, Outcome] = dict.fromkeys((topic.name for topic in request.topics), _DENIED)
    wanted = [
        _new_topic(topic) for topic in request.topics if may_create_any or may(call, CREATE_TOPIC, topic.name)
    ]
    outcomes: list[Outcome]
    try:
        outcomes = await call.broker.controller.create_topics(
            wanted, validate_only=request.validate_only
        )
    except KafkaError as error:
        outcomes = [error] * len(wanted)
    by_name |= {topic.name: outcome for topic, outcome in zip(wanted, outcomes, strict=True)}
    described = _Described(call.broker.config)
    results = [_result(name, outcome, described, call) for name, outcome in by_name.items()]
    return CreateTopics.Response(topics=results)


_at_controller = forwarded(CreateTopics, _create)


def _new_topic(topic: Creatable) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        tuple((a.partition_index, tuple(a.broker_ids)) for a in topic.assignments),
        tuple((config.name, config.value) for config in topic.configs),
    )


def _failed(name: str, error: KafkaError) -> Result:
    return CreateTopics.Response.CreatableTopicResult(name=name, error_code=error.code, error_message=str(error))


def _result(name: str, outcome: Outcome, described: _Described, call: Call) -> Result:
    if not isinstance(outcome, TopicImage):
        return _failed(name, outcome)
    if not may(call, DESCRIBE_CONFIGS_TOPIC, name, is_told=False):
        return CreateTopics.Response.CreatableTopicResult(
            name=name, topic_id=outcome.id, error_message=None, topic_config_error_code=_DENIED.code
        )
    return CreateTopics.Response.CreatableTopicResult(
        name=name,
        topic_id=outcome.id,
        error_message=None,
        num_partitions=len(outcome.partitions),
        replication_factor=len(outcome.partitions[0].replicas),
        configs=described.of(outcome.configs),
    )


class _Described:
    """Describes the settings of the topics in a request. Topics with the same overrides share one description."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._found: dict[frozenset[tuple[str, str]], list[Config]] = {}

    def of(self, overrides: Configs) -> list[Config]:
        """Returns all settings of a topic with these overrides."""
        key = frozenset(overrides.items())
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = [self._describe(name, overrides) for name in sorted(TOPICS)]
        return found

    def _describe(self, name: str, overrides: Configs) -> Config:
        shown = describe_topic_key(self._config, name, overrides)
        return CreateTopics.Response.CreatableTopicConfigs(
            name=name,
            value=shown.text,
            read_only=False,
            config_source=shown.source,
            is_sensitive=TOPICS[name].is_sensitive,
        )
