# Written by python -m pyclient.protocol.stubs: do not edit.

from collections.abc import Sequence
from typing import ClassVar, Final

NONE: Final = 0
FATAL: frozenset[str]
WITH_RECORD_ERRORS: tuple[str, ...]
ROWS: tuple[tuple[int, str, bool, str], ...]

class KafkaError(Exception):
    """An error of Kafka's table. ``str(error)`` is the message if given, else the row's text."""

    code: ClassVar[int]
    name: ClassVar[str]
    retriable: ClassVar[bool]
    fatal: ClassVar[bool]
    text: ClassVar[str]
    grant: str
    """The command that grants the missing right, if the client knows it."""
    def __init__(self, message: str | None = None) -> None: ...

def without_frames(error: KafkaError) -> KafkaError: ...
def class_name(name: str) -> str: ...
def by_code(code: int) -> type[KafkaError] | None: ...

class UnknownServerError(KafkaError): ...  # -1: The server met an unexpected error.
class OffsetOutOfRange(KafkaError): ...  # 1: The offset is not within the range held by the server.
class CorruptMessage(KafkaError): ...  # 2, retriable: The batch fails its CRC, has an impossible size or is corrupt.
class UnknownTopicOrPartition(KafkaError): ...  # 3, retriable: This server does not host this topic-partition.
class InvalidFetchSize(KafkaError): ...  # 4: The requested fetch size is invalid.
class LeaderNotAvailable(KafkaError): ...  # 5, retriable: There is no leader for this topic-partition now.
class NotLeaderOrFollower(KafkaError): ...  # 6, retriable: This broker is not the leader, or not a replica.
class RequestTimedOut(KafkaError): ...  # 7, retriable: The request timed out.
class BrokerNotAvailable(KafkaError): ...  # 8: The broker is not available.
class ReplicaNotAvailable(KafkaError): ...  # 9, retriable: The replica is not available for this topic-partition.
class MessageTooLarge(KafkaError): ...  # 10: A batch is larger than the server accepts.
class StaleControllerEpoch(KafkaError): ...  # 11: The controller moved to another broker.
class OffsetMetadataTooLarge(KafkaError): ...  # 12: The metadata of the offset is too large.
class NetworkException(KafkaError): ...  # 13, retriable: The server disconnected before a response was received.
class CoordinatorLoadInProgress(KafkaError): ...  # 14, retriable: The coordinator is loading.
class CoordinatorNotAvailable(KafkaError): ...  # 15, retriable: The coordinator is not available.
class NotCoordinator(KafkaError): ...  # 16, retriable: This is not the coordinator.
class InvalidTopicException(KafkaError): ...  # 17: The topic's name or use is invalid.
class RecordListTooLarge(KafkaError): ...  # 18: The batch is larger than a segment of the log.
class NotEnoughReplicas(KafkaError): ...  # 19, retriable: Refused: fewer in-sync replicas than required.
class NotEnoughReplicasAfterAppend(KafkaError): ...  # 20, retriable: Written, to fewer replicas than required.
class InvalidRequiredAcks(KafkaError): ...  # 21: acks is not -1, 0 or 1.
class IllegalGeneration(KafkaError): ...  # 22: The generation is not the group's current one.
class InconsistentGroupProtocol(KafkaError): ...  # 23: The member's protocols do not fit the group's.
class InvalidGroupId(KafkaError): ...  # 24: The group id is invalid.
class UnknownMemberId(KafkaError): ...  # 25: The coordinator does not know this member.
class InvalidSessionTimeout(KafkaError): ...  # 26: The session timeout is outside the broker's range.
class RebalanceInProgress(KafkaError): ...  # 27: The group is rebalancing: join again.
class InvalidCommitOffsetSize(KafkaError): ...  # 28: The committed offset's data size is invalid.
class TopicAuthorizationFailed(KafkaError): ...  # 29: Not authorized for the topic.
class GroupAuthorizationFailed(KafkaError): ...  # 30: Not authorized for the group.
class ClusterAuthorizationFailed(KafkaError): ...  # 31: Not authorized for the cluster.
# 32: The timestamp of the message is out of range.
class InvalidTimestamp(KafkaError):
    record_errors: list[tuple[int, str]]
    def __init__(
        self, message: str | None = None, record_errors: Sequence[tuple[int, str]] = ()
    ) -> None: ...
class UnsupportedSaslMechanism(KafkaError): ...  # 33: The broker does not support the SASL mechanism.
class IllegalSaslState(KafkaError): ...  # 34: The request is not valid in this SASL state.
class UnsupportedVersion(KafkaError): ...  # 35: The version of the API is not supported.
class TopicAlreadyExists(KafkaError): ...  # 36: A topic of this name exists.
class InvalidPartitions(KafkaError): ...  # 37: The number of partitions is invalid.
class InvalidReplicationFactor(KafkaError): ...  # 38: Replication factor below 1 or above the brokers.
class InvalidReplicaAssignment(KafkaError): ...  # 39: The replica assignment is invalid.
class InvalidConfig(KafkaError): ...  # 40: The configuration is invalid.
class NotController(KafkaError): ...  # 41, retriable: This is not the controller of the cluster.
class InvalidRequest(KafkaError): ...  # 42: The request contradicts the protocol.
class UnsupportedForMessageFormat(KafkaError): ...  # 43: The message format does not support this.
class PolicyViolation(KafkaError): ...  # 44: The request violates a policy of the broker.
class OutOfOrderSequenceNumber(KafkaError): ...  # 45: The sequence number leaves a gap.
class DuplicateSequenceNumber(KafkaError): ...  # 46: The sequence number was seen before.
class InvalidProducerEpoch(KafkaError): ...  # 47: The producer's epoch is older than the current one.
class InvalidTxnState(KafkaError): ...  # 48: The transaction is not in a state that allows this.
class InvalidProducerIdMapping(KafkaError): ...  # 49: The producer id does not belong to the transactional id.
class InvalidTransactionTimeout(KafkaError): ...  # 50: The timeout exceeds transaction.max.timeout.ms.
class ConcurrentTransactions(KafkaError): ...  # 51, retriable: The previous operation on the transaction is still in progress.
class TransactionCoordinatorFenced(KafkaError): ...  # 52: The marker's coordinator was replaced.
class TransactionalIdAuthorizationFailed(KafkaError): ...  # 53: Not authorized for this id.
class SecurityDisabled(KafkaError): ...  # 54: Security features are disabled.
class OperationNotAttempted(KafkaError): ...  # 55: Not tried, because another part of the request failed.
class KafkaStorageError(KafkaError): ...  # 56, retriable: The disk failed under a log.
class LogDirNotFound(KafkaError): ...  # 57: The log directory is not one of the broker's.
class SaslAuthenticationFailed(KafkaError): ...  # 58: SASL authentication failed.
class UnknownProducerId(KafkaError): ...  # 59: The broker has no state for this producer id.
class ReassignmentInProgress(KafkaError): ...  # 60: A partition reassignment is in progress.
class DelegationTokenAuthDisabled(KafkaError): ...  # 61: Delegation tokens are not enabled.
class DelegationTokenNotFound(KafkaError): ...  # 62: The delegation token is unknown.
class DelegationTokenOwnerMismatch(KafkaError): ...  # 63: The principal is not its owner or renewer.
class DelegationTokenRequestNotAllowed(KafkaError): ...  # 64: Not allowed over this channel.
class DelegationTokenAuthorizationFailed(KafkaError): ...  # 65: Not authorized for the token.
class DelegationTokenExpired(KafkaError): ...  # 66: The delegation token has expired.
class InvalidPrincipalType(KafkaError): ...  # 67: The principal type is not supported.
class NonEmptyGroup(KafkaError): ...  # 68: The group is not empty.
class GroupIdNotFound(KafkaError): ...  # 69: The group id does not exist.
class FetchSessionIdNotFound(KafkaError): ...  # 70, retriable: The fetch session is unknown.
class InvalidFetchSessionEpoch(KafkaError): ...  # 71, retriable: The fetch session epoch is invalid.
class ListenerNotFound(KafkaError): ...  # 72, retriable: The leader has no listener with this listener's name.
class TopicDeletionDisabled(KafkaError): ...  # 73: Topic deletion is disabled.
class FencedLeaderEpoch(KafkaError): ...  # 74, retriable: The request's leader epoch is older than the broker's.
class UnknownLeaderEpoch(KafkaError): ...  # 75, retriable: The request's leader epoch is newer than the broker's.
class UnsupportedCompressionType(KafkaError): ...  # 76: The client does not support the compression.
class StaleBrokerEpoch(KafkaError): ...  # 77: The broker's epoch has changed.
class OffsetNotAvailable(KafkaError): ...  # 78, retriable: The new leader's high watermark has not caught up.
class MemberIdRequired(KafkaError): ...  # 79: Join again with the member id given here.
class PreferredLeaderNotAvailable(KafkaError): ...  # 80, retriable: The preferred leader was not available.
class GroupMaxSizeReached(KafkaError): ...  # 81: The group has reached its maximum size.
class FencedInstanceId(KafkaError): ...  # 82: Another member took this group.instance.id.
class EligibleLeadersNotAvailable(KafkaError): ...  # 83, retriable: No eligible leader is available.
class ElectionNotNeeded(KafkaError): ...  # 84, retriable: The partition needs no election.
class NoReassignmentInProgress(KafkaError): ...  # 85: No partition reassignment is in progress.
class GroupSubscribedToTopic(KafkaError): ...  # 86: The group is subscribed to the topic.
# 87: A record failed the broker's validation.
class InvalidRecord(KafkaError):
    record_errors: list[tuple[int, str]]
    def __init__(
        self, message: str | None = None, record_errors: Sequence[tuple[int, str]] = ()
    ) -> None: ...
class UnstableOffsetCommit(KafkaError): ...  # 88, retriable: Offsets of an open transaction are pending.
class ThrottlingQuotaExceeded(KafkaError): ...  # 89, retriable: The throttling quota has been exceeded.
class ProducerFenced(KafkaError): ...  # 90: A newer producer or an administrator has fenced this one.
class ResourceNotFound(KafkaError): ...  # 91: The request names a resource that does not exist.
class DuplicateResource(KafkaError): ...  # 92: The request names a resource twice.
class UnacceptableCredential(KafkaError): ...  # 93: The credential is not acceptable.
class InconsistentVoterSet(KafkaError): ...  # 94: Sender or recipient is not one of the voters.
class InvalidUpdateVersion(KafkaError): ...  # 95: The update's version is invalid.
class FeatureUpdateFailed(KafkaError): ...  # 96: The finalized features could not be updated.
class PrincipalDeserializationFailure(KafkaError): ...  # 97: The forwarded principal does not parse.
class SnapshotNotFound(KafkaError): ...  # 98: The snapshot was not found.
class PositionOutOfRange(KafkaError): ...  # 99: The position lies outside the snapshot.
class UnknownTopicId(KafkaError): ...  # 100, retriable: This server does not host this topic id.
class DuplicateBrokerRegistration(KafkaError): ...  # 101: The broker id is in use.
class BrokerIdNotRegistered(KafkaError): ...  # 102: The broker id is not registered.
class InconsistentTopicId(KafkaError): ...  # 103, retriable: The log's topic id is not the request's.
class InconsistentClusterId(KafkaError): ...  # 104: The request's cluster id is not the server's.
class TransactionalIdNotFound(KafkaError): ...  # 105: The transactional id is unknown.
class FetchSessionTopicIdError(KafkaError): ...  # 106, retriable: The session mixes topic ids and names.
class IneligibleReplica(KafkaError): ...  # 107: The new ISR holds an ineligible replica.
class NewLeaderElected(KafkaError): ...  # 108: The ISR was changed, and another leader was elected.
class OffsetMovedToTieredStorage(KafkaError): ...  # 109: The offset moved to tiered storage.
class FencedMemberEpoch(KafkaError): ...  # 110: The member's epoch is fenced: give up all and rejoin.
class UnreleasedInstanceId(KafkaError): ...  # 111: Another member still has this instance id.
class UnsupportedAssignor(KafkaError): ...  # 112: The group does not support the assignor.
class StaleMemberEpoch(KafkaError): ...  # 113: The member's epoch is stale: heartbeat, then retry.
class MismatchedEndpointType(KafkaError): ...  # 114: The endpoint is of the wrong type.
class UnsupportedEndpointType(KafkaError): ...  # 115: The endpoint type is not supported.
class UnknownControllerId(KafkaError): ...  # 116: The controller id is unknown.
class UnknownSubscriptionId(KafkaError): ...  # 117: The telemetry subscription is unknown or outdated.
class TelemetryTooLarge(KafkaError): ...  # 118: The telemetry is larger than the broker accepts.
class InvalidRegistration(KafkaError): ...  # 119: The controller considers the registration invalid.
class TransactionAbortable(KafkaError): ...  # 120: The transaction failed: abort it and continue.
class InvalidRecordState(KafkaError): ...  # 121: The record's state does not allow the acknowledgement.
class ShareSessionNotFound(KafkaError): ...  # 122, retriable: The share session is unknown.
class InvalidShareSessionEpoch(KafkaError): ...  # 123, retriable: The share session epoch is invalid.
class FencedStateEpoch(KafkaError): ...  # 124: The share group's state epoch does not match.
class InvalidVoterKey(KafkaError): ...  # 125: The voter key is not the receiving replica's.
class DuplicateVoter(KafkaError): ...  # 126: The voter is in the set of voters.
class VoterNotFound(KafkaError): ...  # 127: The voter is not in the set of voters.
class InvalidRegularExpression(KafkaError): ...  # 128: The regular expression is not valid.
class RebootstrapRequired(KafkaError): ...  # 129: The client's metadata is stale: bootstrap again.
class StreamsInvalidTopology(KafkaError): ...  # 130: The topology is invalid.
class StreamsInvalidTopologyEpoch(KafkaError): ...  # 131: The topology epoch is invalid.
class StreamsTopologyFenced(KafkaError): ...  # 132: The topology epoch is outdated.
class ShareSessionLimitReached(KafkaError): ...  # 133, retriable: The limit of share sessions has been reached.
class GroupDeletionFailed(KafkaError): ...  # 134: The group was not deleted; the message says why.
class StreamsTopologyDescriptionUpdateFailed(KafkaError): ...  # 135: The description of the topology was not updated.
class ControllerIdNotRegistered(KafkaError): ...  # 136: The controller id is not registered.
