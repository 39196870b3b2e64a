"""AlterPartition between brokers: converts a leader's proposals and their outcomes to messages and back."""

from __future__ import annotations

from collections.abc import Sequence

from pybroker.cluster.decisions.isr_changes import InSync, IsrChange, IsrOutcome
from pybroker.cluster.metadata.image import PartitionImage
from pyclient.protocol import AlterPartition, errors
from pyclient.protocol.errors import KafkaError

Request = AlterPartition.Request
Response = AlterPartition.Response


def request_of(leader: int, broker_epoch: int, changes: Sequence[IsrChange]) -> AlterPartition.Request:
    """Returns the request of a leader."""
    request = Request(broker_id=leader, broker_epoch=broker_epoch)
    for change in changes:
        if not request.topics or request.topics[-1].topic_id != change.topic_id:
            request.topics.append(Request.TopicData(topic_id=change.topic_id))
        request.topics[-1].partitions.append(
            Request.PartitionData(
                partition_index=change.partition,
                leader_epoch=change.leader_epoch,
                partition_epoch=change.partition_epoch,
                new_isr_with_epochs=[
                    Request.BrokerState(broker_id=member.broker, broker_epoch=member.epoch) for member in change.isr
                ],
            )
        )
    return request


def changes_of(request: AlterPartition.Request) -> list[IsrChange]:
    """Returns the proposals of a request."""
    return [
        IsrChange(
            topic.topic_id,
            each.partition_index,
            each.leader_epoch,
            each.partition_epoch,
            tuple(InSync(member.broker_id, member.broker_epoch) for member in each.new_isr_with_epochs)
            or tuple(InSync(broker) for broker in each.new_isr),
        )
        for topic in request.topics
        for each in topic.partitions
    ]


def response_of(changes: Sequence[IsrChange], outcomes: Sequence[IsrOutcome]) -> AlterPartition.Response:
    """Returns the answer to the request that proposed ``changes``."""
    response = Response()
    for change, outcome in zip(changes, outcomes, strict=True):
        if not response.topics or response.topics[-1].topic_id != change.topic_id:
            response.topics.append(Response.TopicData(topic_id=change.topic_id))
        response.topics[-1].partitions.append(_outcome(change, outcome))
    return response


def _outcome(change: IsrChange, outcome: IsrOutcome) -> AlterPartition.Response.PartitionData:
    if isinstance(outcome, KafkaError):
        return Response.PartitionData(partition_index=change.partition, error_code=outcome.code)
    return Response.PartitionData(
        partition_index=change.partition,
        leader_id=outcome.leader,
        leader_epoch=outcome.leader_epoch,
        isr=list(outcome.isr),
        partition_epoch=outcome.partition_epoch,
    )


def outcomes_of(changes: Sequence[IsrChange], response: AlterPartition.Response) -> list[IsrOutcome]:
    """Returns the outcome of each change. Raises the KafkaError of the whole response, if it has one."""
    refusal = errors.by_code(response.error_code)
    if refusal is not None:
        raise refusal
    answers = {(topic.topic_id, each.partition_index): each for topic in response.topics for each in topic.partitions}
    return [_heard(change, answers.get((change.topic_id, change.partition))) for change in changes]


def _heard(change: IsrChange, answer: AlterPartition.Response.PartitionData | None) -> IsrOutcome:
    if answer is None:
        return errors.UnknownServerError("the controller's answer does not contain this partition")
    refusal = errors.by_code(answer.error_code)
    if refusal is not None:
        return refusal()
    replicas = tuple(member.broker for member in change.isr)
    return PartitionImage(
        change.partition, answer.leader_id, answer.leader_epoch, answer.partition_epoch, replicas, tuple(answer.isr)
    )
