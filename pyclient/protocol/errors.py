"""Kafka's errors: one row per code, and one exception class per row.

The core raises the exception (``raise errors.OffsetOutOfRange("offset 7 is below log start 9")``); the handler at the
boundary turns it into a code (``error.code``). A class is named by its row in CamelCase: ``OFFSET_OUT_OF_RANGE`` is
``OffsetOutOfRange``; ``errors.pyi`` tells a type checker so.

``retriable`` is as in Kafka's Java clients: the same request may succeed if sent again.

The codes are those of Kafka 4.4.0; code 0, ``NONE``, is not an error and has no class.
"""

from __future__ import annotations

from collections.abc import Sequence

NONE = 0

# code, name, retriable, text
ROWS: tuple[tuple[int, str, bool, str], ...] = (
    (-1, "UNKNOWN_SERVER_ERROR", False, "The server met an unexpected error."),
    (1, "OFFSET_OUT_OF_RANGE", False, "The offset is not within the range held by the server."),
    (2, "CORRUPT_MESSAGE", True, "The batch fails its CRC, has an impossible size or is corrupt."),
    (3, "UNKNOWN_TOPIC_OR_PARTITION", True, "This server does not host this topic-partition."),
    (4, "INVALID_FETCH_SIZE", False, "The requested fetch size is invalid."),
    (5, "LEADER_NOT_AVAILABLE", True, "There is no leader for this topic-partition now."),
    (6, "NOT_LEADER_OR_FOLLOWER", True, "This broker is not the leader, or not a replica."),
    (7, "REQUEST_TIMED_OUT", True, "The request timed out."),
    (8, "BROKER_NOT_AVAILABLE", False, "The broker is not available."),
    (9, "REPLICA_NOT_AVAILABLE", True, "The replica is not available for this topic-partition."),
    (10, "MESSAGE_TOO_LARGE", False, "A batch is larger than the server accepts."),
    (11, "STALE_CONTROLLER_EPOCH", False, "The controller moved to another broker."),
    (12, "OFFSET_METADATA_TOO_LARGE", False, "The metadata of the offset is too large."),
    (13, "NETWORK_EXCEPTION", True, "The server disconnected before a response was received."),
    (14, "COORDINATOR_LOAD_IN_PROGRESS", True, "The coordinator is loading."),
    (15, "COORDINATOR_NOT_AVAILABLE", True, "The coordinator is not available."),
    (16, "NOT_COORDINATOR", True, "This is not the coordinator."),
    (17, "INVALID_TOPIC_EXCEPTION", False, "The topic's name or use is invalid."),
    (18, "RECORD_LIST_TOO_LARGE", False, "The batch is larger than a segment of the log."),
    (19, "NOT_ENOUGH_REPLICAS", True, "Refused: fewer in-sync replicas than required."),
    (20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", True, "Written, to fewer replicas than required."),
    (21, "INVALID_REQUIRED_ACKS", False, "acks is not -1, 0 or 1."),
    (22, "ILLEGAL_GENERATION", False, "The generation is not the group's current one."),
    (23, "INCONSISTENT_GROUP_PROTOCOL", False, "The member's protocols do not fit the group's."),
    (24, "INVALID_GROUP_ID", False, "The group id is invalid."),
    (25, "UNKNOWN_MEMBER_ID", False, "The coordinator does not know this member."),
    (26, "INVALID_SESSION_TIMEOUT", False, "The session timeout is outside the broker's range."),
    (27, "REBALANCE_IN_PROGRESS", False, "The group is rebalancing: join again."),
    (28, "INVALID_COMMIT_OFFSET_SIZE", False, "The committed offset's data size is invalid."),
    (29, "TOPIC_AUTHORIZATION_FAILED", False, "Not authorized for the topic."),
    (30, "GROUP_AUTHORIZATION_FAILED", False, "Not authorized for the group."),
    (31, "CLUSTER_AUTHORIZATION_FAILED", False, "Not authorized for the cluster."),
    (32, "INVALID_TIMESTAMP", False, "The timestamp of the message is out of range."),
    (33, "UNSUPPORTED_SASL_MECHANISM", False, "The broker does not support the SASL mechanism."),
    (34, "ILLEGAL_SASL_STATE", False, "The request is not valid in this SASL state."),
    (35, "UNSUPPORTED_VERSION", False, "The version of the API is not supported."),
    (36, "TOPIC_ALREADY_EXISTS", False, "A topic of this name exists."),
    (37, "INVALID_PARTITIONS", False, "The number of partitions is invalid."),
    (38, "INVALID_REPLICATION_FACTOR", False, "Replication factor below 1 or above the brokers."),
    (39, "INVALID_REPLICA_ASSIGNMENT", False, "The replica assignment is invalid."),
    (40, "INVALID_CONFIG", False, "The configuration is invalid."),
    (41, "NOT_CONTROLLER", True, "This is not the controller of the cluster."),
    (42, "INVALID_REQUEST", False, "The request contradicts the protocol."),
    (43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", False, "The message format does not support this."),
    (44, "POLICY_VIOLATION", False, "The request violates a policy of the broker."),
    (45, "OUT_OF_ORDER_SEQUENCE_NUMBER", False, "The sequence number leaves a gap."),
    (46, "DUPLICATE_SEQUENCE_NUMBER", False, "The sequence number was seen before."),
    (47, "INVALID_PRODUCER_EPOCH", False, "The producer's epoch is older than the current one."),
    (48, "INVALID_TXN_STATE", False, "The transaction is not in a state that allows this."),
    (49, "INVALID_PRODUCER_ID_MAPPING", False, "The producer id does not belong to the transactional id."),
    (50, "INVALID_TRANSACTION_TIMEOUT", False, "The timeout exceeds transaction.max.timeout.ms."),
    (51, "CONCURRENT_TRANSACTIONS", True, "The previous operation on the transaction is still in progress."),
    (52, "TRANSACTION_COORDINATOR_FENCED", False, "The marker's coordinator was replaced."),
    (53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", False, "Not authorized for this id."),
    (54, "SECURITY_DISABLED", False, "Security features are disabled."),
    (55, "OPERATION_NOT_ATTEMPTED", False, "Not tried, because another part of the request failed."),
    (56, "KAFKA_STORAGE_ERROR", True, "The disk failed under a log."),
    (57, "LOG_DIR_NOT_FOUND", False, "The log directory is not one of the broker's."),
    (58, "SASL_AUTHENTICATION_FAILED", False, "SASL authentication failed."),
    (59, "UNKNOWN_PRODUCER_ID", False, "The broker has no state for this producer id."),
    (60, "REASSIGNMENT_IN_PROGRESS", False, "A partition reassignment is in progress."),
    (61, "DELEGATION_TOKEN_AUTH_DISABLED", False, "Delegation tokens are not enabled."),
    (62, "DELEGATION_TOKEN_NOT_FOUND", False, "The delegation token is unknown."),
    (63, "DELEGATION_TOKEN_OWNER_MISMATCH", False, "The principal is not its owner or renewer."),
    (64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", False, "Not allowed over this channel."),
    (65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", False, "Not authorized for the token."),
    (66, "DELEGATION_TOKEN_EXPIRED", False, "The delegation token has expired."),
    (67, "INVALID_PRINCIPAL_TYPE", False, "The principal type is not supported."),
    (68, "NON_EMPTY_GROUP", False, "The group is not empty."),
    (69, "GROUP_ID_NOT_FOUND", False, "The group id does not exist."),
    (70, "FETCH_SESSION_ID_NOT_FOUND", True, "The fetch session is unknown."),
    (71, "INVALID_FETCH_SESSION_EPOCH", True, "The fetch session epoch is invalid."),
    (72, "LISTENER_NOT_FOUND", True, "The leader has no listener with this listener's name."),
    (73, "TOPIC_DELETION_DISABLED", False, "Topic deletion is disabled."),
    (74, "FENCED_LEADER_EPOCH", True, "The request's leader epoch is older than the broker's."),
    (75, "UNKNOWN_LEADER_EPOCH", True, "The request's leader epoch is newer than the broker's."),
    (76, "UNSUPPORTED_COMPRESSION_TYPE", False, "The client does not support the compression."),
    (77, "STALE_BROKER_EPOCH", False, "The broker's epoch has changed."),
    (78, "OFFSET_NOT_AVAILABLE", True, "The new leader's high watermark has not caught up."),
    (79, "MEMBER_ID_REQUIRED", False, "Join again with the member id given here."),
    (80, "PREFERRED_LEADER_NOT_AVAILABLE", True, "The preferred leader was not available."),
    (81, "GROUP_MAX_SIZE_REACHED", False, "The group has reached its maximum size."),
    (82, "FENCED_INSTANCE_ID", False, "Another member took this group.instance.id."),
    (83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", True, "No eligible leader is available."),
    (84, "ELECTION_NOT_NEEDED", True, "The partition needs no election."),
    (85, "NO_REASSIGNMENT_IN_PROGRESS", False, "No partition reassignment is in progress."),
    (86, "GROUP_SUBSCRIBED_TO_TOPIC", False, "The group is subscribed to the topic."),
    (87, "INVALID_RECORD", False, "A record failed the broker's validation."),
    (88, "UNSTABLE_OFFSET_COMMIT", True, "Offsets of an open transaction are pending."),
    (89, "THROTTLING_QUOTA_EXCEEDED", True, "The throttling quota has been exceeded."),
    (90, "PRODUCER_FENCED", False, "A newer producer or an administrator has fenced this one."),
    (91, "RESOURCE_NOT_FOUND", False, "The request names a resource that does not exist."),
    (92, "DUPLICATE_RESOURCE", False, "The request names a resource twice."),
    (93, "UNACCEPTABLE_CREDENTIAL", False, "The credential is not acceptable."),
    (94, "INCONSISTENT_VOTER_SET", False, "Sender or recipient is not one of the voters."),
    (95, "INVALID_UPDATE_VERSION", False, "The update's version is invalid."),
    (96, "FEATURE_UPDATE_FAILED", False, "The finalized features could not be updated."),
    (97, "PRINCIPAL_DESERIALIZATION_FAILURE", False, "The forwarded principal does not parse."),
    (98, "SNAPSHOT_NOT_FOUND", False, "The snapshot was not found."),
    (99, "POSITION_OUT_OF_RANGE", False, "The position lies outside the snapshot."),
    (100, "UNKNOWN_TOPIC_ID", True, "This server does not host this topic id."),
    (101, "DUPLICATE_BROKER_REGISTRATION", False, "The broker id is in use."),
    (102, "BROKER_ID_NOT_REGISTERED", False, "The broker id is not registered."),
    (103, "INCONSISTENT_TOPIC_ID", True, "The log's topic id is not the request's."),
    (104, "INCONSISTENT_CLUSTER_ID", False, "The request's cluster id is not the server's."),
    (105, "TRANSACTIONAL_ID_NOT_FOUND", False, "The transactional id is unknown."),
    (106, "FETCH_SESSION_TOPIC_ID_ERROR", True, "The session mixes topic ids and names."),
    (107, "INELIGIBLE_REPLICA", False, "The new ISR holds an ineligible replica."),
    (108, "NEW_LEADER_ELECTED", False, "The ISR was changed, and another leader was elected."),
    (109, "OFFSET_MOVED_TO_TIERED_STORAGE", False, "The offset moved to tiered storage."),
    (110, "FENCED_MEMBER_EPOCH", False, "The member's epoch is fenced: give up all and rejoin."),
    (111, "UNRELEASED_INSTANCE_ID", False, "Another member still has this instance id."),
    (112, "UNSUPPORTED_ASSIGNOR", False, "The group does not support the assignor."),
    (113, "STALE_MEMBER_EPOCH", False, "The member's epoch is stale: heartbeat, then retry."),
    (114, "MISMATCHED_ENDPOINT_TYPE", False, "The endpoint is of the wrong type."),
    (115, "UNSUPPORTED_ENDPOINT_TYPE", False, "The endpoint type is not supported."),
    (116, "UNKNOWN_CONTROLLER_ID", False, "The controller id is unknown."),
    (117, "UNKNOWN_SUBSCRIPTION_ID", False, "The telemetry subscription is unknown or outdated."),
    (118, "TELEMETRY_TOO_LARGE", False, "The telemetry is larger than the broker accepts."),
    (119, "INVALID_REGISTRATION", False, "The controller considers the registration invalid."),
    (120, "TRANSACTION_ABORTABLE", False, "The transaction failed: abort it and continue."),
    (121, "INVALID_RECORD_STATE", False, "The record's state does not allow the acknowledgement."),
    (122, "SHARE_SESSION_NOT_FOUND", True, "The share session is unknown."),
    (123, "INVALID_SHARE_SESSION_EPOCH", True, "The share session epoch is invalid."),
    (124, "FENCED_STATE_EPOCH", False, "The share group's state epoch does not match."),
    (125, "INVALID_VOTER_KEY", False, "The voter key is not the receiving replica's."),
    (126, "DUPLICATE_VOTER", False, "The voter is in the set of voters."),
    (127, "VOTER_NOT_FOUND", False, "The voter is not in the set of voters."),
    (128, "INVALID_REGULAR_EXPRESSION", False, "The regular expression is not valid."),
    (129, "REBOOTSTRAP_REQUIRED", False, "The client's metadata is stale: bootstrap again."),
    (130, "STREAMS_INVALID_TOPOLOGY", False, "The topology is invalid."),
    (131, "STREAMS_INVALID_TOPOLOGY_EPOCH", False, "The topology epoch is invalid."),
    (132, "STREAMS_TOPOLOGY_FENCED", False, "The topology epoch is outdated."),
    (133, "SHARE_SESSION_LIMIT_REACHED", True, "The limit of share sessions has been reached."),
    (134, "GROUP_DELETION_FAILED", False, "The group was not deleted; the message says why."),
    (135, "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", False, "The description of the topology was not updated."),
    (136, "CONTROLLER_ID_NOT_REGISTERED", False, "The controller id is not registered."),
)


FATAL = frozenset(
    {
        *("SASL_AUTHENTICATION_FAILED", "PRODUCER_FENCED", "FENCED_INSTANCE_ID"),
        *("TRANSACTIONAL_ID_AUTHORIZATION_FAILED",),
    }
)
"""Errors after which a client can do nothing more: another client has replaced it, or a right is missing."""

WITH_RECORD_ERRORS = ("INVALID_RECORD", "INVALID_TIMESTAMP")
"""Errors of a batch that may name its invalid records (KIP-467)."""


class KafkaError(Exception):
    """An error of Kafka's table. ``str(error)`` is the message if given, else the row's text."""

    code: int = -1
    name: str = "UNKNOWN_SERVER_ERROR"
    retriable: bool = False
    fatal: bool = False
    text: str = "The server met an unexpected error."
    grant: str = ""
    """The command that grants the missing right, if the client knows it."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or self.text)


def without_frames(error: KafkaError) -> KafkaError:
    """Returns the error without its frames, for code that stores it: the frames would refer back to that code, in a
    cycle.
    """
    error.__traceback__ = error.__cause__ = error.__context__ = None
    return error


class _WithRecordErrors(KafkaError):
    """KIP-467: the rejected records of the batch, as (index in the batch, reason)."""

    def __init__(
        self, message: str | None = None, record_errors: Sequence[tuple[int, str]] = ()
    ) -> None:
        super().__init__(message)
        self.record_errors = list(record_errors)


def class_name(name: str) -> str:
    """Returns the class name: ``OffsetOutOfRange`` for ``OFFSET_OUT_OF_RANGE``."""
    return "".join(word.capitalize() for word in name.split("_"))


def _error_class(code: int, name: str, retriable: bool, text: str) -> type[KafkaError]:
    base = _WithRecordErrors if name in WITH_RECORD_ERRORS else KafkaError
    row = {"code": code, "name": name, "retriable": retriable, "text": text, "__doc__": text}
    row |= {"fatal": name in FATAL, "__module__": __name__}
    return type(class_name(name), (base,), row)


_CLASSES: dict[int, type[KafkaError]] = {row[0]: _error_class(*row) for row in ROWS}
globals().update({error.__name__: error for error in _CLASSES.values()})


def by_code(code: int) -> type[KafkaError] | None:
    """Returns the class of a wire code: None for 0, ``UnknownServerError`` for a code that is not in the table."""
    return None if code == NONE else _CLASSES.get(code, _CLASSES[-1])
